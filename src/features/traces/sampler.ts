/** Decides which traces are recorded. https://opentelemetry.io/docs/specs/otel/trace/sdk/#sampling */
import { SAMPLED, type TraceContext } from "./trace-context.ts"

/** The values of OTEL_TRACES_SAMPLER. */
export const SAMPLERS = [
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
  "always_on",
  "always_off",
  "traceidratio",
] as const

export type SamplerSetting = {
  readonly sampler: (typeof SAMPLERS)[number]
  /** The part of all traces that a ratio records, from 0 to 1. */
  readonly ratio: number
}

/** Returns whether the span of a request is recorded. `parent`: the span of its client, if that names one. */
export type Sampler = (traceId: string, parent: TraceContext | undefined) => boolean

/** Creates a sampler. A trace that one program records by ratio, all others with this ratio or a higher one record, too. */
export function createSampler({ sampler, ratio }: SamplerSetting): Sampler {
  const follows = sampler.startsWith("parentbased_")
  const decide = rootSampler(sampler, ratio)
  return (traceId, parent) => (follows && parent !== undefined ? (parent.flags & SAMPLED) !== 0 : decide(traceId))
}

// ---

function rootSampler(sampler: SamplerSetting["sampler"], ratio: number): (traceId: string) => boolean {
  if (sampler.endsWith("always_on")) return () => true
  if (sampler.endsWith("always_off")) return () => false
  const threshold = (1 - ratio) * 2 ** RANDOM_BITS
  return (traceId) => Number.parseInt(traceId.slice(RANDOM_AT, RANDOM_AT + RANDOM_BITS / 4), 16) >= threshold
}

/** The last 56 bits of an id are random; numbers are exact up to 53 bits. */
const RANDOM_AT = 18
const RANDOM_BITS = 52
