/**
 * Redaction of text that leaves the process, in three strengths: `maskKnown` hides known secret values; `maskCredentials`, for
 * the log, also hides whatever looks like a credential and keeps paths and addresses, which operators need; `redactAll`, for
 * health bodies and clients, hides paths and addresses too. spec: Detail levels, Sanitization.
 */

import { CREDENTIALS, HIDDEN, type Pattern, PLACES } from "./redaction-patterns.ts"
import { percentDecoded } from "./text.ts"

/** Functions that hide parts of a text; see above. */
export type Redactor = {
  maskKnown(text: string): string
  maskCredentials(text: string): string
  redactAll(text: string): string
}

/** Creates a redactor that also hides these secret values, in all their encodings. */
export function createRedactor(secrets: Iterable<string>): Redactor {
  const known = secretsPattern(secrets)
  const maskKnown = (text: string) => (known === undefined ? text : text.replace(known, HIDDEN))
  return {
    maskKnown,
    maskCredentials: (text) => apply(CREDENTIALS, maskKnown(text)),
    redactAll: (text) => apply(PLACES, apply(CREDENTIALS, unescapePercent(text.slice(0, MAX_LENGTH), maskKnown))),
  }
}

/** Creates a redactor that hides the current secrets of its sources. It works before it has sources. */
export function createLiveRedactor(): {
  cleaner(): Redactor
  /** Adds sources. A source must return a new array when its secrets change. */
  follow(sources: readonly (() => readonly string[])[]): void
} {
  let sources: readonly (() => readonly string[])[] = []
  let known: readonly (readonly string[])[] = []
  let current = createRedactor([])
  const isChanged = (secrets: () => readonly string[], at: number) => {
    const now = secrets()
    const before = known[at]
    // A source may build its array each time. A new pattern for each line costs more than the rest of a call.
    return now !== before && (now.length !== before?.length || now.some((secret, index) => secret !== before[index]))
  }
  return {
    cleaner() {
      // Builds nothing while nothing has changed: the log calls this for each line.
      if (sources.some(isChanged)) {
        known = sources.map((secrets) => secrets())
        current = createRedactor(known.flat())
      }
      return current
    },
    follow(added) {
      sources = [...sources, ...added]
    },
  }
}

/** Returns the start and the end of each part of a text that is hidden in its masked form; none from where the two do not fit. */
export function hiddenSpans(text: string, masked: string): readonly (readonly [start: number, end: number])[] {
  const [first = "", ...others] = masked.split(HIDDEN)
  if (!text.startsWith(first)) return []
  const spans: (readonly [number, number])[] = []
  let start = first.length
  for (const [index, piece] of others.entries()) {
    const isLast = index === others.length - 1
    const end = isLast ? text.length - piece.length : text.indexOf(piece, start + 1)
    if (end <= start || !text.startsWith(piece, end)) return spans
    spans.push([start, end])
    start = end + piece.length
  }
  return spans
}

/** Whether JSON text has one of these secrets, as it is. */
export const repeatsSecret = (json: string, secrets: readonly string[]): boolean =>
  secrets.some((secret) => secret.length >= MIN_SECRET && json.includes(JSON.stringify(secret).slice(1, -1)))

/** Returns the names of the patterns, for the test that pins them. */
export const patternNames = (): readonly string[] => [...CREDENTIALS, ...PLACES].map(({ name }) => name)

// ---

const MAX_LENGTH = 64 * 1024
const MIN_SECRET = 6
/** A shorter line of a secret, such as a brace, occurs in other texts. */
const MIN_LINE = 12
const MAX_LINES = 200

function apply(patterns: readonly Pattern[], text: string): string {
  return patterns.reduce(
    (cleaned, { find, put, needs }) => (needs?.test(cleaned) === false ? cleaned : cleaned.replace(find, put)),
    text,
  )
}

/** Undoes percent-encoding, three times at most; `hide` sees the text of each round. */
function unescapePercent(text: string, hide: (text: string) => string): string {
  let decoded = hide(text)
  for (let rounds = 0; rounds < 3 && decoded.includes("%"); rounds++) {
    const next = decoded
      .replace(/%(?:[2-6][0-9a-f]|7[0-9a-e])/gi, (code) => String.fromCharCode(Number.parseInt(code.slice(1), 16)))
      .replace(/(?:%[89a-f][0-9a-f])+/gi, percentDecoded)
    if (next === decoded) break
    decoded = hide(next)
  }
  return decoded
}

/** Returns the lines of a secret of several lines, such as a private key: a log has each by itself. */
function linesOf(secret: string): readonly string[] {
  const lines = secret.split(/\r?\n/).slice(0, MAX_LINES)
  return lines.length === 1 ? [] : lines.map((line) => line.trim()).filter((line) => line.length >= MIN_LINE)
}

/** Returns JSON text in which characters beyond ASCII are escaped, as many languages write it. */
const asAscii = (json: string): string =>
  json.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)

/** Returns one RegExp for all secrets in all encodings, the longest first. */
function secretsPattern(secrets: Iterable<string>): RegExp | undefined {
  const spellings = new Set<string>()
  for (const secret of secrets) {
    if (secret.length < MIN_SECRET) continue
    for (const line of linesOf(secret)) spellings.add(line)
    const bytes = Buffer.from(secret)
    const quoted = JSON.stringify(secret).slice(1, -1)
    const encoded = encodeURIComponent(secret.toWellFormed())
    for (const spelling of [
      secret,
      quoted,
      asAscii(quoted),
      // JSON within JSON.
      JSON.stringify(quoted).slice(1, -1),
      asAscii(JSON.stringify(quoted).slice(1, -1)),
      JSON.stringify(asAscii(quoted)).slice(1, -1),
      secret.replaceAll(" ", "+"),
      encoded,
      encoded.replaceAll("%20", "+"),
      encoded.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
      bytes.toString("base64"),
      bytes.toString("base64url"),
      bytes.toString("hex"),
    ])
      spellings.add(spelling)
  }
  if (spellings.size === 0) return undefined
  const sorted = [...spellings].sort((a, b) => b.length - a.length)
  // A text may have been normalized: hosts are lower-cased, lines are wrapped.
  const patterns = sorted.map((spelling) => RegExp.escape(spelling).replace(/(?:\\x20| )+/g, "\\s+"))
  return new RegExp(patterns.join("|"), "gi")
}
