/** The owner of a task, determined only by its id: with any number of tasks, after a restart, at every address, in both eras. */
import { expect, test } from "bun:test"
import type { Client } from "../../src/call/client.ts"
import type { Gateway } from "../../src/call/ports.ts"
import { buildCatalog, emptyCatalog, viewOf } from "../../src/catalog/catalog.ts"
import { narrow, type Scope } from "../../src/catalog/scope.ts"
import type { ServerSpec } from "../../src/config/server-spec.ts"
import { createMarker } from "../../src/lib/seal.ts"
import { dispatch } from "../../src/session/dispatch.ts"
import { watchTasks } from "../../src/session/task-watch.ts"
import { createRequestIds, encode, textOf } from "../../src/wire/frame.ts"
import type { Params, Request } from "../../src/wire/message.ts"
import { manualClock } from "../clock.ts"
import { AGGREGATE, fakeConnection, fakeExchange, fakeGateway } from "../fakes.ts"

type Era = "legacy" | "modern"
type Answer = { result?: Params & { task?: Params; tasks?: Params[] }; error?: { code: number; message: string } }

const OWN: Scope = { kind: "server", id: "s" }
const KEY = new Uint8Array(32).fill(1)

const HOUR = 3_600_000

/**
 * A process of a server that counts its tasks (`idOf` names them) and shows each to any client, as seen through one run of
 * svc.
 */
function setUp(era: Era, transport = "streamableHttp", idOf = (count: number) => `t${count}`, more: Params = {}) {
  const clock = manualClock()
  const tuning = {
    disabledTools: [],
    toolDescriptionOverrides: {},
    requestTimeout: 60_000,
    isolation: "shared",
    tags: [],
  }
  const spec = { id: "s", name: "s", slug: "s", secrets: [], launch: { transport }, tuning } as unknown as ServerSpec
  const seen: Params[] = []
  let made = 0
  const answer = (method: string, params: Params) => {
    seen.push({ method, ...params })
    const task = { taskId: method === "tools/call" ? idOf(++made) : params.taskId, status: "working" }
    if (method !== "tools/call") return { ...task, ...more }
    return era === "modern" ? { resultType: "task", ...task, ttlMs: HOUR } : { task: { ...task, ttl: HOUR } }
  }
  const connection = fakeConnection(
    clock,
    (frame) => {
      const { id, method, params } = JSON.parse(String(frame))
      const said = JSON.stringify({ jsonrpc: "2.0", id, result: answer(method, params) })
      queueMicrotask(() => connection.receive(encode(said)))
    },
    { ids: createRequestIds(crypto.randomUUID().replaceAll("-", "")) },
  )
  const capabilities = { tasks: {}, extensions: { "io.modelcontextprotocol/tasks": {} } }
  const listing = {
    ...{ era, protocolVersion: "x", serverInfo: {}, capabilities, instructions: undefined },
    ...{ tools: [{ name: "work", inputSchema: {} }], prompts: [], resources: [], resourceTemplates: [] },
  }
  const catalog = buildCatalog([{ spec, listing }], emptyCatalog())
  /** svc after a start: it remembers only its key. */
  const start = (key = KEY): Gateway =>
    fakeGateway({
      directory: { catalogOf: () => catalog, target: () => ({ spec, connection, peer: listing }) },
      tasks: { mark: createMarker(() => key) },
    })
  return { start, seen, clock, catalog }
}

const clientOf = (era: Era, who: string, scope: Scope = AGGREGATE): Client => ({
  ...{ era, protocolVersion: "x", info: {}, scope, logLevel: undefined },
  capabilities: era === "modern" ? { extensions: { "io.modelcontextprotocol/tasks": {} } } : {},
  ...(era === "legacy" ? { principal: "all", id: who } : { principal: who }),
  session: {},
})

async function ask(gateway: Gateway, client: Client, method: string, params: Params): Promise<Answer> {
  const request: Request = { jsonrpc: "2.0", id: 1, method, params }
  const { frame } = await dispatch({ request, gateway, client, exchange: fakeExchange() })
  return JSON.parse(textOf(frame))
}

async function make(gateway: Gateway, client: Client): Promise<string> {
  const name = client.scope.kind === "server" ? "work" : "s_svc_work"
  const { result } = await ask(gateway, client, "tools/call", { name, task: {} })
  return String(result?.taskId ?? result?.task?.taskId)
}

const ERAS: readonly Era[] = ["legacy", "modern"]

