/**
 * svc's requests that wait for their answers, on one connection.
 *
 *  1. A request is here from its sending to its end. Whoever takes it out ends it, so it ends once.
 *  2. The owner of a call may take a large answer while it arrives. From then on the request is "passing": no other answer takes
 *     its place. The rest of the frame is checked like any message; an answer that turns out invalid, or does not end, fails the
 *     request.
 *  3. One coarse look at all deadlines replaces a timer for each request, which would cost more than relaying it.
 */
import { ArrayMap } from "../lib/array-map.ts"
import type { Clock } from "../lib/clock.ts"
import type { FramedResponse, FrameSink } from "../wire/frame.ts"
import type { Id, Response } from "../wire/message.ts"
import { type ClientKey, clientOf, type PendingCall } from "./attribution.ts"

/** The answer to a request: as bytes with svc's id in them, or parsed. */
export type RequestOutcome =
  | { readonly kind: "frame"; readonly frame: Uint8Array; readonly answer: FramedResponse }
  | { readonly kind: "message"; readonly message: Response; readonly size: number }

/**
 * Takes the rest of an answer while it arrives. The outcome of the request tells how the answer ends: with a message or a
 * failure.
 */
export type AnswerTaker = {
  /** Takes the next bytes, which must not change afterwards. Returns a promise to ask to wait. Throws an Error for an invalid frame. */
  push(bytes: Uint8Array): Promise<void> | undefined
  /** Returns the frame without the taken values, as a response that can be parsed. Throws an Error if the frame is incomplete. */
  end(): Uint8Array
}

export type PendingRequest = PendingCall & {
  readonly progressToken: Id | undefined
  /** Milliseconds. Infinity for a stream. */
  readonly timeout: number
  /** When it times out, milliseconds since the epoch. */
  deadline: number
  readonly onlarge: ((head: Uint8Array) => AnswerTaker | undefined) | undefined
  /** Whether nothing of its answer has been used, or the answer passes to a taker. */
  phase: "waiting" | "passing"
  resolve(outcome: RequestOutcome): void
  reject(error: Error): void
}

/** What becomes of an answer that passes to a taker. */
export type PassingPort = {
  /** Bytes have arrived. */
  onbytes(): void
  /** The answer is complete. Takes what its taker has left of it. Throws an Error if it is not the answer to the request. */
  onanswer(number: number, frame: Uint8Array, size: number): void
  /** The rest of the answer is not wanted any more, because it is invalid. */
  oninvalid(number: number, error: unknown): void
  /** The answer breaks off. */
  onbroken(number: number, error: Error): void
  /** An answer to a request that does not wait any more is complete. */
  onlate(number: number): void
  /** Another answer has come, and is dropped. */
  onsecond(request: PendingRequest): void
}

export class PendingRequests {
  private readonly requests = new ArrayMap<number, PendingRequest>()
  /** The number of requests of clients. */
  private ofClients = 0
  /** The number of requests that a living backend answers, whatever it lacks: all but pings and streams. */
  private awaited = 0
  /** When the first request began to wait after all others were answered, milliseconds since the epoch. */
  private waitingSince = 0
  /** Whether a request has timed out since the backend last sent anything. */
  private timedOut = false
  /** Resolves when no client's request is left. */
  private drain: PromiseWithResolvers<void> | undefined

  constructor(
    private readonly clock: Clock,
    private readonly passing: PassingPort,
  ) {}

  get size(): number {
    return this.requests.size
  }

  get(number: number): PendingRequest | undefined {
    return this.requests.get(number)
  }

  entries(): readonly (readonly [number, PendingRequest])[] {
    return this.requests.entries()
  }

  values(): readonly PendingRequest[] {
    return this.requests.values()
  }

  add(number: number, request: PendingRequest, now: number): void {
    this.requests.set(number, request)
    if (request.caller !== undefined) this.ofClients++
    if (isAwaited(request) && this.awaited++ === 0 && !this.timedOut) this.waitingSince = now
  }

