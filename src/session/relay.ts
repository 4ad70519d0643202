/**
 * Relays a client's request to its backend, and the answer back.
 *
 *  1. A success result that needs no change is returned as the bytes in which it arrived (frame.ts). A large one is sent while
 *     it arrives, if the client can receive it in parts (streamed-answer.ts).
 *  2. Members that svc does not know are kept in both directions.
 *  3. Members that one era lacks are added or removed here and in era-params.ts, and nowhere else.
 */
import type { Ownership } from "../agent/task-owners.ts"
import type { Caller, Reach } from "../backend/attribution.ts"
import { reasonWithoutName, TimedOutError, UndeliveredError } from "../backend/client-transport.ts"
import { responseOf } from "../backend/connection.ts"
import { peerError } from "../backend/peer-error.ts"
import type { RequestOutcome } from "../backend/pending-requests.ts"
import { type Answer, errorAnswer, RelayedResult, relayedError, resultAnswer } from "../call/answer.ts"
import { type Client, missingCapability, ownerOf, supportsTasks } from "../call/client.ts"
import { adaptCode, adaptParams } from "../call/era-params.ts"
import { fulfilInputRequired } from "../call/input-required.ts"
import { continuesCall, methodOf } from "../call/methods.ts"
import type { AnswerStorage, ClientCall, Routed, ServerSpan, SpanFailure, Target } from "../call/ports.ts"
import { waitFor } from "../call/ready.ts"
import { namesFor, openTaskId } from "../call/task-id.ts"
import type { Route, Withheld } from "../catalog/catalog.ts"
import { withoutServerInfo } from "../catalog/listing.ts"
import { splitName } from "../catalog/name.ts"
import { createdTask, renameTask, rewriteErrorData, rewriteNotification, rewriteResult } from "../catalog/rewrite.ts"
import { identityOf, scopeIncludes } from "../catalog/scope.ts"
import { REPLICA_CLIENT_HEADER, REPLICA_CONTINUES_HEADER, runsElsewhere } from "../config/server-spec.ts"
import { sha256 } from "../lib/digest.ts"
import { BackendError, codesOf, messageOf, RequestError, RPC_CODE } from "../lib/errors.ts"
import { cutText } from "../lib/text.ts"
import type { Era } from "../wire/era.ts"
import { META_SERVER_INFO, severityOf, UNSUPPORTED_VERSION } from "../wire/era.ts"
import {
  asBuffer,
  contains,
  encode,
  hasEscapedLetters,
  indexOf,
  isValidResponse,
  parseRelayed,
  withResponseId,
} from "../wire/frame.ts"
import { encodeHeader, type MirroredHeader, paramHeaders } from "../wire/headers.ts"
import {
  asText,
  idText,
  isId,
  isObject,
  isTerminal,
  metaOf,
  notificationText,
  type Params,
  type Request,
  type Response,
} from "../wire/message.ts"
import { StreamedAnswer } from "./streamed-answer.ts"

/**
 * Sends a request to its server and returns the answer: an error if the server is not connected, because `ready` has already waited
 * for it. Sends it again for each round of input that a modern server requests from a legacy client. Rejects with a RequestError if
 * the client may not do this.
 */
