/**
 * Separates the large values of a result from the rest of its frame while the frame arrives. The large values pass in chunks.
 * The rest, with a placeholder for each large value, is kept and can be parsed and changed.
 *
 *     {"jsonrpc":"2.0","id":"svcX.42","result":{"content":[{"type":"text","text":"a megabyte"}]}}
 *     {"jsonrpc":"2.0","id":"svcX.42","result":{"content":[{"type":"text","text":"PLACEHOLDER"}]}}
 *
 *  1. A value is large if it is open when more than LARGE bytes are kept. Only texts, binary data and `structuredContent` are
 *     separated: nothing in them is ever changed.
 *  2. Passed values are checked: they are valid JSON at their place, in UTF-8. The reader checks the rest.
 *  3. At most MAX_VALUES values are separated: the owner reads the rest again for each.
 */
import { isUtf8 } from "node:buffer"
import { encode } from "./frame.ts"
import { JsonScanner } from "./json-scanner.ts"

export type LargeValueEvents = {
  /**
   * A large value begins. `frame` is the frame so far, with a placeholder for the value, and with the ends of its containers
   * added. Returns whether to separate the value; false keeps it.
   */
  onvalue(frame: Uint8Array): boolean
  /** Takes the next bytes of the value as they stand in the frame, a string with its quotes. They do not change afterwards. */
  onbytes(bytes: Uint8Array): void
}

/**
 * The placeholder for a large value. It has noncharacters, which Unicode excludes from text for interchange: a frame that
 * contains it anyway is rejected, because it has too many parts.
 */
export const LARGE_VALUE = "\ufdd0large value\ufdd1"

/** Splits the text of a frame at its placeholders: the large values, in their order, belong between the parts. */
export const splitAtValues = (text: string): readonly string[] => text.split(PLACEHOLDER)

export class LargeValues {
  private count = 0
  private readonly scanner = new JsonScanner()
  /** The frame up to the last large value, with placeholders. */
  private rest: Uint8Array = NOTHING
  /** The bytes kept since then, in parts. */
  private kept: Uint8Array[] = []
  private keptBytes = 0
  /** Bytes that the scanner has not taken yet. */
  private untaken: Uint8Array = NOTHING
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
    if (this.floor !== undefined) throw new Error("sent a message that is not JSON")
    return Buffer.concat([this.rest, ...this.kept, this.untaken])
  }

  // ---

  private take(given: Uint8Array): void {
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
    if (this.untaken.length > MAX_TOKEN) throw new Error("sent a number or a name of more than 64 KiB")
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
    if (this.keptBytes > LARGE && this.count < MAX_VALUES) this.separate()
  }

  /** Separates the open value at the end of the kept bytes, if it may be separated. */
  private separate(): void {
    const { scanner, keptBytes } = this
    const kept = Buffer.concat(this.kept, keptBytes)
    this.kept = [kept]
    const floor = this.floorOfValue(scanner.path(kept) ?? [])
    if (floor === undefined) return
    const start = scanner.startAt(floor) - (scanner.taken - keptBytes)
    const rest = Buffer.concat([this.rest, kept.subarray(0, start), PLACEHOLDER_BYTES])
    this.count++
    if (!this.events.onvalue(Buffer.concat([rest, scanner.closing(floor)]))) return
    this.rest = rest
    this.kept = []
    this.keptBytes = 0
    this.floor = floor
    this.pass(kept.subarray(start))
  }

  /** Returns the number of containers around the open value, or undefined if the value may not be separated. */
  private floorOfValue(path: readonly (string | undefined)[]): number | undefined {
    const { depth, isInString } = this.scanner
    if (path[0] === "result" && path[1] === "structuredContent") return 2
    return isInString && TEXTS.has(path.join(".")) ? depth : undefined
  }

  /** Passes bytes of a value on, with U+FFFD for bytes that are not UTF-8, as decoding a whole frame does. */
  private pass(bytes: Uint8Array): void {
    if (bytes.length > 0) this.events.onbytes(isUtf8(bytes) ? bytes : encode(decoder.decode(bytes)))
  }
}

// ---

const NOTHING = new Uint8Array()
/** Bytes that are read at once. */
const MAX_CHUNK = 256 * 1024
/** Bytes that are read at once while no value passes. Few, because kept bytes are copied. */
const SEARCHED_CHUNK = 16 * 1024
const PLACEHOLDER = `"${LARGE_VALUE}"`
const PLACEHOLDER_BYTES = encode(PLACEHOLDER)
/** Kept bytes after which an open value is separated. */
const LARGE = 16 * 1024
const MAX_VALUES = 8
/** Limit of a number or a name in bytes: the scanner reads it again with each chunk. */
const MAX_TOKEN = 64 * 1024
/** The paths of texts and binary data; an element of an array is an empty segment. server: Tools; server: Resources. */
const TEXTS: ReadonlySet<string> = new Set([
  "result.content..text",
  "result.content..data",
  "result.content..resource.text",
  "result.content..resource.blob",
  "result.contents..text",
  "result.contents..blob",
])
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
