/**
 * MCP over HTTP on one path: Streamable HTTP with legacy sessions and modern requests side by side. A request that
 * carries its version in `_meta` is served alone; `initialize` opens a session. basic: Transports.
 */

import { viewOf } from "../catalog/catalog.ts"
import type { Scope } from "../catalog/scope.ts"
import { codesOf, publicMessage, RequestError } from "../lib/errors.ts"
import type { Answer } from "../session/answer.ts"
import { Cancellation } from "../session/cancellation.ts"
import type { Exchange } from "../session/client.ts"
import { dispatch, enforceSessionRate } from "../session/dispatch.ts"
import type { Gateway } from "../session/ports.ts"
import { type Refusal, requestClient } from "../session/request-client.ts"
import { initializeResult } from "../session/server-capabilities.ts"
import { Session } from "../session/session.ts"
import type { Sessions } from "../session/sessions.ts"
import { openSubscription } from "../session/subscriptions-listen.ts"
import type { SuspendedCalls } from "../session/suspended-calls.ts"
import { refuseListen } from "../session/task-watch.ts"
import {
  HEADER_MISMATCH,
  LEGACY_VERSIONS,
  META_VERSION,
  MISSING_CLIENT_CAPABILITY,
  MODERN_VERSIONS,
  modernVersionOf,
} from "../wire/era.ts"
import { textOf } from "../wire/frame.ts"
import { decodeHeader, paramMismatch } from "../wire/headers.ts"
import {
  asMessage,
  errorText,
  type Id,
  isObject,
  isRequest,
  isResponse,
  type Params,
  type Request as RpcRequest,
  resultText,
} from "../wire/message.ts"
import type { ClientContexts } from "./client-context.ts"
import { type AskClient, HttpExchange, type OpenStreams } from "./http-exchange.ts"
import { readJson } from "./request-body.ts"
import { JSON_HEADERS, retryHeaders } from "./respond.ts"
import { openSessionStream } from "./session-stream.ts"
import { parseSimpleCall, serveSimpleCall } from "./simple-call.ts"

export type McpDeps = {
  readonly gateway: Gateway
  readonly sessions: Sessions
  /** Unguessable text for a session's id. */
  newId(): string
  /** Bytes of a body at most. */
  readonly maxBody: number
  /** An error that is ours. */
  onbug(error: unknown): void
  /** Calls of modern clients. */
  readonly suspendedCalls: SuspendedCalls
  /** Set where HTTP clients may say where they are. */
  readonly contexts?: ClientContexts | undefined
  /** The request has come whole: from now on it is svc that may take its time. */
  onbody?(request: Request): void
  /** All open streams. */
  readonly streams: OpenStreams
}

/** One HTTP request on an MCP path, for `principal` and `scope`. Never rejects. */
export async function serveMcp(request: Request, scope: Scope, principal: string, deps: McpDeps): Promise<Response> {
  try {
    switch (request.method) {
      case "POST": {
        const type = request.headers.get("content-type")
        if (type === null || !/^application\/json\s*(;|$)/i.test(type))
          return errorResponse(415, undefined, -32600, "Content-Type must be application/json")
        const value = await readJson(request, deps.maxBody)
        deps.onbody?.(request)
        return await post(request, value, scope, principal, deps)
      }
      case "GET":
        return listenTo(request, scope, principal, deps)
      case "DELETE": {
        const session = sessionOf(request, scope, principal, deps)
        deps.sessions.remove(session.id, "was ended by the client")
        return new Response(null, { status: 204 })
      }
      default:
        return errorResponse(405, undefined, -32600, "Method not allowed", { allow: "GET, POST, DELETE" })
    }
  } catch (error) {
    const { http, rpc } = codesOf(error)
    if (http === 500) deps.onbug(error)
    const data = error instanceof RequestError ? error.data : undefined
    const wait = isObject(data) && typeof data.retryAfter === "number" ? { "retry-after": String(data.retryAfter) } : {}
    return errorResponse(http, undefined, rpc, deps.gateway.hide(publicMessage(error)), wait, data)
  }
}

