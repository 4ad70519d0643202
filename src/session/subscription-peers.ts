/**
 * Tells the other replicas to which resources the clients of this one are subscribed, and subscribes to theirs at the
 * processes here: each replica runs its own process of a stdio server, and any of them may update a resource.
 *
 *  1. Only changes are sent, gathered for a moment: the traffic grows with the number of changes.
 *  2. The messages of a replica are numbered. A replica that has missed one, or is new, is told everything, in pieces.
 *  3. Bounded: number and size of the resources of one replica. Beyond that clients are refused; if sessions bring more from
 *     other replicas, svc logs it, and the others are told when there is room.
 *  4. What a replica that is gone was subscribed to is dropped.
 */
import type { Agent } from "../agent/agent.ts"
import type { Clock } from "../lib/clock.ts"
import type { Replicas, SubscribedResource } from "../store/replicas.ts"

export type SubscriptionPeersDeps = {
  readonly replicas: Replicas
  readonly agent: Pick<Agent, "backend" | "subscriptions">
  readonly clock: Clock
  /** Called when sessions have brought more subscriptions than the others can be told of. */
  onfull(): void
}

export type SubscriptionPeers = {
  /** Whether the others can be told of one more subscription. */
  hasRoom(server: string, uri: string): boolean
  /** Whether clients of other replicas are subscribed to a resource, or to one that contains it. */
  isWanted(server: string, uri: string): boolean
  /** Tells the others everything. */
  tellAll(): void
  /** Returns the other replicas of whose subscriptions messages are missing. Drops those of replicas that are gone. */
  missing(): readonly string[]
  /** Checks of which servers there is a process on each replica. */
  checkServers(): void
}

