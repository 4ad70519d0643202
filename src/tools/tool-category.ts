/** Which of svc's own tools are offered, as `--internal-tools` says it. The tools themselves are loaded where one is. */
import { didYouMean } from "../lib/nearest.ts"

export const CATEGORIES = ["discovery", "installation", "management"] as const
export type ToolCategory = (typeof CATEGORIES)[number]

/** A category, `safe` for the tools that change nothing, or `all`. */
export type ToolChoice = ToolCategory | "safe" | "all"

/** The choices in a text, or what is wrong with it. */
export function parseToolChoices(text: string): readonly ToolChoice[] | string {
  const words = text.split(",").flatMap((word) => (word.trim() === "" ? [] : [word.trim()]))
  const choices: ToolChoice[] = []
  for (const word of words) {
    const found = KNOWN.find((choice) => choice === word)
    if (found === undefined) return `must be ${KNOWN.join(", ")}, not ${word}${didYouMean(word, KNOWN)}`
    choices.push(found)
  }
  return choices
}

// ---

const KNOWN: readonly ToolChoice[] = ["all", "safe", ...CATEGORIES]
