/** Finds the known word nearest to an unknown one, for "did you mean". In-house, because the work on hostile input must be bounded. */
import { editDistance, editRows } from "./edit-distance.ts"
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
  const rows = editRows(MAX_LENGTH)
  for (const candidate of known) {
    const most = Math.max(1, Math.floor(Math.max(candidate.length, word.length) / 3))
    const limit = Math.min(bestDistance, most + 1)
    if (Math.abs(candidate.length - word.length) >= limit) continue
    const distance = editDistance(lower, candidate.toLowerCase().slice(0, MAX_LENGTH), limit - 1, rows)
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
