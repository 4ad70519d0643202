/**
 * `POST /mcp` with `{tool, arguments}`: one call without the envelope of JSON-RPC, for scripts. svc's own tools and the
 * aggregated ones; nobody can be asked in the middle of it. spec: Internal tool invocation; choice: Inbound.
 */
import { viewOf } from "../catalog/catalog.ts"
import { splitName } from "../catalog/name.ts"
import type { Scope } from "../catalog/scope.ts"
import { codesOf, publicMessage } from "../lib/errors.ts"
import { parseExact } from "../lib/json.ts"
import { Cancellation } from "../session/cancellation.ts"
import type { Client, Exchange, Gateway } from "../session/client.ts"
import { dispatch } from "../session/dispatch.ts"
import { toolboxFor } from "../session/internal-call.ts"
import { LEGACY_VERSIONS } from "../wire/era.ts"
import { textOf } from "../wire/frame.ts"
import { isObject, type Params } from "../wire/message.ts"
import { JSON_HEADERS, retryHeaders } from "./respond.ts"

export type SimpleCall = { readonly tool: string; readonly arguments: unknown }

/** The call that a body is, if it is one. */
export function parseSimpleCall(body: unknown): SimpleCall | undefined {
  if (!isObject(body) || typeof body.tool !== "string" || "jsonrpc" in body) return undefined
  return { tool: body.tool, arguments: body.arguments ?? {} }
}

/** Answers `{result}`, or `{error: {code, message}}` with 400, 404, 429, 502 or 503. */
export async function serveSimpleCall(
  { tool, arguments: args }: SimpleCall,
  { scope, principal, signal }: { scope: Scope; principal: string; signal: AbortSignal },
  gateway: Gateway,
  onbug: (error: unknown) => void,
): Promise<Response> {
  if (!isObject(args)) return answer(400, { error: { code: -32602, message: "arguments must be an object" } })
  if (gateway.initialLoad !== undefined) await gateway.initialLoad
  const client = caller(scope, principal)
  const look = () => {
    const route = viewOf(gateway.catalogOf(client.session), scope).tools.get(tool)
    const known = route !== undefined || toolboxFor(scope, gateway)?.names.includes(tool) === true
    // The tools of a server that is away are in no list.
    const slug = route?.slug ?? splitName(tool)?.slug
    const id = route?.id ?? (known ? undefined : gateway.disconnectedId(scope, slug))
    return { known, slug, id, target: id === undefined ? undefined : gateway.target(id) }
  }
  const before = look()
  if (before.id !== undefined && typeof before.target === "string") await gateway.whenBack(before.id)
  if (gateway.stopping) return answer(503, { error: { code: -32603, message: "svc is shutting down" } })
  const { known, slug, id, target } = look()
  if (typeof target === "string") return answer(502, { error: { code: -32603, message: `${slug ?? id}: ${target}` } })
  const exchange: Exchange = {
    cancellation: new Cancellation(),
    notify: () => undefined,
    ask: () => Promise.reject(new Error("nobody can be asked")),
  }
  const abort = () => exchange.cancellation.cancel("the client closed the connection")
  signal.addEventListener("abort", abort)
  if (signal.aborted) abort()
  try {
    const request = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: tool, arguments: args } } as const
    const { frame, code, retryAfter } = await dispatch(request, { gateway, client, exchange }, onbug)
    const message: unknown = parseExact(textOf(frame))
    if (isObject(message) && "result" in message) return answer(200, { result: message.result })
    const error = isObject(message) && isObject(message.error) ? message.error : {}
    // The tools of servers that are being stopped are not unknown.
    if (gateway.stopping) return answer(503, { error: { code: error.code, message: error.message } })
    const status = retryAfter !== undefined ? 429 : !known ? 404 : code === -32602 || code === -32600 ? 400 : 502
    return answer(status, { error: { code: error.code, message: error.message } }, retryHeaders(retryAfter))
  } catch (error) {
    onbug(error)
    return answer(codesOf(error).http, {
      error: { code: codesOf(error).rpc, message: gateway.hide(publicMessage(error)) },
    })
  } finally {
    signal.removeEventListener("abort", abort)
  }
}

// ---

/** A client that can do nothing but call. */
const caller = (scope: Scope, principal: string): Client => ({
  era: "legacy",
  protocolVersion: LEGACY_VERSIONS[0],
  info: {},
  capabilities: {},
  principal,
  session: {},
  scope,
  logLevel: undefined,
})

const answer = (status: number, body: Params, headers: Readonly<Record<string, string>> = {}): Response =>
  new Response(JSON.stringify(body), { status, headers: { ...JSON_HEADERS, ...headers } })
