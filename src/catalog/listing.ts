/** What one backend offers, as it said it: upstream names and URIs, unknown members kept. */
import type { Era } from "../wire/era.ts"

/** A JSON object whose members svc does not all know. */
export type ListingEntry = { readonly [key: string]: unknown }

export type Tool = ListingEntry & { readonly name: string }
export type Prompt = ListingEntry & { readonly name: string }
export type Resource = ListingEntry & { readonly uri: string; readonly name?: string }
export type ResourceTemplate = ListingEntry & { readonly uriTemplate: string }

export type ListMethod = "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list"

/** How long an answer stays fresh and who may keep it. server: Caching. */
export type CacheHint = { readonly ttlMs: number; readonly cacheScope: "public" | "private" }

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
  /** Lists that failed when they were asked for last, and why; what they held before stands. */
  readonly failing?: Partial<Readonly<Record<ListMethod, string>>>
  /** Said by modern backends. */
  readonly hints?: Partial<Readonly<Record<ListMethod, CacheHint>>>
}

/** The lists that fail, each with its reason: "prompts/list: db down". */
export const failuresOf = ({ failing }: Listing): readonly string[] =>
  Object.entries(failing ?? {}).map(([method, reason]) => `${method}: ${reason}`)

/** A listing in which the lists that fail and hold nothing are another's of the same server. */
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
