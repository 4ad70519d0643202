/** Servers with `isolation: "session"` on several replicas: the session's process is reached from all of them. */
import { describe, expect, test } from "bun:test"
import { NO_REDIS } from "../redis.ts"
import { eventually, type Instance } from "./harness.ts"
import { type Message, REPLICA_SERVER, startCluster, WanderingClient } from "./replicas.ts"

if (NO_REDIS !== undefined) test.skip(`processes of sessions: ${NO_REDIS}`, () => {})

describe.skipIf(NO_REDIS !== undefined)("a session's own process", () => {
  test("it is the same through any replica; when its replica has died, the client is notified and the session continues [cluster:isolation]", async () => {
    const own = { ...REPLICA_SERVER, isolation: "session" }
    await using cluster = await startCluster(3, { config: { mcpServers: { own } } })
    const [one, two, three] = cluster.replicas as [Instance, Instance, Instance]
    const clients = [new WanderingClient(), new WanderingClient()] as const
    for (const client of clients) await client.open(one)
    const [first, second] = clients
    const pids = []
    for (const at of [two, three, one, two]) pids.push(await first.call(at, "own_svc_who"))
    expect(new Set(pids).size).toBe(1)
    expect(await second.call(three, "own_svc_who")).not.toBe(pids[0])
    const batch = [{ id: "b", method: "tools/call", params: { name: "own_svc_who", arguments: {} } }]
    const [answer] = (await (await first.post(three, batch)).json()) as [Message]
    expect(answer.result?.content?.[0]?.text).toBe(pids[0])
    // A question of the process, answered at a third replica.
    const call = first.stream(two, "tools/call", { name: "own_svc_ask", arguments: {} })
    const question = (await call.next()).value.message
    expect(question.method).toBe("elicitation/create")
    await first.post(three, { id: question.id, result: { action: "decline" } })
    expect((await call.next()).value.message.result.content[0].text).toStartWith(`${pids[0]} heard`)
    one.signal("SIGKILL")
    await one.exited
    const said: Message[] = []
    const next = await eventually(async () => {
      for await (const { message } of first.stream(two, "tools/call", { name: "own_svc_who", arguments: {} }))
        said.push(message)
      const text = said.at(-1)?.result?.content?.[0]?.text
      return text !== undefined && /^\d+$/.test(text) && text
    })
    expect(next).not.toBe(pids[0])
    expect(JSON.stringify(said)).toContain("ended with the replica of svc that ran it; svc starts a new one")
    expect(await first.call(three, "own_svc_who")).toBe(next)
  })
})
