/** Marked members stay in the order in which they are written. */
import { expect, test } from "bun:test"
import { decode, encode } from "../../src/wire/frame.ts"
import { markMembers, withoutMarks } from "../../src/wire/member-marks.ts"

const marked = (text: string): string => decode(markMembers(encode(text), "S"))

test.each([
  ['{"a":1,"1":2}', '{"a":1,"S0:1":2}'],
  ['{"r":{"a":1,"b":2,"a":3,"c":4,"a":5}}', '{"r":{"S0:a":1,"b":2,"S1:a":3,"c":4,"a":5}}'],
  ['{"r":{"7":1,"7":2}}', '{"r":{"S0:S1:7":1,"S2:7":2}}'],
  ['{"r":[{"a":1},{"a":2,"\\u0061" : 3}]}', '{"r":[{"a":1},{"S0:a":2,"\\u0061" : 3}]}'],
  ['{"r":{"\\u0032\\u0033":1}}', '{"r":{"S0:\\u0032\\u0033":1}}'],
  ['{"r":{"a\\"1":1,"b":"\\"2\\":","é☃":{"é☃":[]}}}', undefined],
  // The message itself may not repeat a member.
  ['{"id":1,"id":2,"r":{}}', undefined],
  ['{"r":{"a":"no end', undefined],
])("%s", (text, expected) => {
  expect(marked(text)).toBe(expected ?? text)
  expect(withoutMarks(marked(text), "S")).toBe(text)
})

test("an object keeps its marked members as they are written", () => {
  const text = '{"r":{"b":1,"2":{"1":[],"0":[]},"b":2,"1":3,"b":4}}'
  expect(withoutMarks(JSON.stringify(JSON.parse(marked(text))), "S")).toBe(text)
})
