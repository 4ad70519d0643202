/**
 * What is offered: the listings of all connected backends under their names, hidden tools left out and descriptions
 * replaced. A catalog is immutable; the text of each entry is made once for each listing, and each list answer once for
 * each view, in a stable order: the plan's, then the backend's own.
 */
import type { Spec } from "../config/spec.ts"
import type { CacheHint, Listing, ListMethod } from "./listing.ts"
import { qualify, qualifyUri, splitUri } from "./name.ts"
import { rewriteTool } from "./rewrite.ts"

/** A connected backend and what it said it offers. */
export type Source = { readonly spec: Spec; readonly listing: Listing }

/** One backend's part of the catalog. */
export type Chunk = Source & {
  readonly qualified: Texts
  readonly plain: Texts
}

export type Catalog = {
  readonly generation: number
  readonly chunks: readonly Chunk[]
  readonly views: Map<string, View>
}

/** Where a name of a view leads. */
export type Route = { readonly id: string; readonly slug: string; readonly name: string }

/** What one kind of client sees of a catalog. */
export type View = {
  readonly chunks: readonly Chunk[]
  readonly naming: "qualified" | "plain"
  readonly tools: ReadonlyMap<string, Route>
  readonly prompts: ReadonlyMap<string, Route>
  /** The backend of a URI and the URI it knows, or undefined where no backend of the view is meant. */
  resource(uri: string): Route | undefined
  /** The JSON texts of the entries of a list, in order. */
  entries(method: ListMethod): readonly string[]
  /** The whole result of a list as JSON text: for 2025-era and for 2026-era clients (`resultType`, cache hints). */
  list(method: ListMethod, era: "2025" | "2026"): string
  /** The least time and the most private scope of the parts. server: Caching. */
  hint(method: ListMethod): CacheHint
  readonly instructions: string | undefined
}

/** Which part of the catalog is seen: all that pass `includes`, or one backend under its own names. */
export type Scope =
  | { readonly kind: "aggregate"; readonly key: string; includes(spec: Spec): boolean }
  | { readonly kind: "server"; readonly id: string }

export const EMPTY_CATALOG: Catalog = { generation: 0, chunks: [], views: new Map() }

export const LIST_KEYS: Readonly<Record<ListMethod, string>> = {
  "tools/list": "tools",
  "prompts/list": "prompts",
  "resources/list": "resources",
  "resources/templates/list": "resourceTemplates",
}

/** A new catalog of `sources`, in their order. Parts that have not changed since `previous` are taken from it. */
export function buildCatalog(sources: readonly Source[], previous: Catalog): Catalog {
  const before = new Map(previous.chunks.map((chunk) => [chunk.spec.id, chunk]))
  const chunks = sources.map((source) => {
    const old = before.get(source.spec.id)
    return old !== undefined && old.listing === source.listing && old.spec === source.spec ? old : createChunk(source)
  })
  return { generation: previous.generation + 1, chunks, views: new Map() }
}

/** The view of a scope, made once for each catalog. The number kept is bounded. */
export function viewOf(catalog: Catalog, scope: Scope): View {
  const key = scope.kind === "server" ? `server ${scope.id}` : `aggregate ${scope.key}`
  const known = catalog.views.get(key)
  if (known !== undefined) return known
  const view = createView(
    catalog.chunks.filter((chunk) =>
      scope.kind === "server" ? chunk.spec.id === scope.id : scope.includes(chunk.spec),
    ),
    scope.kind === "server" ? "plain" : "qualified",
  )
  if (catalog.views.size >= MAX_VIEWS) catalog.views.delete(catalog.views.keys().next().value as string)
  catalog.views.set(key, view)
  return view
}

/** Whether a tool is hidden: by its local name or by `<server>_svc_<tool>`. */
export function isHidden(spec: Spec, tool: string): boolean {
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
type Texts = {
  readonly entries: Readonly<Record<ListMethod, readonly string[]>>
  readonly tools: ReadonlyMap<string, string>
  readonly prompts: ReadonlyMap<string, string>
}

function createChunk(source: Source): Chunk {
  return { ...source, qualified: createTexts(source, "qualified"), plain: createTexts(source, "plain") }
}

function createTexts({ spec, listing }: Source, naming: View["naming"]): Texts {
  const name = (local: string) => (naming === "plain" ? local : qualify(spec.slug, local))
  const uri = (local: string) => (naming === "plain" ? local : qualifyUri(spec.slug, local))
  const tools = unique(listing.tools.filter((tool) => !isHidden(spec, tool.name)))
  const prompts = unique(listing.prompts)
  const overrides = new Map(Object.entries(spec.tuning.toolDescriptionOverrides))
  return {
    tools: new Map(tools.map((tool) => [name(tool.name), tool.name])),
    prompts: new Map(prompts.map((prompt) => [name(prompt.name), prompt.name])),
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

function createView(chunks: readonly Chunk[], naming: View["naming"]): View {
  const routes = (kind: "tools" | "prompts") => {
    const map = new Map<string, Route>()
    for (const chunk of chunks)
      for (const [shown, name] of chunk[naming][kind])
        map.set(shown, { id: chunk.spec.id, slug: chunk.spec.slug, name })
    return map
  }
  const bySlug = new Map(chunks.map((chunk) => [chunk.spec.slug, chunk]))
  const texts = new Map<string, string>()
  const entries = (method: ListMethod) => chunks.flatMap((chunk) => chunk[naming].entries[method])
  const hint = (method: ListMethod) => leastHint(chunks.map(({ listing }) => listing.hints?.[method]))
  return {
    chunks,
    naming,
    tools: routes("tools"),
    prompts: routes("prompts"),
    resource(uri) {
      if (naming === "plain") {
        const [only] = chunks
        return only === undefined ? undefined : { id: only.spec.id, slug: only.spec.slug, name: uri }
      }
      const split = splitUri(uri)
      const chunk = split === undefined ? undefined : bySlug.get(split.slug)
      return chunk === undefined || split === undefined
        ? undefined
        : { id: chunk.spec.id, slug: chunk.spec.slug, name: split.uri }
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
    instructions: instructionsOf(chunks, naming),
  }
}

/** The result of a list method as JSON text. */
export function listResult(
  method: ListMethod,
  entries: readonly string[],
  era: "2025" | "2026",
  hint: CacheHint,
  nextCursor?: string,
): string {
  const list = `"${LIST_KEYS[method]}":[${entries.join(",")}]`
  const cursor = nextCursor === undefined ? "" : `,"nextCursor":${JSON.stringify(nextCursor)}`
  return era === "2025"
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

function instructionsOf(chunks: readonly Chunk[], naming: View["naming"]): string | undefined {
  const said = chunks.filter(({ listing }) => listing.instructions !== undefined && listing.instructions !== "")
  if (naming === "plain") return said[0]?.listing.instructions
  if (said.length === 0) return undefined
  return said.map(({ spec, listing }) => `# ${spec.name}\n\n${listing.instructions}`).join("\n\n")
}
