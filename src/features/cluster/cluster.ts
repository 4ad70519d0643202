/** Makes a running svc one replica of several: opens the shared state, its keys, and the messages between replicas. */
import { networkInterfaces } from "node:os"
import type { Logging } from "../../app/logging.ts"
import type { ClusterOptions, ServeOptions } from "../../app/serve-options.ts"
import { type Clock, createSteadyClock, systemClock, withTimeout } from "../../lib/clock.ts"
import { usageError } from "../../lib/command-line.ts"
import { messageOf } from "../../lib/errors.ts"
import type { Log } from "../../lib/log.ts"
import type { Marker, Sealer } from "../../lib/seal.ts"
import { version } from "../../lib/version.ts"
import type { ClusterFacts } from "../../report/health.ts"
import type { SharedStateProblem } from "../../report/shared-state.ts"
import type { Forward } from "../../serve/elsewhere.ts"
import type { Leaving } from "../../serve/mcp.ts"
import type { DocumentTexts } from "../../store/documents.ts"
import { replicaId } from "../../store/replica-id.ts"
import { ClusterKeys } from "./cluster-keys.ts"
import {
  type ConfigurationDrift,
  contentDigest,
  flagDigests,
  stateKeyMark,
  watchConfigurations,
} from "./configuration-drift.ts"
import { createForward, createPassOn } from "./forward.ts"
import { openRedisState } from "./redis-state.ts"
import { ReplicaReach } from "./replica-reach.ts"
import { type OtherReplica, type ReplicaLoad, Replicas } from "./replicas.ts"
import type { SharedState } from "./shared-state.ts"

/**
 * Connects to the shared state. Waits for it only for a moment: svc starts without it, and serves requests that do not need it.
 * Rejects with a RequestError (usage) if the server at that address cannot be used.
 */
export async function openCluster(
  options: ServeOptions,
  { url, prefix, address }: ClusterOptions,
  { log, followSecrets }: Pick<Logging, "log" | "followSecrets">,
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
  return new Cluster(watched, keys, replicas, clock, log, options, address)
}

/** This replica of a cluster. */
export class Cluster {
  readonly state: SharedState
  /** The host and port of the shared state. */
  readonly place: string
  /** Seals text that clients send back to any replica. */
  readonly sealer: Sealer
  /** Marks ids that clients send back to any replica. */
  readonly mark: Marker
  readonly forward: Forward
  readonly leaving: { -readonly [K in keyof Leaving]: Leaving[K] }
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
    /** A clock that never goes back, as that of the machine may: for leases, and to detect that a replica or the state is gone. */
    readonly clock: Clock,
    private readonly log: Log,
    options: ServeOptions,
    /** The URL at which the others reach this replica, if it is configured. */
    private readonly address: string | undefined,
  ) {
    this.state = watched.state
    this.place = watched.place
    this.sealer = keys.sealer
    this.mark = keys.mark
    const { id } = replicas
    const reach = new ReplicaReach({ replicas, mark: this.mark, clock, log, send })
    this.reach = reach
    this.drift = watchConfigurations(replicas, clock, log)
    this.settings = flagDigests(options)
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

  /** Calls `listener` when the shared state is back after it was away; `lost`: its content is gone. */
  onback(listener: (lost: boolean) => void): void {
    this.keys.onback(listener)
  }

  /** Calls the listeners of `onback` if the shared state has lost everything. Rejects with an UnavailableError. */
  readonly checkLoss = (): Promise<void> => this.keys.checkLoss()

  /** Records the files that this replica applies, to compare them with those of other replicas. */
  configured({ config, presets }: Pick<DocumentTexts, "config" | "presets">): void {
    this.config = contentDigest(config)
    this.addSetting("presets.json", contentDigest(presets))
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

  /** Returns why the shared state cannot be used; undefined while it can. */
  problem(): SharedStateProblem | undefined {
    return this.watched.problem
  }

  /** Announces this replica to the others, with its address and load. `listening` is the URL that it listens on. */
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
    }))
  }

  /** Announces that this replica stops. It still serves the requests that it receives. */
  drain(): void {
    this.leaving.endsConnections = true
    this.replicas.sendHelloNow()
  }

  /** Passes new work on to the other replicas from now on. Returns false if all of them stop too. */
  leave(): boolean {
    this.leaving.passesOn = this.staying().length > 0
    return this.leaving.passesOn
  }

  /** Says goodbye to the other replicas. */
  async close(): Promise<void> {
    this.drift.close()
    this.reach.close()
    this.keys.close()
    await withTimeout(systemClock, GOODBYE_MS, this.replicas.close())
    this.state.close()
  }

  // ---

  private addSetting(name: string, value: string): void {
    this.settings = { ...this.settings, [name]: value }
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

// A call has a timeout of its own.
const send = (target: string, init: RequestInit): Promise<Response> =>
  fetch(target, { ...init, decompress: false, timeout: false } as RequestInit)
