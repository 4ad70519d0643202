/** The commands, with and without a running instance. */
import { expect, test } from "bun:test"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { JSON_SHAPES } from "../json-shapes.ts"
import {
  echo,
  eventually,
  fixture,
  freshEnv,
  freshFolder,
  type Instance,
  json,
  processes,
  readIfThere,
  removeFolder,
  runSvc,
  SVC,
  startSvc,
  svcIn,
  typeSvc,
} from "./harness.ts"

test("tools of all servers are listed, and several are hidden at once [tools:several]", async () => {
  await using instance = await startSvc({ config: { mcpServers: { a: echo("--tools", "3"), b: echo() } } })
  await instance.said("a: connected")
  await instance.said("b: connected")
  const svc = svcIn(instance.folder)
  const hidden = await svc("mcp", "tools", "disable", "a", "echo1", "echo2")
  expect([hidden.code, hidden.stdout]).toEqual([0, expect.stringMatching(/^disabled echo1, echo2 of a/)])
  const all = await json(svc("tools", "--json"))
  const rows = all.map((one: Record<string, unknown>) => `${one.server} ${one.name} ${one.disabled}`)
  expect(rows).toContain("a echo1 true")
  expect(rows.some((row: string) => row.startsWith("b "))).toBe(true)
  expect((await svc("mcp", "tools", "list")).stdout).toMatch(/^SERVER +TOOL +STATE/)
  expect((await svc("tools", "b", "--disabled")).stdout).toBe("b has no hidden tools\n")
  expect((await svcIn(freshFolder())("tools")).stdout).toBe("no servers yet; add one with `svc mcp add`\n")
  const rest = rows.flatMap((row: string) => (/^a (\S+) false$/.exec(row) ?? []).slice(1))
  const last = await svc("mcp", "tools", "disable", "a", ...rest)
  expect([last.code, last.stderr]).toEqual([64, expect.stringContaining("that a offers; add --yes to hide")])
  expect((await svc("mcp", "tools", "enable", "a", "echo1", "echo2")).code).toBe(0)
  expect(JSON.parse(readIfThere(join(instance.folder, "mcp.json")) ?? "").mcpServers.a).not.toHaveProperty(
    "disabledTools",
  )
})

test("health --wait ends at once when svc has given up on a server [cli:health:given-up]", async () => {
  const config = {
    mcpServers: {
      bad: { command: "bun", args: ["-e", "process.exit(1)"], restartOnExit: true, maxRestarts: 1, restartDelay: 1 },
    },
  }
  await using instance = await startSvc({ config })
  // The report over HTTP has only numbers; the one over the control socket has names.
  for (const [flags, why] of [
    [["--url", instance.url], "0 restarting, 1 in a crash loop"],
    [[], "bad is in a crash loop (exited with code 1)"],
  ] as const) {
    const { code, stderr } = await svcIn(instance.folder)("health", "--wait", "10m", ...flags)
    expect([code, stderr]).toEqual([69, expect.stringContaining(why)])
  }
})

test("mcp status shows the running servers and the error while mcp.json is invalid [cli:status]", async () => {
  await using instance = await running("x")
  const svc = svcIn(instance.folder)
  await instance.said("a: connected")
  instance.write("{ broken")
  await instance.said("svc keeps using the last valid one")
  const { code, stdout } = await svc("mcp", "status", "--verbose")
  expect(code).toBe(0)
  expect(stdout).toMatch(/^a +connected/m)
  expect(stdout).toContain("mcp.json:1:3: not valid JSON")
  expect(await json(svc("mcp", "list", "--json"))).toMatchObject([{ name: "a", state: "connected" }])
  expect((await svc("mcp", "disable", "a")).code).toBe(78)
})

test("mcp status says whether the last valid form of a faulty entry runs, or none [cli:status]", async () => {
  const folder = freshFolder()
  await using instance = await startSvc({ folder, config: { mcpServers: { a: echo() } } })
  await instance.said("a: connected")
  instance.write({ mcpServers: { a: { ...echo(), tags: 5 }, b: { ...echo(), tags: 5 } } })
  await instance.said("b is not loaded")
  const issuesOf = async (name: string) => (await json(svcIn(folder)("mcp", "status", name, "--json"))).issues
  const fault = (prefix: string) => expect.stringMatching(new RegExp(`mcp\\.json:\\d+:\\d+: ${prefix}mcpServers`))
  expect(await issuesOf("a")).toEqual(["a keeps running in its last valid form", fault("")])
  expect(await issuesOf("b")).toEqual([fault("b is not loaded: ")])
})

