/** Search for servers by words: the terms to send to registries, and the ranking of results. */
import MiniSearch from "minisearch"
import type { RegistryEntry } from "./entry.ts"

/** Returns the terms to search a registry for: the significant words of a query, four at most. */
export function termsOf(query: string): readonly string[] {
  const all = query
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word.length > 1)
  const significant = all.filter((word) => !COMMON.has(word))
  return [...new Set(significant.length > 0 ? significant : all)]
    .slice(0, MAX_WORDS)
    .map((word) => word.slice(0, MAX_WORD))
    .flatMap((word) => (OWNERS.has(word) ? [`/${word}`, `-${word}`] : [word]))
}

/** Ranks entries, best match first. The owner (before the slash) counts little; common words such as "mcp server" do not count. */
export function rank(entries: readonly RegistryEntry[], query: string): readonly RegistryEntry[] {
  const terms = words(query.slice(0, MAX_QUERY))
  const significant = terms.filter((word) => !COMMON.has(word.toLowerCase()))
  const index = new MiniSearch<{ id: number; name: string; owner: string; title: string; description: string }>({
    fields: ["name", "owner", "title", "description"],
    tokenize: words,
    processTerm: (term) => (significant.length > 0 && COMMON.has(term.toLowerCase()) ? null : term.toLowerCase()),
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
    .search(terms.join(" "), {
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
/** Words that describe any server. */
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
/** Words that occur in the owners of most names: a search for them must match elsewhere in the name. */
const OWNERS: ReadonlySet<string> = new Set(["github", "io", "com", "ai", "dev", "org", "net"])

/** Splits a text into words: `read_fileTree` is `read`, `fileTree`, `file` and `Tree`. */
function words(text: string): string[] {
  return text.split(/[^\p{L}\p{N}]+/u).flatMap((word) => {
    const parts = word.split(/(?<=[\p{Ll}\p{N}])(?=\p{Lu})/u)
    return parts.length > 1 ? [word, ...parts] : parts
  })
}
