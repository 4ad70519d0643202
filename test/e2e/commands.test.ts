/** The commands, with and without a running instance. */
import { expect, test } from "bun:test"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { JSON_SHAPES } from "../json-shapes.ts"
import {
  eventually,
  freshEnv,
  freshFolder,
  type Instance,
  processes,
  ROOT,
  readIfThere,
  runSvc,
  SVC,
  startSvc,
  typeSvc,
} from "./harness.ts"

const ECHO = join(ROOT, "test/fixtures/echo.ts")
const echo = (...args: string[]) => ({ command: "bun", args: [ECHO, ...args] })

const inFolder =
  (folder: string) =>
  async (...args: string[]) => {
    const at = args.indexOf("--")
    const placed =
      at < 0 ? [...args, "--config-dir", folder] : [...args.slice(0, at), "--config-dir", folder, ...args.slice(at)]
    return runSvc(placed, freshEnv(folder))
  }
const json = async (run: Promise<{ stdout: string }>) => JSON.parse((await run).stdout)

test("servers are added, changed and removed without an instance", async () => {
  const folder = freshFolder()
  const svc = inFolder(folder)
  expect((await svc("mcp", "list")).stdout).toContain("no servers yet")
  expect(
    (await svc("mcp", "add", "one", "--env", "A=1", "--env", "B=x=y", "--tag", "t", "--", "bun", ECHO, "--tools", "2"))
      .code,
  ).toBe(0)
  expect((await svc("mcp", "add", "two", "--url", "http://h/mcp", "--header", "X-Key: abc")).code).toBe(0)
  const { mcpServers } = JSON.parse(readIfThere(join(folder, "mcp.json")) ?? "")
  expect(mcpServers).toEqual({
    one: { command: "bun", args: [ECHO, "--tools", "2"], env: { A: "1", B: "x=y" }, tags: ["t"] },
    two: { url: "http://h/mcp", headers: { "X-Key": "abc" } },
  })
  expect((await svc("mcp", "add", "one", "--", "x")).code).toBe(64)
  expect((await svc("mcp", "edit", "one", '{"timeout":5,"env":{"A":null}}', "--rename", "uno")).code).toBe(0)
  expect((await svc("mcp", "disable", "two")).code).toBe(0)
  expect(await json(svc("mcp", "list", "--json"))).toMatchObject([
    { name: "uno", state: "not running" },
    { name: "two", state: "disabled" },
  ])
  expect((await svc("mcp", "remove", "two")).code).toBe(0)
  expect((await svc("mcp", "remove", "two")).stderr).toBe("svc: no server is named two\n")
  expect((await json(svc("config", "backups", "--json"))).length).toBe(5)
  expect((await svc("config", "backups")).stdout).toMatch(/^BACKUP +WRITTEN +SERVERS\nmcp-\S+ {2}\d+ s ago +uno, two\n/)
  expect((await svc("config", "restore")).stdout).toMatch(
    /^restored mcp-\S+\.json: added two; `svc config restore` undoes this/,
  )
  expect(await json(svc("mcp", "list", "--json"))).toMatchObject([{ name: "uno" }, { name: "two" }])
  expect((await svc("config", "restore")).stdout).toMatch(/^restored mcp-\S+\.json: removed two;/)
  expect(await json(svc("mcp", "list", "--json"))).toMatchObject([{ name: "uno" }])
  expect((await svc("mcp", "restart", "uno")).code).toBe(69)
})

