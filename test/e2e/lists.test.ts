/** Lists of servers: one that fails, and those of a session's own process. */
import { expect, test } from "bun:test"
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import {
  PromptListChangedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js"
import {
  eventually,
  fixture,
  freshEnv,
  freshFolder,
  type Instance,
  modern,
  npmServer,
  runSvc,
  SVC,
  startHttp,
  startSvc,
} from "./harness.ts"

const lists = (...args: string[]) => ({ command: "bun", args: [fixture("lists.ts"), ...args] })

const connect = (url: string, capabilities?: object): Promise<Client> =>
  connectOver(new StreamableHTTPClientTransport(new URL(url)), capabilities)

async function connectOver(transport: object, capabilities: object = {}): Promise<Client> {
  const client = new Client({ name: "t", version: "1" }, { capabilities: capabilities as never })
  await client.connect(transport as never)
  return client
}

/** Resolves when a client is told that its tools have changed. */
function changed(client: Client): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve())
  return promise
}

const piped = (command: string, folder: string, ...args: string[]) =>
  new StdioClientTransport({
    command: SVC,
    args: [command, "--config-dir", folder, ...args],
    env: freshEnv(folder),
    stderr: "ignore",
  })

const toolsOf = async (client: Client) => (await client.listTools()).tools.map(({ name }) => name)

type Live = { state: string; status: string; issues?: string[] }
async function stateOf(svc: Instance): Promise<Live | undefined> {
  const { stdout } = await runSvc(["mcp", "status", "--json", "--config-dir", svc.folder])
  return JSON.parse(stdout).servers[0]?.instances[0]
}

test.each([["a stdio server"], ["a supervised stdio server"], ["a remote server"]] as const)(
  "%s with one failing list offers its other lists, and the failing one as soon as it is answered [backend:lists] [backend:degraded]",
  async (kind) => {
    const folder = freshFolder()
    const [file, starts] = [join(folder, "up"), join(folder, "starts")]
    const args = ["--fail", "prompts/list", file, "--starts", starts]
    const remote = kind === "a remote server" ? await startHttp("lists.ts", ...args) : undefined
    await using _ = { [Symbol.asyncDispose]: async () => remote?.stop() }
    const restart = { restartOnExit: kind === "a supervised stdio server", restartDelay: 50 }
    await using svc = await startSvc({
      config: {
        mcpServers: { s: remote === undefined ? { ...lists(...args), ...restart } : { type: "http", url: remote.url } },
      },
      flags: ["--health-info-level", "basic"],
    })
    const client = await connect(`${svc.url}/mcp`)
    const told = Promise.withResolvers<void>()
    client.setNotificationHandler(PromptListChangedNotificationSchema, () => told.resolve())
    expect(await toolsOf(client)).toEqual(["s_svc_hello", "s_svc_grow", "s_svc_die", "s_svc_ask"])
    expect(await client.callTool({ name: "s_svc_hello" })).not.toHaveProperty("isError")
    expect((await client.listPrompts()).prompts).toEqual([])
    expect(await stateOf(svc)).toMatchObject({
      state: "degraded",
      status: "connected",
      issues: ["prompts/list: db down"],
    })
    const { servers } = (await (await fetch(`${svc.url}/health`)).json()) as { servers: { details: object[] } }
    expect(servers.details).toMatchObject([{ status: "connected", healthy: true, lastError: "prompts/list: db down" }])
    expect((await fetch(`${svc.url}/health/ready`)).status).toBe(200)
    const loading = await fetch(`${svc.url}/health/mcp`)
    expect([loading.status, await loading.json()]).toMatchObject([
      200,
      { servers: { details: { s: { state: "ready", error: "prompts/list: db down" } } } },
    ])
    writeFileSync(file, "")
    await told.promise
    expect((await client.listPrompts()).prompts).toMatchObject([{ name: "s_svc_greet" }])
    expect(await stateOf(svc)).toMatchObject({ state: "connected" })
    expect(readFileSync(starts, "utf8").trim().split("\n")).toHaveLength(1)
    await client.close()
  },
  30_000,
)

