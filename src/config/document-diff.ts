/** The difference of two versions of a document, for people. Pure. */
import { diffLines } from "../lib/line-diff.ts"
import { createRedactor, hiddenSpans } from "../lib/redact.ts"
import { HIDDEN } from "../lib/redaction-patterns.ts"
import { parseDocument } from "./document.ts"
import { isOnlyReferences, partsOf } from "./substitution.ts"

/** Returns the differences of two texts as hunks, with the lines around each and without secrets. References are shown. */
export function formatChange(before: string, after: string, secrets: readonly string[]): string {
  const { maskCredentials } = createRedactor(secrets)
  const cut = (line: string) => (line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line)
  const hunks = hunksOf(before, after)
  // The change may be beyond the cut of a long line: then both documents are compared with one member per line.
  const [old, now] = hunks.some((line) => line.length > MAX_LINE) ? [laidOut(before), laidOut(after)] : []
  return (old === undefined || now === undefined ? hunks : hunksOf(old, now))
    .map((line) => cut(withoutSecrets(line, maskCredentials)))
    .join("\n")
}

// ---

/** Lines around a difference. */
const CONTEXT = 2
const MARKS = { same: " ", removed: "-", added: "+" } as const
/** Some clients keep whole conversations on one line. */
const MAX_LINE = 160

/** Masks a line, except references: they only say where a secret is. */
function withoutSecrets(line: string, mask: (text: string) => string): string {
  const masked = mask(line)
  const spans = hiddenSpans(line, masked)
  // The mask has changed more than it has hidden.
  if (spans.length !== masked.split(HIDDEN).length - 1) return masked
  const ends = [0, ...spans.map(([, end]) => end)]
  const shown = spans.map(
    ([start, end], at) => line.slice(ends[at], start) + onlyReferences(line.slice(start, end), mask),
  )
  return shown.join("") + line.slice(ends.at(-1))
}

/** Masks a text that is hidden, except the references in it. */
function onlyReferences(text: string, mask: (text: string) => string): string {
  // A command may have a secret among its words.
  const written = (reference: string) => (reference.includes("${cmd:") ? mask(reference) : reference)
  if (isOnlyReferences(text)) return written(text)
  return partsOf(text)
    .map((part) => {
      if (part.kind === "text" && /^[:/@]$/.test(part.text)) return part.text
      if (part.kind !== "reference") return HIDDEN
      return part.fallback === undefined ? written(part.text) : `\${${part.name}:-${HIDDEN}}`
    })
    .join("")
}

const linesOf = (text: string): readonly string[] => (text === "" ? [] : text.replace(/\r?\n$/, "").split(/\r?\n/))

/** Returns a JSON document with a line for each member; undefined for one of another format. */
function laidOut(text: string): string | undefined {
  try {
    return text.trim() === "" ? "" : JSON.stringify(parseDocument(text, "").value, null, 2)
  } catch {
    return undefined
  }
}

/** Returns the changed lines with the lines around them, in groups; each begins with its line number in the old text. */
function hunksOf(before: string, after: string): readonly string[] {
  const diff = diffLines(linesOf(before), linesOf(after))
  const isChanged = (at: number) => diff[at] !== undefined && diff[at].kind !== "same"
  const isNear = (at: number) => Array.from({ length: 2 * CONTEXT + 1 }, (_, by) => at + by - CONTEXT).some(isChanged)
  let line = 1
  return diff.flatMap(({ kind, text }, at) => {
    const shown = isNear(at) ? [`${MARKS[kind]} ${text}`] : []
    const head = shown.length > 0 && (at === 0 || !isNear(at - 1)) ? [`@@ line ${line} @@`] : []
    if (kind !== "added") line++
    return [...head, ...shown]
  })
}
