/** The running servers follow the file, and svc restarts only what must restart. */
import { expect, test } from "bun:test"
import { renameSync, unlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js"
import { echo, eventually, fixture, type Instance, processes, startSvc } from "./harness.ts"

async function connect(svc: Instance) {
  const client = new Client({ name: "reload", version: "1" })
  let changes = 0
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
    changes++
  })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${svc.url}/mcp`)) as never)
  return { client, changes: () => changes, tools: async () => (await client.listTools()).tools }
}

test("servers come and go with the file, and the others are not touched [reload:file] [reload:untouched]", async () => {
  const mark = `svc-mark-${crypto.randomUUID()}`
  await using svc = await startSvc({ config: { mcpServers: { stays: echo(mark) } } })
  const { client, tools, changes } = await connect(svc)
  expect((await tools()).map(({ name }) => name)).toEqual(["stays_svc_echo"])
  const [pid] = processes(mark)
  svc.write({ mcpServers: { stays: echo(mark), comes: echo() } })
  await eventually(async () => (await tools()).length === 2)
  await eventually(() => changes() >= 1)
  svc.write("{ broken")
  await svc.said("not valid JSON")
  // As an editor leaves the file in the middle of writing, or a full disk.
  svc.write("")
  await svc.said("the file is empty")
  unlinkSync(join(svc.folder, "mcp.json"))
  await svc.said("the file is gone")
  expect(await client.callTool({ name: "comes_svc_echo", arguments: { m: "still here" } })).toMatchObject({
    content: [{ text: "still here" }],
  })
  svc.write({ mcpServers: { stays: echo(mark) } })
  await eventually(async () => (await tools()).length === 1)
  expect(processes(mark)).toEqual([pid as number])
  await client.close()
})

test("hidden tools and descriptions reach clients without a restart [reload:metadata] [tool:hidden] [tool:override] [tool:override:names] [tool:overrides]", async () => {
  const mark = `svc-mark-${crypto.randomUUID()}`
  const server = echo(mark, "--tools", "3")
  await using svc = await startSvc({ config: { mcpServers: { a: server } } })
  const { client, tools, changes } = await connect(svc)
  expect(await tools()).toHaveLength(3)
  const [pid] = processes(mark)
  const described = {
    disabledTools: ["echo1", "a_svc_echo2"],
    toolDescriptionOverrides: { echo: "Says it again" },
    toolOverrides: { echo: { title: "Echo!", annotations: { readOnlyHint: true }, searchHint: "repeat" } },
    alwaysLoad: true,
    tags: ["x"],
  }
  svc.write({ mcpServers: { a: { ...server, ...described } } })
  await eventually(() => changes() >= 1)
  expect((await tools()).map(({ name, description }) => [name, description])).toEqual([["a_svc_echo", "Says it again"]])
  const plain = new Client({ name: "plain", version: "1" })
  await plain.connect(new StreamableHTTPClientTransport(new URL(`${svc.url}/servers/a/mcp`)) as never)
  for (const [echo] of [await tools(), (await plain.listTools()).tools])
    expect(echo).toMatchObject({
      title: "Echo!",
      annotations: { readOnlyHint: true },
      _meta: { "anthropic/searchHint": "repeat", "anthropic/alwaysLoad": true },
    })
  await plain.close()
  await expect(client.callTool({ name: "a_svc_echo1", arguments: {} })).rejects.toThrow("Tool a_svc_echo1 is disabled")
  svc.write({ mcpServers: { a: { ...server, toolDescriptionOverrides: { a_svc_echo: "Qualified", nope: "x" } } } })
  await eventually(async () => (await tools())[0]?.description === "Qualified")
  await svc.said("a: toolDescriptionOverrides or toolOverrides names tools that the server does not have: nope")
  svc.write({ mcpServers: { a: server } })
  await eventually(async () => (await tools())[0]?.description === "Returns its argument")
  expect(await tools()).toHaveLength(3)
  expect(processes(mark)).toEqual([pid as number])
  await client.close()
})

test("a change of .env restarts the servers whose values have changed, and a broken .env restarts none [reload:dotenv] [env:dotenv:broken]", async () => {
  const [one, two] = [`svc-mark-${crypto.randomUUID()}`, `svc-mark-${crypto.randomUUID()}`]
  await using svc = await startSvc({
    config: {
      mcpServers: { one: { ...echo(one), env: { A: "${A:-none}" } }, two: { ...echo(two), env: { B: "${B:-none}" } } },
    },
  })
  const { client, tools } = await connect(svc)
  await eventually(async () => (await tools()).length === 2)
  const [first] = processes(one)
  const [second] = processes(two)
  const dotenv = join(svc.folder, ".env")
  writeFileSync(dotenv, "A=1\n")
  await svc.said("reloaded: replaced one")
  await eventually(async () => processes(one).length === 1 && processes(one)[0] !== first)
  writeFileSync(dotenv, "A=1\nnonsense\n")
  await svc.said(".env:2:1: expected NAME=value")
  const [kept] = processes(one)
  unlinkSync(dotenv)
  await eventually(async () => processes(one).length === 1 && processes(one)[0] !== kept)
  expect(processes(two)).toEqual([second as number])
  await client.close()
})

test("a replacement's time to connect begins when the old process is dead", async () => {
  const config = (n: string) => ({
    mcpServers: {
      slow: { command: "bun", args: [fixture("dying.ts"), "stubborn"], env: { N: n }, connectionTimeout: 3000 },
    },
  })
  await using svc = await startSvc({ config: config("1") })
  await svc.said("slow: connected")
  svc.write(config("2"))
  await svc.said(/slow: connected[\s\S]*slow: (connected|could not)/)
  expect(svc.stderr()).not.toContain("could not be started")
}, 20_000)

test("calls on a remote server that is replaced finish on the old connection", async () => {
  let release: () => void = () => undefined
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const remote = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      if (request.method !== "POST") return new Response(null, { status: 405 })
      const { id, method } = (await request.json()) as { id?: number; method: string }
      if (id === undefined) return new Response(null, { status: 202 })
      if (method === "tools/call") await held
      const results: Record<string, unknown> = {
        initialize: {
          protocolVersion: "2025-11-25",
          capabilities: { tools: {} },
          serverInfo: { name: "r", version: "1" },
        },
        "tools/list": { tools: [{ name: "wait", inputSchema: { type: "object" } }] },
        "tools/call": { content: [{ type: "text", text: "finished" }] },
      }
      const result = results[method]
      return Response.json({
        jsonrpc: "2.0",
        id,
        ...(result === undefined ? { error: { code: -32601, message: "no" } } : { result }),
      })
    },
  })
  const url = `http://127.0.0.1:${remote.port}/mcp`
  await using svc = await startSvc({ config: { mcpServers: { r: { url } } } })
  const { client } = await connect(svc)
  await svc.said("r: connected")
  const call = client.callTool({ name: "r_svc_wait", arguments: {} })
  await eventually(() => remote.pendingRequests > 0)
  svc.write({ mcpServers: { r: { url, headers: { "x-new": "1" } } } })
  await svc.said("reloaded: replaced r")
  await svc.said(/r: connected[\s\S]*r: connected/)
  release()
  expect(await call).toMatchObject({ content: [{ text: "finished" }] })
  await client.close()
  await remote.stop(true)
})

