/**
 * The health reports: projections of one snapshot, each with a verdict and a body. Each detail level lists the fields to
 * include, never the fields to leave out. spec: Health report, Detail levels; choice: Health.
 */

import { type BackendSnapshot, rejectedServers, type Snapshot } from "../agent/snapshot.ts"
import { type BackendState, STATUS_BY_STATE } from "../backend/supervision.ts"
import { UNRESPONSIVE, unansweredReason } from "../backend/unresponsive.ts"
import { formatIssue, type Issue } from "../lib/errors.ts"
import type { Params } from "../wire/message.ts"

export const HEALTH_LEVELS = ["full", "basic", "minimal"] as const
export type HealthLevel = (typeof HEALTH_LEVELS)[number]

/** Facts of svc's process at the moment of the report. */
export type ProcessFacts = {
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly version: string
  readonly uptimeSeconds: number
  /** Bytes. */
  readonly heapUsed: number
  readonly heapTotal: number
  readonly pid: number
  readonly runtime: string
  readonly platform: string
  readonly arch: string
  readonly authEnabled: boolean
  /** Undefined for a single svc. */
  readonly cluster?: ClusterFacts | undefined
}

/** What a replica knows of its cluster. */
export type ClusterFacts = {
  /** The id of this replica. */
  readonly replica: string
  /** `refusing`: the shared state can be reached, but accepts no changes. `away`: it cannot be reached. */
  readonly state: "connected" | "refusing" | "away"
  /** The number of live replicas, this one included. */
  readonly replicas: number
  /** A digest of this replica's mcp.json. */
  readonly configuration: string
  /** The replicas that have had another configuration for a minute. */
  readonly differing: readonly string[]
  /** Whether this replica is stopping and wants no new requests. */
  readonly draining: boolean
}

/** A projection of the snapshot: a verdict, and the fields that the reader may see. */
export type Report<Verdict extends string> = {
  readonly verdict: Verdict
  readonly body: Readonly<Record<string, unknown>>
}

export type HealthVerdict = "healthy" | "degraded" | "unhealthy"
export type ReadinessVerdict = "ready" | "not_ready"

export type ReportOptions = {
  readonly level: HealthLevel
  /** Masks secrets, paths, URLs and addresses in the text of an error. */
  redactAll(text: string): string
}

/** Returns the report of `/health`. A server that an issue keeps from running counts only in `invalidCount`. */
export function healthReport(
  snapshot: Snapshot,
  facts: ProcessFacts,
  { level, redactAll }: ReportOptions,
): Report<HealthVerdict> {
  const { backends: servers, unowned } = snapshot
  const total = servers.length + unowned.length
  const healthy = servers.filter((server) => healthOf(server, facts.now).healthy).length
  const verdict = overallHealth(snapshot.loaded, total, healthy)
  // Bun counts memory outside of the heap as used, but not in the heap's total.
  const heapTotal = Math.max(facts.heapTotal, facts.heapUsed)
  const percentage = heapTotal === 0 ? 0 : Math.round((facts.heapUsed / heapTotal) * 1000) / 10
  const body = {
    status: verdict,
    timestamp: iso(facts.now),
    version: facts.version,
    system: {
      uptime: facts.uptimeSeconds,
      memory:
        level === "minimal"
          ? { percentage }
          : { used: megabytes(facts.heapUsed), total: megabytes(heapTotal), percentage },
      ...(level === "minimal"
        ? {}
        : {
            process: {
              ...(level === "full" ? { pid: facts.pid } : {}),
              nodeVersion: facts.runtime,
              platform: facts.platform,
              ...(level === "full" ? { arch: facts.arch } : {}),
            },
          }),
    },
    servers: {
      total,
      healthy,
      unhealthy: total - healthy,
      ...(level === "minimal"
        ? {}
        : {
            details: [
              ...servers.map((server) => detail(server, facts.now, level, redactAll)),
              ...unowned.map(({ name, tags, reason }) => ({
                name,
                status: "disconnected",
                healthy: false,
                lastError: reason,
                tags,
              })),
            ],
          }),
    },
    configuration: summary(snapshot, facts),
    ...clusterSummary(facts, level),
    // If the document is broken, svc keeps the last valid plan, and only the issues show it.
    ...(level === "full" && snapshot.issues.length > 0
      ? { issues: snapshot.issues.map((issue) => redactAll(formatIssue(withoutFolder(issue)))) }
      : {}),
  }
  return { verdict, body }
}

