/**
 * The one mutable thing: which backends run, what they offer together, and who listens. It handles one change at a time;
 * everybody else reads its catalog and its snapshot.
 */
import { isDeepStrictEqual } from "node:util"
import type { Caller } from "../backend/attribution.ts"
import { Backend, type BackendDeps } from "../backend/backend.ts"
import { type OpenDeps, openConnection } from "../backend/open-connection.ts"
import {
  buildCatalog,
  type Catalog,
  type CatalogSource,
  EMPTY_CATALOG,
  LIST_KEYS,
  withOwn,
} from "../catalog/catalog.ts"
import { failuresOf, filledFrom, type Listing } from "../catalog/listing.ts"
import type { Preset } from "../config/presets.ts"
import type { Plan, ServerSpec } from "../config/server-spec.ts"
import { type Clock, waitWhile } from "../lib/clock.ts"
import type { Issue } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import type { ToolPins } from "../store/tool-pins.ts"
import { asText, type Params } from "../wire/message.ts"
import { FirstAttempts } from "./first-attempts.ts"
import { Readiness } from "./readiness.ts"
import { SessionBackends } from "./session-backends.ts"
import { describeBackend, type Snapshot } from "./snapshot.ts"
import { Subscriptions } from "./subscriptions.ts"
import { type Ownership, TaskOwners } from "./task-owners.ts"
import { type PinningFindings, ToolPinning } from "./tool-pinning.ts"

/** Who is told of changes. */
export type Observer = {
  /** The catalog is another one, or what is selected from it: for one session alone, or for all. */
  oncatalog(session?: object): void
  /** A notification of a backend that is for whoever wants such. */
  onnotification(spec: ServerSpec, method: string, params: Params): void
}

export type AgentDeps = OpenDeps & {
  readonly clock: Clock
  readonly log: Log
  readonly startedAt: number
  readonly pins: ToolPins
}

/** What applying a plan did, by backend id. */
export type Applied = {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  readonly replaced: readonly string[]
  readonly retuned: readonly string[]
}

/** What a session's own processes list, by backend, and the catalog that comes of it and of the shared one. */
type Own = { readonly listings: Map<string, Listing>; shared: Catalog | undefined; catalog: Catalog }

export class Agent {
  catalog: Catalog = EMPTY_CATALOG
  /** Named selections of what is offered. */
  presets: ReadonlyMap<string, Preset> = new Map()
  /** What backends speak of by an id alone. */
  readonly taskOwners = new TaskOwners()
  readonly readiness: Readiness
  /** False until a plan was applied. */
  loaded = false
  private plan: Plan | undefined
  private problems: readonly Issue[] = []
  private secretValues: readonly string[] = []
  private readonly backends = new Map<string, Backend>()
  private readonly observers: Observer[] = []
  private readonly subscriptions = new Subscriptions()
  /** The log level that backends were told last. */
  private sentLevel: string | undefined
  /** The ends of what was stopped, by the id that others may have by now. */
  private readonly ending = new Map<string, Promise<void>>()
  private readonly pendingStops = new Set<Promise<void>>()
  private current: Snapshot | undefined
  private rebuilding = false
  private readonly sessionBackends: SessionBackends
  private readonly owned = new Map<object, Own>()
  private initialLoad: Promise<void> | undefined
  private readonly firstAttempts: FirstAttempts
  private readonly toolPinning: ToolPinning
  private closed = false

  constructor(private readonly deps: AgentDeps) {
    this.firstAttempts = new FirstAttempts(deps.clock)
    this.toolPinning = new ToolPinning(deps.pins, deps.log)
    this.readiness = new Readiness(deps.clock)
    this.sessionBackends = new SessionBackends({
      clock: deps.clock,
      tuningOf: (id) => this.backends.get(id)?.spec.tuning,
      isListening: (id, session) => this.subscriptions.uris(id, session).length > 0,
      tasksOf: (id, session) =>
        this.taskOwners.of(session, "task").flatMap((claim) => (claim.backend === id ? [claim.id] : [])),
      onend: (end) => this.trackStop(end),
      onunused: ({ name }, why) => deps.log.info(`the process of a session ${why}`, { server: name }),
    })
  }