export async function relay(call: ClientCall, to: Routed): Promise<Answer> {
  const { target, route, params, store } = to
  if (typeof target === "string") return backendFailure(new BackendError(route.slug, target), call)
  const { request, client, gateway } = call
  const { cancellation } = call.exchange
  const { meter } = gateway.observers
  const { connection, peer, spec } = target
  const { method } = request
  const token = metaOf(params)?.progressToken
  const progressToken = isId(token) ? token : undefined
  // A legacy backend has made no state, and svc's own state never comes this far.
  if (client.era === "modern" && peer.era === "legacy" && params.requestState !== undefined) throw foreignState()
  if (client.era !== peer.era) call.span?.event("svc.bridge", spec.id)
  const caller = new RelayCaller(target, call)
  const level = client.era === "modern" && peer.era === "legacy" ? client.logLevel : undefined
  if (level !== undefined) gateway.notifications.setLogLevel(client.session, level)
  let fate: Fate = WHOLE
  let span: ServerSpan | undefined
  const onlarge = (head: Uint8Array) => {
    if (store !== undefined) {
      const storage = store()
      if (storage === undefined) return undefined
      fate = { kind: "stored", storage }
      // The next bytes wait until these are written.
      void storage.push(head)
      return storage
    }
    const streamed = streamedAnswer(target, call)
    if (streamed?.begin(head) !== true) return undefined
    fate = { kind: "streamed", answer: streamed }
    return streamed
  }
  try {
    let sent = adaptParams(openTask(params, target, call), client, peer.era)
    for (let round = 0; ; round++) {
      if (cancellation.reason !== undefined) throw new BackendError(spec.name, cancellation.reason)
      if (round >= MAX_ROUNDS) throw new BackendError(spec.name, `requested input ${MAX_ROUNDS} times`)
      span = call.span?.toServer(target, method, sent, route.unlisted)
      const flight = connection.request({
        method,
        params: span?.params ?? sent,
        caller,
        progressToken,
        // `tasks/result` waits for the end of the task.
        timeout: method === "tasks/result" ? Number.POSITIVE_INFINITY : spec.tuning.requestTimeout,
        headers: peer.era === "modern" ? headersFor(target, call, method, sent, route.mirrored) : undefined,
        onlarge,
        onsent: meter && ((text) => meter.passed("in", Buffer.byteLength(text))),
      })
      span?.sent?.(connection.idOf(flight.number))
      const cancel = (reason: string) => connection.cancel(flight.number, new BackendError(spec.name, reason), reason)
      cancellation.onabort(cancel)
      const from = meter?.now()
      const outcome = await flight.outcome
      if (meter !== undefined && from !== undefined) call.atServer = (call.atServer ?? 0) + meter.now() - from
      cancellation.offabort(cancel)
      // Another replica may have run the server since.
      if (spec.tuning.replicas === "one" && !runsElsewhere(spec) && !gateway.directory.mayRun(spec.id))
        throw new BackendError(spec.name, MOVED)
      const finished = finish(outcome, target, call, store === undefined)
      if (finished.kind === "input") {
        span?.end(ANSWERED)
        if (await hasBegun(fate)) throw new BackendError(spec.name, "requested input at the end of a large result")
        fate = WHOLE
        call.span?.event("svc.input", spec.id)
        const from = meter?.now()
        const end = connection.waitForInput()
        sent = await fulfilInputRequired(sent, finished.result, call.exchange, connection.clock).finally(end)
        if (meter !== undefined && from !== undefined) call.waited = (call.waited ?? 0) + meter.now() - from
        continue
      }
      const { answer } = finished
      span?.end(answer)
      if (answer.task !== undefined) {
        const { id, ttl } = answer.task
        const owner = recordOwnership("task", id, target, call)
        if (ttl !== undefined) keepForTask(id, ttl, target, call)
        // A stdio process ends with svc, and its tasks with it.
        if (spec.launch.transport !== "stdio") client.memory?.addTask(spec.id, id, gateway.replicas?.replica)
        if (owner !== undefined && progressToken !== undefined)
          connection.keepProgress(flight.number, owner, progressToken)
      }
      if (method.startsWith("tasks/")) {
        const left = keptAfter(method, answer)
        if (left !== undefined) keepForTask(asText(sent.taskId), left, target, call)
      }
      return settled(answer, fate, outcome)
    }
  } catch (error) {
    span?.end(cancellation.reason === undefined ? failureIn(error) : "cancelled")
    if (error instanceof UndeliveredError) return await relayToNextOwner(error, target, call, to)
    if (!(error instanceof BackendError)) throw error
    // The client sees only that the response ends.
    if (isOpen(fate) && cancellation.reason === undefined) connection.report(brokenOff(error, call, route))
    return backendFailure(error, call)
  } finally {
    if (level !== undefined) gateway.notifications.dropLogLevel(client.session)
  }
}

/** Returns the answer for a backend that failed: an `isError` result for a tool, a JSON-RPC error for other methods. */
export function backendFailure(error: BackendError, { request, gateway, client }: ClientCall): Answer {
  const { rpc } = codesOf(error)
  const text = gateway.hide(error.message)
  if (request.method !== "tools/call") return errorAnswer(request.id, rpc, text)
  const result = {
    ...(client.era === "modern" ? { resultType: "complete" } : {}),
    content: [{ type: "text", text }],
    isError: true,
  }
  return { ...resultAnswer(request.id, JSON.stringify(result)), outcome: "tool_error", code: rpc }
}

// ---

