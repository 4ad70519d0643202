/** Replicas in operation: a rolling update, what `svc cluster status` shows, and metrics. */
import { describe, expect, test } from "bun:test"
import type { ClusterReport } from "../../src/features/cluster/cluster-report.ts"
import { NO_REDIS } from "../redis.ts"
import { eventually, type Instance, svcIn } from "./harness.ts"
import { eventsOf, listen, REPLICA_SERVER, startCluster, WanderingClient } from "./replicas.ts"

if (NO_REDIS !== undefined) test.skip(`replicas in operation: ${NO_REDIS}`, () => {})

const readiness = async ({ url }: Instance): Promise<number> => (await fetch(`${url}/health/ready`)).status

describe.skipIf(NO_REDIS !== undefined)("replicas in operation", () => {
  test("a replica that stops lets open calls finish, and its clients continue elsewhere [cluster:drain]", async () => {
    await using cluster = await startCluster(2, { env: { SVC_DRAIN_DELAY: "3s", SVC_SHUTDOWN_GRACE: "60s" } })
    const [one, other] = cluster.replicas as [Instance, Instance]
    const client = new WanderingClient()
    await client.open(one)
    const standing = eventsOf(await client.get(one))
    const changes = eventsOf(await listen(one, { toolsListChanged: true }))
    await changes.next()
    const old = await fetch(`${one.url}/sse`)
    const params = { name: "one_svc_hold", arguments: {}, _meta: { progressToken: 1 } }
    const call = client.stream(one, "tools/call", params, 7)
    const slow = client.stream(one, "tools/call", params, 8)
    for (const each of [call, slow]) expect((await each.next()).value.message.method).toBe("notifications/progress")
    one.signal("SIGTERM")
    await eventually(async () => (await readiness(one)) === 503)
    const status = await statusOf(other)
    expect(status.replicas.map(({ self, state }) => [self, state])).toEqual([
      [true, "ready"],
      [false, "draining"],
    ])
    // The load balancer has not seen it yet.
    await client.post(other, { method: "notifications/cancelled", params: { requestId: 7 } })
    expect((await call.next()).done).toBe(true)
    // Streams are told to go elsewhere while a call still runs.
    expect((await standing.next()).done).toBe(true)
    expect((await changes.next()).value.message.result.resultType).toBe("complete")
    expect(await old.text()).toContain("event: endpoint")
    await client.post(other, { method: "notifications/cancelled", params: { requestId: 8 } })
    expect((await slow.next()).done).toBe(true)
    const again = eventsOf(await client.get(other))
    await client.call(other, "one_svc_log")
    expect((await again.next()).value.message.method).toBe("notifications/message")
    expect(await one.exited).toBe(0)
    expect(await client.call(other, "one_svc_who")).toMatch(/^\d+$/)
  })

  test("messages to a session whose stream moves to another replica are neither lost nor repeated [cluster:drain:stream]", async () => {
    await using cluster = await startCluster(2, { env: { SVC_SHUTDOWN_GRACE: "60s" } })
    const [one, other] = cluster.replicas as [Instance, Instance]
    const client = new WanderingClient()
    await client.open(one)
    const params = { name: "one_svc_hold", arguments: {}, _meta: { progressToken: 1 } }
    const call = client.stream(one, "tools/call", params, 7)
    // Keeps the replica until the call ends.
    await call.next()
    const heard: unknown[] = []
    let last: string | undefined
    const listenAt = async (at: Instance): Promise<void> => {
      for await (const { id, message } of eventsOf(await client.get(at, last))) {
        last = id
        if (message.method === "notifications/message") heard.push(message.params?.data)
      }
    }
    const tell = async (text: string) => {
      await client.request(other, "tools/call", { name: "one_svc_tell", arguments: { text } })
    }
    const until = (text: string) => eventually(() => heard.includes(text))
    // The other replica follows the session when its stream is opened.
    await client.call(other, "one_svc_who")
    const first = listenAt(one)
    // What comes while a call of the client runs belongs to that call.
    await eventually(async () => {
      await tell("0")
      return heard.includes("0")
    })
    await tell("1")
    await until("1")
    one.signal("SIGTERM")
    await first
    await tell("2")
    let isOver = false
    const rest = (async () => {
      // A client also resumes a stream that breaks off.
      while (!isOver) await listenAt(other).catch(() => undefined)
    })()
    await until("2")
    await tell("3")
    await until("3")
    await client.post(other, { method: "notifications/cancelled", params: { requestId: 7 } })
    expect(await one.exited).toBe(0)
    await tell("4")
    await until("4")
    expect(heard.filter((text) => text !== "0")).toEqual(["1", "2", "3", "4"])
    isOver = true
    await client.end(other)
    await rest
  })

  test("a replica stops in time while a load balancer that does not probe sends it requests, and none fails [cluster:drain:traffic]", async () => {
    const once = { ...REPLICA_SERVER, replicas: "one" }
    const own = { ...REPLICA_SERVER, isolation: "session" }
    // A question of a server that several clients use at once could be of any of them.
    const config = { mcpServers: { one: REPLICA_SERVER, asks: REPLICA_SERVER, once, own } }
    await using cluster = await startCluster(2, { config, env: { SVC_SHUTDOWN_GRACE: "60s" } })
    const [one, other] = cluster.replicas as [Instance, Instance]
    const failures: unknown[] = []
    let calls = 0
    let isOver = false
    const traffic = ["one_svc_who", "once_svc_who", "own_svc_who"].map(async (name) => {
      const client = new WanderingClient()
      await client.open(one)
      while (!isOver) {
        const text = await client.call(cluster, name).catch(String)
        if (/^\d+$/.test(text)) calls++
        else failures.push(text)
      }
    })
    const client = new WanderingClient()
    await client.open(one)
    const own1 = await client.call(one, "own_svc_who")
    // A call with a question runs there, and one of a session's own process.
    const asking = client.stream(one, "tools/call", { name: "asks_svc_ask", arguments: {} })
    const question = (await asking.next()).value
    const held = client.stream(
      one,
      "tools/call",
      { name: "own_svc_hold", arguments: {}, _meta: { progressToken: 1 } },
      7,
    )
    await held.next()
    one.signal("SIGTERM")
    const callOne = () =>
      client.post(one, { id: 8, method: "tools/call", params: { name: "own_svc_who", arguments: {} } })
    await eventually(async () => (await callOne()).headers.get("connection") === "close")
    // New work is done by the other replica, and so is that of the session's own process.
    const own2 = await eventually(async () => {
      const said = await client.call(one, "own_svc_who")
      return /^\d+$/.test(said) && said !== own1 && said
    })
    expect(await client.call(other, "own_svc_who")).toBe(own2)
    const before = calls
    await eventually(() => calls > before + 50)
    // What runs there still gets what belongs to it, by the other replica.
    await client.post(other, { id: question.message.id, result: { action: "accept", content: { name: "x" } } })
    expect((await asking.next()).value.message.result.content[0].text).toContain("heard")
    await client.post(other, { method: "notifications/cancelled", params: { requestId: 7 } })
    expect((await held.next()).done).toBe(true)
    expect(await one.exited).toBe(0)
    isOver = true
    await Promise.all(traffic)
    expect(failures).toEqual([])
  })

  test("status and metrics show replicas, load and owners [cluster:status] [cluster:metrics]", async () => {
    const only = { ...REPLICA_SERVER, replicas: "one" }
    await using cluster = await startCluster(2, {
      config: { mcpServers: { one: REPLICA_SERVER, only } },
      flags: ["--metrics"],
    })
    const [one, other] = cluster.replicas as [Instance, Instance]
    const client = new WanderingClient()
    await client.open(one)
    const params = { name: "one_svc_hold", arguments: {}, _meta: { progressToken: 1 } }
    const call = client.stream(one, "tools/call", params)
    await call.next()
    const status = await eventually(async () => {
      const found = await statusOf(other)
      const busy = found.replicas.find(({ calls }) => calls === 1)
      return busy !== undefined && found.servers[0]?.replica != null && found
    })
    expect(status).toMatchObject({
      state: { address: `127.0.0.1:${cluster.redis.port}`, connected: true },
      replicas: [
        { self: true, address: other.url, state: "ready", calls: 0 },
        { self: false, address: one.url, state: "ready", calls: 1, sessions: 1 },
      ],
      servers: [{ server: "only" }],
    })
    // If it runs the server, the other replica has a stream there, too.
    expect(status.replicas[1]?.streams).toBeGreaterThan(0)
    expect(status.replicas.map(({ id }) => id)).toContain(status.servers[0]?.replica ?? "")
    const gauges = await Promise.all(
      cluster.replicas.map(async ({ url }) => {
        const text = await (await fetch(`${url}/metrics`)).text()
        return (name: string) => Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1])
      }),
    )
    expect(gauges.map((gauge) => gauge("svc_calls_in_flight"))).toEqual([1, 0])
    expect(gauges.map((gauge) => gauge("svc_replicas"))).toEqual([2, 2])
    expect(gauges.map((gauge) => gauge("svc_shared_state_connected"))).toEqual([1, 1])
    expect(gauges.map((gauge) => gauge("svc_servers_owned")).sort()).toEqual([0, 1])
    const { stdout } = await svcIn(other.folder)("cluster", "status")
    for (const { id } of status.replicas) expect(stdout).toContain(id)
    await client.call(one, "one_svc_release")
  })
})

async function statusOf({ folder }: Instance): Promise<ClusterReport> {
  const { stdout } = await svcIn(folder)("cluster", "status", "--json")
  return JSON.parse(stdout) as ClusterReport
}
