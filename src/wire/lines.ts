/** Newline-delimited frames out of a byte stream: whole lines in one chunk are passed on without copying. */

import { encode } from "./frame.ts"

const LF = 0x0a
const SPACE = 0x20
const CR = 0x0d

/** A frame as one line, whatever breaks stand between its tokens. */
export function lineOf(frame: Uint8Array | string): Uint8Array {
  const bytes = typeof frame === "string" ? encode(frame) : frame
  const line = new Uint8Array(bytes.length + 1)
  line.set(bytes)
  for (let at = line.indexOf(LF); at >= 0; at = line.indexOf(LF, at + 1)) line[at] = SPACE
  line[bytes.length] = LF
  return line
}

/**
 * A splitter: feed it chunks; each line without its break is given to `emit`. Empty lines are left out. A line longer
 * than `limit` bytes is not kept, so that a peer cannot make svc hold without bound: `onlong` is told when it has passed the
 * limit and not ended yet, and at its end `ondropped` is given its edges. The lines are views of the chunks: a chunk must not be reused.
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

/** The first and the last bytes of something that is too large to be kept: an id stands in one of them, mostly. */
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
