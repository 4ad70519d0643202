/** Server Cards and the AI Catalog of the built binary. From: Server Card extension, Discovery. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { z } from "zod"
import { eventually, fixture, freePort, freshEnv, freshFolder, runSvc, startSvc } from "./harness.ts"

/** What a card must be. From: Server Card extension, schema.ts. */
const card = z.object({
  $schema: z.literal("https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"),
  name: z
    .string()
    .min(3)
    .max(200)
    .regex(/^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/),
  version: z.string().max(255),
  description: z.string().min(1).max(100),
  title: z.string().min(1).max(100),
  remotes: z
    .array(
      z.object({
        type: z.literal("streamable-http"),
        url: z.url(),
        headers: z.array(z.looseObject({ name: z.string() })).optional(),
        supportedProtocolVersions: z.array(z.string()),
      }),
    )
    .length(1),
})
const catalog = z.strictObject({
  specVersion: z.literal("1.0"),
  entries: z.array(
    z.strictObject({
      identifier: z.string().regex(/^urn:air:[^:]+:mcp:[^:]+$/),
      type: z.literal("application/mcp-server-card+json"),
      url: z.url(),
    }),
  ),
})

const CATALOG = "/.well-known/ai-catalog.json"
const PAGE = { origin: "https://page.example" }
const config = {
  mcpServers: {
    lists: { command: "bun", args: [fixture("lists.ts")], tags: ["open"] },
    "a b": { command: "bun", args: [fixture("lists.ts")], tags: ["closed"] },
    off: { command: "bun", args: [fixture("lists.ts")], disabled: true },
  },
  mcpTemplates: { shaped: { command: "bun", args: [fixture("lists.ts"), "{{project.name}}"] } },
}
const cors = ({ headers }: Response) =>
  Object.fromEntries(
    ["origin", "methods", "headers"].map((name) => [name, headers.get(`access-control-allow-${name}`)]),
  )
/** Resolves when the servers have started: until then a card does not know their versions. */
const loaded = (url: string) => eventually(async () => (await fetch(`${url}/health/mcp`)).status === 200)
const ANY_ORIGIN = { origin: "*", methods: "GET", headers: "Content-Type, If-None-Match" }

test("svc has a card of the aggregate and of each server, under the address that was asked [cards:serve]", async () => {
  await using svc = await startSvc({ config })
  await loaded(svc.url)
  for (const [path, server] of [
    ["/mcp", "svc"],
    ["/servers/lists/mcp", "lists"],
    ["/servers/a%20b/mcp", "lists"],
  ] as const) {
    const response = await fetch(`${svc.url}${path}/server-card`)
    expect([response.status, response.headers.get("content-type"), response.headers.get("cache-control")]).toEqual([
      200,
      "application/mcp-server-card+json",
      "private, no-cache",
    ])
    const { remotes, title, version } = card.parse(await response.json())
    expect([remotes[0]?.url, title]).toEqual([`${svc.url}${path}`, server])
    // A client then finds what the card says.
    const client = new Client({ name: "t", version: "1" }, { versionNegotiation: { mode: "auto" } })
    await client.connect(new StreamableHTTPClientTransport(new URL(remotes[0]?.url ?? "")))
    expect(client.getServerVersion()).toMatchObject({ name: server, version })
    await client.close()
  }
  const name = async (path: string) => card.parse(await (await fetch(`${svc.url}${path}/server-card`)).json()).name
  expect(await name("/mcp")).toBe("127.0.0.1/svc")
  expect(await name("/servers/a%20b/mcp")).toBe("127.0.0.1/svc.a-b")
  for (const path of [CATALOG, "/servers/off/mcp/server-card", "/servers/shaped/mcp/server-card", "/server-card"])
    expect([path, (await fetch(`${svc.url}${path}`)).status]).toEqual([path, 404])
  // A page must not find an svc that runs beside its browser.
  expect((await fetch(`${svc.url}/mcp/server-card`, { headers: PAGE })).status).toBe(403)
  expect((await fetch(`${svc.url}/mcp/server-card`, { headers: { host: "evil.example" } })).status).toBe(403)
})