  /** Makes what runs equal to `plan`: what has not changed is not touched. */
  apply(plan: Plan): Applied {
    const applied = {
      added: [] as string[],
      removed: [] as string[],
      replaced: [] as string[],
      retuned: [] as string[],
    }
    if (this.closed) return applied
    const order = this.plan?.specs.map(({ id }) => id)
    this.plan = plan
    this.loaded = true
    this.problems = plan.issues
    this.secretValues = [...new Set(plan.specs.flatMap(({ secrets }) => secrets))]
    const wanted = new Map(plan.specs.map((spec) => [spec.id, spec]))
    for (const [id, backend] of this.backends) {
      if (wanted.has(id)) continue
      applied.removed.push(id)
      this.remove(id, backend)
    }
    for (const spec of plan.specs) {
      const backend = this.backends.get(spec.id)
      if (backend === undefined) {
        applied.added.push(spec.id)
        this.add(spec)
      } else if (!isDeepStrictEqual(backend.spec.launch, spec.launch)) {
        applied.replaced.push(spec.id)
        if (backend.spec.launch.transport === "stdio") this.remove(spec.id, backend)
        else this.retire(spec.id, backend)
        this.add(spec)
      } else if (!isDeepStrictEqual(backend.spec, spec)) {
        applied.retuned.push(spec.id)
        backend.retune(spec)
        this.sessionBackends.retune(spec.id)
      }
    }
    this.current = undefined
    const quiet = Object.values(applied).every((ids) => ids.length === 0)
    if (
      !quiet ||
      !isDeepStrictEqual(
        order,
        plan.specs.map(({ id }) => id),
      )
    )
      this.changed()
    this.checkFirstAttempts()
    return applied
  }

  /** Keeps what runs and remembers what is wrong with the documents. */
  refuse(issues: readonly Issue[]): void {
    this.problems = [...issues, ...(this.plan?.issues ?? [])]
    this.current = undefined
  }

  /** Other presets, from now on. */
  setPresets(presets: ReadonlyMap<string, Preset>): void {
    this.presets = presets
    this.selectionChanged()
  }

  /** What clients see of the catalog may be something else from now on. */
  selectionChanged(): void {
    for (const observer of this.observers) observer.oncatalog()
  }

  /** The backends of this id, name or slug: several where it is a template's. */
  find(name: string): readonly Backend[] {
    const exact = this.backends.get(name)
    if (exact !== undefined) return [exact]
    return this.all().filter(({ spec }) => spec.name === name || spec.slug === name)
  }

  backend(id: string): Backend | undefined {
    return this.backends.get(id)
  }

  /** Whether a call runs on it. */
  isBusy(id: string): boolean {
    return this.running().some((backend) => backend.spec.id === id && isBusy(backend))
  }

  /** Resolves when nothing is left of what was stopped under this id. */
  async whenStopped(id: string): Promise<void> {
    await this.ending.get(id)
  }

  /** A server's authorization has come, changed or gone. */
  authorized(name: string): void {
    for (const backend of this.running()) if (backend.spec.name === name) backend.authorized()
  }

  /** An operator's restart, of the processes that sessions have of their own too: their next call starts them. */
  restart(backend: Backend): void {
    this.stopDedicated({ id: backend.spec.id })
    backend.restart()
  }

  /** All backends, in the order they were added. */
  all(): readonly Backend[] {
    return [...this.backends.values()]
  }

  /** Whether a tool is kept from clients because it is not what it was. */
  isQuarantined(backend: Backend, tool: string): boolean {
    return this.findings(backend)?.quarantined.has(tool) === true
  }

