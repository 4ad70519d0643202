import { expect, test } from "bun:test"
import fc from "fast-check"
import { type DiffLine, diffLines, mergeLines } from "../../src/lib/line-diff.ts"
import { stepsOf } from "../../src/lib/steps.ts"

const without = (lines: readonly DiffLine[], kind: DiffLine["kind"]) =>
  lines.filter((line) => line.kind !== kind).map(({ text }) => text)
const lines = fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 12 })

test("the lines of both texts are all there, in order", () => {
  fc.assert(
    fc.property(lines, lines, (before, after) => {
      const diff = diffLines(before, after)
      expect(without(diff, "added")).toEqual(before)
      expect(without(diff, "removed")).toEqual(after)
    }),
  )
})

test("as few lines as possible are changed", () => {
  const common = ([first, ...rest]: readonly string[], other: readonly string[]): number => {
    if (first === undefined || other.length === 0) return 0
    const at = other.indexOf(first)
    return Math.max(common(rest, other), at < 0 ? 0 : 1 + common(rest, other.slice(at + 1)))
  }
  fc.assert(
    fc.property(lines, lines, (before, after) => {
      const same = diffLines(before, after).filter(({ kind }) => kind === "same")
      expect(same).toHaveLength(common(before, after))
    }),
  )
})

test("the lines between two changes that are far apart stay the same", () => {
  const middle = Array.from({ length: 100_000 }, (_, at) => String(at))
  const diff = diffLines(["old", ...middle, "old"], ["new", ...middle, "new"])
  expect(diff.filter(({ kind }) => kind !== "same").map(({ text }) => text)).toEqual(["old", "new", "old", "new"])
})

test("an inserted line is the only change", () => {
  expect(diffLines(["a", "b", "a", "c"], ["a", "b", "x", "a", "c"])).toEqual([
    { kind: "same", text: "a" },
    { kind: "same", text: "b" },
    { kind: "added", text: "x" },
    { kind: "same", text: "a" },
    { kind: "same", text: "c" },
  ])
  expect(diffLines(["a", "x", "c", "y"], ["x", "b", "c"]).filter(({ kind }) => kind === "same")).toHaveLength(2)
})

test("long differing parts are replaced as a whole", () => {
  const [before, after] = [0, 1].map((odd) => Array.from({ length: 2500 }, (_, at) => String(2 * at + odd)))
  const diff = diffLines(["same", ...(before ?? [])], ["same", ...(after ?? [])])
  expect([diff.length, diff[1]?.kind, diff.at(-1)?.kind]).toEqual([5001, "removed", "added"])
})

test("a comparison ends after its steps, and twice the lines take twice the steps", () => {
  const taken = (count: number, most: number) => {
    const steps = stepsOf(most)
    const [before, after] = [3, 7].map((each) => Array.from({ length: count }, (_, at) => String((at * at) % each)))
    const diff = diffLines(before ?? [], after ?? [], steps)
    expect(without(diff, "added")).toEqual(before ?? [])
    expect(without(diff, "removed")).toEqual(after ?? [])
    return most - steps.left
  }
  expect(taken(9000, 10_000)).toBeLessThanOrEqual(10_001)
  expect(taken(20_000, 1e9)).toBeLessThan(2.5 * taken(10_000, 1e9))
})

test("a merge has the changes of both, or is refused", () => {
  const merge = (...texts: readonly [string, string, string]) => {
    const [base, one, other] = texts.map((text) => text.split("")) as [string[], string[], string[]]
    return mergeLines(base, one, other)?.join("")
  }
  expect(merge("abcdef", "aXcdef", "abcdYf")).toBe("aXcdYf")
  expect(merge("abcdef", "acdef", "abcdefg")).toBe("acdefg")
  expect(merge("abc", "abc", "xbc")).toBe("xbc")
  expect(merge("abc", "aXbc", "abYc")).toBe("aXbYc")
  expect(merge("abc", "aXc", "aYc")).toBeUndefined()
  expect(merge("abc", "aXbc", "aYbc")).toBeUndefined()
  fc.assert(
    fc.property(lines, lines, (base, one) => {
      expect(mergeLines(base, one, base)).toEqual(one)
      expect(mergeLines(base, base, one)).toEqual(one)
    }),
  )
})
