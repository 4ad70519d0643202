import { afterAll, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { noteConfiguration, sweepGone } from "../../src/store/gone-configurations.ts"
import { tryAcquire } from "../../src/store/lock.ts"
import { ownName, pathsOf } from "../../src/store/paths.ts"

const root = mkdtempSync(join(tmpdir(), "svc-gone-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const WEEK_MS = 7 * 24 * 3_600_000
let count = 0

/** A directory with the files of the configuration `config`, and those of its own mcp.json. */
function place(config: string) {
  const directory = join(root, String(count++))
  mkdirSync(directory)
  const paths = pathsOf({ config, directory, platform: "linux", home: root, appData: undefined, cwd: directory })
  const own = (name: string) => ownName(name, paths)
  for (const name of ["logs", "bundles"]) {
    mkdirSync(join(directory, own(name)))
    writeFileSync(join(directory, own(name), "a"), "")
  }
  for (const name of ["eras.json", "sessions.sqlite", "tools.json", "control.json"])
    writeFileSync(join(directory, name), "")
  for (const name of ["eras", "control", "logins", "tools"]) writeFileSync(join(directory, `${own(name)}.json`), "")
  for (const name of ["sessions.sqlite", "sessions.sqlite-wal", "svc.log", "svc.log.1"])
    writeFileSync(join(directory, name.replace(/^\w+/, own)), "")
  noteConfiguration(paths)
  return { directory, paths, own, left: () => readdirSync(directory).sort() }
}

test("the files of a configuration that is gone are removed, and none of another [config:gone]", async () => {
  const { directory, paths, own, left } = place("gone.json")
  const before = left()
  expect(await sweepGone({ directory }, Date.now() + WEEK_MS / 2)).toEqual([])
  expect(left()).toEqual(before)
  expect(await sweepGone({ directory }, Date.now() + 2 * WEEK_MS)).toEqual([paths.file])
  expect(left()).toEqual(
    [own("bundles"), "control.json", "eras.json", "sessions.sqlite", `${own("tools")}.json`, "tools.json"].sort(),
  )
})

test("a configuration that exists, or that a process serves, keeps its files [config:gone]", async () => {
  const there = place("there.json")
  writeFileSync(there.paths.file, "{}")
  const served = place("served.json")
  const release = await tryAcquire(join(served.directory, `${served.own("control")}.lock`))
  for (const { directory, left } of [there, served]) {
    const before = left()
    expect(await sweepGone({ directory }, Date.now() + 2 * WEEK_MS)).toEqual([])
    expect(left()).toEqual(before)
  }
  release?.()
})

test("a note that is forged or broken removes nothing [config:gone]", async () => {
  const { directory, own, left } = place("gone.json")
  for (const text of ['{"file":"/nowhere/else.json"}', "{"]) {
    writeFileSync(join(directory, `${own("configuration")}.json`), text)
    const before = left()
    expect(await sweepGone({ directory }, Date.now() + 2 * WEEK_MS)).toEqual([])
    expect(left()).toEqual(before)
  }
})

test("the mcp.json of the directory needs no note", () => {
  const { directory, left } = place("mcp.json")
  expect(left().filter((name) => name.startsWith("configuration"))).toEqual([])
  expect(directory).toStartWith(root)
})
