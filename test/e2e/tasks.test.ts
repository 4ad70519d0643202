/** Tasks in the forms of both eras: their owners, and ids that lead to the right server. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import {
  CallToolResultSchema,
  CancelTaskResultSchema,
  CreateTaskResultSchema,
  ElicitRequestSchema,
  GetTaskResultSchema,
  ListTasksResultSchema,
  ResultSchema,
  TaskStatusNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js"
import {
  eventually,
  fixture,
  freshEnv,
  freshFolder,
  type Instance,
  modern,
  modernRequest,
  npmServer,
  runSvc,
  startHttp,
  startSvc,
} from "./harness.ts"

type Json = Record<string, unknown>

const EXTENSION = "io.modelcontextprotocol/tasks"
const MODERN_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"

let svc: Instance

beforeAll(async () => {
  const tasks = (...args: string[]) => ({ command: "bun", args: [fixture("tasks.ts"), ...args] })
  svc = await startSvc({
    config: {
      mcpServers: {
        a: tasks(),
        b: tasks(),
        m: { ...tasks("--modern"), protocolVersion: "2026-07-28" },
        n: { ...tasks("--modern"), protocolVersion: "2026-07-28" },
        everything: npmServer("server-everything"),
      },
    },
    flags: ["--startup-wait", "20s"],
  })
}, 60_000)

afterAll(() => svc?.[Symbol.asyncDispose](), 30_000)

type Session = AsyncDisposable & {
  readonly client: Client
  readonly heard: Json[]
  /** Makes a task; gives its id. */
  make(name: string, args?: Json): Promise<string>
  ask(method: string, taskId: string, schema?: unknown): Promise<Json>
  list(): Promise<string[]>
}

async function connect(path = "/mcp", name = "ann"): Promise<Session> {
  const heard: Json[] = []
  const client = new Client({ name, version: "1" }, { capabilities: { elicitation: { form: {} } } })
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    heard.push({ asked: params })
    return { action: "accept", content: { by: name } }
  })
  client.setNotificationHandler(TaskStatusNotificationSchema, ({ params }) => void heard.push({ status: params }))
  await client.connect(new StreamableHTTPClientTransport(new URL(svc.url + path)) as never)
  const ask: Session["ask"] = (method, taskId, schema = GetTaskResultSchema) =>
    client.request({ method, params: { taskId } } as never, schema as never) as Promise<Json>
  return {
    client,
    heard,
    async make(tool, args = {}) {
      const params = { name: tool, arguments: args, task: { ttl: 60_000 } }
      const { task } = await client.request({ method: "tools/call", params }, CreateTaskResultSchema, {
        onprogress: ({ progress }) => void heard.push({ progress }),
      })
      return task.taskId
    },
    ask,
    async list() {
      const { tasks } = await client.request({ method: "tasks/list" }, ListTasksResultSchema)
      return tasks.map(({ taskId }) => taskId)
    },
    [Symbol.asyncDispose]: () => client.close(),
  }
}

const failure = (running: Promise<unknown>): Promise<number | undefined> =>
  running.then(
    () => undefined,
    (error: { code?: number }) => error.code,
  )

