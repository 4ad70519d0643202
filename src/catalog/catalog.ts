/**
 * What is offered: the listings of all connected backends under their names, hidden tools left out and descriptions
 * replaced. A catalog is immutable; the text of each entry is made once for each listing, and each list answer once for
 * each view, in a stable order: the plan's, then the backend's own.
 */
import type { ServerSpec } from "../config/server-spec.ts"
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Era } from "../wire/era.ts"
import { type MirroredHeader, mirroredOf } from "../wire/headers.ts"
import type { CacheHint, Listing, ListMethod } from "./listing.ts"
import { qualify, qualifyUri, splitName, splitUri } from "./name.ts"
import { rewriteTool } from "./rewrite.ts"
import { identityOf, type Scope, sees } from "./scope.ts"

/** A connected backend, what it said it offers, and the tools that are kept from clients for what they have become. */
export type CatalogSource = {
  readonly spec: ServerSpec
  readonly listing: Listing
  readonly quarantined?: ReadonlySet<string>
  /** What it lists is for one session alone, of the session's own process. */
  readonly own?: true
}

/** One backend's part of the catalog. */
export type ServerPart = CatalogSource & {
  readonly qualified: EntryTexts
  readonly plain: EntryTexts
}

export type Catalog = {
  readonly generation: number
  readonly parts: readonly ServerPart[]
  readonly views: Map<string, View>
}

/** Where a name of a view leads. */
export type Route = {
  readonly id: string
  readonly slug: string
  readonly name: string
  /** Parameters of a tool that a modern HTTP request repeats in headers. */
  readonly mirrored: readonly MirroredHeader[]
}

/** What one kind of client sees of a catalog. */
export type View = {
  readonly parts: readonly ServerPart[]
  readonly naming: "qualified" | "plain"
  readonly tools: ReadonlyMap<string, Route>
  readonly prompts: ReadonlyMap<string, Route>
  /** The backend of a URI and the URI it knows, or undefined where no backend of the view is meant. */
  resource(uri: string): Route | undefined
  /** The backend of a task's id and the id it knows, or undefined. */
  task(id: string): Route | undefined
  /** The JSON texts of the entries of a list, in order. */
  entries(method: ListMethod): readonly string[]
  /** The whole result of a list as JSON text: for legacy and for modern clients (`resultType`, cache hints). */
  list(method: ListMethod, era: Era): string
  /** The least time and the most private scope of the parts. server: Caching. */
  hint(method: ListMethod): CacheHint
  readonly instructions: string | undefined
}

/** Returns a catalog without servers, generation 0. */
export const emptyCatalog = (): Catalog => ({ generation: 0, parts: [], views: new BoundedMap(MAX_VIEWS) })

export const LIST_KEYS = {
  "tools/list": "tools",
  "prompts/list": "prompts",
  "resources/list": "resources",
  "resources/templates/list": "resourceTemplates",
} as const satisfies Readonly<Record<ListMethod, string>>

/** A new catalog of `sources`, in their order. Parts that have not changed since `previous` are taken from it. */
export function buildCatalog(sources: readonly CatalogSource[], previous: Catalog): Catalog {
  const before = new Map(previous.parts.map((chunk) => [chunk.spec.id, chunk]))
  const parts = sources.map((source) => chunkOf(source, before.get(source.spec.id)))
  return { generation: previous.generation + 1, parts, views: new BoundedMap(MAX_VIEWS) }
}

/**
 * The catalog of a session: what its own processes list, by backend, stands in the place of what the shared ones do, under
 * the same names and with the same tools left out. Parts that have not changed since `previous` are taken from it.
 */
export function withOwn(shared: Catalog, own: ReadonlyMap<string, CatalogSource>, previous: Catalog): Catalog {
  const before = new Map(previous.parts.map((chunk) => [chunk.spec.id, chunk]))
  const parts = shared.parts.map((chunk) => {
    const source = own.get(chunk.spec.id)
    return source === undefined ? chunk : chunkOf({ ...source, own: true }, before.get(chunk.spec.id))
  })
  return { generation: shared.generation, parts, views: new BoundedMap(MAX_VIEWS) }
}

