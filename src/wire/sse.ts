/**
 * Server-sent events, both ways, on bytes: a megabyte in one event is neither decoded nor copied more than once.
 * From: HTML standard, "Server-sent events".
 */
import { decode, encode } from "./frame.ts"
import { Edges } from "./lines.ts"

export type ServerSentEvent = {
  readonly event: string | undefined
  readonly id: string | undefined
  /** Milliseconds the client should wait before it reconnects. */
  readonly retry: number | undefined
  /** Undefined for an event without a data field; empty for `data:` alone. */
  readonly data: Uint8Array | undefined
}

const CR = 0x0d
const LF = 0x0a
const COLON = 0x3a
const SPACE = 0x20

/**
 * One event as bytes. `data` must hold no line break unless it is JSON, where raw CR and LF are white space and become
 * spaces (a raw CR would end the field and let a frame forge an event).
 */
export function formatEvent(data: Uint8Array | string, id?: string, event?: string): Uint8Array {
  const bytes = typeof data === "string" ? encode(data) : data
  const head = encode(`${event === undefined ? "" : `event: ${event}\n`}${id === undefined ? "" : `id: ${id}\n`}data: `)
  const out = new Uint8Array(head.length + bytes.length + 2)
  out.set(head, 0)
  out.set(bytes, head.length)
  for (const breaker of [CR, LF]) {
    for (let at = out.indexOf(breaker, head.length); at >= 0; at = out.indexOf(breaker, at + 1)) out[at] = SPACE
  }
  out[out.length - 2] = LF
  out[out.length - 1] = LF
  return out
}

/**
 * A decoder: feed it chunks as they come; each whole event is given to `emit`. One of more than `limit` bytes is not kept,
 * so that a peer cannot make svc hold without bound: `onlong` is told when it has passed the limit (and may throw), and at
 * its end `ondropped` is given the edges of its data.
 */
export function createDecoder(
  emit: (event: ServerSentEvent) => void,
  limit: number,
  ondropped: (edges: Uint8Array) => void,
  onlong: () => void = () => undefined,
): (chunk: Uint8Array) => void {
  let held: Uint8Array[] = []
  let heldBytes = 0
  let dropped: Edges | undefined
  /** Inside of a line that is not kept. */
  let passing = false
  let afterCr = false
  let started = false
  let data: Uint8Array[] = []
  let dataBytes = 0
  let event: string | undefined
  let id: string | undefined
  let retry: number | undefined

  const drop = (parts: readonly Uint8Array[]) => {
    const begins = dropped === undefined
    dropped ??= new Edges()
    for (const part of parts) dropped.push(part)
    data = []
    dataBytes = 0
    if (begins) onlong()
  }

  const dispatch = () => {
    if (dropped !== undefined) {
      ondropped(dropped.bytes())
      dropped = undefined
    } else if (data.length > 0 || id !== undefined || retry !== undefined || event !== undefined) {
      emit({ event, id, retry, data: data.length === 0 ? undefined : join(data, dataBytes, LF) })
    }
    data = []
    dataBytes = 0
    event = undefined
    id = undefined
    retry = undefined
  }

  const line = (bytes: Uint8Array) => {
    if (bytes.length === 0) return dispatch()
    const colon = bytes.indexOf(COLON)
    if (colon === 0) return
    const field = decode(colon < 0 ? bytes : bytes.subarray(0, colon))
    let value = colon < 0 ? bytes.subarray(bytes.length) : bytes.subarray(colon + 1)
    if (value[0] === SPACE) value = value.subarray(1)
    switch (field) {
      case "data":
        dataBytes += value.length + 1
        data.push(value)
        if (dropped !== undefined || dataBytes > limit) drop(data)
        return
      case "event":
        event = decode(value)
        return
      case "id":
        if (!value.includes(0)) id = decode(value)
        return
      case "retry": {
        const text = decode(value)
        if (/^[0-9]{1,9}$/.test(text)) retry = Number(text)
        return
      }
      default:
        return
    }
  }

  const end = (chunk: Uint8Array, from: number, to: number) => {
    if (passing) {
      passing = false
      return drop([chunk.subarray(from, to)])
    }
    if (held.length === 0) return line(chunk.subarray(from, to))
    held.push(chunk.subarray(from, to))
    const whole = join(held, heldBytes + to - from, undefined)
    held = []
    heldBytes = 0
    line(whole)
  }

  return (input) => {
    let chunk = input
    if (!started && chunk.length > 0) {
      started = true
      if (chunk[0] === 0xef && chunk[1] === 0xbb && chunk[2] === 0xbf) chunk = chunk.subarray(3)
    }
    let from = 0
    if (afterCr && chunk.length > 0) {
      if (chunk[0] === LF) from = 1
      afterCr = false
    }
    let lf = chunk.indexOf(LF, from)
    let cr = chunk.indexOf(CR, from)
    while (lf >= 0 || cr >= 0) {
      const at = cr >= 0 && (lf < 0 || cr < lf) ? cr : lf
      end(chunk, from, at)
      from = at + 1
      if (at === cr) {
        if (from === chunk.length) afterCr = true
        else if (chunk[from] === LF) from++
        cr = chunk.indexOf(CR, from)
      }
      if (lf >= 0 && lf < from) lf = chunk.indexOf(LF, from)
    }
    if (from === chunk.length) return
    if (passing) return drop([chunk.subarray(from)])
    // A chunk may be a view of a reused buffer, so what is held over is copied.
    held.push(chunk.slice(from))
    heldBytes += chunk.length - from
    if (heldBytes > limit) {
      drop(held)
      held = []
      heldBytes = 0
      passing = true
    }
  }
}

// ---

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
