/**
 * The requests of svc itself on an open connection: it requests the backend's lists, follows `list_changed`, subscribes to
 * resources on behalf of clients, and pings.
 *
 *  1. Lists are independent: a list that fails keeps its last entries, is requested again with backoff, and affects no
 *     other list. If there are none, svc offers the pages before the error.
 *  2. A failed list does not lose the connection. A connection that ends during a list, or refuses svc, is lost.
 */
import { isDeepStrictEqual } from "node:util"
import { LIST_KEYS } from "../catalog/catalog.ts"
import { checkEntry, checkResultMembers, definitionTexts } from "../catalog/definition-check.ts"
import {
  type CacheHint,
  type DefinitionIssue,
  type Listing,
  type ListingEntry,
  type ListMethod,
  MAX_ISSUES,
  UNANSWERED,
  unknownMembers,
} from "../catalog/listing.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import { Backoff } from "../lib/backoff.ts"
import { type Clock, delay, withTimeout } from "../lib/clock.ts"
import { messageOf, RPC_CODE } from "../lib/errors.ts"
import { numberOf } from "../lib/json.ts"
import type { Log } from "../lib/log.ts"
import { type ErrorObject, isObject, type Params } from "../wire/message.ts"
import { InsufficientScopeError, reasonWithoutName, UnauthorizedError } from "./client-transport.ts"
import { type Connection, subscriptionOf } from "./connection.ts"
import { ownMeta, type Peer } from "./negotiate.ts"
import { PeerError } from "./peer-error.ts"

/** The hooks of a connection that its lister uses. */
export type ListerHooks = {
  /** The listing changed. */
  onlisting(listing: Listing): void
  /** Returns the resource URIs (the backend's own) that clients are subscribed to now. */
  subscriptions(): readonly string[]
  /** The server has reported the change of a list. */
  onlistchanged?(method: ListMethod): void
  /** Returns the log level that clients have set, if any. */
  logLevel(): string | undefined
  /** The listing of the previous connection of the same launch. Its lists stay on offer until this connection has answered. */
  readonly before?: Listing | undefined
  /** The capabilities of the only client of a dedicated connection; undefined for a shared connection. */
  readonly capabilities?: Params | undefined
}
export type ListerDeps = {
  readonly clock: Clock
  readonly log: Log
  readonly version: string
  /** Masks credentials in the text of a server. */
  mask(text: string): string
}

/** Returns when an attempt that starts now continues without lists that have no answer, in milliseconds since the epoch. */
export const listDeadline = (now: number, connectionTimeout: number): number => now + connectionTimeout * LIST_SHARE

export class Lister {
  /** svc's own lists and streams in flight: they do not make a server busy, and delay neither pings nor a stop. */
  running = 0
  private ended = false
  /** The lists that the backend has answered so far. */
  listing: Listing
  /** Lists to request. */
  private readonly stale = new Set<ListMethod>()
  /** Lists to request because of their age alone: without a difference, nothing has changed. */
  private readonly aged = new Set<ListMethod>()
  /** Lists being requested. */
  private readonly loading = new Map<ListMethod, Promise<void>>()
  /** When each list was answered, milliseconds since the epoch. */
  private readonly listedAt = new Map<ListMethod, number>()
  private readonly failures = new Map<ListMethod, Failure>()
  /** Lists that have only the pages before an error. */
  private readonly partial = new Set<ListMethod>()
  private relistScheduled = false
  /** Ends the wait of a publication for the other list of resources; undefined if none waits. */
  private wait: (() => void) | undefined
  private resubscribing: Promise<void> | undefined
  /** When the next new session may be restored at once, milliseconds since the epoch. */
  private restoreAt = 0
  private cancelRestore: (() => void) | undefined
  private readonly restoreBackoff = new Backoff({ first: RESTORE_MS, max: RESTORE_MAX_MS })
  /** The open `subscriptions/listen`. */
  private listening: ChangeStream | undefined
  private readonly relistenBackoff = new Backoff({ first: RELISTEN_MS, max: RELISTEN_MAX_MS })
  private subscribed = new Set<string>()
  /** The last request about a subscription that a legacy server has not answered, and the subscriptions it has refused, by URI. */
  private readonly asked = new Map<string, Promise<unknown>>()
  private readonly refused = new Map<string, Error>()

