/**
 * The catalog: the listings of all connected backends under their names in svc, without hidden tools and with overridden
 * definitions. A catalog is immutable, except for its cached views. The text of each entry is made once per listing, and each
 * list result once per view, in a stable order: first that of the plan, then that of the backend.
 *
 * A hidden or quarantined tool gets no route, so that it can be neither listed nor called.
 */
import type { ServerSpec } from "../config/server-spec.ts"
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Era } from "../wire/era.ts"
import { type MirroredHeader, mirroredOf } from "../wire/headers.ts"
import { isObject, type Params } from "../wire/message.ts"
import { limitWarnings } from "./client-limits.ts"
import { definitionTexts, legacyTool } from "./definition-check.ts"
import {
  type CacheHint,
  definitionIssues,
  type Listing,
  type ListMethod,
  type PagedMethod,
  type Tool,
  uniqueByName,
  withoutServerInfo,
} from "./listing.ts"
import { qualify, qualifyUri, shortened, splitName, splitUri } from "./name.ts"
import { rewriteTool } from "./rewrite.ts"
import { identityOf, type Scope, scopeIncludes } from "./scope.ts"
import { isAlwaysVisible, isHidden, withOverrides } from "./tool-settings.ts"
import { type Naming, nameKey, namesIn, type RuledEntry, type Shape, shapeAllows } from "./view-rules.ts"

/** A connected backend, its listing, and the names of its tools that svc withholds because they changed. */
export type CatalogSource = {
  readonly spec: ServerSpec
  readonly listing: Listing
  readonly quarantined?: ReadonlySet<string>
  /** Set if the listing comes from a session's dedicated process and is for that session alone. */
  readonly own?: true
  /** Ids of its output schemas that another backend gives to another schema: SDK 1 would check results by the wrong one. */
  readonly sharedIds?: ReadonlySet<string> | undefined
}

/** The part of one backend in the catalog. */
export type ServerPart = CatalogSource & {
  /** The tools that svc offers to clients, by their own names. */
  readonly offered: ReadonlyMap<string, Tool>
  readonly qualified: EntryTexts
  readonly plain: EntryTexts
  /** Warnings about entries that svc repaired or left out, and about those that clients cut or refuse. */
  readonly warnings: readonly string[]
  /** The part as views with shapes have it, by the key of the shape: a listing that does not change keeps its identity. */
  readonly shaped: Map<string, ServerPart>
  /** Set if this is what a shape includes of a server. */
  readonly isShaped?: true
}

export type Catalog = {
  /** Counts the builds, from 1. */
  readonly generation: number
  readonly parts: readonly ServerPart[]
  /** The limit of a qualified name in characters. */
  readonly maxName: number
  /** The views made so far, by the key of their scope; bounded. */
  readonly views: Map<string, View>
  /** The key of the view of each requested scope. */
  readonly viewKeys: WeakMap<Scope, ViewKey>
}

/** The key of a view (`text`), and the values that it was made from. */
type ViewKey = Pick<Aggregate, "key" | "tools" | "alwaysVisible"> & { readonly text: string }

/** The target of a name in a view: the backend's id and slug, and the name (or URI, or task id) that the backend knows. */
export type Route = {
  readonly id: string
  readonly slug: string
  readonly name: string
  /** The parameters of a tool that a modern HTTP request mirrors in headers. */
  readonly mirrored: readonly MirroredHeader[]
  /** Set if the backend does not list the name: it is any text of a client. */
  readonly unlisted?: true
  /** The era of the connection for the request; the default is the client's era. */
  readonly era?: Era
}

