/**
 * Checks JSON that arrives in chunks, and tracks where in the value a chunk ends. A chunk may end anywhere inside a string that
 * is a value. The scanner takes nothing of any other token that the chunk cuts off: the caller passes the token again, together
 * with the next bytes. From: RFC 8259.
 */
import { MAX_DEPTH } from "../lib/json-limits.ts"
import { decode } from "./frame.ts"
import { endOfEscape, endOfLiteral, endOfName, endOfNumber, endOfPlain, endOfString, skipSpace } from "./grammar.ts"

export class JsonScanner {
  /** The number of open containers. */
  depth = 0
  /** Bytes taken so far. */
  taken = 0
  private next: Next = "value"
  /** The closing bytes of the open containers, from index 1 on. */
  private readonly closers = new Uint8Array(MAX_DEPTH + 1)
  /**
   * The offsets of the open entries of the outer containers, from index 1 on, and the offsets of their values. Not in a
   * Float64Array: offsets that are doubles would make the shared functions of grammar.ts eight times as slow.
   */
  private readonly entries: number[] = []
  private readonly values: number[] = []
  /** The names that `path` has read, with the offset of their entry. */
  private readonly names: { readonly entry: number; readonly name: string | undefined }[] = []

  /** Whether the taken bytes end inside a string that is a value. */
  get isInString(): boolean {
    return this.next === "string"
  }

  /** Whether the taken bytes end after a value of the innermost open container. */
  get isAfterValue(): boolean {
    return this.next === "after"
  }

  /** Returns the offset, in bytes taken, of the open value in the container at a depth; 1 is the outermost. */
  startAt(depth: number): number {
    return this.values[depth] ?? 0
  }

  /** Returns the bytes that close the outer `depth` of the open containers, innermost first. */
  closing(depth: number): Uint8Array {
    return this.closers.slice(1, depth + 1).reverse()
  }

  /**
   * Returns the names of the members with open values at the end of the taken bytes, outermost first, and undefined for an
   * element of an array. `bytes` are the last of the taken bytes; an earlier call must have read the names before them.
   * Returns undefined if there are more than NAMED_LEVELS.
   */
  path(bytes: Uint8Array): readonly (string | undefined)[] | undefined {
    const open = this.isInString ? this.depth : this.depth - 1
    if (open > NAMED_LEVELS) return undefined
    const from = this.taken - bytes.length
    const path: (string | undefined)[] = []
    for (let depth = 1; depth <= open; depth++) {
      const entry = this.entries[depth] ?? 0
      if (entry >= from && this.names[depth]?.entry !== entry)
        this.names[depth] = { entry, name: this.isObjectAt(depth) ? nameAt(bytes, entry - from) : undefined }
      path.push(this.names[depth]?.name)
    }
    return path
  }

  /**
   * Takes bytes from `from` on, and stops after a value that is inside of `floor` containers. The last byte must be a NUL, which
   * is not taken: reading past the end of an array would be slow. Returns the offset after the taken bytes. Throws an Error for
   * bytes that are not JSON or nested too deep. The caller checks that they are UTF-8; the scanner never takes a part of a
   * character in a string.
   */
  scan(bytes: Uint8Array, from: number, floor: number): number {
    const string = this.next === "string" ? this.scanString(bytes, from, bytes.length - 1) : from
    if (this.next === "string") return string
    const base = this.taken - string
    const at = this.scanEntries(bytes, string, floor, base)
    this.taken = base + at
    return at
  }

  /**
   * Takes the next bytes, from `from` to `limit`, of the string in which the taken bytes end. Returns the offset after the taken
   * bytes. Throws as `scan` does.
   */
  scanString(bytes: Uint8Array, from: number, limit: number): number {
    const end = endOfStringIn(bytes, from, limit)
    const at = end < 0 ? ~end : end
    if (end >= 0) this.next = "after"
    this.taken += at - from
    return at
  }

  // ---

  /** Records the offsets of the open entry in the container at a depth, and of its value. */
  private open(depth: number, entry: number, value: number): void {
    if (depth > NAMED_LEVELS) return
    this.entries[depth] = entry
    this.values[depth] = value
  }

  private isObjectAt(depth: number): boolean {
    return this.closers[depth] === CLOSE_BRACE
  }

