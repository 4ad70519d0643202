/** The parts of one session on several replicas. */
import { describe, expect, test } from "bun:test"
import { systemClock } from "../../src/lib/clock.ts"
import { Session } from "../../src/session/session.ts"
import { createSessionPeers } from "../../src/session/session-peers.ts"
import { Replicas } from "../../src/store/replicas.ts"
import { hashOfSession } from "../../src/store/session-store.ts"
import { AGGREGATE, fakeGateway } from "../fakes.ts"
import { NO_REDIS, sharedNetwork } from "../redis.ts"

describe.skipIf(NO_REDIS !== undefined)("a session of three replicas", () => {
  test("what one that stops returns goes to the stream that the client has opened meanwhile, or is held [cluster:drain:stream]", async () => {
    await using network = await sharedNetwork()
    const join = async (id: string) => {
      const replicas = new Replicas(id, await network.open(), systemClock)
      const load = { calls: 0, sessions: 0, streams: 0, draining: false }
      replicas.join(() => ({ address: `http://${id}`, version: "1", config: "", startedAt: 0, load }))
      const session = new Session("s", "p", AGGREGATE, {})
      const sessions = { part: () => session, remove() {}, save() {}, refresh: async () => undefined }
      const peers = createSessionPeers({ replicas, clock: systemClock, sessions: () => sessions, gateway: fakeGateway })
      session.begin({ ...fakeGateway(), peers }, () => undefined)
      return { replicas, session }
    }
    const [stopping, one, other] = [await join("r1"), await join("r2"), await join("r3")]
    await network.settle()
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
    await Promise.all([stopping, one, other].map(({ replicas }) => replicas.close()))
  })
})
