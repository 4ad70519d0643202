/**
 * Finds tools for the client of a view: by a ranked search, by name, by similar names. One index serves all views, and a
 * search sees of it what the view offers. A listing is indexed when it is first searched, and anew when it has changed.
 *
 * Callers import this file with `await import`: it brings the vocabulary of the search.
 */
import { nearest } from "../lib/nearest.ts"
import { type Catalog, nameIn, partTools, toolOf, type View } from "./catalog.ts"
import type { Tool } from "./listing.ts"
import { splitName } from "./name.ts"
import { createSearchIndex, removeListing, type SearchHit, search, updateListing } from "./search.ts"

/** What a client may find: a view of a catalog, and the entries of svc's own tools (JSON texts) if the client has them. */
export type Searchable = { readonly catalog: Catalog; readonly view: View; readonly own: readonly string[] }

/** A tool under its name in the view. `server` is its name in tool names. */
export type FoundTool = Pick<SearchHit, "score" | "matched"> & { readonly server: string; readonly tool: Tool }

/** A server of a view with its tools under their names in the view. */
export type ServerTools = {
  readonly server: string
  readonly instructions: string | undefined
  readonly tags: readonly string[]
  tools(): readonly Tool[]
  readonly count: number
}

/** The name under which svc's own tools are found. */
export const OWN = "svc"
/** Their key in the index; no server's id ends so. */
const OWN_KEY = "svc "

export class ToolFinder {
  private readonly index = createSearchIndex()
  /** What was indexed of each part, by its id. */
  private readonly indexed = new Map<string, unknown>()

  /** Returns the tools that fit a query, best first. `servers` limits the search to servers of these names. */
  find(searchable: Searchable, query: string, limit: number, servers?: readonly string[]): readonly FoundTool[] {
    const { view, own } = searchable
    this.update(searchable)
    const parts = new Map(
      view.parts.filter(({ spec }) => servers?.includes(spec.slug) !== false).map((part) => [part.spec.id, part]),
    )
    const withOwn = own.length > 0 && servers?.includes(OWN) !== false
    const isAll =
      parts.size === this.indexed.size - (this.indexed.has(OWN_KEY) ? 1 : 0) && withOwn === this.indexed.has(OWN_KEY)
    const allowed = (id: string) => (id === OWN_KEY ? withOwn : parts.has(id))
    return search(this.index, query, { limit, allowed: isAll ? undefined : allowed }).flatMap(
      ({ server, tool, ...hit }) => {
        if (server === OWN_KEY)
          return ownTools(own).flatMap((one) => (one.name === tool ? [{ ...hit, server: OWN, tool: one }] : []))
        const spec = parts.get(server)?.spec
        const shown = spec && toolOf(view, nameIn(view.naming, spec, tool))
        return spec === undefined || shown === undefined ? [] : [{ ...hit, server: spec.slug, tool: shown }]
      },
    )
  }

  /** Returns the names most like one that leads nowhere: the same local name first, then near spellings, then like meanings. */
  similar(searchable: Searchable, name: string, count: number): readonly string[] {
    const { view, own } = searchable
    const names = [...view.tools.keys(), ...ownTools(own).map((tool) => tool.name)]
    const wanted = localName(name)
    const byLocal = Map.groupBy(names, localName)
    const similar = [...(byLocal.get(wanted) ?? [])]
    byLocal.delete(wanted)
    const slug = splitName(name)?.slug
    const ofServer = [...byLocal.keys()].filter((local) =>
      byLocal.get(local)?.some((one) => splitName(one)?.slug === slug),
    )
    const known = new Set(ofServer.length > 0 ? ofServer : byLocal.keys())
    for (
      let near = nearest(wanted, known);
      near !== undefined && similar.length < count;
      near = nearest(wanted, known)
    ) {
      const [first = []] = [byLocal.get(near)]
      similar.push(...first.filter((one) => ofServer.length === 0 || splitName(one)?.slug === slug))
      known.delete(near)
    }
    const alike = this.find(searchable, wanted.replace(/[^A-Za-z0-9]+/g, " "), count).map(({ tool }) => tool.name)
    return [...new Set([...similar, ...alike])].slice(0, count)
  }

  // ---

  /** Indexes what has changed of a catalog and of svc's own tools, and drops what is gone. */
  private update({ catalog, own }: Searchable): void {
    const ids = new Set(catalog.parts.map(({ spec }) => spec.id))
    for (const id of this.indexed.keys())
      if (!ids.has(id) && id !== OWN_KEY) {
        removeListing(this.index, id)
        this.indexed.delete(id)
      }
    for (const part of catalog.parts) {
      const { spec, listing, plain } = part
      const texts = plain.entries["tools/list"]
      if (isEqual(this.indexed.get(spec.id), texts)) continue
      const { title } = listing.serverInfo
      updateListing(
        this.index,
        { name: spec.id, title: typeof title === "string" ? title : undefined },
        partTools(part),
      )
      this.indexed.set(spec.id, texts)
    }
    // A client without svc's own tools must not remove them for the others.
    if (own.length === 0 || isEqual(this.indexed.get(OWN_KEY), own)) return
    updateListing(this.index, { name: OWN_KEY }, ownTools(own))
    this.indexed.set(OWN_KEY, own)
  }
}

/** Returns the servers of a view that offer tools, in its order, and svc itself if the client has svc's own tools. */
export function serversOf({ view, own }: Searchable): readonly ServerTools[] {
  const servers = view.parts.map(
    ({ spec, listing, [view.naming]: { tools } }): ServerTools => ({
      server: spec.slug,
      instructions: listing.instructions || undefined,
      tags: spec.tuning.tags,
      tools: () => [...tools.keys()].flatMap((name) => toolOf(view, name) ?? []),
      count: tools.size,
    }),
  )
  const internal = { server: OWN, instructions: undefined, tags: [], tools: () => ownTools(own), count: own.length }
  return [...servers, internal].filter(({ count }) => count > 0)
}

/** Returns a tool by its name in the view; svc's own too. */
export const findTool = ({ view, own }: Searchable, name: string): Tool | undefined =>
  toolOf(view, name) ?? ownTools(own).find((tool) => tool.name === name)

// ---

const ownTools = (own: readonly string[]): readonly Tool[] => own.map((entry) => JSON.parse(entry) as Tool)

/** Returns the last part of a name, however it is qualified: `files_svc_read`, `files/read` and `files.read` end alike. */
const localName = (name: string): string => (splitName(name)?.name ?? name.replace(/^.*(?:[/.:]|__)/, "")).toLowerCase()

/** Whether two lists of texts are equal: the processes of several sessions list the same. */
function isEqual(known: unknown, texts: readonly string[]): boolean {
  if (known === texts) return true
  return Array.isArray(known) && known.length === texts.length && texts.every((text, at) => text === known[at])
}
