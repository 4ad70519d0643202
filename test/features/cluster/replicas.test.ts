/** Which replicas are taken for gone. */
import { expect, test } from "bun:test"
import { Replicas } from "../../../src/features/cluster/replicas.ts"
import type { SharedState } from "../../../src/features/cluster/shared-state.ts"
import { type ManualClock, manualClock } from "../../clock.ts"

/** What replicas share, in memory: messages alone. */
function bus() {
  const members = new Set<{ connected: boolean; take(text: string): void; turn(connected: boolean): void }>()
  const open = (): Pick<SharedState, "connected" | "publish" | "onmessage" | "onstate"> & {
    turn(connected: boolean): void
    /** Holds messages back, as a busy process does; the returned function ends that. */
    hold(): () => void
  } => {
    const messages = new Set<(text: string) => void>()
    const states = new Set<(connected: boolean) => void>()
    let held: string[] | undefined
    const member = {
      connected: true,
      take: (text: string) => {
        if (held !== undefined) held.push(text)
        else for (const listener of messages) listener(text)
      },
      turn(connected: boolean) {
        member.connected = connected
        for (const listener of states) listener(connected)
      },
    }
    members.add(member)
    return {
      turn: member.turn,
      hold() {
        held = []
        return () => {
          const late = held ?? []
          held = undefined
          for (const text of late) member.take(text)
        }
      },
      get connected() {
        return member.connected
      },
      async publish(text) {
        if (member.connected) for (const { connected, take } of members) if (connected) take(text)
      },
      onmessage(listener) {
        messages.add(listener)
        return () => messages.delete(listener)
      },
      onstate(listener) {
        states.add(listener)
        return () => states.delete(listener)
      },
    }
  }
  return {
    open,
    turn(connected: boolean) {
      for (const member of members) member.turn(connected)
    },
  }
}

function join(
  id: string,
  state: Partial<SharedState>,
  clock: ManualClock,
  { address = `http://${id}`, isOld = false } = {},
): Replicas {
  const replicas = new Replicas(id, state as SharedState, clock)
  const load = { calls: 0, sessions: 0, streams: 0, draining: false }
  const facts = { address, version: "1", config: "", startedAt: 0, load }
  replicas.join(() => (isOld ? facts : { ...facts, acknowledges: true }))
  return replicas
}

async function two() {
  const clock = manualClock()
  const shared = bus()
  // Each has a clock of its own: one may stand still.
  const others = manualClock()
  const [own, away] = [shared.open(), shared.open()]
  const [one, other] = [join("r1", own, clock), join("r2", away, others)]
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 100) for (const each of [clock, others]) await each.pass(100)
  }
  await pass(1000)
  return { clock, clocks: [clock, others], shared, away, one, other, pass }
}

test("requests that wait for a replica without a hello are aborted, and no others [cluster:silent]", async () => {
  const { clock, one, pass } = await two()
  const found = one.find("r2")
  expect(one.at("http://r2/mcp")).toBe(found)
  expect(one.at("http://r20/mcp")).toBeUndefined()
  await pass(10_000)
  expect([one.find("r2")?.address, found?.gone.aborted]).toEqual(["http://r2", false])
  // It is suspended.
  await clock.pass(4000)
  expect(found?.gone.aborted).toBe(false)
  await clock.pass(2000)
  expect([one.find("r2"), one.at("http://r2/mcp"), found?.gone.aborted]).toEqual([undefined, undefined, true])
  // It continues, with a new signal.
  await pass(1000)
  expect(one.find("r2")?.gone.aborted).toBe(false)
})

test("while the shared state is away, no replica counts as gone [cluster:silent]", async () => {
  const { clock, shared, one } = await two()
  const found = one.find("r2")
  shared.turn(false)
  await clock.pass(60_000)
  expect([one.find("r2")?.address, found?.gone.aborted]).toEqual(["http://r2", false])
  shared.turn(true)
  await clock.pass(3000)
  expect(found?.gone.aborted).toBe(false)
  await clock.pass(3000)
  expect(found?.gone.aborted).toBe(true)
})

test("a replica that was itself suspended listens first [cluster:silent]", async () => {
  const { clock, one, pass } = await two()
  const found = one.find("r2")
  // Its timers are late, as after a suspension.
  const late = clock.now() + 60_000
  const now = clock.now
  clock.now = () => late
  expect(one.find("r2")?.address).toBe("http://r2")
  await clock.pass(1000)
  expect([one.find("r2")?.address, found?.gone.aborted]).toEqual(["http://r2", false])
  clock.now = now
  await pass(3000)
  expect(found?.gone.aborted).toBe(false)
})

test("a replica that says goodbye is gone at once, and what it has sent before may still arrive [cluster:silent]", async () => {
  const { one, other, pass } = await two()
  const found = one.find("r2")
  await other.close()
  expect([one.find("r2"), one.all().length, found?.gone.aborted]).toEqual([undefined, 1, false])
  await pass(6000)
  expect(found?.gone.aborted).toBe(true)
})

test("a replica that is started at the address of another one takes its place, unless that says hello again [cluster:silent]", async () => {
  const { clock, shared, away, one, pass } = await two()
  const before = one.find("r2")
  // It is killed, and started again.
  away.turn(false)
  const next = join("r3", shared.open(), clock, { address: "http://r2" })
  expect([one.find("r2"), one.at("http://r2/mcp")?.id, before?.gone.aborted]).toEqual([undefined, "r3", false])
  // All announce the address of a load balancer.
  away.turn(true)
  await pass(1000)
  expect(one.find("r2")?.address).toBe("http://r2")
  await next.close()
})

const CHANGED = { kind: "session.changed", session: "s" } as const

/** Sends a message, and returns whether its sender still waits for other replicas. */
function sendTo(one: Replicas, clocks: readonly ManualClock[]): () => Promise<boolean> {
  let waits = true
  void one.sendUntilHeard(CHANGED).then(() => {
    waits = false
  })
  return async () => {
    // Replicas acknowledge what they have heard at the end of a turn.
    for (const clock of clocks) await clock.pass(0)
    return waits
  }
}

test("a message that must be heard waits for a replica that reads late [cluster:sessions:changes]", async () => {
  const { clocks, one, other, away } = await two()
  let heard = 0
  other.on("session.changed", () => {
    heard++
  })
  const release = away.hold()
  const [first, second] = [sendTo(one, clocks), sendTo(one, clocks)]
  expect([heard, await first(), await second()]).toEqual([0, true, true])
  release()
  expect([heard, await first(), await second()]).toEqual([2, false, false])
})

test("a message waits neither for a replica that is silent, gone or old, nor while the shared state is away [cluster:sessions:changes]", async () => {
  const { clock, clocks, shared, other, away, one } = await two()
  const release = away.hold()
  const silent = sendTo(one, clocks)
  await clock.pass(1900)
  expect(await silent()).toBe(true)
  await clock.pass(100)
  expect(await silent()).toBe(false)
  const lost = sendTo(one, clocks)
  expect(await lost()).toBe(true)
  shared.turn(false)
  expect(await lost()).toBe(false)
  shared.turn(true)
  const left = sendTo(one, clocks)
  expect(await left()).toBe(true)
  await other.close()
  expect(await left()).toBe(false)
  const old = shared.open()
  join("r3", old, clock, { isOld: true })
  old.hold()
  expect(await sendTo(one, clocks)()).toBe(false)
  release()
  // No timer is left but the one for the next hello of each.
  expect(clock.timers).toBe(2)
})
