/**
 * All configured registries as one: a search asks all of them, and a lookup asks them in order. If a registry fails, but another
 * registry or the cache has an answer, the failure is a warning. If none can be reached, a search and a lookup for an
 * installation use the well-known servers that are part of svc.
 */
import { type RegistrySource, redactedUrl } from "../../config/registries.ts"
import { RequestError } from "../../lib/errors.ts"
import { unknownNameError } from "../../lib/nearest.ts"
import {
  type CachedAnswer,
  getVersion,
  listServers,
  listVersions,
  ping,
  type RegistryClientDeps,
  RegistryError,
} from "./client.ts"
import type { RegistryEntry } from "./entry.ts"
import { loadKnownServers } from "./known-servers.ts"
import { rank, termsOf } from "./search.ts"

/** A value, with warnings about registries that failed or answered from the cache. */
type RegistryResult<T> = { readonly value: T; readonly warnings: readonly string[] }

type RegistryQuery = {
  readonly query: string
  readonly registry?: string | undefined
  /** npm, pypi, oci … or remote. */
  readonly type?: string | undefined
  readonly transport?: string | undefined
  readonly limit: number
  readonly cursor?: string | undefined
}

type SearchResult = {
  readonly entries: readonly RegistryEntry[]
  readonly total: number
  readonly nextCursor: string | undefined
}

type RegistryHealth = {
  readonly name: string
  readonly url: string
  readonly available: boolean
  readonly latencyMs?: number
  readonly error?: string
}

export type Registries = {
  sources(): readonly RegistrySource[]
  /**
   * Searches and ranks by name, title and description; among well-known servers if no registry can be reached. Rejects with a
   * RegistryError if the registries give no valid answer.
   */
  search(query: RegistryQuery): Promise<RegistryResult<SearchResult>>
  /** Finds one version of a server. Rejects with a RequestError (not_found) that names similar servers, or a RegistryError. */
  find(name: string, version: string, registry?: string): Promise<RegistryResult<RegistryEntry>>
  /** Finds a server in the same way to install it; among well-known servers if no registry can be reached. */
  findOrKnown(name: string, version: string): Promise<RegistryResult<RegistryEntry>>
  versions(name: string, registry?: string): Promise<RegistryResult<readonly RegistryEntry[]>>
  status(registry?: string): Promise<readonly RegistryHealth[]>
}

/** The currently configured registries, which `sources` returns. */
export class ConfiguredRegistries implements Registries {
  constructor(
    readonly sources: () => readonly RegistrySource[],
    private readonly deps: RegistryClientDeps,
  ) {}

  private chosen(registry: string | undefined): readonly RegistrySource[] {
    const all = this.sources()
    if (registry === undefined) return all
    const found = all.find(({ name }) => name === registry)
    if (found !== undefined) return [found]
    throw unknownNameError(
      "registry",
      registry,
      all.map(({ name }) => name),
    )
  }

  async find(name: string, version: string, registry?: string): Promise<RegistryResult<RegistryEntry>> {
    const warnings: string[] = []
    let failure: RegistryError | undefined
    for (const source of this.chosen(registry)) {
      try {
        const { value } = withStaleWarning(await getVersion(source, name, version, this.deps), warnings)
        if (value !== undefined) return { value, warnings }
      } catch (error) {
        if (!(error instanceof RegistryError)) throw error
        failure = worse(failure, error)
        warnings.push(error.message)
      }
    }
    const others = name.includes("/") ? [] : await this.shortNames(name, registry)
    const [only] = others
    if (only !== undefined && others.length === 1 && only.name !== name)
      return this.find(only.name, version, only.registry)
    if (failure !== undefined) throw failure
    throw new RequestError("not_found", await this.unknownMessage(name, version, registry, others))
  }

  async findOrKnown(name: string, version: string): Promise<RegistryResult<RegistryEntry>> {
    try {
      return await this.find(name, version)
    } catch (error) {
      if (!(error instanceof RegistryError && error.isUnreachable)) throw error
      const { since, entries } = await loadKnownServers()
      const isNamed = (entry: RegistryEntry) =>
        entry.name === name || (!name.includes("/") && entry.name.toLowerCase().endsWith(`/${name.toLowerCase()}`))
      const [value, other] = entries.filter(isNamed)
      if (value === undefined || other !== undefined || ![value.version, "latest"].includes(version)) throw error
      return { value, warnings: [`${error.message}: this is the entry known to svc since ${since}`] }
    }
  }

