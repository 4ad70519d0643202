import { expect, test } from "bun:test"
import { parseResultBudget } from "../../src/config/result-budget.ts"

test.each([
  [20_000, 20_000],
  ["20000", 20_000],
  ["2500 characters", 2500],
  ["2000 tokens", 4000],
  ["2000tokens", 4000],
  [0, 0],
  ["0 tokens", 0],
  ["", undefined],
  ["many", undefined],
  [-1, undefined],
  [1.5, undefined],
  ["4 KiB", undefined],
  [1999, undefined],
  ["999 tokens", undefined],
])("%p is read as %p characters", (written, budget) => {
  expect(parseResultBudget(written)).toBe(budget)
})
