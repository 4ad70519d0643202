/**
 * A receiver of OTLP/HTTP for tests. It decodes with the code that OpenTelemetry generated from its protobuf definitions, and
 * refuses what they do not define.
 */
import root from "otlp-definitions/build/src/generated/root.js"
import { Reader } from "protobufjs/minimal"
import { type CheckedMetric, problemsOfMetric, problemsOfSpan } from "./conventions.ts"

type ReceivedSpan = {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string
  readonly name: string
  readonly kind: string
  readonly status: string
  readonly attributes: Readonly<Record<string, unknown>>
  readonly events: readonly string[]
  readonly links: readonly string[]
  readonly traceState: string
  readonly flags: number
  readonly start: bigint
  readonly end: bigint
  readonly resource: Readonly<Record<string, unknown>>
}

/** A metric with its points; times are nanoseconds. */
export type ReceivedMetric = Omit<CheckedMetric, "points"> & {
  readonly points: readonly (CheckedMetric["points"][number] & {
    readonly start: bigint
    readonly time: bigint
    /** The value, or the sum of a histogram, and its counts. */
    readonly value: number
    readonly buckets: readonly number[]
  })[]
  readonly resource: Readonly<Record<string, unknown>>
}

export type Receiver = AsyncDisposable & {
  readonly url: string
  readonly spans: ReceivedSpan[]
  /** The metrics of each request. */
  readonly metrics: (readonly ReceivedMetric[])[]
  /** The bodies of all requests, as text. */
  readonly bodies: string[]
  readonly headers: Headers[]
  /** Answers the next requests; undefined takes their spans. */
  answer: ((request: Request) => Promise<Response> | Response | undefined) | undefined
}

/**
 * Starts a receiver. A body that is not strictly valid, or that the semantic conventions do not allow, is answered with 400, and
 * reported by `problems`.
 */
export function startReceiver(port = 0): Receiver & { readonly problems: string[] } {
  const spans: ReceivedSpan[] = []
  const metrics: (readonly ReceivedMetric[])[] = []
  const bodies: string[] = []
  const problems: string[] = []
  const headers: Headers[] = []
  const receiver = { spans, metrics, bodies, problems, headers, answer: undefined as Receiver["answer"] }
  const server = Bun.serve({
    port,
    hostname: "127.0.0.1",
    async fetch(request) {
      const bytes = new Uint8Array(await request.arrayBuffer())
      headers.push(request.headers)
      const answered = await receiver.answer?.(request)
      if (answered !== undefined) return answered
      bodies.push(Buffer.from(bytes).toString("latin1"))
      try {
        const { pathname } = new URL(request.url)
        const type = request.headers.get("content-type") ?? ""
        if (pathname === "/v1/traces") {
          const received = readSpans(bytes, type)
          spans.push(...received)
          problems.push(...received.flatMap(problemsOfSpan))
        } else if (pathname === "/v1/metrics") {
          const received = readMetrics(bytes, type)
          metrics.push(received)
          problems.push(...received.flatMap(problemsOfMetric))
        } else throw new Error(`wrong path: ${request.url}`)
        return new Response(type === JSON_TYPE ? "{}" : new Uint8Array(), { headers: { "content-type": type } })
      } catch (error) {
        problems.push(String(error))
        return new Response(undefined, { status: 400 })
      }
    },
  })
  return Object.assign(receiver, {
    url: `http://127.0.0.1:${server.port}`,
    [Symbol.asyncDispose]: () => server.stop(true),
  })
}

/** Reads the spans in the body of a request. Throws for one that is not strictly valid. */
export const readSpans = (bytes: Uint8Array, type: string): ReceivedSpan[] =>
  type === JSON_TYPE
    ? spansIn(jsonOf(bytes), (id) => String(id ?? ""))
    : spansIn(decode(V1.trace.v1.ExportTraceServiceRequest, bytes), (id) => Buffer.from(id as number[]).toString("hex"))

/** Reads the metrics in the body of a request. Throws for one that is not strictly valid. */
export const readMetrics = (bytes: Uint8Array, type: string): readonly ReceivedMetric[] =>
  metricsIn(type === JSON_TYPE ? jsonOf(bytes) : decode(V1.metrics.v1.ExportMetricsServiceRequest, bytes))

// ---

const JSON_TYPE = "application/json"

type Json = Readonly<Record<string, unknown>>

type MessageType = {
  decode(reader: Reader): object
  verify(message: object): string | null
  toObject(message: object, options: object): object
}

const V1 = (
  root as unknown as {
    opentelemetry: { proto: { collector: Record<"trace" | "metrics", { v1: Record<string, MessageType> }> } }
  }
).opentelemetry.proto.collector

/** https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: ids are hexadecimal, enums are numbers. */
const jsonOf = (bytes: Uint8Array): Json => JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes))

