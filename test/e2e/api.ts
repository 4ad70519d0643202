/** A client of REST that checks each answer against the OpenAPI document that the binary serves. */
import { expect } from "bun:test"
import * as z from "zod"
import { type Instance, runSvc } from "./harness.ts"

export type Json = Record<string, unknown>
type Answer = { readonly status: number; readonly headers: Headers; readonly body: Json }
export type Api = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>

/** Returns the headers of a program that `svc admin --token` lets in. */
export async function token({ folder }: Instance): Promise<{ headers: Record<string, string> }> {
  const { stdout } = await runSvc(["admin", "--token", "--config-dir", folder])
  return { headers: { authorization: `Bearer ${stdout.trim()}` } }
}

/** Returns the function that sends a request, and checks its answer against the OpenAPI document. */
export async function connect(instance: Instance): Promise<Api> {
  const base = `${instance.url}/api/v1`
  const { headers } = await token(instance)
  const document = (await (await fetch(`${base}/openapi.json`, { headers })).json()) as {
    paths: Record<string, Record<string, Operation>>
    components: { schemas: { Problem: Json } }
  }
  const problem = z.fromJSONSchema(document.components.schemas.Problem)
  return async (method, path, body, more = {}) => {
    const response = await fetch(base + path, {
      method,
      headers: { ...headers, ...(body === undefined ? {} : { "content-type": "application/json" }), ...more },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const [plain = ""] = path.split("?")
    const found = Object.entries(document.paths).filter(([template]) =>
      new RegExp(`^${template.replace(/\{\w+\}/g, "[^/]+")}$`).test(plain),
    )
    const [, operations] = found.find(([template]) => template === plain) ?? found[0] ?? []
    const described = operations?.[method.toLowerCase()]?.responses[String(response.status)]
    const [type, { schema }] = Object.entries(described?.content ?? {})[0] ?? ["nothing", { schema: {} }]
    expect({ path, status: response.status, type: response.headers.get("content-type") }).toEqual({
      path,
      status: response.status,
      type,
    })
    const parsed = JSON.parse(text) as Json
    const checked = ("$ref" in schema ? problem : z.fromJSONSchema(schema as never)).safeParse(parsed)
    expect({ path, problems: checked.error?.issues ?? [] }).toEqual({ path, problems: [] })
    return { status: response.status, headers: response.headers, body: parsed }
  }
}

// ---

type Operation = { responses: Record<string, { content: Record<string, { schema: Json }> }> }
