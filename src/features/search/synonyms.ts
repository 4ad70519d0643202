/** Synonyms for the search over tools, from the table in synonyms.txt: other words for a word or a phrase of a query. */
import { stemOf } from "./search-words.ts"
import table from "./synonyms.txt" with { type: "text" }

export type Synonyms = {
  /**
   * The synonyms by stem, or for a phrase by its stems with spaces between: the stem of each, and its likeness to that word
   * (1: the same).
   */
  readonly of: ReadonlyMap<string, ReadonlyMap<string, number>>
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
        const known = spellings.get(word)
        if (known !== undefined) return known
        const stem = stemOf(word)
        spellings.set(word, stem)
        return stem
      })
      .join(" ")
  }
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue
    const [left = [], right] = line.split(" > ").map((side) => side.trim().split(/\s+/).map(keyOf))
    const weight = right === undefined ? GROUP_WEIGHT : DIRECTED_WEIGHT
    const words = (right ?? left).filter((term) => !term.includes(" "))
    for (const key of left) {
      const terms = of.get(key) ?? new Map<string, number>()
      for (const term of words) if (term !== key && (terms.get(term) ?? 0) < weight) terms.set(term, weight)
      if (terms.size > 0) of.set(key, terms)
    }
  }
  return { of, spellings, longest }
}

// ---

const GROUP_WEIGHT = 0.55
const DIRECTED_WEIGHT = 0.75