test("tools of all servers are listed, and several are hidden at once [tools:several]", async () => {
  await using instance = await startSvc({ config: { mcpServers: { a: echo("--tools", "3"), b: echo() } } })
  await instance.said("a: connected")
  await instance.said("b: connected")
  const svc = inFolder(instance.folder)
  const hidden = await svc("mcp", "tools", "disable", "a", "echo1", "echo2")
  expect([hidden.code, hidden.stdout]).toEqual([0, expect.stringMatching(/^disabled echo1, echo2 of a/)])
  const all = await json(svc("tools", "--json"))
  const rows = all.map((one: Record<string, unknown>) => `${one.server} ${one.name} ${one.disabled}`)
  expect(rows).toContain("a echo1 true")
  expect(rows.some((row: string) => row.startsWith("b "))).toBe(true)
  expect((await svc("mcp", "tools", "list")).stdout).toMatch(/^SERVER +TOOL +STATE/)
  expect((await svc("tools", "b", "--disabled")).stdout).toBe("b has no hidden tools\n")
  expect((await inFolder(freshFolder())("tools")).stdout).toBe("no servers yet; add one with `svc mcp add`\n")
  const rest = rows.flatMap((row: string) => (/^a (\S+) false$/.exec(row) ?? []).slice(1))
  const last = await svc("mcp", "tools", "disable", "a", ...rest)
  expect([last.code, last.stderr]).toEqual([64, expect.stringContaining("that a offers; add --yes to hide")])
  expect((await svc("mcp", "tools", "enable", "a", "echo1", "echo2")).code).toBe(0)
  expect(JSON.parse(readIfThere(join(instance.folder, "mcp.json")) ?? "").mcpServers.a).not.toHaveProperty(
    "disabledTools",
  )
})

test("config restore shows the change at a terminal, without secrets, and asks [cli:config:restore]", async () => {
  const folder = freshFolder()
  const svc = inFolder(folder)
  const file = join(folder, "mcp.json")
  expect((await svc("mcp", "add", "one", "-e", "API_KEY=oldsecret", "--", "x")).code).toBe(0)
  expect((await svc("mcp", "edit", "one", "-e", "API_KEY=newsecret", "-e", "MODE=fast")).code).toBe(0)
  const edited = readIfThere(file)
  const restore = ["config", "restore", "--config-dir", folder]
  const { shown, code } = await typeSvc(restore, { folder, answers: ["n"] })
  expect([code, readIfThere(file)]).toEqual([0, edited])
  expect(shown).toContain('"MODE": "fast"')
  expect(shown).not.toMatch(/oldsecret|newsecret/)
  expect((await typeSvc(restore, { folder, answers: ["y"] })).shown).toContain("restored mcp-")
  expect(readIfThere(file)).toContain("oldsecret")
  expect((await typeSvc([...restore, "--yes"], { folder, answers: [] })).shown).not.toContain("[y/N]")
})

test("config check reports each issue with file, line and column, and exits with 78", async () => {
  const folder = freshFolder()
  mkdirSync(folder, { recursive: true })
  writeFileSync(
    join(folder, "mcp.json"),
    '{\n  "mcpServers": {\n    "a": { "command": 1 },\n    "b": { "command": "x", "env": { "K": "$NOWHERE" } }\n  },\n  "extra": 1\n}',
  )
  const { code, stdout } = await inFolder(folder)("config", "check")
  expect(code).toBe(78)
  for (const part of [
    "mcp.json:3:12: ",
    "mcp.json:4:5: b is not loaded: env.K refers to NOWHERE",
    'mcp.json:6:3: unknown key "extra"',
  ])
    expect(stdout).toContain(part)
})

test("health --wait ends at once when svc has given up on a server [cli:health:given-up]", async () => {
  const config = {
    mcpServers: {
      bad: { command: "bun", args: ["-e", "process.exit(1)"], restartOnExit: true, maxRestarts: 1, restartDelay: 1 },
    },
  }
  await using instance = await startSvc({ config })
  const from = performance.now()
  // The report over HTTP has only numbers; the one over the control socket has names.
  for (const [flags, why] of [
    [["--url", instance.url], "0 restarting, 1 in a crash loop"],
    [[], "bad is in a crash loop (exited with code 1)"],
  ] as const) {
    const { code, stderr } = await inFolder(instance.folder)("health", "--wait", "20s", ...flags)
    expect([code, stderr]).toEqual([69, expect.stringContaining(why)])
  }
  expect(performance.now() - from).toBeLessThan(15_000)
})

test("config check --strict fails for a misspelled key, and not for a limit of clients [cli:check:strict]", async () => {
  const folder = freshFolder()
  const check = (server: object, ...flags: string[]) => {
    writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { a: { command: "x", ...server } } }))
    return inFolder(folder)("config", "check", ...flags)
  }
  expect(await check({ comand: "y" })).toMatchObject({ code: 0, stdout: expect.stringContaining("(warning)") })
  expect(await check({ comand: "y" }, "--strict")).toMatchObject({ code: 78 })
  const long = { toolDescriptionOverrides: { echo: "x".repeat(3000) } }
  expect(await check(long, "--strict")).toMatchObject({ code: 0, stdout: expect.stringContaining("(warning)") })
})

