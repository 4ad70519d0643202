/**
 * Owns the mutable state of a running svc: which backends run, what they offer together, and which sessions follow them. It
 * handles one change at a time; all other code reads its catalog and its snapshot.
 */
import { isDeepStrictEqual } from "node:util"
import type { Caller } from "../backend/attribution.ts"
import { Backend, type BackendDeps } from "../backend/backend.ts"
import { type OpenDeps, OWNER_LOST } from "../backend/connection-attempt.ts"
import type { EstablishedConnection } from "../backend/established-connection.ts"
import { openConnection } from "../backend/open-connection.ts"
import { buildCatalog, type Catalog, emptyCatalog } from "../catalog/catalog.ts"
import { isListing, type ListingEntry, type ListMethod, type Tool } from "../catalog/listing.ts"
import { hiddenNote, unknownOverridesText } from "../catalog/tool-settings.ts"
import type { Preset } from "../config/presets.ts"
import { type IdleServer, type Plan, runsElsewhere, type ServerSpec } from "../config/server-spec.ts"
import { type Clock, formatDuration, withTimeout } from "../lib/clock.ts"
import type { Issue } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import { counted } from "../lib/text.ts"
import type { ListingStore } from "../store/listings.ts"
import type { ToolPins } from "../store/tool-pins.ts"
import type { Era } from "../wire/era.ts"
import { asText, type Params } from "../wire/message.ts"
import { CatalogBuilder } from "./catalog-builder.ts"
import { Readiness } from "./readiness.ts"
import { SessionBackends } from "./session-backends.ts"
import { Sleepers } from "./sleepers.ts"
import { describeBackend, describeListing, type ListedFacts, offersNothing, type Snapshot } from "./snapshot.ts"
import { Subscriptions } from "./subscriptions.ts"
import { type Ownership, TaskOwners } from "./task-owners.ts"
import { type PinningFindings, ToolPinning } from "./tool-pinning.ts"

/** Follows changes of the agent. */
export type Observer = {
  /** Called when the catalog or a selection of it has changed, for one session or for all. */
  oncatalog(session?: object): void
  /** Called when the state of a server has changed, or a configuration was applied or refused. */
  onstatus?(what: "server" | "configuration"): void
  /** Called when a backend has sent a notification for all interested clients; `only` limits it to clients of one era. */
  onnotification(spec: ServerSpec, method: string, params: Params, only: Era | undefined): void
}

export type AgentDeps = OpenDeps & {
  readonly clock: Clock
  readonly log: Log
  readonly startedAt: number
  readonly pins: ToolPins
  /** The last listings of servers that may sleep; undefined to store none. */
  readonly listings?: ListingStore | undefined
  /** Called when the state of a backend may have changed. */
  readonly onstate?: ((backend: Backend) => void) | undefined
  /** The longest name of a tool or prompt in the aggregate, in characters; undefined for no limit. */
  readonly maxToolName?: number | undefined
}

/** What applying a plan changed, by backend id. */
export type Applied = {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  /** Stopped and started again, because their launch changed. */
  readonly replaced: readonly string[]
  /** Changed without a restart. */
  readonly retuned: readonly string[]
}

export class Agent {
  /** The owners of tasks and elicitations, which backends name only by id. */
  readonly taskOwners = new TaskOwners()
  readonly readiness: Readiness
  readonly subscriptions: Subscriptions
  /** The processes that serve one session each. */
  readonly dedicated: SessionBackends
  private plan: Plan | undefined
  private issues: readonly Issue[] = []
  private secretValues: readonly string[] = []
  private currentPresets: ReadonlyMap<string, Preset> = new Map()
  private readonly backends = new Map<string, Backend>()
  private readonly observers = new Set<Observer>()
  private readonly catalogs: CatalogBuilder
  private readonly toolPinning: ToolPinning
  private readonly sleepers: Sleepers
  /** Shutdowns of removed backends that are under way, by backend id; a new backend may already have the same id. */
  private readonly ending = new Map<string, Promise<void>>()
  /** Replaced remote backends that still finish their running calls. */
  private readonly retired = new Set<Backend>()
  /** Shutdowns under way that only `close` waits for. */
  private readonly pendingStops = new Set<Promise<void>>()
  private currentSnapshot: Snapshot | undefined
  private initialLoad: Promise<void> | undefined
  private asleepElsewhere: ReadonlySet<string> = new Set()
  private isClosed = false
  /** The answers of the servers to the last log level. */
  private readonly levelAnswers = new WeakMap<EstablishedConnection, Promise<Error | undefined>>()

