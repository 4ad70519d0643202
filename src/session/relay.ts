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
import {
  type Answer,
  type Answering,
  bytesOf,
  errorAnswer,
  RelayedResult,
  relayedError,
  resultAnswer,
} from "../call/answer.ts"
import { type Client, type Exchange, missingCapability, ownerOf, supportsTasks } from "../call/client.ts"
import { adaptCode, adaptParams } from "../call/era-params.ts"
import { fulfilInputRequired } from "../call/input-required.ts"
import { continuesCall, methodOf } from "../call/methods.ts"
import type { AnswerStorage, ClientCall, ServerSpan, SpanFailure, Target } from "../call/ports.ts"
import { viewFor, waitFor, whenConnected, whenPrepared } from "../call/ready.ts"
import { isOwnProcess, namesFor, openTaskId } from "../call/task-id.ts"
import { type Route, toolOf, type Withheld } from "../catalog/catalog.ts"
import { withoutServerInfo } from "../catalog/listing.ts"
import { splitName } from "../catalog/name.ts"
import { createdTask, renameTask, rewriteErrorData, rewriteNotification, rewriteResult } from "../catalog/rewrite.ts"
import { identityOf, scopeIncludes } from "../catalog/scope.ts"
import { isReadOnly } from "../catalog/signature.ts"
import { limitIn } from "../catalog/view-rules.ts"
import { REPLICA_CLIENT_HEADER, REPLICA_CONTINUES_HEADER, runsElsewhere } from "../config/server-spec.ts"
import { sha256 } from "../lib/digest.ts"
import { BackendError, codesOf, messageOf, RequestError } from "../lib/errors.ts"
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
  withResponseId,
} from "../wire/frame.ts"
import { encodeHeader, type MirroredHeader, paramHeaders } from "../wire/headers.ts"
import {
  asText,
  idText,
  isId,
  isObject,
  metaOf,
  notificationText,
  type Params,
  type Request,
  type Response,
} from "../wire/message.ts"
import { StreamedAnswer } from "./streamed-answer.ts"

/**
 * Passes a request on with `params`, in which names are already the backend's own, and returns the answer: an error if the server
 * is not connected, because `ready` has already waited for it. Throws or rejects with a RequestError if the client may not do
 * this.
 */
export function relay(call: ClientCall, params: Params, route: Route): Answering {
  const { meter } = call.gateway.observers
  if (meter === undefined) return relayToBackend(call, params, route, uncounted)
  const started = meter.now()
  const { waited: before = 0 } = call
  return relayToBackend(call, params, route, (answer) => {
    meter.passed("out", bytesOf(answer))
    if (call.request.method === "tools/call") {
      const took = meter.now() - started
      const { waited: waiting = 0, atServer: server = 0 } = call
      meter.record({
        server: route.id,
        tool: route.unlisted ? UNLISTED : route.name,
        outcome: answer.outcome,
        seconds: took / 1000,
        parts: { waiting, server, svc: Math.max(0, before + took - waiting - server) },
        call,
        answer,
      })
    }
    return answer
  })
}

/**
 * Sends a request of svc's own on behalf of the client to the process that all clients share, over the connection of the client's
 * era if that is open. Returns and throws as `relay` does.
 */
export const relayToShared = (call: ClientCall, params: Params, route: Route): Answering =>
  relayTo(call.gateway.directory.target(route.id, call.client.era), call, params, route, uncounted)

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

/** Counts the answer of a relayed call for the metrics, and returns it. A callback, because a further promise would slow each call. */
type Count = (answer: Answer) => Answer

const uncounted: Count = (answer) => answer

function relayToBackend(call: ClientCall, params: Params, route: Route, count: Count): Answering {
  const { client, gateway } = call
  const era = route.era ?? client.era
  const shared = gateway.directory.target(route.id, era)
  if (typeof shared === "string") {
    // The server may have fallen asleep since the request was routed.
    const woken = gateway.directory.isAsleep(route.id) ? whenConnected(route.id, call) : undefined
    if (woken === undefined) return relayTo(shared, call, params, route, count)
    call.span?.event("svc.wake", route.id)
    return woken.then(() => relayTo(gateway.directory.target(route.id, era), call, params, route, count))
  }
  const { owner } = client
  if (owner !== undefined && isOwnProcess(shared.spec, client))
    return dedicatedTarget(shared, owner, call).then((target) => relayTo(target, call, params, route, count))
  const prepared = shared.peer.era === era ? undefined : whenPrepared(route.id, era, call)
  if (prepared !== undefined)
    return prepared.then(() => relayTo(gateway.directory.target(route.id, era), call, params, route, count))
  const { list } = methodOf(call.request.method)
  const lacks = list !== undefined && shared.pair?.lacks(era, list, route.name) === true
  return relayTo(lacks ? gateway.directory.target(route.id) : shared, call, params, route, count)
}

/**
 * Returns the session's own process, or the reason why there is none. Rejects with a RequestError if that process does not
 * have the tool, or the client may not call it there.
 */
