/** The second connection of a server of both eras: when it is opened, asked for again and closed, on a clock that a test turns. */
import { expect, test } from "bun:test"
import type { EstablishedConnection } from "../../src/backend/established-connection.ts"
import { PairedConnection } from "../../src/backend/paired-connection.ts"
import type { Era } from "../../src/wire/era.ts"
import { manualClock, settle } from "../clock.ts"

function fakeConnection(era: Era, tools: readonly string[], hasSession = true) {
  const closed = Promise.withResolvers<{ readonly reason: string }>()
  const closes: string[] = []
  const abandoned: string[] = []
  const open = {
    peer: { era },
    listing: { tools: tools.map((name) => ({ name })), prompts: [] },
    hasSession,
    begun: Promise.resolve(),
    closed: closed.promise,
    inFlight: 0,
    silentFor: undefined as number | undefined,
    resubscribe() {},
    abandon: (reason: string) => void abandoned.push(reason),
    close: async () => void closes.push(era),
  }
  const waitsFor = (ms: number) => {
    open.silentFor = ms
  }
  return {
    open: open as unknown as EstablishedConnection,
    waitsFor,
    abandoned,
    closes,
    lose: (reason: string) => closed.resolve({ reason }),
  }
}

function pairOf(refused = false) {
  const clock = manualClock()
  const first = fakeConnection("modern", ["both", "modern"])
  const attempts: { signal: AbortSignal; resolve(open: EstablishedConnection): void; reject(error: Error): void }[] = []
  const problems: string[] = []
  const pair = new PairedConnection(first.open, {
    clock,
    limit: 10_000,
    refused,
    open: (signal) => new Promise((resolve, reject) => attempts.push({ signal, resolve, reject })),
    isRefusal: (error) => error instanceof RangeError,
    onproblem: (error) => void problems.push(String(error)),
  })
  return { clock, first, attempts, problems, pair }
}

test("requests of one era share one attempt, and those of the first connection's era make none [protocol:own-era]", async () => {
  const { attempts, pair } = pairOf()
  expect(pair.prepare("modern")).toBeUndefined()
  const waits = [pair.prepare("legacy"), pair.prepare("legacy")]
  expect([attempts.length, waits[0] === waits[1]]).toEqual([1, true])
  const second = fakeConnection("legacy", ["both"])
  attempts[0]?.resolve(second.open)
  await waits[0]
  expect([pair.of("legacy"), pair.prepare("legacy")]).toEqual([second.open, undefined])
})

test("a name that only the first connection lists is not taken from it [protocol:own-era]", async () => {
  const { attempts, pair } = pairOf()
  const wait = pair.prepare("legacy")
  attempts[0]?.resolve(fakeConnection("legacy", ["both"]).open)
  await wait
  const lacks = (name: string, era: Era = "legacy") => pair.lacks(era, "tools/list", name)
  expect([lacks("both"), lacks("modern"), lacks("unknown"), lacks("modern", "modern")]).toEqual([
    false,
    true,
    false,
    false,
  ])
})

test("a refusal stands for an hour, known from before or not, and a new session ends it [protocol:own-era:refused]", async () => {
  const { clock, attempts, problems, pair } = pairOf(true)
  expect(pair.prepare("legacy")).toBeUndefined()
  await clock.pass(3_600_000)
  const wait = pair.prepare("legacy")
  attempts[0]?.reject(new RangeError())
  await wait
  expect([problems, pair.prepare("legacy")]).toEqual([[], undefined])
  pair.forgetRefusal()
  expect(pair.prepare("legacy")).toBeDefined()
})

test("an attempt that fails is reported and repeated after a growing pause, not before [protocol:own-era:failure]", async () => {
  const { clock, attempts, problems, pair } = pairOf()
  for (const pause of [1000, 2000, 4000]) {
    const wait = pair.prepare("legacy")
    attempts.at(-1)?.reject(new Error("busy"))
    await wait
    await clock.pass(pause - 1)
    expect(pair.prepare("legacy")).toBeUndefined()
    await clock.pass(1)
  }
  expect(problems).toEqual(["Error: busy", "Error: busy", "Error: busy"])
})

test("a lost second connection leaves the first, and is opened again at need [protocol:own-era:failure]", async () => {
  const { clock, first, attempts, problems, pair } = pairOf()
  const wait = pair.prepare("legacy")
  const second = fakeConnection("legacy", [])
  attempts[0]?.resolve(second.open)
  await wait
  second.lose("gone")
  await settle()
  expect([pair.of("legacy"), pair.isOpen, problems, second.closes]).toEqual([
    first.open,
    false,
    ["Error: gone"],
    ["legacy"],
  ])
  await clock.pass(1000)
  expect(pair.prepare("legacy")).toBeDefined()
})

test("a second connection that is silent while requests wait is lost alone, and its requests fail with a note that they may have run [health:alive]", async () => {
  const { clock, first, attempts, problems, pair } = pairOf()
  const wait = pair.prepare("legacy")
  const second = fakeConnection("legacy", [])
  attempts[0]?.resolve(second.open)
  await wait
  pair.loseSecondIfSilent(60_000)
  second.waitsFor(59_999)
  pair.loseSecondIfSilent(60_000)
  expect([pair.isOpen, second.abandoned]).toEqual([true, []])
  second.waitsFor(60_000)
  pair.loseSecondIfSilent(60_000)
  const reason = "sent nothing for 1 min while requests waited"
  expect([pair.isOpen, second.closes, first.closes, first.abandoned]).toEqual([false, ["legacy"], [], []])
  expect(problems).toEqual([`Error: ${reason}`])
  expect(second.abandoned).toEqual([`${reason}; it may have executed this one, so svc does not send it again`])
  await clock.pass(1000)
  expect(pair.prepare("legacy")).toBeDefined()
})

test("an attempt without an end is aborted, and its requests go on", async () => {
  const { clock, attempts, problems, pair } = pairOf()
  const wait = pair.prepare("legacy")
  attempts[0]?.signal.addEventListener("abort", () => attempts[0]?.reject(new Error("was stopped")))
  await clock.pass(10_000)
  await wait
  expect(problems).toEqual(["Error: did not connect in time"])
  expect(clock.timers).toBe(0)
})

test("closing ends an attempt that runs, and closes both connections", async () => {
  const { clock, first, attempts, problems, pair } = pairOf()
  void pair.prepare("legacy")
  const second = fakeConnection("legacy", [])
  const closing = pair.close()
  expect(attempts[0]?.signal.aborted).toBe(true)
  attempts[0]?.resolve(second.open)
  await closing
  expect([first.closes, second.closes, problems, clock.timers]).toEqual([["modern"], ["legacy"], [], 0])
  expect(pair.prepare("legacy")).toBeUndefined()
})

test("a legacy connection without a session is closed and not opened again [protocol:own-era]", async () => {
  const { attempts, pair } = pairOf()
  const wait = pair.prepare("legacy")
  const second = fakeConnection("legacy", [], false)
  attempts[0]?.resolve(second.open)
  await wait
  expect([second.closes, pair.prepare("legacy")]).toEqual([["legacy"], undefined])
})
