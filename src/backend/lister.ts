/**
 * What svc itself does on an open connection: it lists what the backend offers and follows its changes, subscribes to
 * resources for its clients, and pings.
 *
 *  1. Each list stands alone: one that fails is asked for again with backoff, keeps what it held, and costs no other list.
 *  2. A list that fails is no loss of the connection. A connection that ends while it lists, or refuses svc, is.
 */
import { LIST_KEYS } from "../catalog/catalog.ts"
import type { Listing, ListingEntry, ListMethod } from "../catalog/listing.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import { type Clock, withTimeout } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import { numberOf } from "../lib/json.ts"
import type { Log } from "../lib/log.ts"
import { isObject, type Params } from "../wire/message.ts"
import { type Connection, PeerError, subscriptionOf } from "./connection.ts"
import { InsufficientScopeError, UnauthorizedError } from "./link.ts"
import { ownMeta, type Peer } from "./negotiate.ts"

/** What a lister needs of the hooks and the deps of its connection. */
export type ListerHooks = {
  /** The backend offers something else than before. */
  onlisting(listing: Listing): void
  /** The resource URIs (the backend's own) that clients are subscribed to at this moment. */
  subscriptions(): readonly string[]
  /** The log level that clients want at this moment, if they want one. */
  logLevel(): string | undefined
  /** What the one client can do that the connection is for; undefined where it is for all. */
  readonly capabilities?: Params | undefined
}
export type ListerDeps = { readonly clock: Clock; readonly log: Log; readonly version: string }

export class Lister {
  /** Requests of svc's own that run: they make no server busy, and hold up neither its pings nor its end. */
  running = 0
  private ended = false
  /** What the backend offers, as far as it has said. */
  listing: Listing
  /** Lists that are to be asked for. */
  private readonly stale = new Set<ListMethod>()
  /** Lists that are being asked for. */
  private readonly asking = new Set<ListMethod>()
  private readonly failures = new Map<ListMethod, Failure>()
  private relisting = false
  private listening: number | undefined
  private subscribed = new Set<string>()

  constructor(
    private readonly spec: ServerSpec,
    private readonly connection: Connection,
    private readonly peer: Peer,
    private readonly hooks: ListerHooks,
    private readonly deps: ListerDeps,
  ) {
    this.listing = { ...peer, tools: [], prompts: [], resources: [], resourceTemplates: [], hints: {} }
  }

  /**
   * Asks for all lists that the backend declares, and waits for them at most `ms` milliseconds; one that comes later counts
   * when it comes. Rejects where the connection was lost or refused svc meanwhile.
   */
  async list(ms: number): Promise<void> {
    const methods = METHODS.filter((method) => this.declares(method))
    for (const method of methods) this.stale.add(method)
    await withTimeout(this.deps.clock, ms, Promise.all(methods.map((method) => this.refresh(method))))
    for (const method of this.asking) if (!this.failures.has(method)) this.fail(method, "has not answered yet")
  }

  /** Opens what keeps the listing true. */
  begin(): void {
    this.resubscribe()
    this.updateLogLevel()
  }

  end(): void {
    this.ended = true
    for (const { cancel } of this.failures.values()) cancel()
  }

