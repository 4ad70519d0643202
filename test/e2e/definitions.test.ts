/** What clients get of servers with odd definitions. */
import { expect, test } from "bun:test"
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client"
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport as Http1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { ODD, randomLists } from "../definitions.ts"
import { fixture, runSvc, startSvc } from "./harness.ts"

const server = (flags: Readonly<Record<string, number>>) => ({
  command: "bun",
  args: [fixture("definitions.ts"), ...Object.entries(flags).flatMap(([name, value]) => [`--${name}`, `${value}`])],
})

type Listed = { readonly name: string; readonly outputSchema?: unknown }
type Connected = AsyncDisposable & {
  readonly tools: readonly Listed[]
  /** The numbers of prompts, resources and resource templates. */
  readonly counts: readonly number[]
  call(name: string): Promise<unknown>
}
const CLIENTS: Readonly<Record<string, (url: string) => Promise<Connected>>> = {
  "SDK 1": async (url) => {
    const client = new Client1({ name: "one", version: "1" })
    await client.connect(new Http1(new URL(url)) as never)
    const { tools } = await client.listTools()
    const [prompts, resources, templates] = await Promise.all([
      client.listPrompts(),
      client.listResources(),
      client.listResourceTemplates(),
    ])
    return {
      tools,
      counts: [prompts.prompts.length, resources.resources.length, templates.resourceTemplates.length],
      call: (name) => client.callTool({ name, arguments: {} }),
      [Symbol.asyncDispose]: () => client.close(),
    }
  },
  ...Object.fromEntries(
    (["legacy", "auto"] as const).map((mode) => [
      `SDK 2 (${mode})`,
      async (url: string) => {
        const client = new Client2({ name: "two", version: "1" }, { versionNegotiation: { mode } })
        await client.connect(new Http2(new URL(url)))
        const { tools } = await client.listTools()
        const [prompts, resources, templates] = await Promise.all([
          client.listPrompts(),
          client.listResources(),
          client.listResourceTemplates(),
        ])
        return {
          tools,
          counts: [prompts.prompts.length, resources.resources.length, templates.resourceTemplates.length],
          call: (name: string) => client.callTool({ name, arguments: {} }),
          [Symbol.asyncDispose]: () => client.close(),
        }
      },
    ]),
  ),
}

/** Returns the answer to a request of a legacy client, as text. */
async function ask(url: string, method: string): Promise<string> {
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" }
  const send = (body: object, more: object = {}) =>
    fetch(url, { method: "POST", headers: { ...headers, ...more }, body: JSON.stringify({ jsonrpc: "2.0", ...body }) })
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } }
  const opened = await send({ id: 1, method: "initialize", params })
  await opened.text()
  const session = opened.headers.get("mcp-session-id") ?? ""
  return (await send({ id: 2, method }, { "mcp-session-id": session })).text()
}

test("odd definitions of one server never hide the tools of others from clients of both SDKs [definitions:contained] [definitions:issues]", async () => {
  for (const seed of [1, 2, 3]) {
    const mcpServers = {
      odd: server({ seed, odd: 0.15 }),
      a: server({ seed: seed + 10 }),
      b: server({ seed: seed + 20 }),
    }
    await using svc = await startSvc({ config: { mcpServers } })
    for (const [kind, connect] of Object.entries(CLIENTS)) {
      await using client = await connect(`${svc.url}/mcp`)
      const names = new Set(client.tools.map(({ name }) => name))
      const expected = ["a", "b"].flatMap((name) => [
        ...Array.from({ length: 30 }, (_, at) => `${name}_svc_e${at}`),
        `${name}_svc_ok`,
      ])
      expect([kind, expected.filter((name) => !names.has(name))]).toEqual([kind, []])
      expect(names.has("odd_svc_ok")).toBe(true)
      for (const count of client.counts) expect(count).toBeGreaterThanOrEqual(60)
      // The results of this server match no other output schema than that of `ok`.
      const callable = client.tools.filter(
        ({ name, outputSchema }) => outputSchema === undefined || name.endsWith("_svc_ok"),
      )
      expect(callable.length).toBeGreaterThan(30)
      for (const { name } of callable)
        expect([kind, await client.call(name)]).toMatchObject([kind, { content: [{ text: name.split("_svc_")[1] }] }])
    }
    const { stdout } = await runSvc(["mcp", "status", "odd", "--json", "--config-dir", svc.folder])
    const [instance] = JSON.parse(stdout).servers[0].instances
    expect(instance.definitions[0]).toEqual({
      kind: expect.any(String),
      name: expect.any(String),
      member: expect.any(String),
      reason: expect.any(String),
    })
    expect(instance.state).toBe("connected")
    const doctor = await runSvc(["doctor", "--json", "--config-dir", svc.folder])
    expect(doctor.stdout).toMatch(/"subject": ?"odd"[^}]*"why": ?"clients refuse a whole list/)
  }
})

