/** What is Windows' own, on the built binary. Runs in Windows' Bun: `bun run platforms` starts it under Wine. */
import { expect, test } from "bun:test"
import { copyFileSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { systemClock } from "../../src/lib/clock.ts"
import { openSecretStore, systemKeychain } from "../../src/store/secret-store.ts"
import {
  eventually,
  fixture,
  freePort,
  freshEnv,
  freshFolder,
  type Instance,
  modern,
  processes,
  ROOT,
  runSvc,
  SVC,
  startSvc,
} from "../e2e/harness.ts"

const mark = () => `svc-mark-${crypto.randomUUID()}`
const echo = (...args: string[]) => ({ command: "bun", args: [fixture("echo.ts"), ...args] })
const bun = process.execPath

/** Returns what a server of the fixture project.ts was started with. */
async function startedWith(svc: Instance, server: string): Promise<{ args: string[]; env?: string }> {
  const { body } = await modern(`${svc.url}/mcp`, "tools/call", { name: `${server}_svc_where`, arguments: {} })
  return JSON.parse((body.result?.content as { text: string }[] | undefined)?.[0]?.text ?? "{}")
}

// Without a percent sign: Wine's cmd expands `%*` again after replacing it, which Windows' own does not. The characters that
// svc writes for cmd are tested in test/backend/resolve-command.test.ts.
const ARGUMENTS = [
  "a b",
  "",
  'say "hi"',
  "C:\\dir\\",
  'C:\\dir with space\\"',
  "^hat^",
  "a&b|c<d>e",
  "(x)",
  "!bang!",
  ",;=",
  "*?",
  "ümläut 日本",
]

const PERCENT = ["100%", "%NAME%"]

/** The shim of npx in Node's own distribution, without its question for npm's prefix. */
const npxShim = (script: string) =>
  [
    "@ECHO OFF",
    "SETLOCAL",
    'SET "NODE_EXE=%~dp0\\node.exe"',
    'IF NOT EXIST "%NODE_EXE%" (',
    `  SET "NODE_EXE=${bun}"`,
    ")",
    `SET "NPX_CLI_JS=${script}"`,
    '"%NODE_EXE%" "%NPX_CLI_JS%" %*',
    "",
  ].join("\r\n")

test("arguments reach a program, a shim and npx's own shim as they are configured", async () => {
  const folder = join(freshFolder(), "with space")
  mkdirSync(folder)
  const script = fixture("project.ts")
  writeFileSync(join(folder, "plain.cmd"), `@"${bun}" "${script}" %*\r\n`)
  writeFileSync(join(folder, "batch.bat"), `@echo off\r\n"${bun}" "${script}" %*\r\n`)
  writeFileSync(join(folder, "npx.cmd"), npxShim(script))
  const env = { PATH: `${folder};${process.env.PATH}`, NAME: "wörth 100%" }
  await using svc = await startSvc({
    config: {
      mcpServers: {
        exe: { command: bun, args: [script, ...ARGUMENTS, ...PERCENT], env },
        path: { command: join(folder, "plain.cmd"), args: ARGUMENTS, env },
        pathext: { command: "plain", args: ARGUMENTS, env },
        bat: { command: "batch", args: ARGUMENTS, env },
        npx: { command: "npx", args: ARGUMENTS, env },
      },
    },
  })
  await svc.said("5 of 5 servers ready")
  for (const server of ["path", "pathext", "bat", "npx"])
    expect([server, await startedWith(svc, server)]).toEqual([
      server,
      expect.objectContaining({ args: ARGUMENTS, env: "wörth 100%" }),
    ])
  expect((await startedWith(svc, "exe")).args).toEqual([...ARGUMENTS, ...PERCENT])
})

test("a .ps1 command runs in the PowerShell of Windows, with its arguments as they are configured", async () => {
  const folder = join(freshFolder(), "with space")
  mkdirSync(folder)
  writeFileSync(join(folder, "tool.ps1"), "# The program in place of PowerShell runs tool.ts\r\n")
  copyFileSync(fixture("project.ts"), join(folder, "tool.ts"))
  // A server's PATH need not hold PowerShell.
  const env = { PATH: `${folder};C:\\tools`, NAME: "wörth 100%" }
  const args = [...ARGUMENTS, ...PERCENT, "-y", "--flag=a b"]
  const config = { mcpServers: { one: { command: join(folder, "tool.ps1"), args, env } } }
  await using svc = await startSvc({ config })
  await svc.said("1 of 1 server ready")
  expect(await startedWith(svc, "one")).toMatchObject({ args, env: env.NAME })
})

test("svc serves from a share of another machine, and runs programs and shims there", async () => {
  const folder = `\\\\files\\share\\${crypto.randomUUID()}`
  mkdirSync(folder)
  const script = join(folder, "project.ts")
  copyFileSync(fixture("project.ts"), script)
  writeFileSync(join(folder, "shim.cmd"), `@"${bun}" "${script}" %*\r\n`)
  const args = ["a b", "\\\\files\\share\\"]
  await using svc = await startSvc({
    config: {
      mcpServers: {
        exe: { command: bun, args: [script, ...args], cwd: folder },
        shim: { command: join(folder, "shim.cmd"), args },
      },
    },
    folder,
  })
  await svc.said("2 of 2 servers ready")
  for (const server of ["exe", "shim"]) expect(await startedWith(svc, server)).toMatchObject({ args })
  expect((await runSvc(["mcp", "remove", "exe", "--config-dir", folder])).code).toBe(0)
  await svc.said("removed exe")
  expect((await runSvc(["stop", "--config-dir", folder])).code).toBe(0)
  expect(await svc.exited).toBe(0)
})

test.each([
  ["streamableHttp", "/mcp"],
  ["sse", "/sse"],
] as const)("a server from npm is reached over %s", async (type, path) => {
  const port = await freePort()
  const server = join(ROOT, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
  const remote = Bun.spawn([bun, server, type], {
    env: { ...process.env, PORT: String(port) },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  })
  // A request to a port that refuses it would never return under Wine.
  const reader = remote.stderr.getReader()
  let said = ""
  while (!said.includes(String(port))) said += Buffer.from((await reader.read()).value ?? []).toString()
  await using svc = await startSvc({
    config: { mcpServers: { one: { type, url: `http://127.0.0.1:${port}${path}` } } },
  })
  await svc.said("1 of 1 server ready")
  const call = { name: "one_svc_echo", arguments: { message: "grüß 日本" } }
  const { body } = await modern(`${svc.url}/mcp`, "tools/call", call)
  expect(JSON.stringify(body.result)).toContain("grüß 日本")
  remote.kill()
  await remote.exited
})

test("svc connect writes the files of clients where they are on Windows, and --undo restores them", async () => {
  const home = freshFolder()
  const env = freshEnv(home)
  const roaming = (...path: string[]) => join(home, "AppData", "Roaming", ...path)
  const files = {
    cursor: join(home, ".cursor", "mcp.json"),
    "claude-desktop": roaming("Claude", "claude_desktop_config.json"),
    vscode: roaming("Code", "User", "mcp.json"),
    zed: roaming("Zed", "settings.json"),
    goose: roaming("Block", "goose", "config", "config.yaml"),
    codex: join(home, ".codex", "config.toml"),
  }
  expect((await runSvc(["mcp", "add", "one", "--", "bun", fixture("echo.ts")], env)).code).toBe(0)
  for (const [client, file] of Object.entries(files)) {
    const before = file.endsWith(".json") ? '{\r\n  // mine\r\n  "other": 1\r\n}\r\n' : "\uFEFF# mine\r\n"
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, before)
    const done = await runSvc(["connect", client, "--yes"], env)
    expect([client, done.code]).toEqual([client, 0])
    const text = readFileSync(file, "utf8")
    expect([client, text.includes("mine"), /svc/.test(text), /[^\r]\n/.test(text)]).toEqual([client, true, true, false])
    expect((await runSvc(["connect", client, "--undo", "--yes"], env)).code).toBe(0)
    expect([client, readFileSync(file, "utf8")]).toEqual([client, before])
  }
})

test("svc service installs a task of the Task Scheduler, and removes it", async () => {
  const home = freshFolder()
  const folder = join(freshFolder(), "with space")
  const calls = join(home, "calls")
  const env = { ...freshEnv(home), SCHTASKS_CALLS: calls }
  mkdirSync(folder)
  const service = async (...words: string[]) => {
    const { code, stdout } = await runSvc(["service", ...words, "--config-dir", folder], env)
    expect([words, code]).toEqual([words, 0])
    return stdout
  }
  const dry = await service("install", "--dry-run", "--port", "4000")
  const file = readdirSync(folder).find((name) => name.endsWith("-task.xml"))
  expect([file, dry.includes(`${folder}\\svc-`)]).toEqual([undefined, true])
  await service("install", "--yes", "--port", "4000")
  const written = readdirSync(folder).find((name) => name.endsWith("-task.xml")) ?? ""
  const bytes = readFileSync(join(folder, written))
  expect([...bytes.subarray(0, 2)]).toEqual([0xff, 0xfe])
  const text = new TextDecoder("utf-16le").decode(bytes)
  expect(text).toContain("<Command>conhost.exe</Command>")
  expect(text).toContain(`&quot;--config-dir=${folder}&quot;`)
  const name = written.replace("-task.xml", "")
  const verbs = () =>
    readFileSync(calls, "utf8")
      .trim()
      .split(/\r?\n/)
      .map((line) => /\/(\w+)/.exec(line)?.[1])
  expect(verbs()).toEqual(["Create", "Run"])
  expect(readFileSync(calls, "utf8")).toContain(`/TN ${name} /XML "${join(folder, written)}"`)
  await service("uninstall", "--yes")
  expect(verbs().slice(2)).toEqual(["End", "Delete"])
  expect(readdirSync(folder).filter((name) => name.endsWith("-task.xml"))).toEqual([])
})

test("an argument with a line break is refused for a .cmd shim", async () => {
  const folder = freshFolder()
  writeFileSync(join(folder, "shim.cmd"), "@exit /b 0\r\n")
  await using svc = await startSvc({
    config: { mcpServers: { one: { command: join(folder, "shim.cmd"), args: ["a\nb"] } } },
  })
  await svc.said("an argument with a line break cannot be passed to")
})

test("the configuration lives in %APPDATA%", async () => {
  const home = freshFolder()
  const { code, stderr } = await runSvc(["mcp", "add", "one", "--", "bun", fixture("echo.ts")], freshEnv(home))
  expect([code, stderr]).toEqual([0, ""])
  const text = readFileSync(join(home, "AppData", "Roaming", "svc", "mcp.json"), "utf8")
  expect(JSON.parse(text).mcpServers.one.command).toBe("bun")
})

test.each([
  ["spaces and unicode", (folder: string) => join(folder, "meine Dateien", "日本 é")],
  ["more than 260 characters", (folder: string) => join(folder, ...Array.from({ length: 6 }, () => "long".repeat(12)))],
  ["the prefix \\\\?\\", (folder: string) => `\\\\?\\${join(folder, "verbatim")}`],
])("svc serves from a directory with %s, and its commands reach it", async (_, place) => {
  const folder = place(freshFolder())
  mkdirSync(folder, { recursive: true })
  await using svc = await startSvc({ config: { mcpServers: { one: echo() } }, folder })
  await svc.said("1 of 1 server ready")
  const { code, stdout } = await runSvc([
    "mcp",
    "add",
    "two",
    "--config-dir",
    folder,
    "--",
    ...["bun", fixture("echo.ts")],
  ])
  expect([code, stdout]).toEqual([0, expect.stringContaining("two")])
  await svc.said(/two: connected/)
  expect((await runSvc(["stop", "--config-dir", folder])).code).toBe(0)
  expect(await svc.exited).toBe(0)
})

const utf16 = (text: string) => Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, "utf16le")])
const utf8 = (text: string) => Buffer.from(`\uFEFF${text}`)

