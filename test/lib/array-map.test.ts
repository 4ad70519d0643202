import { expect, test } from "bun:test"
import fc from "fast-check"
import { ArrayMap } from "../../src/lib/array-map.ts"

test("an array map does what a Map does, in the same order", () => {
  const key = fc.oneof(fc.integer({ min: 0, max: 5 }), fc.constantFrom('"0"', '"1"', "1.0"))
  const step = fc.record({ key, does: fc.constantFrom("set", "take", "clear") })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const known = new Map<number | string, number>()
      const map = new ArrayMap<number | string, number>()
      for (const [at, { key, does }] of steps.entries()) {
        if (does === "set") {
          known.set(key, at)
          map.set(key, at)
        } else if (does === "take") {
          expect(map.take(key)).toBe(known.get(key))
          known.delete(key)
        } else if (at % 7 === 0) {
          known.clear()
          map.clear()
        }
        expect(map.size).toBe(known.size)
        expect(map.entries()).toEqual([...known])
        expect(map.keys()).toEqual([...known.keys()])
        expect(map.values()).toEqual([...known.values()])
        expect(map.has(key)).toBe(known.has(key))
        expect(map.get(key)).toBe(known.get(key))
      }
    }),
  )
})

test("entries may be removed while they are walked", () => {
  const map = new ArrayMap<number, string>()
  for (const key of [1, 2, 3]) map.set(key, `value ${key}`)
  expect(map.entries().map(([key]) => map.take(key))).toEqual(["value 1", "value 2", "value 3"])
  expect(map.size).toBe(0)
})

test("an array map keeps its entries while thousands come and go", () => {
  const known = new Map<number, string>()
  const map = new ArrayMap<number, string>()
  for (let key = 0; key < 3000; key++) {
    known.set(key, `value ${key}`)
    map.set(key, `value ${key}`)
    // Mostly the oldest goes, sometimes a younger one.
    const gone = [...known.keys()][key % 5 === 0 ? 3 : 0]
    if (known.size <= 10 || gone === undefined) continue
    expect(map.take(gone)).toBe(known.get(gone) as string)
    known.delete(gone)
    expect(map.entries()).toEqual([...known])
    expect(map.get(gone)).toBeUndefined()
    expect(map.get(key)).toBe(`value ${key}`)
  }
  expect(map.size).toBe(10)
})