  /** Takes the tools of a server, or its one tool, for what they should be. Gives those that had changed. */
  approve(name: string, tool: string | undefined): readonly string[] {
    const approved = this.toolPinning.approve(
      this.find(name).map(({ spec }) => spec.id),
      tool,
    )
    if (approved.length > 0) this.changed()
    return approved
  }

  snapshot(): Snapshot {
    this.current ??= this.takeSnapshot()
    return this.current
  }

  observe(observer: Observer): void {
    this.observers.push(observer)
  }

  /** Resolves when the first round of loading is over. Set while it runs. */
  get loading(): Promise<void> | undefined {
    return this.initialLoad
  }

  /** Whether the backends are being ended, or have been. */
  get stopping(): boolean {
    return this.closed
  }

  /** Starts the wait for the first round of loading: of everything, at most `ms` milliseconds. */
  awaitInitialLoad(ms: number): void {
    this.initialLoad = this.whenLoaded(undefined, ms).then(() => {
      this.initialLoad = undefined
    })
  }

  /**
   * Resolves when each of these backends (of all where none are named) was connected, failed or refused once and the
   * catalog has what came of it, or after `ms` milliseconds.
   */
  whenLoaded(ids: ReadonlySet<string> | undefined, ms: number): Promise<void> {
    const over = this.firstAttempts.wait(ids, ms)
    this.checkFirstAttempts()
    return over
  }

  /**
   * For a backend that is away and may be back within `ms` milliseconds, itself or the one that replaces it meanwhile:
   * resolves when it is, when it will not be, or when they are over. Undefined where there is nothing to wait for.
   */
  returning(id: string, ms: number): Promise<void> | undefined {
    const backend = this.backends.get(id)
    if (backend === undefined || backend.published !== undefined || ms <= 0) return undefined
    const until = this.deps.clock.now() + ms
    return this.readiness
      .whenBack(backend, ms)
      ?.then(() => (this.backends.get(id) === backend ? undefined : this.returning(id, until - this.deps.clock.now())))
  }

  subscribe(id: string, uri: string, session: object): void {
    if (this.subscriptions.subscribe(id, uri, session)) this.backends.get(id)?.published?.open.resubscribe()
    this.dedicatedOf(session).get(id)?.published?.open.resubscribe()
  }

  unsubscribe(id: string, uri: string, session: object): void {
    if (this.subscriptions.unsubscribe(id, uri, session)) this.backends.get(id)?.published?.open.resubscribe()
    this.dedicatedOf(session).get(id)?.published?.open.resubscribe()
  }

  /**
   * A session's own process of a server with `isolation: "session"`, connected: started at its first call and ended with
   * the session, with the server, or when the session has not used it for long. Tells `caller` if what an earlier process
   * held is lost. Not connected where it could not be started, and a text that says why where there is no room for it.
   */
  async dedicated(
    id: string,
    owner: Caller,
    caller: Caller,
    capabilities: Params,
  ): Promise<Backend | string | undefined> {
    const { session } = owner
    const full = () => this.sessionBackends.find(id, session) === undefined && this.sessionBackends.isFull(id)
    while (full()) if (!(await this.sessionBackends.makeRoom(id))) return this.sessionBackends.refusal(id)
    const shared = this.backends.get(id)
    if (shared === undefined || this.closed) return undefined
    let backend = this.sessionBackends.find(id, session)
    if (backend === undefined) {
      backend = this.create(shared.spec, { caller: owner, capabilities }, undefined, (changed) =>
        this.relisted(id, session, changed),
      )
      const lost = this.sessionBackends.add(id, owner, backend)
      if (lost !== undefined) {
        const data = `${shared.spec.name}: the process of this session ${lost}; a new one is started, and what the old one held is lost`
        caller.notify("notifications/message", { level: "warning", logger: "svc", data })
      }
      backend.start()
    }
    // What a call starts, the next one starts again.
    else if (backend.state.kind === "failed") backend.restart()
    this.sessionBackends.use(backend)
    await this.readiness.whenSettled(backend)
    this.sessionBackends.use(backend)
    return backend
  }

