/**
 * Decides which replica of a cluster runs the servers with `"replicas": "one"`. A server has a lease in the shared state. The
 * replica that holds it, the owner, runs the server as configured. To the others it is a remote server at the owner's address.
 *
 *  1. The owner renews its lease each BEAT_MS. If it cannot for SAFE_MS, it stops the server. The lease runs out TTL_MS after the
 *     last renewal, and by then the process has ended or is killed (`graceFor`), before another replica starts its own: also a
 *     process that was being stopped already, for another reason. Only an owner that is itself suspended, with its process,
 *     notices later: at the latest when it is to use the server.
 *  2. The others look at the lease each BEAT_MS, when it runs out, and when its owner says that it has changed hands. So it
 *     passes on TTL_MS after the last renewal, and at once if the owner gives it away.
 *  3. A request from another replica carries the fencing token of the lease that it saw, marked with the key of the cluster. The
 *     owner refuses other tokens: a replica that is behind must not reach a server that was started since.
 *  4. An owner that stops says so before: new calls wait for the next owner wherever they arrive. Those that run end where they
 *     began, with all that their clients still send for them. Then each server passes on by itself, whatever else runs here.
 *  5. Without an owner a server keeps the form that it had; at the start, and after this replica has lost it, it does not run.
 */
import { type IdleServer, type Plan, REPLICA_HEADER, type ServerSpec } from "../config/server-spec.ts"
import { type Clock, delay, withTimeout } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { isSameMark, type Marker } from "../lib/seal.ts"
import type { Replica, Replicas } from "../store/replicas.ts"
import type { Lease, SharedState } from "../store/shared-state.ts"

export type ServerLeasesDeps = {
  readonly state: Pick<SharedState, "lease" | "connected" | "onstate">
  readonly replicas: Pick<Replicas, "id" | "send" | "on"> & { find(id: string): Pick<Replica, "address"> | undefined }
  readonly mark: Marker
  readonly clock: Clock
  readonly log: Log
  /** Resolves when no call runs on a server here. */
  whenDrained(id: string): Promise<void>
  /** Resolves when no process of a server runs here any more. */
  whenStopped(id: string): Promise<void>
  /** Called when a server has another form than before: the plan must be placed and applied again. */
  onchange(): void
}

export class ServerLeases {
  private readonly servers = new Map<string, Server>()
  /** Servers that are wanted here no more, until their processes have ended. */
  private readonly releasing = new Set<Server>()
  private readonly ends: (() => void)[]
  /** Whether this replica stops, and takes no lease any more. */
  private isDraining = false

  constructor(private readonly deps: ServerLeasesDeps) {
    const { state, replicas } = deps
    this.ends = [
      replicas.on("lease", ({ server, leaving, ms = DEFAULT_GRACE_MS }, from) => {
        const found = this.servers.get(server)
        if (leaving === undefined) this.acquireNow(found)
        else if (found !== undefined) this.awaitNext(found, { from, token: leaving, ms })
      }),
      state.onstate(() => {
        for (const server of this.servers.values()) this.acquireNow(server)
        // What a call of a server without an owner is told depends on it.
        if ([...this.servers.values()].some(isUnowned)) deps.onchange()
      }),
    ]
  }

  /** Returns a plan as this replica runs it. Servers that it names for the first time get their owner a moment later. */
  place(plan: Plan): Plan {
    const single = plan.specs.filter(({ id, name, tuning }) => tuning.replicas === "one" && id === name)
    const wanted = new Set(single.map(({ id }) => id))
    for (const [id, server] of this.servers) {
      if (wanted.has(id)) continue
      this.servers.delete(id)
      void this.release(server)
    }
    for (const { id, slug } of single) {
      const known = this.servers.get(id)
      if (known === undefined) this.follow(id, slug)
      else known.slug = slug
    }
    if (single.length === 0) return plan
    const specs: ServerSpec[] = []
    const idle: IdleServer[] = []
    const idleSecrets: string[] = []
    const handedOver = new Set<string>()
    for (const spec of plan.specs) {
      const server = this.servers.get(spec.id)
      if (server?.wasHandedOver) handedOver.add(spec.id)
      if (server === undefined || (this.holds(server) && !server.hasLeft)) specs.push(spec)
      else if (server.at === undefined) {
        idle.push(this.unowned(spec))
        // A process that is being stopped may still print them.
        idleSecrets.push(...spec.secrets)
      } else {
        const { url, credential } = server.at
        const launch = {
          transport: "http",
          url,
          headers: { [REPLICA_HEADER]: credential },
          oauth: undefined,
          mode: "2026-07-28",
        } as const
        const restart = { ...spec.tuning.restart, kind: "reconnect", delay: RECONNECT_MS } as const
        const secrets = [...spec.secrets, credential]
        specs.push({ ...spec, launch, secrets, tuning: { ...spec.tuning, isolation: "shared", restart } })
      }
    }
    return {
      ...plan,
      specs,
      idle: [...plan.idle, ...idle],
      idleSecrets: [...plan.idleSecrets, ...idleSecrets],
      handedOver,
    }
  }

