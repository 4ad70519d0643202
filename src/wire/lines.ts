/** Newline-delimited frames: writes frames as lines, and splits a byte stream into lines without copying whole ones. */
import { asBuffer, decode, encode, type FrameSink, LOOK_AHEAD, type OfferFrame } from "./frame.ts"

const LF = 0x0a
const SPACE = 0x20
const CR = 0x0d

/** Returns a frame, which must be JSON, as a single line for every line reader, with LF at its end. */
export function lineOf(frame: Uint8Array | string): Uint8Array {
  const bytes = escapeSeparators(frame)
  const line = new Uint8Array(bytes.length + 1)
  line.set(bytes)
  blankLineBreaks(line, 0)
  line[bytes.length] = LF
  return line
}

/**
 * Returns JSON as bytes with U+0085, U+2028 and U+2029 escaped: many line readers (Node's readline, Java's Scanner, Python's
 * splitlines) end a line there. In JSON they can occur only in strings. Returns the frame's own bytes if it has none of them.
 */
export function escapeSeparators(frame: Uint8Array | string): Uint8Array {
  if (typeof frame === "string") return encode(escapeSeparatorsIn(frame))
  const buffer = asBuffer(frame)
  return SEPARATOR_BYTES.some((separator) => buffer.includes(separator))
    ? encode(escapeSeparatorsIn(decode(frame)))
    : frame
}

/** Escapes the same characters in text. */
export const escapeSeparatorsIn = (text: string): string =>
  SEPARATORS.some((separator) => text.includes(separator))
    ? text.replace(ANY_SEPARATOR, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`)
    : text

/**
 * Replaces each raw CR and LF of JSON from `from` on with a space. Both are white space in JSON, but each would end a line, so
 * that a server could forge a message between two of them.
 */
export function blankLineBreaks(bytes: Uint8Array, from: number): void {
  for (const byte of [CR, LF])
    for (let at = bytes.indexOf(byte, from); at >= 0; at = bytes.indexOf(byte, at + 1)) bytes[at] = SPACE
}

/**
 * Returns a function that takes chunks and calls `emit` with each line, without its break. Skips empty lines. Drops a line
 * longer than `limit` bytes, so that a peer cannot fill the memory: calls `onlong` when an unfinished line passes the limit,
 * and `ondropped` with the edges of the line when the line ends. Lines are views of the chunks: a chunk must not be reused.
 * Offers long unfinished lines to `onlarge`; the function returns a promise if the owner of such a line asks to wait.
 */
export function createSplitter(
  emit: (line: Uint8Array) => void,
  limit: number,
  ondropped: (edges: Uint8Array) => void,
  onlong: () => void = () => undefined,
  onlarge?: OfferFrame,
): (chunk: Uint8Array) => Promise<void> | undefined {
  /** The line that has begun in an earlier chunk. */
  let partial: PartialFrame | undefined

  const end = (tail: Uint8Array) => {
    const whole = partial === undefined ? wholeOrEdges(tail, limit) : partial.end(tail)
    partial = undefined
    if (whole.kind === "dropped") return ondropped(whole.edges)
    if (whole.kind === "taken") return
    const { frame: line } = whole
    const to = line[line.length - 1] === CR ? line.length - 1 : line.length
    if (to > 0) emit(to === line.length ? line : line.subarray(0, to))
  }

  return (chunk) => {
    let from = 0
    for (let at = chunk.indexOf(LF); at >= 0; at = chunk.indexOf(LF, from)) {
      end(chunk.subarray(from, at))
      from = at + 1
    }
    if (from === chunk.length) return undefined
    partial ??= new PartialFrame(limit, onlong, onlarge)
    return partial.push(from === 0 ? chunk : chunk.subarray(from))
  }
}

/** The outcome at the end of a frame: it is whole, its owner has taken it, or it was longer than the limit. */
type EndedFrame =
  | { readonly kind: "whole"; readonly frame: Uint8Array }
  | { readonly kind: "taken" }
  | { readonly kind: "dropped"; readonly edges: Uint8Array }

/** A frame that arrives in parts. Holds the parts until the frame is whole, unless an owner takes it or it passes the limit. */
export class PartialFrame {
  private parts: Uint8Array[] = []
  private size = 0
  /** The edges of the frame, if its parts are not held. */
  private edges: Edges | undefined
  private sink: FrameSink | undefined

  constructor(
    private readonly limit: number,
    private readonly onlong: () => void,
    private readonly onlarge: OfferFrame | undefined,
  ) {}

  /** Adds the next part. Returns a promise if the owner of the frame asks to wait. */
  push(part: Uint8Array): Promise<void> | undefined {
    const before = this.size
    const waiting = this.add(part)
    if (before <= this.limit && this.size > this.limit) this.onlong()
    else if (before <= LOOK_AHEAD && this.size > LOOK_AHEAD) this.offer()
    return waiting
  }

  /** Adds the last part, and ends the frame for its owner. */
  end(tail?: Uint8Array): EndedFrame {
    if (tail !== undefined) void this.add(tail)
    if (this.size > this.limit) return { kind: "dropped", edges: this.keepEdges().bytes() }
    if (this.sink === undefined) return { kind: "whole", frame: joined(this.parts, this.size) }
    this.sink.end()
    return { kind: "taken" }
  }

  // ---

  private add(part: Uint8Array): Promise<void> | undefined {
    this.size += part.length
    if (this.edges === undefined) this.parts.push(part)
    else this.edges.push(part)
    if (this.size <= this.limit) return this.sink?.push(part)
    this.keepEdges()
    return undefined
  }

  private offer(): void {
    const head = joined(this.parts, this.size)
    this.parts = [head]
    this.sink = this.onlarge?.(head)
    if (this.sink !== undefined) this.keepEdges()
  }

  private keepEdges(): Edges {
    this.edges ??= edgesOf(this.parts)
    this.parts = []
    return this.edges
  }
}

/** The edges of a message that is too large to keep: its first and last bytes, which usually contain the id. */
export class Edges {
  private head: Uint8Array<ArrayBufferLike> = new Uint8Array()
  private tail: Uint8Array<ArrayBufferLike> = new Uint8Array()

  push(part: Uint8Array): void {
    if (this.head.length < EDGE) this.head = Buffer.concat([this.head, part.subarray(0, EDGE - this.head.length)])
    this.tail = part.length >= EDGE ? part.slice(-EDGE) : Buffer.concat([this.tail, part]).slice(-EDGE)
  }

  bytes(): Uint8Array {
    return Buffer.concat([this.head, this.tail])
  }
}

// ---

/** Returns a frame that arrived in one part, or its edges if it is longer than the limit. */
const wholeOrEdges = (frame: Uint8Array, limit: number): EndedFrame =>
  frame.length > limit ? { kind: "dropped", edges: edgesOf([frame]).bytes() } : { kind: "whole", frame }

const joined = (parts: readonly Uint8Array[], size: number): Uint8Array =>
  parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts, size)

function edgesOf(parts: readonly Uint8Array[]): Edges {
  const edges = new Edges()
  for (const part of parts) edges.push(part)
  return edges
}

const EDGE = 256
const SEPARATORS = ["\u0085", "\u2028", "\u2029"]
const SEPARATOR_BYTES = SEPARATORS.map((separator) => Buffer.from(separator))
const ANY_SEPARATOR = /[\u0085\u2028\u2029]/g
