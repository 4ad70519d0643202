import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, unlinkSync, watch, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { systemClock } from "../../src/lib/clock.ts"
import { isGenerated, watchFiles } from "../../src/store/watch.ts"
import { manualClock } from "../clock.ts"

let folder: string
let file: string
let beside: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "svc-watch-"))
  file = join(folder, "mcp.json")
  beside = join(folder, ".env")
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

test("a change is noticed in a folder with many other events", async () => {
  const clock = manualClock()
  let seen = 0
  const watched = watchFiles([file], clock, () => seen++)
  let noticed: () => void = () => undefined
  const own = watch(folder, () => noticed())
  writeFileSync(file, "1")
  for (let count = 0; count < 50 && seen === 0; count++) {
    const event = new Promise<void>((resolve) => {
      noticed = resolve
    })
    writeFileSync(join(folder, `busy${count}`), "")
    await event
    await clock.pass(100)
  }
  own.close()
  watched.close()
  expect(seen).toBe(1)
})

test("every kind of change is noticed: edit, replace, delete, re-create, swapped links", async () => {
  const versions = ["v1", "v2"].map((name) => join(folder, name))
  for (const version of versions) {
    mkdirSync(version)
    writeFileSync(join(version, "mcp.json"), version)
  }
  symlinkSync("v1", join(folder, "..data"))
  const mounted = join(folder, "linked.json")
  symlinkSync(join("..data", "mcp.json"), mounted)
  let notice: () => void = () => undefined
  const changed = () =>
    new Promise<void>((resolve) => {
      notice = resolve
    })
  const watchers = [file, mounted].map((one) => watchFiles([one, beside], systemClock, () => notice()))
  const steps: (() => void)[] = [
    () => writeFileSync(file, "1"),
    () => writeFileSync(file, "2"),
    () => {
      writeFileSync(join(folder, "next.tmp"), "3")
      renameSync(join(folder, "next.tmp"), file)
    },
    () => unlinkSync(file),
    () => writeFileSync(file, "4"),
    () => writeFileSync(beside, "A=1"),
    () => unlinkSync(beside),
    () => {
      symlinkSync("v2", join(folder, "..next"))
      renameSync(join(folder, "..next"), join(folder, "..data"))
    },
  ]
  for (const step of steps) {
    const seen = changed()
    step()
    await seen
  }
  for (const watcher of watchers) watcher.close()
})

test("a check reports a change at once, and its event does not report it again", async () => {
  const clock = manualClock()
  let seen = 0
  const watched = watchFiles([file], clock, () => seen++)
  watched.check()
  expect(seen).toBe(0)
  writeFileSync(file, "1")
  watched.check()
  expect(seen).toBe(1)
  await clock.pass(5000)
  watched.close()
  expect(seen).toBe(1)
})

test("what tools write beside sources is no change of the sources [mcp:watch]", () => {
  const generated = ["node_modules/x/index.js", "a/__pycache__/b.pyc", ".git/index", "src/.server.js.swp", "build.log"]
  const sources = ["server.js", "src/deep/server.ts", "a.b/c.py", "src/logs.ts", "node_modules.ts"]
  expect(generated.filter(isGenerated)).toEqual(generated)
  expect(sources.filter(isGenerated)).toEqual([])
})
