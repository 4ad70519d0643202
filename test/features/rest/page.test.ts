import { expect, test } from "bun:test"
import fc from "fast-check"
import { pageBy } from "../../../src/features/rest/page.ts"
import { RequestError } from "../../../src/lib/errors.ts"

const key = (text: string): string => text

/** Reads all pages. `between` returns the list at the time of each page. */
function readAll(limit: number, between: (page: number) => readonly string[]): readonly string[] {
  const read: string[] = []
  for (let page = 0, cursor: string | undefined; ; page++) {
    const { items, nextCursor } = pageBy(between(page), key, { limit, cursor })
    read.push(...items)
    if (nextCursor === undefined) return read
    cursor = nextCursor
  }
}

const lists = fc.uniqueArray(fc.string(), { maxLength: 30 })
const limits = fc.integer({ min: 1, max: 7 })

test("the pages of a list hold each entry once, sorted [rest:pages]", () => {
  const property = fc.property(lists, limits, (list, limit) => {
    expect(readAll(limit, () => list)).toEqual([...list].sort((one, other) => (one < other ? -1 : 1)))
  })
  fc.assert(property)
})

test("an entry that stays is in exactly one page, whatever is added and removed between two pages [rest:pages]", () => {
  const property = fc.property(lists, lists, limits, (list, others, limit) => {
    const passing = others.filter((one) => !list.includes(one))
    const read = readAll(limit, (page) => (page % 2 === 0 ? list : [...passing, ...list]))
    for (const entry of list) expect(read.filter((one) => one === entry)).toEqual([entry])
  })
  fc.assert(property)
})

test("a malformed cursor is refused", () => {
  for (const cursor of ["", "x", "!", "a2E="])
    expect(() => pageBy(["a"], key, { limit: 1, cursor })).toThrow(RequestError)
})