/** What becomes of the bytes of an answer: they arrive whole, are sent to the client while they arrive, or are stored meanwhile. */
type Fate =
  | { readonly kind: "whole" }
  | { readonly kind: "streamed"; readonly answer: StreamedAnswer }
  | { readonly kind: "stored"; readonly storage: AnswerStorage }

const WHOLE: Fate = { kind: "whole" }

/** Whether the client has received the beginning of an answer that is not complete. */
const isOpen = (fate: Fate): boolean => fate.kind === "streamed" && fate.answer.isOpen

/** Whether a part of an answer has been sent or stored already. */
const hasBegun = (fate: Fate): boolean | Promise<boolean> =>
  fate.kind === "stored" ? fate.storage.hasTaken() : isOpen(fate)

/** Returns the answer with what has become of its bytes. */
function settled(answer: Answer, fate: Fate, outcome: RequestOutcome): Answer {
  switch (fate.kind) {
    case "whole":
      return answer
    case "streamed":
      return fate.answer.isOpen ? fate.answer.complete(answer) : answer
    case "stored":
      return outcome.kind === "message" ? { ...answer, arrived: outcome.size } : answer
  }
}

/**
 * Relays a request that the owner of a server did not accept to the next owner, as if it had arrived while there is none. The
 * server has not received it, so it is not executed twice.
 */
async function relayToNextOwner(
  error: UndeliveredError,
  { spec: { id }, connection }: Target,
  call: ClientCall,
  to: Routed,
): Promise<Answer> {
  const { gateway, client } = call
  call.span?.event("svc.retry", id)
  await waitFor(gateway.directory.whenReplaced(id, connection), call)
  const target = gateway.directory.target(id, to.route.era ?? client.era)
  const isReplaced = typeof target === "string" || target.connection !== connection
  return isReplaced ? relay(call, { ...to, target }) : backendFailure(error, call)
}

/** The end of the span of a request that a server answered with a request for input. */
const ANSWERED = { outcome: "ok" } as const

function failureIn(error: unknown): SpanFailure {
  if (error instanceof TimedOutError) return "timeout"
  return error instanceof BackendError ? "unavailable" : "_OTHER"
}

const MOVED =
  "has moved to another replica of svc, because this one was suspended or cut off during the call; try again in a moment"

/** Returns the text that reports an answer that was broken off. */
function brokenOff(error: BackendError, { request: { method }, span }: ClientCall, { name }: Route): string {
  const trace = span?.traceId === undefined ? "" : `; trace ${span.traceId}`
  const of = method === "tools/call" ? ` of ${cutText(asText(name), 200)}` : ""
  return `its answer to ${method}${of} was broken off: ${reasonWithoutName(error.server, error)}${trace}`
}

/** Returns the answer that is sent while it arrives; undefined if the client must receive it whole. */
function streamedAnswer(target: Target, call: ClientCall): StreamedAnswer | undefined {
  const { request, exchange, wrapper } = call
  if (!methodOf(request.method).isStreamed || wrapper !== undefined) return undefined
  const isBridged = target.peer.era === "modern" && call.client.era === "legacy"
  const render = (message: Response) => {
    // It may have to change, which a value that passes cannot.
    if (isBridged && isObject(message.result) && typeof message.result.structuredContent === "string") return undefined
    const finished = rewrite({ kind: "message", message, size: 0 }, target, call, true)
    return finished.kind === "done" ? finished.answer : undefined
  }
  return new StreamedAnswer(target.spec.name, render, () => exchange.openBody?.())
}

const completeMembers = (cacheable: boolean): Uint8Array => (cacheable ? COMPLETE_UNCACHED : COMPLETE)

type Finish = { readonly kind: "done"; readonly answer: Answer } | { readonly kind: "input"; readonly result: Params }

/** Maximum rounds of input: without a limit, a backend that always requests more would keep svc busy forever. */
const MAX_ROUNDS = 100
/** How long a process does not sleep after it has requested input from a client, which may ask a person. */
const INPUT_MS = 5 * 60_000
/** How long a process is kept for a task after its client has got the result, which a broken connection may have lost. */
const FETCHED_MS = 5 * 60_000
const NEEDLE_URI = encode('"uri"')
const NEEDLE_TASK = encode('"taskId"')
const NEEDLE_RESULT_TYPE = encode('"resultType"')
const NEEDLE_SERVER_INFO = encode(`"${META_SERVER_INFO}"`)
const NEEDLE_STRUCTURED = encode('"structuredContent"')
const NEEDLE_TTL = encode('"ttlMs"')
const NEEDLE_CACHE_SCOPE = encode('"cacheScope"')
const COMPLETE = encode('"resultType":"complete"')
const COMPLETE_UNCACHED = encode('"resultType":"complete","ttlMs":0,"cacheScope":"private"')

