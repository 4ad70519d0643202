/** The floor under the quality of the search over tools. It leaves room for changes that lose a request and win another. */
import { describe, expect, test } from "bun:test"
import { isStopWord, stemOf, wordsOf } from "../../../src/features/search/search-words.ts"
import { HALVES, qualityOf, recordedServers, requestsOf } from "../../bench/search/golden.ts"
import { bm25, catalogSearch, miniSearch } from "../../bench/search/rankers.ts"

/** Only for the held-out requests: the synonyms were written with the tuning requests in view. */
const FLOOR = { all: 0.62, plain: 0.95, misspelt: 0.95, other: 0.37 }

const servers = recordedServers()
const rank = catalogSearch(servers)
const names = new Set(servers.flatMap(({ name, tools }) => tools.map((tool) => `${name}/${tool.name}`)))

describe.each([...HALVES])("search quality, %s requests", (half) => {
  const requests = requestsOf(half)

  test("the search is better than MiniSearch's defaults and plain BM25", () => {
    const { recall5, reciprocalRank } = qualityOf(rank, requests)
    for (const other of [miniSearch(servers), bm25(servers)].map((peer) => qualityOf(peer, requests))) {
      expect(recall5).toBeGreaterThan(other.recall5 + 0.2)
      expect(reciprocalRank).toBeGreaterThan(other.reciprocalRank + 0.15)
    }
  })

  test("each right answer is a recorded tool, and no request is asked twice", () => {
    expect(requests.flatMap(({ right }) => right).filter((name) => !names.has(name))).toEqual([])
    expect(new Set(requests.map(({ text }) => text)).size).toBe(requests.length)
  })
})

test.each(Object.entries(FLOOR))("recall@5 of %s held-out requests is at least %d", (kind, floor) => {
  const some = requestsOf("held-out").filter((request) => kind === "all" || request.kind === kind)
  expect(some.length).toBeGreaterThan(20)
  expect(qualityOf(rank, some).recall5).toBeGreaterThanOrEqual(floor)
})

test("two requests in five share no word with the name, title and description of any right answer", () => {
  const stems = (text: string) =>
    new Set(
      wordsOf(text)
        .filter((word) => !isStopWord(word))
        .map(stemOf),
    )
  const texts = new Map(
    servers.flatMap(({ name, tools }) =>
      tools.map((tool) => [`${name}/${tool.name}`, stems(`${tool.name} ${tool.title ?? ""} ${tool.description}`)]),
    ),
  )
  const asked = HALVES.flatMap((half) => requestsOf(half))
  const apart = asked.filter(({ text, right }) => right.every((name) => texts.get(name)?.isDisjointFrom(stems(text))))
  expect(apart.length / asked.length).toBeGreaterThan(0.4)
})
