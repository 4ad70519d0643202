/** The state machine of a server's lease. What the driver does with it: server-leases.test.ts. */
import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import {
  endOf,
  INITIAL_LEASE,
  isHeld,
  isUnowned,
  type LeaseEffect,
  type LeaseEvent,
  type LeaseState,
  runsHere,
  step,
  TTL_MS,
} from "../../../src/features/cluster/server-lease.ts"
import type { Lease } from "../../../src/features/cluster/shared-state.ts"
import { LeaseTable } from "../../memory-network.ts"
import { randomFrom } from "../../random.ts"

const leaseOf = (token: number): Lease => ({
  kind: "own",
  token,
  renew: () => Promise.reject(new Error("the machine renews nothing")),
  release: () => Promise.reject(new Error("the machine releases nothing")),
})
const ownerOf = (replica: string, token: number) => ({
  replica,
  url: `http://${replica}/servers/s/mcp`,
  credential: `${token}`,
})
const [FIVE, SIX] = [leaseOf(5), leaseOf(6)]
const ACQUIRED: LeaseEvent = { kind: "acquired", from: 0, lease: FIVE }
const taken = (replica: string | undefined, token: number, remaining = 3000): LeaseEvent => ({
  kind: "taken",
  token,
  remaining,
  owner: replica === undefined ? undefined : ownerOf(replica, token),
})

/** Runs events, each with its time; gives the last state and the effects of the last event. */
function run(...events: readonly (readonly [LeaseEvent | LeaseEvent["kind"], number])[]) {
  let result: readonly [LeaseState, readonly LeaseEffect[]] = [INITIAL_LEASE, []]
  for (const [event, now] of events)
    result = step(result[0], typeof event === "string" ? ({ kind: event, by: 60_000 } as LeaseEvent) : event, now)
  return result
}
const kinds = (effects: readonly LeaseEffect[]) => effects.map(({ kind }) => kind)

