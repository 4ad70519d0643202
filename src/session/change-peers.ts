/**
 * Carries news of servers between replicas: each replica runs its own process of a stdio server, and a client hears of all.
 *
 *  1. When a list of a server changes here, the others hear the digest of the new list. One that has the same list has told
 *     its clients itself, or has nothing to tell. A replica that was away, or may have missed something, hears all digests.
 *  2. Each replica tells the others to which resources of stdio servers its clients are subscribed, and they subscribe at
 *     their own processes in its place. A remote server notifies each replica's connection itself.
 *  3. What a replica that is gone wanted is dropped.
 */
import type { Agent } from "../agent/agent.ts"
import { LIST_KEYS } from "../catalog/catalog.ts"
import type { ListMethod } from "../catalog/listing.ts"
import type { Clock } from "../lib/clock.ts"
import { sha256 } from "../lib/digest.ts"
import type { Replicas } from "../store/replicas.ts"
import type { SharedState } from "../store/shared-state.ts"
import type { Era } from "../wire/era.ts"
import { asText } from "../wire/message.ts"
import type { ChangePeers } from "./ports.ts"

export type ChangePeersDeps = {
  readonly replicas: Replicas
  readonly state: Pick<SharedState, "onstate">
  readonly agent: Pick<Agent, "catalog" | "backend" | "subscriptions">
  readonly clock: Clock
}

/** A resource that clients of a replica are subscribed to: server, the server's own URI, and the era of the clients. */
type Interest = readonly [server: string, uri: string, era: Era]

/** Follows the changes of this replica and the others, as long as the process runs. */
export function createChangePeers({ replicas, state, agent, clock }: ChangePeersDeps): ChangePeers {
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
  /** Tells all, soon: several replicas may have missed something at once. */
  const tellAll = () => {
    if (isDue) return
    isDue = true
    clock.after(GATHER_MS, () => {
      isDue = false
      tellLists(true)
    })
  }
  state.onstate((connected) => {
    if (connected) tellAll()
  })
  let announced = "[]"
  const standIns = new Map<string, { readonly session: object; interests: readonly Interest[] }>()
  const isStandIn = (session: object) => [...standIns.values()].some((standIn) => standIn.session === session)
  const announce = (isAsked: boolean) => {
    const interests = agent.subscriptions
      .all((session) => !isStandIn(session))
      .filter(([server]) => agent.backend(server)?.spec.launch.transport === "stdio")
      .slice(0, MAX_INTERESTS)
    const text = JSON.stringify(interests)
    if (text === announced && !isAsked) return
    announced = text
    replicas.send({ kind: "interests", interests })
  }
  const replace = (from: string, interests: readonly Interest[]) => {
    const standIn = standIns.get(from) ?? { session: {}, interests: [] }
    standIns.set(from, standIn)
    const wanted = new Set(interests.map((one) => JSON.stringify(one)))
    const known = new Set(standIn.interests.map((one) => JSON.stringify(one)))
    for (const [server, uri, era] of standIn.interests)
      if (!wanted.has(JSON.stringify([server, uri, era]))) agent.subscriptions.unsubscribe(server, uri, standIn.session)
    for (const [server, uri, era] of interests)
      if (!known.has(JSON.stringify([server, uri, era])))
        agent.subscriptions.subscribe(server, uri, standIn.session, era)
    standIn.interests = interests
    if (interests.length === 0) standIns.delete(from)
  }
  const check = () => {
    for (const from of [...standIns.keys()]) if (replicas.find(from) === undefined) replace(from, [])
    for (const from of [...heard.keys()]) if (replicas.find(from) === undefined) heard.delete(from)
    announce(false)
    clock.after(CHECK_MS, check)
  }
  clock.after(CHECK_MS, check)
  replicas.on("hello", ({ asks }) => {
    if (asks !== true) return
    announce(true)
    tellAll()
  })
  replicas.on("interests", ({ interests }, from) => replace(from, interests))
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
      replicas.on("updated", ({ to, server, params }) => {
        if (to === replicas.id) updated(server, params)
      })
    },
    catalogChanged: () => tellLists(false),
    subscribed: () => announce(false),
    updated(server, params) {
      if (standIns.size === 0) return
      const subscribers = agent.subscriptions.subscribersOf(server, asText(params.uri))
      for (const [to, { session }] of standIns)
        if (subscribers.has(session)) replicas.send({ kind: "updated", to, server, params })
    },
  }
}

// ---

const METHODS = Object.keys(LIST_KEYS) as readonly ListMethod[]
const CHECK_MS = 1000
/** In this time, what several replicas have missed is asked for. */
const GATHER_MS = 250
const MAX_INTERESTS = 10_000
