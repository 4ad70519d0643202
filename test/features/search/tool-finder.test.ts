/** The search of several clients over one index. */
import { expect, test } from "bun:test"
import { buildCatalog, type Catalog, emptyCatalog, viewOf, withOwn } from "../../../src/catalog/catalog.ts"
import type { Tool } from "../../../src/catalog/listing.ts"
import type { Searchable } from "../../../src/catalog/tool-search.ts"
import type { ServerSpec } from "../../../src/config/server-spec.ts"
import { ToolFinder } from "../../../src/features/search/tool-finder.ts"
import { AGGREGATE, fakePeer, fakeSpec } from "../../fakes.ts"

const server = (name: string): ServerSpec => ({ ...fakeSpec(), id: name, name, slug: name })
const listing = (tools: readonly Tool[]) => ({
  ...{ ...fakePeer("legacy", { tools: {} }), prompts: [], resources: [], resourceTemplates: [] },
  tools,
})
const tools = (count: number, about: string): readonly Tool[] =>
  Array.from({ length: count }, (_, at) => ({ name: `tool_${at}`, description: `${about} ${at}` }))

const searchable = (catalog: Catalog): Searchable => ({ catalog, view: viewOf(catalog, AGGREGATE), own: [] })

const shared = buildCatalog(
  [
    { spec: server("files"), listing: listing([{ name: "read_file", description: "Read a file." }]) },
    { spec: server("session"), listing: listing(tools(3, "shared")) },
  ],
  emptyCatalog(),
)
/** The catalog of a session whose own process lists other tools. */
const ofSession = (about: string) =>
  searchable(
    withOwn(
      shared,
      new Map([["session", { spec: server("session"), listing: listing(tools(3, about)) }]]),
      emptyCatalog(),
    ),
  )

const found = (finder: ToolFinder, given: Searchable, query: string) =>
  finder.find(given, query, 10).map(({ server: name, tool }) => `${name} ${tool.description}`)

test("sessions whose processes list different tools find their own, whoever searched before [lazy:scope]", () => {
  const finder = new ToolFinder()
  const sessions = ["apples", "pears", "plums"].map((about) => ({ about, own: ofSession(about) }))
  for (let turn = 0; turn < 3; turn++) {
    for (const { about, own } of sessions)
      expect(found(finder, own, "apples pears plums shared")).toEqual([0, 1, 2].map((at) => `session ${about} ${at}`))
    expect(found(finder, searchable(shared), "apples shared")).toEqual([0, 1, 2].map((at) => `session shared ${at}`))
  }
  // Scores are those of an index that has the session's tools alone.
  const alone = new ToolFinder()
  for (const { own } of sessions) expect(finder.find(own, "read file", 5)).toEqual(alone.find(own, "read file", 5))
})

test("a listing that was searched a few sessions ago is not indexed anew", () => {
  const finder = new ToolFinder()
  const sessions = ["apples", "pears", "plums", "figs"].map(ofSession)
  for (const own of sessions) found(finder, own, "shared")
  const before = finder.indexedListings
  for (let turn = 0; turn < 5; turn++) for (const own of sessions) found(finder, own, "shared")
  expect(finder.indexedListings).toBe(before)
  for (let at = 0; at < 30; at++) found(finder, ofSession(`fruit ${at}`), "shared")
  expect(finder.indexedListings).toBe(before + 30)
})

test("an unknown name gets the same local name first, then near ones of its server, then like meanings [lazy:unknown]", () => {
  const catalog = buildCatalog(
    [
      { spec: server("files"), listing: listing([{ name: "read_file" }, { name: "write_file" }, { name: "stat" }]) },
      { spec: server("mail"), listing: listing([{ name: "read_mail" }, { name: "stat" }]) },
    ],
    emptyCatalog(),
  )
  const finder = new ToolFinder()
  const similar = (name: string) => finder.similar(searchable(catalog), name, 3)
  expect(similar("stat")).toEqual(["files_svc_stat", "mail_svc_stat"])
  expect(similar("mail/stat")).toEqual(["mail_svc_stat", "files_svc_stat"])
  expect(similar("files_svc_raed_file")[0]).toBe("files_svc_read_file")
  expect(similar("mail_svc_raed_mial")[0]).toBe("mail_svc_read_mail")
  expect(similar("mail_svc_files_svc_stat")[0]).toBe("files_svc_stat")
  expect(similar("mail_svc_sta")).toContain("mail_svc_stat")
  expect(similar("mail_svc_sat")).toContain("mail_svc_stat")
  expect(similar("peruse_file")).toContain("files_svc_read_file")
})

test("a long listing is indexed in pieces, unseen by other searches until it is complete", async () => {
  const long = { spec: server("long"), listing: listing(tools(1100, "zebra")) }
  const both = buildCatalog(
    [{ spec: server("files"), listing: shared.parts[0]?.listing ?? listing([]) }, long],
    emptyCatalog(),
  )
  const first = buildCatalog(
    [{ spec: server("files"), listing: listing([{ name: "a", description: "A zebra." }]) }],
    emptyCatalog(),
  )
  const finder = new ToolFinder()
  let pauses = 0
  const pause = async () => {
    pauses++
    expect(found(finder, searchable(first), "zebra")).toEqual(["files A zebra."])
  }
  await Promise.all([finder.prepare({ catalog: both }, pause), finder.prepare({ catalog: both }, pause)])
  expect(pauses).toBe(5)
  const before = finder.indexedListings
  expect(found(finder, searchable(both), "zebra 77")).toContain("long zebra 77")
  // Only the other server's listing has changed.
  expect(finder.indexedListings).toBe(before + 1)
  const alone = new ToolFinder()
  expect(finder.find(searchable(both), "zebra 77", 5)).toEqual(alone.find(searchable(both), "zebra 77", 5))
})
