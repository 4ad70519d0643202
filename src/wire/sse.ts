/**
 * Writes and reads server-sent events as bytes, so that a megabyte in one event is neither decoded nor copied more than
 * once. HTML standard: Server-sent events.
 */
import { decode, encode, type FrameSink, LOOK_AHEAD, type OfferFrame } from "./frame.ts"
import { blankLineBreaks, Edges, escapeSeparators } from "./lines.ts"

export type ServerSentEvent = {
  readonly event: string | undefined
  readonly id: string | undefined
  /** Milliseconds to wait before reconnecting. */
  readonly retry: number | undefined
  /** Undefined for an event without a data field; empty for `data:` alone. */
  readonly data: Uint8Array | undefined
}

const CR = 0x0d
const LF = 0x0a
const COLON = 0x3a
const SPACE = 0x20
const DATA = encode("data:")
const LINE_BREAK = encode("\n")

/**
 * Returns one event as bytes. Events of MCP are named `message`, because some clients ignore events without a name. `data` must
 * contain no line break unless it is JSON: the event has it as a single line for every line reader, because a line break would end the field and let a frame forge an event.
 */
export function formatEvent(data: Uint8Array | string, id?: string, event = "message"): Uint8Array {
  const bytes = escapeSeparators(data)
  const head = encode(`event: ${event}\n${id === undefined ? "" : `id: ${id}\n`}data: `)
  const out = new Uint8Array(head.length + bytes.length + 2)
  out.set(head, 0)
  out.set(bytes, head.length)
  blankLineBreaks(out, head.length)
  out[out.length - 2] = LF
  out[out.length - 1] = LF
  return out
}

export type SseDecoderOptions = {
  /** Receives each whole event. */
  onevent(event: ServerSentEvent): void
  /** Runs at each comment: a server that sends comments lives. */
  readonly oncomment?: (() => void) | undefined
  /** Bytes of one event at most. */
  readonly limit: number
  /** Receives the edges of the data of an event past the limit, at the event's end. */
  ondropped(edges: Uint8Array): void
  /** Runs when an event passes the limit; may throw. */
  onlong?(): void
  /** Offers long unfinished data. If an owner takes the data, the event has none. */
  readonly onlarge?: OfferFrame | undefined
}

/**
 * Decodes a stream of server-sent events, fed in chunks. Drops an event of more than `limit` bytes, so that a peer cannot
 * make svc buffer without bound.
 */
export class SseDecoder {
  /** The parts of a line that has not ended. */
  private held: Uint8Array[] = []
  private heldBytes = 0
  /** The edges of an event past the limit. */
  private dropped: Edges | undefined
  /** Whether the decoder is inside a line that it drops. */
  private skipsLine = false
  private endedWithCr = false
  private started = false
  private data: Uint8Array[] = []
  private dataBytes = 0
  private event: string | undefined
  private id: string | undefined
  private retry: number | undefined
  /** Set while an owner takes the event's data as it arrives. */
  private sink: FrameSink | undefined
  /** Whether the owner takes the line that has begun. */
  private passesLine = false
  /** Set if the owner asks to wait. */
  private waiting: Promise<void> | undefined

  constructor(private readonly options: SseDecoderOptions) {}

  /**
   * Decodes the next chunk. Copies the bytes that it holds, because a chunk may be a view of a reused buffer. Returns a promise
   * if the owner of large data asks to wait.
   */
  push(input: Uint8Array): Promise<void> | undefined {
    let chunk = input
    if (!this.started && chunk.length > 0) {
      this.started = true
      if (chunk[0] === 0xef && chunk[1] === 0xbb && chunk[2] === 0xbf) chunk = chunk.subarray(3)
    }
    let from = 0
    if (this.endedWithCr && chunk.length > 0) {
      if (chunk[0] === LF) from = 1
      this.endedWithCr = false
    }
    let lf = chunk.indexOf(LF, from)
    let cr = chunk.indexOf(CR, from)
    while (lf >= 0 || cr >= 0) {
      const at = cr >= 0 && (lf < 0 || cr < lf) ? cr : lf
      this.endLine(chunk.subarray(from, at))
      from = at + 1
      if (at === cr) {
        if (from === chunk.length) this.endedWithCr = true
        else if (chunk[from] === LF) from++
        cr = chunk.indexOf(CR, from)
      }
      if (lf >= 0 && lf < from) lf = chunk.indexOf(LF, from)
    }
    if (from < chunk.length) this.hold(chunk.subarray(from))
    const { waiting } = this
    this.waiting = undefined
    return waiting
  }

  /** Reports to the owner of unfinished data that the stream has failed. */
  fail(reason: string): void {
    this.sink?.fail(new Error(reason))
    this.sink = undefined
  }

  // ---

