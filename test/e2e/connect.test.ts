/** `svc connect` and `svc config import` beside a running svc, and what they say of the program itself. */
import { expect, test } from "bun:test"
import { chmodSync, existsSync, readFileSync, utimesSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { CURSOR, clientHome } from "../fixtures/client-home.ts"
import { eventually, freshEnv, freshFolder, readIfThere, startSvc, svcIn } from "./harness.ts"

test("what a killed connect left is undone, and removed by the next connect, serve and doctor --fix [connect:leftovers]", async () => {
  const folder = clientHome({ ".cursor/mcp.json": CURSOR })
  const [file, svc] = [join(folder, ".cursor/mcp.json"), svcIn(folder)]
  const left = [".cursor/.mcp.json.0123456789ab.tmp", "backups/clients/.cursor-mcp.json.0123456789ab.tmp"]
  const leave = () => {
    for (const name of left) {
      writeFileSync(join(folder, name), "API_KEY")
      utimesSync(join(folder, name), 1, 1)
    }
  }
  const remaining = () => left.filter((name) => existsSync(join(folder, name)))
  expect((await svc("connect", "cursor", "--yes")).code).toBe(0)
  leave()
  expect((await svc("connect", "cursor", "--replace", "--yes")).code).toBe(0)
  expect(remaining()).toEqual([])
  leave()
  expect((await svc("doctor")).stdout).toContain("copies of clients' files that killed processes left")
  await svc("doctor", "--fix", "--yes")
  expect(remaining()).toEqual([])
  leave()
  await using _ = await startSvc({ folder, env: freshEnv(folder) })
  await eventually(() => remaining().length === 0)

  // Killed between the record and the file, and between the file and the record.
  const list = join(folder, "connections.json")
  const { connections } = JSON.parse(readFileSync(list, "utf8"))
  const last = connections.at(-1)
  writeFileSync(list, JSON.stringify({ connections: [...connections.slice(0, -1), { ...last, digest: "" }] }))
  expect((await svc("connect", "cursor", "--undo", "--yes")).code).toBe(0)
  expect(readFileSync(file, "utf8")).toContain('"files"')
  const [first] = connections
  writeFileSync(file, CURSOR)
  writeFileSync(list, JSON.stringify({ connections: [{ ...first, digest: "" }] }))
  expect((await svc("connect", "cursor", "--undo", "--yes")).code).toBe(0)
  expect([readFileSync(file, "utf8"), JSON.parse(readFileSync(list, "utf8"))]).toEqual([CURSOR, { connections: [] }])
  // Also after the change was undone, with which svc forgets the file.
  leave()
  await svc("doctor", "--fix", "--yes")
  expect(remaining()).toEqual([])
})

test("a client that only starts commands, and --stdio, get svc proxy for this configuration [connect:formats]", async () => {
  const folder = clientHome({})
  const svc = svcIn(folder)
  const { command } = JSON.parse((await svc("connect", "claude-desktop", "--yes", "--json")).stdout)
  expect(command.slice(1)).toEqual(["proxy", "--start", "--config-dir", folder])
  expect(JSON.parse(readIfThere(join(folder, ".config/Claude/claude_desktop_config.json")) ?? "")).toEqual({
    mcpServers: { svc: { command: command[0], args: command.slice(1) } },
  })
  await svc("preset", "create", "work", "--filter", "web")
  const project = await svc("connect", "cursor", "--scope", "project", "--stdio", "--preset", "work", "--yes", "--json")
  expect(JSON.parse(project.stdout).command).toEqual([
    "svc",
    "proxy",
    "--start",
    "--config-dir",
    folder,
    "--preset",
    "work",
  ])
  expect((await svc("connect", "cursor", "--preset", "play")).stderr).toContain("no preset is named play")
  const search = await svc(
    "connect",
    "windsurf",
    "--no-stdio",
    "--preset",
    "work",
    "--tools",
    "search",
    "--yes",
    "--json",
  )
  expect(JSON.parse(search.stdout).url).toBe("http://127.0.0.1:3050/mcp?preset=work&tools=search")
})

test("the client starts svc, also if one runs; of a service or with an external address, it gets the address [connect:start]", async () => {
  const folder = clientHome({})
  const entryIn = async (home: string, ...flags: readonly string[]) =>
    JSON.parse((await svcIn(home)("connect", "cursor", "--dry-run", "--json", ...flags)).stdout)
  const started = { command: expect.arrayContaining(["proxy", "--start"]) }
  expect(await entryIn(folder)).toMatchObject(started)
  expect(await entryIn(folder, "--no-stdio")).toMatchObject({ url: "http://127.0.0.1:3050/mcp" })
  const published = svcIn(folder, { SVC_EXTERNAL_URL: "https://mcp.example.com" })
  expect(JSON.parse((await published("connect", "cursor", "--dry-run", "--json")).stdout).url).toContain("example.com")
  for (const starter of ["background", "program", "service"]) {
    await using instance = await startSvc({ env: { SVC_STARTED_BY: starter } })
    const entry = (...flags: readonly string[]) => entryIn(instance.folder, ...flags)
    const address = { url: `${instance.url}/mcp` }
    expect(await entry()).toMatchObject(starter === "service" ? address : started)
    expect([await entry("--stdio"), await entry("--no-stdio")]).toMatchObject([started, address])
  }
})

test("if svc requires a token, the client gets its own, which is revoked with the entry [connect:token]", async () => {
  await using instance = await startSvc({ config: { mcpServers: {} }, flags: ["--auth"] })
  const { folder, url } = instance
  const svc = svcIn(folder)
  const tokens = async () => JSON.parse((await svc("auth", "token", "list", "--json")).stdout)
  const done = await svc("connect", "cursor", "--no-stdio", "--yes", "--json")
  expect(JSON.parse(done.stdout)).toMatchObject({ url: `${url}/mcp`, token: true })
  const { headers } = JSON.parse(readIfThere(join(folder, ".cursor/mcp.json")) ?? "").mcpServers.svc
  expect(done.stdout + done.stderr).not.toContain(headers.Authorization)
  const status = async () =>
    (
      await fetch(`${url}/mcp`, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: "{}",
      })
    ).status
  expect(await status()).not.toBe(401)
  expect(await tokens()).toMatchObject([{ name: "cursor" }])
  // Connected again, it keeps its token.
  expect((await svc("connect", "cursor", "--no-stdio", "--yes")).stdout).toContain("is already connected")
  expect((await svc("connect", "cursor", "--no-stdio", "--scope", "project", "--yes")).stderr).toContain(
    "is shared with the project",
  )
  expect((await svc("disconnect", "cursor", "--yes")).code).toBe(0)
  expect(await tokens()).toEqual([])
  expect(await status()).toBe(401)
  expect((await svc("disconnect", "cursor", "--undo", "--yes")).stdout).toContain(
    "its token was revoked: run `svc connect",
  )
  chmodSync(join(folder, ".cursor/mcp.json"), 0o644)
  expect((await svc("connect", "cursor", "--no-stdio", "--yes")).stderr).toContain(
    "which other users of this machine can read",
  )
  expect(await tokens()).toMatchObject([{ name: "cursor" }])
  // A command needs none.
  expect((await svc("connect", "cursor", "--yes")).stderr).toContain("svc revokes its token")
  expect(await tokens()).toEqual([])
})