test("config check finds everything that a start would find, also in templates, presets and .env", async () => {
  const folder = freshFolder()
  const check = () => inFolder(folder)("config", "check")
  writeFileSync(join(folder, "mcp.json"), '{ "mcpTemplates": { "t": { "command": "x", "args": ["{{#if}}"] } } }')
  writeFileSync(join(folder, "presets.json"), '{ "presets": { "p": { "filter": "a and" } } }')
  writeFileSync(join(folder, ".env"), "GOOD=1\nnonsense\n")
  const { code, stdout } = await check()
  expect(code).toBe(78)
  for (const part of ["mcp.json:1:53: template t", "presets.json:1:", ".env:2:1: expected NAME=value"])
    expect(stdout).toContain(part)
  writeFileSync(join(folder, "presets.json"), "{}")
  writeFileSync(join(folder, ".env"), "GOOD=1\n")
  expect((await check()).code).toBe(78)
  writeFileSync(join(folder, "mcp.json"), "{}")
  expect(await check()).toMatchObject({ code: 0, stdout: "no issues\n" })
})

test("an edit that introduces an issue warns, and one with an unknown key is refused with the nearest key", async () => {
  const folder = freshFolder()
  const svc = inFolder(folder)
  expect(await svc("mcp", "add", "web", "--env", "A=$NOWHERE", "--", "x")).toMatchObject({
    code: 0,
    stderr:
      "note: env.A refers to the variable NOWHERE\n" +
      "warning: web is not loaded: env.A refers to NOWHERE, which is not set in the environment or in .env\n" +
      `add NOWHERE=… to ${join(folder, ".env")}\n`,
  })
  expect((await svc("mcp", "add", "web", "--", "x")).stderr).toContain("web; `svc mcp edit web` changes it")
  expect((await svc("mcp", "add", "far", "--url", "http://h/", "--env", "A=1")).stderr).toContain("env has no effect")
  expect((await svc("mcp", "edit", "far", '{"tag":["x"],"env":null}')).stderr).toContain('did you mean "tags"?')
  const before = readIfThere(join(folder, "mcp.json"))
  expect(await svc("mcp", "edit", "web", '{"oauth":{"clientID":"x"}}')).toMatchObject({
    code: 78,
    stderr: 'svc: mcpServers.web.oauth: unknown key "clientID"; did you mean "clientId"?\n',
  })
  expect(readIfThere(join(folder, "mcp.json"))).toBe(before as string)
})

test("mcp status shows the running servers and the error while mcp.json is invalid [cli:status]", async () => {
  await using instance = await running("x")
  const svc = inFolder(instance.folder)
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
  const echo = { command: "bun", args: [join(ROOT, "test/fixtures/echo.ts")] }
  await using instance = await startSvc({ folder, config: { mcpServers: { a: echo } } })
  await instance.said("a: connected")
  instance.write({ mcpServers: { a: { ...echo, tags: 5 }, b: { ...echo, tags: 5 } } })
  await instance.said("b is not loaded")
  const issuesOf = async (name: string) => (await json(inFolder(folder)("mcp", "status", name, "--json"))).issues
  const fault = (prefix: string) => expect.stringMatching(new RegExp(`mcp\\.json:\\d+:\\d+: ${prefix}mcpServers`))
  expect(await issuesOf("a")).toEqual(["a keeps running in its last valid form", fault("")])
  expect(await issuesOf("b")).toEqual([fault("b is not loaded: ")])
})