// ---

/** What was posted, answered. Promises are made only where something is waited for: this runs for every call. */
function post(
  request: Request,
  value: unknown,
  scope: Scope,
  principal: string,
  deps: McpDeps,
): Response | Promise<Response> {
  if (Array.isArray(value)) return batch(request, value, scope, principal, deps)
  const plain = parseSimpleCall(value)
  if (plain !== undefined) return serveSimpleCall(plain, { scope, principal, signal: request.signal }, deps.gateway)
  const message = asMessage(value)
  if (!isRequest(message)) {
    // 2026-07-28 gives clients nothing to say over HTTP that svc must act on.
    if (!isResponse(message) && isModernHeader(request.headers.get("mcp-protocol-version") ?? ""))
      return new Response(null, { status: 202 })
    const session = sessionOf(request, scope, principal, deps)
    if (isResponse(message)) session.answered(message)
    else session.notified(message.method, message.params ?? {}, deps.gateway)
    return new Response(null, { status: 202 })
  }
  const modern = modernVersionOf(message.params)
  const header = request.headers.get("mcp-protocol-version")
  if (modern !== undefined || (header !== null && isModernHeader(header)))
    return serveModern(request, message, modern, header, scope, principal, deps)
  if (message.method === "initialize") return initialize(message, scope, principal, deps)
  if (header !== null && !(LEGACY_VERSIONS as readonly string[]).includes(header))
    return errorResponse(400, message.id, -32600, `Unsupported protocol version: ${header.slice(0, 40)}`)
  const session = sessionOf(request, scope, principal, deps)
  const asker: AskClient = (...question) => session.ask(...question)
  const exchange = new HttpExchange(asker, deps.streams, session, message.id, () => request.signal)
  void runLegacy(message, session, exchange, deps, (answer) => {
    if (answer === undefined) exchange.finishUnanswered()
    else finish(exchange, answer)
  })
  return exchange.response
}

/** Answers a session's request, and gives what `to` makes of the answer; of undefined if the client cancelled it. */
function runLegacy<T>(
  message: RpcRequest,
  session: Session,
  exchange: Exchange,
  deps: McpDeps,
  to: (answer: Answer | undefined) => T,
): Promise<T> {
  const end = session.run(message.id, exchange)
  return dispatch({ request: message, gateway: deps.gateway, client: session, exchange }).then((answer) =>
    to(end() ? answer : undefined),
  )
}

async function initialize(message: RpcRequest, scope: Scope, principal: string, deps: McpDeps): Promise<Response> {
  const params = message.params ?? {}
  // Who may not call any more must not go on in another session.
  enforceSessionRate(deps.gateway, `principal ${principal}`)
  if (deps.gateway.directory.initialLoad !== undefined) await deps.gateway.directory.initialLoad
  const own = deps.contexts?.session(scope, params, params.clientInfo)
  await own?.ready
  const session = new Session(deps.newId(), principal, own?.scope ?? scope, params)
  try {
    const result = initializeResult({ gateway: deps.gateway, client: session })
    deps.sessions.add(session, deps.gateway)
    return new Response(resultText(message.id, JSON.stringify(result)), {
      headers: { ...JSON_HEADERS, "mcp-session-id": session.id },
    })
  } catch (error) {
    deps.contexts?.detach(session.scope)
    const { http, rpc } = codesOf(error)
    if (http === 500) deps.onbug(error)
    return errorResponse(
      http === 404 ? 503 : http,
      message.id,
      http === 404 ? -32603 : rpc,
      deps.gateway.hide(publicMessage(error)),
    )
  }
}

