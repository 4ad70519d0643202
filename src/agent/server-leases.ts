/**
 * Decides which replica of a cluster runs the servers with `"replicas": "one"`. A server has a lease in the shared state. The
 * replica that holds it, the owner, runs the server as configured. To the others it is a remote server at the owner's address.
 *
 *  1. The owner renews its lease every BEAT_MS. If renewal fails for SAFE_MS, it stops the server. The lease expires TTL_MS after
 *     the last renewal. By then the process has ended or is killed (`graceFor`), even if it was already being stopped for another
 *     reason, so another replica can start its own. Only an owner that was suspended together with its process notices later: at
 *     the latest before it uses the server again.
 *  2. The others check the lease every BEAT_MS, when it expires, and when its owner announces that it has changed hands. So the
 *     server moves TTL_MS after the last renewal, and at once if the owner releases the lease.
 *  3. A request from another replica carries the fencing token of the lease that it saw, marked with the key of the cluster. The
 *     owner refuses other tokens: a replica with old information must not reach a server that was started later.
 *  4. An owner that stops announces it first: new calls wait for the next owner wherever they arrive. Running calls end where they
 *     began, and receive everything that their clients send for them. Then each server is handed over by itself, whatever else
 *     runs here. Calls that run for too long fail: they must not keep the new ones waiting.
 *  5. A server that loses its owner stays as it was on the other replicas. At the start, and after this replica has lost the
 *     lease, it does not run.
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
  /** Resolves when no process of a server runs here. */
  whenStopped(id: string): Promise<void>
  /** Called when the owner of a server has changed: the plan must be placed and applied again. */
  onchange(): void
}

