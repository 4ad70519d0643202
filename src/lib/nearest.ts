/** The nearest known word to one that is not known, for "did you mean". */
import { RequestError } from "./errors.ts"

/** The member of `known` closest to `word`, or undefined when none is near: two slips, or a third of its letters. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined
  let bestDistance = (word.length <= 3 ? 1 : Math.max(2, Math.floor(word.length / 3))) + 1
  if (word === "") return undefined
  const lower = word.toLowerCase().slice(0, MAX_LENGTH)
  for (const candidate of known) {
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue
    const distance = editDistance(lower, candidate.toLowerCase().slice(0, MAX_LENGTH), bestDistance)
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

/** What a message about a word that is not known ends with: the nearest one that is, or nothing. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const near = nearest(word, known)
  return near === undefined ? "" : `; did you mean ${near}?`
}

/** For a name that nothing of its kind has. `what` is the kind. */
export const unknownNameError = (what: string, name: string, known: Iterable<string>): RequestError =>
  new RequestError("not_found", `No ${what} is named ${name}${didYouMean(name, known)}`)

// ---

/** Bounds the work on hostile input. */
const MAX_LENGTH = 128

/** Levenshtein distance, or `limit` as soon as it is certain to be at least that. */
function editDistance(a: string, b: string, limit: number): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    let least = i
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1
      const value = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + cost)
      next.push(value)
      if (value < least) least = value
    }
    if (least >= limit) return limit
    row = next
  }
  return row[b.length] ?? limit
}
