import { expect, test } from "bun:test"
import { readArguments } from "../../src/commands/tool-arguments.ts"

const schema = {
  type: "object",
  properties: {
    text: { type: "string" },
    count: { type: "integer" },
    ratio: { type: "number" },
    dry: { type: "boolean" },
    mode: { enum: ["fast", "slow", 3] },
    tags: { type: "array", items: { type: "string" } },
    ids: { type: "array", items: { type: "integer" } },
    filter: { type: "object", properties: { depth: { type: "integer" }, by: { $ref: "#/$defs/by" } } },
    "a.b": { type: "number" },
    maybe: { anyOf: [{ type: "integer" }, { type: "null" }] },
    either: { anyOf: [{ type: "integer" }, { type: "string" }] },
    any: {},
  },
  $defs: { by: { type: "object", properties: { name: { type: "boolean" } }, additionalProperties: false } },
}
const read = (...words: string[]) => readArguments(words, schema)

test.each([
  [["text=5"], { text: "5" }],
  [["text=a=b:=c"], { text: "a=b:=c" }],
  [["text="], { text: "" }],
  [["count=5", "ratio=-1.5", "dry=true"], { count: 5, ratio: -1.5, dry: true }],
  [["mode=slow"], { mode: "slow" }],
  [["mode=3"], { mode: 3 }],
  [["tags=a"], { tags: ["a"] }],
  [["tags=a,b"], { tags: ["a,b"] }],
  [["tags=a", "tags=b"], { tags: ["a", "b"] }],
  [['tags=["a","b"]'], { tags: ["a", "b"] }],
  [["tags=[a"], { tags: ["[a"] }],
  [["ids=1", "ids=2"], { ids: [1, 2] }],
  [["filter.depth=2", "filter.by.name=false"], { filter: { depth: 2, by: { name: false } } }],
  [['filter={"depth":2}'], { filter: { depth: 2 } }],
  [["a.b=1"], { "a.b": 1 }],
  [["maybe=null"], { maybe: null }],
  [["maybe=3"], { maybe: 3 }],
  [["either=3"], { either: "3" }],
  [["either:=3"], { either: 3 }],
  [["any=3", "other=true", "more.deep=1"], { any: "3", other: "true", more: { deep: "1" } }],
  [['any:={"x":[1]}'], { any: { x: [1] } }],
])("%j is read as %j", (words, expected) => {
  expect(read(...words)).toEqual(expected as never)
})

test("numbers stay as written, and a member called __proto__ stays a member", () => {
  expect(JSON.stringify(read("ratio=9007199254740993.0"))).toBe('{"ratio":9007199254740993.0}')
  const odd = read("__proto__.x=1")
  expect(JSON.stringify(odd)).toBe('{"__proto__":{"x":"1"}}')
  expect(({} as { x?: unknown }).x).toBeUndefined()
})

test.each([
  [["text"], '"text" is not an argument; write key=value'],
  [["=x"], "is not an argument"],
  [["count=x"], "count must be an integer, not x"],
  [["count=1.5"], "count must be an integer"],
  [["dry=yes"], "dry must be a boolean"],
  [["mode=quick"], "mode must be one of fast, slow, 3, not quick"],
  [["ids=1", "ids=x"], "ids must be an integer, not x"],
  [["maybe=x"], "maybe must be an integer or null"],
  [["filter=x"], "filter must be an object"],
  [["filter.by.nam=true"], "there is no parameter filter.by.nam; did you mean name?"],
  [["text=a", "text=b"], "text is given 2 times"],
  [["filter.depth=1", 'filter={"depth":2}'], "filter is given both as a whole and by its members"],
  [["any:=x"], "any:= needs JSON"],
])("%j is refused", (words, message) => {
  expect(() => read(...words)).toThrow(message)
})

test("a missing argument names the parameters, and the unknown ones that were given", () => {
  const needs = { ...schema, required: ["text", "count"] }
  expect(() => readArguments(["txt=a", "count=1"], needs)).toThrow(
    "text is missing, and txt is unknown; the parameters are text*: str, count*: int",
  )
  expect(readArguments([], undefined)).toEqual({})
})