async function dedicatedTarget(shared: Target, owner: Exchange, call: ClientCall): Promise<Target | string> {
  const { request, client, gateway } = call
  const opened = gateway.directory.dedicated(
    shared.spec.id,
    new RelayCaller(shared, { ...call, exchange: owner }),
    new RelayCaller(shared, call),
    client.capabilities,
  )
  const target = await waitFor(opened, call)
  if (request.method !== "tools/call" || typeof target === "string") return target
  const view = viewFor(call)
  const name = request.params?.name
  if (typeof name !== "string" || !view.tools.has(name)) throw unknownName("tool", name, undefined)
  if (call.wrapper !== "read-only") return target
  // The process may describe the tool otherwise than the one that all clients share.
  const tool = toolOf(view, name)
  if (tool === undefined || !isReadOnly(tool)) throw new RequestError("invalid_params", notReadOnly(name))
  return target
}

function relayTo(target: Target | string, call: ClientCall, params: Params, route: Route, count: Count): Answering {
  const fail = (reason: string) => count(backendFailure(new BackendError(route.slug, reason), call))
  if (typeof target === "string") return fail(target)
  const busy = busyReason(target, call)
  if (busy !== undefined) return fail(busy)
  const counting = enforceToolRate(call, target, route)
  return counting === undefined
    ? withinServerRate(target, call, params, route, count)
    : counting.then(() => withinServerRate(target, call, params, route, count))
}

/** Relays a request if the rate limit of its server allows it. */
function withinServerRate(target: Target, call: ClientCall, params: Params, route: Route, count: Count): Answering {
  const { request, gateway } = call
  const { callRate } = gateway.limits
  const { id, tuning } = target.spec
  if (tuning.rateLimit !== undefined && methodOf(request.method).isCall) {
    const tooOften = (wait: number) => {
      const error = new BackendError(route.slug, `has reached its rate limit; try again in ${wait} s`)
      return count({ ...backendFailure(error, call), outcome: "rate_limited", retryAfter: wait })
    }
    const waiting = callRate.take("server", id, tuning.rateLimit)
    if (waiting instanceof Promise)
      return waiting.then((wait) =>
        wait === undefined ? admitted(target, call, params, route, count) : tooOften(wait),
      )
    if (waiting !== undefined) return tooOften(waiting)
  }
  return admitted(target, call, params, route, count)
}

/** Counts a call of a tool against the limits of its client's presets. Throws, or rejects with, a RequestError above them. */
function enforceToolRate(
  { request, client, gateway }: ClientCall,
  { spec }: Target,
  route: Route,
): Promise<void> | undefined {
  if (request.method !== "tools/call" || client.scope.shape === undefined) return undefined
  const limit = limitIn(client.scope.shape, spec, route.name)
  if (limit === undefined) return undefined
  const refuse = (wait: number | undefined) => {
    if (wait === undefined) return
    const text = `Too many calls of this tool: the limit is ${limit} per minute; try again in ${wait} s`
    throw new RequestError("too_many", text, { retryAfter: wait })
  }
  const waiting = gateway.limits.callRate.take("tool", `${client.principal}\0${spec.id}\0${route.name}`, limit)
  if (waiting instanceof Promise) return waiting.then(refuse)
  refuse(waiting)
  return undefined
}

/** Relays a request that the limits of its server admit. Throws a RequestError if its session has too many. */
function admitted(target: Target, call: ClientCall, params: Params, route: Route, count: Count): Answering {
  const { client, gateway } = call
  const { maxInFlight } = gateway.limits
  if ((client.inFlight ?? 0) > maxInFlight)
    throw new RequestError(
      "too_many",
      `This session has ${maxInFlight} requests in flight already; wait for a response`,
    )
  const { session, logLevel } = client
  if (logLevel === undefined || client.era === "legacy" || target.peer.era === "modern")
    return callBackend(target, call, params, route, count)
  gateway.notifications.setLogLevel(session, logLevel)
  return callBackend(target, call, params, route, count).finally(() => gateway.notifications.dropLogLevel(session))
}

/** Returns why a server takes no further request; undefined if it does. */
export function busyReason({ pair, connection }: Target, { gateway }: ClientCall): string | undefined {
  const { maxInFlight } = gateway.limits
  return (pair ?? connection).inFlight >= maxInFlight
    ? `has ${maxInFlight} requests in flight already; try again later`
    : undefined
}

