/**
 * The backend's requests that wait: for a client's answer, or until it is known which client they are for.
 *
 *  1. A request that may be for several clients is held. It goes to its client as soon as all calls of other clients that may
 *     have sent it are answered or their sessions have ended, and is refused if some are not after DOUBT_MS.
 *  2. If the call that carries a request ends before its client has seen the request, another call of the client carries it.
 *  3. If a client has been disconnected for long while a request waits for it, its call is given up, so that other clients are
 *     unblocked.
 */
import type { Clock } from "../lib/clock.ts"
import { RPC_CODE } from "../lib/errors.ts"
import {
  type ErrorObject,
  errorText,
  type Id,
  keyOfId,
  metaOf,
  type Params,
  type Request,
  resultText,
} from "../wire/message.ts"
import {
  type Attribution,
  CallEndedError,
  type Caller,
  type ClientKey,
  clientOf,
  DOUBT_MS,
  hasEnded,
  type PendingCalls,
  type Verdict,
  WithdrawnError,
} from "./attribution.ts"
import { PeerError } from "./peer-error.ts"

/** What server requests need of their connection. */
export type ServerRequestPort = {
  readonly clock: Clock
  readonly attribution: Attribution
  readonly pending: PendingCalls
  /** Sends the backend a response. */
  send(text: string): void
  /** Sends the backend the progress of a client that was asked. */
  progress(params: Params): void
  /** Called when a server request has been answered. */
  onanswered(): void
}

/** A server request that waits for a client's answer, with the caller that carries it to the client. */
type AskedRequest = { readonly controller: AbortController; caller: Caller }

/** A server request that may be for several clients. */
type HeldRequest = {
  readonly request: Request
  /** The calls that were at work when it came and were not answered since, by number, with their clients. */
  readonly suspects: Map<number, ClientKey>
  /** When it is refused, milliseconds since the epoch. */
  readonly until: number
}

export class ServerRequests {
  private readonly asked = new Map<string, AskedRequest>()
  private readonly held = new Map<string, HeldRequest>()
  /** When a call was last sent while a request that a client was asked could have belonged to another client. */
  private ambiguousSince = Number.NEGATIVE_INFINITY

  constructor(private readonly port: ServerRequestPort) {}

  /** The number of requests that are not answered yet. */
  get size(): number {
    return this.asked.size + this.held.size
  }

  /** Takes a request with the verdict of the attribution. Answers it, asks its client, or holds it. */
  take(request: Request, verdict: Verdict): void {
    const { id, method } = request
    if (method === "ping") this.port.send(resultText(id, "{}"))
    // Servers request roots as soon as they are initialized; without a caller, no client has any.
    else if (method === "roots/list" && isNobody(verdict)) this.port.send(resultText(id, '{"roots":[]}'))
    else if (verdict === "none") this.refuse(id, NO_CALL)
    else if (verdict === "unknown") this.refuse(id, ENDED)
    else if (this.size >= MAX_SERVER_REQUESTS || (verdict === "several" && this.held.size >= MAX_HELD))
      this.refuse(id, "too many server requests are open")
    else if (verdict === "several") this.hold(request)
    else void this.ask(request, recipientOf(verdict))
  }

  /** Drops a request that the backend has cancelled. `said`: the params of its notification, without the id. */
  withdraw(id: Id, said: Params): void {
    const key = keyOfId(id)
    this.held.delete(key)
    this.asked.get(key)?.controller.abort(new WithdrawnError(said))
  }

  /** Drops all requests. */
  end(error: Error): void {
    for (const { controller } of this.asked.values()) controller.abort(error)
    this.asked.clear()
    this.held.clear()
  }

  /** Whether requests wait until it is known which client they are for. */
  get isHolding(): boolean {
    return this.held.size > 0
  }

  /** Whether a request waits for an answer of a client. */
  isAsking(client: ClientKey): boolean {
    for (const { caller } of this.asked.values()) if (clientOf(caller) === client) return true
    return false
  }

  /** Notes that a call is about to be sent, on a connection without a stream for each call. */
  noteCall(now: number): void {
    const { attribution, pending } = this.port
    if (this.asked.size > 0 && new Set(attribution.atWork(pending, now).values()).size > 1) this.ambiguousSince = now
  }

  /** Notes that a call waits for no server request: it was answered. Sends its client each held request that is now certain. */
  noteAnswered(number: number): void {
    // Runs for every answer, and almost always none waits.
    if (this.held.size > 0) this.clear((suspect) => suspect === number)
  }

  /** Sends the requests that are certain now that clients have ended their sessions, and refuses those that waited for long enough. */
  settleHeld(now: number): void {
    this.clear((_, client) => hasEnded(client))
    for (const [key, { request, until }] of this.held) {
      if (now < until) continue
      this.held.delete(key)
      this.refuse(request.id, SEVERAL_CLIENTS)
    }
  }

