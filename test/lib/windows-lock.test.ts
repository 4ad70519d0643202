import { expect, test } from "bun:test"
import { isWindowsLock, retryOnWindowsLock } from "../../src/lib/windows-lock.ts"

const refusal = (code: string) => Object.assign(new Error(code), { code })

/** Refuses so many times, and counts. */
function refusing(times: number, code: string) {
  const seen = { tries: 0, slept: 0 }
  const act = () => {
    if (++seen.tries <= times) throw refusal(code)
    return "done"
  }
  const sleep = (ms: number) => {
    seen.slept += ms
  }
  return { seen, act, sleep }
}

test("on Windows, an operation on an open file is retried", () => {
  for (const code of ["EPERM", "EACCES", "EBUSY"]) {
    const { act, seen, sleep } = refusing(3, code)
    expect(retryOnWindowsLock(act, "win32", sleep)).toBe("done")
    expect(seen.tries).toBe(4)
  }
})

test("an operation that stays refused throws in the end", () => {
  const { act, seen, sleep } = refusing(1000, "EPERM")
  expect(() => retryOnWindowsLock(act, "win32", sleep)).toThrow("EPERM")
  expect(seen.slept).toBe(500)
})

test("on other systems, and for other errors, nothing is retried", () => {
  for (const [platform, code] of [
    ["linux", "EPERM"],
    ["darwin", "EBUSY"],
    ["win32", "ENOENT"],
    ["win32", "ENOSPC"],
  ] as const) {
    const { act, seen, sleep } = refusing(1, code)
    expect(() => retryOnWindowsLock(act, platform, sleep)).toThrow(code)
    expect(seen.slept).toBe(0)
    expect(isWindowsLock(refusal(code), platform)).toBe(false)
  }
})
