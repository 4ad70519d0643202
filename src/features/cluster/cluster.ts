/** Makes a running svc one replica of several: opens the shared state, its keys, and the messages between replicas. */
import { networkInterfaces } from "node:os"
import type { Agent } from "../../agent/agent.ts"
import type { CallRateLimit } from "../../call/call-rate-limit.ts"
import type { Gateway } from "../../call/ports.ts"
import type { ServerSpec } from "../../config/server-spec.ts"
import { type Clock, createSteadyClock, systemClock, withTimeout } from "../../lib/clock.ts"
import { usageError } from "../../lib/command-line.ts"
import { messageOf } from "../../lib/errors.ts"
import type { Log } from "../../lib/log.ts"
import type { Marker, Sealer } from "../../lib/seal.ts"
import { version } from "../../lib/version.ts"
import type { ClusterFacts } from "../../report/health.ts"
import type { Gauges } from "../../report/metrics.ts"
import type { SharedStateProblem } from "../../report/shared-state.ts"
import type {
  Cluster,
  ClusterOptions,
  ClusterSessions,
  ClusterTokens,
  LeavingParts,
  LeavingTimes,
} from "../../serve/cluster.ts"
import type { Forward } from "../../serve/elsewhere.ts"
import type { Leaving, SessionHomes } from "../../serve/mcp.ts"
import type { ServerDeps } from "../../serve/server.ts"
import type { Session } from "../../session/session.ts"
import type { Sessions } from "../../session/sessions.ts"
import type { DocumentTexts } from "../../store/documents.ts"
import { replicaId } from "../../store/replica-id.ts"
import { type SecretStore, stateKeyIn } from "../../store/secret-store.ts"
import { hashOfSession } from "../../store/session-store.ts"
import type { OwnToolPins, ToolPins } from "../../store/tool-pins.ts"
import { ClusterKeys } from "./cluster-keys.ts"
import { type ClusterReport, clusterReport } from "./cluster-report.ts"
import { openClusterTokens } from "./cluster-tokens.ts"
import {
  type ConfigurationDrift,
  contentDigest,
  flagDigests,
  stateKeyMark,
  watchConfigurations,
} from "./configuration-drift.ts"
import { createForward, createPassOn } from "./forward.ts"
import { leaveCluster } from "./leave-cluster.ts"
import { openRedisState } from "./redis-state.ts"
import { createReplicaAccess } from "./replica-access.ts"
import { ReplicaClients } from "./replica-clients.ts"
import { ReplicaReach } from "./replica-reach.ts"
import { type OtherReplica, type ReplicaLoad, Replicas } from "./replicas.ts"
import { ServerChanges } from "./server-changes.ts"
import { ServerLeases } from "./server-leases.ts"
import { SessionReplicas } from "./session-replicas.ts"
import { createSharedPins } from "./shared-pins.ts"
import { createSharedRateLimit } from "./shared-rate-limit.ts"
import { createSharedSecrets } from "./shared-secrets.ts"
import { createSharedSessions } from "./shared-sessions.ts"
import type { SharedState } from "./shared-state.ts"

/** The log, and where its redactor learns secrets. */
type ClusterLog = { readonly log: Log; followSecrets(sources: readonly (() => readonly string[])[]): void }

/**
 * Connects to the shared state. `flags`: those that all replicas must share, with their values. Waits for it only for a moment: svc starts without it, and serves requests that do not need it.
 * Rejects with a RequestError (usage) if the server at that address cannot be used.
 */
export async function openCluster(
  { url, prefix, address }: ClusterOptions,
  flags: Readonly<Record<string, unknown>>,
  { log, followSecrets }: ClusterLog,
): Promise<Cluster> {
  const secrets = [decodeURIComponent(new URL(url).password)].filter((password) => password !== "")
  followSecrets([() => secrets])
  const clock = createSteadyClock(systemClock, () => performance.now())
  const watched = new WatchedState(url, prefix, clock, log)
  const replicas = new Replicas(
    replicaId(() => crypto.randomUUID()),
    watched.state,
    clock,
  )
  const keys = new ClusterKeys(watched.state)
  // After that, an unsuitable Redis at that address is reported like an unreachable one.
  const settled = Promise.race([keys.ready, watched.unfit.promise])
  await withTimeout(systemClock, CONNECT_MS, settled).catch((error: unknown) => {
    keys.close()
    watched.state.close()
    throw error
  })
  return new ClusterReplica(watched, keys, replicas, clock, log, flags, address)
}