test("under an external address, pages of all origins and caches may read cards and the catalog [cards:serve]", async () => {
  const port = await freePort()
  const mcpServers = { ...config.mcpServers, dead: { command: "false" } }
  const flags = ["--external-url", "https://gateway.example.com/tools/"]
  await using svc = await startSvc({ config: { ...config, mcpServers }, port, flags })
  await loaded(svc.url)
  const base = "https://gateway.example.com/tools"
  const listed = await fetch(`${svc.url}${CATALOG}`, { headers: PAGE })
  expect([listed.headers.get("content-type"), cors(listed)]).toEqual(["application/ai-catalog+json", ANY_ORIGIN])
  const { entries } = catalog.parse(await listed.json())
  expect(entries.map(({ identifier, url }) => [identifier, url])).toEqual([
    ["urn:air:gateway.example.com:mcp:svc", `${base}/mcp/server-card`],
    ["urn:air:gateway.example.com:mcp:svc.lists", `${base}/servers/lists/mcp/server-card`],
    ["urn:air:gateway.example.com:mcp:svc.a-b", `${base}/servers/a%20b/mcp/server-card`],
    ["urn:air:gateway.example.com:mcp:svc.dead", `${base}/servers/dead/mcp/server-card`],
  ])
  const response = await fetch(`${svc.url}/mcp/server-card`, { headers: { ...PAGE, host: "gateway.example.com" } })
  const { name, remotes } = card.parse(await response.json())
  expect([name, remotes[0]?.url]).toEqual(["com.example.gateway/svc", `${base}/mcp`])
  const etag = response.headers.get("etag") ?? ""
  expect([response.headers.get("cache-control"), response.headers.get("access-control-expose-headers")]).toEqual([
    "public, max-age=3600",
    "ETag",
  ])
  for (const [path, tag, status] of [
    ["/mcp/server-card", etag, 304],
    ["/mcp/server-card", `W/${etag}, "x"`, 304],
    ["/mcp/server-card", '"x"', 200],
    ["/servers/lists/mcp/server-card", etag, 200],
    [CATALOG, listed.headers.get("etag") ?? "", 304],
  ] as const)
    expect((await fetch(`${svc.url}${path}`, { headers: { "if-none-match": tag } })).status).toBe(status)
  const cachingOf = async (server: string) =>
    (await fetch(`${svc.url}/servers/${server}/mcp/server-card`)).headers.get("cache-control")
  expect([await cachingOf("lists"), await cachingOf("dead")]).toEqual(["public, max-age=3600", "private, no-cache"])
  const preflight = {
    ...PAGE,
    "access-control-request-method": "GET",
    "access-control-request-headers": "if-none-match",
  }
  const allowed = await fetch(`${svc.url}/mcp/server-card`, { method: "OPTIONS", headers: preflight })
  expect([allowed.status, cors(allowed)]).toEqual([204, ANY_ORIGIN])
  expect((await fetch(`${svc.url}/mcp/server-card`, { method: "HEAD" })).headers.get("etag")).toBe(etag)
  const posted = await fetch(`${svc.url}/mcp/server-card`, { method: "POST" })
  expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"])
  // The address itself is as closed to pages as before.
  expect((await fetch(`${svc.url}/mcp`, { headers: PAGE })).status).toBe(403)
})

test("under --auth, documents without a token name no server, and a token shows the cards of its servers [cards:auth]", async () => {
  await using svc = await startSvc({ config, flags: ["--auth", "--external-url", "https://gateway.example.com"] })
  const made = await runSvc(["auth", "token", "create", "--tags", "open", "--config-dir", svc.folder])
  const token = { authorization: `Bearer ${made.stdout.trim()}` }
  // svc watches the file of tokens.
  await eventually(async () => (await fetch(`${svc.url}/mcp`, { headers: token })).status !== 401)
  const aggregate = await fetch(`${svc.url}/mcp/server-card`)
  const text = await aggregate.text()
  const { remotes } = card.parse(JSON.parse(text))
  expect(remotes[0]?.headers).toMatchObject([{ name: "Authorization", isRequired: true, isSecret: true }])
  const listed = await (await fetch(`${svc.url}${CATALOG}`)).text()
  expect(catalog.parse(JSON.parse(listed)).entries).toHaveLength(1)
  for (const shown of [text, listed]) expect(shown).not.toMatch(/lists|a b|a%20b/)
  for (const name of ["lists", "absent"])
    expect((await fetch(`${svc.url}/servers/${name}/mcp/server-card`)).status).toBe(401)
  const look = (name: string) => fetch(`${svc.url}/servers/${name}/mcp/server-card`, { headers: token })
  const own = await look("lists")
  expect([own.status, own.headers.get("cache-control")]).toEqual([200, "private, no-cache"])
  const [hidden, absent] = [await look("a%20b"), await look("absent")]
  expect([hidden.status, await hidden.text()]).toEqual([absent.status, await absent.text()])
  expect(hidden.status).toBe(404)
})

test("a host is added and installed by its card, and the person sees what was found [cards:read]", async () => {
  const port = await freePort()
  await using svc = await startSvc({ config: { mcpServers: { lists: config.mcpServers.lists } }, port })
  await loaded(svc.url)
  const folder = freshFolder()
  const run = (...args: string[]) => runSvc(["mcp", ...args, "--config-dir", folder], freshEnv(folder))
  const host = svc.url.replace("http://", "")
  const added = await run("add", "one", "--url", host)
  expect([added.code, added.stderr]).toEqual([
    0,
    `found svc (127.0.0.1/svc) by the server card at ${svc.url}/mcp/server-card: ${svc.url}/mcp\n`,
  ])
  const url = `${svc.url}/servers/lists/mcp/server-card`
  const shown = await run("install", "two", "--url", url, "--dry-run")
  expect(shown.stdout).toContain(`from the server card 127.0.0.1/svc.lists at ${url}`)
  expect((await run("install", "two", "--url", url, "--yes")).code).toBe(0)
  expect((await run("add", "three", "--url", "https://127.0.0.1:9/mcp")).stderr).toBe("")
  const { mcpServers } = await Bun.file(join(folder, "mcp.json")).json()
  expect(mcpServers).toMatchObject({
    one: { type: "streamableHttp", url: `${svc.url}/mcp` },
    two: { type: "streamableHttp", url: `${svc.url}/servers/lists/mcp` },
    three: { url: "https://127.0.0.1:9/mcp" },
  })
  const none = await run("add", "four", "--url", "127.0.0.1:9")
  expect([none.code, none.stderr]).toEqual([
    64,
    "svc: no MCP server was found at http://127.0.0.1:9/; give the whole URL of its MCP endpoint, such as http://127.0.0.1:9/mcp\n",
  ])
})
