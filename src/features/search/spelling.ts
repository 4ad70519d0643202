/** Corrects misspelt words: finds the known words nearest to an unknown one. */
import { editDistance, editRows } from "../../lib/edit-distance.ts"

/** A known word, with the set of its letters as bits, which rules most words out before their distance is computed. */
export type Spelling = { readonly word: string; readonly stem: string; readonly letters: number }

export type Correction = { readonly word: string; readonly stem: string; readonly likeness: number }

/** Returns the letters of a word as bits. */
export function lettersOf(word: string): number {
  let bits = 0
  for (let at = 0; at < word.length; at++) bits |= 1 << (word.charCodeAt(at) & 31)
  return bits
}

/**
 * Returns the known words of which a word may be a misspelling, nearest first; equally near words in alphabetical order.
 * Allows one edit in four letters, two in seven, three in ten; a swap of neighbors is one edit (Damerau). Also finds known words
 * that the word may abbreviate: `mongo` finds `mongodb`. A short unknown word is usually a word of its own, not a misspelling.
 */
export function corrections(word: string, known: Iterable<Spelling>): readonly Correction[] {
  const limit = limitOf(word.length)
  if (limit === 0 || word.length > MAX_LENGTH) return []
  const letters = lettersOf(word)
  // A known word may be longer by as many letters as the limit allows.
  const rows = editRows(MAX_LENGTH + limit)
  const found: Correction[] = []
  for (const { word: candidate, stem, letters: others } of known) {
    const missing = letters & ~others
    const more = word.length > SHORT ? 1 : MORE_LETTERS
    if (missing === 0 && candidate.length >= word.length + more && candidate.startsWith(word)) {
      found.push({ word: candidate, stem, likeness: PREFIX_LIKENESS })
      continue
    }
    if (Math.abs(candidate.length - word.length) > limit || candidate.length < 3) continue
    if (bitCount(missing) > limit || bitCount(others & ~letters) > limit) continue
    const distance = editDistance(word, candidate, limit, rows)
    if (distance > limit) continue
    // In a short word, another letter makes another word: `milk` is not a misspelling of `mile`.
    if (word.length <= SHORT && candidate.length === word.length && letters !== others) continue
    const likeness = 1 - distance / Math.max(word.length, candidate.length) - (word[0] === candidate[0] ? 0 : 0.12)
    found.push({ word: candidate, stem, likeness })
  }
  return found.sort((a, b) => b.likeness - a.likeness || (a.word < b.word ? -1 : 1))
}

// ---

const MAX_LENGTH = 40
const PREFIX_LIKENESS = 0.75
const SHORT = 4
/** Letters that an abbreviation of a short word must save: `repo` abbreviates `repository`, but `dock` not `docker`. */
const MORE_LETTERS = 3

function limitOf(length: number): number {
  if (length < 4) return 0
  if (length < 7) return 1
  return length < 10 ? 2 : 3
}

/** Counts the bits of a 32-bit integer in parallel: by twos, fours, bytes. */
function bitCount(bits: number): number {
  const twos = bits - ((bits >>> 1) & 0x55555555)
  const fours = (twos & 0x33333333) + ((twos >>> 2) & 0x33333333)
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}
