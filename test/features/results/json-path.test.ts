import { expect, test } from "bun:test"
import fc from "fast-check"
import { JSONPathEnvironment, JSONPathNode } from "json-p3"
import { findPath, type PathMatches } from "../../../src/features/results/json-path.ts"
import { stepsOf } from "../../../src/lib/steps.ts"

const environment = new JSONPathEnvironment()

/** Finds values with turns of `each` steps. Returns the matches, and the steps that were taken. */
function find(text: string, path: string, { most = 200, counted = 1e6, each = 100 } = {}) {
  const bytes = Buffer.from(text)
  const turn = stepsOf(each)
  const { segments } = environment.compile(path)
  const walk = findPath(bytes, 0, segments, { most, counted, Node: JSONPathNode, turn })
  let steps = 0
  let longest = 0
  for (;;) {
    const { done, value } = walk.next()
    steps += each - turn.left
    longest = Math.max(longest, each - turn.left)
    turn.left = each
    if (done === true) return { ...(value as PathMatches), steps, longest, bytes }
  }
}

const described = (text: string, path: string) => {
  const { kept, total, bytes } = find(text, path)
  const values = kept.map(({ start, end, location }) => [location, bytes.toString("utf8", start, end)])
  return { total, values }
}

const name = fc.constantFrom("a", "b", "é", 'x"y', "c\n")
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom<unknown>(0, 1, -2.5, "a", "", null, true, 'q"\\'),
    fc.array(tie("value"), { maxLength: 5 }),
    fc.dictionary(name, tie("value"), { maxKeys: 4 }),
  ),
})).value
const index = fc.integer({ min: -4, max: 4 })
const part = fc.option(index, { nil: "" })
const selector = fc.oneof(
  name.map((one) => JSON.stringify(one)),
  fc.constant("*"),
  index.map(String),
  fc.tuple(part, part, fc.constantFrom("", ":1", ":2", ":-1", ":-2")).map(([from, to, step]) => `${from}:${to}${step}`),
  fc.constantFrom("?@.a", "?@==1", "?@.a==1||@.b", "?@[?@==0]", "?length(@)>1"),
)
const segment = fc.oneof(
  fc.array(selector, { minLength: 1, maxLength: 3 }).map((all) => `[${all.join(",")}]`),
  fc.constantFrom(".*", ".a", ".b"),
)
const path = fc
  .tuple(
    fc.array(segment, { maxLength: 3 }),
    fc.option(segment, { nil: undefined }),
    fc.array(segment, { maxLength: 2 }),
  )
  .map(([first, below, last]) => {
    const descent = below === undefined ? "" : `..${below.replace(/^\./, "")}`
    return `$${first.join("")}${descent}${last.join("")}`
  })

test("the values of a path are those of the specification's own algorithm, in its order", () => {
  fc.assert(
    fc.property(json, path, fc.constantFrom(undefined, 1), (value, written, indent) => {
      const text = JSON.stringify(value, null, indent)
      const nodes = [...environment.query(written, JSON.parse(text))]
      const { total, values } = described(text, written)
      expect(total).toBe(nodes.length)
      expect(values.map(([location, found]) => [location, JSON.parse(String(found))])).toEqual(
        nodes.slice(0, 200).map((node) => [node.location, node.value]),
      )
    }),
    { numRuns: 1500 },
  )
})

test("of repeated members the last one counts, and names with escapes are read", () => {
  expect(described('{"a":{"b":1,"c":2},"a":{"b":3}}', "$..b").values).toEqual([[["a", "b"], "3"]])
  expect(described('{"\\u0061":[1, 2 ],"b":1}', "$.a[*]").values).toEqual([
    [["a", 0], "1"],
    [["a", 1], "2"],
  ])
  expect(described("[]", "$").values).toEqual([[[], "[]"]])
  expect(described("  7 ".trim(), "$").values).toEqual([[[], "7"]])
})

test("twice the text takes at most 2.5 times the steps, and no turn much more than its own", () => {
  const rows = (count: number) => `{"rows":[${'{"id":1,"tags":["a","b",{"x":[]}]},'.repeat(count)}{"id":2}]}`
  const nested = (levels: number) => `${'{"a":['.repeat(levels)}1${",2]}".repeat(levels)}`
  const blank = (count: number) => `[${`"${"\\\\".repeat(500)}",`.repeat(count)}1]`
  for (const [textOf, count] of [
    [rows, 2000],
    [nested, 120],
    [blank, 500],
  ] as const)
    for (const written of [
      "$.rows[0]",
      "$..z",
      "$..x",
      "$..*",
      "$[?@.id==2]",
      "$.rows[?@.id==2].id",
      "$..[?@.x]",
      "$[-1]",
    ]) {
      if (textOf === nested && written === "$..[?@.x]") continue
      const options = { counted: 1e9, each: 5000 }
      try {
        const small = find(textOf(count), written, options)
        const large = find(textOf(2 * count), written, options)
        expect([written, large.steps <= 2.5 * small.steps + 1000]).toEqual([written, true])
        expect(large.longest).toBeLessThan(5000 + 8 * 64 * 1024)
      } catch (error) {
        expect(String(error)).toContain("a filter tests values of 65536 bytes at most")
      }
    }
})
