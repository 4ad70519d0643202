import { expect, test } from "bun:test"
import { createCallRateLimit } from "../../src/call/call-rate-limit.ts"

test("a bucket refills evenly, and an empty one returns the seconds to wait", () => {
  let now = 0
  const quota = createCallRateLimit({ now: () => now })
  const session = {}
  for (let call = 0; call < 6; call++) expect(quota.take("client", session, 6)).toBeUndefined()
  expect(quota.take("client", session, 6)).toBe(10)
  expect(quota.take("client", "another", 6)).toBeUndefined()
  now = 9_000
  expect(quota.take("client", session, 6)).toBe(1)
  now = 10_000
  expect(quota.take("client", session, 6)).toBeUndefined()
  expect(quota.take("client", session, 6)).toBe(10)
  // A server and a client may have the same name.
  expect(quota.take("server", "another", 1)).toBeUndefined()
  expect(quota.take("client", "another", 6)).toBeUndefined()
  // The bucket never holds more than the calls of a minute.
  now = 3_600_000
  for (let call = 0; call < 6; call++) expect(quota.take("client", session, 6)).toBeUndefined()
  expect(quota.take("client", session, 6)).toBe(10)
})

test("a clock that is set back costs no more than the time since", () => {
  let now = 3_600_000
  const quota = createCallRateLimit({ now: () => now })
  for (let call = 0; call < 5; call++) expect(quota.take("client", "a", 6)).toBeUndefined()
  now = 0
  expect(quota.take("client", "a", 6)).toBeUndefined()
  expect(quota.take("client", "a", 6)).toBe(10)
  now = 10_000
  expect(quota.take("client", "a", 6)).toBeUndefined()
})

test("the table of named buckets is bounded", () => {
  const quota = createCallRateLimit({ now: () => 0 })
  expect(quota.take("client", "first", 1)).toBeUndefined()
  expect(quota.take("client", "first", 1)).toBe(60)
  for (let name = 0; name < 10_000; name++) quota.take("client", `name ${name}`, 1)
  expect(quota.take("client", "first", 1)).toBeUndefined()
})
