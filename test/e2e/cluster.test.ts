/** Three replicas behind a load balancer that knows nothing of sessions. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { NO_REDIS, startRedis } from "../redis.ts"
import { connect1, connect2, connect2Legacy } from "./clients.ts"
import { eventually, fixture, type Instance, modern, startSvc } from "./harness.ts"
import {
  type ClusterUnderTest,
  type Event,
  eventsOf,
  listen,
  REPLICA_SERVER,
  startCluster,
  WanderingClient,
} from "./replicas.ts"

if (NO_REDIS !== undefined) test.skip(`replicas: ${NO_REDIS}`, () => {})

describe.skipIf(NO_REDIS !== undefined)("three replicas", () => {
  let cluster: ClusterUnderTest
  let replicas: readonly [Instance, Instance, Instance]
  beforeAll(async () => {
    const work = { command: "bun", args: [fixture("tasks.ts")] }
    const later = { command: "bun", args: [fixture("tasks.ts"), "--modern"], protocolVersion: "2026-07-28" }
    const logs = { command: "bun", args: [fixture("everything-2x.ts")] }
    cluster = await startCluster(3, { config: { mcpServers: { one: REPLICA_SERVER, work, later, logs } } })
    replicas = cluster.replicas as unknown as typeof replicas
  })
  afterAll(() => cluster?.[Symbol.asyncDispose]())

  const next = async (events: AsyncGenerator<Event>): Promise<Event> => {
    const { value, done } = await events.next()
    if (done === true) throw new Error("the stream ended")
    return value
  }

  test("a session that one replica opened is used on all, and ends on all [cluster:sessions]", async () => {
    const client = new WanderingClient()
    await client.open(replicas[0])
    const pids = new Set<string>()
    for (const replica of replicas) pids.add(await client.call(replica, "one_svc_who"))
    expect(pids.size).toBe(3)
    expect((await client.end(replicas[2])).status).toBe(204)
    for (const replica of replicas) expect((await client.post(replica, { id: 9, method: "ping" })).status).toBe(404)
  })

  test("a session that was ended while its replica restored it is not served again [cluster:sessions]", async () => {
    for (let round = 0; round < 10; round++) {
      const client = new WanderingClient()
      await client.open(replicas[0])
      const call = client.call(replicas[1], "one_svc_who").catch((error: Error) => error)
      expect((await client.end(replicas[1])).status).toBe(204)
      expect((await client.post(replicas[1], { id: 9, method: "ping" })).status).toBe(404)
      await call
    }
  })

  test("a log level that a client sets at one replica holds for its next request at another [cluster:sessions:changes]", async () => {
    for (let round = 0; round < 5; round++) {
      const client = new WanderingClient()
      await client.open(replicas[0])
      await client.request(replicas[1], "logging/setLevel", { level: "debug" })
      const params = { name: "logs_svc_test_tool_with_logging", arguments: {} }
      const received: unknown[] = []
      for await (const { message } of client.stream(replicas[0], "tools/call", params)) received.push(message.method)
      expect(received.filter((method) => method === "notifications/message")).toHaveLength(3)
      await client.end(replicas[0])
    }
  })

  test("each replica runs a tool for a body with its name and arguments, and says what is wrong with another body [cluster:calls]", async () => {
    const post = async ({ url }: Instance, body: unknown) => {
      const headers = { "content-type": "application/json" }
      const response = await fetch(`${url}/mcp`, { method: "POST", headers, body: JSON.stringify(body) })
      return { status: response.status, text: await response.text() }
    }
    for (const replica of replicas) {
      const { status, text } = await post(replica, { tool: "one_svc_who", arguments: {} })
      expect({ status, text }).toEqual({ status: 200, text: expect.stringMatching(/"text":"\d+"/) })
      expect((await post(replica, { method: "tasks/list" })).status).toBe(400)
    }
  })

  test("the answer to a server's question reaches the call on another replica [cluster:answers]", async () => {
    const client = new WanderingClient()
    await client.open(replicas[0])
    const who = await client.call(replicas[0], "one_svc_who")
    const call = client.stream(replicas[0], "tools/call", { name: "one_svc_ask", arguments: {} })
    const { message: question } = await next(call)
    expect(question.method).toBe("elicitation/create")
    const answer = { id: question.id, result: { action: "accept", content: { name: "Zoë" } } }
    expect((await client.post(replicas[1], answer)).status).toBe(202)
    const { message } = await next(call)
    expect(message.result?.content?.[0]?.text).toBe(`${who} heard {"action":"accept","content":{"name":"Zoë"}}`)
  })

  test("a cancellation reaches the call on another replica [cluster:cancel]", async () => {
    const client = new WanderingClient()
    await client.open(replicas[0])
    const call = client.stream(
      replicas[0],
      "tools/call",
      { name: "one_svc_hold", arguments: {}, _meta: { progressToken: 1 } },
      77,
    )
    expect((await next(call)).message.method).toBe("notifications/progress")
    const about = { method: "notifications/cancelled", params: { requestId: 77, reason: "enough" } }
    expect((await client.post(replicas[2], about)).status).toBe(202)
    expect((await call.next()).done).toBe(true)
    const reason = await eventually(async () => (await client.call(replicas[0], "one_svc_heard")) || undefined)
    expect(reason).toContain("enough")
  })

  test("a broken stream is resumed on another replica without a loss [cluster:resume]", async () => {
    const client = new WanderingClient()
    await client.open(replicas[0])
    const breaking = new AbortController()
    const params = { name: "one_svc_hold", arguments: {}, _meta: { progressToken: 1 } }
    const response = await client.post(replicas[0], { id: 5, method: "tools/call", params }, breaking.signal)
    const { id: last, message } = await next(eventsOf(response))
    expect(message.method).toBe("notifications/progress")
    breaking.abort()
    const resumed = eventsOf(await client.get(replicas[1], last))
    await client.call(replicas[0], "one_svc_release")
    const { message: answer } = await next(resumed)
    expect(answer.id).toBe(5)
    expect(answer.result?.content?.[0]?.text).toContain("released")
  })

  test("messages that belong to no request go to the replica with the client's stream [cluster:stream]", async () => {
    const client = new WanderingClient()
    await client.open(replicas[0])
    const [first, second] = [eventsOf(await client.get(replicas[1])), await client.get(replicas[2])]
    // The stream that was opened last replaces the one before, wherever that is.
    expect((await first.next()).done).toBe(true)
    const events = eventsOf(second)
    await client.call(replicas[0], "one_svc_log")
    const { message } = await next(events)
    expect(message).toMatchObject({ method: "notifications/message", params: { level: "info" } })
    await client.end(replicas[0])
    expect((await events.next()).done).toBe(true)
  })

  test("a change of a server's lists on one replica reaches clients with a stream on another [cluster:lists]", async () => {
    const client = new WanderingClient()
    await client.open(replicas[0])
    const legacy = eventsOf(await client.get(replicas[0]))
    const modernEvents = eventsOf(await listen(replicas[1], { toolsListChanged: true }))
    expect((await next(modernEvents)).message.method).toBe("notifications/subscriptions/acknowledged")
    await modern(`${replicas[2].url}/mcp`, "tools/call", { name: "one_svc_grow", arguments: {} })
    for (const events of [legacy, modernEvents])
      expect((await next(events)).message.method).toBe("notifications/tools/list_changed")
    await client.end(replicas[0])
  })

  test("an update of a resource on one replica reaches its subscribers on others [cluster:subscriptions]", async () => {
    const client = new WanderingClient()
    await client.open(replicas[0])
    const legacy = eventsOf(await client.get(replicas[0]))
    // The subscription is received by another replica than the one with the stream.
    await client.request(replicas[1], "resources/subscribe", { uri: "svc://one/note://1" })
    const modernEvents = eventsOf(await listen(replicas[1], { resourceSubscriptions: ["svc://one/note://1"] }))
    expect((await next(modernEvents)).message.method).toBe("notifications/subscriptions/acknowledged")
    const touch = () => modern(`${replicas[2].url}/mcp`, "tools/call", { name: "one_svc_touch", arguments: {} })
    const updated = { method: "notifications/resources/updated", params: { uri: "svc://one/note://1" } }
    const firstOf = [next(legacy), next(modernEvents)]
    let hasArrived = false
    const arrived = Promise.all(firstOf).then(() => {
      hasArrived = true
    })
    // The replicas learn of a subscription a moment later.
    await eventually(async () => {
      await touch()
      return hasArrived
    })
    await arrived
    for (const first of firstOf) expect((await first).message).toMatchObject(updated)
    await client.end(replicas[0])
  })

  test("what a subscription costs Redis does not grow with the number of subscriptions [cluster:subscriptions:many]", async () => {
    const client = new WanderingClient()
    await client.open(replicas[0])
    for (const replica of replicas) await client.request(replica, "ping")
    const sent = async () => {
      const text = String(await cluster.redis.order("INFO", "stats"))
      return Number(/^total_net_output_bytes:(\d+)/m.exec(text)?.[1])
    }
    const before = await sent()
    for (let number = 0; number < 500; number++) {
      const uri = `svc://one/note://${number}`
      const { error } = await client.request(replicas[number % 3] as Instance, "resources/subscribe", { uri })
      expect(error).toBeUndefined()
    }
    expect((await sent()) - before).toBeLessThan(2_500_000)
    await client.end(replicas[0])
  })

  test("a task is found through all replicas, on the one whose server has it [cluster:tasks]", async () => {
    const client = new WanderingClient()
    await client.open(replicas[0])
    const params = { name: "work_svc_work", arguments: {}, task: { ttl: 60_000 } }
    const made = await client.request(replicas[0], "tools/call", params)
    const { taskId } = (made.result as { task: { taskId: string } }).task
    for (const replica of replicas) {
      const { result } = await client.request(replica, "tasks/get", { taskId })
      expect(result).toMatchObject({ taskId })
    }
    const stranger = new WanderingClient()
    await stranger.open(replicas[1])
    expect((await stranger.request(replicas[1], "tasks/get", { taskId })).error?.code).toBe(-32602)
  })

  test("a modern client hears of its task on whichever replica it listens [cluster:tasks:listen]", async () => {
    const capabilities = { elicitation: {}, extensions: { "io.modelcontextprotocol/tasks": {} } }
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    const ask = async (at: Instance, method: string, params: object) =>
      (await modern(`${at.url}/mcp`, method, { ...params, _meta })).body.result
    const made = await ask(replicas[0], "tools/call", { name: "later_svc_work", arguments: { ask: true } })
    const taskId = String(made?.taskId)
    const events = eventsOf(await listen(replicas[1], { taskIds: [taskId] }, capabilities))
    expect((await next(events)).message.params).toMatchObject({ notifications: { taskIds: [taskId] } })
    expect((await next(events)).message.params).toMatchObject({ taskId, status: "input_required" })
    await ask(replicas[2], "tasks/update", { taskId, inputResponses: { q: { action: "accept" } } })
    expect((await next(events)).message.params).toMatchObject({ taskId, status: "completed" })
    await events.return(undefined)
  })

  test("health says what a replica knows of its cluster [cluster:health] [cluster:drift]", async () => {
    // The same configuration in another format.
    const [, other] = replicas
    const compact = JSON.stringify(JSON.parse(readFileSync(join(other.folder, "mcp.json"), "utf8")))
    other.write(`// ours\n${compact}`)
    await other.said("reloaded")
    const bodies = await Promise.all(
      replicas.map(
        async ({ url }) => (await (await fetch(`${url}/health`)).json()) as { cluster: { replica: string } },
      ),
    )
    const configuration = (bodies[0] as unknown as { cluster: { configuration: string } }).cluster.configuration
    expect(configuration).toMatch(/^[0-9a-f]{16}$/)
    for (const { cluster: found } of bodies)
      expect(found).toMatchObject({ state: "connected", replicas: 3, configuration, differing: [] })
    expect(new Set(bodies.map(({ cluster: { replica } }) => replica)).size).toBe(3)
    const ready = await fetch(`${replicas[0].url}/health/ready`)
    expect(await ready.json()).toMatchObject({ cluster: { state: "connected" } })
  })

  test("clients of both SDKs and eras call and answer through the load balancer [cluster:balanced]", async () => {
    const svc = { ...replicas[0], url: cluster.url }
    for (const connect of [connect1, connect2Legacy, connect2]) {
      await using client = await connect(svc, () => "accept")
      const pids = new Set<string>()
      for (let count = 0; count < 6; count++) {
        const { content } = await client.call("one_svc_ask")
        expect(content[0]?.text).toContain('"action":"accept"')
        pids.add(content[0]?.text.split(" ")[0] ?? "")
      }
      expect(pids.size).toBeGreaterThan(1)
    }
  })
})

describe.skipIf(NO_REDIS !== undefined)("two replicas", () => {
  test("a client is refused subscriptions beyond those that replicas can exchange [cluster:subscriptions:bounded]", async () => {
    await using cluster = await startCluster(2)
    const [one] = cluster.replicas as [Instance, Instance]
    const client = new WanderingClient()
    await client.open(one)
    const uriOf = (number: number) => `svc://one/note://${number}-`.padEnd(4000, "x")
    const subscribe = (number: number) => client.request(one, "resources/subscribe", { uri: uriOf(number) })
    let count = 0
    let refusal = (await subscribe(count)).error
    while (refusal === undefined) refusal = (await subscribe(++count)).error
    // Two MiB of URIs.
    expect([count > 500, count < 600, refusal.message]).toEqual([
      true,
      true,
      expect.stringContaining("try again later"),
    ])
    const acknowledged = async (number: number) => {
      const ending = new AbortController()
      const options = { signal: ending.signal }
      const events = eventsOf(await listen(one, { resourceSubscriptions: [uriOf(number)] }, {}, options))
      const { message } = (await events.next()).value as Event
      ending.abort()
      const { notifications } = message.params as { notifications: { resourceSubscriptions?: readonly string[] } }
      return notifications.resourceSubscriptions
    }
    expect(await acknowledged(count)).toBeUndefined()
    await client.request(one, "resources/unsubscribe", { uri: uriOf(0) })
    expect(await acknowledged(count)).toEqual([uriOf(count)])
    await eventually(async () => (await subscribe(count)).error === undefined)
  })

  test("replicas count the calls of a client together [cluster:limits]", async () => {
    await using cluster = await startCluster(2, { flags: ["--session-rate-limit", "4"] })
    const client = new WanderingClient()
    const [one, other] = cluster.replicas as [Instance, Instance]
    await client.open(one)
    const statuses: number[] = []
    for (const replica of [one, other, one, other, one, other]) {
      const params = { name: "one_svc_who", arguments: {} }
      statuses.push((await client.post(replica, { id: statuses.length, method: "tools/call", params })).status)
    }
    expect(statuses).toEqual([200, 200, 200, 200, 429, 429])
    await cluster.redis.kill()
    expect(await client.call(other, "one_svc_who")).toMatch(/^\d+$/)
  })
})

describe.skipIf(NO_REDIS !== undefined)("while Redis is away", () => {
  test("requests that need no shared state continue, others are told when to try again, and svc recovers by itself [cluster:away]", async () => {
    await using cluster = await startCluster(2)
    const [one, other] = cluster.replicas as [Instance, Instance]
    const client = new WanderingClient()
    await client.open(one)
    await cluster.redis.kill()
    // A session that the replica knows, and a request that needs none.
    expect(await client.call(one, "one_svc_who")).toMatch(/^\d+$/)
    for (const { url } of [one, other]) {
      const { status, body } = await modern(`${url}/mcp`, "tools/call", { name: "one_svc_who", arguments: {} })
      expect([status, body.error]).toEqual([200, undefined])
    }
    // What the replica does not know: a session, a new one, the end of one, and a call to cancel.
    const cancelled = { method: "notifications/cancelled", params: { requestId: 12345 } }
    const refused = [
      await client.post(one, cancelled),
      await client.post(other, { id: 1, method: "ping" }),
      await new WanderingClient().post(one, { id: 1, method: "initialize", params: { protocolVersion: "2025-11-25" } }),
      await client.end(one),
    ]
    for (const response of refused) {
      expect([response.status, Number(response.headers.get("retry-after"))]).toEqual([503, expect.any(Number)])
      expect(await response.text()).toContain("try again in a moment")
    }
    // svc hears of the closed connection a moment after a command has failed.
    await eventually(async () => {
      const ready = await fetch(`${one.url}/health/ready`)
      expect(ready.status).toBe(200)
      return ((await ready.json()) as { cluster: { state: string } }).cluster.state === "away"
    })
    expect(one.stderr()).toContain(`the shared state at 127.0.0.1:${cluster.redis.port} cannot be reached`)
    await cluster.redis.start()
    // Redis kept nothing: the replica that knows the session stores it again.
    await eventually(async () => (await client.post(other, { id: 2, method: "ping" })).ok)
    expect(await client.call(other, "one_svc_who")).toMatch(/^\d+$/)
    expect((await client.end(other)).status).toBe(204)
    await eventually(async () => (await client.post(one, { id: 3, method: "ping" })).status === 404)
  })

  test("clients of other replicas hear afterwards of a list that changed meanwhile [cluster:lists:away]", async () => {
    await using cluster = await startCluster(2)
    const [one, other] = cluster.replicas as [Instance, Instance]
    const changes = eventsOf(await listen(other, { toolsListChanged: true }))
    expect((await changes.next()).value.message.method).toBe("notifications/subscriptions/acknowledged")
    await cluster.redis.kill()
    await modern(`${one.url}/mcp`, "tools/call", { name: "one_svc_grow", arguments: {} })
    for (const { url } of [one, other])
      await eventually(async () => (await (await fetch(`${url}/health/ready`)).text()).includes('"state":"away"'))
    await cluster.redis.start()
    expect((await changes.next()).value.message.method).toBe("notifications/tools/list_changed")
  })

  test("replicas share again what was cleared while they run, and report a Redis that refuses changes [cluster:refusing]", async () => {
    const only = { ...REPLICA_SERVER, replicas: "one" }
    const config = { mcpServers: { one: REPLICA_SERVER, only } }
    await using cluster = await startCluster(2, { config })
    const [one, other] = cluster.replicas as [Instance, Instance]
    const client = new WanderingClient()
    await client.open(one)
    await client.call(other, "one_svc_who")
    await cluster.redis.order("FLUSHALL")
    // A change before the replicas have noticed ends the session on none.
    await client.request(one, "resources/subscribe", { uri: "svc://one/note://1" })
    for (const at of [one, other]) expect((await client.post(at, { id: 1, method: "ping" })).status).toBe(200)
    const keyed = async (pattern: string) => ((await cluster.redis.order("KEYS", pattern)) as string[])[0]
    const record = await eventually(() => keyed("svc:session:*"))
    await eventually(async () => (await cluster.redis.order("HEXISTS", record ?? "", 's["one","note://1"]')) === 1)
    await eventually(() => keyed("svc:lease:*"))
    const pid = await client.call(one, "only_svc_who")
    await using late = await startSvc({ config, env: { SVC_CLUSTER: cluster.redis.url, SVC_DRAIN_DELAY: "0s" } })
    // It has the keys of the others: the owner admits it.
    await eventually(async () => (await client.call(late, "only_svc_who")) === pid)
    await cluster.redis.order("CONFIG", "SET", "maxmemory", "100kb")
    const refused = await new WanderingClient().post(one, {
      id: 1,
      method: "initialize",
      params: { protocolVersion: "2025-11-25" },
    })
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "2"])
    const stateOf = async () => {
      const body = (await (await fetch(`${one.url}/health/ready`)).json()) as { cluster: { state: string } }
      return body.cluster.state
    }
    expect(await stateOf()).toBe("refusing")
    // What was there before goes on.
    for (const at of [one, other, late]) expect(await client.call(at, "only_svc_who")).toBe(pid)
    await cluster.redis.order("CONFIG", "SET", "maxmemory", "0")
    await eventually(async () => (await stateOf()) === "connected")
    await new WanderingClient().open(one)
  })

  test("a replica starts without it, and serves requests that do not need it", async () => {
    await using redis = await startRedis()
    await redis.kill()
    await using svc = await startSvc({
      config: { mcpServers: { one: REPLICA_SERVER } },
      env: { SVC_CLUSTER: redis.url },
    })
    const { status, body } = await modern(`${svc.url}/mcp`, "tools/call", { name: "one_svc_who", arguments: {} })
    expect([status, body.error]).toEqual([200, undefined])
    await redis.start()
    const client = new WanderingClient()
    await eventually(() =>
      client.open(svc).then(
        () => true,
        () => false,
      ),
    )
    expect(await client.call(svc, "one_svc_who")).toMatch(/^\d+$/)
  })
})

describe.skipIf(NO_REDIS !== undefined)("three replicas of which one dies", () => {
  /** Returns the next log message; a replica whose servers connect tells of their lists at any time. */
  const logged = async (events: AsyncGenerator<Event>): Promise<Event["message"]> => {
    const { value, done } = await events.next()
    if (done === true) throw new Error("the stream ended")
    return value.message.method === "notifications/message" ? value.message : logged(events)
  }

  test("a client whose stream was there reopens it on another, and receives messages that belong to no request [cluster:stream:dies]", async () => {
    await using cluster = await startCluster(3)
    const [one, holder, next] = cluster.replicas as unknown as readonly [Instance, Instance, Instance]
    const client = new WanderingClient()
    await client.open(one)
    const before = eventsOf(await client.get(holder))
    await client.call(one, "one_svc_log")
    await logged(before)
    const broken = before.next().catch((error: Error) => error)
    holder.signal("SIGKILL")
    await holder.exited
    await broken
    const after = eventsOf(await client.get(next))
    const pid = await client.call(one, "one_svc_who")
    await client.call(one, "one_svc_log")
    expect((await logged(after)).params).toMatchObject({ data: pid })
    expect((await client.end(one)).status).toBe(204)
    expect((await after.next()).done).toBe(true)
  })
})

