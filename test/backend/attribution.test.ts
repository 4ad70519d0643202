/** Attribution of a shared backend's messages while calls are cancelled, against a simulated server. */
import { describe, expect, test } from "bun:test"
import { Attribution, type Caller, LearnedBehaviour, type PendingCall } from "../../src/backend/attribution.ts"
import { encode } from "../../src/wire/frame.ts"
import { type ManualClock, manualClock } from "../clock.ts"
import { fakeConnection } from "../fakes.ts"
import { randomFrom } from "../random.ts"

/** What a tool does: `asks` and `done` are milliseconds from the call to its server request and from there to its answer. */
type Tool = {
  readonly asks?: number
  readonly done?: number
  /** What a cancelled call does. Absent: it ends when its cancellation is read. "silent": it continues and is not answered. */
  readonly continues?: "silent" | "answered"
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
  const running = new Map<string, { cancelled: boolean }>()
  const questions = new Map<string, () => void>()
  let lastQuestion = 0
  let arrives = 0
  const answer = (message: object) => {
    arrives = Math.max(arrives, clock.now() + state.latency)
    clock.after(arrives - clock.now(), () => connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", ...message }))))
  }
  const begin = (id: string, by: string, { asks, done, continues }: Tool) => {
    const call = { cancelled: false }
    running.set(id, call)
    const stopped = () => call.cancelled && continues === undefined
    const finish = () => {
      if (!running.delete(id) || stopped()) return
      if (!call.cancelled || continues === "answered") answer({ id, result: {} })
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
    if (method === "ping") answer({ id, result: {} })
    else if (method === "notifications/cancelled") {
      const call = running.get(String(params?.requestId))
      if (call !== undefined) call.cancelled = true
    } else if (method === "tools/call") begin(String(id), String(params?.by), tools[String(params?.name)] ?? {})
    else if (id !== undefined) {
      if (error !== undefined) state.refused++
      questions.get(id)?.()
      questions.delete(id)
    }
  }
  let taken = 0
  const connection = fakeConnection(
    clock,
    (frame) => {
      taken = Math.max(taken, clock.now() + state.latency, state.asleepUntil)
      clock.after(taken - clock.now(), () => read(JSON.parse(String(frame))))
    },
    { ping: (timeout) => connection.ask("ping", {}, timeout).then(() => undefined) },
  )
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
  const callerOf = (name: string): Caller => ({
    session: { name },
    notify() {},
    ask: () => Promise.reject(new Error("asked")),
  })
  const ann = callerOf("ann")
  const bob = callerOf("bob")
  const flight = (caller: Caller, name: string): PendingCall => ({ method: "tools/call", name, caller, since: 0 })
  const theirs = new Map([[9, flight(bob, "work")]])
  const asks = (attribution: Attribution, now: number, inFlight: ReadonlyMap<number, PendingCall> = theirs) =>
    attribution.attribute(
      { related: undefined, owner: undefined, task: undefined, message: message("elicitation/create") },
      inFlight,
      now,
    )

  test("counts until the backend has read the cancellation, and then for as long as it had run", () => {
    const attribution = new Attribution()
    attribution.noteCancelled(1, flight(ann, "deploy"), true, 8000)
    expect(asks(attribution, 200_000)).toBe("unknown")
    attribution.noteRead(1, 200_000)
    expect([asks(attribution, 207_999), asks(attribution, 208_000)]).toEqual(["unknown", bob])
  })

  test("counts for a grace period if calls of its kind stop, longer if the backend reads slowly", () => {
    const attribution = new Attribution()
    attribution.noteCancelled(1, flight(ann, "deploy"), true, 0)
    attribution.noteRead(1, 10)
    attribution.noteCancelled(2, flight(ann, "deploy"), true, 10_000)
    attribution.noteRead(2, 10_010)
    expect([asks(attribution, 10_029), asks(attribution, 10_030)]).toEqual(["unknown", bob])
    attribution.noteCancelled(3, flight(ann, "deploy"), true, 20_000)
    attribution.noteRead(3, 20_400)
    expect([asks(attribution, 20_799), asks(attribution, 20_800)]).toEqual(["unknown", bob])
    // What one tool does says nothing of another.
    attribution.noteCancelled(4, flight(ann, "build"), true, 30_000)
    attribution.noteRead(4, 30_010)
    expect(asks(attribution, 35_000)).toBe("unknown")
  })

  test("is judged by what an earlier connection to the same version of the server has seen", () => {
    const learned = new LearnedBehaviour()
    const first = new Attribution(learned)
    first.noteCancelled(1, flight(ann, "deploy"), true, 0)
    first.noteRead(1, 10)
    expect(asks(first, 10_000)).toBe(bob)
    first.noteCancelled(2, flight(ann, "build"), true, 10_000)
    first.noteRead(2, 10_010)
    first.noteLateAnswer(2, 11_000)
    const judge = () => {
      const next = new Attribution(learned)
      next.noteCancelled(1, flight(ann, "deploy"), true, 20_000)
      next.noteRead(1, 20_010)
      const deploy = asks(next, 20_100)
      next.noteLateAnswer(1, 20_100)
      next.noteCancelled(2, flight(ann, "build"), true, 30_000)
      next.noteRead(2, 30_010)
      return [deploy, asks(next, 60_000)]
    }
    expect(judge()).toEqual([bob, "unknown"])
    learned.forgetVersion()
    expect(judge()).toEqual(["unknown", "unknown"])
  })

  test("is not suspected of a server request of a kind of call that was seen to send one in quiet times", () => {
    const attribution = new Attribution()
    const call = (since: number): PendingCall => ({ method: "tools/call", name: "ask", caller: bob, since })
    const run = (since: number) => {
      const asking = call(since)
      const found = asks(attribution, since + 10, new Map([[9, asking]]))
      attribution.noteAnswer(asking, new Map(), false, since + 3000)
      return found
    }
    for (let at = 0; at < 40_000; at += 10_000) expect(run(at)).toBe(bob)
    attribution.noteCancelled(1, flight(ann, "deploy"), true, 50_000)
    attribution.noteRead(1, 50_010)
    expect(run(51_000)).toBe("unknown")
    // Nothing else came in its time: deploy stops.
    attribution.noteCancelled(2, flight(ann, "deploy"), true, 90_000)
    attribution.noteRead(2, 90_010)
    expect(run(90_100)).toBe(bob)
  })

  test("counts until its answer if calls of its kind continue", () => {
    for (const showContinues of [
      (attribution: Attribution) => attribution.noteLateProgress(1, 1000),
      (attribution: Attribution) => attribution.noteLateAnswer(1, 1000),
      (attribution: Attribution) => void asks(attribution, 1000, new Map()),
    ]) {
      const attribution = new Attribution()
      attribution.noteCancelled(1, flight(ann, "deploy"), true, 0)
      attribution.noteRead(1, 10)
      showContinues(attribution)
      attribution.noteLateAnswer(1, 2000)
      attribution.noteCancelled(2, flight(ann, "deploy"), true, 10_000)
      attribution.noteRead(2, 10_010)
      expect(asks(attribution, 200_000)).toBe("unknown")
      attribution.noteLateAnswer(2, 200_000)
      expect(asks(attribution, 200_000)).toBe(bob)
    }
  })
})

describe("one cancelled call a second", () => {
  test("costs other clients fewer than one server request in twenty [protocol:whose:gone]", async () => {
    // A tool may end because its server request was refused, or go on for a while without the answer.
    for (const [pause, done] of [
      [0, 0],
      [150, 0],
      [900, 0],
      [0, 250],
      [100, 250],
    ] as const) {
      const clock = manualClock()
      const next = randomFrom(pause)
      const { state, call } = simulate(clock, { hang: {}, ask: { asks: 5, done } })
      const until = clock.now() + 10 * 60_000
      const asking = async () => {
        if (clock.now() >= until) return
        await call("bob", "ask").over
        clock.after(pause * (0.5 + next()) + 20, () => void asking())
      }
      for (let second = 0; second < 600; second++)
        clock.after(second * 1000, () => {
          const { cancel } = call("ann", "hang")
          clock.after(10, cancel)
        })
      clock.after(20, () => void asking())
      await clock.pass(10 * 60_000)
      expect(state.leaks).toEqual([])
      expect(state.shown + state.refused).toBeGreaterThan(500)
      expect({ pause, done, share: state.refused / (state.shown + state.refused) < 0.05 }).toEqual({
        pause,
        done,
        share: true,
      })
    }
  }, 60_000)

  test("does not make a call that ends by chance after a server request explain it", async () => {
    // In these orders of events another client's calls keep step with the questions of cancelled ones.
    for (const seed of [130, 216, 230, 267]) {
      const clock = manualClock()
      const next = randomFrom(seed)
      const every = 300 + next() * 4000
      const late: Tool = { asks: 200 + next() * 4500, continues: "silent" }
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

  test("sends no server request of a call that continues to another client [protocol:whose:gone]", async () => {
    for (const continues of ["silent", "answered"] as const) {
      const clock = manualClock()
      const { state, call } = simulate(clock, {
        late: { asks: 2300, continues },
        ask: { asks: 5 },
        work: { done: 700 },
      })
      const working = async (name: string): Promise<void> => {
        await call("bob", name).over
        clock.after(50, () => void working(name === "ask" ? "work" : "ask"))
      }
      void working("ask")
      for (let second = 0; second < 300; second++)
        clock.after(second * 1000, () => {
          const { cancel } = call("ann", "late")
          clock.after(10, cancel)
        })
      await clock.pass(5 * 60_000)
      expect(state.refused).toBeGreaterThan(100)
      expect(state.leaks).toEqual([])
    }
  }, 60_000)
})

test("attribution keeps its invariants in any order of events [protocol:whose]", () => {
  let [unknown, attributed] = [0, 0]
  for (let seed = 1; seed <= 200; seed++) {
    const next = randomFrom(seed)
    const pick = <T>(from: readonly T[]): T | undefined => from[Math.floor(next() * from.length)]
    const clients = ["ann", "bob", "cat"].map(
      (name): Caller => ({
        session: { name },
        notify() {},
        ask: () => Promise.reject(new Error("not asked here")),
      }),
    )
    const [attribution, twin] = [new Attribution(), new Attribution()]
    const pending = new Map<number, PendingCall>()
    /** Cancelled calls whose cancellation the backend has not read. */
    const unread = new Map<number, PendingCall>()
    const ended = new Set<number>()
    let now = 0
    let lastNumber = 0
    const both = (act: (one: Attribution) => void) => [attribution, twin].forEach(act)
    const events: readonly (() => void)[] = [
      () => {
        const kind = { method: pick(["tools/call", "prompts/get", "tasks/result"]) ?? "", name: pick(["a", "b"]) }
        pending.set(++lastNumber, { ...kind, caller: pick([...clients, undefined]), since: now })
      },
      () => {
        const number = pick([...pending.keys()])
        const call = pending.get(number ?? 0)
        if (number === undefined || call === undefined) return
        pending.delete(number)
        const asking = next() < 0.3
        ended.add(number)
        both((one) => one.noteAnswer(call, pending, asking, now))
      },
      () => {
        const number = pick([...pending.keys()])
        const call = pending.get(number ?? 0)
        if (number === undefined || call === undefined) return
        pending.delete(number)
        if (call.caller !== undefined && call.method !== "tasks/result") unread.set(number, { ...call, since: now })
        both((one) => one.noteCancelled(number, call, true, now))
      },
      () => {
        const number = pick([...unread.keys()]) ?? 0
        unread.delete(number)
        both((one) => one.noteRead(number, now))
      },
      () => {
        const number = 1 + Math.floor(next() * lastNumber)
        if (pending.has(number)) return
        unread.delete(number)
        both((one) => one.noteLateAnswer(number, now))
      },
      () => both((one) => one.noteLateProgress(1 + Math.floor(lastNumber / 2), now)),
      () => {
        now += next() < 0.1 ? next() * 400_000 : next() * 2000
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
        const recent = [...unread.values()].filter(({ since }) => now < since + 5 * 60_000)
        const sessions = new Set([...live, ...recent].map(({ caller }) => caller?.session))
        if (sessions.size > 1) expect(found).toBe("unknown")
        // A message goes to the only client with calls in flight, or to none.
        if (typeof found === "object") {
          attributed++
          expect([...pending.values()].some(({ caller }) => caller?.session === found.session)).toBe(true)
          for (const session of sessions) expect(session).toBe(found.session)
        } else if (found === "unknown") unknown++
        if (found === "none") expect(sessions.size).toBe(0)
      }
    }
  }
  expect([unknown > 1000, attributed > 1000]).toEqual([true, true])
})

test("a server request is sent to the client of its call or refused, in any order of events [protocol:whose:gone]", async () => {
  const tools: Readonly<Record<string, Tool>> = {
    hang: {},
    work: { done: 400 },
    ask: { asks: 30, done: 5 },
    stops: { asks: 900, done: 50 },
    late: { asks: 3500, done: 10, continues: "silent" },
    answers: { asks: 2500, done: 1000, continues: "answered" },
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
  expect(shown).toBeGreaterThan(100)
  expect(refused).toBeGreaterThan(100)
}, 120_000)
