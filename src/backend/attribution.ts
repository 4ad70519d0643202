/**
 * Attributes a backend's message to a client. A stdio process that several clients share does not say which client a
 * message is for, and a wrong guess shows one client's data to another.
 *
 *  1. The stream of a call, the only client of a process, or the task that a message names decides, in this order.
 *  2. Any other message is for the only client whose calls may be at work. If calls of several clients are: "several". If none
 *     is: "none". Of several calls of that client, the oldest that reaches the client now gets the message; a log message goes
 *     out once on each way back to the client.
 *  3. A call is at work while it is in flight, and for DOUBT_MS after it was cancelled, because the backend may go on with it.
 *     Its answer ends this at once, and so does the end of its client's session. A timeout, and a client that disconnects,
 *     cancel a call too.
 *  4. A server request of "several" clients waits (server-requests.ts). Only a call that was at work when it came can have sent
 *     it, and a call that waits for the answer is not answered itself. So once all other clients' calls of that time are
 *     answered, the request is for the client that is left. Neither the end of DOUBT_MS nor the error of a cancelled call shows
 *     anything of a request that came before: the call may have asked before it was stopped.
 *
 * Two cases remain: a backend goes on with a cancelled call for longer than DOUBT_MS, or after its client has ended its session,
 * and then sends a server request while one other client has calls in flight. `isolation: "session"` prevents both.
 *
 * Deterministic: no clock, no timer, no I/O. Times are parameters, in milliseconds since the epoch.
 */
import { BoundedMap } from "../lib/bounded-map.ts"
import { isRequest, type Notification, type Params, type Request } from "../wire/message.ts"

/**
 * How a message reaches a client by one of its calls. "later": once the client is back. "never": the client does not want
 * the message there, or cannot answer it.
 */
export type Reach = "now" | "later" | "never"

/** `ask` throws it if the call ended before its client got the server request: another call of the client may carry it. */
export class CallEndedError extends Error {
  override readonly name = "CallEndedError"
}

/** The server has withdrawn its request. */
export class WithdrawnError extends Error {
  override readonly name = "WithdrawnError"

  /** `said`: the params of its notification, with its reason and without the id. */
  constructor(readonly said: Params) {
    super("The server withdrew its request")
  }
}

/** The client of a call, as the connection to a backend sees it. */
export type Caller = {
  /** The same object for all calls that share the way back to their client. */
  readonly session: ClientSession
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
}

/** The requests that are not answered yet, by number. */
export type PendingCalls = {
  get(number: number): PendingCall | undefined
  entries(): Iterable<readonly [number, PendingCall]>
  values(): Iterable<PendingCall>
}

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

/**
 * The client of a message; "several" if it may be for several clients, "unknown" if it must reach none, "none" if it is for no
 * client, "incapable" if none of the client's calls can carry the server request.
 */
export type Verdict = Caller | "several" | "unknown" | "none" | "incapable"

/** The session of a client, or an object that stands for a client without one. */
type ClientSession = {
  /** Whether the client has ended the session: nobody is left whom a message could be for. */
  readonly hasEnded?: boolean
}

/** Identifies a client: equal for all of its calls. */
export type ClientKey = ClientSession | string

/** Whether a client has ended its session. */
export const hasEnded = (client: ClientKey): boolean => typeof client !== "string" && client.hasEnded === true

export const clientOf = ({ identity, session }: Caller): ClientKey => identity ?? session

/** The time for which a backend may go on with a cancelled call, in milliseconds. */
export const DOUBT_MS = 30_000

export class Attribution {
  /** The cancelled calls that were not answered, by number, with the end of the doubt. */
  private readonly cancelled = new BoundedMap<number, { readonly client: ClientKey; readonly until: number }>(
    MAX_CANCELLED,
  )

  /** Returns the client of a message. */
  attribute({ related, owner, task, message }: MessageOrigin, pending: PendingCalls, now: number): Verdict {
    if (related !== undefined) {
      const call = pending.get(related)
      // A late message on the stream of an ended call is for no other client.
      if (call === undefined) return "unknown"
      if (call.caller !== undefined) return call.caller
    }
    if (owner !== undefined) return this.callerOf(clientOf(owner), message, pending) ?? owner
    if (task !== undefined) return task
    const clients = new Set(this.atWork(pending, now).values())
    if (clients.size > 1) return "several"
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

  /** Returns the calls that may be at work at the backend, by number, with their clients. */
  atWork(pending: PendingCalls, now: number): Map<number, ClientKey> {
    const calls = new Map<number, ClientKey>()
    for (const [number, { client, until }] of this.cancelled)
      if (now < until && !hasEnded(client)) calls.set(number, client)
    // A message of a task names the task.
    for (const [number, { caller, method }] of pending.entries())
      if (caller !== undefined && method !== "tasks/result") calls.set(number, clientOf(caller))
    return calls
  }

  /** Notes that a client's call was cancelled. */
  noteCancelled(number: number, { caller, method }: PendingCall, now: number): void {
    if (caller === undefined || method === "tasks/result") return
    for (const [old, { until }] of this.cancelled) if (until <= now) this.cancelled.delete(old)
    this.cancelled.set(number, { client: clientOf(caller), until: now + DOUBT_MS })
  }

  /** Notes the answer to a request that is not pending: a cancelled call may have been answered after all. */
  noteLateAnswer(number: number): void {
    this.cancelled.delete(number)
  }
}

// ---

const MAX_CANCELLED = 1000

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