test.each(ERAS)(
  "a task of %p keeps its owner, however many tasks others create, and after a restart [protocol:task:mark]",
  async (era) => {
    const { start } = setUp(era)
    const [alice, mallory] = [clientOf(era, "alice"), clientOf(era, "mallory")]
    const first = start()
    const task = await make(first, alice)
    expect(task).toMatch(/^s_svc_t1\.[\w-]{22}$/)
    let last = ""
    for (let count = 0; count < 10_001; count++) last = await make(first, mallory)
    const mark = last.slice(last.lastIndexOf("."))
    for (const gateway of [first, start()]) {
      expect((await ask(gateway, alice, "tasks/get", { taskId: task })).result).toMatchObject({ taskId: task })
      for (const id of [
        task,
        "s_svc_t1",
        `s_svc_t1${mark}`,
        task.slice(0, -1),
        `${task}x`,
        task.replace("t1", "t2"),
        "",
        7,
      ])
        for (const method of ["tasks/get", "tasks/cancel", "tasks/update", "tasks/result"])
          expect([id, (await ask(gateway, mallory, method, { taskId: id })).error?.code]).toEqual([
            id,
            era === "modern" && method === "tasks/result" ? -32601 : -32602,
          ])
    }
    // If the key could not be stored, nobody owns the task.
    const other = start(new Uint8Array(32))
    expect((await ask(other, alice, "tasks/get", { taskId: task })).error?.code).toBe(-32602)
  },
  60_000,
)

test("a watched task is not polled for a client that may no longer see its server [auth:tags:streams]", async () => {
  const { start, seen, clock, catalog } = setUp("modern")
  let maySee = true
  const scope = narrow(AGGREGATE, "some", () => maySee)
  const [gateway, client] = [start(), clientOf("modern", "alice", scope)]
  const task = await make(gateway, client)
  const request: Request = {
    ...{ jsonrpc: "2.0", id: 2, method: "subscriptions/listen" },
    params: { notifications: { taskIds: [task] } },
  }
  const told: Params[] = []
  const watched = watchTasks(request, viewOf(catalog, scope), { gateway, client }, (status) => void told.push(status))
  const polls = () => seen.filter(({ method }) => method === "tasks/get").length
  await clock.pass(5000)
  expect([watched.ids, told.length, polls()]).toEqual([[task], 1, 3])
  maySee = false
  await clock.pass(60_000)
  expect([told.length, polls(), clock.timers]).toEqual([1, 3, 0])
  watched.end()
})

test("a list holds the tasks that svc remembers of a session, and a client with many evicts its own [protocol:task:list]", async () => {
  const { start } = setUp("legacy")
  const [alice, mallory] = [clientOf("legacy", "alice"), clientOf("legacy", "mallory")]
  const gateway = start()
  const task = await make(gateway, alice)
  for (let count = 0; count < 10_001; count++) await make(gateway, mallory)
  expect((await ask(gateway, alice, "tasks/list", {})).result?.tasks).toMatchObject([{ taskId: task }])
  expect(gateway.tasks.owners.of(mallory.session, "task")).toHaveLength(9_999)
}, 60_000)

test.each(ERAS)(
  "ids of %p are also marked under the server's own address, where unmarked ids are refused",
  async (era) => {
    const { start, seen } = setUp(era)
    const [alice, mallory] = [clientOf(era, "alice", OWN), clientOf(era, "mallory", OWN)]
    const gateway = start()
    const task = await make(gateway, alice)
    expect(task).toMatch(/^t1\.[\w-]{22}$/)
    for (const method of ["tasks/get", "tasks/update", "tasks/cancel"])
      expect((await ask(gateway, alice, method, { taskId: task })).result?.taskId).toBe(task)
    const asked = seen.length
    for (const id of [task, "t1"])
      expect((await ask(gateway, mallory, "tasks/get", { taskId: id })).error?.code).toBe(-32602)
    // svc relays a foreign id neither to a server without tasks in this era nor with a method that it does not know.
    const odd = clientOf(era === "legacy" ? "modern" : "legacy", "mallory", OWN)
    for (const method of ["tasks/get", "tasks/list", "tasks/other"])
      expect((await ask(gateway, odd, method, { taskId: "t1" })).error?.code).toBe(-32601)
    const related = { "io.modelcontextprotocol/related-task": { taskId: "t1" } }
    expect((await ask(gateway, mallory, "tools/call", { name: "work", _meta: related })).error?.code).toBe(-32602)
    expect(seen).toHaveLength(asked)
    const shown = { "io.modelcontextprotocol/related-task": { taskId: task } }
    await ask(gateway, alice, "tools/call", { name: "work", _meta: shown })
    expect(seen.at(-1)?._meta).toMatchObject(related)
  },
)

