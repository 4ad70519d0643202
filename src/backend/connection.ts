/**
 * One MCP connection to a backend over a transport: the requests of svc and its clients, and the backend's notifications and
 * server requests.
 *
 *  1. A success response is passed on as the bytes it came in, after a check that they are exactly one. Everything else is
 *     parsed. An invalid message fails the request that it names.
 *  2. Every request ends exactly once: with an answer, a transport failure, its timeout, its cancellation, or the end of the
 *     transport (pending-requests.ts).
 *  3. The owner of a call may take a large answer while it arrives (OutboundRequest.onlarge). A frame without its id before its
 *     result is read whole: even if only one request is pending, the frame may be a late or a second answer to another client's.
 *  4. A message that belongs to a call reaches only the call's client; attribution.ts decides which, and server-requests.ts
 *     carries requests to it.
 */
import { isUtf8 } from "node:buffer"
import { BoundedMap } from "../lib/bounded-map.ts"
import { type Clock, formatDuration } from "../lib/clock.ts"
import { BackendError, messageOf, RequestError, RPC_CODE } from "../lib/errors.ts"
import { numberOf } from "../lib/json.ts"
import { cutText } from "../lib/text.ts"
import { META_SUBSCRIPTION, META_TASK } from "../wire/era.ts"
import { decode, type FrameSink, messagesIn, parseFrame, type RequestIds, repeatsMember } from "../wire/frame.ts"
import {
  asMessage,
  type Id,
  isId,
  isObject,
  isRequest,
  isResponse,
  type Message,
  metaOf,
  type Notification,
  notificationText,
  type Params,
  type Request,
  type Response,
} from "../wire/message.ts"
import { Attribution, type Caller, type Verdict } from "./attribution.ts"
import { type ClientTransport, type Loss, type Outgoing, TimedOutError } from "./client-transport.ts"
import { peerError } from "./peer-error.ts"
import {
  type AnswerTaker,
  isPing,
  type PendingRequest,
  PendingRequests,
  type RequestOutcome,
} from "./pending-requests.ts"
import { recipientOf, ServerRequests } from "./server-requests.ts"
import type { RecordMessage } from "./wire-log.ts"

export type OutboundRequest = {
  readonly method: string
  /** As the backend gets them, except for the progress token. */
  readonly params: Params
  /** Undefined for a request of svc's own. */
  readonly caller: Caller | undefined
  /** The caller's own token, if it wants progress. */
  readonly progressToken?: Id | undefined
  /** Milliseconds; progress resets it. Infinity for a stream. */
  readonly timeout: number
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Called with the text that was sent. */
  readonly onsent?: ((text: string) => void) | undefined
  /**
   * Offers a large unfinished answer, which is certainly the answer to this request. Takes `head`, all that has arrived, and
   * returns a taker for the rest; returns undefined, or throws, to have the answer buffered whole.
   */
  readonly onlarge?: ((head: Uint8Array) => AnswerTaker | undefined) | undefined
}

export type ConnectionHooks = {
  /** A notification, with the caller that it belongs to, if any. Progress is sent to its caller and not reported here. */
  onnotification(method: string, params: Params, caller: Caller | undefined): void
  /** Reports an invalid message that names no request: its fault and its start. The receiver must redact, then cut the text. */
  onprotocolerror(text: string): void
  /** The only client of a dedicated connection: it gets server requests outside of calls too. */
  readonly owner: Caller | undefined
  /** Returns the client that created a task of the backend. */
  readonly callerOfTask?: ((taskId: string) => Caller | undefined) | undefined
  /** The backend has answered a request after the transport had failed one. */
  onrecovered?(): void
  /** Returns what records the messages of the connection; undefined if nobody watches. */
  recorder?(): RecordMessage | undefined
  /** Pings the backend at once. Resolves with any result, rejects with a PeerError for an error answer. */
  ping?(timeout: number): Promise<void>
}