test("SDK clients connect at the own address of a server with an odd handshake [definitions:handshake]", async () => {
  const names = ODD.map((_, at) => `s${at}`)
  const mcpServers = Object.fromEntries(names.map((name, at) => [name, server({ seed: at, odd: 0.1, handshake: at })]))
  await using svc = await startSvc({ config: { mcpServers } })
  for (const name of names)
    for (const [kind, connect] of Object.entries(CLIENTS)) {
      await using client = await connect(`${svc.url}/servers/${name}/mcp`)
      expect([kind, name, client.tools.some((tool) => tool.name === "ok")]).toEqual([kind, name, true])
    }
})

test("valid definitions reach clients byte for byte [definitions:unchanged]", async () => {
  const seed = 42
  await using svc = await startSvc({ config: { mcpServers: { s: server({ seed }) } } })
  const lists = randomLists(seed, 0, 30)
  for (const [method, key] of [
    ["tools/list", "tools"],
    ["prompts/list", "prompts"],
    ["resources/list", "resources"],
    ["resources/templates/list", "resourceTemplates"],
  ] as const) {
    const text = await ask(`${svc.url}/servers/s/mcp`, method)
    for (const entry of lists[key]) expect(text).toContain(JSON.stringify(entry))
  }
})

test("a list that a server refuses is an error at its own address, and keeps the pages before the error [backend:lists:refused]", async () => {
  const mcpServers = { none: server({ end: 0 }), some: server({ end: 1 }), a: server({}) }
  await using svc = await startSvc({ config: { mcpServers } })
  const at = async (path: string) => JSON.parse(await ask(`${svc.url}${path}`, "tools/list"))
  const { error } = await at("/servers/none/mcp")
  expect(error).toEqual({ code: -32603, message: expect.stringContaining("db down") })
  const names = async (path: string) => (await at(path)).result.tools.map(({ name }: Listed) => name)
  expect(await names("/servers/some/mcp")).toHaveLength(31)
  const all = await names("/mcp")
  for (const name of ["some_svc_ok", "a_svc_ok"]) expect(all).toContain(name)
})

test("a server with dots in its name has tools without dots, which stay callable by their former names [names:slug]", async () => {
  const shown = { ...server({}), disabledTools: ["com.example.x_svc_e0"] }
  await using svc = await startSvc({
    config: { mcpServers: { "com.example.x": shown, 日本: server({}), 中国: server({}) } },
  })
  await using client = (await CLIENTS["SDK 1"]?.(`${svc.url}/mcp`)) as Connected
  const names = client.tools.map(({ name }) => name)
  for (const name of names) expect(name).toMatch(/^[\w-]{1,64}$/)
  expect(names.filter((name) => name.endsWith("_svc_ok"))).toHaveLength(3)
  expect(names).not.toContain("com-example-x_svc_e0")
  for (const name of ["com-example-x_svc_ok", "com.example.x_svc_ok"])
    expect(await client.call(name)).toMatchObject({ content: [{ text: "ok" }] })
  for (const name of ["com.example.x", "com-example-x", encodeURIComponent("日本")])
    expect(await ask(`${svc.url}/servers/${name}/mcp`, "tools/list")).toContain('"name":"ok"')
  await expect(client.call("com.example.x_svc_e0")).rejects.toThrow()
})
