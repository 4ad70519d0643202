/** Servers without processes: nobody notices, and no call is lost or doubled. */
import { expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Gate } from "../fixtures/gated.ts"
import { randomFrom } from "../random.ts"
import { echo, eventually, fixture, freshFolder, modern, processes, runSvc, startSvc } from "./harness.ts"
import { eventsOf, listen, WanderingClient } from "./replicas.ts"

const SECONDS = Number(process.env.SVC_TEST_SECONDS ?? 4)

type Line = { readonly what: string; readonly nonce?: string }

test("calls at random moments of servers that keep falling asleep: none is lost, none doubled, and health never blinks [sleep:idle]", async () => {
  const folder = freshFolder()
  const names = ["a", "b", "c"] as const
  const marks = names.map(() => `svc-mark-${crypto.randomUUID()}`)
  const journal = (name: string) => join(folder, `${name}.journal`)
  const config = {
    mcpServers: Object.fromEntries(
      names.map((name, at) => [
        name,
        {
          command: "bun",
          args: [fixture("journal.ts"), "--journal", journal(name), "--name", name, marks[at] as string],
          idleTimeout: 60,
          start: name === "c" ? "lazy" : "eager",
        },
      ]),
    ),
  }
  await using svc = await startSvc({ folder, config, flags: ["--health-rate-limit", "off"] })
  const listed = async () => {
    const { body } = await modern(`${svc.url}/mcp`, "tools/list")
    return ((body.result?.tools ?? []) as readonly { name: string }[]).map(({ name }) => name).sort()
  }
  await eventually(
    async () => (await listed()).length > 0 && new Set((await listed()).map((name) => name[0])).size === 3,
  )
  const all = await listed()
  const random = randomFrom(3)
  const sent = new Map<string, boolean>()
  const problems: string[] = []
  const until = Date.now() + SECONDS * 1000
  const caller = async (name: string) => {
    while (Date.now() < until) {
      const nonce = crypto.randomUUID()
      const { body } = await modern(`${svc.url}/mcp`, "tools/call", {
        name: `${name}_svc_work`,
        arguments: { nonce, by: "x", ms: Math.floor(random() * 20) },
      })
      const isDone = JSON.stringify(body).includes(nonce) && body.result?.isError !== true
      sent.set(nonce, isDone)
      if (!isDone) problems.push(JSON.stringify(body).slice(0, 300))
      await Bun.sleep(random() < 0.5 ? 50 + random() * 30 : random() * 200)
    }
  }
  const watcher = async () => {
    while (Date.now() < until) {
      const { status } = await fetch(`${svc.url}/health`)
      if (status !== 200) problems.push(`health ${status}`)
      await Bun.sleep(15)
    }
  }
  await Promise.all([...names, ...names].map(caller).concat(watcher()))
  expect(problems).toEqual([])
  const runs = names.flatMap((name) =>
    readFileSync(journal(name), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Line)
      .flatMap(({ what, nonce }) => (what === "run" && nonce !== undefined ? [nonce] : [])),
  )
  expect(runs.length).toBe(new Set(runs).size)
  expect(new Set(runs)).toEqual(new Set(sent.keys()))
  expect(await listed()).toEqual(all)
  await eventually(() => marks.every((mark) => processes(mark).length === 0))
}, 60_000)

test("after a restart of svc, a lazy server is listed without a process, and its first call starts it [sleep:lazy]", async () => {
  const folder = freshFolder()
  const mark = `svc-mark-${crypto.randomUUID()}`
  const config = { mcpServers: { a: { ...echo(mark), start: "lazy" } } }
  const tools = async (url: string) =>
    ((await modern(`${url}/mcp`, "tools/list")).body.result?.tools ?? []) as readonly unknown[]
  const first = await startSvc({ folder, config })
  await eventually(async () => (await tools(first.url)).length === 1)
  await eventually(() => processes(mark).length === 0)
  first.signal("SIGTERM")
  await first.exited
  await using svc = await startSvc({ folder, config })
  expect(await tools(svc.url)).toHaveLength(1)
  expect(processes(mark)).toEqual([])
  expect(await (await fetch(`${svc.url}/health`)).json()).toMatchObject({ status: "healthy", servers: { healthy: 1 } })
  const { body } = await modern(`${svc.url}/mcp`, "tools/call", { name: "a_svc_echo", arguments: { m: "awake" } })
  expect(body.result).toMatchObject({ content: [{ text: "awake" }] })
  expect(processes(mark)).toHaveLength(1)
  const slept = await runSvc(["mcp", "sleep", "a", "--config-dir", folder])
  expect([slept.code, slept.stdout]).toEqual([0, "a sleeps until a call needs it\n"])
  await eventually(() => processes(mark).length === 0)
  expect((await runSvc(["mcp", "status", "--config-dir", folder])).stdout).toMatch(/^a +asleep/m)
  const started = await runSvc(["mcp", "start", "a", "--config-dir", folder])
  expect(started.stdout).toContain("started a: connected, 1 tool")
  const atAddress = await modern(`${svc.url}/servers/a/mcp`, "tools/call", { name: "echo", arguments: { m: "here" } })
  expect(atAddress.body.result).toMatchObject({ content: [{ text: "here" }] })
}, 60_000)

