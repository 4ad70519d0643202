/**
 * Frames: one JSON-RPC message as the bytes it came in. A success response that svc only passes on is made no object of:
 * it is checked in one pass (grammar.ts) and the client's id is put in the place of svc's own.
 *
 *  1. Bytes reach a client only where they are exactly one answer. The result stands between a head and a tail that are
 *     compared byte for byte, and the grammar says where it ends: no further member fits in between, under whatever
 *     spelling of its name.
 *         {"jsonrpc":"2.0","id":"…","result":{…}}
 *         {"jsonrpc":"2.0","result":{…},"id":"…"}
 *         {"result":{…},"jsonrpc":"2.0","id":"…"}
 *  2. Any other shape is parsed (the slow path), which refuses the same. Both give the same JSON.
 */
import { parseExact } from "../lib/json.ts"
import { elementsOf, endOfValue, MAX_DEPTH, namesOf, skipSpace } from "./grammar.ts"

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export const encode = (text: string): Uint8Array => encoder.encode(text)
export const decode = (frame: Uint8Array): string => decoder.decode(frame)

/** The text of a frame that may be text already, for svc made it. */
export const textOf = (frame: Uint8Array | string): string => (typeof frame === "string" ? frame : decode(frame))

/** Where a frame answers one of our requests: the number in the id and the byte range of the id, quotes included. */
export type FramedResponse = {
  readonly number: number
  readonly start: number
  readonly end: number
  readonly result: number
}

/** Outbound ids: a prefix nobody can guess and a number. */
export type RequestIds = {
  next(): number
  text(number: number): string
  /** The number in an id of ours, or undefined. */
  parse(id: unknown): number | undefined
  /** The number of ours in what is left of a message that could not be kept, or undefined. */
  findInEdges(edges: Uint8Array): number | undefined
  /**
   * The fast path: where `frame` is, as a whole and with nothing else in it, a success response to an id of ours that stands
   * at its head or tail. `result` is the offset of the first byte after the result's opening brace.
   */
  matchResponse(frame: Uint8Array): FramedResponse | undefined
}

const QUOTE = 0x22
const COMMA = 0x2c
const DIGIT_0 = 0x30
const DIGIT_4 = 0x34
const DIGIT_7 = 0x37
const ESCAPE = encoder.encode("\\u00")
const BRACE = 0x7d
const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
const BYTE_ORDER_MARK = encoder.encode("\ufeff")
/** Digits of a number of ours at most: so many are exact. */
const MAX_DIGITS = 15
const MAX_BATCH = 1000

/** `random` is unguessable text of `[A-Za-z0-9]`, new for each process. */
export function createRequestIds(random: string): RequestIds {
  const prefix = `svc${random}.`
  const head = encode(`{"jsonrpc":"2.0","id":"${prefix}`)
  const afterHead = encode(',"result":{')
  const tail = encode(`,"id":"${prefix}`)
  const tailHead = encode('{"result":{')
  const tailHead2 = encode('{"jsonrpc":"2.0","result":{')
  const version = encode(',"jsonrpc":"2.0"')
  const own = new RegExp(`^[1-9][0-9]{0,${MAX_DIGITS - 1}}$`)
  const mention = new RegExp(`"id"\\s*:\\s*"${prefix.replace(".", "\\.")}([1-9][0-9]{0,${MAX_DIGITS - 1}})"`)
  let last = 0
  return {
    next: () => ++last,
    text: (number) => prefix + number,
    parse(id) {
      if (typeof id !== "string" || !id.startsWith(prefix)) return undefined
      const digits = id.slice(prefix.length)
      return own.test(digits) ? Number(digits) : undefined
    },
    findInEdges(edges) {
      const found = mention.exec(decode(edges))?.[1]
      return found === undefined ? undefined : Number(found)
    },
    matchResponse(frame) {
      const { length } = frame
      // Most of what is no such answer is seen here.
      if (frame[length - 1] !== BRACE) return undefined
      if (matches(frame, head, 0)) {
        let at = head.length
        let number = 0
        for (; at < head.length + MAX_DIGITS; at++) {
          const digit = (frame[at] as number) - DIGIT_0
          if (!(digit >= 0 && digit <= 9)) break
          number = number * 10 + digit
        }
        if (number === 0 || frame[head.length] === DIGIT_0) return undefined
        if (frame[at] !== QUOTE || !matches(frame, afterHead, at + 1)) return undefined
        const result = at + 1 + afterHead.length
        if (endOfValue(frame, result - 1, MAX_DEPTH - 1) !== length - 1) return undefined
        return { number, start: head.length - prefix.length - 1, end: at + 1, result }
      }
      if (frame[length - 2] !== QUOTE) return undefined
      let at = length - 3
      let number = 0
      for (let scale = 1; at > length - 3 - MAX_DIGITS; at--, scale *= 10) {
        const digit = (frame[at] as number) - DIGIT_0
        if (!(digit >= 0 && digit <= 9)) break
        number += digit * scale
      }
      const first = at + 1
      const before = first - tail.length
      if (number === 0 || frame[first] === DIGIT_0 || !matches(frame, tail, before)) return undefined
      const last = matches(frame, tailHead, 0)
      if (!last && !matches(frame, tailHead2, 0)) return undefined
      const result = last ? tailHead.length : tailHead2.length
      const end = endOfValue(frame, result - 1, MAX_DEPTH - 1)
      if (end < 0 || (last ? !matches(frame, version, end) || end + version.length !== before : end !== before))
        return undefined
      return { number, start: first - prefix.length - 1, end: length - 1, result }
    },
  }
}

