import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import {
  allOf,
  formatFilterProblem,
  matchesFilter,
  parseFilter,
  printFilter,
  type TagFilter,
  tagsOf,
} from "../../src/config/tag-filter.ts"

const parsed = (text: string): TagFilter => {
  const read = parseFilter(text)
  if ("problem" in read) throw new Error(formatFilterProblem(text, read.problem))
  return read.filter
}

const problemOf = (text: string) => {
  const read = parseFilter(text)
  return "problem" in read ? `${read.problem.column}: ${read.problem.message}` : undefined
}

const TAGS = ["a", "b", "and", "two words", 'quo"te', "back\\slash", "ü/x:1"]

const filters: fc.Arbitrary<TagFilter> = fc.letrec<{ filter: TagFilter }>((tie) => ({
  filter: fc.oneof(
    { maxDepth: 5, depthIdentifier: "filter" },
    fc.constantFrom(...TAGS).map((tag): TagFilter => ({ kind: "tag", tag })),
    tie("filter").map((of): TagFilter => ({ kind: "not", of })),
    fc
      .tuple(
        fc.constantFrom("and" as const, "or" as const),
        fc.array(tie("filter"), { minLength: 1, maxLength: 4, depthIdentifier: "filter" }),
      )
      .map(([kind, of]): TagFilter => ({ kind, of })),
  ),
})).filter

/** All sets of tags. */
const WORLDS = Array.from({ length: 2 ** TAGS.length }, (_, bits) => TAGS.filter((_tag, index) => (bits >> index) & 1))
const table = (filter: TagFilter) => WORLDS.map((tags) => (matchesFilter(filter, tags) ? "1" : "0")).join("")

describe("a filter", () => {
  test("is printed as text that parses to the same filter", () => {
    fc.assert(
      fc.property(filters, (filter) => {
        const text = printFilter(filter)
        const again = parseFilter(text)
        // Only its length or depth may keep a filter from being read.
        if ("problem" in again) expect(again.problem.message).toMatch(/longer|brackets/)
        else {
          expect(table(again.filter)).toBe(table(filter))
          expect(printFilter(parsed(printFilter(again.filter)))).toBe(printFilter(again.filter))
        }
      }),
    )
  })

  test.each([
    ["a and b or c", "a and b or c"],
    ["a and (b or c)", "a and (b or c)"],
    ["a & !b | c && (d || 'e f')", 'a and not b or c and (d or "e f")'],
    ["A AND NOT b OR C", "A and not b or C"],
    ["not not a", "a"],
    ["((a))", "a"],
    ["not (a or b) and c", "not (a or b) and c"],
    ['"and" or \'it\\\'s\' or "\\"\\\\"', '"and" or "it\'s" or "\\"\\\\"'],
    ["prod/eu-1.x:y and ü", "prod/eu-1.x:y and ü"],
  ])("%s is spelled %s", (text, spelled) => {
    expect(printFilter(parsed(text))).toBe(spelled)
  })

  test.each([
    ["", '1: expected a tag, "not" or "(", found the end'],
    ["a and", '6: expected a tag, "not" or "(", found the end'],
    ["a b", '3: expected "and", "or" or the end, found "b"'],
    ["(a or b", '8: expected "and", "or" or ")", found the end'],
    ["a)", '2: expected "and", "or" or the end, found ")"'],
    ["a,b", '2: found ","; write "or" between alternative tags'],
    ["a or 'b", "6: a quote is not closed"],
    ["or a", '1: expected a tag, "not" or "(", found "or"'],
    ["()", '2: expected a tag, "not" or "(", found ")"'],
  ])("%s is refused with its column and what was expected", (text, message) => {
    expect(problemOf(text)).toBe(message)
  })

  test("is bounded in length and depth", () => {
    expect(problemOf("a".repeat(2001))).toBe("2001: is longer than 2000 characters")
    expect(problemOf(`${"(".repeat(51)}a${")".repeat(51)}`)).toContain("nested brackets")
    expect(problemOf(`${"(".repeat(50)}a${")".repeat(50)}`)).toBeUndefined()
    expect(matchesFilter(parsed(`${"!".repeat(1999)}a`), [])).toBe(true)
  })

  test("never throws, whatever the text", () => {
    const bits = fc.constantFrom("a", " ", "(", ")", "and", "or", "not", "!", "&", "|", '"', "'", "\\", ",", "\n", "💥")
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(bits).map((list) => list.join("")),
        ),
        (text) => void parseFilter(text),
      ),
    )
  })

  test("compares tags exactly [filter:exact]", () => {
    expect(matchesFilter(parsed("Web"), ["web"])).toBe(false)
    expect(matchesFilter(parsed("we"), ["web"])).toBe(false)
    expect(matchesFilter(parsed("not Web"), ["web"])).toBe(true)
  })

  test("matches everything if there is no filter", () => {
    expect(matchesFilter(allOf([]), [])).toBe(true)
    expect(printFilter(allOf([]))).toBe("")
  })

  test("lists each of its tags once", () => {
    expect(tagsOf(parsed("a and not (b or a)"))).toEqual(["a", "b"])
  })
})