test("mcp status --verbose shows effective values with their origin, and no secret [cli:status]", async () => {
  const folder = freshFolder()
  writeFileSync(join(folder, ".env"), "LOCAL=from-the-file\n")
  writeFileSync(
    join(folder, "mcp.json"),
    JSON.stringify({
      serverDefaults: { env: { BASE: "b" }, requestTimeout: 7 },
      mcpServers: { a: { command: "x", env: { TOKEN: "literal-secret", V: "$LOCAL", H: "$HOME" } } },
    }),
  )
  const rows = async (...flags: string[]) => {
    const { servers } = await json(inFolder(folder)("mcp", "status", "a", "--verbose", "--json", ...flags))
    return Object.fromEntries(
      servers[0].effective
        .filter((row: { key: string; from: string[] }) => row.key === "type" || !row.from.includes("built-in"))
        .map((row: { key: string; value: string; from: string[] }) => [row.key, [row.value, ...row.from]]),
    )
  }
  expect(await rows()).toEqual({
    type: ["stdio", "built-in"],
    command: ["x", "server"],
    requestTimeout: [7, "default"],
    "env.BASE": ["b", "default"],
    "env.TOKEN": ["•••", "server"],
    "env.V": ["•••", "server", ".env"],
    "env.H": ["•••", "server", "env"],
  })
  expect(await rows("--show-secrets")).toMatchObject({
    "env.TOKEN": ["literal-secret", "server"],
    "env.V": ["from-the-file", "server", ".env"],
  })
})

test("on a narrow terminal, a long effective value wraps inside its column, and its origin stays whole [cli:table]", async () => {
  const folder = freshFolder()
  const long = { command: "npx", args: ["-y", "a-package", "/home/someone/projects/first", "/home/someone/second"] }
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { a: long }, mcpTemplates: { t: long } }))
  for (const [origin, command] of [
    ["server", ["status", "a", "--verbose"]],
    ["template", ["render", "t"]],
  ] as const) {
    const { stdout } = await runSvc(["mcp", ...command, "--config-dir", folder], { ...freshEnv(folder), COLUMNS: "70" })
    expect(stdout).toMatch(
      new RegExp(
        `^  args +\\[-y, a-package, +${origin}\n +/home/someone/projects/first,\n +/home/someone/second\\]$`,
        "m",
      ),
    )
    expect(stdout).toMatch(/^ {2}connectionTimeout {2}300000 +built-in$/m)
  }
})

const running = async (mark: string): Promise<Instance> =>
  startSvc({ config: { mcpServers: { a: echo("--tools", "3", mark) } } })

