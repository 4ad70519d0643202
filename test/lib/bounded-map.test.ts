import { expect, test } from "bun:test"
import { BoundedMap } from "../../src/lib/bounded-map.ts"

test("setting a key beyond the limit drops the entry that was set first, and a key set again keeps its age", () => {
  const map = new BoundedMap<string, number>(3, [
    ["a", 1],
    ["b", 2],
    ["c", 3],
  ])
  map.set("a", 4)
  expect([...map]).toEqual([
    ["a", 4],
    ["b", 2],
    ["c", 3],
  ])
  map.set("d", 5)
  expect([...map.keys()]).toEqual(["b", "c", "d"])
  map.delete("b")
  map.set("b", 6).set("e", 7)
  expect([...map.keys()]).toEqual(["d", "b", "e"])
})

test("the limit holds for the entries that a map starts with", () => {
  expect([...new BoundedMap(1, [[undefined, 1] as const, [null, 2] as const])]).toEqual([[null, 2]])
})