  /** What a session is offered: of a server of which it has its own process, what that lists. */
  catalogOf(session: object): Catalog {
    const own = this.owned.get(session)
    if (own === undefined) return this.catalog
    if (own.shared !== this.catalog) {
      const sources = this.catalog.parts.flatMap(({ spec, listing: shared }): [string, CatalogSource][] => {
        const listed = own.listings.get(spec.id)
        if (listed === undefined) return []
        const listing = filledFrom(shared, listed)
        return [[spec.id, { spec, listing, quarantined: this.toolPinning.inspect(spec, listing).quarantined }]]
      })
      own.catalog = withOwn(this.catalog, new Map(sources), own.catalog)
      own.shared = this.catalog
    }
    return own.catalog
  }

  /** A session's own processes, by the id of their server. */
  dedicatedOf(session: object): ReadonlyMap<string, Backend> {
    return this.sessionBackends.of(session)
  }

  /** Ends the processes that sessions have of their own, of one server or of one session. */
  private stopDedicated(wanted: { readonly id?: string; readonly session?: object }): void {
    this.sessionBackends.end(wanted)
    if (wanted.session !== undefined) this.owned.delete(wanted.session)
    for (const session of this.owned.keys()) if (wanted.id !== undefined) this.disown(session, wanted.id)
  }

  /** The sessions that are subscribed to a backend's resource, or to one that it is a part of. */
  subscribersOf(id: string, uri: string): ReadonlySet<object> {
    return this.subscriptions.subscribersOf(id, uri)
  }

  /** A session is gone: its subscriptions and its log level go with it. */
  forget(session: object): void {
    this.stopDedicated({ session })
    for (const [id, uri] of this.subscriptions.of(session)) this.unsubscribe(id, uri, session)
    this.subscriptions.dropLevel(session)
    this.updateLogLevels()
    this.taskOwners.forget(session)
  }

  /**
   * legacy backends have one log level for all: svc asks for the least severe that any client wants and filters. A
   * session's own processes are asked for its own.
   */
  setLogLevel(session: object, level: string | undefined): void {
    this.subscriptions.setLevel(session, level)
    for (const { published } of this.dedicatedOf(session).values()) published?.open.updateLogLevel()
    this.updateLogLevels()
  }

  /** It hears no more. Backends are not told before somebody else wants another level: it may want the same again soon. */
  dropLogLevel(session: object): void {
    this.subscriptions.dropLevel(session)
  }

  /** Ends every backend; resolves when no process is left. */
  async close(): Promise<void> {
    this.closed = true
    for (const wait of this.firstAttempts.over([])) wait.end()
    for (const [id, backend] of [...this.backends].reverse()) this.remove(id, backend)
    await Promise.all([...this.ending.values(), ...this.pendingStops])
  }

  /** Every value that must not be shown; the same array for the same plan. */
  get secrets(): readonly string[] {
    return this.secretValues
  }

  /** Requests in flight to all backends. */
  get inFlight(): number {
    let count = 0
    for (const { published } of this.running()) count += published?.open.inFlight ?? 0
    return count
  }

  // ---

  /** All backends, also those that sessions have of their own. */
  private running(): readonly Backend[] {
    return [...this.backends.values(), ...this.sessionBackends.all()]
  }

  private add(spec: ServerSpec): void {
    const old = this.ending.get(spec.id)
    let offered: unknown
    const backend = this.create(spec, {}, old, (changed) => {
      this.current = undefined
      const offer = changed.published?.listing
      if (changed.published !== undefined && offered === undefined) this.logConnected(changed)
      const known = offered
      offered = offer
      if (known !== offer || this.catalog.parts.some(({ spec: old }) => old.id === spec.id && old !== changed.spec))
        this.changed()
      this.checkFirstAttempts()
    })
    this.backends.set(spec.id, backend)
    backend.start()
  }