describe("the lease of a server", () => {
  test("is taken if it is free, and runs the server for 2 s after each renewal was asked for [cluster:one]", () => {
    const [here, effects] = run(["beat", 0], [{ ...ACQUIRED, from: 100 }, 400])
    expect(here.owned).toEqual({ kind: "here", lease: FIVE, until: 2100, leaving: undefined })
    expect(kinds(effects)).toEqual(["beat", "log", "tell", "changed", "endWait"])
    const [asking, asked] = step(here, { kind: "beat" }, 900)
    expect(kinds(asked)).toEqual(["beat", "renew"])
    // The state has not answered yet.
    expect(kinds(step(asking, { kind: "beat" }, 1400)[1])).toEqual(["beat"])
    const [renewed] = step(asking, { kind: "renewed", from: 900, lease: FIVE, isHeld: true }, 1500)
    expect([2099, 2899, 2900].map((now) => isHeld(renewed, now))).toEqual([true, true, false])
  })

  test.each<[string, LeaseEvent, number, number]>([
    ["its time is over, whatever happens then", { kind: "look" }, 2000, 3500],
    ["its renewal was asked for too long ago", { kind: "renewed", from: 0, lease: FIVE, isHeld: true }, 2000, 3500],
    [
      "the state says that another replica may have it",
      { kind: "renewed", from: 0, lease: FIVE, isHeld: false },
      600,
      600,
    ],
  ])("is lost when %s [cluster:one:passes]", (_, event, now, endBy) => {
    const [lost, effects] = run([ACQUIRED, 0], [event, now])
    expect([lost.owned, endOf(lost)]).toEqual([{ kind: "lost", endBy }, endBy])
    expect(kinds(effects)).toEqual(["log", "changed"])
    // It stays known when the process must have ended, until this replica has a lease again.
    const [elsewhere] = step(lost, taken("r2", 6), 4000)
    expect(elsewhere.owned).toEqual({ kind: "elsewhere", owner: ownerOf("r2", 6), endBy })
    expect(endOf(step(elsewhere, { kind: "acquired", from: 4000, lease: leaseOf(7) }, 4100)[0])).toBeUndefined()
  })

  test("of an older token changes nothing, and an answer about another lease neither [cluster:one:fencing]", () => {
    const [state] = run([taken("r2", 6), 0])
    expect(step(state, taken("r1", 5), 10)).toEqual([state, []])
    const [here] = run([{ ...ACQUIRED, lease: SIX }, 0])
    expect(step(here, { kind: "renewed", from: 0, lease: FIVE, isHeld: false }, 10)).toEqual([here, []])
  })

  test("that has another owner is announced once, and looked at again when it runs out", () => {
    const [known, effects] = run([taken("r1", 5), 0])
    expect(kinds(effects)).toEqual(["log", "changed", "endWait"])
    expect(step(known, taken("r1", 5, 200), 500)).toEqual([known, [{ kind: "beat", ms: 201 }]])
    // Its owner cannot be found: the last one stays.
    expect(step(known, taken(undefined, 6), 500)).toEqual([{ ...known, newest: 6 }, []])
  })

  test("that is free again is not taken by a replica that stops, nor for a server that is not configured any more", () => {
    for (const end of ["drain", "drop"] as const) {
      const [state, effects] = run([end, 0], [ACQUIRED, 10])
      expect([state.owned.kind, effects]).toEqual(["unowned", [{ kind: "release", lease: FIVE, tells: false }]])
    }
    expect(kinds(run(["drop", 0], ["beat", 10])[1])).toEqual([])
  })

  test("passes on when its calls and its process have ended, and is announced before [cluster:one:leaves]", () => {
    const [announced, told] = run([ACQUIRED, 0], ["leave", 100])
    expect(told).toEqual([{ kind: "tell", about: { leaving: 5, ms: 59_900 } }])
    expect(runsHere(announced, 100)).toBe(true)
    const [draining, drain] = step(announced, { kind: "handOver", by: 60_000 }, 300)
    expect(kinds(drain)).toEqual(["log", "awaitDrained"])
    expect([draining.nextBy, runsHere(draining, 300)]).toEqual([66_000, true])
    // Each beat announces it again.
    expect(kinds(step(draining, { kind: "beat" }, 500)[1])).toEqual(["beat", "tell", "renew"])
    const [ending, end] = step(draining, { kind: "drained" }, 1000)
    expect(kinds(end)).toEqual(["changed", "awaitStopped"])
    // The lease is kept until the process has ended.
    expect([isHeld(ending, 1000), runsHere(ending, 1000)]).toEqual([true, false])
    const [free, released] = step(ending, { kind: "stopped" }, 1200)
    expect([free.owned.kind, released]).toEqual([
      "unowned",
      [
        { kind: "beat", ms: 500 },
        { kind: "release", lease: FIVE, tells: true },
      ],
    ])
    const [next] = step(free, taken("r2", 6), 1500)
    expect([next.nextBy, next.wasHandedOver]).toEqual([undefined, true])
  })

  test("that its owner will release is waited for, as long as that may take [cluster:one:leaves]", () => {
    const leaves = { kind: "ownerLeaves", replica: "r1", token: 5, ms: 2000 } as const
    const [waiting] = run([taken("r1", 5), 0], [leaves, 100])
    expect(waiting.nextBy).toBe(8100)
    const [next, effects] = step(waiting, taken("r2", 6), 8099)
    expect([next.wasHandedOver, kinds(effects).at(-1)]).toEqual([true, "endWait"])
    expect(step(waiting, taken("r2", 6), 8100)[0].wasHandedOver).toBe(false)
    // A replica that learns of it first does not take the owner that stops for the next one.
    expect(isUnowned(run([leaves, 0], [taken("r1", 5), 10])[0])).toBe(true)
    expect(run([taken("r3", 4), 0], [leaves, 10])[0].nextBy).toBeUndefined()
  })
})

/** All kinds of events, with some of their values. */
const anyEvent: fc.Arbitrary<LeaseEvent> = fc.oneof(
  fc.constantFrom<LeaseEvent[]>(
    ...(["beat", "look", "news", "unanswered", "drain", "drop", "drained", "stopped"] as const).map((kind) => ({
      kind,
    })),
  ),
  fc.record({ kind: fc.constantFrom("leave", "handOver"), by: fc.nat(9000) }),
  fc.record({ kind: fc.constant("acquired" as const), from: fc.nat(9000), lease: fc.constantFrom(FIVE, SIX) }),
  fc.record({
    kind: fc.constant("renewed" as const),
    from: fc.nat(9000),
    lease: fc.constantFrom(FIVE, SIX),
    isHeld: fc.boolean(),
  }),
  fc.tuple(fc.constantFrom("r1", "r2", undefined), fc.nat(9), fc.nat(4000)).map((about) => taken(...about)),
  fc.record({
    kind: fc.constant("ownerLeaves" as const),
    replica: fc.constantFrom("r1", "r2"),
    token: fc.nat(9),
    ms: fc.nat(3000),
  }),
)