  /**
   * Returns whether a credential is that of a replica that may use the server under this slug, and the server runs here. Calls
   * that begin go to the next owner if this one stops.
   */
  admits(slug: string, credential: string, begins = false): boolean {
    const server = [...this.servers.values()].find((one) => one.slug === slug)
    if (server?.lease === undefined || !this.holds(server)) return false
    if (begins && server.leavingUntil !== undefined && server.next !== undefined) return false
    return isSameMark(credential, this.credentialFor(server.id, server.lease.token))
  }

  /**
   * Returns whether this replica may run a server. Stops one whose lease has run out while this process was suspended, before
   * it is used again.
   */
  check(id: string): boolean {
    const server = this.servers.get(id)
    if (server === undefined) return true
    this.expire(server)
    return this.holds(server)
  }

  /**
   * Returns the milliseconds after which no process of a server may run here, unless the lease is renewed before; undefined if
   * this replica has no lease of it, and has lost none.
   */
  graceFor(id: string): number | undefined {
    const ends = [this.servers.get(id), ...this.releasing].flatMap((server) =>
      server?.id === id && server.endBy !== undefined ? [server.endBy] : [],
    )
    return ends.length === 0 ? undefined : Math.max(0, Math.min(...ends) - this.deps.clock.now())
  }

  /** Returns the servers with their owner, this replica included; undefined while there is none. */
  owners(): readonly { readonly server: string; readonly replica: string | undefined }[] {
    return [...this.servers.values()].map((server) => ({
      server: server.id,
      replica: this.holds(server) ? this.deps.replicas.id : server.at?.replica,
    }))
  }

  /** Whether calls of a server that have not begun wait for its next owner, because the present one stops. */
  isHandingOver(id: string): boolean {
    const next = this.servers.get(id)?.next
    return next !== undefined && this.deps.clock.now() < next.until && next.waiting < MAX_WAITING
  }

  /** Resolves when the next owner of a server is known, or is not to be waited for. */
  async whenHandedOver(id: string): Promise<void> {
    const next = this.servers.get(id)?.next
    if (next === undefined || !this.isHandingOver(id)) return
    next.waiting++
    const ms = next.until - this.deps.clock.now()
    await withTimeout(this.deps.clock, ms, next.promise).finally(() => next.waiting--)
  }

  /** Takes no lease any more, and keeps those that it has. */
  drain(): void {
    this.isDraining = true
  }

  /**
   * Passes the servers that run here on to other replicas, each when its calls have ended, for which they have `ms`
   * milliseconds. Resolves when the calls have arrived that were on the way before the others heard of it.
   */
  async leave(ms: number): Promise<void> {
    const held = [...this.servers.values()].filter(({ lease }) => lease !== undefined)
    if (held.length === 0) return
    for (const server of held) {
      server.leavingUntil = this.deps.clock.now() + ms
      this.announceLeaving(server)
    }
    await delay(this.deps.clock, ANNOUNCE_MS)
    for (const server of held) void this.handOver(server, ms)
  }

  /** Gives all leases to whoever wants them. Call it when the servers have stopped. */
  async close(): Promise<void> {
    this.drain()
    for (const end of this.ends.splice(0)) end()
    const all = [...this.servers.values()]
    this.servers.clear()
    await Promise.all(all.map((server) => this.release(server)))
  }

  // ---

  /** Whether this replica may run a server. */
  private holds({ lease, until }: Server): boolean {
    return lease !== undefined && this.deps.clock.now() < until
  }

  private unowned({ name, slug, tuning: { tags } }: ServerSpec): IdleServer {
    return this.deps.state.connected
      ? { name, slug, tags, state: "starting", reason: NO_OWNER }
      : { name, slug, tags, state: "no owner", reason: NO_STATE }
  }

