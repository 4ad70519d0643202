import { expect, test } from "bun:test"
import { createCallRateLimit } from "../../src/session/call-rate-limit.ts"

test("a bucket refills evenly, and an empty one returns the seconds to wait", () => {
  let now = 0
  const quota = createCallRateLimit({ now: () => now })
  const session = {}
  for (let call = 0; call < 6; call++) expect(quota.take(session, 6)).toBeUndefined()
  expect(quota.take(session, 6)).toBe(10)
  expect(quota.take("another", 6)).toBeUndefined()
  now = 9_000
  expect(quota.take(session, 6)).toBe(1)
  now = 10_000
  expect(quota.take(session, 6)).toBeUndefined()
  expect(quota.take(session, 6)).toBe(10)
  // It never holds more than a minute's worth.
  now = 3_600_000
  for (let call = 0; call < 6; call++) expect(quota.take(session, 6)).toBeUndefined()
  expect(quota.take(session, 6)).toBe(10)
})

test("the table of named buckets is bounded", () => {
  const quota = createCallRateLimit({ now: () => 0 })
  expect(quota.take("first", 1)).toBeUndefined()
  expect(quota.take("first", 1)).toBe(60)
  for (let name = 0; name < 10_000; name++) quota.take(`name ${name}`, 1)
  expect(quota.take("first", 1)).toBeUndefined()
})