describe("whatever happens to the lease of a server", () => {
  test("the machine has an answer, keeps the largest token, and never runs the server past the time of its lease", () => {
    const seen = new Set<string>()
    fc.assert(
      fc.property(fc.array(fc.tuple(anyEvent, fc.nat(900)), { maxLength: 60 }), (events) => {
        let [state, now] = [INITIAL_LEASE, 0]
        for (const [event, passed] of events) {
          now += passed
          seen.add(`${state.owned.kind} ${event.kind}`)
          const [next, effects] = step(state, event, now)
          expect(next.newest).toBeGreaterThanOrEqual(state.newest)
          // What is not free is not asked for, and what is not held is not renewed.
          const { owned } = next
          for (const effect of effects) {
            if (effect.kind === "renew") expect(owned).toMatchObject({ kind: "here", lease: effect.lease })
            if (effect.kind === "acquire") expect(owned.kind).not.toBe("here")
          }
          if (owned.kind === "here") expect(owned.until).toBeGreaterThan(now)
          if (state.owned.kind === "here" && now >= state.owned.until && event.kind !== "acquired")
            expect(owned.kind).not.toBe("here")
          state = next
        }
      }),
      { numRuns: 2000 },
    )
    // Four kinds of owners, and 14 of events.
    expect(seen.size).toBe(4 * 14)
  })

  test("at most one replica runs the server, at any time, and one does when all is well again [cluster:one:passes]", () => {
    fc.assert(fc.property(fc.integer(), walk), { numRuns: 300 })
  })
})

// ---

/**
 * Lets three replicas share a lease for a minute or two, with answers that come late or never, messages that are lost,
 * suspended replicas, ones that stop, and a state that forgets. Throws if two could run the server.
 */
