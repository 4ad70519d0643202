/**
 * A scope: the part of the catalog that a client sees. A scope lives as long as its client and follows its sources: edits of
 * presets, and the start and end of template instances.
 */
import type { Preset } from "../config/presets.ts"
import type { ResultBudget } from "../config/result-budget.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import type { ToolListing } from "../config/tool-listing.ts"
import { messageOf } from "../lib/errors.ts"
import { type Selection, type ServerQuery, selectServers } from "./selection.ts"
import { bothOf, type Shape } from "./view-rules.ts"

export type Scope =
  | {
      readonly kind: "aggregate"
      /** The queries as requested. Stable for one client, even if its presets change. */
      readonly name: string
      /** Identifies the current selection. Views are cached under it; a new key means that the view may differ. */
      readonly key: string
      /** Whether the scope includes servers with these tags. */
      selects(tags: readonly string[]): boolean
      /** Whether the scope would include servers with these tags if the client's token did not exclude them. */
      readonly withholds?: ((tags: readonly string[]) => boolean) | undefined
      /** The ids of this client's template instances; those of other clients are never visible. */
      readonly instances: ReadonlySet<string>
      /** Whether svc withholds its own tools from the client. */
      readonly restricted: boolean
      readonly tools: ToolListing | undefined
      /** Names and patterns of the tools that a lazy view lists as well. */
      readonly alwaysVisible: readonly string[]
      /** The limit of results for this client; undefined for the limits of the servers. */
      readonly resultBudget?: ResultBudget | undefined
      /** What the client sees within servers, and under which names; undefined for whole servers under their usual names. */
      readonly shape?: Shape | undefined
    }
  /** One backend under its own names. `tools` selects the listed tools; undefined means all, as above. */
  | {
      readonly kind: "server"
      readonly id: string
      /** Identifies `selects`. */
      readonly key?: string
      /** Whether the client may see the server while it has these tags; undefined if it may with any. */
      selects?(tags: readonly string[]): boolean
      readonly tools?: ToolListing | undefined
      readonly resultBudget?: ResultBudget | undefined
      /** What the client sees within the server, under its own names. */
      readonly shape?: Shape | undefined
    }

/** Returns the identity of a scope, which stays the same while its client lives. */
export const identityOf = (scope: Scope): string =>
  scope.kind === "server"
    ? `server ${scope.id}${scope.tools === "search" ? " search" : ""}${scope.key === undefined ? "" : ` for ${scope.key}`}`
    : `aggregate ${scope.name}`

/** Whether a scope includes a backend. */
export const scopeIncludes = (scope: Scope, spec: ServerSpec): boolean =>
  scope.kind === "server"
    ? scope.id === spec.id &&
      scope.selects?.(spec.tuning.tags) !== false &&
      (scope.shape === undefined || scope.shape.includes(spec))
    : (spec.id === spec.name || scope.instances.has(spec.id)) &&
      scope.selects(spec.tuning.tags) &&
      (scope.shape === undefined || scope.shape.includes(spec))

/**
 * Returns the part of a scope that presets, which a credential names, also include, without svc's own tools. The names, the listing and
 * the budget of the scope itself win. Presets that do not exist include nothing.
 */
export function withinPresets(scope: Scope, names: string, presets: () => ReadonlyMap<string, Preset>): Scope {
  const queries = [{ preset: names }]
  let known = { presets: presets(), selection: selectOrNothing(queries, presets()) }
  const bound = (): Selection => {
    if (known.presets !== presets()) known = { presets: presets(), selection: selectOrNothing(queries, presets()) }
    return known.selection
  }
  if (scope.kind === "server")
    return {
      ...scope,
      get key() {
        return `${scope.key ?? ""} within ${names}: ${bound().key}`
      },
      selects: (tags) => bound().includes(tags) && scope.selects?.(tags) !== false,
      get shape() {
        return bothOf(scope.shape, bound().shape)
      },
    }
  return {
    kind: "aggregate",
    name: `${scope.name} within ${names}`,
    get key() {
      return `${scope.key} within ${bound().key}`
    },
    selects: (tags) => bound().includes(tags) && scope.selects(tags),
    withholds: (tags) => !bound().includes(tags) && scope.selects(tags),
    get instances() {
      return scope.instances
    },
    restricted: true,
    get tools() {
      return scope.tools ?? bound().tools
    },
    get alwaysVisible() {
      // The same list each time: views are cached under it.
      return bound().alwaysVisible.length === 0 ? scope.alwaysVisible : bound().alwaysVisible
    },
    get resultBudget() {
      return scope.resultBudget ?? bound().resultBudget
    },
    get shape() {
      return bothOf(scope.shape, bound().shape)
    },
  }
}