  /** Takes whole entries, and the beginning of a string that is cut off. */
  private scanEntries(bytes: Uint8Array, from: number, floor: number, base: number): number {
    const { closers } = this
    const limit = bytes.length - 1
    let { depth, next } = this
    let at = from
    while (next !== "after" || depth !== floor) {
      const closer = closers[depth]
      let entry = skipSpace(bytes, at)
      if (entry === limit) break
      if (next !== "value" && bytes[entry] === closer) {
        depth--
        next = "after"
        at = entry + 1
        continue
      }
      if (next === "after") entry = bytes[entry] === COMMA ? skipSpace(bytes, entry + 1) : refuse()
      const value = closer === CLOSE_BRACE ? endOfName(bytes, entry) : entry
      if (value === limit || ~value === limit) break
      if (value < 0) refuse()
      const byte = bytes[value] as number
      if (byte === QUOTE) {
        const end = endOfString(bytes, value)
        if (~end === limit) {
          at = ~endOfStringIn(bytes, value + 1, limit)
          next = "string"
          this.open(depth, base + entry, base + value)
          break
        }
        at = end < 0 ? refuse() : end
        next = "after"
      } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        if (depth === MAX_DEPTH) throw new Error(`sent JSON nested deeper than ${MAX_DEPTH} levels`)
        this.open(depth, base + entry, base + value)
        closers[++depth] = byte === OPEN_BRACE ? CLOSE_BRACE : CLOSE_BRACKET
        at = value + 1
        next = "first"
      } else {
        const end = isLetter(byte) ? endOfLiteral(bytes, value) : endOfNumber(bytes, value)
        // A word that reaches the end of the chunk may continue in the next.
        if ((end < 0 || end === limit) && endOfWord(bytes, value) === limit) break
        at = end < 0 ? refuse() : end
        next = "after"
      }
    }
    this.depth = depth
    this.next = next
    return at
  }
}

/** Returns the length, in bytes, of the UTF-8 character that begins with a byte. */
export function sizeOfCharacter(first: number): number {
  if (first < 0x80) return 1
  if (first >= 0xf0) return 4
  return first >= 0xe0 ? 3 : 2
}

// ---

/** What comes next: a value; the first entry of a container, or its end; what follows a value; the rest of a string. */
type Next = "value" | "first" | "after" | "string"

/** The number of outer containers for which the scanner records the open entry. */
const NAMED_LEVELS = 8
/** Bytes of an escape such as `\u0075`. */
const UNICODE_ESCAPE = 6

const QUOTE = 0x22
const PLUS = 0x2b
const COMMA = 0x2c
const DIGIT_9 = 0x39
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const LETTER_A = 0x61
const LETTER_U = 0x75
const LETTER_Z = 0x7a
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

const isLetter = (byte: number): boolean => (byte | 0x20) >= LETTER_A && (byte | 0x20) <= LETTER_Z

function refuse(): never {
  throw new Error("sent a message that is not JSON")
}

/** Returns the name that begins at `quote`. */
const nameAt = (bytes: Uint8Array, quote: number): string =>
  JSON.parse(decode(bytes.subarray(quote, endOfString(bytes, quote))))

/**
 * Returns the offset after the string that continues at `from`, within the bytes before `limit`; `~at` if the string does not
 * end there, and only the bytes before `at` can be taken.
 */
function endOfStringIn(bytes: Uint8Array, from: number, limit: number): number {
  let at = from
  for (;;) {
    at = endOfPlain(bytes, at, limit)
    if (at === limit) return ~startOfCharacter(bytes, from, limit)
    if (bytes[at] === QUOTE) return at + 1
    if (bytes[at] !== BACKSLASH) refuse()
    if (at + 1 === limit || (bytes[at + 1] === LETTER_U && at + UNICODE_ESCAPE > limit)) return ~at
    const end = endOfEscape(bytes, at)
    at = end < 0 ? refuse() : end
  }
}

/** Returns the offset after the characters of a number or a literal. */
function endOfWord(bytes: Uint8Array, from: number): number {
  let at = from
  for (;;) {
    const byte = bytes[at] as number
    if (!isLetter(byte) && (byte < PLUS || byte > DIGIT_9 || byte === COMMA)) return at
    at++
  }
}

/** Returns `limit`, or the offset of the UTF-8 character that `limit` cuts off. */
function startOfCharacter(bytes: Uint8Array, from: number, limit: number): number {
  for (let at = limit - 1; at >= from && at >= limit - 3; at--) {
    const byte = bytes[at] as number
    if (byte < 0x80) return limit
    if (byte >= 0xc0) return at + sizeOfCharacter(byte) > limit ? at : limit
  }
  return limit
}