class ClusterReplica implements Cluster {
  readonly state: SharedState
  readonly place: string
  readonly sealer: Sealer
  readonly mark: Marker
  readonly forward: Forward
  readonly leaving: { -readonly [K in keyof Leaving]: Leaving[K] }
  leases: ServerLeases | undefined
  /** Returns the ids of the servers that this replica runs for all, and that are asleep. */
  private asleep: () => readonly string[] = () => []
  private readonly clients: ReplicaClients
  private readonly reach: ReplicaReach
  private readonly drift: ConfigurationDrift
  private readonly startedAt = systemClock.now()
  /** A digest of the configuration that this replica applies, and those of the settings that all should share. */
  private config = ""
  private settings: Readonly<Record<string, string>>

  constructor(
    private readonly watched: WatchedState,
    private readonly keys: ClusterKeys,
    readonly replicas: Replicas,
    /** A clock that never goes back, unlike that of the machine: for leases, and to detect that a replica or the state is gone. */
    readonly clock: Clock,
    private readonly log: Log,
    flags: Readonly<Record<string, unknown>>,
    /** The URL at which the others reach this replica, if it is configured. */
    private readonly address: string | undefined,
  ) {
    this.state = watched.state
    this.place = watched.place
    this.sealer = keys.sealer
    this.mark = keys.mark
    const { id } = replicas
    const clients = new ReplicaClients({ clock: systemClock, env: process.env }, () =>
      replicas.living().map(({ address: place }) => place),
    )
    this.clients = clients
    const { send, probe } = clients
    const reach = new ReplicaReach({ replicas, mark: this.mark, clock, log, send: probe })
    this.reach = reach
    this.drift = watchConfigurations(replicas, clock, log)
    this.settings = flagDigests(flags)
    void stateKeyMark(process.env.SVC_STATE_KEY)
      .then((mark) => this.addSetting("SVC_STATE_KEY", mark))
      .catch((error: unknown) => log.debug(`SVC_STATE_KEY is not compared with other replicas': ${messageOf(error)}`))
    this.forward = createForward({
      replica: id,
      find: (other) => replicas.find(other),
      reaches: (other) => reach.reaches(other),
      send,
    })
    this.leaving = {
      endsConnections: false,
      passesOn: false,
      passOn: createPassOn({ replica: id, others: () => this.staying(), send }),
    }
  }

  secrets(): SecretStore {
    return createSharedSecrets({
      state: this.state,
      replica: this.replicas.id,
      stateKey: stateKeyIn(process.env),
      clock: systemClock,
      onunsealed: () =>
        this.log.warn(
          "anyone who can read Redis can read the tokens of remote servers; set SVC_STATE_KEY to the same secret on all replicas",
        ),
    })
  }

  async openPins(own: OwnToolPins, onpinned: Agent["pinnedElsewhere"]): Promise<ToolPins> {
    const { state, replicas } = this
    const pins = createSharedPins({ own, state, tell: () => replicas.send({ kind: "pins" }), onpinned })
    replicas.on("pins", () => void pins.sync())
    await withTimeout(systemClock, SYNC_MS, pins.sync())
    return pins
  }

  openLeases(agent: Agent, onchange: () => void): ServerLeases {
    const { state, replicas, mark, clock, log } = this
    const whenDrained = (id: string) => agent.whenDrained(id)
    const whenStopped = (id: string) => agent.whenStopped(id)
    const leases = new ServerLeases({ state, replicas, mark, clock, log, whenDrained, whenStopped, onchange })
    this.leases = leases
    this.asleep = () =>
      agent
        .all()
        .flatMap(({ spec, state }) => (spec.tuning.replicas === "one" && state.kind === "asleep" ? [spec.id] : []))
    replicas.on("hello", () => {
      const isAsleep = (server: string, replica = "") => replicas.find(replica)?.asleep?.includes(server) === true
      const asleep = leases.owners().filter(({ server, replica }) => isAsleep(server, replica))
      agent.noteAsleepElsewhere(new Set(asleep.map(({ server }) => server)))
    })
    return leases
  }

