/**
 * Decides which replica of a cluster runs the servers with `"replicas": "one"`. A server has a lease in the shared state. The
 * replica that holds it, the owner, runs the server as configured. To the others it is a remote server at the owner's address.
 *
 *  1. The owner renews its lease each BEAT_MS. If it cannot for SAFE_MS, it stops the server. The lease runs out TTL_MS after the
 *     last renewal, which leaves a process the time to end before another replica starts its own: there are never two.
 *  2. The others look at the lease each BEAT_MS and take it when it is free, so it passes on within TTL_MS + BEAT_MS.
 *  3. A request from another replica carries the fencing token of the lease that it saw, marked with the key of the cluster. The
 *     owner refuses other tokens: a replica that is behind must not reach a server that was started since.
 *  4. Without an owner a server keeps the form that it had; at the start it does not run.
 */
import { type IdleServer, type Plan, REPLICA_HEADER, type ServerSpec } from "../config/server-spec.ts"
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { isSameMark, type Marker } from "../lib/seal.ts"
import type { Replica } from "../store/replicas.ts"
import { type Lease, leaseKey, type SharedState } from "../store/shared-state.ts"

export type ServerLeasesDeps = {
  readonly state: Pick<SharedState, "lease" | "read">
  readonly replicas: { readonly id: string; find(id: string): Pick<Replica, "address"> | undefined }
  readonly mark: Marker
  readonly clock: Clock
  readonly log: Log
  /** Resolves when no process of a server runs here any more. */
  whenStopped(id: string): Promise<void>
  /** Called when a server has another form than before: the plan must be placed and applied again. */
  onchange(): void
}

export class ServerLeases {
  private readonly servers = new Map<string, Server>()
  private cancelBeat: (() => void) | undefined
  private isClosed = false

  constructor(private readonly deps: ServerLeasesDeps) {}

  /** Returns a plan as this replica runs it. Servers that it names for the first time get their owner a moment later. */
  place(plan: Plan): Plan {
    const single = plan.specs.filter(({ id, name, tuning }) => tuning.replicas === "one" && id === name)
    const wanted = new Set(single.map(({ id }) => id))
    for (const [id, server] of this.servers) {
      if (wanted.has(id)) continue
      this.servers.delete(id)
      this.give(server)
    }
    for (const { id, slug } of single) {
      const known = this.servers.get(id)
      if (known === undefined)
        this.servers.set(id, { id, slug, lease: undefined, until: 0, at: undefined, isBusy: false })
      else known.slug = slug
    }
    if (single.length === 0) return plan
    if (this.cancelBeat === undefined) this.beat()
    const specs: ServerSpec[] = []
    const idle: IdleServer[] = []
    for (const spec of plan.specs) {
      const server = this.servers.get(spec.id)
      if (server === undefined || this.holds(server)) specs.push(spec)
      else if (server.at === undefined)
        idle.push({ name: spec.name, slug: spec.slug, tags: spec.tuning.tags, state: "invalid", reason: NO_OWNER })
      else {
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
    return { ...plan, specs, idle: [...plan.idle, ...idle] }
  }

  /** Returns whether a credential is that of a replica that may use the server under this slug, and the server runs here. */
  admits(slug: string, credential: string): boolean {
    const server = [...this.servers.values()].find((one) => one.slug === slug)
    if (server?.lease === undefined || !this.holds(server)) return false
    return isSameMark(credential, this.credentialFor(server.id, server.lease.token))
  }

  /** Returns the servers with their owner, this replica included; undefined while there is none. */
  owners(): readonly { readonly server: string; readonly replica: string | undefined }[] {
    return [...this.servers.values()].map((server) => ({
      server: server.id,
      replica: this.holds(server) ? this.deps.replicas.id : server.at?.replica,
    }))
  }

  /** Gives all leases to whoever wants them. Call it when the servers have stopped. */
  async close(): Promise<void> {
    this.isClosed = true
    this.cancelBeat?.()
    await Promise.all([...this.servers.values()].map((server) => this.give(server)))
    this.servers.clear()
  }

  // ---

  /** Whether this replica may run a server. */
  private holds({ lease, until }: Server): boolean {
    return lease !== undefined && this.deps.clock.now() < until
  }

  private credentialFor(id: string, token: number): string {
    return `${token}.${this.deps.mark("replica", id, String(token))}`
  }

  private beat(): void {
    for (const server of this.servers.values()) {
      this.expire(server)
      if (server.isBusy) continue
      server.isBusy = true
      void (server.lease === undefined ? this.look(server) : this.renew(server, server.lease))
        // The state is away: the next beat tries again.
        .catch(() => undefined)
        .finally(() => {
          server.isBusy = false
        })
    }
    const isSettled = [...this.servers.values()].every(({ lease, at }) => lease !== undefined || at !== undefined)
    this.cancelBeat = this.deps.clock.after(isSettled ? BEAT_MS : FIRST_BEAT_MS, () => this.beat())
  }

  /** Rule 1. */
  private expire(server: Server): void {
    if (server.lease === undefined || this.holds(server)) return
    server.lease = undefined
    this.deps.log.warn("stops on this replica: its lease could not be renewed", { server: server.id })
    this.deps.onchange()
  }

  private async renew(server: Server, lease: Lease): Promise<void> {
    const from = this.deps.clock.now()
    if (await lease.renew()) server.until = from + SAFE_MS
    else server.until = 0
    if (server.lease === lease) this.expire(server)
  }

  private async look(server: Server): Promise<void> {
    const { state, replicas, clock, log, onchange } = this.deps
    const found = await state.read(leaseKey(server.id))
    if (found === undefined) {
      const from = clock.now()
      const lease = await state.lease(server.id, replicas.id, TTL_MS)
      if (lease === undefined) return
      if (this.isClosed || this.servers.get(server.id) !== server) return lease.release()
      Object.assign(server, { lease, until: from + SAFE_MS, at: undefined })
      log.info("runs on this replica, for all", { server: server.id })
      return onchange()
    }
    const { holder = "", token = "" } = found
    const address = replicas.find(holder)?.address
    if (address === undefined || this.isClosed) return
    const at = {
      replica: holder,
      url: `${address}/servers/${encodeURIComponent(server.slug)}/mcp`,
      credential: this.credentialFor(server.id, Number(token)),
    }
    if (server.at?.url === at.url && server.at.credential === at.credential) return
    server.at = at
    log.info(`runs on replica ${holder}`, { server: server.id })
    onchange()
  }

  private async give(server: Server): Promise<void> {
    const { lease } = server
    server.lease = undefined
    // The plan without the server is applied first.
    await Promise.resolve()
    await this.deps.whenStopped(server.id)
    await lease?.release().catch(() => undefined)
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
  /** Where another replica offers it. */
  at: { readonly replica: string; readonly url: string; readonly credential: string } | undefined
  /** Whether a look or a renewal is under way. */
  isBusy: boolean
}

const BEAT_MS = 500
/** Until this replica has found the owner of each server. */
const FIRST_BEAT_MS = 100
const SAFE_MS = 2000
const TTL_MS = 4000
const RECONNECT_MS = 200
const NO_OWNER = "runs on one replica at a time, and none runs it at the moment; try again in a moment"
