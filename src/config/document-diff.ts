/** The difference of two versions of a document, for people. Pure. */
import { diffLines } from "../lib/line-diff.ts"
import { createRedactor } from "../lib/redact.ts"
import { parseDocument } from "./document.ts"

/** Returns the differences of two texts as hunks, with the lines around each and without secrets. */
export function formatChange(before: string, after: string, secrets: readonly string[]): string {
  const { maskCredentials } = createRedactor(secrets)
  const cut = (line: string) => (line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line)
  const hunks = hunksOf(before, after)
  // The change may be beyond the cut of a long line: then both documents are compared with one member per line.
  const [old, now] = hunks.some((line) => line.length > MAX_LINE) ? [laidOut(before), laidOut(after)] : []
  return (old === undefined || now === undefined ? hunks : hunksOf(old, now))
    .map((line) => cut(maskCredentials(line)))
    .join("\n")
}

// ---

/** Lines around a difference. */
const CONTEXT = 2
const MARKS = { same: " ", removed: "-", added: "+" } as const
/** Some clients keep whole conversations on one line. */
const MAX_LINE = 160

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