  /** Notifications that are svc's business. */
  handles(method: string, params: Params): boolean {
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

  resetSession(): void {
    this.subscribed.clear()
    this.resubscribe()
    this.updateLogLevel()
    for (const method of METHODS) if (this.declares(method)) this.relist(method)
  }

  async ping(timeout: number): Promise<void> {
    if (this.peer.era === "modern") await this.connection.ask("server/discover", this.params(), timeout)
    else await this.connection.ask("ping", {}, timeout)
  }

  resubscribe(): void {
    if (this.ended) return
    if (this.peer.era === "modern") {
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

  /** Asks for the log level that clients want. modern servers are told with each request. */
  updateLogLevel(): void {
    const level = this.hooks.logLevel()
    const { era, capabilities } = this.peer
    if (this.ended || level === undefined || era === "modern" || capabilities.logging === undefined) return
    const { name, tuning } = this.spec
    this.connection
      .ask("logging/setLevel", { level }, tuning.requestTimeout)
      .catch((error: unknown) => this.deps.log.debug(`logging/setLevel: ${messageOf(error)}`, { server: name }))
  }

  // ---

  private declares(method: ListMethod): boolean {
    return this.peer.capabilities[CAPABILITIES[method]] !== undefined
  }

  private params(): Params {
    return this.peer.era === "modern" ? { _meta: ownMeta(this.deps.version, this.hooks.capabilities) } : {}
  }

  /** One list, all pages. A server that has the capability but not the method offers nothing of the kind. */
  private async entriesOf(method: ListMethod) {
    const entries: ListingEntry[] = []
    let hint: { ttlMs: number; cacheScope: "public" | "private" } | undefined
    let cursor: string | undefined
    for (let page = 0; page < MAX_PAGES; page++) {
      let result: Params
      try {
        const params = cursor === undefined ? this.params() : { ...this.params(), cursor }
        this.running++
        const asked = this.connection.ask(method, params, this.spec.tuning.requestTimeout)
        result = await asked.finally(() => this.running--)
      } catch (error) {
        if (error instanceof PeerError && (error.code === -32601 || !this.declares(method))) break
        throw error
      }
      const list = result[LIST_KEYS[method]]
      // Some servers write an empty list as null.
      if (list !== null && !Array.isArray(list)) throw new Error(`answered without a list of ${LIST_KEYS[method]}`)
      entries.push(...(list ?? []).filter(isObject))
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
    this.deps.clock.after(RELIST_MS, () => {
      this.relisting = false
      for (const one of this.stale)
        this.refresh(one).catch((error: unknown) => {
          if (!this.ended) this.deps.log.warn(`${one}: ${messageOf(error)}`, { server: this.spec.name })
        })
    })
  }

  /** Asks for a list until it is as the backend said last. Rejects where the connection is of no more use. */
  private async refresh(method: ListMethod): Promise<void> {
    if (this.asking.has(method)) return
    this.asking.add(method)
    try {
      while (!this.ended && this.stale.delete(method)) await this.load(method)
    } finally {
      this.asking.delete(method)
    }
  }

  private async load(method: ListMethod): Promise<void> {
    try {
      const { entries, hint } = await this.entriesOf(method)
      this.succeed(method, {
        ...partOf(method, entries),
        ...(hint && { hints: { ...this.listing.hints, [method]: hint } }),
      })
    } catch (error) {
      const refused = error instanceof UnauthorizedError && !(error instanceof InsufficientScopeError)
      if (this.ended || refused) throw error
      const own = `${this.spec.name}: `
      const message = messageOf(error)
      this.fail(method, message.startsWith(own) ? message.slice(own.length) : message)
    }
  }

  /** Keeps what a list held and says why it is not told anew. */
  private fail(method: ListMethod, reason: string): void {
    const known = this.failures.get(method)
    known?.cancel()
    const attempts = (known?.attempts ?? 0) + 1
    const ms = Math.min(RETRY_MS * 2 ** (attempts - 1), RETRY_MAX_MS)
    const cancel = this.deps.clock.after(ms, () => {
      // One that has not answered yet still may.
      if (!this.asking.has(method)) this.relist(method)
    })
    this.failures.set(method, { attempts, cancel })
    if (known === undefined)
      this.deps.log.warn(`${method} failed: ${reason}; svc asks again until it is answered`, { server: this.spec.name })
    const shown = reason.slice(0, MAX_REASON)
    if (this.listing.failing?.[method] !== shown) this.offer({ failing: { ...this.listing.failing, [method]: shown } })
  }

  private succeed(method: ListMethod, part: Partial<Listing>): void {
    this.failures.get(method)?.cancel()
    if (this.failures.delete(method)) this.deps.log.info(`${method} is answered again`, { server: this.spec.name })
    const { [method]: _reason, ...failing } = this.listing.failing ?? {}
    this.offer({ ...part, failing })
  }

  private offer(part: Partial<Listing>): void {
    this.listing = { ...this.listing, ...part }
    if (!this.ended) this.hooks.onlisting(this.listing)
  }
  /** modern: one stream for all that changes; opened anew when the wishes change or it ends. */
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
    this.running++
    const again = (answered: boolean) => {
      this.running--
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

/** A list that could not be had: how often in a row, and what ends the wait for the next attempt. */
type Failure = { readonly attempts: number; cancel(): void }

/** What a backend declares when it has a list. */
const CAPABILITIES = {
  "tools/list": "tools",
  "prompts/list": "prompts",
  "resources/list": "resources",
  "resources/templates/list": "resources",
} as const satisfies Readonly<Record<ListMethod, string>>
const METHODS = Object.keys(CAPABILITIES) as ListMethod[]
const MAX_PAGES = 1000
const RETRY_MS = 1000
const RETRY_MAX_MS = 60_000
/** A server chooses the text. */
const MAX_REASON = 500
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

const named = (entries: readonly ListingEntry[]) => withText(entries, "name")

/** Entries that lack the member svc must have are left out. */
function withText<K extends string>(
  entries: readonly ListingEntry[],
  key: K,
): (ListingEntry & { readonly [P in K]: string })[] {
  return entries.filter(
    (entry): entry is ListingEntry & { readonly [P in K]: string } => typeof entry[key] === "string",
  )
}

function partOf(method: ListMethod, entries: readonly ListingEntry[]): Partial<Listing> {
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