  constructor(private readonly deps: AgentDeps) {
    this.toolPinning = new ToolPinning(deps.pins, deps.log)
    this.readiness = new Readiness(deps.clock)
    this.catalogs = new CatalogBuilder({
      connected: () =>
        (this.plan?.specs ?? []).flatMap(({ id }) => {
          const { spec, listing } = this.backends.get(id) ?? {}
          return spec === undefined || listing === undefined ? [] : [{ spec, listing }]
        }),
      quarantined: (spec, listing) => this.toolPinning.inspect(spec, listing).quarantined,
      maxName: deps.maxToolName ?? Number.POSITIVE_INFINITY,
      onbuilt: () => {
        this.currentSnapshot = undefined
        this.selectionChanged()
      },
    })
    this.sleepers = new Sleepers({
      clock: deps.clock,
      listings: deps.listings,
      isNeeded: (id) => this.isNeeded(id),
      onsleep: ({ name }, ms) => deps.log.info(`asleep after ${formatDuration(ms)} without a call`, { server: name }),
    })
    this.subscriptions = new Subscriptions({
      onsubscriptions: (id, session, isShared) => {
        const backend = this.backends.get(id)
        // A server that is asleep could tell of no update. Looked at first: counting takes longer the more there are.
        if (backend?.state.kind === "asleep" && this.isNeeded(id)) backend.wake()
        if (isShared) backend?.published?.open.resubscribe()
        this.dedicated.find(id, session)?.published?.open.resubscribe()
      },
      onlevel: (session) => this.updateLogLevel(this.dedicated.of(session).values()),
      onsharedlevel: () => this.updateLogLevel(this.backends.values()),
    })
    this.dedicated = new SessionBackends({
      clock: deps.clock,
      create: (id, owner, capabilities) => this.createDedicated(id, owner, capabilities),
      whenSettled: (backend) => this.readiness.whenSettled(backend),
      tuningOf: (id) => this.backends.get(id)?.spec.tuning,
      isListening: (id, session) => this.subscriptions.uris(id, session).length > 0,
      tasksOf: (id, session) =>
        this.taskOwners.of(session, "task").flatMap((claim) => (claim.backend === id ? [claim.id] : [])),
      onend: (end) => this.trackStop(end),
      onunused: ({ name }, reason) => deps.log.info(`the process of a session ${reason}`, { server: name }),
    })
  }

  /** The catalog of sessions without processes of their own. */
  get catalog(): Catalog {
    return this.catalogs.catalog
  }

  /** Named selections of the catalog. */
  get presets(): ReadonlyMap<string, Preset> {
    return this.currentPresets
  }

  /** False until a plan was applied. */
  get loaded(): boolean {
    return this.plan !== undefined
  }

  /** Resolves when the initial load is over; undefined unless it runs. */
  get loading(): Promise<void> | undefined {
    return this.initialLoad
  }

  /** Whether the backends are being stopped for good. */
  get stopping(): boolean {
    return this.isClosed
  }

  /** Every secret value of the plan; the same array for the same plan. */
  get secrets(): readonly string[] {
    return this.secretValues
  }

  /** The number of requests in flight to all backends. */
  get inFlight(): number {
    let count = 0
    for (const { published } of [...this.running(), ...this.retired]) count += published?.open.inFlight ?? 0
    return count
  }

  /** Resolves when the requests of clients that are in flight to backends have ended, also to those that were replaced. */
  async drained(): Promise<void> {
    await Promise.all([...this.running(), ...this.retired].map(({ published }) => published?.open.drained()))
  }

