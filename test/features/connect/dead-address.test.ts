import { expect, test } from "bun:test"
import { deadAddress } from "../../../src/features/connect/dead-address.ts"
import { manualClock } from "../../clock.ts"

test("an address that neither accepts nor refuses a connection is waited for a second, and is not dead [connect:gone]", async () => {
  const clock = manualClock()
  const entry = { name: "svc", server: { url: "http://[::1]:9/mcp" } }
  const opened: unknown[] = []
  const found = deadAddress(entry, clock, (...address) => {
    opened.push(address)
    return Promise.withResolvers<void>().promise
  })
  await clock.pass(1000)
  expect([await found, opened, clock.timers]).toEqual([undefined, [["::1", 9]], 0])
  expect(await deadAddress(entry, clock, () => Promise.reject(new Error("refused")))).toBe(entry.server.url)
})
