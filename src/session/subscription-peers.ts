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
import type { Agent } from "../agent/agent.ts"
import type { Clock } from "../lib/clock.ts"
import type { Replicas, SubscribedResource } from "../store/replicas.ts"

export type SubscriptionPeersDeps = {
  readonly replicas: Replicas
  readonly agent: Pick<Agent, "backend" | "subscriptions">
  readonly clock: Clock
  /** Called once, if sessions that come from other replicas exceed the limit. */
  onfull(): void
}

export type SubscriptionPeers = {
  /** Whether the limit admits a subscription of a client. */
  hasRoom(server: string, uri: string): boolean
  /** Whether clients of other replicas are subscribed to a resource, or to one that contains it. */
  isWanted(server: string, uri: string): boolean
  /** Sends all subscriptions of clients of this replica. */
  sendAll(): void
  /** Removes the subscriptions of replicas that are gone. Returns the replicas whose subscriptions are not completely known. */
  incomplete(): readonly string[]
  /** Checks again which servers each replica runs for itself. */
  checkServers(): void
}

/** Exchanges subscriptions as long as the process runs. */
export function createSubscriptionPeers({ replicas, agent, clock, onfull }: SubscriptionPeersDeps): SubscriptionPeers {
  const { subscriptions } = agent
  /** The resources to which clients of this replica are subscribed, within the limit and beyond it, by their JSON. */
  const own = new Map<string, SubscribedResource>()
  const excess = new Map<string, SubscribedResource>()
  let isFull = false
  /** The size of `own`. */
  let bytes = 0
  /** The changes to send. */
  const changes = new Map<string, SubscriptionChange>()
  let lastNumber = 0
  /** Whether each replica runs its own process, by server. */
  const servers = new Map<string, boolean>()
  const standIns = new Map<string, StandIn>()
  const standInSessions = new WeakSet<object>()

  /** Replicas share the process of a server that runs once, and a remote server notifies the connection of each replica. */
  const runsOnEach = (server: string): boolean => {
    const spec = agent.backend(server)?.spec
    return spec?.launch.transport === "stdio" && spec.tuning.replicas !== "one"
  }
  const fits = (text: string): boolean => {
    const size = Buffer.byteLength(text)
    return own.size < MAX_RESOURCES && size <= PIECE_BYTES && bytes + size <= MAX_RESOURCE_BYTES
  }
  const change = (text: string, one: SubscriptionChange) => {
    // It undoes one that has not been sent.
    if (changes.delete(text)) return
    if (changes.size === 0) clock.after(GATHER_MS, sendChanges)
    changes.set(text, one)
  }
  const add = (text: string, resource: SubscribedResource) => {
    if (!fits(text)) {
      if (!isFull) onfull()
      isFull = true
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
    for (const [next, resource] of excess) {
      if (!fits(next)) return
      add(next, resource)
    }
  }
  const check = (server: string, uri: string) => {
    const text = JSON.stringify([server, uri])
    if (!servers.has(server)) servers.set(server, runsOnEach(server))
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
  const sendChanges = () => {
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
      // The era selects one of two connections of a remote server.
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
      return !runsOnEach(server) || own.has(text) || fits(text)
    },
    isWanted(server, uri) {
      if (!runsOnEach(server)) return false
      for (const session of subscriptions.subscribersOf(server, uri)) if (standInSessions.has(session)) return true
      return false
    },
    sendAll() {
      changes.clear()
      const pieces = piecesOf([...own.values()].map((resource) => ({ resource, isAdded: true })))
      const last = Math.max(0, pieces.length - 1)
      for (let at = 0; at <= last; at++)
        send(pieces[at] ?? [], { ...(at === 0 && { first: true }), ...(at === last && { last: true }) })
    },
    incomplete() {
      for (const [replica, standIn] of [...standIns]) {
        if (replicas.find(replica) !== undefined) continue
        standIns.delete(replica)
        for (const text of [...standIn.resources.keys()]) drop(standIn, text)
      }
      return replicas.all().flatMap(({ id, self }) => (self || standIns.get(id)?.number !== undefined ? [] : [id]))
    },
    checkServers() {
      for (const [server, before] of servers) {
        const now = runsOnEach(server)
        if (now === before) continue
        servers.set(server, now)
        for (const uri of subscriptions.uris(server)) check(server, uri)
      }
    },
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
