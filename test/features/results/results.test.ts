import { expect, test } from "bun:test"
import { buildCatalog, emptyCatalog } from "../../../src/catalog/catalog.ts"
import type { ResultsPort } from "../../../src/features/results/result-budget.ts"
import { ResultSizes } from "../../../src/features/results/result-sizes.ts"
import { resultTools } from "../../../src/features/results/results.ts"
import { Session } from "../../../src/session/session.ts"
import { AGGREGATE, fakeGateway, fakePeer, fakeSpec } from "../../fakes.ts"

test("a session is notified of changed tools when the tool that reads stored results is added or removed [results:reload]", () => {
  const spec = fakeSpec()
  const listing = { ...fakePeer("legacy"), tools: [], prompts: [], resources: [], resourceTemplates: [] }
  let catalog = buildCatalog([{ spec, listing }], emptyCatalog())
  const gateway = fakeGateway({
    directory: { catalogOf: () => catalog },
    ownTools: [resultTools({ budget: 0, sizes: new ResultSizes() } as ResultsPort)],
  })
  const session = new Session("s", "p", AGGREGATE, {})
  const seen: unknown[] = []
  session.open((text) => seen.push(JSON.parse(text).method) > 0)
  session.begin(gateway, () => undefined)
  const change = (resultBudget: number) => {
    catalog = buildCatalog([{ spec: { ...spec, tuning: { ...spec.tuning, resultBudget } }, listing }], catalog)
    session.catalogChanged(gateway)
    return seen.splice(0)
  }
  expect(change(20_000)).toEqual(["notifications/tools/list_changed"])
  expect(change(30_000)).toEqual([])
  expect(change(0)).toEqual(["notifications/tools/list_changed"])
})
