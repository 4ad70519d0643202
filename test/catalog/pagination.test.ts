import { expect, test } from "bun:test"
import fc from "fast-check"
import { pageOf } from "../../src/catalog/pagination.ts"

const tools = (...names: string[]) => names.map((name) => JSON.stringify({ name }))
const namesOf = (entries: readonly string[]) => entries.map((entry) => JSON.parse(entry).name as string)
const page = (names: string[], size: number, cursor?: unknown) => {
  const { entries, nextCursor } = pageOf(tools(...names), "tools/list", size, cursor)
  return { names: namesOf(entries), nextCursor }
}

test("the pages of any size make up the list", () => {
  const names = fc.uniqueArray(fc.string(), { maxLength: 20 })
  fc.assert(
    fc.property(names, fc.integer({ min: 1, max: 25 }), (all, size) => {
      const seen: string[] = []
      let cursor: string | undefined
      do {
        const { names, nextCursor } = page(all, size, cursor)
        expect(names.length).toBeLessThanOrEqual(size)
        seen.push(...names)
        cursor = nextCursor
      } while (cursor !== undefined)
      expect(seen).toEqual(all)
    }),
  )
})

test("a cursor continues after its entry when the list has changed [protocol:page]", () => {
  const { nextCursor } = page(["a", "b", "c", "d"], 2)
  expect(page(["a", "b", "c", "d"], 2, nextCursor).names).toEqual(["c", "d"])
  expect(page(["b", "c", "x", "d"], 2, nextCursor).names).toEqual(["c", "x"])
  expect(page(["new", "a", "b"], 2, nextCursor)).toEqual({ names: [], nextCursor: undefined })
})

test("a cursor that is null or empty counts as none", () => {
  for (const cursor of [undefined, null, ""]) expect(page(["a", "b"], 1, cursor).names).toEqual(["a"])
})

test("a cursor of a removed entry or of another list, and any other text, is rejected", () => {
  const { nextCursor } = page(["a", "b", "c"], 1)
  expect(() => page(["b", "c"], 1, nextCursor)).toThrow("list again")
  expect(() => pageOf(tools("a", "b"), "prompts/list", 1, nextCursor)).toThrow("list again")
  for (const cursor of ["garbage", 7, {}, "W10", "e30"]) expect(() => page(["a", "b"], 1, cursor)).toThrow("list again")
})
