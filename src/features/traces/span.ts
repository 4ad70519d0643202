/** One span, in the form that the encoder of OpenTelemetry reads. */
import type { ProtobufTraceSerializer } from "@opentelemetry/otlp-transformer"
import type { Exportable } from "./exporter.ts"
import type { TraceContext } from "./trace-context.ts"

/** A span as the encoder reads it. */
export type EncodedSpan = Parameters<(typeof ProtobufTraceSerializer)["serializeRequest"]>[0][number]

export type SpanResource = EncodedSpan["resource"]
export type Attributes = Record<string, string | number>

/** Measures times within one request: wall clocks may be set meanwhile. */
export type Timeline = {
  /** Returns the milliseconds since the epoch. */
  now(): number
}

type SpanStart = {
  readonly context: TraceContext
  readonly parent: TraceContext | undefined
  readonly kind: "server" | "client"
  readonly name: string
  readonly attributes: Attributes
  /** The span of the HTTP request that carried the message. */
  readonly link: TraceContext | undefined
  readonly resource: SpanResource
  readonly scope: EncodedSpan["instrumentationScope"]
}

export class SpanRecord implements EncodedSpan, Exportable {
  readonly name: string
  readonly attributes: Attributes
  readonly events: EncodedSpan["events"] = []
  readonly links: EncodedSpan["links"]
  readonly kind: EncodedSpan["kind"]
  readonly resource: SpanResource
  readonly instrumentationScope: EncodedSpan["instrumentationScope"]
  readonly parentSpanContext?: Context
  readonly droppedAttributesCount = 0
  readonly droppedLinksCount = 0
  droppedEventsCount = 0
  status: EncodedSpan["status"] = UNSET
  size = SPAN_BYTES
  private readonly started: number
  private endedAt: number | undefined

  constructor(
    private readonly start: SpanStart,
    private readonly timeline: Timeline,
  ) {
    this.name = start.name
    this.attributes = start.attributes
    this.kind = start.kind === "server" ? SERVER : CLIENT
    this.links = start.link === undefined ? [] : [{ context: contextOf(start.link, true) }]
    this.resource = start.resource
    this.instrumentationScope = start.scope
    this.started = timeline.now()
    if (start.parent !== undefined) this.parentSpanContext = contextOf(start.parent, start.kind === "server")
  }

  get ended(): boolean {
    return this.endedAt !== undefined
  }

  get startTime(): EncodedSpan["startTime"] {
    return timeOf(this.started)
  }

  get endTime(): EncodedSpan["endTime"] {
    return timeOf(this.endedAt ?? this.started)
  }

  get duration(): EncodedSpan["duration"] {
    return timeOf((this.endedAt ?? this.started) - this.started)
  }

  spanContext(): ReturnType<EncodedSpan["spanContext"]> {
    return contextOf(this.start.context, false)
  }

  /** Sets a long attribute, which counts for the bound of the queue. */
  setContent(key: string, text: string): void {
    this.attributes[key] = text
    this.size += 2 * text.length
  }

  addEvent(name: string, attributes: Attributes): void {
    if (this.events.length < MAX_EVENTS)
      this.events.push({ name, attributes, time: timeOf(this.timeline.now()), droppedAttributesCount: 0 })
    else this.droppedEventsCount++
  }

  /** Ends the span; `error` is its `error.type`. */
  end(error: string | undefined): void {
    this.endedAt = this.timeline.now()
    if (error === undefined) return
    this.attributes["error.type"] = error
    this.status = FAILED
  }
}

// ---

const SERVER: EncodedSpan["kind"] = 1
const CLIENT: EncodedSpan["kind"] = 2
const UNSET: EncodedSpan["status"] = { code: 0 }
const FAILED: EncodedSpan["status"] = { code: 2 }
const MAX_EVENTS = 32
/** What a span without content takes, with its attributes. */
const SPAN_BYTES = 1500

type Context = ReturnType<EncodedSpan["spanContext"]>

function contextOf({ traceId, spanId, flags, state }: TraceContext, isRemote: boolean): Context {
  const context = { traceId, spanId, traceFlags: flags, isRemote }
  return state === undefined ? context : { ...context, traceState: stateOf(state) }
}

/** svc passes the state of a client on as it is. */
const stateOf = (text: string): NonNullable<Context["traceState"]> => ({
  serialize: () => text,
  get: () => undefined,
  set: () => stateOf(text),
  unset: () => stateOf(text),
})

function timeOf(ms: number): [number, number] {
  const seconds = Math.floor(ms / 1000)
  return [seconds, Math.floor((ms - seconds * 1000) * 1e6)]
}
