/** Endpoints for the offer of servers: tools, resources, prompts, templates with their instances, and the search over tools. */
import * as z from "zod"
import { viewOf } from "../../catalog/catalog.ts"
import { qualify, qualifyUri } from "../../catalog/name.ts"
import { type Edit, setToolDescription, setToolDisabled } from "../../config/edit.ts"
import { isCalled } from "../../config/server-spec.ts"
import { type Clock, delay } from "../../lib/clock.ts"
import { RequestError, statusOfFault, UnavailableError } from "../../lib/errors.ts"
import { compact, parseExact } from "../../lib/json.ts"
import { unknownNameError } from "../../lib/nearest.ts"
import { version } from "../../lib/version.ts"
import { type OfferedTool, offeredTools } from "../../report/offered-tools.ts"
import { worstOf } from "../../report/status.ts"
import { errorResponse } from "../../serve/respond.ts"
import { type InvocationCaller, type InvocationOutcome, invoke } from "../../serve/tool-invocation.ts"
import { decode } from "../../wire/frame.ts"
import { isObject, type Params } from "../../wire/message.ts"
import { reloadReport, reloadSchema } from "../tools/apply-change.ts"
import { resolveServerName, validateChange, writtenServer } from "../tools/plan-change.ts"
import { defineEndpoint, type Endpoint, type EndpointCall, type RestPorts } from "./endpoint.ts"
import { PAGE_QUERY, pageBy, pageSchema } from "./page.ts"
import { describeAll } from "./servers.ts"
import { serverInstanceSchema, toolSchema } from "./shapes.ts"
import { requireTools } from "./zero-tools.ts"

/** The endpoint that calls a tool. */
export const CALL_PATH = "/tools/{name}/call"

const offered = toolSchema.required({ server: true, qualifiedName: true })
const entry = z.looseObject({ server: z.string() })

const TOKENS = z.stringbool().default(false).describe("Whether to count tokens, as `svc tokens` does")

const tools = defineEndpoint({
  method: "GET",
  path: "/tools",
  summary: "List the tools of the servers, including hidden tools",
  description:
    "Without definitions, which `/tools/{name}` shows. For a template, the list contains the tools of its first instance.",
  query: z.strictObject({
    server: z.string().optional(),
    tag: z.string().optional().describe("Only tools of servers with this tag"),
    q: z.string().optional().describe("Only tools with this text in their name or description"),
    tokens: TOKENS,
    disabled: z.stringbool().optional().describe("Only hidden tools, or only tools that clients see"),
    ...PAGE_QUERY,
  }),
  answer: pageSchema(offered),
  faults: [],
  async run({ ports, query }) {
    const { server, tag, q = "", disabled } = query
    const counted = query.tokens ? await ports.countTokens() : new Map<string, number>()
    const text = q.toLowerCase()
    const found = offeredBy(ports, (spec) => (server === undefined || isCalled(spec, server)) && hasTag(spec, tag))
      .filter((tool) => disabled === undefined || tool.disabled === disabled)
      .filter(({ name, description }) => `${name} ${description ?? ""}`.toLowerCase().includes(text))
    const page = pageBy(found, ({ server, name }) => `${server} ${name}`, query)
    return {
      ...page,
      items: page.items.map(shownTool).map(({ definition: _, ...tool }) => ({
        ...tool,
        ...compact({ tokens: counted.get(tool.qualifiedName) }),
      })),
    }
  },
})

const tool = defineEndpoint({
  method: "GET",
  path: "/tools/{name}",
  summary: "Show a tool with its definition",
  description: "`name` is the tool's name in the aggregate.",
  query: z.strictObject({ tokens: TOKENS }),
  answer: offered,
  faults: ["not_found"],
  async run({ ports, params, query }) {
    const found = findTool(ports, params.name ?? "")
    const counted = query.tokens ? (await ports.countTokens()).get(found.qualifiedName) : undefined
    return { ...found, ...compact({ tokens: counted }) }
  },
})

