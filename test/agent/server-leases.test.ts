import { describe, expect, test } from "bun:test"
import { ServerLeases } from "../../src/agent/server-leases.ts"
import { EMPTY_PLAN, type Launch, type Plan } from "../../src/config/server-spec.ts"
import { silentLog } from "../../src/lib/log.ts"
import { createMarker } from "../../src/lib/seal.ts"
import { manualClock } from "../clock.ts"
import { fakeSpec } from "../fakes.ts"
import { localNetwork } from "../shared-state.ts"

const spec = fakeSpec({ replicas: "one" })
const launch = { transport: "stdio", command: "server", args: [] } as unknown as Launch
const PLAN: Plan = { ...EMPTY_PLAN, specs: [{ ...spec, launch }] }
const KEY = new Uint8Array(32)

function twoReplicas() {
  const clock = manualClock()
  const network = localNetwork(clock)
  const open = (id: string) => {
    const own = {
      leases: new ServerLeases({
        state: network.open(),
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
  return { clock, network, one: open("r1"), other: open("r2") }
}

describe("leases of servers", () => {
  test("one replica runs the server, and to the other it is a remote server there [cluster:one]", async () => {
    const { clock, one, other } = twoReplicas()
    expect(one.leases.place(PLAN)).toMatchObject({ specs: [], idle: [{ name: spec.name }] })
    await clock.pass(0)
    other.leases.place(PLAN)
    await clock.pass(500)
    expect([one.runsHere(), other.runsHere()]).toEqual([true, false])
    const reached = other.leases.place(PLAN).specs[0]?.launch
    expect(reached).toMatchObject({ transport: "http", url: `http://r1/servers/${spec.slug}/mcp` })
    const credential = (reached as { headers: Record<string, string> }).headers["svc-replica"] ?? ""
    expect(one.leases.admits(spec.slug, credential)).toBe(true)
    expect(one.leases.admits("other", credential)).toBe(false)
    expect(one.leases.admits(spec.slug, credential.replace(/^\d+/, "9"))).toBe(false)
    expect(other.leases.admits(spec.slug, credential)).toBe(false)
    const { changes } = other
    await clock.pass(60_000)
    expect([one.runsHere(), other.runsHere(), other.changes]).toEqual([true, false, changes])
    await one.leases.close()
    await other.leases.close()
    expect(clock.timers).toBe(0)
  })

  test("an owner that cannot renew its lease stops before another replica may start [cluster:one:passes]", async () => {
    const { clock, network, one, other } = twoReplicas()
    one.leases.place(PLAN)
    await clock.pass(0)
    other.leases.place(PLAN)
    await clock.pass(500)
    network.connected = false
    await clock.pass(1500)
    expect(one.runsHere()).toBe(true)
    await clock.pass(600)
    expect([one.runsHere(), other.runsHere()]).toEqual([false, false])
    network.connected = true
    let both = false
    for (let count = 0; count < 60; count++) {
      await clock.pass(100)
      both ||= one.runsHere() && other.runsHere()
    }
    expect([both, one.runsHere() || other.runsHere()]).toEqual([false, true])
  })

  test("a released lease passes on at the next look, and the old credential no longer opens [cluster:one:away]", async () => {
    const { clock, one, other } = twoReplicas()
    one.leases.place(PLAN)
    await clock.pass(0)
    other.leases.place(PLAN)
    await clock.pass(500)
    const reached = other.leases.place(PLAN).specs[0]?.launch as { headers: Record<string, string> }
    await one.leases.close()
    await clock.pass(500)
    expect(other.runsHere()).toBe(true)
    expect(other.leases.admits(spec.slug, reached.headers["svc-replica"] ?? "")).toBe(false)
    await other.leases.close()
  })
})
