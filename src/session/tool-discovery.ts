/**
 * Answers the tools of a lazy view that search and describe, and explains what went wrong with a call through it. Loaded by
 * the first such call. choice: Views.
 *
 *  1. An answer is text alone: many clients show a model structured content too, which would double the tokens.
 *  2. Texts of servers stand on one line and bounded, so that they cannot pass for svc's own lines.
 *  3. Nothing names a tool, a server or a number that the client's view does not have.
 */
import { hidesTool, type View } from "../catalog/catalog.ts"
import { isWrapper } from "../catalog/lazy-tools.ts"
import type { Tool } from "../catalog/listing.ts"
import { pageOf } from "../catalog/pagination.ts"
import { firstSentence, oneLine, signatureOf, tokensIn } from "../catalog/signature.ts"
import {
  type FoundTool,
  findTool,
  type Searchable,
  type ServerTools,
  serversOf,
  type ToolFinder,
} from "../catalog/tool-finder.ts"
import { matchesPattern } from "../catalog/tool-settings.ts"
import { slugOf } from "../config/plan.ts"
import { RequestError, RPC_CODE } from "../lib/errors.ts"
import { numberOf, parseExact } from "../lib/json.ts"
import { nearest } from "../lib/nearest.ts"
import type { Toolbox } from "../tools/toolbox.ts"
import { textOf } from "../wire/frame.ts"
import { asText, isObject, type Params } from "../wire/message.ts"
import { type Answer, resultAnswer } from "./answer.ts"
import { nameAmong, nameOfTool, objectOf } from "./lazy-call.ts"
import type { ClientCall } from "./ports.ts"
import { disabledTool } from "./relay.ts"

/** Answers a call of a tool that searches or describes, or of a wrapper that names no tool. */
export async function answerLazyTool(call: ClientCall, view: View, toolbox: Toolbox | undefined): Promise<Answer> {
  const { params = {} } = call.request
  const args = objectOf(params.arguments) ?? {}
  const searchable = searchableOf(call, view, toolbox)
  switch (params.name) {
    case "search_tools":
      return textAnswer(call, await searchTools(call, searchable, args))
    case "describe_tool":
    case "get_tool_details":
      return textAnswer(call, await describeTools(call, searchable, namesIn(args)))
    case "tool_list":
      return textAnswer(call, { text: JSON.stringify(listTools(searchable, args)) })
    case "tool_schema": {
      const name = nameAmong(args)
      return textAnswer(
        call,
        await describeTools(call, searchable, name === undefined ? [] : [nameHere(name, args, view)]),
      )
    }
    default:
      return textAnswer(call, wrapperProblem(asText(params.name)))
  }
}

/** Answers a call by an unknown name with the most similar ones. Throws a RequestError unless the name came in a wrapper. */
export async function answerUnknownTool(call: ClientCall, view: View, toolbox: Toolbox | undefined): Promise<Answer> {
  const name = asText(call.request.params?.name)
  const problem = await unknownTool(call, searchableOf(call, view, toolbox), name)
  if (call.wrapper === undefined) throw new RequestError("invalid_params", problem)
  return textAnswer(call, { text: problem, isError: true })
}

/** Returns the refusal of a call through `call_read_tool` to a tool that is not annotated read-only; undefined if it is. */
export function refuseWrites(call: ClientCall, view: View, toolbox: Toolbox | undefined): Answer | undefined {
  const name = asText(call.request.params?.name)
  const tool = findTool(searchableOf(call, view, toolbox), name)
  if (call.wrapper !== "call_read_tool" || tool === undefined || isReadOnly(tool)) return undefined
  return textAnswer(call, { text: `${name} is not marked read-only: run it with call_tool`, isError: true })
}

/**
 * Returns the answer of a call through a wrapper, with the tool's parameters if the call failed because of its arguments.
 * svc itself refuses no arguments: servers are more lenient than their schemas.
 */