const change = z.strictObject({
  server: z.string(),
  tool: z.string().describe("The server's own name of the tool"),
  disabled: z.boolean().optional().describe("true hides the tool, false shows it"),
  description: z.string().nullable().optional().describe("The text that clients see; null restores the server's own"),
})

const edit = defineEndpoint({
  method: "PATCH",
  path: "/tools",
  summary: "Hide or show tools, and replace their descriptions",
  description:
    "svc writes all changes or none. A change that leaves a server without an enabled tool requires confirmZeroTools.",
  body: z.strictObject({
    changes: z.array(change).min(1).max(5000),
    confirmZeroTools: z.boolean().default(false),
  }),
  answer: z.strictObject({ changed: z.boolean(), reload: reloadSchema, warnings: z.array(z.string()) }),
  faults: ["not_found", "conflict"],
  async run({ ports, body }) {
    const { editor } = ports
    const whole: Edit = (text) => body.changes.reduce((changed, one) => editOf(changed, one)(changed), text)
    const before = editor.read().config
    const after = await changedInTurns(before, body.changes, ports.clock)
    let warnings: readonly string[] = []
    let isChanged = false
    const { done, reloaded } = await editor.change((written) => {
      const next = { ...written, config: written.config === before ? after : whole(written.config) }
      const names = new Set(body.changes.map(({ server }) => resolveServerName(written.config, server)))
      const servers = [...names].map((name) => [name, writtenServer(next.config, name)] as const)
      requireTools(ports, servers, body.confirmZeroTools)
      warnings = validateChange(ports, written, next)
      isChanged = next.config !== written.config
      return next
    })
    done.keep()
    return { changed: isChanged, reload: reloadReport(reloaded), warnings }
  },
})

const call = defineEndpoint({
  method: "POST",
  path: CALL_PATH,
  summary: "Call a tool",
  description:
    "If the tool fails, the answer is 200 with `isError` in `result`. With `asks`, the tool may ask a person: `/events` has the question, and `POST /questions/{id}` answers it.",
  body: z.strictObject({
    arguments: z.record(z.string(), z.unknown()).default({}),
    asks: z.string().min(1).max(100).optional().describe("A text of the caller, which its questions repeat"),
  }),
  answer: z.strictObject({ result: z.looseObject({}).describe("CallToolResult"), ms: z.number() }),
  faults: ["not_found", "too_many"],
  run(call) {
    const { arguments: args, asks } = call.body
    const { questions } = call.ports
    return askServer(
      call,
      "tools/call",
      { name: call.params.name ?? "", arguments: args },
      asks === undefined ? undefined : (method, params, signal) => questions.ask(asks, method, params, signal),
    )
  },
})

const answerQuestion = defineEndpoint({
  method: "POST",
  path: "/questions/{id}",
  summary: "Answer a question of a tool",
  body: z.strictObject({
    action: z.enum(["accept", "decline", "cancel"]),
    content: z.record(z.string(), z.unknown()).optional().describe("What the form of the question asks for"),
  }),
  private: true,
  answer: z.strictObject({ answered: z.string() }),
  faults: ["not_found"],
  run({ ports, params, body }) {
    const id = params.id ?? ""
    ports.questions.answer(id, body)
    return { answered: id }
  },
})

const answered = z.strictObject({ result: z.looseObject({}), ms: z.number() })

const getPrompt = defineEndpoint({
  method: "POST",
  path: "/prompts/get",
  summary: "Get the messages of a prompt",
  body: z.strictObject({
    server: z.string(),
    name: z.string().describe("The server's own name of the prompt"),
    arguments: z.record(z.string(), z.string()).default({}),
  }),
  answer: answered,
  faults: ["invalid_params", "not_found", "too_many"],
  run: (call) => {
    const { server, name, arguments: args } = call.body
    return askServer(call, "prompts/get", { name: qualify(slugFor(call.ports, server), name), arguments: args })
  },
})

