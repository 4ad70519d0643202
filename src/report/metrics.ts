/** Counts calls, and lists the metrics of svc. The number of series is bounded. */

import type { Snapshot } from "../agent/snapshot.ts"
import { STATUS_BY_STATE } from "../backend/supervision.ts"
import type { ProcessUsage } from "../lib/process-usage.ts"
import { Durations, OTHER, OTHER_ERROR } from "./durations.ts"
import { type Family, type Labels, one, type Point } from "./metric-family.ts"
import type { ReportedSizes } from "./status.ts"

const OUTCOMES = ["ok", "tool_error", "error", "rate_limited"] as const
export type CallOutcome = (typeof OUTCOMES)[number]

/** How many calls ended in each way. */
type Outcomes = Record<CallOutcome, number>

/** One server's calls: outcomes by tool, and durations by bucket (not cumulative, each call in one bucket). */
type ServerCounters = {
  readonly tools: Map<string, Outcomes>
  readonly buckets: number[]
  sum: number
}

/** The counters. Recording costs three map look-ups and some additions, because it runs for every call. */
export class Metrics {
  readonly servers = new Map<string, ServerCounters>()
  private tools = 0
  /** The calls of each principal; empty unless they are counted. */
  readonly principals = new Map<string, Outcomes>()
  /** Returns the name of the token of a principal. */
  nameOf: (principal: string) => string | undefined = () => undefined
  /** Requests of clients, requests to servers, and HTTP requests. */
  readonly served = createOperations("mcp.method.name", "gen_ai.tool.name", "gen_ai.prompt.name", "network.transport")
  readonly sent = createOperations("svc.server", "mcp.method.name", "gen_ai.tool.name", "gen_ai.prompt.name")
  readonly http = new Durations({
    labels: ["http.request.method", "http.route", "http.response.status_code", "url.scheme"],
    bounds: HTTP_BOUNDS,
    most: MAX_HTTP_SERIES,
    coarser: [([, , status, scheme]) => [OTHER_ERROR, undefined, status, scheme]],
    implied: ({ "http.response.status_code": status = 0 }) =>
      Number(status) >= 500 ? { "error.type": String(status) } : NOTHING,
  })
  /** Sessions of clients, and connections to servers. */
  readonly sessions = new Durations({
    labels: ["mcp.protocol.version", "network.protocol.name"],
    bounds: MCP_BOUNDS,
    most: MAX_SERIES,
    coarser: [() => [undefined, undefined]],
  })
  readonly connections = createServerDurations("mcp.protocol.version", "network.protocol.name")
  readonly wakes = createServerDurations()
  /** Requests that wait for a server. */
  waiting = 0
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
    server.sum += seconds
    let bucket = 0
    while (bucket < BOUNDS.length && seconds > (BOUNDS[bucket] as number)) bucket++
    ;(server.buckets[bucket] as number)++
  }

  /** Counts a finished call of a principal. */
  recordPrincipal(principal: string, outcome: CallOutcome): void {
    const name = this.principals.has(principal) || this.principals.size < MAX_PRINCIPALS ? principal : OTHER
    const calls = this.principals.get(name) ?? noCalls()
    this.principals.set(name, calls)
    calls[outcome]++
  }

  // ---

  /** Adds a server. Beyond MAX_SERVERS, which template instances can reach, calls count as calls of "other". */
  private addServer(id: string): ServerCounters {
    const name = this.servers.size < MAX_SERVERS ? id : OTHER
    const server = this.servers.get(name) ?? { tools: new Map(), buckets: [...BOUNDS, 0].map(() => 0), sum: 0 }
    this.servers.set(name, server)
    return server
  }

  private addTool(server: ServerCounters, tool: string): Outcomes {
    const name = this.tools++ < MAX_TOOLS ? tool : OTHER
    const calls = server.tools.get(name) ?? noCalls()
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
  readonly own: OwnProcess
  readonly version: string
  readonly results: ReportedSizes
  /** Undefined if svc records no traces. */
  readonly spans?: ReportedSpans | undefined
  /** What processes use, by their ids: that of svc, and those of servers with their descendants; empty where the system does not tell. */
  readonly usage: ReadonlyMap<number, ProcessUsage>
}

/** The process of svc: bytes, seconds of processor time by mode, and seconds since the epoch. */
export type OwnProcess = {
  readonly memory: number
  readonly cpu: { readonly user: number; readonly system: number }
  readonly startedAt: number
  /** Its open files and how many it may have; undefined where the system does not tell. */
  readonly files: { readonly open: number; readonly limit: number } | undefined
}

