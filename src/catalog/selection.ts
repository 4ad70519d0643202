/**
 * Selects the servers that a client sees: combines the queries of its URL, its `.svcrc` and `serve --filter` into one
 * filter over tags. choice: Inbound, query on `/mcp`.
 */
import type { Preset } from "../config/presets.ts"
import {
  allOf,
  formatFilterProblem,
  matchesFilter,
  parseFilter,
  printFilter,
  type TagFilter,
  tagsOf,
} from "../config/tag-filter.ts"
import { RequestError } from "../lib/errors.ts"
import { unknownNameError } from "../lib/nearest.ts"

/** A query as written. It is kept, and evaluated again when a preset changes. */
export type ServerQuery = {
  /** `tags=a,b` as a list: servers with any of them. */
  readonly tags?: readonly string[]
  /** `tag-filter=`: an expression. */
  readonly filter?: string
  /** `preset=`: a name. */
  readonly preset?: string
}

export type Selection = {
  /** Equal for equal selections, so that views can be kept under it. Empty if all servers are selected. */
  readonly key: string
  /** Every tag that the queries name, to warn about tags that no server has. */
  readonly tags: readonly string[]
  includes(tags: readonly string[]): boolean
}

/** Reads the query of a URL: `tags`, `tag-filter` and `preset`. Throws a RequestError if one of them is empty. */
export function readQuery(parameters: URLSearchParams): ServerQuery {
  const parameter = (name: string) => {
    const value = parameters.get(name)?.trim()
    if (value === "") throw new RequestError("invalid_params", `${name}= is empty; leave it out to select everything`)
    return value
  }
  const [tags, filter, preset] = [parameter("tags"), parameter("tag-filter"), parameter("preset")]
  return {
    ...(tags !== undefined && { tags: tags.split(",").map((tag) => tag.trim()) }),
    ...(filter !== undefined && { filter }),
    ...(preset !== undefined && { preset }),
  }
}

/**
 * Returns the selection of the servers that match all parts of all queries. Throws a RequestError for an invalid expression
 * or an unknown preset.
 */
export function selectServers(queries: readonly ServerQuery[], presets: ReadonlyMap<string, Preset>): Selection {
  const filter = allOf(queries.flatMap((query) => filtersOf(query, presets)))
  const key = printFilter(filter)
  return { key, tags: tagsOf(filter), includes: (tags) => matchesFilter(filter, tags) }
}

// ---

function filtersOf({ tags, filter, preset }: ServerQuery, presets: ReadonlyMap<string, Preset>): TagFilter[] {
  const filters: TagFilter[] = []
  if (tags !== undefined) {
    const names = [...new Set(tags)].filter((tag) => tag !== "").sort()
    if (names.length === 0) throw new RequestError("invalid_params", "tags names no tag")
    filters.push({ kind: "or", of: names.map((tag) => ({ kind: "tag", tag })) })
  }
  if (filter !== undefined) {
    const parsed = parseFilter(filter)
    if ("problem" in parsed) throw new RequestError("invalid_params", formatFilterProblem("tag-filter", parsed.problem))
    filters.push(parsed.filter)
  }
  if (preset !== undefined) {
    const found = presets.get(preset)
    if (found === undefined) {
      throw unknownNameError("preset", preset, presets.keys())
    }
    filters.push(found.filter)
  }
  return filters
}