/** Follows the subscriptions of clients here and on other replicas, as long as the process runs. */
export function createSubscriptionPeers({ replicas, agent, clock, onfull }: SubscriptionPeersDeps): SubscriptionPeers {
  const { subscriptions } = agent
  /** What clients here are subscribed to, and what of it there was no room for; by its text. */
  const own = new Map<string, SubscribedResource>()
  const excess = new Map<string, SubscribedResource>()
  /** Of what is in `own`. */
  let bytes = 0
  /** What the others have not been told yet. */
  const changes = new Map<string, SubscriptionChange>()
  let lastNumber = 0
  /** The servers to which clients are subscribed, each with whether it is shared. */
  const servers = new Map<string, boolean>()
  const standIns = new Map<string, StandIn>()
  const standInSessions = new WeakSet<object>()

  /** Whether each replica has a process of its own: all share one that runs once, and each has a connection to a remote one. */
  const isShared = (server: string): boolean => {
    const spec = agent.backend(server)?.spec
    return spec?.launch.transport === "stdio" && spec.tuning.replicas !== "one"
  }
  const fits = (text: string): boolean => {
    const size = Buffer.byteLength(text)
    return own.size < MAX_RESOURCES && size <= PIECE_BYTES && bytes + size <= MAX_RESOURCE_BYTES
  }
  const change = (text: string, one: SubscriptionChange) => {
    // The contrary, not told yet.
    if (changes.delete(text)) return
    if (changes.size === 0) clock.after(GATHER_MS, tellChanges)
    changes.set(text, one)
  }
  const add = (text: string, resource: SubscribedResource) => {
    if (!fits(text)) {
      if (excess.size === 0) onfull()
      excess.set(text, resource)
      return
    }
    excess.delete(text)
    own.set(text, resource)
    bytes += Buffer.byteLength(text)
    change(text, { resource, isAdded: true })
  }
  const remove = (text: string) => {
    excess.delete(text)
    const resource = own.get(text)
    if (resource === undefined) return
    own.delete(text)
    bytes -= Buffer.byteLength(text)
    change(text, { resource, isAdded: false })
    for (const [next, resource] of excess) if (fits(next)) add(next, resource)
  }
  const check = (server: string, uri: string) => {
    const text = JSON.stringify([server, uri])
    if (!servers.has(server)) servers.set(server, isShared(server))
    if (
      servers.get(server) !== true ||
      !subscriptions.isSubscribed(server, uri, (session) => !standInSessions.has(session))
    )
      remove(text)
    else if (!own.has(text) && !excess.has(text)) add(text, [server, uri])
  }
  subscriptions.watch((server, uri, session) => {
    if (!standInSessions.has(session)) check(server, uri)
  })

  const send = (piece: readonly SubscriptionChange[], part: { readonly first?: true; readonly last?: true }) => {
    const of = (wanted: boolean) => piece.flatMap(({ resource, isAdded }) => (isAdded === wanted ? [resource] : []))
    replicas.send({ kind: "subscriptions", number: ++lastNumber, added: of(true), removed: of(false), ...part })
  }
  const tellChanges = () => {
    const pieces = piecesOf([...changes.values()])
    changes.clear()
    for (const piece of pieces) send(piece, {})
  }

  const drop = ({ session, resources }: StandIn, text: string) => {
    const [server, uri] = resources.get(text) ?? []
    if (server === undefined || uri === undefined) return
    resources.delete(text)
    subscriptions.unsubscribe(server, uri, session)
  }
  const standInOf = (replica: string): StandIn => {
    const known = standIns.get(replica)
    if (known !== undefined) return known
    const standIn = { session: {}, number: undefined, resources: new Map(), unconfirmed: undefined }
    standInSessions.add(standIn.session)
    standIns.set(replica, standIn)
    return standIn
  }
  replicas.on("subscriptions", ({ number, added, removed, first, last }, from) => {
    const standIn = standInOf(from)
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
      // The era selects one of two connections; a process has one.
      subscriptions.subscribe(resource[0], resource[1], session, "legacy")
    }
    for (const resource of removed) drop(standIn, JSON.stringify(resource))
    if (last !== true) return
    for (const text of standIn.unconfirmed ?? []) drop(standIn, text)
    standIn.unconfirmed = undefined
  })
  return {
    hasRoom(server, uri) {
      const text = JSON.stringify([server, uri])
      return !isShared(server) || own.has(text) || fits(text)
    },
    isWanted(server, uri) {
      if (!isShared(server)) return false
      for (const session of subscriptions.subscribersOf(server, uri)) if (standInSessions.has(session)) return true
      return false
    },
    tellAll() {
      changes.clear()
      const pieces = piecesOf([...own.values()].map((resource) => ({ resource, isAdded: true })))
      const last = Math.max(0, pieces.length - 1)
      for (let at = 0; at <= last; at++)
        send(pieces[at] ?? [], { ...(at === 0 && { first: true }), ...(at === last && { last: true }) })
    },
    missing() {
      for (const [replica, standIn] of [...standIns]) {
        if (replicas.find(replica) !== undefined) continue
        standIns.delete(replica)
        for (const text of [...standIn.resources.keys()]) drop(standIn, text)
      }
      return replicas.all().flatMap(({ id, self }) => (self || standIns.get(id)?.number !== undefined ? [] : [id]))
    },
    checkServers() {
      for (const [server, before] of servers) {
        const now = isShared(server)
        if (now === before) continue
        servers.set(server, now)
        for (const uri of subscriptions.uris(server)) check(server, uri)
      }
    },
  }
}

// ---

/** What is known of another replica's subscriptions. */
type StandIn = {
  /** Is subscribed in place of its clients. */
  readonly session: object
  /** Of the last message; undefined if one is missing. */
  number: number | undefined
  readonly resources: Map<string, SubscribedResource>
  /** While everything is told: what is known and was not told again so far. */
  unconfirmed: Set<string> | undefined
}

type SubscriptionChange = { readonly resource: SubscribedResource; readonly isAdded: boolean }

/** The most resources of which a replica tells the others, and their size in messages. */
const MAX_RESOURCES = 10_000
const MAX_RESOURCE_BYTES = 2 * 1024 * 1024
/** How long changes are gathered: short beside the time until a process has subscribed. */
const GATHER_MS = 10
/** Of the resources in one message. */
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