  constructor(
    private readonly spec: ServerSpec,
    private readonly connection: Connection,
    private readonly peer: Peer,
    private readonly hooks: ListerHooks,
    private readonly deps: ListerDeps,
  ) {
    const { tools = [], prompts = [], resources = [], resourceTemplates = [], entryIssues = {} } = hooks.before ?? {}
    this.listing = {
      ...peer,
      entryIssues: Object.fromEntries(
        Object.entries(entryIssues).filter(([method]) => this.declares(method as ListMethod)),
      ),
      tools: this.declares("tools/list") ? tools : [],
      prompts: this.declares("prompts/list") ? prompts : [],
      resources: this.declares("resources/list") ? resources : [],
      resourceTemplates: this.declares("resources/templates/list") ? resourceTemplates : [],
      hints: {},
    }
    this.logIssues(hooks.before?.handshakeIssues, peer.handshakeIssues ?? [])
  }

  /**
   * Requests all lists that the backend declares. Waits for all of them for PARTIAL_MS, then only for the tools, or for the
   * first list of a backend without tools, until `deadline` (`listDeadline`), and LIST_MS at most. Takes later answers when
   * they arrive. Rejects if the connection is lost or refuses svc meanwhile.
   */
  async list(deadline: number): Promise<void> {
    const { clock } = this.deps
    const ms = Math.min(Math.max(deadline - clock.now(), 0), LIST_MS)
    const methods = METHODS.filter((method) => this.declares(method))
    for (const method of methods) this.stale.add(method)
    const lists = methods.map((method) => this.refresh(method))
    await withTimeout(clock, Math.min(ms, PARTIAL_MS), Promise.all(lists))
    if (this.loading.size > 0 && ms > PARTIAL_MS) {
      // METHODS begins with the tools.
      const needed = this.declares("tools/list") ? lists[0] : Promise.race(lists)
      await withTimeout(clock, ms - PARTIAL_MS, needed ?? Promise.resolve())
    }
    for (const method of this.loading.keys()) if (!this.failures.has(method)) this.fail(method, UNANSWERED)
  }

  /** Subscribes to changes and sets the log level. Resolves when a legacy server has answered; never rejects. */
  async begin(): Promise<void> {
    await Promise.all([this.updateSubscriptions(), this.updateLogLevel()])
  }

  /** Stops: schedules nothing more and publishes nothing more. */
  end(): void {
    this.ended = true
    this.cancelRestore?.()
    this.wait?.()
    for (const { cancel } of this.failures.values()) cancel()
  }

  /** Handles a notification for svc itself. Returns false for a notification for clients. */
  handles(method: string, params: Params): boolean {
    switch (method) {
      case "notifications/tools/list_changed":
        this.listChanged("tools/list")
        return true
      case "notifications/prompts/list_changed":
        this.listChanged("prompts/list")
        return true
      case "notifications/resources/list_changed":
        this.listChanged("resources/list")
        this.listChanged("resources/templates/list")
        return true
      case "notifications/subscriptions/acknowledged":
        // Not of the stream before.
        if (this.listening !== undefined && this.connection.isIdOf(this.listening.number, subscriptionOf(params)))
          this.listening.acknowledge(isObject(params.notifications) ? params.notifications : {})
        return true
      default:
        return subscriptionOf(params) !== undefined && method !== "notifications/resources/updated"
    }
  }

  /**
   * Restores subscriptions, log level and lists in a new session: at once, or after growing delays for a server that keeps
   * forgetting its sessions. A failed list waits for its next attempt.
   */
  resetSession(): void {
    if (this.ended || this.cancelRestore !== undefined) return
    const { clock } = this.deps
    const wait = this.restoreAt - clock.now()
    if (wait <= -RESTORE_MAX_MS) this.restoreBackoff.reset()
    if (wait <= 0) {
      this.restore()
      return
    }
    this.cancelRestore = clock.after(wait, () => {
      this.cancelRestore = undefined
      this.restore()
    })
  }