/**
 * Returns the scope of all servers that match every query. Throws a RequestError for a query that is invalid now; if a
 * preset is removed later, the scope includes no server.
 */
export function createScope(queries: () => readonly ServerQuery[], presets: () => ReadonlyMap<string, Preset>): Scope {
  const first = queries()
  let known = { queries: first, presets: presets() }
  let selection = selectServers(first, known.presets)
  // Runs several times for every call, so it creates no object unless a source has changed.
  const current = (): Selection => {
    if (queries() !== known.queries || presets() !== known.presets) {
      known = { queries: queries(), presets: presets() }
      selection = selectOrNothing(known.queries, known.presets)
    }
    return selection
  }
  return {
    kind: "aggregate",
    name: first.length === 0 ? "" : JSON.stringify(first),
    get key() {
      return current().key
    },
    selects: (tags) => current().includes(tags),
    instances: NO_INSTANCES,
    restricted: false,
    get tools() {
      return current().tools
    },
    get alwaysVisible() {
      return current().alwaysVisible
    },
    get resultBudget() {
      return current().resultBudget
    },
    get shape() {
      return current().shape
    },
  }
}

/** Returns a scope that includes a client's own template instances. */
export function withInstances(scope: Scope, instances: () => ReadonlySet<string>): Scope {
  if (scope.kind === "server") return scope
  return {
    kind: "aggregate",
    name: scope.name,
    get key() {
      return `${scope.key} with ${[...instances()].sort().join(" ")}`
    },
    selects: (tags) => scope.selects(tags),
    withholds: scope.withholds,
    get instances() {
      return instances()
    },
    restricted: scope.restricted,
    get tools() {
      return scope.tools
    },
    get alwaysVisible() {
      return scope.alwaysVisible
    },
    get resultBudget() {
      return scope.resultBudget
    },
    get shape() {
      return scope.shape
    },
  }
}

/** Returns a scope with this listing of tools and this budget, unless its queries or presets state them. */
export function withTools(scope: Scope, tools: ToolListing, resultBudget?: ResultBudget): Scope {
  if (scope.kind === "server")
    return { ...scope, tools: scope.tools ?? tools, resultBudget: scope.resultBudget ?? resultBudget }
  return {
    kind: "aggregate",
    name: scope.name,
    get key() {
      return scope.key
    },
    selects: (tags) => scope.selects(tags),
    withholds: scope.withholds,
    get instances() {
      return scope.instances
    },
    restricted: scope.restricted,
    get tools() {
      return scope.tools ?? tools
    },
    get alwaysVisible() {
      return scope.alwaysVisible
    },
    get resultBudget() {
      return scope.resultBudget ?? resultBudget
    },
    get shape() {
      return scope.shape
    },
  }
}

/** Returns a scope whose results have no budget. */
export const withoutBudget = (scope: Scope): Scope =>
  scope.kind === "server"
    ? { ...scope, resultBudget: 0 }
    : // Inherits the members of the scope, because they are getters that follow its sources.
      (Object.create(scope, { resultBudget: { value: 0 } }) as Scope)

/** Returns the part of a scope with tags that `selects` accepts, without svc's own tools. `key` identifies `selects`. */
export function narrow(scope: Scope, key: string, selects: (tags: readonly string[]) => boolean): Scope {
  if (scope.kind === "server") return { ...scope, key, selects }
  return {
    kind: "aggregate",
    name: `${scope.name} for ${key}`,
    get key() {
      return `${scope.key} for ${key}`
    },
    selects: (tags) => selects(tags) && scope.selects(tags),
    withholds: (tags) => !selects(tags) && scope.selects(tags),
    get instances() {
      return scope.instances
    },
    restricted: true,
    get tools() {
      return scope.tools
    },
    get alwaysVisible() {
      return scope.alwaysVisible
    },
    get resultBudget() {
      return scope.resultBudget
    },
    get shape() {
      return scope.shape
    },
  }
}

// ---

const NO_INSTANCES: ReadonlySet<string> = new Set()

/** Selects nothing if the queries have become invalid. */
function selectOrNothing(queries: readonly ServerQuery[], presets: ReadonlyMap<string, Preset>): Selection {
  try {
    return selectServers(queries, presets)
  } catch (error) {
    return {
      key: `nothing: ${messageOf(error)}`,
      tags: [],
      includes: () => false,
      tools: undefined,
      alwaysVisible: [],
      resultBudget: undefined,
      shape: undefined,
    }
  }
}