  private credentialFor(id: string, token: number): string {
    return `${token}.${this.deps.mark("replica", id, String(token))}`
  }

  /** Starts to look for the owner of a server. */
  private follow(id: string, slug: string): void {
    const server: Server = {
      id,
      slug,
      lease: undefined,
      until: 0,
      endBy: undefined,
      at: undefined,
      seen: 0,
      left: 0,
      leavingUntil: undefined,
      hasLeft: false,
      next: undefined,
      wasHandedOver: false,
      isBusy: false,
      cancel: () => undefined,
    }
    this.servers.set(id, server)
    this.beat(server)
  }

  private beat(server: Server): void {
    this.expire(server)
    // A replica that stops must not take the lease, which a look does. It hears who has taken it.
    this.beatAfter(server, isUnowned(server) && !this.isDraining ? FIRST_BEAT_MS : BEAT_MS)
    this.announceLeaving(server)
    // The next beat notices a server that cannot be renewed: Redis may not answer.
    if (server.isBusy) return
    server.isBusy = true
    void (server.lease === undefined ? this.acquire(server) : this.renew(server, server.lease))
      // The state is away: the next beat tries again.
      .catch(() => undefined)
      .finally(() => {
        server.isBusy = false
      })
  }

  private beatAfter(server: Server, ms: number): void {
    server.cancel()
    server.cancel = this.deps.clock.after(ms, () => this.beat(server))
  }

  /** Looks whether a server that does not run here has another owner. */
  private acquireNow(server: Server | undefined): void {
    if (server === undefined || server.lease !== undefined) return
    // A look that is under way may have seen the state before.
    server.isBusy = false
    this.beat(server)
  }

  /** Tells the others that this owner stops: again and again, because some may not have heard it, or come later. */
  private announceLeaving({ id, lease, leavingUntil }: Server): void {
    if (lease === undefined || leavingUntil === undefined) return
    const ms = Math.max(0, leavingUntil - this.deps.clock.now())
    this.deps.replicas.send({ kind: "lease", server: id, leaving: lease.token, ms })
  }

  /** Sends an owner that stops no further calls. */
  private awaitNext(
    server: Server,
    owner: { readonly from: string; readonly token: number; readonly ms: number },
  ): void {
    server.left = Math.max(server.left, owner.token)
    if (server.at?.replica === owner.from) this.expectNext(server, owner.ms)
  }

  /** Lets new calls wait for the next owner. `ms`: how long those that run may take. */
  private expectNext(server: Server, ms: number): void {
    const until = this.deps.clock.now() + ms + HANDOVER_MS
    server.next ??= { ...Promise.withResolvers<void>(), until, waiting: 0 }
    server.next.until = until
  }

  /** Notes that a server has another owner than before, or none that anybody waits for. */
  private ownerChanged(server: Server): void {
    const { next } = server
    server.next = undefined
    server.wasHandedOver = next !== undefined && this.deps.clock.now() < next.until
    this.deps.onchange()
    next?.resolve()
  }

  /** Passes one server on: ends it when its calls have ended, and gives its lease away. */
  private async handOver(server: Server, ms: number): Promise<void> {
    const { clock, log, whenDrained, whenStopped, replicas, onchange } = this.deps
    this.expectNext(server, ms)
    log.info("passes to another replica when its running calls have ended", { server: server.id })
    // What was admitted a moment ago has not reached the server yet.
    await delay(clock, ARRIVE_MS)
    await whenDrained(server.id)
    server.hasLeft = true
    onchange()
    await whenStopped(server.id)
    const { lease } = server
    server.lease = undefined
    if (lease === undefined) return
    // The next look would take the lease again before another replica can.
    if (this.servers.get(server.id) === server) this.beatAfter(server, BEAT_MS)
    await lease.release().catch(() => undefined)
    replicas.send({ kind: "lease", server: server.id })
  }

  /** Rule 1. */
  private expire(server: Server): void {
    if (server.lease === undefined || this.holds(server)) return
    server.lease = undefined
    server.endBy = server.until + (TTL_MS - SAFE_MS)
    this.deps.log.warn("stops on this replica: its lease could not be renewed", { server: server.id })
    server.wasHandedOver = false
    this.deps.onchange()
  }