/** Returns all metrics. */
export function families(metrics: Metrics, snapshot: Snapshot, gauges: Gauges): readonly Family[] {
  return [
    ...processFamilies(gauges),
    ...callFamilies(metrics, gauges),
    ...clientFamilies(metrics, gauges),
    ...replicaFamilies(gauges),
    ...serverFamilies(metrics, snapshot, gauges),
    ...resultFamilies(gauges),
    ...serviceFamilies(metrics, snapshot, gauges),
  ]
}

// ---

const MAX_SERVERS = 500
const MAX_TOOLS = 5000
const MAX_PRINCIPALS = 100
const MAX_SERIES = 120
const MAX_HTTP_SERIES = 150
const BOUNDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60]
/** The buckets of the conventions for MCP, and of those for HTTP. */
const MCP_BOUNDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
const HTTP_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const STATUSES = ["connected", "error", "disconnected", "awaiting_oauth"] as const
const NOTHING: Labels = {}

const noCalls = (): Outcomes => ({ ok: 0, tool_error: 0, error: 0, rate_limited: 0 })

type Value = string | number | undefined

/**
 * Creates the durations of MCP operations, by four labels and the kind of failure. Beyond the bounds, operations keep their method:
 * first those of other tools and prompts count together, then those of other servers.
 * https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md#metrics
 */
function createOperations(...names: readonly [string, string, string, string]): Durations {
  const labels = [...names, "error.type"]
  const other = (value: Value) => (value === undefined ? undefined : OTHER)
  const coarse = (values: readonly Value[], isCoarse: (name: string) => boolean) =>
    labels.map((name, at) => {
      if (name === "error.type") return values[at] === undefined ? undefined : OTHER_ERROR
      return isCoarse(name) ? other(values[at]) : values[at]
    })
  return new Durations({
    labels,
    bounds: MCP_BOUNDS,
    most: MAX_SERIES,
    coarser: [
      (values) => coarse(values, (name) => name.startsWith("gen_ai.")),
      (values) => coarse(values, (name) => name.startsWith("gen_ai.") || name === "svc.server"),
    ],
    implied: ({ "mcp.method.name": method, "error.type": error }) => ({
      ...(method === "tools/call" ? { "gen_ai.operation.name": "execute_tool" } : {}),
      ...(/^-?\d+$/.test(String(error)) ? { "rpc.response.status_code": String(error) } : {}),
    }),
  })
}

/** Creates durations by server, further labels, and the kind of failure. */
const createServerDurations = (...further: readonly string[]): Durations =>
  new Durations({
    labels: ["svc.server", ...further, "error.type"],
    bounds: MCP_BOUNDS,
    most: MAX_SERIES,
    coarser: [(values) => [OTHER, ...further.map(() => undefined), values.at(-1)]],
  })

function processFamilies({ version, uptimeSeconds, own }: Gauges): readonly Family[] {
  const { memory, cpu, startedAt, files } = own
  return [
    {
      name: "svc.build.info",
      type: "gauge",
      unit: "1",
      help: "The version of svc.",
      points: one(1, { version }),
    },
    {
      name: "process.uptime",
      prometheus: "svc_uptime_seconds",
      type: "gauge",
      unit: "s",
      help: "Seconds since svc started.",
      points: one(uptimeSeconds),
    },
    {
      name: "process.memory.usage",
      prometheus: "process_resident_memory_bytes",
      type: "gauge",
      adds: true,
      unit: "By",
      help: "Resident memory of svc.",
      points: one(memory),
    },
    {
      name: "process.cpu",
      only: "prometheus",
      type: "counter",
      unit: "s",
      help: "Processor time of svc.",
      points: one(cpu.user + cpu.system),
    },
    {
      name: "process.cpu.time",
      only: "otlp",
      type: "counter",
      unit: "s",
      help: "Processor time of svc.",
      points: Object.entries(cpu).map(([mode, value]) => ({ labels: { "cpu.mode": mode }, value })),
    },
    {
      name: "process.start_time",
      only: "prometheus",
      type: "gauge",
      unit: "s",
      help: "When svc started, in seconds since the epoch.",
      points: one(startedAt),
    },
    ...(files === undefined
      ? []
      : ([
          {
            name: "process.unix.file_descriptor.count",
            prometheus: "process_open_fds",
            type: "gauge",
            adds: true,
            unit: "{file_descriptor}",
            help: "Files and connections that svc has open.",
            points: one(files.open),
          },
          {
            name: "process.max_fds",
            only: "prometheus",
            type: "gauge",
            unit: "{file_descriptor}",
            help: "How many files and connections svc may have open.",
            points: one(files.limit),
          },
        ] as const)),
  ]
}

