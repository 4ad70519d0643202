import { expect, test } from "bun:test"
import { buildCatalog, emptyCatalog, viewOf } from "../../src/catalog/catalog.ts"
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