test("a running svc, config check and mcp add refuse svc as its own server [config:self]", async () => {
  await using instance = await startSvc({ config: { mcpServers: {} } })
  const { folder, url } = instance
  const svc = svcIn(folder)
  const self = { url: url.replace("127.0.0.1", "localhost") }
  expect(await svc("mcp", "add", "self", "--url", self.url)).toMatchObject({
    code: 78,
    stderr: expect.stringContaining("url is the address of this svc, which would serve itself"),
  })
  instance.write({ mcpServers: { self } })
  await instance.said("self is not loaded: url is the address of this svc")
  expect(await svc("config", "check")).toMatchObject({
    code: 78,
    stdout: expect.stringContaining("self is not loaded"),
  })
  instance.write({ mcpServers: { other: { url: "http://127.0.0.1:9/mcp" } } })
  await instance.said(/reloaded: .*other/)
  expect((await svc("config", "check")).stdout).toBe("no issues\n")
})

test("the entry has the address under which the running svc is published [connect:external]", async () => {
  await using instance = await startSvc({ config: {}, flags: ["--auth", "--external-url", "https://mcp.example.com"] })
  const svc = svcIn(instance.folder)
  const { stdout } = await svc("connect", "windsurf", "--dry-run", "--json")
  expect(JSON.parse(stdout)).toMatchObject({ url: "https://mcp.example.com/mcp", token: true })
})

test("svc itself is not imported, at whatever address it answers [import:self]", async () => {
  await using other = await startSvc({ config: { mcpServers: {} } })
  const folder = freshFolder({
    ".cursor/mcp.json": JSON.stringify({
      mcpServers: {
        here: { url: "http://localhost:3050/mcp" },
        there: { url: `${other.url}/mcp?preset=work` },
        proxy: { command: "/opt/svc", args: ["proxy", "--start"] },
        real: { command: "real" },
      },
    }),
  })
  const { stdout } = await svcIn(folder)("config", "import", "--yes")
  expect(stdout.match(/skipped: it is svc itself/g)?.length).toBe(3)
  expect(stdout).toContain("imported real")
})
