import { expect, test } from "bun:test"
import { dropOldest } from "../../src/lib/bounded.ts"

test("what was put in first goes first, and nothing goes while there is room", () => {
  const table = new Map([
    ["a", 1],
    ["b", 2],
    ["c", 3],
  ])
  table.delete("a")
  table.set("a", 4)
  dropOldest(table, 3)
  expect([...table.keys()]).toEqual(["b", "c", "a"])
  dropOldest(table, 1)
  expect([...table]).toEqual([["a", 4]])
  dropOldest(table, 0)
  expect(table.size).toBe(0)
})
