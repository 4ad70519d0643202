import { expect, test } from "bun:test"
import { parametersOf, signatureOf } from "../../src/catalog/signature.ts"
import { schemaFacts, typeName } from "../../src/commands/schema-facts.ts"
import { allowsList, choicesOf } from "../../src/commands/tool-arguments.ts"
import { stepsOf } from "../../src/lib/steps.ts"

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

test("schemas that refer to themselves many times are described in a bounded number of steps", () => {
  const self = (count: number) => Array.from({ length: count }, () => ({ $ref: "#/$defs/a" }))
  for (const a of [
    { anyOf: self(200) },
    { type: "array", items: { $ref: "#/$defs/a" } },
    { properties: Object.fromEntries(self(200).map((one, at) => [`p${at}`, one])) },
    { allOf: self(200) },
    {
      allOf: [{ $ref: "#/$defs/big" }, ...self(1)],
      anyOf: Array.from({ length: 200 }, () => ({ $ref: "#/$defs/big" })),
    },
    { type: Array.from({ length: 100_000 }, () => "string"), ...Object.fromEntries(Array(1000).entries()) },
  ]) {
    const big = { properties: Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`b${at}`, {}])) }
    const schema = { properties: { a: { $ref: "#/$defs/a" } }, $defs: { a, big } }
    expect(schemaFacts(schema).length).toBeLessThanOrEqual(500)
    expect(signatureOf(schema, 40)).toStartWith("a?: ")
    expect(parametersOf(a, schema).properties.size).toBeLessThanOrEqual(5000)
    const steps = stepsOf(500)
    typeName(schema.properties.a, schema, 0, steps)
    expect(steps.left).toBeGreaterThan(-2000)
    expect(allowsList(schema.properties.a, schema)).toBe("items" in a)
    expect(choicesOf(a, schema)).toEqual([])
  }
})
