/**
 * Ranked search over the tools of all backends: BM25F over weighted fields, with synonyms and corrected spelling.
 *
 * 1. The index changes by one backend's listing at a time.
 * 2. The result depends on the indexed tools, not on the order in which their listings were added.
 * 3. A filtered search has the result of an index with only the visible tools: a hidden tool changes no score.
 * 4. A synonym adds little to its word: of the terms for one word, the best counts in full, and the others in part.
 * 5. A long query is a whole task, which wants several tools, mostly of few servers: a tool gains if others of its server match.
 *
 * Callers import this file with `await import`, so that only the first search loads its vocabulary.
 */

import type { Tool } from "../../catalog/listing.ts"
import { parametersOf } from "../../catalog/signature.ts"
import { isObject } from "../../wire/message.ts"
import { createWordReader, isLightWord, isStopWord, type ReadWord, stemOf, stopWords, wordsOf } from "./search-words.ts"
import { corrections, lettersOf, type Spelling } from "./spelling.ts"
import { readSynonyms, type Synonyms } from "./synonyms.ts"

type SearchField = "name" | "title" | "hint" | "description" | "parameters" | "server"

export type SearchHit = {
  readonly server: string
  readonly tool: string
  readonly score: number
  /** The fields that contain a word of the query, its synonym or its corrected spelling. */
  readonly matched: readonly SearchField[]
}

export type SearchOptions = {
  readonly limit: number
  /** Searches only one server. */
  readonly server?: string | undefined
  /** Returns whether a tool is visible. Other tools count as not indexed. */
  readonly allowed?: ((server: string, tool: string) => boolean) | undefined
}

/** A server of the index; its name and title count for all of its tools. `key` identifies it; the default is its name. */
export type SearchServer = {
  readonly name: string
  readonly title?: string | undefined
  readonly key?: string | undefined
}

export type SearchIndex = {
  readonly entries: (Entry | undefined)[]
  readonly free: number[]
  readonly servers: Map<string, readonly number[]>
  readonly terms: Map<string, Term>
  readonly spellings: Map<string, IndexedSpelling>
  readonly synonyms: Synonyms
  readonly readWords: (text: string, words: ReadWord<IndexedSpelling>[]) => void
  /** The words of the synonyms and the stop words, for the correction of spelling. */
  readonly otherSpellings: readonly Spelling[]
}

/** Returns an empty index. */
export function createSearchIndex(synonyms: Synonyms = readSynonyms()): SearchIndex {
  return {
    entries: [],
    free: [],
    servers: new Map(),
    terms: new Map(),
    spellings: new Map(),
    synonyms,
    readWords: createWordReader(),
    otherSpellings: [...synonyms.spellings, ...[...stopWords()].map((word) => [word, STOP] as const)].map(
      ([word, stem]) => ({ word, stem, letters: lettersOf(word) }),
    ),
  }
}

/** Replaces the tools of one server in the index. */
export function updateListing(index: SearchIndex, server: SearchServer, tools: Iterable<Tool>): void {
  for (const _ of updateInPieces(index, server, tools));
}

/**
 * Replaces the tools of one server in the index, and yields between pieces of work. Until the end, a search must exclude the
 * server with `allowed`.
 */
export function* updateInPieces(
  index: SearchIndex,
  server: SearchServer,
  tools: Iterable<Tool>,
): Generator<undefined, void> {
  const { key = server.name } = server
  removeListing(index, key)
  const serverText = `${server.name} ${server.title ?? ""}`
  const serverStems = new Set(wordsOf(serverText).map(stemOf))
  const slots: number[] = []
  for (const tool of tools) {
    const slot = index.free.pop() ?? index.entries.length
    index.entries[slot] = addTool(index, slot, key, serverText, serverStems, tool)
    if (slots.push(slot) % TOOLS_PER_PIECE === 0) yield
  }
  if (slots.length > 0) index.servers.set(key, slots)
}