/** Returns the body of `/health/live`. svc is alive whenever it can answer. */
export const livenessReport = (facts: Pick<ProcessFacts, "now">) =>
  ({ status: "alive", timestamp: iso(facts.now) }) as const

/** Returns the report of `/health/ready`. */
export function readinessReport(
  snapshot: Snapshot,
  facts: ProcessFacts,
  options: ReportOptions,
): Report<ReadinessVerdict> {
  const ready =
    facts.cluster?.draining !== true &&
    snapshot.loaded &&
    snapshot.isPlaced &&
    !supervisedBackends(snapshot).some(({ state }) => STATUS_BY_STATE[state.kind].holdsReady)
  const verdict = ready ? "ready" : "not_ready"
  return {
    verdict,
    body: {
      status: verdict,
      timestamp: iso(facts.now),
      configuration: summary(snapshot, facts),
      backendSupervision: supervisionSummary(snapshot, options),
      ...clusterSummary(facts, "minimal"),
    },
  }
}

/**
 * Returns the part of a report about the cluster. A replica stays ready while the shared state cannot be reached: it is the
 * same for all replicas, and requests that do not need the shared state still work.
 */
function clusterSummary({ cluster }: ProcessFacts, level: HealthLevel): Params {
  if (cluster === undefined) return {}
  const { state, replicas, replica, configuration, differing } = cluster
  return {
    cluster: {
      state,
      ...(level === "minimal" ? {} : { replicas }),
      ...(level === "full" ? { replica, configuration, differing } : {}),
    },
  }
}

/** Returns the revision, the era and the counts of a connected server; nothing for any other server. */
export const listedFacts = (listed: BackendSnapshot["listed"]) =>
  listed === undefined
    ? {}
    : {
        protocolVersion: listed.protocolVersion,
        era: listed.era,
        tools: listed.tools,
        hiddenTools: listed.hiddenTools,
        resources: listed.resources,
        prompts: listed.prompts,
      }

/** Whether a server is healthy, or why not. The reason is not redacted; it is undefined if nothing has failed yet. */
export type ServerHealth = { readonly healthy: true } | { readonly healthy: false; readonly reason: string | undefined }

/** choice: a server is healthy if it is connected, answers pings, and its transport did not fail in the last minute. */
export function healthOf(backend: BackendSnapshot, now: number): ServerHealth {
  const { state, responsive, lastTransportFailure, lastError } = backend
  if (state.kind === "starting" || state.kind === "recovering") {
    const ms = now - state.since
    const { connectionTimeout } = backend.spec.tuning
    return { healthy: false, reason: ms < SLOW_MS ? lastError : unansweredReason(ms, connectionTimeout, backend.noisy) }
  }
  if (STATUS_BY_STATE[state.kind].status !== "connected") return { healthy: false, reason: lastError }
  if (!responsive) return { healthy: false, reason: UNRESPONSIVE }
  if (lastTransportFailure !== undefined && now - lastTransportFailure.at < RECENT_MS)
    return { healthy: false, reason: lastTransportFailure.reason }
  return { healthy: true }
}

/** Judges the servers together. choice: exactly half is unhealthy. */
export function overallHealth(loaded: boolean, total: number, healthy: number): HealthVerdict {
  if (!loaded) return "unhealthy"
  if (total === 0) return "degraded"
  if (healthy === total) return "healthy"
  return healthy / total > 0.5 ? "degraded" : "unhealthy"
}

// ---

const RECENT_MS = 60_000
/** How long a start may take before its report says that there is no answer yet. */
const SLOW_MS = 10_000

/** Removes the folder from the path of an issue's file: the name is enough to find the place. */
const withoutFolder = ({ file, ...issue }: Issue): Issue =>
  file === undefined ? issue : { ...issue, file: file.replace(/^.*[\\/]/s, "") }

