/** Replicas that do not answer: one that hangs, and one at a wrong address. */
import { describe, expect, test } from "bun:test"
import { NO_REDIS, startRedis } from "../redis.ts"
import { fixture, type Instance, modern, startSvc, svcIn } from "./harness.ts"
import { type Event, eventsOf, REPLICA_SERVER, startCluster, WanderingClient } from "./replicas.ts"

if (NO_REDIS !== undefined) test.skip(`a replica that hangs: ${NO_REDIS}`, () => {})

const all = async (events: AsyncGenerator<Event>): Promise<Event["message"][]> => {
  const found: Event["message"][] = []
  for await (const { message } of events) found.push(message)
  return found
}

describe.skipIf(NO_REDIS !== undefined)("a replica that hangs", () => {
  test("requests that wait for it fail with a clear error, and tasks/list lists the tasks of the others [cluster:silent]", async () => {
    const own = { ...REPLICA_SERVER, isolation: "session" }
    const work = { command: "bun", args: [fixture("tasks.ts")] }
    const config = { mcpServers: { one: REPLICA_SERVER, own, work } }
    await using cluster = await startCluster(3, { config, env: { SVC_SHUTDOWN_GRACE: "1s" } })
    const [still, other, third] = cluster.replicas as unknown as readonly [Instance, Instance, Instance]
    const client = new WanderingClient()
    await client.open(still)
    // Its process is on the replica that opened the session; `other` brings this call there.
    const held = client.stream(other, "tools/call", {
      name: "own_svc_hold",
      arguments: {},
      _meta: { progressToken: 1 },
    })
    expect((await held.next()).value.message.method).toBe("notifications/progress")
    const asker = new WanderingClient()
    await asker.open(still)
    const asking = asker.stream(still, "tools/call", { name: "one_svc_ask", arguments: {} })
    const question = (await asking.next()).value
    const worker = new WanderingClient()
    await worker.open(third, { tasks: {} })
    const made = await worker.request(third, "tools/call", {
      name: "work_svc_work",
      arguments: {},
      task: { ttl: 60_000 },
    })
    process.kill(still.pid, "SIGSTOP")
    try {
      const answers = { id: question.message.id, result: { action: "accept", content: { name: "x" } } }
      const [call, answer, list, resumed, stream, rest] = await Promise.all([
        client.post(other, { id: 50, method: "tools/call", params: { name: "own_svc_who", arguments: {} } }),
        asker.post(other, answers),
        worker.request(other, "tasks/list"),
        asker.get(third, question.id).then((response) => all(eventsOf(response))),
        all(held),
        modern(`${third.url}/mcp`, "tools/call", { name: "one_svc_who", arguments: {} }),
      ])
      const silent = expect.stringContaining("does not answer")
      expect([call.status, await call.json()]).toMatchObject([502, { id: 50, error: { message: silent } }])
      expect([answer.status, await answer.text()]).toEqual([502, silent])
      expect(stream).toMatchObject([{ error: { message: silent } }])
      expect(list.result?.tasks).toMatchObject([
        { taskId: (made.result?.task as { taskId: string } | undefined)?.taskId },
      ])
      expect(resumed).toMatchObject([{ error: { message: expect.stringContaining("is lost") } }])
      expect(rest.status).toBe(200)
      // The session goes on elsewhere.
      expect(await client.call(other, "own_svc_who")).toMatch(/^\d+$/)
    } finally {
      process.kill(still.pid, "SIGCONT")
    }
    await asking.return(undefined)
  })
})

describe.skipIf(NO_REDIS !== undefined)("a replica at a wrong address", () => {
  test("is reported, and requests that cannot be forwarded to it are refused at once [cluster:unreached]", async () => {
    await using redis = await startRedis()
    const start = (flags: readonly string[] = []) =>
      startSvc({
        config: { mcpServers: { one: REPLICA_SERVER } },
        flags,
        env: { SVC_CLUSTER: redis.url, SVC_KEYCHAIN: "off", SVC_DRAIN_DELAY: "0s" },
      })
    await using lost = await start(["--cluster-address", "http://127.0.0.1:1"])
    await using other = await start()
    const client = new WanderingClient()
    await client.open(lost)
    const asking = client.stream(lost, "tools/call", { name: "one_svc_ask", arguments: {} })
    const question = (await asking.next()).value
    const answer = await client.post(other, { id: question.message.id, result: { action: "accept", content: {} } })
    expect([answer.status, answer.headers.get("retry-after"), await answer.text()]).toEqual([
      503,
      "1",
      expect.stringContaining("cannot be reached"),
    ])
    expect(JSON.stringify((await asking.next()).value.message)).toContain("--cluster-address")
    await other.said(
      /replica r[0-9a-f]{8} cannot be reached at http:\/\/127\.0\.0\.1:1: nothing listens at 127\.0\.0\.1:1; .*--cluster-address/,
    )
    await lost.said(/cannot reach this one at the address that it announces: .*--cluster-address/)
    for (const { folder } of [lost, other]) {
      const { stdout } = await svcIn(folder)("cluster", "status")
      expect(stdout).toMatch(
        /r[0-9a-f]{8} cannot be reached at http:\/\/127\.0\.0\.1:1 by r[0-9a-f]{8}: start it with --cluster-address/,
      )
    }
  })
})