/** Removes the tools of one server. */
export function removeListing(index: SearchIndex, server: string): void {
  const slots = index.servers.get(server)
  if (slots === undefined) return
  const removed = new Set(slots)
  for (const term of new Set(slots.flatMap((slot) => index.entries[slot]?.terms ?? []))) {
    const kept = term.slots.flatMap((slot, at) => (removed.has(slot) ? [] : [at]))
    if (kept.length === 0) index.terms.delete(term.stem)
    term.weights = kept.map((at) => term.weights[at] as number)
    term.slots = kept.map((at) => term.slots[at] as number)
    term.named = term.named.filter((slot) => !removed.has(slot))
  }
  for (const slot of slots) {
    for (const spelling of index.entries[slot]?.spellings ?? [])
      if (--spelling.count === 0) index.spellings.delete(spelling.word)
    index.entries[slot] = undefined
    index.free.push(slot)
  }
  index.servers.delete(server)
}

/** Returns the tools that match a query, best first. Equal scores are ordered by the names of server and tool. */
export function search(index: SearchIndex, query: string, options: SearchOptions): readonly SearchHit[] {
  const searched = searchedBy(index, options)
  const { concepts, isTask } = readQuery(searched, query)
  const size = index.entries.length
  const scores = new Float64Array(size)
  const best = new Float64Array(size)
  const sums = new Float64Array(size)
  const named = new Float64Array(size)
  const asked = new Map<Term, number>()
  for (const { terms, importance } of concepts) {
    const touched: number[] = []
    let most = Number.POSITIVE_INFINITY
    for (const [stem, likeness] of terms) {
      const term = index.terms.get(stem)
      if (term === undefined) continue
      const rarity = rarityOf(searched, term)
      if (likeness === 1) most = rarity * SYNONYM_RARITY
      asked.set(term, Math.max(likeness, asked.get(term) ?? 0))
      const factor = likeness * Math.min(rarity, most)
      const { slots, weights } = term
      for (let at = 0; at < slots.length; at++) {
        const slot = slots[at] as number
        const score = factor * (weights[at] as number)
        const known = best[slot] as number
        if (known === 0) touched.push(slot)
        if (score > known) best[slot] = score
        sums[slot] = (sums[slot] as number) + score
      }
    }
    for (const slot of touched) {
      const [first, sum] = [best[slot] as number, sums[slot] as number]
      scores[slot] = (scores[slot] as number) + importance * (first + FURTHER_TERMS * (sum - first))
      best[slot] = 0
      sums[slot] = 0
    }
  }
  for (const [term, likeness] of asked) for (const slot of term.named) named[slot] = (named[slot] as number) + likeness
  const gain = isTask ? NAMED_IN_TASK : NAMED
  for (let slot = 0; slot < size; slot++) {
    if (searched.visible[slot] === 0) scores[slot] = 0
    if (scores[slot] === 0) continue
    const { named: words } = index.entries[slot] as Entry
    scores[slot] = (scores[slot] as number) * (1 + (gain * (named[slot] as number)) / words)
  }
  if (isTask) favorServers(index, scores)
  const hits: Hit[] = []
  for (let slot = 0; slot < size; slot++) {
    const score = scores[slot] as number
    if (score === 0) continue
    const entry = index.entries[slot] as Entry
    const last = hits.at(-1)
    if (hits.length === options.limit && (last === undefined || score < last.score)) continue
    const hit = { entry, score }
    let at = hits.length
    while (at > 0 && byScore(hit, hits[at - 1] as Hit) < 0) at--
    hits.splice(at, 0, hit)
    if (hits.length > options.limit) hits.pop()
  }
  return hits.map(({ entry, score }) => ({
    server: entry.server,
    tool: entry.tool,
    score,
    matched: fieldsOf(entry, asked),
  }))
}

// ---

/** Tools that are indexed between two chances to let others work. */
const TOOLS_PER_PIECE = 200