test("two hundred edits in a row disturb no call on a server they do not touch", async () => {
  const mark = `svc-mark-${crypto.randomUUID()}`
  const config = (count: number) =>
    JSON.stringify({
      mcpServers: { still: echo(mark), [`moves-${count % 2}`]: { ...echo(), env: { COUNT: String(count) } } },
    })
  await using svc = await startSvc({ config: config(0) })
  await svc.said("still: connected")
  const [pid] = processes(mark)
  let running = true
  let calls = 0
  const clients = await Promise.all(Array.from({ length: 16 }, () => connect(svc)))
  const callers = clients.map(async ({ client }, index) => {
    while (running) {
      const m = `${index} ${calls++}`
      expect(await client.callTool({ name: "still_svc_echo", arguments: { m } })).toMatchObject({
        content: [{ text: m }],
      })
    }
  })
  const file = join(svc.folder, "mcp.json")
  for (let count = 1; count <= 200; count++) {
    writeFileSync(`${file}.next`, config(count))
    renameSync(`${file}.next`, file)
    await Bun.sleep(100)
  }
  running = false
  await Promise.all(callers)
  // On a loaded machine too, each client calls during most of the 200 reloads.
  expect(calls).toBeGreaterThan(200)
  expect(processes(mark)).toEqual([pid as number])
  const [first] = clients
  await eventually(
    async () => (await first?.tools())?.map(({ name }) => name).join() === "still_svc_echo,moves-0_svc_echo",
  )
  await Promise.all(clients.map(({ client }) => client.close()))
}, 60_000)