  openSessions(agent: Agent, ttl: number): ClusterSessions {
    const { state, replicas, log, checkLoss } = this
    let here: { readonly sessions: Sessions; readonly gateway: Gateway } | undefined
    const connected = () => {
      if (here === undefined) throw new Error("the sessions of this replica are not connected yet")
      return here
    }
    const store = createSharedSessions({
      state,
      ttl,
      most: MAX_SHARED_SESSIONS,
      checkLoss,
      onchange: (id, fields) =>
        replicas.sendUntilHeard({ kind: "session.changed", session: hashOfSession(id), ...(fields && { fields }) }),
      onended: (id) => connected().sessions.remove(id, "was ended"),
    })
    return {
      store,
      replicas: new SessionReplicas({
        replicas,
        clock: systemClock,
        sessions: () => connected().sessions,
        gateway: () => connected().gateway,
      }),
      changes: new ServerChanges({
        replicas,
        state,
        agent,
        clock: systemClock,
        onfull: () =>
          log.warn(
            "clients of this replica have more subscriptions than replicas exchange: for the rest, they are notified only of updates from server processes of this replica",
          ),
      }),
      connect: (sessions, gateway) => {
        here = { sessions, gateway }
        this.keys.onback((lost) => void sessions.recheck(gateway, lost).catch(() => undefined))
        return this.homes(agent, sessions, gateway)
      },
    }
  }

  openTokens(onchange: () => void): ClusterTokens {
    return openClusterTokens(this.state, this.replicas, this.log, onchange)
  }

  rateLimit(own: CallRateLimit, onrefuse: () => void): CallRateLimit {
    return createSharedRateLimit(this.state, own, onrefuse)
  }

  readonly count: Cluster["count"] = (key, ms) => this.state.count(key, ms)

  admission(): ServerDeps["admitReplica"] {
    return this.leases && createReplicaAccess({ leases: this.leases, replica: this.replicas.id, mark: this.mark })
  }

  /** Checks the sessions again if the shared state has lost everything. Rejects with an UnavailableError. */
  readonly checkLoss = (): Promise<void> => this.keys.checkLoss()

  configured({ config, presets }: Pick<DocumentTexts, "config" | "presets">): void {
    this.config = contentDigest(config)
    this.addSetting("presets.json", contentDigest(presets))
  }

  readonly listTasks: Cluster["listTasks"] = async (request, ask) => {
    const { listTasksOfAll } = await import("./task-lists.ts")
    return listTasksOfAll(request, { replicas: this.replicas.all().map(({ id }) => id), ask })
  }

  facts(): ClusterFacts {
    return {
      replica: this.replicas.id,
      state: wordOf(this.state),
      replicas: this.replicas.all().length,
      configuration: this.config,
      differing: this.drift.differing,
      draining: this.leaving.endsConnections,
    }
  }

  gauge(): NonNullable<Gauges["replica"]> {
    const { id } = this.replicas
    return {
      id,
      connected: this.state.connected,
      count: this.replicas.all().length,
      owned: this.leases?.owners().filter(({ replica }) => replica === id).length ?? 0,
    }
  }

  report(): ClusterReport {
    return clusterReport({
      state: { address: this.place, connected: this.state.connected, ...this.problem() },
      replicas: this.replicas.all(),
      owners: this.leases?.owners() ?? [],
      now: systemClock.now(),
    })
  }

  problem(): SharedStateProblem | undefined {
    return this.watched.problem
  }

  join(listening: URL, load: () => Omit<ReplicaLoad, "draining">): void {
    const address = this.address ?? reachable(listening)
    this.log.info(`replica ${this.replicas.id}: the others reach it at ${address}`)
    this.replicas.join(() => ({
      address,
      version,
      config: this.config,
      settings: this.settings,
      startedAt: this.startedAt,
      load: { ...load(), draining: this.leaving.endsConnections },
      unreached: this.reach.unreached,
      asleep: this.asleep(),
      acknowledges: true,
    }))
  }

  leave(parts: LeavingParts, times: LeavingTimes): Promise<void> {
    const steps = {
      drain: () => {
        this.leaving.endsConnections = true
        this.replicas.sendHelloNow()
      },
      leave: () => {
        this.leaving.passesOn = this.staying().length > 0
        return this.leaving.passesOn
      },
    }
    return leaveCluster({ ...parts, leases: this.leases }, steps, times, systemClock)
  }

