/** One svc for many projects: each client sees the servers that are rendered for it. */
import { expect, test } from "bun:test"
import { mkdirSync, realpathSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js"
import {
  eventually,
  freshEnv,
  freshFolder,
  type Instance,
  modern,
  processes,
  ROOT,
  readIfThere,
  removeFolder,
  runSvc,
  SVC,
  startSvc,
} from "./harness.ts"

const SERVER = join(ROOT, "test/fixtures/project.ts")
const mark = () => `svc-mark-${crypto.randomUUID()}`

/** A repository with a commit on a branch. */
function repository(branch: string): string {
  const folder = realpathSync(freshFolder())
  const git = (...args: string[]) => Bun.spawnSync(["git", "-C", folder, ...args], { env: { ...freshEnv(folder) } })
  git("init", "-q", "-b", branch)
  git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "first")
  return folder
}

const switchBranch = (folder: string, branch: string) =>
  Bun.spawnSync(["git", "-C", folder, "checkout", "-q", "-b", branch], { env: freshEnv(folder) })

async function connect(svc: Instance, project: string, ...flags: string[]) {
  const client = new Client({ name: "proxied", version: "7" })
  let changes = 0
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
    changes++
  })
  const transport = new StdioClientTransport({
    command: SVC,
    args: ["proxy", "--config-dir", svc.folder, ...flags],
    cwd: project,
    env: freshEnv(svc.folder),
    stderr: "pipe",
  })
  let stderr = ""
  transport.stderr?.on("data", (chunk) => {
    stderr += chunk
  })
  await client.connect(transport as never)
  type Where = { args: string[]; env: string; pid: number }
  return {
    client,
    transport,
    changes: () => changes,
    stderr: () => stderr,
    tools: async () => (await client.listTools()).tools.map(({ name }) => name).sort(),
    async where(name = "fs_svc_where"): Promise<Where> {
      const { content } = (await client.callTool({ name, arguments: {} })) as { content: { text: string }[] }
      const text = content[0]?.text ?? ""
      if (!text.startsWith("{")) throw new Error(text)
      return JSON.parse(text)
    },
    [Symbol.asyncDispose]: () => client.close(),
  }
}

const template = (tag: string, ...more: string[]) => ({
  command: "bun",
  args: [SERVER, tag, "{{project.path}}", "{{project.git.branch}}", "{{transport.client.name}}", ...more],
  env: { NAME: "{{#if (eq project.environment 'prod')}}production{{else}}{{project.name}}{{/if}}" },
  restartOnExit: true,
  restartDelay: 10,
  tags: ["files"],
})

