/**
 * Frames: JSON-RPC messages as bytes. A success response that svc only relays is never parsed into an object: one pass
 * checks its grammar (grammar.ts), and the client's id replaces svc's own in the bytes.
 *
 *  1. Bytes reach a client only if they are exactly one response. The result stands between a head and a tail that are
 *     compared byte for byte, and the grammar finds its end: no further member fits in between, whatever the spelling of
 *     its name.
 *         {"jsonrpc":"2.0","id":"…","result":{…}}
 *         {"jsonrpc":"2.0","result":{…},"id":"…"}
 *         {"result":{…},"jsonrpc":"2.0","id":"…"}
 *  2. Any other shape is parsed (the slow path), which rejects the same frames. Both paths produce the same JSON.
 *  3. In a large frame, only the end of the result is found (structure.ts). What the result contains may then be no JSON, and can
 *     harm only the call that it answers. `isValidResponse` checks it for who needs more.
 */
import { parseExact } from "../lib/json.ts"
import { complexityOf, MAX_DEPTH } from "../lib/json-limits.ts"
import { elementsOf, endOfValue, memberNamesOf, membersOf, skipSpace } from "./grammar.ts"
import { endOfStructure } from "./structure.ts"

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export const encode = (text: string): Uint8Array => encoder.encode(text)
export const decode = (frame: Uint8Array): string => decoder.decode(frame)

/** Returns the text of a frame; frames that svc made are text already. */
export const textOf = (frame: Uint8Array | string): string => (typeof frame === "string" ? frame : decode(frame))

/** A response to one of svc's requests: the number in its id, the byte range of the id with its quotes, and its result. */
export type FramedResponse = {
  readonly number: number
  readonly start: number
  readonly end: number
  /** The offset after the opening brace of the result. */
  readonly result: number
  /** Whether the whole grammar of the result was checked. If not, its end is known, and what it contains may be no JSON. */
  readonly isChecked: boolean
}

/** Receives one frame in chunks, as it arrives. */
export type FrameSink = {
  /** Takes the next bytes, which must not change afterwards. Returns a promise if the caller must wait before the next push. */
  push(bytes: Uint8Array): Promise<void> | undefined
  /** The frame is complete. */
  end(): void
  /** The frame ends before it is complete. */
  fail(error: Error): void
}

/**
 * Offers an unfinished frame that is longer than LOOK_AHEAD. Takes `head`, which is all that has arrived, and returns a sink for
 * the rest; or returns undefined to have the frame buffered whole.
 */
export type OfferFrame = (head: Uint8Array) => FrameSink | undefined

/** Bytes of an unfinished frame after which it is offered to its owner. */
export const LOOK_AHEAD = 64 * 1024

/** The ids of svc's own requests: an unguessable prefix and a number. */
export type RequestIds = {
  next(): number
  text(number: number): string
  /** Returns the number in an id of svc's, or undefined. */
  parse(id: unknown): number | undefined
  /** Returns the number of svc's id in the edges (first and last bytes) of a message that was too large to keep, or undefined. */
  findInEdges(edges: Uint8Array): number | undefined
  /**
   * Returns the number of svc's id in the beginning of an unfinished frame, or undefined. The id must stand before a result: then
   * the frame can only be the answer to that request.
   */
  findInHead(head: Uint8Array): number | undefined
  /**
   * The fast path: matches a frame that consists of exactly one success response, with an id of svc's at its head or tail.
   * Returns undefined for any other frame.
   */
  matchResponse(frame: Uint8Array): FramedResponse | undefined
}

const QUOTE = 0x22
const COMMA = 0x2c
const DIGIT_0 = 0x30
const DIGIT_4 = 0x34
const DIGIT_7 = 0x37
const DIGIT_9 = 0x39
const ESCAPE = encoder.encode("\\u00")
const BRACE = 0x7d
const NOTHING = new Uint8Array()
const COMMA_BYTES = encoder.encode(",")
const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
const BYTE_ORDER_MARK = encoder.encode("\ufeff")
/** The most digits of an id's number: a double represents 15 digits exactly. */
const MAX_DIGITS = 15
const MAX_BATCH = 1000
/** The largest frame that is parsed as a whole, in bytes. */
const MAX_PARSED = 16 * 1024 * 1024
/** The first bytes of a frame, which contain the id if it stands before the result. */
const HEAD_BYTES = 256
// The parts of a response around its id, named by their position.
const RESULT_AFTER_ID = encoder.encode(',"result":{')
const RESULT_FIRST = encoder.encode('{"result":{')
const VERSION_THEN_RESULT = encoder.encode('{"jsonrpc":"2.0","result":{')
const VERSION_AFTER_RESULT = encoder.encode(',"jsonrpc":"2.0"')

