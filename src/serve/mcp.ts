/**
 * MCP over HTTP on one path: Streamable HTTP, for legacy sessions and modern requests. A request with its version in `_meta` is
 * complete in itself; `initialize` opens a session. basic: Transports.
 */

import { type Answer, errorAnswer } from "../call/answer.ts"
import { Cancellation } from "../call/cancellation.ts"
import { type Client, type Exchange, REPLICA } from "../call/client.ts"
import { methodOf } from "../call/methods.ts"
import { replicaOfOwn, unwrapped } from "../call/own-tools.ts"
import { identityOfClient, type Refusal, requestClient } from "../call/request-client.ts"
import { replicaOfListening, replicaOfTask } from "../call/task-id.ts"
import { type View, viewOf } from "../catalog/catalog.ts"
import type { Scope } from "../catalog/scope.ts"
import { REPLICA_CLIENT_HEADER } from "../config/server-spec.ts"
import { RequestError, RPC_CODE, statusOfFault } from "../lib/errors.ts"
import { accept, acceptModern, type EndpointDeps, initialize, serve } from "../session/endpoint.ts"
import type { Session } from "../session/session.ts"
import { replicaIn } from "../store/replica-id.ts"
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
  asText,
  type Id,
  idOfText,
  isId,
  isObject,
  isRequest,
  isResponse,
  metaOf,
  type Params,
  parseJson,
  type Request as RpcRequest,
  requestIdOf,
} from "../wire/message.ts"
import type { ClientContexts } from "./client-context.ts"
import { elsewhereResponse, type Forward, isForwarded, type PassOn, UnreachedError } from "./elsewhere.ts"
import { type Asker, HttpExchange, type OpenStreams, type SilentRequests } from "./http-exchange.ts"
import { ANONYMOUS, identityOfPrincipal, type Principal } from "./principal.ts"
import { encodingFault, takeBodyText } from "./request-body.ts"
import {
  accepted,
  endsConnection,
  errorResponse,
  JSON_HEADERS,
  noContent,
  retryHeaders,
  UnknownSessionError,
} from "./respond.ts"
import { openSessionStream } from "./session-stream.ts"
import { parseToolInvocation, serveToolInvocation } from "./tool-invocation.ts"
import { META_CONTEXT } from "./trusted-client.ts"

export type McpDeps = EndpointDeps & {
  /** Returns unguessable text for a session's id. */
  newId(): string
  /** The largest body, in bytes. */
  readonly maxBody: number
  /** Reports errors that are bugs of svc. */
  onbug(error: unknown): void
  /** Whether only this machine can reach svc, and svc has no other address. */
  readonly onlyLocal: boolean
  /** Set if HTTP clients may send their project context. */
  readonly contexts?: ClientContexts | undefined
  /** Called when a request has arrived completely: from then on, svc is responsible for its duration. */
  onbody?(request: Request): void
  /** Returns the address of a request's client for the audit log; undefined if there is none. Costs a system call. */
  readonly addressOf?: ((request: Request) => string) | undefined
  /** All open streams. */
  readonly streams: OpenStreams
  /** The requests whose responses become streams after a long silence. */
  readonly silent?: SilentRequests | undefined
  /** Forwards a request to the replica that must answer it; undefined for a single svc. */
  readonly forward?: Forward | undefined
  /** Answers `tasks/list` from the sections of all replicas; undefined for a single svc. */
  readonly listTasks?: ListTasks | undefined
  /** Finds the replica that runs a session's own processes; undefined for a single svc. */
  readonly homes?: SessionHomes | undefined
  /** How this replica stops; undefined for a single svc. */
  readonly leaving?: Leaving | undefined
}

/**
 * Answers `tasks/list`. `ask` has a request for the section of a replica answered, "" for the first section; it returns undefined
 * for a replica that is gone.
 */
type ListTasks = (
  request: RpcRequest,
  ask: (section: string, request: RpcRequest) => Promise<Response | undefined> | undefined,
) => Promise<Response>

/** How a replica that stops treats the requests that it still receives. */
export type Leaving = {
  /** Whether each connection ends with its next response: the next one is to go elsewhere. */
  readonly endsConnections: boolean
  /** Whether it passes new work on to the other replicas. */
  readonly passesOn: boolean
  readonly passOn: PassOn
}

