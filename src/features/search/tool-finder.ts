/**
 * Finds tools for the client of a view: by a ranked search, by name, by similar names. One index serves all views, and a
 * search sees only the tools of its view. The first search indexes a listing, and the first search after a change indexes it
 * again.
 *
 * Callers import this file with `await import`, because it loads the vocabulary of the search.
 */

import { OWN_NAMES, partTools, toolOf, type View } from "../../catalog/catalog.ts"
import type { Listing, Tool } from "../../catalog/listing.ts"
import { OWN, splitName } from "../../catalog/name.ts"
import type { FoundTool, Searchable, ToolSearch } from "../../catalog/tool-search.ts"
import { nearest } from "../../lib/nearest.ts"
import {
  createSearchIndex,
  removeListing,
  type SearchServer,
  search,
  updateInPieces,
  updateListing,
} from "./ranking.ts"
import { corrections, lettersOf, type Spelling } from "./spelling.ts"

/** Returns the search over tools, and loads it at the first use. */
export type OpenFinder = () => Promise<ToolFinder>

/** A server of a view with its tools under their names in the view. */
export type ServerTools = {
  readonly server: string
  readonly instructions: string | undefined
  readonly tags: readonly string[]
  tools(): readonly Tool[]
  readonly count: number
}

/** The id for svc's own tools; no server's id ends in a space. */
const OWN_ID = "svc "
/** The most listings of one server in the index. */
const MAX_LISTINGS = 5

/** An indexed listing: its key in the index, its texts, and whether it comes from a session's own process. */
type IndexedListing = { readonly key: string; readonly texts: readonly string[]; readonly isOwn: boolean }

/** A name in a view: `word` is the tool's own name, `stem` the full name. */
type KnownName = Spelling & { readonly slug: string }

export class ToolFinder implements ToolSearch {
  private readonly index = createSearchIndex()
  /** The indexed listings of each server, by its id; the most recently searched is last. */
  private readonly indexed = new Map<string, IndexedListing[]>()
  private readonly names = new WeakMap<View, readonly KnownName[]>()
  private count = 0
  /** The listings that are being indexed, by their texts. */
  private readonly building = new Map<readonly string[], Promise<void>>()

  /** The number of listings that have been indexed so far. */
  get indexedListings(): number {
    return this.count
  }

  /** Indexes long listings of a catalog, and lets others work in between. Without it, `find` indexes them at once. */
  async prepare({ catalog }: Pick<Searchable, "catalog">, pause: () => Promise<void>): Promise<void> {
    for (const { spec, listing, plain, own } of catalog.parts) {
      const texts = plain.entries["tools/list"]
      const isKnown = this.indexed.get(spec.id)?.some((one) => isEqual(one.texts, texts)) === true
      if (texts.length <= LONG_LISTING || isKnown) continue
      const build = async () => {
        const key = `${spec.id} ${this.count++}`
        for (const _ of updateInPieces(this.index, serverOf(spec.slug, listing, key), parsed(texts))) await pause()
        this.keep(spec.id, { key, texts, isOwn: own === true }, undefined)
      }
      const building = this.building.get(texts) ?? build().finally(() => this.building.delete(texts))
      this.building.set(texts, building)
      await building
    }
  }

  find(searchable: Searchable, query: string, limit: number, servers?: readonly string[]): readonly FoundTool[] {
    const { view, own } = searchable
    const keys = this.update(searchable)
    const parts = new Map(
      view.parts
        .filter(({ spec }) => servers?.includes(spec.slug) !== false)
        .map((part) => [keys.get(part.spec.id) ?? "", part]),
    )
    const withOwn = own.length > 0 && servers?.includes(OWN) !== false
    const isAll = parts.size + (withOwn ? 1 : 0) === this.index.servers.size && this.building.size === 0
    const ownKey = keys.get(OWN_ID)
    const allowed = (key: string) => (key === ownKey ? withOwn : parts.has(key))
    return search(this.index, query, { limit, allowed: isAll ? undefined : allowed }).flatMap(
      ({ server, tool, ...hit }) => {
        if (server === ownKey)
          return ownTools(own).flatMap((one) => (one.name === tool ? [{ ...hit, server: OWN, tool: one }] : []))
        const spec = parts.get(server)?.spec
        const found = spec && toolOf(view, view.nameOf(spec, tool))
        return spec === undefined || found === undefined ? [] : [{ ...hit, server: spec.slug, tool: found }]
      },
    )
  }

  similar(searchable: Searchable, name: string, count: number): readonly string[] {
    const { view, own } = searchable
    // The name may be a server's name before the full name of another server's tool.
    const inner = splitName(name)?.name
    const nested = inner !== undefined && view.tools.has(inner) ? [inner] : []
    const known = [...this.namesOf(view), ...ownTools(own).map((tool) => knownName(tool.name, tool.name, OWN))]
    const wanted = localName(name)
    const slug = serverIn(name)
    const ofServer = known.filter((one) => one.slug === slug)
    const candidates = ofServer.length > 0 ? ofServer : known
    const corrected = corrections(wanted, candidates).map(({ stem }) => stem)
    // Unlike a search, corrects a short word, too: an unknown name is misspelt in any case.
    const short =
      corrected.length > 0
        ? undefined
        : nearest(
            wanted,
            candidates.map(({ word }) => word),
          )
    const near =
      short === undefined ? corrected : candidates.filter(({ word }) => word === short).map(({ stem }) => stem)
    const isSame = (one: KnownName) => one.word === wanted
    const same = [...ofServer.filter(isSame), ...known.filter(isSame)].map(({ stem }) => stem)
    const similar = [...nested, ...same, ...near]
    if (similar.length >= count) return [...new Set(similar)].slice(0, count)
    const alike = this.find(searchable, wanted.replace(/[^A-Za-z0-9]+/g, " "), count).map(({ tool }) => tool.name)
    return [...new Set([...similar, ...alike])].slice(0, count)
  }

