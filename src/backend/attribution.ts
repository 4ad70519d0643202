/**
 * Attributes a backend's message to a client. A stdio process that several clients share does not say which client a
 * message is for, and a wrong guess shows one client's data to another.
 *
 *  1. The stream of a call, the only client of a process, or the task that a message names decides, in this order.
 *  2. Any other message is for the only client with calls in flight. With calls of several clients: "unknown". With no
 *     call: "none". Of several calls of that client, the oldest that reaches the client now gets the message; a log message
 *     goes out once on each way back to the client.
 *  3. A cancelled call counts as in flight while the backend may continue it:
 *       until the backend has read the cancellation, as shown by its answer to a ping sent after it, LONG_MS at most;
 *       then for a grace period, if calls of its kind stop when they are cancelled (rule 4);
 *       then for as long as it had run, 5 to 30 s, if it is not known whether they stop;
 *       for LONG_MS in all, if they continue (rule 5).
 *     The answer to the call ends this at once. A call is also cancelled by a timeout, and by a client that disconnects or
 *     ends its session. The kind of a call is its method and name: what one tool does says nothing of another.
 *  4. Calls of a kind stop if a cancelled call stayed silent through the third period of rule 3, and another call explains
 *     each server request that came meanwhile (rule 6).
 *  5. Calls of a kind continue if a cancelled call is answered or reports progress after the backend has read the
 *     cancellation, or if a server request comes that no other call can have sent: no call is in flight, or the call that
 *     the server request was attributed to is answered while it is open. This is never unlearned.
 *  6. A call in flight explains a server request if the request was the only one during the call, the call was answered
 *     right after it, and four calls of the same kind did the same before, in a row and each alone in flight. A call that
 *     goes on after its server request was refused, or that sends none, ends the row.
 *  7. A call alone in flight also explains a server request, whatever the call does afterwards, if the request was the only
 *     one during the call, and 8 calls of the same kind in a row were alone, sent one request each, and sent it equally long
 *     after they began. A call counts for two if no call was cancelled for LONG_MS: then the request is certainly its own.
 *     Otherwise no cancelled calls may fit the row as well: equally long before each of its requests, by their beginning or
 *     their cancellation. The next connection to the same version of the server inherits the behaviour of each kind.
 *
 * One case remains: a cancelled call of a kind that is not known to continue stays silent for longer than rule 3 waits, and
 * then sends a server request while one other client has calls in flight. On the wire, the request looks like one of that
 * client's calls; `isolation: "session"` prevents the case.
 *
 * Deterministic: no clock, no timer, no I/O. Times are parameters, in milliseconds since the epoch.
 */
import { BoundedMap } from "../lib/bounded-map.ts"
import { isRequest, type Notification, type Params, type Request } from "../wire/message.ts"
import { extendSteadyRow, isSteady, type SteadyRow } from "./steady-row.ts"

/**
 * How a message reaches a client by one of its calls. "later": once the client is back. "never": the client does not want
 * the message there, or cannot answer it.
 */
export type Reach = "now" | "later" | "never"

/** `ask` throws it if the call ended before its client got the server request: another call of the client may carry it. */
export class CallEndedError extends Error {
  override readonly name = "CallEndedError"
}

/** The client of a call, as the connection to a backend sees it. */
export type Caller = {
  /** The same object for all calls that share the way back to their client. */
  readonly session: object
  /** The same text for all calls of a client that has no session. Optional; absent means that the session is the client. */
  readonly identity?: string | undefined
  /** Sends the client a notification that belongs to the call. URIs and names are the backend's own. */
  notify(method: string, params: Params): void
  /**
   * Sends the client a server request. Rejects with a PeerError or RequestError, which the backend gets as the answer, or
   * with a CallEndedError. `onprogress` is present if the backend wants progress.
   */
  ask(
    method: string,
    params: Params | undefined,
    signal: AbortSignal,
    onprogress?: (params: Params) => void,
  ): Promise<unknown>
  /** Whether the client is still connected. Optional; absent means true. */
  isConnected?(): boolean
  /** How a message reaches the client by this call. Optional; absent means "now", or "later" if it is not connected. */
  reach?(method: string, params: Params | undefined): Reach
  /**
   * Called every 250 ms while a server request to the client is open, so that the caller can abandon it. `others`: other
   * clients share the connection and are blocked meanwhile.
   */
  giveUpIfStale?(now: number, others: boolean): void
}

/** A request to the backend that is not answered yet. */
export type PendingCall = {
  readonly method: string
  /** The name of the tool or prompt, if the method has one. */
  readonly name: unknown
  /** Undefined for a request of svc's own. */
  readonly caller: Caller | undefined
  /** When it was sent. */
  readonly since: number
}

