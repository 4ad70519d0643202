import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import {
  type BackendEffect,
  type BackendEvent,
  type BackendState,
  INITIAL_STATE,
  restartDelay,
  STABLE_MS,
  STATUS_BY_STATE,
  step,
} from "../../src/backend/supervision.ts"
import type { RestartPolicy } from "../../src/config/server-spec.ts"

const SUPERVISED: RestartPolicy = { kind: "supervised", limit: 5, delay: 1000 }
const UNSUPERVISED: RestartPolicy = { kind: "never", limit: 5, delay: 1000 }
const RECONNECT: RestartPolicy = { kind: "reconnect", limit: 5, delay: 1000 }

type Report = "negotiated" | "opened" | "lost" | "refused" | "unauthorized" | "due" | "stable"
type Word = "start" | "rest" | "sleep" | "wake" | "stop" | "restart" | Report

function eventOf(word: Word, epoch: number, now: number): BackendEvent {
  switch (word) {
    case "start":
    case "rest":
    case "sleep":
    case "wake":
    case "stop":
    case "restart":
      return { kind: word, now }
    case "negotiated":
    case "opened":
      return { kind: word, epoch, now, pid: 100 + epoch }
    default:
      return { kind: word, epoch, now }
  }
}

/** Runs words in the current epoch, one millisecond apart; gives the last state and the effects of the last word. */
function run(policy: RestartPolicy, ...words: Word[]): readonly [BackendState, readonly BackendEffect[]] {
  let state = INITIAL_STATE
  let effects: readonly BackendEffect[] = []
  words.forEach((word, now) => {
    ;[state, effects] = step(state, eventOf(word, state.epoch, now), policy)
  })
  return [state, effects]
}

const cycle: readonly Word[] = ["lost", "due"]
const cycles = (count: number): Word[] => Array.from({ length: count }, () => cycle).flat()

describe("an unsupervised backend that svc had put to sleep", () => {
  const asleep: readonly Word[] = ["start", "opened", "sleep", "wake"]

  test("is started again if it fails to wake [sleep:failed]", () => {
    expect(run(UNSUPERVISED, ...asleep, "lost")[0]).toMatchObject({ kind: "waiting", attempt: 1, retryAt: 1004 })
    expect(run(UNSUPERVISED, ...asleep, ...cycles(3), "opened")[0]).toMatchObject({ kind: "connected", attempt: 3 })
  })

  test("is started again if it fails while it takes calls beside its lists [sleep:failed]", () => {
    const [state, effects] = run(UNSUPERVISED, ...asleep, "negotiated", "lost")
    expect(state).toMatchObject({ kind: "waiting", attempt: 1 })
    expect(effects.map(({ kind }) => kind)).toEqual(["unpublish", "close", "wait"])
  })

  test("has failed when its attempts are used up, or once it has woken [sleep:failed]", () => {
    expect(run(UNSUPERVISED, ...asleep, "negotiated", "opened", "lost")[0].kind).toBe("failed")
    expect(run(UNSUPERVISED, ...asleep, ...cycles(5), "lost")[0].kind).toBe("failed")
    expect(run(UNSUPERVISED, ...asleep, "opened", "lost")[0].kind).toBe("failed")
    expect(run(UNSUPERVISED, ...asleep, ...cycles(1), "opened", "lost")[0].kind).toBe("failed")
    expect(run(UNSUPERVISED, "start", "lost")[0].kind).toBe("failed")
    expect(run(UNSUPERVISED, "start", "opened", "restart", "lost")[0].kind).toBe("failed")
  })
})

