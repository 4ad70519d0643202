/**
 * The encoding of spans as protobuf: exactly the messages of OTLP that svc sends, each part written once, in its place. A library
 * for any span takes three times as long. https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto
 */
import {
  type EndedSpan,
  FAILED_STATUS,
  flagsOf,
  hasRemoteParent,
  SERVER_ATTRIBUTE,
  SPAN_KIND,
  type SpanEncoding,
  type SpanSource,
} from "./encoding.ts"
import { ProtobufWriter, readRejected } from "./protobuf-writer.ts"
import type { TraceContext } from "./trace-context.ts"

/** Creates the encoding. */
export function protobufEncoding({ resource, version }: SpanSource): SpanEncoding<Uint8Array> {
  const writer = new ProtobufWriter()
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

function writeSpan(writer: ProtobufWriter, span: EndedSpan<Uint8Array>): void {
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
  writer: ProtobufWriter,
  fields: typeof SPAN | typeof LINK,
  { traceId, spanId, state }: TraceContext,
): void {
  writer.hex(fields.traceId, traceId)
  writer.hex(fields.spanId, spanId)
  if (state !== undefined) writer.text(fields.traceState, state)
}
