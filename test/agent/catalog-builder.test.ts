import { expect, test } from "bun:test"
import { CatalogBuilder } from "../../src/agent/catalog-builder.ts"
import { type Catalog, viewOf } from "../../src/catalog/catalog.ts"
import type { Listing } from "../../src/catalog/listing.ts"
import { createScope } from "../../src/catalog/scope.ts"
import type { ServerSpec } from "../../src/config/server-spec.ts"
import { settle } from "../clock.ts"
import { tool } from "./memory-agent.ts"

const spec = {
  id: "a",
  name: "a",
  slug: "a",
  tuning: { tags: [], disabledTools: [], toolDescriptionOverrides: {} },
} as unknown as ServerSpec
const listing = (...names: string[]): Listing =>
  ({
    era: "legacy",
    protocolVersion: "1",
    tools: names.map((name) => tool(name)),
    prompts: [],
    resources: [],
    resourceTemplates: [],
  }) as unknown as Listing
const scope = createScope(
  () => [],
  () => new Map(),
)
const namesOf = (catalog: Catalog) => [...viewOf(catalog, scope).tools.keys()]

function setUp(shared = listing("one")) {
  const state = { shared, builds: 0 }
  const catalogs = new CatalogBuilder({
    connected: () => [{ spec, listing: state.shared }],
    maxName: Number.POSITIVE_INFINITY,
    quarantined: () => new Set(["evil"]),
    onbuilt: () => void state.builds++,
  })
  catalogs.invalidate()
  catalogs.flush()
  return { catalogs, state }
}

test("a burst of changes causes one build, which can be forced to run at once", async () => {
  const { catalogs, state } = setUp()
  expect([state.builds, namesOf(catalogs.catalog)]).toEqual([1, ["a_svc_one"]])
  for (let change = 0; change < 3; change++) catalogs.invalidate()
  state.shared = listing("two")
  await settle()
  expect([state.builds, namesOf(catalogs.catalog)]).toEqual([2, ["a_svc_two"]])
  catalogs.flush()
  expect(state.builds).toBe(2)
})

test("a session is offered the lists of its own process, without quarantined tools, until these lists are dropped", async () => {
  const { catalogs, state } = setUp()
  const [ann, bob] = [{}, {}]
  const own = listing("mine", "evil")
  expect([catalogs.setOwn(ann, "a", own), catalogs.setOwn(ann, "a", own)]).toEqual([true, false])
  expect(namesOf(catalogs.catalogOf(ann))).toEqual(["a_svc_mine"])
  expect(catalogs.catalogOf(ann)).toBe(catalogs.catalogOf(ann))
  expect(catalogs.catalogOf(bob)).toBe(catalogs.catalog)

  state.shared = listing("other")
  catalogs.invalidate()
  await settle()
  expect(namesOf(catalogs.catalogOf(ann))).toEqual(["a_svc_mine"])
  catalogs.dropOwnIfSame(ann, "a", state.shared)
  expect(namesOf(catalogs.catalogOf(ann))).toEqual(["a_svc_mine"])
  catalogs.dropOwnIfSame(ann, "a", listing("mine", "evil"))
  expect(catalogs.catalogOf(ann)).toBe(catalogs.catalog)

  for (const drop of [() => catalogs.dropServer("a"), () => catalogs.dropSession(ann)]) {
    catalogs.setOwn(ann, "a", own)
    drop()
    expect(catalogs.catalogOf(ann)).toBe(catalogs.catalog)
  }
})