/** Turns a backend's answer into the client's: with its id, its names and the members of its era. `isLast`: nothing reads it after this. */
function finish(outcome: RequestOutcome, target: Target, call: ClientCall, isLast: boolean): Finish {
  const answer =
    outcome.kind === "frame" && (isLast || isValidResponse(outcome.frame, outcome.answer))
      ? unchanged(outcome, target, call)
      : undefined
  return answer === undefined ? rewrite(outcome, target, call, isLast) : { kind: "done", answer }
}

/** Returns the answer in the bytes in which it arrived, with the client's id; undefined if more must change, or may have to. */
function unchanged(
  { frame, answer }: Extract<RequestOutcome, { kind: "frame" }>,
  { peer }: Target,
  { request, client, exchange, wrapper }: ClientCall,
): Answer | undefined {
  // An HTTP response of its own is all that a result without valid JSON can harm. A line on stdio or an event of a shared stream is not.
  const isAlone =
    exchange.openBody !== undefined && wrapper === undefined && methodOf(request.method).isStreamed === true
  if (!isAlone && !isValidResponse(frame, answer)) return undefined
  const isQualified = client.scope.kind === "aggregate"
  const cacheable = methodOf(request.method).isCacheable === true
  if ((isQualified && contains(frame, NEEDLE_URI)) || contains(frame, NEEDLE_TASK)) return undefined
  const change = eraChange(frame, cacheable, peer.era, client.era)
  if (change === "rewrite" || hasEscapedLetters(frame)) return undefined
  const members = change === "complete" ? completeMembers(cacheable) : undefined
  const relayed = withResponseId(frame, answer, encode(idText(request.id)), members)
  return request.method === "tools/call" ? new RelayedResult(relayed) : { frame: relayed, outcome: "ok" }
}

/**
 * Returns what must change in a result for the client's era, as far as bytes show it: nothing, the members that modern
 * results must have and this one lacks, or more than can be changed in the bytes.
 */
function eraChange(frame: Uint8Array, cacheable: boolean, from: Era, to: Era): "nothing" | "complete" | "rewrite" {
  if (from === "legacy" && to === "legacy") return "nothing"
  const type = resultTypeIn(frame)
  const hints = cacheable && (contains(frame, NEEDLE_TTL) || contains(frame, NEEDLE_CACHE_SCOPE))
  if (to === "legacy") {
    const isForeign = type !== "none" || contains(frame, NEEDLE_SERVER_INFO) || contains(frame, NEEDLE_STRUCTURED)
    return isForeign || hints ? "rewrite" : "nothing"
  }
  // Some modern servers omit the `resultType` that each result must have.
  if (type === "none") return hints ? "rewrite" : "complete"
  return from === "legacy" || type === "other" ? "rewrite" : "nothing"
}

/**
 * Parses a backend's answer and returns it as the client receives it. Throws a BackendError for an invalid one. `isLast`: nothing puts
 * large values into it after this.
 */
function rewrite(outcome: RequestOutcome, target: Target, call: ClientCall, isLast: boolean): Finish {
  const { request, client } = call
  const { peer, spec } = target
  const cacheable = methodOf(request.method).isCacheable === true
  const isToolCall = request.method === "tools/call"
  const message = parsed(outcome, spec.name)
  const names = namesFor(target, call)
  if (message.error !== undefined) {
    const { code, object } = peerError(message.error)
    const { data } = object
    // It speaks of the revision between svc and the server: a client would take it for its own, and negotiate again.
    if (code === UNSUPPORTED_VERSION && (peer.era === "modern" || client.era === "modern"))
      throw new BackendError(spec.name, `no longer accepts the protocol revision of its connection: ${object.message}`)
    const adapted = adaptCode(request.method, code, data, client.era)
    for (const id of elicitationsOf(data)) recordOwnership("elicitation", id, target, call)
    const shown = data === undefined ? {} : { data: rewriteErrorData(data, names) }
    const error = { ...object, ...(adapted === code ? {} : { code: adapted }), ...shown }
    return { kind: "done", answer: relayedError(request.id, error, message) }
  }
  const { result } = message
  if (!isObject(result)) throw new BackendError(spec.name, "answered with a result that is not an object")
  if (peer.era === "modern") checkResultType(result, target, call)
  // The client sends the input with its next request, which only this process may understand.
  if (result.resultType === "input_required" && client.era === "modern") target.connection.keepFor(INPUT_MS)
  if (peer.era === "modern" && client.era === "legacy" && result.resultType === "input_required")
    return { kind: "input", result }
  const named = rewriteResult(request.method, result, names, peer.era)
  const isWhole = isLast || outcome.kind === "frame"
  const whole =
    client.era === "modern" ? completed(named, peer.era, cacheable) : legacyResult(named, peer.era, cacheable, isWhole)
  const answer: Answer = {
    frame: JSON.stringify({ ...message, id: request.id, result: whole }),
    outcome: isToolCall && result.isError === true ? "tool_error" : "ok",
    task: isToolCall ? createdTask(result, peer.era) : undefined,
  }
  return { kind: "done", answer }
}

