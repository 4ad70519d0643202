/**
 * Ends the processes of servers that nobody needs, and stores what they list. A process is needed while it starts, while a call or a
 * server request runs on it, while a client is subscribed to its resources, and while it has tasks.
 */
import type { Backend } from "../backend/backend.ts"
import type { Connection } from "../backend/connection.ts"
import type { EstablishedConnection } from "../backend/established-connection.ts"
import type { Listing } from "../catalog/listing.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import type { Clock } from "../lib/clock.ts"
import type { ListingStore } from "../store/listings.ts"

type SleepersDeps = {
  readonly clock: Clock
  readonly listings: ListingStore | undefined
  /** Whether a server has subscriptions or tasks. */
  isNeeded(id: string): boolean
  /** A server was put to sleep after so many milliseconds without a call. */
  onsleep(spec: ServerSpec, ms: number): void
}

export class Sleepers {
  /** Cancels the next check of a connected server. */
  private readonly checks = new Map<Backend, () => void>()
  /** What is stored of each server. */
  private readonly stored = new WeakMap<Backend, Listing>()

  constructor(private readonly deps: SleepersDeps) {}

  /** Follows a backend: its state, its listing or its tuning may have changed. */
  changed(backend: Backend): void {
    const { spec, published, state } = backend
    const after = sleepAfter(backend)
    // What is published of a server that is only awake is its last listing.
    const isListed = published !== undefined && state.kind === "connected"
    if (!isListed || (after === undefined && spec.tuning.lazy !== true)) {
      this.forget(backend)
      return
    }
    // Before all lists are answered, a listing is not complete.
    if (Object.keys(published.listing.failing ?? {}).length === 0 && this.stored.get(backend) !== published.listing) {
      this.stored.set(backend, published.listing)
      this.deps.listings?.write(spec, published.listing)
    }
    if (after !== undefined && !this.checks.has(backend)) this.watch(backend, after)
  }

  /** Stops following a backend. */
  forget(backend: Backend): void {
    this.checks.get(backend)?.()
    this.checks.delete(backend)
  }

  close(): void {
    for (const backend of [...this.checks.keys()]) this.forget(backend)
  }

  // ---

  private watch(backend: Backend, ms: number): void {
    this.checks.set(
      backend,
      this.deps.clock.after(ms, () => {
        this.checks.delete(backend)
        this.check(backend)
      }),
    )
  }

  private check(backend: Backend): void {
    const { spec, published } = backend
    const after = sleepAfter(backend)
    if (published === undefined || after === undefined) return
    const connections = connectionsOf(published.open)
    const until = Math.max(...connections.map(({ lastUsed, keptUntil }) => Math.max(lastUsed + after, keptUntil)))
    const left = until - this.deps.clock.now()
    if (needOf(backend, this.deps.isNeeded) !== undefined) this.watch(backend, after)
    else if (left > 0) this.watch(backend, left)
    else {
      backend.sleep()
      this.deps.onsleep(spec, after)
    }
  }
}

/** What keeps a process from sleeping: running calls; a task, a subscription or a question; lists that it would not offer asleep. */
export type Need =
  | { readonly kind: "calls"; readonly count: number }
  | { readonly kind: "open" }
  | { readonly kind: "lists" }

/** Returns what needs the process of a server; undefined if it may sleep. `isNeeded`: whether a task or a subscription does. */
export function needOf(
  { spec, published }: Pick<Backend, "spec" | "published">,
  isNeeded: (id: string) => boolean,
): Need | undefined {
  const count = published?.open.inFlight ?? 0
  if (count > 0) return { kind: "calls", count }
  if (isNeeded(spec.id) || (published !== undefined && connectionsOf(published.open).some(({ isAsking }) => isAsking)))
    return { kind: "open" }
  return Object.keys(published?.listing.failing ?? {}).length > 0 ? { kind: "lists" } : undefined
}

// ---

/** Returns the connections to a server: one, or one of each era. */
const connectionsOf = ({ connection, pair }: EstablishedConnection): readonly Connection[] =>
  pair === undefined ? [connection] : [pair.of("legacy").connection, pair.of("modern").connection]

/** How long a process that was started only to list is kept, in milliseconds. */
const LISTED_MS = 2000

/** Returns the milliseconds without a call after which a server sleeps; undefined for never. */
function sleepAfter({ spec: { tuning }, published, state }: Backend): number | undefined {
  // A lazy server whose process has served no call was started only to list.
  const isUnused =
    state.kind === "connected" && published !== undefined && published.open.connection.lastUsed <= state.since
  return tuning.lazy === true && isUnused ? Math.min(LISTED_MS, tuning.sleepAfter ?? LISTED_MS) : tuning.sleepAfter
}
