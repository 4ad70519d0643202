/** A listing: what one backend offers, under its own names and URIs, with unknown members kept. */
import { type Era, META_SERVER_INFO } from "../wire/era.ts"
import { isObject, type Params } from "../wire/message.ts"

/** A JSON object with members that svc may not know. */
export type ListingEntry = { readonly [key: string]: unknown }

export type Tool = ListingEntry & { readonly name: string }
type Prompt = ListingEntry & { readonly name: string }
type Resource = ListingEntry & { readonly uri: string; readonly name?: string }
type ResourceTemplate = ListingEntry & { readonly uriTemplate: string }

export type ListMethod = "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list"

/** The lists that svc answers in pages. No listing contains skills: svc requests them when a client does. */
export type PagedMethod = ListMethod | "skills/list"

/** How long a list result stays fresh (milliseconds), and whether shared caches may keep it. server: Caching. */
export type CacheHint = { readonly ttlMs: number; readonly cacheScope: "public" | "private" }

/** A repair or an omission in what a backend states. */
export type DefinitionIssue = {
  readonly kind: "server" | "tool" | "prompt" | "resource" | "resource template"
  /** The name or URI of the entry, cut if it is long, else its place in the list, such as `no. 3`. */
  readonly name: string
  /** The member, such as `inputSchema.properties.a`. */
  readonly member: string
  /** What is wrong and what svc did, as the end of a sentence: `is null: left out`. */
  readonly reason: string
}

/** The results of a backend's handshake and lists. */
export type Listing = {
  readonly era: Era
  /** The negotiated revision, such as `2025-11-25`. */
  readonly protocolVersion: string
  readonly serverInfo: ListingEntry
  readonly capabilities: ListingEntry
  readonly instructions: string | undefined
  readonly tools: readonly Tool[]
  readonly prompts: readonly Prompt[]
  readonly resources: readonly Resource[]
  readonly resourceTemplates: readonly ResourceTemplate[]
  /** The reason of the failure for each list whose last request failed; its earlier entries stay. */
  readonly failing?: Partial<Readonly<Record<ListMethod, string>>>
  /** What svc repaired and left out in the handshake. */
  readonly handshakeIssues?: readonly DefinitionIssue[]
  /** What svc repaired and left out in each list; bounded. */
  readonly entryIssues?: Partial<Readonly<Record<ListMethod, readonly DefinitionIssue[]>>>
  /** The unknown members of the handshake's result, and `_meta`. */
  readonly members?: Params | undefined
  /** The unknown members of each list's first page, and `_meta`. */
  readonly listMembers?: Partial<Readonly<Record<ListMethod, Params | undefined>>>
  /** The cache hints of modern backends. */
  readonly hints?: Partial<Readonly<Record<ListMethod, CacheHint>>>
}

/** Whether a value that svc has stored is a listing of this version. */
export const isListing = (value: unknown): value is Listing =>
  isObject(value) &&
  (value.era === "legacy" || value.era === "modern") &&
  typeof value.protocolVersion === "string" &&
  isObject(value.serverInfo) &&
  isObject(value.capabilities) &&
  ["tools", "prompts", "resources", "resourceTemplates"].every((key) => {
    const entries = value[key]
    return Array.isArray(entries) && entries.every(isObject)
  })

/** Returns the unknown members of a result, and `_meta`; undefined if it has none. */
export function unknownMembers(result: Params, known: readonly string[]): Params | undefined {
  const unknown = Object.entries(result).filter(([name]) => !known.includes(name) && !MODERN_MEMBERS.includes(name))
  return unknown.length === 0 ? undefined : Object.fromEntries(unknown)
}

/** Returns a value without the server's name in `_meta`, which legacy results do not have, and without an empty `_meta`. */
export function withoutServerInfo(value: Params): Params {
  if (!isObject(value._meta) || !(META_SERVER_INFO in value._meta)) return value
  const { _meta, ...rest } = value
  const { [META_SERVER_INFO]: _info, ...meta } = value._meta
  return Object.keys(meta).length === 0 ? rest : { ...rest, _meta: meta }
}

/** The most issues that svc keeps of a list, and shows of a server. */
export const MAX_ISSUES = 100

const MODERN_MEMBERS = ["resultType", "ttlMs", "cacheScope"]

/** The reason in `failing` of a list that has not failed, but has no answer yet. */
export const UNANSWERED = "has not answered yet"

/** Whether a list has no answer yet. */
export const awaitsAnswer = ({ failing }: Listing): boolean => Object.values(failing ?? {}).includes(UNANSWERED)

/** Returns the failed lists with their reasons: "prompts/list: db down". */
export const failuresOf = ({ failing }: Listing): readonly string[] =>
  Object.entries(failing ?? {}).map(([method, reason]) => `${method}: ${reason}`)

/** Returns what svc repaired and left out in a handshake and its lists: the first MAX_ISSUES. */
export const definitionIssues = ({ handshakeIssues = [], entryIssues = {} }: Listing): readonly DefinitionIssue[] =>
  [...handshakeIssues, ...Object.values(entryIssues).flat()].slice(0, MAX_ISSUES)

/** Returns the tools of a listing, or undefined if the server has never answered that list. */
export const knownTools = ({ tools, failing }: Listing): readonly Tool[] | undefined =>
  tools.length === 0 && failing?.["tools/list"] !== undefined ? undefined : tools

/** Drops repeated names: the first entry wins. */
export function uniqueByName<T extends { readonly name: string }>(entries: readonly T[]): readonly T[] {
  const seen = new Set<string>()
  return entries.filter((entry) => !seen.has(entry.name) && seen.add(entry.name))
}

/** Returns a listing with its failed and empty lists taken from another listing of the same server. */
export function filledFrom(other: Listing, listing: Listing): Listing {
  const { failing = {}, tools, prompts, resources, resourceTemplates } = listing
  const isMissing = (method: ListMethod, entries: readonly ListingEntry[]) => method in failing && entries.length === 0
  if (failuresOf(listing).length === 0) return listing
  return {
    ...listing,
    tools: isMissing("tools/list", tools) ? other.tools : tools,
    prompts: isMissing("prompts/list", prompts) ? other.prompts : prompts,
    resources: isMissing("resources/list", resources) ? other.resources : resources,
    resourceTemplates: isMissing("resources/templates/list", resourceTemplates)
      ? other.resourceTemplates
      : resourceTemplates,
  }
}
