/** svc as its user experiences it: first run, mistakes, and shutdown. */
import { describe, expect, test } from "bun:test"
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import {
  callsRun,
  echo,
  eventually,
  freePort,
  freshEnv,
  freshFolder,
  modern,
  processes,
  readIfThere,
  runSvc,
  SVC,
  startSvc,
  svcIn,
  typeSvc,
} from "./harness.ts"

const toolNames = (result: Record<string, unknown> | undefined) =>
  ((result?.tools ?? []) as { name: string }[]).map(({ name }) => name)

describe("a first run", () => {
  test("--demo needs no configuration and serves three tools", async () => {
    await using svc = await startSvc({ flags: ["--demo"] })
    const { body } = await modern(`${svc.url}/mcp`, "tools/list")
    expect(toolNames(body.result)).toEqual(["demo_svc_echo", "demo_svc_add", "demo_svc_time"])
    const call = await modern(`${svc.url}/mcp`, "tools/call", { name: "demo_svc_add", arguments: { a: 2, b: 40 } })
    expect(call.body.result).toMatchObject({ resultType: "complete", content: [{ text: "42" }] })
    const wrong = await modern(`${svc.url}/mcp`, "tools/call", { name: "demo_svc_echo", arguments: { text: "hi" } })
    expect(wrong.body.result).toMatchObject({
      isError: true,
      content: [{ text: 'echo needs "message", a text; it got "text"' }],
    })
    expect(readIfThere(join(svc.folder, "mcp.json"))).toBeUndefined()
    // Like any svc, it admits only those with a login to its page.
    for (const [path, status] of [
      ["/admin", 200],
      ["/api/v1/servers", 401],
    ] as const)
      expect((await fetch(`${svc.url}${path}`)).status).toBe(status)
  })

  test("svc's commands find a demo; a second one says how to reach it [cli:demo]", async () => {
    const home = freshFolder()
    const env = { ...freshEnv(home), HOME: home, COLUMNS: "80" }
    await using demo = await startSvc({ flags: ["--demo"], folder: home, env })
    const run = async (...args: string[]) => (await runSvc([...args, "--config-dir", home], env)).stdout
    const address = `${demo.url}/mcp`
    await demo.said("demo: connected")
    expect((await runSvc(["ps"], env)).stdout).toMatch(new RegExp(`${address} .* demo +none\n`))
    expect(await run("mcp", "status")).toMatch(/demo +connected/)
    expect(await run("mcp", "list")).toMatch(/demo +stdio +connected/)
    expect(await run("tools")).toMatch(/demo +echo +Returns its message/)
    expect(await run("search", "add", "numbers")).toContain("demo/add")
    expect(await run("run", "demo/add", "a=2", "b=40")).toBe("42\n")
    expect(await run("connect", "cursor", "--no-stdio", "--dry-run")).toContain(address)
    const added = await runSvc(["mcp", "add", "late", "--config-dir", home, "--", "bun"], env)
    expect(added.stderr).toContain("the running svc serves the demo; stop it")
    expect(await run("admin", "--print")).toContain(`${demo.url}/admin/login?code=`)
    const { port } = new URL(demo.url)
    expect((await runSvc(["serve", "--config-dir", home, "--port", port], env)).stderr).toContain(
      `the demo already runs, at ${address}; \`svc stop\` ends it`,
    )
    await using second = await startSvc({ flags: ["--demo"], folder: home, env })
    const taken = `the demo already runs, at ${address}; `
    await second.said(`svc's commands cannot reach this demo: ${taken}`)
    expect((await runSvc(["serve", "--config-dir", home, "--port", "0"], env)).stderr).toContain(taken)
    expect((await fetch(`${second.url}/health/live`)).status).toBe(200)
    expect(await run("stop")).toContain("stopped")
    await demo.exited
    expect((await runSvc(["ps"], env)).stdout).toStartWith("no svc is running")
  })

  test("without a configuration file svc creates one, logs it, and is degraded [config:file:missing] [health:level:default]", async () => {
    await using svc = await startSvc()
    await svc.said("created an empty configuration")
    expect(JSON.parse(readIfThere(join(svc.folder, "mcp.json")) ?? "")).toMatchObject({ mcpServers: {} })
    const health = await fetch(`${svc.url}/health`)
    expect([health.status, health.headers.get("x-health-status")]).toEqual([200, "degraded"])
    const { system } = (await health.json()) as { system: unknown }
    expect(system).toEqual({ uptime: expect.any(Number), memory: { percentage: expect.any(Number) } })
  })
})