test("a subscription wakes a server, and while it is open the server neither falls asleep nor is put to sleep [sleep:needed]", async () => {
  const mark = `svc-mark-${crypto.randomUUID()}`
  const a = { command: "bun", args: [fixture("everything-2x.ts"), mark], idleTimeout: 300, start: "lazy" }
  await using svc = await startSvc({ config: { mcpServers: { a } } })
  const uri = "svc://a/test://static-text"
  await eventually(async () => JSON.stringify(await modern(`${svc.url}/mcp`, "resources/list")).includes(uri))
  await eventually(() => processes(mark).length === 0)
  const leaving = new AbortController()
  const stream = await listen(svc, { resourceSubscriptions: [uri] }, {}, { signal: leaving.signal })
  const events = eventsOf(stream)
  expect((await events.next()).value?.message.method).toBe("notifications/subscriptions/acknowledged")
  await eventually(() => processes(mark).length === 1)
  const refused = await runSvc(["mcp", "sleep", "a", "--config-dir", svc.folder])
  expect([refused.code, refused.stderr]).toEqual([64, expect.stringContaining("a subscription")])
  leaving.abort()
  await events.return(undefined).catch(() => undefined)
  await eventually(() => processes(mark).length === 0)
}, 60_000)

/** A svc with the gated server `a` asleep, whose tools are in a file that the test changes. */
async function gated(settings: object = {}, ...args: readonly string[]) {
  const folder = freshFolder()
  const file = join(folder, "gate.json")
  const set = (gate: Gate) => writeFileSync(file, JSON.stringify(gate))
  const a = { command: "bun", args: [fixture("gated.ts"), "--file", file, ...args], start: "lazy", ...settings }
  set({ tools: ["one", "two", "exit", "hang"], calls: 0 })
  const svc = await startSvc({ folder, config: { mcpServers: { a } } })
  const tools = async () =>
    ((await modern(`${svc.url}/mcp`, "tools/list")).body.result?.tools ?? []) as readonly { name: string }[]
  await eventually(async () => (await tools()).length === 4)
  const slept = await runSvc(["mcp", "sleep", "a", "--config-dir", folder])
  expect(slept.stdout).toContain("a sleeps")
  writeFileSync(`${file}.log`, "")
  return {
    svc,
    set,
    tools,
    log: () => readFileSync(`${file}.log`, "utf8").trim().split("\n"),
    call: async (name: string) =>
      (await modern(`${svc.url}/mcp`, "tools/call", { name: `a_svc_${name}`, arguments: {} })).body,
    [Symbol.asyncDispose]: () => svc[Symbol.asyncDispose](),
  }
}

test.each([["legacy"], ["modern"]])(
  "the call that wakes a %s server leaves before the server has listed, and a second one beside it [sleep:first-call]",
  async (era) => {
    await using it = await gated({}, `--${era}`)
    // Lists only once it has both calls.
    it.set({ tools: ["one", "two", "three"], calls: 2 })
    const changed = (async () => {
      const events = eventsOf(await listen(it.svc, { toolsListChanged: true }))
      for await (const { message } of events) if (message.method === "notifications/tools/list_changed") return
    })()
    await eventually(async () => (await it.tools()).length === 4)
    const [one, two] = await Promise.all([it.call("one"), it.call("two")])
    expect([one.result, two.result]).toMatchObject([{ content: [{ text: "one" }] }, { content: [{ text: "two" }] }])
    await eventually(async () => (await it.tools()).length === 3)
    expect(it.log().filter((line) => !line.startsWith("call"))).toEqual(["start", "list", "listed"])
    expect(it.log().indexOf("listed")).toBe(4)
    // Nor has svc given up a wait for it.
    expect(it.svc.stderr()).not.toContain("tools/list failed")
    await changed
  },
  60_000,
)

test("where tools are pinned, the call that wakes a server waits for its lists [sleep:first-call]", async () => {
  await using it = await gated({ toolPinning: "strict" })
  it.set({ tools: ["one"], calls: 1 })
  const calling = it.call("one")
  await eventually(() => it.log().includes("list"))
  it.set({ tools: ["one"], calls: 0 })
  expect((await calling).result).toMatchObject({ content: [{ text: "one" }] })
  expect(it.log()).toEqual(["start", "list", "listed", "call one"])
}, 60_000)