  /** The same for the backend with this id. */
  async whenDrained(id: string): Promise<void> {
    await this.backends.get(id)?.published?.open.drained()
  }

  /** Starts, stops and changes backends until they match `plan`. Leaves backends with an unchanged spec alone. */
  apply(plan: Plan): Applied {
    const applied = {
      added: [] as string[],
      removed: [] as string[],
      replaced: [] as string[],
      retuned: [] as string[],
    }
    if (this.isClosed) return applied
    const oldOrder = this.plan?.specs.map(({ id }) => id)
    this.plan = plan
    this.issues = plan.issues
    this.secretValues = [...new Set([...plan.specs.flatMap(({ secrets }) => secrets), ...plan.idleSecrets])]
    const order = plan.specs.map(({ id }) => id)
    const wanted = new Set(order)
    for (const [id, backend] of this.backends) {
      if (wanted.has(id)) continue
      applied.removed.push(id)
      this.remove(id, backend)
    }
    for (const spec of plan.specs) {
      const change = this.applySpec(spec)
      if (change !== undefined) applied[change].push(spec.id)
    }
    this.currentSnapshot = undefined
    // A missing file counts as an empty document at the start, and may come back.
    if (applied.removed.length > 0 || (oldOrder === undefined && order.length > 0))
      this.deps.listings?.keep(namesIn(plan))
    const isSame = Object.values(applied).every((ids) => ids.length === 0) && isDeepStrictEqual(oldOrder, order)
    if (!isSame) this.changed()
    this.checkFirstAttempts()
    this.statusChanged("configuration")
    return applied
  }

  /** Keeps what runs, and records the issues of documents that were refused. */
  refuse(issues: readonly Issue[]): void {
    this.issues = [...issues, ...(this.plan?.issues ?? [])]
    this.currentSnapshot = undefined
    this.statusChanged("configuration")
  }

  /** Replaces the presets. */
  setPresets(presets: ReadonlyMap<string, Preset>): void {
    this.currentPresets = presets
    this.selectionChanged()
  }

  /** Tells the observers that sessions may see another part of the catalog than before. */
  selectionChanged(): void {
    for (const observer of this.observers) observer.oncatalog()
  }

  /** Returns the backends with this id, name or slug: several if they are instances of one template. */
  find(name: string): readonly Backend[] {
    const exact = this.backends.get(name)
    if (exact !== undefined) return [exact]
    return this.all().filter(({ spec }) => spec.name === name || spec.slug === name)
  }

  backend(id: string): Backend | undefined {
    return this.backends.get(id)
  }

  /** Returns the configured servers and templates that do not run. */
  idle(): readonly IdleServer[] {
    return this.plan?.idle ?? []
  }

  /** Returns all shared backends, in the order in which they were added. */
  all(): readonly Backend[] {
    return [...this.backends.values()]
  }

  /** Whether a server has tasks that only its process knows, or subscriptions to its resources: the process must not end. */
  isNeeded(id: string): boolean {
    return this.subscriptions.uris(id).length > 0 || this.taskOwners.keepsProcess(id, this.deps.clock.now())
  }

  /** Whether a call runs on a backend, or on a session's own process of it. */
  isBusy(id: string): boolean {
    return this.running().some((backend) => backend.spec.id === id && isBusy(backend))
  }

  /** Resolves when every process that was stopped under this id is dead. */
  async whenStopped(id: string): Promise<void> {
    await this.ending.get(id)
  }

  /** Reconnects a server's backends after its authorization was given, changed or removed. */
  authorized(name: string): void {
    for (const backend of this.running()) if (backend.spec.name === name) backend.authorized()
  }

  /** Restarts a backend for an operator. Stops the processes of single sessions; their next calls start new ones. */
  restart(backend: Backend): void {
    this.stopDedicated({ id: backend.spec.id })
    backend.restart()
  }

  /** Whether a tool is hidden from clients because its definition has changed. */
  isQuarantined(backend: Backend, tool: string): boolean {
    return this.findings(backend)?.quarantined.has(tool) === true
  }