test.each([
  ["UTF-8 with a byte order mark", utf8],
  ["UTF-16", utf16],
])("mcp.json and .env in %s with CRLF are read, and an edit keeps the servers", async (_, encode) => {
  const folder = freshFolder()
  const config = { mcpServers: { one: { ...echo(), env: { NAME: "${GREETING}" } } } }
  writeFileSync(join(folder, "mcp.json"), encode(JSON.stringify(config, null, 2).replaceAll("\n", "\r\n")))
  writeFileSync(join(folder, ".env"), encode("GREETING=grüß\r\nOTHER=x\r\n"))
  const check = await runSvc(["config", "check", "--config-dir", folder])
  expect([check.code, check.stderr]).toEqual([0, ""])
  const added = await runSvc(["mcp", "add", "two", "--config-dir", folder, "--", "bun", fixture("echo.ts")])
  expect([added.code, added.stderr]).toEqual([0, ""])
  await using svc = await startSvc({ folder })
  await svc.said("2 of 2 servers ready")
})

test("a file that another program holds open is replaced when it is let go, and intact until then", async () => {
  const folder = freshFolder()
  const file = join(folder, "mcp.json")
  writeFileSync(file, JSON.stringify({ mcpServers: { one: echo() } }))
  const before = readFileSync(file, "utf8")
  const add = () => runSvc(["mcp", "add", "two", "--config-dir", folder, "--", "bun", fixture("echo.ts")])
  const holder = Bun.spawn({ cmd: ["windows.exe", "hold", file], stdin: "pipe", stdout: "pipe" })
  await holder.stdout.getReader().read()
  const refused = await add()
  expect([refused.code === 0, refused.stderr.startsWith("svc: ")]).toEqual([false, true])
  await holder.stdin.end()
  await holder.exited
  expect(readFileSync(file, "utf8")).toBe(before)
  expect(await add()).toMatchObject({ code: 0 })
  expect(Object.keys(JSON.parse(readFileSync(file, "utf8")).mcpServers)).toEqual(["one", "two"])
})