const readResource = defineEndpoint({
  method: "POST",
  path: "/resources/read",
  summary: "Read a resource",
  body: z.strictObject({ server: z.string(), uri: z.string().describe("The server's own URI of the resource") }),
  answer: answered,
  faults: ["invalid_params", "not_found", "too_many"],
  run: (call) => {
    const { server, uri } = call.body
    return askServer(call, "resources/read", { uri: qualifyUri(slugFor(call.ports, server), uri) })
  },
})

/** Returns the slug of a running server. Throws a RequestError (not_found). */
function slugFor(ports: RestPorts, server: string): string {
  const [found] = ports.agent.find(server)
  if (found !== undefined) return found.spec.slug
  throw unknownNameError(
    "server",
    server.slice(0, MAX_NAME),
    describeAll(ports).map(({ name }) => name),
  )
}

/** Sends a request to a server, and returns its result with the time that it took. */
async function askServer(
  { ports, request, principal }: SentBy,
  method: string,
  params: Params,
  ask?: InvocationCaller["ask"],
) {
  const started = ports.clock.now()
  const isPage = ports.login.admit(request)?.kind === "browser"
  const info = { name: isPage ? "svc admin page" : "svc REST", version }
  const caller = { scope: ports.scopeOf(""), principal: principal.name, info, signal: request.signal, ask }
  const outcome = await invoke(method, params, caller, ports.gateway)
  if (outcome.kind !== "result") return invocationProblem(outcome)
  const result = parseExact(decode(outcome.result))
  return { result: isObject(result) ? result : {}, ms: ports.clock.now() - started }
}

const search = defineEndpoint({
  method: "GET",
  path: "/search",
  summary: "Search the tools, best match first, with scores and the parts that matched",
  query: z.strictObject({
    q: z.string().min(1),
    server: z.string().optional(),
    limit: z.coerce.number().int().min(1).max(200).default(20),
  }),
  answer: z.strictObject({ items: z.array(offered) }),
  faults: [],
  async run({ ports, query }) {
    const { agent, toolFinder } = ports
    const view = viewOf(agent.catalog, ports.scopeOf(""))
    const slugs = query.server === undefined ? undefined : agent.find(query.server).map(({ spec }) => spec.slug)
    const finder = await toolFinder()
    const found = finder.find({ catalog: agent.catalog, view, own: [] }, query.q, query.limit, slugs)
    const wanted = new Set(found.flatMap(({ tool }) => view.tools.get(tool.name)?.id ?? []))
    const byName = new Map(offeredBy(ports, ({ id }) => wanted.has(id)).map((one) => [one.qualifiedName, one]))
    return {
      items: found.flatMap(({ tool: { name }, score, matched }) => {
        const route = view.tools.get(name)
        const one = route && byName.get(qualify(route.slug, route.name))
        return one === undefined ? [] : [{ ...shownTool(one), score, matched: [...matched] }]
      }),
    }
  },
})

const listed = (
  path: string,
  key: "resources" | "prompts" | "resourceTemplates",
  id: "uri" | "name" | "uriTemplate",
): Endpoint =>
  defineEndpoint({
    method: "GET",
    path,
    summary: `List the ${path.slice(1).replace("-", " ")} of the connected servers, as the servers name them`,
    query: z.strictObject({ server: z.string().optional(), ...PAGE_QUERY }),
    answer: pageSchema(entry),
    faults: [],
    run({ ports, query }) {
      const all = ports.agent.all().flatMap(({ spec, listing }) =>
        query.server === undefined || isCalled(spec, query.server)
          ? (listing?.[key] ?? []).map((one, at) => ({
              at,
              id: spec.id,
              entry: { ...one, server: spec.id },
            }))
          : [],
      )
      // Servers may list the same name twice.
      const page = pageBy(
        all,
        (one) => `${one.id} ${String((one.entry as Record<string, unknown>)[id])} ${one.at}`,
        query,
      )
      return { ...page, items: page.items.map((one) => one.entry) }
    },
  })

