/**
 * What svc itself does on an open connection: it lists what the backend offers and follows its changes, subscribes to
 * resources for its clients, and pings.
 */
import { LIST_KEYS } from "../catalog/catalog.ts"
import type { Entry, Listing, ListMethod } from "../catalog/listing.ts"
import type { Spec } from "../config/spec.ts"
import type { Clock } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import { numberOf } from "../lib/json.ts"
import type { Log } from "../lib/log.ts"
import { isObject, type Params } from "../wire/message.ts"
import { type Connection, PeerError, subscriptionOf } from "./connection.ts"
import { ownMeta, type Peer } from "./negotiate.ts"

/** What a lister needs of the hooks and the deps of its connection. */
export type ListerHooks = {
  /** The backend offers something else than before. */
  onlisting(listing: Listing): void
  /** The resource URIs (the backend's own) that clients are subscribed to at this moment. */
  subscriptions(): readonly string[]
  /** The log level that clients want at this moment, if they want one. */
  logLevel(): string | undefined
}
export type ListerDeps = { readonly clock: Clock; readonly log: Log; readonly version: string }

export class Lister {
  /** Requests of svc's own that stay open. */
  streams = 0
  private ended = false
  private listing: Listing | undefined
  private readonly stale = new Set<ListMethod>()
  private relisting = false
  private listening: number | undefined
  private subscribed = new Set<string>()

  constructor(
    private readonly spec: Spec,
    private readonly connection: Connection,
    private readonly peer: Peer,
    private readonly hooks: ListerHooks,
    private readonly deps: ListerDeps,
  ) {}

  async list(): Promise<Listing> {
    const { peer } = this
    const { capabilities } = peer
    const none = { entries: [], hint: undefined }
    const [tools, prompts, resources, templates] = await Promise.all([
      capabilities.tools === undefined ? none : this.entriesOf("tools/list"),
      capabilities.prompts === undefined ? none : this.entriesOf("prompts/list"),
      capabilities.resources === undefined ? none : this.entriesOf("resources/list"),
      capabilities.resources === undefined ? none : this.entriesOf("resources/templates/list"),
    ])
    const hints = {
      ...(tools.hint && { "tools/list": tools.hint }),
      ...(prompts.hint && { "prompts/list": prompts.hint }),
      ...(resources.hint && { "resources/list": resources.hint }),
      ...(templates.hint && { "resources/templates/list": templates.hint }),
    }
    this.listing = {
      ...peer,
      tools: named(tools.entries),
      prompts: named(prompts.entries),
      resources: withText(resources.entries, "uri"),
      resourceTemplates: withText(templates.entries, "uriTemplate"),
      hints,
    }
    return this.listing
  }

  /** Opens what keeps the listing true. */
  begin(): void {
    this.resubscribe()
    this.relevel()
  }

  end(): void {
    this.ended = true
  }

  /** Notifications that are svc's business. */
  took(method: string, params: Params): boolean {
    switch (method) {
      case "notifications/tools/list_changed":
        this.relist("tools/list")
        return true
      case "notifications/prompts/list_changed":
        this.relist("prompts/list")
        return true
      case "notifications/resources/list_changed":
        this.relist("resources/list")
        this.relist("resources/templates/list")
        return true
      case "notifications/subscriptions/acknowledged":
        return true
      default:
        return subscriptionOf(params) !== undefined && method !== "notifications/resources/updated"
    }
  }

  renew(): void {
    this.subscribed.clear()
    this.resubscribe()
    this.relevel()
    for (const method of Object.keys(LIST_KEYS) as ListMethod[]) this.relist(method)
  }

  async ping(timeout: number): Promise<void> {
    if (this.peer.era === "2026") await this.connection.ask("server/discover", this.params(), timeout)
    else await this.connection.ask("ping", {}, timeout)
  }

  resubscribe(): void {
    if (this.ended) return
    if (this.peer.era === "2026") {
      this.listen(RELISTEN_MS)
      return
    }
    if (!hasMember(this.peer.capabilities.resources, "subscribe")) return
    const wanted = new Set(this.hooks.subscriptions())
    const timeout = this.spec.tuning.requestTimeout
    const change = (method: string, uri: string) =>
      this.connection
        .ask(method, { uri }, timeout)
        .catch((error: unknown) => this.deps.log.warn(`${method}: ${messageOf(error)}`, { server: this.spec.name }))
    for (const uri of wanted) if (!this.subscribed.has(uri)) void change("resources/subscribe", uri)
    for (const uri of this.subscribed) if (!wanted.has(uri)) void change("resources/unsubscribe", uri)
    this.subscribed = wanted
  }

  /** Asks for the log level that clients want. 2026-era servers are told with each request. */
  relevel(): void {
    const level = this.hooks.logLevel()
    const { era, capabilities } = this.peer
    if (this.ended || level === undefined || era === "2026" || capabilities.logging === undefined) return
    const { name, tuning } = this.spec
    this.connection
      .ask("logging/setLevel", { level }, tuning.requestTimeout)
      .catch((error: unknown) => this.deps.log.debug(`logging/setLevel: ${messageOf(error)}`, { server: name }))
  }

  // ---