/** The view of a scope, made once for each catalog. The number kept is bounded. */
export function viewOf(catalog: Catalog, scope: Scope): View {
  const key = scope.kind === "server" ? identityOf(scope) : `aggregate ${scope.key}`
  const known = catalog.views.get(key)
  if (known !== undefined) return known
  const view = createView(
    catalog.parts.filter((chunk) => sees(scope, chunk.spec)),
    scope.kind === "server" ? "plain" : "qualified",
  )
  catalog.views.set(key, view)
  return view
}

/**
 * Whether a client that saw one view must list again for another: its entries differ, or a backend listed them anew (it
 * says "changed" for reasons that may not show in the list).
 */
export function hasChanged(before: View, after: View, method: ListMethod): boolean {
  if (before === after) return false
  const { parts } = after
  // Of two processes, neither lists anew what the other has listed.
  const isAnew = ({ listing, own }: ServerPart, now: ServerPart | undefined) =>
    listing[LIST_KEYS[method]] !== now?.listing[LIST_KEYS[method]] && own === now?.own
  return (
    before.parts.length !== parts.length ||
    before.parts.some((chunk, index) => isAnew(chunk, parts[index])) ||
    before.list(method, "legacy") !== after.list(method, "legacy")
  )
}

/** Whether a tool is hidden: by its local name or by `<server>_svc_<tool>`. */
export function isHidden(spec: ServerSpec, tool: string): boolean {
  const { disabledTools } = spec.tuning
  return (
    disabledTools.includes(tool) ||
    disabledTools.includes(qualify(spec.slug, tool)) ||
    disabledTools.includes(qualify(spec.name, tool))
  )
}

// ---

const MAX_VIEWS = 256

/** The entries of one backend under one naming: JSON texts by list, and the names that lead to it. */
type EntryTexts = {
  readonly entries: Readonly<Record<ListMethod, readonly string[]>>
  readonly tools: ReadonlyMap<string, Route>
  readonly prompts: ReadonlyMap<string, Route>
}

function chunkOf(source: CatalogSource, old: ServerPart | undefined): ServerPart {
  const same =
    old !== undefined &&
    old.listing === source.listing &&
    old.spec === source.spec &&
    old.quarantined === source.quarantined &&
    old.own === source.own
  return same ? old : createPart(source)
}

function createPart(source: CatalogSource): ServerPart {
  return { ...source, qualified: createEntryTexts(source, "qualified"), plain: createEntryTexts(source, "plain") }
}

function createEntryTexts({ spec, listing, quarantined }: CatalogSource, naming: View["naming"]): EntryTexts {
  const name = (local: string) => (naming === "plain" ? local : qualify(spec.slug, local))
  const uri = (local: string) => (naming === "plain" ? local : qualifyUri(spec.slug, local))
  const { id, slug } = spec
  const routes = new Map<string, Route>()
  const tools = unique(
    listing.tools.filter((tool) => !isHidden(spec, tool.name) && quarantined?.has(tool.name) !== true),
  ).filter((tool) => {
    const mirrored = mirroredOf(tool.inputSchema)
    // A client of a modern HTTP server must not offer a tool whose marks are not valid.
    if (typeof mirrored === "string" && listing.era === "modern" && spec.launch.transport !== "stdio") return false
    routes.set(name(tool.name), { id, slug, name: tool.name, mirrored: typeof mirrored === "string" ? [] : mirrored })
    return true
  })
  const prompts = unique(listing.prompts)
  const overrides = new Map(Object.entries(spec.tuning.toolDescriptionOverrides))
  return {
    tools: routes,
    prompts: new Map(prompts.map((prompt) => [name(prompt.name), { id, slug, name: prompt.name, mirrored: [] }])),
    entries: {
      "tools/list": tools.map((tool) => {
        const description = overrides.get(tool.name)
        const shown = naming === "plain" ? tool : rewriteTool(tool, spec.slug)
        return JSON.stringify({
          ...shown,
          name: name(tool.name),
          ...(description === undefined ? {} : { description }),
        })
      }),
      "prompts/list": prompts.map((prompt) => JSON.stringify({ ...prompt, name: name(prompt.name) })),
      "resources/list": listing.resources.map((resource) => JSON.stringify({ ...resource, uri: uri(resource.uri) })),
      "resources/templates/list": listing.resourceTemplates.map((template) =>
        JSON.stringify({ ...template, uriTemplate: uri(template.uriTemplate) }),
      ),
    },
  }
}