  /** Resolves with any answer; rejects with a PeerError for an error answer, or after `timeout` milliseconds. */
  async ping(timeout: number): Promise<void> {
    if (this.peer.era === "modern") await this.connection.ask("server/discover", this.params(), timeout)
    else await this.connection.ask("ping", {}, timeout)
  }

  /**
   * Subscribes to the result of `subscriptions()`, once for all calls in a turn: other replicas and restored sessions bring
   * many subscriptions at once. Resolves when a legacy server has answered; never rejects.
   */
  resubscribe(): Promise<void> {
    this.resubscribing ??= Promise.resolve().then(() => {
      this.resubscribing = undefined
      return this.updateSubscriptions()
    })
    return this.resubscribing
  }

  /**
   * Resolves when a server has answered the last request about a subscription: with the reason if it has refused to begin it, or, in
   * the modern era, does not name it in its acknowledgement. Never rejects.
   */
  async decided(uri: string): Promise<Error | undefined> {
    await this.resubscribing
    if (this.peer.era === "modern") {
      const { listening } = this
      const asked = listening?.filter.resourceSubscriptions
      // The connection of the other era may carry the subscription.
      if (!Array.isArray(asked) || !asked.includes(uri)) return undefined
      const honored = await listening?.honored
      if (honored?.has(uri) !== false) return undefined
      return new PeerError(RPC_CODE.invalidParams, `${this.spec.name} does not accept a subscription to this resource`)
    }
    await this.asked.get(uri)
    return this.refused.get(uri)
  }

  /**
   * Sends the log level that clients have set. Modern servers receive it with each request. Resolves when the server has
   * answered, with the reason if it has refused; never rejects.
   */
  async updateLogLevel(): Promise<Error | undefined> {
    const level = this.hooks.logLevel()
    const { era, capabilities } = this.peer
    if (this.ended || level === undefined || era === "modern" || capabilities.logging === undefined) return undefined
    const { name, tuning } = this.spec
    try {
      await this.connection.ask("logging/setLevel", { level }, tuning.requestTimeout)
      return undefined
    } catch (error) {
      this.deps.log.debug(`logging/setLevel: ${messageOf(error)}`, { server: name })
      return error instanceof Error ? error : new Error(messageOf(error))
    }
  }

  // ---

  private async updateSubscriptions(): Promise<void> {
    if (this.ended) return
    if (this.peer.era === "modern") {
      const filter = filterOf(this.peer.capabilities, this.hooks.subscriptions())
      // Each replacement of the stream may lose notifications that are sent meanwhile.
      if (this.listening !== undefined && isDeepStrictEqual(filter, this.listening.filter)) return
      this.relistenBackoff.reset()
      this.listen()
      return
    }
    if (!hasMember(this.peer.capabilities.resources, "subscribe")) return
    const wanted = new Set(this.hooks.subscriptions())
    const timeout = this.spec.tuning.requestTimeout
    const change = async (method: string, uri: string) => {
      try {
        await this.connection.ask(method, { uri }, timeout)
      } catch (error) {
        this.deps.log.warn(`${method}: ${messageOf(error)}`, { server: this.spec.name })
        if (method !== "resources/subscribe" || !this.subscribed.delete(uri)) return
        this.refused.set(uri, error instanceof Error ? error : new Error(messageOf(error)))
      }
    }
    for (const uri of this.refused.keys()) if (!wanted.has(uri)) this.refused.delete(uri)
    const added = [...wanted].filter((uri) => !this.subscribed.has(uri) && !this.refused.has(uri))
    const removed = [...this.subscribed].filter((uri) => !wanted.has(uri))
    this.subscribed = new Set([...wanted].filter((uri) => !this.refused.has(uri)))
    const ask = (method: string) => (uri: string) => {
      const answered = change(method, uri).finally(() => {
        if (this.asked.get(uri) === answered) this.asked.delete(uri)
      })
      this.asked.set(uri, answered)
      return answered
    }
    await Promise.all([...added.map(ask("resources/subscribe")), ...removed.map(ask("resources/unsubscribe"))])
  }

