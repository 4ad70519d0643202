/**
 * Answers calls of the tools of a lazy view that search and describe, and explains failed calls through it. Loaded for the first
 * such call. choice: Views.
 *
 *  1. An answer is only text: many clients also show structured content to the model, which would double the tokens.
 *  2. Texts of servers are limited to one line each, so that they cannot pass for lines of svc.
 *  3. No answer reveals a tool, a server or a count that the client's view does not have.
 *  4. An answer has at most ANSWER_CHARACTERS, and says what it leaves out. The work for it is also bounded.
 */

import { type Answer, resultAnswer } from "../../call/answer.ts"
import { parametersHint, withArgumentHint } from "../../call/argument-hint.ts"
import { offerNote, withSentence } from "../../call/failure-note.ts"
import { ownEntries } from "../../call/own-tools.ts"
import type { ClientCall } from "../../call/ports.ts"
import { type View, withheldIn } from "../../catalog/catalog.ts"
import type { Tool } from "../../catalog/listing.ts"
import { pageOf } from "../../catalog/pagination.ts"
import { type Detail, isReadOnly, jsonLine, lineOf, oneLine, signatureOf } from "../../catalog/signature.ts"
import type { FoundTool, Searchable } from "../../catalog/tool-search.ts"
import { matchesPattern } from "../../catalog/tool-settings.ts"
import { RequestError } from "../../lib/errors.ts"
import { numberOf, parseIfJson } from "../../lib/json.ts"
import { didYouMean } from "../../lib/nearest.ts"
import { counted, cutText } from "../../lib/text.ts"
import { notReadOnly, withheldTool } from "../../session/relay.ts"
import { asText, type Params } from "../../wire/message.ts"
import { nameAmong, nameBeside, objectOf, serverAmong, wrapperProblem } from "./lazy-call.ts"
import { isWrapper } from "./lazy-tools.ts"
import { findTool, type OpenFinder, type ServerTools, serverIn, serversOf } from "./tool-finder.ts"

/** Answers a call of a tool that searches or describes, or of a wrapper that contains no valid call. */
export async function answerLazyTool(call: ClientCall, view: View, open: OpenFinder): Promise<Answer> {
  const { params = {} } = call.request
  const args = objectOf(params.arguments) ?? {}
  const searchable = searchableOf(call, view)
  switch (params.name) {
    case "search_tools":
      return textAnswer(call, await searchTools(call, searchable, args, open))
    case "describe_tool":
    case "get_tool_details":
      return textAnswer(call, await describeTools(call, searchable, namesIn(args, searchable), open))
    case "tool_list":
      return textAnswer(call, { text: jsonLine(listTools(searchable, args)) })
    case "tool_schema": {
      const name = nameAmong(args)
      const whole = name === undefined ? undefined : nameBeside(name, args.server, view)
      if (typeof whole === "object") return textAnswer(call, { text: whole.problem, isError: true })
      return textAnswer(call, await describeTools(call, searchable, whole === undefined ? [] : [whole], open))
    }
    default:
      return textAnswer(call, refusedWrapper(call, searchable))
  }
}

/**
 * Answers a call of an unknown name with the most similar names. Throws a RequestError unless the call came through a
 * wrapper.
 */
export async function answerUnknownTool(call: ClientCall, view: View, open: OpenFinder): Promise<Answer> {
  const name = asText(call.request.params?.name)
  const unknown = await unknownTool(call, searchableOf(call, view), name, open)
  const { destination } = call
  const waitedFor = destination?.kind === "refused" ? destination.waitedFor : undefined
  const problem = waitedFor === undefined ? unknown : withSentence(unknown, offerNote("tools", view, waitedFor))
  if (call.wrapper === undefined) throw new RequestError("invalid_params", problem)
  return textAnswer(call, { text: problem, isError: true })
}

/**
 * Returns the refusal of a call through `call_read_tool` to a tool that svc does not know to be read-only; undefined if it is.
 * A server may also run names that it does not list, such as aliases and hidden tools: nobody knows what these do.
 */