test("on a terminal, lines of the log wrap at words [serve:log:wrap]", async () => {
  const words = Array.from({ length: 20 }, (_, at) => `word-${at}`)
  const server = { command: "sh", args: ["-c", `echo ${words.join(" ")} >&2; exit 3`] }
  const folder = freshFolder({ "mcp.json": JSON.stringify({ mcpServers: { talking: server } }) })
  const env = freshEnv(folder)
  const shown = Promise.withResolvers<string>()
  let text = ""
  const data = (_: unknown, bytes: Uint8Array) => {
    text += Buffer.from(bytes).toString()
    if (text.includes("word-19")) shown.resolve(text)
  }
  const args = ["serve", "--port", "0", "--config-dir", folder]
  const child = Bun.spawn([SVC, ...args], { cwd: folder, env, terminal: { cols: 50, rows: 50, data } })
  try {
    // A line that is replaced in place ends in a carriage return.
    const lines = Bun.stripANSI(await shown.promise).split(/\r\n?/)
    const first = lines.findIndex((line) => line.includes("stderr: word-0 "))
    const message = lines.slice(first, lines.findIndex((line, at) => at >= first && line.endsWith("word-19")) + 1)
    expect(message.length).toBeGreaterThan(3)
    expect(Math.max(...message.map((line) => line.length))).toBeLessThanOrEqual(50)
    expect([...message.join(" ").matchAll(/word-\d+/g)].map(String)).toEqual(words)
    const logs = await typeSvc(["logs", "talking"], { folder, env: { COLUMNS: "50" }, answers: [] })
    expect(Math.max(...logs.shown.split("\n").map((line) => Bun.stripANSI(line).length))).toBeLessThanOrEqual(50)
  } finally {
    child.kill()
    await child.exited
  }
})

test.if(process.getuid?.() === 0 && Bun.which("setpriv") !== null)(
  "a user in no list of users, without HOME",
  async () => {
    const folder = freshFolder()
    chmodSync(folder, 0o777)
    const run = async (...args: string[]) => {
      const child = Bun.spawn({
        cmd: ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", SVC, ...args],
        cwd: folder,
        env: { PATH: process.env.PATH ?? "" },
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
      })
      const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
      return [await child.exited, stdout.trim(), stderr.trim()]
    }
    expect(await run("serve", "--port", "0")).toEqual([69, "", expect.stringContaining("choose a writable folder")])
    expect(await run("config", "path", "--config-dir", folder)).toEqual([0, join(folder, "mcp.json"), ""])
    const config = { mcpTemplates: { t: { command: "x", args: ["{{user.username}}"] } } }
    writeFileSync(join(folder, "mcp.json"), JSON.stringify(config))
    expect(await run("mcp", "render", "t", "--config-dir", folder)).toEqual([0, expect.stringContaining("x"), ""])
  },
)

