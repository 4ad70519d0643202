import { expect, test } from "bun:test"
import { filledFrom, type Listing } from "../../src/catalog/listing.ts"

const listing = (name: string, more: Partial<Listing> = {}): Listing => ({
  era: "legacy",
  protocolVersion: "2025-11-25",
  serverInfo: {},
  capabilities: {},
  instructions: undefined,
  tools: [{ name }],
  prompts: [{ name }],
  resources: [{ uri: name }],
  resourceTemplates: [{ uriTemplate: name }],
  ...more,
})

test("failed lists without entries are filled from another listing, and no others", () => {
  const shared = listing("shared")
  const whole = listing("own", { prompts: [] })
  expect(filledFrom(shared, whole)).toBe(whole)
  const own = listing("own", { tools: [], prompts: [], failing: { "tools/list": "db down", "resources/list": "late" } })
  expect(filledFrom(shared, own)).toEqual({ ...own, tools: shared.tools })
})