const running = async (mark: string): Promise<Instance> =>
  startSvc({ config: { mcpServers: { a: echo("--tools", "3", mark) } } })

test("tools are listed, hidden and shown through the file [cli:tools]", async () => {
  await using instance = await running("x")
  const svc = svcIn(instance.folder)
  const hidden = async () =>
    (await json(svc("mcp", "tools", "list", "a", "--disabled", "--json"))).map(({ name }: { name: string }) => name)
  await instance.said("a: connected")
  expect((await svc("mcp", "tools", "disable", "a", "echo1")).code).toBe(0)
  await eventually(async () => (await hidden()).join() === "echo1")
  const { code, stderr } = await svc("mcp", "tools", "disable", "a", "nope")
  expect([code, stderr]).toEqual([0, "warning: a offers no tool named nope now\n"])
  expect((await svc("mcp", "tools", "disable", "a", "a_svc_echo2")).stderr).toBe("")
  expect((await svc("mcp", "tools", "enable", "a", "echo2")).stderr).toBe("")
  expect((await svc("mcp", "tools", "enable", "a", "nope")).code).toBe(0)
  expect((await svc("mcp", "tools", "enable", "a", "echo1")).code).toBe(0)
  await eventually(async () => (await hidden()).length === 0)
  expect((await svc("mcp", "tools", "disable", "a", "echo1")).code).toBe(0)
  instance.signal("SIGTERM")
  await instance.exited
  expect(await hidden()).toEqual(["echo1"])
})

test("an expression in disabled is rendered in lists too, with and without a running svc [config:server:disabled-expression]", async () => {
  const config = {
    mcpServers: {
      on: { ...echo(), disabled: "{{eq 'a' 'b'}}" },
      off: { ...echo(), disabled: "{{eq 'a' 'a'}}" },
      unknown: { ...echo(), disabled: "{{eq user.username 'ada'}}" },
    },
  }
  const states = async (folder: string) =>
    (await json(svcIn(folder)("mcp", "list", "--json"))).map(({ enabled, state }: Record<string, unknown>) => [
      enabled,
      state,
    ])
  const off = [false, "disabled"]
  const folder = freshFolder({ "mcp.json": JSON.stringify(config) })
  expect(await states(folder)).toEqual([[true, "not running"], off, off])
  removeFolder(folder)
  await using running = await startSvc({ config })
  await running.said("on: connected")
  expect(await states(running.folder)).toEqual([[true, "connected"], off, off])
})

