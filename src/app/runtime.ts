/** The parts of a running svc, put together once. Nothing in it has started yet. */
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { Agent } from "../agent/agent.ts"
import { Instances } from "../agent/instances.ts"
import { createReaper } from "../backend/reaper.ts"
import { ChildOutputLogger } from "../backend/stderr.ts"
import { StdioLink } from "../backend/stdio.ts"
import { matchesFilter } from "../config/tag-filter.ts"
import { systemClock } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import { openJournal } from "../lib/journal.ts"
import { type Log, openLog } from "../lib/log.ts"
import { createLiveRedactor, type Redactor } from "../lib/redact.ts"
import { createMarker, createSealer } from "../lib/seal.ts"
import { version } from "../lib/version.ts"
import type { OAuth } from "../oauth/oauth.ts"
import type { ProcessFacts } from "../report/health.ts"
import { Metrics } from "../report/metrics.ts"
import { createClientContexts } from "../serve/client-context.ts"
import type { OpenStream } from "../serve/http-exchange.ts"
import type { McpDeps } from "../serve/mcp.ts"
import { CALLBACK_PATH, CLIENT_PATH } from "../serve/oauth-callback.ts"
import { createScopes, type ScopeOf } from "../serve/query-scope.ts"
import type { TrustedClientDeps } from "../serve/trusted-client.ts"
import { createAudit } from "../session/audit.ts"
import { createCallRateLimit } from "../session/call-rate-limit.ts"
import type { Audit } from "../session/client.ts"
import { createGateway } from "../session/gateway.ts"
import type { Session } from "../session/session.ts"
import { Sessions } from "../session/sessions.ts"
import { SuspendedCalls } from "../session/suspended-calls.ts"
import { createEraCache } from "../store/era-cache.ts"
import { ownName, type Paths } from "../store/paths.ts"
import { createServerLogs, type ServerLogs, withServerLogs } from "../store/server-logs.ts"
import { keepKey, openSessionStore, type SessionStore } from "../store/session-store.ts"
import { createToolPins } from "../store/tool-pins.ts"
import { createRequestIds } from "../wire/frame.ts"
import { createStderrWriter } from "./output.ts"
import type { Settings } from "./settings.ts"
import { openUpstreamOAuth } from "./upstream-oauth.ts"

export type Runtime = {
  readonly agent: Agent
  readonly oauth: OAuth
  /** Says under which address browsers reach svc. */
  reachedAt(url: string): void
  readonly sessions: Sessions
  readonly suspendedCalls: SuspendedCalls
  readonly streams: Set<OpenStream>
  readonly mcp: McpDeps
  readonly audit: Audit | undefined
  /** Writes down what is left. */
  closeAudit(): Promise<void>
  readonly scopeOf: ScopeOf
  readonly instances: Instances
  /** For clients whose context is trusted. */
  readonly trustedClient: TrustedClientDeps
  readonly metrics: Metrics | undefined
  readonly serverLogs: ServerLogs
  readonly log: Log
  redactor(): Redactor
  facts(): ProcessFacts
}

/**
 * `paths` undefined: nothing is kept on disk. `endChildren` sees to it that the system ends the children with svc, where it
 * can. Rejects with an UnavailableError where the audit log cannot be written.
 */
