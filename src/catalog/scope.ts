/**
 * Which part of the catalog a client sees. A scope lives as long as its client and follows what it was made of: presets
 * that are edited, instances of templates that come and go.
 */
import type { Preset } from "../config/presets.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import { messageOf } from "../lib/errors.ts"
import { type Selection, type ServerQuery, selectServers } from "./selection.ts"

export type Scope =
  | {
      readonly kind: "aggregate"
      /** What was asked for. The same for every request of one client, whatever has become of presets since. */
      readonly name: string
      /** What comes of it at this moment: views are kept under it, and another one means that the view may differ. */
      readonly key: string
      /** Whether servers with these tags are seen. */
      selects(tags: readonly string[]): boolean
      /** The instances of templates that are this client's, by id; others are never seen. */
      readonly instances: ReadonlySet<string>
      /** Its client may not use svc's own tools. */
      readonly restricted: boolean
    }
  /** One backend under its own names. */
  | { readonly kind: "server"; readonly id: string }

/** What tells one scope from another for as long as a client lives. */
export const identityOf = (scope: Scope): string =>
  scope.kind === "server" ? `server ${scope.id}` : `aggregate ${scope.name}`

/** Whether a backend is seen. */
export const sees = (scope: Scope, spec: ServerSpec): boolean =>
  scope.kind === "server"
    ? scope.id === spec.id
    : (spec.id === spec.name || scope.instances.has(spec.id)) && scope.selects(spec.tuning.tags)

/**
 * All servers that pass every query. Throws a RequestError for a query that cannot be followed now; where a preset is taken
 * away later, nothing is left.
 */
export function createScope(queries: () => readonly ServerQuery[], presets: () => ReadonlyMap<string, Preset>): Scope {
  const first = queries()
  let known = { queries: first, presets: presets() }
  let selection = selectServers(first, known.presets)
  const current = (): Selection => {
    const now = { queries: queries(), presets: presets() }
    if (now.queries !== known.queries || now.presets !== known.presets) {
      known = now
      selection = follow(now.queries, now.presets)
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
    instances: NONE,
    restricted: false,
  }
}

/** A scope with a client's own instances of templates. */
export function withInstances(scope: Scope, instances: () => ReadonlySet<string>): Scope {
  if (scope.kind === "server") return scope
  return {
    kind: "aggregate",
    name: scope.name,
    get key() {
      return `${scope.key} with ${[...instances()].sort().join(" ")}`
    },
    selects: (tags) => scope.selects(tags),
    get instances() {
      return instances()
    },
    restricted: scope.restricted,
  }
}

/** The part of a scope whose tags pass `selects` too, without svc's own tools; `key` stands for it. */
export function narrow(scope: Scope, key: string, selects: (tags: readonly string[]) => boolean): Scope {
  if (scope.kind === "server") return scope
  return {
    kind: "aggregate",
    name: `${scope.name} for ${key}`,
    get key() {
      return `${scope.key} for ${key}`
    },
    selects: (tags) => selects(tags) && scope.selects(tags),
    get instances() {
      return scope.instances
    },
    restricted: true,
  }
}

// ---

const NONE: ReadonlySet<string> = new Set()

function follow(queries: readonly ServerQuery[], presets: ReadonlyMap<string, Preset>): Selection {
  try {
    return selectServers(queries, presets)
  } catch (error) {
    return { key: `nothing: ${messageOf(error)}`, tags: [], includes: () => false }
  }
}
