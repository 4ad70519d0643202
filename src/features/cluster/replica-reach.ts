/**
 * Probes the other replicas at the addresses that they announce, and warns the operator if one cannot be reached.
 *
 *  1. A replica is probed when it is first heard, and before the first request is forwarded to it. A request that cannot reach it
 *     is refused at once; a connection to a wrong address may hang for minutes.
 *  2. It must answer with its own id: the address may be that of the load balancer, or of this machine.
 *  3. A replica that cannot be reached for WARN_MS is reported here, and in its own log, because this one announces it
 *     (`unreached`). A dead replica is gone sooner, and one that stops is not probed.
 *  4. Requests that wait for a replica are aborted if it no longer answers probes, even if it still says hello.
 */
import type { Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { networkReason } from "../../lib/network-error.ts"
import type { Marker } from "../../lib/seal.ts"
import { probeHeaders, replicaOfProbe } from "./replica-access.ts"
import type { OtherReplica, Replicas } from "./replicas.ts"

export type ReplicaReachDeps = {
  readonly replicas: Pick<Replicas, "id" | "on" | "living" | "find" | "abortRequests">
  readonly mark: Marker
  readonly clock: Clock
  readonly log: Pick<Log, "warn">
  /** Sends a request, like fetch. */
  send(url: string, init: RequestInit): Promise<Response>
}

export class ReplicaReach {
  private readonly probes = new Map<string, ProbeState>()
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
        if (!this.probes.has(from)) this.probe(other)
        if (facts.unreached?.includes(replicas.id)) this.noteComplaint(from)
        else this.complaints.delete(from)
      }),
    ]
    this.tick()
  }

  /**
   * Returns whether a request to a replica can succeed; a promise while its first probe runs. Returns true for a replica that was
   * reached and now refuses connections: it has ended, which the request finds out at once.
   */
  reaches(id: string): boolean | Promise<boolean> {
    const state = this.probes.get(id)
    if (state === undefined || state.hasEnded) return true
    return state.isReached ?? state.first
  }

  /** The ids of the replicas that could not be reached for WARN_MS. */
  get unreached(): readonly string[] {
    return [...this.probes].flatMap(([id, { isUnreached }]) => (isUnreached ? [id] : []))
  }

  close(): void {
    this.cancel()
    for (const end of this.ends) end()
  }

  // ---

  private tick(): void {
    // First, so that a tick that fails is repeated.
    this.cancel = this.deps.clock.after(TICK_MS, () => this.tick())
    const now = this.deps.clock.now()
    const living = this.deps.replicas.living()
    for (const id of this.probes.keys()) if (!living.some((other) => other.id === id)) this.probes.delete(id)
    for (const other of living) if (now >= (this.probes.get(other.id)?.next ?? 0)) this.probe(other)
  }

  private probe(other: OtherReplica): void {
    if (other.load.draining) return
    const { clock } = this.deps
    const { promise: first, resolve } = Promise.withResolvers<boolean>()
    const state = this.probes.get(other.id) ?? {
      first,
      resolve,
      isReached: undefined,
      hasEnded: false,
      failing: 0,
      since: 0,
      next: 0,
      isUnreached: false,
      isReported: false,
    }
    this.probes.set(other.id, state)
    state.next = Number.POSITIVE_INFINITY
    void this.sendProbe(other).then((problem) => {
      state.hasEnded = problem?.isSilent === false && (state.isReached === true || state.hasEnded)
      state.isReached = problem === undefined
      state.resolve(state.isReached)
      state.next = clock.now() + (state.isReached ? AGAIN_MS : TICK_MS)
      if (problem === undefined) Object.assign(state, { failing: 0, isUnreached: false })
      else this.failed(other, state, problem)
    })
  }

  private failed(other: OtherReplica, state: ProbeState, { reason, isSilent }: Problem): void {
    const { clock, log, replicas } = this.deps
    if (state.failing++ === 0) state.since = clock.now()
    // Rule 4. After one failure, it may just be busy.
    if (isSilent && state.failing > 1) replicas.abortRequests(other.id)
    const isWanted = replicas.find(other.id)?.load.draining === false
    state.isUnreached = isWanted && clock.now() - state.since >= WARN_MS
    if (state.isReported || !state.isUnreached) return
    state.isReported = true
    log.warn(
      `replica ${other.id} cannot be reached at ${other.address}: ${reason}; requests that belong to it fail here; start it with --cluster-address and an address at which the other replicas reach it`,
    )
  }

  private noteComplaint(from: string): void {
    if (this.complaints.has(from)) return
    this.complaints.add(from)
    this.deps.log.warn(
      `replica ${from} cannot reach this one at the address that it announces: its log says why; start this one with --cluster-address and an address at which the other replicas reach it`,
    )
  }

  /** Sends a replica a request. Resolves with the problem; undefined if it answered as it must. */
  private async sendProbe({ id, address, gone }: OtherReplica): Promise<Problem | undefined> {
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
      // A replica of an earlier version does not send its id.
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
  /** Whether there was no answer, rather than a wrong one. */
  readonly isSilent: boolean
}

/** The outcome of the probes of one replica. */
type ProbeState = {
  /** Resolves with the outcome of the first probe. */
  readonly first: Promise<boolean>
  resolve(isReached: boolean): void
  isReached: boolean | undefined
  /** Whether it was reached once, and now something else answers there, or nothing listens. */
  hasEnded: boolean
  /** The number of probes in a row that have failed, and the time of the first of them. */
  failing: number
  since: number
  /** The time of the next probe. */
  next: number
  isUnreached: boolean
  /** Whether it was reported here. */
  isReported: boolean
}

const TICK_MS = 1000
const AGAIN_MS = 10_000
/** A replica on another continent answers within this. */
const PROBE_MS = 2000
/** Longer than a dead replica counts as alive. */
const WARN_MS = 6000