/** The part of a catalog that clients of one scope see. */
export type View = {
  readonly parts: readonly ServerPart[]
  readonly naming: "qualified" | "plain"
  /** Whether its presets name tools otherwise than `naming` does. */
  readonly isRenamed: boolean
  /** Wanted names that two entries share, which therefore keep their qualified names. */
  readonly collisions: readonly string[]
  /** Returns the full name of a tool or prompt, which is valid even if the list has a shortened name. */
  nameOf(spec: Pick<ServerSpec, "id" | "slug">, local: string): string
  /** The limit of a name in its lists, in characters. */
  readonly maxName: number
  /** Whether its list of tools has only the always visible tools. Clients can still call all tools. */
  readonly lazy: boolean
  readonly tools: ReadonlyMap<string, Route>
  readonly prompts: ReadonlyMap<string, Route>
  /**
   * Returns the route of a name that the only backend of a plain view does not list, but may know. Undefined if svc withholds
   * tools of the backend: the backend might accept another spelling of a withheld tool's name.
   */
  unlisted(kind: "tools" | "prompts", name: string): Route | undefined
  /** Returns the route of a resource's URI, or undefined if it names no backend of the view. */
  resource(uri: string): Route | undefined
  /** Returns the route of a task's id, or undefined if it names no backend of the view. */
  task(id: string): Route | undefined
  /** Returns the entries of a list for clients of an era as JSON texts, in order; the same array each time. */
  entries(method: ListMethod, era: Era): readonly string[]
  /** Returns the whole result of a list as JSON text. Modern results carry `resultType` and cache hints. */
  list(method: ListMethod, era: Era): string
  /** Returns the shortest time to live and the most private scope of the parts. server: Caching. */
  hint(method: ListMethod): CacheHint
  /** Returns the unknown members beside a list, from the only backend of a plain view. */
  members(method: ListMethod): Params | undefined
  /** How to find tools in a lazy view, and the instructions of the only backend of a plain view. */
  readonly instructions: string | undefined
}

/** Returns a catalog without servers, generation 0. */
export const emptyCatalog = (): Catalog => catalogOf(0, [], Number.POSITIVE_INFINITY)

export const LIST_KEYS = {
  "tools/list": "tools",
  "prompts/list": "prompts",
  "resources/list": "resources",
  "resources/templates/list": "resourceTemplates",
} as const satisfies Readonly<Record<ListMethod, string>>

/**
 * Builds a catalog of `sources`, in their order. Takes parts that have not changed from `previous`. Qualified names have at
 * most `maxName` characters, the same in each build.
 */
export function buildCatalog(
  sources: readonly CatalogSource[],
  previous: Catalog,
  maxName = previous.maxName,
): Catalog {
  const before = new Map(previous.parts.map((part) => [part.spec.id, part]))
  const schemas = new Map<string, string>()
  const parts = sources.map((source) => {
    const sharedIds = idsIn(source.listing, schemas)
    const marked = sharedIds === undefined ? source : { ...source, sharedIds }
    return partOf(marked, before.get(source.spec.id), maxName)
  })
  return catalogOf(previous.generation + 1, parts, maxName)
}

/**
 * Builds the catalog of a session with dedicated processes: their listings (by backend id) replace those of the shared
 * processes, with the same names and the same hidden tools. Takes parts that have not changed from `previous`.
 */
export function withOwn(shared: Catalog, own: ReadonlyMap<string, CatalogSource>, previous: Catalog): Catalog {
  const before = new Map(previous.parts.map((part) => [part.spec.id, part]))
  const parts = shared.parts.map((part) => {
    const source = own.get(part.spec.id)
    if (source === undefined) return part
    const { sharedIds } = part
    const marked: CatalogSource = { ...source, own: true, ...(sharedIds && { sharedIds }) }
    return partOf(marked, before.get(part.spec.id), shared.maxName)
  })
  return catalogOf(shared.generation, parts, shared.maxName)
}

/** Returns the view of a scope. Caches at most MAX_VIEWS views per catalog. */
export function viewOf(catalog: Catalog, scope: Scope): View {
  const { key, tools, alwaysVisible } = scope.kind === "server" ? ONE_SERVER : scope
  const last = catalog.viewKeys.get(scope)
  // Each call asks twice: a new text would have to be hashed again.
  const isSame = last !== undefined && last.key === key && last.tools === tools && last.alwaysVisible === alwaysVisible
  const text = isSame ? last.text : viewKey(scope, alwaysVisible)
  if (!isSame) catalog.viewKeys.set(scope, { key, tools, alwaysVisible, text })
  const known = catalog.views.get(text)
  if (known !== undefined) return known
  const { shape } = scope
  const parts = catalog.parts.filter((part) => scopeIncludes(scope, part.spec))
  const view = createView(
    shape === undefined ? parts : parts.map((part) => shapedPart(part, shape, catalog.maxName)),
    scope.kind === "server" ? "plain" : "qualified",
    { maxName: catalog.maxName, lazily: scope.tools === "search" ? { alwaysVisible } : undefined, shape },
  )
  catalog.views.set(text, view)
  return view
}

