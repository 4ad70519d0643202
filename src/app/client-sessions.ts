/** The downstream side of a running svc: sessions of clients, calls suspended for client input, and the gateway to the agent. */
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { createCallRateLimit } from "../call/call-rate-limit.ts"
import type { Audit, FinishedCall, Observers, Tracer } from "../call/ports.ts"
import { systemClock } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import { createMarker, createSealer } from "../lib/seal.ts"
import { version } from "../lib/version.ts"
import type { Metrics } from "../report/metrics.ts"
import type { Cluster } from "../serve/cluster.ts"
import { type OpenStream, SilentRequests } from "../serve/http-exchange.ts"
import type { McpDeps } from "../serve/mcp.ts"
import { createScopes, type ScopeOf } from "../serve/query-scope.ts"
import type { TrustedClientDeps } from "../serve/trusted-client.ts"
import { createGateway } from "../session/gateway.ts"
import { Sessions } from "../session/sessions.ts"
import { SuspendedCalls } from "../session/suspended-calls.ts"
import { ownName, type Paths } from "../store/paths.ts"
import { keepKey, openSessionStore, type SessionStore } from "../store/session-store.ts"
import { type OwnFeatures, openOwnFeatures } from "./features.ts"
import type { Logging } from "./logging.ts"
import type { ServeOptions } from "./serve-options.ts"
import type { Upstream } from "./upstream.ts"

export type ClientSessions = {
  readonly sessions: Sessions
  readonly suspendedCalls: SuspendedCalls
  readonly streams: Set<OpenStream>
  readonly mcp: McpDeps
  readonly scopeOf: ScopeOf
  /** Calls `onfinished` after each tool call, until the returned function is called. Nothing is measured without a watcher. */
  watchCalls(onfinished: (call: FinishedCall) => void): () => void
  /** What clients need if templates may use their context. */
  readonly trustedClient: TrustedClientDeps
} & Omit<OwnFeatures, "ownTools" | "stages">

type ClientSessionsDeps = {
  readonly metrics: Metrics | undefined
  readonly audit: Audit | undefined
  readonly tracer?: Tracer | undefined
  readonly cluster: Cluster | undefined
}

/** The most sessions at once. */
export const MAX_SESSIONS = 10_000

/** Builds the downstream side. Without `paths`, sessions and the owners of tasks are lost when svc ends. */
export async function openClientSessions(
  options: ServeOptions,
  paths: Paths | undefined,
  { log, redactor, onbug }: Logging,
  { agent, instances }: Upstream,
  { metrics, audit, tracer, cluster }: ClientSessionsDeps,
): Promise<ClientSessions> {
  const {
    maxInFlight,
    pagination: pageSize,
    sessionRateLimit: sessionRate,
    sessionTtl,
    startupWait,
    persist,
    transport,
  } = options
  const trustedClient: TrustedClientDeps = {
    agent,
    instances,
    clock: systemClock,
    version,
    wait: startupWait,
    tools: options.tools,
  }
  const contexts =
    options.templateContext === "trusted"
      ? (await import("../serve/client-context.ts")).createClientContexts(trustedClient, newId)
      : undefined
  // A client on stdio ends with svc, so its session needs no store. The start opens it after it listens: that takes 3 ms.
  const ownStore =
    paths !== undefined && persist && transport === "http" ? storeOpener(paths, log, sessionTtl) : () => undefined
  const shared = cluster?.openSessions(agent, sessionTtl)
  const sessions = new Sessions(
    systemClock,
    { count: MAX_SESSIONS, ttl: sessionTtl },
    (session, goesOn) => {
      agent.forget(session)
      contexts?.detach(session.scope)
      if (!goesOn)
        metrics?.sessions.record([session.protocolVersion, "http"], (systemClock.now() - session.since) / 1000)
    },
    shared === undefined ? ownStore : () => shared.store,
    contexts === undefined ? undefined : (scope, params) => contexts.session(scope, params, params.clientInfo).scope,
  )
  const onrefuse = () => {
    if (metrics !== undefined) metrics.rateLimited++
  }
  const ownRate = createCallRateLimit(systemClock, onrefuse)
  const callRate = cluster?.rateLimit(ownRate, onrefuse) ?? ownRate
  const now = () => performance.now()
  const measured =
    metrics === undefined
      ? tracer
      : (await import("../session/measured-requests.ts")).measureRequests({ metrics, now, traces: tracer })
  const observers = new CallObservers(metrics, options.metricsPrincipals, audit, measured, onbug)
  const replica = cluster?.facts().replica
  const { ownTools, stages, ...features } = openOwnFeatures(options, paths, { agent, log, replica })
  const gateway = createGateway({
    agent,
    clock: systemClock,
    sessions: () => sessions.all(),
    startupWaitMs: startupWait,
    leases: cluster?.leases,
    mark: cluster?.mark ?? createMarker(() => markKey(persist ? paths : undefined, log)),
    replicas: shared?.replicas,
    changes: shared?.changes,
    version,
    hide: (text) => redactor().maskKnown(text),
    redact: (text) => redactor().redactAll(text),
    ownTools,
    stages,
    limits: { maxInFlight, pageSize, instructions: options.instructionsBudget, sessionRate, callRate },
    observers,
  })
  const streams = new Set<OpenStream>()
  const sealer = cluster?.sealer ?? createSealer(crypto.getRandomValues(new Uint8Array(32)))
  const suspendedCalls = new SuspendedCalls({ clock: systemClock, sealer, replica, newId, onbug })
  return {
    sessions,
    suspendedCalls,
    streams,
    mcp: {
      gateway,
      sessions,
      suspendedCalls,
      newId,
      maxBody: options.maxBody,
      onlyLocal: options.loopback && options.externalUrl === undefined && options.allowedHosts.length === 0,
      contexts,
      onbug,
      streams,
      silent: new SilentRequests(systemClock),
      forward: cluster?.forward,
      leaving: cluster?.leaving,
      listTasks: cluster?.listTasks,
      homes: shared?.connect(sessions, gateway),
    },
    scopeOf: createScopes(() => agent.presets),
    watchCalls: observers.watch,
    trustedClient,
    ...features,
  }
}