  /** Lets calls whose client is asked be given up, if the client has been disconnected for long. */
  giveUpStale(now: number): void {
    if (this.asked.size === 0) return
    const others = now - this.ambiguousSince < AMBIGUOUS_MS
    // The call that carries a server request may have been answered already.
    const callers = new Set([...this.asked.values()].map(({ caller }) => caller))
    for (const { caller } of this.port.pending.values())
      if (caller !== undefined && this.isAsking(clientOf(caller))) callers.add(caller)
    for (const caller of callers) caller.giveUpIfStale?.(now, others)
  }

  // ---

  /** Drops calls that no longer count from the suspects of held requests, and sends the requests that are certain then. */
  private clear(isCleared: (number: number, client: ClientKey) => boolean): void {
    const { attribution, pending } = this.port
    for (const [key, { request, suspects }] of this.held) {
      const before = suspects.size
      for (const [number, client] of suspects) if (isCleared(number, client)) suspects.delete(number)
      const client = suspects.size === before ? undefined : onlyClient(suspects)
      if (client === undefined) continue
      this.held.delete(key)
      void this.ask(request, recipientOf(attribution.callerOf(client, request, pending) ?? "unknown"))
    }
  }

  private hold(request: Request): void {
    const { attribution, pending, clock } = this.port
    const now = clock.now()
    const suspects = attribution.atWork(pending, now)
    this.held.set(keyOfId(request.id), { request, suspects, until: now + DOUBT_MS })
  }

  /** Asks a client, and answers the request. */
  private async ask(request: Request, caller: Caller): Promise<void> {
    const { id, method, params } = request
    const { attribution, pending, send } = this.port
    const controller = new AbortController()
    const key = keyOfId(id)
    const open = { controller, caller }
    this.asked.set(key, open)
    const token = metaOf(params)?.progressToken
    const onprogress = (progress: Params) => this.port.progress({ ...progress, progressToken: token })
    try {
      for (;;) {
        const { caller: carrier } = open
        const asking = carrier.ask(method, params, controller.signal, token === undefined ? undefined : onprogress)
        const outcome = await asking.catch((error: unknown) => {
          if (error instanceof CallEndedError) return error
          throw error
        })
        if (controller.signal.aborted) return
        if (!(outcome instanceof CallEndedError)) return send(resultText(id, JSON.stringify(outcome ?? {})))
        // Another call of the same client carries the request now, whichever clients have calls in flight by then.
        const next = recipientOf(attribution.callerOf(clientOf(carrier), request, pending) ?? "unknown")
        open.caller = next === carrier ? UNKNOWN_CALLER : next
      }
    } catch (error) {
      if (controller.signal.aborted) return
      send(JSON.stringify({ jsonrpc: "2.0", id, error: errorOf(error) }))
    } finally {
      this.asked.delete(key)
      this.port.onanswered()
    }
  }

  private refuse(id: Id, reason: string): void {
    this.port.send(errorText(id, RPC_CODE.internalError, reason))
  }
}

/** Returns the caller for a verdict of the attribution. */
export function recipientOf(verdict: Exclude<Verdict, "none">): Caller {
  switch (verdict) {
    case "several":
    case "unknown":
      return UNKNOWN_CALLER
    case "incapable":
      return INCAPABLE_CALLER
    default:
      return verdict
  }
}

const MAX_SERVER_REQUESTS = 1000
/** Each held request lists the calls that may have sent it. */
const MAX_HELD = 100
/** The time after the last call of other callers for which an open server request counts as blocking them. */
const AMBIGUOUS_MS = 60_000

const NO_CALL = "no client call is in flight that this request could belong to"
const ENDED = "the call that this request belongs to has ended"
const SEVERAL_CLIENTS = `several clients have calls in flight, or cancelled calls that may still be running, and after ${DOUBT_MS / 1000} s it is still unclear which client this request is for; let the clients call one after the other, or set "isolation": "session" on the server: each client of 2025-11-25 and earlier then gets its own process, while clients of 2026-07-28 have no session and share one`

/** The caller of a message that could belong to several clients, and must reach none. */
const UNKNOWN_CALLER: Caller = {
  session: {},
  notify: () => undefined,
  ask: () => Promise.reject(new PeerError(RPC_CODE.internalError, ENDED)),
}

/** The caller of a server request that none of its client's calls can carry. */
const INCAPABLE_CALLER: Caller = {
  session: {},
  notify: () => undefined,
  ask: (method) =>
    Promise.reject(new PeerError(RPC_CODE.methodNotFound, `Method not found: the client does not support ${method}`)),
}

const isNobody = (verdict: Verdict): boolean => verdict === "several" || verdict === "unknown" || verdict === "none"

/** Returns the client of all these calls; undefined if they are of several. */
function onlyClient(calls: ReadonlyMap<number, ClientKey>): ClientKey | undefined {
  let only: ClientKey | undefined
  for (const client of calls.values()) {
    if (only !== undefined && client !== only) return undefined
    only = client
  }
  return only
}

function errorOf(error: unknown): ErrorObject {
  if (error instanceof PeerError) return error.object
  return { code: RPC_CODE.internalError, message: error instanceof Error ? error.message : "internal error" }
}
