/**
 * A client's request, passed on to its backend, and the answer on its way back.
 *
 *  1. A success result that nothing must change in goes back as the bytes it came in (frame.ts).
 *  2. Members that svc does not know survive in both directions.
 *  3. What one era lacks is put in or taken out here and in era-params.ts, and nowhere else.
 */
import type { Ownership } from "../agent/task-owners.ts"
import type { Caller } from "../backend/attribution.ts"
import { peerError, type RequestOutcome, responseOf } from "../backend/connection.ts"
import { type Route, viewOf } from "../catalog/catalog.ts"
import { splitName } from "../catalog/name.ts"
import { createdTask, renameTask, rewriteErrorData, rewriteNotification, rewriteResult } from "../catalog/rewrite.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import { BackendError, codesOf, messageOf, RequestError } from "../lib/errors.ts"
import type { Era } from "../wire/era.ts"
import { severityOf } from "../wire/era.ts"
import { asBuffer, contains, encode, hasEscapedLetters, withResponseId } from "../wire/frame.ts"
import { encodeHeader, type MirroredHeader, paramHeaders } from "../wire/headers.ts"
import {
  asText,
  isId,
  isObject,
  metaOf,
  notificationText,
  type Params,
  type Request,
  type Response,
} from "../wire/message.ts"
import { type Answer, errorAnswer, RelayedResult } from "./answer.ts"
import { CALLS, type Client, type Meter, ownerOf, type RequestContext, type Target, unlessCancelled } from "./client.ts"
import { adaptCode, adaptParams } from "./era-params.ts"
import { fulfilInputRequired } from "./input-required.ts"
import { namesFor, openTaskId } from "./task-id.ts"

/** An answer; a promise is made only if something is waited for. */
export type Answering = Answer | Promise<Answer>

/**
 * Passes `request` on under `params` (names already the backend's own) and gives the answer. Where the backend is about
 * to be there, the patient wait for it. Throws a RequestError, at once or later, for what the client may not do.
 */
export function relay(
  request: Request,
  params: Params,
  route: Route,
  context: RequestContext,
  mayWait = true,
): Answering {
  const { meter } = context.gateway
  const done = meter === undefined ? uncounted : counted(meter, request, route)
  return relayWhenReady(request, params, route, context, mayWait, done)
}

/** Answers a request with a backend's failure: a tool says so to the model, other methods to the client. */
export function failed(request: Request, error: BackendError, { gateway, client }: RequestContext): Answer {
  const said = gateway.hide(error.message)
  if (request.method !== "tools/call") return errorAnswer(request.id, codesOf(error).rpc, said)
  const result = {
    ...(client.era === "modern" ? { resultType: "complete" } : {}),
    content: [{ type: "text", text: said }],
    isError: true,
  }
  return { frame: JSON.stringify({ jsonrpc: "2.0", id: request.id, result }), outcome: "tool_error" }
}

// ---

/** Takes each answer as it goes out and returns it. */
type OnAnswer = (answer: Answer) => Answer

const uncounted: OnAnswer = (answer) => answer

function counted(meter: Meter, { method }: Request, route: Route): OnAnswer {
  const started = meter.now()
  return (answer) => {
    const { frame } = answer
    meter.passed("out", typeof frame === "string" ? Buffer.byteLength(frame) : frame.length)
    if (method === "tools/call") meter.record(route.id, route.name, answer.outcome, (meter.now() - started) / 1000)
    return answer
  }
}

function relayWhenReady(
  request: Request,
  params: Params,
  route: Route,
  context: RequestContext,
  mayWait: boolean,
  done: OnAnswer,
): Answering {
  const { gateway, client } = context
  const shared = gateway.target(route.id)
  const back = typeof shared === "string" && mayWait ? gateway.whenBack(route.id) : undefined
  if (back !== undefined)
    return unlessCancelled(context, back).then(() => relayWhenReady(request, params, route, context, false, done))
  const { owner } = client
  // A client that is there only for its request has no session to isolate.
  if (typeof shared !== "string" && shared.spec.tuning.isolation === "session" && owner !== undefined)
    return unlessCancelled(
      context,
      gateway.dedicated(
        route.id,
        new Relayed(shared, { ...context, exchange: owner }),
        new Relayed(shared, context),
        client.capabilities,
      ),
    ).then((target) => {
      checkOwn(request, target, context)
      return relayTo(target, request, params, route, context, done)
    })
  return relayTo(shared, request, params, route, context, done)
}

