/** The port of the search over tools. */
import type { Catalog, View } from "./catalog.ts"
import type { Tool } from "./listing.ts"

export type ToolSearch = {
  /** Returns the tools that match a query, best first. `servers` limits the search to servers of these names. */
  find(searchable: Searchable, query: string, limit: number, servers?: readonly string[]): readonly FoundTool[]
  /** Returns the names most similar to an unknown name: first the same local name, then similar spellings, then meanings. */
  similar(searchable: Searchable, name: string, count: number): readonly string[]
}

/** Finds nothing. */
export const NO_SEARCH: ToolSearch = { find: () => [], similar: () => [] }

/** The tools that a client may find: a view of a catalog, and the entries of svc's own tools (JSON texts) if it has them. */
export type Searchable = { readonly catalog: Catalog; readonly view: View; readonly own: readonly string[] }

/** A tool under its name in the view. `server` is the server's name in tool names. */
export type FoundTool = {
  readonly server: string
  readonly tool: Tool
  readonly score: number
  /** The fields that contain a word of the query, its synonym or its corrected spelling. */
  readonly matched: readonly string[]
}