describe("a supervised backend", () => {
  test("that exits is unpublished at once and waits for its replacement [supervise:exit]", () => {
    const [state, effects] = run(SUPERVISED, "start", "opened", "lost")
    expect(state).toEqual({ kind: "waiting", epoch: 1, attempt: 1, retryAt: 1002 })
    expect(effects).toEqual([
      { kind: "unpublish" },
      { kind: "close" },
      { kind: "wait", event: "due", epoch: 1, ms: 1000 },
    ])
    expect(STATUS_BY_STATE[state.kind].aggregate).toBe("restarting")
  })

  test("is published again when its replacement is initialized [supervise:back]", () => {
    const [state, effects] = run(SUPERVISED, "start", "opened", "lost", "due", "opened")
    expect(state).toEqual({ kind: "connected", epoch: 2, since: 4, pid: 102, attempt: 1 })
    expect(effects).toEqual([{ kind: "publish" }, { kind: "wait", event: "stable", epoch: 2, ms: STABLE_MS }])
  })

  test("is in a crash loop after as many attempts as its limit, and stays so [supervise:limit]", () => {
    const spent: Word[] = ["start", "opened", ...cycles(5), "lost"]
    const [state] = run(SUPERVISED, ...spent)
    expect(state).toMatchObject({ kind: "crashed", attempt: 5 })
    for (const word of ["start", "lost", "due", "stable", "opened"] as const)
      expect(run(SUPERVISED, ...spent, word)).toEqual([state, []])
    expect(run(SUPERVISED, ...spent, "restart")[0]).toMatchObject({ kind: "recovering", attempt: 0 })
    expect(run(SUPERVISED, ...spent, "stop")[0]).toMatchObject({ kind: "stopped" })
  })

  test("resets its attempts when a replacement has been stable for five minutes [supervise:stable]", () => {
    const [state] = run(SUPERVISED, "start", "opened", ...cycles(3), "opened", "stable")
    expect(state).toMatchObject({ kind: "connected", attempt: 0 })
  })

  test("does not reset its attempts for a replacement that dies young", () => {
    const young: Word[] = ["lost", "due", "opened"]
    const [state] = run(SUPERVISED, "start", "opened", ...Array.from({ length: 5 }, () => young).flat(), "lost")
    expect(state.kind).toBe("crashed")
  })

  test("is restarted at once by an operator, with fresh attempts, also while it waits [supervise:restart]", () => {
    const [state, effects] = run(SUPERVISED, "start", "opened", ...cycles(3), "lost", "restart")
    expect(state).toMatchObject({ kind: "recovering", attempt: 0 })
    expect(effects.map(({ kind }) => kind)).toEqual(["cancelTimer", "open"])
  })

  test("closes the old process before an operator's restart opens the next", () => {
    const [, effects] = run(SUPERVISED, "start", "opened", "restart")
    expect(effects.map(({ kind }) => kind)).toEqual(["unpublish", "close", "open"])
  })

  test("retries a first start that fails", () => {
    expect(run(SUPERVISED, "start", "lost")[0]).toMatchObject({ kind: "waiting", attempt: 1 })
  })

  test("restarts without limit when its limit is 0", () => {
    const [state] = run({ ...SUPERVISED, limit: 0 }, "start", "opened", ...cycles(100), "lost")
    expect(state).toMatchObject({ kind: "waiting", attempt: 101 })
  })
})

test("a server that refuses svc is tried ever more rarely, another one is not [supervise:refused]", () => {
  const wait = (word: "lost" | "refused", times: number) => {
    const words = Array.from({ length: times }, () => [word, "due"] as const).flat()
    const [state] = run(RECONNECT, "start", ...words, word)
    return state.kind === "waiting" ? state.retryAt - words.length - 1 : undefined
  }
  expect([0, 4, 5, 50].map((times) => wait("lost", times))).toEqual([1000, 16_000, 16_000, 16_000])
  expect([0, 4, 5, 50].map((times) => wait("refused", times))).toEqual([1000, 16_000, 32_000, 256_000])
})

test("the delay before attempt n is the configured one times 1, 2, 4, 8, and 16 from then on [supervise:delay]", () => {
  expect([1, 2, 3, 4, 5, 6, 50].map((n) => restartDelay(n, 1000))).toEqual([
    1000, 2000, 4000, 8000, 16_000, 16_000, 16_000,
  ])
})

test("an unsupervised backend that is lost stays failed until an operator acts", () => {
  const [state, effects] = run(UNSUPERVISED, "start", "opened", "lost")
  expect(state).toEqual({ kind: "failed", epoch: 1, at: 2 })
  expect(effects).toEqual([{ kind: "unpublish" }, { kind: "close" }])
  expect(run(UNSUPERVISED, "start", "lost", "restart")[0].kind).toBe("recovering")
})

test("a remote backend reconnects without a limit", () => {
  expect(run(RECONNECT, "start", ...cycles(40), "lost")[0]).toMatchObject({ kind: "waiting", attempt: 41 })
})

test("a 401 waits for a person", () => {
  for (const words of [
    ["start", "unauthorized"],
    ["start", "opened", "unauthorized"],
  ] as Word[][]) {
    const [state] = run(SUPERVISED, ...words)
    expect(state.kind).toBe("unauthorized")
    expect(STATUS_BY_STATE[state.kind].status).toBe("awaiting_oauth")
  }
})

test("pin: the reported status of each state", () => {
  expect(STATUS_BY_STATE).toEqual({
    stopped: { status: "disconnected", aggregate: "stopped", holdsReady: false },
    starting: { status: "disconnected", aggregate: "stopped", holdsReady: false },
    connected: { status: "connected", aggregate: "connected", holdsReady: false },
    asleep: { status: "connected", aggregate: "connected", holdsReady: false },
    waking: { status: "connected", aggregate: "connected", holdsReady: false },
    awake: { status: "connected", aggregate: "connected", holdsReady: false },
    waiting: { status: "disconnected", aggregate: "restarting", holdsReady: true },
    recovering: { status: "disconnected", aggregate: "restarting", holdsReady: true },
    crashed: { status: "error", aggregate: "crashLoop", holdsReady: true },
    failed: { status: "error", aggregate: undefined, holdsReady: false },
    unauthorized: { status: "awaiting_oauth", aggregate: "stopped", holdsReady: false },
  })
})

