/**
 * What was sent on a session's streams, kept so that a client whose connection broke can take a stream up where it was.
 * 2025-11-25: Transports, Resumability and Redelivery.
 *
 *  1. Bounded for each session in events, bytes and time; the oldest go first, and a stream that lost some goes on without
 *     them.
 *  2. A stream whose client is gone goes on: what it says is kept until the client is back.
 *  3. The ids of events say which log they are of: those of another, as before a restart, are not taken for its own. They
 *     say too which request's stream it is, so that a client can be told when its answer is lost.
 */
import { parseExact } from "../lib/json.ts"
import { type Id, isId } from "../wire/message.ts"

/** Takes one event of a stream; false where nobody is there any more. */
export type EventSink = { event(id: string, frame: Uint8Array | string): boolean; end(): void }

type StoredEvent = {
  readonly stream: LoggedStream
  readonly number: number
  readonly frame: Uint8Array | string
  /** How old the log was. */
  readonly ageMinutes: number
}
type LoggedStream = {
  readonly id: number
  /** What its events' ids end with: the request that it answers. */
  readonly requestTag: string
  last: number
  sink: EventSink | undefined
  done: boolean
}

/** The request whose stream an event is of, by the event's id; undefined where it is of none. */
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

  /** `name` tells it from the other logs of its session: of `[a-z0-9]`. */
  constructor(private readonly name: string) {}

  /** Opens a stream towards `sink`, for a request or for what belongs to none; gives its number. */
  open(sink: EventSink, request?: Id): number {
    const id = ++this.lastStream
    const named = request === undefined ? "" : JSON.stringify(request)
    const requestTag =
      named === "" || named.length > MAX_REQUEST_TAG ? "" : `-${Buffer.from(named).toString("base64url")}`
    this.streams.set(id, { id, requestTag, last: 0, sink, done: false })
    return id
  }

  /** The id of an event that says where a stream begins, for one that has sent nothing yet. */
  start(id: number): string {
    const stream = this.streams.get(id)
    return stream === undefined ? "" : this.idOf(stream, 0)
  }

  /** Sends a frame on a stream, or keeps it for when its client is back. */
  send(id: number, frame: Uint8Array | string): void {
    const stream = this.streams.get(id)
    if (stream === undefined) return
    stream.last++
    this.kept.push({ stream, number: stream.last, frame: own(frame), ageMinutes: this.ageMinutes })
    this.bytes += frame.length
    while (this.kept.length > MAX_EVENTS || (this.bytes > MAX_BYTES && this.kept.length > 1)) this.evict()
    if (stream.sink?.event(this.idOf(stream, stream.last), frame) === false) stream.sink = undefined
  }

  /** A minute has passed: what nobody has come back for in a while is not kept for the rest of the session's life. */
  onMinute(): void {
    this.ageMinutes++
    while ((this.kept[0]?.ageMinutes ?? this.ageMinutes) < this.ageMinutes - MAX_AGE) this.evict()
  }

  /** The client of a stream is gone. */
  detach(id: number, sink: EventSink): void {
    const stream = this.streams.get(id)
    if (stream?.sink === sink) stream.sink = undefined
  }

  /** Whether anybody is there to hear a stream. */
  isConnected(id: number): boolean {
    return this.streams.get(id)?.sink !== undefined
  }

  /** Ends a stream and forgets what it said. */
  drop(id: number): void {
    const stream = this.streams.get(id)
    if (stream === undefined) return
    this.streams.delete(id)
    this.forget(stream)
    stream.sink?.end()
  }

  /** A stream has said all it had to say. */
  end(id: number): void {
    const stream = this.streams.get(id)
    if (stream === undefined) return
    stream.done = true
    stream.sink?.end()
    stream.sink = undefined
    this.trim()
  }

  /**
   * Goes on with a stream after the event the client saw last. Gives the stream's number, or undefined where the id is
   * none of ours.
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

  /** Whether the client has seen all of a stream that has ended. */
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

  /** Streams that are done are kept for a client that may come back, but not all of them. */
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

/** A view would hold all of the buffer it is a view of. */
const own = (frame: Uint8Array | string): Uint8Array | string =>
  typeof frame !== "string" && frame.byteLength < frame.buffer.byteLength ? frame.slice() : frame

const TAGGED_ID = /^[a-z0-9]+-\d{1,15}-\d{1,15}-([\w-]+)$/
/** A longer id would make headers that are too long. */
const MAX_REQUEST_TAG = 256
const MAX_EVENTS = 256
const MAX_BYTES = 4 * 1024 * 1024
const MAX_STREAMS = 32
/** As long as a call waits for a client that has left its stream. */
const MAX_AGE = 10
