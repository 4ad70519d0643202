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

/** Returns the requests of one half. */
export function requestsOf(half: Half): readonly Request[] {
  return read(`requests-${half}.txt`)
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [kind = "", text = "", right = ""] = line.split(" | ")
      return { kind, text, right: right.split(" ") }
    })
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

const read = (name: string): string => readFileSync(join(import.meta.dir, name), "utf8")