  /** Returns the tools of a backend whose definition is not the approved one. */
  changedTools({ spec, listing }: Backend): readonly Tool[] {
    return listing === undefined ? [] : this.toolPinning.changes(spec, listing)
  }

  /** Returns the approved or first seen definitions, by the ids of their servers and by tool, as far as svc has stored them. */
  approvedDefinitions(ids: readonly string[]): ReadonlyMap<string, ReadonlyMap<string, ListingEntry>> {
    return this.toolPinning.approved(ids)
  }

  /**
   * Approves the current definition of one tool, or of all tools of a server; with `hash` only the definition that has this
   * fingerprint. Returns the names of the tools whose definition had changed.
   */
  approve(name: string, tool: string | undefined, hash?: string): readonly string[] {
    const approved = this.toolPinning.approve(
      this.find(name).map(({ spec }) => spec.id),
      tool,
      hash,
    )
    if (approved.length > 0) this.changed()
    return approved
  }

  /** Compares tools with their pins again after other replicas have pinned the definitions with these fingerprints. */
  pinnedElsewhere(pins: readonly { readonly server: string; readonly tool: string; readonly hash: string }[]): void {
    for (const { server, tool, hash } of pins) {
      // An approval for one instance of a template holds for all its instances.
      const [name = server] = server.split("#", 1)
      this.toolPinning.approve([server, ...this.find(name).map(({ spec }) => spec.id)], tool, hash)
    }
    this.changed()
  }

  /** Records which servers are asleep on the replicas that run them. */
  noteAsleepElsewhere(ids: ReadonlySet<string>): void {
    if (isDeepStrictEqual(ids, this.asleepElsewhere)) return
    this.asleepElsewhere = ids
    this.currentSnapshot = undefined
    this.statusChanged("server")
  }

  snapshot(): Snapshot {
    this.currentSnapshot ??= this.takeSnapshot()
    return this.currentSnapshot
  }

  /** Registers an observer; the returned function removes it. */
  observe(observer: Observer): () => void {
    this.observers.add(observer)
    return () => void this.observers.delete(observer)
  }

  /**
   * Starts the initial load: the wait for the first attempts of all backends, `ms` milliseconds at most. If no backend is
   * connected by then, it continues until one is, for `maxMs` milliseconds in all.
   */
  awaitInitialLoad(ms: number, maxMs = ms): void {
    const isUsable = () => this.all().some(({ listing }) => listing !== undefined)
    const load = async () => {
      await this.whenLoaded(undefined, ms)
      if (maxMs > ms && this.loaded && !isUsable()) await this.whenLoaded(undefined, maxMs - ms, isUsable)
    }
    this.initialLoad = load().then(() => {
      this.initialLoad = undefined
      this.currentSnapshot = undefined
    })
  }

  /**
   * Resolves when each of these backends (undefined: all) was connected, failed or refused once and the catalog contains its
   * lists, or after `ms` milliseconds. Resolves earlier if `isEnough` returns true after the catalog was built.
   */
  whenLoaded(ids: ReadonlySet<string> | undefined, ms: number, isEnough?: () => boolean): Promise<void> {
    const attempted = this.readiness.whenAttempted(ids, ms, isEnough)
    this.checkFirstAttempts()
    return attempted
  }

  /**
   * Resolves when a request to a backend is worth another try, at the latest after `ms` milliseconds. A lost backend: it or its
   * replacement is connected again, or will not be in time. A connected backend: its first lists are answered. A server that a
   * replica is about to run: it can be used. Returns undefined if there is nothing to wait for.
   */
  whenBack(id: string, ms: number): Promise<void> | undefined {
    const backend = this.backends.get(id)
    backend?.wake()
    // A call that wakes a server waits for it as long as the server may take.
    const isWaking = backend?.state.kind === "waking"
    const patience = isWaking ? backend.spec.tuning.connectionTimeout : ms
    if (patience <= 0) return undefined
    const until = this.deps.clock.now() + patience
    const again = () => this.whenBack(id, until - this.deps.clock.now())
    if (backend === undefined)
      return this.unplaced().includes(id) && !this.readiness.isFull
        ? this.whenLoaded(new Set([id]), ms).then(again)
        : undefined
    if (backend.published !== undefined) return this.readiness.whenListed(backend, ms)
    return this.readiness
      .whenBack(backend, patience)
      ?.then(() => (this.backends.get(id) === backend ? undefined : again()))
  }