export function explained(call: ClientCall, view: View, toolbox: Toolbox | undefined, answer: Answer): Answer {
  const { name, arguments: args } = call.request.params ?? {}
  if (call.wrapper === undefined || answer.outcome === "ok" || typeof name !== "string") return answer
  const tool = findTool(searchableOf(call, view, toolbox), name)
  if (tool === undefined) return answer
  const message: unknown = parseExact(textOf(answer.frame))
  if (!isObject(message)) return answer
  const { result, error } = message
  const isInvalid = isObject(error) && error.code === RPC_CODE.invalidParams
  if (!isInvalid && !(isObject(result) && (!fits(args, tool.inputSchema) || saysInvalid(result)))) return answer
  const hint = `Parameters of ${oneLine(name, 60)}: ${signatureOf(tool.inputSchema, SIGNATURE_TOKENS) || "none"}`
  const changed = isObject(error)
    ? { error: { ...error, message: `${asText(error.message)}. ${hint}` } }
    : { result: withText(isObject(result) ? result : {}, hint) }
  return { ...answer, outcome: answer.outcome, frame: JSON.stringify({ ...message, ...changed }) }
}

// ---

type Text = { readonly text: string; readonly isError?: true }

const HIT_TOKENS = 60
const HIT_CHARACTERS = 210
const DEFAULT_HITS = 8
const DEFAULT_LISTED = 50
const MAX_HITS = 500
const MAX_NAMES = 50
/** Servers that an answer without hits names. */
const MAX_SERVERS = 40
const SIGNATURE_TOKENS = 300
/** A server's instructions beside hits, and in an answer about that server alone. */
const INSTRUCTIONS_TOKENS = 60
const ALL_INSTRUCTIONS_TOKENS = 500
const SIMILAR = 3

const searchableOf = ({ gateway, client }: ClientCall, view: View, toolbox: Toolbox | undefined): Searchable => ({
  catalog: gateway.directory.catalogOf(client.session),
  view,
  own: toolbox?.entries ?? [],
})

function textAnswer({ request, client }: ClientCall, { text, isError }: Text): Answer {
  const result = {
    ...(client.era === "modern" ? { resultType: "complete" } : {}),
    content: [{ type: "text", text }],
    ...(isError ? { isError } : {}),
  }
  const answer = resultAnswer(request.id, JSON.stringify(result))
  return isError ? { ...answer, outcome: "tool_error" } : answer
}

// --- search_tools

type Detail = "name" | "summary" | "full"

async function searchTools(call: ClientCall, searchable: Searchable, args: Params): Promise<Text> {
  const query = typeof args.query === "string" ? args.query.trim() : ""
  const all = serversOf(searchable)
  const wanted = typeof args.server === "string" && args.server !== "" ? args.server : undefined
  const servers = wanted === undefined ? all : all.filter(({ server }) => isNamed(server, wanted))
  const detail = args.detail === "name" || args.detail === "full" ? args.detail : "summary"
  if (wanted !== undefined && servers.length === 0) {
    const near = nearest(
      wanted,
      all.map(({ server }) => server),
    )
    const hint = near === undefined ? "" : `; did you mean ${near}?`
    return { text: `No server is named ${oneLine(wanted, 20)}${hint} ${overview(call, all)}`, isError: true }
  }
  if (query === "")
    return wanted === undefined ? { text: overview(call, all) } : { text: listed(servers, args, detail) }
  const limit = limitOf(args.limit, DEFAULT_HITS)
  const finder = await call.gateway.toolFinder()
  const names = wanted === undefined ? undefined : servers.map(({ server }) => server)
  const found = finder.find(searchable, query, limit, names)
  if (found.length === 0) return { text: nothingFound(call, query, servers, all) }
  const budget = names === undefined ? INSTRUCTIONS_TOKENS : ALL_INSTRUCTIONS_TOKENS
  return { text: grouped(found, servers, detail, budget) }
}

/** Writes hits by server, in the order of each server's best hit. */
function grouped(found: readonly FoundTool[], servers: readonly ServerTools[], detail: Detail, budget: number): string {
  const groups = Map.groupBy(found, ({ server }) => server)
  return [...groups]
    .map(([server, hits]) => {
      const instructions = servers.find((one) => one.server === server)?.instructions
      return [heading(server, instructions, budget), ...hits.map(({ tool }) => lineOf(tool, detail))].join("\n")
    })
    .join("\n")
}

const heading = (server: string, instructions: string | undefined, budget: number): string =>
  instructions === undefined ? `# ${server}` : `# ${server}: ${oneLine(instructions, budget)}`

/** Lists the tools of a server in its own order. */
function listed(servers: readonly ServerTools[], args: Params, detail: Detail): string {
  const limit = limitOf(args.limit, DEFAULT_LISTED)
  return servers
    .map((server) => {
      const tools = server.tools()
      const more = tools.length - limit
      return [
        heading(`${server.server} (${countOf(server.count)})`, server.instructions, ALL_INSTRUCTIONS_TOKENS),
        ...tools.slice(0, limit).map((tool) => lineOf(tool, detail)),
        ...(more > 0 ? [`${more} more: raise limit, or search with a query`] : []),
      ].join("\n")
    })
    .join("\n")
}