  /** Removes a request, to be ended, and returns it; undefined if it has ended. */
  take(number: number): PendingRequest | undefined {
    const request = this.requests.take(number)
    if (request === undefined) return undefined
    if (isAwaited(request)) this.awaited--
    if (request.caller !== undefined && --this.ofClients === 0) {
      this.drain?.resolve()
      this.drain = undefined
    }
    return request
  }

  /** Fails all requests. */
  end(error: Error): void {
    for (const number of this.requests.keys()) this.take(number)?.reject(error)
  }

  /** Resolves when no client's request is left. */
  drained(): Promise<void> {
    if (this.ofClients === 0) return Promise.resolve()
    this.drain ??= Promise.withResolvers<void>()
    return this.drain.promise
  }

  /** Notes that the backend has sent something. */
  noteReceived(): void {
    this.timedOut = false
  }

  /** Notes that the backend has got what it waited for itself. */
  noteAnswered(): void {
    this.waitingSince = this.clock.now()
  }

  /**
   * Returns since when requests wait for the backend, milliseconds since the epoch; undefined if none waits, or if a large answer
   * waits until its client has read more.
   */
  get silentSince(): number | undefined {
    if (this.awaited === 0) return undefined
    for (const { phase } of this.requests.values()) if (phase === "passing") return undefined
    return this.waitingSince
  }

  /** Returns the requests that have timed out. A call does not time out while the backend waits for its client's answer. */
  overdue(now: number, isAsked: (client: ClientKey) => boolean): readonly (readonly [number, PendingRequest])[] {
    return this.requests.entries().filter(([, request]) => {
      const { caller, timeout } = request
      if (caller !== undefined && isAsked(clientOf(caller))) request.deadline = now + timeout
      if (request.deadline > now) return false
      this.timedOut ||= isAwaited(request)
      return true
    })
  }

  /** Offers a large unfinished answer to the owner of its request; returns undefined to have the frame buffered whole. */
  offer(number: number, head: Uint8Array): FrameSink | undefined {
    const { passing } = this
    const request = this.requests.get(number)
    if (request === undefined) return dropped(() => passing.onlate(number))
    if (request.phase === "passing") {
      passing.onsecond(request)
      return dropped()
    }
    try {
      const taker = request.onlarge?.(head)
      return taker && this.sinkOf(taker, number, request, head.length)
    } catch {
      // Buffered whole, the answer fails with its reason.
      return undefined
    }
  }

  // ---

  /** Returns the sink that passes the rest of an answer to `taker`. `before`: the bytes that the taker has. */
  private sinkOf(taker: AnswerTaker, number: number, request: PendingRequest, before: number): FrameSink {
    const { passing } = this
    request.phase = "passing"
    let size = before
    const isWanted = () => this.requests.get(number) === request
    return {
      push: (bytes) => {
        passing.onbytes()
        if (!isWanted()) return undefined
        size += bytes.length
        request.deadline = this.clock.now() + request.timeout
        try {
          return taker.push(bytes)
        } catch (error) {
          passing.oninvalid(number, error)
          return undefined
        }
      },
      end: () => {
        if (!isWanted()) return passing.onlate(number)
        try {
          passing.onanswer(number, taker.end(), size)
        } catch (error) {
          passing.oninvalid(number, error)
        }
      },
      fail: (error) => passing.onbroken(number, error),
    }
  }
}

/** Whether a request only asks whether the backend answers: `ping`, or `server/discover` in the modern era. */
export const isPing = (method: string): boolean => method === "ping" || method === "server/discover"

// ---

/** Whether a backend that lives answers a request in time: it may lack pings, and a stream has no end. */
const isAwaited = ({ method, timeout }: PendingRequest): boolean =>
  timeout !== Number.POSITIVE_INFINITY && !isPing(method)

/** Returns a sink that drops the rest of a frame. Calls `onend` if the frame is complete. */
const dropped = (onend: () => void = () => undefined): FrameSink => ({
  push: () => undefined,
  end: onend,
  fail: () => undefined,
})