/** 2025-03-26 allowed several messages in one body; the answers go back as one array. */
async function batch(
  request: Request,
  values: readonly unknown[],
  scope: Scope,
  principal: string,
  deps: McpDeps,
): Promise<Response> {
  if (values.length === 0 || values.length > MAX_BATCH)
    throw new RequestError("invalid_request", `A batch must hold 1 to ${MAX_BATCH} messages`)
  const session = sessionOf(request, scope, principal, deps)
  const messages = values.map(asMessage)
  const asker: AskClient = (...question) => session.ask(...question)
  const whole = new HttpExchange(asker, deps.streams, session, undefined, () => request.signal)
  const parts: Exchange[] = []
  whole.cancellation.onabort((reason) => {
    for (const part of parts) part.cancellation.cancel(reason)
  })
  const answers: Promise<readonly string[]>[] = []
  for (const message of messages) {
    if (isResponse(message)) session.answered(message)
    else if (!isRequest(message)) session.notified(message.method, message.params ?? {}, deps.gateway)
    else {
      // They have one way back and are cancelled one by one.
      const part: Exchange = {
        cancellation: new Cancellation(),
        notify: (said) => whole.notify(said),
        ask: (...question) => whole.ask(...question),
        isConnected: () => whole.isConnected(),
        giveUpIfStale: (...when) => whole.giveUpIfStale(...when),
      }
      parts.push(part)
      answers.push(
        runLegacy(message, session, part, deps, (answer) => (answer === undefined ? [] : [textOf(answer.frame)])),
      )
    }
  }
  if (answers.length === 0) return new Response(null, { status: 202 })
  void Promise.all(answers).then((frames) => {
    const texts = frames.flat()
    if (texts.length === 0) whole.finishUnanswered()
    else whole.finish(`[${texts.join(",")}]`)
  })
  return whole.response
}

/** One modern request: complete in itself. basic: Streamable HTTP, Request Metadata. */
async function serveModern(
  request: Request,
  message: RpcRequest,
  version: string | undefined,
  header: string | null,
  scope: Scope,
  principal: string,
  deps: McpDeps,
): Promise<Response> {
  const { id, method } = message
  const params = message.params ?? {}
  if (version !== undefined && header !== null && header !== version)
    return errorResponse(
      400,
      id,
      HEADER_MISMATCH,
      "Header mismatch: MCP-Protocol-Version does not match the body's _meta",
    )
  const found = requestClient(version ?? header ?? "", params, scope, principal, {})
  if ("refusal" in found) return refuse(id, found.refusal)
  if (version === undefined) return errorResponse(400, id, -32602, `_meta must have ${META_VERSION}`)
  const mismatch = headerMismatch(request.headers, method, params, header)
  if (mismatch !== undefined) return errorResponse(400, id, HEADER_MISMATCH, `Header mismatch: ${mismatch}`)
  const own = deps.contexts?.request(scope, params, found.client.info)
  if (own !== undefined) await own.ready
  const client = own === undefined ? found.client : { ...found.client, scope: own.scope }
  // What is not there yet cannot be listened to.
  if (
    deps.gateway.directory.initialLoad !== undefined &&
    (method === "tools/call" || method === "subscriptions/listen")
  )
    await deps.gateway.directory.initialLoad
  if (method === "tools/call" && typeof params.name === "string") {
    const route = viewOf(deps.gateway.directory.catalogOf(client.session), client.scope).tools.get(params.name)
    const wrong = route === undefined ? undefined : paramMismatch(params.arguments, route.mirrored, request.headers)
    if (wrong !== undefined) return errorResponse(400, id, HEADER_MISMATCH, `Header mismatch: ${wrong}`)
  }
  const refusal = method === "subscriptions/listen" ? refuseListen(message, client) : undefined
  if (refusal !== undefined) return refuse(id, refusal)
  const exchange = new HttpExchange(cannotAsk, deps.streams)
  request.signal.addEventListener("abort", () => exchange.abort())
  if (method === "subscriptions/listen")
    exchange.onshutdown = openSubscription({ request: message, client, gateway: deps.gateway, exchange })
  else
    void deps.suspendedCalls
      .serve({ request: message, client, gateway: deps.gateway, exchange })
      .then((answer) => finish(exchange, answer, statusOf(answer)))
  // It may have gone while svc waited.
  if (request.signal.aborted) exchange.abort()
  return exchange.response
}