// ---

/** Returns an unguessable id: besides the client's token it is the only credential of a session. */
const newId = (): string => crypto.randomUUID().replaceAll("-", "")

/** Measures calls for the metrics and for watchers; without either, nothing is measured. */
class CallObservers implements Observers {
  private readonly watchers = new Set<(call: FinishedCall) => void>()
  private readonly measuring: NonNullable<Observers["meter"]>

  constructor(
    private readonly metrics: Metrics | undefined,
    byPrincipal: boolean,
    readonly audit: Audit | undefined,
    readonly tracer: Tracer | undefined,
    readonly onbug: Observers["onbug"],
  ) {
    const { watchers } = this
    this.measuring = {
      now: () => performance.now(),
      record(finished) {
        const { server, tool, outcome, seconds, call } = finished
        metrics?.record(server, tool, outcome, seconds)
        if (byPrincipal) metrics?.recordPrincipal(call.client.principal, outcome)
        for (const watcher of watchers) watcher(finished)
      },
      waits(change) {
        if (metrics !== undefined) metrics.waiting += change
      },
      passed(direction, bytes) {
        if (metrics !== undefined) metrics.bytes[direction] += bytes
      },
    }
  }

  get meter(): Observers["meter"] {
    return this.metrics === undefined && this.watchers.size === 0 ? undefined : this.measuring
  }

  readonly watch: ClientSessions["watchCalls"] = (onfinished) => {
    this.watchers.add(onfinished)
    return () => void this.watchers.delete(onfinished)
  }
}

/** Returns the key that authenticates the owners of tasks; a new one, with a warning, if it cannot be stored. */
function markKey(paths: Paths | undefined, log: Log): Uint8Array {
  try {
    if (paths !== undefined) return keepKey(sessionsFile(paths))
  } catch (error) {
    log.warn(`tasks will not survive a restart of svc: ${messageOf(error)}`)
  }
  return crypto.getRandomValues(new Uint8Array(32))
}

/** After a failed attempt to open the store of sessions, the next one waits so long. */
const REOPEN_MS = 60_000

/** Returns a function that opens the store of sessions once, and tries again later if it cannot be opened. Logs what fails. */
function storeOpener(paths: Paths, log: Log, ttl: number): () => SessionStore | undefined {
  let store: SessionStore | undefined
  let problem: string | undefined
  let next = 0
  const report = (found: string | undefined) => {
    if (found === undefined && problem !== undefined) log.info("sessions are stored again")
    if (found !== undefined && problem === undefined)
      log.warn(`sessions are not stored now, so a restart of svc would end them: ${found}`)
    problem = found
  }
  return () => {
    const now = systemClock.now()
    if (store !== undefined || now < next) return store
    next = now + REOPEN_MS
    try {
      store = openSessionStore(sessionsFile(paths), now - ttl, report)
      report(undefined)
    } catch (error) {
      report(messageOf(error))
    }
    return store
  }
}

function sessionsFile(paths: Paths): string {
  mkdirSync(paths.directory, { recursive: true, mode: 0o700 })
  return join(paths.directory, `${ownName("sessions", paths)}.sqlite`)
}
