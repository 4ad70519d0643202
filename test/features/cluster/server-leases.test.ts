import { describe, expect, test } from "bun:test"
import { EMPTY_PLAN, type Launch, type Plan } from "../../../src/config/server-spec.ts"
import { Replicas } from "../../../src/features/cluster/replicas.ts"
import { ServerLeases } from "../../../src/features/cluster/server-leases.ts"
import { type Clock, createSteadyClock } from "../../../src/lib/clock.ts"
import { silentLog } from "../../../src/lib/log.ts"
import { createMarker } from "../../../src/lib/seal.ts"
import { manualClock } from "../../clock.ts"
import { fakeSpec } from "../../fakes.ts"
import { memoryNetwork } from "../../memory-network.ts"

const spec = fakeSpec({ replicas: "one" })
const launch = { transport: "stdio", command: "server", args: [] } as unknown as Launch
const PLAN: Plan = { ...EMPTY_PLAN, specs: [{ ...spec, launch, secrets: ["hunter2hunter2"] }] }
const KEY = new Uint8Array(32)
const STEP_MS = 100

/** A clock whose timers wait while its process is suspended, and so does what happens `whenRunning`. */
function suspendable(clock: Clock) {
  const late: (() => void)[] = []
  let isSuspended = false
  const whenRunning = (run: () => void) => (isSuspended ? void late.push(run) : run())
  return {
    now: clock.now,
    after: (ms: number, run: () => void) => clock.after(ms, () => whenRunning(run)),
    whenRunning,
    suspend() {
      isSuspended = true
    },
    resume() {
      isSuspended = false
      for (const run of late.splice(0)) run()
    },
  }
}

async function twoReplicas() {
  const clock = manualClock()
  const network = await memoryNetwork()
  const open = async (id: string) => {
    const state = await network.open()
    let setBy = 0
    const time = { now: () => clock.now() + setBy, after: clock.after }
    const own = suspendable(createSteadyClock(time, clock.now))
    const replicas = new Replicas(id, state, own)
    const stopped = { promise: Promise.resolve() }
    const drained = { promise: Promise.resolve() }
    const replica = {
      clock: own,
      /** Sets the time of its machine. */
      set(ms: number) {
        setBy += ms
      },
      stopped,
      drained,
      changes: 0,
      leases: new ServerLeases({
        state,
        replicas: {
          id,
          send: (message) => replicas.send(message),
          on: (kind, listener) => replicas.on(kind, (...heard) => own.whenRunning(() => listener(...heard))),
          find: (other) => (other === "" ? undefined : { address: `http://${other}` }),
        },
        mark: createMarker(() => KEY),
        clock: own,
        log: silentLog,
        whenDrained: () => drained.promise,
        whenStopped: () => stopped.promise,
        onchange: () => {
          replica.changes++
        },
      }),
      placed: () => replica.leases.place(PLAN),
      runsHere: () => replica.placed().specs[0]?.launch.transport === "stdio",
      credential: () => {
        const reached = replica.placed().specs[0]?.launch as { headers: Record<string, string> } | undefined
        return reached?.headers["svc-replica"] ?? ""
      },
    }
    return replica
  }
  const [one, other, state] = [await open("r1"), await open("r2"), await network.open()]
  /** Lets time pass, in steps in which Redis answers; its own time stands almost still. */
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += STEP_MS) {
      await clock.pass(STEP_MS)
      await network.settle()
    }
  }
  return {
    clock,
    pass,
    network,
    one,
    other,
    /** What Redis does when a lease runs out. */
    expire: () => state.remove(`lease:${spec.id}`),
    [Symbol.asyncDispose]: () => network[Symbol.asyncDispose](),
  }
}

/** Two replicas of which `one` is the owner. */
async function owned() {
  const both = await twoReplicas()
  both.one.placed()
  await both.network.settle()
  both.other.placed()
  await both.pass(500)
  return both
}

