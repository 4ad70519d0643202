/**
 * Metrics as data, and their text for Prometheus. A family has the name that it has in OpenTelemetry; the name in Prometheus follows
 * from it. https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
 */

export type Labels = Readonly<Record<string, string | number>>

/** A value, or how values are distributed: each one is in one bucket, the last of which has no bound. */
export type Point = {
  readonly labels: Labels
  /** What OpenTelemetry wants beside the labels, from which it follows. */
  readonly implied?: Labels
} & (
  | { readonly value: number }
  | { readonly bounds: readonly number[]; readonly buckets: readonly number[]; readonly sum: number }
)

export type Family = {
  readonly name: string
  /** A counter only grows while svc runs. */
  readonly type: "counter" | "gauge" | "histogram"
  /** Seconds, bytes, or what is counted, such as `{call}`. https://ucum.org */
  readonly unit: "s" | "By" | "1" | `{${string}}`
  readonly help: string
  readonly points: readonly Point[]
  /** The name in Prometheus if it is not the one that follows. */
  readonly prometheus?: string
  /** The only format that has it. */
  readonly only?: "prometheus" | "otlp"
  /** Whether OpenTelemetry adds up what Prometheus calls a gauge. */
  readonly adds?: true
}

/** Returns the point of a family that has only one. */
export const one = (value: number, labels: Labels = {}): readonly Point[] => [{ labels, value }]

/** Returns the name of a family in Prometheus. */
export function prometheusName({ name, type, unit, prometheus }: Omit<Family, "points">): string {
  if (prometheus !== undefined) return prometheus
  return `${name.replaceAll(".", "_")}${SUFFIXES[unit] ?? ""}${type === "counter" ? "_total" : ""}`
}

/** Writes families in the text format of Prometheus, version 0.0.4. https://prometheus.io/docs/instrumenting/exposition_formats/ */
export function exposition(families: readonly Family[]): string {
  const lines = families.flatMap((family) => {
    if (family.only === "otlp") return []
    const name = prometheusName(family)
    return [
      `# HELP ${name} ${family.help}`,
      `# TYPE ${name} ${family.type}`,
      ...family.points.flatMap((point) => samplesOf(name, point)),
    ]
  })
  return `${lines.join("\n")}\n`
}

// ---

const SUFFIXES: Readonly<Record<string, string>> = { s: "_seconds", By: "_bytes" }

function samplesOf(name: string, point: Point): readonly string[] {
  const labels = Object.entries(point.labels).map(([key, value]) => `${key.replaceAll(".", "_")}=${quote(value)}`)
  if ("value" in point) return [`${name}${braced(labels)} ${point.value}`]
  const { bounds, buckets, sum } = point
  let count = 0
  const lines = [...bounds, "+Inf"].map((bound, at) => {
    count += buckets[at] ?? 0
    return `${name}_bucket${braced([...labels, `le="${bound}"`])} ${count}`
  })
  return [...lines, `${name}_sum${braced(labels)} ${sum}`, `${name}_count${braced(labels)} ${count}`]
}

const braced = (labels: readonly string[]): string => (labels.length === 0 ? "" : `{${labels.join(",")}}`)

const quote = (value: string | number): string =>
  `"${String(value).replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n")}"`