/** modern clients are asked by results, never in the middle of a stream. */
const cannotAsk = () => Promise.reject(new RequestError("invalid_request", "This client cannot be asked in mid-call"))

const refuse = (id: Id, { code, message, data }: Refusal): Response =>
  errorResponse(400, id, code, message, undefined, data)

/** Answers; a call that was one too many is told so to whatever stands in between, too. */
function finish(exchange: HttpExchange, { frame, retryAfter }: Answer, status = 200): void {
  if (retryAfter !== undefined)
    exchange.finish(frame, { status: 429, headers: { ...JSON_HEADERS, ...retryHeaders(retryAfter) } })
  else if (status === 200) exchange.finish(frame)
  else exchange.finish(frame, { status, headers: JSON_HEADERS })
}

/** modern: an unknown method is HTTP 404, other errors of the envelope 400. */
function statusOf({ code }: Answer): number {
  switch (code) {
    case -32601:
      return 404
    case MISSING_CLIENT_CAPABILITY:
      return 400
    default:
      return 200
  }
}

/** What is wrong with the standard headers, or undefined. Where they differ from the body, the body is not believed. */
function headerMismatch(headers: Headers, method: string, params: Params, version: string | null): string | undefined {
  if (version === null) return "MCP-Protocol-Version is missing"
  const named = headers.get("mcp-method")
  if (named === null) return "Mcp-Method is missing"
  if (named !== method) return `Mcp-Method '${named.slice(0, 80)}' does not match body value '${method.slice(0, 80)}'`
  const source = NAME_SOURCES[method]
  if (source === undefined) return undefined
  const raw = headers.get("mcp-name")
  if (raw === null) return method.startsWith("tasks/") ? undefined : "Mcp-Name is missing"
  return decodeHeader(raw) === params[source]
    ? undefined
    : `Mcp-Name '${raw.slice(0, 80)}' does not match the body's ${source}`
}

const NAME_SOURCES: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri",
  "tasks/get": "taskId",
  "tasks/update": "taskId",
  "tasks/cancel": "taskId",
}

/** A date at or after the first modern revision: older unknown versions are answered as legacy ones are. */
const isModernHeader = (header: string): boolean => header >= MODERN_VERSIONS[0] && /^\d{4}-\d{2}-\d{2}$/.test(header)

/** `GET`: a stream of its session. */
function listenTo(request: Request, scope: Scope, principal: string, deps: McpDeps): Response {
  if (!(request.headers.get("accept") ?? "").includes("text/event-stream"))
    return errorResponse(406, undefined, -32600, "Accept must include text/event-stream")
  if (request.headers.get("mcp-session-id") === null)
    return errorResponse(405, undefined, -32600, "A stream needs a session: Mcp-Session-Id is missing", {
      allow: "POST",
    })
  const session = sessionOf(request, scope, principal, deps)
  return openSessionStream(session, request.headers.get("last-event-id"), deps.streams)
}

/** Throws a RequestError: 400 without a session id, 404 for one that is not this principal's. */
function sessionOf(request: Request, scope: Scope, principal: string, deps: McpDeps): Session {
  const id = request.headers.get("mcp-session-id")
  if (id === null) throw new RequestError("invalid_request", "Mcp-Session-Id is missing: send initialize first")
  const version = request.headers.get("mcp-protocol-version")
  if (version !== null && !(LEGACY_VERSIONS as readonly string[]).includes(version))
    throw new RequestError("invalid_request", `Unsupported protocol version: ${version.slice(0, 40)}`)
  const session = deps.sessions.get(id, principal, scope, deps.gateway)
  if (session === undefined) throw new RequestError("not_found", "Session not found: send initialize again")
  return session
}

const MAX_BATCH = 100
function errorResponse(
  status: number,
  id: Id | undefined,
  code: number,
  message: string,
  headers?: Record<string, string>,
  data?: unknown,
): Response {
  return new Response(errorText(id, code, message, data), { status, headers: { ...JSON_HEADERS, ...headers } })
}
