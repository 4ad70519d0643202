/** Which client a shared backend's message is for, where calls are cancelled: against a server that a clock drives. */
import { describe, expect, test } from "bun:test"
import { Attribution, type Caller, type Flight } from "../../src/backend/attribution.ts"
import { Connection } from "../../src/backend/connection.ts"
import { createRequestIds, encode } from "../../src/wire/frame.ts"
import { type ManualClock, manualClock } from "../clock.ts"

/** What a tool does: when it asks and is done, milliseconds after it was called, and what becomes of a cancelled call. */
type Tool = {
  readonly asks?: number
  readonly done?: number
  /** Without it a call ends where its cancellation is read; "silent" goes on and is not answered. */
  readonly goesOn?: "silent" | "answered"
}

type Incoming = {
  readonly id?: string
  readonly method?: string
  readonly params?: { readonly name?: string; readonly requestId?: string; readonly by?: string }
  readonly error?: unknown
}

/** A server over stdio with one queue in and one out, and clients that call its tools. */
function scene(clock: ManualClock, tools: Readonly<Record<string, Tool>>) {
  const state = { latency: 1, asleepUntil: 0, shown: 0, refused: 0, leaks: [] as string[] }
  const running = new Map<string, { cancelled: boolean }>()
  const questions = new Map<string, () => void>()
  let lastQuestion = 0
  let arrives = 0
  const answer = (message: object) => {
    arrives = Math.max(arrives, clock.now() + state.latency)
    clock.after(arrives - clock.now(), () => connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", ...message }))))
  }
  const begin = (id: string, by: string, { asks, done, goesOn }: Tool) => {
    const call = { cancelled: false }
    running.set(id, call)
    const stopped = () => call.cancelled && goesOn === undefined
    const finish = () => {
      if (!running.delete(id) || stopped()) return
      if (!call.cancelled || goesOn === "answered") answer({ id, result: {} })
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
  const connection = new Connection("s", createRequestIds("x"), clock, {
    owner: undefined,
    onprotocolerror() {},
    onnotification() {},
    ping: (timeout) => connection.ask("ping", {}, timeout).then(() => undefined),
  })
  let taken = 0
  connection.attach({
    pid: undefined,
    buffered: 0,
    close: async () => undefined,
    send(frame) {
      taken = Math.max(taken, clock.now() + state.latency, state.asleepUntil)
      clock.after(taken - clock.now(), () => read(JSON.parse(String(frame))))
    },
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

/** Numbers from 0 to 1 that look random, the same for the same seed. From: mulberry32. */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

describe("a cancelled call", () => {
  const callerOf = (name: string): Caller => ({
    session: { name },
    notify() {},
    ask: () => Promise.reject(new Error("asked")),
  })
  const ann = callerOf("ann")
  const bob = callerOf("bob")
  const flight = (caller: Caller, name: string): Flight => ({ method: "tools/call", name, caller, since: 0 })
  const theirs = new Map([[9, flight(bob, "work")]])
  const asks = (attribution: Attribution, now: number, inFlight: ReadonlyMap<number, Flight> = theirs) =>
    attribution.attribute(
      { related: undefined, owner: undefined, task: undefined, question: "elicitation/create" },
      inFlight,
      now,
    )

  test("counts until the backend has read the cancellation, and as long again as it had run", () => {
    const attribution = new Attribution()
    attribution.abandon(1, flight(ann, "deploy"), true, 8000)
    expect(asks(attribution, 200_000)).toBe("unknown")
    attribution.read(1, 200_000)
    expect([asks(attribution, 207_999), asks(attribution, 208_000)]).toEqual(["unknown", bob])
  })

  test("counts for a grace where such calls were seen to stop, the longer the slower the backend reads", () => {
    const attribution = new Attribution()
    attribution.abandon(1, flight(ann, "deploy"), true, 0)
    attribution.read(1, 10)
    attribution.abandon(2, flight(ann, "deploy"), true, 10_000)
    attribution.read(2, 10_010)
    expect([asks(attribution, 10_029), asks(attribution, 10_030)]).toEqual(["unknown", bob])
    attribution.abandon(3, flight(ann, "deploy"), true, 20_000)
    attribution.read(3, 20_400)
    expect([asks(attribution, 20_799), asks(attribution, 20_800)]).toEqual(["unknown", bob])
    // What one tool does says nothing of another.
    attribution.abandon(4, flight(ann, "build"), true, 30_000)
    attribution.read(4, 30_010)
    expect(asks(attribution, 35_000)).toBe("unknown")
  })

  test("counts until its answer where such calls were seen to go on", () => {
    for (const goesOn of [
      (attribution: Attribution) => attribution.progressed(1, 1000),
      (attribution: Attribution) => attribution.answered(1, 1000),
      (attribution: Attribution) => void asks(attribution, 1000, new Map()),
    ]) {
      const attribution = new Attribution()
      attribution.abandon(1, flight(ann, "deploy"), true, 0)
      attribution.read(1, 10)
      goesOn(attribution)
      attribution.answered(1, 2000)
      attribution.abandon(2, flight(ann, "deploy"), true, 10_000)
      attribution.read(2, 10_010)
      expect(asks(attribution, 200_000)).toBe("unknown")
      attribution.answered(2, 200_000)
      expect(asks(attribution, 200_000)).toBe(bob)
    }
  })
})

describe("one cancelled call a second", () => {
  test("costs other clients fewer than one question in twenty [protocol:whose:gone]", async () => {
    for (const pause of [0, 150, 900]) {
      const clock = manualClock()
      const next = random(pause)
      const { state, call } = scene(clock, { hang: {}, ask: { asks: 5 } })
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
      expect({ pause, share: state.refused / (state.shown + state.refused) < 0.05 }).toEqual({ pause, share: true })
    }
  }, 60_000)

  test("is no reason to take its questions for those of a call that ends by chance after them", async () => {
    // In these orders of events another client's calls keep step with the questions of cancelled ones.
    for (const seed of [130, 216, 230, 267]) {
      const clock = manualClock()
      const next = random(seed)
      const every = 300 + next() * 4000
      const late: Tool = { asks: 200 + next() * 4500, goesOn: "silent" }
      const work: Tool = { done: 100 + next() * 1500 }
      const gap = next() * 100
      const share = next()
      const { state, call } = scene(clock, { late, work, ask: { asks: 5, done: next() < 0.5 ? 5 : 200 } })
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

  test("shows no question of a server that goes on with them to another client [protocol:whose:gone]", async () => {
    for (const goesOn of ["silent", "answered"] as const) {
      const clock = manualClock()
      const { state, call } = scene(clock, { late: { asks: 2300, goesOn }, ask: { asks: 5 }, work: { done: 700 } })
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

test("a question raised by one client's call is shown to this client or refused, in any order of events [protocol:whose:gone]", async () => {
  const tools: Readonly<Record<string, Tool>> = {
    hang: {},
    work: { done: 400 },
    ask: { asks: 30, done: 5 },
    stops: { asks: 900, done: 50 },
    late: { asks: 3500, done: 10, goesOn: "silent" },
    answers: { asks: 2500, done: 1000, goesOn: "answered" },
  }
  const names = Object.keys(tools)
  let shown = 0
  let refused = 0
  for (let seed = 1; seed <= 60; seed++) {
    const clock = manualClock()
    const next = random(seed)
    const { state, call } = scene(clock, tools)
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