describe("mistakes", () => {
  test.each([
    [["sevre"], "unknown command: sevre; did you mean serve?"],
    [["serve", "--prot", "1"], "unknown flag: --prot; did you mean --port?"],
    [["--port", "1", "serve"], "put --port after the command"],
    [["serve", "--port"], "--port needs a value"],
    [["serve", "--port", "x"], "--port must be a whole number"],
    [["serve", "extra"], 'unexpected argument "extra"'],
    [["serve", "--host", "0.0.0.0"], "--allow-unauthenticated"],
    [["serve", "--demo", "--config", "x.json"], "--demo does not use a configuration"],
    [["health", "--url", "bogus"], "--url must be an http or https address or unix:/path, not bogus"],
    [["health", "--url", "unix:"], "--url must be an http or https address"],
  ])("svc %p is one line and exit 64 [cli:mistake]", async (args, message) => {
    const { code, stderr, stdout } = await runSvc(args)
    expect(stderr).toContain(message)
    expect([code, stdout, stderr.trim().split("\n").length]).toEqual([64, "", 1])
  })

  test("a message wraps at words in the width of the terminal [cli:table]", async () => {
    const { stderr } = await runSvc(["serve", "--demo", "--config", "x.json"], { COLUMNS: "40" })
    expect(stderr).toBe("svc: --demo does not use a\n  configuration; leave out --demo or\n  --config\n")
  })

  test("a host name without an address is not reported as a port in use", async () => {
    const { code, stderr } = await runSvc(["serve", "--demo", "--host", "no name", "--allow-unauthenticated"])
    expect([code, stderr.trim()]).toEqual([69, "svc: cannot listen on no name: the name has no address"])
  })

  test("a port in use gives one line that names it and exit code 69 [cli:port]", async () => {
    await using svc = await startSvc({ flags: ["--demo"] })
    const { port } = new URL(svc.url)
    const { code, stderr } = await runSvc(["serve", "--demo", "--port", port])
    const used = `svc: port ${port} on 127.0.0.1 is in use`
    expect([code, stderr.trim()]).toEqual([69, `${used} by another svc; choose another with --port`])
    using other = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("hello") })
    expect((await runSvc(["serve", "--demo", "--port", String(other.port)])).stderr).toContain(
      "is in use; choose another with --port",
    )
  })

  test("the error of a second svc for one configuration names the first one, whatever its port [port:own]", async () => {
    await using svc = await startSvc({ config: {} })
    const { port } = new URL(svc.url)
    const { code, stderr } = await runSvc(["serve", "--config-dir", svc.folder, "--port", port])
    expect([code, stderr.trim()]).toEqual([
      69,
      `svc: svc already runs for ${join(svc.folder, "mcp.json")}, at ${svc.url}/mcp; stop it with \`svc stop\`, or choose another --config-dir`,
    ])
  })

  test("output that cannot be written is one line and exit code 74 [output:full]", async () => {
    for (const command of ["mcp list", "--help", "serve --help", "config schema"]) {
      const child = Bun.spawn({
        cmd: ["sh", "-c", `'${SVC}' ${command} > /dev/full`],
        env: freshEnv(freshFolder()),
        stderr: "pipe",
      })
      const said = await new Response(child.stderr).text()
      expect([command, await child.exited, said]).toEqual([
        command,
        74,
        "svc: cannot write the output: no space left on the device\n",
      ])
    }
  })

  test("invalid JSON is reported with line and column, and correcting the file is enough [config:file:broken]", async () => {
    await using svc = await startSvc({ config: '{\n  "mcpServers": {\n    "a" {}\n  }\n}' })
    await svc.said(/mcp\.json:3:9: not valid JSON: expected a colon/)
    expect((await fetch(`${svc.url}/health`)).status).toBe(503)
    expect((await fetch(`${svc.url}/health/ready`)).status).toBe(503)
    expect((await fetch(`${svc.url}/health/live`)).status).toBe(200)
    svc.write({ mcpServers: { a: echo() } })
    await eventually(async () => (await fetch(`${svc.url}/health`)).status === 200)
  })

  test("health answers while a server hangs [health:http:never-waits]", async () => {
    await using svc = await startSvc({ config: { mcpServers: { mute: { command: "sleep", args: ["60"] } } } })
    const servers = async () => ((await (await fetch(`${svc.url}/health`)).json()) as { servers: unknown }).servers
    await eventually(async () => Bun.deepEquals(await servers(), { total: 1, healthy: 0, unhealthy: 1 }))
    expect(svc.stderr()).not.toContain("mute:")
    expect((await fetch(`${svc.url}/health/ready`)).status).toBe(200)
  })

  test("a body that is too large, broken or not JSON is refused with its own status [inbound:origin]", async () => {
    await using svc = await startSvc({ flags: ["--demo", "--max-body", "1KiB"] })
    const post = (body: string, headers = {}) =>
      fetch(`${svc.url}/mcp`, { method: "POST", body, headers: { "content-type": "application/json", ...headers } })
    const large = await post("x".repeat(2000))
    expect([large.status, await large.json()]).toMatchObject([
      413,
      { error: { message: expect.stringContaining("1024 bytes") } },
    ])
    const broken = await post("{")
    expect([broken.status, await broken.json()]).toEqual([
      400,
      { jsonrpc: "2.0", error: { code: -32700, message: "The body is not valid JSON" } },
    ])
    expect((await post("{}", { "content-type": "text/plain" })).status).toBe(415)
    expect((await post("{}", { origin: "http://evil.example" })).status).toBe(403)
    expect((await fetch(`${svc.url}/mcp`, { method: "PUT" })).status).toBe(405)
    expect((await fetch(`${svc.url}/nothing`)).status).toBe(404)
  })

  test("an unknown tool is an error that names the nearest one [tool:unknown]", async () => {
    await using svc = await startSvc({ flags: ["--demo"] })
    const { body } = await modern(`${svc.url}/mcp`, "tools/call", { name: "demo_svc_ehco", arguments: {} })
    expect(body.error).toMatchObject({
      code: -32602,
      message: "Unknown tool: demo_svc_ehco. Did you mean demo_svc_echo?",
    })
  })

  test("a server that prints text on stdout works, and the log says so", async () => {
    await using svc = await startSvc({ config: { mcpServers: { noisy: echo("--noise") } } })
    await svc.said("noisy: printed text on stdout that is not MCP")
    const { body } = await modern(`${svc.url}/mcp`, "tools/call", { name: "noisy_svc_echo", arguments: { m: "hi" } })
    expect(body.result).toMatchObject({ content: [{ text: "hi" }] })
  })

  test("a server that exits on an unknown request is started again and works [protocol:mode:exit]", async () => {
    await using svc = await startSvc({ config: { mcpServers: { strict: echo("--strict") } } })
    await svc.said("strict: connected")
    const { body } = await modern(`${svc.url}/mcp`, "tools/call", { name: "strict_svc_echo", arguments: { m: "hi" } })
    expect(body.result).toMatchObject({ content: [{ text: "hi" }] })
  })

  test("a server that cannot start leaves the others alone", async () => {
    await using svc = await startSvc({
      config: { mcpServers: { gone: { command: "no-such-command-here" }, good: echo() } },
    })
    await svc.said("command not found: no-such-command-here")
    const { body } = await modern(`${svc.url}/mcp`, "tools/list")
    expect(toolNames(body.result)).toEqual(["good_svc_echo"])
  })
})