type Entry = {
  readonly server: string
  readonly tool: string
  readonly terms: readonly Term[]
  /** The fields that contain each term, as bits. */
  readonly fields: readonly number[]
  readonly spellings: readonly IndexedSpelling[]
  /** The number of terms in the tool's name that the server's name does not have. */
  readonly named: number
}
/** The tools that have a term: parallel arrays, because there are hundreds of thousands of pairs. */
type Term = {
  readonly stem: string
  slots: number[]
  /** The saturated weight of the term in each of the tools. */
  weights: number[]
  /** The tools that have it in their names. */
  named: number[]
  /** The slot of the tool that is being added, and the sums for it. Plain members, because an object per tool is slow. */
  adding: number
  weight: number
  fields: number
}
type IndexedSpelling = Spelling & { readonly term: Term; count: number; adding: number }
type Hit = { readonly entry: Entry; readonly score: number }
/** The part of the index that a query searches. `visible` has a 1 for each visible slot. */
type Searched = {
  readonly index: SearchIndex
  readonly visible: Uint8Array
  readonly count: number
  readonly all: boolean
}
/** A word or phrase of the query: the terms for it, each with its likeness. */
type Concept = { readonly terms: ReadonlyMap<string, number>; readonly importance: number }

const SATURATION = 1.2
/** The stem of all stop words. */
const STOP = ""
/** The part that the further terms for a word count, beside the best term. */
const FURTHER_TERMS = 0.3
/** The limit of a synonym's rarity, as a multiple of the word's rarity if tools have the word: rare synonyms are no better. */
const SYNONYM_RARITY = 1.15
/** The gain of a tool if the query contains all words of its name. */
const NAMED = 0.5
/** The importance of a word that belongs to a phrase of the table, and of a word that fits anything. */
const PHRASE_WORD = 0.3
const LIGHT_WORD = 0.6
/** The number of different words, without stop words, from which on a query is a whole task. */
const TASK_WORDS = 12
/** In a whole task: the gain of a tool whose name it contains, the importance of a light word, and the part that a synonym counts. */
const NAMED_IN_TASK = 1
const LIGHT_IN_TASK = 0.4
const SYNONYM_IN_TASK = 0.8
/** The gain of a tool in a task if the best tools of its server are the best of all, how fast it falls, and how many they are. */
const SERVER = 3
const SERVER_POWER = 1.5
const SERVER_BEST = 3
/** Stems. */
const ARTICLES: ReadonlySet<string> = new Set(["a", "an", "the", "my", "our", "this"].map(stemOf))
const MAX_QUERY = 8_000
const MAX_TERMS = 400
const MAX_TEXT = 4_000
const MAX_PARAMETERS = 64
const MAX_CORRECTIONS = 3
/** The least letters of each of two words written as one, and of each of more: short words occur within others. */
const MIN_PART = 4
const MIN_SHORT = 3
const MAX_WORD = 60
const PART_LIKENESS = 0.8

/** The texts of a tool: the weight of a word, and the usual number of words. A longer text weighs less per word. */
const TEXTS: readonly { readonly field: SearchField; readonly weight: number; readonly usual: number }[] = [
  { field: "name", weight: 3, usual: 3 },
  { field: "title", weight: 2, usual: 3 },
  { field: "hint", weight: 2, usual: 6 },
  { field: "description", weight: 1.6, usual: 9 },
  { field: "description", weight: 0.7, usual: 20 },
  { field: "parameters", weight: 0.4, usual: 15 },
  { field: "server", weight: 1.2, usual: 2 },
]

function fieldsOf({ terms, fields }: Entry, asked: ReadonlyMap<Term, number>): readonly SearchField[] {
  let bits = 0
  for (const [at, term] of terms.entries()) if (asked.has(term)) bits |= fields[at] as number
  return [...new Set(TEXTS.flatMap(({ field }, at) => ((bits & (1 << at)) === 0 ? [] : [field])))]
}