  private restore(): void {
    this.restoreAt = this.deps.clock.now() + this.restoreBackoff.next()
    this.subscribed.clear()
    this.refused.clear()
    void this.begin()
    for (const method of METHODS) if (this.declares(method) && !this.failures.has(method)) this.relist(method)
  }

  private declares(method: ListMethod): boolean {
    return this.peer.capabilities[CAPABILITIES[method]] !== undefined
  }

  private params(meta?: Params): Params {
    const { version } = this.deps
    if (this.peer.era === "modern") return { _meta: { ...meta, ...ownMeta(version, this.hooks.capabilities) } }
    return meta === undefined ? {} : { _meta: meta }
  }

  /**
   * Requests all pages of a list, and checks their entries. A server with the capability but without the method has an empty
   * list. If a later page fails, returns the pages before it, and the failure.
   */
  private async requestList(method: ListMethod, meta?: Params) {
    const entries: ListingEntry[] = []
    const issues: DefinitionIssue[] = []
    let failure: unknown
    let steps = 0
    let hint: CacheHint | undefined
    let members: Params | undefined
    let cursor: string | undefined
    for (let page = 0; page < MAX_PAGES; page++) {
      let result: Params
      try {
        const params = cursor === undefined ? this.params(meta) : { ...this.params(meta), cursor }
        this.running++
        const answer = this.connection.ask(method, params, this.spec.tuning.requestTimeout)
        result = await answer.finally(() => this.running--)
      } catch (error) {
        if (error instanceof PeerError && (error.code === RPC_CODE.methodNotFound || !this.declares(method))) break
        if (page === 0 || error instanceof UnauthorizedError) throw error
        failure = error
        break
      }
      const list = listIn(result, LIST_KEYS[method])
      if (list === undefined) throw new Error(`answered without a list of ${LIST_KEYS[method]}`)
      for (const [at, given] of list.entries()) {
        const checked = checkEntry(method, this.peer.era, given, at + 1)
        if (checked.entry !== undefined) entries.push(checked.entry)
        if (issues.length < MAX_ISSUES) issues.push(...checked.issues)
        steps += checked.steps
        if (steps < MAX_STEPS) continue
        steps = 0
        await delay(this.deps.clock, 0)
      }
      hint = mergeHints(hint, result)
      if (page === 0) {
        members = unknownMembers(result, [LIST_KEYS[method], "nextCursor"])
        if (members !== undefined) members = checkResultMembers(members)
      }
      if (typeof result.nextCursor !== "string" || result.nextCursor === cursor) break
      cursor = result.nextCursor
    }
    return { entries, hint, members, issues: issues.slice(0, MAX_ISSUES), failure }
  }

  private listChanged(method: ListMethod): void {
    this.relist(method)
    this.hooks.onlistchanged?.(method)
  }

  /**
   * Requests a list with the `_meta` of a client's request, and returns the listing with this answer, for this client alone. Rejects
   * with the server's refusal.
   */
  async listWith(method: ListMethod, meta: Params): Promise<Listing> {
    if (!this.declares(method)) return this.listing
    const { entries, hint, members, failure } = await this.requestList(method, meta)
    if (failure !== undefined) throw failure
    return {
      ...this.listing,
      ...partOf(method, entries),
      listMembers: { ...this.listing.listMembers, [method]: members },
      hints: { ...this.listing.hints, [method]: hint },
    }
  }