  /** Holds the start of a line until the line ends. */
  private hold(part: Uint8Array): void {
    if (this.skipsLine) {
      this.drop([part])
      return
    }
    if (this.passesLine) {
      this.pass(part)
      return
    }
    this.held.push(part.slice())
    const before = this.heldBytes
    this.heldBytes += part.length
    if (this.heldBytes <= this.options.limit) {
      if (before <= LOOK_AHEAD && this.heldBytes > LOOK_AHEAD) this.offer()
      return
    }
    this.drop(this.held)
    this.held = []
    this.heldBytes = 0
    this.skipsLine = true
  }

  private endLine(tail: Uint8Array): void {
    if (this.skipsLine) {
      this.skipsLine = false
      this.drop([tail])
    } else if (this.passesLine) {
      this.passesLine = false
      this.pass(tail)
    } else if (this.held.length === 0) this.takeLine(tail)
    else {
      this.held.push(tail)
      const line = join(this.held, this.heldBytes + tail.length, undefined)
      this.held = []
      this.heldBytes = 0
      this.takeLine(line)
    }
  }

  private takeLine(line: Uint8Array): void {
    if (line.length === 0) {
      this.dispatch()
      return
    }
    const colon = line.indexOf(COLON)
    if (colon === 0) {
      this.options.oncomment?.()
      return
    }
    const field = decode(colon < 0 ? line : line.subarray(0, colon))
    let value = colon < 0 ? line.subarray(line.length) : line.subarray(colon + 1)
    if (value[0] === SPACE) value = value.subarray(1)
    this.takeField(field, value)
  }

  private takeField(field: string, value: Uint8Array): void {
    switch (field) {
      case "data":
        if (this.sink !== undefined) {
          this.pass(LINE_BREAK)
          this.pass(value)
          return
        }
        this.dataBytes += value.length + 1
        this.data.push(value)
        if (this.dropped !== undefined || this.dataBytes > this.options.limit) this.drop(this.data)
        return
      case "event":
        this.event = decode(value)
        return
      case "id":
        if (!value.includes(0)) this.id = decode(value)
        return
      case "retry": {
        const text = decode(value)
        if (/^[0-9]{1,9}$/.test(text)) this.retry = Number(text)
        return
      }
      default:
        return
    }
  }

  /** Offers the held data: the unfinished first line of an event's data. */
  private offer(): void {
    if (
      this.options.onlarge === undefined ||
      this.data.length > 0 ||
      this.dropped !== undefined ||
      this.sink !== undefined
    )
      return
    const line = join(this.held, this.heldBytes, undefined)
    this.held = [line]
    if (!DATA.every((byte, at) => line[at] === byte)) return
    const data = line.subarray(line[DATA.length] === SPACE ? DATA.length + 1 : DATA.length)
    this.sink = this.options.onlarge(data)
    if (this.sink === undefined) return
    this.held = []
    this.heldBytes = 0
    this.passesLine = true
    this.dataBytes = data.length
  }

  /** Passes data to its owner. */
  private pass(part: Uint8Array): void {
    this.dataBytes += part.length
    if (this.dataBytes <= this.options.limit) {
      this.waiting = this.sink?.push(part) ?? this.waiting
      return
    }
    this.sink = undefined
    this.skipsLine = this.passesLine
    this.passesLine = false
    this.drop([part])
  }

  /** Drops parts of an event past the limit, and keeps its edges. */
  private drop(parts: readonly Uint8Array[]): void {
    const isFirst = this.dropped === undefined
    this.dropped ??= new Edges()
    for (const part of parts) this.dropped.push(part)
    this.data = []
    this.dataBytes = 0
    if (isFirst) this.options.onlong?.()
  }

  private dispatch(): void {
    const { dropped, event, id, retry, data, dataBytes, sink } = this
    this.dropped = undefined
    this.sink = undefined
    this.data = []
    this.dataBytes = 0
    this.event = undefined
    this.id = undefined
    this.retry = undefined
    if (dropped !== undefined) this.options.ondropped(dropped.bytes())
    else if (data.length > 0 || id !== undefined || retry !== undefined || event !== undefined)
      this.options.onevent({ event, id, retry, data: data.length === 0 ? undefined : join(data, dataBytes, LF) })
    sink?.end()
  }
}

// ---

/** Joins parts; `bytes` is their total length, plus one for each part if there is a separator. */
function join(parts: readonly Uint8Array[], bytes: number, separator: number | undefined): Uint8Array {
  const [first] = parts
  if (parts.length === 1 && first !== undefined) return first
  const out = new Uint8Array(separator === undefined ? bytes : bytes - 1)
  let at = 0
  for (const [index, part] of parts.entries()) {
    if (index > 0 && separator !== undefined) out[at++] = separator
    out.set(part, at)
    at += part.length
  }
  return out
}
