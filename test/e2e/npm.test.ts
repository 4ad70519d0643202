/** Real servers from npm behind svc, real clients of both SDKs in front of it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client"
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js"
import { SSEClientTransport as Sse1 } from "@modelcontextprotocol/sdk/client/sse.js"
import { StdioClientTransport as Stdio1 } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport as Http1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { eventually, freshEnv, freshFolder, type Instance, npmServer, SVC, startSvc } from "./harness.ts"

type Remote = { readonly port: number; stop(): Promise<void> }

/** server-everything over one of its HTTP transports. */
async function startRemote(transport: "streamableHttp" | "sse"): Promise<Remote> {
  const free = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() })
  const port = free.port as number
  await free.stop(true)
  const { command, args } = npmServer("server-everything", transport)
  const child = Bun.spawn({
    cmd: [command, ...args],
    env: { ...freshEnv(freshFolder()), PORT: String(port) },
    stdout: "ignore",
    stderr: "ignore",
  })
  await eventually(async () => {
    const socket = await Bun.connect({ hostname: "127.0.0.1", port, socket: { data() {} } }).catch(() => undefined)
    socket?.end()
    return socket !== undefined
  })
  return {
    port,
    async stop() {
      child.kill("SIGKILL")
      await child.exited
    },
  }
}

let svc: Instance
let remotes: Remote[]
const files = freshFolder()

beforeAll(async () => {
  remotes = await Promise.all([startRemote("streamableHttp"), startRemote("sse")])
  svc = await startSvc({
    config: {
      mcpServers: {
        everything: npmServer("server-everything"),
        files: npmServer("server-filesystem", files),
        memory: { ...npmServer("server-memory"), env: { MEMORY_FILE_PATH: `${files}/memory.json` } },
        remote: { type: "streamableHttp", url: `http://127.0.0.1:${remotes[0]?.port}/mcp` },
        old: { type: "sse", url: `http://127.0.0.1:${remotes[1]?.port}/sse` },
        guessed: { url: `http://127.0.0.1:${remotes[1]?.port}/sse` },
      },
    },
    flags: ["--startup-wait", "20s"],
  })
}, 60_000)

afterAll(async () => {
  await svc?.[Symbol.asyncDispose]()
  await Promise.all((remotes ?? []).map((remote) => remote.stop()))
}, 30_000)

const SERVERS = ["everything", "files", "memory", "remote", "old", "guessed"]

/** What both SDKs' clients have in common, as far as these tests need it. */
type AnyClient = {
  listTools(): Promise<{ tools: { name: string }[] }>
  listPrompts(): Promise<{ prompts: { name: string }[] }>
  listResources(): Promise<{ resources: { uri: string }[] }>
  listResourceTemplates(): Promise<{ resourceTemplates: { uriTemplate: string }[] }>
  callTool(params: { name: string; arguments?: Record<string, unknown> }): Promise<unknown>
  getPrompt(params: { name: string; arguments?: Record<string, string> }): Promise<{ messages: unknown[] }>
  readResource(params: { uri: string }): Promise<{ contents: { uri: string }[] }>
  complete(params: never): Promise<{ completion: { values: string[] } }>
  close(): Promise<void>
}

async function exercise(client: AnyClient): Promise<void> {
  const tools = (await client.listTools()).tools.map(({ name }) => name)
  for (const server of SERVERS) expect(tools.some((name) => name.startsWith(`${server}_svc_`))).toBe(true)
  for (const server of ["everything", "remote", "old", "guessed"]) {
    expect(await client.callTool({ name: `${server}_svc_echo`, arguments: { message: `to ${server}` } })).toMatchObject(
      {
        content: [{ type: "text", text: `Echo: to ${server}` }],
      },
    )
    expect(await client.callTool({ name: `${server}_svc_get-sum`, arguments: { a: 2, b: 3 } })).toMatchObject({
      content: [{ text: expect.stringContaining("5") }],
    })
  }
  expect(await client.callTool({ name: "files_svc_list_directory", arguments: { path: files } })).toMatchObject({
    content: [{ type: "text" }],
  })
  expect(await client.callTool({ name: "memory_svc_read_graph", arguments: {} })).toMatchObject({
    content: [{ type: "text" }],
  })

  const prompts = (await client.listPrompts()).prompts.map(({ name }) => name)
  expect(prompts).toContain("everything_svc_simple-prompt")
  expect(
    (await client.getPrompt({ name: "everything_svc_args-prompt", arguments: { city: "Bern" } })).messages,
  ).toHaveLength(1)

  const [resource] = (await client.listResources()).resources.filter(({ uri }) => uri.startsWith("svc://everything/"))
  const { contents } = await client.readResource({ uri: resource?.uri ?? "" })
  expect(contents.map(({ uri }) => uri)).toEqual([resource?.uri ?? ""])
  const templates = (await client.listResourceTemplates()).resourceTemplates.map(({ uriTemplate }) => uriTemplate)
  expect(templates.some((template) => template.startsWith("svc://remote/"))).toBe(true)
  const linked = await client.callTool({
    name: "old_svc_get-resource-reference",
    arguments: { resourceType: "Text", resourceId: 1 },
  })
  expect(JSON.stringify(linked)).toContain('"uri":"svc://old/demo://resource/')

  const completion = await client.complete({
    ref: { type: "ref/prompt", name: "everything_svc_completable-prompt" },
    argument: { name: "department", value: "E" },
  } as never)
  expect(completion.completion.values).toContain("Engineering")
}

