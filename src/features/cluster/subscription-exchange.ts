/**
 * Exchanges the subscriptions of clients with the other replicas. Each replica runs its own process of a stdio server, and any
 * of these processes may update a resource: each replica also subscribes for the clients of the others.
 *
 *  1. A replica sends only changes, collected for GATHER_MS: the traffic grows with the number of changes.
 *  2. Messages are numbered. All subscriptions are sent again, in pieces, if a replica is new or has missed a message.
 *  3. The number and the size of a replica's subscriptions are limited. A client that exceeds the limit is refused. Sessions
 *     that come from other replicas may exceed it: svc logs this, and sends the excess when there is room.
 *  4. The subscriptions of a replica that is gone are removed.
 */
import type { Agent } from "../../agent/agent.ts"
import type { Clock } from "../../lib/clock.ts"
import type { ReplicaMessage, Replicas, SubscribedResource } from "./replicas.ts"

export type SubscriptionExchangeDeps = {
  readonly replicas: Replicas
  readonly agent: Pick<Agent, "backend" | "subscriptions">
  readonly clock: Clock
  /** Called once, if sessions that come from other replicas exceed the limit. */
  onfull(): void
}

/** Exchanges subscriptions as long as the process runs. */
export class SubscriptionExchange {
  /** The resources to which clients of this replica are subscribed, within the limit and beyond it, by their JSON. */
  private readonly own = new Map<string, SubscribedResource>()
  private readonly excess = new Map<string, SubscribedResource>()
  private isFull = false
  /** The size of `own`. */
  private bytes = 0
  /** The changes to send. */
  private readonly changes = new Map<string, SubscriptionChange>()
  private lastNumber = 0
  /** Whether each replica runs its own process, by server. */
  private readonly servers = new Map<string, boolean>()
  private readonly standIns = new Map<string, StandIn>()
  private readonly standInSessions = new WeakSet<object>()

  constructor(private readonly deps: SubscriptionExchangeDeps) {
    deps.agent.subscriptions.watch((server, uri, session) => {
      if (!this.standInSessions.has(session)) this.check(server, uri)
    })
    deps.replicas.on("subscriptions", (message, from) => this.take(message, from))
  }

  /** Whether the limit admits a subscription of a client. */
  hasRoom(server: string, uri: string): boolean {
    const text = JSON.stringify([server, uri])
    return !this.runsOnEach(server) || this.own.has(text) || this.fits(text)
  }

  /** Whether clients of other replicas are subscribed to a resource, or to one that contains it. */
  isWanted(server: string, uri: string): boolean {
    if (!this.runsOnEach(server)) return false
    for (const session of this.deps.agent.subscriptions.subscribersOf(server, uri))
      if (this.standInSessions.has(session)) return true
    return false
  }

  /** Sends all subscriptions of clients of this replica. */
  sendAll(): void {
    this.changes.clear()
    const pieces = piecesOf([...this.own.values()].map((resource) => ({ resource, isAdded: true })))
    const last = Math.max(0, pieces.length - 1)
    for (let at = 0; at <= last; at++)
      this.send(pieces[at] ?? [], { ...(at === 0 && { first: true }), ...(at === last && { last: true }) })
  }

  /** Removes the subscriptions of replicas that are gone. Returns the replicas whose subscriptions are not completely known. */
  incomplete(): readonly string[] {
    const { replicas } = this.deps
    for (const [replica, standIn] of [...this.standIns]) {
      if (replicas.find(replica) !== undefined) continue
      this.standIns.delete(replica)
      for (const text of [...standIn.resources.keys()]) this.drop(standIn, text)
    }
    return replicas.all().flatMap(({ id, self }) => (self || this.standIns.get(id)?.number !== undefined ? [] : [id]))
  }

  /** Checks again which servers each replica runs for itself. */
  checkServers(): void {
    for (const [server, before] of this.servers) {
      const now = this.runsOnEach(server)
      if (now === before) continue
      this.servers.set(server, now)
      for (const uri of this.deps.agent.subscriptions.uris(server)) this.check(server, uri)
    }
  }

  // ---

  /** Replicas share the process of a server that runs once, and a remote server notifies the connection of each replica. */
  private runsOnEach(server: string): boolean {
    const spec = this.deps.agent.backend(server)?.spec
    return spec?.launch.transport === "stdio" && spec.tuning.replicas !== "one"
  }

  private fits(text: string): boolean {
    const size = Buffer.byteLength(text)
    return this.own.size < MAX_RESOURCES && size <= PIECE_BYTES && this.bytes + size <= MAX_RESOURCE_BYTES
  }

