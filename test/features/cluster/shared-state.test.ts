/** The state that replicas share has one interface. In Redis, and in memory for other tests, it passes the same tests. */
import { describe, expect, test } from "bun:test"
import type { Lease, TakenLease } from "../../../src/features/cluster/shared-state.ts"
import { UnavailableError } from "../../../src/lib/errors.ts"
import { memoryNetwork, type SharedNetwork } from "../../memory-network.ts"
import { until } from "../../process.ts"
import { NO_REDIS, redisNetwork } from "../../redis.ts"

const kinds: [string, () => Promise<SharedNetwork>][] = [["in memory", async () => memoryNetwork()]]
if (NO_REDIS === undefined) kinds.push(["in Redis", redisNetwork])
else test.skip(`shared state in Redis: ${NO_REDIS}`, () => {})

describe.each(kinds)("replicas that share a state %s", (_, openNetwork) => {
  const pair = async () => {
    const network = await openNetwork()
    const [one, other] = [await network.open(), await network.open()]
    return { network, one, other, [Symbol.asyncDispose]: () => network[Symbol.asyncDispose]() }
  }
  /** Each test has keys of its own. */
  const key = () => `k${crypto.randomUUID()}`

  test("a change of one replica is there for another, field by field [cluster:state]", async () => {
    await using both = await pair()
    const name = key()
    expect(await both.other.read(name)).toBeUndefined()
    expect(await both.one.write(name, { a: "1", b: "ü\n" })).toBe(true)
    expect(await both.other.write(name, { c: "3", a: undefined })).toBe(true)
    expect({ ...(await both.one.read(name)) }).toEqual({ b: "ü\n", c: "3" })
    expect(await both.one.remove(name)).toBe(true)
    expect(await both.one.remove(name)).toBe(false)
    expect(await both.other.read(name)).toBeUndefined()
  })

  test("single fields of a record can be read, and a record without them is distinguished from no record [cluster:state]", async () => {
    await using both = await pair()
    const name = key()
    expect(await both.one.read(name, ["a"])).toBeUndefined()
    await both.one.write(name, { a: "1", b: "", c: "3" })
    expect(await both.other.read(name, ["b", "d", "a"])).toEqual({ a: "1", b: "" })
    expect(await both.other.read(name, ["d"])).toEqual({})
  })

  test("a write may require that the record is new, or is still there", async () => {
    await using both = await pair()
    const name = key()
    expect(await both.one.write(name, { a: "1" }, { require: "present" })).toBe(false)
    expect(await both.one.read(name)).toBeUndefined()
    expect(await both.one.write(name, { a: "1" }, { require: "absent" })).toBe(true)
    expect(await both.other.write(name, { a: "2" }, { require: "absent" })).toBe(false)
    expect(await both.other.write(name, { b: "2" }, { require: "present" })).toBe(true)
    expect({ ...(await both.one.read(name)) }).toEqual({ a: "1", b: "2" })
  })

  test("a record ends after its time, unless it is written again", async () => {
    await using both = await pair()
    const [short, long] = [key(), key()]
    await both.one.write(short, { a: "1" }, { ttl: 1 })
    await both.one.write(long, { a: "1" }, { ttl: 1 })
    await both.one.write(long, { a: "2" }, { ttl: 60_000 })
    while ((await both.other.read(short)) !== undefined);
    expect({ ...(await both.one.read(long)) }).toEqual({ a: "2" })
  })

  test("of replicas that set a field at once, one does", async () => {
    await using both = await pair()
    const name = key()
    const done = await Promise.all([
      both.one.swap(name, "f", undefined, "one"),
      both.other.swap(name, "f", undefined, "other"),
    ])
    expect(done.filter(Boolean)).toHaveLength(1)
    const value = (await both.one.read(name))?.f
    expect(value).toBe(done[0] ? "one" : "other")
    expect(await both.one.swap(name, "f", "wrong", "x")).toBe(false)
    expect(await both.one.swap(name, "f", value, "")).toBe(true)
    expect(await both.one.swap(name, "f", undefined, "x")).toBe(false)
    expect(await both.one.swap(name, "f", "", "y")).toBe(true)
  })

  test("replicas take calls from one bucket", async () => {
    await using both = await pair()
    const name = key()
    const waits = []
    for (let call = 0; call < 4; call++) waits.push(await (call % 2 === 0 ? both.one : both.other).take(name, 3))
    expect(waits.slice(0, 3)).toEqual([undefined, undefined, undefined])
    expect(waits[3]).toBeGreaterThan(0)
    expect(waits[3]).toBeLessThanOrEqual(20)
  })

  test("replicas count in one window, which ends by itself", async () => {
    await using both = await pair()
    const name = key()
    expect(await both.one.count(name, 60_000)).toMatchObject({ count: 1 })
    const { count, endsIn } = await both.other.count(name, 60_000)
    expect(count).toBe(2)
    expect(endsIn).toBeGreaterThan(0)
    expect(endsIn).toBeLessThanOrEqual(60_000)
    const short = key()
    await both.one.count(short, 20)
    while ((await both.other.count(short, 20)).count !== 1);
  })

  const own = (lease: Lease | TakenLease): Lease => {
    if (lease.kind === "taken") throw new Error(`taken by '${lease.holder}'`)
    return lease
  }

  test("one replica holds a lease; the next holder has a larger token, and the earlier one has lost it", async () => {
    await using both = await pair()
    const name = key()
    const first = own(await both.one.lease(name, "one", 60_000))
    const taken = { kind: "taken", token: first.token, holder: "one", remaining: expect.any(Number) } as const
    expect(await both.other.lease(name, "other", 60_000)).toEqual(taken)
    expect(await first.renew()).toBe(true)
    await first.release()
    const second = own(await both.other.lease(name, "other", 1))
    expect(second.token).toBeGreaterThan(first.token)
    let third: Lease | TakenLease
    do third = await both.one.lease(name, "one", 60_000)
    while (third.kind === "taken")
    expect(third.token).toBeGreaterThan(second.token)
    expect(await second.renew()).toBe(false)
    await second.release()
    const last = await both.other.lease(name, "other", 60_000)
    expect(last).toMatchObject({ token: third.token, holder: "one" })
    expect((last as TakenLease).remaining).toBeLessThanOrEqual(60_000)
    expect((last as TakenLease).remaining).toBeGreaterThan(0)
  })

  test("a lease that the state has lost is its holder's again, and no other's before its time is over [cluster:one:fencing]", async () => {
    await using both = await pair()
    const name = key()
    const lost = { kind: "taken", token: 7, holder: "", remaining: expect.any(Number) } as const
    // As seen before the state was lost.
    expect(await both.other.lease(name, "other", 1, 7)).toEqual(lost)
    let next: Lease | TakenLease
    do next = await both.other.lease(name, "other", 60_000, 7)
    while (next.kind === "taken")
    expect(next.token).toBe(8)
  })

  test("a message reaches every replica in order, the sender too", async () => {
    await using both = await pair()
    const [heardByOne, heardByOther] = [[] as string[], [] as string[]]
    both.one.onmessage((text) => heardByOne.push(text))
    const end = both.other.onmessage((text) => heardByOther.push(text))
    for (let number = 0; number < 20; number++) await both.one.publish(String(number))
    await until(() => heardByOne.length === 20 && heardByOther.length === 20, "the messages")
    expect(heardByOne).toEqual(Array.from({ length: 20 }, (_, number) => String(number)))
    expect(heardByOther).toEqual(heardByOne)
    end()
    await both.one.publish("last")
    await until(() => heardByOne.length === 21, "the last message")
    expect(heardByOther).toHaveLength(20)
  })

  test("without a connection each request fails at once, and no message arrives; what the state held is there again after it", async () => {
    await using both = await pair()
    const { network, one, other } = both
    const name = key()
    const [heard, states] = [[] as string[], [] as boolean[]]
    other.onmessage((text) => heard.push(text))
    other.onstate((connected) => states.push(connected))
    await one.write(name, { a: "1" })
    const lease = own(await one.lease(name, "one", 60_000))
    await network.cut()
    expect([one.connected, other.connected]).toEqual([false, false])
    const failures = [one.read(name), one.write(name, {}), one.publish("lost"), lease.renew()]
    for (const failure of failures)
      expect(await failure.catch((error: unknown) => error)).toBeInstanceOf(UnavailableError)
    await network.mend()
    expect({ ...(await other.read(name)) }).toEqual({ a: "1" })
    expect(await lease.renew()).toBe(true)
    await one.publish("heard")
    await until(() => heard.length > 0, "a message")
    expect([heard, states]).toEqual([["heard"], [false, true]])
    await network.clear()
    expect(await other.read(name)).toBeUndefined()
    // Its holder has not noticed that it was lost.
    expect(await other.lease(name, "other", 60_000, lease.token)).toMatchObject({ token: lease.token, holder: "" })
    expect(await lease.renew()).toBe(true)
    expect(await other.lease(name, "other", 60_000, lease.token)).toMatchObject({ token: lease.token, holder: "one" })
  })

  test("of a group's records the ones that were written last are kept", async () => {
    await using both = await pair()
    const [first, second, third] = [key(), key(), key()]
    const group = { name: key(), most: 2 }
    for (const name of [first, second, first, third]) await both.one.write(name, { a: "1" }, { ttl: 60_000, group })
    expect(await both.other.read(second)).toBeUndefined()
    expect(await both.other.remove(first, group)).toBe(true)
    await both.other.write(second, { a: "1" }, { ttl: 60_000, group })
    const kept = await Promise.all([first, second, third].map((name) => both.one.read(name)))
    expect(kept.map((record) => record !== undefined)).toEqual([false, true, true])
  })
})
