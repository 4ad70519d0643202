/** Rankers to compare: the catalog's search, MiniSearch as it comes, and plain BM25 with stemming, stop words and all fields. */
import MiniSearch from "minisearch"
import { stemmer } from "stemmer"
import type { Tool } from "../../../src/catalog/listing.ts"
import { createSearchIndex, search, updateListing } from "../../../src/features/search/ranking.ts"
import { isStopWord, wordsOf } from "../../../src/features/search/search-words.ts"
import type { Ranker, RecordedServer } from "./golden.ts"

const LIMIT = 10

export function catalogSearch(servers: readonly RecordedServer[]): Ranker {
  const index = createSearchIndex()
  for (const { name, title, tools } of servers) updateListing(index, { name, title }, tools)
  return (request) => search(index, request, { limit: LIMIT }).map(({ server, tool }) => `${server}/${tool}`)
}

export function miniSearch(servers: readonly RecordedServer[]): Ranker {
  const index = new MiniSearch({ fields: ["name", "title", "description"], idField: "id" })
  index.addAll(
    all(servers).map(({ id, tool }) => ({ id, name: tool.name, title: tool.title, description: tool.description })),
  )
  return (request) =>
    index
      .search(request)
      .slice(0, LIMIT)
      .map(({ id }) => String(id))
}

export function bm25(servers: readonly RecordedServer[]): Ranker {
  const terms = (text: string) =>
    wordsOf(text)
      .filter((word) => !isStopWord(word))
      .map((word) => stemmer(word))
  const documents = all(servers).map(({ id, server, tool }) => {
    const counts = new Map<string, number>()
    const words = terms(
      [server.name, server.title, tool.name, tool.title, tool.description, parameters(tool)].join(" "),
    )
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
    return { id, counts, length: words.length }
  })
  const usual = documents.reduce((sum, { length }) => sum + length, 0) / documents.length
  const holders = new Map<string, number>()
  for (const { counts } of documents) for (const term of counts.keys()) holders.set(term, (holders.get(term) ?? 0) + 1)
  return (request) => {
    const asked = [...new Set(terms(request))]
    return documents
      .map(({ id, counts, length }) => {
        let score = 0
        for (const term of asked) {
          const count = counts.get(term) ?? 0
          const held = holders.get(term) ?? 0
          const rarity = Math.log(1 + (documents.length - held + 0.5) / (held + 0.5))
          score += (rarity * count * 2.2) / (count + 1.2 * (0.25 + (0.75 * length) / usual))
        }
        return { id, score }
      })
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1))
      .slice(0, LIMIT)
      .map(({ id }) => id)
  }
}

// ---

const all = (servers: readonly RecordedServer[]) =>
  servers.flatMap((server) => server.tools.map((tool) => ({ id: `${server.name}/${tool.name}`, server, tool })))

const parameters = (tool: Tool): string =>
  Object.entries((tool.inputSchema as { properties: Record<string, { description: string }> }).properties)
    .map(([name, { description }]) => `${name} ${description}`)
    .join(" ")
