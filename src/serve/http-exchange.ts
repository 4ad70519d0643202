/**
 * The response to one HTTP request: JSON unless it must be SSE. A message before the answer turns the response into a stream, and
 * so does a long silence, because proxies and clients close connections on which nothing arrives. Nothing is held back.
 * basic: Streamable HTTP, Receiving Messages.
 */

import { Cancellation } from "../call/cancellation.ts"
import type { AnswerBody, Exchange } from "../call/client.ts"
import type { Clock } from "../lib/clock.ts"
import { RequestError } from "../lib/errors.ts"
import type { EventSink } from "../session/event-log.ts"
import type { Session } from "../session/session.ts"
import type { Id, Params } from "../wire/message.ts"
import { formatEvent } from "../wire/sse.ts"
import { JSON_HEADERS } from "./respond.ts"

export const SSE_HEADERS = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
}

/** The response of most answers. Its headers are made once: Bun would make them from an object for each answer. */
const ANSWER: ResponseInit = { headers: new Headers(JSON_HEADERS) }

/** An open stream to a client, as the server holds it. */
export type OpenStream = {
  /** Sends a comment that keeps an idle connection open. */
  keepAlive(): void
  /** Ends the stream: svc shuts down, or the token of its client expires. */
  close(): void
  /** Called when this replica stops: ends the stream as soon as its client can reopen it on another replica without a loss. */
  drain?(): void
}

/** The open streams. */
export type OpenStreams = Pick<Set<OpenStream>, "add" | "delete">

/** Asks the client while its request runs. Rejects if the client cannot receive a server request. */
export type Asker = Pick<Session, "ask">

/** A legacy session, as its exchanges need it: its client can resume streams. */
type Resumable = Pick<Session, "events" | "sendsPrimingEvent">

/**
 * The requests whose responses have not begun. Opens the responses that have been silent for SILENT_TICKS. One timer serves all,
 * only while requests wait: a timer for each request would slow every call.
 *
 * An array in which each request knows its place, because a Map costs a tenth of a call here (lib/array-map.ts says why). The
 * place of a request that ends is filled with the last one.
 */
export class SilentRequests {
  private readonly waiting: SilentRequest[] = []
  private now = 0
  private isTicking = false

  constructor(private readonly clock: Clock) {}

  add(request: SilentRequest): void {
    request.since = this.now
    request.place = this.waiting.length
    this.waiting.push(request)
    if (!this.isTicking) this.tick()
  }

  /** Removes a request, which must be here. */
  delete({ place }: SilentRequest): void {
    const last = this.waiting.pop()
    if (last === undefined || place === this.waiting.length) return
    this.waiting[place] = last
    last.place = place
  }

  private tick(): void {
    this.isTicking = true
    this.clock.after(TICK_MS, () => {
      this.now++
      for (const request of this.waiting.filter(({ since }) => this.now - since >= SILENT_TICKS)) request.openStream()
      this.isTicking = false
      if (this.waiting.length > 0) this.tick()
    })
  }
}

/** A request whose response has not begun. */
type SilentRequest = {
  /** The tick at which it came, and its place among the others. Belong to SilentRequests. */
  since: number
  place: number
  /** Opens the response, and removes the request. */
  openStream(): void
}

export class HttpExchange implements Exchange, OpenStream, EventSink, SilentRequest {
  readonly cancellation = new Cancellation()
  /** Ends a stream that would go on forever. */
  private closeStream: (() => void) | undefined
  private stream: ReadableStreamDefaultController<Uint8Array> | undefined
  /** The body of an answer that is sent in parts. */
  private body: PartialBody | undefined
  private disconnected = false
  /** When svc first saw that the client is disconnected, milliseconds since the epoch. */
  private disconnectedSince: number | undefined
  /** The number of the stream in the session's log, once there is one. */
  private logged: number | undefined
  /** The requests among which this one waits while its response has not begun. */
  private silent: SilentRequests | undefined
  private headers: Headers | undefined
  since = 0
  place = 0

  constructor(
    /** Called with the HTTP response at the answer, or at the first message before it. */
    private readonly respond: (response: Response) => void,
    private readonly asker: Asker,
    private readonly streams: OpenStreams,
    /** Set if the client can resume the stream; undefined if a closed connection cancels the request. */
    private readonly resumable?: Resumable,
    /** The id of the request; undefined for a batch, or if the stream cannot be resumed. */
    private readonly request?: Id,
    /**
     * Has the signal of a closed connection; undefined if it is watched already. Read only if there is more to send than the
     * answer, because asking Bun for it costs a tenth of relaying a call.
     */
    private http?: { readonly signal: AbortSignal },
  ) {}

  /** Opens the response as a stream if it has not begun after a long silence, and the client with these headers accepts that. */
  openWhenSilent(among: SilentRequests, headers: Headers): void {
    this.silent = among
    this.headers = headers
    among.add(this)
  }

