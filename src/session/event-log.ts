/**
 * Keeps the events sent on a session's streams, so that a client can resume a stream after its connection broke.
 * 2025-11-25: Transports, Resumability and Redelivery.
 *
 *  1. The log of a session is limited in events, bytes and time. The oldest events are dropped first; their stream continues
 *     without them.
 *  2. A stream continues while its client is disconnected: its events are kept until the client reconnects.
 *  3. Event ids name their log. Ids from another log, for example from before a restart, are rejected. Ids also name the
 *     request of the stream, so that svc can answer it with an error if its answer is lost.
 */
import { parseExact } from "../lib/json.ts"
import { type Id, isId } from "../wire/message.ts"

/** The client of a stream. `event` returns false if the client is disconnected. */
export type EventSink = { event(id: string, frame: Uint8Array | string): boolean; end(): void }

type StoredEvent = {
  readonly stream: LoggedStream
  readonly number: number
  readonly frame: Uint8Array | string
  /** The age of the log when the event was sent. */
  readonly ageMinutes: number
}
type LoggedStream = {
  readonly id: number
  /** The suffix of its events' ids: the request that the stream answers. */
  readonly requestTag: string
  last: number
  sink: EventSink | undefined
  done: boolean
}

/** Returns the id of the request from the id of an event on its stream; undefined if the stream belongs to no request. */
export function requestOf(eventId: string): Id | undefined {
  const mark = TAGGED_ID.exec(eventId)?.[1]
  if (mark === undefined) return undefined
  try {
    const id: unknown = parseExact(Buffer.from(mark, "base64url").toString("utf8"))
    return isId(id) ? id : undefined
  } catch {
    return undefined
  }
}

export class EventLog {
  private readonly streams = new Map<number, LoggedStream>()
  private kept: StoredEvent[] = []
  private bytes = 0
  private lastStream = 0
  private ageMinutes = 0

  /** `name`, of `[a-z0-9]`, distinguishes the log from other logs of its session. */
  constructor(private readonly name: string) {}

  /** Opens a stream to `sink`, for a request or for messages that belong to none. Returns its number. */
  open(sink: EventSink, request?: Id): number {
    const id = ++this.lastStream
    const named = request === undefined ? "" : JSON.stringify(request)
    const requestTag =
      named === "" || named.length > MAX_REQUEST_TAG ? "" : `-${Buffer.from(named).toString("base64url")}`
    this.streams.set(id, { id, requestTag, last: 0, sink, done: false })
    return id
  }

  /** Returns the id of the event that marks the start of a stream. */
  start(id: number): string {
    const stream = this.streams.get(id)
    return stream === undefined ? "" : this.idOf(stream, 0)
  }

  /** Sends a frame on a stream and keeps it, even while the client is disconnected. */
  send(id: number, frame: Uint8Array | string): void {
    const stream = this.streams.get(id)
    if (stream === undefined) return
    stream.last++
    this.kept.push({ stream, number: stream.last, frame: own(frame), ageMinutes: this.ageMinutes })
    this.bytes += frame.length
    while (this.kept.length > MAX_EVENTS || (this.bytes > MAX_BYTES && this.kept.length > 1)) this.evict()
    if (stream.sink?.event(this.idOf(stream, stream.last), frame) === false) stream.sink = undefined
  }

  /** Called once a minute: drops events older than MAX_AGE minutes. */
  onMinute(): void {
    this.ageMinutes++
    while ((this.kept[0]?.ageMinutes ?? this.ageMinutes) < this.ageMinutes - MAX_AGE) this.evict()
  }

  /** Disconnects a stream from its client, unless another connection of the client has taken it over. */
  detach(id: number, sink: EventSink): void {
    const stream = this.streams.get(id)
    if (stream?.sink === sink) stream.sink = undefined
  }

  /** Whether the client of a stream is connected. */
  isConnected(id: number): boolean {
    return this.streams.get(id)?.sink !== undefined
  }

  /** Ends a stream and drops its events. */
  drop(id: number): void {
    const stream = this.streams.get(id)
    if (stream === undefined) return
    this.streams.delete(id)
    this.forget(stream)
    stream.sink?.end()
  }

  /** Ends a stream after its last event; keeps its events for a client that reconnects. */
  end(id: number): void {
    const stream = this.streams.get(id)
    if (stream === undefined) return
    stream.done = true
    stream.sink?.end()
    stream.sink = undefined
    this.trim()
  }

  /**
   * Resumes a stream after the last event that the client has seen. Returns the number of the stream; undefined if the id is not
   * from this log.
   */
  resume(lastEventId: string, sink: EventSink): number | undefined {
    const found = this.find(lastEventId)
    if (found === undefined) return undefined
    const { stream, seen } = found
    stream.sink?.end()
    stream.sink = sink
    for (const kept of this.kept)
      if (kept.stream === stream && kept.number > seen) sink.event(this.idOf(stream, kept.number), kept.frame)
    if (stream.done) {
      sink.end()
      stream.sink = undefined
    }
    return stream.id
  }

  /** Whether an event belongs to this log. */
  has(eventId: string): boolean {
    return this.find(eventId) !== undefined
  }

  /** Whether a stream has ended and the client has seen all of it. */
  isOver(lastEventId: string): boolean {
    const found = this.find(lastEventId)
    return found?.stream.done === true && found.seen === found.stream.last
  }

  // ---

  private find(eventId: string): { readonly stream: LoggedStream; readonly seen: number } | undefined {
    const [name, streamText = "", numberText = ""] = eventId.split("-", 3)
    const stream = /^\d{1,15}$/.test(streamText) ? this.streams.get(Number(streamText)) : undefined
    if (name !== this.name || stream === undefined || !/^\d{1,15}$/.test(numberText)) return undefined
    const seen = Number(numberText)
    return seen <= stream.last && eventId === this.idOf(stream, seen) ? { stream, seen } : undefined
  }

  private idOf({ id, requestTag }: LoggedStream, number: number): string {
    return `${this.name}-${id}-${number}${requestTag}`
  }

  private forget(stream: LoggedStream): void {
    this.kept = this.kept.filter((kept) => {
      if (kept.stream !== stream) return true
      this.bytes -= kept.frame.length
      return false
    })
  }

  private evict(): void {
    const oldest = this.kept.shift()
    if (oldest === undefined) return
    const { stream, number, frame } = oldest
    this.bytes -= frame.length
    if (stream.done && number === stream.last) this.streams.delete(stream.id)
  }

  /** Keeps at most MAX_STREAMS streams that have ended. */
  private trim(): void {
    if (this.streams.size <= MAX_STREAMS) return
    for (const [id, stream] of this.streams) {
      if (!stream.done) continue
      this.streams.delete(id)
      this.forget(stream)
      if (this.streams.size <= MAX_STREAMS) return
    }
  }
}

/** Copies a view of a larger buffer, because the view would keep the whole buffer in memory. */
const own = (frame: Uint8Array | string): Uint8Array | string =>
  typeof frame !== "string" && frame.byteLength < frame.buffer.byteLength ? frame.slice() : frame

const TAGGED_ID = /^[a-z0-9]+-\d{1,15}-\d{1,15}-([\w-]+)$/
/** A longer id would make the `Last-Event-ID` header too long. */
const MAX_REQUEST_TAG = 256
const MAX_EVENTS = 256
const MAX_BYTES = 4 * 1024 * 1024
const MAX_STREAMS = 32
/** In minutes: as long as a call waits for a disconnected client. */
const MAX_AGE = 10