/** Returns the `resultType` in a frame as far as bytes show it: one deeper in the result counts too. */
function resultTypeIn(frame: Uint8Array): "none" | "complete" | "other" {
  const at = indexOf(frame, NEEDLE_RESULT_TYPE)
  if (at < 0) return "none"
  const end = at + NEEDLE_RESULT_TYPE.length
  const isOnly = indexOf(frame, NEEDLE_RESULT_TYPE, end) < 0
  return isOnly && /^\s{0,4}:\s{0,4}"complete"/.test(asBuffer(frame).toString("latin1", end, end + 20))
    ? "complete"
    : "other"
}

/** Returns a result with the members that modern results must have. Those of a legacy server mean nothing and are replaced. */
function completed(result: Params, era: Era, cacheable: boolean): Params {
  const members = { resultType: "complete", ...(cacheable ? { ttlMs: 0, cacheScope: "private" } : {}) }
  if (era === "legacy") return { ...members, ...result, ...members }
  // After the others, as most servers write it: if the answer is sent while it arrives, its end is not known yet.
  return result.resultType === undefined ? { ...result, ...members, ...result } : result
}

/**
 * Returns a result without the members that legacy results lack, if it is a modern server's. A `resultType` that svc does
 * not know stays: without it the result would mean something else. `isWhole`: no value is a placeholder.
 */
function legacyResult(result: Params, era: Era, cacheable: boolean, isWhole: boolean): Params {
  if (era === "legacy") return result
  const changed: Record<string, unknown> = { ...result }
  if (result.resultType === "complete") delete changed.resultType
  if (cacheable) {
    delete changed.ttlMs
    delete changed.cacheScope
  }
  const { structuredContent: content } = result
  // Legacy clients refuse a result with other structured content than an object. The official SDKs wrap it in the same way.
  if (content !== undefined && !isObject(content) && (isWhole || typeof content !== "string"))
    changed.structuredContent = { result: content }
  return withoutServerInfo(changed)
}

/**
 * Throws a BackendError for a `resultType` that a modern server may not send to this client. Types that svc does not know
 * pass. basic: Result Type; patterns: Multi Round-Trip Requests; extension: Tasks.
 */
function checkResultType(
  { resultType, inputRequests }: Params,
  { spec }: Target,
  { request, client }: ClientCall,
): void {
  if (resultType !== undefined && typeof resultType !== "string")
    throw new BackendError(spec.name, "answered with a resultType that is no string")
  if (resultType === "task" && !(request.method === "tools/call" && supportsTasks(client)))
    throw new BackendError(spec.name, `answered ${request.method} with a task, which the client does not support`)
  if (resultType !== "input_required" || client.era === "legacy" || !isObject(inputRequests)) return
  for (const asked of Object.values(inputRequests)) {
    const { method, params } = isObject(asked) ? asked : {}
    if (missingCapability(client.capabilities, asText(method), isObject(params) ? params : undefined) !== undefined)
      throw new BackendError(spec.name, `requested ${asText(method)}, which the client does not support`)
  }
}

/** Parses a backend's answer. Throws a BackendError if it cannot be parsed. */
function parsed(outcome: RequestOutcome, server: string): Response {
  try {
    return responseOf(outcome)
  } catch (cause) {
    throw new BackendError(server, messageOf(cause), { cause })
  }
}