test("three projects on three branches each see their own server [svcrc:wrong] [template:render] [template:instances]", async () => {
  const tag = mark()
  const [one, two, three] = [repository("main"), repository("feature"), repository("fix")]
  const still = { command: "bun", args: [join(ROOT, "test/fixtures/echo.ts")], tags: ["always"] }
  await using svc = await startSvc({
    config: { mcpServers: { still }, mcpTemplates: { fs: template(tag) } },
    flags: ["--template-linger", "200ms"],
  })
  await using a = await connect(svc, one)
  await using again = await connect(svc, join(one, ".git", ".."))
  await using b = await connect(svc, two)
  await using c = await connect(svc, three)

  expect(await a.tools()).toEqual(["fs_svc_other", "fs_svc_where", "still_svc_echo"])
  const places = [await a.where(), await b.where(), await c.where()]
  expect(places.map(({ args }) => args.slice(1))).toEqual([
    [one, "main", "proxied"],
    [two, "feature", "proxied"],
    [three, "fix", "proxied"],
  ])
  const { stdout: shown } = await runSvc(["mcp", "status", "--config-dir", svc.folder])
  for (const project of [one, two, three]) expect(shown).toContain(`fs (${project})  connected`)
  await svc.said(new RegExp(`fs#[0-9a-f]{16}: started for ${RegExp.escape(two)}`))
  // The same rendering is the same process.
  expect((await again.where()).pid).toBe(places[0]?.pid as number)
  expect(processes(tag)).toHaveLength(3)

  // Another branch means another server, only for this client; the old one stops when no client needs it.
  const before = b.changes()
  switchBranch(two, "other")
  await eventually(async () => (await b.where().catch(() => undefined))?.args[2] === "other")
  expect(b.changes()).toBeGreaterThan(before)
  await eventually(() => processes(tag).length === 3)
  expect((await a.where()).pid).toBe(places[0]?.pid as number)

  // The client's .svcrc.
  writeFileSync(join(three, ".svcrc"), JSON.stringify({ tags: ["files"], context: { environment: "prod" } }))
  await eventually(async () => (await c.where().catch(() => undefined))?.env === "production")
  expect(await c.tools()).toEqual(["fs_svc_other", "fs_svc_where"])
  // The last valid content holds while the file is being edited.
  writeFileSync(join(three, ".svcrc"), '{ "tags": ["files"], "context": { "environment": "pr')
  await eventually(() => c.stderr().includes(".svcrc:1:"))
  expect([(await c.where()).env, await c.tools()]).toEqual(["production", ["fs_svc_other", "fs_svc_where"]])

  // A killed instance comes back with the same identity, for the same clients; no other client notices.
  const killed = (await a.where()).pid
  process.kill(killed, "SIGKILL")
  const back = await eventually(async () => {
    const now = await a.where().catch(() => undefined)
    return now !== undefined && now.pid !== killed && now
  })
  expect(back.args).toEqual(places[0]?.args as string[])
  expect((await again.where()).pid).toBe(back.pid)

  // The definition hides a tool: nothing restarts. Then it changes what it starts: every instance is replaced.
  svc.write({ mcpServers: { still }, mcpTemplates: { fs: { ...template(tag), disabledTools: ["other"] } } })
  await eventually(async () => (await a.tools()).length === 2)
  expect((await a.where()).pid).toBe(back.pid)
  svc.write({ mcpServers: { still }, mcpTemplates: { fs: template(tag, "new") } })
  await eventually(async () => (await a.where().catch(() => undefined))?.args[4] === "new")
  await eventually(async () => (await c.where().catch(() => undefined))?.args[4] === "new")
  await eventually(() => processes(tag).length === 3)

  // A while after the last client leaves, the server stops.
  await a.client.close()
  await again.client.close()
  await eventually(() => processes(tag).length === 2)
  for (const folder of [one, two, three]) removeFolder(folder)
}, 60_000)

test("a client learns which servers it does not get, and why", async () => {
  const folder = realpathSync(freshFolder())
  await using svc = await startSvc({
    config: { mcpTemplates: { db: { command: "x", args: ["{{project.custom.x}}"] } } },
  })
  await using a = await connect(svc, folder)
  expect(await a.tools()).toEqual([])
  await eventually(() =>
    a.stderr().includes("svc proxy: template db: args[0]: {{project.custom.x}}: has no value here"),
  )
  removeFolder(folder)
}, 20_000)

test("a message that is too large fails only its own request", async () => {
  const folder = realpathSync(freshFolder())
  const still = { command: "bun", args: [join(ROOT, "test/fixtures/echo.ts")] }
  await using svc = await startSvc({ config: { mcpServers: { still } }, flags: ["--max-body", "300KiB"] })
  await using a = await connect(svc, folder)
  const call = (text: string) => a.client.callTool({ name: "still_svc_echo", arguments: { text } })
  await expect(call("x".repeat(400_000))).rejects.toThrow("The message is larger than 307200 bytes")
  expect((await call("small")).isError).not.toBe(true)
  removeFolder(folder)
}, 20_000)

test("a client's list has the order of the file, whatever other clients are connected", async () => {
  const folders = [repository("b"), repository("a")] as const
  const own = { command: "bun", args: [SERVER, "own"], disabled: "{{eq project.git.branch 'b'}}" }
  const common = { command: "bun", args: [SERVER, "common"] }
  await using svc = await startSvc({
    config: { mcpTemplates: { own, common } },
    flags: ["--template-linger", "50ms"],
  })
  await using b = await connect(svc, folders[0])
  expect(await b.tools()).toHaveLength(2)
  await using a = await connect(svc, folders[1])
  const order = ["own_svc_where", "own_svc_other", "common_svc_where", "common_svc_other"]
  expect((await a.client.listTools()).tools.map(({ name }) => name)).toEqual(order)
  for (const folder of folders) removeFolder(folder)
}, 20_000)

