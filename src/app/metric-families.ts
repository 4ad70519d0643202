/** The metrics of a running svc at this moment. */
import { readdirSync, readFileSync } from "node:fs"
import type { Snapshot } from "../agent/snapshot.ts"
import { type ProcessUsage, usageOf } from "../lib/process-usage.ts"
import type { ProcessFacts } from "../report/health.ts"
import type { Family } from "../report/metric-family.ts"
import { families, type Metrics, type OwnProcess } from "../report/metrics.ts"
import type { Cluster } from "../serve/cluster.ts"
import type { ClientSessions } from "./client-sessions.ts"
import type { Traces } from "./features.ts"
import type { Upstream } from "./upstream.ts"

type Measured = Pick<Upstream, "agent"> &
  Pick<ClientSessions, "resultSizes" | "sessions" | "streams"> & {
    readonly cluster: Cluster | undefined
    readonly traces?: Traces | undefined
    facts(): ProcessFacts
  }

export function familiesOf(runtime: Measured, metrics: Metrics): readonly Family[] {
  const { agent, cluster, facts, resultSizes, sessions, streams, traces } = runtime
  const { now, uptimeSeconds, version } = facts()
  const snapshot = agent.snapshot()
  return families(metrics, snapshot, {
    replica: cluster?.gauge(),
    streams: streams.size,
    inFlight: agent.inFlight,
    sessions: sessions.size,
    uptimeSeconds,
    own: ownProcess(Math.round(now / 1000) - uptimeSeconds),
    version,
    results: resultSizes,
    spans: traces?.report(),
    usage: cheapUsageOf(pidsOf(snapshot)),
  })
}

/** Returns what process trees use. Other systems than Linux have to run a program, which is too much for each scrape or view. */
export const cheapUsageOf = (pids: readonly number[]) => (process.platform === "linux" ? usageOf(pids) : new Map())

/** Returns what this process uses. */
export function ownUsage(): ProcessUsage {
  const { user, system } = process.cpuUsage()
  return { memory: process.memoryUsage.rss(), cpu: (user + system) / 1000 }
}

// ---

const pidsOf = ({ backends }: Snapshot): readonly number[] =>
  backends.flatMap(({ state }) => ("pid" in state ? (state.pid ?? []) : []))

function ownProcess(startedAt: number): OwnProcess {
  const { user, system } = process.cpuUsage()
  const cpu = { user: user / 1e6, system: system / 1e6 }
  return { memory: process.memoryUsage.rss(), cpu, startedAt, files: openFiles() }
}

/** Counts the files that this process has open; undefined where the system does not tell. */
function openFiles(): OwnProcess["files"] {
  if (process.platform !== "linux") return undefined
  try {
    const limit = /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1"))?.[1]
    return limit === undefined ? undefined : { open: readdirSync("/proc/self/fd").length, limit: Number(limit) }
  } catch {
    return undefined
  }
}