/** Whether a client may no longer see the only server of its scope, although that is connected. */
export const isWithdrawn = ({ parts }: Catalog, scope: Scope): boolean =>
  scope.kind === "server" && parts.some(({ spec }) => spec.id === scope.id && !scopeIncludes(scope, spec))

/**
 * Whether a client of the view `before` must list again to know `after`: entries differ, or a backend listed them again (a
 * `list_changed` may have a reason that the list does not show).
 */
export function hasChanged(before: View, after: View, method: ListMethod): boolean {
  if (before === after) return false
  const { parts } = after
  // What a lazy view does not list, or a shape leaves out, changes nothing for its client.
  if ((after.lazy && method === "tools/list") || parts.some(({ isShaped }) => isShaped))
    return before.list(method, "legacy") !== after.list(method, "legacy")
  // A listing of another process is not a new listing of this process. Each connection has its own capabilities object.
  const isRelisted = ({ listing }: ServerPart, now: ServerPart | undefined) =>
    listing[LIST_KEYS[method]] !== now?.listing[LIST_KEYS[method]] && listing.capabilities === now?.listing.capabilities
  return (
    before.parts.length !== parts.length ||
    before.parts.some((part, index) => isRelisted(part, parts[index])) ||
    before.list(method, "legacy") !== after.list(method, "legacy")
  )
}

/** Returns the tools that svc offers to clients: each name once, without hidden and quarantined tools. */
function offeredTools({ spec, listing, quarantined }: CatalogSource): readonly Tool[] {
  // A client of a modern HTTP server must not offer a tool with invalid `x-mcp-header` marks.
  const checksHeaders = listing.era === "modern" && spec.launch.transport !== "stdio"
  return uniqueByName(listing.tools).filter(
    (tool) =>
      !isHidden(spec, tool.name) &&
      quarantined?.has(tool.name) !== true &&
      !(checksHeaders && typeof mirroredOf(tool.inputSchema) === "string"),
  )
}

/** Returns a tool as clients of a view see it, by its name in the view; undefined if the view does not offer it. */
export function toolOf(view: View, name: string): Tool | undefined {
  const route = view.tools.get(name)
  const part = route && view.parts.find(({ spec }) => spec.id === route.id)
  const tool = route && part?.offered.get(route.name)
  return part === undefined || tool === undefined ? undefined : toolIn(view, part, tool)
}

/** Returns a tool of a part as clients of a view see it. */
const toolIn = ({ naming, maxName, nameOf }: NamingView, part: ServerPart, tool: Tool): Tool =>
  clientTool(
    part,
    tool,
    naming,
    shortened(nameOf(part.spec, tool.name), naming === "plain" ? Number.POSITIVE_INFINITY : maxName),
  )

/** Returns why svc withholds the tool of a name in a view from clients; undefined if it does not. */
export function withheldIn({ parts, naming, maxName, nameOf }: View, name: unknown): Withheld | undefined {
  for (const { spec, listing, quarantined } of parts) {
    const { disabledTools } = spec.tuning
    if (disabledTools.length === 0 && (quarantined?.size ?? 0) === 0) continue
    const found = listing.tools.find(
      (tool) =>
        (isHidden(spec, tool.name) || quarantined?.has(tool.name) === true) &&
        [nameOf(spec, tool.name), naming === "plain" ? "" : shortened(nameOf(spec, tool.name), maxName)].includes(
          String(name),
        ),
    )
    if (found !== undefined) return isHidden(spec, found.name) ? "disabled" : "changed"
  }
  return undefined
}
/** Why svc withholds a tool: `disabledTools` names it, or strict pinning found another definition than the approved one. */
export type Withheld = "disabled" | "changed"

/** Returns the offered tools of a part as clients of a view see them. */
export const partTools = (part: ServerPart, view: NamingView): readonly Tool[] =>
  [...part.offered.values()].map((tool) => toolIn(view, part, tool))

/** What decides the names in a view. */
export type NamingView = Pick<View, "naming" | "maxName" | "nameOf">

