/** `svc tokens`: counts the tokens that servers take in the context of a client, largest first. */
import type { CommandDef } from "citty"
import { Tiktoken } from "js-tiktoken/lite"
import ranks from "js-tiktoken/ranks/cl100k_base"
import type { ContextOffer } from "../app/offered-texts.ts"
import { CONTEXT_ARGS, notRunning, openContext } from "../commands/command-context.ts"
import { RequestError, UnavailableError } from "../lib/errors.ts"
import { unknownNameError } from "../lib/nearest.ts"
import { facts, print, say, table } from "../lib/output.ts"
import type { ToolResultSizes } from "../report/status.ts"
import type { LocalConfiguration } from "../serve/local-configuration.ts"
import { isObject, parseJson } from "../wire/message.ts"

export const tokens: CommandDef = {
  meta: { name: "tokens", description: "Count the tokens that servers and tools take in a client's context" },
  args: {
    server: {
      type: "positional",
      required: false,
      description: "Name of one server, to count each of its tools (default: all servers)",
      valueHint: "server",
    },
    preset: { type: "string", description: "Count only what svc lists to clients of this preset" },
    results: {
      type: "boolean",
      description: "Show instead how large the results of tools have been since svc started, largest first",
    },
    ...CONTEXT_ARGS,
  },
  async run({ args }) {
    const context = openContext(args)
    if (args.results === true) return printResults(context, args)
    const preset = typeof args.preset === "string" ? { preset: args.preset } : {}
    const answer = await context.ask("context", preset, ANSWER_MS)
    if (!isObject(answer)) throw notRunning(context.paths)
    const offer = answer as ContextOffer
    const named = typeof args.server === "string" ? args.server : undefined
    const known = offer.servers.map(({ name }) => name)
    if (named !== undefined && offer.starting.includes(named))
      throw new UnavailableError(`${named} is still starting; \`svc mcp status ${named}\` shows the progress`)
    if (named !== undefined && !known.includes(named)) throw unknownServer(named, known)
    if (named === undefined && offer.starting.length > 0)
      say(`not counted, because they are still starting: ${offer.starting.join(", ")}`)
    const count = createCounter()
    const servers = offer.servers
      .filter(({ name }) => named === undefined || name === named)
      .map((server) => costOf(server, count))
      .sort(dearerFirst)
    const [only] = servers
    if (named !== undefined && only !== undefined) {
      print(
        args.json === true,
        { ...only, estimator: ESTIMATOR },
        () => `${toolTable(only)}\n\n${facts([["note", NOTE]])}`,
      )
      return 0
    }
    const all = servers.flatMap(({ tools }) => tools)
    const total = totalOf(all, offer.instructions, count)
    const found = offer.lazy.tools.map((entry) => toolCost(entry, count))
    const lazy = totalOf(found, offer.lazy.instructions, count)
    print(args.json === true, { total, lazy, servers, estimator: ESTIMATOR }, () =>
      [
        ...(servers.length === 0 ? [] : [serverTable(servers), ""]),
        table(
          ["", "tools", "tokens", "of tools", "of instructions"],
          [
            ["in each client", ...totalCells(total, all.length)],
            ["in a lazy view", ...totalCells(lazy, found.length)],
          ],
        ),
        "",
        facts([["note", `${NOTE} ${SUMS_NOTE}`]]),
      ].join("\n"),
    )
    return 0
  },
}

/** Returns the tokens of everything that svc lists to one client. */
export function tokensOf({ servers, instructions }: ContextOffer): number {
  const count = createCounter()
  const tools = servers.flatMap((server) => costOf(server, count).tools)
  return totalOf(tools, instructions, count).tokens
}

// ---

/** Prints the sizes of the results of all servers, or of one. */
async function printResults(
  context: LocalConfiguration,
  { server, json }: Readonly<Record<string, unknown>>,
): Promise<number> {
  const answer = await context.ask("results", typeof server === "string" ? { server } : {})
  if (!Array.isArray(answer)) throw notRunning(context.paths)
  const rows = answer as readonly ToolResultSizes[]
  print(json === true, rows, () =>
    rows.length === 0
      ? "no tool has been called since svc started"
      : [
          table(
            ["server", "tool", "results", "median", "p99", "largest", "p99 tokens", "cut"],
            rows.map(({ server: name, tool, count, p50, p99, largest, cut }) => [
              name,
              tool,
              ...[count, p50, p99, largest, Math.ceil(p99 / BYTES_PER_TOKEN), cut].map(formatted),
            ]),
          ),
          "",
          facts([["note", RESULTS_NOTE]]),
        ].join("\n"),
  )
  return 0
}

