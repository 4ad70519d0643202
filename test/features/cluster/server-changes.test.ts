/** News of servers between replicas. */
import { describe, expect, test } from "bun:test"
import type { Agent } from "../../../src/agent/agent.ts"
import { Subscriptions } from "../../../src/agent/subscriptions.ts"
import { buildCatalog, emptyCatalog } from "../../../src/catalog/catalog.ts"
import type { ServerSpec } from "../../../src/config/server-spec.ts"
import { Replicas } from "../../../src/features/cluster/replicas.ts"
import { ServerChanges, type ServerChangesDeps } from "../../../src/features/cluster/server-changes.ts"
import { manualClock } from "../../clock.ts"
import { fakePeer, fakeSpec } from "../../fakes.ts"
import { memoryNetwork, type SharedNetwork } from "../../memory-network.ts"

describe("lists of a server on two replicas", () => {
  test("a list that changes while the shared state is away is told once it is back, and once [cluster:lists:away]", async () => {
    await using network = await memoryNetwork()
    const [one, other] = [await join(network, "r1"), await join(network, "r2")]
    const pass = () => passTime(network, one, other)
    for (const each of [one, other]) each.list("a")
    await pass()
    one.list("a", "b")
    await pass()
    expect(other.heard).toEqual(["tools/list"])
    await network.cut()
    one.list("a", "b", "c")
    await pass()
    await network.mend()
    await pass()
    expect(other.heard).toEqual(["tools/list", "tools/list"])
    // Nothing has changed when both were away, or when another replica joins.
    await network.cut()
    await network.mend()
    const late = await join(network, "r3")
    late.list("a", "b", "c")
    await pass()
    expect(other.heard.slice(2)).toEqual(["tools/list"])
    expect(one.heard).toEqual([])
    await closeAll(one, other, late)
  })
})

describe("subscriptions of clients of several replicas", () => {
  const numbered = (count: number, length = 0) =>
    Array.from({ length: count }, (_, number) => `note://${number}`.padEnd(length, "x"))

  /** The messages about subscriptions that are sent from now on. */
  const sentOf = async (network: SharedNetwork): Promise<readonly string[]> => {
    const sent: string[] = []
    const listener = await network.open()
    listener.onmessage((text) => {
      if (text.includes('"kind":"subscriptions"')) sent.push(text)
    })
    return sent
  }
  const sizeOf = (texts: readonly string[]) => texts.join("").length

  test("each is told once, and all to a replica that is new, in pieces [cluster:subscriptions:many]", async () => {
    await using network = await memoryNetwork()
    const [one, other] = [await join(network, "r1"), await join(network, "r2")]
    await passTime(network, one, other)
    const sent = await sentOf(network)
    for (const uri of numbered(1000, 60)) {
      one.subscribe(uri)
      await one.clock.pass(10)
    }
    await network.settle()
    expect(other.wanted()).toEqual(numbered(1000, 60))
    expect(sent).toHaveLength(1000)
    expect(sizeOf(sent)).toBeLessThan(1000 * 200)
    // Those of one moment are told together.
    for (const uri of numbered(500, 60)) one.unsubscribe(uri)
    one.subscribe("note://brief")
    one.unsubscribe("note://brief")
    await one.clock.pass(10)
    await network.settle()
    expect(other.wanted()).toEqual(numbered(1000, 60).slice(500))
    expect(sent).toHaveLength(1001)
    for (const uri of numbered(2000, 60)) one.subscribe(uri)
    await passTime(network, one, other)
    const before = sent.length
    const late = await join(network, "r3")
    await passTime(network, one, other, late)
    expect(late.wanted().toSorted()).toEqual(numbered(2000, 60).toSorted())
    expect(Math.max(...sent.map(({ length }) => length))).toBeLessThan(70_000)
    expect(sizeOf(sent.slice(before))).toBeLessThan(2000 * 100)
    // Nothing is told to no purpose.
    const after = sent.length
    await passTime(network, one, other, late)
    expect(sent.length).toBe(after)
    await closeAll(one, other, late)
  })

  test("a replica that has missed a message asks, and is told what holds [cluster:subscriptions:many]", async () => {
    await using network = await memoryNetwork()
    const [one, other] = [await join(network, "r1"), await join(network, "r2")]
    one.subscribe("note://1")
    await passTime(network, one, other)
    const stranger = await network.open()
    const lost = { kind: "subscriptions", number: 99, added: [["s", "note://lost"]], removed: [], from: "r1" }
    await stranger.publish(JSON.stringify(lost))
    one.subscribe("note://2")
    await one.clock.pass(10)
    await network.settle()
    expect(other.wanted()).toEqual(["note://1"])
    await passTime(network, one, other)
    expect(other.wanted()).toEqual(["note://1", "note://2"])
    await network.cut()
    one.unsubscribe("note://1")
    one.subscribe("note://3")
    await passTime(network, one, other)
    await network.mend()
    await passTime(network, one, other)
    expect(other.wanted()).toEqual(["note://2", "note://3"])
    await one.replicas.close()
    await passTime(network, other)
    expect(other.wanted()).toEqual([])
    await closeAll(other)
  })

  test("an update is told to the others once, if a client there is subscribed to it [cluster:subscriptions]", async () => {
    await using network = await memoryNetwork()
    const all = [await join(network, "r1"), await join(network, "r2"), await join(network, "r3")] as const
    const [one, other, third] = all
    one.subscribe("note://1")
    other.subscribe("note://1")
    await passTime(network, ...all)
    const update = async (uri: string, more: object = {}) => {
      third.changes.updated("s", { uri, ...more })
      await network.settle()
    }
    await update("note://1")
    await update("note://2")
    await update("note://1/part", { title: "x".repeat(100_000) })
    const wanted = [{ uri: "note://1" }, { uri: "note://1/part" }]
    expect([one.updates, other.updates, third.updates]).toEqual([wanted, wanted, []])
    // All replicas reach one process by now.
    third.run({ replicas: "one" })
    await update("note://1")
    expect(one.updates).toHaveLength(2)
    one.run({ replicas: "one" })
    await passTime(network, ...all)
    expect([third.wanted(), other.wanted()]).toEqual([["note://1"], []])
    await closeAll(...all)
  })

  test("they are bounded: there is no room for more, and what sessions bring from elsewhere is told when there is [cluster:subscriptions:bounded]", async () => {
    await using network = await memoryNetwork()
    const [one, other] = [await join(network, "r1"), await join(network, "r2")]
    for (const uri of numbered(9999)) one.subscribe(uri)
    const { changes } = one
    expect([changes.hasRoom("s", "note://other"), one.full()]).toEqual([true, 0])
    one.subscribe("note://last")
    expect(["note://other", "note://last"].map((uri) => changes.hasRoom("s", uri))).toEqual([false, true])
    one.subscribe("note://brought")
    expect(one.full()).toBe(1)
    await passTime(network, one, other)
    expect([other.wanted().length, other.wanted().includes("note://brought")]).toEqual([10_000, false])
    one.unsubscribe("note://7")
    await passTime(network, one, other)
    expect([other.wanted().length, other.wanted().includes("note://brought")]).toEqual([10_000, true])
    // Other servers need no room.
    one.run({ replicas: "one" })
    expect(changes.hasRoom("s", "note://other")).toBe(true)
    const long = await join(network, "r3")
    for (const uri of numbered(500, 4096)) long.subscribe(uri)
    expect(long.changes.hasRoom("s", "note://x".padEnd(4096, "x"))).toBe(true)
    for (const uri of numbered(20, 4096).map((uri) => uri.toUpperCase())) long.subscribe(uri)
    expect([long.full(), long.changes.hasRoom("s", "note://x".padEnd(4096, "x"))]).toEqual([1, false])
    await closeAll(one, other, long)
  })
})