export async function createRuntime(
  settings: Settings,
  paths: Paths | undefined,
  endChildren: EndChildren | undefined = process.platform === "win32" ? openJobObject : undefined,
): Promise<Runtime> {
  const clock = systemClock
  const startedAt = clock.now()
  const random = () => crypto.randomUUID().replaceAll("-", "")

  // Until the agent and the tokens are there, nothing is known that must not be shown.
  const { cleaner: redactor, follow } = createLiveRedactor()
  const mask = (text: string) => redactor().maskCredentials(text)
  const stderr = openLog({
    level: settings.logLevel,
    format: settings.logFormat,
    clock,
    mask,
    write: createStderrWriter(MAX_UNREAD_LOG),
  })
  const serverLogs = createServerLogs({
    directory: paths === undefined ? undefined : join(paths.directory, "logs"),
    clock,
    onfail: (reason) => stderr.warn(reason),
  })
  const log = withServerLogs(serverLogs, stderr, mask)
  const onbug = (error: unknown) => log.error(`internal error: ${error instanceof Error ? error.stack : String(error)}`)

  const outlived = (reason: string) => log.warn(`servers may outlive svc if it is killed: ${reason}`)
  const reaper = createReaper(outlived)
  await endChildren?.(outlived)
  process.on("exit", () => reaper.close())
  let callback: string | undefined
  const oauth: OAuth = openUpstreamOAuth(paths, {
    log,
    callback: () => callback,
    metadataUrl: settings.externalUrl?.startsWith("https:") ? `${settings.externalUrl}${CLIENT_PATH}` : undefined,
    onchange: (server) => agent.authorized(server),
  })
  // What is remembered of the servers of one file is nothing to those of another.
  const memoryOf = (name: string) =>
    paths === undefined ? undefined : join(paths.directory, `${ownName(name, paths)}.json`)
  const agent: Agent = new Agent({
    clock,
    log,
    startedAt,
    ids: createRequestIds(random().slice(0, 16)),
    limit: settings.maxResult,
    version,
    eras: createEraCache(memoryOf("eras"), clock),
    pins: createToolPins(memoryOf("tools"), clock),
    credentials: (spec, launch) => oauth.credentials(spec, launch),
    // A call may be silent for as long as its own timeout says.
    fetch: (url, init) => fetch(url, { ...init, timeout: false } as RequestInit),
    openChild(launch, events, { name: server }) {
      return StdioLink.open(launch, events, {
        server,
        clock,
        limit: settings.maxResult,
        grace: STOP_GRACE_MS,
        reaper,
        output: new ChildOutputLogger(clock, log, server, mask),
      })
    },
  })
  // What the plan and the tokens hold must not be shown from that moment on.
  follow([() => agent.secrets, () => oauth.secrets])
  const instances = new Instances({
    agent,
    clock,
    log,
    linger: settings.templateLinger,
    selects: (tags) => matchesFilter(settings.filter, tags),
  })
  const trustedClient: TrustedClientDeps = { agent, instances, clock, version, wait: settings.startupWait }
  const metrics = settings.metrics ? new Metrics() : undefined
  const meter =
    metrics === undefined
      ? undefined
      : {
          now: () => performance.now(),
          record: (...call: Parameters<Metrics["record"]>) => metrics.record(...call),
          passed: (direction: "in" | "out", bytes: number) => {
            metrics.bytes[direction] += bytes
          },
        }
  const limits = { count: MAX_SESSIONS, ttl: settings.sessionTtl }
  // Only an instance that listens has sessions that are worth it.
  const memory =
    paths !== undefined && settings.persist && settings.transport === "http"
      ? remember(paths, log, startedAt - settings.sessionTtl)
      : undefined
  const contexts = settings.trustContext ? createClientContexts(trustedClient, random) : undefined
  const onend = (session: Session) => {
    agent.forget(session)
    contexts?.detach(session.scope)
  }
  const sessions = new Sessions(
    clock,
    limits,
    onend,
    memory,
    contexts === undefined ? undefined : (scope, params) => contexts.session(scope, params, params.clientInfo).scope,
  )
  const { maxInFlight, pageSize, sessionRate, auditLog, auditArguments } = settings
  const journal =
    auditLog === undefined
      ? undefined
      : await openJournal({
          path: auditLog,
          clock,
          onfail: (reason) => log.error(`the audit log has a gap: ${reason}`),
          lost: (lost) => JSON.stringify({ time: new Date(clock.now()).toISOString(), method: "svc/audit", lost }),
        })
  const audit =
    journal === undefined
      ? undefined
      : createAudit({ clock, ticks: () => performance.now(), write: journal.add, mask, withArguments: auditArguments })
  const callRate = createCallRateLimit(clock, () => {
    if (metrics !== undefined) metrics.rateLimited++
  })
  const gateway = createGateway({
    agent,
    sessions: () => sessions.all(),
    startupWaitMs: settings.startupWait,
    onchange: (session) => sessions.save(session),
    mark: createMarker(() => markKey(settings.persist ? paths : undefined, log)),
    version,
    hide: (text) => redactor().maskKnown(text),
    redact: (text) => redactor().redactAll(text),
    meter,
    maxInFlight,
    pageSize,
    sessionRate,
    callRate,
    audit,
  })
  const streams = new Set<OpenStream>()
  const sealer = createSealer(crypto.getRandomValues(new Uint8Array(32)))
  const suspendedCalls = new SuspendedCalls({ clock, sealer, newId: random, onbug })
  return {
    agent,
    oauth,
    reachedAt(url) {
      callback = `${url.replace(/\/$/, "")}${CALLBACK_PATH}`
    },
    sessions,
    suspendedCalls,
    streams,
    mcp: { gateway, sessions, suspendedCalls, newId: random, maxBody: settings.maxBody, contexts, onbug, streams },
    audit,
    closeAudit: async () => journal?.close(),
    scopeOf: createScopes(() => agent.presets),
    instances,
    trustedClient,
    metrics,
    serverLogs,
    log,
    redactor,
    facts() {
      const { heapUsed, heapTotal } = process.memoryUsage()
      const now = clock.now()
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
        authEnabled: settings.auth,
      }
    },
  }
}

// ---

/** Tells `onfail` why the children may outlive svc. */
type EndChildren = (onfail: (reason: string) => void) => Promise<void>

/** Only Windows pays for what it takes to speak to Windows. */
async function openJobObject(onfail: (reason: string) => void): Promise<void> {
  try {
    const jobObject = await import("../backend/job-object.ts")
    jobObject.createJobObject()
  } catch (error) {
    onfail(messageOf(error))
  }
}

/** The key of the marks on tasks' ids. One that cannot be kept costs the tasks their owners at the next restart. */
function markKey(paths: Paths | undefined, log: Log): Uint8Array {
  try {
    if (paths !== undefined) return keepKey(sessionsFile(paths))
  } catch (error) {
    log.warn(`tasks that clients make now will be unknown after a restart of svc: ${messageOf(error)}`)
  }
  return crypto.getRandomValues(new Uint8Array(32))
}

/** A file that cannot be opened costs the sessions their survival, not svc its start. */
function remember(paths: Paths, log: Log, before: number): SessionStore | undefined {
  try {
    return openSessionStore(sessionsFile(paths), before)
  } catch (error) {
    log.warn(`sessions will not survive a restart of svc: ${messageOf(error)}`)
    return undefined
  }
}

function sessionsFile(paths: Paths): string {
  mkdirSync(paths.directory, { recursive: true, mode: 0o700 })
  return join(paths.directory, `${ownName("sessions", paths)}.sqlite`)
}

const MAX_UNREAD_LOG = 1024 * 1024
const STOP_GRACE_MS = 2000
const MAX_SESSIONS = 10_000
