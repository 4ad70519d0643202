import { describe, expect, test } from "bun:test"
import { SessionBackends } from "../../src/agent/session-backends.ts"
import type { Caller } from "../../src/backend/attribution.ts"
import type { Backend } from "../../src/backend/backend.ts"
import { PeerError } from "../../src/backend/peer-error.ts"
import { manualClock, settle } from "../clock.ts"

const IDLE_MS = 600_000

/** The processes of one server, of which three may run at the same time. `ended` records their ends. */
function setUp(tuning = { idleTimeout: IDLE_MS, maxProcesses: 3 }) {
  const clock = manualClock()
  const ended: string[] = []
  const tasks = new Map<object, readonly string[]>()
  const listening = new Set<object>()
  const dying: (() => void)[] = []
  const created: Backend[] = []
  const dedicated = new SessionBackends({
    clock,
    create: () => created.shift(),
    whenSettled: () => Promise.resolve(),
    tuningOf: () => tuning,
    isListening: (_id, session) => listening.has(session),
    tasksOf: (_id, session) => tasks.get(session) ?? [],
    onend: () => undefined,
    onunused: (_spec, reason) => void ended.push(reason),
  })
  let started = 0
  const make = () => {
    const name = `p${++started}`
    const connection = { lastUsed: clock.now(), isAsking: false, ask: (): Promise<object> => Promise.resolve({}) }
    const open = { inFlight: 0, connection }
    const stop = () => {
      ended.push(name)
      return new Promise<void>((resolve) => dying.push(resolve))
    }
    const spec = { name: "s" }
    const backend = { published: { open }, spec, state: { kind: "connected" }, start() {}, stop } as unknown as Backend
    return { name, open, connection, backend }
  }
  const start = (isConnected = true) => {
    const { name, open, connection, backend } = make()
    const owner = { session: {}, isConnected: () => isConnected } as unknown as Caller
    return { name, open, connection, session: owner.session, lost: dedicated.add("s", owner, backend), owner, backend }
  }
  /** Lets the processes that are being stopped exit. */
  const bury = async () => {
    for (const die of dying.splice(0)) die()
    await settle()
  }
  return { clock, dedicated, created, tasks, listening, ended, make, start, bury }
}