export class ServerLeases {
  private readonly servers = new Map<string, Server>()
  /** Servers that the plan no longer has, until their processes have ended. */
  private readonly releasing = new Set<Server>()
  private readonly ends: (() => void)[]
  /** Whether this replica stops, and takes no more leases. */
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
        // The error of a call to a server without an owner depends on it.
        if ([...this.servers.values()].some(isUnowned)) deps.onchange()
      }),
    ]
  }

  /** Returns a plan as this replica runs it. Servers that are new in it get their owner a moment later. */
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
        // A process that is being stopped may still print its secrets.
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
   * Returns whether the server with this slug runs here, and the credential allows a replica to use it. `begins`: the request
   * begins a call, which goes to the next owner if this one stops.
   */
  admits(slug: string, credential: string, begins = false): boolean {
    const server = [...this.servers.values()].find((one) => one.slug === slug)
    if (server?.lease === undefined || !this.holds(server)) return false
    if (begins && server.leavingUntil !== undefined && server.next !== undefined) return false
    return isSameMark(credential, this.credentialFor(server.id, server.lease.token))
  }

  /**
   * Returns whether this replica may run a server. Stops a server whose lease expired while this process was suspended, before
   * it is used again.
   */
  check(id: string): boolean {
    const server = this.servers.get(id)
    if (server === undefined) return true
    this.expire(server)
    return this.holds(server)
  }

  /**
   * Returns the milliseconds after which no process of a server may run here, unless the lease is renewed first; undefined if
   * this replica does not have its lease and has not lost it.
   */
  graceFor(id: string): number | undefined {
    const ends = [this.servers.get(id), ...this.releasing].flatMap((server) =>
      server?.id === id && server.endBy !== undefined ? [server.endBy] : [],
    )
    return ends.length === 0 ? undefined : Math.max(0, Math.min(...ends) - this.deps.clock.now())
  }

  /** Returns each server with its owner, which may be this replica; `replica` is undefined while it has none. */
  owners(): readonly { readonly server: string; readonly replica: string | undefined }[] {
    return [...this.servers.values()].map((server) => ({
      server: server.id,
      replica: this.holds(server) ? this.deps.replicas.id : server.at?.replica,
    }))
  }

  /** Whether new calls to a server wait for its next owner, because the present one stops. */
  isHandingOver(id: string): boolean {
    const next = this.servers.get(id)?.next
    return next !== undefined && this.deps.clock.now() < next.until && next.waiting < MAX_WAITING
  }

  /** Resolves when the next owner of a server is known, or when calls should no longer wait for it. */
  async whenHandedOver(id: string): Promise<void> {
    const next = this.servers.get(id)?.next
    if (next === undefined || !this.isHandingOver(id)) return
    next.waiting++
    const ms = next.until - this.deps.clock.now()
    await withTimeout(this.deps.clock, ms, next.promise).finally(() => next.waiting--)
  }

  /** Takes no more leases, and keeps those that it has. */
  drain(): void {
    this.isDraining = true
  }

  /**
   * Hands the servers that run here over to other replicas, each when its calls have ended. Calls that still run after `ms`
   * milliseconds fail. Resolves when the calls that the others sent before they heard of it have arrived.
   */
  async leave(ms: number): Promise<void> {
    const held = [...this.servers.values()].filter(({ lease }) => lease !== undefined)
    if (held.length === 0) return
    const by = this.deps.clock.now() + ms
    for (const server of held) {
      server.leavingUntil = by
      this.announceLeaving(server)
    }
    await delay(this.deps.clock, ANNOUNCE_MS)
    for (const server of held) void this.handOver(server, by)
  }

  /** Releases all leases. Call it when the servers have stopped. */
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

  /** Starts to follow the lease of a server. */
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
    // `acquire` takes a free lease, which a replica that stops must not do. It hears which replica has taken it.
    this.beatAfter(server, isUnowned(server) && !this.isDraining ? FIRST_BEAT_MS : BEAT_MS)
    this.announceLeaving(server)
    // If Redis does not answer, the next beat notices that the lease was not renewed.
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

  /** Checks at once which replica owns a server that does not run here. */
  private acquireNow(server: Server | undefined): void {
    if (server === undefined || server.lease !== undefined) return
    // A check that is under way may have read the old state.
    server.isBusy = false
    this.beat(server)
  }

  /** Tells the others that this owner stops. Called at each beat: some may have missed it, or have just started. */
  private announceLeaving({ id, lease, leavingUntil }: Server): void {
    if (lease === undefined || leavingUntil === undefined) return
    const ms = Math.max(0, leavingUntil - this.deps.clock.now())
    this.deps.replicas.send({ kind: "lease", server: id, leaving: lease.token, ms })
  }

  /** Makes new calls wait for the next owner: the present one stops. */
  private awaitNext(
    server: Server,
    owner: { readonly from: string; readonly token: number; readonly ms: number },
  ): void {
    server.left = Math.max(server.left, owner.token)
    if (server.at?.replica === owner.from) this.expectNext(server, owner.ms)
  }

  /** Makes new calls wait for the next owner. `ms`: how long running calls may take. */
  private expectNext(server: Server, ms: number): void {
    const until = this.deps.clock.now() + ms + HANDOVER_MS
    server.next ??= { ...Promise.withResolvers<void>(), until, waiting: 0 }
    server.next.until = until
  }

  /** Ends the wait for the next owner, and reports that the owner has changed. */
  private ownerChanged(server: Server): void {
    const { next } = server
    server.next = undefined
    server.wasHandedOver = next !== undefined && this.deps.clock.now() < next.until
    this.deps.onchange()
    next?.resolve()
  }

  /** Hands one server over: stops it when its calls have ended, or at `by`, and releases its lease. */
  private async handOver(server: Server, by: number): Promise<void> {
    const { clock, log, whenDrained, whenStopped, replicas, onchange } = this.deps
    this.expectNext(server, by - clock.now())
    log.info("moves to another replica when its running calls have ended", { server: server.id })
    // Requests that were admitted a moment ago have not reached the server yet.
    await delay(clock, ARRIVE_MS)
    await withTimeout(clock, Math.max(0, by - clock.now()), whenDrained(server.id))
    server.hasLeft = true
    onchange()
    await whenStopped(server.id)
    const { lease } = server
    server.lease = undefined
    if (lease === undefined) return
    // The next beat would take the lease again before another replica can.
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
      log.info("runs on this replica, for all replicas", { server: server.id })
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

  /** Releases the lease of a server after its process has ended. Until then the lease is renewed. */
  private async release(server: Server): Promise<void> {
    this.releasing.add(server)
    // First the plan without the server is applied.
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
  /** The time until which the owner may run the server without another renewal. */
  until: number
  /** Set if this replica has lost the lease: the time from which another replica may start the server. */
  endBy: number | undefined
  /** The address at which its owner, another replica, offers it. */
  at: { readonly replica: string; readonly url: string; readonly credential: string } | undefined
  /** The largest token that was seen. */
  seen: number
  /** The token of the last owner that announced that it stops. */
  left: number
  /** Set if this replica is the owner and stops: the time until which its running calls may take. */
  leavingUntil: number | undefined
  /** Whether this replica stops, and its calls to the server have ended. */
  hasLeft: boolean
  /** Set while its owner stops: resolves when the next owner is known. Calls wait for it until `until`. */
  next: NextOwner | undefined
  /** Whether the previous owner handed it over: that owner may still finish the calls that it accepted. */
  wasHandedOver: boolean
  /** Whether a check or a renewal is under way. */
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

/** Whether the owner of a server is unknown. */
const isUnowned = ({ lease, at }: Server): boolean => lease === undefined && at === undefined

const BEAT_MS = 500
/** The interval until this replica has found the owner of a server. */
const FIRST_BEAT_MS = 100
const SAFE_MS = 2000
const TTL_MS = 3500
/** Longer than a message takes to reach the other replicas, and their last calls take to arrive. */
const ANNOUNCE_MS = 200
/** Longer than a request that was admitted takes to be read and sent to the server. */
const ARRIVE_MS = 50
/** How long an owner that stops lets its calls run, if it does not say. */
const DEFAULT_GRACE_MS = 10_000
/** Longer than it takes to end the process of a server, and to take the lease on the next owner. */
const HANDOVER_MS = 6000
/** Calls that may wait for one server's next owner at once. */
const MAX_WAITING = 1000
const RECONNECT_MS = 200
const NO_OWNER = "runs on one replica at a time, and currently on none; try again in a moment"
const NO_STATE =
  "runs on one replica at a time, and svc cannot reach the shared state that says on which; try again in a moment"
