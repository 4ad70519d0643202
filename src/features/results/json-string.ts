/** Decodes a JSON string in chunks, because it is too long to decode as a whole. */
import { asBuffer } from "../../wire/frame.ts"

/** Decodes the bytes of one string, with its quotes, to UTF-8. The string must be valid JSON. */
export class JsonStringDecoder {
  /** The beginning of an escape that is not complete. */
  private rest: Buffer = Buffer.alloc(0)
  private hasStarted = false
  private out: Buffer = Buffer.alloc(0)

  /** Returns the text of the next bytes, in UTF-8; the next call reuses it. Half of a surrogate pair alone becomes U+FFFD. */
  push(bytes: Uint8Array): Buffer {
    const given = asBuffer(bytes)
    const input = this.rest.length === 0 ? given : Buffer.concat([this.rest, given])
    this.rest = Buffer.alloc(0)
    // No escape is shorter than its character.
    if (this.out.length < input.length) this.out = Buffer.allocUnsafe(input.length)
    const { out } = this
    let used = 0
    let at = 0
    if (!this.hasStarted && input.length > 0) {
      this.hasStarted = true
      at = 1
    }
    while (at < input.length) {
      const byte = input[at] as number
      if (byte === QUOTE) break
      if (byte !== BACKSLASH) {
        out[used++] = byte
        at++
        continue
      }
      const size = escapeSize(input, at)
      if (size === undefined) {
        this.rest = Buffer.from(input.subarray(at))
        break
      }
      if (input[at + 1] === LETTER_U) used += out.write(unicodeOf(input, at, size), used)
      else out[used++] = SIMPLE.get(input[at + 1] as number) ?? 0
      at += size
    }
    return out.subarray(0, used)
  }
}

// ---

const QUOTE = 0x22
const BACKSLASH = 0x5c
const LETTER_U = 0x75
const SIMPLE: ReadonlyMap<number, number> = new Map([
  ...['"', "\\", "/"].map((character) => [character.charCodeAt(0), character.charCodeAt(0)] as const),
  [0x62, 0x08],
  [0x66, 0x0c],
  [0x6e, 0x0a],
  [0x72, 0x0d],
  [0x74, 0x09],
])

/** Returns the bytes of an escape, two of them for a surrogate pair; undefined if it is not complete. */
function escapeSize(input: Buffer, at: number): number | undefined {
  const left = input.length - at
  if (left < 2) return undefined
  if (input[at + 1] !== LETTER_U) return 2
  if (left < 6) return undefined
  if (!isHigh(unitAt(input, at))) return 6
  // The next bytes show whether it is half of a pair.
  if (left > 6 && input[at + 6] !== BACKSLASH) return 6
  if (left > 7 && input[at + 7] !== LETTER_U) return 6
  if (left < 12) return undefined
  return isLow(unitAt(input, at + 6)) ? 12 : 6
}

const unitAt = (input: Buffer, at: number): number => Number.parseInt(input.toString("latin1", at + 2, at + 6), 16)
const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff

/** Returns the character of one `\u` escape, or of the two of a surrogate pair. */
const unicodeOf = (input: Buffer, at: number, size: number): string =>
  (size === 6
    ? String.fromCharCode(unitAt(input, at))
    : String.fromCharCode(unitAt(input, at), unitAt(input, at + 6))
  ).toWellFormed()
