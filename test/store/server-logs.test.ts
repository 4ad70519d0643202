import { afterAll, expect, test } from "bun:test"
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import fc from "fast-check"
import { LOG_LEVELS, silentLog } from "../../src/lib/log.ts"
import {
  createServerLogs,
  formatLine,
  type LogLine,
  openLogFiles,
  parseLine,
  type ServerLogsOptions,
  withServerLogs,
} from "../../src/store/server-logs.ts"
import { manualClock } from "../clock.ts"

const folder = mkdtempSync(join(tmpdir(), "svc-logbook-"))
afterAll(() => rmSync(folder, { recursive: true }))
let folders = 0

function bench(more: Partial<ServerLogsOptions> = {}) {
  const clock = manualClock()
  const directory = join(folder, String(++folders))
  const failures: string[] = []
  const book = createServerLogs({ directory, clock, onfail: (reason) => failures.push(reason), ...more })
  return { clock, directory, failures, book }
}

test("the lines of each server are read back in order", () => {
  const { book } = bench({ directory: undefined })
  book.append("web", "info", "one")
  book.append("db", "warn", "two")
  book.append("web", "error", "three")
  expect(book.read("web").map(({ text }) => text)).toEqual(["one", "three"])
  expect(book.read("db").map(({ level, text }) => `${level} ${text}`)).toEqual(["warn two"])
  expect(book.read("other")).toEqual([])
})

test("the number of servers in memory is bounded: the oldest are dropped", () => {
  const { book } = bench({ directory: undefined })
  for (let n = 0; n <= 1000; n++) book.append(`s${n}`, "info", "here")
  expect([book.read("s0").length, book.read("s1").length, book.read("s1000").length]).toEqual([0, 1, 1])
})

test("memory contains only the newest lines", () => {
  const { book } = bench({ directory: undefined, maxLines: 10 })
  for (let n = 0; n < 105; n++) book.append("web", "info", String(n))
  expect(book.read("web").map(({ text }) => text)).toEqual(Array.from({ length: 10 }, (_, n) => String(n + 95)))
})

test("files are written soon, readable only by their owner, and can be read without svc", async () => {
  const { book, clock, directory } = bench()
  book.append("web", "info", "stderr: ready")
  book.append("web", "warn", "a\nb")
  await clock.pass(1000)
  expect(openLogFiles(directory)("web").map(({ level, text }) => `${level} ${text}`)).toEqual([
    "info stderr: ready",
    "warn a\\nb",
  ])
  if (process.platform !== "win32") expect(statSync(join(directory, "web.log")).mode & 0o777).toBe(0o600)
})

test("a rotated file is not the log of another server", () => {
  const { book, directory } = bench({ maxFileBytes: 100 })
  for (const text of ["old", "new"]) {
    book.append("web", "info", text.padEnd(90))
    book.flush()
  }
  book.append("web.1", "info", "mine")
  book.flush()
  expect(openLogFiles(directory)("web.1").map(({ text }) => text)).toEqual(["mine"])
  expect(openLogFiles(directory)("web").map(({ text }) => text.trim())).toEqual(["old", "new"])
})

test("a reader gets each line once, even if files are rotated meanwhile", () => {
  const { book, directory } = bench({ maxFileBytes: 1000, maxFiles: 3 })
  const read = openLogFiles(directory, 3)
  const lines: string[] = []
  for (let n = 0; n < 200; n++) {
    book.append("web", "info", `${n} ${"x".repeat(n % 70)}`)
    if (n % 2 === 0) book.flush()
    if (n % 5 === 0) lines.push(...read("web").map(({ text }) => text.split(" ", 1)[0] as string))
  }
  book.flush()
  appendFileSync(join(directory, "web.log"), "2026-11-21T02:49:27.123Z info  hal")
  lines.push(...read("web").map(({ text }) => text.split(" ", 1)[0] as string))
  appendFileSync(join(directory, "web.log"), "f\n")
  lines.push(...read("web").map(({ text }) => text))
  expect(lines).toEqual([...Array.from({ length: 200 }, (_, n) => String(n)), "half"])
  expect(read("web")).toEqual([])
  expect(read("nobody")).toEqual([])
})

test("files rotate by size, and the oldest are removed", () => {
  const { book, directory } = bench({ maxFileBytes: 1000, maxFiles: 3 })
  for (let n = 0; n < 100; n++) {
    book.append("web", "info", `${n} ${"x".repeat(60)}`)
    book.flush()
  }
  expect(readdirSync(directory).sort()).toEqual(["web.log", "web.log.1", "web.log.2"])
  for (const file of readdirSync(directory))
    expect(readFileSync(join(directory, file)).length).toBeLessThanOrEqual(1000)
  const numbers = openLogFiles(directory)("web").map(({ text }) => Number.parseInt(text, 10))
  expect(numbers).toEqual(Array.from({ length: numbers.length }, (_, n) => 100 - numbers.length + n))
})

test("a disk failure is reported once, and logging in memory continues", () => {
  const file = join(folder, "no-directory")
  writeFileSync(file, "")
  const { book, failures } = bench({ directory: file })
  for (const text of ["one", "two"]) {
    book.append("web", "info", text)
    book.flush()
  }
  expect(failures).toHaveLength(1)
  expect(book.read("web")).toHaveLength(2)
})

test("svc's own lines about a server go into its log, masked; other lines do not", () => {
  const { book } = bench({ directory: undefined })
  const log = withServerLogs(book, silentLog, (text) => text.replace("hunter2", "***"))
  log.warn("exited with hunter2", { server: "my server" })
  log.info("listening")
  expect(book.read("my-server")).toMatchObject([{ slug: "my-server", level: "warn", text: "exited with ***" }])
})

test("any formatted line can be parsed back", () => {
  const line: fc.Arbitrary<LogLine> = fc.record({
    at: fc.integer({ min: 0, max: 4_000_000_000_000 }),
    level: fc.constantFrom(...LOG_LEVELS),
    slug: fc.constant("web"),
    text: fc.string(),
  })
  fc.assert(fc.property(line, (one) => expect(parseLine(formatLine(one), "web")).toEqual(one)))
  expect(parseLine("torn", "web")).toBeUndefined()
})
