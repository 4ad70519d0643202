/**
 * Processes that sessions have of their own, of servers with `isolation: "session"`. Most clients never end their sessions:
 *
 *  1. A process that its session has not used for the server's `idleTimeout` ends. The session's next call starts another.
 *  2. A server has `maxProcesses` at most. For one more, the one that has been unused for longest ends; one in use never.
 *  3. In use is a process while it starts, while a call runs on it, while its client can hear it and is subscribed to
 *     something or being asked, and while it works on a task.
 *  4. A process that is being ended counts until it is dead.
 */

import type { Caller } from "../backend/attribution.ts"
import type { Backend } from "../backend/backend.ts"
import { PeerError } from "../backend/connection.ts"
import type { ServerSpec, Tuning } from "../config/server-spec.ts"
import type { Clock } from "../lib/clock.ts"
import { isTerminal } from "../wire/message.ts"

export type SessionBackendsDeps = {
  readonly clock: Clock
  /** A server's tuning as it is now. */
  tuningOf(id: string): Pick<Tuning, "idleTimeout" | "maxProcesses"> | undefined
  /** Whether a session is subscribed to resources of a server. */
  isListening(id: string, session: object): boolean
  /** The tasks that a session has on a server. */
  tasksOf(id: string, session: object): readonly string[]
  /** A process is being ended; `end` resolves when it is dead. */
  onend(end: Promise<void>): void
  /** A process was ended although its session goes on. */
  onunused(spec: ServerSpec, why: string): void
}

export class SessionBackends {
  private readonly bySession = new Map<object, Map<string, SessionBackend>>()
  /** The ends of processes that still count, by the id of their server. */
  private readonly stopping = new Map<string, Set<Promise<void>>>()
  /** Why a session's process was ended before the session was, by the id of its server. */
  private readonly lost = new WeakMap<object, Map<string, string>>()

  constructor(private readonly deps: SessionBackendsDeps) {}

  /** A session's, by the id of their server. */
  of(session: object): ReadonlyMap<string, Backend> {
    return new Map([...(this.bySession.get(session) ?? [])].map(([id, { backend }]) => [id, backend]))
  }

  find(id: string, session: object): Backend | undefined {
    return this.bySession.get(session)?.get(id)?.backend
  }

  all(): readonly Backend[] {
    return this.entries().map(({ backend }) => backend)
  }

  isFull(id: string): boolean {
    return this.entries(id).length + (this.stopping.get(id)?.size ?? 0) >= this.maxProcesses(id)
  }

  /** Why a session gets no process of a server that is full. */
  refusal(id: string): string {
    return `has ${this.maxProcesses(id)} processes for sessions and all are in use; try again later, or raise its "maxProcesses"`
  }

  /** Adds a process; returns why the session has lost the one before, if it has. */
  add(id: string, owner: Caller, backend: Backend): string | undefined {
    const { session } = owner
    const own = this.bySession.get(session) ?? new Map<string, SessionBackend>()
    this.bySession.set(session, own)
    const entry: SessionBackend = { id, owner, backend, cancel: () => undefined }
    own.set(id, entry)
    this.watch(entry)
    const why = this.lost.get(session)?.get(id)
    this.lost.get(session)?.delete(id)
    return why
  }

  /** Says that the session's call comes in a moment: until then its process is not the one to make room. */
  use({ published }: Backend): void {
    if (published !== undefined) published.open.connection.lastUsed = this.deps.clock.now() + SOON_MS
  }

  /** Ends those of one server, or of one session. */
  end(wanted: { readonly id?: string; readonly session?: object }): void {
    for (const entry of this.entries(wanted.id))
      if (wanted.session === undefined || wanted.session === entry.owner.session) void this.stop(entry)
  }

  /** Ends the process of a server that has been unused for longest, or waits for one that is ending. False if all are in use. */
  async makeRoom(id: string): Promise<boolean> {
    const unused = this.entries(id).filter(({ backend }) => usedAt(backend) < Number.POSITIVE_INFINITY)
    for (const entry of unused.sort((one, other) => usedAt(one.backend) - usedAt(other.backend))) {
      if (await this.isInUse(entry)) continue
      // While svc asked, its session may have ended it, or used it.
      if (!this.has(entry)) return true
      if (usedAt(entry.backend) > this.deps.clock.now()) continue
      await this.drop(entry, "was ended to make room for another session's")
      return true
    }
    const dying = this.stopping.get(id)
    if (dying !== undefined) await Promise.race(dying)
    return dying !== undefined
  }

  /** A server's tuning is another. */
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
    const dying = this.stopping.get(id) ?? new Set()
    this.stopping.set(id, dying)
    const end: Promise<void> = backend.stop().then(() => {
      dying.delete(end)
      if (dying.size === 0) this.stopping.delete(id)
    })
    dying.add(end)
    this.deps.onend(end)
    return end
  }

  /** Ends a process that its session may miss: it is told with its next call. */
  private drop(entry: SessionBackend, why: string): Promise<void> {
    const { id, owner, backend } = entry
    // One that is dead already held nothing more.
    if (backend.published !== undefined) {
      this.lost.set(owner.session, (this.lost.get(owner.session) ?? new Map<string, string>()).set(id, why))
      this.deps.onunused(backend.spec, why)
    }
    return this.stop(entry)
  }

  /** Looks after `ms` milliseconds whether a process is unused. */
  private watch(entry: SessionBackend, ms?: number): void {
    const { idleTimeout } = this.deps.tuningOf(entry.id) ?? entry.backend.spec.tuning
    entry.cancel()
    if (idleTimeout > 0)
      entry.cancel = this.deps.clock.after(ms ?? idleTimeout, () => void this.checkIdle(entry, idleTimeout))
  }

  private async checkIdle(entry: SessionBackend, idleTimeout: number): Promise<void> {
    const left = () => usedAt(entry.backend) + idleTimeout - this.deps.clock.now()
    const held = left() <= 0 && (await this.isInUse(entry))
    if (!this.has(entry)) return
    if (held || left() > 0) this.watch(entry, held ? idleTimeout : Math.min(left(), idleTimeout))
    else void this.drop(entry, `was ended after ${idleTimeout / 1000} s without a call`)
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
        // A process that is too busy to answer works on something.
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
  /** The way to the session's client outside of any call. */
  readonly owner: Caller
  readonly backend: Backend
  /** Calls off the next look. */
  cancel: () => void
}

/** How long a call may take from `use` to its being sent. */
const SOON_MS = 10
/** How long a process may take to say how a task goes on. */
const TASK_MS = 5000

/**
 * When its session last used a process, milliseconds since the epoch: Infinity while it starts or a call runs on it,
 * -Infinity for one that is dead.
 */
function usedAt({ published, state }: Backend): number {
  if (published !== undefined)
    return published.open.inFlight > 0 ? Number.POSITIVE_INFINITY : published.open.connection.lastUsed
  return state.kind === "starting" || state.kind === "recovering" ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY
}
