/**
 * Owns the processes that serve one session each, of servers with `isolation: "session"`. Most clients never end their
 * sessions, hence the rules:
 *
 *  1. A process that its session has not used for the server's `idleTimeout` is stopped. The session's next call starts
 *     another one.
 *  2. A server has `maxProcesses` at most. To start one more, the process that has been unused for longest is stopped; a
 *     process in use never is.
 *  3. A process is in use while it starts, while a call runs on it, while its client is connected and is subscribed to a
 *     resource, while a server request to its client is open, and while it works on a task.
 *  4. A process that is being stopped counts until it is dead.
 */

import type { Caller } from "../backend/attribution.ts"
import type { Backend } from "../backend/backend.ts"
import { PeerError } from "../backend/peer-error.ts"
import type { ServerSpec, Tuning } from "../config/server-spec.ts"
import type { Clock } from "../lib/clock.ts"
import { isTerminal, type Params } from "../wire/message.ts"

export type SessionBackendsDeps = {
  readonly clock: Clock
  /** Creates a session's process of a server without starting it; undefined if the server is gone or svc is stopping. */
  create(id: string, owner: Caller, capabilities: Params): Backend | undefined
  /** Resolves when a backend is no longer opening. */
  whenSettled(backend: Backend): Promise<void>
  /** Returns a server's current tuning. */
  tuningOf(id: string): Pick<Tuning, "idleTimeout" | "maxProcesses"> | undefined
  /** Whether a session is subscribed to resources of a server. */
  isListening(id: string, session: object): boolean
  /** Returns the ids of the tasks that a session has on a server. */
  tasksOf(id: string, session: object): readonly string[]
  /** Called when a process is being stopped; `end` resolves when it is dead. */
  onend(end: Promise<void>): void
  /** Called when a process was stopped although its session continues. */
  onunused(spec: ServerSpec, reason: string): void
}

export class SessionBackends {
  private readonly bySession = new Map<object, Map<string, SessionBackend>>()
  /** Shutdowns under way, by server id. */
  private readonly stopping = new Map<string, Set<Promise<void>>>()
  /** Why a session's process was stopped before the session ended, by server id. */
  private readonly lost = new WeakMap<object, Map<string, string>>()

  constructor(private readonly deps: SessionBackendsDeps) {}

  /**
   * Returns the session's own process of a server. Starts it at the session's first call, and again after it has failed; if
   * the start fails, the returned backend is not connected. Returns undefined if the server was removed, or a reason if there
   * is no room for the process. `owner` reaches the client outside of any call; `caller` is notified if the session lost the
   * state of its earlier process. svc announces the client's `capabilities` to the process.
   */
  async open(id: string, owner: Caller, caller: Caller, capabilities: Params): Promise<Backend | string | undefined> {
    const { session } = owner
    while (this.find(id, session) === undefined && this.isFull(id))
      if (!(await this.makeRoom(id))) return this.refusal(id)
    const running = this.find(id, session)
    const backend = running ?? this.deps.create(id, owner, capabilities)
    if (backend === undefined) return undefined
    if (running === undefined) {
      const lost = this.add(id, owner, backend)
      if (lost !== undefined) {
        const data = `${backend.spec.name}: the process of this session ${lost}; svc starts a new one, and the state of the old one is lost`
        caller.notify("notifications/message", { level: "warning", logger: "svc", data })
      }
      backend.start()
    }
    // The first call after a failure starts it again.
    else if (running.state.kind === "failed") running.restart()
    this.use(backend)
    await this.deps.whenSettled(backend)
    this.use(backend)
    return backend
  }

  /** Returns a session's processes, by server id. */
  of(session: object): ReadonlyMap<string, Backend> {
    return new Map([...(this.bySession.get(session) ?? [])].map(([id, { backend }]) => [id, backend]))
  }

  find(id: string, session: object): Backend | undefined {
    return this.bySession.get(session)?.get(id)?.backend
  }

  all(): readonly Backend[] {
    return this.entries().map(({ backend }) => backend)
  }

  /** Whether a server has as many processes as it may. */
  isFull(id: string): boolean {
    return this.entries(id).length + (this.stopping.get(id)?.size ?? 0) >= this.maxProcesses(id)
  }

  /** Returns why a session gets no process of a server that is full. */
  refusal(id: string): string {
    return `has ${this.maxProcesses(id)} processes for sessions and all are in use; try again later, or raise its "maxProcesses"`
  }

  /** Adds a process. Returns why the session lost its previous one, if it did. */
  add(id: string, owner: Caller, backend: Backend): string | undefined {
    const { session } = owner
    const own = this.bySession.get(session) ?? new Map<string, SessionBackend>()
    this.bySession.set(session, own)
    const entry: SessionBackend = { id, owner, backend, cancel: () => undefined }
    own.set(id, entry)
    this.watch(entry)
    const reason = this.lost.get(session)?.get(id)
    this.lost.get(session)?.delete(id)
    return reason
  }

  /** Records that processes of a session ended with the replica that ran them; the session's next calls report it. */
  noteLost(ids: readonly string[], session: object): void {
    const own = this.lost.get(session) ?? new Map<string, string>()
    this.lost.set(session, own)
    for (const id of ids) own.set(id, "ended with the replica of svc that ran it")
  }

  /** Marks a process as used by a call that is about to be sent, so that it is not stopped to make room meanwhile. */
  use({ published }: Backend): void {
    if (published !== undefined) published.open.connection.lastUsed = this.deps.clock.now() + SOON_MS
  }

