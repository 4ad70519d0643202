import { expect, test } from "bun:test"
import { readServeOptions, sharedOptions } from "../../../src/app/serve-options.ts"
import {
  contentDigest,
  flagDigests,
  stateKeyMark,
  watchConfigurations,
} from "../../../src/features/cluster/configuration-drift.ts"
import type { Replica } from "../../../src/features/cluster/replicas.ts"
import { manualClock } from "../../clock.ts"

const replica = (id: string, config: string, settings?: Record<string, string>): Replica => ({
  id,
  config,
  ...(settings === undefined ? {} : { settings }),
  self: id === "r1",
  address: "http://10.0.0.1:3050",
  version: "1",
  startedAt: 0,
  load: { calls: 0, sessions: 0, streams: 0, draining: false },
})

test("svc warns once if replicas have had different configurations for a minute, and says when that is over [cluster:drift]", async () => {
  const clock = manualClock()
  let all = [replica("r1", "a"), replica("r2", "a"), replica("r3", "b")]
  const lines: string[] = []
  const say = (text: string) => void lines.push(text)
  const drift = watchConfigurations({ all: () => all }, clock, { warn: say, info: say })
  await clock.pass(50_000)
  expect([lines, drift.differing]).toEqual([[], []])
  await clock.pass(20_000)
  expect(drift.differing).toEqual(["r3"])
  expect(lines).toEqual([expect.stringContaining("over a minute: r3 (mcp.json);")])
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

test("the warning names what differs [cluster:drift]", async () => {
  const clock = manualClock()
  const own = { "--auth": "on", SVC_STATE_KEY: "1", "presets.json": "p" }
  // One of another version of svc tells less, or other things.
  let all = [
    replica("r1", "a", own),
    replica("r2", "a", { ...own, "--auth": "off" }),
    replica("r3", "b", { ...own, SVC_STATE_KEY: "2" }),
    replica("r4", "a", { "--auth": "on", "--new": "x" }),
    replica("r5", "a"),
  ]
  const lines: string[] = []
  const say = (text: string) => void lines.push(text)
  const drift = watchConfigurations({ all: () => all }, clock, { warn: say, info: say })
  await clock.pass(70_000)
  expect(drift.differing).toEqual(["r2", "r3"])
  expect(lines).toEqual([expect.stringContaining(": r2 (--auth), r3 (mcp.json, SVC_STATE_KEY);")])
  all = all.filter(({ id }) => id !== "r3")
  await clock.pass(10_000)
  expect(lines.slice(1)).toEqual([expect.stringContaining(": r2 (--auth);")])
  drift.close()
})

test("format and comments of a file do not count, what it says does [cluster:drift]", () => {
  const same = [
    '{ "mcpServers": { "a": { "command": "x" } } }',
    '{\n  // ours\n  "mcpServers": {\n    "a": { "command": "x", },\n  },\n}\n',
    '\ufeff{"$schema":"./mcp.schema.json","mcpServers":{"a":{"command":"x"}}}',
  ]
  const others = ['{ "mcpServers": { "a": { "command": "y" } } }', '{ "mcpServers": ', "", undefined]
  const digests = new Set([...same, ...others].map((text) => contentDigest(() => text)))
  expect(new Set(same.map((text) => contentDigest(() => text))).size).toBe(1)
  // A missing file is an empty one.
  expect(digests.size).toBe(4)
  expect(
    contentDigest(() => {
      throw new Error("it cannot be read")
    }),
  ).toMatch(/^[0-9a-f]{16}$/)
})

test("flags count that decide who gets in and what clients see; others do not [cluster:drift]", () => {
  const differing = (args: Record<string, unknown>) => {
    const [one, other] = [{}, args].map((each) => flagDigests(sharedOptions(readServeOptions(each, {}, "linux"))))
    return Object.keys(one ?? {}).filter((flag) => one?.[flag] !== other?.[flag])
  }
  expect(differing({ port: "4000", "log-level": "debug", "shutdown-grace": "1s" })).toEqual([])
  expect(differing({ auth: true })).toEqual(["--auth"])
  const issuer = { "auth-issuer": "https://id.example.com", "auth-audience": "svc", "auth-scopes": "off" }
  expect(differing(issuer)).toEqual(["--auth", "--auth-issuer", "--auth-audience", "--auth-scopes"])
  expect(differing({ filter: "web", tools: "search", "internal-tools": "safe" })).toEqual([
    "--filter",
    "--internal-tools",
    "--tools",
  ])
})

test("SVC_STATE_KEY is compared by so few digits that they do not tell it [cluster:drift]", async () => {
  const [one, again, other] = await Promise.all(["a secret", "a secret", "another"].map(stateKeyMark))
  expect(one).toMatch(/^[0-9a-f]{4}$/)
  expect(again).toBe(one ?? "")
  expect(other).not.toBe(one ?? "")
  expect([await stateKeyMark(undefined), await stateKeyMark("")]).toEqual(["none", "none"])
})
