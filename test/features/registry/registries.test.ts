/** What registries are asked to find, and how much of it is looked at. */
import { expect, test } from "bun:test"
import { createRegistryCache } from "../../../src/features/registry/cache.ts"
import { ConfiguredRegistries } from "../../../src/features/registry/registries.ts"
import { manualClock } from "../../clock.ts"

type Server = { readonly name: string; readonly description?: string }

/** A registry that lists by name and finds by names and descriptions, as the official one does, and what it was asked. */
function large(servers: readonly Server[]) {
  const asked: string[] = []
  const sorted = [...servers].sort((a, b) => (a.name < b.name ? -1 : 1))
  const answer = (url: string): Promise<Response> => {
    const { searchParams } = new URL(url)
    const search = searchParams.get("search")
    if (search !== null && !searchParams.has("cursor")) asked.push(search)
    const fitting = sorted.filter(({ name, description = "" }) => `${name}\n${description}`.includes(search ?? ""))
    const start = Number(searchParams.get("cursor") ?? 0)
    const end = start + Number(searchParams.get("limit"))
    return Promise.resolve(
      Response.json({
        servers: fitting.slice(start, end).map((server) => ({ server: { version: "1", ...server } })),
        metadata: end < fitting.length ? { nextCursor: String(end) } : {},
      }),
    )
  }
  const registries = new ConfiguredRegistries(
    () => [{ name: "large", url: "http://large", headers: {}, secrets: [] }],
    {
      clock: manualClock(),
      cache: createRegistryCache(undefined),
      fetch: answer,
    },
  )
  const first = async (query: string) => (await registries.search({ query, limit: 1 })).value.entries[0]?.name
  return { asked, first }
}

const filler = (count: number, word: string): readonly Server[] =>
  Array.from({ length: count }, (_, index) => ({ name: `io.github.a${index}/thing`, description: `A ${word} thing` }))

test("a registry is searched for the significant words of a sentence", async () => {
  const { asked, first } = large([...filler(1500, "plain"), { name: "io.github.z/postgres", description: "Databases" }])
  expect(await first("find an MCP server for my Postgres databases")).toBe("io.github.z/postgres")
  expect(asked).toEqual(["postgres", "databases"])
})

test("a registry's search is read beyond its first page", async () => {
  const { first } = large([...filler(300, "memory"), ...filler(1500, "plain"), { name: "io.github.z/memory" }])
  expect(await first("memory")).toBe("io.github.z/memory")
})

test("a part of most owners is searched for in the rest of the name", async () => {
  const { first } = large([...filler(1500, "plain"), { name: "io.github.github/github-mcp-server" }])
  expect(await first("github")).toBe("io.github.github/github-mcp-server")
})

/** Registries of which each answers with `answers`, by its name. */
function several(answers: Readonly<Record<string, () => Promise<Response>>>) {
  const cache = createRegistryCache(undefined)
  const clock = manualClock()
  const sources = () => Object.keys(answers).map((name) => ({ name, url: `http://${name}`, headers: {}, secrets: [] }))
  const fetch = (url: string) => answers[new URL(url).host]?.() ?? Promise.reject(new Error("unknown"))
  return { clock, registries: new ConfiguredRegistries(sources, { clock, cache, fetch }) }
}
const down = () => Promise.reject(Object.assign(new Error("refused"), { code: "ENOTFOUND" }))
const broken = () => Promise.resolve(new Response("", { status: 500 }))

test("a search that no registry can answer finds well-known servers, and says so [registry:known]", async () => {
  const { registries } = several({ one: down, two: down })
  const { value, warnings } = await registries.search({ query: "browser", type: "npm", limit: 3 })
  expect(value.entries.map(({ name }) => name)).toContain("io.github.microsoft/playwright-mcp")
  expect(value.entries.every(({ registry }) => registry === "bundled with svc")).toBe(true)
  expect(warnings).toEqual([
    expect.stringMatching(
      /^registry one: cannot reach one \(.+\); registry two: cannot reach two \(.+\): showing matches among \d\d well-known servers known to svc since \d{4}-\d\d-\d\d$/,
    ),
  ])
  const all = await registries.search({ query: "", limit: 100 })
  expect(all.value.total).toBeGreaterThanOrEqual(30)
})

test("a registry that answers with an error is not replaced by well-known servers [registry:known]", async () => {
  for (const answers of [{ one: broken }, { one: down, two: broken }, { one: broken, two: down }]) {
    const { registries } = several(answers)
    await expect(registries.search({ query: "browser", limit: 3 })).rejects.toThrow("answered HTTP 500")
    await expect(registries.findOrKnown("io.github.microsoft/playwright-mcp", "latest")).rejects.toThrow("HTTP 500")
  }
  const { registries } = several({})
  expect((await registries.search({ query: "browser", limit: 3 })).value.total).toBe(0)
})

test("cached answers take precedence over well-known servers [registry:known]", async () => {
  let answer = () => Promise.resolve(Response.json({ servers: [] }))
  const { clock, registries } = several({ one: () => answer() })
  await registries.search({ query: "", limit: 3 })
  answer = down
  await clock.pass(24 * 3_600_000)
  const { value, warnings } = await registries.search({ query: "", limit: 3 })
  expect([value.total, warnings]).toEqual([0, [expect.stringContaining("using the answer from 1440 min ago")]])
})

test("a well-known server is found by its name to install it, but not for an update [registry:known]", async () => {
  const { registries } = several({ one: down })
  const name = "io.github.microsoft/playwright-mcp"
  const { value, warnings } = await registries.findOrKnown(name, "latest")
  expect(value).toMatchObject({ name, title: "Playwright" })
  expect(warnings).toEqual([expect.stringContaining(": this is the entry known to svc since ")])
  expect((await registries.findOrKnown("Playwright-MCP", value.version)).value.name).toBe(name)
  for (const [wrong, version] of [
    [name, "0.0.1"],
    ["io.github.nobody/nothing", "latest"],
  ] as const)
    await expect(registries.findOrKnown(wrong, version)).rejects.toThrow("cannot reach one")
  await expect(registries.find(name, "latest")).rejects.toThrow("cannot reach one")
})