/** Says what was searched, which servers there are, and how to go on. */
function nothingFound(
  call: ClientCall,
  query: string,
  searched: readonly ServerTools[],
  all: readonly ServerTools[],
): string {
  const count = searched.reduce((sum, server) => sum + server.count, 0)
  const where =
    searched.length === all.length && all.length > 1
      ? `${searched.length} servers`
      : searched.map(({ server }) => server).join(", ")
  return `No tool matches "${oneLine(query, 40)}": searched names, descriptions and parameters of ${countOf(count)} of ${where}. Try other words. ${overview(call, all)}`
}

/** Names the servers with their numbers of tools, and how to list one. */
function overview({ gateway, client }: ClientCall, all: readonly ServerTools[]): string {
  const shown = all.slice(0, MAX_SERVERS).map(({ server, count }) => `${server} (${count})`)
  const more = all.length > MAX_SERVERS ? [`and ${all.length - MAX_SERVERS} more`] : []
  const down = gateway.directory.unavailable(client.scope).map(({ slug, state }) => `${slug} (${state})`)
  const missing = down.length === 0 ? "" : ` Not available now: ${down.slice(0, MAX_SERVERS).join(", ")}.`
  if (all.length === 0) return `No server offers tools.${missing}`
  const [first] = all
  return `Servers and their tools: ${[...shown, ...more].join(", ")}. List one: search_tools {"query":"","server":"${first?.server}"}.${missing}`
}

const countOf = (tools: number): string => (tools === 1 ? "1 tool" : `${tools} tools`)

/** Writes a tool on one line: in HIT_TOKENS and HIT_CHARACTERS, unless the whole definition is wanted. */
export function lineOf(tool: Tool, detail: Detail): string {
  if (detail === "full") return JSON.stringify(tool)
  const head = `- ${oneLine(tool.name, HIT_TOKENS)}`
  if (detail === "name") return head
  const mark = isReadOnly(tool) ? " [read-only]" : ""
  const room = HIT_TOKENS - tokensIn(head) - tokensIn(mark) - 3
  const description = typeof tool.description === "string" ? tool.description : asText(tool.title ?? "")
  // The parameters take two thirds at most, unless the description is short.
  const about = oneLine(firstSentence(description), Math.max(room, 0))
  const signature = signatureOf(tool.inputSchema, Math.max(Math.floor((room * 2) / 3), room - tokensIn(about)))
  const rest = room - tokensIn(signature)
  const text = rest < 3 ? "" : oneLine(firstSentence(description), rest)
  const start = `${head}(${signature})${mark}`
  const line = text === "" ? start : `${start}: ${text}`
  return line.length <= HIT_CHARACTERS ? line : `${line.slice(0, Math.max(start.length, HIT_CHARACTERS - 1))}…`
}

const isReadOnly = ({ annotations }: Tool): boolean => isObject(annotations) && annotations.readOnlyHint === true

const isNamed = (server: string, wanted: string): boolean =>
  server.toLowerCase() === slugOf(wanted.trim()).toLowerCase()

function limitOf(value: unknown, otherwise: number): number {
  const limit = Math.floor(typeof value === "string" ? Number(value) : (numberOf(value) ?? otherwise))
  return Number.isNaN(limit) ? otherwise : Math.min(Math.max(1, limit), MAX_HITS)
}

// --- describe_tool, tool_schema

async function describeTools(call: ClientCall, searchable: Searchable, names: readonly string[]): Promise<Text> {
  if (names.length === 0) return { text: 'names is missing: {"names": ["<tool>", …]}', isError: true }
  const lines: string[] = []
  let known = 0
  for (const name of names.slice(0, MAX_NAMES)) {
    const tool = findTool(searchable, name)
    if (tool !== undefined) known++
    lines.push(tool === undefined ? await unknownTool(call, searchable, name) : JSON.stringify(tool))
  }
  if (names.length > MAX_NAMES)
    lines.push(`${names.length - MAX_NAMES} names left out: one call takes at most ${MAX_NAMES}`)
  return { text: lines.join("\n"), ...(known === 0 ? { isError: true } : {}) }
}