  private params(): Params {
    return this.peer.era === "2026" ? { _meta: ownMeta(this.deps.version) } : {}
  }

  /** One list, all pages. A server that has the capability but not the method offers nothing of the kind. */
  private async entriesOf(method: ListMethod) {
    const entries: Entry[] = []
    let hint: { ttlMs: number; cacheScope: "public" | "private" } | undefined
    let cursor: string | undefined
    for (let page = 0; page < MAX_PAGES; page++) {
      let result: Params
      try {
        const params = cursor === undefined ? this.params() : { ...this.params(), cursor }
        result = await this.connection.ask(method, params, this.spec.tuning.requestTimeout)
      } catch (error) {
        if (error instanceof PeerError && error.code === -32601) break
        throw error
      }
      const list = result[LIST_KEYS[method]]
      if (Array.isArray(list)) entries.push(...list.filter(isObject))
      const said = numberOf(result.ttlMs)
      if (said !== undefined) {
        const ttlMs = Math.min(Math.max(0, Math.floor(said)), Number.MAX_SAFE_INTEGER)
        const cacheScope = result.cacheScope === "public" ? "public" : "private"
        hint = {
          ttlMs: Math.min(ttlMs, hint?.ttlMs ?? ttlMs),
          cacheScope: hint?.cacheScope === "private" ? "private" : cacheScope,
        }
      }
      if (typeof result.nextCursor !== "string" || result.nextCursor === cursor) break
      cursor = result.nextCursor
    }
    return { entries, hint }
  }

  private relist(method: ListMethod): void {
    this.stale.add(method)
    if (this.relisting) return
    this.relisting = true
    // A server that changes many things at once says so many times.
    this.deps.clock.after(RELIST_MS, () => void this.refresh())
  }

  private async refresh(): Promise<void> {
    try {
      while (this.stale.size > 0 && !this.ended && this.listing !== undefined) {
        const methods = [...this.stale]
        this.stale.clear()
        let listing: Listing = this.listing
        for (const method of methods) {
          const { entries, hint } = await this.entriesOf(method)
          listing = {
            ...listing,
            ...partOf(method, entries),
            hints: { ...listing.hints, ...(hint === undefined ? {} : { [method]: hint }) },
          }
        }
        this.listing = listing
        if (!this.ended) this.hooks.onlisting(listing)
      }
    } catch (error) {
      this.deps.log.warn(`could not list again: ${messageOf(error)}`, { server: this.spec.name })
    } finally {
      this.relisting = false
    }
  }

  /** 2026-era: one stream for all that changes; opened anew when the wishes change or it ends. */
  private listen(wait: number): void {
    const { connection, peer, deps } = this
    const filter = filterOf(peer.capabilities, this.hooks.subscriptions())
    if (this.listening !== undefined) {
      const before = this.listening
      this.listening = undefined
      connection.cancel(before, new Error("listening to something else now"))
    }
    if (filter === undefined) return
    const { number, outcome } = connection.request({
      method: "subscriptions/listen",
      params: { ...this.params(), notifications: filter },
      caller: undefined,
      timeout: Number.POSITIVE_INFINITY,
    })
    this.listening = number
    this.streams++
    const again = (answered: boolean) => {
      this.streams--
      if (this.ended || this.listening !== number) return
      this.listening = undefined
      if (answered) return
      deps.clock.after(wait, () => {
        if (!this.ended && this.listening === undefined) this.listen(Math.min(wait * 2, RELISTEN_MAX_MS))
      })
    }
    outcome.then(
      // An error answer is the server's last word; an end without one, or a graceful one, means: listen again.
      (answer) => again(answer.kind === "message" && answer.message.error !== undefined),
      () => again(false),
    )
  }
}

// ---

const MAX_PAGES = 1000
const RELIST_MS = 20
const RELISTEN_MS = 1000
const RELISTEN_MAX_MS = 30_000

function filterOf(capabilities: Params, uris: readonly string[]): Params | undefined {
  const filter = {
    ...(hasMember(capabilities.tools, "listChanged") && { toolsListChanged: true }),
    ...(hasMember(capabilities.prompts, "listChanged") && { promptsListChanged: true }),
    ...(hasMember(capabilities.resources, "listChanged") && { resourcesListChanged: true }),
    ...(uris.length > 0 && { resourceSubscriptions: uris }),
  }
  return Object.keys(filter).length === 0 ? undefined : filter
}

const hasMember = (value: unknown, member: string): boolean => isObject(value) && value[member] === true

const named = (entries: readonly Entry[]) => withText(entries, "name")

/** Entries that lack the member svc must have are left out. */
function withText<K extends string>(entries: readonly Entry[], key: K): (Entry & { readonly [P in K]: string })[] {
  return entries.filter((entry): entry is Entry & { readonly [P in K]: string } => typeof entry[key] === "string")
}

function partOf(method: ListMethod, entries: readonly Entry[]): Partial<Listing> {
  switch (method) {
    case "tools/list":
      return { tools: named(entries) }
    case "prompts/list":
      return { prompts: named(entries) }
    case "resources/list":
      return { resources: withText(entries, "uri") }
    case "resources/templates/list":
      return { resourceTemplates: withText(entries, "uriTemplate") }
  }
}