  /**
   * Resolves when a server that has woken has answered its lists and the catalog contains them, or after `ms` milliseconds.
   * Undefined if there is nothing to wait for.
   */
  whenRelisted(id: string, ms: number): Promise<void> | undefined {
    const backend = this.backends.get(id)
    if (backend === undefined) return undefined
    return this.readiness.whenRelisted(backend, ms)?.then(() => this.catalogs.flush())
  }

  /**
   * Returns the catalog of a session: a server that runs a process for this session alone is offered as that process lists
   * it.
   */
  catalogOf(session: object): Catalog {
    return this.catalogs.catalogOf(session)
  }

  /** Removes everything that belongs to a session that has ended. */
  forget(session: object): void {
    this.stopDedicated({ session })
    this.subscriptions.forget(session)
    this.taskOwners.forget(session)
  }

  /**
   * Resolves when a server has answered the last request about the subscription to a resource: with the reason if it has refused to
   * begin it. Undefined if the server is not connected.
   */
  subscriptionDecided(id: string, uri: string, session: object): Promise<Error | undefined> | undefined {
    return this.serving(id, session)?.decided(uri)
  }

  /**
   * Resolves when a server has answered the log level of a session: with the reason if it has refused it. Undefined if svc has sent it
   * another level, for all its clients.
   */
  levelDecided(id: string, session: object): Promise<Error | undefined> | undefined {
    const isShared = this.dedicated.find(id, session) === undefined
    if (isShared && this.subscriptions.sharedLevel !== this.subscriptions.levelOf(session)) return undefined
    const open = this.serving(id, session)
    return open === undefined ? undefined : this.levelAnswers.get(open)
  }

  /**
   * Requests a list again of those servers where it is too old for a client which asks now. Returns a promise to wait for the
   * new lists; undefined if there is nothing to wait for.
   */
  freshen(ids: Iterable<string>, session: object, method: ListMethod): Promise<unknown> | undefined {
    let waits: Promise<unknown>[] | undefined
    for (const id of ids) {
      const wait = this.serving(id, session)?.freshen(method)
      if (wait !== undefined) waits = [...(waits ?? []), wait]
    }
    // The catalog contains the new lists.
    return waits === undefined ? undefined : Promise.all(waits).then(() => this.catalogs.flush())
  }

  /**
   * Requests a list of a server with the `_meta` of a client's request. Returns the catalog of that server for this client;
   * undefined if the server is not connected, or if each definition of its tools needs an approval. Rejects with the server's refusal.
   */
  listWith(id: string, session: object, method: ListMethod, meta: Params): Promise<Catalog> | undefined {
    const { parts, maxName } = this.catalogOf(session)
    const part = parts.find(({ spec }) => spec.id === id)
    const open = this.serving(id, session)
    if (part === undefined || open === undefined || part.spec.tuning.toolPinning === "strict") return undefined
    const { spec, quarantined = new Set<string>() } = part
    return open
      .listWith(method, meta)
      .then((listing) => buildCatalog([{ spec, listing, quarantined }], emptyCatalog(), maxName))
  }

  /** Stops every backend. Resolves when no process is left. */
  async close(): Promise<void> {
    this.isClosed = true
    this.sleepers.close()
    this.readiness.endFirstAttempts([], () => undefined)
    for (const [id, backend] of [...this.backends].reverse()) this.remove(id, backend)
    // Ends the running calls of replaced backends.
    for (const backend of this.retired) void backend.stop()
    await Promise.all([...this.ending.values(), ...this.pendingStops])
  }

  // ---

  /** Returns the connection to a server that serves a session. */
  private serving(id: string, session: object): EstablishedConnection | undefined {
    return (this.dedicated.find(id, session) ?? this.backends.get(id))?.published?.open
  }

