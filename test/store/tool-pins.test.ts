import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createToolPins } from "../../src/store/tool-pins.ts"
import { manualClock } from "../clock.ts"

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "svc-pins-"))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const filesIn = (path: string) => ({ pins: join(path, "tools.json"), definitions: join(path, "tool-definitions.json") })
/** The stored part of a tool: the round of the test in which it was listed. */
let round = 0
const defined = (name: string) => ({ name, round })
const tools = (entries: Record<string, string>) => new Map(Object.entries(entries))

test("a pin keeps its first version, also across a restart, until the tool is approved", async () => {
  const files = filesIn(folder)
  const clock = manualClock()
  const first = createToolPins(files, clock)
  expect(first.check("a", tools({ one: "1", two: "2" }), defined)).toEqual([])
  expect(first.check("b", tools({ one: "x" }), defined)).toEqual([])
  await clock.pass(1000)

  const second = createToolPins(files, clock)
  expect(second.check("a", tools({ one: "1", two: "changed", three: "3" }), defined)).toEqual(["two"])
  await clock.pass(1000)
  const third = createToolPins(files, clock)
  expect(third.check("a", tools({ one: "1", two: "changed", three: "3" }), defined)).toEqual(["two"])
  expect(third.approve("a", "one")).toEqual([])
  expect(third.approve("a", undefined)).toEqual(["two"])
  expect(third.check("a", tools({ two: "changed" }), defined)).toEqual([])
  await clock.pass(1000)
  expect(createToolPins(files, clock).check("a", tools({ two: "2" }), defined)).toEqual(["two"])
})

test("a tool that changes back matches its pin again, and the pin of a removed tool stays", () => {
  const pins = createToolPins(undefined, manualClock())
  pins.check("a", tools({ one: "1" }), defined)
  expect(pins.check("a", tools({ one: "2" }), defined)).toEqual(["one"])
  expect(pins.check("a", tools({ one: "1" }), defined)).toEqual([])
  expect(pins.approve("a", undefined)).toEqual([])
  pins.check("a", tools({}), defined)
  expect(pins.check("a", tools({ one: "2" }), defined)).toEqual(["one"])
})

test("pins that cannot be written are written as soon as they can [disk:full]", async () => {
  const files = filesIn(join(folder, "later"))
  const clock = manualClock()
  createToolPins(files, clock).check("a", tools({ one: "1" }), defined)
  await clock.pass(1000)
  mkdirSync(join(folder, "later"))
  await clock.pass(60_000)
  const next = createToolPins(files, clock)
  expect(next.check("a", tools({ one: "2" }), defined)).toEqual(["one"])
  expect(next.definitions(["a"]).get("a")?.size).toBe(1)
})

test("a broken file counts as an empty store, and is rewritten", async () => {
  const files = filesIn(folder)
  const file = files.pins
  const clock = manualClock()
  for (const broken of ["{", "[]", '{"a":1}', '{"a":{"one":{"hash":1}}}', '{"a":{"one":{"hash":"1","seen":2}}}']) {
    writeFileSync(file, broken)
    const pins = createToolPins(files, clock)
    expect(pins.check("a", tools({ one: "9" }), defined)).toEqual([])
    await clock.pass(1000)
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({ a: { one: { hash: "9" } } })
  }
})

test("the definition of a pinned tool is kept until another one is approved, also across restarts", async () => {
  const files = filesIn(folder)
  const clock = manualClock()
  const list = async (hashes: Record<string, string>, approved?: string) => {
    round++
    const pins = createToolPins(files, clock)
    pins.check("a", tools(hashes), defined)
    if (approved !== undefined) {
      pins.approve("a", approved)
      pins.check("a", tools(hashes), defined)
    }
    await clock.pass(1000)
    return Object.fromEntries([...(pins.definitions(["a"]).get("a") ?? [])].map(([tool, { round }]) => [tool, round]))
  }
  round = 0
  expect(await list({ one: "1", two: "1" })).toEqual({ one: 1, two: 1 })
  expect(await list({ one: "2", two: "1" })).toEqual({ one: 1, two: 1 })
  // A new tool does not replace the stored definitions of the others.
  expect(await list({ one: "2", three: "1" })).toEqual({ one: 1, two: 1, three: 3 })
  expect(await list({ one: "2", two: "2" }, "one")).toEqual({ one: 4, two: 1, three: 3 })
})

test("an approval with a hash approves only this definition", () => {
  const pins = createToolPins(undefined, manualClock())
  pins.check("a", tools({ one: "1" }), defined)
  pins.check("a", tools({ one: "2" }), defined)
  expect(pins.approve("a", "one", "1")).toEqual([])
  expect(pins.approve("a", "one", "2")).toEqual(["one"])
})

test("pins of a version that stored no definitions: definitions of unchanged tools are stored from then on", async () => {
  const files = filesIn(folder)
  const clock = manualClock()
  writeFileSync(files.pins, '{"a":{"one":{"hash":"1"},"two":{"hash":"1"}}}')
  const pins = createToolPins(files, clock)
  pins.check("a", tools({ one: "1", two: "2" }), defined)
  await clock.pass(1000)
  expect([...(createToolPins(files, clock).definitions(["a"]).get("a")?.keys() ?? [])]).toEqual(["one"])
})

test("a definition that is too long, or a broken file, leaves the text out", async () => {
  const files = filesIn(folder)
  const clock = manualClock()
  const pins = createToolPins(files, clock)
  pins.check("a", tools({ one: "1", long: "1" }), (name) => ({ text: name === "long" ? "x".repeat(70_000) : "" }))
  await clock.pass(1000)
  expect([...(pins.definitions(["a"]).get("a")?.keys() ?? [])]).toEqual(["one"])
  for (const broken of [
    "{",
    "[]",
    '{"a":1}',
    '{"a":{"one":{"hash":"1"}}}',
    '{"a":{"one":{"hash":"1","definition":2}}}',
  ]) {
    writeFileSync(files.definitions, broken)
    expect(pins.definitions(["a"]).get("a")?.size ?? 0).toBe(0)
  }
})
