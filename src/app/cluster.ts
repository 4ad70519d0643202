/** Makes a running svc one replica of several: opens the shared state, its keys, and the messages between replicas. */
import { networkInterfaces } from "node:os"
import { type Clock, createSteadyClock, systemClock, withTimeout } from "../lib/clock.ts"
import { usageError } from "../lib/command-line.ts"
import { messageOf } from "../lib/errors.ts"
import type { Marker, Sealer } from "../lib/seal.ts"
import { version } from "../lib/version.ts"
import type { ClusterFacts } from "../report/health.ts"
import type { SharedStateProblem } from "../report/shared-state.ts"
import type { Forward } from "../serve/elsewhere.ts"
import { createForward, createPassOn } from "../serve/forward.ts"
import type { Leaving } from "../serve/mcp.ts"
import type { DocumentTexts } from "../store/documents.ts"
import { openRedisState } from "../store/redis-state.ts"
import { replicaId } from "../store/replica-id.ts"
import { type ReplicaLoad, Replicas } from "../store/replicas.ts"
import type { SharedState } from "../store/shared-state.ts"
import { createKeys } from "./cluster-keys.ts"
import { contentDigest, flagDigests, stateKeyMark, watchConfigurations } from "./configuration-drift.ts"
import type { Logging } from "./logging.ts"
import { ReplicaReach } from "./replica-reach.ts"
import type { ClusterOptions, ServeOptions } from "./serve-options.ts"

export type Cluster = {
  readonly state: SharedState
  readonly replicas: Replicas
  /** A clock that never goes back, as that of the machine may: for leases, and to detect that a replica or the state is gone. */
  readonly clock: Clock
  /** Seals text that clients send back to any replica. */
  readonly sealer: Sealer
  /** Marks ids that clients send back to any replica. */
  readonly mark: Marker
  readonly forward: Forward
  /** Calls `listener` when the shared state is back after it was away; `lost`: its content is gone. */
  onback(listener: (lost: boolean) => void): void
  /** Calls the listeners of `onback` if the shared state has lost everything. Rejects with an UnavailableError. */
  checkLoss(): Promise<void>
  /** Records the files that this replica applies, to compare them with those of other replicas. */
  configured(texts: Pick<DocumentTexts, "config" | "presets">): void
  facts(): ClusterFacts
  /** Returns why the shared state cannot be used; undefined while it can. */
  problem(): SharedStateProblem | undefined
  /** Announces this replica to the others, with its address and load. `listening` is the URL that it listens on. */
  join(listening: URL, load: () => Omit<ReplicaLoad, "draining">): void
  readonly leaving: Leaving
  /** Announces that this replica stops. It still serves the requests that it receives. */
  drain(): void
  /** Passes new work on to the other replicas from now on. Returns false if all of them stop too. */
  leave(): boolean
  /** The host and port of the shared state. */
  readonly place: string
  /** Says goodbye to the other replicas. */
  close(): Promise<void>
}

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
  const place = new URL(url).host
  const unfit = Promise.withResolvers<never>()
  const clock = createSteadyClock(systemClock, () => performance.now())
  const nowIso = () => new Date(systemClock.now()).toISOString()
  let problem: SharedStateProblem | undefined
  const state = openRedisState({
    url,
    prefix,
    clock,
    newId: () => crypto.randomUUID(),
    onproblem(reason) {
      problem = {
        // The reason may be known a moment after the loss.
        since: problem?.since ?? nowIso(),
        problem: state.refusing
          ? `the shared state at ${place} refuses writes: ${reason}; until it accepts them again, svc refuses new sessions and all other changes to it`
          : `the shared state at ${place} cannot be reached: ${reason}; until it is back, svc refuses new sessions and sessions that this replica does not know`,
      }
      log.warn(problem.problem)
    },
    onevicting: (policy) =>
      log.warn(
        `the shared state at ${place} has maxmemory-policy ${policy}, which deletes sessions and keys when its memory is full: set it to noeviction`,
      ),
    onaccepting() {
      problem = undefined
      log.info(`the shared state at ${place} accepts writes again`)
    },
    onunfit: (reason) => unfit.reject(usageError(`--cluster cannot be ${place}: ${reason}`)),
  })
  const id = replicaId(() => crypto.randomUUID())
  const replicas = new Replicas(id, state, clock)
  const keys = createKeys(state)
  let wasAway = false
  state.onstate((connected) => {
    if (connected && wasAway) log.info(`the shared state at ${place} is back`)
    wasAway = !connected
    problem = connected ? undefined : { since: nowIso(), problem: `the shared state at ${place} cannot be reached` }
  })
  // After that, an unsuitable Redis at that address is reported like an unreachable one.
  const settled = Promise.race([keys.ready, unfit.promise])
  await withTimeout(systemClock, CONNECT_MS, settled).catch((error: unknown) => {
    keys.close()
    state.close()
    throw error
  })
  const startedAt = systemClock.now()
  const drift = watchConfigurations(replicas, clock, log)
  let config = ""
  let settings = flagDigests(options)
  const add = (name: string, value: string) => {
    settings = { ...settings, [name]: value }
  }
  void stateKeyMark(process.env.SVC_STATE_KEY)
    .then((mark) => add("SVC_STATE_KEY", mark))
    .catch((error: unknown) => log.debug(`SVC_STATE_KEY is not compared with other replicas': ${messageOf(error)}`))
  let draining = false
  let passesOn = false
  // A call has a timeout of its own.
  const send = (target: string, init: RequestInit) =>
    fetch(target, { ...init, decompress: false, timeout: false } as RequestInit)
  const reach = new ReplicaReach({ replicas, mark: keys.mark, clock, log, send })
  const staying = () => replicas.living().filter((other) => !other.load.draining && reach.reaches(other.id) === true)
  return {
    state,
    replicas,
    clock,
    sealer: keys.sealer,
    mark: keys.mark,
    forward: createForward({
      replica: id,
      find: (other) => replicas.find(other),
      reaches: (other) => reach.reaches(other),
      send,
    }),
    leaving: {
      get endsConnections() {
        return draining
      },
      get passesOn() {
        return passesOn
      },
      passOn: createPassOn({ replica: id, others: staying, send }),
    },
    drain() {
      draining = true
      replicas.sendHelloNow()
    },
    leave() {
      passesOn = staying().length > 0
      return passesOn
    },
    place,
    join(listening, load) {
      const own = address ?? reachable(listening)
      log.info(`replica ${id}: the others reach it at ${own}`)
      replicas.join(() => ({
        address: own,
        version,
        config,
        settings,
        startedAt,
        load: { ...load(), draining },
        unreached: reach.unreached,
      }))
    },
    onback: keys.onback,
    checkLoss: keys.checkLoss,
    configured({ config: read, presets }) {
      config = contentDigest(read)
      add("presets.json", contentDigest(presets))
    },
    facts: () => ({
      replica: id,
      state: wordOf(state),
      replicas: replicas.all().length,
      configuration: config,
      differing: drift.differing,
      draining,
    }),
    problem: () => problem,
    async close() {
      drift.close()
      reach.close()
      keys.close()
      await withTimeout(systemClock, GOODBYE_MS, replicas.close())
      state.close()
    },
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