test("tools are listed, hidden and shown through the file [cli:tools]", async () => {
  await using instance = await running("x")
  const svc = inFolder(instance.folder)
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

test("without a running svc, tools are listed from the file and from what svc has seen [cli:tools:offline]", async () => {
  const folder = freshFolder()
  const svc = inFolder(folder)
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
  expect(await json(inFolder(instance.folder)("mcp", "restart", "a", "--json"))).toEqual({
    restarted: ["a"],
    applied: true,
    servers: [{ name: "a", state: "connected", tools: 3 }],
  })
  await eventually(() => processes(mark).length === 1 && processes(mark)[0] !== before)
  expect((await inFolder(instance.folder)("mcp", "restart", "b")).stderr).toContain("no server is named b")
})

test("an unwritable folder is named, with what to do", async () => {
  const folder = freshFolder()
  writeFileSync(join(folder, "file"), "")
  for (const command of [
    ["serve", "--port", "0"],
    ["mcp", "add", "a", "--url", "http://h/"],
  ]) {
    const { code, stderr } = await inFolder(join(folder, "file", "below"))(...command)
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
    const { code, stderr } = await inFolder(instance.folder)("mcp", "restart", name)
    return [code, stderr]
  }
  expect(await restart("of-f")).toEqual([69, "svc: of-f is disabled; `svc mcp enable of-f` starts it\n"])
  expect(await restart("wrong")).toEqual([69, expect.stringContaining("wrong is not loaded")])
  expect(await restart("heer")).toEqual([64, "svc: no server is named heer; did you mean here?\n"])
})

test("a second instance on the same configuration names the process that serves it and exits with 69", async () => {
  await using instance = await running("x")
  const { code, stderr } = await inFolder(instance.folder)("serve", "--port", "0")
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
  const own = await inFolder(instance.folder)("health", "--wait", "10s")
  expect(own.stdout).toStartWith(`healthy (svc 0.1.0, process ${instance.pid}): 1 of 1`)
  const refused = await runSvc(["health", "--url", "http://127.0.0.1:1", "--wait", "0.2s"])
  expect([refused.code, refused.stderr]).toEqual([
    69,
    expect.stringMatching(/^svc: not ready after 0 s: nothing listens at 127.0.0.1:1/),
  ])
})

test("health says which servers are starting or failed, and that an svc without servers runs; --all requires every server [cli:health] [cli:health:all]", async () => {
  const silent = { command: "sleep", args: ["60"] }
  await using instance = await startSvc({ config: { mcpServers: { silent } } })
  const svc = inFolder(instance.folder)
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
  const { code, stdout, stderr } = await inFolder(folder)("health")
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
  const svc = inFolder(instance.folder)
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
  const { stdout } = await inFolder(instance.folder)("mcp", "status")
  expect(stdout).toContain("/no/such/folder")
  expect(stdout).not.toContain("sekret-value-1")
})

test("health says that an address is not svc", async () => {
  using other = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => Response.json({ fine: true }) })
  const { code, stderr, stdout } = await runSvc(["health", "--url", `http://127.0.0.1:${other.port}`])
  expect([code, stderr, stdout]).toEqual([69, expect.stringContaining("is not svc: it answered 200"), ""])
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
  for (const direction of ["in", "out"])
    expect(text).toMatch(new RegExp(`svc_relayed_bytes_total\\{direction="${direction}"\\} [1-9]`))
  for (const line of text.trim().split("\n"))
    expect(line).toMatch(/^(# (HELP|TYPE) svc_\w+ .+|svc_\w+(\{(\w+="(\\.|[^"\\])*",?)+\})? -?[\d.e+-]+)$/)
})

test("logs show the output of a server and svc's lines about it, without secrets", async () => {
  const server = {
    command: "sh",
    args: ["-c", 'echo "token=$$TOKEN and hello" >&2; exec "$0" "$@"', "bun", ECHO],
    env: { TOKEN: "sekret-value-1" },
  }
  await using instance = await startSvc({ config: { mcpServers: { talker: server, quiet: echo() } } })
  await instance.said("talker: connected")
  const { stdout, code } = await inFolder(instance.folder)("logs", "talker")
  expect(code).toBe(0)
  expect(stdout).toMatch(/stderr: token=\[REDACTED\] and hello\n/)
  expect(stdout).toContain("connected: 1 tool")
  expect(stdout).not.toContain("quiet")
  expect(instance.stderr()).not.toContain("sekret-value-1")
  expect((await inFolder(instance.folder)("logs", "talkr")).stderr).toContain("did you mean talker?")
  expect((await inFolder(instance.folder)("logs", "--since", "1ms")).stdout).toBe("")
})

test("logs are selected by number, level and text, and are those of one configuration [cli:logs]", async () => {
  const folder = freshFolder()
  const line = (second: number, level: string, text: string) =>
    `2026-01-01T00:00:0${second}.000Z ${level.padEnd(5)} ${text}\n`
  const [first, second, third] = [line(1, "info", "hello"), line(2, "warn", "Timeout of a"), line(3, "error", "boom")]
  mkdirSync(join(folder, "logs"))
  writeFileSync(join(folder, "logs", "a.log"), first + second + third)
  const svc = inFolder(folder)
  for (const flag of ["-n", "--tail", "--lines"])
    expect((await svc("logs", "a", flag, "2")).stdout).toBe(second + third)
  expect((await svc("logs", "a", "--level", "warn")).stdout).toBe(second + third)
  expect((await svc("logs", "a", "--grep", "timeout")).stdout).toBe(second)
  expect((await svc("logs", "--grep", "boom")).stdout).toBe(line(3, "error", "a: boom"))
  const other = join(folder, "other.json")
  writeFileSync(other, "{}")
  expect((await svc("logs", "--config", other)).stdout).toBe("")
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
  const svc = inFolder(instance.folder)
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

test("a failure under --json is an object on stdout, with the exit code of the failure [cli:json]", async () => {
  const svc = inFolder(freshFolder())
  for (const [args, code, exit] of [
    [["mcp", "status", "nope"], "not_found", 64],
    [["mcp", "list", "--nope"], "usage", 64],
    [["serve", "--port", "0"], "usage", 64],
    [["mcp", "restart", "a"], "unavailable", 69],
  ] as const) {
    const failed = await svc(...args, "--json")
    expect(JSON.parse(failed.stdout)).toEqual({ error: { code, message: expect.any(String) } })
    expect([failed.code, failed.stderr]).toEqual([exit, ""])
  }
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

test("a cloned repository chooses neither options nor shell code, unless a template says raw [template:project]", async () => {
  const folder = freshFolder()
  const entry = "--require=/x/evil.cjs"
  mkdirSync(join(folder, "repo", ".git"), { recursive: true })
  writeFileSync(join(folder, "repo", ".git", "HEAD"), "ref: refs/heads/x$(touch${IFS}pwned)\n")
  writeFileSync(join(folder, "repo", ".svcrc"), JSON.stringify({ context: { custom: { entry } } }))
  const mcpTemplates = {
    option: { command: "node", args: ["{{project.custom.entry}}", "server.mjs"] },
    shell: { command: "sh", args: ["-c", "echo {{project.git.branch}}"] },
    raw: { command: "node", args: ["{{raw project.custom.entry}}", "server.mjs"] },
  }
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpTemplates }))
  const svc = inFolder(folder)
  const project = ["--project", join(folder, "repo")]
  const check = await svc("config", "check")
  expect([check.code, check.stdout + check.stderr]).toEqual([
    78,
    expect.stringMatching(/mcp\.json:1:\d+: template shell: args\[1\]: .*would be program text/),
  ])
  const option = await svc("mcp", "render", "option", ...project)
  expect([option.code, option.stderr]).toEqual([78, expect.stringContaining("would be an option")])
  expect((await svc("mcp", "render", "raw", ...project)).stdout).toContain(entry)
})

test("servers of a project are imported only with --project, after the confirmation has shown all of them [import:project] [tools:shown]", async () => {
  const folder = freshFolder()
  const config = ["--config-dir", join(folder, "own")]
  const svc = (...args: string[]) => runSvc([...args, ...config], freshEnv(folder), "", folder)
  const long = `https://example.com/${"harmless/".repeat(20)}?k=`
  const env = { NODE_OPTIONS: "--require=./x.cjs", API_TOKEN: "fixed\u202e" }
  const memory = { command: "node", args: ["-e", "1", "@modelcontextprotocol/server-memory"], env, cwd: "/tmp" }
  writeFileSync(
    join(folder, ".mcp.json"),
    JSON.stringify({ mcpServers: { memory, web: { url: `${long}\${GITHUB_TOKEN}`, headers: { "X-A": "b" } } } }),
  )
  mkdirSync(join(folder, ".vscode"))
  writeFileSync(join(folder, ".vscode", "mcp.json"), JSON.stringify({ servers: { code: { command: "c" } } }))
  const without = await svc("config", "import", "--yes")
  expect(without.stderr).toMatch(
    /not read: .*\.mcp\.json, .*mcp\.json \(from the repositories of projects\); --project also imports them/,
  )
  expect(readIfThere(join(folder, "own", "mcp.json"))).toBeUndefined()

  const { shown, code } = await typeSvc(["config", "import", "--project", ...config], { folder, answers: ["n"] })
  expect(code).toBe(0)
  const [, question = ""] = /^(memory, from [\s\S]*)\[y\/N\]/m.exec(shown) ?? []
  expect(question).toContain("memory, from claude-code, a project's repository, ")
  expect(question).toContain(
    '  node -e 1 @modelcontextprotocol/server-memory in /tmp with NODE_OPTIONS=--require=./x.cjs API_TOKEN="fixed\\u202e"\n',
  )
  expect(question).toContain(`  connect to ${long}\${GITHUB_TOKEN} with X-A=b\n`)
  expect(question).toContain("code, from vscode, a project's repository, ")
  expect(question).toContain("import these 3 and let svc run exactly this?")
  expect(readIfThere(join(folder, "own", "mcp.json"))).toBeUndefined()

  const dry = JSON.parse((await svc("config", "import", "--project", "--dry-run", "--json")).stdout)
  expect(dry.found[0]).toMatchObject({
    application: "claude-code",
    project: true,
    command: expect.stringContaining("NODE_OPTIONS=--require=./x.cjs API_TOKEN=•••"),
  })
  expect((await svc("config", "import", ".mcp.json", "--yes")).stdout).toContain("imported memory, web")
})

test("the last tool of a server is hidden only after confirmation [tools:zero]", async () => {
  await using instance = await startSvc({ config: { mcpServers: { one: echo() } } })
  await instance.said("one: connected")
  const { folder } = instance
  const place = ["--config-dir", folder]
  const disable = ["mcp", "tools", "disable", "one", "one_svc_echo"]
  expect(await inFolder(folder)(...disable)).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("the last tool that one offers; add --yes"),
  })
  const { shown } = await typeSvc([...disable, ...place], { folder, answers: ["n"] })
  expect(shown).toContain("one_svc_echo is the last tool that one offers; hide it? [y/N]")
  expect(readIfThere(join(folder, "mcp.json"))).not.toContain("disabledTools")
  const listed = async () =>
    eventually(async () => readIfThere(join(folder, "tools.json"))?.includes('"echo"') === true)
  await listed()
  instance.signal("SIGTERM")
  await instance.exited
  // Without a running svc, the tools that it listed last decide.
  expect(await inFolder(folder)(...disable)).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("the last tool that one offers; add --yes"),
  })
  expect(await inFolder(folder)(...disable, "--yes")).toMatchObject({ code: 0 })
  expect(readIfThere(join(folder, "mcp.json"))).toContain("disabledTools")
})

