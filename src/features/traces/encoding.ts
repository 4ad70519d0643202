/**
 * Encodes spans for OTLP, each when it ends: kept as objects, spans would cost twice as much. Names and attributes that
 * repeat are encoded once. https://opentelemetry.io/docs/specs/otlp/
 */
import { isObject, parseJson } from "../../wire/message.ts"
import type { TraceContext } from "./trace-context.ts"

export type Attributes = Readonly<Record<string, string | number>>

/** A span that has ended. Times are milliseconds since the epoch. */
export type EndedSpan<Piece> = {
  readonly context: TraceContext
  readonly parent: TraceContext | undefined
  readonly kind: "server" | "client"
  readonly name: Piece
  /** Attributes that many spans share. */
  readonly shared: readonly Piece[]
  /** Further attributes. */
  readonly attributes: readonly (readonly [key: string, value: string])[]
  readonly events: readonly { readonly name: string; readonly time: number; readonly server: string | undefined }[]
  readonly droppedEvents: number
  /** The span of the HTTP request that carried the message. */
  readonly link: TraceContext | undefined
  readonly start: number
  readonly end: number
  readonly failed: boolean
}

/** How many spans a receiver has refused, and why. */
export type Rejected = { readonly count: number; readonly reason: string }

/** One of the two encodings. `Piece` is text, or bytes. */
export type SpanEncoding<Piece> = {
  readonly contentType: string
  name(text: string): Piece
  attributes(attributes: Attributes): Piece
  span(span: EndedSpan<Piece>): Piece
  /** Returns the body of a request. */
  request(spans: readonly Piece[]): Uint8Array<ArrayBuffer>
  /** Reads the answer of a receiver. Throws for one that is not valid. */
  rejected(answer: Uint8Array): Rejected
}

/** What all spans together have. */
export type SpanSource = { readonly resource: Attributes; readonly version: string }

/** The kinds of spans, by their numbers in OTLP. */
export const SPAN_KIND = { server: 2, client: 3 } as const
export const FAILED_STATUS = 2
/** The attribute of events and requests that names the server. */
export const SERVER_ATTRIBUTE = "svc.server"

/** Returns the flags of a span or a link: those of its trace, and whether its parent, or the linked span, is another program's. */
export const flagsOf = ({ flags }: TraceContext, isRemote: boolean): number => flags | 0x100 | (isRemote ? 0x200 : 0)

/** Whether the parent of a span is the span of another program. */
export const hasRemoteParent = ({ kind, parent }: Pick<EndedSpan<never>, "kind" | "parent">): boolean =>
  kind === "server" && parent !== undefined

/** Creates the encoding as JSON. https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding */
export function jsonEncoding({ resource, version }: SpanSource): SpanEncoding<string> {
  const head = `{"resourceSpans":[{"resource":{"attributes":[${attributesText(resource)}]},"scopeSpans":[{"scope":${JSON.stringify({ name: "svc", version })},"spans":[`
  return {
    contentType: "application/json",
    name: (text) => JSON.stringify(text),
    attributes: attributesText,
    span: spanText,
    request: (spans) => Buffer.from(`${head}${spans.join(",")}]}]}]}`),
    rejected(answer) {
      const { partialSuccess } = parseJson(Buffer.from(answer).toString()) as { partialSuccess?: unknown }
      const { rejectedSpans, errorMessage } = isObject(partialSuccess) ? partialSuccess : {}
      return { count: Number(rejectedSpans ?? 0), reason: String(errorMessage ?? "") }
    },
  }
}

// ---

function spanText({ context, parent, link, ...span }: EndedSpan<string>): string {
  const attributes = [...span.shared, ...span.attributes.map(([key, value]) => attributeText(key, value))]
  const events = span.events.map(({ name, time, server }) => {
    const about = server === undefined ? "" : attributeText(SERVER_ATTRIBUTE, server)
    return `{"timeUnixNano":"${nanosText(time)}","name":"${name}","attributes":[${about}]}`
  })
  const links = link === undefined ? "" : `{${contextText(link)},"flags":${flagsOf(link, true)}}`
  const parentText = parent === undefined ? "" : `,"parentSpanId":"${parent.spanId}"`
  const flags = flagsOf(context, hasRemoteParent({ kind: span.kind, parent }))
  return `{${contextText(context)}${parentText},"flags":${flags},"name":${span.name},"kind":${SPAN_KIND[span.kind]},"startTimeUnixNano":"${nanosText(span.start)}","endTimeUnixNano":"${nanosText(span.end)}","attributes":[${attributes.join(",")}],"events":[${events.join(",")}],"droppedEventsCount":${span.droppedEvents},"links":[${links}],"status":{${span.failed ? `"code":${FAILED_STATUS}` : ""}}}`
}

const contextText = ({ traceId, spanId, state }: TraceContext): string =>
  `"traceId":"${traceId}","spanId":"${spanId}"${state === undefined ? "" : `,"traceState":${JSON.stringify(state)}`}`

const attributesText = (attributes: Attributes): string =>
  Object.entries(attributes)
    .map(([key, value]) => attributeText(key, value))
    .join(",")

const attributeText = (key: string, value: string | number): string =>
  `{"key":${JSON.stringify(key)},"value":{${typeof value === "string" ? `"stringValue":${JSON.stringify(value)}` : `"intValue":"${value}"`}}}`

/** Nanoseconds have more digits than a number holds. */
const nanosText = (ms: number): string => `${Math.round(ms * 1000)}000`
