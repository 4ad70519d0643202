/** The state machine of a proxied client's connection. What its client sees: proxy-client.test.ts. */
import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import {
  INITIAL_PROXY,
  linkOf,
  type ProxyEffect,
  type ProxyEvent,
  type ProxyLink,
  type ProxyState,
  refusalOf,
  step,
} from "../../src/serve/proxy-state.ts"

const linkNamed = (): ProxyLink => ({ send() {}, close() {} })
const LINK = linkNamed()
const CONNECTED: ProxyEvent = { kind: "connected", connection: { link: LINK, token: "t" } }
const EVENTS = {
  connected: CONNECTED,
  unfound: { kind: "unfound", isStarting: false },
  starting: { kind: "unfound", isStarting: true },
  refused: { kind: "refused", reason: "no preset" },
  startFailed: { kind: "startFailed", reason: "it ended" },
} as const satisfies Record<string, ProxyEvent>
type Word = keyof typeof EVENTS | "start" | "due" | "moved" | "welcome" | "lost" | "close"
const WORDS: readonly Word[] = [
  ...(Object.keys(EVENTS) as (keyof typeof EVENTS)[]),
  ...(["start", "due", "moved", "welcome", "lost", "close"] as const),
]
const eventOf = (word: Word): ProxyEvent =>
  word in EVENTS ? EVENTS[word as keyof typeof EVENTS] : { kind: word as "start" }

/** Runs words; gives the last state and the effects of the last word, as texts. */
function run(...words: readonly Word[]): readonly [ProxyState, readonly string[]] {
  let result: readonly [ProxyState, readonly ProxyEffect[]] = [INITIAL_PROXY, []]
  for (const word of words) result = step(result[0], eventOf(word))
  return [result[0], result[1].map(textOf)]
}
function textOf(effect: ProxyEffect): string {
  if (effect.kind === "note") return `note ${effect.text}`
  if (effect.kind === "fail") return `fail ${effect.reason}`
  return effect.kind === "retry" ? `retry ${effect.after}` : effect.kind
}