test("without a running svc, tools are listed from the file and from what svc has seen [cli:tools:offline]", async () => {
  const folder = freshFolder()
  const svc = svcIn(folder)
  const write = (a: object, more: object = {}) =>
    writeFileSync(
      join(folder, "mcp.json"),
      JSON.stringify({
        mcpServers: { a: { ...echo("--tools", "2"), ...a }, ...more },
        mcpTemplates: { t: { command: "x", args: ["{{project.name}}"], disabledTools: ["one"] } },
      }),
    )
  const list = async (name: string, ...flags: string[]) => json(svc("mcp", "tools", "list", name, "--json", ...flags))
  write({ disabledTools: ["gone"] })
  expect(await svc("mcp", "tools", "list", "t")).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("not running"),
  })
  expect((await svc("mcp", "tools", "list", "t")).stderr).toContain("these are the hidden tools in the file")
  expect(await list("a", "--disabled")).toEqual([{ name: "gone", disabled: true }])
  expect((await svc("mcp", "tools", "list", "nope")).code).toBe(64)
  write({})
  expect(await svc("mcp", "tools", "list", "a")).toMatchObject({
    code: 69,
    stderr: expect.stringContaining("is not running"),
  })
  write({ disabledTools: ["gone", "a_svc_echo"], toolDescriptionOverrides: { a_svc_echo1: "mine", nope: "x" } })
  const instance = await startSvc({ folder })
  await instance.said("a: connected")
  await instance.said("a: toolDescriptionOverrides or toolOverrides names tools that the server does not have: nope")
  expect(await list("a")).toEqual([
    { name: "echo", description: expect.any(String), disabled: true },
    { name: "echo1", description: "mine", upstreamDescription: expect.any(String), disabled: false },
    { name: "gone", disabled: true, gone: true },
  ])
  expect(await svc("mcp", "tools", "list", "a")).toMatchObject({
    code: 0,
    stderr: "warning: toolDescriptionOverrides or toolOverrides names tools that the server does not have: nope\n",
    stdout: expect.stringMatching(/echo1 +mine\ngone +disabled, gone/),
  })
  expect((await svc("mcp", "status", "a")).stdout).toContain("does not have: nope")
  expect(await svc("mcp", "tools", "list", "t", "--disabled")).toMatchObject({ code: 0, stderr: "" })
  await eventually(() => readIfThere(join(folder, "tools.json")))
  instance.signal("SIGTERM")
  await instance.exited
  const seen = [
    { name: "echo", disabled: true },
    { name: "echo1", description: "mine", disabled: false },
    { name: "gone", disabled: true, gone: true },
  ]
  expect(await list("a")).toEqual(seen)
  expect((await svc("mcp", "tools", "disable", "a", "nope")).stderr).toBe(
    "warning: svc has seen no tool named nope of a\n",
  )
  expect((await svc("mcp", "tools", "enable", "a", "nope")).stderr).toBe("")
  await using again = await startSvc({ folder, config: { mcpServers: { a: { command: "/nowhere/at/all" } } } })
  await again.said("a: could not be started")
  expect(await svc("mcp", "tools", "list", "a")).toMatchObject({
    code: 0,
    stderr: "a is not connected; these are the tools that svc has seen\n",
    stdout: expect.stringContaining("echo1"),
  })
})

test("mcp restart replaces the process immediately [cli:restart]", async () => {
  const mark = `svc-mark-${crypto.randomUUID()}`
  await using instance = await running(mark)
  await instance.said("a: connected")
  const [before] = processes(mark)
  expect(await json(svcIn(instance.folder)("mcp", "restart", "a", "--json"))).toEqual({
    restarted: ["a"],
    applied: true,
    servers: [{ name: "a", state: "connected", tools: 3 }],
  })
  await eventually(() => processes(mark).length === 1 && processes(mark)[0] !== before)
  expect((await svcIn(instance.folder)("mcp", "restart", "b")).stderr).toContain("no server is named b")
})

test("mcp restart under --no-reload restarts the server, and says no more than that [cli:restart]", async () => {
  await using instance = await startSvc({ config: { mcpServers: { a: echo() } }, flags: ["--no-reload"] })
  await instance.said("a: connected")
  const { stdout, stderr, code } = await svcIn(instance.folder)("mcp", "restart", "a")
  // On a slow machine, it says that it waits.
  const rest = stderr.replace("waiting for a to connect\n", "")
  expect({ code, stdout, rest }).toMatchObject({ code: 0, stdout: expect.stringContaining("restarted a"), rest: "" })
})

test("an unwritable folder is named, with what to do", async () => {
  const folder = freshFolder()
  writeFileSync(join(folder, "file"), "")
  for (const command of [
    ["serve", "--port", "0"],
    ["mcp", "add", "a", "--url", "http://h/"],
  ]) {
    const { code, stderr } = await runSvc([...command, "--config-dir", join(folder, "file", "below")])
    expect([code, stderr]).toEqual([
      69,
      expect.stringMatching(
        /^svc: cannot create \S*\/file\/below: [^/]*; .*--config-dir \(mcp.json may stay where it is: --config\)\n$/,
      ),
    ])
  }
})

test("mcp restart says why a server cannot be restarted", async () => {
  const config = { mcpServers: { "of f": { ...echo(), disabled: true }, wrong: { command: "$NOWHERE" }, here: echo() } }
  await using instance = await startSvc({ config })
  const restart = async (name: string) => {
    const { code, stderr } = await svcIn(instance.folder)("mcp", "restart", name)
    return [code, stderr]
  }
  expect(await restart("of-f")).toEqual([69, "svc: of-f is disabled; `svc mcp enable of-f` starts it\n"])
  expect(await restart("wrong")).toEqual([69, expect.stringContaining("wrong is not loaded")])
  expect(await restart("heer")).toEqual([64, "svc: no server is named heer; did you mean here?\n"])
})

