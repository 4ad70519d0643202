import { expect, test } from "bun:test"
import fc from "fast-check"
import { JsonStringDecoder } from "../../../src/features/results/json-string.ts"

function decode(written: string, size: number): string {
  const decoder = new JsonStringDecoder()
  const bytes = Buffer.from(written)
  const parts: Buffer[] = []
  for (let at = 0; at < bytes.length; at += size) parts.push(Buffer.from(decoder.push(bytes.subarray(at, at + size))))
  return Buffer.concat(parts).toString()
}

/** Writes each unit as an escape. */
const escaped = (text: string): string =>
  `"${Array.from({ length: text.length }, (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`).join("")}"`

test("a string is decoded as JSON.parse does, however its bytes are divided", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.integer({ min: 1, max: 9 }), (text, size) => {
      expect(decode(JSON.stringify(text), size)).toBe(text.toWellFormed())
      expect(decode(escaped(text), size)).toBe(text.toWellFormed())
    }),
    { numRuns: 500 },
  )
})

test.each([
  '"\\/\\b\\f\\n\\r\\t\\"\\\\"',
  '"\\ud83d\\ude00"',
  '"\\ud83dx"',
  '"\\ud83d\\n"',
  '"\\ude00\\ud83d"',
  '"\\ud83d\\ud83d\\ude00"',
  '""',
])("%s is decoded", (written) => {
  for (let size = 1; size < 20; size++) expect(decode(written, size)).toBe(JSON.parse(written).toWellFormed())
})