  /** Opens the response as a stream before there is a message. Its first comment shows proxies and clients that svc is alive. */
  openStream(): void {
    const { headers } = this
    this.endSilence()
    if (headers === undefined || !EVENT_STREAM.test(headers.get("accept") ?? "")) return
    this.watchAbort()
    if (this.disconnected) return
    this.stream ??= this.begin()
    this.stream.enqueue(SSE_COMMENT)
  }

  notify(text: string): void {
    this.push(text)
  }

  ask(
    method: string,
    params: Params | undefined,
    signal: AbortSignal,
    onprogress?: (params: Params) => void,
  ): Promise<unknown> {
    this.watchAbort()
    if ((this.disconnected && this.logged === undefined) || this.body !== undefined)
      return Promise.reject(new RequestError("invalid_request", "The client is disconnected"))
    return this.asker.ask(method, params, signal, (text) => this.push(text), onprogress)
  }

  /**
   * Opens a body for an answer in parts; returns undefined if that is impossible, for example on an open event stream, which takes
   * whole events. Such a body cannot be resumed: a client that leaves cancels its request.
   */
  openBody(): AnswerBody | undefined {
    if (this.stream !== undefined || this.body !== undefined || this.disconnected) return undefined
    this.endSilence()
    this.body = new PartialBody(() => {
      this.disconnected = true
      this.cancellation.cancel("the client closed the connection")
    })
    this.respond(new Response(this.body.stream, ANSWER))
    return this.body
  }

  /** Sends the answer and ends the response; breaks off a body that has not ended. `init` counts only if nothing was sent before. */
  finish(frame: Uint8Array | string, init: ResponseInit = ANSWER): void {
    this.endSilence()
    if (this.body !== undefined) {
      this.body.breakOff()
      return
    }
    if (this.stream === undefined) {
      this.respond(new Response(bodyOf(frame), init))
      return
    }
    this.push(frame)
    this.finishStream()
  }

  /** Ends the response to a cancelled request without an answer: as an empty stream, because JSON would need an answer. */
  finishUnanswered(): void {
    this.endSilence()
    if (this.body !== undefined) this.body.breakOff()
    else if (this.stream === undefined) this.respond(new Response(null, { headers: SSE_HEADERS }))
    else this.finishStream()
  }

  /** Called when the client has closed the connection. Cancels the request, unless the client can resume the stream. */
  abort(): void {
    if (this.disconnected) return
    this.endSilence()
    this.disconnected = true
    this.streams.delete(this)
    if (this.logged !== undefined) this.resumable?.events.detach(this.logged, this)
    if (this.resumable === undefined) this.cancellation.cancel("the client closed the connection")
  }

  /** Whether the client is connected: here, or by a stream that it resumed. */
  isConnected(): boolean {
    this.watchAbort()
    return !this.disconnected || (this.logged !== undefined && this.resumable?.events.isConnected(this.logged) === true)
  }

  /** Cancels the request if a client that must answer a server request has been disconnected for too long. */
  giveUpIfStale(now: number, others: boolean): void {
    this.disconnectedSince = this.isConnected() ? undefined : (this.disconnectedSince ?? now)
    if (
      this.disconnectedSince === undefined ||
      now - this.disconnectedSince < (others ? BLOCKING_GIVE_UP_MS : GIVE_UP_MS)
    )
      return
    this.cancellation.cancel("client disconnected")
  }

  onstream(close: () => void): void {
    this.closeStream = close
  }

  close(): void {
    this.closeStream?.()
  }

  drain(): void {
    this.closeStream?.()
  }

  keepAlive(): void {
    if (!this.disconnected) this.stream?.enqueue(SSE_COMMENT)
  }

  private endSilence(): void {
    if (this.silent === undefined) return
    this.silent.delete(this)
    this.silent = undefined
    this.headers = undefined
  }

  /** Starts to watch whether the connection is closed. */
  private watchAbort(): void {
    const signal = this.http?.signal
    this.http = undefined
    if (signal?.aborted === true) this.abort()
    else signal?.addEventListener("abort", () => this.abort())
  }

  private finishStream(): void {
    if (this.logged !== undefined) this.resumable?.events.end(this.logged)
    this.end()
  }

  private push(frame: Uint8Array | string): void {
    this.watchAbort()
    if ((this.disconnected && this.logged === undefined) || this.body !== undefined) return
    this.stream ??= this.begin()
    if (!this.disconnected && isUnread(this.stream)) this.drop()
    if (this.logged !== undefined) this.resumable?.events.send(this.logged, frame)
    else if (!this.disconnected) this.stream.enqueue(formatEvent(frame))
  }

  /** Sends an event of the session's log. Returns false if the client is disconnected. */
  event(id: string, frame: Uint8Array | string): boolean {
    if (this.disconnected) return false
    this.stream?.enqueue(formatEvent(frame, id))
    return true
  }

  private drop(): void {
    this.stream?.error(new Error("the client does not read"))
    this.abort()
  }

  /** Ends the HTTP response. */
  end(): void {
    this.streams.delete(this)
    if (this.disconnected) return
    this.disconnected = true
    this.stream?.close()
  }