  private async renew(server: Server, lease: Lease): Promise<void> {
    const from = this.deps.clock.now()
    const isHeld = await lease.renew()
    if (server.lease !== lease) return
    server.until = isHeld ? from + SAFE_MS : 0
    this.expire(server)
  }

  private async acquire(server: Server): Promise<void> {
    const { state, replicas, clock, log } = this.deps
    const from = clock.now()
    const found = await state.lease(server.id, replicas.id, TTL_MS, server.seen)
    if (found.kind === "own") {
      if (this.isDraining || server.lease !== undefined || this.servers.get(server.id) !== server)
        return found.release()
      const { token } = found
      Object.assign(server, { lease: found, until: from + SAFE_MS, endBy: undefined, at: undefined, seen: token })
      this.beatAfter(server, BEAT_MS)
      log.info("runs on this replica, for all", { server: server.id })
      replicas.send({ kind: "lease", server: server.id })
      return this.ownerChanged(server)
    }
    const { holder, token, remaining } = found
    if (server.lease !== undefined || token < server.seen || this.servers.get(server.id) !== server) return
    server.seen = token
    if (remaining < BEAT_MS) this.beatAfter(server, remaining + 1)
    const address = replicas.find(holder)?.address
    if (address === undefined || token <= server.left) return
    const at = {
      replica: holder,
      url: `${address}/servers/${encodeURIComponent(server.slug)}/mcp`,
      credential: this.credentialFor(server.id, token),
    }
    if (server.at?.url === at.url && server.at.credential === at.credential) return
    server.at = at
    log.info(`runs on replica ${holder}`, { server: server.id })
    this.ownerChanged(server)
  }

  /** Gives the lease of a server away that is wanted here no more, after its process has ended. Until then it is renewed. */
  private async release(server: Server): Promise<void> {
    this.releasing.add(server)
    // The plan without the server is applied first.
    await Promise.resolve()
    await this.deps.whenStopped(server.id)
    this.releasing.delete(server)
    const { lease } = server
    server.lease = undefined
    server.cancel()
    if (lease === undefined) return
    await lease.release().catch(() => undefined)
    this.deps.replicas.send({ kind: "lease", server: server.id })
  }
}

// ---

type Server = {
  readonly id: string
  slug: string
  /** Set if this replica is the owner. */
  lease: Lease | undefined
  /** Until when the owner may run the server without a further renewal. */
  until: number
  /** Set if this replica has lost the lease: when another may start the server. */
  endBy: number | undefined
  /** Where another replica offers it. */
  at: { readonly replica: string; readonly url: string; readonly credential: string } | undefined
  /** The largest token that was seen. */
  seen: number
  /** The token of the last owner that has said that it stops. */
  left: number
  /** Set if this replica is the owner and stops: until when the calls that run may take. */
  leavingUntil: number | undefined
  /** Whether this replica stops, and its calls of the server have ended. */
  hasLeft: boolean
  /** Set while its owner stops: resolves when the next one is known, for which nobody waits after `until`. */
  next: NextOwner | undefined
  /** Whether the owner before the present one has passed it on: what it still answers is the answer to a call of its time. */
  wasHandedOver: boolean
  /** Whether a look or a renewal is under way. */
  isBusy: boolean
  /** Cancels the next beat. */
  cancel(): void
}

type NextOwner = {
  readonly promise: Promise<void>
  resolve(): void
  until: number
  /** Calls that wait. */
  waiting: number
}

/** Whether it is not known where a server runs. */
const isUnowned = ({ lease, at }: Server): boolean => lease === undefined && at === undefined

const BEAT_MS = 500
/** Until this replica has found the owner of a server. */
const FIRST_BEAT_MS = 100
const SAFE_MS = 2000
const TTL_MS = 3500
/** Longer than a message takes to the other replicas, and their calls back. */
const ANNOUNCE_MS = 200
/** Longer than a request that was admitted takes to be read and sent to the server. */
const ARRIVE_MS = 50
/** How long an owner that stops, and says no more of it, lets its calls run. */
const DEFAULT_GRACE_MS = 10_000
/** Longer than it takes to end the process of a server, and the next owner to take it. */
const HANDOVER_MS = 6000
/** Calls that may wait for one server's next owner at once. */
const MAX_WAITING = 1000
const RECONNECT_MS = 200
const NO_OWNER = "runs on one replica at a time, and none runs it at the moment; try again in a moment"
const NO_STATE =
  "runs on one replica at a time, and the shared state that says which cannot be reached; try again in a moment"
