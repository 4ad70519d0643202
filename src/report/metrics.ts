/**
 * Counts calls, and writes the counters for Prometheus. The number of label values is bounded.
 * https://prometheus.io/docs/instrumenting/exposition_formats/
 */

import type { Snapshot } from "../agent/snapshot.ts"
import { isDozing, STATUS_BY_STATE } from "../backend/supervision.ts"
import type { ProcessUsage } from "../lib/process-usage.ts"
import { CALL_DURATION, CallDurations } from "./call-durations.ts"
import type { ReportedSizes } from "./status.ts"

const OUTCOMES = ["ok", "tool_error", "error", "rate_limited"] as const
export type CallOutcome = (typeof OUTCOMES)[number]

/** The `error.type` of calls that failed. */
const ERROR_TYPES = { ok: undefined, tool_error: "tool_error", error: "_OTHER" } as const

/** One server's calls: outcomes by tool, and durations by bucket (not cumulative, each call in one bucket). */
type ServerCounters = {
  readonly tools: Map<string, Record<CallOutcome, number>>
  readonly buckets: number[]
  sum: number
}

/** The counters. Recording costs three map look-ups and some additions, because it runs for every call. */
export class Metrics {
  readonly servers = new Map<string, ServerCounters>()
  private tools = 0
  readonly durations = new CallDurations()
  /** `in`: requests to servers; `out`: responses to clients. */
  bytes = { in: 0, out: 0 }
  reloads = { ok: 0, refused: 0 }
  rateLimited = 0
  refusedLogins = 0

  /** Counts a finished call that took `seconds`. A call that the rate limit refused has no duration. */
  record(id: string, name: string, outcome: CallOutcome, seconds: number): void {
    const server = this.servers.get(id) ?? this.addServer(id)
    const tool = server.tools.get(name) ?? this.addTool(server, name)
    tool[outcome]++
    if (outcome === "rate_limited") return
    this.durations.record(id, name, ERROR_TYPES[outcome], seconds)
    server.sum += seconds
    let bucket = 0
    while (bucket < BOUNDS.length && seconds > (BOUNDS[bucket] as number)) bucket++
    ;(server.buckets[bucket] as number)++
  }

  // ---

  /** Adds a server. Beyond MAX_SERVERS, which template instances can reach, calls count as calls of "other". */
  private addServer(id: string): ServerCounters {
    const name = this.servers.size < MAX_SERVERS ? id : OTHER
    const server = this.servers.get(name) ?? { tools: new Map(), buckets: [...BOUNDS, 0].map(() => 0), sum: 0 }
    this.servers.set(name, server)
    return server
  }

  private addTool(server: ServerCounters, tool: string): Record<CallOutcome, number> {
    const name = this.tools++ < MAX_TOOLS ? tool : OTHER
    const calls = server.tools.get(name) ?? { ok: 0, tool_error: 0, error: 0, rate_limited: 0 }
    server.tools.set(name, calls)
    return calls
  }
}

/** What became of the spans of traces. */
export type ReportedSpans = { readonly exported: number; readonly dropped: number }

/** Values that are read when the metrics are written. */
export type Gauges = {
  readonly inFlight: number
  readonly sessions: number
  /** Open event streams. */
  readonly streams: number
  /** This replica in its cluster; undefined for a single svc. */
  readonly replica:
    | { readonly id: string; readonly connected: boolean; readonly count: number; readonly owned: number }
    | undefined
  readonly uptimeSeconds: number
  /** Of the process of svc: bytes, seconds of processor time, and seconds since the epoch. */
  readonly own: { readonly memory: number; readonly cpu: number; readonly startedAt: number }
  readonly version: string
  readonly results: ReportedSizes
  /** Undefined if svc records no traces. */
  readonly spans: ReportedSpans | undefined
  /** What processes use, by their ids: that of svc, and those of servers with their descendants; empty where the system does not tell. */
  readonly usage: ReadonlyMap<number, ProcessUsage>
}