test("a second instance on the same configuration names the process that serves it and exits with 69", async () => {
  await using instance = await running("x")
  const { code, stderr } = await svcIn(instance.folder)("serve", "--port", "0")
  expect([code, stderr.includes(`process ${instance.pid} already serves`)]).toEqual([69, true])
})

test("of two instances that start at the same time one serves", async () => {
  const folder = freshFolder()
  writeFileSync(join(folder, "mcp.json"), "{}")
  const children = [1, 2, 3].map(() =>
    Bun.spawn([SVC, "serve", "--config-dir", folder, "--port", "0"], { env: freshEnv(folder), stderr: "ignore" }),
  )
  await eventually(() => children.filter(({ exitCode }) => exitCode === 69).length === 2)
  const [left] = children.filter(({ exitCode }) => exitCode === null)
  left?.kill("SIGTERM")
  expect(await left?.exited).toBe(0)
})

test("health --wait waits until everything is loaded, or says what is missing", async () => {
  await using instance = await startSvc({ config: { mcpServers: { a: echo() } } })
  const { code, stdout } = await runSvc(["health", "--url", instance.url, "--wait", "10s"])
  expect([code, stdout]).toEqual([0, expect.stringContaining("healthy (svc ")])
  const own = await svcIn(instance.folder)("health", "--wait", "10s")
  expect(own.stdout).toStartWith(`healthy (svc 0.2.0, process ${instance.pid}): 1 of 1`)
  const refused = await runSvc(["health", "--url", "http://127.0.0.1:1", "--wait", "0.2s"])
  expect([refused.code, refused.stderr]).toEqual([
    69,
    expect.stringMatching(/^svc: not ready after 0 s: nothing listens at 127.0.0.1:1/),
  ])
})

test("health says which servers are starting or failed, and that an svc without servers runs; --all requires every server [cli:health] [cli:health:all]", async () => {
  const silent = { command: "sleep", args: ["60"] }
  await using instance = await startSvc({ config: { mcpServers: { silent } } })
  const svc = svcIn(instance.folder)
  expect(await svc("health")).toMatchObject({
    code: 75,
    stdout: expect.stringMatching(/^starting \(svc .*\): 0 of 1 server ready \(starting: silent\)\n/),
  })
  const bad = { command: "/no/such/program" }
  instance.write({ mcpServers: { a: echo(), bad } })
  await instance.said("bad: could not be started")
  await instance.said("a: connected")
  const waited = await svc("health", "--wait", "10s")
  expect([waited.code, waited.stderr]).toEqual([69, "bad failed: not waiting for it\n"])
  instance.write({ mcpServers: { a: echo(), b: echo(), bad } })
  await instance.said("b: connected")
  expect((await svc("health", "--wait", "10s")).code).toBe(0)
  expect((await svc("health", "--wait", "10s", "--all")).code).toBe(69)
  instance.write({ mcpServers: { a: echo(), b: echo(), silent } })
  await instance.said("added silent")
  expect((await svc("health", "--all")).code).toBe(75)
  instance.write({ mcpServers: { a: echo(), b: echo() } })
  await instance.said("removed silent")
  expect((await svc("health", "--wait", "10s", "--all")).code).toBe(0)
  instance.write({ mcpServers: { a: echo(), b: echo(), sec: { ...echo(), env: { KEY: "${MISSING_KEY}" } } } })
  await instance.said("sec is not loaded")
  const left = await svc("health", "--wait", "10s", "--all")
  expect([left.code, left.stderr]).toEqual([69, expect.stringMatching(/^sec is not loaded: .*MISSING_KEY/)])
  expect(left.stdout).toMatch(/^healthy \(.*\): 2 of 2 servers healthy, 1 not loaded\n/)
  expect(await svc("health", "--url", instance.url, "--all")).toMatchObject({
    code: 69,
    stderr: "1 server not loaded because of errors in the configuration\n",
  })
  expect((await svc("health")).code).toBe(0)
  instance.write("{ broken")
  await instance.said("svc keeps using the last valid one")
  expect((await svc("health")).stdout).toMatch(/^issues\n {2}\S*mcp\.json:1:3: not valid JSON/m)
  instance.write({ mcpServers: {} })
  await instance.said("removed a, b")
  expect(await svc("health")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^running \(.*\): no servers yet/),
  })
})

