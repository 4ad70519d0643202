import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { systemClock } from "../../src/lib/clock.ts"
import { UnavailableError } from "../../src/lib/errors.ts"
import { openRedisState } from "../../src/store/redis-state.ts"
import type { Lease, SharedState, TakenLease } from "../../src/store/shared-state.ts"
import { until } from "../process.ts"
import { NO_REDIS, type RedisServer, startRedis } from "../redis.ts"

const problems: string[] = []
const open = (url: string, prefix = "t:") =>
  openRedisState({
    url,
    prefix,
    clock: systemClock,
    newId: () => crypto.randomUUID(),
    onproblem: (reason) => problems.push(reason),
    onevicting: (policy) => problems.push(`evicting: ${policy}`),
    onunfit: (reason) => problems.push(`unfit: ${reason}`),
    onaccepting: () => problems.push("accepting"),
  })
const connected = (state: SharedState) => until(() => state.connected, "a connection")

let redis: RedisServer
beforeAll(async () => {
  if (NO_REDIS === undefined) redis = await startRedis()
})
afterAll(async () => {
  await redis?.[Symbol.asyncDispose]()
})

describe.skipIf(NO_REDIS !== undefined)("replicas that share a Redis", () => {
  const pair = async () => {
    const [one, other] = [open(redis.url), open(redis.url)]
    await connected(one)
    await connected(other)
    return {
      one,
      other,
      [Symbol.dispose]() {
        one.close()
        other.close()
      },
    }
  }
  /** Each test has keys of its own. */
  const key = () => `k${crypto.randomUUID()}`

  test("a change of one replica is there for another, field by field [cluster:state]", async () => {
    using both = await pair()
    const name = key()
    expect(await both.other.read(name)).toBeUndefined()
    expect(await both.one.write(name, { a: "1", b: "ü\n" })).toBe(true)
    expect(await both.other.write(name, { c: "3", a: undefined })).toBe(true)
    expect({ ...(await both.one.read(name)) }).toEqual({ b: "ü\n", c: "3" })
    expect(await both.one.remove(name)).toBe(true)
    expect(await both.one.remove(name)).toBe(false)
    expect(await both.other.read(name)).toBeUndefined()
  })

  test("some fields of a record are read alone, and a record without them is told from none [cluster:state]", async () => {
    using both = await pair()
    const name = key()
    expect(await both.one.read(name, ["a"])).toBeUndefined()
    await both.one.write(name, { a: "1", b: "", c: "3" })
    expect(await both.other.read(name, ["b", "d", "a"])).toEqual({ a: "1", b: "" })
    expect(await both.other.read(name, ["d"])).toEqual({})
  })

  test("a write may require that the record is new, or is still there", async () => {
    using both = await pair()
    const name = key()
    expect(await both.one.write(name, { a: "1" }, { require: "present" })).toBe(false)
    expect(await both.one.read(name)).toBeUndefined()
    expect(await both.one.write(name, { a: "1" }, { require: "absent" })).toBe(true)
    expect(await both.other.write(name, { a: "2" }, { require: "absent" })).toBe(false)
    expect(await both.other.write(name, { b: "2" }, { require: "present" })).toBe(true)
    expect({ ...(await both.one.read(name)) }).toEqual({ a: "1", b: "2" })
  })

  test("a record ends after its time, unless it is written again", async () => {
    using both = await pair()
    const [short, long] = [key(), key()]
    await both.one.write(short, { a: "1" }, { ttl: 1 })
    await both.one.write(long, { a: "1" }, { ttl: 1 })
    await both.one.write(long, { a: "2" }, { ttl: 60_000 })
    while ((await both.other.read(short)) !== undefined);
    expect({ ...(await both.one.read(long)) }).toEqual({ a: "2" })
  })

  test("of replicas that set a field at once, one does", async () => {
    using both = await pair()
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
    using both = await pair()
    const name = key()
    const waits = []
    for (let call = 0; call < 4; call++) waits.push(await (call % 2 === 0 ? both.one : both.other).take(name, 3))
    expect(waits.slice(0, 3)).toEqual([undefined, undefined, undefined])
    expect(waits[3]).toBeGreaterThan(0)
    expect(waits[3]).toBeLessThanOrEqual(20)
  })

  test("replicas count in one window, which ends by itself", async () => {
    using both = await pair()
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

  test("a clock of Redis that is set back makes nobody wait for it [cluster:limits:clock]", async () => {
    using both = await pair()
    const [bucket, window] = [key(), key()]
    await both.one.take(bucket, 3)
    await both.one.count(window, 60_000)
    // As an hour before would have left them.
    const ahead = String(Date.now() + 3_600_000)
    await redis.order("HSET", `t:rate:${bucket}`, "left", "2", "at", ahead)
    await redis.order("PEXPIREAT", `t:window:${window}`, ahead)
    expect(await both.other.take(bucket, 3)).toBeUndefined()
    expect(await both.one.take(bucket, 3)).toBeUndefined()
    expect(await both.one.take(bucket, 3)).toBeLessThanOrEqual(20)
    const { count, endsIn } = await both.other.count(window, 60_000)
    expect(count).toBe(2)
    expect(endsIn).toBeLessThanOrEqual(60_000)
  })

  const own = (lease: Lease | TakenLease): Lease => {
    if (lease.kind === "taken") throw new Error(`taken by '${lease.holder}'`)
    return lease
  }

  test("one replica holds a lease; the next holder has a larger token, and the earlier one has lost it", async () => {
    using both = await pair()
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
    using both = await pair()
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
    using both = await pair()
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
})

describe.skipIf(NO_REDIS !== undefined)("shared state in Redis", () => {
  test("is back by itself after Redis was killed, with its messages; meanwhile every request fails at once and says when to try again", async () => {
    await using own = await startRedis()
    const [state, other] = [open(own.url), open(own.url)]
    const states: boolean[] = []
    state.onstate((now) => states.push(now))
    await connected(state)
    await connected(other)
    const lease = await state.lease("l", "one", 60_000)
    if (lease.kind === "taken") throw new Error("taken")
    await own.kill()
    await until(() => !state.connected, "the loss")
    const failure = await state.read("x").catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(UnavailableError)
    expect((failure as UnavailableError).retryAfter).toBeGreaterThan(0)
    expect((failure as UnavailableError).message).not.toContain(String(own.port))
    await own.start()
    await connected(state)
    await connected(other)
    const heard: string[] = []
    other.onmessage((text) => heard.push(text))
    await state.publish("again")
    await until(() => heard.length === 1, "the message")
    expect(states).toEqual([true, false, true])
    // Its holder has not noticed that it was lost.
    expect(await other.lease("l", "other", 60_000, lease.token)).toMatchObject({ token: lease.token, holder: "" })
    expect(await lease.renew()).toBe(true)
    expect(await other.lease("l", "other", 60_000, lease.token)).toMatchObject({ token: lease.token, holder: "one" })
    state.close()
    other.close()
  })

  test("notices a Redis that does not answer any more", async () => {
    await using own = await startRedis()
    const state = open(own.url)
    await connected(state)
    own.pause()
    const waiting = state.read("x").catch((error: unknown) => error)
    await until(() => !state.connected, "the loss")
    expect(await waiting).toBeInstanceOf(UnavailableError)
    own.resume()
    await connected(state)
    expect(await state.read("x")).toBeUndefined()
    state.close()
  })

  test("stays with a Redis whose memory is full, and says when it takes changes again [cluster:refusing]", async () => {
    await using own = await startRedis()
    const state = open(own.url)
    await connected(state)
    const lease = await state.lease("l", "one", 60_000)
    const used = { ttl: 60_000, group: { name: "g", most: 2 } }
    await state.write("used", { a: "1" }, used)
    problems.length = 0
    await own.order("CONFIG", "SET", "maxmemory", "1mb")
    const failure = await state.write("x", { a: "1" }).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(UnavailableError)
    expect([state.connected, state.refusing]).toEqual([true, true])
    // An owner goes on, and so does a record that is used.
    expect(await state.write("used", {}, used)).toBe(true)
    expect(lease.kind === "own" && (await lease.renew())).toBe(true)
    await own.order("CONFIG", "SET", "maxmemory", "0")
    await until(() => !state.refusing, "a change that is taken")
    expect(problems).toEqual([
      "OOM command not allowed when used memory > 'maxmemory'; give it more memory",
      "accepting",
    ])
    expect(await state.write("x", { a: "1" })).toBe(true)
    state.close()
  })

  test("leaves a Redis that has become a read-only replica, until it is none [cluster:refusing]", async () => {
    await using own = await startRedis()
    const state = open(own.url)
    await connected(state)
    problems.length = 0
    await own.order("REPLICAOF", "127.0.0.1", "1")
    expect(await state.write("x", { a: "1" }).catch((error: unknown) => error)).toBeInstanceOf(UnavailableError)
    expect(state.connected).toBe(false)
    const late = open(own.url)
    await until(() => problems.length > 1, "the reports")
    expect(new Set(problems)).toEqual(new Set([expect.stringContaining("it is a read-only replica")]))
    await own.order("REPLICAOF", "NO", "ONE")
    for (const each of [state, late]) {
      await connected(each)
      expect(await each.write("x", { a: "1" })).toBe(true)
      each.close()
    }
  })

  test("authenticates, and says what Redis refuses without the password", async () => {
    await using own = await startRedis("--requirepass", "s3cret-of-redis")
    problems.length = 0
    const refused = open(own.url)
    await until(() => problems.length > 0, "the refusal")
    expect(problems[0]).toStartWith("NOAUTH")
    refused.close()
    const wrong = open(own.url.replace("//", "//:other@"))
    await until(() => problems.length > 1, "the refusal")
    expect(problems[1]).toStartWith("WRONGPASS")
    wrong.close()
    const state = open(own.url.replace("//", "//:s3cret-of-redis@"))
    await connected(state)
    await state.write("a", { b: "c" })
    expect({ ...(await state.read("a")) }).toEqual({ b: "c" })
    state.close()
  })

  test.each([
    ["prefixes", () => [open(redis.url, "one:"), open(redis.url, "other:")] as const],
    ["databases", () => [open(redis.url), open(`${redis.url}/1`)] as const],
  ])("keeps clusters with different %s apart [cluster:apart]", async (_, openBoth) => {
    const [one, other] = openBoth()
    await connected(one)
    await connected(other)
    const heard: string[] = []
    other.onmessage((text) => heard.push(text))
    await one.write("k", { a: "1" })
    await one.publish("hello")
    await other.publish("own")
    await until(() => heard.length > 0, "a message")
    expect(heard).toEqual(["own"])
    expect(await other.read("k")).toBeUndefined()
    one.close()
    other.close()
  })
})