/** Creates the ids of a process. `random` is unguessable text of `[A-Za-z0-9]`, new for each process. */
export function createRequestIds(random: string): RequestIds {
  const prefix = `svc${random}.`
  const idFirst = encode(`{"jsonrpc":"2.0","id":"${prefix}`)
  const idLast = encode(`,"id":"${prefix}`)
  const digitsPattern = new RegExp(`^[1-9][0-9]{0,${MAX_DIGITS - 1}}$`)
  const mention = new RegExp(`"id"\\s*:\\s*"${RegExp.escape(prefix)}([1-9][0-9]{0,${MAX_DIGITS - 1}})"`)
  const version = '(?:"jsonrpc"\\s*:\\s*"2\\.0"\\s*,\\s*)?'
  const firstMembers = new RegExp(
    `^\\s*\\{\\s*${version}"id"\\s*:\\s*"${RegExp.escape(prefix)}([1-9][0-9]{0,${MAX_DIGITS - 1}})"\\s*,\\s*${version}"result"\\s*:\\s*\\{`,
  )
  let last = 0
  let tens = 0
  let textOfTens = prefix
  // Ten ids share the text before their last digit, because converting a number to text is slow.
  const textOfId = (number: number): string => {
    const before = Math.floor(number / 10)
    if (before !== tens) {
      tens = before
      textOfTens = before === 0 ? prefix : prefix + before
    }
    return textOfTens + (number % 10)
  }
  /**
   * Matches a frame that begins with `idFirst`, for example this one, with start 22, end 31 and result 42:
   *     {"jsonrpc":"2.0","id":"svcX.42","result":{}}
   *                           ^22      ^31        ^42
   */
  const matchIdFirst = (frame: Uint8Array): FramedResponse | undefined => {
    const digits = idFirst.length
    const quote = endOfDigits(frame, digits)
    const number = readDigits(frame, digits, quote)
    if (number === undefined || frame[quote] !== QUOTE || !matches(frame, RESULT_AFTER_ID, quote + 1)) return undefined
    const result = quote + 1 + RESULT_AFTER_ID.length
    if (endOfResult(frame, result) !== frame.length - 1) return undefined
    return { number, start: digits - prefix.length - 1, end: quote + 1, result, isChecked: isSmall(frame) }
  }
  /**
   * Matches a frame with its id last, for example these, with result 27 (11), start 34 and end 43:
   *     {"jsonrpc":"2.0","result":{},"id":"svcX.42"}
   *                                ^27    ^34      ^43
   *     {"result":{},"jsonrpc":"2.0","id":"svcX.42"}
   *                ^11                    ^34      ^43
   */
  const matchIdLast = (frame: Uint8Array): FramedResponse | undefined => {
    const quote = frame.length - 2
    if (frame[quote] !== QUOTE) return undefined
    const digits = startOfDigits(frame, quote)
    const number = readDigits(frame, digits, quote)
    const tail = digits - idLast.length
    if (number === undefined || !matches(frame, idLast, tail)) return undefined
    const isResultFirst = matches(frame, RESULT_FIRST, 0)
    if (!isResultFirst && !matches(frame, VERSION_THEN_RESULT, 0)) return undefined
    const result = isResultFirst ? RESULT_FIRST.length : VERSION_THEN_RESULT.length
    const end = endOfResult(frame, result)
    if (end < 0 || (isResultFirst && !matches(frame, VERSION_AFTER_RESULT, end))) return undefined
    if ((isResultFirst ? end + VERSION_AFTER_RESULT.length : end) !== tail) return undefined
    return { number, start: digits - prefix.length - 1, end: quote + 1, result, isChecked: isSmall(frame) }
  }
  return {
    next: () => ++last,
    text: textOfId,
    parse(id) {
      if (typeof id !== "string" || !id.startsWith(prefix)) return undefined
      const digits = id.slice(prefix.length)
      return digitsPattern.test(digits) ? Number(digits) : undefined
    },
    findInEdges(edges) {
      const found = mention.exec(decode(edges))?.[1]
      return found === undefined ? undefined : Number(found)
    },
    findInHead(head) {
      // Not decoded from UTF-8: a frame with a byte order mark is read whole.
      const found = firstMembers.exec(asBuffer(head).toString("latin1", 0, HEAD_BYTES))?.[1]
      return found === undefined ? undefined : Number(found)
    },
    matchResponse(frame) {
      // Rejects most other frames at once.
      if (frame[frame.length - 1] !== BRACE) return undefined
      return matches(frame, idFirst, 0) ? matchIdFirst(frame) : matchIdLast(frame)
    },
  }
}

