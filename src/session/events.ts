/**
 * What was sent on a session's streams, kept so that a client whose connection broke can take a stream up where it was.
 * 2025-11-25: Transports, Resumability and Redelivery.
 *
 *  1. Bounded for each session in events and bytes; the oldest go first, and a stream that lost one cannot be taken up.
 *  2. A stream whose client is gone goes on: what it says is kept until the client is back.
 *  3. The ids of events say which log they are of: those of another, as before a restart, are not taken for its own.
 */

/** Takes one event of a stream; false where nobody is there any more. */
export type Sink = { event(id: string, frame: Uint8Array | string): boolean; end(): void }

type Kept = { readonly stream: Stream; readonly number: number; readonly frame: Uint8Array | string }
type Stream = { readonly id: number; last: number; firstKept: number; sink: Sink | undefined; done: boolean }

export class EventLog {
  private readonly streams = new Map<number, Stream>()
  private kept: Kept[] = []
  private bytes = 0
  private lastStream = 0

  /** `name` tells it from the other logs of its session: of `[a-z0-9]`. */
  constructor(private readonly name: string) {}

  /** Opens a stream towards `sink`; gives its number. */
  open(sink: Sink): number {
    const id = ++this.lastStream
    this.streams.set(id, { id, last: 0, firstKept: 1, sink, done: false })
    return id
  }

  /** The id of an event that says where a stream begins, for one that has sent nothing yet. */
  start(stream: number): string {
    return this.idOf(stream, 0)
  }

  /** Sends a frame on a stream, or keeps it for when its client is back. */
  send(id: number, frame: Uint8Array | string): void {
    const stream = this.streams.get(id)
    if (stream === undefined) return
    stream.last++
    this.kept.push({ stream, number: stream.last, frame: own(frame) })
    this.bytes += frame.length
    while (this.kept.length > MAX_EVENTS || (this.bytes > MAX_BYTES && this.kept.length > 1)) this.evict()
    if (stream.sink?.event(this.idOf(id, stream.last), frame) === false) stream.sink = undefined
  }

  /** The client of a stream is gone. */
  detach(id: number, sink: Sink): void {
    const stream = this.streams.get(id)
    if (stream?.sink === sink) stream.sink = undefined
  }

  /** Whether anybody is there to hear a stream. */
  isHeard(id: number): boolean {
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
   * none of ours or what came after it is not kept any more.
   */
  resume(lastEventId: string, sink: Sink): number | undefined {
    const [name, streamText = "", numberText = "", ...more] = lastEventId.split("-")
    const stream = /^\d{1,15}$/.test(streamText) ? this.streams.get(Number(streamText)) : undefined
    if (name !== this.name || more.length > 0 || !/^\d{1,15}$/.test(numberText)) return undefined
    const seen = Number(numberText)
    if (stream === undefined || seen > stream.last || seen + 1 < stream.firstKept) return undefined
    stream.sink?.end()
    stream.sink = sink
    for (const kept of this.kept)
      if (kept.stream === stream && kept.number > seen) sink.event(this.idOf(stream.id, kept.number), kept.frame)
    if (stream.done) {
      sink.end()
      stream.sink = undefined
    }
    return stream.id
  }

  // ---

  private idOf(stream: number, number: number): string {
    return `${this.name}-${stream}-${number}`
  }

  private forget(stream: Stream): void {
    this.kept = this.kept.filter((kept) => {
      if (kept.stream !== stream) return true
      this.bytes -= kept.frame.length
      return false
    })
  }

  private evict(): void {
    const oldest = this.kept.shift()
    if (oldest === undefined) return
    this.bytes -= oldest.frame.length
    oldest.stream.firstKept = oldest.number + 1
    if (oldest.stream.done && oldest.stream.firstKept > oldest.stream.last) this.streams.delete(oldest.stream.id)
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

const MAX_EVENTS = 256
const MAX_BYTES = 4 * 1024 * 1024
const MAX_STREAMS = 32
