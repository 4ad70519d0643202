/**
 * Ranked search over the tools of all backends: BM25F over weighted fields, with synonyms and corrected spelling.
 *
 * 1. The index is changed one backend's listing at a time.
 * 2. The result depends on the indexed tools, not on the order in which listings came.
 * 3. A filtered search is the search of an index that holds the visible tools alone: a hidden tool changes no score.
 *
 * Callers import this file with `await import`, so that its vocabulary is loaded by the first search.
 */
import { isObject } from "../wire/message.ts"
import type { Tool } from "./listing.ts"
import { isStopWord, stemOf, wordsOf } from "./search-words.ts"

type SearchField = "name" | "title" | "hint" | "description" | "parameters" | "server"

export type SearchHit = {
  readonly server: string
  readonly tool: string
  readonly score: number
  /** The fields that have a word of the query, a synonym of it or its corrected spelling. */
  readonly matched: readonly SearchField[]
}

export type SearchOptions = {
  readonly limit: number
  /** Searches one server alone. */
  readonly server?: string | undefined
  /** Hides tools: what it refuses is treated as not indexed. */
  readonly allowed?: ((server: string, tool: string) => boolean) | undefined
}

/** A server as the index knows it; its name and title count for all of its tools. */
export type SearchServer = {
  readonly name: string
  readonly title?: string | undefined
  readonly description?: string | undefined
}

export type SearchIndex = {
  readonly entries: (Entry | undefined)[]
  readonly free: number[]
  readonly servers: Map<string, readonly number[]>
  readonly postings: Map<string, Postings>
}

/** Returns an empty index. */
export const createSearchIndex = (): SearchIndex => ({
  entries: [],
  free: [],
  servers: new Map(),
  postings: new Map(),
})

/** Replaces what the index holds of one server. */
export function updateListing(index: SearchIndex, server: SearchServer, tools: readonly Tool[]): void {
  removeListing(index, server.name)
  const slots = tools.map((tool) => {
    const slot = index.free.pop() ?? index.entries.length
    const terms = termsOf(server, tool)
    index.entries[slot] = { server: server.name, tool: tool.name, terms: [...terms.keys()] }
    for (const [term, { weight, fields }] of terms) {
      const postings = index.postings.get(term) ?? { slots: [], weights: [], fields: [] }
      if (postings.slots.length === 0) index.postings.set(term, postings)
      postings.slots.push(slot)
      postings.weights.push(weight)
      postings.fields.push(fields)
    }
    return slot
  })
  if (slots.length > 0) index.servers.set(server.name, slots)
}

/** Removes the tools of one server. */
export function removeListing(index: SearchIndex, server: string): void {
  const slots = index.servers.get(server)
  if (slots === undefined) return
  const removed = new Set(slots)
  const terms = new Set(slots.flatMap((slot) => index.entries[slot]?.terms ?? []))
  for (const term of terms) {
    const postings = index.postings.get(term)
    if (postings === undefined) continue
    const kept = postings.slots.flatMap((slot, at) => (removed.has(slot) ? [] : [at]))
    if (kept.length === 0) index.postings.delete(term)
    else
      index.postings.set(term, {
        slots: kept.map((at) => postings.slots[at] as number),
        weights: kept.map((at) => postings.weights[at] as number),
        fields: kept.map((at) => postings.fields[at] as number),
      })
  }
  for (const slot of slots) {
    index.entries[slot] = undefined
    index.free.push(slot)
  }
  index.servers.delete(server)
}

/** Returns the tools that fit a query, best first. Equal scores are ordered by the names of server and tool. */
export function search(index: SearchIndex, query: string, options: SearchOptions): readonly SearchHit[] {
  const visible = visibleOf(index, options)
  const count = visible.reduce((sum, bit) => sum + bit, 0)
  const terms = queryTerms(query)
  const scores = new Float64Array(index.entries.length)
  const fields = new Uint16Array(index.entries.length)
  for (const term of terms) {
    const postings = index.postings.get(term)
    if (postings === undefined) continue
    let holders = 0
    for (const slot of postings.slots) holders += visible[slot] ?? 0
    const rarity = Math.log(1 + (count - holders + 0.5) / (holders + 0.5))
    for (let at = 0; at < postings.slots.length; at++) {
      const slot = postings.slots[at] as number
      if (visible[slot] === 0) continue
      const weight = postings.weights[at] as number
      scores[slot] = (scores[slot] ?? 0) + (rarity * weight * (SATURATION + 1)) / (weight + SATURATION)
      fields[slot] = (fields[slot] ?? 0) | (postings.fields[at] as number)
    }
  }
  const hits: SearchHit[] = []
  for (const [slot, entry] of index.entries.entries()) {
    const score = scores[slot] ?? 0
    if (entry === undefined || score <= 0) continue
    hits.push({ server: entry.server, tool: entry.tool, score, matched: fieldsOf(fields[slot] ?? 0) })
  }
  return hits.sort(byScore).slice(0, options.limit)
}