/** Records the client that owns an id of the backend. Returns the caller that reaches it outside of the call, if there is one. */
function recordOwnership(kind: Ownership["kind"], id: string, target: Target, call: CallContext): Caller | undefined {
  const { gateway, client } = call
  const { spec, peer } = target
  const caller =
    client.owner === undefined ? undefined : new RelayCaller(target, { gateway, client, exchange: client.owner })
  const shared = caller === undefined || spec.tuning.isolation !== "session"
  const onlost = kind === "task" ? () => client.memory?.removeTask(spec.id, id) : undefined
  gateway.tasks.owners.make({
    kind,
    backend: spec.id,
    era: peer.era,
    id,
    owner: ownerOf(client),
    caller,
    shared,
    onlost,
  })
  return caller
}

/** Keeps the process of a server no longer than this for a task. */
function keepForTask(id: string, ms: number, { spec, peer, connection }: Target, { gateway }: CallContext): void {
  const { owners } = gateway.tasks
  const task = owners.find("task", spec.id, peer.era, id)
  if (task !== undefined) owners.keepUntil(task, connection.clock.now() + ms)
}

/**
 * Returns the milliseconds for which a process is kept for a task after an answer about it; undefined if the answer changes
 * nothing. basic: Tasks, TTL and Resource Management, Task Cancellation; extension: Tasks.
 */
function keptAfter(method: string, { frame, outcome, code }: Answer): number | undefined {
  if (method === "tasks/result") return FETCHED_MS
  if (method === "tasks/cancel") return outcome === "ok" ? 0 : undefined
  if (method !== "tasks/get") return undefined
  if (outcome !== "ok") return code === RPC_CODE.invalidParams ? 0 : undefined
  const message: unknown = parseRelayed(frame)
  const task = isObject(message) && isObject(message.result) ? message.result : {}
  if (task.status === "cancelled") return 0
  // The extension answers with the result of a task that has ended.
  return isTerminal(task.status) && (task.result !== undefined || task.error !== undefined) ? FETCHED_MS : undefined
}

/** Replaces the task id in a client's params by the backend's own. Throws a RequestError for another client's task. */
function openTask(params: Params, target: Target, context: CallContext): Params {
  const { id, slug } = target.spec
  return renameTask(params, (shown) => {
    const split = isQualified(context.client) ? splitName(shown) : { slug, name: shown }
    const task = split?.slug === slug ? openTaskId(split.name, id, target, context)?.task : undefined
    if (task === undefined) throw unknownName("task", shown, undefined)
    return task
  })
}

/** Returns the ids of the pages that a person must visit before the call. client: Elicitation, URL Mode. */
function elicitationsOf(data: unknown): readonly string[] {
  const listed = isObject(data) && Array.isArray(data.elicitations) ? data.elicitations : []
  return listed.flatMap((one: unknown) =>
    isObject(one) && typeof one.elicitationId === "string" ? [one.elicitationId] : [],
  )
}

/** Returns the headers that repeat params. basic: Streamable HTTP, Standard Request Headers and Custom Headers from Tool Parameters. */
function mirrorHeaders(
  method: string,
  params: Params,
  mirrored: readonly MirroredHeader[],
): Record<string, string> | undefined {
  const name = params[methodOf(method).names ?? "name"]
  if (typeof name !== "string") return undefined
  return { "mcp-name": encodeHeader(name), ...paramHeaders(params.arguments, mirrored) }
}

/** Returns the headers of a modern request; to another replica also the client, for which that replica seals state. */
function headersFor(
  { spec }: Target,
  { client, gateway }: CallContext,
  ...request: Parameters<typeof mirrorHeaders>
): Record<string, string> | undefined {
  const headers = mirrorHeaders(...request)
  const { replicas } = gateway
  if (replicas === undefined || !runsElsewhere(spec)) return headers
  const [method, params] = request
  const identity = identityFor(client)
  return {
    ...headers,
    [REPLICA_CLIENT_HEADER]: `${replicas.replica} ${clientDigest(client)}${identity === undefined ? "" : ` ${identity}`}`,
    ...(continuesCall({ method, params }) ? { [REPLICA_CONTINUES_HEADER]: "1" } : {}),
  }
}

/** Returns a text that is the same for all requests that may continue one another. */
const clientDigest = ({ principal, scope }: Client): string =>
  sha256(JSON.stringify([principal, identityOf(scope)]), "base64url")

/**
 * Returns the text by which the other replica tells this client from all others (backend/attribution.ts); undefined if this
 * replica cannot tell either.
 */