function callFamilies(metrics: Metrics, gauges: Gauges): readonly Family[] {
  const { servers, principals, served, sent, waiting } = metrics
  return [
    {
      name: "svc.calls",
      type: "counter",
      unit: "{call}",
      help: "Calls by server, tool and outcome: ok, tool_error (the tool reported an error), error, or rate_limited (refused because of rateLimit).",
      points: [...servers].flatMap(([server, { tools }]) =>
        [...tools].flatMap(([tool, calls]) => outcomePoints({ server, tool }, calls)),
      ),
    },
    ...(principals.size === 0
      ? []
      : ([
          {
            name: "svc.principal.calls",
            type: "counter",
            unit: "{call}",
            help: "Calls by client, the name of its token and outcome. Only with --metrics-principals.",
            points: [...principals].flatMap(([principal, calls]) => {
              const name = metrics.nameOf(principal)
              return outcomePoints(name === undefined ? { principal } : { principal, name }, calls)
            }),
          },
        ] as const)),
    {
      name: "svc.call.duration",
      type: "histogram",
      unit: "s",
      help: "Duration of calls by server.",
      points: [...servers].map(([server, { buckets, sum }]) => ({ labels: { server }, bounds: BOUNDS, buckets, sum })),
    },
    {
      name: "mcp.client.operation.duration",
      type: "histogram",
      unit: "s",
      help: "Duration of requests to servers by server, method, tool and kind of failure. Of many tools, those that are first called have series of their own.",
      points: sent.points(),
    },
    {
      name: "mcp.server.operation.duration",
      type: "histogram",
      unit: "s",
      help: "Duration of requests of clients by method, tool and kind of failure.",
      points: served.points(),
    },
    {
      name: "svc.calls.in_flight",
      type: "gauge",
      unit: "{request}",
      help: "Requests to servers that have no response yet.",
      points: one(gauges.inFlight),
    },
    {
      name: "svc.calls.waiting",
      type: "gauge",
      unit: "{request}",
      help: "Requests that wait for a server that is starting, waking or reconnecting.",
      points: one(waiting),
    },
  ]
}

const outcomePoints = (labels: Labels, calls: Outcomes): readonly Point[] =>
  OUTCOMES.flatMap((outcome) => (calls[outcome] > 0 ? [{ labels: { ...labels, outcome }, value: calls[outcome] }] : []))

const clientFamilies = ({ sessions, http }: Metrics, gauges: Gauges): readonly Family[] => [
  {
    name: "svc.sessions",
    type: "gauge",
    unit: "{session}",
    help: "Sessions of legacy clients.",
    points: one(gauges.sessions),
  },
  {
    name: "mcp.server.session.duration",
    type: "histogram",
    unit: "s",
    help: "Duration of the sessions of legacy clients that have ended.",
    points: sessions.points(),
  },
  {
    name: "svc.streams",
    type: "gauge",
    unit: "{stream}",
    help: "Open streams to clients.",
    points: one(gauges.streams),
  },
  {
    name: "http.server.request.duration",
    type: "histogram",
    unit: "s",
    help: "Duration of HTTP requests until their response begins, by method, route and status.",
    points: http.points(),
  },
]

function replicaFamilies({ replica }: Gauges): readonly Family[] {
  if (replica === undefined) return []
  return [
    {
      name: "svc.replica.info",
      type: "gauge",
      unit: "1",
      help: "The id of this replica.",
      points: one(1, { replica: replica.id }),
    },
    {
      name: "svc.replicas",
      type: "gauge",
      unit: "{replica}",
      help: "Replicas that this one knows, itself included.",
      points: one(replica.count),
    },
    {
      name: "svc.shared_state.connected",
      type: "gauge",
      unit: "1",
      help: "1 if the shared state can be reached.",
      points: one(replica.connected ? 1 : 0),
    },
    {
      name: "svc.servers.owned",
      type: "gauge",
      unit: "{server}",
      help: "Servers that this replica runs for all replicas.",
      points: one(replica.owned),
    },
  ]
}

