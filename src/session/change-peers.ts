/**
 * Exchanges changes of servers with the other replicas: each replica runs its own process of a stdio server, and clients are
 * notified of changes in all of them.
 *
 *  1. When a list of a server changes here, the others receive the digest of the new list. A replica with the same list has
 *     notified its clients itself.
 *  2. Updates of a resource are sent if clients of other replicas are subscribed to it (subscription-peers.ts). A remote
 *     server notifies each replica's connection itself.
 *  3. A replica sends all digests and subscriptions when it or another replica has connected to the shared state, and when
 *     another one asks.
 */
import type { Agent } from "../agent/agent.ts"
import { LIST_KEYS } from "../catalog/catalog.ts"
import type { ListMethod } from "../catalog/listing.ts"
import { every } from "../lib/clock.ts"
import { sha256 } from "../lib/digest.ts"
import type { SharedState } from "../store/shared-state.ts"
import { asText } from "../wire/message.ts"
import type { ChangePeers } from "./ports.ts"
import { createSubscriptionPeers, type SubscriptionPeersDeps } from "./subscription-peers.ts"

export type ChangePeersDeps = SubscriptionPeersDeps & {
  readonly state: Pick<SharedState, "onstate">
  readonly agent: Pick<Agent, "catalog">
}

/** Starts to exchange changes, for as long as svc runs. */
export function createChangePeers(deps: ChangePeersDeps): ChangePeers {
  const { replicas, state, agent, clock } = deps
  const subscriptions = createSubscriptionPeers(deps)
  const digests = new WeakMap<object, string>()
  const digestOf = (server: string, method: ListMethod): string | undefined => {
    const list = agent.catalog.parts.find(({ spec }) => spec.id === server)?.listing[LIST_KEYS[method]]
    if (list === undefined) return undefined
    const digest = digests.get(list) ?? sha256(JSON.stringify(list), "base64url")
    digests.set(list, digest)
    return digest
  }
  /** The digests that were sent last, by list. */
  let sent = new Map<string, string>()
  const sendLists = (all: boolean) => {
    const now = new Map<string, string>()
    const lists: [server: string, method: ListMethod, digest: string][] = []
    for (const { spec } of agent.catalog.parts)
      for (const method of METHODS) {
        const digest = digestOf(spec.id, method) ?? ""
        now.set(`${method} ${spec.id}`, digest)
        if (all || sent.get(`${method} ${spec.id}`) !== digest) lists.push([spec.id, method, digest])
      }
    sent = now
    if (lists.length > 0) replicas.send({ kind: "lists", lists })
  }
  /** The digests that other replicas have sent, by replica and list. */
  const received = new Map<string, Map<string, string>>()
  const isNews = (from: string, list: string, digest: string): boolean => {
    const known = received.get(from) ?? new Map<string, string>()
    received.set(from, known)
    const before = known.get(list)
    known.set(list, digest)
    return before !== digest
  }
  let isDue = false
  /** Sends everything, but not at once: several replicas may connect or ask at the same time. */
  const sendAll = () => {
    if (isDue) return
    isDue = true
    clock.after(GATHER_MS, () => {
      isDue = false
      sendLists(true)
      subscriptions.sendAll()
    })
  }
  state.onstate((connected) => {
    if (connected) sendAll()
  })
  replicas.on("hello", ({ asks }) => {
    if (asks === true) sendAll()
  })
  replicas.on("ask", ({ of }) => {
    if (of === replicas.id) sendAll()
  })
  every(clock, CHECK_MS, () => {
    for (const from of [...received.keys()]) if (replicas.find(from) === undefined) received.delete(from)
    for (const of of subscriptions.incomplete()) replicas.send({ kind: "ask", of })
  })
  return {
    follow({ listsChanged, updated }) {
      replicas.on("lists", ({ lists }, from) => {
        for (const [server, name, digest] of lists) {
          const method = METHODS.find((one) => one === name)
          if (method === undefined) continue
          const own = digestOf(server, method)
          if (isNews(from, `${method} ${server}`, digest) && own !== undefined && own !== digest)
            listsChanged(server, method)
        }
      })
      replicas.on("updated", ({ server, params }) => updated(server, params))
    },
    catalogChanged() {
      sendLists(false)
      subscriptions.checkServers()
    },
    hasRoom: subscriptions.hasRoom,
    updated(server, params) {
      if (!subscriptions.isWanted(server, asText(params.uri))) return
      const isShort = JSON.stringify(params).length <= MAX_UPDATE_CHARS
      replicas.send({ kind: "updated", server, params: isShort ? params : { uri: params.uri } })
    },
  }
}

// ---

const METHODS = Object.keys(LIST_KEYS) as readonly ListMethod[]
const CHECK_MS = 1000
/** How long requests of several replicas are collected. */
const GATHER_MS = 250
/** Of a longer notification, only the URI of the resource is sent. */
const MAX_UPDATE_CHARS = 64 * 1024
