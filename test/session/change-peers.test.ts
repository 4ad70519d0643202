/** News of servers between replicas. */
import { describe, expect, test } from "bun:test"
import { Subscriptions } from "../../src/agent/subscriptions.ts"
import { buildCatalog, emptyCatalog } from "../../src/catalog/catalog.ts"
import { type ChangePeersDeps, createChangePeers } from "../../src/session/change-peers.ts"
import { Replicas } from "../../src/store/replicas.ts"
import { manualClock } from "../clock.ts"
import { fakePeer, fakeSpec } from "../fakes.ts"
import { NO_REDIS, type SharedNetwork, sharedNetwork } from "../redis.ts"

describe.skipIf(NO_REDIS !== undefined)("lists of a server on two replicas", () => {
  test("a list that changes while the shared state is away is told once it is back, and once [cluster:lists:away]", async () => {
    await using network = await sharedNetwork()
    const [one, other] = [await join(network, "r1"), await join(network, "r2")]
    const pass = async () => {
      for (let turn = 0; turn < 8; turn++) {
        await network.settle()
        await Promise.all([one, other].map(({ clock }) => clock.pass(250)))
      }
    }
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
    for (const each of [one, other, late]) await each.replicas.close()
  })
})

// ---

/** Adds a replica that runs one server. */
async function join(network: SharedNetwork, id: string) {
  const clock = manualClock()
  const state = await network.open()
  const replicas = new Replicas(id, state, clock)
  const load = { calls: 0, sessions: 0, streams: 0, draining: false }
  replicas.join(() => ({ address: `http://${id}`, version: "1", config: "", startedAt: 0, load }))
  const spec = fakeSpec()
  const agent: { -readonly [K in keyof ChangePeersDeps["agent"]]: ChangePeersDeps["agent"][K] } = {
    catalog: emptyCatalog(),
    backend: () => undefined,
    subscriptions: new Subscriptions({ onsubscriptions() {}, onlevel() {}, onsharedlevel() {} }),
  }
  const changes = createChangePeers({ replicas, state, agent, clock })
  const heard: string[] = []
  changes.follow({ listsChanged: (_, method) => void heard.push(method), updated() {} })
  return {
    replicas,
    clock,
    heard,
    /** Changes the tools of the server. */
    list(...names: string[]) {
      const tools = names.map((name) => ({ name, inputSchema: { type: "object" } }))
      const listing = { ...fakePeer("legacy"), tools, prompts: [], resources: [], resourceTemplates: [] }
      agent.catalog = buildCatalog([{ spec, listing }], agent.catalog)
      changes.catalogChanged()
    },
  }
}