/** The requests that are not answered yet, by number. */
export type PendingCalls = { get(number: number): PendingCall | undefined; values(): Iterable<PendingCall> }

/** The facts of a backend's message that identify its client. */
export type MessageOrigin = {
  /** The number of the request on whose stream the message came. */
  readonly related: number | undefined
  /** The only client of the process. */
  readonly owner: Caller | undefined
  /** The client of the task that the message names. */
  readonly task: Caller | "unknown" | undefined
  readonly message: Request | Notification
}

/** The observed behaviour of each kind of call on the connections to one server. */
export class LearnedBehaviour {
  /** Whether cancelled calls stop or continue. */
  readonly afterCancel = new BoundedMap<string, "stops" | "continues">(MAX_KINDS)
  /** How many calls in a row were answered because of their server request (rule 6). */
  readonly rows = new BoundedMap<string, number>(MAX_KINDS)
  /** How many calls in a row sent a server request equally long after they began (rule 7). */
  readonly steadyRows = new BoundedMap<string, SteadyRow<CancelledCall>>(MAX_KINDS)

  /** Forgets the behaviour that may differ in another version of the server: everything but that calls continue. */
  forgetVersion(): void {
    for (const [kind, behaviour] of this.afterCancel) if (behaviour === "stops") this.afterCancel.delete(kind)
    this.rows.clear()
    this.steadyRows.clear()
  }
}

/** Identifies a client: equal for all of its calls. */
export type ClientKey = object | string

export const clientOf = ({ identity, session }: Caller): ClientKey => identity ?? session

export class Attribution {
  /** Cancelled calls by number, kept for LONG_MS to observe them. */
  private readonly cancelled = new BoundedMap<number, CancelledCall>(MAX_CANCELLED)
  private readonly serverRequests = new WeakMap<PendingCall, SeenServerRequests>()

  constructor(private readonly learned = new LearnedBehaviour()) {}

  /**
   * Returns the client of a message; "unknown" if it is one of several, "none" if the message is for no client, "incapable" if
   * none of the client's calls can carry the server request. Learns from the message.
   */
  attribute(origin: MessageOrigin, pending: PendingCalls, now: number): Caller | "unknown" | "none" | "incapable" {
    const { related, owner, task, message } = origin
    if (related !== undefined) {
      const call = pending.get(related)
      // A late message on the stream of an ended call is for no other client.
      if (call === undefined) return "unknown"
      if (call.caller !== undefined) return call.caller
    }
    if (owner !== undefined) return this.callerOf(clientOf(owner), message, pending) ?? owner
    if (task !== undefined) return task
    const inFlight = [...pending.values()].filter(isClientCall)
    const suspects = this.mayContinue(now)
    const clients = new Set([...inFlight, ...suspects].map(clientOfCall))
    const refused = clients.size > 1
    if (isRequest(message)) {
      this.forgetOld(now)
      const isIdle = [...pending.values()].every(({ caller }) => caller === undefined)
      // Servers request roots without a call.
      if (isIdle && message.method !== "roots/list") this.noteAllContinue(now)
      noteServerRequest(this.serverRequests, { inFlight, suspects, refused, quiet: this.cancelled.size === 0, now })
    }
    if (refused) return "unknown"
    const [client] = clients
    return client === undefined ? "none" : (this.callerOf(client, message, pending) ?? "unknown")
  }

  /**
   * Returns the call of a client that carries a message to it; undefined if none is in flight. If all calls lack a capability
   * and the client has only one call, returns that call, which then ends with an error that names the capability.
   */
  callerOf(
    client: ClientKey,
    message: Request | Notification,
    pending: PendingCalls,
  ): Caller | "incapable" | undefined {
    const { method, params } = message
    const callers = [...pending.values()].flatMap(({ caller }) =>
      caller !== undefined && clientOf(caller) === client ? [caller] : [],
    )
    if (method === "notifications/message") return broadcast(callers, method, params)
    const best = bestOf(callers, method, params)
    if (best !== undefined || method === "roots/list" || !isRequest(message)) return best ?? callers[0]
    return callers.length > 1 ? "incapable" : callers[0]
  }

  /** Whether a message without a stream or a task could belong to several clients. */
  isAmbiguous(pending: PendingCalls, now: number): boolean {
    const calls = [...[...pending.values()].filter(isClientCall), ...this.mayContinue(now)]
    return new Set(calls.map(clientOfCall)).size > 1
  }

  /** Notes that a client's call was cancelled. `pinged`: a ping follows the cancellation. */
  noteCancelled(number: number, call: PendingCall, pinged: boolean, now: number): void {
    if (!isClientCall(call)) return
    const { caller, since } = call
    this.learnStops(now)
    this.forgetOld(now)
    this.cancelled.set(number, {
      client: clientOf(caller),
      kind: kindOf(call),
      cancelledAt: now,
      ran: now - since,
      pinged,
      readAt: undefined,
      unexplained: 0,
    })
  }

