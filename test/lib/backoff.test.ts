import { expect, test } from "bun:test"
import { Backoff } from "../../src/lib/backoff.ts"

test("each delay is twice the one before, up to the maximum", () => {
  const backoff = new Backoff({ first: 100, max: 1000 })
  expect(Array.from({ length: 6 }, () => backoff.next())).toEqual([100, 200, 400, 800, 1000, 1000])
})

test("a reset starts over, at the first delay or at the one given", () => {
  const backoff = new Backoff({ first: 100, max: 1000 })
  backoff.next()
  backoff.reset()
  expect([backoff.next(), backoff.next()]).toEqual([100, 200])
  backoff.reset(5000)
  expect([backoff.next(), backoff.next()]).toEqual([5000, 1000])
})