  /**
   * A session's own process is not what it was. What it listed stands after its end, until the next one lists: the session
   * has its server as before.
   */
  private relisted(id: string, session: object, backend: Backend): void {
    if (backend.published === undefined) {
      const listed = this.owned.get(session)?.listings.get(id)
      const shared = this.backends.get(id)?.published?.listing
      // What all have is not kept for one.
      if (listed !== undefined && shared !== undefined && isSameOffer(listed, shared)) this.disown(session, id)
      return
    }
    const { listing } = backend.published
    if (this.sessionBackends.find(id, session) !== backend) return
    const own = this.owned.get(session) ?? { listings: new Map(), shared: undefined, catalog: EMPTY_CATALOG }
    if (own.listings.get(id) === listing) return
    this.owned.set(session, own)
    own.listings.set(id, listing)
    own.shared = undefined
    for (const observer of this.observers) observer.oncatalog(session)
  }

  /** Forgets what a session's own process listed. */
  private disown(session: object, id: string): void {
    const own = this.owned.get(session)
    if (own?.listings.delete(id) !== true) return
    own.shared = undefined
    if (own.listings.size === 0) this.owned.delete(session)
  }

  /** A backend that is not started yet. `after` is its process of before, to be observed dead before it opens. */
  private create(
    spec: ServerSpec,
    { caller: owner, capabilities }: { readonly caller?: Caller; readonly capabilities?: Params },
    after: Promise<void> | undefined,
    onchange: BackendDeps["onchange"],
  ): Backend {
    const { deps } = this
    const own: BackendDeps = {
      clock: deps.clock,
      open: (planned, hooks, signal) =>
        openConnection(
          planned,
          {
            owner,
            capabilities,
            callerOfTask: (taskId) => this.taskOwners.find("task", spec.id, taskId)?.caller,
            ...hooks,
            subscriptions: () => this.subscriptions.uris(spec.id, owner?.session),
            logLevel: () => (owner === undefined ? this.sentLevel : this.subscriptions.levelOf(owner.session)),
            onnotification: (method, params, caller) => this.routeNotification(spec.id, method, params, caller, owner),
          },
          deps,
          signal,
        ),
      onchange: (backend) => {
        onchange(backend)
        this.readiness.changed(backend)
      },
      onnote: (level, message) => deps.log[level](message, { server: spec.name }),
    }
    return new Backend(spec, own, after)
  }

  private logConnected(backend: Backend): void {
    const { listing } = backend.published ?? {}
    if (listing === undefined) return
    const counts = `${listing.tools.length} tools, ${listing.prompts.length} prompts, ${listing.resources.length} resources`
    const empty =
      listing.tools.length + listing.prompts.length + listing.resources.length + listing.resourceTemplates.length === 0
    const server = backend.spec.name
    // Of a list that fails, the log has heard already.
    if (empty && failuresOf(listing).length === 0)
      this.deps.log.warn(`connected, but offers nothing at all`, { server })
    else this.deps.log.info(`connected: ${counts} (MCP ${listing.protocolVersion})`, { server })
  }

  private remove(id: string, backend: Backend): void {
    this.backends.delete(id)
    this.stopDedicated({ id })
    const before = this.ending.get(id) ?? Promise.resolve()
    const ended = Promise.all([before, backend.stop()]).then(() => {
      if (this.ending.get(id) === ended) this.ending.delete(id)
    })
    this.ending.set(id, ended)
  }

  /** A replaced remote backend: its running calls finish on the old connection while the new one is opened. */
  private retire(id: string, backend: Backend): void {
    this.backends.delete(id)
    this.stopDedicated({ id })
    const drained = waitWhile(
      this.deps.clock,
      () => isBusy(backend) && !this.closed,
      backend.spec.tuning.requestTimeout,
    )
    this.trackStop(drained.then(() => backend.stop()))
  }