  /** Returns the servers with a short name: their full names end in `/name`. */
  private async shortNames(name: string, registry: string | undefined): Promise<readonly RegistryEntry[]> {
    const { entries } = await this.gather(name, this.chosen(registry), []).catch(() => ({
      entries: [] as readonly RegistryEntry[],
    }))
    return entries.filter((entry) => entry.name.toLowerCase().endsWith(`/${name.toLowerCase()}`))
  }

  private async unknownMessage(
    name: string,
    version: string,
    registry: string | undefined,
    others: readonly RegistryEntry[],
  ): Promise<string> {
    if (others.length > 1)
      return `several servers are named ${name}: ${others
        .slice(0, 8)
        .map((entry) => entry.name)
        .join(", ")}; give one of these names`
    const known = await Promise.all(
      this.chosen(registry).map((source) =>
        listVersions(source, name, this.deps).catch(() => ({ value: [] as readonly RegistryEntry[] })),
      ),
    )
    const versions = known.flatMap(({ value }) => value.map((entry) => entry.version))
    if (versions.length > 0) return `${name} has no version ${version}, only ${versions.slice(0, 20).join(", ")}`
    const { entries } = await this.gather(name, this.chosen(registry), []).catch(() => ({
      entries: [] as readonly RegistryEntry[],
    }))
    const near = rank(entries, name.split("/").at(-1) ?? name).slice(0, 3)
    const names = near.map((entry) => entry.name).join(" or ")
    const hint = names === "" ? "; try to search for a single word of the name" : `; did you mean ${names}?`
    return `No registry knows a server named ${name}${hint}`
  }

  /** Collects candidates for a query: the registries' results for its words, and the first pages of their lists by name. */
  private async gather(
    query: string,
    from: readonly RegistrySource[],
    warnings: string[],
  ): Promise<{ readonly entries: readonly RegistryEntry[] }> {
    const failures: RegistryError[] = []
    let answered = 0
    const attempt = async (run: () => Promise<readonly RegistryEntry[]>): Promise<readonly RegistryEntry[]> => {
      try {
        const entries = await run()
        answered++
        return entries
      } catch (error) {
        if (!(error instanceof RegistryError)) throw error
        failures.push(error)
        return []
      }
    }
    const parts = await Promise.all(
      from.flatMap((source) => [
        ...termsOf(query).map((search) => attempt(() => this.pages(source, search, TERM_PAGES, warnings))),
        attempt(() => this.pages(source, undefined, LISTING_PAGES, warnings)),
      ]),
    )
    for (const { message } of failures) if (!warnings.includes(message)) warnings.push(message)
    const failure = failures.reduce<RegistryError | undefined>(worse, undefined)
    if (answered === 0 && failure !== undefined) throw failure
    const byName = new Map<string, RegistryEntry>()
    for (const entry of parts.flat())
      if (!byName.has(entry.name) && entry.status !== "deleted") byName.set(entry.name, entry)
    return { entries: [...byName.values()] }
  }

  /** Collects candidates as `gather` does; the well-known servers if no registry can be reached. */
  private async candidates(
    query: string,
    from: readonly RegistrySource[],
    warnings: string[],
  ): Promise<readonly RegistryEntry[]> {
    try {
      return (await this.gather(query, from, warnings)).entries
    } catch (error) {
      if (!(error instanceof RegistryError && error.isUnreachable)) throw error
      const { since, entries } = await loadKnownServers()
      const causes = warnings.splice(0).join("; ")
      warnings.push(`${causes}: showing matches among ${entries.length} well-known servers known to svc since ${since}`)
      return entries
    }
  }

