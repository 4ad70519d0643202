/**
 * Exchanges changes of servers with the other replicas: each replica runs its own process of a stdio server, and clients are
 * notified of changes in all of them.
 *
 *  1. When a list of a server changes here, the others receive the digest of the new list. A replica with the same list has
 *     notified its clients itself.
 *  2. Updates of a resource are sent if clients of other replicas are subscribed to it (subscription-exchange.ts). A remote
 *     server notifies each replica's connection itself.
 *  3. A replica sends all digests and subscriptions when it or another replica has connected to the shared state, and when
 *     another one asks.
 */
import type { Agent } from "../../agent/agent.ts"
import type { ChangeExchange } from "../../call/ports.ts"
import { LIST_KEYS } from "../../catalog/catalog.ts"
import type { ListMethod } from "../../catalog/listing.ts"
import { every } from "../../lib/clock.ts"
import { sha256 } from "../../lib/digest.ts"
import { asText, type Params } from "../../wire/message.ts"
import type { SharedState } from "./shared-state.ts"
import { SubscriptionExchange, type SubscriptionExchangeDeps } from "./subscription-exchange.ts"

export type ServerChangesDeps = SubscriptionExchangeDeps & {
  readonly state: Pick<SharedState, "onstate">
  readonly agent: Pick<Agent, "catalog">
}

/** Exchanges changes, for as long as svc runs. */
export class ServerChanges implements ChangeExchange {
  private readonly subscriptions: SubscriptionExchange
  /** The digests of lists, which never change. */
  private readonly digests = new WeakMap<object, string>()
  /** The digests that were sent last, by list. */
  private sent = new Map<string, string>()
  /** The digests that other replicas have sent, by replica and list. */
  private readonly received = new Map<string, Map<string, string>>()
  /** Whether everything will be sent in a moment. */
  private isDue = false

  constructor(private readonly deps: ServerChangesDeps) {
    const { replicas, state, clock } = deps
    this.subscriptions = new SubscriptionExchange(deps)
    state.onstate((connected) => {
      if (connected) this.sendAll()
    })
    replicas.on("hello", ({ asks }) => {
      if (asks === true) this.sendAll()
    })
    replicas.on("ask", ({ of }) => {
      if (of === replicas.id) this.sendAll()
    })
    every(clock, CHECK_MS, () => this.check())
  }

  follow({ listsChanged, updated }: Parameters<ChangeExchange["follow"]>[0]): void {
    const { replicas } = this.deps
    replicas.on("lists", ({ lists }, from) => {
      const changed = new Map<string, ListMethod[]>()
      for (const [server, name, digest] of lists) {
        const method = METHODS.find((one) => one === name)
        if (method === undefined) continue
        const own = this.digestOf(server, method)
        if (this.isNews(from, `${method} ${server}`, digest) && own !== undefined && own !== digest)
          // One notification is about both lists of resources.
          changed.set(server, [...(changed.get(server) ?? []), method])
      }
      for (const [server, methods] of changed) listsChanged(server, methods)
    })
    replicas.on("updated", ({ server, params }) => updated(server, params))
  }

  catalogChanged(): void {
    this.sendLists(false)
    this.subscriptions.checkServers()
  }

  hasRoom(server: string, uri: string): boolean {
    return this.subscriptions.hasRoom(server, uri)
  }

  updated(server: string, params: Params): void {
    if (!this.subscriptions.isWanted(server, asText(params.uri))) return
    const isShort = JSON.stringify(params).length <= MAX_UPDATE_CHARS
    this.deps.replicas.send({ kind: "updated", server, params: isShort ? params : { uri: params.uri } })
  }

  // ---

  private digestOf(server: string, method: ListMethod): string | undefined {
    const list = this.deps.agent.catalog.parts.find(({ spec }) => spec.id === server)?.listing[LIST_KEYS[method]]
    if (list === undefined) return undefined
    const digest = this.digests.get(list) ?? sha256(JSON.stringify(list), "base64url")
    this.digests.set(list, digest)
    return digest
  }

  private sendLists(all: boolean): void {
    const now = new Map<string, string>()
    const lists: [server: string, method: ListMethod, digest: string][] = []
    for (const { spec } of this.deps.agent.catalog.parts)
      for (const method of METHODS) {
        const digest = this.digestOf(spec.id, method) ?? ""
        now.set(`${method} ${spec.id}`, digest)
        if (all || this.sent.get(`${method} ${spec.id}`) !== digest) lists.push([spec.id, method, digest])
      }
    this.sent = now
    if (lists.length > 0) this.deps.replicas.send({ kind: "lists", lists })
  }

  private isNews(from: string, list: string, digest: string): boolean {
    const known = this.received.get(from) ?? new Map<string, string>()
    this.received.set(from, known)
    const before = known.get(list)
    known.set(list, digest)
    return before !== digest
  }

  /** Sends everything, but not at once: several replicas may connect or ask at the same time. */
  private sendAll(): void {
    if (this.isDue) return
    this.isDue = true
    this.deps.clock.after(GATHER_MS, () => {
      this.isDue = false
      this.sendLists(true)
      this.subscriptions.sendAll()
    })
  }

  /** Forgets replicas that are gone, and asks those of which something is missing. */
  private check(): void {
    const { replicas } = this.deps
    for (const from of [...this.received.keys()]) if (replicas.find(from) === undefined) this.received.delete(from)
    for (const of of this.subscriptions.incomplete()) replicas.send({ kind: "ask", of })
  }
}

// ---

const METHODS = Object.keys(LIST_KEYS) as readonly ListMethod[]
const CHECK_MS = 1000
/** How long requests of several replicas are collected. */
const GATHER_MS = 250
/** Of a longer notification, only the URI of the resource is sent. */
const MAX_UPDATE_CHARS = 64 * 1024