/** The names of the servers themselves, without a view. */
export const OWN_NAMES: NamingView = {
  naming: "plain",
  maxName: Number.POSITIVE_INFINITY,
  nameOf: (_spec, local) => local,
}

/** Returns the full name of a tool or prompt under a naming. */
export const nameIn = (naming: View["naming"], { slug }: Pick<ServerSpec, "slug">, local: string): string =>
  naming === "plain" ? local : qualify(slug, local)

const qualifiedName = (spec: ServerSpec, maxName: number) => (local: string) =>
  shortened(qualify(spec.slug, local), maxName)

/** Counts the tools of a source: those that svc offers to clients, and those that it withholds. */
export function countTools(source: CatalogSource): ToolCounts {
  const tools = offeredTools(source).length
  return { tools, hiddenTools: uniqueByName(source.listing.tools).length - tools }
}
export type ToolCounts = { readonly tools: number; readonly hiddenTools: number }

/** Counts the entries that a part offers to the clients of its view. */
export const countEntries = ({ offered, listing }: ServerPart): EntryCounts => ({
  tools: offered.size,
  hiddenTools: 0,
  prompts: uniqueByName(listing.prompts).length,
  resources: listing.resources.length,
  resourceTemplates: listing.resourceTemplates.length,
})
type EntryCounts = ToolCounts & {
  readonly prompts: number
  readonly resources: number
  readonly resourceTemplates: number
}

/** Counts the characters that a server adds to the context of a client. */
export const countCharacters = ({ qualified, listing }: ServerPart): ContextCharacters => ({
  tools: qualified.entries["tools/list"].reduce((sum, text) => sum + text.length, 0),
  instructions: listing.instructions?.length ?? 0,
})
export type ContextCharacters = { readonly tools: number; readonly instructions: number }

// ---

const MAX_VIEWS = 256

/** Returns a catalog without cached views. */
const catalogOf = (generation: number, parts: readonly ServerPart[], maxName: number): Catalog => ({
  generation,
  parts,
  maxName,
  views: new BoundedMap(MAX_VIEWS),
  viewKeys: new WeakMap(),
})

type Aggregate = Extract<Scope, { kind: "aggregate" }>
/** A scope of one server never changes. */
const ONE_SERVER: Pick<Aggregate, "key" | "tools" | "alwaysVisible"> = { key: "", tools: undefined, alwaysVisible: [] }

function viewKey(scope: Scope, alwaysVisible: readonly string[]): string {
  if (scope.kind === "server") return identityOf(scope)
  return `aggregate ${scope.key}${scope.tools === "search" ? ` search ${JSON.stringify(alwaysVisible)}` : ""}`
}

/** The entries of one backend under one naming: JSON texts by list, and the routes of its names. */
type EntryTexts = {
  readonly entries: Readonly<Record<ListMethod, readonly string[]>>
  /** The tools as legacy clients accept them; the same list if that is no difference. */
  readonly legacyTools: readonly string[]
  readonly tools: ReadonlyMap<string, Route>
  readonly prompts: ReadonlyMap<string, Route>
}

function partOf(source: CatalogSource, old: ServerPart | undefined, maxName: number): ServerPart {
  const same =
    old !== undefined &&
    old.listing === source.listing &&
    old.spec === source.spec &&
    old.quarantined === source.quarantined &&
    old.sharedIds === source.sharedIds &&
    old.own === source.own
  return same ? old : createPart(source, maxName)
}

function createPart(source: CatalogSource, maxName: number): ServerPart {
  const tools = offeredTools(source)
  const qualified = createEntryTexts(source, tools, "qualified", qualifiedName(source.spec, maxName))
  return {
    ...source,
    shaped: new BoundedMap(MAX_VIEWS),
    offered: new Map(tools.map((tool) => [tool.name, tool])),
    qualified,
    plain: createEntryTexts(source, tools, "plain", (local) => local),
    warnings: [
      ...definitionTexts(definitionIssues(source.listing)),
      ...limitWarnings(
        tools.map((tool) => withOverrides(source.spec, tool)),
        [...qualified.tools.keys(), ...qualified.prompts.keys()],
      ),
    ],
  }
}

