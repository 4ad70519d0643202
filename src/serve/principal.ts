/** The principal of a request: the authenticated identity, and the servers that its token grants. */
import { narrow, type Scope, withTools } from "../catalog/scope.ts"
import type { ResultBudget } from "../config/result-budget.ts"
import type { ToolListing } from "../config/tool-listing.ts"

/** The identity of the sender of a request. */
export type Principal = {
  /** The same for every request of the same token holder. Sessions belong to this name. */
  readonly name: string
  /** The principal sees servers with one of these tags; undefined for all servers. */
  readonly tags: readonly string[] | undefined
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
 * `otherwise` decides which tools are listed if neither address nor principal does.
 */
export function createScopeNarrowing(otherwise: ToolListing): NarrowScope {
  const narrowedBy = new WeakMap<Principal, WeakMap<Scope, Scope>>()
  const servers = new WeakMap<Principal, (scope: Scope) => Scope>()
  return (scope, principal) => {
    const { tags, admin, tools = otherwise, resultBudget } = principal
    const isPlain = tools === "all" && resultBudget === undefined
    const listed = (whole: Scope) => (isPlain ? whole : withTools(whole, tools, resultBudget))
    if (scope.kind === "server") {
      if (tags === undefined) return listed(scope)
      // Each request has its own scope.
      const byTags = servers.get(principal) ?? narrowingOf(principal, tags)
      servers.set(principal, byTags)
      return listed(byTags(scope))
    }
    const isWhole = tags === undefined && admin
    if (isWhole && isPlain) return scope
    const narrowedScopes = narrowedBy.get(principal) ?? new WeakMap<Scope, Scope>()
    narrowedBy.set(principal, narrowedScopes)
    const known = narrowedScopes.get(scope)
    if (known !== undefined) return known
    const narrowed = listed(isWhole ? scope : narrowingOf(principal, tags)(scope))
    narrowedScopes.set(scope, narrowed)
    return narrowed
  }
}

/** Returns the function that narrows scopes to the servers with the tags of a principal. */
function narrowingOf(principal: Principal, tags: readonly string[] | undefined): (scope: Scope) => Scope {
  const key = tags === undefined ? "all servers" : JSON.stringify([...[...tags].sort(), principal.untagged])
  const selects = (seen: readonly string[]) => maySee(principal, seen)
  return (scope) => narrow(scope, key, selects)
}

/** Whether two requests come from the same holder with the same rights. */
export const isSame = (one: Principal, other: Principal): boolean =>
  identityOfPrincipal(one) === identityOfPrincipal(other)

/** Returns the same text for requests from the same holder with the same rights. */
export const identityOfPrincipal = ({ name, tags, untagged, admin }: Principal): string =>
  JSON.stringify([name, tags === undefined ? "all" : [...tags].sort(), untagged, admin])

/** Whether a principal may see a server with these tags. */
export const maySee = ({ tags: visible, untagged }: Principal, tags: readonly string[]): boolean =>
  visible === undefined || (untagged && tags.length === 0) || tags.some((tag) => visible.includes(tag))
