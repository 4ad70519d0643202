/** The table of legacy sessions: bounded, and regularly cleared of sessions that have been idle for long. */

import type { Gateway } from "../call/ports.ts"
import { identityOf, type Scope } from "../catalog/scope.ts"
import { type Clock, every } from "../lib/clock.ts"
import { RequestError } from "../lib/errors.ts"
import type { SessionStore, StoredSession } from "../store/session-store.ts"
import type { Params } from "../wire/message.ts"
import { Session } from "./session.ts"

export type SessionLimits = {
  /** The most sessions at once. */
  readonly count: number
  /** Milliseconds after which an unused session ends. */
  readonly ttl: number
}

export class Sessions {
  private readonly byId = new Map<string, Session>()
  /** By id, the changes of other replicas that are being read. */
  private readonly refreshing = new Map<string, Promise<unknown>>()
  private readonly cancelSweep: () => void

  constructor(
    private readonly clock: Clock,
    private readonly limits: SessionLimits,
    /** Called when a session ends here; `goesOn`: a later process may have it. */
    private readonly onend: (session: Session, goesOn: boolean) => void,
    /** Opens the store that keeps sessions across restarts, once; returns undefined if they end with the process. */
    private readonly store: () => SessionStore | undefined,
    /** Returns the scope of a restored session from the scope of its URL and its `initialize` params. */
    private readonly rescope: (scope: Scope, params: Params) => Scope = (scope) => scope,
  ) {
    this.cancelSweep = every(clock, Math.min(limits.ttl, SWEEP_MS), () => this.sweep())
  }

  /** Opens the store now, so that the first session does not wait for it. */
  open(): void {
    this.store()
  }

  get size(): number {
    return this.byId.size
  }

  all(): Iterable<Session> {
    return this.byId.values()
  }

  /** Adds a session. Throws a RequestError if the table is full of sessions in use. */
  add(session: Session, gateway: Gateway): void {
    this.makeRoom()
    session.lastSeen = this.clock.now()
    session.since = session.lastSeen
    session.home ??= gateway.replicas?.replica
    session.begin(gateway, () => {
      this.save(session)
      // A session that this replica knows goes on while the shared state is away.
      return this.store()
        ?.shared?.stored(session.id)
        .catch(() => undefined)
    })
    this.byId.set(session.id, session)
    this.save(session)
  }

  /**
   * Returns the session of this principal and scope; undefined if there is none, even if another principal has one with this id.
   * Restores a stored session. Throws a RequestError if the table is full of sessions in use.
   */
  get(id: string, principal: string, scope: Scope, gateway: Gateway): Session | undefined {
    const session = this.byId.get(id) ?? this.restore(id, scope, gateway)
    if (session === undefined || session.principal !== principal) return undefined
    if (session.scope !== scope && identityOf(session.scope) !== identityOf(scope)) return undefined
    session.lastSeen = this.clock.now()
    return session
  }

  /** Returns the part of a session that is here, of any principal and scope. */
  part(id: string): Session | undefined {
    return this.byId.get(id)
  }

  /**
   * Reads a session that another replica opened from the shared state, so that `get` finds it, or waits until what another one
   * has changed of it is applied. Returns undefined if there is nothing to wait for. Rejects with an UnavailableError.
   */
  preload(id: string): Promise<unknown> | undefined {
    return this.byId.has(id) ? this.refreshing.get(id) : this.store()?.shared?.preload(id)
  }

  /**
   * Makes `replica`, this one, the home of a session whose home is gone, unless another replica has already become it. Resolves
   * with whether it did. Rejects with an UnavailableError.
   */
  async adopt(session: Session, replica: string, gateway: Gateway): Promise<boolean> {
    const { home } = session
    const isAdopted = home !== undefined && (await this.store()?.shared?.adopt(session.id, home, replica)) === true
    await this.refresh(session, gateway)
    return isAdopted
  }

  /** Resolves when a new session is stored; undefined for a single svc. Ends it and rejects with an UnavailableError if that fails. */
  stored(session: Session): Promise<void> | undefined {
    return this.store()
      ?.shared?.stored(session.id)
      .catch((error: unknown) => {
        this.remove(session.id, "could not be stored")
        throw error
      })
  }

  /**
   * Applies what another replica changed of a session, or ends the session if that replica ended it. `fields`: the changed fields
   * of its record, if known. Rejects with an UnavailableError.
   */
  async refresh(session: Session, gateway: Gateway, fields?: readonly string[]): Promise<void> {
    const { id } = session
    const rereading = this.store()?.shared?.reread(id, fields, (found) => {
      if (this.byId.get(id) !== session) return false
      if (found === undefined) this.remove(id, "was ended")
      else this.apply(session, found, gateway)
      return true
    })
    const all = Promise.allSettled([this.refreshing.get(id), rereading])
    this.refreshing.set(id, all)
    void all.then(() => this.refreshing.get(id) === all && this.refreshing.delete(id))
    await rereading
  }

  /** Compares all sessions with the stored ones after the shared state was away. Stores them again if the state has `lost` them. */
  async recheck(gateway: Gateway, lost: boolean): Promise<void> {
    if (lost) this.store()?.shared?.lost()
    const checks = [...this.byId.values()].map((session) => {
      if (lost) this.save(session)
      return this.refresh(session, gateway)
    })
    await Promise.all(checks)
  }

