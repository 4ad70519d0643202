/** Finds the known word nearest to an unknown one, for "did you mean". In-house, because the work on hostile input must be bounded. */
import { RequestError } from "./errors.ts"

/**
 * Returns the member of `known` closest to `word`, or undefined if none is close enough: at most a third of the letters of the
 * longer word may be wrong, and one of up to five. A wrong guess is worse than none.
 */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined
  let bestDistance = Number.POSITIVE_INFINITY
  if (word === "") return undefined
  const lower = word.toLowerCase().slice(0, MAX_LENGTH)
  for (const candidate of known) {
    const most = Math.max(1, Math.floor(Math.max(candidate.length, word.length) / 3))
    const limit = Math.min(bestDistance, most + 1)
    if (Math.abs(candidate.length - word.length) >= limit) continue
    const distance = editDistance(lower, candidate.toLowerCase().slice(0, MAX_LENGTH), limit)
    if (distance < limit) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

/** Returns the end of a message about an unknown word: the nearest known one, or nothing. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const near = nearest(word, known)
  return near === undefined ? "" : `; did you mean ${near}?`
}

/** Returns the error for an unknown name. `kind` is the kind of thing, such as "server". */
export const unknownNameError = (kind: string, name: string, known: Iterable<string>): RequestError =>
  new RequestError("not_found", `no ${kind} is named ${name}${didYouMean(name, known)}`)

// ---

/** Bounds the work for hostile input. */
const MAX_LENGTH = 128

/**
 * Returns the edit distance (optimal string alignment: two swapped letters are one edit), or `limit` as soon as it is certain
 * to be at least that.
 */
function editDistance(a: string, b: string, limit: number): number {
  let before: readonly number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const swap = swapped ? (before[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + cost, swap))
    }
    // A swap reaches back two rows.
    if (Math.min(...row) >= limit && Math.min(...next) >= limit) return limit
    before = row
    row = next
  }
  return row[b.length] ?? limit
}
