/** Messages are recorded only for watchers, for as long as they ask, and without secrets. */
import { expect, test } from "bun:test"
import { WireLog } from "../../src/backend/wire-log.ts"
import { manualClock } from "../clock.ts"

const SECRET = "canary-canary-canary"

function recorded() {
  const clock = manualClock()
  const lines: string[] = []
  const wire = new WireLog({
    clock,
    mask: (text) => text.replaceAll(SECRET, "•••"),
    write: (server, line) => lines.push(`${server} ${line}`),
  })
  return { clock, lines, wire }
}

test("a message is recorded only while somebody watches its server [logs:wire]", async () => {
  const { clock, lines, wire } = recorded()
  expect(wire.recorderOf("a")).toBeUndefined()
  wire.watch("a", 1000)
  expect(wire.recorderOf("b")).toBeUndefined()
  wire.recorderOf("a")?.("sent", '{"id":1}')
  wire.recorderOf("a")?.("received", Buffer.from('{"id":2}'))
  expect(lines).toEqual(['a → {"id":1}', 'a ← {"id":2}'])
  await clock.pass(600)
  wire.watch("a", 1000)
  await clock.pass(600)
  expect(wire.recorderOf("a")).toBeDefined()
  await clock.pass(400)
  expect(wire.recorderOf("a")).toBeUndefined()
})

test("a secret is masked before a long message is cut, wherever it stands [logs:wire]", () => {
  const { lines, wire } = recorded()
  wire.watch("a", 1000)
  for (let before = 8100; before < 8200; before += 3)
    wire.recorderOf("a")?.("sent", `${"x".repeat(before)}${SECRET}${"y".repeat(20_000)}`)
  expect(lines.join("\n")).not.toContain("canary")
  expect(lines[0]).toEndWith(" … (28120 bytes)")
  expect(lines.every((line) => line.length < 8300)).toBe(true)
})
