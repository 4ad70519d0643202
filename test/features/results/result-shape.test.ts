import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { TextShape } from "../../../src/features/results/result-shape.ts"

/** Analyzes a text in pieces of `size` bytes. */
function shapeOf(text: string, size = 65_536): TextShape {
  const shape = new TextShape()
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) shape.push(bytes.subarray(at, at + size))
  return shape
}
const words = (text: string, length = 1000) => shapeOf(text).describe(length)

describe("the shape of JSON", () => {
  test("names keys, types and lengths, and merges the elements of an array", () => {
    const items = [
      { id: 1, name: "a", tags: [] },
      { id: 2, name: null, tags: ["x", "y"] },
    ]
    expect(words(JSON.stringify({ items, next: "x".repeat(300), ok: true }))).toEqual({
      kind: "json",
      mimeType: "application/json",
      shape:
        "{items: [2 × {id: number, name: string | null, tags: [0–2 × string]}], next: string (up to 300 bytes), ok: boolean}",
    })
  })

  test("is cut at a depth that fits", () => {
    const deep = JSON.stringify({ a: { b: { c: { d: [1, 2, 3] } } }, e: [[1], [2]] })
    for (const length of [40, 60, 80]) expect(words(deep, length).shape.length).toBeLessThanOrEqual(length)
    expect(words(deep, 40).shape).toContain("a: ")
  })

  test("stays small for any number of keys and levels", () => {
    const many = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`key${at}`, at]))
    expect(words(JSON.stringify(many), 10_000).shape).toEndWith("key59: number, …}")
    expect(words("[".repeat(100) + "]".repeat(100)).kind).toBe("json")
    expect(words("[".repeat(600) + "]".repeat(600)).kind).toBe("text")
  })

  test("does not depend on how the bytes are divided, or on white space", () => {
    fc.assert(
      fc.property(fc.object(), fc.integer({ min: 1, max: 20 }), (value, size) => {
        const [plain, spaced] = [JSON.stringify(value), JSON.stringify(value, null, 2)]
        expect(shapeOf(plain, size).describe(500)).toEqual(shapeOf(plain).describe(500))
        expect(shapeOf(spaced, size).compactDigest).toBe(shapeOf(plain).compactDigest as string)
      }),
      { numRuns: 200 },
    )
  })

  test("differs in its digest for another value", () => {
    const digests = ['{"a": 1}', '{"a": 2}', '{"a":"1"}', '{"a b":1}', '{"ab":1}'].map(
      (text) => shapeOf(text).compactDigest,
    )
    expect(new Set(digests).size).toBe(5)
  })
})

test.each([
  ["{} and more", "1 line"],
  ["[1, 2", "1 line"],
  ["a\nb\n", "2 lines"],
  ["a\nb", "2 lines"],
  ["Hello, world\nThis is, a text\nwith, commas\nin, each line\n", "table of 3 rows and 2 columns: Hello, world"],
  ["Yes, 1\nYes, 2\nYes, 3\nYes, 4\n", "4 lines"],
  ["a,b\n1,2\n3\n4,5\n", "4 lines"],
])("%p is a text of %s", (text, shape) => {
  expect(words(text).shape).toBe(shape)
})

test("the rows of a table are counted with quoted line breaks", () => {
  const rows = Array.from({ length: 50 }, (_, at) => `${at},"line ${at}",x`)
  rows[20] = '20,"two\nlines",x'
  expect(words(`id,"the name",z\n${rows.join("\n")}`)).toEqual({
    kind: "table",
    mimeType: "text/csv",
    shape: "table of 50 rows and 3 columns: id, the name, z",
  })
})