describe("tasks of 2025-11-25", () => {
  test("are created through call_tool as through a direct call [lazy:call]", async () => {
    await using ann = await connect("/mcp?tools=search")
    const task = await ann.make("call_tool", { name: "a_svc_work", arguments: { ask: true } })
    expect(task).toMatch(/^a_svc_t\d+\.[\w-]{22}$/)
    expect(await ann.ask("tasks/result", task, CallToolResultSchema)).toMatchObject({
      content: [{ text: 'done: {"action":"accept","content":{"by":"ann"}}' }, { uri: "svc://a/work://result" }],
      _meta: { "io.modelcontextprotocol/related-task": { taskId: task } },
    })
    // It comes on the stream of the session, beside the result.
    await eventually(async () => ann.heard.some(({ progress }) => progress === 1))
    expect(await ann.list()).toEqual([task])
  })

  test("are offered by the aggregate if a server supports them", async () => {
    await using ann = await connect()
    expect(ann.client.getServerCapabilities()?.tasks).toEqual({
      list: {},
      cancel: {},
      requests: { tools: { call: {} } },
    })
    expect(ann.client.getServerCapabilities()?.extensions).toBeUndefined()
  })

  test("of two servers with the same ids are two tasks, from creation to result", async () => {
    await using ann = await connect()
    const [a, b] = [await ann.make("a_svc_work", { ask: true }), await ann.make("b_svc_work")]
    expect([a, b]).toEqual([
      expect.stringMatching(/^a_svc_t\d+\.[\w-]{22}$/),
      expect.stringMatching(/^b_svc_t\d+\.[\w-]{22}$/),
    ])
    expect(await ann.ask("tasks/get", a)).toMatchObject({ taskId: a, status: "working" })
    expect(await ann.list()).toEqual([a, b])
    const result = await ann.ask("tasks/result", a, CallToolResultSchema)
    expect(result).toMatchObject({
      content: [{ text: 'done: {"action":"accept","content":{"by":"ann"}}' }, { uri: "svc://a/work://result" }],
      _meta: { "io.modelcontextprotocol/related-task": { taskId: a } },
    })
    await eventually(() => ann.heard.length >= 3)
    expect(ann.heard).toContainEqual({ progress: 1 })
    expect(ann.heard.find(({ asked }) => asked !== undefined)).toMatchObject({
      asked: { message: "Go on?", _meta: { "io.modelcontextprotocol/related-task": { taskId: a } } },
    })
    expect(ann.heard.find(({ status }) => status !== undefined)).toMatchObject({
      status: { taskId: a, status: "completed" },
    })
    expect(await ann.ask("tasks/cancel", b, CancelTaskResultSchema)).toMatchObject({ taskId: b, status: "cancelled" })
    expect(await ann.ask("tasks/get", b)).toMatchObject({ status: "cancelled" })
  })

  test("belong to the session that created them, also under the server's own address [protocol:task]", async () => {
    await using ann = await connect()
    await using bob = await connect("/mcp", "bob")
    await using own = await connect("/servers/a/mcp", "own")
    const task = await ann.make("a_svc_work", { ask: true })
    const bare = task.slice("a_svc_".length)
    for (const [who, id] of [
      [bob, task],
      [own, bare],
    ] as const) {
      for (const method of ["tasks/get", "tasks/result", "tasks/cancel"])
        expect(await failure(who.ask(method, id, ResultSchema))).toBe(-32602)
      expect(await who.list()).toEqual([])
    }
    for (const id of ["t1", "nobody_svc_t1", "a_svc_t999", ""])
      expect(await failure(ann.ask("tasks/get", id))).toBe(-32602)
    // Other calls in flight do not give its question to another client.
    const waiting = bob
      .make("a_svc_work", { ask: true })
      .then((id) => bob.ask("tasks/result", id, CallToolResultSchema))
    const result = await ann.ask("tasks/result", task, CallToolResultSchema)
    expect(JSON.stringify([result, await waiting])).toMatch(/"by\\":\\"ann.*"by\\":\\"bob/)
    expect(bob.heard.filter(({ asked }) => asked !== undefined)).toHaveLength(1)
    expect(bob.heard.filter(({ status }) => (status as Json | undefined)?.taskId === task)).toEqual([])
  })

  test("have the server's own ids, marked for their owner, under its own address", async () => {
    await using own = await connect("/servers/b/mcp", "own")
    expect(own.client.getServerCapabilities()?.tasks).toBeDefined()
    const task = await own.make("work")
    expect(task).toMatch(/^t\d+\.[\w-]{22}$/)
    expect(await own.ask("tasks/result", task, CallToolResultSchema)).toMatchObject({
      content: [{ text: "done: null" }, { uri: "work://result" }],
      _meta: { "io.modelcontextprotocol/related-task": { taskId: task } },
    })
    expect(await own.list()).toEqual([task])
  })

  test("end with their session", async () => {
    await using bob = await connect("/mcp", "bob")
    const ann = await connect()
    const task = await ann.make("a_svc_work")
    await (ann.client.transport as StreamableHTTPClientTransport).terminateSession()
    await ann.client.close()
    expect(await failure(bob.ask("tasks/get", task))).toBe(-32602)
  })

  test("of an independent server run through, with its questions", async () => {
    await using ann = await connect()
    await ann.client.listTools()
    const stream = ann.client.experimental.tasks.callToolStream({
      name: "everything_svc_simulate-research-query",
      arguments: { topic: "bees", ambiguous: true },
    })
    const kinds: string[] = []
    let last: unknown
    for await (const message of stream) {
      kinds.push(message.type)
      last = message
    }
    expect([kinds[0], kinds.at(-1)]).toEqual(["taskCreated", "result"])
    expect(JSON.stringify(last)).toContain("bees")
  }, 30_000)
})

