/** Servers with `"replicas": "one"` on three replicas: one process for all, which moves to another replica when its own ends. */
import { describe, expect, test } from "bun:test"
import { NO_REDIS } from "../redis.ts"
import { connect1, connect2 } from "./clients.ts"
import { eventually, fixture, freshEnv, type Instance, modern, processes, runSvc, startSvc, svcIn } from "./harness.ts"
import { type ClusterUnderTest, eventsOf, listen, REPLICA_SERVER, startCluster, WanderingClient } from "./replicas.ts"

if (NO_REDIS !== undefined) test.skip(`servers that run once: ${NO_REDIS}`, () => {})

type Three = readonly [Instance, Instance, Instance]

const call = async ({ url }: Pick<Instance, "url">, tool: string): Promise<string> => {
  const { body } = await modern(`${url}/mcp`, "tools/call", { name: `only_svc_${tool}`, arguments: {} })
  const [content] = (body.result?.content ?? []) as readonly { readonly text: string }[]
  return content?.text ?? JSON.stringify(body)
}
const who = (at: Pick<Instance, "url">): Promise<string> => call(at, "who")

/** Starts replicas, and returns when all call the one process. */
async function startOne(count: number, mark: string, env: Record<string, string> = {}): Promise<ClusterUnderTest> {
  const only = { ...REPLICA_SERVER, args: [...REPLICA_SERVER.args, mark], replicas: "one" }
  const cluster = await startCluster(count, { config: { mcpServers: { only } }, env })
  await settled(cluster.replicas)
  return cluster
}

/** Returns the process that all these replicas call. */
const settled = (replicas: readonly Instance[], ms?: number): Promise<string> =>
  eventually(async () => {
    const found = new Set(await Promise.all(replicas.map(who)))
    const [pid = ""] = found
    return found.size === 1 && /^\d+$/.test(pid) && pid
  }, ms)

/** Returns the replica whose child a process is. */
const ownerOf = (pid: string, replicas: readonly Instance[]): Instance => {
  const owner = replicas.find(
    (replica) => Bun.spawnSync(["ps", "-o", "ppid=", "-p", pid]).stdout.toString().trim() === String(replica.pid),
  )
  if (owner === undefined) throw new Error(`no replica started ${pid}`)
  return owner
}

/** Expects the commands to show a replica without its shared state, at `place`, and without its only server. */
async function showsLoss({ folder, url }: Pick<Instance, "folder" | "url">, place: string): Promise<void> {
  const run = svcIn(folder)
  const { code, stdout } = await eventually(async () => {
    const shown = await run("health")
    return shown.stdout.includes("nothing listens") && shown
  })
  expect([code, stdout]).toEqual([69, expect.stringContaining("0 of 1 server healthy")])
  expect(stdout).toMatch(/only +no owner +runs on one replica at a time/)
  const why = `the shared state at ${place} cannot be reached: nothing listens at ${place}`
  expect(stdout.replace(/\s+/g, " ")).toContain(why)
  const { servers, warnings } = JSON.parse((await run("mcp", "status", "--json")).stdout)
  expect(servers).toMatchObject([{ name: "only", state: "no owner", instances: [] }])
  expect(warnings).toEqual([expect.stringContaining(why)])
  const { findings } = JSON.parse((await run("doctor", "--json")).stdout)
  expect(findings).toContainEqual(expect.objectContaining({ check: "shared-state", severity: "error" }))
  expect((await run("cluster", "status")).stdout).toMatch(/away for \d+ m?s\n+the shared state at /)
  expect(JSON.parse((await runSvc(["ps", "--json"], freshEnv(folder))).stdout).running).toContainEqual(
    expect.objectContaining({ address: `${url}/mcp`, servers: { total: 1, ready: 0 } }),
  )
}