test("context is not accepted over HTTP, and the servers of a client are invisible to others", async () => {
  const tag = mark()
  const project = repository("main")
  await using svc = await startSvc({ config: { mcpServers: {}, mcpTemplates: { fs: template(tag) } } })
  await using a = await connect(svc, project)
  expect(await a.tools()).toHaveLength(2)
  const context = { project: { path: "/etc", name: "etc" } }
  const { body } = await modern(`${svc.url}/mcp`, "tools/list", { _meta: { "svc/context": context } })
  expect(body.result?.tools).toEqual([])
  const call = await modern(`${svc.url}/mcp`, "tools/call", {
    name: "fs_svc_where",
    arguments: {},
    _meta: { "svc/context": context },
  })
  expect(call.body.error?.message).toContain("Unknown tool")
  expect((await fetch(`${svc.url}/servers/fs/mcp`, { method: "POST", body: "{}" })).status).toBe(404)
  expect((await fetch(`${svc.url}/servers/fs%23${"0".repeat(16)}/mcp`, { method: "POST", body: "{}" })).status).toBe(
    404,
  )
  expect(processes(tag)).toHaveLength(1)
  removeFolder(project)
}, 20_000)

test("HTTP clients may send context if the operator trusts them", async () => {
  const tag = mark()
  await using svc = await startSvc({
    config: { mcpTemplates: { fs: { command: "bun", args: [SERVER, tag, "{{project.path}}", "{{transport.type}}"] } } },
    flags: ["--template-context", "trusted"],
  })
  const at = (path: string) => ({ _meta: { "svc/context": { project: { path } } } })
  const where = async (path: string) => {
    const { body } = await modern(`${svc.url}/mcp`, "tools/call", { name: "fs_svc_where", arguments: {}, ...at(path) })
    const [first] = (body.result?.content ?? []) as { text: string }[]
    return JSON.parse(first?.text ?? "{}")
  }
  const [one, two, again] = [await where("/p/one"), await where("/p/two"), await where("/p/one")]
  expect([one.args.slice(1), two.args.slice(1)]).toEqual([
    ["/p/one", "http"],
    ["/p/two", "http"],
  ])
  expect(again.pid).toBe(one.pid)
  const init = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } }
  const post = (body: object, session?: string) =>
    fetch(`${svc.url}/mcp`, {
      method: "POST",
      headers: { "content-type": "application/json", ...(session === undefined ? {} : { "mcp-session-id": session }) },
      body: JSON.stringify({ jsonrpc: "2.0", ...body }),
    })
  const opened = await post({ id: 1, method: "initialize", params: { ...init, ...at("/p/one") } })
  const session = opened.headers.get("mcp-session-id") ?? ""
  const answer = await post({ id: 2, method: "tools/call", params: { name: "fs_svc_where" } }, session)
  expect(await answer.text()).toContain("/p/one")
  expect(processes(tag)).toHaveLength(2)
  const without = await modern(`${svc.url}/mcp`, "tools/list")
  expect(without.body.result?.tools).toEqual([])
  const wrong = await modern(`${svc.url}/mcp`, "tools/list", { _meta: { "svc/context": { project: {} } } })
  expect(wrong.body.error?.message).toContain("project.path")
}, 20_000)

test("clients of the old transport may send context if the operator trusts them", async () => {
  const tag = mark()
  await using svc = await startSvc({
    config: { mcpTemplates: { fs: { command: "bun", args: [SERVER, tag, "{{project.path}}", "{{transport.type}}"] } } },
    flags: ["--template-context", "trusted", "--template-linger", "1ms"],
  })
  const at = (path: string) => ({ _meta: { "svc/context": { project: { path } } } })
  const left = new AbortController()
  const stream = await fetch(`${svc.url}/sse`, { signal: left.signal })
  let text = ""
  const reading = (async () => {
    for await (const chunk of stream.body ?? []) text += new TextDecoder().decode(chunk)
  })().catch(() => undefined)
  const path = await eventually(() => /^data: (\/messages\S+)/m.exec(text)?.[1])
  const ask = async (id: number, method: string, params: object) => {
    const body = JSON.stringify({ jsonrpc: "2.0", id, method, params })
    await fetch(`${svc.url}${path}`, { method: "POST", headers: { "content-type": "application/json" }, body })
    return eventually(() => text.split("\n").find((line) => line.includes(`"id":${id},`)))
  }
  const init = { protocolVersion: "2024-11-05", capabilities: {}, clientInfo: { name: "x", version: "1" } }
  const where = { name: "fs_svc_where", arguments: {} }
  await ask(1, "initialize", { ...init, ...at("/p/one") })
  expect(await ask(2, "tools/call", where)).toMatch(/\/p\/one.*sse/)
  await ask(3, "initialize", { ...init, ...at("/p/two") })
  expect(await ask(4, "tools/call", where)).toMatch(/\/p\/two.*sse/)
  expect(await ask(5, "initialize", { ...init, _meta: { "svc/context": { project: {} } } })).toContain("project.path")
  left.abort()
  await reading
  await eventually(() => processes(tag).length === 0)
  const own = await fetch(`${svc.url}/servers/fs/mcp`, { method: "POST", body: "{}" })
  expect([own.status, await own.text()]).toEqual([404, expect.stringContaining("fs is a template")])
}, 20_000)