/** Finds the replicas that run the processes of single sessions. */
export type SessionHomes = {
  /**
   * Returns the other replica that runs, or ran, the processes of a session; undefined if this replica does or there are
   * none.
   */
  of(session: Session): string | undefined
  /**
   * Takes over a session of a lost replica. Resolves with the id of another replica that has already done so, or with undefined.
   * Rejects with an UnavailableError if the other replicas cannot be notified.
   */
  adopt(session: Session): Promise<string | undefined>
}

/** Serves one HTTP request on an MCP path, for `principal` and `scope`. Never rejects. */
export const serveMcp = (http: Request, scope: Scope, principal: Principal, deps: McpDeps): Promise<Response> =>
  new Promise((resolve) => {
    const { leaving } = deps
    const respond =
      leaving === undefined
        ? resolve
        : (response: Response) => resolve(leaving.endsConnections ? endsConnection(response) : response)
    const received = { http, scope, principal, deps, respond }
    if (http.method === "POST") servePost(received)
    else serveOther(received).then(respond, (error: unknown) => respond(refuse(error, received)))
  })

// ---

/** One HTTP request, with its client as the middleware determined it, and the function that responds. */
type Received = {
  readonly http: Request
  readonly scope: Scope
  readonly principal: Principal
  readonly deps: McpDeps
  readonly respond: (response: Response) => void
}

/** The response to a POST; undefined if the exchange of the request responds. */
type Served = Response | undefined | Promise<Response | undefined>

/** Serves a POST. Not an async function, and creates a promise only if something is awaited, because it runs for every call. */
function servePost(received: Received): void {
  const { http, deps, respond } = received
  let value: unknown
  const fail = (error: unknown) => respond(refuse(error, received, undefined, requestIdOf(value)))
  const settle = (served: Served) => {
    if (served instanceof Promise) served.then(settle, fail)
    else if (served !== undefined) respond(served)
  }
  const take = (body: string) => {
    try {
      deps.onbody?.(http)
      value = parseJson(body)
    } catch (error) {
      const fault = encodingFault(http)
      if (fault !== undefined) {
        respond(refuse(fault, received, { "accept-encoding": "identity" }))
        return
      }
      // What is not JSON has no id.
      const isJson = error instanceof RequestError && error.fault === "invalid_request"
      respond(refuse(error, received, undefined, isJson ? idOfText(body) : undefined))
      return
    }
    try {
      if (deps.forward === undefined) settle(postHere(value, received))
      else
        preloadSession(received)
          .then(() => post(value, body, received))
          .then(settle, fail)
    } catch (error) {
      fail(error)
    }
  }
  const type = http.headers.get("content-type")
  if (type !== null && JSON_TYPE.test(type)) takeBodyText(http, deps.maxBody, take, fail)
  else fail(new RequestError("unsupported_media_type", "Content-Type must be application/json"))
}

const JSON_TYPE = /^application\/json\s*(;|$)/i

async function serveOther(received: Received): Promise<Response> {
  const { http, deps } = received
  switch (http.method) {
    case "GET": {
      if (deps.forward === undefined) return openStream(received)
      const last = http.headers.get("last-event-id")
      // If the other replica does not answer, the client is told here that the rest is lost.
      const forwarded = await deps.forward(last === null ? undefined : replicaIn(last), http)?.catch(() => undefined)
      if (forwarded !== undefined) return forwarded
      await preloadSession(received)
      return openStream(received)
    }
    case "DELETE":
      if (deps.forward !== undefined) await preloadSession(received)
      await endSession(received)
      return noContent()
    default:
      return refuse(new RequestError("wrong_method", "Method not allowed"), received, { allow: "GET, POST, DELETE" })
  }
}

/** Reads the session of a request from the shared state if another replica opened it. Rejects with an UnavailableError. */
async function preloadSession({ http, deps }: Received): Promise<void> {
  const id = http.headers.get("mcp-session-id")
  if (id !== null) await deps.sessions.preload(id)
}

