/**
 * What backends speak of by an id alone, long after the call that made it: a task, a page that a person was sent to. Here
 * stands whose each is, for several clients share a backend.
 *
 *  1. What a session made ends with it.
 *  2. The number kept is bounded. The owner that has most loses its oldest first: who makes many takes no room from others.
 *  3. It serves to list and to notify. Whose a task is, its id says (session/task-id.ts).
 */
import type { Caller } from "../backend/attribution.ts"

export type Ownership = {
  readonly kind: "task" | "elicitation"
  /** The backend's id. */
  readonly backend: string
  /** The backend's own word for it. */
  readonly id: string
  /** A session; the principal where clients have no sessions. */
  readonly owner: object | string
  /** The way to the owner outside of any call, where there is one. */
  readonly caller: Caller | undefined
  /** Whether the process that says the id is other clients' too: one that is a session's own may say the same as another. */
  readonly shared: boolean
}

export class TaskOwners {
  /** Of shared processes: an id that is given anew belongs to the client that got it last. */
  private readonly shared = new Map<string, Ownership>()
  private readonly byOwner = new Map<Ownership["owner"], Map<string, Ownership>>()
  private count = 0

  make(ownership: Ownership): void {
    const name = nameOf(ownership)
    const { owner } = ownership
    const before = [this.byOwner.get(owner)?.get(name), ownership.shared ? this.shared.get(name) : undefined]
    for (const old of before) if (old !== undefined) this.drop(old)
    const own = this.byOwner.get(owner) ?? new Map<string, Ownership>()
    this.byOwner.set(owner, own.set(name, ownership))
    this.count++
    if (ownership.shared) this.shared.set(name, ownership)
    if (this.count > MAX_OWNERSHIPS) this.dropOldest()
  }

  /** The claim on what a shared process calls so. */
  find(kind: Ownership["kind"], backend: string, id: unknown): Ownership | undefined {
    return typeof id === "string" ? this.shared.get(nameOf({ kind, backend, id })) : undefined
  }

  /** All of one kind that are this owner's, in the order they were made. */
  of(owner: Ownership["owner"], kind: Ownership["kind"]): readonly Ownership[] {
    return [...(this.byOwner.get(owner)?.values() ?? [])].filter((ownership) => ownership.kind === kind)
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

  /** A session is gone. */
  forget(owner: object): void {
    for (const ownership of [...(this.byOwner.get(owner)?.values() ?? [])]) this.drop(ownership)
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

const nameOf = ({ kind, backend, id }: Pick<Ownership, "kind" | "backend" | "id">): string =>
  JSON.stringify([kind, backend, id])
