/** The parts of one session on several replicas. */
import { describe, expect, test } from "bun:test"
import { systemClock } from "../../src/lib/clock.ts"
import { Session } from "../../src/session/session.ts"
import { createSessionPeers } from "../../src/session/session-peers.ts"
import { Replicas } from "../../src/store/replicas.ts"
import { hashOfSession } from "../../src/store/session-store.ts"
import { AGGREGATE, fakeGateway } from "../fakes.ts"
import { NO_REDIS, type SharedNetwork, sharedNetwork } from "../redis.ts"

describe.skipIf(NO_REDIS !== undefined)("a session of three replicas", () => {
  test("what one that stops returns goes to the stream that the client has opened meanwhile, or is held [cluster:drain:stream]", async () => {
    await using cluster = await startCluster()
    const { network, parts } = cluster
    const [stopping, one, other] = parts
    const giveBack = async (text: string) => {
      stopping.replicas.send({ kind: "session.text", session: hashOfSession("s"), to: "r2", text, back: true })
      await network.settle()
    }
    // It has not been heard yet that the stream has ended.
    one.session.streamAt = "r1"
    await giveBack("first")
    const got: string[] = []
    other.session.open((text) => got.push(text) > 0)
    await network.settle()
    await giveBack("second")
    expect(got).toEqual(["first", "second"])
  })

  test("of streams that a client opens on two at once one stays, and all know which [cluster:stream]", async () => {
    await using cluster = await startCluster()
    const { network, parts } = cluster
    const got: string[] = []
    for (const { session } of parts.slice(0, 2)) session.open((text) => got.push(text) > 0)
    await network.settle()
    expect(parts.filter(({ session }) => session.outlet !== undefined)).toHaveLength(1)
    expect(new Set(parts.map(({ session }) => session.streamAt)).size).toBe(1)
    for (const { replicas, session } of parts) session.notify(replicas.id)
    await network.settle()
    expect(got.toSorted()).toEqual(["r1", "r2", "r3"])
  })
})

// ---

async function startCluster() {
  const network = await sharedNetwork()
  const parts = [await join(network, "r1"), await join(network, "r2"), await join(network, "r3")] as const
  await network.settle()
  return {
    network,
    parts,
    async [Symbol.asyncDispose]() {
      await Promise.all(parts.map(({ replicas }) => replicas.close()))
      await network[Symbol.asyncDispose]()
    },
  }
}

/** Adds a replica with its part of the session. */
async function join(network: SharedNetwork, id: string) {
  const replicas = new Replicas(id, await network.open(), systemClock)
  const load = { calls: 0, sessions: 0, streams: 0, draining: false }
  replicas.join(() => ({ address: `http://${id}`, version: "1", config: "", startedAt: 0, load }))
  const session = new Session("s", "p", AGGREGATE, {})
  const sessions = { part: () => session, remove() {}, save() {}, refresh: async () => undefined }
  const peers = createSessionPeers({ replicas, clock: systemClock, sessions: () => sessions, gateway: fakeGateway })
  session.begin({ ...fakeGateway(), peers }, () => undefined)
  return { replicas, session }
}