/** Returns the replica that has the call, task or stored result of a message; undefined if any replica can answer. */
function replicaOf(value: unknown, received: Received): string | undefined {
  const { principal, deps } = received
  if (!isObject(value)) return undefined
  const { id, method, params } = value
  if (method === undefined) return typeof id === "string" ? replicaIn(id) : undefined
  if (!isObject(params)) return undefined
  if (method === "notifications/progress")
    return typeof params.progressToken === "string" ? replicaIn(params.progressToken) : undefined
  if (method === "subscriptions/listen") return replicaOfListening(params)
  const { requestState } = params
  // Another replica has forwarded the message because the call is here.
  const asked = principal.name === REPLICA ? undefined : deps.suspendedCalls.replicaOf(requestState)
  return (
    asked ??
    replicaOfTask(params.taskId) ??
    replicaOfOwn(method, params, deps.gateway) ??
    (method === "tools/call" && params.task !== undefined ? replicaOfNewTask(params, received) : undefined)
  )
}

/**
 * Returns the other replica that runs the server of a tool which a session calls as a task: there, the task belongs to the session
 * and not to this replica.
 */
function replicaOfNewTask(params: Params, received: Received): string | undefined {
  const { http, deps } = received
  if (!http.headers.has("mcp-session-id")) return undefined
  const session = sessionOf(received)
  const { gateway } = deps
  const { directory } = gateway
  const { scope } = session
  const request: RpcRequest = { jsonrpc: "2.0", id: 0, method: "tools/call", params }
  const toolIn = () => asText(unwrapped({ request, client: session, gateway }).request.params?.name)
  const id = scope.kind === "server" ? scope.id : viewOf(directory.catalogOf(session), scope).tools.get(toolIn())?.id
  return id === undefined ? undefined : directory.runnerOf(id)
}

/** Answers a POST in a cluster: here, at the replica that must answer it, or at another one if this one stops. */
function post(value: unknown, body: string, received: Received): Served {
  const { http, deps } = received
  // `postBatch` forwards each response in a batch by itself. A batch with requests may need the session's own processes.
  if (Array.isArray(value) && !value.some((one) => isObject(one) && "id" in one && "method" in one))
    return postHere(value, received)
  // Direct calls of tools come here too, so only a message with this method is parsed.
  if (deps.listTasks !== undefined && !isForwarded(http) && isObject(value) && value.method === "tasks/list") {
    const message = asMessage(value)
    if (isRequest(message)) return postTaskList(message, received, deps.listTasks)
  }
  const to = replicaOf(value, received)
  if (to === undefined && deps.leaving?.passesOn && received.principal.name !== REPLICA && isWork(value)) {
    // The other replica took this one for the home of the session. If declined, it adopts the session.
    if (isForwarded(http)) return elsewhereResponse()
    const passing = deps.leaving.passOn(http, body, requestIdOf(value))
    if (passing !== undefined) return passing.then((passed) => passed ?? postOrForward(value, body, received, to))
  }
  return postOrForward(value, body, received, to)
}

/** Whether a posted value is work that any replica could do. svc ends streams of changes when it stops, so they do not count. */
const isWork = (value: unknown): boolean =>
  Array.isArray(value) ||
  parseToolInvocation(value) !== undefined ||
  (requestIdOf(value) !== undefined && isObject(value) && value.method !== "subscriptions/listen")

/** Answers a posted value here, or forwards it to the replica that it belongs to. */
function postOrForward(value: unknown, body: string, received: Received, to: string | undefined): Served {
  const { http, deps } = received
  if (to === undefined && deps.homes !== undefined && http.headers.has("mcp-session-id"))
    return postAtHome(value, body, received, deps.homes)
  const forwarding = deps.forward?.(to, http, body, requestIdOf(value))
  return forwarding === undefined
    ? postHere(value, received)
    : forwarding.then(
        (forwarded) => forwarded ?? postHere(value, received),
        (error: unknown) => reportUndelivered(error, value, received, to),
      )
}

/** Reports a client's answer that could not be forwarded to the replica whose call waits for it. Throws `error`. */
function reportUndelivered(error: unknown, value: unknown, received: Received, to: string | undefined): never {
  const answer = isObject(value) && value.method === undefined && isId(value.id) ? value.id : undefined
  if (error instanceof UnreachedError && answer !== undefined && to !== undefined)
    received.deps.gateway.replicas?.reportUndelivered(sessionOf(received), answer, to)
  throw error
}

