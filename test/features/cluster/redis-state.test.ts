import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { openRedisState } from "../../../src/features/cluster/redis-state.ts"
import type { SharedState } from "../../../src/features/cluster/shared-state.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { UnavailableError } from "../../../src/lib/errors.ts"
import { until } from "../../process.ts"
import { NO_REDIS, type RedisServer, startRedis } from "../../redis.ts"

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

  test("stays with a Redis whose memory is full, and says when it accepts changes again [cluster:refusing]", async () => {
    await using own = await startRedis()
    const state = open(own.url)
    await connected(state)
    const lease = await state.lease("l", "one", 60_000)
    const used = { ttl: 60_000, group: { name: "g", most: 2 } }
    await state.write("used", { a: "1" }, used)
    problems.length = 0
    await own.order("CONFIG", "SET", "maxmemory", "100kb")
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

  test("leaves a Redis that has become a read-only replica, until it is one no longer [cluster:refusing]", async () => {
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

  test("a clock of Redis that is set back makes nobody wait for it [cluster:limits:clock]", async () => {
    const [one, other] = [open(redis.url), open(redis.url)]
    await connected(one)
    await connected(other)
    const [bucket, window] = [crypto.randomUUID(), crypto.randomUUID()]
    await one.take(bucket, 3)
    await one.count(window, 60_000)
    // As an hour before would have left them.
    const ahead = String(Date.now() + 3_600_000)
    await redis.order("HSET", `t:rate:${bucket}`, "left", "2", "at", ahead)
    await redis.order("PEXPIREAT", `t:window:${window}`, ahead)
    expect(await other.take(bucket, 3)).toBeUndefined()
    expect(await one.take(bucket, 3)).toBeUndefined()
    expect(await one.take(bucket, 3)).toBeLessThanOrEqual(20)
    const { count, endsIn } = await other.count(window, 60_000)
    expect(count).toBe(2)
    expect(endsIn).toBeLessThanOrEqual(60_000)
    one.close()
    other.close()
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