// ---

type Entry = { readonly server: string; readonly tool: string; readonly terms: readonly string[] }
/** The tools that hold one term: parallel arrays, because there are hundreds of thousands of postings. */
type Postings = { readonly slots: number[]; readonly weights: number[]; readonly fields: number[] }

const SATURATION = 1.2
const MAX_QUERY = 1_000
const MAX_TERMS = 40
const MAX_TEXT = 4_000
const MAX_PARAMETERS = 64

/** What a word in a field weighs, and how many words of it are usual: longer fields weigh less per word. */
const FIELDS: readonly { readonly field: SearchField; readonly weight: number; readonly usual: number }[] = [
  { field: "name", weight: 3, usual: 3 },
  { field: "title", weight: 2, usual: 3 },
  { field: "hint", weight: 2, usual: 6 },
  { field: "description", weight: 1, usual: 20 },
  { field: "parameters", weight: 0.4, usual: 20 },
  { field: "server", weight: 1, usual: 3 },
]

const fieldsOf = (bits: number): readonly SearchField[] =>
  FIELDS.flatMap(({ field }, at) => ((bits & (1 << at)) === 0 ? [] : [field]))

const byScore = (a: SearchHit, b: SearchHit): number =>
  b.score - a.score || compare(a.server, b.server) || compare(a.tool, b.tool)

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

function visibleOf(index: SearchIndex, { server, allowed }: SearchOptions): Uint8Array {
  const visible = new Uint8Array(index.entries.length)
  const slots = server === undefined ? index.entries.keys() : (index.servers.get(server) ?? [])
  for (const slot of slots) {
    const entry = index.entries[slot]
    if (entry !== undefined && (allowed === undefined || allowed(entry.server, entry.tool))) visible[slot] = 1
  }
  return visible
}

function queryTerms(query: string): readonly string[] {
  const words = wordsOf(query.slice(0, MAX_QUERY))
  const telling = words.filter((word) => !isStopWord(word))
  return [...new Set((telling.length > 0 ? telling : words).map(stemOf))].slice(0, MAX_TERMS)
}

type Weighted = { weight: number; fields: number }

/** Returns the terms of a tool with their weight over all fields. */
function termsOf(server: SearchServer, tool: Tool): ReadonlyMap<string, Weighted> {
  const terms = new Map<string, Weighted>()
  const texts = textsOf(server, tool)
  for (const [at, { field, weight, usual }] of FIELDS.entries()) {
    const words = wordsOf(texts[field].slice(0, MAX_TEXT))
    const each = weight / (0.4 + (0.6 * words.length) / usual)
    for (const word of words) {
      if (isStopWord(word)) continue
      const term = stemOf(word)
      const known = terms.get(term)
      if (known === undefined) terms.set(term, { weight: each, fields: 1 << at })
      else {
        known.weight += each
        known.fields |= 1 << at
      }
    }
  }
  return terms
}

function textsOf(server: SearchServer, tool: Tool): Readonly<Record<SearchField, string>> {
  const annotations = isObject(tool.annotations) ? tool.annotations : {}
  const meta = isObject(tool._meta) ? tool._meta : {}
  return {
    name: tool.name,
    title: `${text(tool.title) || text(annotations.title)}`,
    hint: text(meta["anthropic/searchHint"]),
    description: text(tool.description),
    parameters: parametersOf(tool.inputSchema),
    server: `${server.name} ${server.title ?? ""}`,
  }
}

const text = (value: unknown): string => (typeof value === "string" ? value : "")

function parametersOf(schema: unknown): string {
  const properties = isObject(schema) && isObject(schema.properties) ? schema.properties : {}
  return Object.entries(properties)
    .slice(0, MAX_PARAMETERS)
    .map(([name, value]) => `${name} ${isObject(value) ? text(value.description) : ""}`)
    .join("\n")
}