/**
 * Forwards a message of a session to the replica that runs the session's processes. Takes the session over if that replica is
 * gone, and answers here if there is no such replica.
 */
function postAtHome(value: unknown, body: string, received: Received, homes: SessionHomes): Served {
  const { http, deps } = received
  const session = sessionOf(received)
  const home = homes.of(session)
  if (home === undefined) return postHere(value, received)
  // A home that cannot be reached counts as gone.
  const sendTo = async (replica: string | undefined) =>
    deps.forward?.(replica, http, body, requestIdOf(value))?.catch((error: unknown) => {
      if (!(error instanceof UnreachedError)) throw error
      return undefined
    })
  const atNewHome = async () => (isForwarded(http) ? undefined : sendTo(await homes.adopt(session)))
  return sendTo(home)
    .then((forwarded) => forwarded ?? atNewHome())
    .then((forwarded) => forwarded ?? postHere(value, received))
}

/** Answers `tasks/list` with the tasks of all replicas. */
function postTaskList(request: RpcRequest, received: Received, listTasks: ListTasks): Promise<Response> {
  const { http, deps } = received
  const here = (asked: RpcRequest) =>
    new Promise<Response>((respond, fail) => {
      const served = postHere(asked, { ...received, respond })
      void Promise.resolve(served).then((response) => response !== undefined && respond(response), fail)
    })
  // One at a time: two running requests of a session may not have the same id.
  let before: Promise<unknown> = Promise.resolve()
  const hereInTurn = (asked: RpcRequest) => {
    const response = before.then(() => here(asked))
    before = response.catch(() => undefined)
    return response
  }
  const ask = (section: string, asked: RpcRequest) =>
    section === "" || section === deps.gateway.replicas?.replica
      ? hereInTurn(asked)
      : // A replica that ends meanwhile takes its tasks with it.
        deps.forward?.(section, http, JSON.stringify(asked))?.catch(() => undefined)
  return listTasks(request, ask)
}

/** Answers a POST here. Creates a promise only if something is awaited. */
function postHere(value: unknown, received: Received): Served {
  const { http, scope, principal, deps, respond } = received
  if (Array.isArray(value)) return postBatch(value, received)
  const invocation = parseToolInvocation(value)
  if (invocation !== undefined)
    return serveToolInvocation(
      invocation,
      { scope, principal: principal.name, signal: http.signal, address: deps.addressOf?.(http), http },
      deps.gateway,
    )
  const message = asMessage(value)
  const header = http.headers.get("mcp-protocol-version")
  if (!isRequest(message)) {
    if (isResponse(message) || header === null || !isModernHeader(header))
      return accept(message, sessionOf(received), deps.gateway)?.then(accepted) ?? accepted()
    acceptModern(message, scope, deps.gateway)
    return accepted()
  }
  const version = modernVersionOf(message.params)
  if (version !== undefined || (header !== null && isModernHeader(header)))
    return postModern(message, version, received)
  if (message.method === "initialize") return postInitialize(message, received)
  if (header !== null && !isLegacyVersion(header))
    return refuse(unsupportedVersion(header), received, undefined, message.id)
  const session = sessionFor(received)
  const exchange = new HttpExchange(respond, session, deps.streams, session, message.id, http)
  if (deps.silent !== undefined) exchange.openWhenSilent(deps.silent, http.headers)
  const address = deps.addressOf?.(http)
  const call = { request: message, client: session, exchange, gateway: deps.gateway, address, http }
  serve(call, deps, session.running, (answer) => finish(exchange, answer, limitStatusOf))
  return undefined
}

async function postInitialize(request: RpcRequest, received: Received): Promise<Response> {
  const { http, scope, principal, deps } = received
  const { contexts } = deps
  const params = request.params ?? {}
  let opened: Scope | undefined
  const identify = async () => {
    const own = contexts?.session(scope, params, params.clientInfo)
    opened = own?.scope
    await own?.ready
    return opened ?? scope
  }
  const cancellation = new Cancellation()
  http.signal.addEventListener("abort", () => cancellation.cancel("client disconnected"), { once: true })
  const opening = { request, id: deps.newId(), principal: principal.name, cancellation, identify, http }
  try {
    const { session, answer } = await initialize(opening, deps)
    return new Response(textOf(answer.frame), { headers: { ...JSON_HEADERS, "mcp-session-id": session.id } })
  } catch (error) {
    if (opened !== undefined) contexts?.detach(opened)
    return refuse(error, received, undefined, request.id)
  }
}