/** Returns what a shape includes of a server. */
function shapedPart(part: ServerPart, shape: Shape, maxName: number): ServerPart {
  const known = part.shaped.get(shape.key)
  if (known !== undefined) return known
  const { spec, listing } = part
  const allows = (entry: RuledEntry) => shapeAllows(shape, spec, entry)
  const shaped: Listing = {
    ...listing,
    tools: listing.tools.filter((tool) => allows({ kind: "tool", tool })),
    prompts: listing.prompts.filter(({ name }) => allows({ kind: "prompt", name })),
    resources: listing.resources.filter(({ uri }) => allows({ kind: "resource", name: uri })),
    resourceTemplates: listing.resourceTemplates.filter(({ uriTemplate }) =>
      allows({ kind: "resource", name: uriTemplate }),
    ),
  }
  const made: ServerPart = {
    ...createPart(
      {
        spec,
        listing: shaped,
        ...(part.quarantined === undefined ? {} : { quarantined: part.quarantined }),
        ...(part.own === undefined ? {} : { own: part.own }),
        ...(part.sharedIds === undefined ? {} : { sharedIds: part.sharedIds }),
      },
      maxName,
    ),
    isShaped: true,
  }
  part.shaped.set(shape.key, made)
  return made
}

function createEntryTexts(
  source: CatalogSource,
  tools: readonly Tool[],
  naming: View["naming"],
  name: (local: string) => string,
): EntryTexts {
  const { spec, listing } = source
  const uri = (local: string) => (naming === "plain" ? local : qualifyUri(spec.slug, local))
  const { id, slug } = spec
  const routes = new Map<string, Route>()
  for (const tool of tools) {
    const mirrored = mirroredOf(tool.inputSchema)
    routes.set(name(tool.name), { id, slug, name: tool.name, mirrored: typeof mirrored === "string" ? [] : mirrored })
  }
  const prompts = uniqueByName(listing.prompts)
  const clientTools = tools.map((tool) => clientTool(source, tool, naming, name(tool.name)))
  const toolTexts = clientTools.map((tool) => JSON.stringify(tool))
  const legacyTools = clientTools.map((tool) => (listing.era === "modern" ? legacyTool(tool) : tool))
  const isSame = legacyTools.every((tool, at) => tool === clientTools[at])
  return {
    tools: routes,
    prompts: new Map(prompts.map((prompt) => [name(prompt.name), { id, slug, name: prompt.name, mirrored: [] }])),
    entries: {
      "tools/list": toolTexts,
      "prompts/list": prompts.map((prompt) => JSON.stringify({ ...prompt, name: name(prompt.name) })),
      "resources/list": listing.resources.map((resource) => JSON.stringify({ ...resource, uri: uri(resource.uri) })),
      "resources/templates/list": listing.resourceTemplates.map((template) =>
        JSON.stringify({ ...template, uriTemplate: uri(template.uriTemplate) }),
      ),
    },
    legacyTools: isSame ? toolTexts : legacyTools.map((tool) => JSON.stringify(tool)),
  }
}

function clientTool({ spec, sharedIds }: CatalogSource, tool: Tool, naming: View["naming"], name: string): Tool {
  const overridden = withOverrides(spec, tool)
  const client: Tool = {
    ...(naming === "plain" ? overridden : rewriteTool(overridden, spec.slug)),
    name,
  }
  if (naming === "plain" || sharedIds?.has(idOf(client.outputSchema) ?? "") !== true) return client
  const { outputSchema: _schema, ...rest } = client
  return rest
}

const idOf = (schema: unknown): string | undefined =>
  isObject(schema) && typeof schema.$id === "string" ? schema.$id : undefined

/**
 * Returns the ids of a listing's output schemas that `schemas`, texts by id, has for other schemas; undefined if there are none. Adds the others
 * to `schemas`.
 */
function idsIn({ tools }: Listing, schemas: Map<string, string>): ReadonlySet<string> | undefined {
  const shared = new Set<string>()
  for (const { outputSchema } of tools) {
    const id = idOf(outputSchema)
    if (id === undefined) continue
    const text = JSON.stringify(outputSchema)
    const known = schemas.get(id)
    if (known === undefined) schemas.set(id, text)
    else if (known !== text) shared.add(id)
  }
  return shared.size === 0 ? undefined : shared
}

