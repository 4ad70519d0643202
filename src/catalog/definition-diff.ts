/** The changes in the definition of a tool, as lines for users. */
import { canonical } from "../lib/json.ts"
import { type DiffLine, diffLines } from "../lib/line-diff.ts"
import { visible } from "../lib/log.ts"
import type { Steps } from "../lib/steps.ts"
import type { ListingEntry } from "./listing.ts"

/**
 * Returns the lines of both definitions. A long text has a line for each sentence, so that an inserted sentence stands out.
 * Invisible characters are written as escapes. Takes at most `steps`, as `diffLines` does.
 */
export const diffDefinitions = (before: ListingEntry, after: ListingEntry, steps: Steps): readonly DiffLine[] =>
  diffLines(linesOf(before), linesOf(after), steps)

// ---

const SENTENCE_END = /(?<=[.!?:;]) +/

function linesOf(definition: ListingEntry): readonly string[] {
  return Object.entries(definition).flatMap(([key, value]) => {
    if (value === undefined || value === null) return []
    const lines = typeof value === "string" ? sentencesOf(value) : jsonLinesOf(value)
    // A description that gets a second sentence keeps the line of its first.
    const isShort = lines.length === 1 && key !== "description"
    return (isShort ? [`${key}: ${lines[0]}`] : [`${key}:`, ...lines.map((line) => `  ${line}`)]).map(visible)
  })
}

const sentencesOf = (text: string): readonly string[] => text.split(/\r?\n/).flatMap((line) => line.split(SENTENCE_END))

/** Returns indented JSON with sorted members, so that equal values have equal lines. */
const jsonLinesOf = (value: unknown): readonly string[] =>
  JSON.stringify(JSON.parse(canonical(value, "doubles")), null, 2).split("\n")
