/** Finding servers by words: what registries are asked for, and which of what they know fits best. */
import MiniSearch from "minisearch"
import type { RegistryEntry } from "./entry.ts"

/** What a registry is asked for: the words of a query that say something, and not all of a long one. */
export function termsOf(query: string): readonly string[] {
  const all = query
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word.length > 1)
  const telling = all.filter((word) => !COMMON.has(word))
  return [...new Set(telling.length > 0 ? telling : all)]
    .slice(0, MAX_WORDS)
    .map((word) => word.slice(0, MAX_WORD))
    .flatMap((word) => (OWNERS.has(word) ? [`/${word}`, `-${word}`] : [word]))
}

/** The most fitting first. What stands before the slash is whose it is, and "mcp server" is said of all of them. */
export function rank(entries: readonly RegistryEntry[], query: string): readonly RegistryEntry[] {
  const sought = words(query.slice(0, MAX_QUERY))
  const telling = sought.filter((word) => !COMMON.has(word.toLowerCase()))
  const index = new MiniSearch<{ id: number; name: string; owner: string; title: string; description: string }>({
    fields: ["name", "owner", "title", "description"],
    tokenize: words,
    processTerm: (term) => (telling.length > 0 && COMMON.has(term.toLowerCase()) ? null : term.toLowerCase()),
  })
  index.addAll(
    entries.map(({ name, title = "", description }, id) => {
      const [owner = "", short = owner] = name.split("/")
      return {
        id,
        name: short,
        owner: owner.replace(/^(?:io\.github|com|io|ai|dev|org|net)\./, ""),
        title,
        description,
      }
    }),
  )
  const exact = query.trim().toLowerCase()
  return index
    .search(sought.join(" "), {
      boost: { name: 3, title: 2, owner: 0.5 },
      prefix: true,
      fuzzy: (term) => (term.length > 3 ? 0.2 : false),
    })
    .flatMap(({ id, score }) => {
      const entry = entries[id]
      if (entry === undefined) return []
      const name = entry.name.toLowerCase()
      return [{ entry, score: name === exact || name.endsWith(`/${exact}`) ? Number.MAX_VALUE : score }]
    })
    .sort((a, b) => b.score - a.score || (a.entry.name < b.entry.name ? -1 : 1))
    .map(({ entry }) => entry)
}

// ---

const MAX_WORDS = 4
const MAX_WORD = 100
const MAX_QUERY = 500
/** What is said of all servers, or of none in particular. */
const COMMON: ReadonlySet<string> = new Set([
  "mcp",
  "server",
  "servers",
  "the",
  "a",
  "an",
  "for",
  "of",
  "and",
  "or",
  "to",
  "in",
  "on",
  "from",
  "with",
  "that",
  "which",
  "can",
  "my",
  "find",
  "use",
  "using",
])
/** They stand in front of most names: to look for them there finds everything. */
const OWNERS: ReadonlySet<string> = new Set(["github", "io", "com", "ai", "dev", "org", "net"])

/** `read_fileTree` is `read`, `file` and `tree`; a name in camel case is a word as a whole too. */
function words(text: string): string[] {
  return text.split(/[^\p{L}\p{N}]+/u).flatMap((word) => {
    const parts = word.split(/(?<=[\p{Ll}\p{N}])(?=\p{Lu})/u)
    return parts.length > 1 ? [word, ...parts] : parts
  })
}