/** Whether svc withholds a listed tool of this name, or might withhold an unlisted one. */
const mayWithhold = ({ spec, listing }: CatalogSource, name: string): boolean =>
  spec.tuning.disabledTools.length > 0 ||
  spec.tuning.toolPinning === "strict" ||
  listing.tools.some((tool) => tool.name === name)

/** Returns the texts of the always visible tools of a part. Routes and texts have the same order. */
function alwaysVisibleTexts(
  part: ServerPart,
  texts: EntryTexts,
  alwaysVisible: readonly string[],
  era: Era,
): readonly string[] {
  const routes = [...texts.tools]
  return textsOf(texts, "tools/list", era).filter((_text, at) => {
    const [, route] = routes[at] ?? []
    return isAlwaysVisible(part.spec, route?.name ?? "", alwaysVisible)
  })
}

const textsOf = ({ entries, legacyTools }: EntryTexts, method: ListMethod, era: Era): readonly string[] =>
  method === "tools/list" && era === "legacy" ? legacyTools : entries[method]

/** Creates a view; a lazy view if `lazily` is set. */
function createView(
  parts: readonly ServerPart[],
  naming: View["naming"],
  {
    maxName,
    lazily,
    shape,
  }: {
    readonly maxName: number
    readonly lazily: { readonly alwaysVisible: readonly string[] } | undefined
    readonly shape: Shape | undefined
  },
): View {
  const renamed = shape?.naming === undefined || naming === "plain" ? undefined : namesOf(parts, shape.naming)
  const nameOf: View["nameOf"] = (spec, local) =>
    renamed?.names.get(nameKey(spec.id, local)) ?? (naming === "plain" ? local : qualify(spec.slug, local))
  const textsIn = new Map(
    parts.map((part) => [
      part,
      renamed === undefined
        ? part[naming]
        : createEntryTexts(part, [...part.offered.values()], naming, (local) =>
            shortened(nameOf(part.spec, local), maxName),
          ),
    ]),
  )
  const entryTexts = (part: ServerPart): EntryTexts => textsIn.get(part) ?? part[naming]
  const routes = (kind: "tools" | "prompts") => {
    const map = new Routes(naming, maxName)
    for (const part of parts) for (const [name, route] of entryTexts(part)[kind]) map.set(name, route)
    return map
  }
  const located = (route: Route | undefined): Route | undefined => {
    if (route === undefined || shape === undefined) return route
    const { spec } = parts.find((part) => part.spec.id === route.id) ?? {}
    return spec !== undefined && shapeAllows(shape, spec, { kind: "resource", name: route.name }) ? route : undefined
  }
  const bySlug = new Map(parts.map((part) => [part.spec.slug, part]))
  const texts = new Map<string, string>()
  const known = new Map<string, readonly string[]>()
  const entries = (method: ListMethod, era: Era) => {
    const key = `${era} ${method}`
    const found =
      known.get(key) ??
      parts.flatMap((part) =>
        lazily !== undefined && method === "tools/list"
          ? alwaysVisibleTexts(part, entryTexts(part), lazily.alwaysVisible, era)
          : textsOf(entryTexts(part), method, era),
      )
    known.set(key, found)
    return found
  }
  const members = (method: ListMethod) => (naming === "plain" ? parts[0]?.listing.listMembers?.[method] : undefined)
  const hint = (method: ListMethod) => leastHint(parts.map(({ listing }) => listing.hints?.[method]))
  return {
    parts,
    naming,
    isRenamed: renamed !== undefined,
    collisions: renamed?.collisions ?? [],
    nameOf,
    maxName,
    lazy: lazily !== undefined,
    tools: routes("tools"),
    prompts: routes("prompts"),
    unlisted(kind, name) {
      const [part] = parts
      if (
        part === undefined ||
        naming === "qualified" ||
        shape !== undefined ||
        (kind === "tools" && mayWithhold(part, name))
      )
        return undefined
      return { id: part.spec.id, slug: part.spec.slug, name, mirrored: [], unlisted: true }
    },
    resource(uri) {
      const split = naming === "plain" ? undefined : splitUri(uri)
      return located(naming === "plain" ? routeTo(parts[0], uri) : routeTo(bySlug.get(split?.slug ?? ""), split?.uri))
    },
    task(id) {
      const split = naming === "plain" ? undefined : splitName(id)
      return naming === "plain" ? routeTo(parts[0], id) : routeTo(bySlug.get(split?.slug ?? ""), split?.name)
    },
    entries,
    list(method, era) {
      const key = `${era} ${method}`
      const made = texts.get(key)
      if (made !== undefined) return made
      const text = listResult(method, entries(method, era), era, { hint: hint(method), members: members(method) })
      texts.set(key, text)
      return text
    },
    hint,
    members,
    instructions:
      [lazily && HOW_TO_FIND, naming === "plain" && parts[0]?.listing.instructions].filter(Boolean).join("\n\n") ||
      undefined,
  }
}