/** A request that was sent. `number` is its id in `cancel`. */
export type SentRequest = { readonly number: number; readonly outcome: Promise<RequestOutcome> }

export class Connection {
  /** When the backend last sent anything, milliseconds since the epoch. */
  lastReceived: number
  /** When a client's request last went out or was answered, milliseconds since the epoch. */
  lastUsed: number
  /** Until when the process must not sleep, in milliseconds since the epoch. */
  keptUntil = 0
  private waitingForInput = 0
  /** Whether a client's request has gone out. */
  isUsed = false
  /** svc's requests that wait for their answers, by number. */
  private readonly pending: PendingRequests
  private readonly attribution = new Attribution()
  private readonly serverRequests: ServerRequests
  /** Whether the transport has failed a request since the last answer to a request other than a ping. */
  private hasFailed = false
  /** Callers that get progress after the answer, because their call became a task. */
  private readonly taskProgress = new BoundedMap<number, Pick<PendingRequest, "caller" | "progressToken">>(
    MAX_TASK_PROGRESS,
  )
  private transport: ClientTransport | undefined
  private knownGeneration: string | undefined
  private lost: Error | undefined
  private cancelSweep: (() => void) | undefined

  constructor(
    readonly server: string,
    private readonly ids: RequestIds,
    readonly clock: Clock,
    private readonly hooks: ConnectionHooks,
  ) {
    this.pending = new PendingRequests(clock, {
      onbytes: () => this.noteReceived(),
      onanswer: (number, frame, size) => this.passed(number, frame, size),
      oninvalid: (number, error) => {
        this.transport?.abandon?.(number)
        this.fail(number, new BackendError(this.server, reasonOf(error)))
      },
      onbroken: (number, error) => this.fail(number, new BackendError(this.server, error.message)),
      onlate: (number) => this.noteLateAnswer(number),
      onsecond: (request) => this.reportSecondAnswer(request),
    })
    this.serverRequests = new ServerRequests({
      clock,
      attribution: this.attribution,
      pending: this.pending,
      send: (text) => this.send(text, { number: undefined, method: undefined }),
      progress: (params) => this.notify("notifications/progress", params),
      onanswered: () => this.pending.noteAnswered(),
    })
    this.lastReceived = clock.now()
    this.lastUsed = this.lastReceived
  }

  /** Sets the transport that requests are sent over. */
  attach(transport: ClientTransport): void {
    this.transport = transport
  }

  /** Text that no other connection has, in any run of svc. */
  get generation(): string {
    this.knownGeneration ??= this.ids.text(this.ids.next())
    return this.knownGeneration
  }

  get pid(): number | undefined {
    return this.transport?.pid
  }

  /** The number of requests that wait for their answers. */
  get inFlight(): number {
    return this.pending.size
  }

  /** Whether a server request waits for its answer, or a call for the input that its result requested. */
  get isAsking(): boolean {
    return this.serverRequests.size > 0 || this.waitingForInput > 0
  }

  /** Keeps the process from sleeping for some milliseconds: a client may send input to it. */
  keepFor(ms: number): void {
    this.keptUntil = this.clock.now() + ms
  }

  /** Notes that a call waits for input, which this process requested in a result. The returned function ends that. */
  waitForInput(): () => void {
    this.waitingForInput++
    return () => {
      this.waitingForInput--
      this.lastUsed = this.clock.now()
    }
  }

  /** Bytes that the backend has not read yet. */
  get buffered(): number {
    return this.transport?.buffered ?? 0
  }

