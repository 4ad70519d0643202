/** The principal of a request: the authenticated identity, and the part of svc that it may see. */
import { narrow, type Scope, withinPresets, withTools } from "../catalog/scope.ts"
import { presetIncludes } from "../catalog/view-rules.ts"
import type { Preset } from "../config/presets.ts"
import type { ResultBudget } from "../config/result-budget.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import type { ToolListing } from "../config/tool-listing.ts"

/** The identity of the sender of a request. */
export type Principal = {
  /** The same for every request of the same token holder. Sessions belong to this name. */
  readonly name: string
  /** The principal sees servers with one of these tags; undefined for all servers. */
  readonly tags: readonly string[] | undefined
  /** The presets to which it is bound: it sees what one of them includes; undefined for everything. */
  readonly presets?: readonly string[] | undefined
  /** Whether it may read `/metrics` and nothing else. */
  readonly metricsOnly?: boolean | undefined
  /** Whether it also sees servers without tags. */
  readonly untagged: boolean
  /** Whether it may use svc's internal tools. */
  readonly admin: boolean
  /** Whether its token has OAuth scopes: a refusal then names the missing scope. */
  readonly scoped: boolean
  /** When its token expires, milliseconds since the epoch; undefined for never. */
  readonly until: number | undefined
  /** Which tools svc lists to it unless the address says otherwise; undefined for the default of `--tools`. */
  readonly tools?: ToolListing | undefined
  /** Its result budget unless the preset of the address has one. */
  readonly resultBudget?: ResultBudget | undefined
}

/** The principal of every request without authentication, and on paths that need none. */
export const ANONYMOUS: Principal = {
  name: "anonymous",
  tags: undefined,
  untagged: true,
  admin: true,
  scoped: false,
  until: undefined,
}

/** Narrows a scope to the servers that a principal may see. */
export type NarrowScope = (scope: Scope, principal: Principal) => Scope

/**
 * Returns a function that narrows scopes and caches them, because clients repeat the same scope with every request.
 * `otherwise` decides which tools are listed if neither address nor principal does; `presets` are those to which principals may be bound.
 */
export function createScopeNarrowing(
  otherwise: ToolListing,
  presets: () => ReadonlyMap<string, Preset> = () => new Map(),
): NarrowScope {
  const narrowedBy = new WeakMap<Principal, WeakMap<Scope, Scope>>()
  const servers = new WeakMap<Principal, (scope: Scope) => Scope>()
  return (scope, principal) => {
    const { tags, admin, tools = otherwise, resultBudget } = principal
    const bound = (whole: Scope) =>
      principal.presets === undefined ? whole : withinPresets(whole, principal.presets.join(","), presets)
    const isPlain = tools === "all" && resultBudget === undefined
    const listed = (whole: Scope) => (isPlain ? whole : withTools(whole, tools, resultBudget))
    if (scope.kind === "server") {
      if (tags === undefined) return bound(listed(scope))
      // Each request has its own scope.
      const byTags = servers.get(principal) ?? narrowingOf(principal, tags)
      servers.set(principal, byTags)
      return bound(listed(byTags(scope)))
    }
    const isWhole = tags === undefined && principal.presets === undefined && admin
    if (isWhole && isPlain) return scope
    const narrowedScopes = narrowedBy.get(principal) ?? new WeakMap<Scope, Scope>()
    narrowedBy.set(principal, narrowedScopes)
    const known = narrowedScopes.get(scope)
    if (known !== undefined) return known
    const narrowed = listed(bound(isWhole ? scope : narrowingOf(principal, tags)(scope)))
    narrowedScopes.set(scope, narrowed)
    return narrowed
  }
}

/** Whether two requests come from the same holder with the same rights. */
export const isSame = (one: Principal, other: Principal): boolean =>
  identityOfPrincipal(one) === identityOfPrincipal(other)

/** Returns the same text for requests from the same holder with the same rights. */
export const identityOfPrincipal = ({ name, tags, untagged, admin, presets }: Principal): string =>
  JSON.stringify([name, tags === undefined ? "all" : [...tags].sort(), untagged, admin, ...(presets ? [presets] : [])])

/** Whether a principal sees only a part of the servers and tools. */
export const isLimited = ({ tags, presets }: Principal): boolean => tags !== undefined || presets !== undefined

/** Whether a principal may see something of a server. */
export const mayEnter = (
  principal: Principal,
  { tuning: { tags }, ...server }: Pick<ServerSpec, "name" | "slug" | "tuning">,
  presets: ReadonlyMap<string, Preset>,
): boolean =>
  maySee(principal, tags) &&
  principal.presets?.some((name) => {
    const preset = presets.get(name)
    return preset !== undefined && presetIncludes(preset, server, tags)
  }) !== false

/** Whether a principal may see a server with these tags. */
export const maySee = ({ tags: visible, untagged }: Principal, tags: readonly string[]): boolean =>
  visible === undefined || (untagged && tags.length === 0) || tags.some((tag) => visible.includes(tag))

// ---

/** Returns the function that narrows scopes to the servers with the tags of a principal. */
function narrowingOf(principal: Principal, tags: readonly string[] | undefined): (scope: Scope) => Scope {
  const key = tags === undefined ? "all servers" : JSON.stringify([...[...tags].sort(), principal.untagged])
  const selects = (seen: readonly string[]) => maySee(principal, seen)
  return (scope) => narrow(scope, key, selects)
}