test("a rename over mcp.json and a rewriting of it are both applied", async () => {
  await using svc = await startSvc({ config: { mcpServers: { one: echo() } } })
  await svc.said("one: connected")
  const file = join(svc.folder, "mcp.json")
  writeFileSync(`${file}.new`, JSON.stringify({ mcpServers: { one: echo(), two: echo() } }))
  renameSync(`${file}.new`, file)
  await svc.said("two: connected")
  svc.write({ mcpServers: { one: echo(), two: echo(), three: echo() } })
  await svc.said("three: connected")
})

test("the descendants of a server end with it, with svc, and with an svc that is killed", async () => {
  const name = mark()
  const family = (...args: string[]) => ({ command: "bun", args: [fixture("family.ts"), ...args, name] })
  const alive = (count: number) => eventually(() => processes(name).length === count)
  await using svc = await startSvc({ config: { mcpServers: { one: family(), two: family("--stays", "--detached") } } })
  await svc.said("2 of 2 servers ready")
  await alive(4)
  // The first ends at the end of its stdin, the second not even then. What they started is in no job but theirs.
  svc.write({ mcpServers: { two: family("--stays", "--detached") } })
  await svc.said("removed one")
  await alive(2)
  const before = processes(name)
  expect((await runSvc(["mcp", "restart", "two", "--config-dir", svc.folder])).code).toBe(0)
  await eventually(() => processes(name).length === 2 && processes(name).every((pid) => !before.includes(pid)))
  svc.write({ mcpServers: { two: family("--stays", "--detached"), three: family("--detached") } })
  await svc.said("three: connected")
  await alive(4)
  svc.signal("SIGKILL")
  await svc.exited
  await alive(0)
})

