import { expect, test } from "bun:test"
import { watchConfigurations } from "../../src/app/configuration-drift.ts"
import type { Replica } from "../../src/store/replicas.ts"
import { manualClock } from "../clock.ts"

test("svc warns once if replicas have had different configurations for a minute, and reports when they agree again [cluster:drift]", async () => {
  const clock = manualClock()
  const replica = (id: string, config: string): Replica => ({
    id,
    config,
    self: id === "r1",
    address: "http://10.0.0.1:3050",
    version: "1",
    startedAt: 0,
    load: { calls: 0, sessions: 0, streams: 0, draining: false },
  })
  let all = [replica("r1", "a"), replica("r2", "a"), replica("r3", "b")]
  const lines: string[] = []
  const say = (text: string) => void lines.push(text)
  const drift = watchConfigurations({ all: () => all }, clock, { warn: say, info: say })
  await clock.pass(50_000)
  expect([lines, drift.differing]).toEqual([[], []])
  await clock.pass(20_000)
  expect(drift.differing).toEqual(["r3"])
  expect(lines).toEqual([expect.stringContaining("over a minute: r3;")])
  await clock.pass(600_000)
  expect(lines).toHaveLength(1)
  all = [replica("r1", "b"), replica("r2", "a"), replica("r3", "b")]
  await clock.pass(10_000)
  expect(drift.differing).toEqual([])
  all = [replica("r1", "b"), replica("r2", "b"), replica("r3", "b")]
  await clock.pass(100_000)
  expect(lines).toEqual([lines[0] ?? "", "all replicas have the same configuration"])
  drift.close()
  expect(clock.timers).toBe(0)
})