/** Throws a RequestError where a session's own process has not the tool that the shared one has, or must not be asked it. */
function checkOwn({ method, params }: Request, target: Target | string, { gateway, client }: RequestContext): void {
  if (method !== "tools/call" || typeof target === "string") return
  const { tools } = viewOf(gateway.catalogOf(client.session), client.scope)
  const name = params?.name
  if (typeof name !== "string" || !tools.has(name)) throw unknownName("tool", name, undefined)
}

function relayTo(
  target: Target | string,
  request: Request,
  params: Params,
  route: Route,
  context: RequestContext,
  done: OnAnswer,
): Answering {
  const { gateway, client } = context
  const fail = (reason: string) => done(failed(request, new BackendError(route.slug, reason), context))
  if (typeof target === "string") return fail(target)
  if (target.connection.inFlight >= gateway.maxInFlight)
    return fail(`has ${gateway.maxInFlight} requests in flight already; try again later`)
  const { id, tuning } = target.spec
  const wait =
    tuning.rateLimit === undefined || !CALLS.has(request.method)
      ? undefined
      : gateway.callRate.take(`server ${id}`, tuning.rateLimit)
  if (wait !== undefined) return fail(`is called more often than it may be; try again in ${wait} s`)
  if ((client.inFlight ?? 0) > gateway.maxInFlight)
    throw new RequestError("too_many", `This session has ${gateway.maxInFlight} requests in flight already`)
  const { session, logLevel } = client
  if (logLevel === undefined || client.era === "legacy" || target.peer.era === "modern")
    return call(request, params, target, route.mirrored, context, done)
  gateway.setLogLevel(session, logLevel)
  return call(request, params, target, route.mirrored, context, done).finally(() => gateway.dropLogLevel(session))
}

async function call(
  request: Request,
  params: Params,
  target: Target,
  mirrored: readonly MirroredHeader[],
  context: RequestContext,
  done: OnAnswer,
): Promise<Answer> {
  const { client } = context
  const { cancellation } = context.exchange
  const { meter } = context.gateway
  const { connection, peer, spec } = target
  const caller = new Relayed(target, context)
  const token = metaOf(params)?.progressToken
  const progressToken = isId(token) ? token : undefined
  const { method } = request
  // A legacy backend has made no state, and what svc makes for it never comes this far.
  if (client.era === "modern" && peer.era === "legacy" && params.requestState !== undefined) throw foreignState()
  try {
    let sent = adaptParams(openTask(params, spec, context), client, peer.era)
    for (let round = 0; ; round++) {
      if (cancellation.reason !== undefined) throw new BackendError(spec.name, cancellation.reason)
      if (round >= MAX_ROUNDS) throw new BackendError(spec.name, `asked for input ${MAX_ROUNDS} times`)
      const headers = peer.era === "modern" ? mirrorHeaders(method, sent, mirrored) : undefined
      const flight = connection.request({
        method,
        params: sent,
        caller,
        progressToken,
        // It is there to wait for the end of a task.
        timeout: method === "tasks/result" ? Number.POSITIVE_INFINITY : spec.tuning.requestTimeout,
        headers,
        onsent: meter && ((text) => meter.passed("in", Buffer.byteLength(text))),
      })
      const cancel = (reason: string) => connection.cancel(flight.number, new BackendError(spec.name, reason))
      cancellation.onabort(cancel)
      const outcome = await flight.outcome
      cancellation.offabort(cancel)
      const finished = finish(request, outcome, target, context)
      if (finished.kind === "task") {
        const owner = recordOwnership("task", finished.task, target, context)
        // A process of svc's own ends with svc, and its tasks with it.
        if (spec.launch.transport !== "stdio") context.gateway.rememberTask(spec.id, finished.task, client.session)
        if (owner !== undefined && progressToken !== undefined)
          connection.keepProgress(flight.number, owner, progressToken)
      }
      if (finished.kind !== "input") return done(finished.answer)
      // A modern backend asks a legacy client: svc puts the questions and tries again with the answers.
      sent = await fulfilInputRequired(sent, finished.result, context, connection.clock)
    }
  } catch (error) {
    if (error instanceof BackendError) return done(failed(request, error, context))
    throw error
  }
}

