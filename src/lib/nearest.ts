/** Finds the known word nearest to an unknown one, for "did you mean". In-house, because the work on hostile input must be bounded. */
import { editDistance, editRows } from "./edit-distance.ts"
import { RequestError } from "./errors.ts"
import { cutText } from "./text.ts"

/**
 * Returns the member of `known` closest to `word`, or undefined if none is close enough: at most a third of the letters of the
 * longer word may be wrong, one of two to five, and none of one. A wrong guess is worse than none.
 */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined
  let bestDistance = Number.POSITIVE_INFINITY
  if (word === "") return undefined
  const lower = word.toLowerCase().slice(0, MAX_LENGTH)
  const rows = editRows(MAX_LENGTH)
  for (const candidate of known) {
    const longest = Math.max(candidate.length, word.length)
    const most = longest === 1 ? 0 : Math.max(1, Math.floor(longest / 3))
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

/**
 * Returns the error for an unknown name, with a next step: the nearest known name, or the known names, or the command that
 * lists them if they are many. `kind` is the kind of thing, such as "server". Not for clients, which may not learn all names.
 */
export const unknownNameError = (kind: string, name: string, known: Iterable<string>): RequestError =>
  new RequestError("not_found", `no ${kind} is named ${name}${orKnown(kind, name, known)}`)

/** Returns the end of a message about an unknown name, as `unknownNameError` has it. */
export function orKnown(kind: string, name: string, known: Iterable<string>): string {
  const names = [...new Set(known)]
  const near = didYouMean(name, names)
  if (near !== "") return near
  const [only] = names
  if (only === undefined) return "; there are none yet"
  if (names.length === 1) return `; the only one is ${shown(only)}`
  const command = LISTED_BY[kind]
  if (names.length <= MAX_NAMES || command === undefined) {
    const rest = names.length - MAX_NAMES
    const first = names.slice(0, MAX_NAMES).map(shown)
    return rest > 0
      ? `; the names are ${first.join(", ")} and ${rest} more`
      : `; the names are ${first.slice(0, -1).join(", ")} and ${first.at(-1)}`
  }
  return `; \`${command}\` lists the ${names.length} names`
}

// ---

/** Bounds the work for hostile input. */
const MAX_LENGTH = 128

/** The most names that a message contains. */
const MAX_NAMES = 8

/** The commands that list all names of a kind. */
const LISTED_BY: Readonly<Record<string, string>> = {
  server: "svc mcp list",
  template: "svc mcp list",
  preset: "svc preset list",
  registry: "svc registry list",
  token: "svc auth token list",
}

const shown = (name: string): string => cutText(name, 60)