/** Whether the result of a matched response is valid JSON. */
export const isValidResponse = (frame: Uint8Array, { result, isChecked }: FramedResponse): boolean =>
  isChecked || endOfValue(frame, result - 1, MAX_DEPTH - 1) >= 0

/**
 * Returns the bytes of a frame that is to be filled before it is read: clearing a megabyte costs as much as copying it. Some bytes
 * before the frame are free, so that `withResponseId` can insert members without a copy.
 */
export function unfilledFrame(length: number): Uint8Array {
  const buffer: RoomyBuffer = Buffer.allocUnsafeSlow(ROOM_BYTES + length).buffer
  buffer[ROOM] = ROOM_BYTES
  return new Uint8Array(buffer, ROOM_BYTES, length)
}

/**
 * Returns the frame with another id instead of svc's and, if given, `members` (JSON text such as `"a":1`, no trailing comma)
 * first in the result object. Consumes the frame: changes it in place if possible, because copying a megabyte costs more than
 * all other work on it.
 */
export function withResponseId(
  frame: Uint8Array,
  answer: FramedResponse,
  id: Uint8Array,
  members?: Uint8Array,
): Uint8Array {
  const { start, end, result } = answer
  if (id.length <= end - start) {
    if (members === undefined) return replaceId(frame, answer, id)
    const added = members.length + (isEmptyObject(frame, result) ? 0 : 1)
    if (added <= roomBefore(frame)) return insertMembers(frame, answer, id, members)
  }
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

/** Returns the same bytes as a Buffer, which can be searched. */
export const asBuffer = (frame: Uint8Array): Buffer => Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength)

/** Parses a frame; numbers stay as written. Throws an Error if the frame is not JSON, or too complex to be parsed. */
export function parseFrame(frame: Uint8Array): unknown {
  if (frame.length > MAX_PARSED) throw new Error(`sent a message of more than ${MAX_PARSED} bytes that must be parsed`)
  const text = decode(frame)
  const complexity = complexityOf(text)
  if (complexity !== undefined) throw new Error(`sent JSON ${complexity}`)
  try {
    return parseExact(text)
  } catch (cause) {
    throw new Error("sent a message that is not JSON", { cause })
  }
}

/** Parses an answer that was relayed; undefined if it is too large or too complex to be parsed at once. */
export function parseRelayed(frame: Uint8Array | string): unknown {
  const text = frame.length > MAX_PARSED ? undefined : textOf(frame)
  return text === undefined || complexityOf(text) !== undefined ? undefined : parseExact(text)
}

/** Returns the bytes of the result in a response, which must be valid; undefined if it has none. */
export function resultIn(frame: Uint8Array | string): Uint8Array | undefined {
  const bytes = typeof frame === "string" ? encode(frame) : frame
  for (const { name, start, end } of membersOf(bytes, startOf(bytes)))
    if (JSON.parse(decode(name)) === "result") return bytes.subarray(start, end)
  return undefined
}

/**
 * Returns the messages of a batch, or the frame itself if it is no batch. Throws what `parseFrame` throws for an invalid
 * batch, and an Error for a batch of more than MAX_BATCH messages.
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

/** Whether a message (valid JSON) repeats a member of the JSON-RPC envelope; parsers would keep the last one. */
export function repeatsMember(message: Uint8Array): boolean {
  const start = startOf(message)
  if (message[start] !== OPEN_BRACE) return false
  const seen = new Set<unknown>()
  for (const written of memberNamesOf(message, start)) {
    const name: unknown = JSON.parse(decode(written))
    if (seen.has(name)) return true
    if (ENVELOPE.has(name)) seen.add(name)
  }
  return false
}

/** Whether an ASCII letter may be written as an escape (`\u0075`), so that a search for a name's bytes could miss it. */
export function hasEscapedLetters(frame: Uint8Array): boolean {
  for (let at = indexOf(frame, ESCAPE); at >= 0; at = indexOf(frame, ESCAPE, at + ESCAPE.length)) {
    const digit = frame[at + ESCAPE.length] ?? 0
    if (digit >= DIGIT_4 && digit <= DIGIT_7) return true
  }
  return false
}