test("a list that is never answered does not delay loading", async () => {
  await using svc = await startSvc({
    config: { mcpServers: { s: { ...lists("--silent", "prompts/list"), connectionTimeout: 1500 } } },
  })
  await eventually(async () => (await fetch(`${svc.url}/health/mcp`)).status === 200)
  expect(await stateOf(svc)).toMatchObject({ state: "degraded", issues: ["prompts/list: has not answered yet"] })
  const client = await connect(`${svc.url}/mcp`)
  expect(await toolsOf(client)).toContain("s_svc_hello")
  await client.close()
}, 30_000)

test("a server that exits while svc requests a list counts as lost", async () => {
  await using svc = await startSvc({ config: { mcpServers: { s: lists("--end", "prompts/list") } } })
  await svc.said("could not be started")
  expect(await stateOf(svc)).toMatchObject({ state: "failed", status: "error" })
}, 30_000)

test.each([
  ["at the aggregate", "/mcp", "s_svc_"],
  ["at the server's own address", "/servers/s/mcp", ""],
] as const)(
  "the lists of a session's own process apply only to this session, %s [isolation:lists]",
  async (_where, path, prefix) => {
    await using svc = await startSvc({
      config: { mcpServers: { s: { ...lists(), isolation: "session", disabledTools: ["die"] } } },
    })
    const [one, other, asked] = await Promise.all([
      connect(`${svc.url}${path}`),
      connect(`${svc.url}${path}`),
      connect(`${svc.url}${path}`, { elicitation: {} }),
    ])
    const all = ["hello", "grow", "ask"].map((name) => prefix + name)
    let changes = 0
    other.setNotificationHandler(ToolListChangedNotificationSchema, () => void changes++)
    asked.setNotificationHandler(ToolListChangedNotificationSchema, () => void changes++)
    for (const client of [one, other, asked]) expect(await toolsOf(client)).toEqual(all)
    // Each own process gets the capabilities of its client.
    const limited = changed(one)
    await one.callTool({ name: `${prefix}hello` })
    await limited
    expect(await toolsOf(one)).toEqual(all.slice(0, 2))
    await expect(one.callTool({ name: `${prefix}ask` })).rejects.toThrow("Unknown tool")
    const grown = changed(one)
    await one.callTool({ name: `${prefix}grow` })
    await grown
    expect(await toolsOf(one)).toEqual([...all.slice(0, 2), `${prefix}grown`])
    expect(await one.callTool({ name: `${prefix}grown` })).not.toHaveProperty("isError")
    // Others have what they had, and hear nothing: neither one without a process nor one whose process lists the same.
    await asked.callTool({ name: `${prefix}hello` })
    for (const client of [other, asked]) expect(await toolsOf(client)).toEqual(all)
    expect(changes).toBe(0)
    // Hidden tools are also hidden for own processes.
    const hidden = changed(one)
    svc.write({ mcpServers: { s: { ...lists(), isolation: "session", disabledTools: ["die", "grown"] } } })
    await hidden
    expect(await toolsOf(one)).toEqual(all.slice(0, 2))
    await Promise.all([one, other, asked].map((client) => client.close()))
  },
  30_000,
)

test.each([
  ["/sse", ({ url }: Instance) => new SSEClientTransport(new URL(`${url}/sse`))],
  ["svc proxy", ({ folder }: Instance) => piped("proxy", folder)],
  ["svc serve over stdio", ({ folder }: Instance) => piped("serve", folder, "--transport", "stdio")],
] as const)(
  "the lists of a session's own process apply to this session over %s",
  async (_what, transportTo) => {
    await using svc = await startSvc({ config: { mcpServers: { s: { ...lists(), isolation: "session" } } } })
    const client = await connectOver(transportTo(svc), { elicitation: {} })
    const before = await toolsOf(client)
    const grown = changed(client)
    await client.callTool({ name: "s_svc_grow" })
    await grown
    expect(await toolsOf(client)).toEqual([...before, "s_svc_grown"])
    expect(await client.callTool({ name: "s_svc_grown" })).not.toHaveProperty("isError")
    await client.close()
  },
  30_000,
)