  /** Stores a session. */
  save(session: Session): void {
    const { principal, params, logLevel, streamAt: stream, home } = session
    const scope = identityOf(session.scope)
    const [subscriptions, tasks] = [[...session.subscriptions.values()], [...session.tasks.values()]]
    this.store()?.save(
      session.id,
      { principal, scope, params, logLevel, subscriptions, tasks, stream, home },
      session.lastSeen,
    )
  }

  /**
   * Ends a session because its client asked: its running requests get no answers. Resolves when no replica serves it any more.
   * Rejects with an UnavailableError if the shared state cannot be reached.
   */
  async end(session: Session, gateway: Gateway, reason: string): Promise<void> {
    await this.store()?.shared?.end(session.id)
    const told = gateway.replicas?.ended(session, reason)
    session.running.drop(reason)
    this.remove(session.id, reason)
    await told
  }

  /** Ends a session here. It stays stored if other replicas may still use it. */
  remove(id: string, reason: string): void {
    const session = this.byId.get(id)
    if (session === undefined) return
    this.byId.delete(id)
    this.store()?.remove(id)
    session.end(reason)
    this.onend(session, false)
  }

  /** Ends all sessions in this process. Stored sessions continue in the next one. */
  close(): void {
    this.cancelSweep()
    for (const session of this.byId.values()) {
      this.save(session)
      session.end("svc is shutting down")
      this.onend(session, true)
    }
    this.byId.clear()
    this.store()?.close()
  }

  private restore(id: string, scope: Scope, gateway: Gateway): Session | undefined {
    const found = this.store()?.load(id)
    if (found === undefined || found.scope !== identityOf(scope)) return undefined
    // Before servers hear of it: they would keep its subscriptions if it were refused.
    this.makeRoom()
    const session = new Session(id, found.principal, this.rescope(scope, found.params), found.params)
    this.apply(session, found, gateway)
    this.add(session, gateway)
    // This replica did not follow messages about it until now, so changes since it was read are read here.
    if (this.store()?.shared !== undefined) void this.refresh(session, gateway).catch(() => undefined)
    return session
  }

  /** Ends an idle session if the table is full. Throws a RequestError if all are in use. */
  private makeRoom(): void {
    if (this.byId.size < this.limits.count) return
    const oldest = this.leastRecentlyUsed()
    if (oldest === undefined)
      throw new RequestError("too_many", `svc has ${this.limits.count} sessions already; try again later`)
    this.remove(oldest.id, "made room for another session")
  }

  /** Applies stored data to a session. Nothing of that is stored again. */
  private apply(session: Session, found: StoredSession, gateway: Gateway): void {
    session.streamIsAt(found.stream)
    session.home = found.home
    const isNew = found.logLevel !== session.logLevel
    session.logLevel = found.logLevel
    if (found.logLevel !== undefined && isNew) gateway.notifications.setLogLevel(session, found.logLevel)
    const gone = new Map(session.subscriptions)
    for (const [backend, uri] of found.subscriptions) {
      if (gone.delete(`${backend} ${uri}`)) continue
      session.subscriptions.set(`${backend} ${uri}`, [backend, uri])
      gateway.notifications.subscribe(backend, uri, session, session.era)
    }
    for (const [backend, uri] of gone.values()) {
      session.subscriptions.delete(`${backend} ${uri}`)
      gateway.notifications.unsubscribe(backend, uri, session)
    }
    for (const [backend, task, madeAt] of found.tasks ?? []) {
      // The backend may have given the id to another client since.
      if (gateway.tasks.owners.find("task", backend, session.era, task) !== undefined) continue
      const onlost = () => session.removeTask(backend, task)
      const owned = {
        kind: "task",
        backend,
        era: session.era,
        id: task,
        owner: session,
        caller: undefined,
        madeAt,
        shared: true,
        onlost,
      } as const
      gateway.tasks.owners.make(owned)
      session.tasks.set(`${backend} ${task}`, madeAt === undefined ? [backend, task] : [backend, task, madeAt])
    }
  }

  /** Returns the least recently used idle session of the principal with the most, so that no client evicts another's. */
  private leastRecentlyUsed(): Session | undefined {
    const groups = new Map<string, { count: number; leastRecentlyUsed: Session | undefined }>()
    for (const session of this.byId.values()) {
      const group = groups.get(session.principal) ?? { count: 0, leastRecentlyUsed: undefined }
      groups.set(session.principal, group)
      group.count++
      const idle = session.inFlight === 0 && session.outlet === undefined
      if (idle && (group.leastRecentlyUsed === undefined || session.lastSeen < group.leastRecentlyUsed.lastSeen))
        group.leastRecentlyUsed = session
    }
    const largestFirst = [...groups.values()].sort((a, b) => b.count - a.count)
    return largestFirst.find(({ leastRecentlyUsed }) => leastRecentlyUsed !== undefined)?.leastRecentlyUsed
  }

  private sweep(): void {
    const dead = this.clock.now() - this.limits.ttl
    for (const session of [...this.byId.values()]) {
      session.onMinute()
      if (session.lastSeen > this.clock.now() - 2 * SWEEP_MS) this.save(session)
      if (session.lastSeen < dead && session.inFlight === 0 && session.outlet === undefined)
        this.remove(session.id, "expired")
    }
  }
}

// ---

const SWEEP_MS = 60_000
