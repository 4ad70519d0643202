import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createToolPins } from "../../src/store/tool-pins.ts"
import { manualClock } from "../clock.ts"

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "svc-pins-"))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const tools = (entries: Record<string, string>) => new Map(Object.entries(entries))

test("a pin stays as first seen, over a restart, until the tool is approved", async () => {
  const file = join(folder, "tools.json")
  const clock = manualClock()
  const first = createToolPins(file, clock)
  expect(first.check("a", tools({ one: "1", two: "2" }))).toEqual([])
  expect(first.check("b", tools({ one: "x" }))).toEqual([])
  await clock.pass(1000)

  const second = createToolPins(file, clock)
  expect(second.check("a", tools({ one: "1", two: "changed", three: "3" }))).toEqual(["two"])
  await clock.pass(1000)
  const third = createToolPins(file, clock)
  expect(third.check("a", tools({ one: "1", two: "changed", three: "3" }))).toEqual(["two"])
  expect(third.approve("a", "one")).toEqual([])
  expect(third.approve("a", undefined)).toEqual(["two"])
  expect(third.check("a", tools({ two: "changed" }))).toEqual([])
  await clock.pass(1000)
  expect(createToolPins(file, clock).check("a", tools({ two: "2" }))).toEqual(["two"])
})

test("a tool that changes back matches its pin, and the pin of a removed tool stays", () => {
  const pins = createToolPins(undefined, manualClock())
  pins.check("a", tools({ one: "1" }))
  expect(pins.check("a", tools({ one: "2" }))).toEqual(["one"])
  expect(pins.check("a", tools({ one: "1" }))).toEqual([])
  expect(pins.approve("a", undefined)).toEqual([])
  pins.check("a", tools({}))
  expect(pins.check("a", tools({ one: "2" }))).toEqual(["one"])
})

test("a broken file is an empty store, and is rewritten", async () => {
  const file = join(folder, "tools.json")
  const clock = manualClock()
  for (const broken of ["{", "[]", '{"a":1}', '{"a":{"one":{"hash":1}}}', '{"a":{"one":{"hash":"1","seen":2}}}']) {
    writeFileSync(file, broken)
    const pins = createToolPins(file, clock)
    expect(pins.check("a", tools({ one: "9" }))).toEqual([])
    await clock.pass(1000)
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({ a: { one: { hash: "9" } } })
  }
})