test("health answers for the svc of its configuration, and for another one at an address that is named [cli:health:own]", async () => {
  await using other = await startSvc({ config: {} })
  const folder = freshFolder()
  const { port } = new URL(other.url)
  const { code, stdout, stderr } = await svcIn(folder)("health")
  expect([code, stdout, stderr]).toEqual([
    69,
    "",
    `svc: svc is not running for ${join(folder, "mcp.json")}; start it with \`svc serve\`, or give the address of another svc with --url\n`,
  ])
  for (const [args, env] of [
    [["health", "--url", other.url], {}],
    [["health"], { SVC_PORT: port }],
  ] as const)
    expect(await runSvc(args, { ...freshEnv(folder), ...env })).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("running ("),
    })
})

test("a slow reader gets all output, and a reader that is gone causes no error", async () => {
  const folder = freshFolder()
  const servers = Array.from({ length: 3000 }, (_, at) => [
    `server-${at}`,
    { command: "x".repeat(100), disabled: true },
  ])
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: Object.fromEntries(servers) }))
  const piped = async (reader: string) => {
    const command = `"${SVC}" mcp list --json --config "${join(folder, "mcp.json")}" | ${reader}`
    const child = Bun.spawn({ cmd: ["sh", "-c", command], stdout: "pipe", stderr: "pipe" })
    return [await new Response(child.stdout).text(), await new Response(child.stderr).text()]
  }
  const [slow = ""] = await piped("(sleep 0.5; cat)")
  expect(JSON.parse(slow)).toHaveLength(3000)
  expect(await piped("head -n 1")).toEqual(["[\n", ""])
})

test("health of this configuration is shown at any level, and output of a server cannot control the terminal", async () => {
  const answer = { jsonrpc: "2.0", error: { code: -32000, message: "\u001b]0;pwned\u0007\u009b31m\nforged" } }
  const script = `process.stdin.on("data", (data) => {
    for (const line of String(data).trim().split("\\n"))
      console.log(JSON.stringify({ ...${JSON.stringify(answer)}, id: JSON.parse(line).id }))
  })`
  const config = {
    mcpServers: {
      evil: { command: "node", args: ["-e", script] },
      dies: { command: "sh", args: ["-c", "exit 3"], restartOnExit: true, maxRestarts: 1, restartDelay: 1 },
    },
  }
  await using instance = await startSvc({ config })
  const svc = svcIn(instance.folder)
  await instance.said("evil: could not be started")
  const shown = await svc("health", "--level", "basic")
  expect([shown.code, shown.stdout]).toEqual([69, expect.stringContaining("\\u001b]0;pwned\\u0007\\u009b31m\\nforged")])
  const full = await svc("health", "--level", "full", "--json")
  expect(JSON.parse(full.stdout).system.process.pid).toBe(instance.pid)
  const waited = await svc("health", "--level", "basic", "--wait", "1s")
  expect([waited.code, waited.stderr]).toEqual([
    69,
    expect.stringContaining("dies is in a crash loop (exited with code 3)"),
  ])
  const status = await svc("mcp", "status")
  const logs = await svc("logs", "evil")
  for (const { stdout } of [shown, full, status, logs]) {
    expect(stdout).toContain("pwned")
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/)
  }
})

test("mcp status shows the wrong path, but no secret", async () => {
  const gone = { command: "sh", args: ["-c", "exit 3"], cwd: "/no/such/folder", env: { TOKEN: "sekret-value-1" } }
  await using instance = await startSvc({ config: { mcpServers: { gone } } })
  await instance.said("gone: could not be started")
  const { stdout } = await svcIn(instance.folder)("mcp", "status")
  expect(stdout).toContain("/no/such/folder")
  expect(stdout).not.toContain("sekret-value-1")
})