const iso = (time: number): string => new Date(time).toISOString()
const megabytes = (bytes: number): number => Math.round((bytes / 1024 / 1024) * 10) / 10

function summary(snapshot: Snapshot, { authEnabled }: ProcessFacts) {
  const { loaded, backends, templates, disabled, unowned } = snapshot
  // Counts the valid entries of the document: a template counts once, however many instances it has.
  const enabled = backends.filter(({ template }) => template === undefined).length + templates.length + unowned.length
  return {
    loaded,
    serverCount: loaded ? enabled + disabled.length : 0,
    enabledCount: loaded ? enabled : 0,
    disabledCount: loaded ? disabled.length : 0,
    invalidCount: loaded ? rejectedServers(snapshot).size : 0,
    authEnabled,
    transport: "http",
  }
}

function detail(server: BackendSnapshot, now: number, level: HealthLevel, redact: (text: string) => string) {
  const { spec, state, lastConnected, listed } = server
  const health = healthOf(server, now)
  // Shows the reason for the current health, even if another list or request has failed since.
  const lastError = health.healthy ? server.lastError : health.reason
  return {
    name: spec.id,
    status: STATUS_BY_STATE[state.kind].status,
    healthy: health.healthy,
    ...(server.asleep ? { asleep: true } : {}),
    ...(lastConnected === undefined ? {} : { lastConnected: iso(lastConnected) }),
    ...(lastError === undefined ? {} : { lastError: redact(lastError) }),
    // The specification's word for all three is awaiting_oauth.
    ...(state.kind === "unauthorized" ? { refusal: server.refusal } : {}),
    tags: spec.tuning.tags,
    ...(level === "full"
      ? {
          type: spec.launch.transport,
          attempt: "attempt" in state ? state.attempt : 0,
          ...listedFacts(listed),
        }
      : {}),
  }
}

/** Returns the backends that svc restarts. Readiness and the supervision summary cover only these. */
export const supervisedBackends = (snapshot: Snapshot): readonly BackendSnapshot[] =>
  snapshot.backends.filter(({ spec }) => spec.tuning.restart.kind === "supervised")

const STATE_NAMES = {
  connected: "connected",
  restarting: "restarting",
  crashLoop: "crash-loop",
  stopped: "stopped",
} as const

/** Returns the state for an entry of the supervision summary. Unlike the counts, entries have a word for a first start. */
const supervisedState = ({ kind }: BackendState): string =>
  kind === "starting" ? kind : STATE_NAMES[STATUS_BY_STATE[kind].aggregate ?? "stopped"]

/** Returns the supervision summary: counts at `minimal`, otherwise one entry for each backend. spec: Supervision summary. */
export function supervisionSummary(snapshot: Snapshot, { level, redactAll }: ReportOptions): unknown {
  const backends = supervisedBackends(snapshot)
  if (level === "minimal") {
    const counts = { total: backends.length, connected: 0, restarting: 0, crashLoop: 0, stopped: 0 }
    for (const { state } of backends) {
      const { aggregate } = STATUS_BY_STATE[state.kind]
      if (aggregate !== undefined) counts[aggregate]++
    }
    return counts
  }
  return Object.fromEntries(
    backends.map(({ spec, state, lastExit, lastError, restartCount }) => [
      spec.id,
      {
        backendId: spec.id,
        state: supervisedState(state),
        attempt: "attempt" in state ? state.attempt : 0,
        limit: spec.tuning.restart.limit,
        nextRetryAt: state.kind === "waiting" ? iso(state.retryAt) : null,
        lastExit:
          lastExit === undefined ? null : { code: lastExit.code, signal: lastExit.signal, at: iso(lastExit.at) },
        lastError: lastError === undefined ? null : redactAll(lastError),
        ...(level === "full"
          ? {
              pid: "pid" in state ? (state.pid ?? null) : null,
              startedAt: "pid" in state ? iso(state.since) : null,
              stableSince: state.kind === "connected" && state.attempt === 0 ? iso(state.since) : null,
              restartCount,
            }
          : {}),
      },
    ]),
  )
}