/**
 * The frame with another id in place of ours and, where given, `members` (JSON text such as `"a":1`, no trailing comma)
 * put first in the result object. The frame's bytes are given up: what fits is changed in place, for copying a megabyte
 * costs more than all else that is done with it.
 */
export function withResponseId(
  frame: Uint8Array,
  answer: FramedResponse,
  id: Uint8Array,
  members?: Uint8Array,
): Uint8Array {
  const { start, end, result } = answer
  if (members === undefined && id.length <= end - start) return replaceId(frame, answer, id)
  const out = new Uint8Array(
    frame.length - (end - start) + id.length + (members === undefined ? 0 : members.length + 1),
  )
  let at = 0
  const put = (part: Uint8Array) => {
    out.set(part, at)
    at += part.length
  }
  const insert = () => {
    if (members === undefined) return
    put(members)
    if (isEmptyObject(frame, result)) return
    out[at++] = COMMA
  }
  if (start < result) {
    put(frame.subarray(0, start))
    put(id)
    put(frame.subarray(end, result))
    insert()
    put(frame.subarray(result))
  } else {
    put(frame.subarray(0, result))
    insert()
    put(frame.subarray(result, start))
    put(id)
    put(frame.subarray(end))
  }
  return at === out.length ? out : out.subarray(0, at)
}

/** The same bytes as a Buffer, which can be searched. */
export const asBuffer = (frame: Uint8Array): Buffer => Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength)

/**
 * A frame as a value, with its numbers as written. Throws an error that says what is wrong where it is no JSON, or nested
 * so deep that whoever walks through the value would run out of stack.
 */
export function parseFrame(frame: Uint8Array): unknown {
  let value: unknown
  try {
    value = parseExact(decode(frame))
  } catch (cause) {
    throw new Error("sent something that is no JSON", { cause })
  }
  // What is valid and has no end for svc is nested too deep.
  if (endOfValue(frame, startOf(frame)) < 0) throw new Error(`sent JSON that is nested deeper than ${MAX_DEPTH} levels`)
  return value
}

/**
 * The messages in a frame: those of a batch, or the frame itself. Throws what `parseFrame` throws for a batch that is none,
 * and for one that is longer than any server has reason to send.
 */
export function messagesIn(frame: Uint8Array): readonly Uint8Array[] {
  const start = startOf(frame)
  if (frame[start] !== OPEN_BRACKET) return [frame]
  parseFrame(frame)
  const messages: Uint8Array[] = []
  for (const one of elementsOf(frame, start)) {
    if (messages.length === MAX_BATCH) throw new Error(`sent a batch of more than ${MAX_BATCH} messages`)
    messages.push(frame.subarray(one.start, one.end))
  }
  return messages
}

/** Whether a message that is valid JSON has a member of the envelope twice, of which parsers keep the last. */
export function repeatsMember(message: Uint8Array): boolean {
  const start = startOf(message)
  if (message[start] !== OPEN_BRACE) return false
  const seen = new Set<unknown>()
  for (const written of namesOf(message, start)) {
    const name: unknown = JSON.parse(decode(written))
    if (seen.has(name)) return true
    if (ENVELOPE.has(name)) seen.add(name)
  }
  return false
}

/** Whether a letter may be written as an escape (`\u0075`), so that a name cannot be found by its bytes. */
export function hasEscapedLetters(frame: Buffer): boolean {
  for (let at = frame.indexOf(ESCAPE); at >= 0; at = frame.indexOf(ESCAPE, at + ESCAPE.length)) {
    const digit = frame[at + ESCAPE.length] ?? 0
    if (digit >= DIGIT_4 && digit <= DIGIT_7) return true
  }
  return false
}

/** Whether `needle` stands anywhere in `frame`. */
export const contains = (frame: Buffer, needle: Uint8Array): boolean => frame.indexOf(needle) >= 0

// ---

const ENVELOPE: ReadonlySet<unknown> = new Set(["jsonrpc", "id", "method", "params", "result", "error"])

/** Where the value in a frame begins: behind white space and a byte order mark, which decoding takes away. */
const startOf = (frame: Uint8Array): number =>
  skipSpace(frame, matches(frame, BYTE_ORDER_MARK, 0) ? BYTE_ORDER_MARK.length : 0)

/** Puts an id that is no longer than ours in its place; the shorter of the sides beside it moves. */
function replaceId(frame: Uint8Array, { start, end, result }: FramedResponse, id: Uint8Array): Uint8Array {
  if (start < result) {
    const from = end - id.length
    frame.set(id, from)
    frame.copyWithin(from - start, 0, start)
    return frame.subarray(from - start)
  }
  frame.set(id, start)
  frame.copyWithin(start + id.length, end)
  return frame.subarray(0, frame.length - (end - start - id.length))
}

function matches(frame: Uint8Array, part: Uint8Array, at: number): boolean {
  if (at < 0 || frame.length < at + part.length) return false
  for (let index = 0; index < part.length; index++) if (frame[at + index] !== part[index]) return false
  return true
}

/** Whether the object whose first inner byte is at `at` has no member. */
function isEmptyObject(frame: Uint8Array, at: number): boolean {
  let index = at
  while (frame[index] === 0x20 || frame[index] === 0x09 || frame[index] === 0x0d || frame[index] === 0x0a) index++
  return frame[index] === BRACE
}
