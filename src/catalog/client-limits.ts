/**
 * Warns of entries that clients cut or refuse: clients silently cut long descriptions, refuse long names, and choose badly from
 * long lists and among tools without a description.
 */
import { isObject } from "../wire/message.ts"
import type { Tool } from "./listing.ts"

/** The limit of a description, in characters, that common clients show to a model. */
export const MAX_DESCRIPTION = 2048
/** The limit of a tool's name, in characters, that model APIs accept. */
const MAX_NAME = 64
/** Keywords of alternatives: some model APIs accept them only below the top of a schema. */
const CHOICES = ["anyOf", "oneOf", "allOf"]
/** The most tools that common clients take from all servers together. */
const MAX_LISTED = 100

/** Returns warnings about the tools and prompts of one server. `names` are their names for clients. */
export function limitWarnings(tools: readonly Tool[], names: readonly string[]): readonly string[] {
  const described = tools.map(({ name, description }) => ({
    name,
    length: typeof description === "string" ? description.trim().length : 0,
  }))
  return [
    ...longDescriptions(described.flatMap(({ name, length }) => (length > MAX_DESCRIPTION ? [name] : []))),
    ...warningAbout(
      described.flatMap(({ name, length }) => (length === 0 ? [name] : [])),
      (examples) => `tools without a description, which models seldom choose: ${examples}`,
    ),
    ...nameWarnings(names),
    ...warningAbout(
      tools.flatMap(({ name, inputSchema }) =>
        isObject(inputSchema) && CHOICES.some((keyword) => keyword in inputSchema) ? [name] : [],
      ),
      (examples) =>
        `tools with ${CHOICES.join(", ")} at the top of their input schema, which some model APIs refuse: ${examples}`,
    ),
  ]
}

/** Returns the warning about long descriptions of these tools; empty without tools. */
export const longDescriptions = (tools: readonly string[]): readonly string[] =>
  warningAbout(tools, (examples) => `descriptions over ${MAX_DESCRIPTION} characters, which clients cut: ${examples}`)

/** Returns the warnings about names that clients refuse; empty if there is none. */
export const nameWarnings = (names: readonly string[]): readonly string[] => [
  ...warningAbout(
    names.filter((name) => name.length > MAX_NAME),
    (examples) =>
      `names over ${MAX_NAME} characters, which clients refuse (--max-tool-name ${MAX_NAME} shortens them): ${examples}`,
  ),
  ...warningAbout(
    names.filter((name) => /[^A-Za-z0-9_-]/.test(name)),
    (examples) =>
      `names with characters other than letters, digits, _ and -, which model APIs refuse (--max-tool-name ${MAX_NAME} replaces them): ${examples}`,
  ),
]

/** Returns the warning about the number of tools in one list, if there are too many. */
export const longList = (count: number): readonly string[] =>
  count <= MAX_LISTED
    ? []
    : [
        `a client of all servers gets ${count} tools, and many clients take at most ${MAX_LISTED}: select servers with a preset, hide tools with \`svc mcp tools disable\`, or let clients search them (/mcp?tools=search)`,
      ]

// ---

const MAX_NAMED = 3

function warningAbout(names: readonly string[], warning: (examples: string) => string): readonly string[] {
  if (names.length === 0) return []
  const more = names.length - MAX_NAMED
  return [warning(`${names.slice(0, MAX_NAMED).join(", ")}${more > 0 ? ` and ${more} more` : ""}`)]
}