describe("a session's own process [isolation:idle]", () => {
  test("is stopped when its session has not called for the idle time, and not before", async () => {
    const { clock, dedicated, ended, start } = setUp()
    const { connection, owner, backend } = start()
    await clock.pass(IDLE_MS - 1)
    connection.lastUsed = clock.now()
    await clock.pass(IDLE_MS - 1)
    expect(ended).toEqual([])
    await clock.pass(1)
    expect(ended).toEqual(["was stopped after 600 s without a call", "p1"])
    expect(dedicated.find("s", owner.session)).toBeUndefined()
    expect(dedicated.add("s", owner, backend)).toBe("was stopped after 600 s without a call")
    expect(dedicated.add("s", owner, backend)).toBeUndefined()
  })

  test("is kept while a call runs, and stopped the idle time after it", async () => {
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

  test("is kept while it works on a task, or is too busy to answer", async () => {
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

  test("is kept while its connected client has a question or a subscription, but not for a client that is gone", async () => {
    const { clock, ended, listening, start } = setUp()
    const [asked, subscribed, gone] = [start(), start(), start(false)]
    asked.connection.isAsking = true
    gone.connection.isAsking = true
    listening.add(subscribed.session).add(gone.session)
    await clock.pass(IDLE_MS)
    expect(ended).toEqual(["was stopped after 600 s without a call", "p3"])
    asked.connection.isAsking = false
    listening.clear()
    await clock.pass(IDLE_MS)
    expect(ended.filter((name) => name.startsWith("p"))).toEqual(["p3", "p1", "p2"])
  })

  test("is kept for good with an idle time of 0", async () => {
    const { clock, ended, start } = setUp({ idleTimeout: 0, maxProcesses: 3 })
    start()
    await clock.pass(1e9)
    expect([ended, clock.timers]).toEqual([[], 0])
  })
})

describe("if a server has as many processes as it may [isolation:bound]", () => {
  test("the one that has been unused for longest is stopped, and counts until it is dead", async () => {
    const { clock, dedicated, ended, start, bury } = setUp()
    const all = [start(), start(), start()]
    for (const one of [2, 0, 1]) {
      await clock.pass(10)
      const { connection } = all[one] as (typeof all)[number]
      connection.lastUsed = clock.now()
    }
    const room = dedicated.makeRoom("s")
    await settle()
    expect([dedicated.isFull("s"), ended.at(-1)]).toEqual([true, "p3"])
    await bury()
    expect([await room, dedicated.isFull("s")]).toEqual([true, false])
  })

  test("no process in use is stopped, nor one whose call is about to be sent", async () => {
    const { clock, dedicated, ended, tasks, start } = setUp()
    const [calling, working, next] = [start(), start(), start()]
    calling.open.inFlight = 1
    tasks.set(working.session, ["t1"])
    working.connection.ask = () => Promise.resolve({ status: "input_required" })
    dedicated.use(next.backend)
    expect([await dedicated.makeRoom("s"), ended]).toEqual([false, []])
    expect(dedicated.refusal("s")).toContain(
      'has 3 processes for sessions and all are in use; try again later, or raise its "maxProcesses"',
    )
    await clock.pass(100)
    void dedicated.makeRoom("s")
    await settle()
    expect(ended.at(-1)).toBe("p3")
  })

  test("many simultaneous sessions get no more processes than are allowed", async () => {
    const { clock, dedicated, start, bury } = setUp()
    for (let count = 0; count < 3; count++) start()
    await clock.pass(1)
    let alive = 3
    const come = async () => {
      while (dedicated.isFull("s")) await dedicated.makeRoom("s")
      start()
      alive++
    }
    const coming = Array.from({ length: 3 }, come)
    await settle()
    expect(alive).toBe(3)
    await bury()
    await Promise.all(coming)
    expect([dedicated.all().length, alive]).toEqual([3, 6])
  })
})

describe("opening a session's own process", () => {
  const callerOf = () => {
    const notes: unknown[] = []
    const owner = { session: {}, notify: (_: string, { data }: { data: string }) => void notes.push(data) }
    return { owner: owner as unknown as Caller, notes }
  }

  test("starts one at the first call, returns the same one later, and restarts it if it failed", async () => {
    const { dedicated, created, make } = setUp()
    const { owner } = callerOf()
    const { backend } = make()
    let restarts = 0
    Object.assign(backend, { restart: () => void restarts++ })
    created.push(backend)
    expect(await dedicated.open("s", owner, owner, {})).toBe(backend)
    expect(await dedicated.open("s", owner, owner, {})).toBe(backend)
    expect(restarts).toBe(0)
    Object.assign(backend, { state: { kind: "failed" } })
    expect(await dedicated.open("s", owner, owner, {})).toBe(backend)
    expect(restarts).toBe(1)
  })

  test("returns nothing for a server that is gone, and the reason if all its processes are in use", async () => {
    const { dedicated, start } = setUp()
    const { owner } = callerOf()
    expect(await dedicated.open("s", owner, owner, {})).toBeUndefined()
    for (const { open } of [start(), start(), start()]) open.inFlight = 1
    expect(await dedicated.open("s", owner, owner, {})).toBe(dedicated.refusal("s"))
  })

  test("tells the caller that the session lost the state of its stopped process", async () => {
    const { clock, dedicated, created, make } = setUp()
    const { owner, notes } = callerOf()
    created.push(make().backend, make().backend)
    await dedicated.open("s", owner, owner, {})
    await clock.pass(2 * IDLE_MS)
    await dedicated.open("s", owner, owner, {})
    expect(notes).toEqual([
      "s: the process of this session was stopped after 600 s without a call; svc starts a new one, and the state of the old one is lost",
    ])
  })
})
