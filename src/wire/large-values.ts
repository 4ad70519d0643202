/**
 * Separates the large values of a result from the rest of its frame while the frame arrives. The large values pass in chunks.
 * The rest, with a placeholder for each large value, is kept and can be parsed and changed.
 *
 *     {"jsonrpc":"2.0","id":"svcX.42","result":{"content":[{"type":"text","text":"a megabyte"}]}}
 *     {"jsonrpc":"2.0","id":"svcX.42","result":{"content":[{"type":"text","text":"PLACEHOLDER"}]}}
 *
 *  1. A value is large if more than LARGE bytes of it have arrived while it is still open. Only texts, binary data and
 *     `structuredContent` are separated: nothing in them is ever changed.
 *  2. Passed values are checked: they are valid JSON at their place, in UTF-8. The reader checks the rest.
 *  3. At most MAX_VALUES values are separated: the owner reads the rest again for each.
 *  4. A placeholder is numbered and unguessable: no text of a server can be taken for it.
 */
import { isUtf8 } from "node:buffer"
import { randomText } from "../lib/random.ts"
import { encode } from "./frame.ts"
import { JsonScanner } from "./json-scanner.ts"

export type LargeValueEvents = {
  /**
   * A large value begins. `frame` is the frame so far, with `placeholder` as the value, and with the ends of its containers
   * added. Returns whether to separate the value; false keeps it.
   */
  onvalue(frame: Uint8Array, placeholder: string): boolean
  /** Takes the next bytes of the value as they stand in the frame, a string with its quotes. They do not change afterwards. */
  onbytes(bytes: Uint8Array): void
}

export class LargeValues {
  /** Text that no server knows: the beginning of each placeholder. */
  readonly secret = randomText(SECRET_BYTES)
  /** The number of separated values. */
  private count = 0
  /** The number of values that were offered. */
  private offered = 0
  private readonly scanner = new JsonScanner()
  /** The frame up to the last large value, with placeholders. */
  private rest: Uint8Array = NOTHING
  /** The bytes kept since then, in parts. */
  private kept: Uint8Array[] = []
  private keptBytes = 0
  /** Looks for an open large value when so many bytes are kept. */
  private nextLook = LARGE
  /** Bytes that the scanner has not taken yet: the beginning of a number, a name, a word or a character. */
  private untaken: Uint8Array = NOTHING
  /** Bytes that wait because the untaken bytes are a long number or name. */
  private waiting: Uint8Array[] = []
  private waitingBytes = 0
  /** The number of containers around the value that passes; undefined while no value passes. */
  private floor: number | undefined

  constructor(private readonly events: LargeValueEvents) {}

  /** Takes the next bytes of the frame, which must not change afterwards. Throws an Error if they are not JSON. */
  push(bytes: Uint8Array): void {
    let at = 0
    while (at < bytes.length) {
      const end = at + (this.floor === undefined ? SEARCHED_CHUNK : MAX_CHUNK)
      this.take(bytes.subarray(at, end))
      at = end
    }
  }

  /** Returns the frame with placeholders. Throws an Error if it ends inside a value. */
  end(): Uint8Array {
    this.scan(this.takeWaiting())
    if (this.floor !== undefined) throw new Error("sent a message that is not JSON")
    return Buffer.concat([this.rest, ...this.kept, this.untaken])
  }

  /**
   * Splits the text of a frame at its placeholders: the large values, in their order, belong between the parts. Returns undefined
   * if the text has the placeholders in another order, or not all of the first ones.
   */
  split(text: string): readonly string[] | undefined {
    const [first = "", ...others] = text.split(`"${this.secret}.`)
    if (!others.every((part, index) => part.startsWith(`${index}"`))) return undefined
    return [first, ...others.map((part, index) => part.slice(`${index}"`.length))]
  }

  // ---

  private take(bytes: Uint8Array): void {
    if (this.untaken.length <= LONG_TOKEN) {
      this.scan(bytes)
      return
    }
    this.waiting.push(bytes)
    this.waitingBytes += bytes.length
    if (this.waitingBytes >= this.untaken.length) this.scan(this.takeWaiting())
  }

  private takeWaiting(): Uint8Array {
    const bytes = Buffer.concat(this.waiting, this.waitingBytes)
    this.waiting = []
    this.waitingBytes = 0
    return bytes
  }

