/**
 * What backends speak of by an id alone, long after the call that made it: a task, a page that a person was sent to. Here
 * stands whose each is, for several clients share a backend.
 *
 *  1. What a session made ends with it.
 *  2. The number kept is bounded; the oldest are forgotten first.
 */
import type { Caller } from "../backend/attribution.ts"
import { dropOldest } from "../lib/bounded.ts"

export type Claim = {
  readonly kind: "task" | "elicitation"
  /** The backend's id. */
  readonly backend: string
  /** The backend's own word for it. */
  readonly id: string
  /** A session; the principal where clients have no sessions. */
  readonly owner: object | string
  /** The way to the owner outside of any call, where there is one. */
  readonly caller: Caller | undefined
}

export class Claims {
  private readonly made = new Map<string, Claim>()

  make(claim: Claim): void {
    const name = nameOf(claim)
    this.made.delete(name)
    this.made.set(name, claim)
    dropOldest(this.made, MAX_CLAIMS)
  }

  find(kind: Claim["kind"], backend: string, id: unknown): Claim | undefined {
    return typeof id === "string" ? this.made.get(nameOf({ kind, backend, id })) : undefined
  }

  /** All of one kind that are this owner's, in the order they were made. */
  of(owner: Claim["owner"], kind: Claim["kind"]): readonly Claim[] {
    return [...this.made.values()].filter((claim) => claim.owner === owner && claim.kind === kind)
  }

  drop(claim: Claim): void {
    this.made.delete(nameOf(claim))
  }

  /** A session is gone. */
  forget(owner: object): void {
    for (const claim of this.made.values()) if (claim.owner === owner) this.drop(claim)
  }
}

// ---

const MAX_CLAIMS = 10_000

const nameOf = ({ kind, backend, id }: Pick<Claim, "kind" | "backend" | "id">): string =>
  JSON.stringify([kind, backend, id])