/** Writes all metrics in the text exposition format, version 0.0.4. */
export function exposition(metrics: Metrics, snapshot: Snapshot, gauges: Gauges): string {
  const lines: string[] = []
  const family = (name: string, type: "counter" | "gauge" | "histogram", help: string, samples: readonly string[]) => {
    lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...samples)
  }
  family("svc_build_info", "gauge", "The version of svc.", [`svc_build_info{version=${quote(gauges.version)}} 1`])
  family("svc_uptime_seconds", "gauge", "Seconds since svc started.", [`svc_uptime_seconds ${gauges.uptimeSeconds}`])
  family("process_resident_memory_bytes", "gauge", "Resident memory of svc.", [
    `process_resident_memory_bytes ${gauges.own.memory}`,
  ])
  family("process_cpu_seconds_total", "counter", "Processor time of svc.", [
    `process_cpu_seconds_total ${gauges.own.cpu}`,
  ])
  family("process_start_time_seconds", "gauge", "When svc started, in seconds since the epoch.", [
    `process_start_time_seconds ${gauges.own.startedAt}`,
  ])
  family(
    "svc_calls_total",
    "counter",
    "Calls by server, tool and outcome: ok, tool_error (the tool reported an error), error, or rate_limited (refused because of rateLimit).",
    [...metrics.servers].flatMap(([server, { tools }]) =>
      [...tools].flatMap(([tool, calls]) =>
        OUTCOMES.filter((outcome) => calls[outcome] > 0).map(
          (outcome) =>
            `svc_calls_total{server=${quote(server)},tool=${quote(tool)},outcome="${outcome}"} ${calls[outcome]}`,
        ),
      ),
    ),
  )
  family(
    "svc_call_duration_seconds",
    "histogram",
    "Duration of calls by server.",
    [...metrics.servers].flatMap(([server, { buckets, sum }]) => {
      let count = 0
      const lines = [...BOUNDS, "+Inf"].map((bound, index) => {
        count += buckets[index] ?? 0
        return `svc_call_duration_seconds_bucket{server=${quote(server)},le="${bound}"} ${count}`
      })
      return [
        ...lines,
        `svc_call_duration_seconds_sum{server=${quote(server)}} ${sum}`,
        `svc_call_duration_seconds_count{server=${quote(server)}} ${count}`,
      ]
    }),
  )
  family(
    CALL_DURATION,
    "histogram",
    "Duration of calls by server and tool, and by the kind of failure. Of many tools, those that are first called have series of their own.",
    metrics.durations.samples(quote),
  )
  family("svc_calls_in_flight", "gauge", "Requests to servers that have no response yet.", [
    `svc_calls_in_flight ${gauges.inFlight}`,
  ])
  family("svc_sessions", "gauge", "Sessions of legacy clients.", [`svc_sessions ${gauges.sessions}`])
  family("svc_streams", "gauge", "Open streams to clients.", [`svc_streams ${gauges.streams}`])
  const { replica } = gauges
  if (replica !== undefined) {
    family("svc_replica_info", "gauge", "The id of this replica.", [`svc_replica_info{replica=${quote(replica.id)}} 1`])
    family("svc_replicas", "gauge", "Replicas that this one knows, itself included.", [`svc_replicas ${replica.count}`])
    family("svc_shared_state_connected", "gauge", "1 if the shared state can be reached.", [
      `svc_shared_state_connected ${replica.connected ? 1 : 0}`,
    ])
    family("svc_servers_owned", "gauge", "Servers that this replica runs for all replicas.", [
      `svc_servers_owned ${replica.owned}`,
    ])
  }
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
    "1 for the current status of each server, 0 for every other status.",
    snapshot.backends.flatMap(({ spec, state }) =>
      STATUSES.map(
        (status) =>
          `svc_server_state{server=${quote(spec.id)},status="${status}"} ${STATUS_BY_STATE[state.kind].status === status ? 1 : 0}`,
      ),
    ),
  )
  const used = snapshot.backends.flatMap(({ spec, state }) => {
    const usage = state.kind === "connected" && state.pid !== undefined ? gauges.usage.get(state.pid) : undefined
    return usage === undefined ? [] : [{ server: quote(spec.id), ...usage }]
  })
  if (gauges.usage.size > 0) {
    family(
      "svc_server_memory_bytes",
      "gauge",
      "Resident memory of the process of each server, with the processes that it has started.",
      used.map(({ server, memory }) => `svc_server_memory_bytes{server=${server}} ${memory}`),
    )
    family(
      "svc_server_cpu_seconds_total",
      "counter",
      "Processor time of the process of each server, with the processes that it has started.",
      used.map(({ server, cpu }) => `svc_server_cpu_seconds_total{server=${server}} ${cpu / 1000}`),
    )
  }
  family("svc_servers_asleep", "gauge", "Servers that have no process until a call needs it.", [
    `svc_servers_asleep ${snapshot.backends.filter(({ state }) => isDozing(state)).length}`,
  ])
  family(
    "svc_configuration_issues",
    "gauge",
    "Problems of the configuration by severity. A server that is not loaded is an error.",
    (["error", "warning"] as const).map((severity) => {
      const count = snapshot.issues.filter((issue) => issue.severity === severity).length
      return `svc_configuration_issues{severity="${severity}"} ${count}`
    }),
  )
  family(
    "svc_context_characters",
    "gauge",
    "Characters that each server puts into the context of a client: its list of tools, and its instructions.",
    snapshot.backends.flatMap(({ spec, offer }) =>
      Object.entries(offer?.characters ?? {}).map(
        ([kind, count]) => `svc_context_characters{server=${quote(spec.id)},kind="${kind}"} ${count}`,
      ),
    ),
  )
  const results = gauges.results.report()
  family(
    "svc_result_bytes",
    "gauge",
    "Sizes of the results of each tool since svc started: the median, the 99th percentile and the largest.",
    results.flatMap(({ server, tool, p50, p99, largest }) =>
      Object.entries({ "0.5": p50, "0.99": p99, 1: largest }).map(
        ([quantile, bytes]) =>
          `svc_result_bytes{server=${quote(server)},tool=${quote(tool)},quantile="${quantile}"} ${bytes}`,
      ),
    ),
  )
  family(
    "svc_results_cut_total",
    "counter",
    "Results that exceeded their budget, so that clients got a part of them.",
    results.flatMap(({ server, tool, cut }) =>
      cut === 0 ? [] : [`svc_results_cut_total{server=${quote(server)},tool=${quote(tool)}} ${cut}`],
    ),
  )
  family("svc_reloads_total", "counter", "Reloads of the configuration by result.", [
    `svc_reloads_total{result="ok"} ${metrics.reloads.ok}`,
    `svc_reloads_total{result="refused"} ${metrics.reloads.refused}`,
  ])
  family("svc_relayed_bytes_total", "counter", "Bytes of relayed requests and responses.", [
    `svc_relayed_bytes_total{direction="in"} ${metrics.bytes.in}`,
    `svc_relayed_bytes_total{direction="out"} ${metrics.bytes.out}`,
  ])
  family("svc_refused_logins_total", "counter", "Requests refused because of a missing or wrong token.", [
    `svc_refused_logins_total ${metrics.refusedLogins}`,
  ])
  if (gauges.spans !== undefined)
    family("svc_spans_total", "counter", "Spans of traces by what became of them: exported or dropped.", [
      `svc_spans_total{result="exported"} ${gauges.spans.exported}`,
      `svc_spans_total{result="dropped"} ${gauges.spans.dropped}`,
    ])
  family("svc_rate_limited_requests_total", "counter", "Requests refused by a rate limit.", [
    `svc_rate_limited_requests_total ${metrics.rateLimited}`,
  ])
  return `${lines.join("\n")}\n`
}

// ---

const MAX_SERVERS = 500
const MAX_TOOLS = 5000
const OTHER = "other"
const BOUNDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60]
const STATUSES = ["connected", "error", "disconnected", "awaiting_oauth"] as const

const quote = (text: string): string => `"${text.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n")}"`
