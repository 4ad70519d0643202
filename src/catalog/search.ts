/**
 * Ranked search over the tools of all backends: BM25F over weighted fields, with synonyms and corrected spelling.
 *
 * 1. The index is changed one backend's listing at a time.
 * 2. The result depends on the indexed tools, not on the order in which listings came.
 * 3. A filtered search is the search of an index that holds the visible tools alone: a hidden tool changes no score.
 * 4. A synonym adds little to the word that it stands for: the best of the terms for one word counts, the others for a part.
 *
 * Callers import this file with `await import`, so that its vocabulary is loaded by the first search.
 */
import { isObject } from "../wire/message.ts"
import type { Tool } from "./listing.ts"
import { isLightWord, isStopWord, stemOf, wordsOf } from "./search-words.ts"
import { corrections, lettersOf, type Spelling } from "./spelling.ts"
import { readSynonyms, type Synonyms } from "./synonyms.ts"

type SearchField = "name" | "title" | "hint" | "summary" | "description" | "parameters" | "server"

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
export type SearchServer = { readonly name: string; readonly title?: string | undefined }

export type SearchIndex = {
  readonly entries: (Entry | undefined)[]
  readonly free: number[]
  readonly servers: Map<string, readonly number[]>
  readonly postings: Map<string, Postings>
  readonly spellings: Map<string, Spelling & { count: number }>
  readonly synonyms: Synonyms
  /** The words of the synonyms that no tool has, for the correction of spelling. */
  readonly otherSpellings: readonly Spelling[]
}

/** Returns an empty index. */
export function createSearchIndex(synonyms: Synonyms = readSynonyms()): SearchIndex {
  return {
    entries: [],
    free: [],
    servers: new Map(),
    postings: new Map(),
    spellings: new Map(),
    synonyms,
    otherSpellings: [...synonyms.spellings].map(([word, stem]) => ({ word, stem, letters: lettersOf(word) })),
  }
}