test("a tool of a server that svc never saw is hidden with a warning [tools:zero]", async () => {
  const folder = freshFolder()
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { one: echo() } }))
  const { code, stderr } = await inFolder(folder)("mcp", "tools", "disable", "one", "echo")
  expect([code, stderr]).toEqual([
    0,
    "warning: the tools of one are not known, so svc cannot tell whether echo is the last one that it offers\n",
  ])
})

test("config import imports servers of other applications and overwrites none", async () => {
  const folder = freshFolder()
  const svc = inFolder(folder)
  mkdirSync(join(folder, ".cursor"), { recursive: true })
  writeFileSync(
    join(folder, ".cursor", "mcp.json"),
    JSON.stringify({
      mcpServers: {
        "he/re": { command: "mine" },
        fresh: { command: "x" },
        none: {},
        all: { url: "http://localhost:3050/mcp" },
      },
    }),
  )
  mkdirSync(join(folder, ".codex"), { recursive: true })
  writeFileSync(join(folder, ".codex", "config.toml"), '[mcp_servers.toml]\ncommand = "y"\nargs = ["1"]\n')
  await svc("mcp", "add", "he re", "--", "kept")
  expect((await svc("config", "import")).code).toBe(64)
  expect((await svc("config", "import", "--dry-run")).stdout).toMatch(
    /he\/re-2 [\s\S]*neither a command nor a url[\s\S]*it is svc itself/,
  )
  expect((await svc("config", "import", "--yes")).stdout).toContain("imported he/re-2, fresh, toml")
  expect(JSON.parse(readIfThere(join(folder, "mcp.json")) ?? "").mcpServers).toEqual({
    "he re": { command: "kept" },
    "he/re-2": { command: "mine" },
    fresh: { command: "x" },
    toml: { command: "y", args: ["1"] },
  })
  expect((await svc("config", "import", "zed")).code).toBe(64)
  writeFileSync(join(folder, ".codex", "config.toml"), "broken = [")
  writeFileSync(join(folder, ".cursor", "mcp.json"), JSON.stringify({ mcpServers: { more: { command: "z" } } }))
  const some = await svc("config", "import", "--yes")
  expect([some.code, some.stderr]).toEqual([0, expect.stringMatching(/^skipped: .*config.toml:1:1: not valid TOML/)])
  expect(some.stdout).toContain("imported more")
  expect((await svc("config", "import", "claude")).stderr).toContain(
    "give a file or one of claude-code, claude-desktop",
  )
  expect(await svc("config", "import", "codex")).toMatchObject({ code: 78, stdout: "" })
  expect((await svc("config", "import", folder)).code).toBe(78)
})

test("the error of a command without a running svc hides the secrets of the configuration", async () => {
  const secret = "a-configured-secret"
  using server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: ({ url }) =>
      url.includes("/.well-known/")
        ? Response.json({ resource: `http://${secret}.test/`, authorization_servers: [`http://127.0.0.1/`] })
        : new Response(null, { status: 401 }),
  })
  const folder = freshFolder()
  const web = { url: `http://127.0.0.1:${server.port}/mcp`, headers: { "x-key": secret } }
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { web } }))
  const { code, stderr } = await inFolder(folder)("auth", "login", "web", "--no-browser")
  expect([code, stderr]).toEqual([64, expect.stringContaining("http://[REDACTED].test/")])
})
