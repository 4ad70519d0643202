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
  const registries = new ConfiguredRegistries(() => [{ name: "large", url: "http://large", headers: {} }], {
    clock: manualClock(),
    cache: createRegistryCache(undefined),
    fetch: answer,
  })
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
