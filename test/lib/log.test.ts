import { expect, test } from "bun:test"
import { openLog } from "../../src/lib/log.ts"
import { createRedactor } from "../../src/lib/redact.ts"
import { manualClock } from "../clock.ts"

test("a server's name makes no secret of what is said of it", () => {
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

test("a line of JSON stays one whatever is masked in it", () => {
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