test("metrics count calls by server, tool and outcome", async () => {
  await using instance = await startSvc({ config: { mcpServers: { a: echo() } }, flags: ["--metrics"] })
  const call = {
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: {
      name: "a_svc_echo",
      arguments: {},
      _meta: {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
      },
    },
  }
  const headers = {
    "content-type": "application/json",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "a_svc_echo",
  }
  for (let count = 0; count < 3; count++)
    await (await fetch(`${instance.url}/mcp`, { method: "POST", headers, body: JSON.stringify(call) })).text()
  const text = await (await fetch(`${instance.url}/metrics`)).text()
  expect(text).toContain('svc_calls_total{server="a",tool="echo",outcome="ok"} 3')
  expect(text).toContain('svc_call_duration_seconds_count{server="a"} 3')
  expect(text).toMatch(/^mcp_client_operation_duration_seconds_count\{svc_server="a",.*gen_ai_tool_name="echo"\} 3$/m)
  for (const direction of ["in", "out"])
    expect(text).toMatch(new RegExp(`svc_relayed_bytes_total\\{direction="${direction}"\\} [1-9]`))
  for (const line of text.trim().split("\n"))
    expect(line).toMatch(
      /^(# (HELP|TYPE) (svc|mcp|http|process)_\w+ .+|(svc|mcp|http|process)_\w+(\{(\w+="(\\.|[^"\\])*",?)+\})? -?[\d.e+-]+)$/,
    )
})

test("logs show the output of a server and svc's lines about it, without secrets", async () => {
  const server = {
    command: "sh",
    args: ["-c", 'echo "token=$$TOKEN and hello" >&2; exec "$0" "$@"', "bun", fixture("echo.ts")],
    env: { TOKEN: "sekret-value-1" },
  }
  await using instance = await startSvc({ config: { mcpServers: { talker: server, quiet: echo() } } })
  await instance.said("talker: connected")
  const { stdout, code } = await svcIn(instance.folder)("logs", "talker")
  expect(code).toBe(0)
  expect(stdout).toMatch(/stderr: token=\[REDACTED\] and hello\n/)
  expect(stdout).toContain("connected: 1 tool")
  expect(stdout).not.toContain("quiet")
  expect(instance.stderr()).not.toContain("sekret-value-1")
  expect((await svcIn(instance.folder)("logs", "talkr")).stderr).toContain("did you mean talker?")
  expect((await svcIn(instance.folder)("logs", "--since", "1ms")).stdout).toBe("")
})

test("each noun has one shape under --json, in all commands [cli:json:shapes]", async () => {
  const demo = { command: SVC, args: ["demo-server"], tags: ["t"] }
  const config = {
    mcpServers: { demo, typo: { command: "npxx" }, off: { command: "x", disabled: true }, bad: { url: "nowhere" } },
    mcpTemplates: { template: { command: "x", args: ["{{project.path}}"] } },
  }
  await using instance = await startSvc({ config })
  await instance.said(/demo: connected/)
  await instance.said(/typo: could not be started/)
  const svc = svcIn(instance.folder)
  const all = (shape: keyof typeof JSON_SHAPES, values: unknown) => JSON_SHAPES[shape].array().min(1).parse(values)
  const list = await json(svc("mcp", "list", "--json"))
  all("server", list)
  const { servers } = await json(svc("mcp", "status", "--json"))
  expect(servers.map(({ instances: _, ...server }: Record<string, unknown>) => server)).toEqual(list)
  all(
    "instance",
    servers.flatMap(({ instances }: { instances: unknown[] }) => instances),
  )
  all("tool", await json(svc("mcp", "tools", "list", "demo", "--json")))
  JSON_SHAPES.token.parse(await json(svc("auth", "token", "create", "--name", "ci", "--tags", "t", "--json")))
  all("token", await json(svc("auth", "token", "list", "--json")))
  expect((await svc("preset", "create", "p", "--filter", "t")).code).toBe(0)
  all("preset", await json(svc("preset", "list", "--json")))
  JSON_SHAPES.preset.parse(await json(svc("preset", "show", "p", "--json")))
  const lines = (await svc("logs", "demo", "--json")).stdout.trim().split("\n")
  all(
    "line",
    lines.map((line) => JSON.parse(line)),
  )
  expect(await json(runSvc(["config", "schema", "--json"]))).toHaveProperty("properties")
  JSON_SHAPES.error.parse(await json(svc("mcp", "status", "nope", "--json")))
})

test("a command whose reader closes the pipe exits with 0", async () => {
  const folder = freshFolder()
  mkdirSync(join(folder, "logs"))
  writeFileSync(join(folder, "logs", "a.log"), "2026-01-01T00:00:00.000Z info  hello\n".repeat(20_000))
  const { stdout, stderr } = Bun.spawnSync(
    ["sh", "-c", '("$0" logs a --config-dir "$1"; echo "exit $?" >&2) | head -n 1', SVC, folder],
    { env: freshEnv(folder) },
  )
  expect([stdout.toString(), stderr.toString()]).toEqual(["2026-01-01T00:00:00.000Z info  hello\n", "exit 0\n"])
})

test("tools are named by server and name, by qualified name, by a unique name, or by a pattern [tools:named]", async () => {
  await using instance = await startSvc({ config: { mcpServers: { a: echo("--tools", "3"), b: echo() } } })
  for (const name of ["a", "b"]) await instance.said(`${name}: connected`)
  const svc = svcIn(instance.folder)
  const hidden = async () => (await json(svc("mcp", "tools", "list", "a", "--disabled", "--json"))).map(nameOf)
  const outcomes = [
    [["hide", "a/echo1"], ["echo1"]],
    [["show", "a_svc_echo1"], []],
    [
      ["hide", "a/echo*", "--yes"],
      ["echo", "echo1", "echo2"],
    ],
    [
      ["show", "echo2"],
      ["echo", "echo1"],
    ],
    [["show", "a", "*"], []],
  ] as const
  for (const [words, left] of outcomes) {
    expect(await svc("mcp", "tools", ...words)).toMatchObject({ code: 0 })
    expect((await hidden()).toSorted()).toEqual([...left])
  }
  for (const [words, why] of [
    [["hide", "echo"], "a and b have a tool named echo: write a/echo"],
    [["hide", "ecko1"], "no server or tool is named ecko1; did you mean"],
    [["hide", "a/x*"], "no tool of a matches x*"],
    [["hide", "a/echo1", "b/echo"], "one server at a time"],
    [["hide", "a"], "a is a server: name its tools, too"],
  ] as const)
    expect(await svc("mcp", "tools", ...words)).toMatchObject({ code: 64, stderr: expect.stringContaining(why) })
  expect(await svc("mcp", "tools", "describe", "a", "echo1", "Says it again")).toMatchObject({ code: 0 })
  expect((await svc("mcp", "tools", "list", "a")).stdout).toContain("Says it again")
  expect(await svc("mcp", "tools", "describe", "a/echo1", "")).toMatchObject({ code: 0 })
  expect((await svc("mcp", "tools", "list", "a")).stdout).not.toContain("Says it again")
})

const nameOf = ({ name }: { name: string }): string => name

test("the last tool of a server is hidden only after confirmation [tools:zero]", async () => {
  await using instance = await startSvc({ config: { mcpServers: { one: echo() } } })
  await instance.said("one: connected")
  const { folder } = instance
  const place = ["--config-dir", folder]
  const disable = ["mcp", "tools", "disable", "one", "one_svc_echo"]
  expect(await svcIn(folder)(...disable)).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("the last tool that one offers; add --yes"),
  })
  const edit = ["mcp", "edit", "one", '{"disabledTools": ["echo"]}']
  expect(await svcIn(folder)(...edit)).toMatchObject({ code: 64, stderr: expect.stringContaining("add --yes") })
  expect((await svcIn(folder)("mcp", "edit", "one", '{"disabledTools": ["other"]}')).code).toBe(0)
  expect((await svcIn(folder)("mcp", "edit", "one", '{"disabledTools": null}')).code).toBe(0)
  const { shown } = await typeSvc([...disable, ...place], { folder, answers: ["n"] })
  expect(shown).toContain("one_svc_echo is the last tool that one offers; hide it? [y/N]")
  expect(readIfThere(join(folder, "mcp.json"))).not.toContain("disabledTools")
  const listed = async () =>
    eventually(async () => readIfThere(join(folder, "tools.json"))?.includes('"echo"') === true)
  await listed()
  instance.signal("SIGTERM")
  await instance.exited
  // Without a running svc, the tools that it listed last decide.
  expect(await svcIn(folder)(...disable)).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("the last tool that one offers; add --yes"),
  })
  expect(await svcIn(folder)(...disable, "--yes")).toMatchObject({ code: 0 })
  expect(readIfThere(join(folder, "mcp.json"))).toContain("disabledTools")
})