const MODERN_META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
}

describe("the tasks extension of 2026-07-28", () => {
  const capable = {
    "io.modelcontextprotocol/clientCapabilities": { extensions: { "io.modelcontextprotocol/tasks": {} } },
  }
  const ask = (method: string, params: Json, path = "/mcp", headers = {}) =>
    modern(svc.url + path, method, { ...params, _meta: capable }, headers)
  const make = async (name: string, args: Json = {}, path = "/mcp") => {
    const { result } = (await ask("tools/call", { name, arguments: args }, path)).body
    expect(result).toMatchObject({ resultType: "task", status: "working" })
    return String(result?.taskId)
  }

  test("is offered by the aggregate if a server supports it", async () => {
    const { result } = (await modern(`${svc.url}/mcp`, "server/discover")).body
    expect(result?.capabilities).toMatchObject({ extensions: { "io.modelcontextprotocol/tasks": {} } })
    expect(result?.capabilities).not.toHaveProperty("tasks")
  })

  test("works from creation to result under ids that lead back to the server", async () => {
    const [m, n] = [await make("m_svc_work", { ask: true }), await make("n_svc_work")]
    expect([m, n]).toEqual([
      expect.stringMatching(/^m_svc_t1\.[\w-]{22}$/),
      expect.stringMatching(/^n_svc_t1\.[\w-]{22}$/),
    ])
    const asked = (await ask("tasks/get", { taskId: m })).body.result
    expect(asked).toMatchObject({
      taskId: m,
      status: "input_required",
      inputRequests: { q: { method: "elicitation/create" } },
    })
    const update = { taskId: m, inputResponses: { q: { action: "accept" } } }
    expect((await ask("tasks/update", update)).body.result).toEqual({ resultType: "complete" })
    expect((await ask("tasks/get", { taskId: m })).body.result).toMatchObject({
      taskId: m,
      status: "completed",
      result: { content: [{ text: 'done: {"action":"accept"}' }, { uri: "svc://m/work://result" }] },
    })
    expect((await ask("tasks/cancel", { taskId: n })).body.result).toEqual({ resultType: "complete" })
    const own = await make("work", {}, "/servers/n/mcp")
    expect(own).toMatch(/^t2\.[\w-]{22}$/)
    expect((await ask("tasks/get", { taskId: own }, "/servers/n/mcp")).body.result).toMatchObject({
      taskId: own,
      result: { content: [{}, { uri: "work://result" }] },
    })
  })

  test("is served through call_tool as by a direct call [lazy:call]", async () => {
    const lazy = "/mcp?tools=search"
    const taskId = await make("call_tool", { name: "m_svc_work" }, lazy)
    expect(taskId).toMatch(/^m_svc_t\d+\.[\w-]{22}$/)
    expect((await ask("tasks/get", { taskId }, lazy)).body.result).toMatchObject({
      taskId,
      status: "completed",
      result: { content: [{ text: "done: null" }, { uri: "svc://m/work://result" }] },
    })
  })

  test("has a header with the id, which must agree with the body", async () => {
    const taskId = await make("m_svc_work")
    expect((await ask("tasks/get", { taskId }, "/mcp", { "mcp-name": taskId })).status).toBe(200)
    const wrong = await ask("tasks/get", { taskId }, "/mcp", { "mcp-name": "m_svc_t1" })
    expect([wrong.status, wrong.body.error?.code]).toEqual([400, -32020])
  })

  test("notifies listening clients of the progress of a task until it is done [protocol:task:listen]", async () => {
    const task = await make("m_svc_work", { ask: true })
    const enough = new AbortController()
    const params = { notifications: { taskIds: [task, "nobody_svc_t1", 7] }, _meta: { ...MODERN_META, ...capable } }
    const stream = await fetch(`${svc.url}/mcp`, {
      ...modernRequest("subscriptions/listen", params, {}, "l"),
      signal: enough.signal,
    })
    const heard: Json[] = []
    let text = ""
    const decoder = new TextDecoder()
    for await (const chunk of stream.body ?? []) {
      text += decoder.decode(chunk, { stream: true })
      heard.splice(0, heard.length, ...[...text.matchAll(/^data: (.*)\n\n/gm)].map(([, data = ""]) => JSON.parse(data)))
      if (heard.length === 2) await ask("tasks/update", { taskId: task, inputResponses: { q: { action: "accept" } } })
      if (heard.length === 3) break
    }
    enough.abort()
    const mark = { "io.modelcontextprotocol/subscriptionId": "l" }
    expect(heard).toMatchObject([
      { method: "notifications/subscriptions/acknowledged", params: { notifications: { taskIds: [task] } } },
      {
        method: "notifications/tasks",
        params: { taskId: task, status: "input_required", inputRequests: { q: {} }, _meta: mark },
      },
      {
        method: "notifications/tasks",
        params: {
          taskId: task,
          status: "completed",
          result: { content: [{ text: 'done: {"action":"accept"}' }, { uri: "svc://m/work://result" }] },
        },
      },
    ])
    expect(heard[1]?.params).not.toHaveProperty("resultType")
    const refused = await modern(`${svc.url}/mcp`, "subscriptions/listen", { notifications: { taskIds: [task] } })
    expect([refused.status, refused.body.error]).toMatchObject([
      400,
      { code: -32021, data: { requiredCapabilities: { extensions: { "io.modelcontextprotocol/tasks": {} } } } },
    ])
  })

  test("[protocol:task:capability] is closed to a request that does not declare it", async () => {
    const taskId = await make("m_svc_work")
    for (const path of ["/mcp", "/servers/m/mcp"])
      for (const method of ["tasks/get", "tasks/update", "tasks/cancel"])
        for (const id of [taskId, "nobody's"]) {
          const { status, body } = await modern(svc.url + path, method, { taskId: id })
          expect([status, body.error]).toMatchObject([
            400,
            { code: -32021, data: { requiredCapabilities: { extensions: { [EXTENSION]: {} } } } },
          ])
        }
    const { status, body } = await modern(`${svc.url}/servers/a/mcp`, "tasks/get", { taskId })
    expect([status, body.error?.code]).toEqual([404, -32601])
  })

  test("has no tasks/list and no waiting for results, and does not know legacy tasks", async () => {
    await using ann = await connect()
    const task = await ann.make("a_svc_work")
    expect((await ask("tasks/get", { taskId: task })).body.error?.code).toBe(-32602)
    for (const method of ["tasks/list", "tasks/result"])
      expect((await ask(method, { taskId: task })).body.error?.code).toBe(-32601)
  })

  test("is not offered to legacy clients, who get plain answers", async () => {
    await using ann = await connect()
    const answer = await ann.client.callTool({ name: "m_svc_work", arguments: {} })
    expect(answer).toMatchObject({ content: [{ text: "done: null" }, { uri: "svc://m/work://result" }] })
  })
})

