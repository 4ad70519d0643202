import { describe, expect, test } from "bun:test"
import { Readiness } from "../../src/agent/readiness.ts"
import type { Backend } from "../../src/backend/backend.ts"
import { type ManualClock, manualClock } from "../clock.ts"

/** Records whether a promise has resolved. */
function watch(promise: Promise<void> | undefined): { over: boolean } {
  const wait = { over: false }
  void promise?.then(() => {
    wait.over = true
  })
  return wait
}

/** A backend whose state is all that the tests need. */
const backendIn = (clock: ManualClock, kind: string, inMs = 0) =>
  ({ state: { kind, retryAt: clock.now() + inMs }, spec: { launch: { transport: "stdio" } } }) as unknown as Backend

const become = (readiness: Readiness, backend: Backend, kind: string) => {
  Object.assign(backend, { state: { kind } })
  readiness.changed(backend)
}

describe("a wait for a backend's return", () => {
  test("ends as soon as the backend has returned, and not before", async () => {
    const clock = manualClock()
    const readiness = new Readiness(clock)
    const backend = backendIn(clock, "waiting", 500)
    const wait = watch(readiness.whenBack(backend, 1000))
    become(readiness, backend, "recovering")
    await clock.pass(100)
    expect(wait.over).toBe(false)
    become(readiness, backend, "connected")
    await clock.pass(0)
    expect([wait.over, clock.timers]).toEqual([true, 0])
  })

  test("ends after its time limit, and as soon as the backend cannot return any more", async () => {
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

  test("does not begin if the backend cannot return in time, or at all", () => {
    const clock = manualClock()
    const readiness = new Readiness(clock)
    expect(readiness.whenBack(backendIn(clock, "waiting", 1000), 1000)).toBeUndefined()
    expect(readiness.whenBack(backendIn(clock, "waiting", 999), 1000)).toBeDefined()
    for (const kind of ["stopped", "failed", "crashed", "unauthorized", "connected"])
      expect(readiness.whenBack(backendIn(clock, kind), 1000)).toBeUndefined()
  })

  test("is limited to a thousand per backend; other backends have their own limit", async () => {
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

test("a backend has settled when an attempt has ended in any way, but not while the next attempt runs", async () => {
  const clock = manualClock()
  const readiness = new Readiness(clock)
  await readiness.whenSettled(backendIn(clock, "failed"))
  const backend = backendIn(clock, "starting")
  const wait = watch(readiness.whenSettled(backend))
  become(readiness, backend, "recovering")
  await clock.pass(60_000)
  expect(wait.over).toBe(false)
  become(readiness, backend, "waiting")
  await clock.pass(0)
  expect(wait.over).toBe(true)
})

test("a wait for first attempts ends when none of its backends is untried, or after its time", async () => {
  const clock = manualClock()
  const readiness = new Readiness(clock)
  const one = watch(readiness.whenAttempted(new Set(["a"]), 1000))
  const all = watch(readiness.whenAttempted(undefined, 1000))
  const built: boolean[] = []
  readiness.endFirstAttempts(["b"], () => void built.push(one.over))
  await clock.pass(0)
  expect([one.over, all.over, built]).toEqual([true, false, [false]])
  await clock.pass(1000)
  readiness.endFirstAttempts([], () => void built.push(true))
  expect([all.over, built, clock.timers]).toEqual([true, [false], 0])
})
