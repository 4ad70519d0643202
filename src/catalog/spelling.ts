/** Corrects misspelt words: finds the known words nearest to an unknown one. */

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
  const rows = emptyRows()
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

type Rows = [before: Int32Array, last: Int32Array, next: Int32Array]

const emptyRows = (): Rows => [
  new Int32Array(MAX_LENGTH + 4),
  new Int32Array(MAX_LENGTH + 4),
  new Int32Array(MAX_LENGTH + 4),
]

/** Returns the optimal string alignment distance, or more than `limit` as soon as it is certain to exceed it. */
function editDistance(a: string, b: string, limit: number, rows: Rows): number {
  let [before, last, next] = rows
  for (let j = 0; j <= b.length; j++) last[j] = j
  for (let i = 1; i <= a.length; i++) {
    next[0] = i
    let least = i
    const letter = a.charCodeAt(i - 1)
    for (let j = 1; j <= b.length; j++) {
      const other = b.charCodeAt(j - 1)
      let value = (last[j - 1] as number) + (letter === other ? 0 : 1)
      value = Math.min(value, (last[j] as number) + 1, (next[j - 1] as number) + 1)
      if (i > 1 && j > 1 && letter === b.charCodeAt(j - 2) && a.charCodeAt(i - 2) === other)
        value = Math.min(value, (before[j - 2] as number) + 1)
      next[j] = value
      if (value < least) least = value
    }
    if (least > limit) return limit + 1
    const spare = before
    before = last
    last = next
    next = spare
  }
  return last[b.length] as number
}
