import { expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Launch } from "../../src/config/server-spec.ts"
import { createEraCache } from "../../src/store/era-cache.ts"

const launch = (command: string): Launch => ({
  transport: "stdio",
  command,
  args: ["--token", "sekret"],
  cwd: undefined,
  env: {},
  stderr: "pipe",
  mode: "auto",
})

function clocked() {
  let now = 1000
  let due: (() => void)[] = []
  return {
    clock: {
      now: () => now,
      after: (_ms: number, run: () => void) => {
        due.push(run)
        return () => undefined
      },
    },
    pass(ms: number) {
      now += ms
      const run = due
      due = []
      for (const one of run) one()
    },
  }
}

test("an era is remembered for a day, also across a restart, and the file contains no launch in plain text", () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-eras-"))
  const file = join(folder, "eras.json")
  const { clock, pass } = clocked()
  const eras = createEraCache(file, clock)
  eras.set(launch("a"), "legacy")
  eras.set(launch("b"), "modern")
  pass(1000)
  expect(readFileSync(file, "utf8")).not.toContain("sekret")
  const next = createEraCache(file, clock)
  expect(next.get(launch("a"))).toBe("legacy")
  expect(next.get(launch("b"))).toBe("modern")
  expect(next.get(launch("c"))).toBeUndefined()
  next.forget(launch("a"))
  expect(next.get(launch("a"))).toBeUndefined()
  pass(24 * 3_600_000)
  expect(next.get(launch("b"))).toBeUndefined()
  writeFileSync(file, "{ broken")
  expect(createEraCache(file, clock).get(launch("b"))).toBeUndefined()
  rmSync(folder, { recursive: true })
})

test("forgetting a launch restores the file, whether it was written meanwhile or not", () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-eras-"))
  const file = join(folder, "eras.json")
  const { clock, pass } = clocked()
  const eras = createEraCache(file, clock)
  eras.set(launch("a"), "legacy")
  pass(1000)
  const before = readFileSync(file, "utf8")
  for (const wait of [0, 1000]) {
    eras.set(launch("b"), "modern")
    pass(wait)
    eras.forget(launch("b"))
    expect(readFileSync(file, "utf8")).toBe(before)
    pass(1000)
    expect(readFileSync(file, "utf8")).toBe(before)
  }
  rmSync(folder, { recursive: true })
})
