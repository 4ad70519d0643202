import { expect, test } from "bun:test"
import { type LogLevel, openLog } from "../../src/lib/log.ts"
import { createRedactor } from "../../src/lib/redact.ts"
import { manualClock } from "../clock.ts"

test("the name of a server called `auth` does not hide the message after it", () => {
  const lines: string[] = []
  const log = openLog({
    level: "info",
    format: "text",
    clock: manualClock(),
    mask: createRedactor([]).maskCredentials,
    write: (line) => lines.push(line),
  })
  log.info("connected, token=hunter2", { server: "auth" })
  expect(lines[0]).toEndWith("auth: connected, token=[REDACTED]\n")
})

test("a JSON line stays valid JSON whatever is masked in it", () => {
  const lines: string[] = []
  const log = openLog({
    level: "info",
    format: "json",
    clock: manualClock(),
    mask: createRedactor([]).maskCredentials,
    write: (line) => lines.push(line),
  })
  log.info("cut off: token='hunter2hunter2", { server: "o'x", why: 'password="hunter2hunter2' })
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({ message: "cut off: token='[REDACTED]'", server: "o'x", why: 'password="[REDACTED]"' }),
  ])
})

test("text lines hold time, level, server, message and fields; lines below the level are dropped", () => {
  const { lines, log } = collect("info", "text")
  log.debug("not written")
  log.info("connected", { server: "web", tools: 3, note: undefined })
  log.warn("")
  log.error("line one\nline two \u001b[31m")
  expect(lines).toEqual([
    "2026-01-01T00:00:00.000Z info  web: connected tools=3\n",
    "2026-01-01T00:00:00.000Z warn  \n",
    "2026-01-01T00:00:00.000Z error line one\\nline two \\u001b[31m\n",
  ])
})

test("JSON lines hold the same as one object per line", () => {
  const { lines, log } = collect("debug", "json")
  log.debug("connected", { server: "web", tools: 3, note: undefined })
  expect(lines).toEqual([
    '{"time":"2026-01-01T00:00:00.000Z","level":"debug","message":"connected","server":"web","tools":3}\n',
  ])
})

test("equal lines are all written, at once", () => {
  const { lines, log } = collect("info", "text")
  for (let count = 0; count < 50; count++) log.info("again")
  expect(lines).toEqual(Array(50).fill("2026-01-01T00:00:00.000Z info  again\n"))
})

function collect(level: LogLevel, format: "text" | "json") {
  const lines: string[] = []
  const clock = { ...manualClock(), now: () => Date.UTC(2026, 0, 1) }
  const log = openLog({ level, format, clock, mask: (text) => text, write: (line) => lines.push(line) })
  return { lines, log }
}
