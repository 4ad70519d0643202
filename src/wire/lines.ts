/** Newline-delimited frames: writes frames as lines, and splits a byte stream into lines without copying whole ones. */
import { asBuffer, decode, encode } from "./frame.ts"

const LF = 0x0a
const SPACE = 0x20
const CR = 0x0d

/** Returns a frame, which must be JSON, as one line for every reader of lines, with LF at its end. */
export function lineOf(frame: Uint8Array | string): Uint8Array {
  const bytes = escapeSeparators(frame)
  const line = new Uint8Array(bytes.length + 1)
  line.set(bytes)
  blankLineBreaks(line, 0)
  line[bytes.length] = LF
  return line
}

/**
 * Returns JSON as bytes with U+0085, U+2028 and U+2029 escaped: many readers of lines (Node's readline, Java's Scanner,
 * Python's splitlines) end a line there. JSON has them in strings alone. The bytes are the frame's own if it has none.
 */
export function escapeSeparators(frame: Uint8Array | string): Uint8Array {
  if (typeof frame === "string") return encode(escapeSeparatorsIn(frame))
  const buffer = asBuffer(frame)
  return SEPARATOR_BYTES.some((separator) => buffer.includes(separator))
    ? encode(escapeSeparatorsIn(decode(frame)))
    : frame
}

/** Does the same for text. */
export const escapeSeparatorsIn = (text: string): string =>
  SEPARATORS.some((separator) => text.includes(separator))
    ? text.replace(ANY_SEPARATOR, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`)
    : text

/**
 * Replaces each raw CR and LF of JSON from `from` on by a space. Both are white space in JSON, but each would end a line, so
 * that a server could forge a message between them.
 */
export function blankLineBreaks(bytes: Uint8Array, from: number): void {
  for (const byte of [CR, LF])
    for (let at = bytes.indexOf(byte, from); at >= 0; at = bytes.indexOf(byte, at + 1)) bytes[at] = SPACE
}

/**
 * Returns a function that takes chunks and calls `emit` with each line, without its break. Skips empty lines. Drops a line
 * longer than `limit` bytes, so that a peer cannot fill the memory: calls `onlong` when an unfinished line passes the limit,
 * and `ondropped` with the edges of the line at its end. Lines are views of the chunks: a chunk must not be reused.
 */
export function createSplitter(
  emit: (line: Uint8Array) => void,
  limit: number,
  ondropped: (edges: Uint8Array) => void,
  onlong: () => void = () => undefined,
): (chunk: Uint8Array) => void {
  let held: Uint8Array[] = []
  let size = 0
  let dropped: Edges | undefined

  const end = (tail: Uint8Array) => {
    let line = tail
    if (held.length > 0) {
      held.push(tail)
      line = Buffer.concat(held, size + tail.length)
      held = []
      size = 0
    }
    if (line.length > limit) {
      const edges = new Edges()
      edges.push(line)
      return ondropped(edges.bytes())
    }
    const to = line[line.length - 1] === CR ? line.length - 1 : line.length
    if (to > 0) emit(to === line.length ? line : line.subarray(0, to))
  }

  return (chunk) => {
    let from = 0
    for (let at = chunk.indexOf(LF); at >= 0; at = chunk.indexOf(LF, from)) {
      const tail = chunk.subarray(from, at)
      if (dropped === undefined) end(tail)
      else {
        dropped.push(tail)
        ondropped(dropped.bytes())
        dropped = undefined
      }
      from = at + 1
    }
    if (from === chunk.length) return
    const rest = from === 0 ? chunk : chunk.subarray(from)
    if (dropped !== undefined) return dropped.push(rest)
    held.push(rest)
    size += rest.length
    if (size > limit) {
      dropped = new Edges()
      for (const part of held) dropped.push(part)
      held = []
      size = 0
      onlong()
    }
  }
}

/** Keeps the first and last bytes of a message that is too large to keep; mostly the id is in one of them. */
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

const EDGE = 256
const SEPARATORS = ["\u0085", "\u2028", "\u2029"]
const SEPARATOR_BYTES = SEPARATORS.map((separator) => Buffer.from(separator))
const ANY_SEPARATOR = /[\u0085\u2028\u2029]/g