// ---

type ReplicaUnderTest = Awaited<ReturnType<typeof join>>

/** Lets two seconds pass on each replica. */
async function passTime(network: SharedNetwork, ...replicas: readonly Pick<ReplicaUnderTest, "clock">[]) {
  for (let turn = 0; turn < 8; turn++) {
    await network.settle()
    for (const { clock } of replicas) await clock.pass(250)
  }
  await network.settle()
}

const closeAll = (...replicas: readonly ReplicaUnderTest[]) =>
  Promise.all(replicas.map(({ replicas }) => replicas.close()))

/** Adds a replica that runs one server. */
async function join(network: SharedNetwork, id: string) {
  const clock = manualClock()
  const state = await network.open()
  const replicas = new Replicas(id, state, clock)
  const load = { calls: 0, sessions: 0, streams: 0, draining: false }
  replicas.join(() => ({ address: `http://${id}`, version: "1", config: "", startedAt: 0, load }))
  const stdioSpec = (tuning?: object) => ({ ...fakeSpec(tuning), launch: { transport: "stdio" } }) as ServerSpec
  let spec = stdioSpec()
  const agent: { -readonly [K in keyof ServerChangesDeps["agent"]]: ServerChangesDeps["agent"][K] } = {
    catalog: emptyCatalog(),
    backend: (server) => (server === "s" ? ({ spec } as ReturnType<Agent["backend"]>) : undefined),
    subscriptions: new Subscriptions({ onsubscriptions() {}, onlevel() {}, onsharedlevel() {} }),
  }
  let full = 0
  const onfull = () => void full++
  const changes = new ServerChanges({ replicas, state, agent, clock, onfull })
  const heard: string[] = []
  const updates: unknown[] = []
  changes.follow({
    listsChanged: (_, methods) => void heard.push(...methods),
    updated: (_, params) => updates.push(params),
  })
  const client = {}
  return {
    replicas,
    clock,
    changes,
    heard,
    updates,
    full: () => full,
    subscribe: (uri: string) => agent.subscriptions.subscribe("s", uri, client, "legacy"),
    unsubscribe: (uri: string) => agent.subscriptions.unsubscribe("s", uri, client),
    /** Returns what the process here is subscribed to for clients of other replicas. */
    wanted() {
      const own = new Set(agent.subscriptions.uris("s", client))
      return agent.subscriptions.uris("s").filter((uri) => !own.has(uri))
    },
    /** Configures the server anew. */
    run(tuning: object) {
      spec = stdioSpec(tuning)
      changes.catalogChanged()
    },
    /** Changes the tools of the server. */
    list(...names: string[]) {
      const tools = names.map((name) => ({ name, inputSchema: { type: "object" } }))
      const listing = { ...fakePeer("legacy"), tools, prompts: [], resources: [], resourceTemplates: [] }
      agent.catalog = buildCatalog([{ spec, listing }], agent.catalog)
      changes.catalogChanged()
    },
  }
}