export async function refuseWrites(call: ClientCall, view: View, open: OpenFinder): Promise<Answer | undefined> {
  if (call.wrapper !== "read-only") return undefined
  const name = asText(call.request.params?.name)
  const tool = findTool(searchableOf(call, view), name)
  if (tool !== undefined)
    return isReadOnly(tool) ? undefined : textAnswer(call, { text: notReadOnly(name), isError: true })
  if (view.unlisted("tools", name) === undefined) return answerUnknownTool(call, view, open)
  return textAnswer(call, { text: notListed(oneLine(cutText(name, MAX_NAME), MAX_NAME)), isError: true })
}

/** Returns the answer of a call through a wrapper, with the tool's parameters if the call failed because of its arguments. */
export function explained(call: ClientCall, view: View, answer: Answer): Answer {
  const { name, arguments: args } = call.request.params ?? {}
  if (call.wrapper === undefined || answer.outcome === "ok" || typeof name !== "string") return answer
  const tool = findTool(searchableOf(call, view), name)
  return tool === undefined ? answer : withArgumentHint(answer, tool, args)
}

// ---

const notListed = (name: string): string =>
  `the server does not list ${name}, so it may not be read-only: find a listed tool with search_tools, or run this one with call_tool`

type Text = { readonly text: string; readonly isError?: true }

/** An answer of about 10,000 tokens: clients cut or refuse larger ones. */
const ANSWER_CHARACTERS = 40_000
const DEFAULT_HITS = 8
const DEFAULT_LISTED = 50
const MAX_HITS = 500
const MAX_NAMES = 50
/** The most queries of one search, and their characters. */
const MAX_QUERIES = 1000
/** As much as the search reads. */
const MAX_QUERY = 8000
/** The least part of the best score that a hit needs if the client names no limit. */
const LEAST_SCORE = 0.3
/** The most names of servers in one search, and of tools that are compared in one description. */
const MAX_WANTED = 1000
/** The most unknown names of one call that get suggestions, which are expensive to find. */
const MAX_SUGGESTED = 5
/** Of more tools, only one unknown name of a call gets suggestions. */
const MANY_TOOLS = 2000
/** The most servers that an answer names. */
const MAX_SERVERS = 40
/** Limits for a tool that is too long for an answer. */
const LONG_SIGNATURE_TOKENS = 2_000
const LONG_DESCRIPTION_TOKENS = 500
/** Tokens of a server's instructions with hits, and in an answer about only that server. */
const INSTRUCTIONS_TOKENS = 60
const ALL_INSTRUCTIONS_TOKENS = 500
const LISTED_TOKENS = 60
const SIMILAR = 3