test("the detached descendants of a server that exits by itself end", async () => {
  const name = mark()
  const family = { command: "bun", args: [fixture("family.ts"), "--detached", name] }
  await using svc = await startSvc({ config: { mcpServers: { one: family } } })
  await svc.said("1 of 1 server ready")
  await eventually(() => processes(name).length === 2)
  process.kill(processes(name)[0] as number)
  await svc.said(/one: .*exited/)
  await eventually(() => processes(name).length === 0)
})

test("a crashed server is started again, and its stderr is logged under overlapped, too", async () => {
  const name = mark()
  await using svc = await startSvc({
    config: {
      mcpServers: {
        one: {
          command: "bun",
          args: [fixture("family.ts"), name],
          stderr: "overlapped",
          restartOnExit: true,
          restartDelay: 50,
        },
      },
    },
  })
  await svc.said("one: connected")
  await svc.said("family started")
  const first = processes(name)
  for (const pid of first) process.kill(pid)
  await eventually(() => processes(name).length === 2 && processes(name).every((pid) => !first.includes(pid)))
})

test.each([
  [0, "Ctrl-C", "SIGINT"],
  [1, "Ctrl-Break", "SIGBREAK"],
  [2, "the closing of the console", "SIGHUP"],
])("event %d, %s, ends svc with its servers", async (event, _, signal) => {
  const [folder, name] = [freshFolder(), mark()]
  writeFileSync(
    join(folder, "mcp.json"),
    JSON.stringify({ mcpServers: { one: { command: "bun", args: [fixture("family.ts"), name] } } }),
  )
  const child = Bun.spawn({
    cmd: [
      "windows.exe",
      "console",
      String(event),
      `"${SVC}" serve --port 0 --config-dir "${folder}" --log-file "${join(folder, "svc.log")}"`,
    ],
    env: freshEnv(folder),
    stdin: "pipe",
    stdout: "ignore",
    stderr: "pipe",
  })
  const log = () => readFileSync(join(folder, "svc.log"), "utf8")
  await eventually(() => readdirSync(folder).includes("svc.log") && log().includes("1 of 1 server ready"))
  await eventually(() => processes(name).length === 2)
  child.stdin.write("\n")
  child.stdin.flush()
  expect(await new Response(child.stderr).text()).toContain("exit code 0")
  expect(log()).toContain(`stopping: ${signal}`)
  await eventually(() => processes(name).length === 0)
})

