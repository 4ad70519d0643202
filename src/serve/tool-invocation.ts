/**
 * `POST /mcp` with `{tool, arguments}`: one call without the envelope of JSON-RPC, for scripts. It runs svc's own tools and the
 * aggregated ones; svc cannot send requests to the client meanwhile. spec: Internal tool invocation; choice: Inbound.
 */

import type { Answer } from "../call/answer.ts"
import { Cancellation } from "../call/cancellation.ts"
import type { Client, Exchange } from "../call/client.ts"
import type { ClientCall, Gateway } from "../call/ports.ts"
import { type Scope, withoutBudget } from "../catalog/scope.ts"
import { HTTP_STATUS, RequestError, RPC_CODE, statusOfFault } from "../lib/errors.ts"
import { parseExact } from "../lib/json.ts"
import { dispatch } from "../session/dispatch.ts"
import { LEGACY_VERSIONS } from "../wire/era.ts"
import { resultIn, textOf } from "../wire/frame.ts"
import { isObject, type Params, type Request } from "../wire/message.ts"
import { errorResponse, JSON_HEADERS, jsonResponse, retryHeaders } from "./respond.ts"

export type ToolInvocation = { readonly tool: unknown; readonly arguments: unknown }

/** Returns the call in a request body, valid or not; undefined if the body is not such a call. */
export function parseToolInvocation(body: unknown): ToolInvocation | undefined {
  if (!isObject(body) || "jsonrpc" in body || "method" in body) return undefined
  return "tool" in body || "arguments" in body ? { tool: body.tool, arguments: body.arguments ?? {} } : undefined
}

/** Answers `{result}`, or `{error: {code, message}}` with 400, 404, 429, 502 or 503. Never rejects. */
export async function serveToolInvocation(
  { tool, arguments: args }: ToolInvocation,
  caller: InvocationCaller,
  gateway: Gateway,
): Promise<Response> {
  if (typeof tool !== "string") return refuse("tool must be the name of a tool")
  if (!isObject(args)) return refuse("arguments must be an object")
  const outcome = await invokeTool(tool, args, caller, gateway)
  if (outcome.kind === "result") return resultResponse(outcome.result, {})
  const { code, message, status, retryAfter } = outcome
  return jsonResponse({ error: { code, message } }, status, retryHeaders(retryAfter))
}

export type InvocationCaller = {
  readonly scope: Scope
  readonly principal: string
  /** Name and version of the client, if they are known. */
  readonly info?: Client["info"]
  readonly signal: AbortSignal
  readonly address?: string | undefined
  readonly http?: ClientCall["http"]
  /** Asks the person behind the call; undefined if there is none. */
  readonly ask?: ((method: string, params: Params | undefined, signal: AbortSignal) => Promise<unknown>) | undefined
}

/** How a call without the envelope of JSON-RPC ended: with a tool's result as JSON, or an error and its HTTP status. */
export type InvocationOutcome =
  | { readonly kind: "result"; readonly result: Uint8Array }
  | {
      readonly kind: "error"
      readonly code: unknown
      readonly message: unknown
      readonly status: number
      readonly retryAfter: number | undefined
    }

/** Calls a tool by its name in the scope. Never rejects. */
export const invokeTool = (
  tool: string,
  args: Params,
  caller: InvocationCaller,
  gateway: Gateway,
): Promise<InvocationOutcome> => invoke("tools/call", { name: tool, arguments: args }, caller, gateway)

/** Sends one request of a client without a session. Never rejects. */
export async function invoke(
  method: Request["method"],
  params: Params,
  { scope, principal, info = {}, signal, address, http, ask }: InvocationCaller,
  gateway: Gateway,
): Promise<InvocationOutcome> {
  const client = sessionlessClient(scope, principal, info, ask === undefined ? {} : ASKABLE)
  const cancellation = new Cancellation()
  const exchange: Exchange = {
    cancellation,
    notify: () => undefined,
    ask: ask ?? (() => Promise.reject(new RequestError("invalid_request", "svc cannot send requests to this client"))),
  }
  const abort = () => cancellation.cancel("the client closed the connection")
  signal.addEventListener("abort", abort)
  if (signal.aborted) abort()
  const request: Request = { jsonrpc: "2.0", id: 1, method, params }
  const call: ClientCall = { request, client, exchange, gateway, address, http }
  const span = gateway.observers.tracer?.begin(call)
  call.span = span
  const answer = await dispatch(call)
  span?.end(cancellation.reason === undefined ? answer : "cancelled")
  signal.removeEventListener("abort", abort)
  const found = answer.code === undefined ? resultIn(answer.frame) : undefined
  if (found !== undefined) return { kind: "result", result: found }
  const { result, error } = parseExact(textOf(answer.frame)) as Params
  const message = isObject(error) ? error.message : textOfResult(result)
  const code = isObject(error) ? error.code : answer.code
  const status = gateway.directory.stopping ? HTTP_STATUS.unavailable : statusOf(answer, isKnown(call))
  return { kind: "error", code, message, status, retryAfter: answer.retryAfter }
}

/** Returns the response with a result, unparsed because it may be large, and with further members. */
export function resultResponse(result: Uint8Array, members: Params): Response {
  const rest = Object.entries(members).map(([name, value]) => `,${JSON.stringify(name)}:${JSON.stringify(value)}`)
  return new Response(Buffer.concat([Buffer.from('{"result":'), result, Buffer.from(`${rest.join("")}}`)]), {
    headers: JSON_HEADERS,
  })
}

// ---

/** Refuses a body that is not a valid call. */
const refuse = (reason: string): Response =>
  errorResponse(new RequestError("invalid_params", reason), { shape: "tool-invocation" })

/** The capabilities of a client with a person who answers questions. */
const ASKABLE: Params = { elicitation: { form: {}, url: {} } }

/** A client without a session. */
const sessionlessClient = (scope: Scope, principal: string, info: Client["info"], capabilities: Params): Client => ({
  era: "legacy",
  protocolVersion: LEGACY_VERSIONS[0],
  info,
  capabilities,
  principal,
  session: {},
  // Programs accept results of any size.
  scope: withoutBudget(scope),
  logLevel: undefined,
})

/** Whether a call named a tool that its client has. */
function isKnown({ destination }: ClientCall): boolean {
  if (destination?.kind === "server") return destination.route.unlisted !== true
  return destination?.kind !== "refused"
}

/** Returns the status of a failed call. An error result with a code reports a failure of the backend, not of the tool. */
function statusOf({ outcome, code, retryAfter }: Answer, isKnown: boolean): number {
  if (retryAfter !== undefined) return statusOfFault("too_many")
  if (outcome === "tool_error") return HTTP_STATUS.badGateway
  if (!isKnown) return statusOfFault("not_found")
  return code === RPC_CODE.invalidParams || code === RPC_CODE.invalidRequest
    ? statusOfFault("invalid_params")
    : HTTP_STATUS.badGateway
}

/** Returns the text of a tool's result. */
function textOfResult(result: unknown): unknown {
  const [block]: readonly unknown[] = isObject(result) && Array.isArray(result.content) ? result.content : []
  return isObject(block) ? block.text : undefined
}
