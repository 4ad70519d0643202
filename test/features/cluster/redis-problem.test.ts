import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { openRedisState } from "../../../src/features/cluster/redis-state.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { freePort, freshFolder, removeFolder } from "../../e2e/harness.ts"
import { until } from "../../process.ts"
import { NO_REDIS, type RedisServer, startRedis } from "../../redis.ts"

/** Returns the first problem that svc reports with a Redis, or with what is in its place. */
async function problemWith(url: string): Promise<string> {
  const problems: string[] = []
  const state = open(url, problems)
  await until(() => problems.length > 0, "a problem")
  state.close()
  return problems[0] ?? ""
}

const open = (url: string, said: string[]) =>
  openRedisState({
    url,
    prefix: "t:",
    clock: systemClock,
    newId: () => crypto.randomUUID(),
    onproblem: (reason) => void said.push(reason),
    onevicting: (policy) => void said.push(`evicting ${policy}`),
    onunfit: () => undefined,
    onaccepting: () => undefined,
  })

let redis: RedisServer
let tlsPort: number
const folder = freshFolder()
beforeAll(async () => {
  if (NO_REDIS !== undefined) return
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")]
  Bun.spawnSync([
    ...["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"],
    ...["-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=redis", "-addext", "subjectAltName=DNS:other"],
  ])
  tlsPort = await freePort()
  const files = ["--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert]
  redis = await startRedis("--databases", "4", "--tls-port", String(tlsPort), ...files, "--tls-auth-clients", "no")
  await redis.order("ACL", "SETUSER", "limited", "on", ">pw", "~other:*", "&other:*", "+@all")
  await redis.order("ACL", "SETUSER", "least", "on", ">pw", "~t:*", "&t:*", "+@all", "-@dangerous", "+info")
})
afterAll(async () => {
  await redis?.[Symbol.asyncDispose]()
  removeFolder(folder)
})

describe.skipIf(NO_REDIS !== undefined)("a Redis that cannot be used", () => {
  test.each<readonly [string, (port: number) => string, string | RegExp]>([
    [
      "a wrong password",
      (port) => `redis://least:other@127.0.0.1:${port}`,
      "WRONGPASS invalid username-password pair or user is disabled; check the user and the password in --cluster",
    ],
    [
      "a user without rights",
      (port) => `redis://limited:pw@127.0.0.1:${port}`,
      /^NOPERM .*; allow its user the keys and channels t:\* .*: ACL SETUSER … ~t:\* &t:\* \+@all -@dangerous \+info$/i,
    ],
    [
      "a database that it does not have",
      (port) => `redis://127.0.0.1:${port}/9`,
      "ERR DB index is out of range; choose another database in --cluster, or raise `databases` in the configuration of Redis",
    ],
    [
      "TLS to a port without it",
      (port) => `rediss://127.0.0.1:${port}`,
      "this port does not speak TLS; write redis:// in --cluster, or the port on which Redis speaks TLS",
    ],
    [
      "no TLS to a port with it",
      () => `redis://127.0.0.1:${tlsPort}`,
      "this port speaks only TLS; write rediss:// in --cluster",
    ],
    [
      "an unknown host",
      () => "redis://redis.invalid:6379",
      /^cannot reach redis\.invalid:6379 \(.*\)(?:; correct the host in --cluster)?$/,
    ],
    [
      "a closed port",
      () => "redis://127.0.0.1:1",
      "nothing listens at 127.0.0.1:1; start Redis there, or correct the host and the port in --cluster",
    ],
  ])("says what is wrong and what to do: %s [cluster:problems]", async (_, url, wanted) => {
    expect(await problemWith(url(redis.port))).toEqual(
      typeof wanted === "string" ? wanted : expect.stringMatching(wanted),
    )
  })

  test("another server in its place is no Redis [cluster:problems]", async () => {
    using server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("hello") })
    const advice = "what listens there is not Redis; correct the host and the port in --cluster"
    expect(await problemWith(`redis://127.0.0.1:${server.port}`)).toBe(advice)
    expect(await problemWith(`rediss://127.0.0.1:${server.port}`)).toStartWith("this port does not speak TLS;")
  })

  test("is reported once for each reason, whatever the order of the attempts [cluster:problems]", async () => {
    const problems: string[] = []
    const state = open(`redis://127.0.0.1:${redis.port}/9`, problems)
    const connections = async () =>
      Number(/total_connections_received:(\d+)/.exec(String(await redis.order("INFO", "stats")))?.[1])
    const first = await connections()
    // Each attempt opens three, and so does each look at the number.
    while ((await connections()) - first < 40) await Bun.sleep(50)
    expect(problems).toHaveLength(1)
    state.close()
  })
})

describe.skipIf(NO_REDIS !== undefined)("a Redis that can be used", () => {
  test("by a user that has what the advice says [cluster:problems]", async () => {
    const problems: string[] = []
    const state = open(`redis://least:pw@127.0.0.1:${redis.port}`, problems)
    await until(() => state.connected, "a connection")
    await state.write("a", { b: "c" }, { ttl: 1000, group: { name: "g", most: 2 } })
    await state.swap("s", "f", undefined, "1")
    await state.take("x", 3)
    await state.count("y", 1000)
    const lease = await state.lease("l", "one", 1000)
    expect(lease.kind === "own" && (await lease.renew())).toBe(true)
    const heard: string[] = []
    state.onmessage((text) => void heard.push(text))
    await state.publish("hello")
    await until(() => heard.length > 0, "a message")
    await state.remove("a", { name: "g", most: 2 })
    expect(problems).toEqual([])
    state.close()
  })

  test("is reported once if it deletes keys when its memory is full [cluster:evicting]", async () => {
    await using own = await startRedis("--maxmemory-policy", "allkeys-lru")
    const problems: string[] = []
    const state = open(own.url, problems)
    await until(() => state.connected, "a connection")
    expect(problems).toEqual(["evicting allkeys-lru"])
    await own.kill()
    await until(() => !state.connected, "the loss")
    await own.start()
    await until(() => state.connected, "a connection")
    expect(problems.filter((one) => one.startsWith("evicting"))).toHaveLength(1)
    state.close()
  })
})