  private begin(): ReadableStreamDefaultController<Uint8Array> {
    this.endSilence()
    let controller: ReadableStreamDefaultController<Uint8Array> | undefined
    const source = {
      start: (started: ReadableStreamDefaultController<Uint8Array>) => {
        controller = started
      },
      cancel: () => this.abort(),
    }
    const body = new ReadableStream(source, BYTE_STRATEGY)
    this.streams.add(this)
    this.respond(new Response(body, { headers: SSE_HEADERS }))
    const opened = controller as unknown as ReadableStreamDefaultController<Uint8Array>
    if (this.resumable !== undefined) {
      this.logged = this.resumable.events.open(this, this.request)
      if (this.resumable.sendsPrimingEvent) opened.enqueue(primingEvent(this.resumable.events.start(this.logged)))
    }
    return opened
  }
}

/** A comment: shows that the stream is open. From: HTML, SSE. */
export const SSE_COMMENT = new TextEncoder().encode(":\n\n")

/** Counts the bytes that wait in a stream: Bun takes only as much out of it as the client reads. */
export const BYTE_STRATEGY = new ByteLengthQueuingStrategy({ highWaterMark: 0 })

/** Whether so many bytes wait for a client that svc disconnects it: a client that does not read must not fill the memory. */
export const isUnread = ({ desiredSize }: ReadableStreamDefaultController<Uint8Array>): boolean =>
  (desiredSize ?? 0) < -MAX_UNREAD_BYTES

/** Returns an event without data that gives the client an id to resume the stream from, and a delay. From: SEP-1699. */
export const primingEvent = (id: string): Uint8Array =>
  new TextEncoder().encode(`id: ${id}\nretry: ${RETRY_MS}\ndata:\n\n`)

// ---

/** Returns the body of a frame. A large frame becomes a stream, because Bun would copy it first. */
function bodyOf(frame: Uint8Array | string): ReadableStream | Uint8Array<ArrayBuffer> | string {
  if (typeof frame === "string" || frame.length < LARGE) return frame as Uint8Array<ArrayBuffer> | string
  const source = {
    type: "direct" as const,
    pull(controller: ReadableStreamDirectController) {
      controller.write(frame as Uint8Array<ArrayBuffer>)
      controller.close()
    },
  }
  return new ReadableStream(source)
}

/** A response body that is written in parts. A client sees if it was broken off. */
class PartialBody implements AnswerBody {
  readonly stream: ReadableStream
  private controller: ReadableStreamDirectController | undefined
  /** Parts that were written before Bun reads the stream. */
  private early: (Uint8Array | string)[] = []
  private readonly over = Promise.withResolvers<void>()
  private isOver = false

  /** `oncancel` runs when the client closes the connection before the end. */
  constructor(oncancel: () => void) {
    const source = {
      type: "direct" as const,
      pull: (controller: ReadableStreamDirectController) => {
        this.controller = controller
        for (const part of this.early) send(controller, part)
        this.early = []
        if (this.isOver) controller.close()
        return this.over.promise
      },
      cancel: () => {
        if (this.isOver) return
        this.isOver = true
        this.over.resolve()
        oncancel()
      },
    }
    this.stream = new ReadableStream(source)
    // Bun may never read a body whose client is gone.
    this.over.promise.catch(() => undefined)
  }

  write(part: Uint8Array | string): Promise<void> | undefined {
    if (this.isOver) return undefined
    if (this.controller === undefined) {
      this.early.push(part)
      return undefined
    }
    // A number unless the client has to read first.
    const written: unknown = send(this.controller, part)
    return written instanceof Promise ? written.then(() => undefined) : undefined
  }

  end(): void {
    if (this.isOver) return
    this.isOver = true
    this.controller?.close()
    this.over.resolve()
  }

  /** Closes the connection, unless the body has ended. */
  breakOff(): void {
    if (this.isOver) return
    this.isOver = true
    // Bun would print an Error with its stack.
    this.over.reject(undefined)
  }
}

/** Writes a part. Flushes before a large one, because Bun would copy it behind a small one that it still holds. */
function send(controller: ReadableStreamDirectController, part: Uint8Array | string): unknown {
  if (part.length >= LARGE) controller.flush()
  return controller.write(part as string)
}

/** The bytes from which on a copy costs more than a stream or a further write. */
const LARGE = 64 * 1024
const RETRY_MS = 1000
const TICK_MS = 1000
/** Proxies close connections after a minute of silence, some after 30 s. */
const SILENT_TICKS = 15
/** Matches an Accept header with event streams, unless they are refused. RFC 9110, 12.5.1. */
const EVENT_STREAM = /(?:^|,)\s*text\/event-stream\s*(?:,|$|;(?!\s*q=0(?:\.0*)?\s*(?:,|$)))/i
const BLOCKING_GIVE_UP_MS = 60_000
const GIVE_UP_MS = 10 * 60_000
/** The message that passes this mark is still sent, whatever its size. */
const MAX_UNREAD_BYTES = 8 * 1024 * 1024
