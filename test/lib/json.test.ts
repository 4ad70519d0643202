import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import {
  canonical,
  JsonNumber,
  mapStrings,
  numberOf,
  parseExact,
  parseIfJson,
  withDoubles,
} from "../../src/lib/json.ts"
import { NUMBER } from "../numbers.ts"

/** All places in which a number can stand in JSON text. */
const PLACES: readonly ((number: string) => string)[] = [
  (number) => number,
  (number) => `[${number}]`,
  (number) => `{"a":${number}}`,
  (number) => `[0,"x",${number},${number},{"b":[[${number}]],"__proto__":${number}}]`,
  (number) => `{"text":"1.0 \\" ${number}","b":{"c":${number}},"d":true}`,
]

test("text that is no JSON has no value", () => {
  expect(["1.0", '{"a":[]}', "null", "{", ""].map(parseIfJson)).toEqual([1, { a: [] }, null, undefined, undefined])
})

describe("a number", () => {
  test("is written as it was read, in every place", () => {
    fc.assert(
      fc.property(NUMBER, (number) => {
        for (const place of PLACES) expect(JSON.stringify(parseExact(place(number)))).toBe(place(number))
      }),
      { numRuns: 2000 },
    )
  })

  test("has its value as a double", () => {
    for (const [text, value] of [
      ["1.0", 1],
      ["-0", -0],
      ["1E5", 100_000],
      ["9007199254740993", 2 ** 53],
    ] as const)
      expect(numberOf(parseExact(text))).toBe(value)
    expect(numberOf("1")).toBeUndefined()
    expect(numberOf(new Date())).toBeUndefined()
    expect(withDoubles(parseExact('{"a":[1.0,{"b":1E5}],"c":"1.0"}'))).toEqual({ a: [1, { b: 100_000 }], c: "1.0" })
  })
})

describe("JSON", () => {
  test("without such numbers has the value of JSON.parse", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value)
        expect(parseExact(text)).toStrictEqual(JSON.parse(text))
      }),
    )
  })

  test("keeps the last of duplicate members, and a member named __proto__", () => {
    expect(JSON.stringify(parseExact('{"a":1.0,"b":[],"a":{"x":2.0}}'))).toBe('{"a":{"x":2.0},"b":[]}')
    const value = parseExact('{"__proto__":{"polluted":1.0}}')
    expect(Object.hasOwn(value as object, "__proto__")).toBe(true)
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
  })

  test("cannot forge a number", () => {
    const forged = parseExact('{"text":"1,2","toJSON":1.0,"rawJSON":"}"}')
    expect(forged).not.toBeInstanceOf(JsonNumber)
    expect(JSON.stringify(forged)).toBe('{"text":"1,2","toJSON":1.0,"rawJSON":"}"}')
  })

  test.each(["", "01", "1.", ".5", "+1", "1.0 2.0", "[1.0", "-", "1e", "0x10", "NaN"])(
    "that is malformed is rejected: %j",
    (text) => {
      expect(() => parseExact(text)).toThrow()
    },
  )
})

describe("canonical", () => {
  test("writes equal values as one text, whatever the order of their members", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        expect(canonical(turned(value))).toBe(canonical(value))
        expect(JSON.parse(canonical(value))).toEqual(JSON.parse(JSON.stringify(value)))
        expect(canonical(value, "doubles")).toBe(canonical(withDoubles(value)))
      }),
    )
    expect(canonical({ b: [1, { d: 2, c: "x" }], a: null })).toBe('{"a":null,"b":[1,{"c":"x","d":2}]}')
    expect(canonical(parseExact('{"10":1.0,"9":9007199254740993}'))).toBe('{"10":1.0,"9":9007199254740993}')
  })

  test.each(["1.0", "-0", "1E2", "1e400", "9007199254740993", "0.0000001"])(
    "takes %s as a double if asked to",
    (text) => {
      const value = parseExact(`[${text},{"a":${text}}]`)
      expect(canonical(value, "doubles")).toBe(canonical(withDoubles(value)))
    },
  )
})

test("mapStrings changes each string, tells its path, and keeps all else", () => {
  const paths: unknown[] = []
  const value = JSON.parse('{"a":["x",1,{"b":"y"}],"__proto__":"z","c":null}')
  const mapped = mapStrings({ ...value, gone: undefined }, (text, path) => {
    paths.push(path)
    return text.toUpperCase()
  })
  expect(JSON.stringify(mapped)).toBe('{"a":["X",1,{"b":"Y"}],"__proto__":"Z","c":null}')
  expect(paths).toEqual([["a", 0], ["a", 2, "b"], ["__proto__"]])
  expect(JSON.stringify(mapStrings([new JsonNumber("1.0")], String))).toBe("[1.0]")
})

/** The same value with the members of its objects in the opposite order. */
function turned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(turned)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, item]) => [key, turned(item)]),
  )
}
