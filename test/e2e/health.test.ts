/** Health and status of real servers: hidden tools, restarts, first starts, outages, unanswered pings. */
import { expect, test } from "bun:test"
import { echo, eventually, type Instance, runSvc, startSvc } from "./harness.ts"

const FLAGS = ["--health-info-level", "full", "--health-rate-limit", "off", "--internal-tools", "all"]

type Json = Readonly<Record<string, unknown>>

const readJson = async (svc: Instance, path: string): Promise<Json> =>
  (await (await fetch(`${svc.url}${path}`)).json()) as Json

const post = (svc: Instance, tool: string, args: Json = {}): Promise<Response> =>
  fetch(`${svc.url}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ tool, arguments: args }),
  })

/** Calls an internal tool of svc and returns its structured content. */
async function callTool(svc: Instance, tool: string, args: Json = {}): Promise<Json> {
  const { result } = (await (await post(svc, tool, args)).json()) as { result: { structuredContent: Json } }
  return result.structuredContent
}

/** Runs a command of svc for the configuration of an instance. */
const command = async (svc: Instance, ...args: string[]): Promise<string> =>
  (await runSvc([...args, "--config-dir", svc.folder])).stdout

const isConnected = (svc: Instance, name: string) =>
  eventually(async () => (await readJson(svc, `/health/mcp/${name}`)).state === "ready")

test("tools counts the offered tools everywhere, and hidden tools are counted separately [tool:counts]", async () => {
  const tools = ["echo", "echo1", "echo2"]
  await using svc = await startSvc({
    config: {
      mcpServers: {
        some: { ...echo("--tools", "3"), disabledTools: ["echo"] },
        none: { ...echo("--tools", "3"), disabledTools: tools },
      },
    },
    flags: FLAGS,
  })
  await Promise.all(["some", "none"].map((name) => isConnected(svc, name)))
  const some = { name: "some", tools: 2, hiddenTools: 1 }
  const none = { name: "none", tools: 0, hiddenTools: 3 }
  expect(await readJson(svc, "/health")).toMatchObject({ servers: { details: [some, none] } })
  expect(await readJson(svc, "/health/mcp/none")).toMatchObject(none)
  expect(await callTool(svc, "mcp_list")).toMatchObject({ servers: [some, none] })
  expect(await callTool(svc, "mcp_status", { serverName: "none" })).toMatchObject({
    servers: [{ ...none, instances: [{ tools: 0, hiddenTools: 3, empty: true }] }],
    warnings: ["none is connected but offers no tools, prompts or resources"],
  })
  expect(JSON.parse(await command(svc, "mcp", "list", "--json"))).toMatchObject([some, none])
  for (const args of [
    ["mcp", "list"],
    ["mcp", "status"],
  ])
    expect(await command(svc, ...args)).toMatch(/some .* 2 \(1 hidden\)[\s\S]*none .* 0 \(3 hidden\)/)
  await svc.said(/connected, but offers no tools \(3 hidden\), prompts or resources/)
})

test("a template that an issue keeps from running does not make svc unhealthy [health:report:left-out]", async () => {
  await using svc = await startSvc({
    config: {
      mcpServers: { good: echo() },
      mcpTemplates: {
        broken: { ...echo(), env: { A: "{{nope}}" } },
        unused: { ...echo(), tags: ["{{project.name}}"] },
      },
    },
    flags: FLAGS,
  })
  await isConnected(svc, "good")
  const response = await fetch(`${svc.url}/health`)
  expect(response.status).toBe(200)
  expect(await response.json()).toMatchObject({
    status: "healthy",
    servers: { total: 1, healthy: 1 },
    configuration: { enabledCount: 2 },
    issues: [expect.stringContaining("nope")],
  })
})

test("a supervised server is starting at first, and restarting leaves loading complete [health:supervision:starting] [health:mcp:restarting]", async () => {
  await using svc = await startSvc({
    config: {
      mcpServers: {
        b: { ...echo(), restartOnExit: true, restartDelay: 60_000 },
        mute: { command: "sleep", args: ["60"], restartOnExit: true },
      },
    },
    flags: FLAGS,
  })
  const mute = await fetch(`${svc.url}/health/mcp/mute`)
  expect([mute.status, await mute.json()]).toMatchObject([
    202,
    { state: "loading", backendSupervision: { mute: { state: "starting", attempt: 0 } } },
  ])
  await isConnected(svc, "b")
  svc.write({ mcpServers: { b: { ...echo(), restartOnExit: true, restartDelay: 60_000 } } })
  const pid = await eventually(async () => {
    const { backendSupervision } = await readJson(svc, "/health/ready")
    const { b, mute } = backendSupervision as Record<string, { pid: number } | undefined>
    return mute === undefined && b?.pid
  })
  process.kill(pid, "SIGKILL")
  await eventually(async () => (await readJson(svc, "/health/mcp/b")).state === "restarting")
  const { status, headers, ...response } = await fetch(`${svc.url}/health/mcp`).then(async (answer) => ({
    status: answer.status,
    headers: answer.headers,
    body: (await answer.json()) as Json,
  }))
  expect([status, headers.get("x-loading-complete"), headers.get("x-success-rate")]).toEqual([200, "true", "0"])
  expect(response.body).toMatchObject({
    loading: { isComplete: true, successRate: 0 },
    summary: { total: 1, loading: 0, failed: 1 },
    servers: { byState: { restarting: ["b"] } },
  })
})

test("svc health names the servers that are starting, and calls svc starting only if most of them are [cli:health]", async () => {
  const mute = { command: "sleep", args: ["60"] }
  await using svc = await startSvc({ config: { mcpServers: { a: echo(), b: echo(), mute } }, flags: FLAGS })
  const health = () => runSvc(["health", "--config-dir", svc.folder])
  await isConnected(svc, "a")
  await isConnected(svc, "b")
  const some = await health()
  expect([some.code, some.stdout]).toEqual([
    0,
    expect.stringMatching(/^degraded \(.*\): 2 of 3 servers ready \(starting: mute\)\n/),
  ])
  svc.write({ mcpServers: { a: echo(), mute } })
  await eventually(async () => (await fetch(`${svc.url}/health/mcp/b`)).status === 404)
  const most = await health()
  expect([most.code, most.stdout]).toEqual([
    75,
    expect.stringMatching(/^starting \(.*\): 1 of 2 servers ready \(starting: mute\)\n/),
  ])
  const broken = { command: "svc-test-no-such-command" }
  svc.write({ mcpServers: { a: echo(), mute, c: broken, d: broken } })
  await eventually(async () => (await readJson(svc, "/health/mcp/d")).state === "failed")
  // Both would not be more than half.
  const lost = await health()
  expect([lost.code, lost.stdout]).toEqual([
    69,
    expect.stringMatching(/^unhealthy \(.*\): 1 of 4 servers ready \(starting: mute\)\n/),
  ])
})

/**
 * A legacy server over HTTP in this process. `stop` closes its port, `start` opens the same port again. It answers the tool
 * `fail` with 502.
 */
function createRemote() {
  const answers: Record<string, object> = {
    initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "r", version: "1" } },
    "tools/list": { tools: ["t", "fail"].map((name) => ({ name, inputSchema: { type: "object" } })) },
    "tools/call": { content: [] },
    ping: {},
  }
  const open = (port: number) =>
    Bun.serve({
      port,
      hostname: "127.0.0.1",
      async fetch(request) {
        if (request.method !== "POST") return new Response(null, { status: 405 })
        type Request = { id?: unknown; method: string; params?: { name?: string } }
        const { id, method, params } = (await request.json()) as Request
        if (params?.name === "fail") return new Response(null, { status: 502 })
        if (id === undefined) return new Response(null, { status: 202 })
        const result = answers[method]
        const error = { code: -32601, message: "unknown method" }
        return Response.json({ jsonrpc: "2.0", id, ...(result === undefined ? { error } : { result }) })
      },
    })
  let server = open(0)
  const { port } = server
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    stop: () => server.stop(true),
    start() {
      server = open(port as number)
    },
  }
}

test("a remote server that was away for a moment is healthy as soon as it is back [health:healthy:server]", async () => {
  const remote = createRemote()
  await using svc = await startSvc({ config: { mcpServers: { r: { url: remote.url } } }, flags: FLAGS })
  await isConnected(svc, "r")
  await remote.stop()
  await post(svc, "r_svc_t")
  const details = async () => {
    const { servers } = await readJson(svc, "/health")
    return (servers as { details: readonly Json[] }).details[0]
  }
  await eventually(async () => (await details())?.status !== "connected")
  remote.start()
  await eventually(async () => (await details())?.status === "connected")
  expect(await details()).toMatchObject({ healthy: true })
  expect((await fetch(`${svc.url}/health`)).status).toBe(200)
  await remote.stop()
})

test("a connected server whose requests fail is unhealthy for the same reason everywhere [tools:health]", async () => {
  const remote = createRemote()
  await using svc = await startSvc({ config: { mcpServers: { r: { url: remote.url } } }, flags: FLAGS })
  await isConnected(svc, "r")
  expect(await callTool(svc, "mcp_status")).toMatchObject({
    servers: [{ healthy: true, instances: [{ healthy: true }] }],
  })
  await post(svc, "r_svc_fail")
  const { servers } = (await readJson(svc, "/health")) as { servers: { details: readonly Json[] } }
  const lastError = servers.details[0]?.lastError
  expect(servers.details[0]).toMatchObject({
    status: "connected",
    healthy: false,
    lastError: expect.stringContaining("502"),
  })
  expect(await readJson(svc, "/health/mcp/r")).toMatchObject({ state: "ready", error: lastError })
  const unhealthy = { healthy: false, lastError }
  expect(await callTool(svc, "mcp_status", { serverName: "r" })).toMatchObject({
    servers: [{ status: "connected", ...unhealthy, instances: [{ status: "connected", ...unhealthy }] }],
    warnings: expect.arrayContaining([`r: ${lastError}`]),
  })
  expect(JSON.parse(await command(svc, "mcp", "status", "r", "--json"))).toMatchObject({
    servers: [{ instances: [{ status: "connected", ...unhealthy }] }],
  })
  expect(await command(svc, "mcp", "status", "r")).toMatch(/state +degraded[\s\S]*note .*502/)
  await remote.stop()
})
