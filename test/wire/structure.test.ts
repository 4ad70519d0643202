import { expect, test } from "bun:test"
import fc from "fast-check"
import { compileStructure } from "../../scripts/structure.ts"
import { endOfValue } from "../../src/wire/grammar.ts"
import { endOfStructure } from "../../src/wire/structure.ts"

const LEVELS = 64
const WINDOW = 64 * 1024
const bytesOf = (text: string) => new TextEncoder().encode(text)

test("the program in structure.ts is structure.wat, compiled; `bun scripts/structure.ts` writes it", async () => {
  const source = await Bun.file(`${import.meta.dir}/../../src/wire/structure.ts`).text()
  expect(source).toContain(`"${await compileStructure()}"`)
})

test("it finds the end of every valid object and array, as the grammar does [frame:structure]", () => {
  const value = fc.oneof(fc.array(fc.jsonValue()), fc.dictionary(fc.string({ unit: "binary" }), fc.jsonValue()))
  fc.assert(
    fc.property(value, fc.nat(130), fc.string(), (json, before, after) => {
      const text = JSON.stringify(json)
      const bytes = bytesOf(`${" ".repeat(before)}${text}${after}`)
      const end = before + bytesOf(text).length
      expect([endOfStructure(bytes, before, LEVELS), endOfValue(bytes, before, LEVELS)]).toEqual([end, end])
    }),
    { numRuns: 2000 },
  )
})

test("whatever the bytes are, a value that it finds and that is JSON ends where the grammar says [frame:structure]", () => {
  const piece = fc.constantFrom(
    '"',
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\\u00",
    "a",
    " ",
    "\n",
    "\u0001",
    "1",
    "true",
    "é",
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 300 }), (pieces) => {
      const bytes = bytesOf(`{${pieces.join("")}`)
      const [found, valid] = [endOfStructure(bytes, 0, LEVELS), endOfValue(bytes, 0, LEVELS)]
      // What the grammar accepts ends there, unless what follows has a control character in a string.
      if (valid >= 0) expect([valid, -1]).toContain(found)
      if (valid >= 0) expect(endOfStructure(bytes.subarray(0, valid), 0, LEVELS)).toBe(valid)
      // What the grammar refuses may be found, but no reader can take it for JSON.
      else if (found >= 0) expect(() => JSON.parse(new TextDecoder().decode(bytes.subarray(0, found)))).toThrow()
    }),
    { numRuns: 20_000 },
  )
})

test("strings, escapes and brackets may be cut at any byte by blocks and windows [frame:structure]", () => {
  const tail = '\\\\\\"]}\\u0041","b":[{}]}'
  for (const around of [64, 128, WINDOW])
    for (let at = around - 30; at <= around + 4; at++) {
      const text = `{"a":"${"x".repeat(at)}${tail}`
      expect([at, endOfStructure(bytesOf(`${text},"id":8}`), 0, LEVELS)]).toEqual([at, text.length])
    }
})

test("nesting is limited, and a value that does not end has no end [frame:structure]", () => {
  const nested = (levels: number) => bytesOf("[".repeat(levels) + "]".repeat(levels))
  expect(endOfStructure(nested(64), 0, 64)).toBe(128)
  expect(endOfStructure(nested(65), 0, 64)).toBe(-1)
  expect(endOfStructure(bytesOf(`[${"[],".repeat(50_000)}0]`), 0, 2)).toBe(150_003)
  for (const open of ["{", '{"a":"', '{"a":"}', '["\\"]', `[${" ".repeat(WINDOW)}`])
    expect([open.trim(), endOfStructure(bytesOf(open), 0, LEVELS)]).toEqual([open.trim(), -1])
})

test("a line break or another control character in a string is refused, and white space between values is not [frame:structure]", () => {
  for (const control of ["\n", "\r", "\0", "\u001f"]) {
    expect(endOfStructure(bytesOf(`{"a":"${"x".repeat(100)}${control}"}`), 0, LEVELS)).toBe(-1)
    expect(endOfStructure(bytesOf(`{"a":"${"x".repeat(WINDOW)}${control}"}`), 0, LEVELS)).toBe(-1)
  }
  expect(endOfStructure(bytesOf('{\n\t"a":\r\n 1 }'), 0, LEVELS)).toBe(13)
})
