/** Clients of both SDKs at a lazy address find tools, and call them as they would call them directly. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client"
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport as Stdio1 } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport as Http1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js"
import { eventually, fixture, freshEnv, type Instance, modern, npmServer, SVC, startSvc, svcIn } from "./harness.ts"

type Result = { content: { type: string; text: string }[]; isError?: boolean; structuredContent?: unknown }
type Json = Record<string, unknown>
type Peer = AsyncDisposable & {
  names(): Promise<string[]>
  call(name: string, args?: Json, onprogress?: () => void): Promise<Result>
}

const accept = { action: "accept" as const, content: { name: "ann", email: "a@example.com", username: "ann" } }

async function client1(url: string): Promise<Peer> {
  const client = new Client1({ name: "one", version: "1" }, { capabilities: { elicitation: {} } })
  client.setRequestHandler(ElicitRequestSchema, () => accept)
  await client.connect(new Http1(new URL(url)) as never)
  return {
    names: async () => (await client.listTools()).tools.map(({ name }) => name),
    call: async (name, args = {}, onprogress) =>
      (await client.callTool({ name, arguments: args }, undefined, onprogress && { onprogress })) as never,
    [Symbol.asyncDispose]: () => client.close(),
  }
}

const client2 =
  (mode: "legacy" | "auto") =>
  async (url: string): Promise<Peer> => {
    const client = new Client2(
      { name: "two", version: "1" },
      { versionNegotiation: { mode }, capabilities: { elicitation: { form: {} } } },
    )
    client.setRequestHandler("elicitation/create", async () => accept)
    await client.connect(new Http2(new URL(url)))
    return {
      names: async () => (await client.listTools()).tools.map(({ name }) => name),
      call: async (name, args = {}, onprogress) =>
        (await client.callTool({ name, arguments: args }, onprogress && { onprogress })) as never,
      [Symbol.asyncDispose]: () => client.close(),
    }
  }

const CLIENTS = [
  ["SDK 1.x", client1],
  ["SDK 2.x, legacy", client2("legacy")],
  ["SDK 2.x, modern", client2("auto")],
] as const

const OWN = ["search_tools", "describe_tool", "call_tool", "call_read_tool"]
const textOf = ({ content }: Result): string => content[0]?.text ?? ""

let svc: Instance
beforeAll(async () => {
  svc = await startSvc({
    config: {
      mcpServers: {
        many: { command: "bun", args: [fixture("echo.ts"), "--tools", "5000"], tags: ["bulk"] },
        files: { ...npmServer("server-filesystem", "/usr/share"), tags: ["local"], alwaysVisible: ["list_dir*"] },
        old: { command: "bun", args: [fixture("everything-1x.ts")], disabledTools: ["test_simple_text"] },
        new: { command: "bun", args: [fixture("everything-2x.ts")], protocolVersion: "2026-07-28" },
      },
    },
    flags: ["--startup-wait", "20s"],
  })
}, 60_000)
afterAll(() => svc?.[Symbol.asyncDispose](), 30_000)

describe.each(CLIENTS)("%s", (_name, connect) => {
  test("finds and calls a tool among 5,000 in three requests [lazy:list] [lazy:search] [lazy:call]", async () => {
    await using client = await connect(`${svc.url}/mcp?tools=search`)
    expect(await client.names()).toEqual([...OWN, "files_svc_list_directory", "files_svc_list_directory_with_sizes"])
    const found = textOf(await client.call("search_tools", { query: "list allowed directories", limit: 3 }))
    const name = /^- (\w+allowed\w+)\(\) \[read-only\]/m.exec(found)?.[1]
    expect(name).toBe("files_svc_list_allowed_directories")
    const called = await client.call("call_read_tool", { name, arguments: {} })
    expect(textOf(called)).toContain("/usr/share")
    // The direct call returns the same, although the tool is not listed.
    expect(await client.call(name ?? "")).toEqual(called)
  })

  test.each(["old", "new"])(
    "gets questions, progress and structured content through call_tool from %s [lazy:call]",
    async (server) => {
      await using client = await connect(`${svc.url}/mcp?tools=search`)
      const ask = server === "old" ? "test_elicitation" : "test_input_required_result_elicitation"
      const args = { message: "m" }
      const asked = await client.call("call_tool", { name: `${server}_svc_${ask}`, arguments: args })
      expect(asked.isError ?? false).toBe(false)
      expect(textOf(asked)).toMatch(/ann/)
      expect(await client.call(`${server}_svc_${ask}`, args)).toEqual(asked)
      const linked = await client.call("call_tool", { name: `${server}_svc_links` })
      expect(linked.structuredContent).toMatchObject({ uri: "test://static-text" })
      expect(linked).toEqual(await client.call(`${server}_svc_links`))
      let told = 0
      await client.call("call_tool", { name: `${server}_svc_test_tool_with_progress` }, () => {
        told++
      })
      expect(told).toBeGreaterThan(0)
    },
  )

  test("gets a tool's errors and a hint about arguments, at the address of one server too [lazy:call:arguments]", async () => {
    await using client = await connect(`${svc.url}/servers/files/mcp?tools=search`)
    expect(await client.names()).toEqual([...OWN, "list_directory", "list_directory_with_sizes"])
    const missing = await client.call("call_tool", { name: "read_text_file", args: "{}" })
    expect([missing.isError, missing.content.at(-1)?.text]).toEqual([
      true,
      "Parameters of read_text_file: path*: str, tail?: num, head?: num",
    ])
    const args = { path: "/etc/passwd" }
    const refused = await client.call("call_tool", { name: "read_text_file", parameters: args })
    expect(refused).toEqual(await client.call("read_text_file", args))
  })
})

test("arguments beside `arguments` reach the tool, and a call that names a server runs no other server's tool [lazy:call:tolerant] [lazy:call:server]", async () => {
  const call = async (path: string, args: Json) => {
    const { body } = await modern(`${svc.url}${path}`, "tools/call", { name: "call_tool", arguments: args })
    return textOf(body.result as Result)
  }
  expect(await call("/mcp?tools=search", { name: "many_svc_echo7", arguments: {}, m: "beside" })).toBe("beside")
  expect(await call("/mcp?tools=search", { name: "many_svc_echo7", arguments: { x: 1 }, args: { m: "also" } })).toBe(
    "also",
  )
  expect(await call("/mcp?tools=search", { server: "files", name: "many_svc_echo7" })).toStartWith(
    "Unknown tool: files_svc_many_svc_echo7. Did you mean many_svc_echo7",
  )
  expect(await call("/servers/files/mcp?tools=search", { server: "many", name: "list_directory" })).toContain(
    "this address has the tools of the server files alone, and none of many",
  )
})

test("tools that disabledTools or a tag hides cannot be called through call_tool [tool:disabled] [lazy:scope]", async () => {
  const call = async (path: string, name: string) => {
    const { body } = await modern(`${svc.url}${path}`, "tools/call", { name: "call_tool", arguments: { name } })
    return textOf(body.result as Result)
  }
  expect(await call("/mcp?tools=search", "old_svc_test_simple_text")).toBe("Tool old_svc_test_simple_text is disabled")
  expect(await call("/mcp?tools=search&tags=local", "old_svc_test_image_content")).toStartWith(
    "Unknown tool: old_svc_test_image_content",
  )
})

test("svc proxy lists the search tools by its option or by .svcrc, and the option decides [lazy:list]", async () => {
  const config = { mcpServers: { echo: { command: "bun", args: [fixture("echo.ts")] } } }
  await using shared = await startSvc({ config })
  const names = async (...args: string[]) => {
    const client = new Client1({ name: "one", version: "1" })
    const command = { command: SVC, args: ["proxy", "--config-dir", shared.folder, ...args], cwd: shared.folder }
    await client.connect(new Stdio1({ ...command, env: freshEnv(shared.folder), stderr: "ignore" }) as never)
    const { tools } = await client.listTools()
    await client.close()
    return tools.map(({ name }) => name)
  }
  expect(await names()).toEqual(["echo_svc_echo"])
  expect(await names("--tools", "search")).toEqual(OWN)
  writeFileSync(join(shared.folder, ".svcrc"), '{"tools": "search"}')
  expect(await names()).toEqual(OWN)
  expect(await names("--tools", "all")).toEqual(["echo_svc_echo"])
})

test("the view is chosen by address, preset, token or option, and the address decides [lazy:list]", async () => {
  const config = { mcpServers: { echo: { command: "bun", args: [fixture("echo.ts")] } } }
  await using lazy = await startSvc({ config, flags: ["--tools", "search", "--auth"] })
  const run = svcIn(lazy.folder)
  const token = async (...args: string[]) => (await run("auth", "token", "create", ...args)).stdout.trim()
  const names = async (path: string, bearer: string) => {
    const { body } = await modern(`${lazy.url}${path}`, "tools/list", {}, { authorization: `Bearer ${bearer}` })
    return (body.result as { tools?: { name: string }[] } | undefined)?.tools?.map(({ name }) => name)
  }
  const plain = await token("--name", "plain")
  const whole = await token("--name", "whole", "--tools", "all")
  await eventually(async () => (await names("/mcp", whole)) !== undefined)
  expect(await names("/mcp", plain)).toEqual(OWN)
  expect(await names("/mcp", whole)).toEqual(["echo_svc_echo"])
  expect(await names("/mcp?tools=all", plain)).toEqual(["echo_svc_echo"])
  expect(await names("/mcp?tools=search", whole)).toEqual(OWN)
  expect(await names("/servers/echo/mcp", plain)).toEqual(OWN)
  expect(await names("/servers/echo/mcp?tools=all", plain)).toEqual(["echo"])
  expect((await run("preset", "create", "few", "--filter", "not x", "--tools", "search")).code).toBe(0)
  await eventually(async () => (await names("/mcp?preset=few", whole))?.length === OWN.length)
  expect(await names("/mcp?preset=few&tools=all", whole)).toEqual(["echo_svc_echo"])
  const wrong = await modern(`${lazy.url}/mcp?tools=few`, "tools/list", {}, { authorization: `Bearer ${plain}` })
  expect([wrong.status, wrong.body.error?.message]).toEqual([
    400,
    expect.stringContaining("tools= must be all or search"),
  ])
})