  private scan(given: Uint8Array): void {
    const { scanner } = this
    let bytes = given
    if (this.floor !== undefined && scanner.isInString && this.untaken.length === 0) {
      // Needs no copy.
      const end = scanner.scanString(bytes, 0, bytes.length)
      this.pass(bytes.subarray(0, end))
      bytes = bytes.subarray(end)
    }
    const chunk = this.load(bytes)
    let at = 0
    while (this.floor !== undefined) {
      const end = scanner.scan(chunk, at, this.floor)
      this.pass(chunk.subarray(at, end))
      at = end
      if (!scanner.isAfterValue || scanner.depth !== this.floor) break
      this.floor = undefined
    }
    if (this.floor === undefined) {
      const end = scanner.scan(chunk, at, 0)
      this.keep(chunk.subarray(at, end))
      at = end
    }
    this.untaken = chunk.subarray(at, -1)
  }

  /** Returns the bytes that the scanner has not taken, the given bytes, and a NUL. */
  private load(bytes: Uint8Array): Uint8Array {
    const chunk = new Uint8Array(this.untaken.length + bytes.length + 1)
    chunk.set(this.untaken)
    chunk.set(bytes, this.untaken.length)
    return chunk
  }

  /** Keeps bytes that belong to no large value, as far as is known. */
  private keep(bytes: Uint8Array): void {
    this.kept.push(bytes.slice())
    this.keptBytes += bytes.length
    if (this.keptBytes > this.nextLook && this.offered < MAX_VALUES) this.separate()
  }

  /** Separates the open value at the end of the kept bytes, if it is large and may be separated. */
  private separate(): void {
    const { scanner, keptBytes } = this
    const kept = Buffer.concat(this.kept, keptBytes)
    this.kept = [kept]
    // Looks less often the more is kept: each look copies all kept bytes.
    this.nextLook = keptBytes + keptBytes / LOOKS_PER_DOUBLING
    const floor = this.floorOfValue(scanner.path(kept) ?? [])
    if (floor === undefined || scanner.taken - scanner.startAt(floor) <= LARGE) return
    const start = scanner.startAt(floor) - (scanner.taken - keptBytes)
    const placeholder = `${this.secret}.${this.count}`
    const rest = Buffer.concat([this.rest, kept.subarray(0, start), encode(`"${placeholder}"`)])
    this.offered++
    if (!this.events.onvalue(Buffer.concat([rest, scanner.closing(floor)]), placeholder)) return
    this.count++
    this.rest = rest
    this.kept = []
    this.keptBytes = 0
    this.nextLook = LARGE
    this.floor = floor
    this.pass(kept.subarray(start))
  }

  /** Returns the number of containers around the open value, or undefined if the value may not be separated. */
  private floorOfValue(path: MemberPath): number | undefined {
    const { depth, isInString } = this.scanner
    if (path[0] === "result" && path[1] === "structuredContent") return 2
    return isInString && TEXTS.some((text) => isSame(text, path)) ? depth : undefined
  }

  /** Passes bytes of a value on, with U+FFFD for bytes that are not UTF-8, as decoding a whole frame does. */
  private pass(bytes: Uint8Array): void {
    if (bytes.length > 0) this.events.onbytes(isUtf8(bytes) ? bytes : encode(decoder.decode(bytes)))
  }
}

// ---

/** The names of the members around a value, outermost first; undefined for an element of an array. */
type MemberPath = readonly (string | undefined)[]

const NOTHING = new Uint8Array()
/** Bytes that are read at once. */
const MAX_CHUNK = 256 * 1024
/** Bytes that are read at once while no value passes. Few, because kept bytes are copied. */
const SEARCHED_CHUNK = 16 * 1024
const SECRET_BYTES = 16
/** Bytes of an open value after which it is separated. */
const LARGE = 16 * 1024
/** Looks for a large value while the kept bytes double. */
const LOOKS_PER_DOUBLING = 4
const MAX_VALUES = 8
/** From this size on, in bytes, a number or a name is read again only when as many bytes have come: else its time would be quadratic. */
const LONG_TOKEN = 64 * 1024
/** The paths of texts and binary data. server: Tools; server: Resources. */
const TEXTS: readonly MemberPath[] = [
  ["result", "content", undefined, "text"],
  ["result", "content", undefined, "data"],
  ["result", "content", undefined, "resource", "text"],
  ["result", "content", undefined, "resource", "blob"],
  ["result", "contents", undefined, "text"],
  ["result", "contents", undefined, "blob"],
]
const isSame = (one: MemberPath, other: MemberPath): boolean =>
  one.length === other.length && one.every((name, depth) => name === other[depth])
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
