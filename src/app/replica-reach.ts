/**
 * Tries whether the other replicas can be reached at the addresses that they announce, and tells the operator if not.
 *
 *  1. A replica is tried when it is first heard, and before the first request is sent on to it: what it cannot have received can
 *     be refused at once, and a connection to a wrong address may hang for minutes.
 *  2. It must answer with its own id: an address may be that of the load balancer, or of this machine.
 *  3. One that is not reached for WARN_MS is reported: here, and in its own log, because it hears of it (`unreached`). One that
 *     has died is gone before, and one that stops is not tried.
 *  4. What waits for a replica that accepts no connection any more ends, although it still says hello.
 */
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { networkReason } from "../lib/network-error.ts"
import type { Marker } from "../lib/seal.ts"
import { probeHeaders, replicaOfProbe } from "../serve/replica-access.ts"
import type { OtherReplica, Replicas } from "../store/replicas.ts"

export type ReplicaReachDeps = {
  readonly replicas: Pick<Replicas, "id" | "on" | "living" | "find" | "abortRequests">
  readonly mark: Marker
  readonly clock: Clock
  readonly log: Pick<Log, "warn">
  /** Sends a request, like fetch. */
  send(url: string, init: RequestInit): Promise<Response>
}

export class ReplicaReach {
  private readonly trials = new Map<string, Trial>()
  /** Replicas that have said that they cannot reach this one. */
  private readonly complaints = new Set<string>()
  private cancel: () => void = () => undefined
  private readonly ends: (() => void)[]

  constructor(private readonly deps: ReplicaReachDeps) {
    const { replicas } = deps
    this.ends = [
      replicas.on("hello", ({ facts }, from) => {
        const other = replicas.find(from)
        if (other === undefined) return
        if (!this.trials.has(from)) this.try(other)
        if (facts.unreached?.includes(replicas.id)) this.complained(from)
        else this.complaints.delete(from)
      }),
    ]
    this.tick()
  }

  /**
   * Returns whether it is of any use to send a replica a request; a promise if it is being tried for the first time. One that was
   * reached, and refuses connections since, has ended: that shows by itself.
   */
  reaches(id: string): boolean | Promise<boolean> {
    const trial = this.trials.get(id)
    if (trial === undefined || trial.hasEnded) return true
    return trial.isReached ?? trial.first
  }

  /** The ids of the replicas that could not be reached for WARN_MS. */
  get unreached(): readonly string[] {
    return [...this.trials].flatMap(([id, { isUnreached }]) => (isUnreached ? [id] : []))
  }

  close(): void {
    this.cancel()
    for (const end of this.ends) end()
  }

  // ---

  private tick(): void {
    const now = this.deps.clock.now()
    const living = this.deps.replicas.living()
    for (const id of this.trials.keys()) if (!living.some((other) => other.id === id)) this.trials.delete(id)
    for (const other of living) if (now >= (this.trials.get(other.id)?.next ?? 0)) this.try(other)
    this.cancel = this.deps.clock.after(TICK_MS, () => this.tick())
  }

  private try(other: OtherReplica): void {
    if (other.load.draining) return
    const { clock } = this.deps
    const { promise: first, resolve } = Promise.withResolvers<boolean>()
    const trial = this.trials.get(other.id) ?? {
      first,
      resolve,
      isReached: undefined,
      hasEnded: false,
      failing: 0,
      since: 0,
      next: 0,
      isUnreached: false,
      isTold: false,
    }
    this.trials.set(other.id, trial)
    trial.next = Number.POSITIVE_INFINITY
    void this.probe(other).then((problem) => {
      trial.hasEnded = problem?.isSilent === false && (trial.isReached === true || trial.hasEnded)
      trial.isReached = problem === undefined
      trial.resolve(trial.isReached)
      trial.next = clock.now() + (trial.isReached ? AGAIN_MS : TICK_MS)
      if (problem === undefined) Object.assign(trial, { failing: 0, isUnreached: false })
      else this.failed(other, trial, problem)
    })
  }

  private failed(other: OtherReplica, trial: Trial, { reason, isSilent }: Problem): void {
    const { clock, log, replicas } = this.deps
    if (trial.failing++ === 0) trial.since = clock.now()
    // Rule 4. The first time it may just be busy.
    if (isSilent && trial.failing > 1) replicas.abortRequests(other.id)
    const isWanted = replicas.find(other.id)?.load.draining === false
    trial.isUnreached = isWanted && clock.now() - trial.since >= WARN_MS
    if (trial.isTold || !trial.isUnreached) return
    trial.isTold = true
    log.warn(
      `replica ${other.id} cannot be reached at ${other.address}: ${reason}; requests that belong to it fail here: start it with --cluster-address and an address at which the other replicas reach it`,
    )
  }

  private complained(from: string): void {
    if (this.complaints.has(from)) return
    this.complaints.add(from)
    this.deps.log.warn(
      `replica ${from} cannot reach this one at the address that it announces: its log says why; start this one with --cluster-address and an address at which the other replicas reach it`,
    )
  }

  /** Sends a replica a request. Resolves with what is wrong with its answer; undefined if nothing is. */
  private async probe({ id, address, gone }: OtherReplica): Promise<Problem | undefined> {
    const { clock, mark, replicas, send } = this.deps
    const late = new AbortController()
    const cancel = clock.after(PROBE_MS, () => late.abort())
    try {
      const signal = AbortSignal.any([gone, late.signal])
      const init = { headers: probeHeaders(id, mark), redirect: "manual", signal } as const
      const response = await send(`${address}/health/live`, init)
      await response.body?.cancel()
      const found = replicaOfProbe(response)
      if (found === id) return undefined
      if (found === replicas.id) return { reason: "this replica answers there itself", isSilent: false }
      if (found !== undefined) return { reason: `replica ${found} answers there`, isSilent: false }
      // A replica of an earlier version does not say who it is.
      return response.ok
        ? undefined
        : { reason: `what answers there is no replica (status ${response.status})`, isSilent: false }
    } catch (cause) {
      const isSilent = late.signal.aborted
      return { reason: isSilent ? "no answer in time" : networkReason(address, cause), isSilent }
    } finally {
      cancel()
    }
  }
}

// ---

type Problem = {
  readonly reason: string
  /** Whether nothing came back, rather than something wrong. */
  readonly isSilent: boolean
}

/** What is known of the way to a replica. */
type Trial = {
  /** Resolves with the outcome of the first probe. */
  readonly first: Promise<boolean>
  resolve(isReached: boolean): void
  isReached: boolean | undefined
  /** Whether it was reached, and something else answered since, or nothing listened. */
  hasEnded: boolean
  /** How many probes in a row have failed, and since when. */
  failing: number
  since: number
  /** When it is tried next. */
  next: number
  isUnreached: boolean
  /** Whether it was reported here. */
  isTold: boolean
}

const TICK_MS = 1000
const AGAIN_MS = 10_000
/** A replica on another continent answers within this. */
const PROBE_MS = 2000
/** Longer than a replica that has died counts as alive. */
const WARN_MS = 6000