describe("through /mcp", () => {
  test("a client of SDK 1.x lists and calls everything [name:tool] [name:uri]", async () => {
    const client = new Client1({ name: "one", version: "1" })
    await client.connect(new Http1(new URL(`${svc.url}/mcp`)) as never)
    await exercise(client as unknown as AnyClient)
    await client.close()
  })

  test.each([["legacy"], ["auto"]] as const)(
    "a client of SDK 2.x in mode %s lists and calls everything",
    async (mode) => {
      const client = new Client2({ name: "two", version: "1" }, { versionNegotiation: { mode } })
      await client.connect(new Http2(new URL(`${svc.url}/mcp`)))
      expect(client.getNegotiatedProtocolVersion()).toBe(mode === "legacy" ? "2025-11-25" : "2026-07-28")
      await exercise(client as unknown as AnyClient)
      await client.close()
    },
  )

  test("progress reaches the caller with its own token", async () => {
    const client = new Client1({ name: "one", version: "1" })
    await client.connect(new Http1(new URL(`${svc.url}/mcp`)) as never)
    for (const server of ["everything", "remote", "old"]) {
      const seen: number[] = []
      const call = { name: `${server}_svc_trigger-long-running-operation`, arguments: { duration: 0.3, steps: 3 } }
      await client.callTool(call, undefined, { onprogress: ({ progress }) => seen.push(progress) })
      expect({ server, seen }).toEqual({ server, seen: [1, 2, 3] })
    }
    await client.close()
  })
})

test("the old HTTP+SSE transport serves its clients", async () => {
  const client = new Client1({ name: "old", version: "1" })
  await client.connect(new Sse1(new URL(`${svc.url}/sse`)))
  expect(await client.callTool({ name: "everything_svc_echo", arguments: { message: "sse" } })).toMatchObject({
    content: [{ text: "Echo: sse" }],
  })
  await client.close()
})

test("a server keeps its own names under its own path", async () => {
  const client = new Client1({ name: "own", version: "1" })
  await client.connect(new Http1(new URL(`${svc.url}/servers/everything/mcp`)) as never)
  expect(client.getServerVersion()?.name).toBe("mcp-servers/everything")
  expect((await client.listTools()).tools.map(({ name }) => name)).toContain("echo")
  expect(await client.callTool({ name: "echo", arguments: { message: "own" } })).toMatchObject({
    content: [{ text: "Echo: own" }],
  })
  const [resource] = (await client.listResources()).resources
  expect(resource?.uri.startsWith("demo://")).toBe(true)
  await client.close()
})

test("a client that starts svc as a command gets the same over stdio, and no process is left when it ends", async () => {
  const home = freshFolder()
  await Bun.write(`${home}/mcp.json`, JSON.stringify({ mcpServers: { everything: npmServer("server-everything") } }))
  const transport = new Stdio1({
    command: SVC,
    args: ["serve", "--transport", "stdio", "--config-dir", home],
    env: freshEnv(home),
    stderr: "ignore",
  })
  const client = new Client1({ name: "stdio", version: "1" })
  await client.connect(transport)
  expect(await client.callTool({ name: "everything_svc_echo", arguments: { message: "stdio" } })).toMatchObject({
    content: [{ text: "Echo: stdio" }],
  })
  const { pid } = transport
  await client.close()
  await eventually(() => {
    try {
      process.kill(pid ?? 0, 0)
      return false
    } catch {
      return true
    }
  })
})
