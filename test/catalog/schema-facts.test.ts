import { expect, test } from "bun:test"
import { schemaFacts } from "../../src/catalog/schema-facts.ts"

test("the members of a schema are shown by path, with type, limits and description", () => {
  const schema = {
    type: "object",
    properties: {
      path: { type: "string", description: "Where" },
      mode: { enum: ["fast", "slow"], default: "fast" },
      count: { type: ["integer", "null"], minimum: 0, maximum: 9 },
      kind: { const: "k" },
      filter: { $ref: "#/$defs/filter" },
      edits: { type: "array", items: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } },
      any: {},
      either: { anyOf: [{ type: "string" }, { type: "number" }] },
    },
    required: ["path", "filter"],
    $defs: { filter: { type: "object", properties: { tags: { type: "array", items: { enum: ["a", "b"] } } } } },
  }
  expect(schemaFacts(schema)).toEqual([
    ["path", "string, required: Where"],
    ["mode", "string, one of fast | slow, default fast"],
    ["count", "integer or null, at least 0, at most 9"],
    ["kind", "string, always k"],
    ["filter", "object, required"],
    ["filter.tags", "array of string, one of a | b"],
    ["edits", "array of object"],
    ["edits[].text", "string, required"],
    ["any", "any"],
    ["either", "string or number"],
  ])
})

test("a schema that leads back to itself, or is none, ends", () => {
  const node = { type: "object", properties: { next: { $ref: "#" } } }
  expect(schemaFacts(node).length).toBeLessThan(10)
  expect([undefined, null, "x", {}].map(schemaFacts)).toEqual([[], [], [], []])
  const circle = { properties: { a: { $ref: "#/$defs/a" } }, $defs: { a: { $ref: "#/$defs/a" } } }
  expect(schemaFacts(circle)).toHaveLength(1)
  const wide = { properties: Object.fromEntries(Array.from({ length: 2000 }, (_, at) => [`p${at}`, {}])) }
  expect(schemaFacts(wide)).toHaveLength(500)
})