/** A backend that lists a name twice is taken at its first word. */
function unique<T extends { readonly name: string }>(entries: readonly T[]): readonly T[] {
  const seen = new Set<string>()
  return entries.filter((entry) => !seen.has(entry.name) && seen.add(entry.name))
}

function createView(parts: readonly ServerPart[], naming: View["naming"]): View {
  const routes = (kind: "tools" | "prompts") => {
    const map = new Map<string, Route>()
    for (const chunk of parts) for (const [shown, route] of chunk[naming][kind]) map.set(shown, route)
    return map
  }
  const bySlug = new Map(parts.map((chunk) => [chunk.spec.slug, chunk]))
  const texts = new Map<string, string>()
  const entries = (method: ListMethod) => parts.flatMap((chunk) => chunk[naming].entries[method])
  const hint = (method: ListMethod) => leastHint(parts.map(({ listing }) => listing.hints?.[method]))
  return {
    parts,
    naming,
    tools: routes("tools"),
    prompts: routes("prompts"),
    resource(uri) {
      const split = naming === "plain" ? undefined : splitUri(uri)
      return naming === "plain" ? routeTo(parts[0], uri) : routeTo(bySlug.get(split?.slug ?? ""), split?.uri)
    },
    task(id) {
      const split = naming === "plain" ? undefined : splitName(id)
      return naming === "plain" ? routeTo(parts[0], id) : routeTo(bySlug.get(split?.slug ?? ""), split?.name)
    },
    entries,
    list(method, era) {
      const key = `${era} ${method}`
      const known = texts.get(key)
      if (known !== undefined) return known
      const text = listResult(method, entries(method), era, hint(method))
      texts.set(key, text)
      return text
    },
    hint,
    instructions: instructionsOf(parts, naming),
  }
}

const routeTo = (chunk: ServerPart | undefined, name: string | undefined): Route | undefined =>
  chunk === undefined || name === undefined
    ? undefined
    : { id: chunk.spec.id, slug: chunk.spec.slug, name, mirrored: [] }

/** The result of a list method as JSON text. */
export function listResult(
  method: ListMethod,
  entries: readonly string[],
  era: Era,
  hint: CacheHint,
  nextCursor?: string,
): string {
  const list = `"${LIST_KEYS[method]}":[${entries.join(",")}]`
  const cursor = nextCursor === undefined ? "" : `,"nextCursor":${JSON.stringify(nextCursor)}`
  return era === "legacy"
    ? `{${list}${cursor}}`
    : `{"resultType":"complete",${list}${cursor},"ttlMs":${hint.ttlMs},"cacheScope":"${hint.cacheScope}"}`
}

function leastHint(hints: readonly (CacheHint | undefined)[]): CacheHint {
  return hints.reduce<CacheHint>(
    (least, hint) => ({
      ttlMs: Math.min(least.ttlMs, hint?.ttlMs ?? 0),
      cacheScope: least.cacheScope === "public" && hint?.cacheScope === "public" ? "public" : "private",
    }),
    hints.length === 0 ? { ttlMs: 0, cacheScope: "private" } : { ttlMs: Number.MAX_SAFE_INTEGER, cacheScope: "public" },
  )
}

function instructionsOf(chunks: readonly ServerPart[], naming: View["naming"]): string | undefined {
  const said = chunks.filter(({ listing }) => listing.instructions !== undefined && listing.instructions !== "")
  if (naming === "plain") return said[0]?.listing.instructions
  if (said.length === 0) return undefined
  return said.map(({ spec, listing }) => `# ${spec.name}\n\n${listing.instructions}`).join("\n\n")
}