function serverFamilies({ connections, wakes }: Metrics, snapshot: Snapshot, gauges: Gauges): readonly Family[] {
  const { backends } = snapshot
  const used = backends.flatMap(({ spec, state }) => {
    const usage = "pid" in state && state.pid !== undefined ? gauges.usage.get(state.pid) : undefined
    return usage === undefined ? [] : [{ labels: { server: spec.id }, ...usage }]
  })
  return [
    {
      name: "svc.server.restarts",
      type: "counter",
      unit: "{restart}",
      help: "Restarts by server.",
      points: backends.map(({ spec, restartCount }) => ({ labels: { server: spec.id }, value: restartCount })),
    },
    {
      name: "svc.server.state",
      type: "gauge",
      unit: "1",
      help: "1 for the current status of each server, 0 for every other status.",
      points: backends.flatMap(({ spec, state }) =>
        STATUSES.map((status) => ({
          labels: { server: spec.id, status },
          value: STATUS_BY_STATE[state.kind].status === status ? 1 : 0,
        })),
      ),
    },
    {
      name: "mcp.client.session.duration",
      type: "histogram",
      unit: "s",
      help: "Duration of the connections to servers that have ended.",
      points: connections.points(),
    },
    ...(gauges.usage.size === 0
      ? []
      : ([
          {
            name: "svc.server.memory",
            type: "gauge",
            unit: "By",
            help: "Resident memory of the process of each server, with the processes that it has started.",
            points: used.map(({ labels, memory }) => ({ labels, value: memory })),
          },
          {
            name: "svc.server.cpu",
            type: "counter",
            unit: "s",
            help: "Processor time of the process of each server, with the processes that it has started.",
            points: used.map(({ labels, cpu }) => ({ labels, value: cpu / 1000 })),
          },
        ] as const)),
    {
      name: "svc.servers.asleep",
      type: "gauge",
      unit: "{server}",
      help: "Servers that have no process until a call needs it.",
      points: one(backends.filter(({ state }) => state.kind === "asleep").length),
    },
    {
      name: "svc.server.wake.duration",
      type: "histogram",
      unit: "s",
      help: "How long servers that were asleep took to start for a call, by server; with error_type if that failed.",
      points: wakes.points(),
    },
    {
      name: "svc.context.characters",
      type: "gauge",
      unit: "{character}",
      help: "Characters that each server puts into the context of a client: its list of tools, and its instructions.",
      points: backends.flatMap(({ spec, offer }) =>
        Object.entries(offer?.characters ?? {}).map(([kind, value]) => ({ labels: { server: spec.id, kind }, value })),
      ),
    },
  ]
}

function resultFamilies({ results }: Gauges): readonly Family[] {
  const all = results.report()
  return [
    {
      name: "svc.result.size",
      prometheus: "svc_result_bytes",
      type: "gauge",
      unit: "By",
      help: "Sizes of the results of each tool since svc started: the median, the 99th percentile and the largest.",
      points: all.flatMap(({ server, tool, p50, p99, largest }) =>
        Object.entries({ "0.5": p50, "0.99": p99, 1: largest }).map(([quantile, value]) => ({
          labels: { server, tool, quantile },
          value,
        })),
      ),
    },
    {
      name: "svc.results.cut",
      type: "counter",
      unit: "{result}",
      help: "Results that exceeded their budget, so that clients got a part of them.",
      points: all.flatMap(({ server, tool, cut }) => (cut === 0 ? [] : one(cut, { server, tool }))),
    },
  ]
}

function serviceFamilies(metrics: Metrics, { issues }: Snapshot, { spans }: Gauges): readonly Family[] {
  const by = (name: string, values: Readonly<Record<string, number>>): readonly Point[] =>
    Object.entries(values).map(([key, value]) => ({ labels: { [name]: key }, value }))
  const counted = (severity: string) => issues.filter((issue) => issue.severity === severity).length
  return [
    {
      name: "svc.configuration.issues",
      type: "gauge",
      unit: "{issue}",
      help: "Problems of the configuration by severity. A server that is not loaded is an error.",
      points: by("severity", { error: counted("error"), warning: counted("warning") }),
    },
    {
      name: "svc.reloads",
      type: "counter",
      unit: "{reload}",
      help: "Reloads of the configuration by result.",
      points: by("result", metrics.reloads),
    },
    {
      name: "svc.relayed",
      type: "counter",
      unit: "By",
      help: "Bytes of relayed requests and responses.",
      points: by("direction", metrics.bytes),
    },
    {
      name: "svc.refused_logins",
      type: "counter",
      unit: "{request}",
      help: "Requests refused because of a missing or wrong token.",
      points: one(metrics.refusedLogins),
    },
    ...(spans === undefined
      ? []
      : ([
          {
            name: "svc.spans",
            type: "counter",
            unit: "{span}",
            help: "Spans of traces by what became of them: exported or dropped.",
            points: by("result", spans),
          },
        ] as const)),
    {
      name: "svc.rate_limited_requests",
      type: "counter",
      unit: "{request}",
      help: "Requests refused by a rate limit.",
      points: one(metrics.rateLimited),
    },
  ]
}