  /** Notes that the backend has read the cancellation of a call. */
  noteRead(number: number, now: number): void {
    const call = this.cancelled.get(number)
    if (call !== undefined) call.readAt = now
  }

  /** Notes the answer to a request that is not pending: a cancelled call may have been answered after all. */
  noteLateAnswer(number: number, now: number): void {
    const call = this.cancelled.get(number)
    if (call === undefined) return
    this.cancelled.delete(number)
    this.learnContinues(call, now)
  }

  /** Notes progress of a request that is not pending. */
  noteLateProgress(number: number, now: number): void {
    const call = this.cancelled.get(number)
    if (call !== undefined) this.learnContinues(call, now)
  }

  /** Notes the answer to a call that was not cancelled. `asking`: a server request to its client is open. */
  noteAnswer(call: PendingCall, pending: PendingCalls, asking: boolean, now: number): void {
    const { steadyRows } = this.learned
    if (this.cancelled.size === 0 && steadyRows.size === 0 && !this.serverRequests.has(call)) return
    // Another call sent the open server request: a cancelled one, unless the client has other calls.
    if (asking && !this.hasCalls(clientOfCall(call), pending)) this.noteAllContinue(now)
    this.learnRow(call, now)
    this.learnSteadyRow(call)
  }

  // ---

  private hasCalls(client: ClientKey | undefined, pending: PendingCalls): boolean {
    if (client === undefined) return true
    return [...pending.values(), ...this.cancelled.values()].some((call) => clientOfCall(call) === client)
  }

  private forgetOld(now: number): void {
    for (const [old, { cancelledAt }] of this.cancelled) if (cancelledAt + LONG_MS <= now) this.cancelled.delete(old)
  }

  /** Rule 7 (steady-row.ts): learns whether calls of a kind send a server request equally long after they began. */
  private learnSteadyRow(call: PendingCall): void {
    const { steadyRows } = this.learned
    const kind = kindOf(call)
    const seen = this.serverRequests.get(call)
    if (seen?.count !== 1) {
      steadyRows.delete(kind)
      return
    }
    // With several calls in flight, the request proves nothing.
    if (!seen.alone) return
    const row = extendSteadyRow(steadyRows.get(kind), seen, seen.at - call.since)
    steadyRows.set(kind, row)
    if (!isSteady(row)) return
    for (const suspects of row.suspects.splice(0)) explain(suspects)
  }

  /** Rule 6: learns whether calls of a kind send one server request, and which server requests this call explains. */
  private learnRow(call: PendingCall, now: number): void {
    const kind = kindOf(call)
    const seen = this.serverRequests.get(call)
    const endedWithIt = seen?.count === 1 && now - seen.at <= REACTION_MS
    if (seen === undefined || (seen.alone && seen.refused && !endedWithIt)) this.learned.rows.delete(kind)
    if (seen === undefined || !endedWithIt) return
    const before = this.learned.rows.get(kind) ?? 0
    if (before >= ROW) explain(seen.suspects)
    if (!seen.alone) return
    this.learned.rows.set(kind, before + 1)
  }

  /** Rule 3: returns the cancelled calls that count as in flight. */
  private mayContinue(now: number): CancelledCall[] {
    if (this.cancelled.size === 0) return []
    this.learnStops(now)
    return [...this.cancelled.values()].filter((call) => now < this.countsUntil(call))
  }

  private countsUntil(call: CancelledCall): number {
    const { readAt, cancelledAt, ran, pinged, kind } = call
    if (readAt === undefined) return cancelledAt + (pinged ? LONG_MS : MAX_WAIT_MS)
    switch (this.learned.afterCancel.get(kind)) {
      case "stops":
        return readAt + graceOf(call)
      case "continues":
        return cancelledAt + LONG_MS
      case undefined:
        return readAt + clamp(ran, MIN_WAIT_MS, MAX_WAIT_MS)
    }
  }

  /** Rule 4. */
  private learnStops(now: number): void {
    for (const call of this.cancelled.values()) {
      const { readAt, unexplained, kind } = call
      if (readAt === undefined || unexplained > 0 || this.learned.afterCancel.has(kind)) continue
      if (now >= this.countsUntil(call)) this.learn(kind, "stops")
    }
  }

  /** Rule 5, for a sign of life of a cancelled call. */
  private learnContinues(call: CancelledCall, now: number): void {
    if (call.readAt !== undefined && now > call.readAt + graceOf(call)) this.learn(call.kind, "continues")
  }

  /** Rule 5, for a server request that only a cancelled call can have sent: any of them may have. */
  private noteAllContinue(now: number): void {
    const calls = [...this.cancelled.values()]
    if (calls.every(({ readAt }) => readAt !== undefined)) for (const call of calls) this.learnContinues(call, now)
  }

