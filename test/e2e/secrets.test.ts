/** No text that svc creates contains a configured secret, even if a server repeats the secret that it was sent. */
import { afterAll, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { eventually, freshFolder, modern, runSvc, startSvc } from "./harness.ts"

type Message = { id?: unknown; method?: string; params?: { arguments?: { pad?: number } } }

let status = 500
let pad = 0

/** A legacy server over HTTP that refuses calls and repeats the request in the body. */
const remote = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  async fetch(request) {
    if (request.method !== "POST") return new Response(null, { status: 405 })
    const { id, method } = (await request.json()) as Message
    const result = (value: unknown) => Response.json({ jsonrpc: "2.0", id, result: value })
    switch (method) {
      case "initialize":
        return result({
          protocolVersion: "2025-11-25",
          capabilities: { tools: {}, resources: {} },
          serverInfo: { name: "e", version: "1" },
        })
      case "tools/list":
        return result({ tools: [{ name: "poke", inputSchema: { type: "object" } }] })
      case "resources/list":
        return result({ resources: [{ uri: "x://a", name: "a" }] })
      case "tools/call":
      case "resources/read":
        return new Response(
          `${".".repeat(pad)} ${request.headers.get("authorization")} ${request.headers.get("cookie")} ${request.url}`,
          { status },
        )
      default:
        return id === undefined ? new Response(null, { status: 202 }) : result({})
    }
  },
})
afterAll(() => remote.stop(true))

test("credentials that a server repeats reach neither clients, scripts and health nor the log and commands [secrets:errors]", async () => {
  const canaries = ["canary-in-dotenv", "canary-in-cookie", "canary-in-query"]
  const folder = freshFolder()
  writeFileSync(join(folder, ".env"), `REMOTE_TOKEN=${canaries[0]}\n`)
  const web = {
    url: `${remote.url.href}mcp?api_key=${canaries[2]}`,
    headers: { Authorization: "Bearer ${REMOTE_TOKEN}", Cookie: `sid=${canaries[1]}` },
    protocolVersion: "legacy",
  }
  await using svc = await startSvc({ folder, config: { mcpServers: { web } }, flags: ["--log-level", "debug"] })
  await eventually(async () => (await fetch(`${svc.url}/health/mcp/web`)).ok)
  const said: string[] = []
  const plain = async () => {
    const headers = { "content-type": "application/json" }
    const body = JSON.stringify({ tool: "web_svc_poke" })
    return (await fetch(`${svc.url}/mcp`, { method: "POST", headers, body })).text()
  }
  for (status of [400, 403, 404, 429, 500, 502])
    for (pad of [0, 180]) {
      const call = await modern(`${svc.url}/mcp`, "tools/call", { name: "web_svc_poke", arguments: {} })
      const read = await modern(`${svc.url}/mcp`, "resources/read", { uri: "svc://web/x://a" })
      expect(JSON.stringify([call.body, read.body])).toContain(`web: answered ${status}`)
      said.push(JSON.stringify(call.body), JSON.stringify(read.body), await plain())
    }
  for (const path of ["/health?level=full", "/health/mcp/web"]) said.push(await (await fetch(svc.url + path)).text())
  for (const args of [
    ["mcp", "status", "web", "--json"],
    ["mcp", "status", "web", "--verbose"],
    ["logs", "web"],
  ]) {
    const { stdout, stderr } = await runSvc([...args, "--config-dir", folder])
    said.push(stdout, stderr)
  }
  said.push(svc.stderr())
  // Half of one would be enough to guess the rest.
  expect(said.filter((text) => /canary-in/.test(text))).toEqual([])
}, 30_000)