test("an expression reads neither the environment nor a prototype, and text from a context is not interpreted", async () => {
  const project = repository("main")
  const evil = "$(touch pwned) ${SECRET} $SECRET {{user.home}} ; rm"
  writeFileSync(join(project, ".svcrc"), JSON.stringify({ context: { custom: { evil } } }))
  await using svc = await startSvc({
    env: { SECRET: "hunter2-secret" },
    config: {
      mcpTemplates: {
        fs: { command: "bun", args: [SERVER, "{{project.custom.evil}}", "x{{default project.custom.none ''}}"] },
        proto: { command: "bun", args: [SERVER, "{{project.constructor}}"] },
        lookup: { command: "bun", args: [SERVER, "{{lookup this 'process'}}"] },
        partial: { command: "bun", args: [SERVER, "{{> evil}}"] },
        env: { command: "bun", args: [SERVER, "{{process.env.SECRET}}"] },
      },
    },
  })
  await using a = await connect(svc, project)
  expect(await a.tools()).toEqual(["fs_svc_other", "fs_svc_where"])
  expect((await a.where()).args).toEqual([evil, "x"])
  for (const name of ["proto", "lookup", "partial", "env"]) await svc.said(`template ${name}: args[1]`)
  expect(svc.stderr()).not.toContain("hunter2")
  removeFolder(project)
}, 20_000)

test("a proxy survives a restart of svc, and requests in between fail once", async () => {
  const project = repository("main")
  const tag = mark()
  const config = { mcpTemplates: { fs: template(tag) } }
  const first = await startSvc({ config })
  await using a = await connect(first, project)
  const { pid } = await a.where()
  const changes = a.changes()
  first.signal("SIGTERM")
  await first.exited
  const waiting = a.where()
  await using second = await startSvc({ folder: first.folder })
  expect((await waiting).pid).not.toBe(pid)
  expect(a.changes()).toBeGreaterThan(changes)
  expect(second.stderr()).not.toContain("internal error")
  // It ends with its client.
  const own = a.transport.pid as number
  await a.client.close()
  await eventually(() => {
    try {
      process.kill(own, 0)
      return false
    } catch {
      return true
    }
  })
  removeFolder(project)
}, 30_000)