  async close(): Promise<void> {
    await this.leases?.close()
    this.drift.close()
    this.reach.close()
    this.keys.close()
    await withTimeout(systemClock, GOODBYE_MS, this.replicas.close())
    this.clients.close()
    this.state.close()
  }

  // ---

  private addSetting(name: string, value: string): void {
    this.settings = { ...this.settings, [name]: value }
  }

  /**
   * Returns the homes of sessions, the replicas with their own processes. Only sessions that see a server with `isolation:
   * "session"` have one.
   */
  private homes(agent: Agent, sessions: Sessions, gateway: Gateway): SessionHomes {
    const { id } = this.replicas
    const isIsolated = ({ scope }: Session, { id: server, tuning }: ServerSpec): boolean =>
      tuning.isolation === "session" && (scope.kind === "server" ? scope.id === server : scope.selects(tuning.tags))
    const homeOf = (session: Session) =>
      session.home !== id && agent.all().some(({ spec }) => isIsolated(session, spec)) ? session.home : undefined
    return {
      of: homeOf,
      async adopt(session) {
        if (!(await sessions.adopt(session, id, gateway))) return homeOf(session)
        const lost = agent.all().filter(({ spec }) => isIsolated(session, spec))
        agent.dedicated.noteLost(
          lost.map(({ spec }) => spec.id),
          session,
        )
        return undefined
      },
    }
  }

  /** Returns the other replicas that serve new work. */
  private staying(): readonly OtherReplica[] {
    return this.replicas.living().filter((other) => !other.load.draining && this.reach.reaches(other.id) === true)
  }
}

/** The shared state, and why it cannot be used, which the log says too. */
class WatchedState {
  readonly state: SharedState
  /** The host and port of the state. */
  readonly place: string
  /** Rejects if what runs there cannot be used. */
  readonly unfit = Promise.withResolvers<never>()
  problem: SharedStateProblem | undefined
  private wasAway = false

  constructor(url: string, prefix: string, clock: Clock, log: Log) {
    const place = new URL(url).host
    this.place = place
    this.state = openRedisState({
      url,
      prefix,
      clock,
      newId: () => crypto.randomUUID(),
      onproblem: (reason) => {
        this.problem = {
          // The reason may be known a moment after the loss.
          since: this.problem?.since ?? nowIso(),
          problem: this.state.refusing
            ? `the shared state at ${place} refuses writes: ${reason}; until it accepts them again, svc refuses new sessions and all other changes to it`
            : `the shared state at ${place} cannot be reached: ${reason}; until it is back, svc refuses new sessions and sessions that this replica does not know`,
        }
        log.warn(this.problem.problem)
      },
      onevicting: (policy) =>
        log.warn(
          `the shared state at ${place} has maxmemory-policy ${policy}, which deletes sessions and keys when its memory is full: set it to noeviction`,
        ),
      onaccepting: () => {
        this.problem = undefined
        log.info(`the shared state at ${place} accepts writes again`)
      },
      onunfit: (reason) => this.unfit.reject(usageError(`--cluster cannot be ${place}: ${reason}`)),
    })
    this.state.onstate((connected) => {
      if (connected && this.wasAway) log.info(`the shared state at ${place} is back`)
      this.wasAway = !connected
      this.problem = connected
        ? undefined
        : { since: nowIso(), problem: `the shared state at ${place} cannot be reached` }
    })
  }
}

// ---

/** Longer than a running Redis takes, shorter than a user waits for a start. */
const CONNECT_MS = 3000
const GOODBYE_MS = 500
/** How long a start waits for the pins of other replicas. */
const SYNC_MS = 1000
/** The most sessions of a principal on all replicas: five times as many as one replica holds at once. */
const MAX_SHARED_SESSIONS = 50_000

function wordOf({ connected, refusing }: SharedState): ClusterFacts["state"] {
  if (!connected) return "away"
  return refusing ? "refusing" : "connected"
}

/** Returns the address at which other machines reach a listener. */
function reachable(listening: URL): string {
  const url = new URL(listening)
  if (url.hostname === "0.0.0.0" || url.hostname === "[::]") {
    const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? [])
    url.hostname = all.find(({ family, internal }) => family === "IPv4" && !internal)?.address ?? "127.0.0.1"
  }
  return url.origin
}

const nowIso = (): string => new Date(systemClock.now()).toISOString()
