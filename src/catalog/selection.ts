/**
 * Which servers a client sees: what its URL, its `.svcrc` or `serve --filter` ask for, as one filter over tags.
 * choice: Inbound, query on `/mcp`.
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

/** What was asked for, as it was written. It is kept, and selected from again when a preset changes. */
export type ServerQuery = {
  /** `tags=a,b`, as a list: any of them. */
  readonly tags?: readonly string[]
  /** `tag-filter=`: an expression. */
  readonly filter?: string
  /** `preset=`: a name. */
  readonly preset?: string
}

export type Selection = {
  /** The same for the same selection: what is built for a selection is kept under it. Empty for all. */
  readonly key: string
  /** Every tag that was named; one that no server has is worth a warning. */
  readonly tags: readonly string[]
  includes(tags: readonly string[]): boolean
}

/** The query of a URL: `tags`, `tag-filter` and `preset`. Throws a RequestError where one of them is empty. */
export function readQuery(parameters: URLSearchParams): ServerQuery {
  const of = (name: string) => {
    const value = parameters.get(name)?.trim()
    if (value === "") throw new RequestError("invalid_params", `${name}= is empty; leave it out to select everything`)
    return value
  }
  const [tags, filter, preset] = [of("tags"), of("tag-filter"), of("preset")]
  return {
    ...(tags !== undefined && { tags: tags.split(",").map((tag) => tag.trim()) }),
    ...(filter !== undefined && { filter }),
    ...(preset !== undefined && { preset }),
  }
}

/**
 * What all the queries let through together, each of them with all its parts. Throws a RequestError for an expression
 * that cannot be read and for a preset that is not there.
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
    if ("misread" in parsed) throw new RequestError("invalid_params", formatFilterProblem("tag-filter", parsed.misread))
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