function walk(seed: number): void {
  const random = randomFrom(seed)
  const chance = (share: number) => random() < share
  const table = new LeaseTable()
  let now = 0
  let tasks: { readonly at: number; readonly of: Walker | undefined; readonly run: () => void }[] = []
  const after = (ms: number, of: Walker | undefined, task: () => void) => tasks.push({ at: now + ms, of, run: task })
  const walkers = ["r1", "r2", "r3"].map(
    (id): Walker => ({ id, state: INITIAL_LEASE, beat: 0, isSuspended: false, isAway: false, late: [] }),
  )
  const tokens: number[] = []
  /** Whether nothing is lost any more. */
  let isCalm = false
  /** The last token that the state has given, and the tokens that replicas have seen who are asking it for a lease. */
  let given = 0
  const asking = new Set<{ readonly newest: number }>()

  const dispatch = (walker: Walker, event: LeaseEvent) => {
    const [state, effects] = step(walker.state, event, now)
    if (state.newest < walker.state.newest) throw new Error("the newest token became smaller")
    if (state.owned.kind === "here" && walker.state.owned.kind !== "here") tokens.push(state.owned.lease.token)
    walker.state = state
    for (const effect of effects) perform(walker, effect)
  }
  /** Asks the state; the question or the answer may be lost. */
  const ask = (walker: Walker, question: () => LeaseEvent) => {
    const lost = () => after(random() * 1000, walker, () => dispatch(walker, { kind: "unanswered" }))
    const isLost = walker.isAway || (!isCalm && chance(0.05))
    after(random() * 300, undefined, () => {
      if (isLost) {
        lost()
        return
      }
      const answer = question()
      if (!isCalm && chance(0.05)) lost()
      else after(random() * 300, walker, () => dispatch(walker, answer))
    })
  }
  const perform = (walker: Walker, effect: LeaseEffect) => {
    const { id } = walker
    switch (effect.kind) {
      case "beat": {
        const beat = ++walker.beat
        after(effect.ms, walker, () => walker.beat === beat && dispatch(walker, { kind: "beat" }))
        return
      }
      case "acquire": {
        const [from, { newest }] = [now, walker.state]
        const question = { newest }
        asking.add(question)
        ask(walker, () => {
          asking.delete(question)
          const got = table.acquire("s", id, TTL_MS, newest, now)
          given = Math.max(given, typeof got === "number" ? got : got.token)
          if (typeof got === "number") return { kind: "acquired", from, lease: leaseOf(got) }
          const owner = got.holder === "" || got.holder === id ? undefined : ownerOf(got.holder, got.token)
          return { kind: "taken", token: got.token, remaining: got.remaining, owner }
        })
        return
      }
      case "renew": {
        const [from, { lease }] = [now, effect]
        ask(walker, () => ({
          kind: "renewed",
          from,
          lease,
          isHeld: table.renew("s", id, TTL_MS, lease.token, now),
        }))
        return
      }
      case "release":
        if (!walker.isAway) after(random() * 300, undefined, () => table.release("s", effect.lease.token))
        return
      case "tell": {
        const { leaving, ms = 0 } = effect.about
        for (const other of walkers)
          if (other !== walker && !other.isAway && (isCalm || chance(0.9)))
            after(random() * 300, other, () =>
              dispatch(
                other,
                leaving === undefined ? { kind: "news" } : { kind: "ownerLeaves", replica: id, token: leaving, ms },
              ),
            )
        return
      }
      case "awaitDrained":
        after(random() * (effect.by - now), walker, () => dispatch(walker, { kind: "drained" }))
        return
      case "awaitStopped":
        after(random() * 2000, walker, () => dispatch(walker, { kind: "stopped" }))
    }
  }
  /** Whether a process may run: one that was suspended is suspended with its replica. */
  const mayRun = ({ state, isSuspended }: Walker) => isHeld(state, now) || (!isSuspended && now < (endOf(state) ?? 0))
  const pass = (ms: number) => {
    const until = now + ms
    for (;;) {
      const next = tasks.reduce<(typeof tasks)[number] | undefined>(
        (first, task) => (task.at <= until && (first === undefined || task.at < first.at) ? task : first),
        undefined,
      )
      if (next === undefined) break
      tasks = tasks.filter((task) => task !== next)
      now = Math.max(now, next.at)
      if (next.of?.isSuspended === true) next.of.late.push(next.run)
      else next.run()
      const running = walkers.filter(({ state }) => isHeld(state, now))
      if (running.length > 0 && walkers.filter(mayRun).length > 1) throw new Error(`two run the server at ${now}`)
    }
    now = until
  }
  const resume = (walker: Walker) => {
    walker.isSuspended = false
    // The server is used before its own timers have run.
    dispatch(walker, { kind: "look" })
    for (const task of walker.late.splice(0)) task()
  }

  for (const walker of walkers) dispatch(walker, { kind: "beat" })
  for (let turn = 0; turn < 150; turn++) {
    const walker = walkers[Math.floor(random() * walkers.length)] as Walker
    if (walker.isSuspended) resume(walker)
    else if (chance(0.1)) walker.isSuspended = true
    if (chance(0.1)) walker.isAway = !walker.isAway
    if (chance(0.02)) {
      const by = now + 4000
      dispatch(walker, { kind: "leave", by })
      after(200, walker, () => dispatch(walker, { kind: "handOver", by }))
    }
    // What a state has forgotten is safe with those who have seen it.
    const known = [...walkers.map(({ state }) => state), ...asking].map(({ newest }) => newest)
    if (chance(0.2) && known.every((newest) => newest === given)) table.clear()
    pass(random() * 900)
  }
  for (const walker of walkers) {
    if (walker.isSuspended) resume(walker)
    walker.isAway = false
  }
  isCalm = true
  pass(20_000)
  expect(tokens).toEqual(tokens.toSorted((a, b) => a - b))
  expect(walkers.filter(({ state }) => isHeld(state, now))).toHaveLength(1)
  const [owner] = walkers.filter(({ state }) => state.owned.kind === "here")
  for (const { id, state } of walkers)
    if (id !== owner?.id) expect(state.owned).toMatchObject({ owner: { replica: owner?.id } })
}

type Walker = {
  readonly id: string
  state: LeaseState
  /** The number of the last beat that was set. */
  beat: number
  isSuspended: boolean
  /** Whether it cannot reach the state. */
  isAway: boolean
  readonly late: (() => void)[]
}
