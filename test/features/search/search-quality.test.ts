/** The floor under the quality of the search over tools. It leaves room for changes that lose a request and win another. */
import { describe, expect, test } from "bun:test"
import { isStopWord, stemOf, wordsOf } from "../../../src/features/search/search-words.ts"
import {
  coverageOf,
  HALVES,
  mcpproxySet,
  qualityOf,
  recordedServers,
  requestsOf,
  type Task,
  tasksOf,
} from "../../bench/search/golden.ts"
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

describe.each([...HALVES])("search quality, %s tasks", (half) => {
  const tasks = tasksOf(half)
  const told = (story: string): readonly Task[] =>
    tasks.map(({ text, wanted }) => ({ text: `${story} ${text}`, wanted }))

  test("of the tools that a whole task wants, the search finds more than plain BM25 [lazy:search:tasks]", () => {
    expect(coverageOf(rank, tasks)).toBeGreaterThan(coverageOf(bm25(servers), tasks) + 0.12)
  })

  test("a story before the task costs little [lazy:search:tasks]", () => {
    const story = `Hello, I hope that the week has been kind to you. It has been a long one here, with rain every day, and the
      children have been ill since Sunday, so please bear with me if this is not very clear. I have been with this company
      for nine years, and my colleague used to say that a good plan is worth more than ten meetings.`
    expect(coverageOf(rank, told(story))).toBeGreaterThan(coverageOf(rank, tasks) - 0.1)
  })

  test("each wanted tool is a recorded one", () => {
    expect(tasks.flatMap(({ wanted }) => wanted.flat()).filter((name) => !names.has(name))).toEqual([])
  })
})

test("of mcpproxy's golden set, the search finds 0.88 of the tools among five [lazy:search]", () => {
  const { servers: theirs, tasks } = mcpproxySet()
  expect(coverageOf(catalogSearch(theirs), tasks)).toBeGreaterThanOrEqual(0.88)
})

test.each([
  ["close a bug", "update_issue"],
  ["close my ticket", "update_issue"],
  ["who is on call", "list_schedules"],
  ["text the customer", "send_sms"],
])("%s finds %s by the table of synonyms", (request, tool) => {
  const more = [
    { name: "send_sms", description: "Sends an SMS to a phone number.", inputSchema: { type: "object" as const } },
    { name: "list_schedules", description: "Lists schedules and rotations.", inputSchema: { type: "object" as const } },
  ]
  const found = catalogSearch([...servers, { name: "duty", title: "", tools: more }])(request)
  expect(found.slice(0, 5).map((name) => name.split("/")[1])).toContain(tool)
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
