/**
 * State that svc keeps longer than a request has one interface and two implementations: in svc's own files (SQLite, or a
 * document), and with `--cluster` in Redis. Both pass these tests, and so does the shared state in memory that other tests use.
 */
import { expect, test } from "bun:test"
import type { SecretStore } from "../../src/store/secret-store.ts"
import type { SessionStore } from "../../src/store/session-store.ts"
import type { ToolPins } from "../../src/store/tool-pins.ts"
import type { ManualClock } from "../clock.ts"
import { fakeStoredSession } from "../fakes.ts"

/** Each method opens a store again, as a restart of svc or another replica does. */
export type Stores = AsyncDisposable & {
  readonly clock: ManualClock
  sessions(): Promise<SessionStore>
  secrets(stateKey?: string): Promise<SecretStore>
  pins(): Promise<ToolPins>
  /** Waits until changes are stored. */
  stored(): Promise<void>
}

export function testStores(open: () => Promise<Stores>): void {
  test("a session has its last saved state, and is gone once it was removed", async () => {
    await using stores = await open()
    const [one, other] = [await stores.sessions(), await stores.sessions()]
    const read = async (id: string) => {
      await stores.stored()
      await other.shared?.preload(id)
      return other.load(id)
    }
    const session = fakeStoredSession
    expect(await read("a")).toBeUndefined()
    one.save("a", session, 1)
    expect(await read("a")).toMatchObject(session)
    const changed = { ...session, logLevel: "info", subscriptions: [["files", "file:///ü"]] as const }
    one.save("a", changed, 2)
    one.save("b", session, 2)
    expect(await read("a")).toMatchObject(changed)
    one.save("a", { ...session, logLevel: undefined, tasks: [["files", "t1"]] }, 3)
    const last = await read("a")
    expect([last?.logLevel, last?.subscriptions, last?.tasks]).toEqual([undefined, [], [["files", "t1"]]])
    await one.shared?.end("a")
    one.remove("a")
    expect(await read("a")).toBeUndefined()
    expect(await read("b")).toMatchObject(session)
  })

  test("the next store finds a secret, which opens only with the same SVC_STATE_KEY, and one task at a time runs for it", async () => {
    await using stores = await open()
    const [one, other] = [await stores.secrets("correct horse"), await stores.secrets("correct horse")]
    expect(await one.read()).toEqual({})
    await one.put("web https://me:secret@example.com", { token: "t" })
    await other.put("other", 1)
    expect(await one.read()).toEqual({ "web https://me:secret@example.com": { token: "t" }, other: 1 })
    await one.put("other", undefined)
    expect(await other.read()).toEqual({ "web https://me:secret@example.com": { token: "t" } })
    const stranger = await stores.secrets("battery staple")
    await expect(stranger.read()).rejects.toThrow("SVC_STATE_KEY")
    let running = 0
    const task = async () => {
      expect(++running).toBe(1)
      await other.put("last", running)
      running--
    }
    await Promise.all([one.exclusive("x", task), other.exclusive("x", task)])
    expect((await one.read()).last).toBe(1)
  })

  test("a tool is pinned as it was first seen, until another definition is approved", async () => {
    await using stores = await open()
    const list = (pins: ToolPins, tools: Record<string, string>) =>
      pins.check("a", new Map(Object.entries(tools)), (name) => ({ name }))
    const one = await stores.pins()
    expect(list(one, { one: "1", two: "2" })).toEqual([])
    await stores.stored()
    const next = await stores.pins()
    expect(list(next, { one: "1", two: "changed", three: "3" })).toEqual(["two"])
    expect(list(next, { two: "2" })).toEqual([])
    expect(list(next, { two: "changed" })).toEqual(["two"])
    await stores.stored()
    const approving = await stores.pins()
    expect(list(approving, { one: "1", two: "changed" })).toEqual(["two"])
    expect(approving.approve("a", "one")).toEqual([])
    expect(approving.approve("a", "two", "other")).toEqual([])
    expect(approving.approve("a", undefined)).toEqual(["two"])
    await stores.stored()
    const last = await stores.pins()
    expect(list(last, { one: "1", two: "changed", three: "3" })).toEqual([])
    expect(list(last, { three: "4" })).toEqual(["three"])
  })
}

/** A limit of 3 calls per minute. */
export type TestedRateLimit = AsyncDisposable & { take(): Promise<number | undefined> }

export function testRateLimit(open: () => Promise<TestedRateLimit>): void {
  test("a rate limit allows the calls of a minute at once, then says how long to wait", async () => {
    await using limit = await open()
    const waits = [await limit.take(), await limit.take(), await limit.take(), await limit.take()]
    expect(waits.slice(0, 3)).toEqual([undefined, undefined, undefined])
    expect(waits[3]).toBeGreaterThan(0)
    expect(waits[3]).toBeLessThanOrEqual(20)
  })
}

/** A limit of addresses with `WINDOW`. */
export type TestedAddressLimit = AsyncDisposable & { count(): Promise<number | undefined> }

export const WINDOW = { requests: 6, windowMs: 60_000 }

export function testAddressLimit(open: () => Promise<TestedAddressLimit>): void {
  test("a limit of addresses lets its number of requests pass in a window, and one more on each other replica", async () => {
    await using limit = await open()
    let passed = 0
    while ((await limit.count()) === undefined) passed++
    expect(passed).toBeGreaterThanOrEqual(WINDOW.requests)
    expect(passed).toBeLessThanOrEqual(WINDOW.requests + 1)
    const wait = await limit.count()
    expect(wait).toBeGreaterThan(0)
    expect(wait).toBeLessThanOrEqual(60)
  })
}
