import { describe, expect, test } from "bun:test"
import { ServerLeases } from "../../src/agent/server-leases.ts"
import { EMPTY_PLAN, type Launch, type Plan } from "../../src/config/server-spec.ts"
import { silentLog } from "../../src/lib/log.ts"
import { createMarker } from "../../src/lib/seal.ts"
import { leaseKey } from "../../src/store/shared-state.ts"
import { manualClock } from "../clock.ts"
import { fakeSpec } from "../fakes.ts"
import { NO_REDIS, sharedNetwork } from "../redis.ts"

const spec = fakeSpec({ replicas: "one" })
const launch = { transport: "stdio", command: "server", args: [] } as unknown as Launch
const PLAN: Plan = { ...EMPTY_PLAN, specs: [{ ...spec, launch }] }
const KEY = new Uint8Array(32)
const STEP_MS = 100

async function twoReplicas() {
  const clock = manualClock()
  const network = await sharedNetwork()
  const open = async (id: string) => {
    const state = await network.open()
    const own = {
      leases: new ServerLeases({
        state,
        replicas: { id, find: (other) => ({ address: `http://${other}` }) },
        mark: createMarker(() => KEY),
        clock,
        log: silentLog,
        whenStopped: async () => undefined,
        onchange: () => {
          own.changes++
        },
      }),
      changes: 0,
      runsHere: () => own.leases.place(PLAN).specs[0]?.launch.transport === "stdio",
    }
    return own
  }
  const [one, other, state] = [await open("r1"), await open("r2"), await network.open()]
  /** Lets time pass, in steps in which Redis answers; its own time stands almost still. */
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += STEP_MS) {
      await clock.pass(STEP_MS)
      await network.settle()
    }
  }
  await network.settle()
  return { clock, pass, network, state, one, other, [Symbol.asyncDispose]: () => network[Symbol.asyncDispose]() }
}

if (NO_REDIS !== undefined) test.skip(`leases of servers: ${NO_REDIS}`, () => {})

describe.skipIf(NO_REDIS !== undefined)("leases of servers", () => {
  test("one replica runs the server, and to the other it is a remote server there [cluster:one]", async () => {
    await using both = await twoReplicas()
    const { clock, network, pass, one, other } = both
    expect(one.leases.place(PLAN)).toMatchObject({ specs: [], idle: [{ name: spec.name }] })
    await network.settle()
    other.leases.place(PLAN)
    await pass(500)
    expect([one.runsHere(), other.runsHere()]).toEqual([true, false])
    const reached = other.leases.place(PLAN).specs[0]?.launch
    expect(reached).toMatchObject({ transport: "http", url: `http://r1/servers/${spec.slug}/mcp` })
    const credential = (reached as { headers: Record<string, string> }).headers["svc-replica"] ?? ""
    expect(one.leases.admits(spec.slug, credential)).toBe(true)
    expect(one.leases.admits("other", credential)).toBe(false)
    expect(one.leases.admits(spec.slug, credential.replace(/^\d+/, "9"))).toBe(false)
    expect(other.leases.admits(spec.slug, credential)).toBe(false)
    const { changes } = other
    await pass(10_000)
    expect([one.runsHere(), other.runsHere(), other.changes]).toEqual([true, false, changes])
    await one.leases.close()
    await other.leases.close()
    expect(clock.timers).toBe(0)
  })

  test("an owner that cannot renew its lease stops before another replica may start [cluster:one:passes]", async () => {
    await using both = await twoReplicas()
    const { network, pass, state, one, other } = both
    one.leases.place(PLAN)
    await network.settle()
    other.leases.place(PLAN)
    await pass(500)
    await network.cut()
    await pass(1500)
    expect(one.runsHere()).toBe(true)
    await pass(600)
    expect([one.runsHere(), other.runsHere()]).toEqual([false, false])
    await network.mend()
    await pass(1000)
    // Redis keeps the lease for its whole time.
    expect([one.runsHere(), other.runsHere()]).toEqual([false, false])
    await state.remove(leaseKey(spec.id))
    let atOnce = false
    for (let count = 0; count < 20; count++) {
      await pass(100)
      atOnce ||= one.runsHere() && other.runsHere()
    }
    expect([atOnce, one.runsHere() || other.runsHere()]).toEqual([false, true])
  })

  test("a released lease passes on at the next look, and the old credential no longer opens [cluster:one:away]", async () => {
    await using both = await twoReplicas()
    const { network, pass, one, other } = both
    one.leases.place(PLAN)
    await network.settle()
    other.leases.place(PLAN)
    await pass(500)
    const reached = other.leases.place(PLAN).specs[0]?.launch as { headers: Record<string, string> }
    await one.leases.close()
    await pass(500)
    expect(other.runsHere()).toBe(true)
    expect(other.leases.admits(spec.slug, reached.headers["svc-replica"] ?? "")).toBe(false)
    await other.leases.close()
  })
})
