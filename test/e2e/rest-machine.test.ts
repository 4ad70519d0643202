/** REST of the built binary: clients, imports, secrets, backups and checks of the machine, with a HOME of its own. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type Api, connect } from "./api.ts"
import { eventually, fixture, freshEnv, freshFolder, type Instance, npmServer, SVC, startSvc } from "./harness.ts"

const KEY = "ghp_0123456789012345678901234567890123ab"
const OWN = { command: SVC, args: ["demo-server"] }
const THEIRS = { command: "bun", args: [fixture("echo.ts"), "--tools", "2"], env: { GITHUB_TOKEN: KEY } }
const CRM = { command: SVC, args: ["demo-server"], env: { TOKEN: `${"$"}{CRM_TOKEN}` } }

let home: string
let cursor: string
let svc: Instance
let api: Api

beforeAll(async () => {
  home = freshFolder()
  cursor = join(home, ".cursor", "mcp.json")
  mkdirSync(join(home, ".cursor"))
  mkdirSync(join(home, ".codex"))
  writeFileSync(join(home, ".codex", "config.toml"), "not toml {")
  writeFileSync(cursor, JSON.stringify({ mcpServers: { theirs: THEIRS, own: OWN } }, null, 2))
  svc = await startSvc({
    config: { mcpServers: { own: OWN, crm: CRM, every: npmServer("server-everything") } },
    env: freshEnv(home),
    flags: ["--audit-log", join(home, "audit.log")],
  })
  await svc.said(/every: connected/)
  api = await connect(svc)
})
afterAll(() => svc[Symbol.asyncDispose]())

const stateOfCursor = async () => {
  const { body } = await api("GET", "/clients")
  return (body.items as { client: string; state: string }[]).find(({ client }) => client === "cursor")?.state
}
const written = () => JSON.parse(readFileSync(join(svc.folder, "mcp.json"), "utf8")).mcpServers

describe("clients and their servers [rest:clients]", () => {
  test("an import is shown, then made exactly as it was shown, and keys go to .env", async () => {
    const { body: shown } = await api("GET", "/import")
    expect(shown.skipped).toEqual([expect.stringContaining("config.toml:1:")])
    expect(shown.found).toEqual([
      expect.objectContaining({ name: "theirs", application: "cursor", title: "Cursor" }),
      expect.objectContaining({ name: "own", same: true }),
    ])
    expect(JSON.stringify(shown)).not.toContain(KEY)
    expect(written().theirs).toBeUndefined()
    expect((await api("POST", "/import", { digest: "0".repeat(32) })).status).toBe(409)
    const { digest } = shown
    // A server that svc already has can be named, and is not imported; one that was not shown cannot.
    expect((await api("POST", "/import", { digest, only: ["own"] })).body.added).toEqual([])
    expect((await api("POST", "/import", { digest, only: ["theirs", "--yes"] })).status).toBe(404)
    expect(written().theirs).toBeUndefined()
    const { status, body } = await api("POST", "/import", { digest, only: ["theirs"] })
    expect([status, body.added]).toEqual([200, ["theirs"]])
    expect(written().theirs.env).toEqual({ GITHUB_TOKEN: `${"$"}{GITHUB_TOKEN}` })
    expect(readFileSync(join(svc.folder, ".env"), "utf8")).toContain(KEY)
    await svc.said(/theirs: connected/)
  })

  test("a client is connected by the change that was shown, and undone byte for byte", async () => {
    const before = readFileSync(cursor, "utf8")
    expect(await stateOfCursor()).toStartWith("not connected")
    const { body: shown } = await api("POST", "/clients/cursor/connect", { replace: true })
    expect(shown).toMatchObject({ changed: false, file: cursor, replaced: ["theirs", "own"] })
    expect(JSON.stringify(shown)).not.toContain(KEY)
    expect(readFileSync(cursor, "utf8")).toBe(before)
    // Another change than the one that was shown.
    expect((await api("POST", "/clients/cursor/connect", { digest: shown.digest })).status).toBe(409)
    const done = await api("POST", "/clients/cursor/connect", { replace: true, digest: shown.digest })
    expect([done.status, done.body.changed]).toEqual([200, true])
    expect(Object.keys(JSON.parse(readFileSync(cursor, "utf8")).mcpServers)).toEqual(["svc"])
    expect(await stateOfCursor()).toBe("connected")
    const { body: undo } = await api("POST", "/clients/cursor/undo", {})
    await api("POST", "/clients/cursor/undo", { digest: undo.digest })
    expect(readFileSync(cursor, "utf8")).toBe(before)
  })

  test.each([
    ["/clients/nope/connect", 404],
    ["/clients/--all/connect", 400],
    ["/clients/cursor/undo", 404],
    ["/clients/codex/connect", 409],
  ])("POST %s is refused", async (path, status) => {
    expect((await api("POST", path, {})).status).toBe(status)
  })
})

describe("secrets [rest:machine-secrets]", () => {
  test("a missing secret is stored without a trace elsewhere, and starts its server", async () => {
    const state = async (name: string) => ((await api("GET", `/servers/${name}`)).body as { state: string }).state
    expect(await state("crm")).toBe("invalid")
    const value = "canary-c0ffee-1234"
    const { status, body } = await api("PUT", "/secrets/CRM_TOKEN", { value })
    expect([status, body]).toEqual([200, expect.objectContaining({ storedIn: ".env", reference: `${"$"}{CRM_TOKEN}` })])
    await svc.said(/crm: connected/)
    expect(readFileSync(join(svc.folder, ".env"), "utf8")).toContain(value)
    const { body: secrets } = await api("GET", "/secrets")
    expect(secrets.items).toContainEqual({ reference: `${"$"}{CRM_TOKEN}`, state: "in .env", servers: ["crm"] })
    await api("POST", "/paste", { text: `npx -y x --api-key ${value}` })
    for (const text of [JSON.stringify(secrets), readFileSync(join(home, "audit.log"), "utf8"), svc.stderr()])
      expect(text).not.toContain(value)
  })

  test("a secret is removed with a warning that names its servers, and only once", async () => {
    await api("PUT", "/secrets/SPARE", { value: "x" })
    expect((await api("DELETE", "/secrets/SPARE")).body).toEqual(
      expect.objectContaining({ secret: "SPARE", removedFrom: ".env" }),
    )
    expect((await api("DELETE", "/secrets/SPARE")).status).toBe(404)
    expect((await api("DELETE", "/secrets/CRM_TOKEN?in=elsewhere")).status).toBe(400)
    const { status, body } = await api("DELETE", "/secrets/CRM_TOKEN")
    expect([status, body.warnings]).toEqual([200, [`crm still refers to ${"$"}{CRM_TOKEN}`]])
    expect(readFileSync(join(svc.folder, ".env"), "utf8")).not.toContain("CRM_TOKEN")
    await eventually(async () => ((await api("GET", "/servers/crm")).body as { state: string }).state === "invalid")
    await api("PUT", "/secrets/CRM_TOKEN", { value: "again" })
    expect((await api("POST", "/secrets/refresh")).body).toEqual(expect.objectContaining({ refreshed: true }))
  })

  test.each(["--to=keychain", "a b", "9X"])("a name such as %p is refused", async (name) => {
    const path = `/secrets/${encodeURIComponent(name)}`
    expect((await api("PUT", path, { value: "x" })).status).toBe(400)
    expect((await api("DELETE", path)).status).toBe(400)
  })
})

describe("tokens [rest:tokens]", () => {
  const readTokens = () => readFileSync(join(svc.folder, "tokens.json"), "utf8")

  test("a token is created with its limits, and its text is in this answer alone", async () => {
    const asked = { name: "ann, of sales", tags: ["web", "db"], expires: "30d" }
    const { status, headers, body } = await api("POST", "/tokens", asked)
    expect([status, headers.get("cache-control")]).toEqual([201, "no-store"])
    expect(body).toMatchObject({ name: "ann, of sales", tags: ["web", "db"], token: expect.stringMatching(/^svc_/) })
    expect(Date.parse(body.expires as string) - Date.parse(body.created as string)).toBe(30 * 86_400_000)
    const { body: listed } = await api("GET", "/tokens")
    expect(listed.items).toContainEqual(expect.objectContaining({ id: body.id, name: "ann, of sales" }))
    const again = await api("POST", "/tokens", asked)
    expect(again.status).toBe(409)
    const secret = String(body.token)
    const audit = readFileSync(join(home, "audit.log"), "utf8")
    expect(audit).toContain("rest POST /tokens")
    for (const text of [JSON.stringify([listed, again.body]), audit, svc.stderr(), readTokens()])
      expect([text.includes(secret), text.includes(secret.slice(-20))]).toEqual([false, false])
    expect((await api("DELETE", `/tokens/${body.id}`)).status).toBe(200)
    expect((await api("GET", "/tokens")).body.items).toEqual([])
  })

  test.each([
    [{ name: "" }, 400],
    [{ name: "a\0b" }, 400],
    [{ name: " " }, 400],
    [{ name: "a\u202eb" }, 400],
    [{ name: "a", presets: [] }, 400],
    [{ name: "a", tags: [] }, 400],
    [{ name: "a", tags: ["x,y"] }, 400],
    [{ name: "a", expires: "soon" }, 400],
    [{ name: "a", expires: "--json" }, 400],
    [{ name: "a", tags: ["x"], metricsOnly: true }, 400],
    [{ name: "a", presets: ["nope"] }, 404],
    [{ name: "a", more: 1 }, 400],
  ])("%p is refused, and creates nothing", async (body, status) => {
    expect((await api("POST", "/tokens", body)).status).toBe(status)
    expect((await api("GET", "/tokens")).body.items).toEqual([])
  })
})

test("a server is added without its key in mcp.json, and a backup takes it back [rest:backups]", async () => {
  const before = readFileSync(join(svc.folder, "mcp.json"), "utf8")
  const server = { ...OWN, env: { API_KEY: "sk-live-0123456789abcdef0123456789" } }
  expect((await api("POST", "/servers", { name: "keyed", server, moveKeys: true })).status).toBe(201)
  expect(written().keyed.env).toEqual({ API_KEY: `${"$"}{API_KEY}` })
  const { body } = await api("GET", "/backups")
  const [newest = ""] = body.items as string[]
  expect((body.changes as Record<string, string>)[newest]).toBe("added keyed")
  const { body: shown } = await api("POST", `/backups/${newest}/restore`, {})
  expect(String(shown.diff)).toContain("keyed")
  await api("POST", `/backups/${newest}/restore`, { digest: shown.digest })
  expect(readFileSync(join(svc.folder, "mcp.json"), "utf8")).toBe(before)
  expect((await api("POST", "/backups/..%2Fmcp.json/restore", {})).status).toBe(404)
})

test("a pasted text is read, and what is wrong with one is said [rest:paste]", async () => {
  const { body } = await api("POST", "/paste", { text: "claude mcp add fs -- npx -y fs-mcp /tmp" })
  expect(body.items).toEqual([
    { name: "fs", server: { command: "npx", args: ["-y", "fs-mcp", "/tmp"] }, template: false, notes: [] },
  ])
  const wrong = await api("POST", "/paste", { text: '{"mcpServers": {' })
  expect([wrong.status, wrong.body.detail]).toEqual([400, expect.stringContaining("1:17")])
})

test("the checks find what `svc doctor` finds [rest:doctor]", async () => {
  const { status, body } = await api("GET", "/doctor")
  expect([status, Array.isArray(body.findings)]).toEqual([200, true])
})

test("prompts and resources are read, and tokens and memory counted [rest:offers]", async () => {
  const prompt = await api("POST", "/prompts/get", { server: "every", name: "simple-prompt" })
  expect((prompt.body.result as { messages: unknown[] }).messages).toHaveLength(1)
  const { body: resources } = await api("GET", "/resources?server=every&limit=1")
  const [{ uri }] = resources.items as [{ uri: string }]
  const read = await api("POST", "/resources/read", { server: "every", uri })
  expect((read.body.result as { contents: { uri: string }[] }).contents[0]?.uri).toContain(uri.slice(-8))
  expect((await api("POST", "/prompts/get", { server: "every", name: "nope" })).status).toBe(404)
  expect((await api("POST", "/resources/read", { server: "nope", uri })).status).toBe(404)
  const { body: tools } = await api("GET", "/tools?server=every&tokens=true")
  for (const { tokens, characters } of tools.items as { tokens: number; characters: number }[])
    expect(tokens * 2).toBeLessThan(characters)
  const { body: usage } = await api("GET", "/usage")
  expect((usage.own as { memory: number }).memory).toBeGreaterThan(1_000_000)
  if (process.platform === "linux" && existsSync("/proc/self/stat"))
    expect((usage.servers as Record<string, { memory: number }>).every?.memory).toBeGreaterThan(1_000_000)
})

test("a draft of a preset shows what it would include [rest:presets]", async () => {
  const { body } = await api("POST", "/presets/preview", { matches: ["every"], allow: ["every/echo"] })
  const every = (body.entries as { server: string; included: { entry: string; name: string }[] }[]).find(
    ({ server }) => server === "every",
  )
  expect(every?.included).toEqual([{ entry: "every/echo", name: "every_svc_echo" }])
  expect((await api("POST", "/presets/preview", { filter: "and" })).status).toBe(400)
  expect((await api("POST", "/presets/preview", {})).status).toBe(400)
})

test("a server as it is written shows references, and hides the text around them [rest:secrets]", async () => {
  const file = join(svc.folder, "mcp.json")
  const config = JSON.parse(readFileSync(file, "utf8"))
  const shown = {
    A_KEY: "${keychain:my key}",
    B_TOKEN: "${env:X}${file:/x}",
    C_TOKEN: "Bearer $X",
    D_TOKEN: "${cmd:op read op://a/b}",
  }
  const env = { ...shown, E_TOKEN: `\${X:-${KEY}}`, F_TOKEN: `${KEY}\${X}`, G_TOKEN: "{{user.name}}$X" }
  svc.write({ ...config, mcpServers: { ...config.mcpServers, refers: { ...OWN, disabled: true, env } } })
  const { body } = await eventually(async () => {
    const found = await api("GET", "/config/servers/refers")
    return found.status === 200 && found
  })
  const hidden = { E_TOKEN: "•••", F_TOKEN: "•••", G_TOKEN: env.G_TOKEN }
  expect((body.server as { env: object }).env).toEqual({ ...shown, ...hidden })
})

test("the plan of an installation shows no key that came with the request [tools:shown]", async () => {
  const env = { DATABASE: `postgres://bob:${KEY}@db.example/x` }
  const { status, body } = await api("POST", "/install", {
    serverName: "x",
    command: "run",
    args: ["--token", KEY],
    env,
  })
  expect([status, body.command]).toEqual([200, "run --token ••• with DATABASE=•••"])
  expect(JSON.stringify(body)).not.toContain(KEY)
})

test("every way to write a server warns of a key in clear, and moves it if asked to [secrets:moved]", async () => {
  const server = { ...OWN, disabled: true, env: { FIRST_TOKEN: `${KEY.slice(0, -4)}0001` } }
  const warning = (name: string) =>
    `clear: env.${name} looks like a key, and mcp.json contains it in plain text; \`svc secret import\` moves it to .env`
  const added = await api("POST", "/servers", { name: "clear", server })
  expect([added.status, added.body.warnings]).toEqual([201, [warning("FIRST_TOKEN")]])
  const { body, headers } = await api("GET", "/config/servers/clear")
  const env = { FIRST_TOKEN: "•••", SECOND_TOKEN: `${KEY.slice(0, -4)}0002` }
  const match = { "if-match": headers.get("etag") ?? "" }
  const put = await api("PUT", "/config/servers/clear", { server: { ...(body.server as object), env } }, match)
  expect(put.body.warnings).toEqual([warning("FIRST_TOKEN"), warning("SECOND_TOKEN")])
  expect((await api("PATCH", "/servers/clear", { patch: { tags: ["a"] } })).body.warnings).toEqual([])
  const patch = { env: { THIRD_TOKEN: `${KEY.slice(0, -4)}0003` } }
  expect((await api("PATCH", "/servers/clear", { patch, dryRun: true })).body.warnings).toContain(
    warning("THIRD_TOKEN"),
  )
  const moved = await api("PATCH", "/servers/clear", { patch, moveKeys: true })
  expect([moved.status, moved.body.warnings]).toEqual([200, []])
  expect(JSON.stringify(written().clear)).not.toContain(KEY.slice(0, -4))
  expect(written().clear.env.THIRD_TOKEN).toBe(`${"$"}{THIRD_TOKEN}`)
})

test("a key that a change of a server adds goes to .env, and one that was there stays where it is [secrets:moved]", async () => {
  const path = "/config/servers/keyed"
  const file = join(svc.folder, "mcp.json")
  const config = JSON.parse(readFileSync(file, "utf8"))
  svc.write({ ...config, mcpServers: { ...config.mcpServers, keyed: { ...OWN, env: { OLD_TOKEN: KEY } } } })
  const written = () => JSON.parse(readFileSync(file, "utf8")).mcpServers.keyed
  const put = async (change: object) => {
    const { body, headers } = await eventually(async () => {
      const found = await api("GET", path)
      return found.status === 200 && found
    })
    const { server } = body as { server: object }
    const match = { "if-match": headers.get("etag") ?? "" }
    return (await api("PUT", path, { server: { ...server, ...change }, moveKeys: true }, match)).status
  }
  expect(await put({ tags: ["a"] })).toBe(200)
  expect(written()).toEqual({ ...OWN, env: { OLD_TOKEN: KEY }, tags: ["a"] })
  const added = `${KEY.slice(0, -4)}beef`
  expect(await put({ env: { OLD_TOKEN: "•••", NEW_TOKEN: added } })).toBe(200)
  expect(JSON.stringify(written())).not.toContain(added)
  expect(written().env.NEW_TOKEN).toBe(`${"$"}{NEW_TOKEN}`)
  expect(readFileSync(join(svc.folder, ".env"), "utf8")).toContain(added)
})