describe.skipIf(NO_REDIS !== undefined)("a server that runs once", () => {
  test("all replicas use its one process: calls, questions, progress, cancellation, changes [cluster:one]", async () => {
    const mark = `svc-one-${crypto.randomUUID()}`
    await using cluster = await startOne(3, mark)
    const replicas = cluster.replicas as unknown as Three
    expect(processes(mark).length).toBe(1)
    const pid = await who(replicas[0])
    for (const svc of replicas)
      for (const connect of [connect1, connect2]) {
        await using client = await connect(svc, () => "accept")
        const { content } = await client.call("only_svc_ask")
        expect(content[0]?.text).toStartWith(`${pid} heard {"action":"accept"`)
      }
    const client = new WanderingClient()
    await client.open(replicas[0])
    const tools = async (at: Instance) => JSON.stringify((await client.request(at, "tools/list")).result)
    await client.call(replicas[1], "only_svc_grow")
    for (const replica of replicas) await eventually(async () => (await tools(replica)).includes("only_svc_grown"))
    const owner = ownerOf(pid, replicas)
    const other = replicas.find((replica) => replica !== owner) as Instance
    const meta = { _meta: { progressToken: 1 } }
    const stream = client.stream(other, "tools/call", { name: "only_svc_hold", arguments: {}, ...meta }, 77)
    expect((await stream.next()).value.message.params.message).toBe(`${pid} holds`)
    await client.post(replicas[0], { method: "notifications/cancelled", params: { requestId: 77, reason: "enough" } })
    expect((await stream.next()).done).toBe(true)
    await eventually(async () => (await client.call(replicas[2], "only_svc_heard")) !== "")
  })

  test("a legacy task has its server's name, and is found and answered, whichever replicas create and ask for it [cluster:one:tasks]", async () => {
    const only = { command: "bun", args: [fixture("tasks.ts")], replicas: "one" }
    await using cluster = await startCluster(2, { config: { mcpServers: { only } } })
    const [one, other] = cluster.replicas as [Instance, Instance]
    const work = async (client: WanderingClient, at: Instance, args: object, more: object = {}) => {
      const task = { ttl: 60_000 }
      const made = await client.request(at, "tools/call", { name: "only_svc_work", arguments: args, task, ...more })
      return String((made.result?.task as { readonly taskId?: string } | undefined)?.taskId)
    }
    for (const [at, next] of [
      [one, other],
      [other, one],
    ] as const) {
      const { client, capabilities } = await eventually(async () => {
        const client = new WanderingClient()
        const { capabilities } = await client.open(at, { tasks: {}, elicitation: {} })
        return capabilities.tasks !== undefined && { client, capabilities }
      })
      expect(capabilities.tasks).toEqual({ list: {}, cancel: {}, requests: { tools: { call: {} } } })
      const plain = await work(client, at, {})
      expect(plain).toStartWith("only_svc_t")
      for (const to of [at, next]) {
        expect((await client.request(to, "tasks/get", { taskId: plain })).result).toMatchObject({ taskId: plain })
        expect((await client.request(to, "tasks/list")).result?.tasks).toMatchObject([{ taskId: plain }])
      }
      const stranger = new WanderingClient()
      await stranger.open(next, { tasks: {} })
      expect((await stranger.request(next, "tasks/get", { taskId: plain })).error?.code).toBe(-32602)
      expect((await client.request(next, "tasks/cancel", { taskId: plain })).result).toMatchObject({ taskId: plain })

      const leaving = new AbortController()
      const heard = eventsOf(await client.get(next, undefined, leaving.signal))
      const asking = await work(client, at, { ask: true }, { _meta: { progressToken: "p" } })
      const result = client.request(next, "tasks/result", { taskId: asking })
      const related = { "io.modelcontextprotocol/related-task": { taskId: asking } }
      // What names a task belongs to no single request.
      const question = (await heard.next()).value?.message
      expect(question).toMatchObject({ method: "elicitation/create", params: { _meta: related } })
      await client.post(at, { id: question?.id, result: { action: "accept", content: {} } })
      expect((await result).result).toMatchObject({
        content: [{ text: 'done: {"action":"accept","content":{}}' }, { uri: "svc://only/work://result" }],
        _meta: related,
      })
      expect([(await heard.next()).value?.message, (await heard.next()).value?.message]).toMatchObject([
        { method: "notifications/progress", params: { progressToken: "p", _meta: related } },
        { method: "notifications/tasks/status", params: { taskId: asking, status: "completed" } },
      ])
      leaving.abort()
      await heard.return(undefined).catch(() => undefined)
    }
  })

  test("with --tools search, a legacy task that call_tool creates belongs to its session as any other, whichever replicas create and ask for it [cluster:one:tasks]", async () => {
    const only = { command: "bun", args: [fixture("tasks.ts")], replicas: "one" }
    await using cluster = await startCluster(2, { config: { mcpServers: { only } }, flags: ["--tools", "search"] })
    for (const at of cluster.replicas) {
      const client = await eventually(async () => {
        const client = new WanderingClient()
        const { capabilities } = await client.open(at, { tasks: {} })
        return capabilities.tasks !== undefined && client
      })
      for (const written of [{ name: "only_svc_work" }, { server: "only", tool: "work", args: {} }]) {
        const params = { name: "call_tool", arguments: written, task: { ttl: 60_000 } }
        const made = (await client.request(at, "tools/call", params)).result?.task as { readonly taskId: string }
        for (const to of cluster.replicas)
          expect((await client.request(to, "tasks/get", made)).result).toMatchObject({ taskId: made.taskId })
      }
    }
  })

  test("a modern task is found and followed, whichever replicas create, ask for and listen to it [cluster:one:tasks]", async () => {
    const only = {
      command: "bun",
      args: [fixture("tasks.ts"), "--modern"],
      protocolVersion: "2026-07-28",
      replicas: "one",
    }
    await using cluster = await startCluster(2, { config: { mcpServers: { only } } })
    const [one, other] = cluster.replicas as [Instance, Instance]
    const capabilities = { elicitation: {}, extensions: { "io.modelcontextprotocol/tasks": {} } }
    const _meta = { "io.modelcontextprotocol/clientCapabilities": capabilities }
    const ask = async (at: Instance, method: string, params: object) =>
      (await modern(`${at.url}/mcp`, method, { ...params, _meta })).body.result
    for (const [at, next] of [
      [one, other],
      [other, one],
    ] as const) {
      const taskId = await eventually(async () => {
        const made = await ask(at, "tools/call", { name: "only_svc_work", arguments: { ask: true } })
        return made?.resultType === "task" && String(made.taskId)
      })
      expect(taskId).toStartWith("only_svc_t")
      const events = eventsOf(await listen(next, { taskIds: [taskId] }, capabilities))
      expect((await events.next()).value?.message.params).toMatchObject({ notifications: { taskIds: [taskId] } })
      expect((await events.next()).value?.message.params).toMatchObject({ taskId, status: "input_required" })
      await ask(next, "tasks/update", { taskId, inputResponses: { q: { action: "accept" } } })
      expect((await events.next()).value?.message.params).toMatchObject({ taskId, status: "completed" })
      await events.return(undefined)
      for (const to of [at, next]) expect(await ask(to, "tasks/get", { taskId })).toMatchObject({ taskId })
    }
  })

  test("the replica that runs it counts no calls that another replica has counted [cluster:one:limits]", async () => {
    const limit = 6
    const mark = `svc-one-${crypto.randomUUID()}`
    const only = { ...REPLICA_SERVER, args: [...REPLICA_SERVER.args, mark], replicas: "one" }
    const flags = ["--session-rate-limit", String(limit)]
    await using cluster = await startCluster(3, { config: { mcpServers: { only } }, flags })
    const answers = new Set<string>()
    for (const replica of cluster.replicas) {
      // Each session may make so many calls; together they are more than one client may make.
      const client = new WanderingClient()
      await client.open(replica)
      const tools = async () => JSON.stringify((await client.request(replica, "tools/list")).result)
      await eventually(async () => (await tools()).includes("only_svc_who"))
      for (let count = 0; count < limit; count++) answers.add(await client.call(replica, "only_svc_who"))
    }
    expect([...answers]).toEqual(processes(mark).map(String))
  })

  test("only the client that was asked can answer a question [cluster:one:clients]", async () => {
    const only = { ...REPLICA_SERVER, replicas: "one" }
    await using cluster = await startCluster(2, { config: { mcpServers: { only } }, flags: ["--auth"] })
    const [one, other] = cluster.replicas as [Instance, Instance]
    const bearer = async (name: string) => {
      const args = ["auth", "token", "create", name, "--config-dir", one.folder]
      return { authorization: `Bearer ${(await runSvc(args, freshEnv(one.folder))).stdout.trim()}` }
    }
    const [mine, yours] = [await bearer("mine"), await bearer("yours")]
    const _meta = { "io.modelcontextprotocol/clientCapabilities": { elicitation: {} } }
    const ask = (at: Instance, who: Record<string, string>, more: object = {}) =>
      modern(`${at.url}/mcp`, "tools/call", { name: "only_svc_ask", arguments: {}, _meta, ...more }, who)
    for (const at of [one, other]) {
      const { requestState } = await eventually(async () => {
        const { result } = (await ask(at, mine)).body
        return result?.resultType === "input_required" && result
      })
      const answer = { requestState, inputResponses: { q1: { action: "accept", content: { name: "me" } } } }
      for (const to of [one, other]) expect((await ask(to, yours, answer)).body.error?.code).toBe(-32602)
      expect(JSON.stringify((await ask(other, mine, answer)).body)).toContain("heard")
    }
  })

  test("a question reaches no other client, wherever the clients' calls arrive [cluster:one:clients]", async () => {
    await using cluster = await startOne(3, `svc-one-${crypto.randomUUID()}`)
    const replicas = cluster.replicas as readonly Instance[]
    for (const one of replicas)
      for (const other of replicas) {
        // Programs of two people: equal, but for their sessions.
        const [mine, yours] = [new WanderingClient(), new WanderingClient()]
        await mine.open(one)
        await yours.open(other)
        const hold = yours.request(other, "tools/call", { name: "only_svc_hold", arguments: {} })
        await eventually(async () => (await mine.call(one, "only_svc_count")) === "1")
        const asking = mine.stream(one, "tools/call", { name: "only_svc_ask", arguments: {} })
        const shown = asking.next()
        await mine.call(one, "only_svc_release")
        expect(JSON.stringify(await hold)).toContain("released")
        // Held until only this client's call was left.
        const held = (await shown).value?.message
        expect(held?.method).toBe("elicitation/create")
        await mine.post(one, { id: held?.id, result: { action: "decline" } })
        expect(JSON.stringify((await asking.next()).value)).toContain("decline")
        // Several calls of one client: the oldest brings it the question.
        const own = mine.stream(one, "tools/call", { name: "only_svc_hold", arguments: {} })
        const brought = own.next()
        await eventually(async () => (await mine.call(one, "only_svc_count")) === "1")
        const asked = mine.call(one, "only_svc_ask")
        const question = (await brought).value?.message
        expect(question?.method).toBe("elicitation/create")
        await mine.post(one, { id: question?.id, result: { action: "decline" } })
        expect(await asked).toContain("decline")
        await mine.call(one, "only_svc_release")
        expect(JSON.stringify((await own.next()).value)).toContain("released")
        await Promise.all([mine.end(one), yours.end(other)])
      }
  })

  test("every replica refuses a forged credential of another one", async () => {
    const mark = `svc-one-${crypto.randomUUID()}`
    await using cluster = await startOne(2, mark)
    for (const { url } of cluster.replicas) {
      const { status, body } = await modern(`${url}/servers/only/mcp`, "tools/list", {}, { "svc-replica": "1.forged" })
      expect([status, JSON.stringify(body)]).toEqual([503, expect.stringContaining("currently not on this one")])
      const headers = { "svc-replica": "1.forged" }
      expect((await fetch(`${url}/health/live`, { headers })).status).toBe(200)
      // The check of the Host header is not skipped.
      expect((await fetch(`${url}/mcp`, { headers: { ...headers, host: "evil.example" } })).status).toBe(403)
    }
  })

  test("when its replica is killed, calls wait until another runs it, within five seconds [cluster:one:passes] [cluster:one:waits]", async () => {
    const mark = `svc-one-${crypto.randomUUID()}`
    const only = { ...REPLICA_SERVER, args: [...REPLICA_SERVER.args, mark], replicas: "one" }
    await using cluster = await startCluster(3, { config: { mcpServers: { only } } })
    const replicas = cluster.replicas as unknown as Three
    // The first calls of replicas that say that they are ready.
    const [pid = "", ...others] = new Set(await Promise.all(replicas.map(who)))
    expect([pid, others]).toEqual([expect.stringMatching(/^\d+$/), []])
    const owner = ownerOf(pid, replicas)
    const rest = replicas.filter((replica) => replica !== owner)
    owner.signal("SIGKILL")
    await Promise.all(rest.map((replica) => replica.said("next try in")))
    const next = new Set(await Promise.all([...rest, ...rest].map(who)))
    expect([...next]).toEqual(processes(mark).map(String))
    expect(next).not.toContain(pid)
  })

  test("it sleeps on its replica, which wakes it for calls from all of them and keeps its lease [cluster:one:sleeps]", async () => {
    const mark = `svc-one-${crypto.randomUUID()}`
    const only = { ...REPLICA_SERVER, args: [...REPLICA_SERVER.args, mark], replicas: "one", idleTimeout: 1000 }
    await using cluster = await startCluster(3, { config: { mcpServers: { only } } })
    const replicas = cluster.replicas as unknown as Three
    const owner = ownerOf(await settled(replicas), replicas)
    const others = replicas.filter((replica) => replica !== owner)
    const sleeps = () => eventually(() => processes(mark).length === 0)
    const lists = async (at: Instance) => JSON.stringify((await modern(`${at.url}/mcp`, "tools/list", {})).body)
    const states = async ({ folder, url }: Instance) => {
      const { servers } = JSON.parse((await svcIn(folder)("mcp", "status", "--json")).stdout)
      const health = (await (await fetch(`${url}/health`)).json()) as { servers: { details: { asleep?: true }[] } }
      return `${servers[0].state} ${health.servers.details[0]?.asleep}`
    }
    const [away] = others as [Instance, ...Instance[]]
    const there = `only runs on the replica at ${owner.url}, and only that one has its process: run \`svc mcp`
    for (const command of ["sleep", "restart"]) {
      const refused = await svcIn(away.folder)("mcp", command, "only")
      expect([refused.code, refused.stderr]).toEqual([64, expect.stringContaining(`${there} ${command} only\` there`)])
    }
    const show = (wanted: string) =>
      eventually(async () => (await Promise.all(replicas.map(states))).every((shown) => shown === wanted))
    for (const replica of replicas) {
      await sleeps()
      if (replica === replicas[0]) {
        await show("asleep true")
        expect((await svcIn(away.folder)("mcp", "start", "only")).stderr).toContain(`${there} start only\` there`)
        expect(processes(mark)).toEqual([])
      }
      // Neither lists nor health wake it.
      for (const each of replicas) {
        expect(await lists(each)).toContain("only_svc_who")
        expect((await fetch(`${each.url}/health/ready`)).status).toBe(200)
      }
      expect(processes(mark)).toEqual([])
      const [pid, ...rest] = await Promise.all([who(replica), who(replica), who(replica)])
      expect(rest).toEqual([pid as string, pid as string])
      expect(ownerOf(pid as string, replicas)).toBe(owner)
    }
    await sleeps()
    owner.signal("SIGSTOP")
    const next = await eventually(async () => {
      const found = await who(others[0] as Instance)
      return /^\d+$/.test(found) && found
    }, 15_000)
    // The suspended owner must not wake a second process.
    const [, late] = [owner.signal("SIGCONT"), await Promise.all([who(owner), who(owner)])]
    for (const pid of late) expect(ownerOf(pid, others)).toBe(ownerOf(next, others))
    await sleeps()
    ownerOf(await who(owner), others).signal("SIGKILL")
    await eventually(async () => /^\d+$/.test(await who(owner)), 15_000)
  })

  test("a replica that was suspended stops the server if another one runs it by now, and its late answers reach no client [cluster:one:fencing]", async () => {
    const mark = `svc-one-${crypto.randomUUID()}`
    await using cluster = await startOne(2, mark)
    const pid = await who(cluster.replicas[0] as Instance)
    const owner = ownerOf(pid, cluster.replicas)
    const other = cluster.replicas.find((replica) => replica !== owner) as Instance
    const held = cluster.replicas.map((replica) => call(replica, "hold"))
    // Both calls are at the server.
    await eventually(async () => (await call(owner, "count")) === "2")
    owner.signal("SIGSTOP")
    const next = await eventually(async () => {
      const found = await who(other)
      return /^\d+$/.test(found) && found !== pid && found
    }, 10_000)
    owner.signal("SIGCONT")
    expect(await who(owner)).toBe(next)
    expect(await Promise.all(held)).toEqual([expect.stringContaining("only"), expect.stringContaining("only")])
    await eventually(() => processes(mark).length === 1)
    expect(processes(mark).map(String)).toEqual([next])
  })

  test("a replica that stops hands it over when its calls have ended, and no call fails [cluster:one:leaves]", async () => {
    // A server for each question: svc could not tell whose it is.
    const names = ["only", "two", "three", "four"]
    const marks = names.map(() => `svc-one-${crypto.randomUUID()}`)
    const serverOf = (mark: string | undefined) => ({
      ...REPLICA_SERVER,
      args: [...REPLICA_SERVER.args, mark],
      replicas: "one",
    })
    const mcpServers = Object.fromEntries(names.map((name, index) => [name, serverOf(marks[index])]))
    const env = { SVC_SHUTDOWN_GRACE: "60s", SVC_STARTUP_WAIT: "1s" }
    await using cluster = await startCluster(2, { config: { mcpServers }, env })
    const [owner, first] = cluster.replicas as unknown as readonly [Instance, Instance]
    // The first one owns them all.
    first.signal("SIGTERM")
    await first.exited
    await eventually(() => marks.every((mark) => processes(mark).length === 1))
    const pids = marks.map((mark) => String(processes(mark)[0]))
    const all = { SVC_CLUSTER: cluster.redis.url, SVC_KEYCHAIN: "off", SVC_DRAIN_DELAY: "0s", ...env }
    await using other = await startSvc({ config: { mcpServers }, env: all })
    await eventually(async () => (await who(other)) === pids[0])
    // Questions are open: to clients of both eras, at both replicas.
    const accept = { action: "accept", content: { name: "x" } }
    const ask = (name: string) => ({ name: `${name}_svc_ask`, arguments: {} })
    const askLegacy = async (at: Instance, name: string) => {
      const client = new WanderingClient()
      await client.open(at)
      const stream = client.stream(at, "tools/call", ask(name))
      const { id } = (await stream.next()).value.message
      return async () => {
        await client.post(other, { id, result: accept })
        return JSON.stringify((await stream.next()).value.message)
      }
    }
    const askModern = async (at: Instance, name: string) => {
      const _meta = { "io.modelcontextprotocol/clientCapabilities": { elicitation: {} } }
      const params = { ...ask(name), _meta }
      const { requestState } = (await modern(`${at.url}/mcp`, "tools/call", params)).body.result ?? {}
      const answer = { requestState, inputResponses: { q1: accept } }
      return async () => JSON.stringify((await modern(`${other.url}/mcp`, "tools/call", { ...params, ...answer })).body)
    }
    const answers = [
      await askLegacy(owner, "only"),
      await askLegacy(other, "two"),
      await askModern(owner, "three"),
      await askModern(other, "four"),
    ]
    owner.signal("SIGTERM")
    for (const name of names) await owner.said(`${name}: moves to another replica when`)
    const next = Promise.all([who(other), who(other)])
    // What belongs to the calls that run still comes to them, by the other replica.
    const said = await Promise.all(answers.map((answer) => answer()))
    expect(said).toEqual(pids.map((pid) => expect.stringContaining(`${pid} heard {`)))
    const [pid = "", ...others] = new Set(await next)
    expect([pid, others]).toEqual([expect.stringMatching(/^\d+$/), []])
    expect(pid).not.toBe(pids[0])
    expect(await owner.exited).toBe(0)
  })

  test("a replica that stops hands it over while calls of other servers still run there [cluster:one:leaves]", async () => {
    const mark = `svc-one-${crypto.randomUUID()}`
    const only = { ...REPLICA_SERVER, args: [...REPLICA_SERVER.args, mark], replicas: "one" }
    const config = { mcpServers: { only, each: REPLICA_SERVER } }
    await using cluster = await startCluster(2, { config, env: { SVC_SHUTDOWN_GRACE: "60s" } })
    const pid = await settled(cluster.replicas)
    const owner = ownerOf(pid, cluster.replicas)
    const other = cluster.replicas.find((replica) => replica !== owner) as Instance
    const client = new WanderingClient()
    await client.open(owner)
    const params = { name: "each_svc_hold", arguments: {}, _meta: { progressToken: 1 } }
    const held = client.stream(owner, "tools/call", params, 7)
    await held.next()
    owner.signal("SIGTERM")
    await owner.said("moves to another replica when")
    const next = await who(other)
    expect([next, processes(mark).map(String)]).toEqual([expect.stringMatching(/^\d+$/), [next]])
    expect(next).not.toBe(pid)
    // The call that runs there ends there.
    await client.post(other, { method: "notifications/cancelled", params: { requestId: 7 } })
    expect((await held.next()).done).toBe(true)
    expect(await owner.exited).toBe(0)
  })

  test("a replica that stops hands it over at once; without Redis no replica runs it, as all commands show, until Redis is back [cluster:one:away] [cluster:health:away] [health:report:unowned]", async () => {
    const mark = `svc-one-${crypto.randomUUID()}`
    await using cluster = await startOne(2, mark)
    const pid = await who(cluster.replicas[0] as Instance)
    const owner = ownerOf(pid, cluster.replicas)
    const other = cluster.replicas.find((replica) => replica !== owner) as Instance
    owner.signal("SIGTERM")
    await owner.exited
    const next = await settled([other])
    expect(next).not.toBe(pid)
    await cluster.redis.kill()
    await eventually(() => processes(mark).length === 0)
    expect(await who(other)).toContain("only")
    await showsLoss(other, `127.0.0.1:${cluster.redis.port}`)
    await cluster.redis.start()
    expect(await settled([other])).not.toBe(next)
    expect(processes(mark).length).toBe(1)
  })
})
