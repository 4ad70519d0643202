/** Lists of servers: one that fails, and those of a session's own process. */
import { expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { PromptListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js"
import { eventually, fixture, freshFolder, type Instance, runSvc, startHttp, startSvc } from "./harness.ts"

const lists = (...args: string[]) => ({ command: "bun", args: [fixture("lists.ts"), ...args] })

async function connect(url: string, capabilities: object = {}): Promise<Client> {
  const client = new Client({ name: "t", version: "1" }, { capabilities: capabilities as never })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)) as never)
  return client
}

const toolsOf = async (client: Client) => (await client.listTools()).tools.map(({ name }) => name)

type Live = { state: string; status: string; issues?: string[] }
async function stateOf(svc: Instance): Promise<Live | undefined> {
  const { stdout } = await runSvc(["mcp", "status", "--json", "--config-dir", svc.folder])
  return JSON.parse(stdout).servers[0]?.instances[0]
}

test.each([["a stdio server"], ["a supervised stdio server"], ["a remote server"]] as const)(
  "%s whose one list fails is there with the rest, and with that when it is answered [backend:lists] [backend:degraded]",
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

test("a list without an answer keeps nothing from being loaded", async () => {
  await using svc = await startSvc({
    config: { mcpServers: { s: { ...lists("--silent", "prompts/list"), connectionTimeout: 1500 } } },
  })
  await eventually(async () => (await fetch(`${svc.url}/health/mcp`)).status === 200)
  expect(await stateOf(svc)).toMatchObject({ state: "degraded", issues: ["prompts/list: has not answered yet"] })
  const client = await connect(`${svc.url}/mcp`)
  expect(await toolsOf(client)).toContain("s_svc_hello")
  await client.close()
}, 30_000)

test("a server that ends while it is asked for a list is lost", async () => {
  await using svc = await startSvc({ config: { mcpServers: { s: lists("--end", "prompts/list") } } })
  await svc.said("could not be started")
  expect(await stateOf(svc)).toMatchObject({ state: "failed", status: "error" })
}, 30_000)