  /** Sends a request. Its outcome rejects with a BackendError or, for a 401, with the transport's error. */
  request(call: OutboundRequest): SentRequest {
    const number = this.ids.next()
    const outcome = new Promise<RequestOutcome>((resolve, reject) => {
      if (this.lost !== undefined || this.transport === undefined) {
        reject(this.lost ?? new BackendError(this.server, "is not connected"))
        return
      }
      const now = this.clock.now()
      const { method, caller, progressToken, timeout, onlarge } = call
      if (caller !== undefined) {
        this.lastUsed = now
        this.isUsed = true
      }
      // Lists the members: a spread would copy them one by one.
      const pending: PendingRequest = {
        method,
        name: call.params.name,
        caller,
        progressToken,
        timeout,
        deadline: now + timeout,
        onlarge,
        phase: "waiting",
        resolve,
        reject,
      }
      this.pending.add(number, pending, now)
      this.armSweep()
      if (this.serverRequests.size > 0 && !this.hasRequestStreams) this.serverRequests.noteCall(now)
      const text = requestText(this.ids.text(number), call)
      call.onsent?.(text)
      this.send(text, call.headers === undefined ? { number, method } : { number, method, headers: call.headers })
    })
    return { number, outcome }
  }

  /** Sends a request of svc's own and returns its result. Rejects with a PeerError for an error answer. */
  async ask(
    method: string,
    params: Params,
    timeout: number,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Params> {
    return resultOf(await this.request({ method, params, caller: undefined, timeout, headers }).outcome)
  }

  /** Continues to send a caller the progress of its call after the answer, because the call became a task. */
  keepProgress(number: number, caller: Caller, progressToken: Id): void {
    this.taskProgress.set(number, { caller, progressToken })
  }

  /** Sends a notification. */
  notify(method: string, params?: Params): void {
    this.send(notificationText(method, params), { number: undefined, method })
  }

  /** Cancels a request at the backend, which gets the reason. Its outcome rejects with `error`. */
  cancel(number: number, error: Error, reason = error.message): void {
    const pending = this.pending.take(number)
    if (pending === undefined) return
    if (pending.caller !== undefined) this.lastUsed = this.clock.now()
    this.sendCancel(number, reason)
    // On one stream, the next message ends the line of an answer that has stopped, and is lost: let it be an answer to a ping.
    if (pending.phase === "passing" && !this.hasRequestStreams) this.hooks.ping?.(PING_MS).catch(() => undefined)
    if (this.hooks.owner === undefined) this.attribution.noteCancelled(number, pending, this.clock.now())
    pending.reject(error)
  }

  /** Ends every request. Nothing is sent any more. */
  end(loss: Loss): void {
    if (this.lost !== undefined) return
    this.lost = new BackendError(this.server, loss.reason)
    this.cancelSweep?.()
    this.cancelSweep = undefined
    this.serverRequests.end(this.lost)
    this.pending.end(this.lost)
  }

  /** Resolves when no client's request is pending, or the connection has ended. */
  drained(): Promise<void> {
    return this.pending.drained()
  }

  /** Whether a request waits for its answer. */
  isPending(number: number): boolean {
    return this.pending.get(number) !== undefined
  }

  /** Returns the id of a request, as the backend gets it. */
  idOf(number: number): string {
    return this.ids.text(number)
  }

  /** Whether an id that a backend sent is that of this request. */
  isIdOf(number: number, id: unknown): boolean {
    return this.ids.parse(id) === number
  }

  /** Returns the `name` in the params of a request that waits for its response. */
  nameOf(number: number): unknown {
    return this.pending.get(number)?.name
  }

  /** Returns the method of a request that waits for its response. */
  methodOf(number: number): string | undefined {
    return this.pending.get(number)?.method
  }

  /** Fails one request, because the transport did. */
  fail(number: number, error: Error): void {
    this.hasFailed = true
    this.pending.take(number)?.reject(error)
  }

  /** Notes that the backend has sent something, even if it is no message: it lives. */
  noteReceived(): void {
    this.lastReceived = this.clock.now()
    this.pending.noteReceived()
  }

  /**
   * Returns how many milliseconds requests have waited while nothing was received; undefined if none waits, or if the backend
   * itself waits: for a client's answer, or until a client has read more of a large answer.
   */
  get silentFor(): number | undefined {
    const since = this.serverRequests.size > 0 ? undefined : this.pending.silentSince
    return since === undefined ? undefined : this.clock.now() - Math.max(this.lastReceived, since)
  }

  /** Reports a fault of the backend to the operator, in words that may be the backend's. */
  report(text: string): void {
    this.hooks.onprotocolerror(text)
  }

  /** Fails the request that a message past the size limit answers. `edges` are the message's first and last bytes. */
  receiveOversized(edges: Uint8Array, related?: number): void {
    this.noteReceived()
    const number = this.ids.findInEdges(edges) ?? related
    if (number === undefined) this.hooks.onprotocolerror("sent more than --max-result allows")
    else this.fail(number, new BackendError(this.server, "answered with more than --max-result allows"))
  }

  /**
   * Offers a large unfinished frame to the owner of the request that it answers; returns undefined to have the frame buffered
   * whole. An answer to a request that does not wait is dropped while it arrives.
   */
  offer(head: Uint8Array): FrameSink | undefined {
    // A watcher sees whole messages.
    if (this.hooks.recorder?.() !== undefined) return undefined
    const number = this.ids.findInHead(head)
    return number === undefined ? undefined : this.pending.offer(number, head)
  }

  /** Takes one frame of the backend. Never throws: an invalid message fails only the request that it names. */
  receive(frame: Uint8Array, related?: number): void {
    this.hooks.recorder?.()?.("received", frame)
    const answer = this.ids.matchResponse(frame)
    // Bytes that are not UTF-8 are not passed on: they could end a client's connection.
    if (answer !== undefined && isUtf8(frame)) {
      this.settle(answer.number, { kind: "frame", frame, answer })
      return
    }
    this.noteReceived()
    try {
      for (const message of messagesIn(frame)) this.takeMessage(message, related)
    } catch (error) {
      this.rejectFrame(frame, messageOf(error))
    }
  }

  // ---

  private send(text: string, about: Outgoing): void {
    this.hooks.recorder?.()?.("sent", text)
    this.transport?.send(text, about)
  }

  private reportSecondAnswer({ method, name }: PendingRequest): void {
    const of = typeof name === "string" ? ` of ${cutText(name, MAX_NAME)}` : ""
    this.report(`sent a second answer to ${method}${of} while it sent the first; the second was dropped`)
  }

  /** Ends a request whose answer has passed to its taker. Throws an Error if the rest is not the answer to the request. */
  private passed(number: number, frame: Uint8Array, size: number): void {
    const message = checked(parseFrame(frame), frame)
    if (!isResponse(message) || this.ids.parse(message.id) !== number)
      throw new Error("sent an answer to another request in its place")
    this.settle(number, { kind: "message", message: this.withValidError(message), size }, "passing")
  }

  /** Whether the transport has a stream for each request, which tells the request of a message. */
  private get hasRequestStreams(): boolean {
    return this.transport?.abandon !== undefined
  }

  /** Takes one message of a frame, which may be a batch. */
  private takeMessage(frame: Uint8Array, related: number | undefined): void {
    let value: unknown
    let message: Message
    try {
      value = parseFrame(frame)
      message = checked(value, frame)
    } catch (error) {
      this.rejectFrame(frame, reasonOf(error), isObject(value) ? this.ids.parse(value.id) : undefined)
      return
    }
    this.route(message, frame.length, related)
  }

  /** Fails the request that an invalid message names, or reports the message if it names none. */
  private rejectFrame(frame: Uint8Array, reason: string, named?: number): void {
    const number =
      named ?? this.ids.findInEdges(frame.subarray(0, EDGE_BYTES)) ?? this.ids.findInEdges(frame.subarray(-EDGE_BYTES))
    if (number !== undefined && this.isPending(number)) this.fail(number, new BackendError(this.server, reason))
    else this.hooks.onprotocolerror(`${reason}: ${decode(frame.subarray(0, EXCERPT_BYTES))}`)
  }

  /** Ends a request with its answer. `phase`: of the request that the answer is for. */
  private settle(number: number, outcome: RequestOutcome, phase: PendingRequest["phase"] = "waiting"): void {
    const now = this.clock.now()
    this.lastReceived = now
    this.pending.noteReceived()
    const pending = this.pending.get(number)
    if (pending !== undefined && pending.phase !== phase) {
      this.reportSecondAnswer(pending)
      return
    }
    this.pending.take(number)
    if (pending === undefined) {
      this.noteLateAnswer(number, outcome.kind === "frame" || outcome.message.error === undefined)
      return
    }
    if (pending.caller !== undefined) this.lastUsed = now
    if (this.hasFailed && !isPing(pending.method)) {
      this.hasFailed = false
      this.hooks.onrecovered?.()
    }
    this.serverRequests.noteAnswered(number)
    pending.resolve(outcome)
  }

  /** Notes the answer to a request that is not pending: a cancelled call may have been answered after all. */
  private noteLateAnswer(number: number, succeeded = false): void {
    this.attribution.noteLateAnswer(number)
    // A cancelled call that ends with an error may have sent a server request before.
    if (succeeded) this.serverRequests.noteAnswered(number)
  }

  private route(message: Message, size: number, related: number | undefined): void {
    if (isResponse(message)) {
      const { error, id } = message
      // An error without an id answers a request that the backend could not read: the one on whose stream it came.
      const number = this.ids.parse(id) ?? (id == null && error !== undefined ? related : undefined)
      if (number !== undefined) this.settle(number, { kind: "message", message: this.withValidError(message), size })
      else {
        const excerpt = JSON.stringify(error?.message ?? id) ?? "without an id"
        this.hooks.onprotocolerror(`answered a request that svc did not send: ${excerpt.slice(0, EXCERPT_BYTES)}`)
      }
      return
    }
    if (isRequest(message)) {
      this.serverRequests.take(message, this.attribute(message, related))
      if (this.serverRequests.isHolding) this.armSweep()
      return
    }
    const params = message.params ?? {}
    switch (message.method) {
      case "notifications/progress":
        this.progress(params)
        return
      case "notifications/cancelled": {
        const { requestId, ...said } = params
        if (isId(requestId)) this.serverRequests.withdraw(requestId, said)
        return
      }
      default: {
        const verdict = this.attribute(message, related)
        this.hooks.onnotification(message.method, params, verdict === "none" ? undefined : recipientOf(verdict))
      }
    }
  }

  /** Returns the response. Completes an error without a code or a message, and names the server in it. */
  private withValidError(message: Response): Response {
    const { error } = message
    if (error === undefined || (Number.isSafeInteger(numberOf(error.code)) && typeof error.message === "string"))
      return message
    const reason = typeof error.message === "string" ? `: ${error.message}` : ""
    return {
      ...message,
      error: {
        ...error,
        code: RPC_CODE.internalError,
        message: `${this.server}: answered with a malformed error${reason}`,
      },
    }
  }

  private progress(params: Params): void {
    const number = this.ids.parse(params.progressToken)
    if (number === undefined) return
    const pending = this.pending.get(number)
    if (pending !== undefined) pending.deadline = this.clock.now() + pending.timeout
    const { caller, progressToken } = pending ?? this.taskProgress.get(number) ?? {}
    if (progressToken !== undefined) caller?.notify("notifications/progress", { ...params, progressToken })
  }

  private attribute(message: Request | Notification, related: number | undefined): Verdict {
    const { owner, callerOfTask } = this.hooks
    const meta = metaOf(message.params)?.[META_TASK]
    const id = isObject(meta) && typeof meta.taskId === "string" ? meta.taskId : undefined
    const task = id === undefined ? undefined : (callerOfTask?.(id) ?? ("unknown" as const))
    return this.attribution.attribute({ related, owner, task, message }, this.pending, this.clock.now())
  }

  private sendCancel(number: number, reason: string): void {
    if (this.transport?.abandon !== undefined) this.transport.abandon(number, reason)
    else this.notify("notifications/cancelled", { requestId: this.ids.text(number), reason })
  }

  /** Cancels a request that has reached its time limit. */
  private timeOut(number: number, pending: PendingRequest): void {
    const reason = timeoutMessage(pending)
    this.cancel(number, new TimedOutError(this.server, reason), reason)
  }

  /** Starts one coarse timer for all requests: a timer for each would cost more than relaying it. */
  private armSweep(): void {
    if (this.cancelSweep !== undefined) return
    this.cancelSweep = this.clock.after(SWEEP_MS, () => {
      this.cancelSweep = undefined
      const now = this.clock.now()
      const { serverRequests } = this
      for (const [number, pending] of this.pending.overdue(now, (client) => serverRequests.isAsking(client)))
        this.timeOut(number, pending)
      this.serverRequests.settleHeld(now)
      this.serverRequests.giveUpStale(now)
      if (this.pending.size > 0 || this.serverRequests.isHolding) this.armSweep()
    })
  }
}

/** Returns an answer, parsed. */
export const responseOf = (outcome: RequestOutcome): Response =>
  outcome.kind === "message" ? outcome.message : (parseFrame(outcome.frame) as Response)

/** Returns the result of an answer. Throws a PeerError for an error answer. */
export function resultOf(outcome: RequestOutcome): Params {
  const message = responseOf(outcome)
  if (message.error !== undefined) throw peerError(message.error)
  return isObject(message.result) ? message.result : {}
}

/** Returns the id of the subscription that a modern notification belongs to. patterns: Subscriptions. */
export const subscriptionOf = (params: Params): unknown => metaOf(params)?.[META_SUBSCRIPTION]

/** Returns the params without the subscription's id: the subscription is svc's own. */
export function withoutSubscription(params: Params): Params {
  const meta = metaOf(params)
  if (meta?.[META_SUBSCRIPTION] === undefined) return params
  const { [META_SUBSCRIPTION]: _own, ...rest } = meta
  const { _meta, ...bare } = params
  return Object.keys(rest).length === 0 ? bare : { ...bare, _meta: rest }
}

/** Returns a parsed frame as a message. Throws an Error if it is not a message, or repeats a member. */
function checked(value: unknown, frame: Uint8Array): Message {
  if (repeatsMember(frame)) throw new Error("sent a message with a duplicate member")
  return asMessage(value)
}

const reasonOf = (error: unknown): string =>
  error instanceof RequestError ? "sent an invalid message" : messageOf(error)

const SWEEP_MS = 250
/** The most characters of a tool's name in a report. */
const MAX_NAME = 200
const EDGE_BYTES = 512
/** More of a message than is logged, so that a secret at the cut is still recognized. */
const EXCERPT_BYTES = 4096
const MAX_TASK_PROGRESS = 1000
const PING_MS = 10_000
/** Matches text that needs no escapes in JSON. `JSON.stringify` would cost as much for it as for a small object. */
const PLAIN = /^[\w/]*$/

function requestText(id: string, { method, params, progressToken }: OutboundRequest): string {
  const own = progressToken === undefined ? params : { ...params, _meta: { ...metaOf(params), progressToken: id } }
  const quoted = PLAIN.test(method) ? `"${method}"` : JSON.stringify(method)
  return `{"jsonrpc":"2.0","id":"${id}","method":${quoted},"params":${JSON.stringify(own)}}`
}

/** Names the setting that limits a request of clients; the times of handshakes and pings are others. */
const setting = (method: string): string =>
  method === "initialize" || method === "ping" || method === "server/discover" ? "" : " (requestTimeout)"

const timeoutMessage = ({ method, timeout, phase }: PendingRequest): string =>
  phase === "passing"
    ? `nothing more of its answer to ${method} within ${formatDuration(timeout)}${setting(method)}: the server has stopped, or the client does not read`
    : `no answer to ${method} within ${formatDuration(timeout)}${setting(method)}`
