/** What the author of a server needs: its messages, a restart when its files change, and what is wrong with it. */
import { expect, test } from "bun:test"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { echo, eventually, fixture, freshEnv, freshFolder, json, SVC, startSvc, svcIn } from "./harness.ts"

/** Starts a command that runs until it is ended. */
function running(folder: string, ...args: readonly string[]) {
  const child = Bun.spawn([SVC, ...args, "--config-dir", folder], {
    cwd: folder,
    env: freshEnv(folder),
    stdout: "pipe",
    stderr: "pipe",
  })
  let text = ""
  const read = async (stream: ReadableStream<Uint8Array>) => {
    for await (const chunk of stream) text += new TextDecoder().decode(chunk)
  }
  const reading = Promise.all([read(child.stdout), read(child.stderr)])
  return {
    said: (wanted: string | RegExp) => eventually(() => (text.match(wanted) === null ? undefined : text)),
    times: (wanted: RegExp) => text.match(wanted)?.length ?? 0,
    async [Symbol.asyncDispose]() {
      child.kill()
      await reading
    },
  }
}

test("svc logs --wire shows the messages of one server as they come, without secrets [logs:wire]", async () => {
  const config = { mcpServers: { a: { ...echo(), env: { KEY: "${CANARY}" } }, b: echo() } }
  await using svc = await startSvc({ config, env: { CANARY: "canary-in-env" } })
  await svc.said("a: connected")
  const run = svcIn(svc.folder)
  {
    await using wire = running(svc.folder, "logs", "a", "--wire")
    await wire.said("→ to a, ← from a")
    await run("run", "b/echo", "m=of-b")
    await run("run", "a/echo", "m=before canary-in-env after")
    await wire.said(/→ .*"method":"tools\/call".*"m":"before .*after"/)
    const shown = await wire.said(/← .*"result":.*before .* after/)
    expect(shown).not.toMatch(/canary|of-b/)
    await run("mcp", "restart", "a")
    await wire.said(/→ .*"method":"initialize"/)
  }
  expect(svc.stderr()).not.toContain("tools/call")
  expect((await run("logs", "--wire")).code).toBe(64)
  expect(await run("logs", "c", "--wire")).toMatchObject({ code: 64, stderr: expect.stringContaining("are a and b") })
  expect((await svcIn(freshFolder())("logs", "a", "--wire")).code).toBe(69)
})

test("svc mcp restart --watch restarts a server when its files change, not when tools write beside them [mcp:watch]", async () => {
  await using svc = await startSvc({ config: { mcpServers: { a: echo() } } })
  await svc.said("a: connected")
  const source = join(svc.folder, "src", "deep")
  mkdirSync(source, { recursive: true })
  mkdirSync(join(svc.folder, "src", "node_modules"))
  const file = join(svc.folder, "one.js")
  writeFileSync(file, "1")
  await using dev = running(svc.folder, "mcp", "restart", "a", "--watch", "src", "--watch", file)
  const RESTARTED = /restarted a: connected/g
  await dev.said("watching src, ")
  writeFileSync(join(svc.folder, "src", "node_modules", "x.js"), "1")
  writeFileSync(join(source, "server.js"), "1")
  await eventually(() => dev.times(RESTARTED) === 2)
  writeFileSync(file, "2")
  await eventually(() => dev.times(RESTARTED) === 3)
  const run = svcIn(svc.folder)
  expect((await json(run("mcp", "status", "a", "--json"))).servers[0].instances[0].restarts).toBe(3)
  expect((await run("mcp", "restart", "--watch", "src")).code).toBe(64)
  expect(await run("mcp", "restart", "a", "--watch", "nowhere")).toMatchObject({
    code: 69,
    stderr: "svc: nowhere does not exist\n",
  })
}, 30_000)

test("status and doctor say what a server sends that is not MCP, and svc doctor NAME checks one server [status:protocol]", async () => {
  const stray = 'console.log(JSON.stringify({ jsonrpc: "2.0", id: 7, result: {} })); process.stdin.resume()'
  const config = {
    mcpServers: {
      loud: echo("--noise"),
      stray: { command: "bun", args: ["-e", stray] },
      fine: echo(),
    },
  }
  await using svc = await startSvc({ config })
  await svc.said("loud: connected")
  await svc.said("fine: connected")
  await svc.said("stray: answered a request that svc did not send")
  const run = svcIn(svc.folder)
  const status = (await run("mcp", "status")).stdout
  expect(status).toMatch(/^loud .*prints text on stdout that is not MCP/m)
  expect(status).toMatch(/^stray +starting .*answered a request that svc did not send/m)
  expect(await run("doctor", "fine")).toMatchObject({ code: 0, stdout: "fine: no problems found\n" })
  const { findings } = await json(run("doctor", "loud", "--json"))
  expect(findings).toMatchObject([{ check: "protocol", subject: "loud", severity: "warning" }])
  expect(await run("doctor", "lout")).toMatchObject({ code: 64, stderr: expect.stringContaining("did you mean loud?") })
})

test("the list of servers counts several warnings of one, and its own page has them [cli:table]", async () => {
  const name = `a${"b".repeat(60)}`
  const config = { mcpServers: { [name]: { ...echo(), toolDescriptionOverrides: { echo: "x".repeat(3000) } } } }
  await using svc = await startSvc({ config })
  await svc.said("connected: 1 tool")
  const run = svcIn(svc.folder)
  expect((await run("mcp", "status")).stdout).toContain(`2 warnings: see \`svc mcp status ${name}\``)
  expect((await run("mcp", "status", name)).stdout).toMatch(/descriptions over 2048.*names over 64/s)
})

test("svc in the background says what clients on other machines need, and a token which address to write [cli:background]", async () => {
  const folder = freshFolder({ "mcp.json": "{}" })
  const run = svcIn(folder)
  await using _stopping = { [Symbol.asyncDispose]: async () => void (await run("stop")) }
  const started = await run("serve", "--background", "--host", "0.0.0.0", "--auth", "--port", "0")
  expect(started.code).toBe(0)
  expect(started.stdout).toMatch(/^ {2}remote +clients .* --external-url$/m)
  expect(started.stdout).toMatch(/^ {2}servers +none; `svc mcp add` adds one$/m)
  const made = await run("auth", "token", "create", "a", "--expires", "1d")
  expect(made.stderr).toContain("on other machines, replace 127.0.0.1 with the address of this machine")
})

test("a call that crashes its server says where its last words are [shell:run:exit]", async () => {
  const config = { mcpServers: { a: { command: "bun", args: [fixture("dying.ts"), "after", "0"] } } }
  await using svc = await startSvc({ config })
  await svc.said("a: connected")
  expect(await svcIn(svc.folder)("run", "a/echo")).toMatchObject({
    code: 69,
    stderr: "svc: a: exited with code 4; `svc logs a` shows what it wrote\n",
  })
})