  private updateLogLevel(backends: Iterable<Backend>): void {
    for (const { published } of backends)
      if (published !== undefined) this.levelAnswers.set(published.open, published.open.updateLogLevel())
  }

  /** Adds, replaces or retunes one backend. Returns which of the three, or undefined if its spec is the same. */
  private applySpec(spec: ServerSpec): "added" | "replaced" | "retuned" | undefined {
    const backend = this.backends.get(spec.id)
    if (backend === undefined) {
      this.add(spec)
      return "added"
    }
    if (!isDeepStrictEqual(backend.spec.launch, spec.launch)) {
      // If another replica has lost the lease under which it ran the server, a late answer must not reach a client.
      const isLost = runsElsewhere(backend.spec) && this.plan?.handedOver?.has(spec.id) !== true
      if (isLost) backend.published?.open.connection.end({ reason: OWNER_LOST })
      if (backend.spec.launch.transport === "stdio" || isLost) this.remove(spec.id, backend)
      else this.retire(spec.id, backend)
      this.add(spec)
      return "replaced"
    }
    if (isDeepStrictEqual(backend.spec, spec)) return undefined
    backend.retune(spec)
    // A server that may no longer sleep is started.
    if (spec.tuning.lazy !== true && spec.tuning.sleepAfter === undefined) backend.wake()
    this.sleepers.changed(backend)
    this.dedicated.retune(spec.id)
    return "retuned"
  }

  /** Returns the servers that a replica of the cluster is about to run, while it is not known which replica. */
  private unplaced(): readonly string[] {
    return this.idle().flatMap(({ name, state }) => (state === "starting" ? [name] : []))
  }

  /** Returns all backends, including the backends of single sessions. */
  private running(): readonly Backend[] {
    return [...this.backends.values(), ...this.dedicated.all()]
  }

  private add(spec: ServerSpec): void {
    let listing: unknown
    let offer: ListedFacts | undefined
    const backend = this.create(spec, undefined, this.ending.get(spec.id), (changed) => {
      this.currentSnapshot = undefined
      this.statusChanged("server")
      const next = changed.listing
      const before = listing
      listing = next
      const isRetuned = this.catalog.parts.some(({ spec: old }) => old.id === spec.id && old !== changed.spec)
      if (before !== next || isRetuned) {
        this.changed()
        offer = this.logOffer(changed, before === undefined, offer)
      }
      if (changed.published === undefined) this.taskOwners.processEnded(spec.id)
      this.sleepers.changed(changed)
      this.checkFirstAttempts()
    })
    this.backends.set(spec.id, backend)
    const known = spec.tuning.lazy === true ? this.deps.listings?.read(spec) : undefined
    if (isListing(known)) backend.rest(known)
    else backend.start()
  }

  /** Creates a session's own process of a server, without starting it. */
  private createDedicated(id: string, owner: Caller, capabilities: Params): Backend | undefined {
    const shared = this.backends.get(id)
    if (shared === undefined || this.isClosed) return undefined
    const { session } = owner
    return this.create(shared.spec, { caller: owner, capabilities }, undefined, (backend) => {
      if (backend.published === undefined) {
        this.catalogs.dropOwnIfSame(session, id, this.backends.get(id)?.listing)
        return
      }
      if (this.dedicated.find(id, session) !== backend) return
      if (!this.catalogs.setOwn(session, id, backend.published.listing)) return
      for (const observer of this.observers) observer.oncatalog(session)
    })
  }

