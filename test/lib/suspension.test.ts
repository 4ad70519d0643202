import { expect, test } from "bun:test"
import { watchSuspension } from "../../src/lib/suspension.ts"
import { manualClock } from "../clock.ts"

test("a suspension is noticed once, by the first look or by the timer", async () => {
  const clock = manualClock()
  let now = 0
  let resumed = 0
  const watch = watchSuspension({ now: () => now + clock.now(), after: clock.after }, () => void resumed++)
  await clock.pass(60_000)
  watch.look()
  expect(resumed).toBe(0)
  now += 5000
  watch.look()
  watch.look()
  await clock.pass(10_000)
  expect(resumed).toBe(1)
  now += 5000
  await clock.pass(1000)
  watch.look()
  expect(resumed).toBe(2)
  // A clock that was set back.
  now -= 100_000
  await clock.pass(10_000)
  expect(resumed).toBe(2)
  watch.close()
  expect(clock.timers).toBe(0)
})
