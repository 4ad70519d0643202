/**
 * Runs the servers with `"replicas": "one"` on one replica of a cluster. A server has a lease in the shared state. The replica that
 * holds it, the owner, runs the server as configured. To the others it is a remote server at the owner's address. What happens to
 * a lease is decided in server-lease.ts; this file asks the shared state, waits, and tells the others.
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
 *  5. The owner keeps the lease of a server that is asleep: the first call finds it where the last one left it.
 *  6. A server that loses its owner stays as it was on the other replicas. At the start, and after this replica has lost the
 *     lease, it does not run.
 */
import { type IdleServer, type Plan, REPLICA_HEADER, type ServerSpec } from "../../config/server-spec.ts"
import { type Clock, delay, withTimeout } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { isSameMark, type Marker } from "../../lib/seal.ts"
import type { Replica, Replicas } from "./replicas.ts"
import {
  endOf,
  INITIAL_LEASE,
  isHeld,
  isUnowned,
  type LeaseEffect,
  type LeaseEvent,
  type LeaseState,
  runsHere,
  step,
  TTL_MS,
} from "./server-lease.ts"
import type { SharedState } from "./shared-state.ts"

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
        if (found === undefined) return
        if (leaving === undefined) this.dispatch(found, { kind: "news" })
        else this.dispatch(found, { kind: "ownerLeaves", replica: from, token: leaving, ms })
      }),
      state.onstate(() => {
        for (const server of this.servers.values()) this.dispatch(server, { kind: "news" })
        // The error of a call to a server without an owner depends on it.
        if ([...this.servers.values()].some((server) => isUnowned(server.state))) deps.onchange()
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
      const owned = server?.state.owned
      if (server?.state.wasHandedOver) handedOver.add(spec.id)
      if (server === undefined || runsHere(server.state, this.deps.clock.now())) specs.push(spec)
      else if (owned?.kind !== "elsewhere") {
        idle.push(this.unowned(spec))
        // A process that is being stopped may still print its secrets.
        idleSecrets.push(...spec.secrets)
      } else {
        const { url, credential } = owned.owner
        const launch = {
          transport: "http",
          url,
          headers: { [REPLICA_HEADER]: credential },
          oauth: undefined,
          mode: "2026-07-28",
        } as const
        const restart = { ...spec.tuning.restart, kind: "reconnect", delay: RECONNECT_MS } as const
        const secrets = [...spec.secrets, credential]
        // The process sleeps where it runs.
        const { lazy: _lazy, sleepAfter: _after, ...tuning } = spec.tuning
        specs.push({ ...spec, launch, secrets, tuning: { ...tuning, isolation: "shared", restart } })
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
    if (server === undefined || !this.holds(server)) return false
    const { owned } = server.state
    if (owned.kind !== "here" || (begins && owned.leaving !== undefined && owned.leaving.phase !== "announced"))
      return false
    return isSameMark(credential, this.credentialFor(server.id, owned.lease.token))
  }

  /**
   * Returns whether this replica may run a server. Stops a server whose lease expired while this process was suspended, before
   * it is used again.
   */
  check(id: string): boolean {
    const server = this.servers.get(id)
    if (server === undefined || this.holds(server)) return true
    this.dispatch(server, { kind: "look" })
    return false
  }

  /**
   * Returns the milliseconds after which no process of a server may run here, unless the lease is renewed first; undefined if
   * this replica does not have its lease and has not lost it.
   */
  graceFor(id: string): number | undefined {
    const ends = [this.servers.get(id), ...this.releasing].flatMap((server) =>
      server?.id === id ? (endOf(server.state) ?? []) : [],
    )
    return ends.length === 0 ? undefined : Math.max(0, Math.min(...ends) - this.deps.clock.now())
  }

  /** Returns each server with its owner, which may be this replica; `replica` is undefined while it has none. */
  owners(): readonly { readonly server: string; readonly replica: string | undefined }[] {
    return [...this.servers.values()].map((server) => {
      return { server: server.id, replica: this.holds(server) ? this.deps.replicas.id : runnerIn(server) }
    })
  }

  /** Returns the other replica that runs a server; undefined if there is none. */
  runnerOf(id: string): string | undefined {
    const server = this.servers.get(id)
    return server && runnerIn(server)
  }

  /** Whether new calls to a server wait for its next owner, because the present one stops. */
  isHandingOver(id: string): boolean {
    const server = this.servers.get(id)
    const by = server?.state.nextBy
    return by !== undefined && this.deps.clock.now() < by && (server?.next?.waiting ?? 0) < MAX_WAITING
  }

  /** Resolves when the next owner of a server is known, or when calls should no longer wait for it. */
  async whenHandedOver(id: string): Promise<void> {
    const server = this.servers.get(id)
    if (server?.state.nextBy === undefined || !this.isHandingOver(id)) return
    const ms = server.state.nextBy - this.deps.clock.now()
    server.next ??= { ...Promise.withResolvers<void>(), waiting: 0 }
    const { next } = server
    next.waiting++
    await withTimeout(this.deps.clock, ms, next.promise).finally(() => next.waiting--)
  }

  /** Takes no more leases, and keeps those that it has. */
  drain(): void {
    this.isDraining = true
    for (const server of this.servers.values()) this.dispatch(server, { kind: "drain" })
  }

  /**
   * Hands the servers that run here over to other replicas, each when its calls have ended. Calls that still run after `ms`
   * milliseconds fail. Resolves when the calls that the others sent before they heard of it have arrived.
   */
  async leave(ms: number): Promise<void> {
    const held = [...this.servers.values()].filter(({ state }) => state.owned.kind === "here")
    if (held.length === 0) return
    const by = this.deps.clock.now() + ms
    for (const server of held) this.dispatch(server, { kind: "leave", by })
    await delay(this.deps.clock, ANNOUNCE_MS)
    for (const server of held) this.dispatch(server, { kind: "handOver", by })
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
  private holds({ state }: Server): boolean {
    return isHeld(state, this.deps.clock.now())
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
    const takes = this.isDraining ? "none" : "any"
    const server: Server = {
      id,
      slug,
      state: { ...INITIAL_LEASE, takes },
      next: undefined,
      released: undefined,
      cancelBeat: () => undefined,
    }
    this.servers.set(id, server)
    this.dispatch(server, { kind: "beat" })
  }

  private dispatch(server: Server, event: LeaseEvent): void {
    const [state, effects] = step(server.state, event, this.deps.clock.now())
    server.state = state
    for (const effect of effects) this.run(server, effect)
  }

  private run(server: Server, effect: LeaseEffect): void {
    const { clock, log, replicas, onchange } = this.deps
    switch (effect.kind) {
      case "beat":
        server.cancelBeat()
        server.cancelBeat = clock.after(effect.ms, () => this.dispatch(server, { kind: "beat" }))
        return
      case "cancelBeat":
        server.cancelBeat()
        return
      case "acquire":
        void this.ask(server, this.acquire(server))
        return
      case "renew": {
        const from = clock.now()
        const { lease } = effect
        void this.ask(
          server,
          lease.renew().then((isHeld) => ({ kind: "renewed", from, lease, isHeld })),
        )
        return
      }
      case "release": {
        const released = effect.lease.release().catch(() => undefined)
        if (effect.tells) server.released = released.then(() => replicas.send({ kind: "lease", server: server.id }))
        return
      }
      case "tell":
        replicas.send({ kind: "lease", server: server.id, ...effect.about })
        return
      case "changed":
        onchange()
        return
      case "endWait":
        server.next?.resolve()
        server.next = undefined
        return
      case "awaitDrained":
        void this.awaitDrained(server, effect.by)
        return
      case "awaitStopped":
        void this.deps.whenStopped(server.id).then(() => this.dispatch(server, { kind: "stopped" }))
        return
      case "log":
        log[effect.level](effect.text, { server: server.id })
    }
  }

  private async ask(server: Server, answer: Promise<LeaseEvent>): Promise<void> {
    // The state is away: the next beat tries again.
    this.dispatch(server, await answer.catch(() => ({ kind: "unanswered" }) as const))
  }

  private async acquire({ id, slug, state: { newest } }: Server): Promise<LeaseEvent> {
    const { state, replicas, clock } = this.deps
    const from = clock.now()
    const found = await state.lease(id, replicas.id, TTL_MS, newest)
    if (found.kind === "own") return { kind: "acquired", from, lease: found }
    const { holder, token, remaining } = found
    const address = replicas.find(holder)?.address
    const owner = address && {
      replica: holder,
      // With `svc serve --tools search`, that address would list svc's search tools.
      url: `${address}/servers/${encodeURIComponent(slug)}/mcp?tools=all`,
      credential: this.credentialFor(id, token),
    }
    return { kind: "taken", token, remaining, owner: owner || undefined }
  }

  private async awaitDrained(server: Server, by: number): Promise<void> {
    const { clock, whenDrained } = this.deps
    // Requests that were admitted a moment ago have not reached the server yet.
    await delay(clock, ARRIVE_MS)
    await withTimeout(clock, Math.max(0, by - clock.now()), whenDrained(server.id))
    this.dispatch(server, { kind: "drained" })
  }

  /** Releases the lease of a server after its process has ended. Until then the lease is renewed. */
  private async release(server: Server): Promise<void> {
    this.releasing.add(server)
    this.dispatch(server, { kind: "drop" })
    // First the plan without the server is applied.
    await Promise.resolve()
    await this.deps.whenStopped(server.id)
    this.releasing.delete(server)
    this.dispatch(server, { kind: "stopped" })
    await server.released
  }
}

// ---

type Server = {
  readonly id: string
  slug: string
  state: LeaseState
  /** The calls that wait for the next owner. */
  next: { readonly promise: Promise<void>; resolve(): void; waiting: number } | undefined
  /** Resolves when the lease was released and the others were told. */
  released: Promise<void> | undefined
  cancelBeat(): void
}

const runnerIn = ({ state: { owned } }: Server): string | undefined =>
  owned.kind === "elsewhere" ? owned.owner.replica : undefined

/** Longer than a message takes to reach the other replicas, and their last calls take to arrive. */
const ANNOUNCE_MS = 200
/** Longer than a request that was admitted takes to be read and sent to the server. */
const ARRIVE_MS = 50
/** How long an owner that stops lets its calls run, if it does not say. */
const DEFAULT_GRACE_MS = 10_000
/** Calls that may wait for one server's next owner at once. */
const MAX_WAITING = 1000
const RECONNECT_MS = 200
const NO_OWNER = "runs on one replica at a time, and currently on none; try again in a moment"
const NO_STATE =
  "runs on one replica at a time, and svc cannot reach the shared state that says on which; try again in a moment"