  /**
   * Creates a backend without starting it. `owner`: the session, if the backend serves only one. `after`: resolves when the
   * previous process is dead; the backend connects only then.
   */
  private create(
    spec: ServerSpec,
    owner: { readonly caller: Caller; readonly capabilities: Params } | undefined,
    after: Promise<void> | undefined,
    onchange: BackendDeps["onchange"],
  ): Backend {
    const { deps } = this
    const backendDeps: BackendDeps = {
      clock: deps.clock,
      open: (planned, hooks, signal) =>
        openConnection(
          planned,
          {
            owner: owner?.caller,
            capabilities: owner?.capabilities,
            callerOfTask: (taskId, era) => this.taskOwners.find("task", spec.id, era, taskId)?.caller,
            ...hooks,
            subscriptions: (era) => this.subscriptions.uris(spec.id, owner?.caller.session, era),
            logLevel: () =>
              owner === undefined ? this.subscriptions.sharedLevel : this.subscriptions.levelOf(owner.caller.session),
            onnotification: (method, params, caller, era) =>
              this.routeNotification({ id: spec.id, era, caller, owner: owner?.caller }, method, params),
          },
          deps,
          signal,
        ),
      onchange: (backend) => {
        onchange(backend)
        this.readiness.changed(backend)
        deps.onstate?.(backend)
      },
      onnote: (level, message) => deps.log[level](message, { server: spec.name }),
    }
    return new Backend(spec, backendDeps, after)
  }

  /**
   * Logs what a new connection offers. Warns if a connected server begins to offer nothing, for example because all its tools
   * are hidden, and about overrides that match none of its tools. Returns what the server offers.
   */
  private logOffer(backend: Backend, isNew: boolean, before: ListedFacts | undefined): ListedFacts | undefined {
    const { spec, listing } = backend
    if (listing === undefined) return before
    const listed = describeListing(spec, listing, this.findings(backend))
    const { tools, hiddenTools, prompts, resources, protocolVersion, unknownOverrides } = listed
    const server = spec.name
    // The lister logs lists that fail.
    const isEmpty = offersNothing(listed)
    const counts = [
      `${counted(tools, "tool")}${hiddenNote(hiddenTools)}`,
      counted(prompts, "prompt"),
      counted(resources, "resource"),
    ].join(", ")
    if (isEmpty && (isNew || before === undefined || !offersNothing(before)))
      this.deps.log.warn(`connected, but offers no tools${hiddenNote(hiddenTools)}, prompts or resources`, { server })
    const state = backend.state.kind === "asleep" ? "asleep" : "connected"
    if (isNew && !isEmpty) this.deps.log.info(`${state}: ${counts} (MCP ${protocolVersion})`, { server })
    if (unknownOverrides.length > 0 && !isDeepStrictEqual(unknownOverrides, before?.unknownOverrides))
      this.deps.log.warn(unknownOverridesText(unknownOverrides), { server })
    return listed
  }

  private remove(id: string, backend: Backend): void {
    this.sleepers.forget(backend)
    this.backends.delete(id)
    this.stopDedicated({ id })
    const before = this.ending.get(id) ?? Promise.resolve()
    const ended = Promise.all([before, backend.stop()]).then(() => {
      if (this.ending.get(id) === ended) this.ending.delete(id)
    })
    this.ending.set(id, ended)
  }

  /**
   * Stops a remote backend, which is or will be replaced, once its running calls have ended; its replacement does not wait
   * for that.
   */
  private retire(id: string, backend: Backend): void {
    this.sleepers.forget(backend)
    this.backends.delete(id)
    this.stopDedicated({ id })
    this.retired.add(backend)
    const drained = backend.published?.open.drained() ?? Promise.resolve()
    this.trackStop(
      withTimeout(this.deps.clock, backend.spec.tuning.requestTimeout, drained)
        .then(() => backend.stop())
        .finally(() => this.retired.delete(backend)),
    )
  }

  /** Stops the processes of single sessions, of one server or of one session, and drops their lists. */
  private stopDedicated(wanted: { readonly id: string } | { readonly session: object }): void {
    this.dedicated.end(wanted)
    if ("session" in wanted) this.catalogs.dropSession(wanted.session)
    else this.catalogs.dropServer(wanted.id)
  }

  private trackStop(end: Promise<void>): void {
    const ended = end.then(() => void this.pendingStops.delete(ended))
    this.pendingStops.add(ended)
  }

