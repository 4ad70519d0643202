/** The golden set of the search over tools: recorded listings of real servers, and requests with their right answers. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { Tool } from "../../../src/catalog/listing.ts"

export type Half = "tuning" | "held-out"
export type Request = {
  readonly kind: string
  readonly text: string
  /** Right answers as `server/tool`. */
  readonly right: readonly string[]
}
/** A whole task in a person's words, and the tools it needs, each with its alternatives. */
export type Task = { readonly text: string; readonly wanted: readonly (readonly string[])[] }
export type RecordedServer = { readonly name: string; readonly title: string; readonly tools: readonly Tool[] }
/** Returns the names of tools as `server/tool`, best first. */
export type Ranker = (request: string) => readonly string[]
export type Quality = {
  readonly requests: number
  readonly recall1: number
  readonly recall5: number
  /** The mean of 1 / rank of the first right answer among the first ten. */
  readonly reciprocalRank: number
}

export const HALVES: readonly Half[] = ["tuning", "held-out"]

/** Returns the recorded listings. */
export function recordedServers(): readonly RecordedServer[] {
  return Object.entries(JSON.parse(read("listings.json")) as Record<string, Recorded>).map(
    ([name, { title, tools }]) => ({
      name,
      title,
      tools: tools.map(({ parameters, ...tool }) => ({
        ...tool,
        inputSchema: {
          type: "object",
          properties: Object.fromEntries(
            Object.entries(parameters).map(([parameter, description]) => [parameter, { type: "string", description }]),
          ),
        },
      })),
    }),
  )
}

/** The golden set of mcpproxy-go: its listings, and its requests with the tools that answer them. Never tune on it. */
export function mcpproxySet(): { readonly servers: readonly RecordedServer[]; readonly tasks: readonly Task[] } {
  const { tools } = JSON.parse(read("mcpproxy/tools.json")) as { readonly tools: readonly McpproxyTool[] }
  const { queries } = JSON.parse(read("mcpproxy/requests.json")) as { readonly queries: readonly McpproxyQuery[] }
  const servers = Map.groupBy(tools, ({ server }) => server)
  return {
    servers: [...servers].map(([name, some]) => ({
      name,
      title: "",
      tools: some.map(({ tool, description, schema }) => ({ name: tool, description, inputSchema: schema })),
    })),
    tasks: queries.map(({ query, labels }) => ({
      text: query,
      wanted: labels.flatMap((label) => (label.relevance > 0 ? [[label.tool_id.replace(":", "/")]] : [])),
    })),
  }
}

/** Returns the requests of one half. */
export function requestsOf(half: Half): readonly Request[] {
  return linesOf(`requests-${half}.txt`).map((line) => {
    const [kind = "", text = "", right = ""] = line.split(" | ")
    return { kind, text, right: right.split(" ") }
  })
}

/** Returns the whole task texts of one half. */
export function tasksOf(half: Half): readonly Task[] {
  return linesOf(`tasks-${half}.txt`).map((line) => {
    const [text = "", wanted = ""] = line.split(" | ")
    return { text, wanted: wanted.split(" ").map((one) => one.split(",")) }
  })
}

/** Returns the mean share of the wanted tools that a ranker has among its first five. */
export function coverageOf(rank: Ranker, tasks: readonly Task[]): number {
  const shares = tasks.map(({ text, wanted }) => {
    const found = rank(text).slice(0, 5)
    return wanted.filter((tools) => tools.some((tool) => found.includes(tool))).length / Math.min(wanted.length, 5)
  })
  return shares.reduce((sum, share) => sum + share, 0) / tasks.length
}

/** Returns the quality of a ranker over requests. */
export function qualityOf(rank: Ranker, requests: readonly Request[]): Quality {
  const ranks = requests.map(({ text, right }) => rank(text).findIndex((name) => right.includes(name)) + 1)
  const share = (most: number) => ranks.filter((at) => at > 0 && at <= most).length / requests.length
  const reciprocal = ranks.reduce((sum, at) => sum + (at > 0 && at <= 10 ? 1 / at : 0), 0)
  return {
    requests: requests.length,
    recall1: share(1),
    recall5: share(5),
    reciprocalRank: reciprocal / requests.length,
  }
}

// ---

type Recorded = {
  readonly title: string
  readonly tools: readonly {
    readonly name: string
    readonly description: string
    readonly parameters: Readonly<Record<string, string>>
  }[]
}

type McpproxyTool = {
  readonly server: string
  readonly tool: string
  readonly description: string
  readonly schema: object
}
type McpproxyQuery = {
  readonly query: string
  readonly labels: readonly { readonly tool_id: string; readonly relevance: number }[]
}

const linesOf = (name: string): readonly string[] =>
  read(name)
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))

const read = (name: string): string => readFileSync(join(import.meta.dir, name), "utf8")