const byScore = (a: Hit, b: Hit): number =>
  b.score - a.score || compare(a.entry.server, b.entry.server) || compare(a.entry.tool, b.entry.tool)

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
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

/** Returns the inverse document frequency of a term among the visible tools. */
function rarityOf({ visible, count, all }: Searched, { slots }: Term): number {
  let holders = slots.length
  if (!all) {
    holders = 0
    for (const slot of slots) holders += visible[slot] as number
  }
  return Math.log(1 + (count - holders + 0.5) / (holders + 0.5))
}

function isVisible({ index, visible, all }: Searched, stem: string): boolean {
  const slots = index.terms.get(stem)?.slots
  return slots !== undefined && (all || slots.some((slot) => visible[slot] === 1))
}

/** Whether a visible tool has a word in this spelling. */
function hasSpelling({ index, visible, all }: Searched, word: string): boolean {
  const spelling = index.spellings.get(word)
  if (spelling === undefined || all) return spelling !== undefined
  const { slots } = spelling.term
  return slots.some((slot) => visible[slot] === 1 && index.entries[slot]?.spellings.includes(spelling) === true)
}

const isKnown = (searched: Searched, word: string): boolean =>
  searched.index.synonyms.spellings.has(word) || hasSpelling(searched, word)

/** Splits a word that is several known words written as one, into as few as possible. Returns none for any other word. */
function partsOf(searched: Searched, word: string): readonly string[] {
  if (word.length < 2 * MIN_PART || word.length > MAX_WORD) return []
  // The best parts of each beginning of the word.
  const best: (readonly string[] | undefined)[] = [[]]
  for (let end = 1; end <= word.length; end++)
    for (let start = 0; start < end; start++) {
      const [before, known] = [best[start], best[end]]
      const part = word.slice(start, end)
      if (before === undefined || (known !== undefined && known.length <= before.length + 1)) continue
      if (part.length >= MIN_SHORT && isKnown(searched, part)) best[end] = [...before, part]
    }
  const parts = best[word.length] ?? []
  const least = parts.length === 2 ? MIN_PART : MIN_SHORT
  return parts.length > 1 && parts.every((part) => part.length >= least) ? parts : []
}

/** Raises the score of each tool by those of the best tools of its server. Tools that do not match have the score 0. */
function favorServers({ servers }: SearchIndex, scores: Float64Array): void {
  const sums = [...servers.values()].map((slots) => {
    const best = slots.map((slot) => scores[slot] as number).sort((a, b) => b - a)
    return { slots, sum: best.slice(0, SERVER_BEST).reduce((sum, score) => sum + score, 0) }
  })
  const most = SERVER_BEST * scores.reduce((best, score) => Math.max(best, score), 0)
  for (const { slots, sum } of sums) {
    if (sum === 0) continue
    const factor = 1 + SERVER * (sum / most) ** SERVER_POWER
    for (const slot of slots) scores[slot] = (scores[slot] as number) * factor
  }
}

/**
 * Returns the concepts of a query, and whether it is a whole task: then no word's spelling is corrected, because the names and
 * figures of a story are no errors. Stop words count only if there are no other words.
 */