const identityFor = ({ id, identity }: Client): string | undefined =>
  id === undefined ? identity?.() : sha256(id, "base64url")

/** The parts of a request that its messages need. */
type CallContext = Pick<ClientCall, "gateway" | "client" | "exchange" | "span"> & { readonly request?: Request }

/** The caller of a relayed request. A class, so that its functions are not created for every call. */
export class RelayCaller implements Caller {
  readonly session: object
  private known: string | undefined
  constructor(
    private readonly target: Target,
    private readonly context: CallContext,
  ) {
    this.session = context.client.session
  }

  get identity(): string | undefined {
    this.known ??= this.context.client.identity?.()
    return this.known
  }

  notify(method: string, params: Params): void {
    const { client, exchange } = this.context
    if (this.isWithdrawn() || (method === "notifications/message" && !wantsLog(client, params.level))) return
    const shown = rewriteNotification(method, params, namesFor(this.target, this.context))
    exchange.notify(notificationText(method, shown))
  }

  async ask(...[method, params, signal, onprogress]: Parameters<Caller["ask"]>): Promise<unknown> {
    const { exchange, span } = this.context
    if (this.isWithdrawn()) throw new RequestError("invalid_request", "The client may no longer use this server")
    if (typeof params?.elicitationId === "string")
      recordOwnership("elicitation", params.elicitationId, this.target, this.context)
    const shown = params === undefined ? undefined : renameTask(params, namesFor(this.target, this.context).task)
    span?.event("svc.input", this.target.spec.id)
    const reply = await exchange.ask(method, shown, signal, onprogress)
    return isObject(reply) ? openTask(reply, this.target, this.context) : reply
  }

  /** Whether this is the client outside of its calls, and it may no longer see the server. Running calls finish. */
  private isWithdrawn(): boolean {
    const { client, exchange, gateway } = this.context
    if (exchange !== client.owner) return false
    const now = gateway.directory.target(this.target.spec.id)
    return typeof now !== "string" && !scopeIncludes(client.scope, now.spec)
  }

  isConnected(): boolean {
    return this.context.exchange.isConnected?.() !== false
  }

  reach(method: string, params: Params | undefined): Reach {
    const { client, request } = this.context
    if (method === "notifications/message" && !wantsLog(client, params?.level)) return "never"
    if (missingCapability(client.capabilities, method, params) !== undefined) return "never"
    // patterns: Multi Round-Trip Requests: no other request is answered with `input_required`.
    const isQuestion = !method.startsWith("notifications/")
    if (isQuestion && client.era === "modern" && request !== undefined && !methodOf(request.method).isCall)
      return "never"
    return this.isConnected() ? "now" : "later"
  }

  giveUpIfStale(now: number, others: boolean): void {
    this.context.exchange.giveUpIfStale?.(now, others)
  }
}

const isQualified = (client: Client): boolean => client.scope.kind === "aggregate"

/** Returns whether a client wants a log message of this level. Modern clients that set no level get none. */
export function wantsLog(
  client: { readonly era: Era; readonly logLevel: string | undefined },
  level: unknown,
): boolean {
  if (client.logLevel === undefined) return client.era === "legacy"
  return severityOf(level) >= severityOf(client.logLevel)
}

/** Returns the error for a `requestState` that neither svc nor the backend made. */
export const foreignState = (): RequestError =>
  new RequestError(
    "invalid_params",
    "requestState was changed, or svc was restarted since it was made: send the request again without it",
  )

/** Returns the error for an unknown name; `near` is a similar name that exists. */
export const unknownName = (what: string, name: unknown, near: string | undefined): RequestError =>
  new RequestError(
    "invalid_params",
    `Unknown ${what}: ${cutText(asText(name), 200)}${near === undefined ? "" : `. Did you mean ${near}?`}`,
  )

/** Returns the reason why svc withholds a tool from clients. */
export const withheldTool = (name: unknown, why: Withheld): string =>
  `Tool ${cutText(asText(name), 200)} ${why === "disabled" ? "is disabled" : "has changed, and is kept back until the operator approves it"}`

/** Returns the reason why `call_read_tool` does not run a tool. */
export const notReadOnly = (name: string): string => `${name} is not marked read-only: run it with call_tool`

export const unknownMethod = (method: string): RequestError =>
  new RequestError("unknown_method", `Method not found: ${cutText(method, 200)}`)
