/** Writes the messages of OTLP as protobuf, and reads the answers. https://protobuf.dev/programming-guides/encoding/ */
import type { Attributes, Rejected } from "./encoding.ts"

/** Writes fields into one buffer, which it keeps. */
export class ProtobufWriter {
  private bytes = Buffer.alloc(4096)
  private at = 0

  /** Returns a copy of what `write` has written. */
  take(write: () => void): Uint8Array<ArrayBuffer> {
    this.at = 0
    write()
    return new Uint8Array(this.bytes.subarray(0, this.at))
  }

  /** Writes the head of a field with a length. */
  head(field: number, length: number): void {
    this.reserve(MAX_HEAD)
    this.varint((field << 3) | 2)
    this.varint(length)
  }

  message(field: number, write: () => void): void {
    this.reserve(MAX_HEAD)
    this.varint((field << 3) | 2)
    // Most messages are shorter than 128 bytes, and their length is one byte.
    const from = ++this.at
    write()
    const length = this.at - from
    const width = widthOf(length)
    if (width > 1) {
      this.reserve(width)
      this.bytes.copyWithin(from - 1 + width, from, this.at)
    }
    this.at = from - 1
    this.varint(length)
    this.at += length
  }

  text(field: number, text: string): void {
    const length = Buffer.byteLength(text)
    this.head(field, length)
    this.reserve(length)
    this.at += this.bytes.write(text, this.at)
  }

  hex(field: number, digits: string): void {
    this.head(field, digits.length / 2)
    this.at += this.bytes.write(digits, this.at, "hex")
  }

  raw(bytes: Uint8Array): void {
    this.reserve(bytes.length)
    this.bytes.set(bytes, this.at)
    this.at += bytes.length
  }

  number(field: number, value: number): void {
    this.reserve(MAX_HEAD)
    this.varint(field << 3)
    this.varint(value)
  }

  fixed32(field: number, value: number): void {
    this.reserve(MAX_HEAD)
    this.varint((field << 3) | 5)
    this.at = this.bytes.writeUInt32LE(value, this.at)
  }

  /** Writes milliseconds as nanoseconds, which have more digits than a number holds, in two halves. */
  time(field: number, ms: number): void {
    this.reserve(MAX_HEAD)
    this.varint((field << 3) | 1)
    const micros = Math.round(ms * 1000)
    const high = Math.floor(micros / HALF)
    const low = (micros - high * HALF) * 1000
    const carry = Math.floor(low / HALF)
    this.at = this.bytes.writeUInt32LE(low - carry * HALF, this.at)
    this.at = this.bytes.writeUInt32LE(high * 1000 + carry, this.at)
  }

  fixed64(field: number, value: number): void {
    this.reserve(MAX_HEAD)
    this.varint((field << 3) | 1)
    const high = Math.floor(value / HALF)
    this.at = this.bytes.writeUInt32LE(value - high * HALF, this.at)
    this.at = this.bytes.writeUInt32LE(high, this.at)
  }

  double(field: number, value: number): void {
    this.reserve(MAX_HEAD)
    this.varint((field << 3) | 1)
    this.at = this.bytes.writeDoubleLE(value, this.at)
  }

  /** Writes a packed list of numbers of 64 bits: integers, or floating-point numbers. */
  packed(field: number, values: readonly number[], kind: "fixed64" | "double"): void {
    this.head(field, 8 * values.length)
    for (const value of values) {
      this.reserve(MAX_HEAD)
      if (kind === "double") this.at = this.bytes.writeDoubleLE(value, this.at)
      else this.at = this.bytes.writeBigUInt64LE(BigInt(value), this.at)
    }
  }

  attributes(field: number, attributes: Attributes): void {
    for (const [key, value] of Object.entries(attributes)) this.attribute(field, key, value)
  }

  attribute(field: number, key: string, value: string | number): void {
    this.message(field, () => {
      this.text(KEY_VALUE.key, key)
      this.message(KEY_VALUE.value, () =>
        typeof value === "string" ? this.text(ANY_VALUE.text, value) : this.number(ANY_VALUE.integer, value),
      )
    })
  }

  // ---

  private varint(value: number): void {
    let rest = value
    for (; rest > 127; rest = Math.floor(rest / 128)) this.bytes[this.at++] = (rest % 128) | 128
    this.bytes[this.at++] = rest
  }

  private reserve(length: number): void {
    if (this.at + length + MAX_HEAD <= this.bytes.length) return
    const larger = Buffer.alloc(2 * (this.at + length + MAX_HEAD))
    this.bytes.copy(larger)
    this.bytes = larger
  }
}

/** Reads `partial_success { rejected_spans or rejected_data_points, error_message }`. Throws for what is not a message. */
export function readRejected(answer: Uint8Array): Rejected {
  let count = 0
  let reason = ""
  for (const [field, partial] of fieldsOf(answer))
    if (field === 1 && typeof partial !== "number")
      for (const [inner, value] of fieldsOf(partial)) {
        if (inner === 1 && typeof value === "number") count = value
        if (inner === 2 && typeof value !== "number") reason = Buffer.from(value).toString()
      }
  return { count, reason }
}

// ---

const KEY_VALUE = { key: 1, value: 2 }
const ANY_VALUE = { text: 1, integer: 3 }
/** More than the longest tag and number together. */
const MAX_HEAD = 32
const HALF = 2 ** 32

const widthOf = (value: number): number => (value < 128 ? 1 : 1 + widthOf(Math.floor(value / 128)))

/** Yields the fields of a message: numbers, and bytes of fields with a length. */
function* fieldsOf(bytes: Uint8Array): Generator<readonly [field: number, value: number | Uint8Array]> {
  let at = 0
  const varint = () => {
    for (let value = 0, scale = 1; ; scale *= 128) {
      const byte = bytes[at++]
      if (byte === undefined || scale > Number.MAX_SAFE_INTEGER) throw new Error("is not a protobuf message")
      value += (byte & 127) * scale
      if (byte < 128) return value
    }
  }
  while (at < bytes.length) {
    const tag = varint()
    const value = varint()
    const field = Math.floor(tag / 8)
    if (tag % 8 === 0) yield [field, value]
    else {
      if (tag % 8 !== 2 || at + value > bytes.length) throw new Error("is not a protobuf message")
      at += value
      yield [field, bytes.subarray(at - value, at)]
    }
  }
}
