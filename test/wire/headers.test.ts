import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { parseExact } from "../../src/lib/json.ts"
import { decodeHeader, encodeHeader, mirroredOf, paramHeaders, paramMismatch } from "../../src/wire/headers.ts"

const schema = (properties: object, more: object = {}) => ({ type: "object", properties, ...more })
const marked = (name: unknown, type = "string") => ({ type, "x-mcp-header": name })

test("any text can be encoded in a header", () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.string({ unit: "grapheme" }), fc.constantFrom("", " x ", "=?base64?abc?=", "a\r\nb: c")),
      (text) => {
        const value = encodeHeader(text)
        expect(value).toMatch(/^[\x20-\x7e]*$/)
        expect(decodeHeader(value)).toBe(text)
      },
    ),
  )
})

describe("marks", () => {
  test("are found at any depth of properties", () => {
    const found = mirroredOf(
      schema({ region: marked("Region"), deep: schema({ id: marked("Id", "integer") }), other: { type: "string" } }),
    )
    expect(found).toEqual([
      { header: "mcp-param-region", path: ["region"] },
      { header: "mcp-param-id", path: ["deep", "id"] },
    ])
  })

  test.each([
    [schema({ a: marked("") })],
    [schema({ a: marked("a b") })],
    [schema({ a: marked("a\r\nb") })],
    [schema({ a: marked(7) })],
    [schema({ a: marked("X", "number") })],
    [schema({ a: marked("X"), b: marked("x") })],
    [schema({ a: { type: "array", items: schema({ b: marked("X") }) } })],
    [schema({}, { anyOf: [schema({ a: marked("X") })] })],
  ])("that are not valid are told: %j", (wrong) => {
    expect(mirroredOf(wrong)).toBeString()
  })
})

test("a request's headers are checked against its arguments", () => {
  const mirrored = [
    { header: "mcp-param-region", path: ["region"] },
    { header: "mcp-param-n", path: ["deep", "n"] },
  ]
  const args = { region: "Zürich", deep: { n: 42 } }
  const headers = paramHeaders(args, mirrored)
  expect(paramMismatch(args, mirrored, new Headers(headers))).toBeUndefined()
  expect(paramMismatch(args, mirrored, new Headers({ ...headers, "mcp-param-n": "42.0" }))).toBeUndefined()
  expect(paramMismatch(args, mirrored, new Headers({ ...headers, "mcp-param-n": "43" }))).toContain("does not match")
  expect(paramMismatch(args, mirrored, new Headers({ "mcp-param-n": "42" }))).toContain("is missing")
  expect(paramMismatch(args, mirrored, new Headers({ ...headers, "mcp-param-region": "=?base64?!?=" }))).toContain(
    "not a valid",
  )
  expect(paramHeaders({ region: null }, mirrored)).toEqual({})
  expect(paramMismatch({ region: null }, mirrored, new Headers())).toBeUndefined()
})

test("a number is the same in a header and a body, and integers beyond 2^53 are told apart", () => {
  const mirrored = [{ header: "mcp-param-n", path: ["n"] }]
  const args = (number: string) => parseExact(`{"n":${number}}`)
  const mismatch = (number: string, said: string) =>
    paramMismatch(args(number), mirrored, new Headers({ "mcp-param-n": said }))
  for (const [number, header] of [
    ["1.0", "1"],
    ["1E2", "100"],
    ["-0", "0"],
    ["9007199254740993", "9007199254740993"],
    ["12345678901234567890", "12345678901234567890"],
  ] as const) {
    expect(paramHeaders(args(number), mirrored)).toEqual({ "mcp-param-n": header })
    expect(mismatch(number, header)).toBeUndefined()
  }
  expect(mismatch("1.0", "1.00")).toBeUndefined()
  expect(mismatch("9007199254740993", "9007199254740992")).toContain("does not match")
  expect(mismatch("9007199254740992", "9007199254740993")).toContain("does not match")
})