test.each([
  ["off", 1],
  ["strict", 0],
] as const)(
  "with pinning %s, a call of a tool that is gone when its server has woken names those that are there [sleep:gone]",
  async (toolPinning, calls) => {
    await using it = await gated({ toolPinning })
    it.set({ tools: ["two", "new"], calls })
    expect((await it.call("one")).error).toMatchObject({
      code: -32602,
      message: "Unknown tool: a_svc_one. Did you mean a_svc_new? The server now offers a_svc_two, a_svc_new",
    })
    // The server says itself what is wrong with a call of a tool that it has.
    expect(await it.call("two")).toMatchObject({ result: { content: [{ text: "two" }] } })
  },
  60_000,
)

test.each([
  ["the own address of a server", "/servers/a/mcp", "one", "No tool one. The server now offers two, new"],
  ["the lazy address of a server", "/servers/a/mcp?tools=search", "one", "No tool one. The server now offers two, new"],
  [
    "a lazy view",
    "/mcp?tools=search",
    "a_svc_one",
    "Unknown tool: a_svc_one. The server now offers a_svc_two, a_svc_new",
  ],
])(
  "a call at %s of a tool that is gone names those that are there, also through call_tool [sleep:gone]",
  async (_where, path, name, text) => {
    await using it = await gated({ toolPinning: "off" })
    const { svc } = it
    const call = async (params: Record<string, unknown>) =>
      JSON.stringify((await modern(`${svc.url}${path}`, "tools/call", params)).body)
    it.set({ tools: ["two", "new"], calls: 1 })
    expect(await call({ name, arguments: {} })).toContain(`"message":"${text}"`)
    if (!path.includes("search")) return
    it.set({ tools: ["one", "two"], calls: 0 })
    await runSvc(["mcp", "restart", "a", "--config-dir", svc.folder])
    await eventually(async () => JSON.stringify(await it.tools()).includes("a_svc_one"))
    await runSvc(["mcp", "sleep", "a", "--config-dir", svc.folder])
    it.set({ tools: ["two", "new"], calls: 1 })
    expect(await call({ name: "call_tool", arguments: { name } })).toContain(text)
  },
  60_000,
)

test("a server that exits before it has listed fails its call, and is started again [sleep:failed]", async () => {
  await using it = await gated({ restartDelay: 50, toolPinning: "off" })
  it.set({ tools: ["one", "exit"], calls: 9 })
  const { result } = await it.call("exit")
  expect(result).toMatchObject({ isError: true, content: [{ text: expect.stringContaining("code 3") }] })
  it.set({ tools: ["one"], calls: 0 })
  expect((await it.call("one")).result).toMatchObject({ content: [{ text: "one" }] })
  expect(it.log()).toEqual(["start", "list", "call exit", "start", "list", "listed", "call one"])
}, 60_000)

test("a server that is removed before it has listed fails its call and ends [sleep:first-call]", async () => {
  await using it = await gated()
  it.set({ tools: ["hang"], calls: 9 })
  const calling = it.call("hang")
  await eventually(() => it.log().includes("call hang"))
  const refused = await runSvc(["mcp", "sleep", "a", "--config-dir", it.svc.folder])
  expect([refused.code, refused.stderr]).toEqual([64, expect.stringContaining("is working on 1 call;")])
  await runSvc(["mcp", "remove", "a", "--config-dir", it.svc.folder, "--yes"])
  expect((await calling).result).toMatchObject({
    isError: true,
    content: [{ text: expect.stringContaining("was stopped during this call") }],
  })
  await eventually(() => processes(join(it.svc.folder, "gate.json")).length === 0)
}, 60_000)

test("a task keeps a server awake until it is cancelled [sleep:tasks]", async () => {
  const mark = `svc-mark-${crypto.randomUUID()}`
  const a = { command: "bun", args: [fixture("tasks.ts"), mark], idleTimeout: 100, start: "lazy" }
  await using svc = await startSvc({ config: { mcpServers: { a } } })
  await eventually(async () => JSON.stringify(await modern(`${svc.url}/mcp`, "tools/list")).includes("a_svc_work"))
  const client = new WanderingClient()
  await client.open(svc, { tasks: {} })
  const params = { name: "a_svc_work", arguments: {}, task: { ttl: 60_000 } }
  const made = (await client.request(svc, "tools/call", params)).result?.task as { readonly taskId: string }
  const refused = await runSvc(["mcp", "sleep", "a", "--config-dir", svc.folder])
  expect([refused.code, refused.stderr]).toEqual([64, expect.stringContaining("a task")])
  expect((await client.request(svc, "tasks/cancel", { taskId: made.taskId })).result).toMatchObject({
    status: "cancelled",
  })
  await eventually(() => processes(mark).length === 0)
}, 60_000)