function readQuery(
  searched: Searched,
  query: string,
): { readonly concepts: readonly Concept[]; readonly isTask: boolean } {
  const { synonyms } = searched.index
  const words = wordsOf(query.slice(0, MAX_QUERY)).slice(0, MAX_TERMS)
  const stems = words.map(stemOf)
  const isTask = new Set(stems.filter((_, at) => !isStopWord(words[at] as string))).size >= TASK_WORDS
  const concepts: Concept[] = []
  const inPhrase = new Set<number>()
  for (let start = 0; start < stems.length; start++) {
    for (let length = Math.min(synonyms.longest + 1, stems.length - start); length > 1; length--) {
      const found = phraseAt(synonyms, stems.slice(start, start + length))
      if (found === undefined) continue
      // A phrase that is also written as one word counts once.
      const joined = words.slice(start, start + length).join("")
      const terms = new Map([[stemOf(joined), 1], ...found])
      concepts.push({ terms, importance: 1 })
      for (let at = start; at < start + length; at++) inPhrase.add(at)
      start += length - 1
      break
    }
  }
  for (let at = 1; at < words.length; at++) {
    const joined = `${words[at - 1]}${words[at]}`
    if ((inPhrase.has(at - 1) && inPhrase.has(at)) || !isKnown(searched, joined)) continue
    concepts.push({ terms: expand(searched, joined, stemOf(joined), isTask), importance: 1 })
    inPhrase.add(at - 1).add(at)
  }
  const light = isTask ? LIGHT_IN_TASK : LIGHT_WORD
  const hasSignificant = words.some((word, at) => !isStopWord(word) || inPhrase.has(at))
  const seen = new Set<string>()
  for (const [at, word] of words.entries()) {
    const stem = stems[at] as string
    if ((hasSignificant && isStopWord(word)) || seen.has(stem)) continue
    seen.add(stem)
    const terms = expand(searched, word, stem, isTask)
    const importance = Math.min(inPhrase.has(at) ? PHRASE_WORD : 1, isLightWord(word) ? light : 1)
    concepts.push({ terms, importance })
  }
  return { concepts, isTask }
}

/** Returns the synonyms of a phrase, which may have articles that the table leaves out: "close the bug". */
function phraseAt({ of }: Synonyms, stems: readonly string[]) {
  const exact = of.get(stems.join(" "))
  if (exact !== undefined || ARTICLES.has(stems[0] as string)) return exact
  const bare = stems.filter((stem) => !ARTICLES.has(stem))
  return bare.length > 1 && bare.length < stems.length ? of.get(bare.join(" ")) : undefined
}

/** Returns the terms for one word of the query. */
function expand(searched: Searched, word: string, stem: string, isTask: boolean): ReadonlyMap<string, number> {
  const { synonyms, spellings, otherSpellings } = searched.index
  const terms = new Map([[stem, 1]])
  const add = (from: string, factor: number) => {
    for (const [term, weight] of synonyms.of.get(from) ?? [])
      terms.set(term, Math.max(terms.get(term) ?? 0, weight * factor))
  }
  add(stem, isTask ? SYNONYM_IN_TASK : 1)
  if (isTask || isVisible(searched, stem) || synonyms.of.has(stem)) return terms
  const near = corrections(word, spellings.values()).filter((correction) => hasSpelling(searched, correction.word))
  const other = corrections(word, otherSpellings)
  const closest = Math.max(near[0]?.likeness ?? 0, other[0]?.likeness ?? 0)
  const parts = closest < PART_LIKENESS ? partsOf(searched, word) : []
  for (const part of parts) {
    terms.set(stemOf(part), PART_LIKENESS)
    add(stemOf(part), PART_LIKENESS)
  }
  if (parts.length > 0) return terms
  if (other[0]?.stem === STOP && other[0].likeness > (near[0]?.likeness ?? 0)) return new Map()
  for (const { stem: corrected, likeness } of [...near.slice(0, MAX_CORRECTIONS), ...other.slice(0, MAX_CORRECTIONS)]) {
    if (likeness < closest - 0.1) continue
    if (corrected === STOP) continue
    terms.set(corrected, Math.max(terms.get(corrected) ?? 0, likeness))
    add(corrected, likeness)
  }
  return terms
}