test("in a session's own process, a real server lists what it lists for a client with the same capabilities", async () => {
  const server = npmServer("server-everything")
  await using svc = await startSvc({ config: { mcpServers: { e: { ...server, isolation: "session" } } } })
  const [direct, client] = await Promise.all([
    connectOver(new StdioClientTransport(server)),
    connect(`${svc.url}/servers/e/mcp`),
  ])
  expect((await toolsOf(client)).length).toBeGreaterThan((await toolsOf(direct)).length)
  const limited = changed(client)
  await client.callTool({ name: "echo", arguments: { message: "hi" } })
  await limited
  expect(await toolsOf(client)).toEqual(await toolsOf(direct))
  await Promise.all([direct.close(), client.close()])
}, 30_000)

test("a tool that a session's own process does not list is refused from the session's first call on", async () => {
  await using svc = await startSvc({ config: { mcpServers: { s: { ...lists(), isolation: "session" } } } })
  const client = await connect(`${svc.url}/mcp`)
  await expect(client.callTool({ name: "s_svc_ask" })).rejects.toThrow("Unknown tool: s_svc_ask")
  await client.close()
}, 30_000)

test("a call to a failed server gets the reason, without secrets", async () => {
  const config = (isolation: string, command: string) => ({
    mcpServers: { s: { command: "sh", args: ["-c", command], isolation, env: { TOKEN: "sekret-12345" } } },
  })
  const failing = `echo "Error: db down for $$TOKEN" >&2; exit 1`
  await using svc = await startSvc({ config: config("shared", failing) })
  await svc.said("could not be started")
  const client = await connect(`${svc.url}/mcp`)
  const text = async () => JSON.stringify(await client.callTool({ name: "s_svc_hello" }))
  expect(await text()).toMatch(/s is down: .*db down for .*svc mcp status/)
  expect(await text()).not.toContain("sekret")
  // Its first process is the shared one, and a session's own fails.
  const first = join(svc.folder, "first")
  const { command, args } = lists()
  svc.write(
    config("session", `if mkdir ${first} 2>/dev/null; then exec ${[command, ...args].join(" ")}; fi; ${failing}`),
  )
  await changed(client)
  expect(await text()).toMatch(/could not be started for this session: .*db down for .*svc logs/)
  expect(await text()).not.toContain("sekret")
  await client.close()
}, 30_000)

test("the lists of a session's own process stay after its end, until the next process lists", async () => {
  await using svc = await startSvc({ config: { mcpServers: { s: { ...lists(), isolation: "session" } } } })
  const client = await connect(`${svc.url}/mcp`, { elicitation: {} })
  const before = await toolsOf(client)
  const grown = changed(client)
  await client.callTool({ name: "s_svc_grow" })
  await grown
  expect(await client.callTool({ name: "s_svc_die" })).toMatchObject({ isError: true })
  expect(await toolsOf(client)).toEqual([...before, "s_svc_grown"])
  const fresh = changed(client)
  await expect(client.callTool({ name: "s_svc_grown" })).rejects.toThrow("Unknown tool: s_svc_grown")
  await fresh
  expect(await toolsOf(client)).toEqual(before)
  await client.close()
}, 30_000)

test("a list that is older than its time is requested again [lists:age]", async () => {
  const names = ["a"]
  using server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const { id, method } = (await request.json()) as { id: number; method: string }
      const common = { resultType: "complete", ttlMs: 1000, cacheScope: "public" }
      const tools = names.map((name) => ({ name, inputSchema: { type: "object" } }))
      const discovered = {
        supportedVersions: ["2026-07-28"],
        capabilities: { tools: {} },
        serverInfo: { name: "t", version: "1" },
      }
      const result = { ...common, ...(method === "tools/list" ? { tools } : discovered) }
      return Response.json({ jsonrpc: "2.0", id, result })
    },
  })
  await using svc = await startSvc({ config: { mcpServers: { s: { url: `${server.url}mcp` } } } })
  const toolsNow = async () => (await modern(`${svc.url}/mcp`, "tools/list")).body.result?.tools
  expect(await toolsNow()).toMatchObject([{ name: "s_svc_a" }])
  names.push("b")
  await eventually(async () => ((await toolsNow()) as unknown[]).length === 2)
})