test("the health level is an option or a variable [health:level:option]", async () => {
  for (const options of [
    { flags: ["--demo", "--health-info-level", "full"] },
    { flags: ["--demo"], env: { SVC_HEALTH_INFO_LEVEL: "full" } },
  ]) {
    await using svc = await startSvc(options)
    expect(await (await fetch(`${svc.url}/health`)).json()).toMatchObject({ system: { process: { pid: svc.pid } } })
  }
})

test("a call to a disconnected server is an error that names it [tool:server-down]", async () => {
  const mark = `svc-mark-${crypto.randomUUID()}`
  const config = { mcpServers: { mortal: echo("--delay", "60000", mark) } }
  await using svc = await startSvc({ config, flags: ["--metrics"] })
  await svc.said("mortal: connected")
  const call = modern(`${svc.url}/mcp`, "tools/call", { name: "mortal_svc_echo", arguments: {} })
  await callsRun(svc)
  for (const pid of processes(mark)) process.kill(pid, "SIGKILL")
  expect((await call).body.result).toMatchObject({
    isError: true,
    content: [{ text: "mortal: was terminated by SIGKILL" }],
  })
})

test("a call to a disconnected server names the reason and suggests no tool of another server [tool:server-down]", async () => {
  const config = {
    mcpServers: { one: { command: "false", restartOnExit: true, maxRestarts: 1, restartDelay: 1 }, ones: echo() },
  }
  await using svc = await startSvc({ config })
  await svc.said("one: could not be started: exited with code 1; next try in 1 ms (attempt 1 of 1)")
  await svc.said("gave up after attempt 1; run `svc mcp restart one` to try again")
  const away = { text: expect.stringMatching(/^one is down: exited with code 1; it crashed too often/) }
  const call = (path: string, name: string) => modern(`${svc.url}${path}`, "tools/call", { name, arguments: {} })
  expect((await call("/mcp", "one_svc_echo")).body.result).toMatchObject({ isError: true, content: [away] })
  expect((await call("/servers/one/mcp", "echo")).body.result).toMatchObject({ isError: true, content: [away] })
  const read = await modern(`${svc.url}/mcp`, "resources/read", { uri: "svc://one/file:///x" })
  expect(read.body.error).toMatchObject({ code: -32603, message: expect.stringContaining("one is down") })
  expect((await call("/mcp?tags=none", "one_svc_echo")).body.error?.message).toContain("Unknown tool")
})

