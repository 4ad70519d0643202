/** Finding tools by words: names count more than descriptions, parts of names and slips of the pen are found too. */
import MiniSearch from "minisearch"

/** A tool as it is offered. */
export type Searched = { readonly name: string; readonly description?: string | undefined }

/** The best `limit` of the entries for a query, best first. The same entries in any order give the same answer. */
export function searchTools<T extends Searched>(entries: readonly T[], query: string, limit: number): readonly T[] {
  return indexTools(entries)(query, limit)
}

/** The same with the index built once, for entries that are searched more often than they change. */
export function indexTools<T extends Searched>(entries: readonly T[]): (query: string, limit: number) => readonly T[] {
  const index = new MiniSearch<{ id: number; name: string; description: string }>({
    fields: ["name", "description"],
    tokenize: words,
  })
  index.addAll(
    entries.map(({ name, description }, id) => ({
      id,
      name,
      description: description?.slice(0, MAX_DESCRIPTION) ?? "",
    })),
  )
  return (query, limit) => {
    const sought = query.slice(0, MAX_QUERY).trim()
    const exact = sought.toLowerCase()
    return index
      .search(sought, { boost: { name: 3 }, prefix: true, fuzzy: (term) => (term.length > 3 ? 0.2 : false) })
      .flatMap(({ id, score }) => {
        const entry = entries[id]
        return entry === undefined
          ? []
          : [{ entry, score: entry.name.toLowerCase() === exact ? Number.MAX_VALUE : score }]
      })
      .sort((a, b) => b.score - a.score || (a.entry.name < b.entry.name ? -1 : 1))
      .slice(0, Math.max(0, limit))
      .map(({ entry }) => entry)
  }
}

/** `git_svc_createIssue` is `git`, `svc`, `create` and `issue`; a name in camel case is a word as a whole too. */
export function words(text: string): string[] {
  return text.split(/[^\p{L}\p{N}]+/u).flatMap((word) => {
    const parts = word.split(/(?<=[\p{Ll}\p{N}])(?=\p{Lu})/u)
    return parts.length > 1 ? [word, ...parts] : parts
  })
}

// ---

const MAX_QUERY = 500
const MAX_DESCRIPTION = 4000
