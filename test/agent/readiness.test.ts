import { describe, expect, test } from "bun:test"
import { FirstAttempts } from "../../src/agent/first-attempts.ts"
import { Readiness } from "../../src/agent/readiness.ts"
import type { Backend } from "../../src/backend/backend.ts"
import { type ManualClock, manualClock } from "../clock.ts"

type Told = { over: boolean }

/** Whether a promise is over, as it is seen from outside. */
function watch(promise: Promise<void> | undefined): Told {
  const told = { over: false }
  void promise?.then(() => {
    told.over = true
  })
  return told
}

/** A backend of which only the state is looked at. */
const backendIn = (clock: ManualClock, kind: string, inMs = 0) =>
  ({ state: { kind, retryAt: clock.now() + inMs } }) as unknown as Backend

const become = (readiness: Readiness, backend: Backend, kind: string) => {
  Object.assign(backend, { state: { kind } })
  readiness.changed(backend)
}

describe("who waits for a backend's return", () => {
  test("hears of it as soon as it is back, and not before", async () => {
    const clock = manualClock()
    const readiness = new Readiness(clock)
    const backend = backendIn(clock, "waiting", 500)
    const told = watch(readiness.whenBack(backend, 1000))
    become(readiness, backend, "recovering")
    await clock.pass(100)
    expect(told.over).toBe(false)
    become(readiness, backend, "connected")
    await clock.pass(0)
    expect([told.over, clock.timers]).toEqual([true, 0])
  })

  test("waits no longer than it said, and no more where it will not be back", async () => {
    const clock = manualClock()
    const readiness = new Readiness(clock)
    const slow = watch(readiness.whenBack(backendIn(clock, "starting"), 1000))
    const dying = backendIn(clock, "recovering")
    const lost = watch(readiness.whenBack(dying, 1000))
    become(readiness, dying, "crashed")
    await clock.pass(999)
    expect([slow.over, lost.over]).toEqual([false, true])
    await clock.pass(1)
    expect(slow.over).toBe(true)
  })

  test("does not begin to wait where it cannot be back in time, or at all", () => {
    const clock = manualClock()
    const readiness = new Readiness(clock)
    expect(readiness.whenBack(backendIn(clock, "waiting", 1000), 1000)).toBeUndefined()
    expect(readiness.whenBack(backendIn(clock, "waiting", 999), 1000)).toBeDefined()
    for (const kind of ["stopped", "failed", "crashed", "unauthorized", "connected"])
      expect(readiness.whenBack(backendIn(clock, kind), 1000)).toBeUndefined()
  })

  test("is one of a thousand for one backend; others have room of their own", async () => {
    const clock = manualClock()
    const readiness = new Readiness(clock)
    const backend = backendIn(clock, "starting")
    for (let count = 0; count < 1000; count++) expect(readiness.whenBack(backend, 1000)).toBeDefined()
    expect(readiness.whenBack(backend, 1000)).toBeUndefined()
    expect(readiness.whenBack(backendIn(clock, "starting"), 1000)).toBeDefined()
    await clock.pass(1000)
    expect(readiness.whenBack(backend, 1000)).toBeDefined()
  })
})

test("a first try is over when it ended in whatever way, not while it begins again", async () => {
  const clock = manualClock()
  const readiness = new Readiness(clock)
  await readiness.whenSettled(backendIn(clock, "failed"))
  const backend = backendIn(clock, "starting")
  const told = watch(readiness.whenSettled(backend))
  become(readiness, backend, "recovering")
  await clock.pass(60_000)
  expect(told.over).toBe(false)
  become(readiness, backend, "waiting")
  await clock.pass(0)
  expect(told.over).toBe(true)
})

test("a round is over when none of its backends is still to be tried, or its time is", async () => {
  const clock = manualClock()
  const rounds = new FirstAttempts(clock)
  const one = watch(rounds.wait(new Set(["a"]), 1000))
  const all = watch(rounds.wait(undefined, 1000))
  for (const round of rounds.over(["b"])) round.end()
  await clock.pass(0)
  expect([one.over, all.over]).toEqual([true, false])
  await clock.pass(1000)
  expect([all.over, rounds.over([]).length, clock.timers]).toEqual([true, 0, 0])
})