  // ---

  private namesOf(view: View): readonly KnownName[] {
    const names =
      this.names.get(view) ?? [...view.tools].map(([name, route]) => knownName(name, route.name, route.slug))
    this.names.set(view, names)
    return names
  }

  /** Indexes the changes of a catalog and of svc's own tools, and removes missing servers. Returns the index keys by id. */
  private update({ catalog, view, own }: Searchable): ReadonlyMap<string, string> {
    const ids = new Set([OWN_ID, ...catalog.parts.map(({ spec }) => spec.id)])
    for (const [id, listings] of this.indexed)
      if (!ids.has(id)) {
        for (const { key } of listings) removeListing(this.index, key)
        this.indexed.delete(id)
      }
    const keys = catalog.parts.map((part): readonly [string, string] => {
      const { spec, listing, plain } = part
      const server = serverOf(spec.slug, listing)
      const isOwn = part.own === true
      return [
        spec.id,
        this.keyOf(spec.id, plain.entries["tools/list"], isOwn, server, () => partTools(part, OWN_NAMES)),
      ]
    })
    // What a shape leaves out must not count: the part has a listing of its own in the index.
    for (const part of view.parts)
      if (part.isShaped) {
        const { spec, listing, plain } = part
        const tools = () => partTools(part, OWN_NAMES)
        keys.push([
          spec.id,
          this.keyOf(spec.id, plain.entries["tools/list"], true, serverOf(spec.slug, listing), tools),
        ])
      }
    // A client without svc's own tools must not remove them for the others.
    if (own.length === 0) return new Map(keys)
    return new Map([...keys, [OWN_ID, this.keyOf(OWN_ID, own, false, { name: OWN }, () => ownTools(own))]])
  }

  /**
   * Returns the index key of a server's listing; indexes the listing if necessary. The processes of several sessions may list
   * different tools: a few of their listings stay in the index, so that alternating searches do not index them again.
   */
  private keyOf(
    id: string,
    texts: readonly string[],
    isOwn: boolean,
    server: Omit<SearchServer, "key">,
    tools: () => readonly Tool[],
  ): string {
    const listings = this.indexed.get(id) ?? []
    const known = listings.find((one) => isEqual(one.texts, texts))
    const key = known?.key ?? `${id} ${this.count++}`
    if (known === undefined) updateListing(this.index, { ...server, key }, tools())
    this.keep(id, { key, texts, isOwn: known?.isOwn ?? isOwn }, known)
    return key
  }

  /** Remembers an indexed listing as the most recent one, and removes those that it replaces. */
  private keep(id: string, listing: IndexedListing, known: IndexedListing | undefined): void {
    const listings = this.indexed.get(id) ?? []
    // The listing of the shared process has one place; the listings of sessions have the other places.
    const replaced = known ?? (listing.isOwn ? undefined : listings.find((one) => !one.isOwn))
    const kept = [...listings.filter((one) => one !== replaced), listing]
    if (replaced !== undefined && replaced !== known) removeListing(this.index, replaced.key)
    for (const { key: old } of kept.splice(0, kept.length - MAX_LISTINGS)) removeListing(this.index, old)
    this.indexed.set(id, kept)
  }
}

/** Returns the servers of a view that offer tools, in its order, and svc itself if the client has svc's own tools. */
export function serversOf({ view, own }: Searchable): readonly ServerTools[] {
  const servers = view.parts.map(
    (part): ServerTools => ({
      server: part.spec.slug,
      instructions: part.listing.instructions || undefined,
      tags: part.spec.tuning.tags,
      tools: () => partTools(part, view),
      count: part.offered.size,
    }),
  )
  const internal = { server: OWN, instructions: undefined, tags: [], tools: () => ownTools(own), count: own.length }
  return [...servers, internal].filter(({ count }) => count > 0)
}

/** Returns the server with which a name begins, however it is qualified; undefined for a local name. */
export const serverIn = (name: string): string | undefined =>
  splitName(name)?.slug ?? /^(.+?)(?:[/:]|__|\.(?=[^.]*$))/.exec(name)?.[1]

/** Returns a tool by its name in the view; svc's own too. */
export const findTool = ({ view, own }: Searchable, name: string): Tool | undefined =>
  toolOf(view, name) ?? ownTools(own).find((tool) => tool.name === name)

// ---

/** Tools of a listing that is indexed in pieces. */
const LONG_LISTING = 500

function* parsed(texts: readonly string[]): Generator<Tool> {
  for (const text of texts) yield JSON.parse(text) as Tool
}

function serverOf(name: string, { serverInfo: { title } }: Pick<Listing, "serverInfo">, key?: string): SearchServer {
  return { name, title: typeof title === "string" ? title : undefined, key }
}

const ownTools = (own: readonly string[]): readonly Tool[] => own.map((entry) => JSON.parse(entry) as Tool)

function knownName(name: string, own: string, slug: string): KnownName {
  const word = own.toLowerCase()
  return { word, stem: name, letters: lettersOf(word), slug }
}

/** Returns the last part of a name, however it is qualified: `files_svc_read`, `files/read` and `files.read` end alike. */
const localName = (name: string): string => (splitName(name)?.name ?? name.replace(/^.*(?:[/.:]|__)/, "")).toLowerCase()

/** Whether two lists of texts are equal: the processes of several sessions list the same. */
const isEqual = (known: readonly string[], texts: readonly string[]): boolean =>
  known === texts || (known.length === texts.length && texts.every((text, at) => text === known[at]))
