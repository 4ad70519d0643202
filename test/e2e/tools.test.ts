/** svc's own tools through real clients of both SDKs, and as plain calls. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport as Http1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { CLIENTS, connect1, connect2 } from "./clients.ts"
import { echo, type Instance, readIfThere, runSvc, startSvc } from "./harness.ts"

const ALL = ["--internal-tools", "all", "--confirm-installs", "off", "--confirm-edits", "off"]
const running = async (flags = ALL) =>
  startSvc({
    config: {
      mcpServers: {
        one: { ...echo("--tools", "2"), tags: ["a"], env: { MY_TOKEN: "sekret-value-1" } },
        off: { ...echo(), disabled: true },
        bad: { command: "false", connectionTimeout: 5000 },
      },
    },
    flags: ["--startup-wait", "10s", ...flags],
  })
const written = (svc: Instance) => JSON.parse(readIfThere(join(svc.folder, "mcp.json")) ?? "").mcpServers

test.each(CLIENTS)(
  "a client of %s manages servers [tools:management]",
  async (_name, connect) => {
    await using svc = await running()
    await using client = await connect(svc)
    expect((await client.names()).slice(-2)).toEqual(["one_svc_echo", "one_svc_echo1"])
    expect((await client.names())[0]).toStartWith("mcp_")

    const { structuredContent: list } = await client.call("mcp_list")
    expect(list).toMatchObject({
      total: 3,
      servers: [
        { name: "one", enabled: true, status: "connected", tools: 2, tags: ["a"] },
        { name: "off", enabled: false, state: "disabled", status: "disconnected" },
        { name: "bad", status: "error", lastError: expect.any(String) },
      ],
    })
    const filtered = async (args: object) =>
      ((await client.call("mcp_list", args as never)).structuredContent.servers as { name: string }[]).map(
        ({ name }) => name,
      )
    expect(await filtered({ filter: "disabled" })).toEqual(["off"])
    expect(await filtered({ filter: "enabled" })).toEqual(["one", "bad"])
    expect(await filtered({ filter: "connected" })).toEqual(["one"])
    expect(await filtered({ filter: "error", tags: ["a"] })).toEqual([])

    const { structuredContent: status } = await client.call("mcp_status", { serverName: "one", details: true })
    expect(status).toMatchObject({
      servers: [{ name: "one", instances: [{ id: "one", state: "connected", pid: expect.any(Number), restarts: 0 }] }],
    })
    expect(JSON.stringify(status)).toContain('{"key":"env.MY_TOKEN","value":"•••","from":["server"]}')
    expect(JSON.stringify(status)).not.toContain("sekret")
    expect((await client.call("mcp_status")).structuredContent.servers).toHaveLength(3)

    expect(await client.call("mcp_enable", { name: "off" })).toMatchObject({
      structuredContent: {
        serverName: "off",
        enabled: true,
        changed: true,
        status: "connected",
        reload: { added: ["off"] },
      },
    })
    expect(await client.names()).toContain("off_svc_echo")
    expect(await client.call("mcp_disable", { server: "off" })).toMatchObject({
      structuredContent: { enabled: false, reload: { removed: ["off"] } },
    })
    expect(await client.names()).not.toContain("off_svc_echo")
    expect(written(svc).off).toMatchObject({ disabled: true })

    expect(await client.call("mcp_reload", { serverName: "one" })).toMatchObject({
      structuredContent: { restarted: ["one"], warnings: [] },
    })
    expect(await client.call("mcp_reload")).toMatchObject({
      structuredContent: { restarted: [], reload: { applied: true, added: [] } },
    })
    expect((await client.call("mcp_reload", { serverName: "off" })).structuredContent).toMatchObject({
      error: { code: "conflict", message: "off is not running (disabled)", hint: { tool: "mcp_enable" } },
    })

    const patch = { disabledTools: ["echo1"], env: { MY_TOKEN: "sekret-value-2" }, tags: null }
    const before = readIfThere(join(svc.folder, "mcp.json"))
    const dry = await client.call("mcp_edit", { serverName: "one", patch, dryRun: true })
    expect(dry.structuredContent).toMatchObject({
      serverName: "one",
      dryRun: true,
      warnings: [expect.stringContaining("one: env.MY_TOKEN looks like a key, and mcp.json contains it in plain text")],
    })
    expect(dry.structuredContent.changes).toContainEqual({ key: "env.MY_TOKEN", from: "•••", to: "•••" } as never)
    expect(readIfThere(join(svc.folder, "mcp.json"))).toBe(before)
    expect(
      (await client.call("mcp_edit", { serverName: "one", patch, newName: "uno" })).structuredContent,
    ).toMatchObject({
      serverName: "uno",
      status: "connected",
      reload: { added: ["uno"], removed: ["one"] },
    })
    expect(await client.names()).toContain("uno_svc_echo")
    expect(await client.names()).not.toContain("uno_svc_echo1")
    expect(written(svc).uno).toEqual({
      ...echo("--tools", "2"),
      env: { MY_TOKEN: "sekret-value-2" },
      disabledTools: ["echo1"],
    })
  },
  30_000,
)

test("a broken file hides none of the running servers, and the text contains a warning too", async () => {
  await using svc = await running()
  await using client = await connect1(svc)
  const { structuredContent: before } = await client.call("mcp_list")
  svc.write('{ "mcpServers": {')
  await svc.said("the configuration is invalid; svc keeps using the last valid one")
  const { structuredContent: list } = await client.call("mcp_list")
  expect(list.servers).toEqual(expect.arrayContaining(before.servers as object[]))
  expect((await client.call("mcp_status", { serverName: "one" })).structuredContent).toMatchObject({
    servers: [{ name: "one", status: "connected", instances: [{ id: "one" }] }],
    issues: [expect.stringContaining("mcp.json:1")],
  })
  expect((await client.call("mcp_status", { serverName: "onne" })).isError).toBe(true)
  expect((await client.call("mcp_reload")).content[0]?.text).toEndWith(
    "\nwarning: the configuration is broken; the last valid one still runs",
  )
}, 20_000)

test("an invalid call gets an error with a code that names the faulty member", async () => {
  await using svc = await running()
  await using client = await connect1(svc)
  const failure = async (name: string, args: Record<string, unknown> = {}) => {
    const { isError, structuredContent, content } = await client.call(name, args)
    const error = structuredContent.error as { code: string; message: string; hint?: { tool: string; does: string } }
    const hint = error.hint === undefined ? "" : `; ${error.hint.tool} ${error.hint.does}`
    expect([isError, content[0]?.text]).toEqual([true, `${error.message}${hint}`])
    return error
  }
  expect(await failure("mcp_enable")).toMatchObject({
    code: "invalid_argument",
    message: expect.stringContaining('"serverName"'),
  })
  expect(await failure("mcp_list", { filter: "loud" })).toMatchObject({ message: expect.stringContaining('"filter"') })
  expect(await failure("mcp_status", { serverNmae: "one" })).toMatchObject({
    message: expect.stringContaining('did you mean "serverName"?'),
  })
  expect(await failure("mcp_status", { serverName: "onne" })).toMatchObject({
    code: "not_found",
    message: expect.stringContaining("did you mean one?"),
  })
  expect(await failure("mcp_edit", { serverName: "one" })).toMatchObject({ code: "invalid_argument" })
  const before = readIfThere(join(svc.folder, "mcp.json"))
  for (const patch of [{ timeout: "soon" }, { command: null }, { env: { A: "${NOT_SET_ANYWHERE}" } }, { url: 5 }])
    expect(await failure("mcp_edit", { serverName: "one", patch })).toMatchObject({ code: "invalid_argument" })
  expect(await failure("mcp_edit", { serverName: "one", newName: "off" })).toMatchObject({ code: "conflict" })
  expect(await failure("mcp_edit", { serverName: "one", newName: "a_svc_b" })).toMatchObject({
    code: "invalid_argument",
  })
  expect(readIfThere(join(svc.folder, "mcp.json"))).toBe(before)
  expect(client.call("mcp_lst")).rejects.toThrow("Did you mean mcp_list?")
}, 20_000)

test("a server with both a command and a url is never confirmed [tools:shown]", async () => {
  const both = { ...echo(), url: "https://docs.example.com/mcp", disabled: true }
  await using svc = await startSvc({ config: { mcpServers: { one: echo(), both } }, flags: ALL })
  await using client = await connect1(svc)
  for (const [tool, args] of [
    ["mcp_edit", { serverName: "one", patch: { url: "https://docs.example.com/mcp" } }],
    ["mcp_edit", { serverName: "one", patch: { serverUrl: "https://docs.example.com/mcp" } }],
    ["mcp_enable", { serverName: "both" }],
  ] as const)
    expect((await client.call(tool, args as never)).structuredContent.error).toMatchObject({
      code: "invalid_argument",
      message: expect.stringContaining("both a command and a url"),
    })
  const install = { serverName: "two", url: "https://docs.example.com/mcp", config: { command: "bun" } }
  expect((await client.call("mcp_install", install)).structuredContent.error).toMatchObject({
    code: "invalid_argument",
    message: expect.stringContaining("Give one of command, url and package"),
  })
  const { structuredContent: list } = await client.call("mcp_list")
  expect(list).toMatchObject({ servers: [{ name: "one" }, { name: "both", type: "stdio" }] })
}, 20_000)

test("tools are off by default and chosen by category, and a server's own path never has them", async () => {
  const listed = async (flags: string[], path = "/mcp", env: Record<string, string> = {}) => {
    await using svc = await startSvc({ config: { mcpServers: { one: echo() } }, flags, env })
    const client = new Client1({ name: "one", version: "1" })
    await client.connect(new Http1(new URL(svc.url + path)) as never)
    const { tools } = await client.listTools()
    await client.close()
    return tools
  }
  const own = async (...args: Parameters<typeof listed>) =>
    (await listed(...args)).map(({ name }) => name).filter((name) => name.startsWith("mcp_"))
  expect(await own([])).toEqual([])
  expect(await own(["--internal-tools", "management"])).toEqual([
    "mcp_enable",
    "mcp_disable",
    "mcp_list",
    "mcp_status",
    "mcp_reload",
    "mcp_edit",
  ])
  expect(await own([], "/mcp", { SVC_INTERNAL_TOOLS: "management" })).toHaveLength(6)
  expect(await own(["--internal-tools", "all"], "/servers/one/mcp")).toEqual([])
  for (const tool of await listed(["--internal-tools", "safe"]))
    expect(tool.name === "one_svc_echo" || tool.annotations?.readOnlyHint).toBe(true)
  for (const tool of await listed(["--internal-tools", "all"])) {
    if (!tool.name.startsWith("mcp_")) continue
    expect(tool).toMatchObject({
      title: expect.any(String),
      description: expect.stringMatching(/.{40}/),
      inputSchema: { type: "object" },
      outputSchema: { type: "object", properties: { error: { type: "object" } } },
      annotations: {
        readOnlyHint: expect.any(Boolean),
        destructiveHint: expect.any(Boolean),
        idempotentHint: expect.any(Boolean),
      },
    })
    for (const argument of Object.values(tool.inputSchema.properties ?? {}))
      expect(argument).toHaveProperty("description")
  }
  const { code, stderr } = await runSvc(["serve", "--internal-tools", "managment"])
  expect([code, stderr]).toEqual([64, expect.stringContaining("did you mean management?")])
}, 60_000)

test("POST /mcp with {tool, arguments} runs a tool of svc or of a server [inbound:rest]", async () => {
  await using svc = await running()
  const post = async (body: unknown, path = "/mcp") => {
    const response = await fetch(svc.url + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    })
    return [response.status, await response.json()]
  }
  expect(await post({ tool: "mcp_list", arguments: { filter: "connected" } })).toMatchObject([
    200,
    { result: { structuredContent: { servers: [{ name: "one" }] } } },
  ])
  expect(await post({ tool: "mcp_list" })).toMatchObject([200, { result: { structuredContent: { total: 3 } } }])
  expect(await post({ tool: "one_svc_echo", arguments: { m: "hi" } })).toEqual([
    200,
    { result: { content: [{ type: "text", text: "hi" }] } },
  ])
  expect(await post({ tool: "mcp_status", arguments: { serverName: 5 } })).toMatchObject([
    200,
    { result: { isError: true, structuredContent: { error: { code: "invalid_argument" } } } },
  ])
  expect(await post({ tool: "mcp_lst", arguments: {} })).toEqual([
    404,
    { error: { code: -32602, message: "Unknown tool: mcp_lst. Did you mean mcp_list?" } },
  ])
  expect(await post({ tool: "bad_svc_echo" })).toMatchObject([
    502,
    { error: { code: -32603, message: expect.stringMatching(/^bad is down: /) } },
  ])
  expect(await post({ tool: "one_svc_echo", arguments: [] })).toMatchObject([400, { error: { code: -32602 } }])
  for (const body of [{ tool: 5 }, { tool: null, arguments: {} }, { arguments: {} }])
    expect(await post(body)).toEqual([400, { error: { code: -32602, message: "tool must be the name of a tool" } }])
  expect(await post({ tool: "echo", arguments: { m: "plain" } }, "/servers/one/mcp")).toMatchObject([200, {}])
  // At its own address, a server also answers names that it does not list; svc's own tools do not exist there.
  expect(await post({ tool: "mcp_list" }, "/servers/one/mcp")).toMatchObject([
    200,
    { result: { content: [{ text: "" }] } },
  ])
}, 20_000)

test("mcp_status gives the typed values of svc mcp status --verbose, with built-in and ignored ones [cli:status:typed]", async () => {
  const settings = { timeout: 9000, tags: ["a"], url: "http://127.0.0.1:9/", env: { MY_TOKEN: "sekret-value-1" } }
  const config = {
    serverDefaults: { requestTimeout: 7000, connectionTimeout: 8000 },
    mcpServers: { one: { ...echo(), ...settings } },
  }
  await using svc = await startSvc({ config, flags: ["--startup-wait", "10s", ...ALL] })
  await using client = await connect2(svc)
  const { structuredContent } = await client.call("mcp_status", { serverName: "one", details: true })
  const [{ configuration } = {}] = structuredContent.servers as { configuration?: object[] }[]
  const shown = await runSvc(["mcp", "status", "one", "--verbose", "--json", "--config-dir", svc.folder])
  expect(configuration).toEqual(JSON.parse(shown.stdout).servers[0].effective)
  expect(configuration).toContainEqual({ key: "requestTimeout", value: 7000, from: ["default"] })
  expect(configuration).toContainEqual({ key: "timeout", value: 9000, from: ["server"], ignored: true })
  expect(configuration).toContainEqual({ key: "restartOnExit", value: expect.any(Boolean), from: ["built-in"] })
  expect(JSON.stringify(configuration)).not.toContain("sekret")
}, 30_000)
