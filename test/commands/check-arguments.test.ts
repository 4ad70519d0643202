import { expect, test } from "bun:test"
import { argumentProblems } from "../../src/commands/check-arguments.ts"
import { parseExact } from "../../src/lib/json.ts"
import type { Params } from "../../src/wire/message.ts"

const SCHEMA = {
  type: "object",
  properties: {
    limit: { type: "integer", maximum: 100 },
    path: { type: "string" },
    kind: { enum: ["a", "b"] },
    filter: { type: "object", properties: { tags: { type: "array", items: { type: "string" } } }, required: ["tags"] },
  },
  required: ["path"],
}

test.each([
  [{ path: "/a", limit: 100 }, []],
  [{ path: 7 }, ["path must be string"]],
  [{ path: "a", limit: 500 }, ["limit must be <= 100"]],
  [{}, ["must have required property 'path'"]],
  [{ path: "a", filter: {} }, ["filter must have required property 'tags'"]],
  [{ path: "a", filter: { tags: ["x", 1] } }, ["filter.tags.1 must be string"]],
  [{ path: "a", kind: "c", limit: 1.5 }, ["limit must be integer", "kind must be equal to one of the allowed values"]],
  [{ path: "a", foo: "abc" }, ["foo is no parameter of the tool"]],
])("%j is compared with the whole schema", (args, problems) => {
  expect(argumentProblems(SCHEMA, args)).toEqual(problems)
})

test("a name that the schema allows by other means is no problem", () => {
  for (const more of [
    { additionalProperties: true },
    { additionalProperties: { type: "string" } },
    { patternProperties: { "^f": {} } },
    { allOf: [{ properties: { foo: {} } }] },
  ])
    expect(argumentProblems({ ...SCHEMA, ...more }, { path: "a", foo: "abc" })).toEqual([])
  expect(argumentProblems({ ...SCHEMA, additionalProperties: false }, { path: "a", foo: 1 })).toHaveLength(1)
})

test("numbers as they are written, schemas that are none, and broken schemas are no obstacle", () => {
  expect(argumentProblems(SCHEMA, parseExact('{"path":"a","limit":1.0e1}') as Params)).toEqual([])
  expect(argumentProblems(undefined, { a: 1 })).toEqual([])
  expect(argumentProblems({ type: "strin" }, { a: 1 })).toEqual([expect.stringContaining("cannot be checked")])
})
