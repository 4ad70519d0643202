/** Real clients of both SDKs that call tools and, if a test provides the answers, answer questions. */
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client"
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport as Http1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js"
import type { Instance } from "./harness.ts"

type Result = {
  readonly structuredContent: Record<string, unknown>
  readonly isError?: boolean
  readonly content: { readonly text: string }[]
}
/** Gives the answer to a form. */
export type Person = (message: string) => "accept" | "decline" | "cancel" | Promise<"accept" | "decline" | "cancel">
export type Connected = AsyncDisposable & {
  names(): Promise<string[]>
  /** `onprogress` is called with progress. */
  call(name: string, args?: Record<string, unknown>, onprogress?: (message: string) => void): Promise<Result>
}

const heard = (onprogress: ((message: string) => void) | undefined) =>
  onprogress === undefined
    ? undefined
    : { onprogress: ({ message }: { message?: string | undefined }) => onprogress(message ?? "") }

export const connect1 = async (svc: Instance, person?: Person): Promise<Connected> => {
  const client = new Client1(
    { name: "one", version: "1" },
    { capabilities: person === undefined ? {} : { elicitation: {} } },
  )
  if (person !== undefined)
    client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
      const action = await person(params.message)
      return action === "accept" ? { action, content: { confirm: true } } : { action }
    })
  await client.connect(new Http1(new URL(`${svc.url}/mcp`)) as never)
  // A client checks answers against the schema of a tool that it has listed.
  await client.listTools()
  return {
    names: async () => (await client.listTools()).tools.map(({ name }) => name),
    call: async (name, args = {}, onprogress) =>
      (await client.callTool({ name, arguments: args }, undefined, heard(onprogress))) as never,
    [Symbol.asyncDispose]: () => client.close(),
  }
}

export const connect2 = async (
  svc: Instance,
  person?: Person,
  mode: "legacy" | "auto" = "auto",
): Promise<Connected> => {
  const client = new Client2(
    { name: "two", version: "1" },
    {
      versionNegotiation: { mode },
      capabilities: person === undefined ? {} : { elicitation: { form: {} } },
    },
  )
  if (person !== undefined)
    client.setRequestHandler("elicitation/create", async ({ params }) => {
      const action = await person(params.message)
      return action === "accept" ? { action, content: { confirm: true } } : { action }
    })
  await client.connect(new Http2(new URL(`${svc.url}/mcp`)))
  await client.listTools()
  return {
    names: async () => (await client.listTools()).tools.map(({ name }) => name),
    call: async (name, args = {}, onprogress) =>
      (await client.callTool({ name, arguments: args }, heard(onprogress))) as never,
    [Symbol.asyncDispose]: () => client.close(),
  }
}

export const connect2Legacy = (svc: Instance, person?: Person): Promise<Connected> => connect2(svc, person, "legacy")

/** The clients of both SDKs and eras, by name. */
export const CLIENTS = [
  ["SDK 1.x", connect1],
  ["SDK 2.x, 2025", connect2Legacy],
  ["SDK 2.x, 2026", connect2],
] as const