  /** Stops the processes of one server, or of one session. */
  end(wanted: { readonly id?: string; readonly session?: object }): void {
    for (const entry of this.entries(wanted.id))
      if (wanted.session === undefined || wanted.session === entry.owner.session) void this.stop(entry)
  }

  /**
   * Stops the process of a server that has been unused for longest, or waits for one that is being stopped. Returns false if
   * all are in use.
   */
  async makeRoom(id: string): Promise<boolean> {
    const unused = this.entries(id).filter(({ backend }) => usedAt(backend) < Number.POSITIVE_INFINITY)
    for (const entry of unused.sort((one, other) => usedAt(one.backend) - usedAt(other.backend))) {
      if (await this.isInUse(entry)) continue
      // During the check, the session may have stopped or used the process.
      if (!this.has(entry)) return true
      if (usedAt(entry.backend) > this.deps.clock.now()) continue
      await this.drop(entry, "was stopped to make room for another session's")
      return true
    }
    const pending = this.stopping.get(id)
    if (pending !== undefined) await Promise.race(pending)
    return pending !== undefined
  }

  /** Applies a change of a server's tuning. */
  retune(id: string): void {
    for (const entry of this.entries(id)) this.watch(entry)
  }

  // ---

  private maxProcesses(id: string): number {
    return this.deps.tuningOf(id)?.maxProcesses ?? Number.POSITIVE_INFINITY
  }

  private entries(id?: string): SessionBackend[] {
    const all = [...this.bySession.values()].flatMap((own) => [...own.values()])
    return id === undefined ? all : all.filter((entry) => entry.id === id)
  }

  private has(entry: SessionBackend): boolean {
    return this.bySession.get(entry.owner.session)?.get(entry.id) === entry
  }

  private stop(entry: SessionBackend): Promise<void> {
    const { id, owner, backend } = entry
    const own = this.bySession.get(owner.session)
    own?.delete(id)
    if (own?.size === 0) this.bySession.delete(owner.session)
    entry.cancel()
    const pending = this.stopping.get(id) ?? new Set()
    this.stopping.set(id, pending)
    const end: Promise<void> = backend.stop().then(() => {
      pending.delete(end)
      if (pending.size === 0) this.stopping.delete(id)
    })
    pending.add(end)
    this.deps.onend(end)
    return end
  }

  /** Stops a process whose session continues; the session is notified with its next call. */
  private drop(entry: SessionBackend, reason: string): Promise<void> {
    const { id, owner, backend } = entry
    // A process that is not connected holds nothing that the session could lose.
    if (backend.published !== undefined) {
      this.lost.set(owner.session, (this.lost.get(owner.session) ?? new Map<string, string>()).set(id, reason))
      this.deps.onunused(backend.spec, reason)
    }
    return this.stop(entry)
  }

  /** Checks after `ms` milliseconds, by default the idle time, whether a process is unused. */
  private watch(entry: SessionBackend, ms?: number): void {
    const { idleTimeout } = this.deps.tuningOf(entry.id) ?? entry.backend.spec.tuning
    entry.cancel()
    if (idleTimeout > 0)
      entry.cancel = this.deps.clock.after(ms ?? idleTimeout, () => void this.checkIdle(entry, idleTimeout))
  }

  private async checkIdle(entry: SessionBackend, idleTimeout: number): Promise<void> {
    const left = () => usedAt(entry.backend) + idleTimeout - this.deps.clock.now()
    const inUse = left() <= 0 && (await this.isInUse(entry))
    if (!this.has(entry)) return
    if (inUse) this.watch(entry, idleTimeout)
    else if (left() > 0) this.watch(entry, Math.min(left(), idleTimeout))
    else void this.drop(entry, `was stopped after ${idleTimeout / 1000} s without a call`)
  }

  /** Whether a process is in use although no call runs on it. */
  private async isInUse({ id, owner, backend }: SessionBackend): Promise<boolean> {
    if (backend.published === undefined) return false
    const { connection } = backend.published.open
    const listens = connection.isAsking || this.deps.isListening(id, owner.session)
    if (listens && owner.isConnected?.() !== false) return true
    for (const taskId of this.deps.tasksOf(id, owner.session)) {
      const open = await connection.ask("tasks/get", { taskId }, TASK_MS).then(
        ({ status }) => !isTerminal(status),
        // A process that is too busy to answer is working.
        (error: unknown) => !(error instanceof PeerError),
      )
      if (open) return true
    }
    return false
  }
}

// ---

type SessionBackend = {
  /** The id of the server. */
  readonly id: string
  /** Reaches the session's client outside of any call. */
  readonly owner: Caller
  readonly backend: Backend
  /** Cancels the next idle check. */
  cancel: () => void
}

/** Milliseconds within which svc sends a call after `use`. */
const SOON_MS = 10
/** Milliseconds that a process has to answer `tasks/get`. */
const TASK_MS = 5000

/**
 * Returns when its session last used a process, in milliseconds since the epoch: Infinity while it starts or a call runs on
 * it, -Infinity for a dead one.
 */
function usedAt({ published, state }: Backend): number {
  if (published !== undefined)
    return published.open.inFlight > 0 ? Number.POSITIVE_INFINITY : published.open.connection.lastUsed
  return state.kind === "starting" || state.kind === "recovering" ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY
}