/** Decodes a message. Throws for a field that the definitions do not have. */
function decode(type: MessageType | undefined, bytes: Uint8Array): Json {
  if (type === undefined) throw new Error("the definitions lack a message")
  const message = type.decode(new StrictReader(bytes))
  const problem = type.verify(message)
  if (problem) throw new Error(problem)
  return type.toObject(message, { longs: String, enums: String, bytes: Array, defaults: true }) as Json
}

/** Generated code skips what it does not know: here that is an error. */
class StrictReader extends Reader {
  override skipType(): Reader {
    throw new Error("a field that the definitions do not have")
  }
}

function spansIn(request: Json, idText: (id: unknown) => string): ReceivedSpan[] {
  const id = (value: unknown, digits: number, isOptional = false) => {
    const text = idText(value)
    if (!(isOptional && text === "") && !new RegExp(`^(?!0+$)[0-9a-f]{${digits}}$`).test(text))
      throw new Error(`not an id of ${digits} digits: ${text}`)
    return text
  }
  return list(request.resourceSpans).flatMap(({ resource, scopeSpans }) =>
    list(scopeSpans).flatMap(({ spans }) =>
      list(spans).map((span) => ({
        traceId: id(span.traceId, 32),
        spanId: id(span.spanId, 16),
        parentSpanId: id(span.parentSpanId ?? "", 16, true),
        name: String(span.name),
        kind: String(span.kind),
        status: String((span.status as Json | null)?.code ?? "STATUS_CODE_UNSET"),
        attributes: attributesIn(span.attributes),
        events: list(span.events).map(({ name }) => String(name)),
        links: list(span.links).map(({ traceId, spanId }) => `${id(traceId, 32)} ${id(spanId, 16)}`),
        traceState: String(span.traceState ?? ""),
        flags: Number(span.flags),
        start: BigInt(span.startTimeUnixNano as string),
        end: BigInt(span.endTimeUnixNano as string),
        resource: attributesIn((resource as Json).attributes),
      })),
    ),
  )
}

const list = (value: unknown) => (value ?? []) as Json[]

/** Throws for values that are not cumulative, and for counts that do not add up. */
const metricsIn = (request: Json): readonly ReceivedMetric[] =>
  list(request.resourceMetrics).flatMap(({ resource, scopeMetrics }) =>
    list(scopeMetrics).flatMap(({ metrics }) =>
      list(metrics).map((metric): ReceivedMetric => {
        const found = (["gauge", "sum", "histogram"] as const).filter((kind) => metric[kind] != null)
        const [kind] = found
        if (kind === undefined || found.length > 1) throw new Error(`${metric.name} has the data ${found}`)
        const data = metric[kind] as Json
        if (kind !== "gauge" && !/CUMULATIVE$|^2$/.test(String(data.aggregationTemporality)))
          throw new Error(`${metric.name} is not cumulative`)
        const sum = data.isMonotonic === true ? "counter" : "updowncounter"
        return {
          name: String(metric.name),
          unit: String(metric.unit),
          instrument: kind === "sum" ? sum : kind,
          points: list(data.dataPoints).map((point) => pointIn(point, kind)),
          resource: attributesIn((resource as Json).attributes),
        }
      }),
    ),
  )

function pointIn(point: Json, kind: "gauge" | "sum" | "histogram"): ReceivedMetric["points"][number] {
  const common = {
    attributes: attributesIn(point.attributes),
    start: BigInt(point.startTimeUnixNano as string),
    time: BigInt(point.timeUnixNano as string),
  }
  if (common.start > common.time) throw new Error("a point ends before it starts")
  if (kind !== "histogram") {
    const isWhole = "asInt" in point
    return {
      ...common,
      kind: isWhole ? "int" : "double",
      value: Number(isWhole ? point.asInt : point.asDouble),
      bounds: [],
      buckets: [],
    }
  }
  const [bounds, buckets] = [point.explicitBounds as number[], (point.bucketCounts as unknown[]).map(Number)]
  if (buckets.length !== bounds.length + 1) throw new Error("the buckets do not fit their bounds")
  if (buckets.reduce((sum, count) => sum + count, 0) !== Number(point.count))
    throw new Error("the counts do not add up")
  return { ...common, kind, value: Number(point.sum), bounds, buckets }
}

function attributesIn(value: unknown): Json {
  const pairs = (value as { key: string; value: Json }[]).map(({ key, value }) => {
    const [kind, inner] = Object.entries(value).find(([name]) => name !== "value") ?? []
    return [key, kind === "intValue" ? Number(inner) : inner] as const
  })
  if (new Set(pairs.map(([key]) => key)).size < pairs.length) throw new Error("an attribute occurs twice")
  return Object.fromEntries(pairs)
}
