/** Fingerprints of tools, which show that a tool has changed, and the check for invisible characters in its texts. */
import { digest } from "../lib/digest.ts"
import { canonical, withDoubles } from "../lib/json.ts"
import type { ListingEntry, Tool } from "./listing.ts"

/**
 * Returns a digest (32 hexadecimal digits) of all that a model reads of a tool: name, title, description, schemas and
 * annotations. The order of members and the spelling of numbers do not change it.
 */
export const fingerprintOf = (tool: Tool): string =>
  digest(canonical(withDoubles(Object.values(definitionOf(tool)).map((part) => part ?? null))), 32)

/** Returns the members of a tool that a model reads. Their order is part of its fingerprint. */
export const definitionOf = ({
  name,
  title,
  description,
  inputSchema,
  outputSchema,
  annotations,
}: Tool): ListingEntry => ({ name, title, description, inputSchema, outputSchema, annotations })

/** Whether a text that a model reads of a tool holds invisible characters. */
export const isSuspicious = (tool: Tool): boolean =>
  stringsOf(Object.values(definitionOf(tool)), MAX_DEPTH).some((text) => INVISIBLE.test(text))

// ---

/** Levels of nesting, as many as a frame may have. */
const MAX_DEPTH = 512

/**
 * Characters that a model reads and a person does not see: controls (except tab and line breaks), zero-width and
 * bidirectional marks, variation selectors that belong to no emoji, and tags.
 */
const INVISIBLE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex lint/suspicious/noMisleadingCharacterClass: the pattern matches them
  /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]/u

function stringsOf(value: unknown, depth: number): readonly string[] {
  if (typeof value === "string") return [value]
  if (depth === 0 || typeof value !== "object" || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [key, ...stringsOf(inner, depth - 1)])
}