/** Answers a batch with one array: 2025-03-26 allowed several messages in one body. */
async function postBatch(values: readonly unknown[], received: Received): Promise<Response | undefined> {
  const { http, deps, respond } = received
  const { gateway } = deps
  if (values.length === 0 || values.length > MAX_BATCH)
    throw new RequestError("invalid_request", `A batch must have 1 to ${MAX_BATCH} messages`)
  const session = sessionOf(received)
  const messages = values.map(asMessage)
  const address = deps.addressOf?.(http)
  const whole = new HttpExchange(respond, session, deps.streams, session, undefined, http)
  if (deps.silent !== undefined && messages.some(isRequest)) whole.openWhenSilent(deps.silent, http.headers)
  const answers: Promise<Answer | undefined>[] = []
  const deliveries: Promise<unknown>[] = []
  for (const message of messages)
    if (isRequest(message)) {
      const call = { request: message, client: session, exchange: partOf(whole), gateway, address, http }
      answers.push(new Promise((resolve) => serve(call, deps, session.running, resolve)))
    } else {
      const here = () => void accept(message, session, gateway)?.catch(() => undefined)
      const to = replicaOf(message, received)
      const forwarding = deps.forward?.(to, http, JSON.stringify(message))
      if (forwarding === undefined) here()
      else
        deliveries.push(
          forwarding.then(
            (forwarded) => forwarded ?? here(),
            (error: unknown) => reportUndelivered(error, message, received, to),
          ),
        )
    }
  if (answers.length === 0) return Promise.all(deliveries).then(accepted)
  for (const one of deliveries) one.catch(() => undefined)
  void Promise.all(answers).then((all) => {
    const texts = all.flatMap((answer) => (answer === undefined ? [] : [textOf(answer.frame)]))
    if (texts.length === 0) whole.finishUnanswered()
    else whole.finish(`[${texts.join(",")}]`)
  })
  return undefined
}

/**
 * Returns the exchange of one request of a batch: the requests share the response, and are cancelled individually or
 * together.
 */
function partOf(whole: HttpExchange): Exchange {
  const cancellation = new Cancellation()
  whole.cancellation.onabort((reason) => cancellation.cancel(reason))
  return {
    cancellation,
    notify: (text) => whole.notify(text),
    ask: (...question) => whole.ask(...question),
    isConnected: () => whole.isConnected(),
    giveUpIfStale: (...when) => whole.giveUpIfStale(...when),
  }
}

/** Answers one modern request, which is complete in itself. basic: Streamable HTTP, Request Metadata. */
async function postModern(
  request: RpcRequest,
  version: string | undefined,
  received: Received,
): Promise<Response | undefined> {
  const { http, scope, principal, deps, respond } = received
  const { id, method } = request
  const params = request.params ?? {}
  const header = http.headers.get("mcp-protocol-version")
  if (version !== undefined && header !== null && header !== version)
    return refuseModern(id, mismatch("MCP-Protocol-Version does not match the body's _meta"), received)
  const found = requestClient(version ?? header ?? "", params, scope, principal.name, {})
  if ("refusal" in found) return refuseModern(id, found.refusal, received)
  if (version === undefined)
    return refuseModern(id, { code: RPC_CODE.invalidParams, message: `_meta must have ${META_VERSION}` }, received)
  const wrong = headerMismatch(http.headers, method, params, header)
  if (wrong !== undefined) return refuseModern(id, mismatch(wrong), received)
  const own = deps.contexts?.request(scope, params, found.client.info)
  if (own !== undefined) await own.ready
  const other = principal.name === REPLICA ? clientOfReplica(http.headers) : undefined
  const ownIdentity = isRecognizable(received, found.client)
    ? () => identityOfClient(client, identityOfPrincipal(principal), metaOf(params)?.[META_CONTEXT])
    : undefined
  const client: Client = {
    ...found.client,
    behalf: other?.behalf,
    scope: own?.scope ?? scope,
    identity: other === undefined ? ownIdentity : other.identity,
  }
  const exchange = new HttpExchange(respond, CANNOT_BE_ASKED, deps.streams)
  if (deps.silent !== undefined) exchange.openWhenSilent(deps.silent, http.headers)
  http.signal.addEventListener("abort", () => exchange.abort())
  if (http.signal.aborted) exchange.abort()
  const verify = method === "tools/call" ? (view: View) => paramRefusal(request, view, http.headers) : undefined
  const call = { request, client, exchange, gateway: deps.gateway, verify, address: deps.addressOf?.(http), http }
  serve(call, deps, undefined, (answer) => finish(exchange, answer, modernStatusOf))
  return undefined
}

