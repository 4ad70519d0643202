/** A replica that stands still, as a machine that hangs: what belongs to it ends, and all else goes on. */
import { describe, expect, test } from "bun:test"
import { NO_REDIS } from "../redis.ts"
import { fixture, type Instance, modern } from "./harness.ts"
import { type Event, eventsOf, REPLICA_SERVER, startCluster, WanderingClient } from "./replicas.ts"

if (NO_REDIS !== undefined) test.skip(`a replica that stands still: ${NO_REDIS}`, () => {})

const all = async (events: AsyncGenerator<Event>): Promise<Event["message"][]> => {
  const found: Event["message"][] = []
  for await (const { message } of events) found.push(message)
  return found
}

describe.skipIf(NO_REDIS !== undefined)("a replica that stands still", () => {
  test("what waits for it ends with a clear error, and tasks/list lists the tasks of the others [cluster:silent]", async () => {
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