test("a server that is added with all its tools hidden stays only after confirmation [tools:zero]", async () => {
  await using instance = await startSvc({ config: { mcpServers: { two: echo() } } })
  await instance.said("two: connected")
  const { folder } = instance
  const written = () => JSON.parse(readIfThere(join(folder, "mcp.json")) ?? "").mcpServers
  const entry = JSON.stringify({ ...echo(), disabledTools: ["echo"] })
  const [added, replaced] = [
    ["mcp", "add-json", "one", entry],
    ["mcp", "add-json", "two", entry, "--force"],
  ] as const
  for (const line of [added, replaced]) {
    const name = line[2]
    expect(await svcIn(folder)(...line)).toMatchObject({
      code: 64,
      stderr: expect.stringContaining(`this hides every tool that ${name} offers; add --yes to hide them`),
    })
    expect(Object.keys(written())).toEqual(["two"])
    expect(written().two.disabledTools).toBeUndefined()
  }
  const { shown } = await typeSvc([...added, "--config-dir", folder], { folder, answers: ["n"] })
  expect(shown).toContain("this hides every tool that one offers; keep the server? [y/N]")
  expect(Object.keys(written())).toEqual(["two"])
  for (const line of [added, replaced]) expect((await svcIn(folder)(...line, "--yes")).code).toBe(0)
  expect([written().one.disabledTools, written().two.disabledTools]).toEqual([["echo"], ["echo"]])
})