async function unknownTool(call: ClientCall, searchable: Searchable, name: string): Promise<string> {
  if (hidesTool(searchable.view, name)) return disabledTool(name)
  const finder: ToolFinder = await call.gateway.toolFinder()
  const similar = finder.similar(searchable, name.slice(0, MAX_NAME), SIMILAR)
  const suggestion = similar.length === 0 ? "" : `. Did you mean ${similar.map((one) => oneLine(one, 60)).join(", ")}?`
  return `Unknown tool: ${name.slice(0, MAX_NAME)}${suggestion}`
}

const MAX_NAME = 200

function namesIn(args: Params): readonly string[] {
  const written = args.names ?? nameAmong(args)
  const names = typeof written === "string" && written.startsWith("[") ? listIn(written) : written
  return [names].flat().filter((name) => typeof name === "string" && name !== "") as string[]
}

function listIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const nameHere = (name: string, { server }: Params, { naming }: View): string =>
  naming === "plain" ? name : nameOfTool(name, server)

// --- tool_list

/** Returns a page of tools in the order of their servers. Throws a RequestError for an invalid cursor. */
function listTools(searchable: Searchable, args: Params): Params {
  const { server, pattern, tag, cursor } = args
  const servers = serversOf(searchable).filter(
    (one) =>
      (typeof server !== "string" || isNamed(one.server, server)) &&
      (typeof tag !== "string" || one.tags.includes(tag)),
  )
  const tools = servers.flatMap((one) =>
    one
      .tools()
      .filter(({ name }) => typeof pattern !== "string" || isMatch(name, pattern, one.server))
      .map((tool) => ({
        server: one.server,
        name: tool.name,
        description: oneLine(asText(tool.description ?? ""), HIT_TOKENS),
      })),
  )
  const { entries, nextCursor } = pageOf(
    tools.map((tool) => JSON.stringify(tool)),
    "tools/list",
    limitOf(args.limit, DEFAULT_LISTED),
    typeof cursor === "string" && cursor !== "" ? cursor : undefined,
  )
  return {
    tools: entries.map((entry) => JSON.parse(entry)),
    total: tools.length,
    ...(nextCursor === undefined ? {} : { nextCursor }),
  }
}

/** Whether a pattern matches a name in the view, or the server's own name for the tool. A pattern without * is a part of the name. */
function isMatch(name: string, written: string, server: string): boolean {
  const pattern = written.includes("*") ? written : `*${written}*`
  const prefix = nameOfTool("", server)
  return (
    matchesPattern(name, pattern) || (name.startsWith(prefix) && matchesPattern(name.slice(prefix.length), pattern))
  )
}

// --- wrappers

function wrapperProblem(name: string): Text {
  const example =
    isWrapper(name) && name === "tool_invoke"
      ? '{"server": "…", "toolName": "…", "args": {…}}'
      : '{"name": "<tool>", "arguments": {…}}'
  return { text: `${name} needs the name of a tool and its arguments as an object: ${example}`, isError: true }
}

function withText(result: Params, text: string): Params {
  const content = Array.isArray(result.content) ? result.content : []
  return { ...result, content: [...content, { type: "text", text }] }
}

/** Whether a tool's error speaks of invalid arguments. */
const saysInvalid = ({ content }: Params): boolean =>
  Array.isArray(content) &&
  content.some(
    (block: unknown) =>
      isObject(block) &&
      typeof block.text === "string" &&
      /\binvalid (?:argument|param|input)|\binput validation\b|\bvalidation error/i.test(block.text.slice(0, 2000)),
  )

/** Whether arguments fit a schema as far as a glance shows: no required one is missing, and none is unknown or of another type. */
function fits(args: unknown, schema: unknown): boolean {
  if (!isObject(args) || !isObject(schema)) return true
  const properties = isObject(schema.properties) ? schema.properties : {}
  const required = Array.isArray(schema.required) ? schema.required : []
  return (
    required.every((name) => typeof name !== "string" || Object.hasOwn(args, name)) &&
    Object.entries(args).every(([name, value]) => Object.hasOwn(properties, name) && isOfType(value, properties[name]))
  )
}

function isOfType(value: unknown, schema: unknown): boolean {
  switch (isObject(schema) ? schema.type : undefined) {
    case "string":
      return typeof value === "string"
    case "integer":
    case "number":
      return numberOf(value) !== undefined
    case "boolean":
      return typeof value === "boolean"
    case "array":
      return Array.isArray(value)
    case "object":
      return isObject(value)
    default:
      return true
  }
}
