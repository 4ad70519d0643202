import { expect, test } from "bun:test"
import { ResultSizes } from "../../../src/features/results/result-sizes.ts"

test("percentiles are at most a fifth above the sizes, and never above the largest", () => {
  const sizes = new ResultSizes()
  for (let at = 1; at <= 100; at++) sizes.record("s", "read", at * 1000)
  const [found] = sizes.report()
  expect(found).toMatchObject({ server: "s", tool: "read", count: 100, largest: 100_000, cut: 0 })
  expect(found?.p50).toBeGreaterThanOrEqual(50_000)
  expect(found?.p50).toBeLessThanOrEqual(60_000)
  expect(found?.p99).toBeGreaterThanOrEqual(99_000)
  expect(found?.p99).toBeLessThanOrEqual(100_000)
})

test("tools are sorted by their 99th percentile, for all servers or one", () => {
  const sizes = new ResultSizes()
  sizes.record("a", "small", 10)
  sizes.record("b", "large", 200_000)
  sizes.recordCut("b", "large")
  expect(sizes.report().map(({ tool, cut }) => [tool, cut])).toEqual([
    ["large", 1],
    ["small", 0],
  ])
  expect(sizes.report("a").map(({ tool }) => tool)).toEqual(["small"])
  expect(sizes.large).toBe(1)
  expect([sizes.largeOf("b", "large"), sizes.largeOf("a", "small"), sizes.largeOf("a", "none")]).toEqual([
    200_000,
    undefined,
    undefined,
  ])
})

test("the number of tools that are counted is bounded", () => {
  const sizes = new ResultSizes()
  for (let at = 0; at < 6000; at++) sizes.record("s", `tool${at}`, 1)
  expect(sizes.report()).toHaveLength(5000)
})
