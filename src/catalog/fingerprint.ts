/** Fingerprints of tools, which show that a tool has changed, and the check for invisible characters in its texts. */
import { digest } from "../lib/digest.ts"
import { canonical } from "../lib/json.ts"
import type { ListingEntry, Tool } from "./listing.ts"

/**
 * Returns a digest (32 hexadecimal digits) of all that a model reads of a tool: name, title, description, schemas and
 * annotations. The order of members and the spelling of numbers do not change it.
 */
export const fingerprintOf = (tool: Tool): string => digest(canonical(Object.values(definitionOf(tool)), "doubles"), 32)

/** Returns the members of a tool that a model reads. Their order is part of its fingerprint. */
export const definitionOf = ({
  name,
  title,
  description,
  inputSchema,
  outputSchema,
  annotations,
}: Tool): ListingEntry => ({ name, title, description, inputSchema, outputSchema, annotations })

/** Whether a text of a tool that a model reads contains invisible characters. */
export const isSuspicious = (tool: Tool): boolean => hasInvisible(definitionOf(tool), MAX_DEPTH)

// ---

/** Levels of nesting, as many as a frame may have. */
const MAX_DEPTH = 512

/**
 * Characters that a model reads and a user does not see: controls (except tab and line breaks), zero-width and
 * bidirectional marks, variation selectors that belong to no emoji, and tags.
 */
const INVISIBLE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex lint/suspicious/noMisleadingCharacterClass: the pattern matches them
  /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]/u

function hasInvisible(value: unknown, depth: number): boolean {
  if (typeof value === "string") return INVISIBLE.test(value)
  if (depth === 0 || typeof value !== "object" || value === null) return false
  // A loop without closures and pairs: a start looks through all tools of all servers.
  const members = value as Readonly<Record<string, unknown>>
  for (const key of Object.keys(members)) if (INVISIBLE.test(key) || hasInvisible(members[key], depth - 1)) return true
  return false
}