/** Sends the request, and again for each round of input that a modern backend requests from a legacy client. */
async function callBackend(
  target: Target,
  call: ClientCall,
  params: Params,
  route: Route,
  count: Count,
): Promise<Answer> {
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
  const fitting = method === "tools/call" ? gateway.fitting?.(call, target) : undefined
  const result = fitting instanceof Promise ? await fitting : fitting
  let streamed: StreamedAnswer | undefined
  let stored: AnswerStorage | undefined
  let span: ServerSpan | undefined
  const onlarge = (head: Uint8Array) => {
    if (result?.store !== undefined) {
      stored = result.store()
      // The next bytes wait until these are written.
      void stored?.push(head)
      return stored
    }
    streamed = streamedAnswer(target, call)
    return streamed?.begin(head) ? streamed : undefined
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
      const finished = finish(outcome, target, call, result?.store === undefined)
      span?.end(finished.kind === "input" ? ANSWERED : finished.answer)
      if (finished.kind === "task") {
        const owner = recordOwnership("task", finished.task, target, call)
        // A stdio process ends with svc, and its tasks with it.
        if (spec.launch.transport !== "stdio") client.memory?.addTask(spec.id, finished.task, gateway.replicas?.replica)
        if (owner !== undefined && progressToken !== undefined)
          connection.keepProgress(flight.number, owner, progressToken)
      }
      if (finished.kind === "input") {
        if (streamed?.isOpen || (await stored?.hasTaken()) === true)
          throw new BackendError(spec.name, "requested input at the end of a large result")
        stored = undefined
        call.span?.event("svc.input", spec.id)
        const from = meter?.now()
        const end = connection.waitForInput()
        sent = await fulfilInputRequired(sent, finished.result, call.exchange, connection.clock).finally(end)
        if (meter !== undefined && from !== undefined) call.waited = (call.waited ?? 0) + meter.now() - from
        continue
      }
      const answer = streamed?.isOpen ? streamed.complete(finished.answer) : finished.answer
      if (finished.kind !== "done" || result === undefined) return count(answer)
      const size =
        stored !== undefined && outcome.kind === "message" ? outcome.size : (answer.sent ?? answer.frame.length)
      const fitted = result.fit(answer, size, route)
      return count(fitted instanceof Promise ? await fitted : fitted)
    }
  } catch (error) {
    span?.end(cancellation.reason === undefined ? failureIn(error) : "cancelled")
    if (error instanceof UndeliveredError) return await relayToNextOwner(error, target, call, params, route, count)
    if (!(error instanceof BackendError)) throw error
    // The client sees only that the response ends.
    if (streamed?.isOpen && cancellation.reason === undefined) connection.report(brokenOff(error, call, route))
    return count(backendFailure(error, call))
  } finally {
    if (stored !== undefined) await result?.close?.()
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
  params: Params,
  route: Route,
  count: Count,
): Promise<Answer> {
  const { gateway, client } = call
  call.span?.event("svc.retry", id)
  await waitFor(gateway.directory.whenReplaced(id, connection), call)
  const next = gateway.directory.target(id, route.era ?? client.era)
  const isReplaced = typeof next === "string" || next.connection !== connection
  return isReplaced ? relayTo(next, call, params, route, count) : count(backendFailure(error, call))
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
  const render = (message: Response) => {
    const finished = rewrite({ kind: "message", message, size: 0 }, target, call)
    return finished.kind === "done" ? finished.answer : undefined
  }
  return new StreamedAnswer(target.spec.name, render, () => exchange.openBody?.())
}

const completeMembers = (cacheable: boolean): Uint8Array => (cacheable ? COMPLETE_UNCACHED : COMPLETE)

type Finish =
  | { readonly kind: "done"; readonly answer: Answer }
  | { readonly kind: "task"; readonly answer: Answer; readonly task: string }
  | { readonly kind: "input"; readonly result: Params }

/** The name in metrics of tools that are in no list: clients could fill the metrics with names. */
const UNLISTED = "unlisted"
/** Maximum rounds of input: without a limit, a backend that always requests more would keep svc busy forever. */
const MAX_ROUNDS = 100
/** How long a process does not sleep after it has requested input from a client, which may ask a person. */
const INPUT_MS = 5 * 60_000
const NEEDLE_URI = encode('"uri"')
const NEEDLE_TASK = encode('"taskId"')
const NEEDLE_RESULT_TYPE = encode('"resultType"')
const NEEDLE_SERVER_INFO = encode(`"${META_SERVER_INFO}"`)
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
  return answer === undefined ? rewrite(outcome, target, call) : { kind: "done", answer }
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
  if (to === "legacy") return type !== "none" || hints || contains(frame, NEEDLE_SERVER_INFO) ? "rewrite" : "nothing"
  // Some modern servers omit the `resultType` that each result must have.
  if (type === "none") return hints ? "rewrite" : "complete"
  return from === "legacy" || type === "other" ? "rewrite" : "nothing"
}

/** Parses a backend's answer and returns it as the client receives it. Throws a BackendError for an invalid one. */
function rewrite(outcome: RequestOutcome, target: Target, call: ClientCall): Finish {
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
  const whole =
    client.era === "modern" ? completed(named, peer.era, cacheable) : legacyResult(named, peer.era, cacheable)
  const answer: Answer = {
    frame: JSON.stringify({ ...message, id: request.id, result: whole }),
    outcome: isToolCall && result.isError === true ? "tool_error" : "ok",
  }
  const task = isToolCall ? createdTask(result, peer.era) : undefined
  return task === undefined ? { kind: "done", answer } : { kind: "task", answer, task }
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
 * not know stays: without it the result would mean something else.
 */
function legacyResult(result: Params, era: Era, cacheable: boolean): Params {
  if (era === "legacy") return result
  const changed: Record<string, unknown> = { ...result }
  if (result.resultType === "complete") delete changed.resultType
  if (cacheable) {
    delete changed.ttlMs
    delete changed.cacheScope
  }
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
class RelayCaller implements Caller {
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