test("servers that are disabled or not loaded are named as such, to clients that may see them [tool:server-down]", async () => {
  const config = {
    mcpServers: {
      ones: { ...echo(), tags: ["open"] },
      off: { ...echo(), disabled: true, tags: ["open"] },
      web: { url: "https://mcp.example.com/mcp", headers: { "x-key": "${NOWHERE}" }, tags: ["open"] },
      hidden: { ...echo(), disabled: true, tags: ["closed"] },
    },
  }
  await using svc = await startSvc({ config })
  const call = async (path: string, name: string) =>
    JSON.stringify((await modern(`${svc.url}${path}`, "tools/call", { name, arguments: {} })).body)
  expect(await call("/mcp?tags=open", "off_svc_echo")).toContain('"off is disabled in svc"')
  expect(await call("/mcp?tags=open", "web_svc_x")).toMatch(/"web is not loaded: [^"]*NOWHERE, which is not set/)
  expect(await call("/mcp?tags=open", "hidden_svc_echo")).toContain("Unknown tool: hidden_svc_echo")
  expect(await call("/mcp", "hidden_svc_echo")).toContain('"hidden is disabled in svc"')
  const told = async (path: string) =>
    (await modern(`${svc.url}${path}`, "server/discover", {})).body.result?.instructions
  expect(await told("/mcp?tags=open")).toContain("Not available now: off (disabled), web (invalid)")
  expect(await told("/mcp?tags=open")).not.toContain("hidden")
})

test("a call to a remote server that cannot be reached names its host, the cause and the next try [backend:down]", async () => {
  const port = await freePort()
  const at = `127.0.0.1:${port}`
  await using svc = await startSvc({ config: { mcpServers: { far: { url: `http://${at}/secret-path/mcp` } } } })
  await svc.said(new RegExp(`far: nothing listens at ${at}; next try in 1 s`))
  await svc.said(new RegExp(`far: nothing listens at ${at}; next try in 16 s`))
  const { body } = await modern(`${svc.url}/mcp`, "tools/call", { name: "far_svc_x", arguments: {} })
  expect(body.result).toMatchObject({
    isError: true,
    content: [
      { text: expect.stringMatching(new RegExp(`^far is down: nothing listens at ${at}; next try in \\d+ s$`)) },
    ],
  })
  expect(JSON.stringify(await (await fetch(`${svc.url}/health`)).json())).not.toContain(at)
}, 60_000)

