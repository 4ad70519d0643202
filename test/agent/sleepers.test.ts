import { expect, test } from "bun:test"
import type { ServerSpec } from "../../src/config/server-spec.ts"
import type { ListingStore } from "../../src/store/listings.ts"
import { settle } from "../clock.ts"
import { createMemoryAgent, tool } from "./memory-agent.ts"

/** An agent with one server `a`, whose tools are what `tools` returns, and a store of listings in memory. */
function stage(
  settings: object,
  tools: () => readonly object[] | undefined = () => [tool("x")],
  stored = new Map<string, object>(),
) {
  const listings: ListingStore = {
    read: ({ id }: ServerSpec) => stored.get(id),
    write: ({ id }: ServerSpec, listing) => void stored.set(id, listing),
    keep: (names) => {
      for (const id of stored.keys()) if (!names.has(id)) stored.delete(id)
    },
  }
  const memory = createMemoryAgent(tools, undefined, listings)
  const names = () => memory.agent.catalog.parts.flatMap(({ offered }) => [...offered.keys()])
  const state = () => memory.agent.backend("a")?.state.kind
  return {
    ...memory,
    stored,
    names,
    state,
    starts: () => memory.received.filter(([, method]) => method === "initialize").length,
    start: () => memory.apply({ mcpServers: { a: { command: "x", protocolVersion: "legacy", ...settings } } }),
  }
}

test("an idle server sleeps, its tools stay, and a call wakes it [sleep:idle]", async () => {
  const { clock, names, state, starts, start, agent } = stage({ idleTimeout: 60_000 })
  await start()
  expect([state(), names(), starts()]).toEqual(["connected", ["x"], 1])
  await clock.pass(59_000)
  expect(state()).toBe("connected")
  await clock.pass(2000)
  expect([state(), names()]).toEqual(["asleep", ["x"]])
  const back = agent.whenBack("a", 0)
  expect([state(), names()]).toEqual(["waking", ["x"]])
  await settle()
  await back
  expect([state(), names(), starts()]).toEqual(["connected", ["x"], 2])
  await agent.close()
  expect(clock.timers).toBe(0)
})

test("without idleTimeout, with stateful, or with a subscription, a server stays awake [sleep:needed]", async () => {
  for (const settings of [
    {},
    { idleTimeout: 1000, stateful: true },
    { idleTimeout: 1000, isolation: "session" },
    { idleTimeout: 0 },
  ]) {
    const { clock, state, start } = stage(settings)
    await start()
    await clock.pass(3_600_000)
    expect([settings, state()]).toEqual([settings, "connected"])
  }
  const { agent, clock, state, start } = stage({ idleTimeout: 1000 })
  await start()
  const session = {}
  agent.subscriptions.subscribe("a", "x://y", session, "legacy")
  await clock.pass(60_000)
  expect(state()).toBe("connected")
  agent.subscriptions.unsubscribe("a", "x://y", session)
  await clock.pass(2000)
  expect(state()).toBe("asleep")
})

test("a lazy server is started once to list, and from then on only when it is needed [sleep:lazy]", async () => {
  const first = stage({ start: "lazy" })
  await first.start()
  expect([first.state(), first.names()]).toEqual(["connected", ["x"]])
  await first.clock.pass(3000)
  expect(first.state()).toBe("asleep")

  const second = stage({ start: "lazy" }, undefined, first.stored)
  await second.start()
  expect([second.state(), second.names(), second.starts()]).toEqual(["asleep", ["x"], 0])
  expect(second.agent.snapshot().backends[0]?.listed?.tools).toBe(1)
})

test("what a server lists when it wakes replaces its stored listing [sleep:listing]", async () => {
  const first = stage({ start: "lazy" })
  await first.start()
  const second = stage({ start: "lazy" }, () => [tool("y")], first.stored)
  await second.start()
  expect(second.names()).toEqual(["x"])
  const back = second.agent.whenBack("a", 0)
  await settle()
  await back
  expect(second.names()).toEqual(["y"])
})

test("a server that fails to wake loses its listing and says why [sleep:failed]", async () => {
  const first = stage({ start: "lazy" })
  await first.start()
  const second = stage({ start: "lazy" }, () => undefined, first.stored)
  await second.start()
  expect([second.state(), second.names()]).toEqual(["asleep", ["x"]])
  void second.agent.whenBack("a", 0)
  await settle()
  expect([second.state(), second.names()]).toEqual(["waiting", []])
  expect(second.agent.backend("a")?.facts.lastError).toContain("is not there")
  await second.clock.pass(60_000)
  await settle()
  expect(second.state()).toBe("failed")
})

test("a server that may no longer sleep is started [sleep:retuned]", async () => {
  const first = stage({ start: "lazy" })
  await first.start()
  const { state, apply, start } = stage({ start: "lazy" }, undefined, first.stored)
  await start()
  expect(state()).toBe("asleep")
  await apply({ mcpServers: { a: { command: "x", protocolVersion: "legacy" } } })
  expect(state()).toBe("connected")
})

test("the listing of a removed server is removed, but not that of one that is disabled or faulty [sleep:removed]", async () => {
  const { apply, stored, clock } = stage({})
  const a = { command: "x", protocolVersion: "legacy", start: "lazy" }
  await apply({ mcpServers: { a, b: a, c: a, d: a } })
  await clock.pass(3000)
  expect([...stored.keys()]).toEqual(["a", "b", "c", "d"])
  await apply({ mcpServers: { a, b: { ...a, disabled: true }, c: { ...a, args: ["${MISSING}"] } } })
  expect([...stored.keys()]).toEqual(["a", "b", "c"])
  // It was removed while svc did not run.
  const next = stage({}, undefined, stored)
  await next.apply({ mcpServers: {} })
  expect([...stored.keys()]).toEqual(["a", "b", "c"])
  await next.agent.close()
  const last = stage({}, undefined, stored)
  await last.apply({ mcpServers: { b: a } })
  expect([...stored.keys()]).toEqual(["b"])
})