describe.skipIf(NO_REDIS !== undefined)("three replicas with a budget for results", () => {
  test("a large result is read through any replica while the one that stored it lives [cluster:results]", async () => {
    const large = { command: "bun", args: [fixture("large.ts"), "--size", "60000"] }
    await using cluster = await startCluster(3, {
      config: { mcpServers: { large } },
      flags: ["--result-budget", "4000", "--tools", "search"],
    })
    const replicas = cluster.replicas as unknown as readonly [Instance, Instance, Instance]
    const client = new WanderingClient()
    await client.open(replicas[0])
    const textOf = (answer: unknown) => JSON.stringify(answer)
    const idIn = (answer: unknown) => /r[0-9a-f]{40}/.exec(textOf(answer))?.[0] ?? ""
    const call = { name: "call_tool", arguments: { name: "large_svc_text", arguments: {} } }
    const id = idIn(await client.request(replicas[0], "tools/call", call))
    const args = { id, range: "0-99" }
    const whole = { name: "read_result", arguments: args }
    const parts = await Promise.all(replicas.map((replica) => client.request(replica, "tools/call", whole)))
    const wrapped = { name: "call_tool", arguments: { name: "read_result", arguments: args } }
    parts.push(await client.request(replicas[1], "tools/call", wrapped))
    expect(new Set(parts.map(({ result }) => textOf(result))).size).toBe(1)
    expect(parts[0]?.result?.content?.[0]?.text.length).toBe(100)
    for (const replica of replicas) {
      const { result } = await client.request(replica, "resources/read", { uri: `svc://results/${id}?range=0-99` })
      expect(textOf(result)).toContain('"svc/size"')
    }
    // A modern client is known by its principal; others have no such result.
    const modernId = idIn((await modern(`${replicas[2].url}/mcp`, "tools/call", call)).body)
    const read = { name: "read_result", arguments: { id: modernId, range: "0-99" } }
    expect(textOf((await modern(`${replicas[1].url}/mcp`, "tools/call", read)).body)).toContain("bytes 0-99 of")
    const stranger = new WanderingClient()
    await stranger.open(replicas[1])
    expect(textOf(await stranger.request(replicas[1], "tools/call", whole))).toContain("belongs to another client")
    replicas[0].signal("SIGKILL")
    await replicas[0].exited
    expect(textOf(await client.request(replicas[1], "tools/call", whole))).toContain("that stored it is gone")
  })
})