test("the control port refuses a request without the token of its file", async () => {
  await using svc = await startSvc({ config: { mcpServers: {} } })
  const file = readdirSync(svc.folder).find((one) => /^control.*\.json$/.test(one)) ?? ""
  const { port, lines, token, socket } = JSON.parse(readFileSync(join(svc.folder, file), "utf8"))
  expect([socket, typeof port, typeof lines.port]).toEqual([undefined, "number", "number"])
  const ask = async (authorization?: string) =>
    (
      await fetch(`http://127.0.0.1:${port}/`, {
        method: "POST",
        body: JSON.stringify({ method: "hello" }),
        ...(authorization === undefined ? {} : { headers: { authorization } }),
      })
    ).status
  expect([await ask(), await ask("Bearer x"), await ask(`Bearer ${token}`)]).toEqual([401, 401, 200])
})

test("svc proxy brings a client on stdio to the running svc, and --start starts one that outlives it", async () => {
  const folder = freshFolder()
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { one: echo() } }))
  const tools = async (...flags: string[]) => {
    const client = new Client({ name: "test", version: "1" })
    await client.connect(
      new StdioClientTransport({
        command: SVC,
        args: ["proxy", "--config-dir", folder, ...flags],
        env: freshEnv(folder),
        stderr: "ignore",
      }) as never,
    )
    const named = await eventually(async () => {
      const { tools } = await client.listTools()
      return tools.some(({ name }) => name === "one_svc_echo")
    })
    await client.close()
    return named
  }
  expect(await tools("--start")).toBe(true)
  expect(await tools()).toBe(true)
  const { code, stdout } = await runSvc(["stop", "--config-dir", folder], freshEnv(folder))
  expect([code, stdout]).toEqual([0, expect.stringContaining("stopped process")])
})

test("tokens of remote servers are sealed with a key in the Credential Manager", async () => {
  const directory = freshFolder()
  const open = () => openSecretStore({ directory, stateKey: undefined, keychain: systemKeychain, clock: systemClock })
  await open().put("one", { token: "grüß-secret" })
  const written = readFileSync(join(directory, "secrets", "oauth.json"), "utf8")
  const { key, id } = JSON.parse(written)
  expect([key, written.includes('secret"')]).toEqual(["keychain", false])
  expect(await open().read()).toEqual({ one: { token: "grüß-secret" } })
  expect(await Bun.secrets.delete({ service: "svc", name: id })).toBe(true)
})

test("of commands that edit at once, each edit is kept", async () => {
  const folder = freshFolder()
  const names = ["a", "b", "c", "d"]
  const codes = await Promise.all(
    names.map(
      async (name) =>
        (await runSvc(["mcp", "add", name, "--config-dir", folder, "--", "bun", fixture("echo.ts")])).code,
    ),
  )
  expect(codes).toEqual(names.map(() => 0))
  const { mcpServers } = JSON.parse(readFileSync(join(folder, "mcp.json"), "utf8"))
  expect(Object.keys(mcpServers).sort()).toEqual(names)
})
