import { expect, test } from "bun:test"
import fc from "fast-check"
import { createLineCapture, lineWriter, MAX_LINE_BYTES, stripControls } from "../../src/backend/stderr.ts"
import { manualClock } from "../clock.ts"

const bytes = (text: string) => new TextEncoder().encode(text)
const sizeOf = (text: string) => bytes(text).length

function bench(redact: (text: string) => string = (text) => text) {
  const clock = manualClock()
  const out: string[] = []
  const capture = createLineCapture({ clock, redact, emit: (line) => out.push(line) })
  return { clock, out, capture, write: (text: string) => capture(bytes(text)) }
}

test("lines come out one by one, however they were cut into chunks", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.string({ minLength: 1, unit: fc.constantFrom("a", "b", "ż", "💡") }), { maxLength: 20 }),
      fc.array(fc.nat(9)),
      (expected, cuts) => {
        const { out, capture } = bench()
        const all = bytes(expected.map((line) => `${line}\r\n`).join(""))
        let from = 0
        for (const cut of cuts) {
          capture(all.subarray(from, from + cut))
          from += cut
        }
        capture(all.subarray(from))
        expect(out).toEqual(expected)
      },
    ),
  )
})

test("what is left without a line break comes out at the end", () => {
  const { out, write, capture } = bench()
  write("last words")
  expect(out).toEqual([])
  capture(undefined)
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

test("a line of 8 KiB to the byte is not cut", () => {
  const { out, write } = bench()
  write(`${"x".repeat(MAX_LINE_BYTES)}\n`)
  expect(out).toEqual(["x".repeat(MAX_LINE_BYTES)])
})

test("a line that comes again is summed up after five seconds [stderr:repeats]", async () => {
  const { out, write, clock } = bench()
  for (let n = 0; n < 413; n++) write("tick\n")
  expect(out).toEqual(["tick"])
  await clock.pass(5000)
  expect(out).toEqual(["tick", "last line repeated 412 times"])
})

test("repeats are said before the next line, and of two lines in turn each has its own sum", async () => {
  const { out, write, clock } = bench()
  write("a\na\nb\na\nb\n")
  await clock.pass(5000)
  expect(out).toEqual(["a", "last line repeated once", "b", 'line "a" repeated once', "last line repeated once"])
})

test("twenty different lines pass in ten seconds; the rest is counted and said [stderr:unique]", async () => {
  const { out, write, clock } = bench()
  for (let n = 0; n < 30; n++) write(`line ${n}\n`)
  expect(out).toHaveLength(20)
  await clock.pass(10_000)
  expect(out.slice(20)).toEqual(["10 more lines were dropped: at most 20 different ones pass in 10 s"])
  write("again\n")
  expect(out.at(-1)).toBe("again")
})

test("nothing is left running when nothing is left to say", async () => {
  const { write, clock, capture } = bench()
  write("a\na\n")
  capture(undefined)
  expect(clock.timers).toBe(0)
})

test("at any rate, at most a handful of lines come out and nothing is kept", async () => {
  const { out, clock, capture } = bench()
  const block = bytes(Array.from({ length: 500 }, (_, n) => `line ${n} ${"x".repeat(100)}\n`).join(""))
  for (let second = 0; second < 60; second++) {
    for (let n = 0; n < 20; n++) capture(block)
    await clock.pass(1000)
  }
  const endless = new Uint8Array(65_536).fill(0x78)
  for (let n = 0; n < 1000; n++) capture(endless)
  // Six windows of twenty lines, with the sums of each every five seconds.
  expect(out.length).toBeLessThan(6 * 20 + 13 * 21)
  expect(out.join("\n")).toContain("dropped")
})

test("a secret is redacted also where the line is cut through it", () => {
  const secret = "hunter2-hunter2-hunter2"
  const { out, write } = bench((text) => text.replaceAll(secret, "***"))
  write(`${"x".repeat(MAX_LINE_BYTES - 5)}${secret}\n`)
  expect(out[0]).not.toContain("hunt")
})

test("a child cannot steer a terminal or forge a line", () => {
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

test("whole lines can be given as they are", () => {
  const { out, capture } = bench()
  const take = lineWriter(capture)
  take(bytes("one"))
  take(bytes("two"))
  expect(out).toEqual(["one", "two"])
})
