import { expect, test } from "bun:test"
import fc from "fast-check"
import { MAX_DEPTH } from "../../src/lib/json-limits.ts"
import { encode } from "../../src/wire/frame.ts"
import { elementsOf, endOfValue, memberNamesOf, skipSpace } from "../../src/wire/grammar.ts"

/** Whether the text as a whole is one value. */
const isWhole = (text: string): boolean => {
  const bytes = encode(text)
  const end = endOfValue(bytes, skipSpace(bytes, 0))
  return end >= 0 && skipSpace(bytes, end) === bytes.length
}
const parses = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

test("a value that JSON.parse accepts has an end, with any white space", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom("", " ", "\t", "\r\n"), (value, space) => {
      const text = JSON.stringify(value, null, space)
      expect(endOfValue(encode(text), 0)).toBe(encode(text).length)
      expect(isWhole(`${space}${text}${space}`)).toBe(true)
    }),
  )
})

test("exactly what JSON.parse rejects is rejected", () => {
  const piece = fc.constantFrom(
    ...'{}[]:,"\\/bfnrtu0123456789.-+eE \t\r\naétruefalsenull\u0000\u001f\u007f\u2028',
    "\\u00e9",
    "\\u12",
    '"a"',
    "true",
    "null",
    "-0",
    "1e5",
    "[1]",
    '{"a":1}',
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const text = pieces.join("")
      expect([text, isWhole(text)]).toEqual([text, parses(text)])
    }),
    { numRuns: 20_000 },
  )
  fc.assert(
    fc.property(fc.json(), fc.nat(), piece, fc.boolean(), (json, at, put, over) => {
      const cut = at % (json.length + 1)
      const text = json.slice(0, cut) + put + json.slice(over ? cut + 1 : cut)
      if (text.isWellFormed()) expect([text, isWhole(text)]).toEqual([text, parses(text)])
    }),
    { numRuns: 5000 },
  )
})

test("a value cut off anywhere has no end", () => {
  const text = '{"a":[1.5e+3,true,false,null,"x\\u00e9\\n"],"b":{}}'
  for (let end = 0; end < text.length; end++) expect(endOfValue(encode(text.slice(0, end)), 0)).toBe(-1)
})

test("a value nested too deep has no end", () => {
  for (const [open, close] of [
    ["[", "]"],
    ['{"a":', "}"],
  ] as const) {
    const nested = (levels: number) => encode(`${open.repeat(levels)}1${close.repeat(levels)}`)
    expect(endOfValue(nested(MAX_DEPTH), 0)).toBe(nested(MAX_DEPTH).length)
    expect(endOfValue(nested(MAX_DEPTH + 1), 0)).toBe(-1)
    expect(endOfValue(nested(1_000_000), 0)).toBe(-1)
  }
})

test("elements and member names are found as written", () => {
  const bytes = encode(' [ 1 ,{"a":[2]},"],", [] ] ')
  const elements = Array.from(elementsOf(bytes, 1), ({ start, end }) => bytes.subarray(start, end))
  expect(elements).toEqual([encode("1"), encode('{"a":[2]}'), encode('"],"'), encode("[]")])
  const names = Array.from(memberNamesOf(encode('{ "a" : {"b":1} , "\\u0061":"}", "c,":[] }'), 0))
  expect(names).toEqual([encode('"a"'), encode('"\\u0061"'), encode('"c,"')])
})

test("a byte that no string has is found anywhere in a long one, in ASCII and in other text", () => {
  const edges = [0, 1, 63, 64, 511, 512, 513, 1023, 1024, 2047, 2048, 4096, 70_000, 140_000]
  const puts = ["\u0000", "\u001f", "\\x", "\\u12", '"', "\n", "", '\\"', "\\u00e9", "\u007f", "\u0080"]
  const check = (before: string, filling: string, chars: number, put: string) => {
    const text = `${before}["${filling.repeat(chars)}${put}${filling.repeat(700)}"]`
    expect([before, filling, chars, put, isWhole(text)]).toEqual([before, filling, chars, put, parses(text)])
  }
  for (const filling of ["a", "я", "☃"])
    for (const chars of edges) for (const put of puts) check("", filling, chars, put)
  // Long strings are read in words, which begin at multiples of four bytes.
  for (const before of ["", " ", "  ", "   "])
    for (let chars = 560; chars < 1120; chars++) check(before, "a", chars, "\u001f")
})