describe("the connection of a proxied client", () => {
  test.each<[string, readonly Word[], ProxyState["kind"], readonly string[]]>([
    ["says hello before anything else", ["start", "connected"], "absent", ["hello"]],
    ["is open once it is welcome", ["start", "connected", "welcome"], "open", ["resetBackoff", "resume"]],
    [
      "waits for an instance, and says so once",
      ["start", "unfound"],
      "absent",
      ["note no svc is running for this configuration; waiting for it", "retry backoff"],
    ],
    ["waits in silence after that", ["start", "unfound", "due", "unfound"], "absent", ["retry backoff"]],
    ["leaves it to the start to tell the user", ["start", "starting"], "starting", ["retry backoff"]],
    ["is still starting while it is tried", ["start", "starting", "due", "unfound"], "starting", ["retry backoff"]],
    [
      "fails what is held if the start fails",
      ["start", "starting", "startFailed"],
      "absent",
      ["note it ended", "fail it ended"],
    ],
    [
      "does not care how a start ended that has served it",
      ["start", "starting", "due", "connected", "welcome", "lost", "startFailed"],
      "absent",
      [],
    ],
    [
      "says that it is back",
      ["start", "unfound", "due", "connected", "welcome"],
      "open",
      ["note connected to svc", "resetBackoff", "resume"],
    ],
    [
      "says that it is lost",
      ["start", "connected", "welcome", "lost"],
      "absent",
      ["note connection to svc lost; waiting for it", "endRequests", "retry backoff"],
    ],
    ["is refused", ["start", "connected", "refused"], "refused", ["note no preset", "fail no preset"]],
    [
      "is tried rarely after a refusal",
      ["start", "connected", "refused", "lost"],
      "refused",
      ["endRequests", "retry refusal"],
    ],
    [
      "says a reason once",
      ["start", "connected", "refused", "lost", "due", "connected", "refused"],
      "refused",
      ["fail no preset"],
    ],
    [
      "is tried at once if the client moves",
      ["start", "connected", "refused", "lost", "moved"],
      "refused",
      ["retry now"],
    ],
    ["sends a move", ["start", "connected", "welcome", "moved"], "open", ["move"]],
    [
      "stays open if a move is refused",
      ["start", "connected", "welcome", "refused"],
      "open",
      ["note no preset", "fail no preset", "retry refusal"],
    ],
    ["repeats a refused move", ["start", "connected", "welcome", "refused", "due"], "open", ["move"]],
    [
      "says that lists have changed with the move",
      ["start", "connected", "welcome", "refused", "welcome"],
      "open",
      ["cancelRetry", "announce"],
    ],
    [
      "is refused still if it is lost then",
      ["start", "connected", "welcome", "refused", "lost", "due", "unfound"],
      "refused",
      ["retry backoff"],
    ],
    ["closes the link when the client leaves", ["start", "connected", "close"], "closed", ["cancelRetry", "closeLink"]],
    ["closes one that comes later", ["start", "close", "connected"], "closed", ["closeLink"]],
  ])("%s", (_, words, kind, effects) => {
    const [state, last] = run(...words)
    expect([state.kind, last]).toEqual([kind, effects])
  })

  test("knows whether a session is new to the instance", () => {
    const isReconnect = (...words: readonly Word[]) =>
      step(run(...words)[0], { kind: "welcome" })[1].flatMap((effect) =>
        effect.kind === "resume" ? [effect.isReconnect] : [],
      )
    expect(isReconnect("start", "connected")).toEqual([false])
    expect(isReconnect("start", "connected", "lost", "due", "connected")).toEqual([false])
    expect(isReconnect("start", "connected", "welcome", "lost", "due", "connected")).toEqual([true])
  })

  test.each<[ProxyState["kind"], readonly Word[]]>([
    ["absent", []],
    ["absent", ["start", "connected"]],
    ["starting", ["start", "starting"]],
    ["refused", ["start", "connected", "refused"]],
    ["open", ["start", "connected", "welcome"]],
    ["closed", ["close"]],
  ])("has an answer to each event when it is %s", (kind, words) => {
    const [state] = run(...words)
    expect(state.kind).toBe(kind)
    for (const word of WORDS) {
      const [next, effects] = step(state, eventOf(word))
      expect([typeof next.kind, Array.isArray(effects)]).toEqual(["string", true])
      if (kind === "closed" || word === "close") expect(next.kind).toBe("closed")
    }
  })

  test("makes one attempt at a time, and no link stays open that is not used", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...WORDS), { maxLength: 40 }), (all) => {
        let state: ProxyState = INITIAL_PROXY
        const open = new Set<ProxyLink>()
        let attempts = 0
        for (const word of all) {
          const link = linkNamed()
          const event = word === "connected" ? { kind: word, connection: { link, token: "t" } } : eventOf(word)
          // The driver has one answer for each attempt.
          if ((word === "connected" || event.kind === "unfound") && --attempts < 0) {
            attempts = 0
            continue
          }
          if (word === "connected") open.add(link)
          const before = linkOf(state)
          if (word === "lost" && before !== undefined) open.delete(before)
          const [next, effects] = step(state, event)
          for (const effect of effects) {
            if (effect.kind === "connect") expect(++attempts).toBe(1)
            if (effect.kind === "closeLink") open.delete(effect.link)
            if (effect.kind === "move" || effect.kind === "resume") expect(next.kind).toBe("open")
          }
          state = next
          const used = linkOf(state)
          expect([...open]).toEqual(used === undefined ? [] : [used])
          if (word === "refused" && state.kind !== "closed") expect(refusalOf(state)).toBe("no preset")
        }
      }),
      { numRuns: 3000 },
    )
  })
})
