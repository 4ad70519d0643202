/**
 * Builds the parts of a running svc, each from the ones before it: logging, upstream, audit log, client sessions. Starts
 * nothing.
 */

import { systemClock } from "../lib/clock.ts"
import { version } from "../lib/version.ts"
import type { ProcessFacts } from "../report/health.ts"
import { Metrics } from "../report/metrics.ts"
import type { Paths } from "../store/paths.ts"
import { type AuditLog, openAuditLog } from "./audit-log.ts"
import { type ClientSessions, openClientSessions } from "./client-sessions.ts"
import { type Cluster, openCluster, openTraces, type Traces } from "./features.ts"
import { type Logging, openLogFile, openLogging } from "./logging.ts"
import type { ServeOptions } from "./serve-options.ts"
import { type OpenReaper, openUpstream, type Upstream } from "./upstream.ts"

export type Runtime = Logging &
  Upstream &
  AuditLog &
  ClientSessions & {
    /** Undefined without `--metrics`. */
    readonly metrics: Metrics | undefined
    /** Undefined if svc records no traces. */
    readonly traces: Traces | undefined
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
  if (traces !== undefined) logging.followSecrets([() => traces.secrets])
  const cluster = await openCluster(options, logging)
  const upstream = await openUpstream(options, paths, logging, cluster, openReaper)
  const auditLog = await openAuditLog(options, logging)
  const metrics = options.metrics ? new Metrics() : undefined
  const clients = await openClientSessions(options, paths, logging, upstream, {
    metrics,
    audit: auditLog.audit,
    tracer: traces?.tracer,
    cluster,
  })
  return {
    ...logging,
    ...upstream,
    ...auditLog,
    ...clients,
    metrics,
    traces,
    cluster,
    facts: () => processFacts(startedAt, options.auth, cluster),
    closeLog: async () => logFile?.close(),
  }
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
