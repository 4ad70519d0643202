/**
 * One MCP connection to a backend over a link: our requests and who asked for each, its notifications and its questions.
 *
 *  1. A success response passes as the bytes it came in, once they are known to be that and nothing else; everything else is
 *     parsed. What is no message fails the request that it names.
 *  2. Every request ends exactly once: with an answer, a failure of its transport, its timeout, or the end of the link.
 *  3. What belongs to a call reaches its caller alone; attribution.ts decides which call it belongs to. A client that was
 *     asked and has been away for long makes room for the others.
 */
import { isUtf8 } from "node:buffer"
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Clock } from "../lib/clock.ts"
import { BackendError, messageOf, RequestError } from "../lib/errors.ts"
import { numberOf } from "../lib/json.ts"
import { META_SUBSCRIPTION, META_TASK } from "../wire/era.ts"
import { decode, type FramedResponse, messagesIn, parseFrame, type RequestIds, repeatsMember } from "../wire/frame.ts"
import {
  asMessage,
  type ErrorObject,
  errorText,
  type Id,
  isId,
  isObject,
  isRequest,
  isResponse,
  keyOfId,
  type Message,
  metaOf,
  type Notification,
  notificationText,
  type Params,
  type Request,
  type Response,
  resultText,
} from "../wire/message.ts"
import { Attribution, type Caller, type Flight } from "./attribution.ts"
import type { Link, Loss } from "./link.ts"

export type OutboundRequest = {
  readonly method: string
  /** As the backend is to see them, but for the progress token. */
  readonly params: Params
  readonly caller: Caller | undefined
  /** The caller's own token, if it wants progress. */
  readonly progressToken?: Id | undefined
  /** Milliseconds; progress starts it anew. Infinity for a stream. */
  readonly timeout: number
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Told what was sent, where somebody counts it. */
  readonly onsent?: ((text: string) => void) | undefined
}

/** How a request ended with an answer: as bytes with our id in them, or parsed. */
export type RequestOutcome =
  | { readonly kind: "frame"; readonly frame: Uint8Array; readonly answer: FramedResponse }
  | { readonly kind: "message"; readonly message: Response; readonly size: number }

/** A JSON-RPC error that the backend answered with. */
export class PeerError extends Error {
  override readonly name = "PeerError"
  readonly code: number
  constructor(
    /** The code as the peer writes it. */
    readonly written: ErrorObject["code"],
    message: string,
    readonly data?: unknown,
  ) {
    super(message)
    this.code = Number(written)
  }
}

export type ConnectionHooks = {
  /** A notification, with its caller where it belongs to one; progress goes to the caller by itself. */
  onnotification(method: string, params: Params, caller: Caller | undefined): void
  /** Something on the line that is no message: what is wrong with it, and its start. */
  onprotocolerror(text: string): void
  /** The only client of this connection, where it has one: its questions outside of calls go there. */
  readonly owner: Caller | undefined
  /** Whose a task of the backend is. */
  readonly callerOfTask?: ((taskId: string) => Caller | undefined) | undefined
  /** Asks for a sign of life, at once, and resolves when it is there. */
  ping?(timeout: number): Promise<void>
}

export type InFlight = { readonly number: number; readonly outcome: Promise<RequestOutcome> }

type PendingRequest = Flight & {
  readonly progressToken: Id | undefined
  readonly timeout: number
  deadline: number
  resolve(outcome: RequestOutcome): void
  reject(error: Error): void
}

export class Connection {
  /** When the last frame went either way, milliseconds since the epoch. */
  lastTraffic: number
  /** When a client's request last went out or was answered, milliseconds since the epoch. */
  lastUsed: number
  private readonly pending = new Map<number, PendingRequest>()
  private readonly serverRequests = new Map<
    string,
    { readonly controller: AbortController; readonly session: object }
  >()
  private readonly attribution = new Attribution()
  /** Pings in flight that mark cancellations. */
  private marks = 0
  /** Callers that are told of progress after their call was answered, for it became a task. */
  private readonly taskProgress = new BoundedMap<number, Pick<PendingRequest, "caller" | "progressToken">>(
    MAX_TASK_PROGRESS,
  )
  /** When a call came last while another client was being asked and could not be told apart from it. */
  private ambiguousSince = Number.NEGATIVE_INFINITY
  private link: Link | undefined
  private lost: Error | undefined
  private cancelSweep: (() => void) | undefined