/** Returns the first offset of `needle` in `frame` from `start` on; -1 if there is none. Saves the cost of creating a Buffer. */
export const indexOf = (frame: Uint8Array, needle: Uint8Array, start = 0): number =>
  Buffer.prototype.indexOf.call(frame, needle, start)

/** Whether `frame` contains `needle`. */
export const contains = (frame: Uint8Array, needle: Uint8Array): boolean => indexOf(frame, needle) >= 0

// ---

const ENVELOPE: ReadonlySet<unknown> = new Set(["jsonrpc", "id", "method", "params", "result", "error"])

const isSmall = (frame: Uint8Array): boolean => frame.length < LOOK_AHEAD

/** Returns the offset after the result whose content begins at `from`; -1 if it is not valid, as far as it is checked. */
const endOfResult = (frame: Uint8Array, from: number): number =>
  (isSmall(frame) ? endOfValue : endOfStructure)(frame, from - 1, MAX_DEPTH - 1)

/** Returns the offset of the value in a frame: after white space and a byte order mark, which decoding removes. */
const startOf = (frame: Uint8Array): number =>
  skipSpace(frame, matches(frame, BYTE_ORDER_MARK, 0) ? BYTE_ORDER_MARK.length : 0)

/** The bytes before a frame of `unfilledFrame`: enough for the members that svc inserts. */
const ROOM_BYTES = 256
const ROOM = Symbol("room")
/** A buffer that belongs to one frame alone, with free bytes before it. */
type RoomyBuffer = ArrayBufferLike & { [ROOM]?: number }

/** Returns the number of free bytes before a frame. */
const roomBefore = (frame: Uint8Array): number =>
  (frame.buffer as RoomyBuffer)[ROOM] === undefined ? 0 : frame.byteOffset

/** Inserts members at the beginning of the result, and an id that is not longer, by moving the short part before the result. */
function insertMembers(frame: Uint8Array, answer: FramedResponse, id: Uint8Array, members: Uint8Array): Uint8Array {
  const { start, end, result } = answer
  const comma = isEmptyObject(frame, result) ? NOTHING : COMMA_BYTES
  const isIdFirst = start < result
  const before = isIdFirst ? [frame.subarray(0, start), id, frame.subarray(end, result)] : [frame.subarray(0, result)]
  const head = Buffer.concat([...before, members, comma])
  const begin = frame.byteOffset + result - head.length
  if (!isIdFirst) {
    frame.set(id, start)
    frame.copyWithin(start + id.length, end)
  }
  const saved = isIdFirst ? 0 : end - start - id.length
  const whole = new Uint8Array(frame.buffer, begin, head.length + frame.length - result - saved)
  whole.set(head)
  return whole
}

/** Replaces the id in place with an id that is not longer; moves the shorter of the two sides. */
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

/** Returns the offset after the digits that begin at `start`, MAX_DIGITS at most. */
function endOfDigits(frame: Uint8Array, start: number): number {
  let at = start
  while (at < start + MAX_DIGITS && isDigit(frame[at])) at++
  return at
}

/** Returns the offset of the digits that end before `end`, MAX_DIGITS at most. */
function startOfDigits(frame: Uint8Array, end: number): number {
  let at = end
  while (at > end - MAX_DIGITS && isDigit(frame[at - 1])) at--
  return at
}

/** Returns the number that the digits spell, or undefined if there are none or the first is 0. */
function readDigits(frame: Uint8Array, start: number, end: number): number | undefined {
  if (start === end || frame[start] === DIGIT_0) return undefined
  let number = 0
  for (let at = start; at < end; at++) number = number * 10 + (frame[at] as number) - DIGIT_0
  return number
}

const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= DIGIT_0 && byte <= DIGIT_9

function matches(frame: Uint8Array, part: Uint8Array, at: number): boolean {
  if (at < 0 || frame.length < at + part.length) return false
  for (let index = 0; index < part.length; index++) if (frame[at + index] !== part[index]) return false
  return true
}

/** Whether an object has no member; `at` is the offset after its opening brace. */
function isEmptyObject(frame: Uint8Array, at: number): boolean {
  let index = at
  while (frame[index] === 0x20 || frame[index] === 0x09 || frame[index] === 0x0d || frame[index] === 0x0a) index++
  return frame[index] === BRACE
}
