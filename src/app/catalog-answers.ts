/**
 * Answers questions of svc's own commands about what the servers of a scope offer. The answers include what svc hides from
 * clients, because the person at the shell is the operator.
 */
import type { BackendSnapshot, ListedFacts } from "../agent/snapshot.ts"
import type { Backend } from "../backend/backend.ts"
import { countEntries, viewOf } from "../catalog/catalog.ts"
import type { Listing, Tool } from "../catalog/listing.ts"
import { OWN, splitName } from "../catalog/name.ts"
import { type Scope, scopeIncludes } from "../catalog/scope.ts"
import type { FoundTool, Searchable } from "../catalog/tool-search.ts"
import { isCalled, slugOf } from "../config/server-spec.ts"
import { systemClock } from "../lib/clock.ts"
import { RequestError, UnavailableError } from "../lib/errors.ts"
import { nearest, unknownNameError } from "../lib/nearest.ts"
import { type OfferedTool, offeredTools } from "../report/offered-tools.ts"
import { type ServerState, stateOf } from "../report/server-state.ts"
import type { ProxyServerDeps } from "../serve/proxy-server.ts"
import { aggregateInstructionsFor } from "../session/server-capabilities.ts"
import type { Params } from "../wire/message.ts"
import { findBackends } from "./control-handlers.ts"
import type { Runtime } from "./runtime.ts"

/** A tool that a search has found. */
export type RankedTool = OfferedTool & Pick<FoundTool, "score" | "matched">

/** What a server offers, in numbers, which are absent while it is not connected. */
export type OfferSummary = {
  readonly server: string
  readonly state: ServerState
  readonly counts?:
    | Pick<ListedFacts, "tools" | "hiddenTools" | "prompts" | "resources" | "resourceTemplates">
    | undefined
}

/** All that a connected server offers. */
export type ServerOffer = OfferSummary & {
  readonly tools: readonly OfferedTool[]
} & Pick<Listing, "serverInfo" | "protocolVersion" | "instructions" | "prompts" | "resources" | "resourceTemplates">

/** The answer to a search: the best tools first, and how much was searched. */
export type SearchAnswer = { readonly hits: readonly RankedTool[]; readonly tools: number; readonly servers: number }

/** Returns the function that answers the questions of commands. */
export const createCatalogAnswers =
  (runtime: Runtime): ProxyServerDeps["answer"] =>
  async (scope, question, params) => {
    switch (question) {
      case "servers":
        return summaries(runtime, scope)
      case "target":
        return describeTarget(runtime, scope, String(params.name))
      case "search":
        return searchOffers(runtime, scope, params)
      case "instructions":
        return instructionsOf(runtime, scope, params.server)
      default:
        throw new RequestError("unknown_method", `this svc does not know ${question}; restart it after an update`)
    }
  }

// ---

/** A server of the scope whose listing is known. */
type Connected = { readonly backend: Backend; readonly listing: Listing }

const backendsOf = ({ agent }: Runtime, scope: Scope): readonly Backend[] =>
  agent.all().filter(({ spec }) => scopeIncludes(scope, spec))

const ownEntries = ({ toolEntries }: Runtime, scope: Scope): readonly string[] =>
  scope.kind === "aggregate" && !scope.restricted ? toolEntries() : []

function summaries(runtime: Runtime, scope: Scope): readonly OfferSummary[] {
  const own = ownOffer(runtime, scope)
  const backends = runtime.agent.snapshot().backends.filter(({ spec }) => scopeIncludes(scope, spec))
  const ofOwn = own === undefined ? [] : [{ server: own.server, state: own.state, counts: own.counts }]
  const { parts } = viewOf(runtime.agent.catalog, scope)
  const shaped = new Map(parts.flatMap((part) => (part.isShaped ? [[part.spec.id, part] as const] : [])))
  return [
    ...backends.map((backend) => {
      const part = shaped.get(backend.spec.id)
      return part === undefined ? summaryOf(backend) : { ...summaryOf(backend), counts: countEntries(part) }
    }),
    ...ofOwn,
  ]
}

function summaryOf(backend: BackendSnapshot): OfferSummary {
  const { spec, listed } = backend
  const summary = { server: spec.name, state: stateOf(backend, systemClock.now()) }
  if (listed === undefined) return summary
  const { tools, hiddenTools, prompts, resources, resourceTemplates } = listed
  return { ...summary, counts: { tools, hiddenTools, prompts, resources, resourceTemplates } }
}

/**
 * Resolves a name: of a server, or of a tool as `server/tool` or as its name in the aggregate. Throws a typed error with the
 * most similar names if there is none.
 */