/** Adds a tool to the terms of its words. */
function addTool(
  index: SearchIndex,
  slot: number,
  server: string,
  serverText: string,
  serverStems: ReadonlySet<string>,
  tool: Tool,
): Entry {
  const terms: Term[] = []
  const spellings: IndexedSpelling[] = []
  const texts = textsOf(serverText, tool)
  const words: ReadWord<IndexedSpelling>[] = []
  const counted: IndexedSpelling[] = []
  for (let at = 0; at < TEXTS.length; at++) {
    const { field, weight, usual } = TEXTS[at] as (typeof TEXTS)[number]
    words.length = 0
    counted.length = 0
    let left = MAX_TEXT
    // Reading the parts by themselves takes less time than joining them.
    for (const part of texts[at] as readonly string[]) {
      if (left > 0) index.readWords(part.slice(0, left), words)
      left -= part.length + 1
    }
    if (words.length === 0) continue
    for (let one = 0; one < words.length; one++) {
      const read = words[one] as ReadWord<IndexedSpelling>
      if (!read.isStop || field === "name") counted.push(spellingOf(index, read))
    }
    const each = weight / (0.4 + (0.6 * counted.length) / usual)
    for (const spelling of counted) {
      if (spelling.adding !== slot) {
        spelling.adding = slot
        spelling.count++
        spellings.push(spelling)
      }
      const { term } = spelling
      if (term.adding !== slot) {
        term.adding = slot
        term.weight = 0
        term.fields = 0
        terms.push(term)
      }
      term.weight += each
      term.fields |= 1 << at
    }
  }
  const inName = terms.filter((term) => (term.fields & 1) === 1)
  const own = inName.filter(({ stem }) => !serverStems.has(stem))
  const named = own.length === 0 ? inName : own
  for (const term of named) term.named.push(slot)
  const fields = terms.map((term) => {
    term.slots.push(slot)
    term.weights.push((term.weight * (SATURATION + 1)) / (term.weight + SATURATION))
    term.adding = -1
    return term.fields
  })
  for (const spelling of spellings) spelling.adding = -1
  return { server, tool: tool.name, terms, fields, spellings, named: Math.max(1, named.length) }
}

/** Returns the spelling of a word in the index. One that no tool has any more may have left the index. */
function spellingOf(index: SearchIndex, read: ReadWord<IndexedSpelling>): IndexedSpelling {
  if (read.kept === undefined || read.kept.count === 0)
    read.kept = index.spellings.get(read.word) ?? addSpelling(index, read.word)
  return read.kept
}

function addSpelling(index: SearchIndex, word: string): IndexedSpelling {
  const stem = stemOf(word)
  const term = index.terms.get(stem) ?? {
    stem,
    slots: [],
    weights: [],
    named: [],
    adding: -1,
    weight: 0,
    fields: 0,
  }
  index.terms.set(stem, term)
  const spelling = { word, stem, letters: lettersOf(word), term, count: 0, adding: -1 }
  index.spellings.set(word, spelling)
  return spelling
}

/** Returns the parts of a tool's texts in the order of TEXTS. The first sentence of a description says what the tool does. */
function textsOf(server: string, tool: Tool): readonly (readonly string[])[] {
  const annotations = isObject(tool.annotations) ? tool.annotations : {}
  const meta = isObject(tool._meta) ? tool._meta : {}
  const description = text(tool.description).trim()
  const end = description.search(SENTENCE_END)
  const first = end < 0 ? description : description.slice(0, end)
  return [
    [tool.name],
    [text(tool.title) || text(annotations.title)],
    [text(meta["anthropic/searchHint"])],
    [first],
    [description.slice(first.length)],
    parameterTexts(tool.inputSchema),
    [server],
  ]
}

const SENTENCE_END = /[.!?:](?:\s|$)|\n/

const text = (value: unknown): string => (typeof value === "string" ? value : "")

function parameterTexts(schema: unknown): readonly string[] {
  const texts: string[] = []
  for (const [name, value] of parametersOf(schema).properties) {
    texts.push(name, isObject(value) ? text(value.description) : "")
    if (texts.length === 2 * MAX_PARAMETERS) break
  }
  return texts
}
