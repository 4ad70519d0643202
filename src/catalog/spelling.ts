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
 * Returns the known words that a word may be a misspelling of, nearest first; equally near ones in alphabetical order.
 * One edit is allowed in four letters, two in six, three in ten; a swap of neighbors is one edit (Damerau).
 */
export function corrections(word: string, known: Iterable<Spelling>): readonly Correction[] {
  const limit = limitOf(word.length)
  if (limit === 0 || word.length > MAX_LENGTH) return []
  const letters = lettersOf(word)
  const found: Correction[] = []
  for (const { word: candidate, stem, letters: others } of known) {
    if (Math.abs(candidate.length - word.length) > limit || candidate.length < 3) continue
    if (bitCount(letters & ~others) > limit || bitCount(others & ~letters) > limit) continue
    const distance = editDistance(word, candidate, limit)
    if (distance > limit) continue
    const likeness = 1 - distance / Math.max(word.length, candidate.length) - (word[0] === candidate[0] ? 0 : 0.12)
    found.push({ word: candidate, stem, likeness })
  }
  return found.sort((a, b) => b.likeness - a.likeness || (a.word < b.word ? -1 : 1))
}

// ---

const MAX_LENGTH = 40

function limitOf(length: number): number {
  if (length < 4) return 0
  if (length < 6) return 1
  return length < 10 ? 2 : 3
}

function bitCount(bits: number): number {
  let count = 0
  for (let rest = bits; rest !== 0; rest &= rest - 1) count++
  return count
}

/** Returns the optimal string alignment distance, or more than `limit` as soon as it is certain to exceed it. */
function editDistance(a: string, b: string, limit: number): number {
  let before: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    let least = i
    for (let j = 1; j <= b.length; j++) {
      const same = a.charCodeAt(i - 1) === b.charCodeAt(j - 1)
      let value = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (same ? 0 : 1))
      if (i > 1 && j > 1 && a.charCodeAt(i - 1) === b.charCodeAt(j - 2) && a.charCodeAt(i - 2) === b.charCodeAt(j - 1))
        value = Math.min(value, (before[j - 2] ?? 0) + 1)
      next.push(value)
      if (value < least) least = value
    }
    if (least > limit) return limit + 1
    before = row
    row = next
  }
  return row[b.length] ?? limit + 1
}