type Finish =
  | { readonly kind: "done"; readonly answer: Answer }
  | { readonly kind: "task"; readonly answer: Answer; readonly task: string }
  | { readonly kind: "input"; readonly result: Params }

/** How often a backend may answer that it needs input first: one that always does would keep svc busy for ever. */
const MAX_ROUNDS = 100
const NEEDLE_URI = encode('"uri"')
const NEEDLE_TASK = encode('"taskId"')
const NEEDLE_RESULT_TYPE = encode('"resultType"')
const NEEDLE_INPUT = encode('"input_required"')
const COMPLETE = encode('"resultType":"complete"')
const COMPLETE_UNCACHED = encode('"resultType":"complete","ttlMs":0,"cacheScope":"private"')

function finish(request: Request, outcome: RequestOutcome, target: Target, context: RequestContext): Finish {
  const { client } = context
  const { peer, spec } = target
  const qualified = client.scope.kind === "aggregate"
  const cacheable = request.method === "resources/read"
  const isToolCall = request.method === "tools/call"
  const bytes = outcome.kind === "frame" ? asBuffer(outcome.frame) : undefined
  // Some modern servers forget what each of their results must have. In bytes, a name that stands deeper passes for it.
  const completes =
    client.era === "modern" && (peer.era === "legacy" || (bytes !== undefined && !contains(bytes, NEEDLE_RESULT_TYPE)))
  if (outcome.kind === "frame" && bytes !== undefined) {
    const { frame, answer } = outcome
    const slow =
      (qualified && contains(bytes, NEEDLE_URI)) ||
      contains(bytes, NEEDLE_TASK) ||
      (completes && contains(bytes, NEEDLE_RESULT_TYPE)) ||
      (peer.era === "modern" && client.era === "legacy" && contains(bytes, NEEDLE_INPUT)) ||
      hasEscapedLetters(bytes)
    if (!slow) {
      const members = completes ? (cacheable ? COMPLETE_UNCACHED : COMPLETE) : undefined
      const relayed = withResponseId(frame, answer, encode(JSON.stringify(request.id)), members)
      return { kind: "done", answer: isToolCall ? new RelayedResult(relayed) : { frame: relayed, outcome: "ok" } }
    }
  }
  const message = parsed(outcome, spec.name)
  const names = namesFor(spec, context)
  if (message.error !== undefined) {
    const { code, written, message: text, data } = peerError(message.error)
    const adapted = adaptCode(request.method, code, data, client.era)
    for (const id of elicitationsOf(data)) recordOwnership("elicitation", id, target, context)
    const shown = rewriteErrorData(data, names)
    return { kind: "done", answer: errorAnswer(request.id, adapted === code ? written : adapted, text, shown) }
  }
  const result = isObject(message.result) ? message.result : {}
  if (peer.era === "modern" && client.era === "legacy" && result.resultType === "input_required")
    return { kind: "input", result }
  const named = rewriteResult(request.method, result, names)
  const whole =
    client.era === "modern" && (peer.era === "legacy" || result.resultType === undefined)
      ? { resultType: "complete", ...(cacheable ? { ttlMs: 0, cacheScope: "private" } : {}), ...named }
      : named
  const answer: Answer = {
    frame: JSON.stringify({ ...message, id: request.id, result: whole }),
    outcome: isToolCall && result.isError === true ? "tool_error" : "ok",
  }
  const task = isToolCall ? createdTask(result) : undefined
  return task === undefined ? { kind: "done", answer } : { kind: "task", answer, task }
}

/** Throws a BackendError where the backend's frame cannot be parsed. */
function parsed(outcome: RequestOutcome, server: string): Response {
  try {
    return responseOf(outcome)
  } catch (cause) {
    throw new BackendError(server, messageOf(cause), { cause })
  }
}