test("--start starts svc if none runs, and again after it was killed [proxy:start]", async () => {
  const folder = freshFolder()
  const project = repository("main")
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpTemplates: { fs: template(mark()) } }))
  const env = { ...freshEnv(folder), SVC_PORT: "0" }
  const pid = async (): Promise<number> => JSON.parse(await Bun.file(join(folder, "control.json")).text()).pid
  let said = ""
  const start = async () => {
    const client = new Client({ name: "starter", version: "1" })
    const args = ["proxy", "--start", "--config-dir", folder, "--project", project]
    const transport = new StdioClientTransport({ command: SVC, args, env, stderr: "pipe" })
    transport.stderr?.on("data", (chunk) => {
      said += chunk
    })
    await client.connect(transport as never)
    return client
  }
  const [one, two] = [await start(), await start()]
  expect((await one.listTools()).tools).toHaveLength(2)
  const status = JSON.parse((await runSvc(["mcp", "status", "--json", "--config-dir", folder], env)).stdout)
  expect(status.running).toBe(true)
  // Nothing rotates the file of stderr, so the log is a separate file.
  expect(readIfThere(join(folder, "start.log"))).not.toContain(" info ")
  await eventually(() => readIfThere(join(folder, "svc.log"))?.includes("listening on "))

  // After a kill, each of its clients starts another svc, of which one stays.
  const killed = await pid()
  process.kill(killed, "SIGKILL")
  await eventually(async () => (await pid()) !== killed)
  for (const client of [one, two]) expect((await client.listTools()).tools).toHaveLength(2)
  expect(said).toContain("connection to svc lost")
  expect(said).not.toContain("did not start")

  // Killed without clients: the files that it left behind do not count as a running svc.
  await Promise.all([one.close(), two.close()])
  process.kill(await pid(), "SIGKILL")
  const three = await start()
  expect((await three.listTools()).tools).toHaveLength(2)

  // A stopped svc stays stopped.
  process.kill(await pid(), "SIGTERM")
  await eventually(async () => !(await Bun.file(join(folder, "control.json")).exists()))
  const starts = () => said.split("starting it").length
  const before = starts()
  const waiting = three.listTools()
  // Started by hand: the proxy has tried to connect meanwhile, and has started none.
  await using again = await startSvc({ folder })
  expect((await waiting).tools).toHaveLength(2)
  expect([await pid(), starts()]).toEqual([again.pid, before])
  await three.close()
  for (const path of [folder, project]) removeFolder(path)
}, 30_000)

test("--start says why svc did not start, and fails the requests that wait for it [proxy:start:failed]", async () => {
  const folder = freshFolder()
  writeFileSync(join(folder, "mcp.json"), "{}")
  using taken = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() })
  const env = { ...freshEnv(folder), SVC_PORT: String(taken.port) }
  const transport = new StdioClientTransport({
    command: SVC,
    args: ["proxy", "--start", "--config-dir", folder],
    env,
    stderr: "pipe",
  })
  const client = new Client({ name: "starter", version: "1" })
  await expect(client.connect(transport as never)).rejects.toThrow(
    `svc did not start: port ${taken.port} on 127.0.0.1 is in use`,
  )
  await client.close()
  removeFolder(folder)
}, 30_000)

test("--start says in one line that it starts svc, and reports the outcome, also to a client without requests [proxy:start:failed]", async () => {
  const folder = freshFolder()
  const wrong = { command: "bun", args: ["{{#if}}"] }
  const templateSettings = { failureMode: "strict" }
  writeFileSync(
    join(folder, "mcp.json"),
    JSON.stringify({ mcpTemplates: { one: wrong, two: wrong }, templateSettings }),
  )
  const { stdout, stderr } = await runSvc(["proxy", "--start", "--config-dir", folder], {
    ...freshEnv(folder),
    SVC_PORT: "0",
  })
  expect(stdout).toBe("")
  expect(stderr.split("\n")).toEqual([
    expect.stringMatching(/^svc proxy: svc is not running for this configuration; starting it, with its log in /),
    expect.stringMatching(/^svc proxy: svc did not start: .*template one: .*; .*template two: /),
    "",
  ])
  removeFolder(folder)
}, 30_000)

test("strict refuses what graceful leaves out [template:failure]", async () => {
  const wrong = { command: "bun", args: [SERVER, "{{#if}}"] }
  const folder = freshFolder()
  mkdirSync(folder, { recursive: true })
  const serve = (failureMode: string) => {
    writeFileSync(
      join(folder, "mcp.json"),
      JSON.stringify({ mcpTemplates: { wrong }, templateSettings: { failureMode } }, null, 2),
    )
    return runSvc(["serve", "--config-dir", folder, "--port", "0"], freshEnv(folder))
  }
  const strict = await serve("strict")
  expect(strict.code).toBe(78)
  expect(strict.stderr).toMatch(/mcp\.json:\d+:\d+: template wrong: args\[1\]/)
  await using svc = await startSvc({
    config: { mcpTemplates: { wrong, fs: template(mark()) }, templateSettings: { failureMode: "graceful" } },
  })
  const project = repository("main")
  await using a = await connect(svc, project)
  expect(await a.tools()).toHaveLength(2)
  // If a document with strict is invalid, the running instances stay.
  svc.write({ mcpTemplates: { wrong }, templateSettings: { failureMode: "strict" } })
  await svc.said("svc keeps using the last valid one")
  expect(await a.tools()).toHaveLength(2)
  for (const path of [folder, project]) removeFolder(path)
}, 20_000)
