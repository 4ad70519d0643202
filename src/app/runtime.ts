/**
 * Builds the parts of a running svc, each from the ones before it: logging, upstream, audit log, client sessions. Starts
 * nothing.
 */

import { systemClock } from "../lib/clock.ts"
import { version } from "../lib/version.ts"
import type { ProcessFacts } from "../report/health.ts"
import { Metrics } from "../report/metrics.ts"
import type { Cluster } from "../serve/cluster.ts"
import type { Paths } from "../store/paths.ts"
import { type AuditLog, openAuditLog } from "./audit-log.ts"
import { type ClientSessions, openClientSessions } from "./client-sessions.ts"
import { type MetricsPush, openCluster, openMetricsPush, openTraces, type Traces } from "./features.ts"
import { type Logging, openLogFile, openLogging } from "./logging.ts"
import { familiesOf } from "./metric-families.ts"
import type { ServeOptions } from "./serve-options.ts"
import { type OpenReaper, openUpstream, type Upstream } from "./upstream.ts"

export type Runtime = Logging &
  Upstream &
  AuditLog &
  ClientSessions & {
    /** Undefined if svc neither serves nor sends metrics. */
    readonly metrics: Metrics | undefined
    /** Undefined if svc records no traces. */
    readonly traces?: Traces | undefined
    /** Undefined if svc sends no metrics. */
    readonly metricsPush?: MetricsPush | undefined
    /** Undefined without `--cluster`. */
    readonly cluster: Cluster | undefined
    facts(): ProcessFacts
    /** Writes the remaining lines of the log. */
    closeLog(): Promise<void>
  }

/**
 * Builds a runtime. Without `paths`, nothing is stored on disk. Rejects with an UnavailableError if the audit log or the log
 * file cannot be written.
 */
export async function createRuntime(
  options: ServeOptions,
  paths: Paths | undefined,
  openReaper?: OpenReaper,
): Promise<Runtime> {
  const startedAt = systemClock.now()
  const logFile = options.logFile === undefined ? undefined : await openLogFile(options.logFile)
  const logging = openLogging(options, paths, logFile)
  // Before anything is started that a wrong address or protocol would leave running.
  const traces = await openTraces(options, logging)
  const metricsPush = await openMetricsPush(options, logging)
  const ofReceivers = [...(traces?.secrets ?? []), ...(metricsPush?.secrets ?? [])]
  logging.followSecrets([() => ofReceivers])
  const cluster = await openCluster(options, logging)
  const readers = [options.metrics, metricsPush !== undefined]
  const metrics = readers.includes(true) ? new Metrics() : undefined
  const upstream = await openUpstream(options, paths, logging, cluster, metrics, openReaper)
  const auditLog = await openAuditLog(options, logging)
  const clients = await openClientSessions(options, paths, logging, upstream, {
    metrics,
    audit: auditLog.audit,
    tracer: traces?.tracer,
    cluster,
  })
  const runtime = {
    ...logging,
    ...upstream,
    ...auditLog,
    ...clients,
    metrics,
    traces,
    metricsPush,
    cluster,
    facts: () => processFacts(startedAt, options.auth, cluster),
    closeLog: async () => logFile?.close(),
  }
  if (metrics !== undefined) metricsPush?.start(() => familiesOf(runtime, metrics))
  return runtime
}

// ---

function processFacts(startedAt: number, authEnabled: boolean, cluster: Cluster | undefined): ProcessFacts {
  const { heapUsed, heapTotal } = process.memoryUsage()
  const now = systemClock.now()
  return {
    now,
    version,
    uptimeSeconds: Math.round((now - startedAt) / 1000),
    heapUsed,
    heapTotal,
    pid: process.pid,
    runtime: `bun ${Bun.version}`,
    platform: process.platform,
    arch: process.arch,
    authEnabled,
    cluster: cluster?.facts(),
  }
}