/** Remembers whose something is that the backend will speak of by its id; gives the way to them outside of the call. */
function recordOwnership(
  kind: Ownership["kind"],
  id: string,
  target: Target,
  context: RequestContext,
): Caller | undefined {
  const { gateway, client } = context
  const { spec } = target
  const caller = client.owner === undefined ? undefined : new Relayed(target, { ...context, exchange: client.owner })
  const shared = caller === undefined || spec.tuning.isolation !== "session"
  gateway.taskOwners.make({ kind, backend: spec.id, id, owner: ownerOf(client), caller, shared })
  return caller
}

/** What a client says with the task that it belongs to as its backend names it. Throws a RequestError for another's. */
function openTask(said: Params, { id, slug }: ServerSpec, context: RequestContext): Params {
  return renameTask(said, (shown) => {
    const split = isQualified(context.client) ? splitName(shown) : { slug, name: shown }
    const task = split?.slug === slug ? openTaskId(split.name, id, context) : undefined
    if (task === undefined) throw unknownName("task", shown, undefined)
    return task
  })
}

/** 2025-11-25: the pages that a person must visit before the call can be made. client: Elicitation, URL Mode. */
function elicitationsOf(data: unknown): readonly string[] {
  const listed = isObject(data) && Array.isArray(data.elicitations) ? data.elicitations : []
  return listed.flatMap((one: unknown) =>
    isObject(one) && typeof one.elicitationId === "string" ? [one.elicitationId] : [],
  )
}

/** basic: Streamable HTTP, Standard Request Headers and Custom Headers from Tool Parameters. */
function mirrorHeaders(
  method: string,
  params: Params,
  mirrored: readonly MirroredHeader[],
): Record<string, string> | undefined {
  const name = method === "resources/read" ? params.uri : method.startsWith("tasks/") ? params.taskId : params.name
  if (typeof name !== "string") return undefined
  return { "mcp-name": encodeHeader(name), ...paramHeaders(params.arguments, mirrored) }
}

/** The caller of a relayed request. A class, for its functions are not to be made for every call. */
class Relayed implements Caller {
  readonly session: object
  constructor(
    private readonly target: Target,
    private readonly context: RequestContext,
  ) {
    this.session = context.client.session
  }

  notify(method: string, params: Params): void {
    const { client, exchange } = this.context
    if (method === "notifications/message" && !wantsLog(client, params.level)) return
    const shown = rewriteNotification(method, params, namesFor(this.target.spec, this.context))
    exchange.notify(notificationText(method, shown))
  }

  async ask(...[method, params, signal, onprogress]: Parameters<Caller["ask"]>): Promise<unknown> {
    const { exchange } = this.context
    const { spec } = this.target
    if (typeof params?.elicitationId === "string")
      recordOwnership("elicitation", params.elicitationId, this.target, this.context)
    const named = params === undefined ? undefined : renameTask(params, namesFor(spec, this.context).task)
    const answer = await exchange.ask(method, named, signal, onprogress)
    return isObject(answer) ? openTask(answer, spec, this.context) : answer
  }

  isConnected(): boolean {
    return this.context.exchange.isConnected?.() !== false
  }

  giveUpIfStale(now: number, others: boolean): void {
    this.context.exchange.giveUpIfStale?.(now, others)
  }
}

const isQualified = (client: Client): boolean => client.scope.kind === "aggregate"

/** Whether a client wants a log message of this level. modern clients that name none get none. */
export function wantsLog(
  client: { readonly era: Era; readonly logLevel: string | undefined },
  level: unknown,
): boolean {
  if (client.logLevel === undefined) return client.era === "legacy"
  return severityOf(level) >= severityOf(client.logLevel)
}

/** For a state that nobody who could be meant has made. */
export const foreignState = (): RequestError =>
  new RequestError(
    "invalid_params",
    "requestState was changed, or svc was restarted since it was made: send the request again without it",
  )

/** For callers that must name a request they cannot pass on. */
export const unknownName = (what: string, name: unknown, near: string | undefined): RequestError =>
  new RequestError(
    "invalid_params",
    `Unknown ${what}: ${asText(name).slice(0, 200)}${near === undefined ? "" : `. Did you mean ${near}?`}`,
  )

export const unknownMethod = (method: string): RequestError =>
  new RequestError("unknown_method", `Method not found: ${method.slice(0, 200)}`)