  /** Reads pages of a registry's list, or of its search for a text. */
  private async pages(
    source: RegistrySource,
    search: string | undefined,
    most: number,
    warnings: string[],
  ): Promise<readonly RegistryEntry[]> {
    const entries: RegistryEntry[] = []
    const until = this.deps.clock.now() + LISTING_MS
    const found = search === undefined ? {} : { search }
    let cursor: string | undefined
    for (let page = 0; page < most; page++) {
      let value: Awaited<ReturnType<typeof listServers>>["value"]
      try {
        value = withStaleWarning(
          await listServers(source, { ...found, cursor, limit: PAGE }, this.deps),
          warnings,
        ).value
      } catch (error) {
        // Part of a list is better than none.
        if (page === 0 || !(error instanceof RegistryError)) throw error
        if (!warnings.includes(error.message)) warnings.push(error.message)
        break
      }
      entries.push(...value.entries)
      if (value.nextCursor === undefined || value.nextCursor === cursor || this.deps.clock.now() > until) break
      cursor = value.nextCursor
    }
    return entries
  }

  async search({
    query,
    registry,
    type,
    transport,
    limit,
    cursor,
  }: RegistryQuery): Promise<RegistryResult<SearchResult>> {
    const start = cursor === undefined ? 0 : Number.parseInt(cursor, 10)
    if (!(start >= 0)) throw new RequestError("invalid_params", "cursor must be the nextCursor of an earlier answer")
    const warnings: string[] = []
    const entries = await this.candidates(query, this.chosen(registry), warnings)
    const matching = entries.filter(
      (entry) =>
        (type === undefined || typesOf(entry).includes(type)) &&
        (transport === undefined || transportsOf(entry).includes(transport)),
    )
    const ranked = query.trim() === "" ? matching : rank(matching, query)
    const end = start + limit
    return {
      value: {
        entries: ranked.slice(start, end),
        total: ranked.length,
        nextCursor: end < ranked.length ? String(end) : undefined,
      },
      warnings,
    }
  }

  async versions(name: string, registry?: string): Promise<RegistryResult<readonly RegistryEntry[]>> {
    const warnings: string[] = []
    let failure: RegistryError | undefined
    for (const source of this.chosen(registry)) {
      try {
        const { value } = withStaleWarning(await listVersions(source, name, this.deps), warnings)
        if (value.length > 0) return { value, warnings }
      } catch (error) {
        if (!(error instanceof RegistryError)) throw error
        failure ??= error
      }
    }
    if (failure !== undefined) throw failure
    const { value } = await this.find(name, "latest", registry)
    return value.name === name ? { value: [value], warnings } : this.versions(value.name, value.registry)
  }

  status(registry?: string): Promise<readonly RegistryHealth[]> {
    return Promise.all(
      this.chosen(registry).map(async (source) => {
        const about = { name: source.name, url: redactedUrl(source) }
        try {
          return { ...about, available: true, latencyMs: await ping(source, this.deps) }
        } catch (error) {
          if (!(error instanceof RegistryError)) throw error
          return { ...about, available: false, error: error.message }
        }
      }),
    )
  }
}

/** Returns the ways to run a server: types of package registries, and `remote`. */
export const typesOf = ({ packages, remotes }: RegistryEntry): readonly string[] => [
  ...new Set([...packages.map(({ registryType }) => registryType), ...(remotes.length > 0 ? ["remote"] : [])]),
]

/** Returns the transports of a server's packages and remotes. */
export const transportsOf = ({ packages, remotes }: RegistryEntry): readonly string[] => [
  ...new Set([...packages.map(({ transport }) => transport.type), ...remotes.map(({ type }) => type)]),
]

// ---

const PAGE = 100
/** Pages of the list by name. Only the registry's own search finds servers beyond them. */
const LISTING_PAGES = 10
/** Pages of a registry's search for one word, whose results are not ranked. */
const TERM_PAGES = 5
/** The time for the pages of a slow registry; the next search continues from the cache. */
const LISTING_MS = 8000

/** Returns the failure to report: one of a registry that can be reached, if there is one. */
const worse = (one: RegistryError | undefined, other: RegistryError): RegistryError =>
  one === undefined || (one.isUnreachable && !other.isUnreachable) ? other : one

/** Adds a warning if an answer is stale. Returns the answer. */
function withStaleWarning<T>(answered: CachedAnswer<T>, warnings: string[]): CachedAnswer<T> {
  const { stale } = answered
  if (stale !== undefined) {
    const warning = `${stale.reason}; using the answer from ${Math.max(1, Math.round(stale.age / 60_000))} min ago`
    if (!warnings.includes(warning)) warnings.push(warning)
  }
  return answered
}