async function describeTarget(
  runtime: Runtime,
  scope: Scope,
  name: string,
): Promise<{ readonly server: ServerOffer } | { readonly tool: OfferedTool }> {
  const found = await findTarget(runtime, scope, name)
  const offer =
    found.backend === undefined
      ? ownOffer(runtime, scope)
      : offerOf(runtime, await connected(runtime, found.backend, scope), scope)
  if (offer === undefined) throw new UnavailableError("svc no longer offers its own tools")
  if (found.tool === undefined) return { server: offer }
  const tool = offer.tools.find((one) => one.name === found.tool && one.definition !== undefined)
  if (tool !== undefined) return { tool }
  const near = await similarTools(runtime, scope, found.backend, found.tool)
  const hint = near.length === 0 ? "" : `; did you mean ${near.join(" or ")}?`
  throw new RequestError(
    "not_found",
    `${offer.server} has no tool named ${found.tool}${hint || `; \`svc inspect ${offer.server}\` lists its tools`}`,
  )
}

type Target = { readonly backend: Backend | undefined; readonly tool: string | undefined }

async function findTarget(runtime: Runtime, scope: Scope, name: string): Promise<Target> {
  const backends = backendsOf(runtime, scope)
  const byName = (server: string) => backends.find(({ spec }) => isCalled(spec, server))
  const whole = byName(name)
  if (whole !== undefined) return { backend: whole, tool: undefined }
  const view = viewOf(runtime.agent.catalog, scope)
  const route = view.tools.get(name)
  if (route !== undefined) return { backend: runtime.agent.backend(route.id), tool: route.name }
  for (let at = name.indexOf("/"); at >= 0; at = name.indexOf("/", at + 1)) {
    const backend = byName(name.slice(0, at))
    if (backend !== undefined) return { backend, tool: name.slice(at + 1) }
  }
  const split = splitName(name)
  const ofSplit = split && byName(split.slug)
  if (ofSplit !== undefined) return { backend: ofSplit, tool: split?.name }
  const own = ownOffer(runtime, scope)
  if (own !== undefined && name === OWN) return { backend: undefined, tool: undefined }
  if (own !== undefined && name.startsWith(`${OWN}/`)) return { backend: undefined, tool: name.slice(OWN.length + 1) }
  if (own?.tools.some((one) => one.name === name) === true) return { backend: undefined, tool: name }
  return refuseTarget(runtime, scope, name, split?.slug ?? name.split("/", 1)[0] ?? name)
}

/** Throws the error for a name that no server of the scope has. */
async function refuseTarget(runtime: Runtime, scope: Scope, name: string, server: string): Promise<never> {
  if (runtime.agent.find(server).length > 0)
    throw new RequestError(
      "not_found",
      `${server} is not among the servers of this project and preset; see its .svcrc, and --preset`,
    )
  // The name may be a tool's own name.
  const similar = name === server ? await similarTools(runtime, scope, undefined, name) : []
  const same = similar.filter((one) => one.endsWith(`/${name}`))
  if (same.length > 0)
    throw new RequestError("not_found", `no server is named ${name}; the tool is ${same.join(" or ")}`)
  const servers = runtime.agent.all().map(({ spec }) => spec.name)
  if (similar.length > 0 && nearest(name, servers) === undefined)
    throw new RequestError("not_found", `no server is named ${name}; did you mean the tool ${similar.join(" or ")}?`)
  findBackends(runtime, server)
  throw unknownNameError("server", server, servers)
}

/**
 * Returns the listing of a server; first waits for a connection that is about to open. Throws an UnavailableError with the
 * reason if there is none.
 */
async function connected({ agent, mcp: { gateway } }: Runtime, backend: Backend, scope: Scope): Promise<Connected> {
  const { id, name } = backend.spec
  if (backend.listing === undefined) await gateway.directory.whenBack(id)
  const { listing } = agent.backend(id) ?? {}
  const part = viewOf(agent.catalog, scope).parts.find(({ spec }) => spec.id === id)
  if (listing !== undefined) return { backend, listing: part?.isShaped ? part.listing : listing }
  throw new UnavailableError(`${name} ${gateway.directory.target(id)}`)
}

function offerOf({ agent }: Runtime, { backend, listing }: Connected, scope: Scope): ServerOffer {
  const { nameOf, parts } = viewOf(agent.catalog, scope)
  const part = parts.find((one) => one.spec.id === backend.spec.id)
  const { spec } = backend
  const { serverInfo, protocolVersion, instructions, prompts, resources, resourceTemplates } = listing
  const tools = offeredTools(
    spec,
    listing,
    (tool) => agent.isQuarantined(backend, tool),
    (tool) => nameOf(spec, tool),
  )
  const snapshot = agent.snapshot().backends.find((one) => one.spec.id === spec.id)
  return {
    ...(snapshot === undefined ? { server: spec.name, state: "connected" } : summaryOf(snapshot)),
    ...(part?.isShaped ? { counts: countEntries(part) } : {}),
    serverInfo,
    protocolVersion,
    instructions,
    tools,
    prompts,
    resources,
    resourceTemplates,
  }
}

/** Returns svc's own tools as an offer; undefined if the scope does not include them. */
function ownOffer(runtime: Runtime, scope: Scope): ServerOffer | undefined {
  const definitions = ownEntries(runtime, scope).map((entry) => JSON.parse(entry) as Tool)
  if (definitions.length === 0) return undefined
  return {
    server: OWN,
    state: "connected",
    counts: { tools: definitions.length, hiddenTools: 0, prompts: 0, resources: 0, resourceTemplates: 0 },
    serverInfo: { name: OWN },
    protocolVersion: "",
    instructions: undefined,
    tools: definitions.map((definition) => ownTool(definition)),
    prompts: [],
    resources: [],
    resourceTemplates: [],
  }
}

const ownTool = (definition: Tool): OfferedTool => ({
  server: OWN,
  name: definition.name,
  qualifiedName: definition.name,
  description: definition.description,
  disabled: false,
  definition,
})

const searchableOf = (runtime: Runtime, scope: Scope): Searchable => ({
  catalog: runtime.agent.catalog,
  view: viewOf(runtime.agent.catalog, scope),
  own: ownEntries(runtime, scope),
})

/** Returns the tools with the most similar names, as `server/tool`; only tools of `backend` if it has any. */
async function similarTools(
  runtime: Runtime,
  scope: Scope,
  backend: Backend | undefined,
  name: string,
): Promise<readonly string[]> {
  const finder = await runtime.toolFinder()
  const searchable = searchableOf(runtime, scope)
  const wanted = (backend === undefined ? name : searchable.view.nameOf(backend.spec, name)).slice(0, MAX_NAME)
  const similar = finder.similar(searchable, wanted, SIMILAR).map((one) => {
    const route = searchable.view.tools.get(one)
    return { id: route?.id, name: `${runtime.agent.backend(route?.id ?? "")?.spec.name ?? OWN}/${route?.name ?? one}` }
  })
  const own = similar.filter(({ id }) => backend !== undefined && id === backend.spec.id)
  return (own.length > 0 ? own : similar).map((one) => one.name)
}

async function searchOffers(runtime: Runtime, scope: Scope, params: Params): Promise<SearchAnswer> {
  const { query, limit, server } = params
  const finder = await runtime.toolFinder()
  const searchable = searchableOf(runtime, scope)
  const { view, own } = searchable
  const wanted = typeof server === "string" ? slugOf(server) : undefined
  const parts = view.parts.filter(({ spec }) => wanted === undefined || spec.slug === wanted)
  if (wanted !== undefined && wanted !== OWN && parts.length === 0) {
    const { backend } = await findTarget(runtime, scope, String(server))
    if (backend !== undefined) await connected(runtime, backend, scope)
  }
  const most = Math.min(Math.max(1, Number(limit) || 1), MAX_HITS)
  const found = finder.find(searchable, String(query), most, wanted === undefined ? undefined : [wanted])
  const hits = found.flatMap(({ tool, score, matched }): readonly RankedTool[] => {
    const route = view.tools.get(tool.name)
    const spec = route && runtime.agent.backend(route.id)?.spec
    if (route === undefined || spec === undefined) return [{ ...ownTool(tool), score, matched }]
    return [
      {
        server: spec.name,
        name: route.name,
        qualifiedName: tool.name,
        description: tool.description,
        disabled: false,
        definition: { ...tool, name: route.name },
        score,
        matched,
      },
    ]
  })
  const withOwn = own.length > 0 && (wanted === undefined || wanted === OWN)
  return {
    hits,
    tools: parts.reduce((sum, part) => sum + part.qualified.tools.size, 0) + (withOwn ? own.length : 0),
    servers: parts.length + (withOwn ? 1 : 0),
  }
}

/** Returns the instructions of a server, or the aggregated instructions that clients of the scope receive. */
async function instructionsOf(runtime: Runtime, scope: Scope, server: unknown): Promise<Params> {
  if (typeof server !== "string")
    return {
      instructions: aggregateInstructionsFor(scope, viewOf(runtime.agent.catalog, scope), runtime.mcp.gateway) ?? "",
    }
  const found = await findTarget(runtime, scope, server)
  if (found.backend === undefined || found.tool !== undefined)
    throw new RequestError(
      "not_found",
      `${server} is ${found.tool === undefined ? "svc itself" : "a tool"}, not a server; omit the name to see the instructions that clients receive`,
    )
  const { listing } = await connected(runtime, found.backend, scope)
  return { server: found.backend.spec.name, instructions: listing.instructions ?? "" }
}

const MAX_HITS = 500
const SIMILAR = 3
const MAX_NAME = 200
