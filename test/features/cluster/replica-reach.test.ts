/** Replicas that cannot be reached at the addresses that they announce. */
import { expect, test } from "bun:test"
import { createReplicaAccess } from "../../../src/features/cluster/replica-access.ts"
import { ReplicaReach } from "../../../src/features/cluster/replica-reach.ts"
import type { OtherReplica, ReplicaMessage } from "../../../src/features/cluster/replicas.ts"
import { createMarker } from "../../../src/lib/seal.ts"
import { createInbound } from "../../../src/serve/inbound.ts"
import { manualClock } from "../../clock.ts"

const mark = createMarker(() => new Uint8Array(32))
type Hello = Extract<ReplicaMessage, { kind: "hello" }>

/** What another replica of this cluster answers. */
const answerOf =
  (replica: string) =>
  (url: string, init: RequestInit): Promise<Response> => {
    const access = createReplicaAccess({ leases: { admits: () => false }, replica, mark })
    const found = access(createInbound(new Request(url, init), () => ""))
    return Promise.resolve(found instanceof Response ? found : new Response(null, { status: 404 }))
  }

function open(first: (url: string, init: RequestInit) => Promise<Response>) {
  const clock = manualClock()
  const load = { calls: 0, sessions: 0, streams: 0, draining: false }
  const facts = { address: "http://10.0.0.2:3050", version: "1", config: "", startedAt: 0, load }
  const other: OtherReplica = { ...facts, id: "r2", self: false, gone: new AbortController().signal }
  let living: readonly OtherReplica[] = [other]
  let hear: (hello: Hello, from: string) => void = () => undefined
  const warnings: string[] = []
  const state = { send: first, probes: 0, aborted: 0 }
  const reach = new ReplicaReach({
    replicas: {
      id: "r1",
      living: () => living,
      find: (id) => living.find((one) => one.id === id),
      abortRequests: () => void state.aborted++,
      on(_kind, listener) {
        hear = listener as unknown as typeof hear
        return () => undefined
      },
    },
    mark,
    clock,
    log: { warn: (text) => void warnings.push(text) },
    send(url, init) {
      state.probes++
      return state.send(url, init)
    },
  })
  return {
    clock,
    reach,
    state,
    warnings,
    hello: (more: object = {}) => hear({ kind: "hello", facts: { ...facts, ...more } }, "r2"),
    become(next: readonly Partial<OtherReplica>[]) {
      living = next.map((one) => ({ ...other, ...one }))
    },
  }
}

const refuse = () => Promise.reject(Object.assign(new Error("refused"), { code: "ECONNREFUSED" }))

test("a replica that can be reached is probed from time to time, and not reported [cluster:unreached]", async () => {
  const { clock, reach, state, warnings, hello } = open(answerOf("r2"))
  hello()
  expect(await reach.reaches("r2")).toBe(true)
  await clock.pass(30_000)
  expect([reach.reaches("r2"), reach.unreached, state.probes, warnings]).toEqual([true, [], 4, []])
  reach.close()
  expect(clock.timers).toBe(0)
})

test("one that cannot be reached for some seconds is reported once, with the reason, and used again when it can [cluster:unreached]", async () => {
  for (const [send, reason] of [
    [refuse, "nothing listens at 10.0.0.2:3050"],
    [answerOf("r1"), "this replica answers there itself"],
    [answerOf("r3"), "replica r3 answers there"],
    [() => Promise.resolve(new Response("", { status: 403 })), "what answers there is no replica (status 403)"],
  ] as const) {
    const { clock, reach, state, warnings, hello } = open(send)
    hello()
    expect(await reach.reaches("r2")).toBe(false)
    await clock.pass(4000)
    expect([warnings, reach.unreached]).toEqual([[], []])
    await clock.pass(60_000)
    expect(reach.unreached).toEqual(["r2"])
    expect(warnings).toEqual([expect.stringContaining(`r2 cannot be reached at http://10.0.0.2:3050: ${reason}; `)])
    state.send = answerOf("r2")
    await clock.pass(1000)
    expect([reach.reaches("r2"), reach.unreached]).toEqual([true, []])
    reach.close()
  }
})

test("a probe of one that does not answer ends after two seconds, and requests that wait for it are aborted [cluster:unreached]", async () => {
  const silence = (_url: string, { signal }: RequestInit) =>
    new Promise<never>((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)))
  const { clock, reach, state, warnings, hello } = open(silence)
  hello()
  const first = reach.reaches("r2")
  await clock.pass(2000)
  expect([await first, state.aborted]).toEqual([false, 0])
  await clock.pass(4000)
  expect(state.aborted).toBe(1)
  await clock.pass(10_000)
  expect(warnings).toEqual([expect.stringContaining("no answer in time")])
})

test("one that has died or that stops is not reported [cluster:unreached]", async () => {
  for (const next of [[], [{ load: { calls: 0, sessions: 0, streams: 0, draining: true } }]]) {
    const { clock, reach, state, warnings, hello, become } = open(answerOf("r2"))
    hello()
    await clock.pass(1000)
    state.send = refuse
    await clock.pass(12_000)
    become(next)
    await clock.pass(60_000)
    // A request to it is refused, which shows that it has ended.
    expect([warnings, reach.reaches("r2")]).toEqual([[], true])
  }
})

test("a replica that the others cannot reach hears of it, and warns once [cluster:unreached]", async () => {
  const { warnings, hello } = open(answerOf("r2"))
  hello({ unreached: ["r3"] })
  expect(warnings).toEqual([])
  for (let count = 0; count < 3; count++) hello({ unreached: ["r1"] })
  expect(warnings).toEqual([expect.stringContaining("replica r2 cannot reach this one")])
})
