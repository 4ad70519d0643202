import { expect, test } from "bun:test"
import Ajv from "ajv/dist/2020.js"
import { shortened } from "../../../src/features/results/result-cut.ts"
import { JsonNumber } from "../../../src/lib/json.ts"
import { stepsOf } from "../../../src/lib/steps.ts"

const ajv = new Ajv({ strict: false })
const long = (length: number) => "x".repeat(length)

test.each([
  [
    "arrays and strings of declared members",
    {
      type: "object",
      properties: {
        rows: {
          type: "array",
          items: { type: "object", properties: { name: { type: "string", maxLength: 4000 } }, required: ["name"] },
        },
      },
      required: ["rows"],
      additionalProperties: false,
    },
    { rows: Array.from({ length: 500 }, () => ({ name: long(3000) })) },
  ],
  [
    "a string that must have a length",
    { type: "object", properties: { result: { type: "string", minLength: 500 } } },
    { result: long(90_000) },
  ],
  [
    "the targets of a reference and an alternative",
    {
      $ref: "#/$defs/Page",
      $defs: { Page: { type: "object", properties: { text: { anyOf: [{ type: "string" }, { type: "null" }] } } } },
    },
    { text: long(90_000) },
  ],
  ["undeclared members", { type: "object" }, { a: { b: Array.from({ length: 9000 }, (_, at) => `${at}`) } }],
  [
    "an array with a minimum number of elements",
    { type: "object", properties: { a: { type: "array", minItems: 30, items: { type: "integer" } } } },
    { a: Array.from({ length: 9000 }, (_, at) => at) },
  ],
] as const)("%s are cut, and stay valid", (_, schema, value) => {
  const validate = ajv.compile(schema)
  expect(validate(value)).toBe(true)
  const cut = shortened(value, schema, 2000)
  expect(JSON.stringify(cut).length).toBeLessThanOrEqual(2000)
  expect(validate(cut)).toBe(true)
})

test.each([
  ["a pattern", { type: "object", properties: { a: { type: "string", pattern: "x$" } } }, { a: long(9000) }],
  ["values to choose from", { type: "object", properties: { a: { enum: [long(9000)] } } }, { a: long(9000) }],
  [
    "a keyword that svc does not know",
    { type: "object", properties: { a: { type: "string", "x-check": 1 } } },
    { a: long(9000) },
  ],
  [
    "two alternatives of one type",
    { type: "object", properties: { a: { oneOf: [{ type: "string", maxLength: 5 }, { type: "string" }] } } },
    { a: long(9000) },
  ],
  [
    "too many declared members",
    { type: "object", additionalProperties: { type: "integer" } },
    Object.fromEntries(Array.from({ length: 900 }, (_, at) => [`key${at}`, at])),
  ],
  ["a reference to itself", { $ref: "#" }, { a: long(9000) }],
] as const)("%s keeps a value whole", (_, schema, value) => {
  expect(shortened(value, schema, 2000)).toBeUndefined()
})

test("numbers keep their notation", () => {
  const value = { id: new JsonNumber("9007199254740993"), text: long(9000) }
  expect(JSON.stringify(shortened(value, { type: "object" }, 2000))).toContain('"id":9007199254740993')
})

test("a schema that refers to itself many times takes a bounded number of steps, and the value stays whole", () => {
  const self = Array.from({ length: 8 }, () => ({ $ref: "#/$defs/a" }))
  const schema = { type: "object", properties: { a: { $ref: "#/$defs/a" } }, $defs: { a: { anyOf: self } } }
  const steps = stepsOf(300_000)
  expect(shortened({ a: long(9000) }, schema, 2000, steps)).toBeUndefined()
  expect(steps.left).toBeGreaterThan(-20)
  const wide = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`x${at}`, 1]))
  const many = { type: "array", items: { type: "string", ...wide } }
  const left = stepsOf(300_000)
  shortened(
    Array.from({ length: 100_000 }, () => "x"),
    many,
    1_000_000,
    left,
  )
  expect(left.left).toBeGreaterThan(-6000)
})

test("the steps grow with what is kept, not with the value", () => {
  const taken = (rows: number) => {
    const steps = stepsOf(1e9)
    shortened(
      Array.from({ length: rows }, (_, id) => ({ id, name: long(100) })),
      { type: "array" },
      4000,
      steps,
    )
    return 1e9 - steps.left
  }
  expect(taken(200_000)).toBe(taken(100_000))
})