  /**
   * Requests a list again that is too old for a client which asks now. Returns a promise to wait for the new list, for
   * PARTIAL_MS at most; undefined if the client gets the present one.
   *
   *  1. A list with a `ttlMs` is too old after that time, but not within FRESH_MS. If the server reports changes, `ttlMs: 0`
   *     says nothing: it is what servers write that know no time.
   *  2. A list without one, of a server that reports no changes, is requested again after UNREPORTED_MS; the client does not wait,
   *     and is told if it has changed. server: Caching.
   */
  freshen(method: ListMethod): Promise<unknown> | undefined {
    const at = this.listedAt.get(method)
    if (this.ended || at === undefined || this.failures.has(method)) return undefined
    const age = this.deps.clock.now() - at
    const reports = hasMember(this.peer.capabilities[CAPABILITIES[method]], "listChanged")
    const ttl = this.listing.hints?.[method]?.ttlMs
    const isTimed = ttl !== undefined && (ttl > 0 || !reports)
    if (isTimed ? age <= Math.max(ttl, FRESH_MS) : reports || age <= UNREPORTED_MS) return undefined
    if (!this.loading.has(method) && !this.stale.has(method)) {
      this.aged.add(method)
      this.stale.add(method)
    }
    const done = this.refresh(method).catch(() => undefined)
    return isTimed ? withTimeout(this.deps.clock, PARTIAL_MS, done) : undefined
  }

  /** Requests a list again, because it may have changed. */
  relist(method: ListMethod): void {
    if (this.ended) return
    this.stale.add(method)
    this.aged.delete(method)
    if (this.relistScheduled) return
    this.relistScheduled = true
    // A server that changes many things at once notifies many times.
    this.deps.clock.after(RELIST_MS, () => {
      this.relistScheduled = false
      for (const one of this.stale)
        this.refresh(one).catch((error: unknown) => {
          if (!this.ended) this.deps.log.warn(`${one}: ${messageOf(error)}`, { server: this.spec.name })
        })
    })
  }

  /** Requests a list until no later change is known, or until it fails. Rejects if the connection is of no more use. */
  private refresh(method: ListMethod): Promise<void> {
    const running = this.loading.get(method)
    if (running !== undefined) return running
    const { promise, resolve } = Promise.withResolvers<void>()
    this.loading.set(method, promise)
    resolve(this.loadUntilFresh(method))
    return promise
  }

  private async loadUntilFresh(method: ListMethod): Promise<void> {
    try {
      while (!this.ended && this.stale.delete(method)) if (!(await this.load(method))) break
    } finally {
      this.loading.delete(method)
      if (this.wait !== undefined && !RESOURCE_LISTS.some((one) => this.loading.has(one))) this.announce()
    }
  }

  /** Requests a list. Returns whether it succeeded. */
  private async load(method: ListMethod): Promise<boolean> {
    const isAged = this.aged.delete(method) && !this.failures.has(method)
    try {
      const { entries, hint, members, issues, failure } = await this.requestList(method)
      // The last entries of a list are more than a part of the new ones.
      if (failure !== undefined && this.listing[LIST_KEYS[method]].length > 0 && !this.partial.has(method))
        throw failure
      this.logIssues(this.listing.entryIssues?.[method], issues)
      const part = {
        ...partOf(method, entries),
        entryIssues: { ...this.listing.entryIssues, [method]: issues },
        ...((members ?? this.listing.listMembers?.[method]) !== undefined && {
          listMembers: { ...this.listing.listMembers, [method]: members },
        }),
        ...(hint && { hints: { ...this.listing.hints, [method]: hint } }),
      }
      if (failure !== undefined) {
        this.partial.add(method)
        this.fail(method, reasonWithoutName(this.spec.name, failure), part)
        this.stale.delete(method)
        return false
      }
      this.partial.delete(method)
      this.listedAt.set(method, this.deps.clock.now())
      // A listing with new entries is a change for clients, even if they are equal.
      const former = this.listing[LIST_KEYS[method]]
      const isSame =
        isAged && isDeepStrictEqual([former, this.listing.hints?.[method]], [part[LIST_KEYS[method]], hint])
      if (!isSame) this.succeed(method, part)
      return true
    } catch (error) {
      const refused = error instanceof UnauthorizedError && !(error instanceof InsufficientScopeError)
      if (this.ended || refused) throw error
      this.fail(method, reasonWithoutName(this.spec.name, error))
      // The next attempt covers what has changed meanwhile.
      this.stale.delete(method)
      return false
    }
  }