test("a server that sleeps counts as connected until it fails to wake [sleep:machine]", () => {
  const status = (...words: Word[]) => {
    const [state] = run(SUPERVISED, ...words)
    return [state.kind, STATUS_BY_STATE[state.kind].status, STATUS_BY_STATE[state.kind].holdsReady]
  }
  expect(status("rest")).toEqual(["asleep", "connected", false])
  expect(status("start", "opened", "sleep")).toEqual(["asleep", "connected", false])
  expect(status("rest", "wake")).toEqual(["waking", "connected", false])
  expect(status("rest", "wake", "opened")).toEqual(["connected", "connected", false])
  expect(status("rest", "wake", "negotiated")).toEqual(["awake", "connected", false])
  expect(status("rest", "wake", "negotiated", "sleep")).toEqual(["awake", "connected", false])
  expect(status("rest", "wake", "negotiated", "opened")).toEqual(["connected", "connected", false])
  expect(status("rest", "wake", "negotiated", "lost")).toEqual(["waiting", "disconnected", true])
  expect(status("rest", "wake", "lost")).toEqual(["waiting", "disconnected", true])
  expect(status("rest", "stop")).toEqual(["stopped", "disconnected", false])
  expect(status("rest", "sleep", "start", "lost")).toEqual(["asleep", "connected", false])
  expect(run(SUPERVISED, "start", "opened", "sleep")[1]).toEqual([{ kind: "unpublish" }, { kind: "close" }])
})

test("a server that wakes takes calls before it has listed, and counts as used from then on [sleep:listing]", () => {
  const [awake, effects] = run(SUPERVISED, "rest", "wake", "negotiated")
  expect([awake, effects]).toEqual([{ kind: "awake", epoch: 2, since: 2, pid: 102 }, [{ kind: "publish" }]])
  const [connected, relisted] = run(SUPERVISED, "rest", "wake", "negotiated", "opened")
  expect(connected).toEqual({ kind: "connected", epoch: 2, since: 2, pid: 102, attempt: 0 })
  expect(relisted).toEqual([{ kind: "unpublish" }, { kind: "publish" }])
  // Any other start has no listing to offer yet.
  expect(run(SUPERVISED, "start", "negotiated")[0].kind).toBe("starting")
  expect(run(SUPERVISED, "start", "opened", ...cycles(1), "negotiated")[0].kind).toBe("recovering")
})

test("any walk has at most one process and one timer, and is published exactly while it takes calls", () => {
  const word = fc.constantFrom<Word>(
    ...([
      "start",
      "rest",
      "sleep",
      "wake",
      "stop",
      "restart",
      "negotiated",
      "opened",
      "lost",
      "unauthorized",
      "due",
      "stable",
    ] as const),
  )
  // Mostly of this epoch, so that walks get somewhere; sometimes stale, or of an epoch that is not yet.
  const lag = fc.oneof(
    { weight: 6, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.integer({ min: -3, max: 2 }) },
  )
  const policy = fc.record({
    kind: fc.constantFrom("never" as const, "supervised" as const, "reconnect" as const),
    limit: fc.nat(4),
    delay: fc.nat(5000),
  })
  fc.assert(
    fc.property(fc.array(fc.tuple(word, lag, policy), { maxLength: 60, size: "large" }), policy, (walk, first) => {
      let state: BackendState = INITIAL_STATE
      let current = first
      let processes = 0
      let published = false
      let timer: "due" | "stable" | undefined
      walk.forEach(([kind, behind, other], now) => {
        if (now % 17 === 16) current = other
        const before = Object.freeze(structuredClone(state))
        const event = Object.freeze(eventOf(kind, state.epoch + behind, now))
        // A timer of this epoch that nobody set cannot fire.
        if ((kind === "due" || kind === "stable") && behind === 0) {
          if (timer !== kind) return
          timer = undefined
        }
        const [next, effects] = step(before, event, current)
        if ("epoch" in event && event.epoch !== before.epoch) expect([next, effects]).toEqual([before, []])
        for (const effect of effects)
          switch (effect.kind) {
            case "open":
              expect(effect.epoch).toBe(next.epoch)
              expect(++processes).toBe(1)
              break
            case "close":
              expect(--processes).toBe(0)
              break
            case "publish":
              expect(published).toBe(false)
              published = true
              break
            case "unpublish":
              expect(published).toBe(true)
              published = false
              break
            case "wait":
              expect(timer).toBeUndefined()
              timer = effect.event
              break
            case "cancelTimer":
              expect(timer).toBeDefined()
              timer = undefined
              break
          }
        expect(next.epoch).toBeGreaterThanOrEqual(before.epoch)
        expect(published).toBe(next.kind === "connected" || next.kind === "awake")
        expect(processes).toBe(["starting", "connected", "recovering", "waking", "awake"].includes(next.kind) ? 1 : 0)
        const awaitsStability = next.kind === "connected" && next.attempt > 0
        if (next.kind === "waiting") expect(timer).toBe("due")
        else expect(timer).toBe(awaitsStability ? "stable" : undefined)
        if (next.kind === "waiting" && before.kind !== "waiting")
          expect(next.retryAt - now).toBe(restartDelay(next.attempt, current.delay))
        if ("attempt" in next && current.kind === "supervised" && current.limit > 0 && next !== before)
          if (next.kind === "waiting") expect(next.attempt).toBeLessThanOrEqual(current.limit)
        state = next
      })
    }),
    { numRuns: 10_000 },
  )
})