const searchableOf = ({ gateway, client }: ClientCall, view: View): Searchable => ({
  catalog: gateway.directory.catalogOf(client.session),
  view,
  own: ownEntries(client, view, gateway),
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

/** Returns the first lines that fit into an answer, at least one; `rest` returns a note about the others. */
function bounded(lines: readonly string[], rest: (left: number) => string): string {
  let length = 0
  const end = lines.findIndex((line) => {
    length += line.length + 1
    return length > ANSWER_CHARACTERS
  })
  if (end < 0) return lines.join("\n")
  const shown = lines.slice(0, Math.max(1, end))
  return [...shown, rest(lines.length - shown.length)].join("\n")
}

/** Returns the whole definition of a tool, or as much of it as fits into an answer. */
function definitionOf(tool: Tool): string {
  const whole = jsonLine(tool)
  if (whole.length <= ANSWER_CHARACTERS) return whole
  const { name, title, description, inputSchema, annotations } = tool
  const short = { name, title, description: oneLine(asText(description ?? ""), LONG_DESCRIPTION_TOKENS), annotations }
  const withSchema = jsonLine({ ...short, inputSchema })
  return withSchema.length <= ANSWER_CHARACTERS
    ? `${withSchema}\n(${whole.length} characters are too many for an answer: the description is cut, and the rest left out)`
    : `${jsonLine(short)}\nParameters: ${signatureOf(inputSchema, LONG_SIGNATURE_TOKENS)}\n(${whole.length} characters are too many for an answer: the schema is shortened)`
}

// --- search_tools

async function searchTools(call: ClientCall, searchable: Searchable, args: Params, open: OpenFinder): Promise<Text> {
  const query = queryIn(args)
  const all = serversOf(searchable)
  const wanted = [args.server].flat().filter((one): one is string => typeof one === "string" && one.trim() !== "")
  const isWanted = serverAmong(wanted.slice(0, MAX_WANTED))
  const servers = wanted.length === 0 ? all : all.filter(({ server }) => isWanted(server))
  const detail = args.detail === "name" || args.detail === "full" ? args.detail : "summary"
  if (servers.length === 0 && wanted.length > 0) {
    const [first = ""] = wanted
    const known = all.map(({ server }) => server)
    const problem = `No server is named ${oneLine(first, 20)}${didYouMean(first, known)}`
    return { text: `${problem}${problem.endsWith("?") ? "" : "."} ${overview(call, all)}`, isError: true }
  }
  if (query === "") return wanted.length === 0 ? { text: overview(call, all) } : { text: listed(servers, args, detail) }
  const limit = limitOf(args.limit, DEFAULT_HITS, MAX_HITS)
  const finder = await open()
  call.span?.event("svc.search")
  const names = wanted.length === 0 ? undefined : servers.map(({ server }) => server)
  const hits = finder.find(searchable, query, limit, names)
  const least = args.limit === undefined ? LEAST_SCORE * (hits[0]?.score ?? 0) : 0
  const found = hits.filter(({ score }) => score >= least)
  if (found.length === 0) return { text: nothingFound(call, query, servers, all) }
  const budget = servers.length > 1 || names === undefined ? INSTRUCTIONS_TOKENS : ALL_INSTRUCTIONS_TOKENS
  return { text: ranked(found, servers, detail, budget) }
}

function queryIn(args: Params): string {
  const query = [args.query, args.q, args.queries].find((value) => value !== undefined && value !== null)
  const words = [query].flat().filter((one): one is string => typeof one === "string")
  const text = cutText(words.slice(0, MAX_QUERIES).join(" "), MAX_QUERY).trim()
  return text === "*" ? "" : text
}

/** Lists hits in their order, with a heading whenever the server changes; the first heading of a server has its instructions. */
function ranked(found: readonly FoundTool[], servers: readonly ServerTools[], detail: Detail, budget: number): string {
  const introduced = new Set<string>()
  const lines = found.map(({ server, tool }, at) => {
    const line = detail === "full" ? definitionOf(tool) : lineOf(tool, detail)
    if (found[at - 1]?.server === server) return line
    const instructions = servers.find((one) => one.server === server)?.instructions
    const title = introduced.has(server) ? `# ${server}` : heading(server, instructions, budget)
    introduced.add(server)
    return `${title}\n${line}`
  })
  return bounded(
    lines,
    (left) =>
      `${left} more hits left out, for the length of the answer: search with another query, or with less detail`,
  )
}

const heading = (server: string, instructions: string | undefined, budget: number): string =>
  instructions === undefined ? `# ${server}` : `# ${server}: ${oneLine(instructions, budget)}`

/** Lists the tools of servers in their own order. */
function listed(servers: readonly ServerTools[], args: Params, detail: Detail): string {
  const limit = limitOf(args.limit, DEFAULT_LISTED, MAX_HITS)
  const lines = servers.flatMap((server) => {
    const tools = server.tools()
    const more = tools.length - limit
    return [
      heading(`${server.server} (${counted(server.count, "tool")})`, server.instructions, ALL_INSTRUCTIONS_TOKENS),
      ...tools.slice(0, limit).map((tool) => (detail === "full" ? definitionOf(tool) : lineOf(tool, detail))),
      ...(more > 0 ? [`${more} more: raise limit, or search with a query`] : []),
    ]
  })
  return bounded(lines, (left) => `${left} more lines left out, for the length of the answer: search with a query`)
}

/** Returns what was searched, which servers there are, and how to continue. */
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
      : searched
          .slice(0, MAX_SERVERS)
          .map(({ server }) => server)
          .join(", ")
  return `No tool matches "${oneLine(query, 40)}": searched names, descriptions and parameters of ${counted(count, "tool")} of ${where}. Try other words. ${overview(call, all)}`
}

/** Returns the servers with their numbers of tools, and how to list one. */
function overview({ gateway, client }: ClientCall, all: readonly ServerTools[]): string {
  const shown = all.slice(0, MAX_SERVERS).map(({ server, count }) => `${server} (${count})`)
  const more = all.length > MAX_SERVERS ? [`and ${all.length - MAX_SERVERS} more`] : []
  const down = gateway.directory.unavailable(client.scope).map(({ slug, state }) => `${slug} (${state})`)
  const missing = down.length === 0 ? "" : ` Not available now: ${down.slice(0, MAX_SERVERS).join(", ")}.`
  if (all.length === 0) return `No server offers tools.${missing}`
  const [first] = all
  return `Servers and their tools: ${[...shown, ...more].join(", ")}. List one: search_tools {"query":"","server":"${first?.server}"}.${missing}`
}

function limitOf(value: unknown, otherwise: number, most: number): number {
  const limit = Math.floor(typeof value === "string" ? Number(value) : (numberOf(value) ?? otherwise))
  return Number.isNaN(limit) ? otherwise : Math.min(Math.max(1, limit), most)
}

// --- describe_tool, tool_schema

async function describeTools(
  call: ClientCall,
  searchable: Searchable,
  names: readonly string[],
  open: OpenFinder,
): Promise<Text> {
  if (names.length === 0) return { text: 'names is missing: {"names": ["<tool>", …]}', isError: true }
  // Names that are left out anyway are not compared.
  const wanted = [...new Set(names.slice(0, MAX_WANTED))]
  const lines: string[] = []
  const left = [...wanted.slice(MAX_NAMES), ...names.slice(MAX_WANTED)]
  let length = 0
  let unknown = 0
  for (const name of wanted.slice(0, MAX_NAMES)) {
    const tool = findTool(searchable, name)
    const line = tool === undefined ? await unknownTool(call, searchable, name, open, unknown++) : definitionOf(tool)
    length += line.length + 1
    if (lines.length > 0 && length > ANSWER_CHARACTERS) left.push(name)
    else lines.push(line)
  }
  if (left.length > 0) lines.push(`Left out, for the length of the answer; ask for them again: ${namesOf(left)}`)
  return { text: lines.join("\n"), ...(unknown === Math.min(wanted.length, MAX_NAMES) ? { isError: true } : {}) }
}

function namesOf(names: readonly string[]): string {
  const more = names.length - MAX_NAMES
  const shown = names.slice(0, MAX_NAMES).map((name) => oneLine(name, 60))
  return `${shown.join(", ")}${more > 0 ? ` and ${more} more` : ""}`
}

/** Returns why a name leads to no tool. The first of several unknown names get suggestions. */
async function unknownTool(
  call: ClientCall,
  searchable: Searchable,
  name: string,
  open: OpenFinder,
  before = 0,
): Promise<string> {
  const { view } = searchable
  const withheld = withheldIn(view, name)
  if (withheld !== undefined) return withheldTool(name, withheld)
  const shown = oneLine(cutText(name, MAX_NAME), MAX_NAME)
  const missing = missingServer(call, view, name)
  if (missing !== undefined) return `Unknown tool: ${shown}. The server ${missing}`
  if (before >= (view.tools.size > MANY_TOOLS ? 1 : MAX_SUGGESTED)) return `Unknown tool: ${shown}`
  const finder = await open()
  const similar = finder.similar(searchable, cutText(name, MAX_NAME), SIMILAR)
  const suggestion = similar.length === 0 ? "" : `. Did you mean ${similar.map((one) => oneLine(one, 60)).join(", ")}?`
  return `Unknown tool: ${shown}${suggestion}`
}

/** Returns the server of a name and why its tools are not known; undefined if they are known. */
function missingServer({ gateway: { directory }, client }: ClientCall, view: View, name: string): string | undefined {
  const slug = view.naming === "plain" ? undefined : serverIn(name)
  if (view.naming === "qualified" && slug === undefined) return undefined
  const id = directory.disconnectedId(client.scope, slug)
  const target = id === undefined ? undefined : directory.target(id)
  if (typeof target === "string") return `${slug ?? id} ${target}`
  const unlisted = directory.unlisted(client.scope, slug, "tools/list")
  return unlisted && `${unlisted.slug} ${unlisted.reason}`
}

const MAX_NAME = 200

function namesIn(args: Params, searchable: Searchable): readonly string[] {
  const written = args.names ?? args.tools ?? args.tool_names ?? nameAmong(args)
  const names = typeof written === "string" ? namesInText(written, searchable) : written
  return [names].flat().filter((name): name is string => typeof name === "string" && name !== "")
}

/** Returns the names in a text: a JSON list, one name, or several with commas between. */
function namesInText(text: string, searchable: Searchable): unknown {
  if (!text.trim().startsWith("["))
    return findTool(searchable, text) === undefined ? text.split(",").map((name) => name.trim()) : text
  return parseIfJson(text) ?? text
}

// --- tool_list

/** Returns a page of tools in the order of their servers. Throws a RequestError for an invalid cursor or pattern. */
function listTools(searchable: Searchable, args: Params): Params {
  const { server, pattern, tag, cursor } = args
  if (typeof pattern === "string" && pattern.length > MAX_NAME)
    throw new RequestError("invalid_params", `pattern must have ${MAX_NAME} characters at most`)
  const isNamed = typeof server === "string" ? serverAmong([server]) : () => true
  const servers = serversOf(searchable).filter(
    (one) => isNamed(one.server) && (typeof tag !== "string" || one.tags.includes(tag)),
  )
  const tools = servers.flatMap((one) =>
    one
      .tools()
      .filter(({ name }) => typeof pattern !== "string" || isMatch(searchable.view, name, pattern))
      .map(({ name }) => JSON.stringify({ server: one.server, name })),
  )
  const { entries, nextCursor } = pageOf(
    tools,
    "tools/list",
    limitOf(args.limit, DEFAULT_LISTED, MAX_LISTED),
    typeof cursor === "string" && cursor !== "" ? cursor : undefined,
  )
  return {
    tools: entries.map((entry) => {
      const one: { readonly server: string; readonly name: string } = JSON.parse(entry)
      const description = findTool(searchable, one.name)?.description
      return { ...one, description: oneLine(asText(description ?? ""), LISTED_TOKENS) }
    }),
    total: tools.length,
    ...(nextCursor === undefined ? {} : { nextCursor }),
  }
}

/** The most entries of a page of `tool_list`, so that it fits into an answer. */
const MAX_LISTED = 100

/**
 * Whether a pattern matches a name in the view, or the server's own name for the tool. A pattern without * matches a part of
 * the name.
 */
function isMatch({ tools }: View, name: string, written: string): boolean {
  const pattern = written.includes("*") ? written : `*${written}*`
  const own = tools.get(name)?.name
  return matchesPattern(name, pattern) || (own !== undefined && matchesPattern(own, pattern))
}

// --- wrappers

/** Returns what a call of a wrapper lacks, with the parameters of the tool if it names one. */
function refusedWrapper(call: ClientCall, searchable: Searchable): Text {
  const name = asText(call.request.params?.name)
  const { problem = "", tool } = wrapperProblem(call, searchable.view) ?? {}
  const known = tool === undefined ? undefined : findTool(searchable, tool)
  const example =
    isWrapper(name) && name === "tool_invoke"
      ? '{"server": "…", "toolName": "…", "args": {…}}'
      : '{"name": "<tool>", "arguments": {…}}'
  const hint = known && parametersHint(known)
  return {
    text: `${name} was not run: ${oneLine(problem, 100)}. It takes ${example}${hint === undefined ? "" : `. ${hint}`}`,
    isError: true,
  }
}