test("in a terminal, an added server comes with the command that starts svc [cli:add]", async () => {
  const folder = freshFolder()
  const { shown } = await typeSvc(["mcp", "add", "it", "--config-dir", folder, "--", "bun"], { folder, answers: [] })
  expect(shown).toEndWith("svc is not running; `svc serve` starts it\n")
  const place = ["--config-dir", folder]
  expect((await svcIn(folder)("mcp", "add", "two", ...place, "--", "bun")).stderr).toBe("")
  expect((await svcIn(folder)("mcp", "list", ...place)).stderr).toContain("start it with `svc serve`")
})

test("a running svc says once that a command is not found [cli:add]", async () => {
  await using svc = await startSvc({ config: {} })
  const added = await svcIn(svc.folder)("mcp", "add", "it", "npx -y it")
  expect([added.stdout, added.stderr]).toEqual([
    'added it; it does not start: command not found: "npx -y it" (put its arguments into "args")\n',
    "",
  ])
  const narrow = await svcIn(svc.folder, { COLUMNS: "60" })("mcp", "add", "typo", "npxx")
  expect(narrow.stdout).toBe(
    "added typo; it does not start: command not found: npxx (it\n  is not on the server's PATH; give its full path)\n",
  )
})

test("add-json reads stdin [cli:add:json]", async () => {
  const folder = freshFolder()
  const servers = JSON.stringify({ mcpServers: { a: { command: "bun" } } })
  const { code } = await runSvc(["mcp", "add-json", "-", "--config-dir", folder], freshEnv(folder), servers)
  expect([code, readIfThere(join(folder, "mcp.json"))]).toEqual([0, expect.stringContaining('"command": "bun"')])
})

test("serve --init creates the file that --config names [cli:config:missing]", async () => {
  const folder = freshFolder()
  const file = join(folder, "deep", "mpc.json")
  await using _ = await startSvc({ folder, flags: ["--config", file, "--init"] })
  expect(await svcIn(folder)("mcp", "list", "--config", file)).toMatchObject({ code: 0 })
})

test("config check annotates the lines of a repository in GitHub Actions [cli:config:annotations]", async () => {
  const text =
    '{\n  "mcpServers": {\n    "a": { "command": "x", "args": 1 },\n    "b": { "command": "y", "no, key": 1 }\n  }\n}\n'
  const folder = freshFolder({ "ci, 1/mcp.json": text })
  const env = { ...freshEnv(folder), GITHUB_ACTIONS: "true", GITHUB_WORKSPACE: folder }
  const { code, stdout } = await runSvc(["config", "check", "--config", join(folder, "ci, 1", "mcp.json")], env)
  expect(code).toBe(78)
  const lines = stdout.trimEnd().split("\n")
  expect(lines).toHaveLength(2)
  for (const line of lines)
    expect(line).toMatch(/^::(?:error|warning) file=ci%2C 1[/\\]mcp\.json,line=[34],col=\d+::[^\n]+$/)
})