  /** Remembers the end of what nothing waits for but the end of svc. */
  private trackStop(end: Promise<void>): void {
    const ended = end.then(() => void this.pendingStops.delete(ended))
    this.pendingStops.add(ended)
  }

  /** `owner`: whose process it is that says so, where it is one session's own. */
  private routeNotification(
    id: string,
    method: string,
    params: Params,
    caller: Caller | undefined,
    owner: Caller | undefined,
  ): void {
    const spec = this.backends.get(id)?.spec
    if (spec === undefined) return
    const kind = OWNED_NOTIFICATIONS[method]
    if (kind !== undefined) {
      const named = kind === "task" ? params.taskId : params.elicitationId
      const owningCaller = owner ?? this.taskOwners.find(kind, id, named)?.caller
      // Its own call is the better way to it, while it runs.
      if (owningCaller !== undefined)
        (caller?.session === owningCaller.session ? caller : owningCaller).notify(method, params)
      return
    }
    if (caller !== undefined && method !== "notifications/resources/updated") {
      caller.notify(method, params)
      return
    }
    if (owner !== undefined) {
      if (this.subscribersOf(id, asText(params.uri)).has(owner.session)) owner.notify(method, params)
      return
    }
    for (const observer of this.observers) observer.onnotification(spec, method, params)
  }

  private updateLogLevels(): void {
    const least = this.subscriptions.leastLevel
    if (least === undefined || least === this.sentLevel) return
    this.sentLevel = least
    for (const { published } of this.backends.values()) published?.open.updateLogLevel()
  }

  private checkFirstAttempts(): void {
    if (!this.loaded) return
    const untried = this.all().flatMap(({ spec, facts }) => (facts.loadingEndedAt === undefined ? [spec.id] : []))
    for (const wait of this.firstAttempts.over(untried)) {
      // The catalog of what has just been connected must be there first.
      this.rebuild()
      wait.end()
    }
  }

  /** What is offered may have changed: the catalog is built once for a burst of changes. */
  private changed(): void {
    this.current = undefined
    if (this.rebuilding) return
    this.rebuilding = true
    queueMicrotask(() => this.rebuild())
  }

  private rebuild(): void {
    if (!this.rebuilding) return
    this.rebuilding = false
    const sources = (this.plan?.specs ?? []).flatMap(({ id }): CatalogSource[] => {
      const backend = this.backends.get(id)
      if (backend?.published === undefined) return []
      const { spec, published } = backend
      const { quarantined } = this.toolPinning.inspect(spec, published.listing)
      return [{ spec, listing: published.listing, quarantined }]
    })
    this.catalog = buildCatalog(sources, this.catalog)
    this.current = undefined
    for (const observer of this.observers) observer.oncatalog()
  }

  private findings({ spec, published }: Backend): PinningFindings | undefined {
    return published === undefined ? undefined : this.toolPinning.inspect(spec, published.listing)
  }

  private takeSnapshot(): Snapshot {
    return {
      startedAt: this.deps.startedAt,
      loaded: this.loaded,
      backends: [...this.backends.values()].map((backend) => describeBackend(backend, this.findings(backend))),
      templates: this.plan?.templates ?? [],
      disabled: this.plan?.disabled ?? [],
      issues: this.problems,
      generation: this.catalog.generation,
    }
  }
}

// ---

const isBusy = ({ published }: Backend): boolean => published?.open.idleSince() === Number.POSITIVE_INFINITY

/** Whether two processes of one server list the same. */
const isSameOffer = (one: Listing, other: Listing): boolean =>
  Object.values(LIST_KEYS).every((key) => isDeepStrictEqual(one[key], other[key]))

/** Notifications that say by an id alone whose they are. */
const OWNED_NOTIFICATIONS: Readonly<Record<string, Ownership["kind"]>> = {
  "notifications/tasks/status": "task",
  // Of the extension: svc asks for those that a client listens to.
  "notifications/tasks": "task",
  "notifications/elicitation/complete": "elicitation",
}
