/** The parts of one session on several replicas. */
import { describe, expect, test } from "bun:test"
import { Replicas } from "../../../src/features/cluster/replicas.ts"
import { SessionReplicas } from "../../../src/features/cluster/session-replicas.ts"
import type { Clock } from "../../../src/lib/clock.ts"
import { Session } from "../../../src/session/session.ts"
import { hashOfSession } from "../../../src/store/session-store.ts"
import type { Params } from "../../../src/wire/message.ts"
import { manualClock } from "../../clock.ts"
import { AGGREGATE, fakeGateway } from "../../fakes.ts"
import { memoryNetwork, type SharedNetwork } from "../../memory-network.ts"

describe("a session of three replicas", () => {
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

  test("a question whose answer cannot be forwarded to it fails, unless the client sends the answer again in time [cluster:unreached]", async () => {
    await using cluster = await startCluster()
    const { clock, network, parts } = cluster
    const [asking, other] = parts
    const { signal } = new AbortController()
    const asked: string[] = []
    const ask = () => asking.session.ask("roots/list", {}, signal, (text) => asked.push(text))
    const idOf = (text = "") => (JSON.parse(text) as { id: string }).id
    const [lost, found] = [ask().catch((error: unknown) => String(error)), ask()]
    const ids = asked.map(idOf)
    const { timers } = clock
    for (const id of [...ids, "r1-99"]) other.remote.reportUndelivered(other.session, id, "r1")
    await network.settle()
    // None for a question that was never asked.
    expect(clock.timers - timers).toBe(2)
    asking.session.answered({ jsonrpc: "2.0", id: ids[1] ?? "", result: { roots: [] } })
    await clock.pass(5000)
    expect(await lost).toContain("--cluster-address")
    expect(await found).toEqual({ roots: [] })
  })
})

describe("messages about a session of three replicas", () => {
  /** Returns the messages of a kind that are sent from now on. */
  const sentOf = async ({ network }: ClusterOfParts, kind: string) => {
    const sent: { readonly [member: string]: unknown }[] = []
    const listener = await network.open()
    listener.onmessage((text) => {
      if (text.startsWith("{") && JSON.parse(text).kind === kind) sent.push(JSON.parse(text))
    })
    return sent
  }

  test("a text that two replicas would pass to and fro is held, and reaches the stream that is opened next [cluster:stream:bounded]", async () => {
    await using cluster = await startCluster()
    const { network, parts } = cluster
    const [one, other, third] = parts
    const sent = await sentOf(cluster, "session.text")
    // As if messages about streams had been lost.
    one.session.streamAt = "r2"
    other.session.streamAt = "r1"
    one.session.notify("news")
    for (let turn = 0; turn < 5; turn++) await network.settle()
    expect(sent).toHaveLength(4)
    const got: string[] = []
    third.session.open((text) => got.push(text) > 0)
    await network.settle()
    expect(got).toEqual(["news"])
  })

  test("the end is answered when the other replicas have heard it [cluster:sessions]", async () => {
    await using cluster = await startCluster()
    const { network, clock, parts } = cluster
    const [{ session, remote }] = parts
    let isAnswered = false
    void remote.ended(session, "was ended by the client").then(() => {
      isAnswered = true
    })
    await network.settle()
    expect(isAnswered).toBe(false)
    // Replicas acknowledge what they have heard at the end of a turn.
    await clock.pass(0)
    await network.settle()
    expect(isAnswered).toBe(true)
  })

  test("a cancellation is sent once, and again to a replica that connects soon after it [cluster:cancel:bounded]", async () => {
    await using cluster = await startCluster()
    const { network, clock, parts } = cluster
    const [{ session, remote }] = parts
    const sent = await sentOf(cluster, "session.cancel")
    await remote.cancel(session, { requestId: 7, reason: "x".repeat(10_000), more: "x".repeat(10_000) })
    await clock.pass(5000)
    await network.settle()
    expect(sent).toMatchObject([{ params: { requestId: 7, reason: "x".repeat(256) } }])
    expect(JSON.stringify(sent).length).toBeLessThan(500)
    const late = await join(network, "r4", clock)
    await network.settle()
    expect(sent).toHaveLength(2)
    await clock.pass(10_000)
    late.replicas.sendHelloNow()
    await (await join(network, "r5", clock)).replicas.close()
    await late.replicas.close()
    await network.settle()
    expect(sent).toHaveLength(2)
  })

  test("cancellations of a session are bounded, and what names no request is not sent [cluster:cancel:bounded]", async () => {
    await using cluster = await startCluster()
    const { network, clock, parts } = cluster
    const [{ session, remote }] = parts
    const sent = await sentOf(cluster, "session.cancel")
    const refusalOf = (params: Params) =>
      remote.cancel(session, params).then(
        () => undefined,
        (error: Error) => error,
      )
    expect(await refusalOf({ reason: "none" })).toBeUndefined()
    expect(await refusalOf({ requestId: "x".repeat(2000) })).toMatchObject({ fault: "invalid_params" })
    for (let id = 0; id < 1000; id++) expect(await refusalOf({ requestId: id })).toBeUndefined()
    expect(await refusalOf({ requestId: 1000 })).toMatchObject({ fault: "too_many", data: { retryAfter: 10 } })
    await clock.pass(10_000)
    expect(await refusalOf({ requestId: 1001 })).toBeUndefined()
    await network.settle()
    expect(sent).toHaveLength(1001)
  })
})

// ---

type ClusterOfParts = Awaited<ReturnType<typeof startCluster>>

async function startCluster() {
  const network = await memoryNetwork()
  const clock = manualClock()
  const [one, other, third] = [
    await join(network, "r1", clock),
    await join(network, "r2", clock),
    await join(network, "r3", clock),
  ]
  const parts = [one, other, third] as const
  await network.settle()
  return {
    network,
    clock,
    parts,
    async [Symbol.asyncDispose]() {
      await Promise.all(parts.map(({ replicas }) => replicas.close()))
      await network[Symbol.asyncDispose]()
    },
  }
}

/** Adds a replica with its part of the session. */
async function join(network: SharedNetwork, id: string, clock: Clock) {
  const replicas = new Replicas(id, await network.open(), clock)
  const load = { calls: 0, sessions: 0, streams: 0, draining: false }
  replicas.join(() => ({ address: `http://${id}`, version: "1", config: "", startedAt: 0, load, acknowledges: true }))
  const session = new Session("s", "p", AGGREGATE, { capabilities: { roots: {} } })
  const sessions = { part: () => session, remove() {}, save() {}, refresh: async () => undefined }
  const remote = new SessionReplicas({ replicas, clock, sessions: () => sessions, gateway: fakeGateway })
  session.begin({ ...fakeGateway(), replicas: remote }, () => undefined)
  return { replicas, session, remote }
}
