/** Synonyms for the search over tools, from the table in synonyms.txt: other words for a word or a phrase of a query. */
import { stemOf } from "./search-words.ts"
import table from "./synonyms.txt" with { type: "text" }

/** The stem of another word for a word; `weight` is its likeness to that word (1: the same). */
type Synonym = { readonly term: string; readonly weight: number }

export type Synonyms = {
  /** The synonyms by stem, or for a phrase by its stems with spaces between. */
  readonly of: ReadonlyMap<string, readonly Synonym[]>
  /** The stem of each word of the table, by its spelling, so that known words do not count as misspelt. */
  readonly spellings: ReadonlyMap<string, string>
  /** The number of words in the longest phrase. */
  readonly longest: number
}

/** Reads the table. Takes milliseconds: an index reads it once. */
export function readSynonyms(text: string = table): Synonyms {
  const of = new Map<string, Map<string, number>>()
  const spellings = new Map<string, string>()
  let longest = 1
  const keyOf = (entry: string): string => {
    const words = entry.split("_")
    longest = Math.max(longest, words.length)
    return words
      .map((word) => {
        const stem = stemOf(word)
        if (!spellings.has(word)) spellings.set(word, stem)
        return stem
      })
      .join(" ")
  }
  const add = (key: string, term: string, weight: number) => {
    if (key === term || term.includes(" ")) return
    const terms = of.get(key) ?? new Map<string, number>()
    of.set(key, terms)
    terms.set(term, Math.max(weight, terms.get(term) ?? 0))
  }
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue
    const [left = [], right] = line.split(" > ").map((side) => side.trim().split(/\s+/).map(keyOf))
    for (const key of left) {
      for (const term of right ?? left) add(key, term, right === undefined ? GROUP_WEIGHT : DIRECTED_WEIGHT)
    }
  }
  return {
    of: new Map([...of].map(([key, terms]) => [key, [...terms].map(([term, weight]) => ({ term, weight }))])),
    spellings,
    longest,
  }
}

// ---

const GROUP_WEIGHT = 0.55
const DIRECTED_WEIGHT = 0.75
