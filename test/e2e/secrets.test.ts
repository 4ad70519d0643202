/** No text that svc creates contains a configured secret, even if a server repeats the secret that it was sent. */
import { afterAll, expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { mapStrings } from "../../src/lib/json.ts"
import type { Params } from "../../src/wire/message.ts"
import { HARMLESS, HARMLESS_ARGS, KEYS } from "../fixtures/keys.ts"
import { eventually, freshEnv, freshFolder, modern, runSvc, startSvc } from "./harness.ts"

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

test("an import of the files of six clients leaves no key in mcp.json, and what only looks like one stays [secrets:moved]", async () => {
  const isPlain = ({ env, args }: Params) => !Array.isArray(env) && args === undefined
  const started = ({ command = "npx", ...server }: Params): Params =>
    server.url !== undefined || server.headers !== undefined || server.oauth !== undefined
      ? { url: "https://mcp.example.com/mcp", ...server }
      : { command, ...server }
  const all = [
    ...KEYS.map(([server, key], at) => ({ name: `k${at}`, server: started(server), key })),
    ...[...HARMLESS, ...HARMLESS_ARGS.map((args): Params => ({ args }))].map((server, at) => ({
      name: `h${at}`,
      server: started(server),
      key: undefined,
    })),
  ]
  // Only JSON files of Claude Code have what clients write in forms of their own.
  const byClient = Map.groupBy(all, ({ server }, at) =>
    isPlain(server) ? (CLIENT_FILES[at % 6] ?? "") : ".claude.json",
  )
  const sections: Readonly<Record<string, (servers: object) => string>> = {
    ".claude.json": (mcpServers) => JSON.stringify({ mcpServers }),
    ".cursor/mcp.json": (mcpServers) => JSON.stringify({ mcpServers }),
    ".config/Code/User/mcp.json": (servers) => JSON.stringify({ servers }),
    ".gemini/settings.json": (mcpServers) => JSON.stringify({ mcpServers }),
    ".config/opencode/opencode.json": (mcp) => JSON.stringify({ mcp }),
    ".codeium/windsurf/mcp_config.json": (mcpServers) => JSON.stringify({ mcpServers }),
  }
  const files = [...byClient].map(([file, servers]) => [
    file,
    sections[file]?.(Object.fromEntries(servers.map(({ name, server }) => [name, server]))) ?? "",
  ])
  const folder = freshFolder(Object.fromEntries(files))
  const { SVC_CONFIG_DIR: _own, ...env } = freshEnv(folder)
  const imported = await runSvc(["config", "import", "--yes", "--json"], env)
  const { added, found } = JSON.parse(imported.stdout)
  expect([imported.code, added.length]).toEqual([0, all.length])
  const written = readFileSync(join(folder, ".config", "svc", "mcp.json"), "utf8")
  const dotenv = readFileSync(join(folder, ".config", "svc", ".env"), "utf8")
  const { mcpServers } = JSON.parse(written)
  for (const { name, server, key } of all) {
    const text = JSON.stringify(mcpServers[name])
    if (key !== undefined) {
      expect([name, text.includes(key), dotenv.includes(key)]).toEqual([name, false, true])
      const { command } = found.find((one: { name: string }) => one.name === name)
      expect([name, command.includes(key)]).toEqual([name, false])
    } else
      for (const value of valuesOf(server))
        expect(text.replaceAll("$", "")).toContain(JSON.stringify(value).slice(1, -1).replaceAll("$", ""))
  }
})

const CLIENT_FILES = [
  ".claude.json",
  ".cursor/mcp.json",
  ".config/Code/User/mcp.json",
  ".gemini/settings.json",
  ".config/opencode/opencode.json",
  ".codeium/windsurf/mcp_config.json",
]

/** Returns the texts of a server. */
function valuesOf(server: Params): readonly string[] {
  const texts: string[] = []
  mapStrings(server, (text) => {
    texts.push(text)
    return text
  })
  return texts
}