/** Returns the client for which another replica relays a request. Only that replica can tell it from its other clients. */
function clientOfReplica(headers: Headers): Pick<Client, "behalf" | "identity"> {
  const [replica = "", digest = "", identity] = headers.get(REPLICA_CLIENT_HEADER)?.split(" ") ?? []
  return { behalf: `${replica} ${digest}`, identity: identity === undefined ? undefined : () => identity }
}

/**
 * Whether the contents of modern requests show which come from the same client. Without authentication, only if the client is a
 * program on this machine: a proxy in front of svc may forward requests of any number of people.
 */
function isRecognizable({ http: { headers }, principal, deps }: Received, { info }: Client): boolean {
  if (typeof info.name !== "string" || info.name === "") return false
  return principal !== ANONYMOUS || (deps.onlyLocal && ![...headers.keys()].some((name) => PROXY_HEADER.test(name)))
}

/** Headers that proxies, load balancers and content delivery networks add. No program sends one to its own machine. */
const PROXY_HEADER =
  /^(?:forwarded|via|x-(?:forwarded|original|envoy|amzn|azure|arr|vercel|nginx|proxy|traefik|cloud-trace)(?:-.*)?|(?:x-)?(?:real|client|cluster-client|appengine-user|true-client|fastly-client|fly-client|cf-connecting|do-connecting|nf-client-connection)-ip|x-host|cf-.*|cdn-.*|fly-.*|fastly-.*|true-client-.*)$/

/** Modern clients receive server requests in results, never within a stream. */
const CANNOT_BE_ASKED: Asker = {
  ask: () =>
    Promise.reject(
      new RequestError("invalid_request", "svc cannot send this client requests while its own request runs"),
    ),
}

/** Ends the exchange of a request with its answer. */
function finish(
  exchange: HttpExchange,
  answer: Answer | undefined,
  statusOf: (answer: Answer) => number | undefined,
): void {
  if (answer === undefined) exchange.finishUnanswered()
  else exchange.finish(answer.frame, initOf(answer, statusOf(answer)))
}

function initOf({ retryAfter }: Answer, status: number | undefined): ResponseInit | undefined {
  return status === undefined ? undefined : { status, headers: { ...JSON_HEADERS, ...retryHeaders(retryAfter) } }
}

/**
 * Returns the status of a call that the rate limit of sessions refused, for proxies between client and svc; undefined for 200.
 * A server's own limit refuses with a result, so that the model reads how long to wait.
 */
const limitStatusOf = ({ outcome, retryAfter }: Answer): number | undefined =>
  retryAfter === undefined || outcome === "rate_limited" ? undefined : statusOfFault("too_many")

/** Returns the status of a modern answer: 404 for an unknown method, 400 for other errors of the envelope. */
function modernStatusOf(answer: Answer): number | undefined {
  switch (answer.code) {
    case RPC_CODE.methodNotFound:
      return statusOfFault("unknown_method")
    case HEADER_MISMATCH:
    case MISSING_CLIENT_CAPABILITY:
      return statusOfFault("invalid_request")
    default:
      return limitStatusOf(answer)
  }
}

const mismatch = (what: string): Refusal => ({ code: HEADER_MISMATCH, message: `Header mismatch: ${what}` })

