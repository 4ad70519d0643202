/**
 * Selects the servers that a client sees: combines the queries of its URL, its `.svcrc` and `serve --filter` into one
 * filter over tags. choice: Inbound, query on `/mcp`.
 */
import type { Preset } from "../config/presets.ts"
import type { ResultBudget } from "../config/result-budget.ts"
import {
  allOf,
  formatFilterProblem,
  matchesFilter,
  parseFilter,
  printFilter,
  type TagFilter,
  tagsOf,
} from "../config/tag-filter.ts"
import { TOOL_LISTINGS, type ToolListing } from "../config/tool-listing.ts"
import { RequestError } from "../lib/errors.ts"
import { didYouMean, orKnown } from "../lib/nearest.ts"
import { type Shape, shapeOf } from "./view-rules.ts"

/** A query as written, which is evaluated again when a preset changes. */
export type ServerQuery = {
  /** `tags=a,b` as a list: servers with any of them. */
  readonly tags?: readonly string[]
  /** `tag-filter=`: an expression. */
  readonly filter?: string
  /** `preset=`: a name, or several, separated by commas: what one of them includes is selected. */
  readonly preset?: string
  /** Where a file names the preset, as `FILE:LINE:COLUMN`, if the client may learn the names of all presets. */
  readonly presetAt?: string
  /** `tools=`: the listed tools. */
  readonly tools?: ToolListing
}

export type Selection = {
  /** Equal for equal selections, so that views can be cached under it. Empty if all servers are selected. */
  readonly key: string
  /** Every tag that the queries name, to warn about tags that no server has. */
  readonly tags: readonly string[]
  includes(tags: readonly string[]): boolean
  /** The listed tools, from the first query that states them, else the first preset; undefined if none does. */
  readonly tools: ToolListing | undefined
  /** Names and patterns of the presets' always visible tools. */
  readonly alwaysVisible: readonly string[]
  /** The budget of the first preset that has one. */
  readonly resultBudget: ResultBudget | undefined
  /** What the presets select within servers, and their names; undefined for whole servers under their usual names. */
  readonly shape: Shape | undefined
}

/** Reads the query of a URL: `tags`, `tag-filter`, `preset` and `tools`. Throws a RequestError for an invalid value. */
export function readQuery(parameters: URLSearchParams): ServerQuery {
  const parameter = (name: string) => {
    const value = onlyOf(parameters, name)
    if (value === "") throw new RequestError("invalid_params", `${name}= is empty; leave it out to select everything`)
    return value
  }
  const [tags, filter, preset] = [parameter("tags"), parameter("tag-filter"), parameter("preset")]
  const tools = readTools(parameters)
  return {
    ...(tags !== undefined && { tags: tags.split(",").map((tag) => tag.trim()) }),
    ...(filter !== undefined && { filter }),
    ...(preset !== undefined && { preset }),
    ...(tools !== undefined && { tools }),
  }
}

/** Reads `tools=` of a URL's query. Throws a RequestError for an invalid value. */
export function readTools(parameters: URLSearchParams): ToolListing | undefined {
  const value = onlyOf(parameters, "tools")
  if (value === undefined) return undefined
  const found = TOOL_LISTINGS.find((one) => one === value)
  if (found !== undefined) return found
  throw new RequestError(
    "invalid_params",
    `tools= must be ${TOOL_LISTINGS.join(" or ")}, not ${value.slice(0, 100)}; leave it out for the default`,
  )
}

/**
 * Returns the selection of the servers that match all parts of all queries. Throws a RequestError for an invalid expression
 * or an unknown preset.
 */
export function selectServers(queries: readonly ServerQuery[], presets: ReadonlyMap<string, Preset>): Selection {
  const filter = allOf(queries.flatMap((query) => filtersOf(query, presets)))
  const groups = queries.flatMap(({ preset, presetAt }) =>
    preset === undefined ? [] : [presetsOf(preset, presets, presetAt)],
  )
  const used = groups.flat()
  const shape = shapeOf(groups)
  return {
    key: shape === undefined ? printFilter(filter) : `${printFilter(filter)} as ${shape.key}`,
    tags: tagsOf(filter),
    includes: (tags) => matchesFilter(filter, tags),
    tools: [...queries, ...used].find(({ tools }) => tools !== undefined)?.tools,
    alwaysVisible: used.flatMap(({ alwaysVisible }) => alwaysVisible ?? []),
    resultBudget: used.find(({ resultBudget }) => resultBudget !== undefined)?.resultBudget,
    shape,
  }
}

// ---

/** Returns the value of a parameter; undefined without one. Throws a RequestError if there are several: none of them would be right. */
function onlyOf(parameters: URLSearchParams, name: string): string | undefined {
  const values = parameters.getAll(name)
  if (values.length > 1)
    throw new RequestError("invalid_params", `${name}= occurs ${values.length} times; write it once`)
  return values[0]?.trim()
}

function filtersOf({ tags, filter, preset, presetAt }: ServerQuery, presets: ReadonlyMap<string, Preset>): TagFilter[] {
  const filters: TagFilter[] = []
  if (tags !== undefined) {
    const names = [...new Set(tags)].filter((tag) => tag !== "").sort()
    if (names.length === 0)
      throw new RequestError(
        "invalid_params",
        "tags= names no tag; write tags=a,b, or leave it out to select everything",
      )
    filters.push({ kind: "or", of: names.map((tag) => ({ kind: "tag", tag })) })
  }
  if (filter !== undefined) {
    const parsed = parseFilter(filter)
    if ("problem" in parsed) throw new RequestError("invalid_params", formatFilterProblem("tag-filter", parsed.problem))
    filters.push(parsed.filter)
  }
  if (preset !== undefined) {
    const [first, ...others] = presetsOf(preset, presets, presetAt).map((one) => one.filter)
    if (first !== undefined) filters.push(others.length === 0 ? first : { kind: "or", of: [first, ...others] })
  }
  return filters
}

/** Returns the presets that a query names. Throws a RequestError for an unknown name, which says `at` which place it is. */
export const presetsOf = (names: string, presets: ReadonlyMap<string, Preset>, at?: string): readonly Preset[] =>
  [...new Set(names.split(",").map((name) => name.trim()))].map((name) => presetOf(name, presets, at))

function presetOf(name: string, presets: ReadonlyMap<string, Preset>, at: string | undefined): Preset {
  const found = presets.get(name)
  if (found !== undefined) return found
  if (at !== undefined)
    throw new RequestError("not_found", `${at}: no preset is named ${name}${orKnown("preset", name, presets.keys())}`)
  // Clients send this name, and not every client may learn the names of all presets.
  const hint = didYouMean(name, presets.keys()) || "; `svc preset list` lists the presets"
  throw new RequestError("not_found", `no preset is named ${name}${hint}`)
}
