/**
 * Carries news of servers between replicas: each replica runs its own process of a stdio server, and a client hears of all.
 *
 *  1. When a list of a server changes here, the others hear the digest of the new list. One that has the same list has told
 *     its clients itself, or has nothing to tell.
 *  2. An update of a resource is told if clients of another replica are subscribed to it (subscription-peers.ts). A remote
 *     server notifies each replica's connection itself.
 *  3. A replica tells everything after it, or another one, has connected to the shared state, and when it is asked.
 */
import type { Agent } from "../agent/agent.ts"
import { LIST_KEYS } from "../catalog/catalog.ts"
import type { ListMethod } from "../catalog/listing.ts"
import { sha256 } from "../lib/digest.ts"
import type { SharedState } from "../store/shared-state.ts"
import { asText } from "../wire/message.ts"
import type { ChangePeers } from "./ports.ts"
import { createSubscriptionPeers, type SubscriptionPeersDeps } from "./subscription-peers.ts"

export type ChangePeersDeps = SubscriptionPeersDeps & {
  readonly state: Pick<SharedState, "onstate">
  readonly agent: Pick<Agent, "catalog">
}

/** Follows the changes of this replica and the others, as long as the process runs. */
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
  let told = new Map<string, string>()
  const tellLists = (all: boolean) => {
    const now = new Map<string, string>()
    const lists: [server: string, method: ListMethod, digest: string][] = []
    for (const { spec } of agent.catalog.parts)
      for (const method of METHODS) {
        const digest = digestOf(spec.id, method) ?? ""
        now.set(`${method} ${spec.id}`, digest)
        if (all || told.get(`${method} ${spec.id}`) !== digest) lists.push([spec.id, method, digest])
      }
    told = now
    if (lists.length > 0) replicas.send({ kind: "lists", lists })
  }
  /** The digests that were heard of other replicas, by replica and list. */
  const heard = new Map<string, Map<string, string>>()
  const isNews = (from: string, list: string, digest: string): boolean => {
    const known = heard.get(from) ?? new Map<string, string>()
    heard.set(from, known)
    const before = known.get(list)
    known.set(list, digest)
    return before !== digest
  }
  let isDue = false
  /** Tells everything, soon: several replicas may have missed something at once. */
  const tellAll = () => {
    if (isDue) return
    isDue = true
    clock.after(GATHER_MS, () => {
      isDue = false
      tellLists(true)
      subscriptions.tellAll()
    })
  }
  state.onstate((connected) => {
    if (connected) tellAll()
  })
  replicas.on("hello", ({ asks }) => {
    if (asks === true) tellAll()
  })
  replicas.on("ask", ({ of }) => {
    if (of === replicas.id) tellAll()
  })
  const check = () => {
    for (const from of [...heard.keys()]) if (replicas.find(from) === undefined) heard.delete(from)
    for (const of of subscriptions.missing()) replicas.send({ kind: "ask", of })
    clock.after(CHECK_MS, check)
  }
  clock.after(CHECK_MS, check)
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
      tellLists(false)
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
/** In this time, what several replicas have missed is asked for. */
const GATHER_MS = 250
/** Beyond that, the others are told only which resource was updated. */
const MAX_UPDATE_CHARS = 64 * 1024