test("after a restart of svc, tasks still belong only to their owners [protocol:task:mark]", async () => {
  const folder = freshFolder()
  const [old, now] = await Promise.all([startHttp("tasks.ts"), startHttp("tasks.ts", "--modern")])
  await using ends = new AsyncDisposableStack()
  for (const server of [old, now]) ends.defer(() => server.stop())
  const tokens: Record<string, string>[] = []
  for (const name of ["alice", "mallory"]) {
    const args = ["auth", "token", "create", "--name", name, "--config-dir", folder]
    tokens.push({ authorization: `Bearer ${(await runSvc(args, freshEnv(folder))).stdout.trim()}` })
  }
  const [alice = {}, mallory = {}] = tokens
  const config = {
    mcpServers: {
      old: { type: "streamableHttp", url: old.url, protocolVersion: "legacy" },
      now: { type: "streamableHttp", url: now.url, protocolVersion: "2026-07-28" },
    },
  }
  const start = () => startSvc({ config, folder, flags: ["--auth"] })
  const ask = async (at: Instance, who: Record<string, string>, method: string, params: Json, path = "/mcp") => {
    const _meta = { [MODERN_CAPABILITIES]: { extensions: { [EXTENSION]: {} } } }
    return (await modern(at.url + path, method, { ...params, _meta }, who)).body
  }
  const post = (at: Instance, who: Record<string, string>, method: string, params: Json) =>
    fetch(`${at.url}/mcp`, {
      method: "POST",
      headers: { ...who, "content-type": "application/json", accept: "application/json, text/event-stream" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    })
  const open = async (at: Instance, who: Record<string, string>) => {
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } }
    return { ...who, "mcp-session-id": (await post(at, who, "initialize", params)).headers.get("mcp-session-id") ?? "" }
  }
  const legacy = async (at: Instance, session: Record<string, string>, method: string, params: Json) =>
    (await (await post(at, session, method, params)).json()) as { result?: Json & { task?: Json }; error?: Json }

  const first = ends.use(await start())
  const made = String((await ask(first, alice, "tools/call", { name: "now_svc_work", arguments: {} })).result?.taskId)
  const own = await ask(first, alice, "tools/call", { name: "work", arguments: {} }, "/servers/now/mcp")
  const session = await open(first, alice)
  const call = { name: "old_svc_work", arguments: {}, task: { ttl: 60_000 } }
  const kept = String((await legacy(first, session, "tools/call", call)).result?.task?.taskId)
  expect([made, own.result?.taskId, kept]).toEqual([
    expect.stringMatching(/^now_svc_t1\.[\w-]{22}$/),
    expect.stringMatching(/^t2\.[\w-]{22}$/),
    expect.stringMatching(/^old_svc_t1\.[\w-]{22}$/),
  ])
  first.signal("SIGTERM")
  await first.exited

  const second = ends.use(await start())
  const others = await open(second, mallory)
  for (const taskId of [made, "now_svc_t1", `t2.${made.slice(-22)}`, "now_svc_t2"])
    for (const method of ["tasks/get", "tasks/cancel", "tasks/update"]) {
      expect((await ask(second, mallory, method, { taskId })).error?.code).toBe(-32602)
      const bare = taskId.replace("now_svc_", "")
      expect((await ask(second, mallory, method, { taskId: bare }, "/servers/now/mcp")).error?.code).toBe(-32602)
    }
  for (const taskId of [kept, "old_svc_t1"])
    for (const method of ["tasks/get", "tasks/cancel", "tasks/result"])
      expect((await legacy(second, others, method, { taskId })).error?.code).toBe(-32602)
  expect((await legacy(second, others, "tasks/list", {})).result).toEqual({ tasks: [] })

  expect((await ask(second, alice, "tasks/get", { taskId: made })).result).toMatchObject({
    taskId: made,
    status: "completed",
    result: { content: [{ text: "done: null" }, {}] },
  })
  const again = await ask(second, alice, "tasks/get", { taskId: own.result?.taskId }, "/servers/now/mcp")
  expect(again.result).toMatchObject({ taskId: own.result?.taskId, status: "completed" })
  expect((await legacy(second, session, "tasks/get", { taskId: kept })).result).toMatchObject({ status: "working" })
  expect((await legacy(second, session, "tasks/list", {})).result).toMatchObject({ tasks: [{ taskId: kept }] })
  expect((await legacy(second, session, "tasks/result", { taskId: kept })).result).toMatchObject({
    _meta: { "io.modelcontextprotocol/related-task": { taskId: kept } },
  })
}, 60_000)

test("a server's notification about a modern client's task reaches no other client", async () => {
  await using bob = await connect("/mcp", "bob")
  const told: unknown[] = []
  bob.client.fallbackNotificationHandler = async (notification) => void told.push(notification.method)
  const ask = (method: string, params: Json) =>
    modern(`${svc.url}/mcp`, method, {
      ...params,
      _meta: { [MODERN_CAPABILITIES]: { extensions: { [EXTENSION]: {} } } },
    })
  const { taskId } = (await ask("tools/call", { name: "m_svc_work", arguments: {} })).body.result ?? {}
  expect((await ask("tasks/get", { taskId })).body.result).toMatchObject({ status: "completed" })
  // What was sent before it on the stream has come with this.
  await bob.make("a_svc_work", { ask: false }).then((task) => bob.ask("tasks/result", task, CallToolResultSchema))
  await eventually(() => bob.heard.some(({ status }) => status !== undefined))
  expect(told).toEqual([])
})
