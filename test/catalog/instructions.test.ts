import { expect, test } from "bun:test"
import { buildCatalog, emptyCatalog } from "../../src/catalog/catalog.ts"
import { aggregateInstructions, instructionsAt } from "../../src/catalog/instructions.ts"
import type { Listing, ListingEntry } from "../../src/catalog/listing.ts"
import { fakePeer, fakeSpec } from "../fakes.ts"

type Stated = { readonly instructions?: string; readonly serverInfo?: ListingEntry; readonly tools?: number }

const partsOf = (servers: Readonly<Record<string, Stated>>, maxName?: number) =>
  buildCatalog(
    Object.entries(servers).map(([name, { tools = 1, ...stated }]) => ({
      spec: { ...fakeSpec(), id: name, name, slug: name },
      listing: {
        ...{ ...fakePeer("legacy"), prompts: [], resources: [], resourceTemplates: [] },
        ...stated,
        tools: Array.from({ length: tools }, (_, at) => ({ name: `tool${at}` })),
      } satisfies Listing,
    })),
    emptyCatalog(),
    maxName,
  ).parts

const shown = (parts: ReturnType<typeof partsOf>) => ({ parts, isRenamed: false })

test("servers are named with their tools and what they are for, and those that are not available with their states [instructions:budget] [instructions:unavailable]", () => {
  const parts = partsOf({
    files: { instructions: "# Files\n\nReads and writes\nfiles. Paths are absolute.", tools: 12 },
    memory: { serverInfo: { title: "A\u0007 graph" } },
    described: { serverInfo: { title: "T", description: "Describes itself" } },
    plain: { tools: 2 },
  })
  expect(aggregateInstructions(shown(parts), [{ slug: "linear", state: "sign-in needed" }], 2048)).toBe(`\
Tools of 4 MCP servers, each named <server>_svc_<tool>.
- files (12 tools): Reads and writes files.
- memory (1 tool): A graph
- described (1 tool): Describes itself
- plain (2 tools): tool0, tool1
Not available now: linear (sign-in needed)

# files

# Files

Reads and writes
files. Paths are absolute.`)
  expect(aggregateInstructions(shown([]), [], 2048)).toBeUndefined()
  expect(aggregateInstructions(shown([]), [{ slug: "a", state: "starting" }], 2048)).toBe(
    "No MCP server is available.\nNot available now: a (still starting)",
  )
  expect(aggregateInstructions(shown(partsOf({ a: { instructions: "Adds." } })), [], 2048, "Find them.")).toBe(
    "Tools of 1 MCP server, each named <server>_svc_<tool>.\nFind them.\nServers: a (1 tool)\nWhole instructions of a server: resource svc:instructions/<server>",
  )
  const many = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`server-${at}`, { instructions: "Adds." }]))
  const lazy =
    aggregateInstructions(shown(partsOf(many)), [{ slug: "down", state: "failed" }], 2048, "Find them.") ?? ""
  expect(lazy.length).toBeWithin(1500, 2049)
  expect(lazy).toEndWith("\nNot available now: down (failed)")
})

test("instructions say that names are shortened, if any is [names:shortened]", () => {
  const stated = { "a-server-with-a-rather-long-name": {}, b: {} }
  expect(aggregateInstructions(shown(partsOf(stated, 40)), [], 2048)).toStartWith(
    "Tools of 2 MCP servers, each named <server>_svc_<tool>.\nLong names are shortened in the list and end with a hash.\n- a-",
  )
  expect(aggregateInstructions(shown(partsOf(stated, 64)), [], 2048)).not.toContain("hash")
})

test("instructions keep the budget, and the essential its 512 characters [instructions:budget]", () => {
  const long = (index: number) => `${`Server ${index} does many things of one kind. `.repeat(100)}`.trim()
  const named = (count: number) =>
    partsOf(Object.fromEntries(Array.from({ length: count }, (_, at) => [`server-${at}`, { instructions: long(at) }])))
  const eight = aggregateInstructions(shown(named(8)), [], 2048) ?? ""
  expect(eight.length).toBeLessThanOrEqual(2048)
  expect(eight.length).toBeGreaterThan(1500)
  expect(eight.lastIndexOf("- server-7 (1 tool): Server 7")).toBeLessThan(512)
  expect(eight).toContain("resource svc:instructions/<server>")
  for (let at = 0; at < 8; at++) expect(eight).toContain(`# server-${at}\n\nServer ${at} does`)
  for (const [count, budget] of [
    [8, 300],
    [70, 2048],
    [300, 2048],
    [1, 60],
  ] as const) {
    const text = aggregateInstructions(shown(named(count)), [{ slug: "d".repeat(500), state: "failed" }], budget) ?? ""
    expect([count, text.length <= budget]).toEqual([count, true])
    expect(text).toStartWith(count === 1 ? "Tools of 1 MCP" : `Tools of ${count} MCP servers`)
  }
  const whole = aggregateInstructions(shown(named(8)), [], Number.POSITIVE_INFINITY) ?? ""
  expect(whole).toContain(long(3))
  expect(whole).not.toContain("svc:instructions")
  // A short text leaves its share to the others.
  const uneven = aggregateInstructions(
    shown(partsOf({ a: { instructions: "One. Two." }, b: { instructions: long(1) } })),
    [],
    1024,
  )
  expect(uneven).toContain("# a\n\nOne. Two.\n\n# b")
  expect(uneven?.length).toBeGreaterThan(950)
})

test("whole instructions are found by the URI of their server alone [instructions:whole]", () => {
  const parts = partsOf({ a: { instructions: "whole" }, b: {} })
  expect(instructionsAt("svc:instructions/a", parts)).toBe("whole")
  for (const uri of ["svc:instructions/b", "svc:instructions/c", "svc:instructions/", "svc://a/x", 1, undefined])
    expect(instructionsAt(uri, parts)).toBeUndefined()
})
