/** Traces of a running svc: records spans, and sends them over OTLP/HTTP. */
import { JsonTraceSerializer, ProtobufTraceSerializer } from "@opentelemetry/otlp-transformer"
import { readBody } from "../../backend/http.ts"
import type { Tracer } from "../../call/ports.ts"
import type { Environment } from "../../config/environment.ts"
import type { Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import type { ReportedSpans } from "../../report/metrics.ts"
import { type ExporterDeps, type SpanEncoding, SpanExporter } from "./exporter.ts"
import { createSampler } from "./sampler.ts"
import { readTraceSettings, type TraceSettings } from "./settings.ts"
import type { SpanRecord, SpanResource } from "./span.ts"
import { createTracer, type TracerOptions } from "./tracer.ts"

export type Traces = {
  readonly tracer: Tracer
  /** Returns the trace of the last message that an HTTP request carried. */
  traceOf(http: object): string | undefined
  /** How many spans were sent and dropped. */
  report(): ReportedSpans
  /** The values of the configured headers, which may be credentials. */
  readonly secrets: readonly string[]
  /** Sends the remaining spans. */
  close(): Promise<void>
}

export type TracesDeps = Pick<TracerOptions, "ticks" | "random" | "masker" | "content"> &
  Pick<ExporterDeps<SpanRecord>, "send"> & {
    /** The value of `--otlp-endpoint`. */
    readonly endpoint: string | undefined
    readonly env: Environment
    readonly version: string
    readonly clock: Clock
    readonly log: Log
    readonly baggage: readonly string[]
  }

/** Opens traces. Throws a RequestError (usage) for an endpoint or a protocol that cannot work. */
export function openTraces({ endpoint, env, version, clock, log, baggage, ...deps }: TracesDeps): Traces {
  const settings = readTraceSettings(endpoint, env, version, (text) => log.warn(text))
  const exporter = new SpanExporter<SpanRecord>({
    ...settings,
    clock,
    log,
    encoding: encodingOf(settings.protocol),
    send: deps.send,
    read: (response) => readBody(response, MAX_ANSWER),
  })
  const { traceOf, ...tracer } = createTracer({
    ...deps,
    now: () => clock.now(),
    sampler: createSampler(settings.sampling),
    resource: resourceOf(settings.resource),
    scope: { name: "svc", version },
    baggage: new Set(baggage),
    add: (span) => exporter.add(span),
  })
  return {
    tracer,
    traceOf,
    report: () => exporter.report(),
    secrets: Object.values(settings.headers),
    close: () => exporter.close(),
  }
}

// ---

const MAX_ANSWER = 64 * 1024

function encodingOf(protocol: TraceSettings["protocol"]): SpanEncoding<SpanRecord> {
  const [serializer, contentType] =
    protocol === "http/json"
      ? ([JsonTraceSerializer, "application/json"] as const)
      : ([ProtobufTraceSerializer, "application/x-protobuf"] as const)
  return {
    contentType,
    encode: (spans) => new Uint8Array(serializer.serializeRequest([...spans]) ?? []),
    rejected(answer) {
      const { partialSuccess } = serializer.deserializeResponse(answer)
      return { count: Number(partialSuccess?.rejectedSpans ?? 0), reason: partialSuccess?.errorMessage ?? "" }
    },
  }
}

function resourceOf(attributes: Readonly<Record<string, string>>): SpanResource {
  const resource: SpanResource = {
    attributes,
    getRawAttributes: () => Object.entries(attributes),
    merge: () => resource,
  }
  return resource
}