test("a call waits for a server that is about to reconnect, as does a list at its own address, and fails immediately if it is not", async () => {
  const [soon, late] = [`svc-mark-${crypto.randomUUID()}`, `svc-mark-${crypto.randomUUID()}`]
  const config = {
    mcpServers: {
      soon: { ...echo(soon), restartOnExit: true, restartDelay: 300 },
      late: { ...echo(late), restartOnExit: true, restartDelay: 60_000 },
    },
  }
  await using svc = await startSvc({ config })
  await svc.said("soon: connected")
  await svc.said("late: connected")
  for (const pid of processes(soon)) process.kill(pid, "SIGKILL")
  for (const pid of processes(late)) process.kill(pid, "SIGKILL")
  await svc.said("soon: was terminated by SIGKILL; next try in 300 ms (attempt 1 of 5)")
  await svc.said("late: was terminated by SIGKILL; next try in 1 min (attempt 1 of 5)")
  const call = (path: string, name: string) =>
    modern(`${svc.url}${path}`, "tools/call", { name, arguments: { m: "hi" } })
  const answers = await Promise.all([
    call("/mcp", "soon_svc_echo"),
    call("/servers/soon/mcp", "echo"),
    call("/mcp", "soon_svc_nothing"),
    call("/mcp", "late_svc_echo"),
    modern(`${svc.url}/servers/soon/mcp`, "tools/list"),
    modern(`${svc.url}/servers/late/mcp`, "tools/list"),
  ])
  const text = (said: unknown) => ({ result: { content: [{ text: said }] } })
  expect(answers.map(({ body }) => body)).toMatchObject([
    text("hi"),
    text("hi"),
    { error: { message: expect.stringContaining("Unknown tool: soon_svc_nothing") } },
    text(expect.stringMatching(/^late is down: was terminated by SIGKILL; next try in [0-9]+ s$/)),
    { result: { tools: [{ name: "echo" }] } },
    { error: { message: expect.stringMatching(/^late is down: /) } },
  ])
  const { stdout } = await svcIn(svc.folder)("health")
  expect(stdout).toMatch(/^soon +connected$/m)
  expect(stdout).toMatch(/^late +restarting +was terminated by SIGKILL/m)
}, 20_000)

test("a call waits no longer than --startup-wait for a server that is starting", async () => {
  const config = { mcpServers: { hangs: { command: "sleep", args: ["60"] } } }
  await using svc = await startSvc({ config, flags: ["--startup-wait", "200ms"] })
  const { body } = await modern(`${svc.url}/mcp`, "tools/call", { name: "hangs_svc_echo", arguments: {} })
  expect(body.result).toMatchObject({ content: [{ text: expect.stringContaining("hangs is starting") }] })
  const { stdout } = await runSvc(["mcp", "status", "--config-dir", svc.folder])
  expect(stdout).toMatch(/^hangs +starting +\d+ s/m)
})

test("an invalid message gets an error under its id and does not hide the messages beside it", async () => {
  const lines = ['[{"jsonrpc":"2.0","id":7,"method":1},{"jsonrpc":"2.0","id":"p","method":"ping"}]', "nonsense"]
  const { stdout } = await runSvc(["serve", "--transport", "stdio", "--demo"], {}, `${lines.join("\n")}\n`)
  const answers = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line))
  expect(answers).toMatchObject([
    { id: 7, error: { code: -32600 } },
    { id: "p", result: {} },
    { error: { code: -32700 } },
  ])
})

