/** The file is the truth: what runs follows it, and only what must restart does. */
import { expect, test } from "bun:test"
import { unlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js"
import { eventually, type Instance, processes, ROOT, startSvc } from "./harness.ts"

const echo = (...args: string[]) => ({ command: "bun", args: [join(ROOT, "test/fixtures/echo.ts"), ...args] })

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
  await svc.said("not JSON")
  expect(await client.callTool({ name: "comes_svc_echo", arguments: { m: "still here" } })).toMatchObject({
    content: [{ text: "still here" }],
  })
  svc.write({ mcpServers: { stays: echo(mark) } })
  await eventually(async () => (await tools()).length === 1)
  expect(processes(mark)).toEqual([pid as number])
  await client.close()
})

test("hidden tools and descriptions reach clients without a restart [reload:metadata] [tool:hidden] [tool:override]", async () => {
  const mark = `svc-mark-${crypto.randomUUID()}`
  const server = echo(mark, "--tools", "3")
  await using svc = await startSvc({ config: { mcpServers: { a: server } } })
  const { client, tools, changes } = await connect(svc)
  expect(await tools()).toHaveLength(3)
  const [pid] = processes(mark)
  const described = {
    disabledTools: ["echo1", "a_svc_echo2"],
    toolDescriptionOverrides: { echo: "Says it again" },
    tags: ["x"],
  }
  svc.write({ mcpServers: { a: { ...server, ...described } } })
  await eventually(() => changes() >= 1)
  expect((await tools()).map(({ name, description }) => [name, description])).toEqual([["a_svc_echo", "Says it again"]])
  await expect(client.callTool({ name: "a_svc_echo1", arguments: {} })).rejects.toThrow("Unknown tool")
  svc.write({ mcpServers: { a: server } })
  await eventually(async () => (await tools()).length === 3)
  expect((await tools())[0]?.description).toBe("Gives its argument back")
  expect(processes(mark)).toEqual([pid as number])
  await client.close()
})

test("a change of .env restarts the servers whose values moved, and a broken one none [reload:dotenv] [env:dotenv:broken]", async () => {
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