  /** Takes over whether clients of this replica are subscribed to a resource. */
  private check(server: string, uri: string): void {
    const { own, excess, servers, standInSessions } = this
    const text = JSON.stringify([server, uri])
    if (!servers.has(server)) servers.set(server, this.runsOnEach(server))
    const { subscriptions } = this.deps.agent
    if (
      servers.get(server) !== true ||
      !subscriptions.isSubscribed(server, uri, (session) => !standInSessions.has(session))
    )
      this.remove(text)
    else if (!own.has(text) && !excess.has(text)) this.add(text, [server, uri])
  }

  private add(text: string, resource: SubscribedResource): void {
    if (!this.fits(text)) {
      if (!this.isFull) this.deps.onfull()
      this.isFull = true
      this.excess.set(text, resource)
      return
    }
    this.excess.delete(text)
    this.own.set(text, resource)
    this.bytes += Buffer.byteLength(text)
    this.change(text, { resource, isAdded: true })
  }

  private remove(text: string): void {
    this.excess.delete(text)
    const resource = this.own.get(text)
    if (resource === undefined) return
    this.own.delete(text)
    this.bytes -= Buffer.byteLength(text)
    this.change(text, { resource, isAdded: false })
    for (const [next, resource] of this.excess) {
      if (!this.fits(next)) return
      this.add(next, resource)
    }
  }

  private change(text: string, one: SubscriptionChange): void {
    // It undoes one that has not been sent.
    if (this.changes.delete(text)) return
    if (this.changes.size === 0) this.deps.clock.after(GATHER_MS, () => this.sendChanges())
    this.changes.set(text, one)
  }

  private sendChanges(): void {
    const pieces = piecesOf([...this.changes.values()])
    this.changes.clear()
    for (const piece of pieces) this.send(piece, {})
  }

  private send(piece: readonly SubscriptionChange[], part: { readonly first?: true; readonly last?: true }): void {
    const of = (wanted: boolean) => piece.flatMap(({ resource, isAdded }) => (isAdded === wanted ? [resource] : []))
    const number = ++this.lastNumber
    this.deps.replicas.send({ kind: "subscriptions", number, added: of(true), removed: of(false), ...part })
  }

  /** Subscribes for the clients of another replica. */
  private take({ number, added, removed, first, last }: SubscriptionMessage, from: string): void {
    const standIn = this.standInOf(from)
    const { session, resources } = standIn
    if (first === true) standIn.unconfirmed = new Set(resources.keys())
    else if (standIn.number !== number - 1) {
      standIn.number = undefined
      return
    }
    standIn.number = number
    for (const resource of added) {
      const text = JSON.stringify(resource)
      standIn.unconfirmed?.delete(text)
      if (resources.has(text)) continue
      resources.set(text, resource)
      // The era selects one of two connections of a remote server.
      this.deps.agent.subscriptions.subscribe(resource[0], resource[1], session, "legacy")
    }
    for (const resource of removed) this.drop(standIn, JSON.stringify(resource))
    if (last !== true) return
    for (const text of standIn.unconfirmed ?? []) this.drop(standIn, text)
    standIn.unconfirmed = undefined
  }

  private standInOf(replica: string): StandIn {
    const known = this.standIns.get(replica)
    if (known !== undefined) return known
    const standIn = { session: {}, number: undefined, resources: new Map(), unconfirmed: undefined }
    this.standInSessions.add(standIn.session)
    this.standIns.set(replica, standIn)
    return standIn
  }

  private drop({ session, resources }: StandIn, text: string): void {
    const [server, uri] = resources.get(text) ?? []
    if (server === undefined || uri === undefined) return
    resources.delete(text)
    this.deps.agent.subscriptions.unsubscribe(server, uri, session)
  }
}

// ---

/** Represents the clients of another replica. */
type StandIn = {
  /** The session that is subscribed for them. */
  readonly session: object
  /** The number of the last message; undefined if a message is missing. */
  number: number | undefined
  readonly resources: Map<string, SubscribedResource>
  /** While all subscriptions are sent again: the known ones that have not been sent yet. */
  unconfirmed: Set<string> | undefined
}

type SubscriptionMessage = Extract<ReplicaMessage, { readonly kind: "subscriptions" }>

type SubscriptionChange = { readonly resource: SubscribedResource; readonly isAdded: boolean }

/** The limit of a replica: resources, and their JSON. */
const MAX_RESOURCES = 10_000
const MAX_RESOURCE_BYTES = 2 * 1024 * 1024
/** How long changes are collected. */
const GATHER_MS = 10
/** The limit of one message: the JSON of its resources. */
const PIECE_BYTES = 64 * 1024

function piecesOf(changes: readonly SubscriptionChange[]): readonly (readonly SubscriptionChange[])[] {
  const pieces: SubscriptionChange[][] = []
  let size = Number.POSITIVE_INFINITY
  for (const change of changes) {
    const added = Buffer.byteLength(JSON.stringify(change.resource))
    if (size + added > PIECE_BYTES) {
      pieces.push([])
      size = 0
    }
    pieces.at(-1)?.push(change)
    size += added
  }
  return pieces
}