  private learn(kind: string, behaviour: "stops" | "continues"): void {
    this.learned.afterCancel.delete(kind)
    this.learned.afterCancel.set(kind, behaviour)
  }
}

// ---

/** The time for which a cancelled call is kept, and counts as in flight if nothing shows that it has ended. */
const LONG_MS = 5 * 60_000
const MIN_WAIT_MS = 5000
const MAX_WAIT_MS = 30_000
/** For messages in transit when the backend read the cancellation; a slow backend gets the time that it took to read. */
const GRACE_MS = 20
/** A call that is answered this soon after its server request was refused is answered because of the refusal. */
const REACTION_MS = 100
/** The number of calls in a row that must have sent one server request before a call of their kind explains one. */
const ROW = 4
const MAX_CANCELLED = 1000
const MAX_KINDS = 1000

type CancelledCall = {
  readonly client: ClientKey
  readonly kind: string
  readonly cancelledAt: number
  /** Milliseconds from sending to cancelling it. */
  readonly ran: number
  /** Whether the answer to a ping will show that the backend has read the cancellation. */
  readonly pinged: boolean
  /** When the backend had read the cancellation. */
  readAt: number | undefined
  /** Server requests that this call may have sent and that no call in flight explains. */
  unexplained: number
}

/** The server requests that a call in flight may have sent. */
type SeenServerRequests = {
  readonly count: number
  /** When the last one came. */
  readonly at: number
  /** Whether the call was the only one in flight then. */
  readonly alone: boolean
  /** Whether the last one was refused, because it could belong to several clients. */
  readonly refused: boolean
  /** The cancelled calls that may have sent the last one; emptied when it is explained. */
  readonly suspects: CancelledCall[]
  /** Whether no call was cancelled for LONG_MS before. */
  readonly quiet: boolean
}

/** Takes a server request off the cancelled calls that may have sent it. */
function explain(suspects: CancelledCall[]): void {
  for (const suspect of suspects.splice(0)) suspect.unexplained--
}

function noteServerRequest(
  seen: WeakMap<PendingCall, SeenServerRequests>,
  event: {
    readonly inFlight: readonly PendingCall[]
    readonly suspects: CancelledCall[]
    readonly refused: boolean
    readonly quiet: boolean
    readonly now: number
  },
): void {
  const { inFlight, suspects, refused, quiet, now } = event
  for (const call of suspects) call.unexplained++
  const alone = inFlight.length === 1
  for (const call of inFlight)
    seen.set(call, { count: (seen.get(call)?.count ?? 0) + 1, at: now, alone, refused, quiet, suspects })
}

const clamp = (value: number, least: number, most: number): number => Math.min(Math.max(value, least), most)

const graceOf = ({ cancelledAt, readAt }: CancelledCall): number =>
  clamp((readAt ?? cancelledAt) - cancelledAt, GRACE_MS, MIN_WAIT_MS)

const kindOf = ({ method, name }: PendingCall): string => (typeof name === "string" ? `${method} ${name}` : method)

const clientOfCall = (call: CancelledCall | PendingCall): ClientKey | undefined =>
  "client" in call ? call.client : call.caller && clientOf(call.caller)

/** Whether a message without a stream or a task may belong to a call. A message of a task names the task. */
const isClientCall = (call: PendingCall): call is PendingCall & { readonly caller: Caller } =>
  call.caller !== undefined && call.method !== "tasks/result"

const reachOf = (caller: Caller, method: string, params: Params | undefined): Reach =>
  caller.reach?.(method, params) ?? (caller.isConnected?.() === false ? "later" : "now")

/** Returns the oldest call that reaches its client now, else the oldest that reaches it later. */
function bestOf(callers: readonly Caller[], method: string, params: Params | undefined): Caller | undefined {
  const reaches = callers.map((caller) => reachOf(caller, method, params))
  const now = reaches.indexOf("now")
  return callers[now < 0 ? reaches.indexOf("later") : now]
}

/** Returns a caller that passes a notification on, once on each way back to the client. */
function broadcast(callers: readonly Caller[], method: string, params: Params | undefined): Caller | undefined {
  const [first] = callers
  if (first === undefined || callers.every(({ session }) => session === first.session))
    return bestOf(callers, method, params) ?? first
  const sessions = Map.groupBy(callers, ({ session }) => session)
  const recipients = [...sessions.values()].flatMap((own) => bestOf(own, method, params) ?? [])
  return {
    session: first.session,
    identity: first.identity,
    notify: (...notification) => {
      for (const caller of recipients) caller.notify(...notification)
    },
    ask: (...question) => first.ask(...question),
  }
}
