/** What a client sees is what its URL selects. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js"
import { eventually, freshEnv, modern, ROOT, runSvc, SVC, startSvc } from "./harness.ts"

const echo = (...tags: string[]) => ({ command: "bun", args: [join(ROOT, "test/fixtures/echo.ts")], tags })
const config = { mcpServers: { shop: echo("web"), crawl: echo("web", "slow"), files: echo("local") } }

const names = async (url: string) => {
  const { tools } = (await modern(url, "tools/list")).body.result as { tools: { name: string }[] }
  return tools.map(({ name }) => name.split("_svc_")[0])
}

test("a client sees the servers that its URL selects [inbound:query]", async () => {
  await using svc = await startSvc({ config })
  const at = (query: string) => `${svc.url}/mcp?${query}`
  expect(await names(`${svc.url}/mcp`)).toEqual(["shop", "crawl", "files"])
  expect(await names(at("tags=slow,local"))).toEqual(["crawl", "files"])
  expect(await names(at("tag-filter=web%20and%20not%20slow&app=mine"))).toEqual(["shop"])
  expect(await names(at("app=mine"))).toHaveLength(3)
  const hidden = await modern(at("tags=local"), "tools/call", { name: "shop_svc_echo", arguments: {} })
  expect(hidden.body.error?.message).toContain("Unknown tool")
  const wrong = await modern(at("tag-filter=web%20and"), "tools/list")
  expect([wrong.status, wrong.body.error?.message]).toEqual([400, expect.stringContaining("column 8")])
  expect((await modern(at("preset=none"), "tools/list")).status).toBe(404)
  expect((await modern(at("tags="), "tools/list")).status).toBe(400)
})

test("instructions are those of the scope, in both eras, and whole ones are read on request [instructions:unavailable] [instructions:whole]", async () => {
  const servers = {
    demo: { command: SVC, args: ["demo-server"], tags: ["a"] },
    down: { command: "/nowhere/at/all", tags: ["b"] },
  }
  await using svc = await startSvc({ config: { mcpServers: servers } })
  await svc.said("down: could not be started")
  const about = async (query: string) =>
    (await modern(`${svc.url}/mcp${query}`, "server/discover")).body.result?.instructions
  const read = (query: string) => modern(`${svc.url}/mcp${query}`, "resources/read", { uri: "svc:instructions/demo" })
  const named = "Tools of 1 MCP server, each named <server>_svc_<tool>.\n- demo (3 tools): A demonstration server"
  expect(await about("")).toBe(`${named}: echo, add and time.\nNot available now: down (failed)`)
  expect(await about("?tags=a")).toBe(`${named}: echo, add and time.`)
  expect(await about("?tags=b")).toBe("No MCP server is available.\nNot available now: down (failed)")
  const text = "A demonstration server: echo, add and time."
  expect((await read("?tags=a")).body.result).toMatchObject({ resultType: "complete", contents: [{ text }] })
  expect((await read("?tags=b")).body.error?.message).toContain("Unknown resource")
  const client = new Client({ name: "select", version: "1" })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${svc.url}/mcp?tags=a`)) as never)
  expect(client.getInstructions()).toBe(`${named}: echo, add and time.`)
  expect((await client.readResource({ uri: "svc:instructions/demo" })).contents).toEqual([
    { uri: "svc:instructions/demo", mimeType: "text/plain", text },
  ])
  expect((await client.listResources()).resources.map(({ uri }) => uri)).toEqual(["svc://demo/demo://welcome"])
  await client.close()
})

test("a preset that is edited reaches the clients that are connected, and their sessions stay", async () => {
  await using svc = await startSvc({ config })
  const run = (...args: string[]) => runSvc(["preset", ...args, "--config-dir", svc.folder], freshEnv(svc.folder))
  expect((await run("create", "work", "--filter", "web and not slow", "--description", "for work")).code).toBe(0)
  const url = (await run("url", "work")).stdout.trim()
  expect(url).toBe(`${svc.url}/mcp?preset=work`)
  await eventually(async () => (await modern(url, "tools/list")).status === 200)

  const client = new Client({ name: "select", version: "1" })
  let changes = 0
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
    changes++
  })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)) as never)
  const list = async () => (await client.listTools()).tools.map(({ name }) => name.split("_svc_")[0])
  expect(await list()).toEqual(["shop"])
  expect((await run("edit", "work", "--filter", "web or local")).code).toBe(0)
  await eventually(() => changes > 0)
  expect(await list()).toEqual(["shop", "crawl", "files"])
  expect((await run("delete", "work")).code).toBe(0)
  await eventually(async () => (await modern(url, "tools/list")).status === 404)
  await expect(list()).rejects.toThrow("no preset is named work")
  await client.close()
})
