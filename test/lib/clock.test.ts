import { expect, test } from "bun:test"
import { systemClock } from "../../src/lib/clock.ts"

test("a time that no timer holds does not pass at once", async () => {
  let passed = false
  const cancels = [2 ** 31, 2 ** 40, Number.POSITIVE_INFINITY].map((ms) =>
    systemClock.after(ms, () => {
      passed = true
    }),
  )
  await new Promise<void>((done) => void systemClock.after(30, done))
  for (const cancel of cancels) cancel()
  expect(passed).toBe(false)
})