/** Returns the names of tools and prompts under a naming. Tools and prompts may have the same name; tools of svc itself may not. */
function namesOf(parts: readonly ServerPart[], naming: Naming): ReturnType<typeof namesIn> {
  const all = parts.map(({ spec, offered, listing }) => ({
    spec,
    names: [...new Set([...offered.keys(), ...listing.prompts.map(({ name }) => name)])],
  }))
  return namesIn(naming, all, isReserved)
}

/** Whether svc's own tools have the name, or may get it. */
const isReserved = (name: string): boolean =>
  /^(?:search_tools|describe_tool|get_tool_details|tool_list|tool_schema|call_tool|call_read_tool|read_result|mcp_\w+)$/.test(
    name,
  )

/**
 * The routes by the names that clients see. The full form of a shortened name is valid, too: users and settings write it. So is
 * the form with the dots of a server's name.
 */
class Routes extends Map<string, Route> {
  constructor(
    private readonly naming: View["naming"],
    private readonly maxName: number,
  ) {
    super()
  }

  override get(name: string): Route | undefined {
    const found = super.get(name) ?? super.get(shortened(name, this.maxName))
    const split = found !== undefined || this.naming === "plain" ? undefined : splitName(name)
    if (split === undefined) return found
    const full = qualify(split.slug, split.name)
    return full === name ? undefined : (super.get(full) ?? super.get(shortened(full, this.maxName)))
  }

  override has(name: string): boolean {
    return this.get(name) !== undefined
  }
}
const HOW_TO_FIND =
  "Most tools are not listed. Find them with search_tools; run one with call_tool, or with call_read_tool if it is marked read-only."

const routeTo = (part: ServerPart | undefined, name: string | undefined): Route | undefined =>
  part === undefined || name === undefined ? undefined : { id: part.spec.id, slug: part.spec.slug, name, mirrored: [] }

/** The members beside the entries of a list. */
type ListMembers = {
  readonly hint: CacheHint
  /** The backend's own members. */
  readonly members?: Params | undefined
  readonly nextCursor?: string | undefined
}

/** Returns the result of a list method as JSON text. `entries` are JSON texts. */
export function listResult(
  method: PagedMethod,
  entries: readonly string[],
  era: Era,
  { hint, members, nextCursor }: ListMembers,
): string {
  const list = `"${method === "skills/list" ? "skills" : LIST_KEYS[method]}":[${entries.join(",")}]`
  const cursor = nextCursor === undefined ? "" : `,"nextCursor":${JSON.stringify(nextCursor)}`
  const others = members !== undefined && era === "legacy" ? withoutServerInfo(members) : (members ?? {})
  const own = Object.keys(others).length === 0 ? "" : `,${JSON.stringify(others).slice(1, -1)}`
  return era === "legacy"
    ? `{${list}${cursor}${own}}`
    : `{"resultType":"complete",${list}${cursor}${own},"ttlMs":${hint.ttlMs},"cacheScope":"${hint.cacheScope}"}`
}

/** Returns the shortest time to live and the most private scope; a missing hint counts as 0 ms. server: Caching. */
export function leastHint(hints: readonly (CacheHint | undefined)[]): CacheHint {
  return hints.reduce<CacheHint>(
    (least, hint) => ({
      ttlMs: Math.min(least.ttlMs, hint?.ttlMs ?? 0),
      cacheScope: least.cacheScope === "public" && hint?.cacheScope === "public" ? "public" : "private",
    }),
    hints.length === 0 ? { ttlMs: 0, cacheScope: "private" } : { ttlMs: Number.MAX_SAFE_INTEGER, cacheScope: "public" },
  )
}
