/** Finds the known word nearest to an unknown one, for "did you mean". In-house, because the work on hostile input must be bounded. */
import { RequestError } from "./errors.ts"

/** Returns the member of `known` closest to `word`, or undefined unless one is within two edits or a third of its letters. */
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

/** Returns the end of a message about an unknown word: the nearest known one, or nothing. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const near = nearest(word, known)
  return near === undefined ? "" : `; did you mean ${near}?`
}

/** Returns the error for an unknown name. `what` is the kind of thing, such as "server". */
export const unknownNameError = (what: string, name: string, known: Iterable<string>): RequestError =>
  new RequestError("not_found", `no ${what} is named ${name}${didYouMean(name, known)}`)

// ---

/** Bounds the work for hostile input. */
const MAX_LENGTH = 128

/** Returns the Levenshtein distance, or `limit` as soon as it is certain to be at least that. */
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