  constructor(
    readonly server: string,
    private readonly ids: RequestIds,
    readonly clock: Clock,
    private readonly hooks: ConnectionHooks,
  ) {
    this.lastTraffic = clock.now()
    this.lastUsed = this.lastTraffic
  }

  attach(link: Link): void {
    this.link = link
  }

  get pid(): number | undefined {
    return this.link?.pid
  }

  get inFlight(): number {
    return this.pending.size - this.marks
  }

  /** Whether a request of the backend waits for a client's answer. */
  get isAsking(): boolean {
    return this.serverRequests.size > 0
  }

  get buffered(): number {
    return this.link?.buffered ?? 0
  }

  /** Sends a request. The promise rejects with a BackendError or, for a 401, with what the link failed with. */
  request(call: OutboundRequest): InFlight {
    const number = this.ids.next()
    const outcome = new Promise<RequestOutcome>((resolve, reject) => {
      if (this.lost !== undefined || this.link === undefined) {
        reject(this.lost ?? new BackendError(this.server, "is not connected"))
        return
      }
      const now = this.clock.now()
      this.lastTraffic = now
      const { method, caller, progressToken, timeout } = call
      if (caller !== undefined) this.lastUsed = now
      const { name } = call.params
      const deadline = now + timeout
      this.pending.set(number, { method, name, caller, since: now, progressToken, timeout, deadline, resolve, reject })
      this.armSweep()
      if (this.serverRequests.size > 0 && !this.hasRequestStreams && this.attribution.isCrowded(this.pending, now))
        this.ambiguousSince = now
      const text = requestText(this.ids.text(number), call)
      call.onsent?.(text)
      this.link.send(text, { number, method, ...withHeaders(call.headers) })
    })
    return { number, outcome }
  }

