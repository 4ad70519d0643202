/**
 * The encoding of spans as protobuf: exactly the messages of OTLP that svc sends, each part written once, in its place. A library
 * for any span takes three times as long. https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto
 */
import {
  type Attributes,
  type EndedSpan,
  FAILED_STATUS,
  flagsOf,
  hasRemoteParent,
  type Rejected,
  SERVER_ATTRIBUTE,
  SPAN_KIND,
  type SpanEncoding,
  type SpanSource,
} from "./encoding.ts"
import type { TraceContext } from "./trace-context.ts"

/** Creates the encoding. */
export function protobufEncoding({ resource, version }: SpanSource): SpanEncoding<Uint8Array> {
  const writer = new Writer()
  const resourceField = writer.take(() =>
    writer.message(RESOURCE_SPANS.resource, () => writer.attributes(RESOURCE.attributes, resource)),
  )
  const scopeField = writer.take(() =>
    writer.message(SCOPE_SPANS.scope, () => {
      writer.text(SCOPE.name, "svc")
      writer.text(SCOPE.version, version)
    }),
  )
  return {
    contentType: "application/x-protobuf",
    name: (text) => writer.take(() => writer.text(SPAN.name, text)),
    attributes: (attributes) => writer.take(() => writer.attributes(SPAN.attributes, attributes)),
    span: (span) => writer.take(() => writer.message(SCOPE_SPANS.spans, () => writeSpan(writer, span))),
    request(spans) {
      const inner = spans.reduce((sum, { length }) => sum + length, scopeField.length)
      const scope = writer.take(() => writer.head(RESOURCE_SPANS.scopeSpans, inner))
      const all = resourceField.length + scope.length + inner
      const head = writer.take(() => writer.head(REQUEST.resourceSpans, all))
      return Buffer.concat([head, resourceField, scope, scopeField, ...spans])
    },
    rejected: readRejected,
  }
}

// ---

/** The numbers of fields, by message. */
const REQUEST = { resourceSpans: 1 }
const RESOURCE_SPANS = { resource: 1, scopeSpans: 2 }
const RESOURCE = { attributes: 1 }
const SCOPE_SPANS = { scope: 1, spans: 2 }
const SCOPE = { name: 1, version: 2 }
const SPAN = {
  traceId: 1,
  spanId: 2,
  traceState: 3,
  parentSpanId: 4,
  name: 5,
  kind: 6,
  start: 7,
  end: 8,
  attributes: 9,
  events: 11,
  droppedEvents: 12,
  links: 13,
  status: 15,
  flags: 16,
}
const EVENT = { time: 1, name: 2, attributes: 3 }
const LINK = { traceId: 1, spanId: 2, traceState: 3, flags: 6 }
const STATUS = { code: 3 }
const KEY_VALUE = { key: 1, value: 2 }
const ANY_VALUE = { text: 1, integer: 3 }

function writeSpan(writer: Writer, span: EndedSpan<Uint8Array>): void {
  const { context, parent, link } = span
  writeContext(writer, SPAN, context)
  if (parent !== undefined) writer.hex(SPAN.parentSpanId, parent.spanId)
  writer.number(SPAN.kind, SPAN_KIND[span.kind])
  writer.time(SPAN.start, span.start)
  writer.time(SPAN.end, span.end)
  writer.raw(span.name)
  for (const piece of span.shared) writer.raw(piece)
  for (const [key, value] of span.attributes) writer.attribute(SPAN.attributes, key, value)
  for (const { name, time, server } of span.events)
    writer.message(SPAN.events, () => {
      writer.time(EVENT.time, time)
      writer.text(EVENT.name, name)
      if (server !== undefined) writer.attribute(EVENT.attributes, SERVER_ATTRIBUTE, server)
    })
  if (span.droppedEvents > 0) writer.number(SPAN.droppedEvents, span.droppedEvents)
  if (link !== undefined)
    writer.message(SPAN.links, () => {
      writeContext(writer, LINK, link)
      writer.fixed32(LINK.flags, flagsOf(link, true))
    })
  if (span.failed) writer.message(SPAN.status, () => writer.number(STATUS.code, FAILED_STATUS))
  writer.fixed32(SPAN.flags, flagsOf(context, hasRemoteParent(span)))
}

function writeContext(
  writer: Writer,
  fields: typeof SPAN | typeof LINK,
  { traceId, spanId, state }: TraceContext,
): void {
  writer.hex(fields.traceId, traceId)
  writer.hex(fields.spanId, spanId)
  if (state !== undefined) writer.text(fields.traceState, state)
}

/** Writes fields into one buffer, which it keeps. https://protobuf.dev/programming-guides/encoding/ */
class Writer {
  private bytes = Buffer.alloc(4096)
  private at = 0

  /** Returns a copy of what `write` has written. */
  take(write: () => void): Uint8Array {
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

/** More than the longest tag and number together. */
const MAX_HEAD = 32
const HALF = 2 ** 32

const widthOf = (value: number): number => (value < 128 ? 1 : 1 + widthOf(Math.floor(value / 128)))

/** Reads `partial_success { rejected_spans, error_message }`. Throws for what is not a message. */
function readRejected(answer: Uint8Array): Rejected {
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
