/** Traces of a running svc: records spans, and sends them over OTLP/HTTP. */
import { readBody } from "../../backend/http.ts"
import type { Tracer } from "../../call/ports.ts"
import type { Environment } from "../../config/environment.ts"
import type { Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import type { ReportedSpans } from "../../report/metrics.ts"
import { jsonEncoding, type SpanEncoding } from "./encoding.ts"
import { type ExporterDeps, SpanExporter } from "./exporter.ts"
import { protobufEncoding } from "./protobuf.ts"
import { createSampler, type SamplerSetting } from "./sampler.ts"
import { type ExporterSettings, readExporterSettings, readSampler } from "./settings.ts"
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

export type TracesDeps = Pick<TracerOptions<never>, "ticks" | "random" | "masker" | "content"> &
  Pick<ExporterDeps<never>, "send"> & {
    /** The value of `--otlp-endpoint`. */
    readonly endpoint: string | undefined
    readonly env: Environment
    readonly version: string
    readonly clock: Clock
    readonly log: Log
    readonly baggage: readonly string[]
  }

/** Opens traces. Throws a RequestError (usage) for an endpoint or a protocol that cannot work. */
export function openTraces(deps: TracesDeps): Traces {
  const { endpoint, env, version, log } = deps
  const warn = (text: string) => log.warn(text)
  const settings = { ...readExporterSettings("TRACES", endpoint, env, version, warn), sampling: readSampler(env, warn) }
  const source = { resource: settings.resource, version }
  return settings.protocol === "http/json"
    ? tracesIn(jsonEncoding(source), settings, deps)
    : tracesIn(protobufEncoding(source), settings, deps)
}

// ---

const MAX_ANSWER = 64 * 1024

function tracesIn<Piece extends { readonly length: number }>(
  encoding: SpanEncoding<Piece>,
  settings: ExporterSettings & { readonly sampling: SamplerSetting },
  { clock, log, baggage, send, ...deps }: TracesDeps,
): Traces {
  const exporter = new SpanExporter<Piece>({
    ...settings,
    clock,
    log,
    encoding,
    send,
    read: (response) => readBody(response, MAX_ANSWER),
  })
  const { traceOf, ...tracer } = createTracer({
    ...deps,
    now: () => clock.now(),
    sampler: createSampler(settings.sampling),
    encoding,
    baggage: new Set(baggage),
    add: (span) => exporter.add(span),
  })
  return {
    tracer,
    traceOf,
    report: () => exporter.report(),
    // `Bearer TOKEN`: the token alone is a secret, too.
    secrets: Object.values(settings.headers).flatMap((value) => [value, ...value.split(" ").slice(1)]),
    close: () => exporter.close(),
  }
}
