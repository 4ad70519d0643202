import { expect, test } from "bun:test"
import fc from "fast-check"
import { ChildOutputLogger, LineCapture, MAX_LINE_BYTES, stripControls } from "../../src/backend/stderr.ts"
import { silentLog } from "../../src/lib/log.ts"
import { manualClock } from "../clock.ts"

const bytes = (text: string) => new TextEncoder().encode(text)
const sizeOf = (text: string) => bytes(text).length

function bench(redact: (text: string) => string = (text) => text) {
  const clock = manualClock()
  const out: string[] = []
  const capture = new LineCapture({ clock, redact, emit: (line) => out.push(line) })
  return { clock, out, capture, write: (text: string) => capture.push(bytes(text)) }
}

test("lines come out one by one, cut into chunks at any byte", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.string({ minLength: 1, unit: fc.constantFrom("a", "b", "ż", "💡") }), { maxLength: 20 }),
      fc.array(fc.nat(9)),
      (expected, cuts) => {
        const { out, capture } = bench()
        const all = bytes(expected.map((line) => `${line}\r\n`).join(""))
        let from = 0
        for (const cut of cuts) {
          capture.push(all.subarray(from, from + cut))
          from += cut
        }
        capture.push(all.subarray(from))
        expect(out).toEqual(expected)
      },
    ),
  )
})

test("the end emits a last line without a line break", () => {
  const { out, write, capture } = bench()
  write("last words")
  expect(out).toEqual([])
  capture.end()
  expect(out).toEqual(["last words"])
})

test("a line is cut at 8 KiB, not inside a character, and marked; the next one is whole [stderr:line]", () => {
  for (const character of ["x", "ż", "€", "💡"])
    for (const offset of [0, 1, 2, 3]) {
      const { out, write } = bench()
      const long = "o".repeat(offset) + character.repeat(20_000)
      write(`${long.slice(0, 5000)}`)
      write(`${long.slice(5000)}\nnext\n`)
      const [first = "", second] = out
      const kept = first.replace(/ … \(cut\)$/, "")
      expect(first).not.toBe(kept)
      expect(long.startsWith(kept)).toBe(true)
      expect(sizeOf(kept)).toBeLessThanOrEqual(MAX_LINE_BYTES)
      expect(sizeOf(kept)).toBeGreaterThan(MAX_LINE_BYTES - 4)
      expect(second).toBe("next")
    }
})

test("a line of exactly 8 KiB is not cut", () => {
  const { out, write } = bench()
  write(`${"x".repeat(MAX_LINE_BYTES)}\n`)
  expect(out).toEqual(["x".repeat(MAX_LINE_BYTES)])
})

test("repeats of a line are summarized after five seconds [stderr:repeats]", async () => {
  const { out, write, clock } = bench()
  for (let n = 0; n < 413; n++) write("tick\n")
  expect(out).toEqual(["tick"])
  await clock.pass(5000)
  expect(out).toEqual(["tick", "last line repeated 412 times"])
})

test("repeats are reported before the next line, and alternating lines are counted separately", async () => {
  const { out, write, clock } = bench()
  write("a\na\nb\na\nb\n")
  await clock.pass(5000)
  expect(out).toEqual(["a", "last line repeated once", "b", 'line "a" repeated once', "last line repeated once"])
})

test("twenty distinct lines pass in ten seconds; further lines are counted and reported [stderr:unique]", async () => {
  const { out, write, clock } = bench()
  for (let n = 0; n < 30; n++) write(`line ${n}\n`)
  expect(out).toHaveLength(20)
  await clock.pass(10_000)
  expect(out.slice(20)).toEqual(["dropped 10 more lines: at most 20 distinct lines pass in 10 s"])
  write("again\n")
  expect(out.at(-1)).toBe("again")
})

test("the end leaves no timer", async () => {
  const { write, clock, capture } = bench()
  write("a\na\n")
  capture.end()
  expect(clock.timers).toBe(0)
})

test("a flood emits at most twenty lines and their summaries in each window", async () => {
  const { out, clock, capture } = bench()
  const block = bytes(Array.from({ length: 500 }, (_, n) => `line ${n} ${"x".repeat(100)}\n`).join(""))
  for (let second = 0; second < 60; second++) {
    for (let n = 0; n < 20; n++) capture.push(block)
    await clock.pass(1000)
  }
  const endless = new Uint8Array(65_536).fill(0x78)
  for (let n = 0; n < 1000; n++) capture.push(endless)
  // Six windows of twenty lines, with the sums of each every five seconds.
  expect(out.length).toBeLessThan(6 * 20 + 13 * 21)
  expect(out.join("\n")).toContain("dropped")
})

test("a secret at the cut of a line is redacted", () => {
  const secret = "hunter2-hunter2-hunter2"
  const { out, write } = bench((text) => text.replaceAll(secret, "***"))
  write(`${"x".repeat(MAX_LINE_BYTES - 5)}${secret}\n`)
  expect(out[0]).not.toContain("hunt")
})

test("a line that redaction shortens shows no part of the secret at the end of what was read", () => {
  const secret = "hunter2-and-more"
  const { out, write } = bench((text) => text.replaceAll(secret, "[REDACTED]"))
  for (let shift = 0; shift < secret.length; shift++) write(`${"x".repeat(shift)}${secret.repeat(1000)}\n`)
  expect(out).toHaveLength(secret.length)
  for (const line of out) expect(line).not.toContain("hunt")
})

test("a child cannot control a terminal or forge a line", () => {
  expect(stripControls("\u001b[31mred\u001b[0m \u001b]8;;http://x\u0007link\u001b]8;;\u001b\\ \u001b(Bok")).toBe(
    "red link ok",
  )
  expect(stripControls("a\u0000b\u0008c\td\u009be\u2028f\u202eg")).toBe("abc\tdefg")
  expect(stripControls("10%\r20%\r\n".trimEnd())).toBe("10% 20%")
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      expect(stripControls(text)).not.toMatch(/[^\P{Cc}\t]/u)
    }),
  )
})

test("whole lines are taken without their breaks", () => {
  const { out, capture } = bench()
  capture.pushLine(bytes("one"))
  capture.pushLine(bytes("two"))
  expect(out).toEqual(["one", "two"])
})

test("a line of stderr is logged at info and explains an exit; noise on stdout is logged at warn [stderr:capture]", () => {
  const logged: unknown[] = []
  const log = {
    ...silentLog,
    info: (...line: unknown[]) => logged.push(["info", ...line]),
    warn: (...line: unknown[]) => logged.push(["warn", ...line]),
  }
  const output = new ChildOutputLogger(manualClock(), log, "web", (text) => text.replaceAll("hunter2", "***"))
  output.onstderr(bytes("Error: no key hunter2\nbye"))
  output.onstdoutnoise(bytes("ready: hunter2"))
  output.onstderrend()
  expect(logged).toEqual([
    ["info", "stderr: Error: no key ***", { server: "web" }],
    ["warn", "printed text on stdout that is not MCP (logs belong on stderr): ready: ***", { server: "web" }],
    ["info", "stderr: bye", { server: "web" }],
  ])
  expect(output.exitReason()).toBe("Error: no key ***")
})
