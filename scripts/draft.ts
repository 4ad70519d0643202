/**
 * Compares the draft of the MCP specification with the newest revision that svc supports: methods, fields, capabilities, error codes and
 * headers. What it lists is what a new revision asks of svc.
 *
 *     bun run draft             clones the specification
 *     bun run draft FOLDER      reads a checkout of it
 *     bun run draft --json      prints JSON
 *
 * Exits with 1 if there are differences.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { MODERN_VERSION } from "../src/wire/era.ts"

/** The facts of a revision by kind: each has a name, and a text that changes with its meaning. */
export type RevisionFacts = Readonly<Record<FactKind, ReadonlyMap<string, string>>>
export type FactKind = "method" | "capability" | "field" | "error" | "header"

export type Difference = {
  readonly kind: FactKind
  readonly name: string
  readonly change: "added" | "removed" | "changed"
  /** What it was and is. */
  readonly before?: string
  readonly after?: string
}

/** Returns the facts in a JSON Schema of the protocol and in the texts of its pages. */
export function factsOf(schema: unknown, pages: readonly string[]): RevisionFacts {
  const definitions = membersOf(membersOf(schema).$defs ?? membersOf(schema).definitions)
  const method = new Map<string, string>()
  const capability = new Map<string, string>()
  const field = new Map<string, string>()
  const error = new Map<string, string>()
  for (const [name, definition] of Object.entries(definitions)) {
    const called = membersOf(membersOf(membersOf(definition).properties).method).const
    if (typeof called === "string") method.set(called, name)
    const into = /^(?:Client|Server)Capabilities$/.test(name) ? capability : field
    addFields(name, definition, into)
    for (const code of JSON.stringify(definition).match(ERROR_CODE) ?? []) error.set(code, "")
  }
  const text = pages.join("\n")
  for (const code of text.match(ERROR_CODE) ?? []) error.set(code, "")
  const header = new Map([...(text.match(HEADER) ?? [])].map((name) => [name.replace(/-$/, "-*").toLowerCase(), ""]))
  return { method, capability, field, error, header }
}

/** Returns what another revision adds, removes and changes, in the order of kinds and names. */
export function compareFacts(before: RevisionFacts, after: RevisionFacts): readonly Difference[] {
  return KINDS.flatMap((kind) => {
    const [old, now] = [before[kind], after[kind]]
    return [...new Set([...old.keys(), ...now.keys()])].sort().flatMap((name): Difference[] => {
      const [was, is] = [old.get(name), now.get(name)]
      if (was === is) return []
      if (was === undefined) return [{ kind, name, change: "added", after: is ?? "" }]
      if (is === undefined) return [{ kind, name, change: "removed", before: was }]
      return [{ kind, name, change: "changed", before: was, after: is }]
    })
  })
}

// ---

const REPOSITORY = "https://github.com/modelcontextprotocol/modelcontextprotocol"
const KINDS: readonly FactKind[] = ["method", "capability", "field", "error", "header"]
const ERROR_CODE = /-32\d{3}\b/g
const HEADER = /\bM(?:CP|cp)-(?:[A-Z][a-z]+-)*(?:[A-Z][a-z]+|(?=`))/g
/** Members that say nothing about messages. */
const WORDS: ReadonlySet<string> = new Set(["description", "title", "examples", "$comment"])

const membersOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}

/** Adds the properties of a definition, and those within them, each with its type and whether it is required. */
function addFields(path: string, definition: unknown, into: Map<string, string>): void {
  const { properties, required } = membersOf(definition)
  for (const [name, property] of Object.entries(membersOf(properties))) {
    const { properties: within, required: _required, ...own } = membersOf(property)
    const need = Array.isArray(required) && required.includes(name) ? "required" : "optional"
    into.set(`${path}.${name}`, `${need} ${typeText(own)}`)
    if (within !== undefined) addFields(`${path}.${name}`, property, into)
  }
}

/** Returns the type of a property without its words. */
const typeText = (property: unknown): string =>
  JSON.stringify(property, (key, value) => (WORDS.has(key) ? undefined : value))

function readRevision(folder: string, revision: string): RevisionFacts {
  const schema = JSON.parse(readFileSync(join(folder, "schema", revision, "schema.json"), "utf8"))
  const docs = join(folder, "docs", "specification", revision)
  const pages = readdirSync(docs, { recursive: true, encoding: "utf8" }).filter(
    // A changelog also names what is gone.
    (name) => name.endsWith(".mdx") && !name.endsWith("changelog.mdx"),
  )
  return factsOf(
    schema,
    pages.map((name) => readFileSync(join(docs, name), "utf8")),
  )
}

/** Clones the specification to a folder. Rejects if that fails. */
async function clone(folder: string): Promise<void> {
  const git = Bun.spawn(["git", "clone", "--quiet", "--depth", "1", REPOSITORY, folder], { stderr: "inherit" })
  if ((await git.exited) !== 0) throw new Error(`${REPOSITORY} cannot be cloned; give a folder with a checkout`)
}

async function run(words: readonly string[]): Promise<number> {
  const given = words.find((word) => !word.startsWith("--"))
  const folder = given ?? mkdtempSync(join(tmpdir(), "mcp-specification-"))
  try {
    if (given === undefined) await clone(folder)
    const found = compareFacts(readRevision(folder, MODERN_VERSION), readRevision(folder, "draft"))
    const lines = found.map(
      ({ kind, name, change, before, after }) =>
        `${change.padEnd(8)} ${kind.padEnd(10)} ${name}${change === "changed" ? `: ${before} → ${after}` : ""}`,
    )
    const summary = `the draft differs from ${MODERN_VERSION} in ${found.length} places`
    process.stdout.write(
      words.includes("--json") ? `${JSON.stringify(found, null, 2)}\n` : `${[...lines, summary].join("\n")}\n`,
    )
    return found.length === 0 ? 0 : 1
  } finally {
    if (given === undefined) rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) process.exitCode = await run(process.argv.slice(2))