test("a restarted server whose tools/list fails keeps its tools [backend:lists:kept]", async () => {
  const folder = freshFolder()
  const [file, starts] = [join(folder, "up"), join(folder, "starts")]
  writeFileSync(file, "")
  await using svc = await startSvc({
    config: {
      mcpServers: {
        s: { ...lists("--fail", "tools/list", file, "--starts", starts), restartOnExit: true, restartDelay: 50 },
      },
    },
  })
  const client = await connect(`${svc.url}/mcp`)
  const tools = await toolsOf(client)
  expect(tools).toContain("s_svc_hello")
  rmSync(file)
  expect(await client.callTool({ name: "s_svc_die" })).toMatchObject({ isError: true })
  await eventually(async () => (await stateOf(svc))?.issues?.join().includes("tools/list: db down") === true)
  expect(await toolsOf(client)).toEqual(tools)
  expect(await client.callTool({ name: "s_svc_hello" })).not.toHaveProperty("isError")
  expect(readFileSync(starts, "utf8").trim().split("\n").length).toBe(2)
  await client.close()
}, 30_000)

test("a call to a server that has never listed names it and its failure, and no other server [backend:lists:unlisted]", async () => {
  const folder = freshFolder()
  await using svc = await startSvc({
    config: {
      mcpServers: {
        a: lists("--fail", "tools/list", join(folder, "up")),
        b: lists(),
      },
    },
  })
  const client = await connect(`${svc.url}/mcp`)
  const own = await connect(`${svc.url}/servers/a/mcp`)
  const text = "a: tools/list failed: db down; svc requests it again"
  const failure = { isError: true, content: [{ type: "text", text }] }
  expect(await client.callTool({ name: "a_svc_hello" })).toMatchObject(failure)
  expect(await own.callTool({ name: "hello" })).toMatchObject(failure)
  // For a server that has listed its tools, only its own tools are suggested.
  expect(client.callTool({ name: "b_svc_helo" })).rejects.toThrow("Unknown tool: b_svc_helo. Did you mean b_svc_hello?")
  writeFileSync(join(folder, "up"), "")
  await eventually(async () => (await toolsOf(client)).includes("a_svc_hello"))
  expect(await client.callTool({ name: "a_svc_hello" })).not.toHaveProperty("isError")
  await client.close()
  await own.close()
}, 30_000)

test("at a server's own address, unknown members and notifications pass in both directions [relay:unknown]", async () => {
  await using svc = await startSvc({ config: { mcpServers: { s: lists() } } })
  const url = `${svc.url}/servers/s/mcp`
  const post = async (message: object, headers: Record<string, string>) => {
    const body = JSON.stringify({ jsonrpc: "2.0", ...message })
    const response = await fetch(url, { method: "POST", headers: { ...HEADERS, ...headers }, body })
    return { response, result: response.status === 202 ? undefined : ((await response.json()) as Answer).result }
  }
  const clientInfo = { name: "t", version: "1" }
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo }
  const opened = await post({ id: 1, method: "initialize", params }, {})
  expect(opened.result).toMatchObject({ extra: 1, _meta: { "com.example/of": "handshake" } })
  const session = { "mcp-session-id": opened.response.headers.get("mcp-session-id") ?? "" }
  const shown = { extra: [1], _meta: { "com.example/of": "prompts" }, prompts: [{ name: "greet" }] }
  expect((await post({ id: 2, method: "prompts/list" }, session)).result).toEqual(shown)
  expect((await modern(url, "prompts/list")).body.result).toMatchObject(shown)
  expect((await modern(url, "server/discover")).body.result).toMatchObject({
    extra: 1,
    _meta: { "com.example/of": "handshake", "io.modelcontextprotocol/serverInfo": { name: "lists" } },
  })
  await post({ method: "notifications/com.example/legacy" }, session)
  const era = { "mcp-protocol-version": "2026-07-28" }
  for (const name of ["cancelled", "roots/list_changed", "com.example/modern"])
    await post({ method: `notifications/${name}`, params: {} }, { ...era, "mcp-method": `notifications/${name}` })
  const { result } = await post({ id: 3, method: "com.example/heard" }, session)
  expect(result).toEqual({
    heard: ["notifications/initialized", "notifications/com.example/legacy", "notifications/com.example/modern"],
  })
  const all = await modern(`${svc.url}/mcp`, "prompts/list")
  expect(all.body.result).not.toHaveProperty("extra")
})

const HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" }
type Answer = { readonly result: unknown }