describe("leases of servers", () => {
  test("a server sleeps where it runs, and is never asleep to the other replicas [cluster:one:sleeps]", async () => {
    await using both = await owned()
    const tuning = { ...spec.tuning, lazy: true as const, sleepAfter: 1000 }
    const plan = { ...PLAN, specs: [{ ...spec, tuning }] }
    const [here, there] = [both.one, both.other].map(({ leases }) => leases.place(plan).specs[0]?.tuning)
    expect(here).toMatchObject({ lazy: true, sleepAfter: 1000 })
    expect([there?.replicas, there?.lazy, there?.sleepAfter]).toEqual(["one", undefined, undefined])
  })

  test("one replica runs the server, and to the other it is a remote server there [cluster:one]", async () => {
    await using both = await twoReplicas()
    const { clock, network, pass, one, other } = both
    expect(one.placed()).toMatchObject({ specs: [], idle: [{ name: spec.name, state: "starting" }] })
    await network.settle()
    other.placed()
    await pass(500)
    expect([one.runsHere(), other.runsHere()]).toEqual([true, false])
    const reached = other.placed().specs[0]?.launch
    expect(reached).toMatchObject({ transport: "http", url: `http://r1/servers/${spec.slug}/mcp?tools=all` })
    const credential = other.credential()
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

  test("the secrets of a server are known as such wherever it runs", async () => {
    await using both = await owned()
    const { network, pass, one, other } = both
    const secretsOf = ({ specs, idleSecrets }: Plan) => [...specs.flatMap(({ secrets }) => secrets), ...idleSecrets]
    expect(secretsOf(one.placed())).toEqual(["hunter2hunter2"])
    expect(secretsOf(other.placed())).toEqual(["hunter2hunter2", other.credential()])
    await network.cut()
    await pass(2100)
    expect(one.placed()).toMatchObject({ specs: [], idle: [{ name: spec.name }] })
    expect(secretsOf(one.placed())).toEqual(["hunter2hunter2"])
  })

  test("an owner that cannot renew its lease stops before another replica may start [cluster:one:passes]", async () => {
    await using both = await owned()
    const { network, pass, one, other, expire } = both
    await network.cut()
    await pass(1500)
    expect([one.runsHere(), one.leases.graceFor(spec.id)]).toEqual([true, undefined])
    await pass(600)
    expect([one.runsHere(), other.runsHere()]).toEqual([false, false])
    // Nobody waits for an owner that cannot be found.
    expect(one.placed().idle).toMatchObject([{ state: "no owner" }])
    // The process has ended when the lease runs out.
    expect(one.leases.graceFor(spec.id)).toBeGreaterThan(0)
    expect(one.leases.graceFor(spec.id)).toBeLessThanOrEqual(3500 - 2100)
    await network.mend()
    await pass(1000)
    // Redis keeps the lease for its whole time.
    expect([one.runsHere(), other.runsHere()]).toEqual([false, false])
    await expire()
    let atOnce = false
    for (let count = 0; count < 20; count++) {
      await pass(100)
      atOnce ||= one.runsHere() && other.runsHere()
    }
    expect([atOnce, one.runsHere() || other.runsHere()]).toEqual([false, true])
  })

  test("an owner whose time is set back while it cannot renew its lease stops no later [cluster:one:clock]", async () => {
    await using both = await owned()
    const { network, pass, one } = both
    await network.cut()
    one.set(-3_600_000)
    await pass(1500)
    expect(one.runsHere()).toBe(true)
    await pass(600)
    expect(one.runsHere()).toBe(false)
    expect(one.leases.graceFor(spec.id)).toBeLessThanOrEqual(3500 - 2100)
  })

  test("an owner that was suspended does not use the server again, and nobody reaches it with the old credential [cluster:one:fencing]", async () => {
    await using both = await owned()
    const { pass, one, other, expire } = both
    const credential = other.credential()
    one.clock.suspend()
    await pass(3500)
    await expire()
    await pass(600)
    expect(other.runsHere()).toBe(true)
    // It is asked before its own timers have run.
    expect(one.leases.admits(spec.slug, credential)).toBe(false)
    const { changes } = one
    expect(one.leases.check(spec.id)).toBe(false)
    expect([one.changes - changes, one.runsHere(), one.leases.graceFor(spec.id)]).toEqual([1, false, 0])
    one.clock.resume()
    await pass(1000)
    expect([one.runsHere(), other.runsHere()]).toEqual([false, true])
    expect(one.credential()).not.toBe(credential)
  })

  test("a state that has lost the lease leaves it to its owner, unless that is gone [cluster:one:fencing]", async () => {
    await using both = await owned()
    const { network, pass, one, other, expire } = both
    const credential = other.credential()
    for (const ms of [100, 400, 500]) {
      await network.clear()
      for (let waited = 0; waited < ms; waited += STEP_MS) {
        await pass(STEP_MS)
        expect([one.runsHere(), other.runsHere()]).toEqual([true, false])
      }
    }
    await pass(1000)
    expect(other.credential()).toBe(credential)
    one.clock.suspend()
    await network.clear()
    await pass(1000)
    expect(other.runsHere()).toBe(false)
    await expire()
    await pass(1000)
    expect(other.runsHere()).toBe(true)
    expect(one.leases.admits(spec.slug, credential)).toBe(false)
  })

  test("a released lease passes on at once, and the old credential no longer opens [cluster:one:away]", async () => {
    await using both = await owned()
    const { clock, network, one, other } = both
    const credential = other.credential()
    await one.leases.close()
    await network.settle()
    expect(other.runsHere()).toBe(true)
    expect(other.leases.admits(spec.slug, credential)).toBe(false)
    await other.leases.close()
    expect(clock.timers).toBe(0)
  })

  test("an owner that stops passes a server on when its calls have ended; new ones wait for the next owner [cluster:one:leaves]", async () => {
    await using both = await owned()
    const { network, pass, one, other } = both
    const [calls, process] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    one.drained.promise = calls.promise
    one.stopped.promise = process.promise
    const credential = other.credential()
    one.leases.drain()
    const left = one.leases.leave(60_000)
    await network.settle()
    // Calls that are on the way before the others hear of it are still taken.
    expect([one.leases.isHandingOver(spec.id), other.leases.isHandingOver(spec.id)]).toEqual([false, true])
    expect(one.leases.admits(spec.slug, credential, true)).toBe(true)
    await pass(300)
    await left
    expect([one.leases.isHandingOver(spec.id), other.leases.isHandingOver(spec.id)]).toEqual([true, true])
    expect([true, false].map((begins) => one.leases.admits(spec.slug, credential, begins))).toEqual([false, true])
    // Much longer than a server may take to start.
    let found = 0
    for (const { leases } of [one, other]) void leases.whenHandedOver(spec.id).then(() => found++)
    await pass(50_000)
    expect([one.runsHere(), other.runsHere(), other.credential(), found]).toEqual([true, false, credential, 0])
    calls.resolve()
    await network.settle()
    // Its process is being ended.
    expect([one.runsHere(), other.runsHere()]).toEqual([false, false])
    await pass(500)
    expect([other.runsHere(), found]).toEqual([false, 0])
    process.resolve()
    await network.settle()
    expect([other.runsHere(), other.placed().handedOver?.has(spec.id)]).toEqual([true, true])
    await pass(1000)
    // The replica that stops uses it there like any other.
    expect([one.runsHere(), found]).toEqual([false, 2])
    expect(other.leases.admits(spec.slug, one.credential(), true)).toBe(true)
  })

  test("a call that does not end is ended when the time for the calls of an owner that stops is over, and the new ones are answered [cluster:one:leaves]", async () => {
    await using both = await owned()
    const { network, pass, one, other } = both
    const process = Promise.withResolvers<void>()
    one.drained.promise = new Promise(() => undefined)
    one.stopped.promise = process.promise
    one.leases.drain()
    void one.leases.leave(2000)
    await pass(300)
    let found = 0
    for (const { leases } of [one, other]) void leases.whenHandedOver(spec.id).then(() => found++)
    await pass(1600)
    expect([one.runsHere(), other.runsHere(), found]).toEqual([true, false, 0])
    await pass(200)
    // Its process is being ended, and with it the call.
    expect([one.runsHere(), other.runsHere(), found]).toEqual([false, false, 0])
    process.resolve()
    await network.settle()
    expect([one.runsHere(), other.runsHere(), other.placed().handedOver?.has(spec.id)]).toEqual([false, true, true])
    await pass(1000)
    expect(found).toBe(2)
    expect(other.leases.admits(spec.slug, one.credential(), true)).toBe(true)
  })

  test("nobody waits longer for the next owner than the calls of one that stops may take [cluster:one:leaves]", async () => {
    await using both = await owned()
    const { network, pass, one, other, expire } = both
    void one.leases.leave(2000)
    await network.settle()
    // It dies.
    one.clock.suspend()
    let waited = false
    void other.leases.whenHandedOver(spec.id).then(() => {
      waited = true
    })
    await pass(7000)
    expect(waited).toBe(false)
    await pass(1500)
    expect([waited, other.leases.isHandingOver(spec.id)]).toEqual([true, false])
    await expire()
    await pass(1000)
    // What the dead one may still answer must reach nobody.
    expect([other.runsHere(), other.placed().handedOver?.has(spec.id)]).toEqual([true, false])
  })

  test("a server that leaves the configuration keeps its lease until its process has ended; a replica that stops takes none", async () => {
    await using both = await owned()
    const { network, pass, one, other } = both
    const { promise, resolve } = Promise.withResolvers<void>()
    one.stopped.promise = promise
    one.leases.place(EMPTY_PLAN)
    await pass(4000)
    expect(other.runsHere()).toBe(false)
    other.leases.drain()
    resolve()
    await network.settle()
    await pass(1000)
    expect(other.runsHere()).toBe(false)
  })

  test("the process of a server that has left the configuration has ended when its lease runs out [cluster:one:passes]", async () => {
    await using both = await owned()
    const { network, pass, one } = both
    const { promise, resolve } = Promise.withResolvers<void>()
    one.stopped.promise = promise
    one.leases.place(EMPTY_PLAN)
    await pass(1000)
    expect(one.leases.graceFor(spec.id)).toBe(undefined)
    await network.cut()
    await pass(2100)
    expect(one.leases.graceFor(spec.id)).toBeLessThanOrEqual(3500 - 2100)
    await pass(1500)
    expect(one.leases.graceFor(spec.id)).toBe(0)
    // What runs under a lease of its own later is not bound by it.
    resolve()
    await network.mend()
    await pass(STEP_MS)
    expect(one.leases.graceFor(spec.id)).toBe(undefined)
  })
})
