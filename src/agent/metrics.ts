/** What svc counts, and how it is told to Prometheus. Labels are bounded: servers and tools that are known. */
import { WORDS } from "../backend/supervision.ts"
import type { Snapshot } from "./snapshot.ts"

export type Outcome = "ok" | "tool_error" | "error"

/** Cheap to record: two map look-ups and some additions. */
export class Metrics {
  readonly calls = new Map<string, { server: string; tool: string; outcome: Outcome; count: number }>()
  readonly latency = new Map<string, { readonly buckets: number[]; sum: number; count: number }>()
  /** In: requests to servers; out: answers to clients. */
  bytes = { in: 0, out: 0 }
  reloads = { ok: 0, refused: 0 }
  rateLimited = 0

  /** One finished call; `seconds` is how long it took. */
  record(id: string, name: string, outcome: Outcome, seconds: number): void {
    // Instances of templates come and go: what is one too many is counted, but not by its name.
    const server = this.latency.has(id) || this.latency.size < MAX_SERVERS ? id : OTHER
    const known = this.calls.size < MAX_SERIES || this.calls.has(keyOf(server, name, outcome))
    const tool = known ? name : OTHER
    const key = keyOf(server, tool, outcome)
    const call = this.calls.get(key) ?? { server, tool, outcome, count: 0 }
    this.calls.set(key, call)
    call.count++
    const histogram = this.latency.get(server) ?? { buckets: BOUNDS.map(() => 0), sum: 0, count: 0 }
    this.latency.set(server, histogram)
    histogram.sum += seconds
    histogram.count++
    for (let index = BOUNDS.length - 1; index >= 0 && seconds <= (BOUNDS[index] as number); index--)
      (histogram.buckets[index] as number)++
  }
}

/** Facts of the moment that are not counted but looked at. */
export type Gauges = {
  readonly inFlight: number
  readonly sessions: number
  readonly uptimeSeconds: number
  readonly version: string
}

/** The text exposition format, version 0.0.4. */
export function exposition(metrics: Metrics, snapshot: Snapshot, gauges: Gauges): string {
  const lines: string[] = []
  const family = (name: string, type: "counter" | "gauge" | "histogram", help: string, samples: readonly string[]) => {
    lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...samples)
  }
  family("svc_build_info", "gauge", "The version of svc.", [`svc_build_info{version=${quote(gauges.version)}} 1`])
  family("svc_uptime_seconds", "gauge", "Seconds since svc started.", [`svc_uptime_seconds ${gauges.uptimeSeconds}`])
  family(
    "svc_calls_total",
    "counter",
    "Calls by server, tool and outcome.",
    [...metrics.calls.values()].map(
      ({ server, tool, outcome, count }) =>
        `svc_calls_total{server=${quote(server)},tool=${quote(tool)},outcome="${outcome}"} ${count}`,
    ),
  )
  family(
    "svc_call_duration_seconds",
    "histogram",
    "How long calls took, by server.",
    [...metrics.latency].flatMap(([server, { buckets, sum, count }]) => [
      ...BOUNDS.map(
        (bound, index) => `svc_call_duration_seconds_bucket{server=${quote(server)},le="${bound}"} ${buckets[index]}`,
      ),
      `svc_call_duration_seconds_bucket{server=${quote(server)},le="+Inf"} ${count}`,
      `svc_call_duration_seconds_sum{server=${quote(server)}} ${sum}`,
      `svc_call_duration_seconds_count{server=${quote(server)}} ${count}`,
    ]),
  )
  family("svc_calls_in_flight", "gauge", "Requests to servers that are not answered yet.", [
    `svc_calls_in_flight ${gauges.inFlight}`,
  ])
  family("svc_sessions", "gauge", "Sessions of 2025-era clients.", [`svc_sessions ${gauges.sessions}`])
  family(
    "svc_server_restarts_total",
    "counter",
    "Restarts by server.",
    snapshot.backends.map(
      ({ spec, restartCount }) => `svc_server_restarts_total{server=${quote(spec.id)}} ${restartCount}`,
    ),
  )
  family(
    "svc_server_state",
    "gauge",
    "1 for the status each server has.",
    snapshot.backends.flatMap(({ spec, state }) =>
      STATUSES.map(
        (status) =>
          `svc_server_state{server=${quote(spec.id)},status="${status}"} ${WORDS[state.kind].status === status ? 1 : 0}`,
      ),
    ),
  )
  family("svc_reloads_total", "counter", "Reloads of the configuration by result.", [
    `svc_reloads_total{result="ok"} ${metrics.reloads.ok}`,
    `svc_reloads_total{result="refused"} ${metrics.reloads.refused}`,
  ])
  family("svc_relayed_bytes_total", "counter", "Bytes of requests and answers passed on.", [
    `svc_relayed_bytes_total{direction="in"} ${metrics.bytes.in}`,
    `svc_relayed_bytes_total{direction="out"} ${metrics.bytes.out}`,
  ])
  family("svc_rate_limited_requests_total", "counter", "Requests refused by a rate limit.", [
    `svc_rate_limited_requests_total ${metrics.rateLimited}`,
  ])
  return `${lines.join("\n")}\n`
}

// ---

const MAX_SERVERS = 500
const MAX_SERIES = 5000
const OTHER = "other"
const BOUNDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60]
const STATUSES = ["connected", "error", "disconnected", "awaiting_oauth"] as const

const keyOf = (...labels: readonly [server: string, tool: string, outcome: Outcome]): string => labels.join("\n")
const quote = (text: string): string => `"${text.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n")}"`