  /**
   * Keeps the last entries of a list, or takes those of `part`, records why it could not be requested, and schedules the next
   * attempt.
   */
  private fail(method: ListMethod, reason: string, part?: Partial<Listing>): void {
    const known = this.failures.get(method)
    known?.cancel()
    const backoff = known?.backoff ?? new Backoff({ first: RETRY_MS, max: RETRY_MAX_MS })
    const cancel = this.deps.clock.after(backoff.next(), () => {
      // A request in flight may still be answered.
      if (!this.loading.has(method)) this.relist(method)
    })
    this.failures.set(method, { backoff, cancel })
    if (known === undefined)
      this.deps.log.warn(`${method} failed: ${reason}; svc retries until it succeeds`, { server: this.spec.name })
    // Masks the whole text: the redactor would not recognize half a secret.
    const excerpt = this.deps.mask(reason).slice(0, MAX_REASON)
    if (part !== undefined || this.listing.failing?.[method] !== excerpt)
      this.publish(method, { ...part, failing: { ...this.listing.failing, [method]: excerpt } })
  }

  /** Logs what svc repaired and left out, if it differs from before. */
  private logIssues(before: readonly DefinitionIssue[] = [], now: readonly DefinitionIssue[]): void {
    if (now.length === 0 || isDeepStrictEqual(before, now)) return
    for (const text of definitionTexts(now)) this.deps.log.warn(this.deps.mask(text), { server: this.spec.name })
  }

  private succeed(method: ListMethod, part: Partial<Listing>): void {
    this.failures.get(method)?.cancel()
    if (this.failures.delete(method)) this.deps.log.info(`${method} succeeded again`, { server: this.spec.name })
    const { [method]: _reason, ...failing } = this.listing.failing ?? {}
    this.publish(method, { ...part, failing })
  }

  private publish(method: ListMethod, part: Partial<Listing>): void {
    this.listing = { ...this.listing, ...part }
    if (this.ended) return
    const other = RESOURCE_LISTS.find((one) => one !== method)
    const waits = RESOURCE_LISTS.includes(method) && other !== undefined && this.loading.has(other)
    // A notification is about both lists of resources. Clients hear of one change once.
    if (waits) this.wait ??= this.deps.clock.after(PARTIAL_MS, () => this.announce())
    else if (this.wait === undefined) this.announce()
  }

  private announce(): void {
    this.wait?.()
    this.wait = undefined
    if (!this.ended) this.hooks.onlisting(this.listing)
  }

  /** Opens the single stream of a modern server for all changes. Opens it again when the subscriptions change or it ends. */
  private listen(): void {
    const { connection, peer, deps } = this
    const filter = filterOf(peer.capabilities, this.hooks.subscriptions())
    if (this.listening !== undefined) {
      const { number, end } = this.listening
      this.listening = undefined
      end()
      connection.cancel(number, new Error("replaced by a new subscription"))
    }
    if (filter === undefined) return
    const { number, outcome } = connection.request({
      method: "subscriptions/listen",
      params: { ...this.params(), notifications: filter },
      caller: undefined,
      timeout: Number.POSITIVE_INFINITY,
    })
    const { promise: honored, resolve } = Promise.withResolvers<ReadonlySet<unknown> | undefined>()
    const acknowledge = ({ resourceSubscriptions: uris }: Params) => resolve(new Set(Array.isArray(uris) ? uris : []))
    const listening = { number, filter, honored, acknowledge, end: () => resolve(undefined) }
    this.listening = listening
    this.running++
    const onend = (error?: ErrorObject) => {
      this.running--
      listening.end()
      if (this.ended || this.listening !== listening) return
      this.listening = undefined
      // A server that lacks the method, or refuses the filter, always will. Any other error may be over next time.
      if (error !== undefined && FINAL_REFUSALS.includes(Number(error.code))) return
      deps.clock.after(this.relistenBackoff.next(), () => {
        if (!this.ended && this.listening === undefined) this.listen()
      })
    }
    outcome.then(
      (answer) => onend(answer.kind === "message" ? answer.message.error : undefined),
      () => onend(),
    )
  }
}

