/** What makes a tool the same tool, and what in its words a person would not see. */
import { digest } from "../lib/digest.ts"
import { canonical, withDoubles } from "../lib/json.ts"
import type { Tool } from "./listing.ts"

/** Stands for all that a model is told of a tool: name, title, description, schemas and annotations, in whatever order. */
export const fingerprintOf = (tool: Tool): string =>
  digest(canonical(withDoubles(toldOf(tool).map((part) => part ?? null))), 32)

/** Whether what a model is told of a tool holds characters that nobody sees. */
export const isSuspicious = (tool: Tool): boolean => textsOf(toldOf(tool), MAX_DEPTH).some((text) => UNSEEN.test(text))

// ---

const toldOf = ({ name, title, description, inputSchema, outputSchema, annotations }: Tool): readonly unknown[] => [
  name,
  title,
  description,
  inputSchema,
  outputSchema,
  annotations,
]

/** As deep as a frame may be. */
const MAX_DEPTH = 512

/**
 * Controls but for tab and line breaks, zero-width and bidirectional marks, variation selectors of no emoji, and tags: text
 * that a model reads and a person does not.
 */
const UNSEEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex lint/suspicious/noMisleadingCharacterClass: they are what is looked for
  /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]/u

function textsOf(value: unknown, depth: number): readonly string[] {
  if (typeof value === "string") return [value]
  if (depth === 0 || typeof value !== "object" || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [key, ...textsOf(inner, depth - 1)])
}
