import { expect, test } from "bun:test"
import { createRefusedLogins } from "../../src/app/refused-logins.ts"
import { silentLog } from "../../src/lib/log.ts"
import { Metrics } from "../../src/report/metrics.ts"
import { UNIX_SOCKET } from "../../src/serve/address-rate-limit.ts"
import { createInbound } from "../../src/serve/inbound.ts"
import type { Params } from "../../src/wire/message.ts"
import { manualClock } from "../clock.ts"

function open() {
  const clock = manualClock()
  const metrics = new Metrics()
  const lines: string[] = []
  const entries: Params[] = []
  const logins = createRefusedLogins({
    log: { ...silentLog, warn: (line) => lines.push(line) },
    audit: {
      call: () => ({ end: () => undefined }),
      action: () => () => undefined,
      access: (event, outcome, about) => entries.push({ event, outcome, ...about }),
    },
    metrics,
    clock,
    trustProxy: (address) => address === "127.0.0.1",
  })
  const refuse = (address: string, headers: Record<string, string> = {}) =>
    logins.record(
      createInbound(new Request("http://localhost/mcp", { headers }), () => address),
      "no token",
    )
  return { clock, metrics, lines, entries, logins, refuse }
}

test("a refused login is recorded with its address, or behind a trusted proxy with the client's address [auth:refused]", () => {
  const { refuse, lines, entries } = open()
  refuse("203.0.113.7", { "x-forwarded-for": "198.51.100.1" })
  refuse("127.0.0.1", { "x-forwarded-for": "198.51.100.1" })
  refuse(UNIX_SOCKET)
  expect(lines).toEqual([
    "refused login from 203.0.113.7: no token (/mcp)",
    "refused login from 198.51.100.1: no token (/mcp)",
    "refused login from the Unix socket: no token (/mcp)",
  ])
  expect(entries[0]).toEqual({
    event: "login",
    outcome: "error",
    address: "203.0.113.7",
    reason: "no token",
    path: "/mcp",
  })
})

test("a flood from one address, or from many, is counted and summarized once a minute [auth:refused]", async () => {
  const { clock, metrics, lines, entries, logins, refuse } = open()
  for (let count = 0; count < 1000; count++) refuse("203.0.113.7")
  expect(lines).toHaveLength(10)
  await clock.pass(60_000)
  expect(lines.slice(10)).toEqual(["refused 990 more logins, the last from 203.0.113.7"])
  expect(entries.at(-1)).toEqual({ event: "login", outcome: "error", address: "203.0.113.7", more: 990 })
  for (let count = 0; count < 1000; count++) refuse(`10.0.${count >> 8}.${count & 255}`)
  expect(lines).toHaveLength(111)
  logins.close()
  expect(lines.at(-1)).toBe("refused 900 more logins, the last from 10.0.3.231")
  await clock.pass(60_000)
  expect(lines).toHaveLength(112)
  expect(metrics.refusedLogins).toBe(2000)
})
