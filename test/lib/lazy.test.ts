import { expect, test } from "bun:test"
import { lazy } from "../../src/lib/lazy.ts"

test("makes a value at its first call, and the same one at every call", () => {
  let made = 0
  const value = lazy(() => {
    made++
    return undefined
  })
  expect(made).toBe(0)
  expect([value(), value(), made]).toEqual([undefined, undefined, 1])
})
