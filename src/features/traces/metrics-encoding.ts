/**
 * Encodes metrics for OTLP: all values since svc started (cumulative), so that a request that is lost loses nothing.
 * https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/metrics/v1/metrics.proto
 */
import type { Family, Labels, Point } from "../../report/metric-family.ts"
import { isObject, parseJson } from "../../wire/message.ts"
import type { Attributes, Rejected, SpanSource } from "./encoding.ts"
import { ProtobufWriter, readRejected } from "./protobuf-writer.ts"

/** When svc started, and now, in milliseconds since the epoch. */
type Times = { readonly start: number; readonly now: number }

/** One of the two encodings. */
export type MetricsEncoding = {
  readonly contentType: string
  /** Returns the body of a request. */
  request(families: readonly Family[], times: Times): Uint8Array<ArrayBuffer>
  /** Reads the answer of a receiver. Throws for one that is not valid. */
  rejected(answer: Uint8Array): Rejected
}

/** Creates the encoding as protobuf. */
export function protobufMetrics({ resource, version }: SpanSource): MetricsEncoding {
  const writer = new ProtobufWriter()
  return {
    contentType: "application/x-protobuf",
    request: (families, times) =>
      writer.take(() =>
        writer.message(REQUEST.resourceMetrics, () => {
          writer.message(RESOURCE_METRICS.resource, () => writer.attributes(RESOURCE.attributes, resource))
          writer.message(RESOURCE_METRICS.scopeMetrics, () => {
            writer.message(SCOPE_METRICS.scope, () => {
              writer.text(SCOPE.name, "svc")
              writer.text(SCOPE.version, version)
            })
            for (const family of sent(families))
              writer.message(SCOPE_METRICS.metrics, () => writeFamily(writer, family, times))
          })
        }),
      ),
    rejected: readRejected,
  }
}

/** Creates the encoding as JSON. https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding */
export function jsonMetrics({ resource, version }: SpanSource): MetricsEncoding {
  return {
    contentType: "application/json",
    request(families, times) {
      const metrics = sent(families).map((family) => familyJson(family, times))
      const scopeMetrics = [{ scope: { name: "svc", version }, metrics }]
      const resourceMetrics = [{ resource: { attributes: attributesJson(resource) }, scopeMetrics }]
      return Buffer.from(JSON.stringify({ resourceMetrics }))
    },
    rejected(answer) {
      const { partialSuccess } = parseJson(Buffer.from(answer).toString()) as { partialSuccess?: unknown }
      const { rejectedDataPoints, errorMessage } = isObject(partialSuccess) ? partialSuccess : {}
      return { count: Number(rejectedDataPoints ?? 0), reason: String(errorMessage ?? "") }
    },
  }
}

// ---

/** The numbers of fields, by message. */
const REQUEST = { resourceMetrics: 1 }
const RESOURCE_METRICS = { resource: 1, scopeMetrics: 2 }
const RESOURCE = { attributes: 1 }
const SCOPE_METRICS = { scope: 1, metrics: 2 }
const SCOPE = { name: 1, version: 2 }
const METRIC = { name: 1, description: 2, unit: 3, gauge: 5, sum: 7, histogram: 9 }
const DATA = { points: 1, temporality: 2, isMonotonic: 3 }
const NUMBER_POINT = { start: 2, time: 3, double: 4, integer: 6, attributes: 7 }
const HISTOGRAM_POINT = { start: 2, time: 3, count: 4, sum: 5, buckets: 6, bounds: 7, attributes: 9 }
const CUMULATIVE = 2

/** Returns the families that OpenTelemetry knows and that have values. */
const sent = (families: readonly Family[]): readonly Family[] =>
  families.filter(({ only, points }) => only !== "prometheus" && points.length > 0)

/** Returns the member of a metric that holds the points of a family. */
const dataOf = ({ type, adds }: Family): "gauge" | "sum" | "histogram" => {
  if (type === "histogram") return "histogram"
  return type === "counter" || adds === true ? "sum" : "gauge"
}

/** Seconds have parts, everything else is counted. */
const isWhole = ({ unit }: Family): boolean => unit !== "s"

/** Labels that have no namespace are svc's own. */
const attributesOf = ({ labels, implied }: Point): Attributes =>
  Object.fromEntries(
    Object.entries<Labels[string]>({ ...labels, ...implied }).map(([key, value]) => [
      key.includes(".") ? key : `svc.${key}`,
      value,
    ]),
  )

const countOf = (buckets: readonly number[]): number => buckets.reduce((sum, count) => sum + count, 0)

function writeFamily(writer: ProtobufWriter, family: Family, times: Times): void {
  const data = dataOf(family)
  writer.text(METRIC.name, family.name)
  writer.text(METRIC.description, family.help)
  writer.text(METRIC.unit, family.unit)
  writer.message(METRIC[data], () => {
    for (const point of family.points)
      writer.message(DATA.points, () => writePoint(writer, point, isWhole(family), times))
    if (data !== "gauge") writer.number(DATA.temporality, CUMULATIVE)
    if (family.type === "counter") writer.number(DATA.isMonotonic, 1)
  })
}

function writePoint(writer: ProtobufWriter, point: Point, isWhole: boolean, { start, now }: Times): void {
  const fields = "value" in point ? NUMBER_POINT : HISTOGRAM_POINT
  writer.time(fields.start, start)
  writer.time(fields.time, now)
  writer.attributes(fields.attributes, attributesOf(point))
  if (!("value" in point)) {
    writer.fixed64(HISTOGRAM_POINT.count, countOf(point.buckets))
    writer.double(HISTOGRAM_POINT.sum, point.sum)
    writer.packed(HISTOGRAM_POINT.buckets, point.buckets, "fixed64")
    writer.packed(HISTOGRAM_POINT.bounds, point.bounds, "double")
  } else if (isWhole) writer.fixed64(NUMBER_POINT.integer, Math.round(point.value))
  else writer.double(NUMBER_POINT.double, point.value)
}

function familyJson(family: Family, times: Times): object {
  const data = dataOf(family)
  return {
    name: family.name,
    description: family.help,
    unit: family.unit,
    [data]: {
      dataPoints: family.points.map((point) => pointJson(point, isWhole(family), times)),
      ...(data === "gauge" ? {} : { aggregationTemporality: CUMULATIVE }),
      ...(family.type === "counter" ? { isMonotonic: true } : {}),
    },
  }
}

function pointJson(point: Point, isWhole: boolean, { start, now }: Times): object {
  const common = {
    startTimeUnixNano: `${Math.round(start * 1000)}000`,
    timeUnixNano: `${Math.round(now * 1000)}000`,
    attributes: attributesJson(attributesOf(point)),
  }
  if ("value" in point)
    return { ...common, ...(isWhole ? { asInt: String(Math.round(point.value)) } : { asDouble: point.value }) }
  const { bounds, buckets, sum } = point
  return { ...common, count: String(countOf(buckets)), sum, bucketCounts: buckets.map(String), explicitBounds: bounds }
}

const attributesJson = (attributes: Attributes): readonly object[] =>
  Object.entries(attributes).map(([key, value]) => ({
    key,
    value: typeof value === "string" ? { stringValue: value } : { intValue: String(value) },
  }))