/** Replaces what the index holds of one server. */
export function updateListing(index: SearchIndex, server: SearchServer, tools: readonly Tool[]): void {
  removeListing(index, server.name)
  const slots = tools.map((tool) => {
    const slot = index.free.pop() ?? index.entries.length
    const { terms, words, named } = contentOf(index, server, tool)
    index.entries[slot] = { server: server.name, tool: tool.name, terms: [...terms.keys()], words, named }
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
  for (const term of new Set(slots.flatMap((slot) => index.entries[slot]?.terms ?? []))) {
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
    for (const word of index.entries[slot]?.words ?? []) {
      const spelling = index.spellings.get(word)
      if (spelling !== undefined && --spelling.count === 0) index.spellings.delete(word)
    }
    index.entries[slot] = undefined
    index.free.push(slot)
  }
  index.servers.delete(server)
}

/** Returns the tools that fit a query, best first. Equal scores are ordered by the names of server and tool. */
export function search(index: SearchIndex, query: string, options: SearchOptions): readonly SearchHit[] {
  const searched = searchedBy(index, options)
  const concepts = conceptsOf(searched, query)
  const size = index.entries.length
  const scores = new Float64Array(size)
  const fields = new Uint16Array(size)
  const best = new Float64Array(size)
  const sums = new Float64Array(size)
  for (const concept of concepts) {
    const touched: number[] = []
    for (const [term, likeness] of concept.terms) {
      const postings = index.postings.get(term)
      const rarity = rarityOf(searched, term)
      if (postings === undefined || rarity === 0) continue
      for (let at = 0; at < postings.slots.length; at++) {
        const slot = postings.slots[at] as number
        if (searched.visible[slot] === 0) continue
        const weight = postings.weights[at] as number
        const score = (likeness * rarity * weight * (SATURATION + 1)) / (weight + SATURATION)
        const known = best[slot] as number
        if (known === 0) touched.push(slot)
        if (score > known) best[slot] = score
        sums[slot] = (sums[slot] as number) + score
        fields[slot] = (fields[slot] as number) | (postings.fields[at] as number)
      }
    }
    for (const slot of touched) {
      const [first, sum] = [best[slot] as number, sums[slot] as number]
      scores[slot] = (scores[slot] as number) + concept.importance * (first + FURTHER_TERMS * (sum - first))
      best[slot] = 0
      sums[slot] = 0
    }
  }
  const asked = new Map(concepts.flatMap(({ terms }) => [...terms]))
  const hits: SearchHit[] = []
  for (const [slot, entry] of index.entries.entries()) {
    const plain = scores[slot] ?? 0
    if (entry === undefined || plain <= 0) continue
    const score = plain * (1 + NAMED * namedShare(entry, asked))
    hits.push({ server: entry.server, tool: entry.tool, score, matched: fieldsOf(fields[slot] ?? 0) })
  }
  return hits.sort(byScore).slice(0, options.limit)
}

// ---

type Entry = {
  readonly server: string
  readonly tool: string
  readonly terms: readonly string[]
  readonly words: readonly string[]
  /** The terms of the tool's name without those of the server's. */
  readonly named: readonly string[]
}
/** The tools that hold one term: parallel arrays, because there are hundreds of thousands of postings. */
type Postings = { readonly slots: number[]; readonly weights: number[]; readonly fields: number[] }
/** What one query searches: 1 for each visible slot. */
type Searched = {
  readonly index: SearchIndex
  readonly visible: Uint8Array
  readonly count: number
  readonly all: boolean
}
/** A word or phrase of the query: the terms that stand for it, each with its likeness to it. */
type Concept = { readonly terms: ReadonlyMap<string, number>; readonly importance: number }

const SATURATION = 1.2
/** How much of the other terms that stand for the same word counts beside the best one. */
const FURTHER_TERMS = 0.3
/** What a tool gains if the query names all of its name. */
const NAMED = 0.35
/** What a word counts that belongs to a phrase of the table, or that is said of anything. */
const PHRASE_WORD = 0.3
const LIGHT_WORD = 0.6
const MAX_QUERY = 1_000
const MAX_TERMS = 40
const MAX_TEXT = 4_000
const MAX_PARAMETERS = 64
const MAX_CORRECTIONS = 3

/** What a word in a field weighs, and how many words of it are usual: longer fields weigh less per word. */
const FIELDS: readonly { readonly field: SearchField; readonly weight: number; readonly usual: number }[] = [
  { field: "name", weight: 3, usual: 3 },
  { field: "title", weight: 2, usual: 3 },
  { field: "hint", weight: 2, usual: 6 },
  { field: "summary", weight: 1.6, usual: 9 },
  { field: "description", weight: 0.7, usual: 20 },
  { field: "parameters", weight: 0.4, usual: 15 },
  { field: "server", weight: 1, usual: 2 },
]

const fieldsOf = (bits: number): readonly SearchField[] =>
  FIELDS.flatMap(({ field }, at) => ((bits & (1 << at)) === 0 ? [] : [field]))

const byScore = (a: SearchHit, b: SearchHit): number =>
  b.score - a.score || compare(a.server, b.server) || compare(a.tool, b.tool)

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

/** Returns how much of a tool's name the query names: "create an issue" names all of `create_issue`. */
function namedShare({ named }: Entry, asked: ReadonlyMap<string, number>): number {
  if (named.length === 0) return 0
  let share = 0
  for (const term of named) share += asked.get(term) ?? 0
  return share / named.length
}

function searchedBy(index: SearchIndex, { server, allowed }: SearchOptions): Searched {
  const visible = new Uint8Array(index.entries.length)
  let count = 0
  for (const slot of server === undefined ? index.entries.keys() : (index.servers.get(server) ?? [])) {
    const entry = index.entries[slot]
    if (entry === undefined || allowed?.(entry.server, entry.tool) === false) continue
    visible[slot] = 1
    count++
  }
  return { index, visible, count, all: server === undefined && allowed === undefined }
}

/** Returns the inverse document frequency of a term among the visible tools, or 0 if none has it. */
function rarityOf({ index, visible, count, all }: Searched, term: string): number {
  const slots = index.postings.get(term)?.slots
  if (slots === undefined) return 0
  let holders = slots.length
  if (!all) {
    holders = 0
    for (const slot of slots) holders += visible[slot] as number
  }
  return holders === 0 ? 0 : Math.log(1 + (count - holders + 0.5) / (holders + 0.5))
}

function isVisible({ index, visible, all }: Searched, term: string): boolean {
  const slots = index.postings.get(term)?.slots
  return slots !== undefined && (all || slots.some((slot) => visible[slot] === 1))
}

/** Returns whether a visible tool has a word in this spelling. */
function isSpelledSo({ index, visible, all }: Searched, { word, stem }: { word: string; stem: string }): boolean {
  const slots = index.postings.get(stem)?.slots
  if (slots === undefined || !index.spellings.has(word)) return false
  return all || slots.some((slot) => visible[slot] === 1 && index.entries[slot]?.words.includes(word) === true)
}

/** Returns what a query asks for. Words that say nothing count only if there are no others. */
function conceptsOf(searched: Searched, query: string): readonly Concept[] {
  const { synonyms } = searched.index
  const words = wordsOf(query.slice(0, MAX_QUERY)).slice(0, MAX_TERMS)
  const stems = words.map(stemOf)
  const concepts: Concept[] = []
  const inPhrase = new Set<number>()
  for (let start = 0; start < stems.length; start++) {
    for (let length = Math.min(synonyms.longest, stems.length - start); length > 1; length--) {
      const found = synonyms.of.get(stems.slice(start, start + length).join(" "))
      if (found === undefined) continue
      concepts.push({ terms: new Map(found.map(({ term, weight }) => [term, weight])), importance: 1 })
      for (let at = start; at < start + length; at++) inPhrase.add(at)
      start += length - 1
      break
    }
  }
  const telling = words.some((word, at) => !isStopWord(word) || inPhrase.has(at))
  const seen = new Set<string>()
  for (const [at, word] of words.entries()) {
    const stem = stems[at] as string
    if ((telling && isStopWord(word)) || seen.has(stem)) continue
    seen.add(stem)
    const terms = expand(searched, word, stem)
    const importance = inPhrase.has(at) ? PHRASE_WORD : 1
    concepts.push({ terms, importance: Math.min(importance, isLightWord(word) ? LIGHT_WORD : 1) })
  }
  return concepts
}

/** Returns the terms that stand for one word of the query. */
function expand(searched: Searched, word: string, stem: string): ReadonlyMap<string, number> {
  const { synonyms, spellings, otherSpellings } = searched.index
  const terms = new Map([[stem, 1]])
  const add = (from: string, factor: number) => {
    for (const { term, weight } of synonyms.of.get(from) ?? [])
      terms.set(term, Math.max(terms.get(term) ?? 0, weight * factor))
  }
  add(stem, 1)
  if (isVisible(searched, stem) || synonyms.of.has(stem)) return terms
  const near = corrections(word, spellings.values()).filter((correction) => isSpelledSo(searched, correction))
  const other = corrections(word, otherSpellings)
  const closest = Math.max(near[0]?.likeness ?? 0, other[0]?.likeness ?? 0)
  for (const { stem: corrected, likeness } of [...near.slice(0, MAX_CORRECTIONS), ...other.slice(0, MAX_CORRECTIONS)]) {
    if (likeness < closest - 0.1) continue
    terms.set(corrected, Math.max(terms.get(corrected) ?? 0, likeness))
    add(corrected, likeness)
  }
  return terms
}

type Weighted = { weight: number; fields: number }
type Content = {
  readonly terms: ReadonlyMap<string, Weighted>
  readonly words: readonly string[]
  readonly named: readonly string[]
}

/** Returns the terms of a tool with their weight over all fields, and counts its words in the index. */
function contentOf(index: SearchIndex, server: SearchServer, tool: Tool): Content {
  const terms = new Map<string, Weighted>()
  const spelled = new Set<string>()
  const texts = textsOf(server, tool)
  const ofServer = new Set(wordsOf(texts.server).map(stemOf))
  for (const [at, { field, weight, usual }] of FIELDS.entries()) {
    const words = wordsOf(texts[field].slice(0, MAX_TEXT)).filter((word) => !isStopWord(word) || field === "name")
    const each = weight / (0.4 + (0.6 * words.length) / usual)
    for (const word of words) {
      const term = index.spellings.get(word)?.stem ?? stemOf(word)
      if (!spelled.has(word)) {
        spelled.add(word)
        const spelling = index.spellings.get(word)
        if (spelling === undefined) index.spellings.set(word, { word, stem: term, letters: lettersOf(word), count: 1 })
        else spelling.count++
      }
      const known = terms.get(term)
      if (known === undefined) terms.set(term, { weight: each, fields: 1 << at })
      else {
        known.weight += each
        known.fields |= 1 << at
      }
    }
  }
  const named = [...new Set(wordsOf(tool.name).map(stemOf))]
  const own = named.filter((term) => !ofServer.has(term))
  return { terms, words: [...spelled], named: own.length === 0 ? named : own }
}

function textsOf(server: SearchServer, tool: Tool): Readonly<Record<SearchField, string>> {
  const annotations = isObject(tool.annotations) ? tool.annotations : {}
  const meta = isObject(tool._meta) ? tool._meta : {}
  const description = text(tool.description).trim()
  const end = description.search(SENTENCE_END)
  const summary = end < 0 ? description : description.slice(0, end)
  return {
    name: tool.name,
    title: text(tool.title) || text(annotations.title),
    hint: text(meta["anthropic/searchHint"]),
    summary,
    description: description.slice(summary.length),
    parameters: parametersOf(tool.inputSchema),
    server: `${server.name} ${server.title ?? ""}`,
  }
}

const SENTENCE_END = /[.!?:](?:\s|$)|\n/

const text = (value: unknown): string => (typeof value === "string" ? value : "")

function parametersOf(schema: unknown): string {
  const properties = isObject(schema) && isObject(schema.properties) ? schema.properties : {}
  return Object.entries(properties)
    .slice(0, MAX_PARAMETERS)
    .map(([name, value]) => `${name} ${isObject(value) ? text(value.description) : ""}`)
    .join("\n")
}