const templates = defineEndpoint({
  method: "GET",
  path: "/templates",
  summary: "List the templates with their running instances",
  query: z.strictObject(PAGE_QUERY),
  answer: pageSchema(
    z.strictObject({
      name: z.string(),
      state: z.string(),
      enabled: z.boolean(),
      tags: z.array(z.string()),
      instances: z.array(serverInstanceSchema),
    }),
  ),
  faults: [],
  run({ ports, query }) {
    const all = describeAll(ports).flatMap(({ name, state, enabled, tags, template, instances }) =>
      template ? [{ name, state: worstOf(instances)?.state ?? state, enabled, tags, instances }] : [],
    )
    return pageBy(all, ({ name }) => name, query)
  },
})

export const OFFER_ENDPOINTS: readonly Endpoint[] = [
  tools,
  edit,
  tool,
  call,
  answerQuestion,
  search,
  listed("/resources", "resources", "uri"),
  listed("/resource-templates", "resourceTemplates", "uriTemplate"),
  listed("/prompts", "prompts", "name"),
  getPrompt,
  readResource,
  templates,
]

// ---

type SentBy = Pick<EndpointCall, "ports" | "request" | "principal">

type Spec = ReturnType<RestPorts["agent"]["all"]>[number]["spec"]

const hasTag = ({ tuning }: Spec, tag: string | undefined): boolean => tag === undefined || tuning.tags.includes(tag)

/** Returns the tools of the servers that `selects` accepts; for a template, the tools of its first connected instance. */
function offeredBy({ agent }: RestPorts, selects: (spec: Spec) => boolean) {
  const chosen = agent.all().filter(({ spec }) => selects(spec))
  return [...Map.groupBy(chosen, ({ spec }) => spec.name).values()].flatMap((instances) => {
    const backend = instances.find(({ listing }) => listing !== undefined) ?? instances[0]
    if (backend === undefined) return []
    const { spec, listing } = backend
    return offeredTools(spec, listing, (name) => agent.isQuarantined(backend, name))
  })
}

/** Returns a tool in the shape of the schema, with the number of characters of its definition. */
function shownTool({ description, upstreamDescription, overrides, definition, ...tool }: OfferedTool) {
  return {
    ...tool,
    ...(typeof description === "string" ? { description } : {}),
    ...(typeof upstreamDescription === "string" ? { upstreamDescription } : {}),
    ...(overrides === undefined ? {} : { overrides: { ...overrides } }),
    ...(definition === undefined ? {} : { definition, characters: JSON.stringify(definition).length }),
  }
}

function findTool(ports: RestPorts, name: string) {
  const all = offeredBy(ports, () => true)
  const found = all.find(({ qualifiedName }) => qualifiedName === name)
  if (found !== undefined) return shownTool(found)
  const names = all.map(({ qualifiedName }) => qualifiedName)
  throw unknownNameError("tool", name.slice(0, MAX_NAME), names)
}

const MAX_NAME = 200

function invocationProblem({ message, status, retryAfter }: InvocationOutcome & { readonly kind: "error" }): Response {
  const fault = CALLER_FAULTS.find((one) => statusOfFault(one) === status)
  const text = String(message)
  const error = fault === undefined ? new UnavailableError(text) : new RequestError(fault, text)
  return errorResponse(error, { shape: "problem", status, retryAfter })
}

const CALLER_FAULTS = ["not_found", "invalid_params", "too_many"] as const

/** The most changes in one turn: each parses the text. */
const CHANGES_PER_TURN = 8

/** Returns a text with changes of tools; other requests are served meanwhile. */
async function changedInTurns(
  text: string,
  changes: readonly z.output<typeof change>[],
  clock: Clock,
): Promise<string> {
  let changed = text
  for (const [at, one] of changes.entries()) {
    changed = editOf(changed, one)(changed)
    if (at % CHANGES_PER_TURN === CHANGES_PER_TURN - 1) await delay(clock, 0)
  }
  return changed
}

function editOf(text: string, { server, tool, disabled, description }: z.output<typeof change>): Edit {
  const name = resolveServerName(text, server)
  return (before) => {
    const shown = disabled === undefined ? before : setToolDisabled(name, tool, disabled)(before)
    return description === undefined ? shown : setToolDescription(name, tool, description ?? undefined)(shown)
  }
}
