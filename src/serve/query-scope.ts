/** Converts the query of a URL into a scope: the part of the catalog that the client sees. choice: Inbound, query on `/mcp`. */
import { createScope, type Scope } from "../catalog/scope.ts"
import { readQuery, type ServerQuery } from "../catalog/selection.ts"
import type { Preset } from "../config/presets.ts"

/** Returns the scope of a URL's query, which is "" or begins with `?`. Throws a RequestError for an invalid query. */
export type ScopeOf = (search: string) => Scope

export function createScopes(presets: () => ReadonlyMap<string, Preset>): ScopeOf {
  const none: readonly ServerQuery[] = []
  const everything = createScope(() => none, presets)
  // Caches scopes, because every request of a client repeats its query.
  const known = new Map<string, { readonly scope: Scope; readonly presets: unknown }>()
  return (search) => {
    if (search === "" || search === "?") return everything
    const found = known.get(search)
    if (found !== undefined && found.presets === presets()) return found.scope
    const query = readQuery(new URLSearchParams(search))
    const queries = [query]
    const scope = Object.keys(query).length === 0 ? everything : createScope(() => queries, presets)
    if (known.size >= MAX_KNOWN) known.clear()
    known.set(search, { scope, presets: presets() })
    return scope
  }
}

// ---

const MAX_KNOWN = 1000
