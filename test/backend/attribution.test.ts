/** Attribution of a shared backend's messages while calls are cancelled, against a simulated server. */
import { describe, expect, test } from "bun:test"
import { Attribution, type Caller, DOUBT_MS, type PendingCall } from "../../src/backend/attribution.ts"
import { encode } from "../../src/wire/frame.ts"
import { type ManualClock, manualClock } from "../clock.ts"
import { fakeConnection } from "../fakes.ts"
import { randomFrom } from "../random.ts"

/** What a tool does: `asks` and `done` are milliseconds from the call to its server request and from there to its answer. */
type Tool = {
  readonly asks?: number
  readonly done?: number
  /**
   * What a cancelled call does. Absent: it ends when its cancellation is read, without an answer. "refuses": it ends with an
   * error. "silent": it continues and is not answered. "answered": it continues and is answered.
   */
  readonly cancelled?: "refuses" | "silent" | "answered"
}

type Incoming = {
  readonly id?: string
  readonly method?: string
  readonly params?: { readonly name?: string; readonly requestId?: string; readonly by?: string }
  readonly error?: unknown
}

/** A simulated stdio server with one queue in and one out, and clients that call its tools. */
function simulate(clock: ManualClock, tools: Readonly<Record<string, Tool>>) {
  const state = { latency: 1, asleepUntil: 0, shown: 0, refused: 0, leaks: [] as string[] }
  const running = new Map<string, { cancelled: boolean; readonly refuses: boolean }>()
  const questions = new Map<string, () => void>()
  let lastQuestion = 0
  let arrives = 0
  const answer = (message: object) => {
    arrives = Math.max(arrives, clock.now() + state.latency)
    clock.after(arrives - clock.now(), () => connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", ...message }))))
  }
  const begin = (id: string, by: string, { asks, done, cancelled }: Tool) => {
    const call = { cancelled: false, refuses: cancelled === "refuses" }
    running.set(id, call)
    const stopped = () => call.cancelled && cancelled !== "silent" && cancelled !== "answered"
    const finish = () => {
      if (!running.delete(id) || stopped()) return
      if (!call.cancelled || cancelled === "answered") answer({ id, result: {} })
    }
    if (asks === undefined) {
      if (done !== undefined) clock.after(done, finish)
      return
    }
    clock.after(asks, () => {
      if (stopped()) return
      const question = `${by} ${++lastQuestion}`
      questions.set(question, () => clock.after(done ?? 0, finish))
      answer({ id: question, method: "elicitation/create", params: { by } })
    })
  }
  const read = ({ id, method, params, error }: Incoming) => {
    if (method === "notifications/cancelled") {
      const call = running.get(String(params?.requestId))
      if (call === undefined) return
      call.cancelled = true
      if (call.refuses) answer({ id: params?.requestId, error: { code: 0, message: "cancelled" } })
    } else if (method === "tools/call") begin(String(id), String(params?.by), tools[String(params?.name)] ?? {})
    else if (id !== undefined) {
      if (error !== undefined) state.refused++
      questions.get(id)?.()
      questions.delete(id)
    }
  }
  let taken = 0
  const connection = fakeConnection(clock, (frame) => {
    taken = Math.max(taken, clock.now() + state.latency, state.asleepUntil)
    clock.after(taken - clock.now(), () => read(JSON.parse(String(frame))))
  })
  const sessions = new Map<string, object>()
  const call = (by: string, name: string) => {
    const session = sessions.get(by) ?? {}
    sessions.set(by, session)
    const caller: Caller = {
      session,
      notify() {},
      async ask(_method, params) {
        state.shown++
        if (params?.by !== by) state.leaks.push(`${params?.by} -> ${by} at ${clock.now()}`)
        return {}
      },
    }
    const { number, outcome } = connection.request({
      method: "tools/call",
      params: { name, by },
      caller,
      timeout: Number.POSITIVE_INFINITY,
    })
    return {
      over: outcome.then(
        () => undefined,
        () => undefined,
      ),
      cancel: () => connection.cancel(number, new Error("cancelled")),
    }
  }
  return { state, call }
}

const message = (method: string) => ({
  jsonrpc: "2.0" as const,
  method,
  ...(method.startsWith("notifications/") ? {} : { id: "e" }),
})

describe("a cancelled call", () => {
  const callerOf = (_name: string): Caller => ({
    session: {},
    notify() {},
    ask: () => Promise.reject(new Error("asked")),
  })
  const ann = callerOf("ann")
  const bob = callerOf("bob")
  const flight = (caller: Caller, name: string): PendingCall => ({ method: "tools/call", name, caller })
  const theirs = new Map([[9, flight(bob, "work")]])
  const asks = (attribution: Attribution, now: number, inFlight: ReadonlyMap<number, PendingCall> = theirs) =>
    attribution.attribute(
      { related: undefined, owner: undefined, task: undefined, message: message("elicitation/create") },
      inFlight,
      now,
    )

  test("may be at work for a fixed time, and no longer than until its answer", () => {
    const attribution = new Attribution()
    attribution.noteCancelled(1, flight(ann, "deploy"), 1000)
    expect([asks(attribution, 1000 + DOUBT_MS - 1), asks(attribution, 1000 + DOUBT_MS)]).toEqual(["several", bob])
    attribution.noteCancelled(2, flight(ann, "deploy"), 50_000)
    attribution.noteCancelled(3, flight(ann, "deploy"), 50_000)
    attribution.noteLateAnswer(2)
    expect(asks(attribution, 50_001)).toBe("several")
    attribution.noteLateAnswer(3)
    expect(asks(attribution, 50_001)).toBe(bob)
  })
})

describe("one cancelled call a second", () => {
  /** Lets ann cancel a call of a tool each second, while bob calls his tools one after the other. */
  const run = async (
    tools: Readonly<Record<string, Tool>>,
    cancelled: string,
    theirs: readonly string[],
    pause = 50,
  ) => {
    const clock = manualClock()
    const next = randomFrom(pause)
    const { state, call } = simulate(clock, tools)
    const working = async (turn: number): Promise<void> => {
      await call("bob", theirs[turn % theirs.length] ?? "").over
      clock.after(pause * (0.5 + next()) + 20, () => void working(turn + 1))
    }
    clock.after(20, () => void working(0))
    for (let second = 0; second < 300; second++)
      clock.after(second * 1000, () => {
        const { cancel } = call("ann", cancelled)
        clock.after(10, cancel)
      })
    await clock.pass(5 * 60_000)
    return state
  }

  test("costs other clients fewer than one server request in twenty if the server answers cancelled calls [protocol:whose:gone]", async () => {
    for (const pause of [0, 150, 900]) {
      const state = await run({ hang: { cancelled: "refuses" }, ask: { asks: 5, done: 0 } }, "hang", ["ask"], pause)
      expect([state.shown > 100, state.refused < state.shown / 20, state.leaks]).toEqual([true, true, []])
    }
  }, 60_000)

  test("sends no server request of a call that continues to another client, however long that client's call waits [protocol:whose:gone]", async () => {
    for (const cancelled of ["silent", "answered"] as const)
      for (const theirs of [["ask", "work"], ["long"]]) {
        const tools: Readonly<Record<string, Tool>> = {
          late: { asks: 2300, cancelled },
          ask: { asks: 5 },
          work: { done: 700 },
          long: { done: 200_000 },
        }
        const state = await run(tools, "late", theirs)
        expect([state.refused > 30, state.leaks]).toEqual([true, []])
      }
  }, 60_000)

  test("sends none to a client whose calls run in step with the server requests of cancelled calls", async () => {
    for (const seed of [130, 216, 230, 267]) {
      const clock = manualClock()
      const next = randomFrom(seed)
      const every = 300 + next() * 4000
      const late: Tool = { asks: 200 + next() * 4500, cancelled: "silent" }
      const work: Tool = { done: 100 + next() * 1500 }
      const gap = next() * 100
      const share = next()
      const { state, call } = simulate(clock, { late, work, ask: { asks: 5, done: next() < 0.5 ? 5 : 200 } })
      const working = async (): Promise<void> => {
        await call("bob", next() < share ? "ask" : "work").over
        clock.after(gap, () => void working())
      }
      void working()
      for (let at = 0; at < 200_000; at += every)
        clock.after(at, () => {
          const { cancel } = call("ann", "late")
          clock.after(50, cancel)
        })
      await clock.pass(200_000)
      expect([seed, state.refused > 50, state.leaks]).toEqual([seed, true, []])
    }
  })
})

test("attribution keeps its invariants in any order of events [protocol:whose]", () => {
  let [several, attributed] = [0, 0]
  for (let seed = 1; seed <= 200; seed++) {
    const next = randomFrom(seed)
    const pick = <T>(from: readonly T[]): T | undefined => from[Math.floor(next() * from.length)]
    const clients = ["ann", "bob", "cat"].map(
      (_): Caller => ({
        session: {},
        notify() {},
        ask: () => Promise.reject(new Error("not asked here")),
      }),
    )
    const [attribution, twin] = [new Attribution(), new Attribution()]
    const pending = new Map<number, PendingCall>()
    /** Cancelled calls that were not answered, with the time of their cancellation. */
    const cancelled = new Map<number, PendingCall & { readonly at: number }>()
    const ended = new Set<number>()
    let now = 0
    let lastNumber = 0
    const both = (act: (one: Attribution) => void) => [attribution, twin].forEach(act)
    const events: readonly (() => void)[] = [
      () => {
        const kind = { method: pick(["tools/call", "prompts/get", "tasks/result"]) ?? "", name: pick(["a", "b"]) }
        pending.set(++lastNumber, { ...kind, caller: pick([...clients, undefined]) })
      },
      () => {
        const number = pick([...pending.keys()])
        const call = pending.get(number ?? 0)
        if (number === undefined || call === undefined) return
        pending.delete(number)
        ended.add(number)
      },
      () => {
        const number = pick([...pending.keys()])
        const call = pending.get(number ?? 0)
        if (number === undefined || call === undefined) return
        pending.delete(number)
        if (call.caller !== undefined && call.method !== "tasks/result") cancelled.set(number, { ...call, at: now })
        both((one) => one.noteCancelled(number, call, now))
      },
      () => {
        const number = 1 + Math.floor(next() * lastNumber)
        if (pending.has(number)) return
        cancelled.delete(number)
        both((one) => one.noteLateAnswer(number))
      },
      () => {
        now += next() < 0.1 ? next() * 40_000 : next() * 2000
      },
    ]
    for (let turn = 0; turn < 200; turn++) {
      pick(events)?.()
      const origin = {
        related: next() < 0.2 ? pick([...pending.keys(), ...ended]) : undefined,
        owner: next() < 0.1 ? pick(clients) : undefined,
        task: next() < 0.1 ? pick([...clients, "unknown" as const]) : undefined,
        message: message(pick(["elicitation/create", "roots/list", "notifications/message"]) ?? ""),
      }
      const found = attribution.attribute(origin, pending, now)
      // The same events give the same result.
      expect(twin.attribute(origin, pending, now)).toBe(found)
      const { related, owner, task } = origin
      if (related !== undefined && !pending.has(related)) expect(found).toBe("unknown")
      else if (related !== undefined && pending.get(related)?.caller !== undefined)
        expect(found).toBe(pending.get(related)?.caller as Caller)
      else if (owner !== undefined) expect(typeof found === "string" ? found : found.session).toBe(owner.session)
      else if (task !== undefined) expect(found).toBe(task)
      else {
        const live = [...pending.values()].filter((call) => call.caller !== undefined && call.method !== "tasks/result")
        const recent = [...cancelled.values()].filter(({ at }) => now < at + DOUBT_MS)
        const sessions = new Set([...live, ...recent].map(({ caller }) => caller?.session))
        expect(found === "several").toBe(sessions.size > 1)
        // A message goes to the only client with calls in flight, or to none.
        if (typeof found === "object") {
          attributed++
          expect([...pending.values()].some(({ caller }) => caller?.session === found.session)).toBe(true)
          for (const session of sessions) expect(session).toBe(found.session)
        } else if (found === "several") several++
        if (found === "none") expect(sessions.size).toBe(0)
      }
    }
  }
  expect([several > 1000, attributed > 1000]).toEqual([true, true])
})

test("a server request is sent to the client of its call or refused, in any order of events [protocol:whose:gone]", async () => {
  const tools: Readonly<Record<string, Tool>> = {
    hang: {},
    work: { done: 400 },
    ask: { asks: 30, done: 5 },
    stops: { asks: 900, done: 50 },
    refuses: { asks: 900, done: 50, cancelled: "refuses" },
    late: { asks: 3500, done: 10, cancelled: "silent" },
    answers: { asks: 2500, done: 1000, cancelled: "answered" },
  }
  const names = Object.keys(tools)
  let shown = 0
  let refused = 0
  for (let seed = 1; seed <= 60; seed++) {
    const clock = manualClock()
    const next = randomFrom(seed)
    const { state, call } = simulate(clock, tools)
    const pick = <T>(from: readonly T[]) => from[Math.floor(next() * from.length)] as T
    let cancels: (() => void)[] = []
    for (let turn = 0; turn < 300; turn++) {
      const chance = next()
      if (chance < 0.5) cancels.push(call(pick(["ann", "bob", "cat"]), pick(names)).cancel)
      else if (chance < 0.8) {
        const cancel = pick(cancels)
        cancels = cancels.filter((other) => other !== cancel)
        cancel?.()
      } else if (chance < 0.84) state.asleepUntil = clock.now() + next() * 20_000
      else if (chance < 0.87) state.latency = next() * 15
      await clock.pass(next() < 0.1 ? next() * 20_000 : next() * 600)
    }
    expect({ seed, leaks: state.leaks }).toEqual({ seed, leaks: [] })
    shown += state.shown
    refused += state.refused
  }
  expect(shown).toBeGreaterThan(50)
  expect(refused).toBeGreaterThan(100)
}, 120_000)