/** Bytes per token of prose. */
const BYTES_PER_TOKEN = 4
const RESULTS_NOTE =
  'Sizes are in bytes; 4 bytes count as a token. Percentiles may be up to a fifth too large. The column "cut" counts the results above a budget (`svc serve --result-budget`).'

const ANSWER_MS = 60_000
const ESTIMATOR = "cl100k_base"
const NOTE =
  "Estimated with the tokenizer cl100k_base; the tokenizer of a model may count a fifth more or less. A tool counts with its name, description and input schema, which clients pass to models."
const SUMS_NOTE =
  "The row of a server counts its whole instructions; the last table counts those that clients receive. A lazy view (?tools=search) lists only the search tools."

/** Tokens of one tool; `description` includes the name. */
type ToolCost = {
  readonly name: string
  readonly tokens: number
  readonly description: number
  readonly schema: number
}

type ServerCost = {
  readonly name: string
  readonly tokens: number
  readonly descriptions: number
  readonly schemas: number
  readonly instructions: number
  /** The most expensive first. */
  readonly tools: readonly ToolCost[]
}

/** The tokens of everything that svc lists to one client. */
type Total = { readonly tokens: number; readonly tools: number; readonly instructions: number }

type Count = (text: string) => number

function costOf(
  { name, tools: entries, instructions: text }: ContextOffer["servers"][number],
  count: Count,
): ServerCost {
  const tools = entries.map((entry) => toolCost(entry, count)).sort(dearerFirst)
  const descriptions = tools.reduce((sum, { description }) => sum + description, 0)
  const schemas = tools.reduce((sum, { schema }) => sum + schema, 0)
  const instructions = count(text)
  return { name, tokens: descriptions + schemas + instructions, descriptions, schemas, instructions, tools }
}

function totalOf(listed: readonly ToolCost[], text: string, count: Count): Total {
  const [tools, instructions] = [listed.reduce((sum, { tokens }) => sum + tokens, 0), count(text)]
  return { tokens: tools + instructions, tools, instructions }
}

const totalCells = ({ tokens, tools, instructions }: Total, listed: number): readonly string[] =>
  [listed, tokens, tools, instructions].map(formatted)

function toolCost(entry: string, count: Count): ToolCost {
  const tool = parseJson(entry)
  const { name, description, inputSchema } = isObject(tool) ? tool : {}
  const described = count(`${name}\n${description ?? ""}`)
  const schema = count(JSON.stringify(inputSchema ?? {}))
  return { name: String(name), tokens: described + schema, description: described, schema }
}

/** Compares by cost, then by name. */
const dearerFirst = (
  one: { readonly name: string; readonly tokens: number },
  other: { readonly name: string; readonly tokens: number },
): number => other.tokens - one.tokens || (one.name < other.name ? -1 : 1)

function createCounter(): Count {
  const tokenizer = new Tiktoken(ranks)
  // The time that the tokenizer needs for one run of characters grows with the square of its length.
  const piecesOf = (text: string) => (LONG_RUN.test(text) ? (text.match(PIECE) ?? []) : [text])
  return (text) => piecesOf(text).reduce((sum, piece) => sum + tokenizer.encode(piece, [], []).length, 0)
}

const LONG_RUN = /\S{500}|\s{500}/
const PIECE = /\S{1,500}|\s{1,500}/g

const serverTable = (servers: readonly ServerCost[]): string =>
  table(
    ["server", "tools", "tokens", "descriptions", "schemas", "instructions"],
    servers.map(({ name, tools, tokens, descriptions, schemas, instructions }) => [
      name,
      ...[tools.length, tokens, descriptions, schemas, instructions].map(formatted),
    ]),
  )

const toolTable = ({ tools, instructions }: ServerCost): string =>
  table(
    ["tool", "tokens", "description", "schema"],
    [
      ...tools.map(({ name, tokens, description, schema }) => [name, ...[tokens, description, schema].map(formatted)]),
      ...(instructions === 0 ? [] : [["(instructions)", formatted(instructions)]]),
    ],
  )

const formatted = (count: number): string => count.toLocaleString("en-US")

/** Returns the error for a name that is not of a listed server. */
function unknownServer(name: string, known: readonly string[]): RequestError {
  return known.length === 0
    ? new RequestError("not_found", `svc offers no server to clients now; \`svc mcp status\` shows why`)
    : unknownNameError("server", name, known)
}
