/**
 * State that svc keeps longer than a request has one interface and two implementations: in svc's own files (SQLite, or a
 * document), and with `--cluster` in Redis. Both pass these tests, and so does the shared state in memory that other tests use.
 */
import { describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createCallRateLimit } from "../../src/call/call-rate-limit.ts"
import { createSharedPins } from "../../src/features/cluster/shared-pins.ts"
import { createSharedRateLimit } from "../../src/features/cluster/shared-rate-limit.ts"
import { createSharedSecrets } from "../../src/features/cluster/shared-secrets.ts"
import { createSharedSessions } from "../../src/features/cluster/shared-sessions.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { createAddressLimiter } from "../../src/serve/address-rate-limit.ts"
import { openSecretStore, type SecretStore } from "../../src/store/secret-store.ts"
import { openSessionStore, type SessionStore } from "../../src/store/session-store.ts"
import { createToolPins, type ToolPins } from "../../src/store/tool-pins.ts"
import { type ManualClock, manualClock } from "../clock.ts"
import { fakeStoredSession } from "../fakes.ts"
import { memoryNetwork, type SharedNetwork } from "../memory-network.ts"
import { NO_REDIS, redisNetwork } from "../redis.ts"

/** Each method opens a store again, as a restart of svc or another replica does. */
type Stores = AsyncDisposable & {
  readonly clock: ManualClock
  sessions(): Promise<SessionStore>
  secrets(stateKey?: string): Promise<SecretStore>
  pins(): Promise<ToolPins>
  /** Waits until changes are stored. */
  stored(): Promise<void>
}

async function inFiles(): Promise<Stores> {
  const directory = mkdtempSync(join(tmpdir(), "svc-stores-"))
  const file = (name: string) => join(directory, name)
  const clock = manualClock()
  const opened: SessionStore[] = []
  return {
    clock,
    async sessions() {
      const store = openSessionStore(file("sessions.sqlite"), 0)
      opened.push(store)
      return store
    },
    secrets: async (stateKey) => openSecretStore({ directory, stateKey, keychain: undefined, clock: systemClock }),
    pins: async () => createToolPins({ pins: file("tools.json"), definitions: file("definitions.json") }, clock),
    stored: () => clock.pass(1000),
    async [Symbol.asyncDispose]() {
      for (const store of opened) store.close()
      rmSync(directory, { recursive: true })
    },
  }
}

async function inShared(network: SharedNetwork): Promise<Stores> {
  const clock = manualClock()
  const tell = () => undefined
  return {
    clock,
    sessions: async () =>
      createSharedSessions({
        state: await network.open(),
        ttl: 60_000,
        most: 100,
        async onchange() {},
        checkLoss: async () => undefined,
        onended() {},
      }),
    secrets: async (stateKey) =>
      createSharedSecrets({
        state: await network.open(),
        replica: "r1",
        stateKey,
        clock: systemClock,
        onunsealed() {},
      }),
    async pins() {
      const own = createToolPins(undefined, clock)
      const pins = createSharedPins({ own, state: await network.open(), tell, onpinned() {} })
      await pins.sync()
      return pins
    },
    async stored() {
      await clock.pass(1000)
      await network.settle()
    },
    [Symbol.asyncDispose]: () => network[Symbol.asyncDispose](),
  }
}

/** The kinds of shared state: what svc decides on top of it is the same. */
const shared: [string, () => Promise<SharedNetwork>][] = [["in shared memory", async () => memoryNetwork()]]
if (NO_REDIS === undefined) shared.push(["in Redis", redisNetwork])
else test.skip(`stores in Redis: ${NO_REDIS}`, () => {})

const kinds: [string, () => Promise<Stores>][] = [["in files", inFiles]]
for (const [name, open] of shared) kinds.push([name, async () => inShared(await open())])

describe.each(kinds)("%s", (_, open) => {
  test("a session has its last saved state, and is gone once it was removed [store:contract]", async () => {
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

  test("the next store finds a secret, which opens only with the same SVC_STATE_KEY, and one task at a time runs for it [store:contract]", async () => {
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

  test("a tool is pinned as it was first seen, until another definition is approved [store:contract]", async () => {
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
})

const WINDOW = { requests: 6, windowMs: 60_000 }

const limits: [string, () => Promise<AsyncDisposable & { take(): Promise<number | undefined> }>][] = [
  [
    "in the process",
    async () => {
      const { take } = createCallRateLimit(manualClock())
      return { take: async () => take("client", "a", 3), async [Symbol.asyncDispose]() {} }
    },
  ],
]
for (const [name, open] of shared)
  limits.push([
    name,
    async () => {
      const network = await open()
      const never = { take: () => 0 }
      const replicas = [await network.open(), await network.open()].map((state) => createSharedRateLimit(state, never))
      let calls = 0
      return {
        take: async () => replicas[calls++ % replicas.length]?.take("client", "a", 3),
        [Symbol.asyncDispose]: () => network[Symbol.asyncDispose](),
      }
    },
  ])

describe.each(limits)("a rate limit %s", (_, open) => {
  test("allows the calls of a minute at once, then says how long to wait [store:contract]", async () => {
    await using limit = await open()
    const waits = [await limit.take(), await limit.take(), await limit.take(), await limit.take()]
    expect(waits.slice(0, 3)).toEqual([undefined, undefined, undefined])
    expect(waits[3]).toBeGreaterThan(0)
    expect(waits[3]).toBeLessThanOrEqual(20)
  })
})

const windows: [string, () => Promise<AsyncDisposable & { count(): Promise<number | undefined> }>][] = [
  [
    "in the process",
    async () => {
      const count = createAddressLimiter(manualClock(), WINDOW)
      return { count: async () => count("10.0.0.1").retryAfter, async [Symbol.asyncDispose]() {} }
    },
  ],
]
for (const [name, openNetwork] of shared)
  windows.push([
    name,
    async () => {
      const network = await openNetwork()
      const open = async () => {
        const state = await network.open()
        return createAddressLimiter(manualClock(), WINDOW, (key, ms) => state.count(key, ms))
      }
      const replicas = [await open(), await open()]
      let requests = 0
      return {
        async count() {
          const verdict = replicas[requests++ % replicas.length]?.("10.0.0.1")
          // No request waits for the counts of the other replica.
          await network.settle()
          return verdict?.retryAfter
        },
        [Symbol.asyncDispose]: () => network[Symbol.asyncDispose](),
      }
    },
  ])

describe.each(windows)("a limit of addresses %s", (_, open) => {
  test("lets its number of requests pass in a window, and one more on each other replica [store:contract]", async () => {
    await using limit = await open()
    let passed = 0
    while ((await limit.count()) === undefined) passed++
    expect(passed).toBeGreaterThanOrEqual(WINDOW.requests)
    expect(passed).toBeLessThanOrEqual(WINDOW.requests + 1)
    const wait = await limit.count()
    expect(wait).toBeGreaterThan(0)
    expect(wait).toBeLessThanOrEqual(60)
  })
})
