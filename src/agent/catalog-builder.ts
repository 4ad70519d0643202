/**
 * Builds what svc offers: one catalog for all sessions, and one for each session that has processes of its own
 * (`isolation: "session"`).
 *
 *  1. The shared catalog is built once for a burst of changes, in a microtask after the first of them.
 *  2. A session's catalog differs from the shared one in what its own processes list, and is built when it is read.
 *  3. The lists of a session's process stay on offer after the process has ended, until the next one has listed.
 *  4. Quarantined tools are left out of both.
 */
import { isDeepStrictEqual } from "node:util"
import { buildCatalog, type Catalog, type CatalogSource, emptyCatalog, LIST_KEYS, withOwn } from "../catalog/catalog.ts"
import { filledFrom, type Listing } from "../catalog/listing.ts"
import type { ServerSpec } from "../config/server-spec.ts"

export type CatalogBuilderDeps = {
  /** Returns the connected servers and what they list, in the plan's order. */
  connected(): readonly Pick<CatalogSource, "spec" | "listing">[]
  /** Returns the names of the tools that are hidden from clients because their definitions have changed. */
  quarantined(spec: ServerSpec, listing: Listing): ReadonlySet<string>
  /** The longest qualified name, in characters. */
  readonly maxName: number
  /** Called after each build of the shared catalog. */
  onbuilt(): void
}

export class CatalogBuilder {
  private shared: Catalog = emptyCatalog()
  private isDue = false
  private readonly bySession = new Map<object, SessionCatalog>()

  constructor(private readonly deps: CatalogBuilderDeps) {}

  /** The catalog of sessions that have no processes of their own. */
  get catalog(): Catalog {
    return this.shared
  }

  /** Returns the catalog of a session. */
  catalogOf(session: object): Catalog {
    const own = this.bySession.get(session)
    if (own === undefined) return this.shared
    if (own.base !== this.shared) {
      const sources = this.shared.parts.flatMap(({ spec, listing: shared }) => {
        const listing = own.listings.get(spec.id)
        return listing === undefined ? [] : [[spec.id, this.source(spec, filledFrom(shared, listing))] as const]
      })
      own.catalog = withOwn(this.shared, new Map(sources), own.catalog)
      own.base = this.shared
    }
    return own.catalog
  }

  /** Schedules a build of the shared catalog. */
  invalidate(): void {
    if (this.isDue) return
    this.isDue = true
    queueMicrotask(() => this.flush())
  }

  /** Runs a scheduled build at once. */
  flush(): void {
    if (!this.isDue) return
    this.isDue = false
    const sources = this.deps.connected().map(({ spec, listing }) => this.source(spec, listing))
    this.shared = buildCatalog(sources, this.shared, this.deps.maxName)
    this.deps.onbuilt()
  }

  /** Records the lists of a session's own process of a server. Returns whether they are new. */
  setOwn(session: object, id: string, listing: Listing): boolean {
    const own = this.bySession.get(session) ?? { listings: new Map(), base: undefined, catalog: emptyCatalog() }
    if (own.listings.get(id) === listing) return false
    this.bySession.set(session, own)
    own.listings.set(id, listing)
    own.base = undefined
    return true
  }

  /** Forgets the lists of a session's own process of a server if the shared process lists the same. */
  dropOwnIfSame(session: object, id: string, shared: Listing | undefined): void {
    const listing = this.bySession.get(session)?.listings.get(id)
    if (listing !== undefined && shared !== undefined && isSameOffer(listing, shared)) this.dropOwn(session, id)
  }

  /** Forgets the lists of all sessions' own processes of a server. */
  dropServer(id: string): void {
    for (const session of this.bySession.keys()) this.dropOwn(session, id)
  }

  dropSession(session: object): void {
    this.bySession.delete(session)
  }

  // ---

  private source(spec: ServerSpec, listing: Listing): CatalogSource {
    return { spec, listing, quarantined: this.deps.quarantined(spec, listing) }
  }

  private dropOwn(session: object, id: string): void {
    const own = this.bySession.get(session)
    if (own?.listings.delete(id) !== true) return
    own.base = undefined
    if (own.listings.size === 0) this.bySession.delete(session)
  }
}

// ---

/** What a session's own processes list, by server id, and the catalog made of that and of `base`. */
type SessionCatalog = { readonly listings: Map<string, Listing>; base: Catalog | undefined; catalog: Catalog }

/** Whether two processes of one server list the same. */
const isSameOffer = (one: Listing, other: Listing): boolean =>
  Object.values(LIST_KEYS).every((key) => isDeepStrictEqual(one[key], other[key]))