test("an id that the server has since given to another client belongs to that client", async () => {
  const { start } = setUp("modern")
  const again = setUp("modern")
  const [alice, bob] = [clientOf("modern", "alice"), clientOf("modern", "bob")]
  const task = await make(start(), alice)
  const gateway = again.start()
  expect(await make(gateway, bob)).toStartWith("s_svc_t1.")
  expect((await ask(gateway, alice, "tasks/get", { taskId: task })).error?.code).toBe(-32602)
})

test.each(ERAS)(
  "a task of %p on a stdio server ends with the process, because the next one may give its id again [protocol:task:mark]",
  async (era) => {
    const [before, after] = [setUp(era, "stdio"), setUp(era, "stdio")]
    const [alice, mallory] = [clientOf(era, "alice"), clientOf(era, "mallory")]
    const task = await make(before.start(), mallory)
    expect(task).toMatch(/^s_svc_t1\.[\w-]{22}$/)
    const own = await make(after.start(), alice)
    // svc was restarted too, so no table of owners helps.
    const gateway = after.start()
    expect((await ask(gateway, mallory, "tasks/get", { taskId: task })).error?.code).toBe(-32602)
    expect((await ask(gateway, alice, "tasks/get", { taskId: own })).result).toMatchObject({ taskId: own })
    // A random id is given only once.
    const id = crypto.randomUUID()
    const [first, second] = [setUp(era, "stdio", () => id), setUp(era, "stdio", () => id)]
    const kept = await make(first.start(), alice)
    expect((await ask(second.start(), alice, "tasks/get", { taskId: kept })).result).toMatchObject({ taskId: kept })
  },
)

test("a session loses a task whose id its server has since given to another session", async () => {
  const [first, second] = [setUp("legacy"), setUp("legacy")]
  const kept = new Set<string>()
  const memory = {
    addSubscription: () => undefined,
    removeSubscription: () => undefined,
    setLogLevel: () => undefined,
    addTask: (server: string, task: string) => void kept.add(`${server} ${task}`),
    removeTask: (server: string, task: string) => void kept.delete(`${server} ${task}`),
  }
  const [alice, bob] = [{ ...clientOf("legacy", "alice"), memory }, clientOf("legacy", "bob")]
  const gateway = first.start()
  await make(gateway, alice)
  expect([...kept]).toEqual(["s t1"])
  // The server starts counting again.
  await make({ ...second.start(), tasks: gateway.tasks }, bob)
  expect([...kept]).toEqual([])
})

test.each([
  ["legacy", "tasks/get", { status: "working" }, HOUR],
  ["legacy", "tasks/get", { status: "completed" }, HOUR],
  ["legacy", "tasks/get", { status: "cancelled" }, 0],
  ["legacy", "tasks/result", { content: [] }, 300_000],
  ["legacy", "tasks/cancel", { status: "cancelled" }, 0],
  ["modern", "tasks/get", { status: "working" }, HOUR],
  ["modern", "tasks/get", { status: "completed", result: { content: [] } }, 300_000],
  ["modern", "tasks/get", { status: "failed", error: { code: -32603, message: "no" } }, 300_000],
  ["modern", "tasks/get", { status: "cancelled" }, 0],
  ["modern", "tasks/cancel", {}, 0],
  ["modern", "tasks/update", {}, HOUR],
] as const)(
  "in the %s era, a process is kept for a task after %s with %j for %d ms [sleep:tasks]",
  async (era, method, more, ms) => {
    const { start, clock } = setUp(era, "stdio", undefined, more)
    const gateway = start()
    const client = clientOf(era, "alice")
    const task = await make(gateway, client)
    const { owners } = gateway.tasks
    expect((await ask(gateway, client, method, { taskId: task })).error).toBeUndefined()
    const end = clock.now() + ms
    expect([owners.keepsProcess("s", Math.max(clock.now(), end - 1)), owners.keepsProcess("s", end)]).toEqual([
      ms > 0,
      false,
    ])
    await make(gateway, client)
    expect(owners.keepsProcess("s", end)).toBe(ms < HOUR)
    owners.processEnded("s")
    expect(owners.keepsProcess("s", clock.now())).toBe(false)
  },
)