  /** A request of svc's own; gives its result. Rejects with a PeerError where the backend answers with an error. */
  async ask(
    method: string,
    params: Params,
    timeout: number,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Params> {
    return resultOf(await this.request({ method, params, caller: undefined, timeout, headers }).outcome)
  }

  /** The call went on as a task: its progress is still told. */
  keepProgress(number: number, caller: Caller, progressToken: Id): void {
    this.taskProgress.set(number, { caller, progressToken })
  }

  notify(method: string, params?: Params): void {
    this.link?.send(notificationText(method, params), { number: undefined, method })
  }

  /** Tells the backend that nobody waits any more; the request's promise rejects with `error`. */
  cancel(number: number, error: Error): void {
    const pending = this.pending.get(number)
    if (pending === undefined) return
    this.pending.delete(number)
    this.sendCancel(number, error.message)
    if (pending.caller !== undefined && this.hooks.owner === undefined) this.doubt(number, pending)
    pending.reject(error)
  }

  /** Ends every request; nothing is sent any more. */
  end(loss: Loss): void {
    if (this.lost !== undefined) return
    this.lost = new BackendError(this.server, loss.reason)
    this.cancelSweep?.()
    this.cancelSweep = undefined
    for (const { controller } of this.serverRequests.values()) controller.abort(this.lost)
    this.serverRequests.clear()
    const pending = [...this.pending.values()]
    this.pending.clear()
    for (const { reject } of pending) reject(this.lost)
  }

  /** Whether a request is not answered yet. */
  isPending(number: number): boolean {
    return this.pending.has(number)
  }

  /** The transport failed one request. */
  fail(number: number, error: Error): void {
    const pending = this.pending.get(number)
    if (pending === undefined) return
    this.pending.delete(number)
    pending.reject(error)
  }

  /** A message came that was too large to be kept; the request it answers fails, and no other. */
  receiveOversized(edges: Uint8Array, related?: number): void {
    const number = this.ids.findInEdges(edges) ?? related
    if (number === undefined) this.hooks.onprotocolerror("more than --max-result allows")
    else this.fail(number, new BackendError(this.server, "answered with more than --max-result allows"))
  }

  /** One frame of the backend. Never throws: what is no message fails the request that it names, and no other. */
  receive(frame: Uint8Array, related?: number): void {
    const answer = this.ids.matchResponse(frame)
    // Bytes that are no UTF-8 are not passed on: a client may be lost over them.
    if (answer !== undefined && isUtf8(frame)) {
      this.settle(answer.number, { kind: "frame", frame, answer })
      return
    }
    try {
      for (const one of messagesIn(frame)) this.take(one, related)
    } catch (error) {
      this.rejectFrame(frame, messageOf(error))
    }
  }

  // ---

  /** Whether the transport says which call a message belongs to. */
  private get hasRequestStreams(): boolean {
    return this.link?.abandon !== undefined
  }

  /** One message, which may have been one of a batch. */
  private take(frame: Uint8Array, related: number | undefined): void {
    let value: unknown
    let message: Message
    try {
      value = parseFrame(frame)
      if (repeatsMember(frame)) throw new Error("sent a message that has a member twice")
      message = asMessage(value)
    } catch (error) {
      const reason = error instanceof RequestError ? "sent something that is no message" : messageOf(error)
      this.rejectFrame(frame, reason, isObject(value) ? this.ids.parse(value.id) : undefined)
      return
    }
    this.route(message, frame.length, related)
  }

  /** A frame that is no message. Where one of ours is named in it, its caller need not wait for what does not come. */
  private rejectFrame(frame: Uint8Array, reason: string, named?: number): void {
    const number =
      named ??
      this.ids.findInEdges(frame.subarray(0, EXCERPT_BYTES)) ??
      this.ids.findInEdges(frame.subarray(-EXCERPT_BYTES))
    if (number !== undefined && this.pending.has(number)) this.fail(number, new BackendError(this.server, reason))
    else this.hooks.onprotocolerror(`${reason}: ${decode(frame.subarray(0, EXCERPT_BYTES))}`)
  }

  private settle(number: number, outcome: RequestOutcome): void {
    const now = this.clock.now()
    const pending = this.pending.get(number)
    if (pending === undefined) {
      this.attribution.answered(number, now)
      return
    }
    this.pending.delete(number)
    this.lastTraffic = now
    if (pending.caller !== undefined) this.lastUsed = this.lastTraffic
    this.attribution.settled(pending, this.pending, this.hasServerRequest(pending.caller), now)
    pending.resolve(outcome)
  }

  private route(message: Message, size: number, related: number | undefined): void {
    if (isResponse(message)) {
      const { error, id } = message
      // An error without an id answers something that the peer could not read; where its stream says which, it is that.
      const number = this.ids.parse(id) ?? (id == null && error !== undefined ? related : undefined)
      if (number !== undefined) this.settle(number, { kind: "message", message: this.withError(message), size })
      else {
        const what = JSON.stringify(error?.message ?? id) ?? "without an id"
        this.hooks.onprotocolerror(`answered what svc did not ask: ${what.slice(0, EXCERPT_BYTES)}`)
      }
      return
    }
    this.lastTraffic = this.clock.now()
    if (isRequest(message)) {
      void this.answer(message.id, message.method, message.params, this.attribute(message, related))
      return
    }
    const params = message.params ?? {}
    switch (message.method) {
      case "notifications/progress":
        this.progress(params)
        return
      case "notifications/cancelled": {
        const id = params.requestId
        if (isId(id)) this.serverRequests.get(keyOfId(id))?.controller.abort(new Error("cancelled"))
        return
      }
      default:
        this.hooks.onnotification(message.method, params, this.attribute(message, related))
    }
  }

  /** The response; an error that lacks its code or its words goes on with what it has of them, under the server's name. */
  private withError(message: Response): Response {
    const { error } = message
    if (error === undefined || (Number.isSafeInteger(numberOf(error.code)) && typeof error.message === "string"))
      return message
    const words = typeof error.message === "string" ? `: ${error.message}` : ""
    return {
      ...message,
      error: { ...error, code: -32603, message: `${this.server}: answered with a malformed error${words}` },
    }
  }

  private progress(params: Params): void {
    const number = this.ids.parse(params.progressToken)
    if (number === undefined) return
    const pending = this.pending.get(number)
    if (pending !== undefined) pending.deadline = this.clock.now() + pending.timeout
    else this.attribution.progressed(number, this.clock.now())
    const { caller, progressToken } = pending ?? this.taskProgress.get(number) ?? {}
    if (progressToken !== undefined) caller?.notify("notifications/progress", { ...params, progressToken })
  }

  /** The client of a message; undefined if no client is meant, NOBODY if the message must reach none. */
  private attribute(message: Request | Notification, related: number | undefined): Caller | undefined {
    const { owner, callerOfTask } = this.hooks
    const named = metaOf(message.params)?.[META_TASK]
    const id = isObject(named) && typeof named.taskId === "string" ? named.taskId : undefined
    const task = id === undefined ? undefined : (callerOfTask?.(id) ?? ("unknown" as const))
    const question = isRequest(message) ? message.method : undefined
    const incoming = { related, owner, task, question }
    const caller = this.attribution.attribute(incoming, this.pending, this.clock.now())
    if (caller === "none") return undefined
    return caller === "unknown" ? UNKNOWN_CALLER : caller
  }

  /** A cancelled call may go on: a ping sent behind the cancellation shows when the backend has read it. */
  private doubt(number: number, flight: Flight): void {
    // A transport with a stream for each call keeps no order between them.
    const ping = this.hasRequestStreams ? undefined : this.hooks.ping?.(PING_MS)
    this.attribution.abandon(number, flight, ping !== undefined, this.clock.now())
    if (ping === undefined) return
    this.marks++
    ping
      .catch(heard)
      .then(() => this.attribution.read(number, this.clock.now()))
      .catch(() => undefined)
      .finally(() => this.marks--)
  }

  private async answer(id: Id, method: string, params: Params | undefined, caller: Caller | undefined): Promise<void> {
    const reply = (text: string) => this.link?.send(text, { number: undefined, method: undefined })
    if (method === "ping") return reply(resultText(id, "{}"))
    if (caller === undefined || caller === UNKNOWN_CALLER) {
      // Servers ask for roots as soon as they are initialized; with no caller there is no client whose roots they are.
      if (method === "roots/list") return reply(resultText(id, '{"roots":[]}'))
      return reply(errorText(id, -32603, unattributedMessage(caller)))
    }
    if (this.serverRequests.size >= MAX_SERVER_REQUESTS)
      return reply(errorText(id, -32603, "Too many open requests to clients"))
    const controller = new AbortController()
    const key = keyOfId(id)
    this.serverRequests.set(key, { controller, session: caller.session })
    const token = metaOf(params)?.progressToken
    const onprogress = (said: Params) => this.notify("notifications/progress", { ...said, progressToken: token })
    try {
      const result = await caller.ask(method, params, controller.signal, token === undefined ? undefined : onprogress)
      if (!controller.signal.aborted) reply(resultText(id, JSON.stringify(result ?? {})))
    } catch (error) {
      if (controller.signal.aborted) return
      const { code, message, data } = errorOf(error)
      reply(errorText(id, code, message, data))
    } finally {
      this.serverRequests.delete(key)
    }
  }

  private hasServerRequest(caller: Caller | undefined): boolean {
    for (const { session } of this.serverRequests.values()) if (session === caller?.session) return true
    return false
  }

  private sendCancel(number: number, reason: string): void {
    if (this.link?.abandon !== undefined) this.link.abandon(number)
    else this.notify("notifications/cancelled", { requestId: this.ids.text(number), reason })
  }

  /** One coarse timer for all requests: a timer for each would cost more than relaying it. */
  private armSweep(): void {
    if (this.cancelSweep !== undefined) return
    this.cancelSweep = this.clock.after(SWEEP_MS, () => {
      this.cancelSweep = undefined
      const now = this.clock.now()
      const others = now - this.ambiguousSince < AMBIGUOUS_MS
      for (const [number, pending] of this.pending) {
        // While the backend waits for a person, its time does not run.
        if (this.serverRequests.size > 0 && this.hasServerRequest(pending.caller)) {
          pending.deadline = now + pending.timeout
          pending.caller?.giveUpIfStale?.(now, others)
        } else if (pending.deadline <= now)
          this.cancel(
            number,
            new BackendError(this.server, `did not answer ${pending.method} within ${pending.timeout} ms`),
          )
      }
      if (this.pending.size > 0) this.armSweep()
    })
  }
}

/** An answer, parsed. */
export const responseOf = (outcome: RequestOutcome): Response =>
  outcome.kind === "message" ? outcome.message : (parseFrame(outcome.frame) as Response)

/** The result object of an answer to svc itself. Throws a PeerError for an error answer. */
export function resultOf(outcome: RequestOutcome): Params {
  const message = responseOf(outcome)
  if (message.error !== undefined) throw peerError(message.error)
  return isObject(message.result) ? message.result : {}
}

export const peerError = (error: ErrorObject): PeerError =>
  new PeerError(
    Number.isSafeInteger(numberOf(error.code)) ? error.code : -32603,
    typeof error.message === "string" ? error.message : "error",
    error.data,
  )

/** The subscription that a modern notification belongs to. patterns: Subscriptions. */
export const subscriptionOf = (params: Params): unknown => metaOf(params)?.[META_SUBSCRIPTION]

/** The same without the mark of the subscription, which is svc's own. */
export function withoutSubscription(params: Params): Params {
  const meta = metaOf(params)
  if (meta?.[META_SUBSCRIPTION] === undefined) return params
  const { [META_SUBSCRIPTION]: _own, ...rest } = meta
  const { _meta, ...bare } = params
  return Object.keys(rest).length === 0 ? bare : { ...bare, _meta: rest }
}

const SWEEP_MS = 250
const EXCERPT_BYTES = 512
const MAX_SERVER_REQUESTS = 1000
const MAX_TASK_PROGRESS = 1000
/** A backend that is busy reads nothing; the doubt about a call is over by then. */
const PING_MS = 5 * 60_000
const AMBIGUOUS_MS = 60_000

const withHeaders = (headers: OutboundRequest["headers"]) => (headers === undefined ? {} : { headers })

function requestText(id: string, { method, params, progressToken }: OutboundRequest): string {
  const sent = progressToken === undefined ? params : { ...params, _meta: { ...metaOf(params), progressToken: id } }
  return `{"jsonrpc":"2.0","id":"${id}","method":${JSON.stringify(method)},"params":${JSON.stringify(sent)}}`
}

const unattributedMessage = (caller: Caller | undefined): string =>
  caller === undefined
    ? "No client call is in flight that this request could belong to"
    : 'Several clients are using this server, so it cannot be told whose request this is; set "isolation": "session" on the server'

/** An error is an answer, too. */
function heard(error: unknown): void {
  if (!(error instanceof PeerError)) throw error
}

/** Stands for a caller that is not known, among others that must not hear of it. */
const UNKNOWN_CALLER: Caller = {
  session: {},
  notify: () => undefined,
  ask: () => Promise.reject(new PeerError(-32603, "The call that this belongs to has ended")),
}

function errorOf(error: unknown): ErrorObject {
  if (error instanceof PeerError) return { code: error.written, message: error.message, data: error.data }
  return { code: -32603, message: error instanceof Error ? error.message : "internal error" }
}
