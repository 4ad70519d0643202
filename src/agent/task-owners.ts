/**
 * Records the owners of tasks and elicitations: backends name these only by id, long after the call that made them, and
 * several clients share a backend.
 *
 *  1. The records of a session end with the session.
 *  2. The number of records is bounded. The owner with the most loses its oldest first, so that no client can evict another's.
 *  3. The records serve lists and notifications. Access to a task is decided by its sealed id (call/task-id.ts).
 *  4. A process is kept for a task until a moment that is known of the task, or for as long as the record. choice: Servers that sleep.
 */
import type { Caller } from "../backend/attribution.ts"
import type { Era } from "../wire/era.ts"

export type Ownership = {
  readonly kind: "task" | "elicitation"
  /** The id of the backend. */
  readonly backend: string
  /** The era of the connection over which the backend gave the id: the ids of two connections may collide. */
  readonly era: Era
  /** The id that the backend gave it. */
  readonly id: string
  /** A session, or the principal of clients that have no session. */
  readonly owner: object | string
  /** Reaches the owner outside of any call; undefined if that is not possible. */
  readonly caller: Caller | undefined
  /** The replica on which a task was made, if that was not this process; undefined if it is not known. */
  readonly madeAt?: string | undefined
  /** Whether other clients use the process too. Processes of single sessions may give the same id twice. */
  readonly shared: boolean
  /** Called when the process has given the id to another client. */
  readonly onlost?: (() => void) | undefined
}

export class TaskOwners {
  /** Records of shared processes: an id that is given again belongs to the client that got it last. */
  private readonly shared = new Map<string, Ownership>()
  private readonly byOwner = new Map<Ownership["owner"], Map<string, Ownership>>()
  private count = 0
  /** Until when processes are kept for their tasks, in milliseconds since the epoch. */
  private readonly keptUntil = new WeakMap<Ownership, number>()

  /** Records an owner, in place of earlier records of the same id. */
  make(ownership: Ownership): void {
    const name = nameOf(ownership)
    const { owner } = ownership
    const last = ownership.shared ? this.shared.get(name) : undefined
    const before = [this.byOwner.get(owner)?.get(name), last]
    if (last !== undefined && last.owner !== owner) last.onlost?.()
    for (const old of before) if (old !== undefined) this.drop(old)
    const own = this.byOwner.get(owner) ?? new Map<string, Ownership>()
    this.byOwner.set(owner, own.set(name, ownership))
    this.count++
    if (ownership.shared) this.shared.set(name, ownership)
    if (this.count > MAX_OWNERSHIPS) this.dropOldest()
  }

  /** Returns the record of an id that a shared process gave. */
  find(kind: Ownership["kind"], backend: string, era: Era, id: unknown): Ownership | undefined {
    return typeof id === "string" ? this.shared.get(nameOf({ kind, backend, era, id })) : undefined
  }

  /** Returns an owner's records of one kind, in the order in which they were made. */
  of(owner: Ownership["owner"], kind: Ownership["kind"]): readonly Ownership[] {
    return [...(this.byOwner.get(owner)?.values() ?? [])].filter((ownership) => ownership.kind === kind)
  }

  /** Whether the shared process of a server is kept for a task at this time. */
  keepsProcess(backend: string, now: number): boolean {
    for (const task of this.tasksOf(backend))
      if ((this.keptUntil.get(task) ?? Number.POSITIVE_INFINITY) > now) return true
    return false
  }

  /** Keeps the process no longer than until this time for a task. */
  keepUntil(task: Ownership, until: number): void {
    this.keptUntil.set(task, Math.min(until, this.keptUntil.get(task) ?? until))
  }

  /** Notes that the shared process of a server has ended: no later process knows its tasks because it runs. */
  processEnded(backend: string): void {
    for (const task of this.tasksOf(backend)) this.keepUntil(task, 0)
  }

  drop(ownership: Ownership): void {
    const name = nameOf(ownership)
    const own = this.byOwner.get(ownership.owner)
    if (own?.get(name) !== ownership) return
    own.delete(name)
    this.count--
    if (own.size === 0) this.byOwner.delete(ownership.owner)
    if (this.shared.get(name) === ownership) this.shared.delete(name)
  }

  /** Removes the records of a session that has ended. */
  forget(owner: object): void {
    for (const ownership of [...(this.byOwner.get(owner)?.values() ?? [])]) this.drop(ownership)
  }

  private *tasksOf(backend: string): Iterable<Ownership> {
    for (const ownership of this.shared.values())
      if (ownership.backend === backend && ownership.kind === "task") yield ownership
  }

  private dropOldest(): void {
    let most: ReadonlyMap<string, Ownership> = new Map()
    for (const own of this.byOwner.values()) if (own.size > most.size) most = own
    const [oldest] = most.values()
    if (oldest !== undefined) this.drop(oldest)
  }
}

// ---

const MAX_OWNERSHIPS = 10_000

const nameOf = ({ kind, backend, era, id }: Pick<Ownership, "kind" | "backend" | "era" | "id">): string =>
  JSON.stringify([kind, backend, era, id])
