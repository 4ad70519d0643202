import { expect, test } from "bun:test"
import { createSteadyClock, every, formatDuration, oneAtATime, systemClock, withTimeout } from "../../src/lib/clock.ts"
import { manualClock } from "../clock.ts"

test("a delay longer than setTimeout can hold does not end at once", async () => {
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

test("a repetition goes on after a run that throws, until it is cancelled", async () => {
  const clock = manualClock()
  let runs = 0
  const cancel = every(clock, 100, () => {
    if (++runs === 2) throw new Error("a bug")
    if (runs === 5) cancel()
  })
  await clock.pass(150)
  await expect(clock.pass(100)).rejects.toThrow("a bug")
  await clock.pass(1000)
  expect([runs, clock.timers]).toEqual([5, 0])
})

test("withTimeout ends at its limit and leaves no timer", async () => {
  const clock = manualClock()
  const never = new Promise<void>(() => undefined)
  let over = false
  const late = withTimeout(clock, 1000, never).then(() => {
    over = true
  })
  await clock.pass(999)
  expect(over).toBe(false)
  await clock.pass(1)
  await late
  await withTimeout(clock, 1000, Promise.resolve())
  await expect(withTimeout(clock, 1000, Promise.reject(new Error("no")))).rejects.toThrow("no")
  expect(clock.timers).toBe(0)
})

test("a duration is written in the largest unit without a fraction", () => {
  expect([0, 300, 1500, 2000, 90_000, 300_000].map(formatDuration)).toEqual([
    "0 ms",
    "300 ms",
    "1500 ms",
    "2 s",
    "90 s",
    "5 min",
  ])
})

test("a steady clock goes on when the time is set back, and runs ahead when it is set forward or the machine stood still", () => {
  let [time, passed] = [1_800_000_000_000, 5]
  const clock = createSteadyClock({ ...systemClock, now: () => time }, () => passed)
  const start = clock.now()
  const goOn = (timeBy: number, passedBy: number) => {
    time += timeBy
    passed += passedBy
    return clock.now() - start
  }
  expect(goOn(1000, 1000)).toBe(1000)
  expect(goOn(-3_600_000, 500)).toBe(1500)
  expect(goOn(500, 500)).toBe(2000)
  // The suspended time counts for the wall clock alone.
  expect(goOn(10_000, 100)).toBe(12_000)
  expect(goOn(100, 100)).toBe(12_100)
  // Rounding does not add up.
  for (let turn = 0; turn < 1000; turn++) goOn(turn % 2, 0.5)
  expect(goOn(0, 0)).toBe(12_600)
})

test("a clock that runs one thing at a time lets other events run in between, and can be cancelled", async () => {
  const clock = manualClock()
  const ran: string[] = []
  const shared = oneAtATime(clock)
  shared.after(0, () => ran.push("a"))
  shared.after(0, () => ran.push("b"))
  shared.after(0, () => ran.push("c"))()
  shared.after(5, () => ran.push("d"))
  clock.after(0, () => ran.push("other"))
  await clock.pass(10)
  expect(ran).toEqual(["a", "other", "b", "d"])
})