  private routeNotification(origin: NotificationOrigin, method: string, params: Params): void {
    const { id, era, caller, owner } = origin
    const backend = this.backends.get(id)
    if (backend === undefined) return
    const kind = OWNED_NOTIFICATIONS[method]
    if (kind !== undefined) {
      const subject = kind === "task" ? params.taskId : params.elicitationId
      // An elicitation may be older than this process, or have been named in a text: the call says whose it is.
      const ofCall = kind === "elicitation" ? caller : undefined
      const owning = owner ?? this.taskOwners.find(kind, id, era, subject)?.caller ?? ofCall
      // If this notification came with a running call of the owner, it goes over the stream of that call.
      if (owning !== undefined) (caller?.session === owning.session ? caller : owning).notify(method, params)
      else if (kind === "elicitation") this.notifyAll(backend, method, params, era)
      return
    }
    if (caller !== undefined && method !== "notifications/resources/updated") {
      caller.notify(method, params)
      return
    }
    if (owner !== undefined) {
      if (this.subscriptions.subscribersOf(id, asText(params.uri)).has(owner.session)) owner.notify(method, params)
      return
    }
    this.notifyAll(backend, method, params, era)
  }

  /** A server that is connected in both eras notifies the clients of each era over the connection of that era. */
  private notifyAll({ spec, published }: Backend, method: string, params: Params, era: Era): void {
    const only = published?.open.pair?.isOpen === true ? era : undefined
    for (const observer of this.observers) observer.onnotification(spec, method, params, only)
  }

  private checkFirstAttempts(): void {
    if (!this.loaded) return
    const untried = [
      ...this.all().flatMap(({ spec, facts }) => (facts.loadingEndedAt === undefined ? [spec.id] : [])),
      ...this.unplaced(),
    ]
    // The catalog contains the newly connected servers before a wait for them ends.
    this.readiness.endFirstAttempts(untried, () => this.catalogs.flush())
  }

  private statusChanged(what: "server" | "configuration"): void {
    for (const observer of this.observers) observer.onstatus?.(what)
  }

  /** Schedules a build of the catalog. */
  private changed(): void {
    this.currentSnapshot = undefined
    this.catalogs.invalidate()
  }

  private findings({ spec, listing }: Backend): PinningFindings | undefined {
    return listing === undefined ? undefined : this.toolPinning.inspect(spec, listing)
  }

  private isAsleep({ spec, state }: Backend): boolean {
    return state.kind === "asleep" || (runsElsewhere(spec) && this.asleepElsewhere.has(spec.id))
  }

  private takeSnapshot(): Snapshot {
    const parts = new Map(this.catalog.parts.map((part) => [part.spec.id, part]))
    return {
      startedAt: this.deps.startedAt,
      loaded: this.loaded,
      isPlaced: this.initialLoad === undefined || this.unplaced().length === 0,
      backends: this.all().map((backend) =>
        describeBackend(backend, this.findings(backend), parts.get(backend.spec.id), this.isAsleep(backend)),
      ),
      templates: this.plan?.templates ?? [],
      disabled: this.plan?.disabled ?? [],
      unowned: this.idle().filter(({ state }) => state === "starting" || state === "no owner"),
      issues: this.issues,
      generation: this.catalog.generation,
    }
  }
}

// ---

/** Returns the names of all servers and templates in a document, also of those that do not run. */
const namesIn = ({ specs, templates, disabled, idle, issues }: Plan): ReadonlySet<string> =>
  new Set([
    ...[...specs, ...idle].map(({ name }) => name),
    ...templates,
    ...disabled,
    ...issues.flatMap(({ server }) => server ?? []),
  ])

const isBusy = ({ published }: Backend): boolean => published !== undefined && published.open.inFlight > 0

/** Where a notification of a backend comes from. */
type NotificationOrigin = {
  readonly id: string
  /** The era of the connection. */
  readonly era: Era
  /** The client whose call it belongs to, if any. */
  readonly caller: Caller | undefined
  /** The session of the process that sent it, if the process serves only one. */
  readonly owner: Caller | undefined
}

/** Notifications that concern one task or elicitation, named by id, and which of the two it is. */
const OWNED_NOTIFICATIONS: Readonly<Record<string, Ownership["kind"]>> = {
  "notifications/tasks/status": "task",
  // Tasks extension: svc requests the tasks that a client listens to.
  "notifications/tasks": "task",
  "notifications/elicitation/complete": "elicitation",
}
