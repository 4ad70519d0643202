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
 * than `limit` bytes is dropped whole and reported to `ondropped`, so that a peer cannot make svc hold without bound.
 * The lines are views of the chunks: a chunk must not be reused.
 */
export function createSplitter(
  emit: (line: Uint8Array) => void,
  limit: number,
  ondropped: () => void,
): (chunk: Uint8Array) => void {
  let held: Uint8Array[] = []
  let size = 0
  let dropping = false

  const end = (tail: Uint8Array) => {
    let line = tail
    if (held.length > 0) {
      held.push(tail)
      line = Buffer.concat(held, size + tail.length)
      held = []
      size = 0
    }
    if (line.length > limit) {
      ondropped()
      return
    }
    const to = line[line.length - 1] === CR ? line.length - 1 : line.length
    if (to > 0) emit(to === line.length ? line : line.subarray(0, to))
  }

  return (chunk) => {
    let from = 0
    for (let at = chunk.indexOf(LF); at >= 0; at = chunk.indexOf(LF, from)) {
      if (dropping) dropping = false
      else end(chunk.subarray(from, at))
      from = at + 1
    }
    if (from === chunk.length || dropping) return
    held.push(from === 0 ? chunk : chunk.subarray(from))
    size += chunk.length - from
    if (size > limit) {
      held = []
      size = 0
      dropping = true
      ondropped()
    }
  }
}