// ---

/** An open `subscriptions/listen`. */
type ChangeStream = {
  readonly number: number
  readonly filter: Params
  /** The resources that the server has named in its acknowledgement; undefined if the stream has ended before. */
  readonly honored: Promise<ReadonlySet<unknown> | undefined>
  acknowledge(notifications: Params): void
  end(): void
}

/** A list that failed. `cancel` cancels the next attempt. */
type Failure = { readonly backoff: Backoff; cancel(): void }

/** The capability that declares each list. */
const CAPABILITIES = {
  "tools/list": "tools",
  "prompts/list": "prompts",
  "resources/list": "resources",
  "resources/templates/list": "resources",
} as const satisfies Readonly<Record<ListMethod, string>>
const METHODS = Object.keys(CAPABILITIES) as ListMethod[]
/** The lists that `notifications/resources/list_changed` is about. */
const RESOURCE_LISTS: readonly ListMethod[] = ["resources/list", "resources/templates/list"]
const MAX_PAGES = 1000
/** The most members and values that svc checks in one turn of the event loop. */
const MAX_STEPS = 20_000
const RETRY_MS = 1000
const RETRY_MAX_MS = 60_000
/** Characters shown of a reason: the server chooses the text. */
const MAX_REASON = 500
const RELIST_MS = 20
/** The age at which a list is fresh enough for any client. */
const FRESH_MS = 1000
/** The age of a list of which the server says nothing, from which on svc requests it again for a client. */
const UNREPORTED_MS = 60_000
/** The time after which svc offers a server without its slow lists. */
const PARTIAL_MS = 2000
/** The time after which svc offers a server without any list that has no answer, tools included. */
const LIST_MS = 30_000
/** The share of the connection timeout that lists may take: the rest is for the later steps. */
const LIST_SHARE = 0.9
const RESTORE_MS = 1000
const RESTORE_MAX_MS = 60_000
/** The errors after which svc does not ask for a stream again. */
const FINAL_REFUSALS: readonly number[] = [RPC_CODE.methodNotFound, RPC_CODE.invalidParams]
const RELISTEN_MS = 1000
const RELISTEN_MAX_MS = 30_000

/** Returns the filter of a `subscriptions/listen`; undefined if there is nothing to listen to. */
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

/** Returns the list in a result; undefined if there is none. Some servers write an empty list as null, or as an empty object. */
function listIn(result: Params, key: string): readonly unknown[] | undefined {
  const list = result[key]
  if (list === null || (isObject(list) && Object.keys(list).length === 0)) return []
  return Array.isArray(list) ? list : undefined
}

const named = (entries: readonly ListingEntry[]) => withText(entries, "name")

/** Leaves out entries without the member that svc needs. */
function withText<K extends string>(
  entries: readonly ListingEntry[],
  key: K,
): (ListingEntry & { readonly [P in K]: string })[] {
  return entries.filter(
    (entry): entry is ListingEntry & { readonly [P in K]: string } => typeof entry[key] === "string",
  )
}

/** Returns the shortest time and the most private scope of the pages of a list. server: Caching. */
function mergeHints(before: CacheHint | undefined, page: Params): CacheHint | undefined {
  const ttl = numberOf(page.ttlMs)
  if (ttl === undefined) return before
  const ttlMs = Math.min(Math.max(0, Math.floor(ttl)), Number.MAX_SAFE_INTEGER)
  const cacheScope = page.cacheScope === "public" && before?.cacheScope !== "private" ? "public" : "private"
  return { ttlMs: Math.min(ttlMs, before?.ttlMs ?? ttlMs), cacheScope }
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
