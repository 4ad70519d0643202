import { expect, test } from "bun:test"
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { UnavailableError } from "../../src/lib/errors.ts"
import { type JournalOptions, openJournal } from "../../src/lib/journal.ts"
import { manualClock } from "../clock.ts"

const place = () => join(mkdtempSync(join(tmpdir(), "svc-journal-")), "audit.log")
const said: string[] = []
const open = (path: string, more: Partial<JournalOptions> = {}) =>
  openJournal({
    path,
    clock: manualClock(),
    onfail: (why) => said.push(why),
    lost: (count) => `lost ${count}`,
    ...more,
  })
const lines = (path: string) => readFileSync(path, "utf8").split("\n").slice(0, -1)

test("lines are in order and private, and complete once the journal is closed", async () => {
  const path = place()
  const journal = await open(path)
  for (let number = 0; number < 1000; number++) journal.add({ text: () => `line ${number}` })
  await journal.close()
  expect(lines(path)).toEqual(Array.from({ length: 1000 }, (_, number) => `line ${number}`))
  expect(statSync(path).mode & 0o777).toBe(0o600)
})

test("a line is not rendered while its caller adds it", async () => {
  const path = place()
  let made = 0
  const journal = await open(path)
  journal.add({ text: () => `made ${++made}` })
  expect(made).toBe(0)
  await journal.close()
  expect(lines(path)).toEqual(["made 1"])
})

test("files are rotated by size, and their number is bounded", async () => {
  const path = place()
  for (let number = 0; number < 6; number++) {
    const journal = await open(path, { maxFileBytes: 100, maxFiles: 3 })
    journal.add({ text: () => `${number} ${"x".repeat(80)}` })
    await journal.close()
  }
  expect(readdirSync(join(path, "..")).sort()).toEqual(["audit.log", "audit.log.1", "audit.log.2"])
  expect(["", ".1", ".2"].map((end) => lines(path + end)[0]?.[0])).toEqual(["5", "4", "3"])
})

test("a link, a folder and a missing folder are rejected; a readable file becomes private", async () => {
  const path = place()
  const other = `${path}.other`
  writeFileSync(other, "theirs\n")
  symlinkSync(other, path)
  mkdirSync(`${path}.folder`)
  for (const wrong of [path, `${path}.folder`, join(other, "deeper")])
    await expect(open(wrong)).rejects.toBeInstanceOf(UnavailableError)
  expect(readFileSync(other, "utf8")).toBe("theirs\n")
  chmodSync(other, 0o644)
  await (await open(other)).close()
  expect(statSync(other).mode & 0o777).toBe(0o600)
})

test("a failure is reported once, and dropped lines are counted in a line afterwards", async () => {
  const path = place()
  const clock = manualClock()
  const failed = Promise.withResolvers<void>()
  let count = 0
  const journal = await open(path, {
    clock,
    onfail: () => {
      count++
      failed.resolve()
    },
  })
  renameSync(path, `${path}.away`)
  mkdirSync(path)
  journal.add({ text: () => "one" })
  journal.add({ text: () => "two" })
  await clock.pass(1000)
  await failed.promise
  rmSync(path, { recursive: true })
  journal.add({ text: () => "three" })
  await journal.close()
  expect([count, lines(path)]).toEqual([1, ["lost 2", "three"]])
})

test("a line that cannot be rendered is counted, and costs no other line", async () => {
  const path = place()
  const journal = await open(path)
  const fail = () => {
    throw new Error("a bug")
  }
  for (const text of [() => "one", fail, () => "two", fail]) journal.add({ text })
  await journal.close()
  expect(lines(path)).toEqual(["lost 2", "one", "two"])
})

test("a line that was cut off is closed before the next one, also that of an earlier run [audit:gap]", async () => {
  const path = place()
  writeFileSync(path, "whole\nof an earlier r")
  const first = await open(path)
  first.add({ text: () => "one" })
  await first.close()
  const clock = manualClock()
  const failed = Promise.withResolvers<void>()
  const journal = await open(path, { clock, onfail: () => failed.resolve() })
  renameSync(path, `${path}.away`)
  mkdirSync(path)
  journal.add({ text: () => "two" })
  await clock.pass(1000)
  await failed.promise
  rmSync(path, { recursive: true })
  writeFileSync(path, `${readFileSync(`${path}.away`, "utf8")}tw`)
  journal.add({ text: () => "three" })
  await journal.close()
  expect(lines(path)).toEqual(["whole", "of an earlier r", "one", "tw", "lost 1", "three"])
})

test.skipIf(process.platform === "win32")(
  "what a full disk takes of the lines is counted, also at the end [audit:gap]",
  async () => {
    const path = place()
    // A limit on the size of files ends a write as a full disk does.
    const script = `
    const { openJournal } = await import(${JSON.stringify(join(import.meta.dir, "../../src/lib/journal.ts"))})
    const clock = { now: () => Date.now(), after: (ms, run) => { const timer = setTimeout(run, ms); return () => clearTimeout(timer) } }
    const options = { path: process.argv[1], clock, onfail: (reason) => console.log(reason), lost: (count) => "lost " + count }
    const journal = await openJournal(options)
    for (let round = 0; round < 3; round++) {
      for (let number = 0; number < 1000; number++) journal.add({ text: () => "line " + number + " of the journal" })
      await new Promise((resolve) => setTimeout(resolve, 300))
    }
    await journal.close()`
    const child = Bun.spawnSync({
      cmd: ["sh", "-c", 'trap "" XFSZ; ulimit -f 64; exec "$0" -e "$1" "$2"', process.execPath, script, path],
    })
    const said = child.stdout.toString().trim().split("\n")
    const missing = Number(/^(\d+) lines could not be written/.exec(said[1] ?? "")?.[1])
    expect(said).toEqual([
      expect.stringContaining(`${path} cannot be written: `),
      `${missing} lines could not be written to ${path}`,
    ])
    const written = lines(path).filter((line) => /^line \d+ of the journal$/.test(line)).length
    expect([written > 100, written + missing]).toEqual([true, 3000])
  },
)

test("lines that are added while others are written are bounded too", async () => {
  const path = place()
  const clock = manualClock()
  const journal = await open(path, { clock })
  const text = () => "x"
  for (let round = 0; round < 3; round++) {
    for (let number = 0; number < 15_000; number++) journal.add({ text })
    // The first write has begun, and the disk has not answered yet.
    await clock.pass(1000)
  }
  await journal.close()
  expect(lines(path).length).toBe(15_000 + 20_000 + 1)
  expect(lines(path)).toContain("lost 10000")
})
