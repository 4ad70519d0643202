import { expect, test } from "bun:test"
import { buildCatalog, emptyCatalog, viewOf } from "../../src/catalog/catalog.ts"
import { slugOf } from "../../src/config/server-spec.ts"
import { AGGREGATE, fakePeer, fakeSpec } from "../fakes.ts"

test("long names of tools and prompts are listed shortened, and lead to the backend's own name either way [names:shortened]", () => {
  const name = "n".repeat(60)
  const listing = {
    ...{ ...fakePeer("legacy"), resources: [], resourceTemplates: [] },
    tools: [
      { name, description: "d" },
      { name: "short", description: "d" },
    ],
    prompts: [{ name }],
  }
  const [spec, tuning] = [fakeSpec(), { tags: [], disabledTools: [], toolDescriptionOverrides: {} }]
  const catalog = buildCatalog(
    [{ spec: { ...spec, tuning: { ...spec.tuning, ...tuning } }, listing }],
    emptyCatalog(),
    40,
  )
  const view = viewOf(catalog, AGGREGATE)
  for (const kind of ["tools", "prompts"] as const) {
    const [shown = ""] = view[kind].keys()
    expect(shown).toHaveLength(40)
    expect(view.entries(`${kind}/list`, "modern")[0]).toContain(`"name":"${shown}"`)
    for (const known of [shown, `s_svc_${name}`]) expect(view[kind].get(known)?.name).toBe(name)
    expect(view[kind].has(name)).toBe(false)
  }
  expect([...view.tools.keys()][1]).toBe("s_svc_short")
  expect([...viewOf(catalog, { kind: "server", id: "s" }).tools.keys()]).toEqual([name, "short"])
  // It stays so in later builds.
  expect([...viewOf(buildCatalog([{ spec, listing }], catalog), AGGREGATE).tools.keys()][0]).toHaveLength(40)
})

test("a name with the dots of the server's name stays callable, shortened or not [names:slug]", () => {
  const spec = { ...fakeSpec(), id: "com.example", name: "com.example", slug: slugOf("com.example") }
  const listing = {
    ...{ ...fakePeer("legacy"), prompts: [], resourceTemplates: [] },
    tools: [{ name: "a.b", inputSchema: { type: "object" } }],
    resources: [{ uri: "file:///x", name: "x" }],
  }
  for (const maxName of [Number.POSITIVE_INFINITY, 64]) {
    const view = viewOf(buildCatalog([{ spec, listing }], emptyCatalog(), maxName), AGGREGATE)
    const [shown] = view.tools.keys()
    expect(shown).toMatch(maxName === 64 ? /^com-example_svc_a-b_[0-9a-f]{8}$/ : /^com-example_svc_a\.b$/)
    for (const name of [shown ?? "", "com-example_svc_a.b", "com.example_svc_a.b"])
      expect([name, view.tools.get(name)?.name]).toEqual([name, "a.b"])
    expect(view.resource("svc://com.example/file:///x")?.name).toBe("file:///x")
  }
})

test("an output schema with the id of another server's is left out of the list of all servers [definitions:output]", () => {
  const source = (id: string, type: string) => {
    const outputSchema = { $id: "Result", type: "object", properties: { a: { type } } }
    const tools = [{ name: "t", inputSchema: { type: "object" }, outputSchema }]
    return {
      spec: { ...fakeSpec(), id, name: id, slug: id },
      listing: { ...fakePeer("legacy"), tools, prompts: [], resources: [], resourceTemplates: [] },
    }
  }
  const catalog = buildCatalog([source("a", "string"), source("b", "number"), source("c", "string")], emptyCatalog())
  const described = (view: ReturnType<typeof viewOf>) =>
    view.entries("tools/list", "legacy").map((text) => [JSON.parse(text).name, "outputSchema" in JSON.parse(text)])
  expect(described(viewOf(catalog, AGGREGATE))).toEqual([
    ["a_svc_t", true],
    ["b_svc_t", false],
    ["c_svc_t", true],
  ])
  expect(described(viewOf(catalog, { kind: "server", id: "b" }))).toEqual([["t", true]])
})