test("piped requests are answered in order before svc ends", async () => {
  const lines = [
    { id: 1, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: {} } },
    { method: "notifications/initialized" },
    { id: 2, method: "tools/list" },
    { id: 3, method: "tools/call", params: { name: "demo_svc_add", arguments: { a: 1, b: 2 } } },
  ]
  const input = lines.map((line) => `${JSON.stringify({ jsonrpc: "2.0", ...line })}\n`).join("")
  await using svc = await startSvc({ config: { mcpServers: { demo: { command: SVC, args: ["demo-server"] } } } })
  await svc.said("demo: connected")
  for (const args of [
    ["serve", "--transport", "stdio", "--demo"],
    ["proxy", "--config-dir", svc.folder],
  ]) {
    const { code, stdout } = await runSvc(args, {}, input)
    const answers = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line))
    const byId = (id: number) => answers.find((answer) => answer.id === id)?.result
    expect([code, answers.length]).toEqual([0, 3])
    expect(byId(1).protocolVersion).toBe("2025-11-25")
    expect(byId(2).tools).toHaveLength(3)
    expect(byId(3).content).toEqual([{ type: "text", text: "3" }])
  }
})

describe("the end", () => {
  test("SIGTERM lets a running call finish, ends every child and exits 0", async () => {
    const mark = `svc-mark-${crypto.randomUUID()}`
    const config = { mcpServers: { slow: echo("--delay", "400", mark) } }
    const svc = await startSvc({ config, flags: ["--metrics"] })
    await eventually(() => processes(mark).length === 1)
    await svc.said("slow: connected")
    const call = modern(`${svc.url}/mcp`, "tools/call", { name: "slow_svc_echo", arguments: { m: "late" } })
    await callsRun(svc)
    svc.signal("SIGTERM")
    expect((await call).body.result).toMatchObject({ content: [{ text: "late" }] })
    expect(await svc.exited).toBe(0)
    expect(processes(mark)).toEqual([])
  })

  test("no child outlives svc when it is killed", async () => {
    const mark = `svc-mark-${crypto.randomUUID()}`
    const svc = await startSvc({
      config: {
        mcpServers: { one: echo(mark), two: { command: "sh", args: ["-c", `bun ${echo().args[0]} ${mark}; true`] } },
      },
    })
    await svc.said("one: connected")
    await svc.said("two: connected")
    svc.signal("SIGKILL")
    await svc.exited
    await eventually(() => processes(mark).length === 0)
  })

  test("a second signal exits at once", async () => {
    const config = { mcpServers: { slow: echo("--delay", "60000") } }
    const svc = await startSvc({ config, flags: ["--metrics"] })
    await svc.said("slow: connected")
    const call = modern(`${svc.url}/mcp`, "tools/call", { name: "slow_svc_echo", arguments: {} }).catch(() => undefined)
    await callsRun(svc)
    svc.signal("SIGINT")
    await svc.said("stopping")
    svc.signal("SIGINT")
    expect(await svc.exited).toBe(1)
    await call
  })
})

test("--version says version and commit, --help is for people", async () => {
  expect(SVC).toBeString()
  expect(await runSvc(["--version"])).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^\d+\.\d+\.\d+\S* \([0-9a-f]+\)\n$/),
  })
  const help = await runSvc(["serve", "--help", "--all"])
  expect([help.code, help.stdout.includes("--startup-wait")]).toEqual([0, true])
  expect(help.stdout).not.toContain("\u001b")
})

test("a control socket with a long path gets an unpredictable short one, which is removed at the end", async () => {
  const [folder, temporary] = [join(freshFolder(), "long".repeat(30)), freshFolder()]
  mkdirSync(folder)
  const env = { TMPDIR: temporary }
  const sockets = () =>
    readdirSync(temporary)
      .filter((name) => name.startsWith("svc-"))
      .sort()
  const status = () => runSvc(["mcp", "status", "--config-dir", folder], { ...freshEnv(folder), ...env })
  const first = await startSvc({ config: { mcpServers: {} }, folder, env })
  const before = sockets()
  expect(before).toHaveLength(2)
  expect((await status()).code).toBe(0)
  first.signal("SIGKILL")
  await first.exited
  {
    await using _again = await startSvc({ config: { mcpServers: {} }, folder, env })
    expect(sockets()).toHaveLength(2)
    expect(sockets()).not.toEqual(before)
    expect((await status()).code).toBe(0)
  }
  expect(sockets()).toEqual([])
})
