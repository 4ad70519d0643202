/**
 * Warns of what clients cut or refuse: they cut long descriptions without a word, refuse long names, and choose badly from
 * long lists and among tools without a description.
 */
import type { Tool } from "./listing.ts"

/** The most characters of a description that common clients show a model. */
export const MAX_DESCRIPTION = 2048
/** The most characters of a tool's name that the APIs of models accept. */
const MAX_NAME = 64
/** The most tools that common clients take from all servers together. */
const MAX_LISTED = 100

/** Returns warnings about the offer of one server, whose tools and prompts clients see under these names. */
export function limitWarnings(tools: readonly Tool[], names: readonly string[]): readonly string[] {
  const described = tools.map(({ name, description }) => ({
    name,
    length: typeof description === "string" ? description.trim().length : 0,
  }))
  return [
    ...longDescriptions(described.flatMap(({ name, length }) => (length > MAX_DESCRIPTION ? [name] : []))),
    ...listed(
      described.flatMap(({ name, length }) => (length === 0 ? [name] : [])),
      (which) => `tools without a description, which models seldom choose: ${which}`,
    ),
    ...longNames(names),
  ]
}

/** Returns the warning about descriptions of these tools, if there are any. */
export const longDescriptions = (tools: readonly string[]): readonly string[] =>
  listed(tools, (which) => `descriptions over ${MAX_DESCRIPTION} characters, which clients cut: ${which}`)

/** Returns the warning about those of the names that clients refuse, if there are any. */
export const longNames = (names: readonly string[]): readonly string[] =>
  listed(
    names.filter((name) => name.length > MAX_NAME),
    (which) =>
      `names over ${MAX_NAME} characters, which clients refuse (--max-tool-name ${MAX_NAME} shortens them): ${which}`,
  )

/** Returns the warning about the number of tools in one list, if there are too many. */
export const longList = (count: number): readonly string[] =>
  count <= MAX_LISTED
    ? []
    : [
        `a client of all servers gets ${count} tools, and many clients take at most ${MAX_LISTED}: select servers with a preset, hide tools with \`svc mcp tools disable\`, or let clients search them (/mcp?tools=search)`,
      ]

// ---

const MAX_NAMED = 3

function listed(names: readonly string[], warning: (which: string) => string): readonly string[] {
  if (names.length === 0) return []
  const more = names.length - MAX_NAMED
  return [warning(`${names.slice(0, MAX_NAMED).join(", ")}${more > 0 ? ` and ${more} more` : ""}`)]
}