/** Compares the headers that repeat a tool's arguments. basic: Custom Headers from Tool Parameters. */
function paramRefusal({ id, params = {} }: RpcRequest, { tools }: View, headers: Headers): Answer | undefined {
  const route = typeof params.name === "string" ? tools.get(params.name) : undefined
  const wrong = route === undefined ? undefined : paramMismatch(params.arguments, route.mirrored, headers)
  return wrong === undefined ? undefined : errorAnswer(id, HEADER_MISMATCH, mismatch(wrong).message)
}

/** Returns the problem with the standard headers; undefined if they match the body. */
function headerMismatch(headers: Headers, method: string, params: Params, version: string | null): string | undefined {
  if (version === null) return "MCP-Protocol-Version is missing"
  const named = headers.get("mcp-method")
  if (named === null) return "Mcp-Method is missing"
  if (named !== method) return `Mcp-Method '${named.slice(0, 80)}' does not match body value '${method.slice(0, 80)}'`
  const source = methodOf(method).names
  if (source === undefined) return undefined
  const raw = headers.get("mcp-name")
  // What the body does not name is no matter of the header: the request is invalid.
  if (raw === null) return method.startsWith("tasks/") || !(source in params) ? undefined : "Mcp-Name is missing"
  return decodeHeader(raw) === params[source]
    ? undefined
    : `Mcp-Name '${raw.slice(0, 80)}' does not match the body's ${source}`
}

/** Whether a version is a date not before the first modern revision; older unknown versions are served as legacy. */
const isModernHeader = (header: string): boolean => header >= MODERN_VERSIONS[0] && /^\d{4}-\d{2}-\d{2}$/.test(header)

const isLegacyVersion = (version: string): boolean => (LEGACY_VERSIONS as readonly string[]).includes(version)

/** Ends the session as its client asks. */
const endSession = (received: Received): Promise<void> =>
  received.deps.sessions.end(sessionOf(received), received.deps.gateway, "was ended by the client")

/** Opens the stream of a session. */
function openStream(received: Received): Response {
  const { http, deps } = received
  if (!(http.headers.get("accept") ?? "").includes("text/event-stream"))
    throw new RequestError("not_acceptable", "Accept must include text/event-stream")
  if (http.headers.get("mcp-session-id") === null)
    return refuse(new RequestError("wrong_method", "A stream needs a session: Mcp-Session-Id is missing"), received, {
      allow: "POST",
    })
  return openSessionStream(sessionOf(received), http.headers.get("last-event-id"), deps.streams)
}

/** Returns the session of a request. Throws a RequestError without a session id, or for a session of another principal. */
function sessionOf(received: Received): Session {
  const version = received.http.headers.get("mcp-protocol-version")
  if (version !== null && !isLegacyVersion(version)) throw unsupportedVersion(version)
  return sessionFor(received)
}

/** Returns the session of a request with a known version. Throws as `sessionOf` does. */
function sessionFor({ http, scope, principal, deps }: Received): Session {
  const id = http.headers.get("mcp-session-id")
  if (id === null)
    throw new RequestError("invalid_request", "The Mcp-Session-Id header is missing: send initialize first")
  const session = deps.sessions.get(id, principal.name, scope, deps.gateway)
  if (session === undefined) throw new UnknownSessionError("Session not found: send initialize again")
  return session
}

const unsupportedVersion = (version: string): RequestError =>
  new RequestError("invalid_request", `Unsupported protocol version: ${version.slice(0, 40)} (supported: ${SUPPORTED})`)

/** Named in the refusal, as the official servers do: it may be all that a client learns. */
const SUPPORTED = [...MODERN_VERSIONS, ...LEGACY_VERSIONS].join(", ")

/** Renders an error as a JSON-RPC error, with the id of the request if it is known. */
function refuse(error: unknown, { deps }: Received, headers?: Readonly<Record<string, string>>, id?: Id): Response {
  return errorResponse(error, { shape: "jsonrpc", id, headers, hide: deps.gateway.hide, onbug: deps.onbug })
}

/** Refuses a modern request with a code of the protocol. */
const refuseModern = (id: Id, { code, message, data }: Refusal, { deps }: Received): Response =>
  errorResponse(new RequestError("invalid_request", message, data), {
    shape: "jsonrpc",
    id,
    code,
    hide: deps.gateway.hide,
  })

const MAX_BATCH = 100
