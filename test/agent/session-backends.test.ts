import { describe, expect, test } from "bun:test"
import { SessionBackends } from "../../src/agent/session-backends.ts"
import type { Caller } from "../../src/backend/attribution.ts"
import type { Backend } from "../../src/backend/backend.ts"
import { PeerError } from "../../src/backend/connection.ts"
import { manualClock, settle } from "../clock.ts"

const IDLE_MS = 600_000

/** The processes of one server of which three may run, and what was seen of their ends. */
function setUp(tuning = { idleTimeout: IDLE_MS, maxProcesses: 3 }) {
  const clock = manualClock()
  const ended: string[] = []
  const tasks = new Map<object, readonly string[]>()
  const listening = new Set<object>()
  const dying: (() => void)[] = []
  const leases = new SessionBackends({
    clock,
    tuningOf: () => tuning,
    isListening: (_id, session) => listening.has(session),
    tasksOf: (_id, session) => tasks.get(session) ?? [],
    onend: () => undefined,
    onunused: (_spec, why) => void ended.push(why),
  })
  let started = 0
  const start = (heard = true) => {
    const name = `p${++started}`
    const connection = { lastUsed: clock.now(), isAsking: false, ask: (): Promise<object> => Promise.resolve({}) }
    const open = { inFlight: 0, connection }
    const stop = () => {
      ended.push(name)
      return new Promise<void>((resolve) => dying.push(resolve))
    }
    const backend = { published: { open }, spec: {}, state: { kind: "connected" }, stop } as unknown as Backend
    const owner = { session: {}, isConnected: () => heard } as unknown as Caller
    return { name, open, connection, session: owner.session, lost: leases.add("s", owner, backend), owner, backend }
  }
  /** Those that are to be dead are. */
  const bury = async () => {
    for (const die of dying.splice(0)) die()
    await settle()
  }
  return { clock, leases, tasks, listening, ended, start, bury }
}

describe("a session's own process [isolation:idle]", () => {
  test("ends when its session has not called for the idle time, and not before", async () => {
    const { clock, leases, ended, start } = setUp()
    const { connection, owner, backend } = start()
    await clock.pass(IDLE_MS - 1)
    connection.lastUsed = clock.now()
    await clock.pass(IDLE_MS - 1)
    expect(ended).toEqual([])
    await clock.pass(1)
    expect(ended).toEqual(["was ended after 600 s without a call", "p1"])
    expect(leases.find("s", owner.session)).toBeUndefined()
    expect(leases.add("s", owner, backend)).toBe("was ended after 600 s without a call")
    expect(leases.add("s", owner, backend)).toBeUndefined()
  })

  test("goes on while a call runs, and ends the idle time after it", async () => {
    const { clock, ended, start } = setUp()
    const { open, connection } = start()
    open.inFlight = 1
    await clock.pass(5 * IDLE_MS + 1)
    open.inFlight = 0
    connection.lastUsed = clock.now()
    await clock.pass(IDLE_MS - 1)
    expect(ended).toEqual([])
    await clock.pass(1)
    expect(ended.at(-1)).toBe("p1")
  })

  test("goes on while it works on a task, or is too busy to say", async () => {
    const { clock, ended, tasks, start } = setUp()
    const { connection, session } = start()
    tasks.set(session, ["t1"])
    connection.ask = () => Promise.resolve({ status: "working" })
    await clock.pass(2 * IDLE_MS)
    connection.ask = () => Promise.reject(new Error("did not answer"))
    await clock.pass(IDLE_MS)
    expect(ended).toEqual([])
    connection.ask = () => Promise.reject(new PeerError(-32602, "no such task"))
    await clock.pass(IDLE_MS)
    expect(ended.at(-1)).toBe("p1")
  })

  test("goes on while its client can hear it and is asked or subscribed, and not for one that is gone", async () => {
    const { clock, ended, listening, start } = setUp()
    const [asked, subscribed, gone] = [start(), start(), start(false)]
    asked.connection.isAsking = true
    gone.connection.isAsking = true
    listening.add(subscribed.session).add(gone.session)
    await clock.pass(IDLE_MS)
    expect(ended).toEqual(["was ended after 600 s without a call", "p3"])
    asked.connection.isAsking = false
    listening.clear()
    await clock.pass(IDLE_MS)
    expect(ended.filter((name) => name.startsWith("p"))).toEqual(["p3", "p1", "p2"])
  })

  test("goes on for good with an idle time of 0", async () => {
    const { clock, ended, start } = setUp({ idleTimeout: 0, maxProcesses: 3 })
    start()
    await clock.pass(1e9)
    expect([ended, clock.timers]).toEqual([[], 0])
  })
})

describe("where a server has as many processes as it may [isolation:bound]", () => {
  test("the one that has been unused for longest makes room, and counts until it is dead", async () => {
    const { clock, leases, ended, start, bury } = setUp()
    const all = [start(), start(), start()]
    for (const one of [2, 0, 1]) {
      await clock.pass(10)
      const { connection } = all[one] as (typeof all)[number]
      connection.lastUsed = clock.now()
    }
    const room = leases.makeRoom("s")
    await settle()
    expect([leases.isFull("s"), ended.at(-1)]).toEqual([true, "p3"])
    await bury()
    expect([await room, leases.isFull("s")]).toEqual([true, false])
  })

  test("none that is in use makes room, nor one whose call comes in a moment", async () => {
    const { clock, leases, ended, tasks, start } = setUp()
    const [calling, working, next] = [start(), start(), start()]
    calling.open.inFlight = 1
    tasks.set(working.session, ["t1"])
    working.connection.ask = () => Promise.resolve({ status: "input_required" })
    leases.use(next.backend)
    expect([await leases.makeRoom("s"), ended]).toEqual([false, []])
    expect(leases.refusal("s")).toContain(
      'has 3 processes for sessions and all are in use; try again later, or raise its "maxProcesses"',
    )
    await clock.pass(100)
    void leases.makeRoom("s")
    await settle()
    expect(ended.at(-1)).toBe("p3")
  })

  test("many that come at once get no more than there is room for", async () => {
    const { clock, leases, start, bury } = setUp()
    for (let count = 0; count < 3; count++) start()
    await clock.pass(1)
    let alive = 3
    const come = async () => {
      while (leases.isFull("s")) await leases.makeRoom("s")
      start()
      alive++
    }
    const coming = Array.from({ length: 3 }, come)
    await settle()
    expect(alive).toBe(3)
    await bury()
    await Promise.all(coming)
    expect([leases.all().length, alive]).toEqual([3, 6])
  })
})
