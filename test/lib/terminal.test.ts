import { describe, expect, test } from "bun:test"
import { createLiveOutput, lookOf } from "../../src/lib/terminal.ts"

describe("the look of an output", () => {
  test.each([
    [{ isTTY: true, columns: 120 }, {}, { width: 120, color: true }],
    [
      { isTTY: true, columns: 120 },
      { NO_COLOR: "1", COLUMNS: "60" },
      { width: 60, color: false },
    ],
    [{ isTTY: true, columns: 120 }, { TERM: "dumb" }, { width: 120, color: false }],
    [{}, {}, { width: Number.POSITIVE_INFINITY, color: false }],
    [{}, { FORCE_COLOR: "1", COLUMNS: "80" }, { width: 80, color: true }],
    [
      { isTTY: true, columns: 0 },
      { NO_COLOR: "", FORCE_COLOR: "0" },
      { width: 80, color: false },
    ],
  ])("follows from the terminal and the variables (%#) [cli:color]", (stream, env, look) => {
    expect(lookOf(stream, env)).toEqual(look)
  })
})

/** Returns the lines that a terminal shows after these bytes. */
function screenOf(written: string): readonly string[] {
  return written.split("\n").map((line) => line.split("\r\u001b[2K").at(-1) ?? "")
}

test("lines and the line in place never mix [cli:first-screen]", () => {
  let written = ""
  const live = createLiveOutput((text) => {
    written += text
  })
  live.write("first\n")
  live.show("starting: a, b (0 s)")
  live.write("second\n")
  expect(screenOf(written)).toEqual(["first", "second", "starting: a, b (0 s)"])
  live.show("starting: b (1 s)")
  live.write("third\nfourth\n")
  expect(screenOf(written)).toEqual(["first", "second", "third", "fourth", "starting: b (1 s)"])
  live.show("")
  expect(screenOf(written)).toEqual(["first", "second", "third", "fourth", ""])
  live.write("fifth\n")
  expect(screenOf(written)).toEqual(["first", "second", "third", "fourth", "fifth", ""])
})
