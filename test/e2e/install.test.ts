/** Installing and uninstalling: what a person agrees to, what a failure leaves behind, and two at once. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { CLIENTS, connect1, connect2 } from "./clients.ts"
import {
  documents,
  eventually,
  freshEnv,
  freshFolder,
  type Instance,
  processes,
  ROOT,
  readIfThere,
  remembered,
  runSvc,
  SVC,
  startSvc,
} from "./harness.ts"

const ECHO = join(ROOT, "test/fixtures/echo.ts")
const FAILING = join(ROOT, "test/fixtures/failing.ts")
const ALL = ["--internal-tools", "all", "--startup-wait", "10s"]
const UNASKED = [...ALL, "--confirm-installs", "off", "--confirm-edits", "off"]

const start = (flags: readonly string[], config: object = { mcpServers: { here: { command: "bun", args: [ECHO] } } }) =>
  startSvc({ config, flags })
const written = (svc: Instance) => JSON.parse(readIfThere(join(svc.folder, "mcp.json")) ?? "").mcpServers

describe.each(CLIENTS)("with a client of %s", (_name, connect) => {
  test("a person agrees to the exact command, or nothing happens", async () => {
    await using svc = await start(ALL)
    const asked: string[] = []
    let answer: "accept" | "decline" | "cancel" = "decline"
    await using client = await connect(svc, (message) => {
      asked.push(message)
      return answer
    })
    await remembered(svc.folder)
    const before = settings(svc.folder)
    const args = {
      serverName: "new",
      command: "bun",
      args: [ECHO, "--tools", "2"],
      env: { PLAIN: "p$1", API_TOKEN: "sekret-value-1" },
    }
    expect((await client.call("mcp_install", args)).structuredContent).toMatchObject({ error: { code: "declined" } })
    answer = "cancel"
    expect((await client.call("mcp_install", args)).structuredContent).toMatchObject({ error: { code: "declined" } })
    expect(settings(svc.folder)).toEqual(before)
    answer = "accept"
    const { structuredContent, isError } = await client.call("mcp_install", args)
    expect(isError).toBeUndefined()
    expect(structuredContent).toMatchObject({
      serverName: "new",
      installed: true,
      status: "connected",
      tools: 2,
      variables: ["API_TOKEN"],
      reload: { added: ["new"] },
      missing: [],
    })
    expect(asked).toHaveLength(3)
    expect(asked[2]).toContain(`bun ${ECHO} --tools 2 with PLAIN=p$$1 API_TOKEN=sekret-value-1`)
    expect(written(svc).new).toEqual({
      command: "bun",
      args: [ECHO, "--tools", "2"],
      env: { PLAIN: "p$$1", API_TOKEN: "${API_TOKEN}" },
    })
    expect(readIfThere(join(svc.folder, ".env"))).toBe("API_TOKEN=sekret-value-1\n")
    expect(statSync(join(svc.folder, ".env")).mode & 0o777).toBe(0o600)
    expect(JSON.stringify(structuredContent)).not.toContain("sekret")
    expect(await client.names()).toContain("new_svc_echo1")

    const gone = await client.call("mcp_uninstall", { serverName: "new" })
    expect(gone.structuredContent).toMatchObject({
      uninstalled: true,
      reload: { removed: ["new"] },
      unusedVariables: ["API_TOKEN"],
      backup: expect.stringContaining("backups"),
    })
    expect(written(svc)).toEqual({ here: { command: "bun", args: [ECHO] } })
    expect(await client.names()).not.toContain("new_svc_echo")
  }, 20_000)
})

test("if no person can be asked, an action that runs a new command is refused, unless --confirm-installs is off [tools:confirm]", async () => {
  await using svc = await start(ALL)
  await using client = await connect1(svc)
  const before = settings(svc.folder)
  const refused = {
    error: { code: "confirmation_required", message: expect.stringContaining("--confirm-installs off") },
  }
  const install = { serverName: "new", command: "bun", args: [ECHO] }
  for (const enabled of [true, false])
    expect((await client.call("mcp_install", { ...install, enabled })).structuredContent).toMatchObject({
      ...refused,
      command: `bun ${ECHO}${enabled ? "" : "\ndisabled: true"}`,
    })
  expect(
    (await client.call("mcp_edit", { serverName: "here", patch: { args: [ECHO, "--tools", "9"] } })).structuredContent,
  ).toMatchObject(refused)
  expect(settings(svc.folder)).toEqual(before)
  expect(
    (await client.call("mcp_edit", { serverName: "here", patch: { requestTimeout: 9000 } })).isError,
  ).toBeUndefined()
  expect((await client.call("mcp_install", { ...install, dryRun: true })).structuredContent).toMatchObject({
    installed: false,
    command: `bun ${ECHO}`,
  })
}, 20_000)

const OFFERS: readonly (readonly [tool: string, args: Record<string, unknown>, shown: string])[] = [
  ["mcp_edit", { patch: { toolDescriptionOverrides: { echo: "evil\u200b" } } }, '{"echo":"evil\\u200b"}'],
  ["mcp_edit", { patch: { disabledTools: null } }, 'disabledTools: ["echo1"] -> nothing'],
  ["mcp_edit", { patch: { tags: ["b"] } }, 'tags: ["b"]'],
  ["mcp_edit", { newName: "good" }, "name: here -> good"],
  ["mcp_edit", { patch: { disabled: true } }, "disabled: true"],
  ["mcp_disable", {}, "Disable the MCP server here"],
  ["mcp_enable", { serverName: "off" }, "Enable the MCP server off"],
  ["mcp_uninstall", {}, "Uninstall the MCP server here"],
]
const HIDING = {
  mcpServers: {
    here: { command: "bun", args: [ECHO, "--tools", "2"], disabledTools: ["echo1"] },
    off: { command: "bun", args: [ECHO], disabled: true },
  },
}

test("texts that the models of other clients read change only if a person, who sees all of them, agrees [tools:confirm-edits]", async () => {
  await using svc = await start([...ALL, "--confirm-installs", "off"], HIDING)
  const asked: string[] = []
  await using client = await connect2(svc, (message) => {
    asked.push(message)
    return "decline"
  })
  await using alone = await connect1(svc)
  await remembered(svc.folder)
  const before = settings(svc.folder)
  for (const [tool, args, shown] of OFFERS) {
    const whole = { serverName: "here", ...args }
    expect((await client.call(tool, whole)).structuredContent).toMatchObject({ error: { code: "declined" } })
    expect(asked.at(-1)).toContain(shown)
    expect((await alone.call(tool, whole)).structuredContent).toMatchObject({
      error: { code: "confirmation_required", message: expect.stringContaining("--confirm-edits off") },
    })
  }
  expect(asked).toHaveLength(OFFERS.length)
  expect(settings(svc.folder)).toEqual(before)
  // An edit that changes nothing asks nobody.
  expect((await alone.call("mcp_enable", { serverName: "here" })).structuredContent).toMatchObject({ changed: false })
  expect((await alone.call("mcp_edit", { serverName: "here", patch: { disabledTools: ["echo1"] } })).isError).toBe(
    undefined,
  )
}, 20_000)

test("with --confirm-edits off, a person still confirms what runs, and confirmZeroTools the last tool [tools:confirm-edits] [tools:zero]", async () => {
  await using svc = await start([...ALL, "--confirm-edits", "off"], HIDING)
  await using client = await connect1(svc)
  const edit = async (args: object) =>
    (await client.call("mcp_edit", { serverName: "here", ...args } as never)).structuredContent
  expect(await edit({ patch: { tags: ["x"], args: [] } })).toMatchObject({
    error: { code: "confirmation_required", message: expect.stringContaining("--confirm-installs off") },
  })
  expect(await edit({ patch: { tags: ["x"] } })).toMatchObject({ status: "connected" })
  const hide = { patch: { disabledTools: ["echo1", "here_svc_echo"] } }
  expect(await edit(hide)).toMatchObject({
    error: { code: "confirmation_required", hint: { tool: "mcp_edit", args: { confirmZeroTools: true } } },
  })
  expect(await edit({ ...hide, confirmZeroTools: true })).toMatchObject({ status: "connected" })
  expect(written(svc).here.disabledTools).toEqual(["echo1", "here_svc_echo"])
}, 20_000)

test("an installation that hides every tool needs confirmZeroTools [tools:zero]", async () => {
  await using svc = await start(UNASKED)
  await using client = await connect1(svc)
  const before = settings(svc.folder)
  const install = { serverName: "new", command: "bun", args: [ECHO], config: { disabledTools: ["echo"] } }
  expect((await client.call("mcp_install", install)).structuredContent).toMatchObject({
    error: { code: "rolled_back", message: expect.stringContaining("confirmZeroTools") },
  })
  expect(settings(svc.folder)).toEqual(before)
  expect((await client.call("mcp_install", { ...install, confirmZeroTools: true })).structuredContent).toMatchObject({
    installed: true,
    tools: 0,
  })
}, 20_000)

describe("an installation that fails leaves the folder unchanged, byte for byte [tools:rollback]", () => {
  const attempts: readonly (readonly [string, object, string])[] = [
    ["to spawn", { command: "/nowhere/at/all" }, "rolled_back"],
    ["at its start", { command: "bun", args: [FAILING, "exit"] }, "rolled_back"],
    ["to initialize", { command: "bun", args: [FAILING, "initialize"] }, "rolled_back"],
    [
      "to connect in time",
      { command: "bun", args: [FAILING, "silent"], config: { connectionTimeout: 700 } },
      "rolled_back",
    ],
    ["to list", { command: "bun", args: [FAILING, "list"] }, "rolled_back"],
    ["to reach an address", { url: "http://127.0.0.1:1/mcp" }, "rolled_back"],
    ["for a reference that is not set", { command: "bun", env: { A: "${NOWHERE}" } }, "invalid_argument"],
    ["for its form", { command: "bun", config: { requestTimeout: "long" } }, "invalid_argument"],
  ]
  let svc: Instance
  beforeAll(async () => {
    svc = await startSvc({
      config: `{\r\n\t"mcpServers": { "here": { "command": "bun", "args": ["${ECHO}"] } }, // mine\r\n}\r\n`,
      flags: UNASKED,
    })
    writeFileSync(join(svc.folder, ".env"), "OLD=1 # keep")
    await remembered(svc.folder)
  }, 20_000)
  afterAll(() => svc[Symbol.asyncDispose]())

  test.each(attempts)(
    "%s",
    async (name, args, code) => {
      await using client = await connect2(svc)
      const before = settings(svc.folder)
      const env = { SOME_SECRET: "sekret-value-2", ...(args as { env?: object }).env }
      const whole = { serverName: "new", ...args, ...("url" in args ? {} : { env }) }
      const { structuredContent } = await client.call("mcp_install", whole)
      expect(structuredContent).toMatchObject({ error: { code } })
      if (code === "rolled_back")
        expect((structuredContent.error as { message: string }).message).toContain("svc undid the change.")
      if (name === "at its start") expect(JSON.stringify(structuredContent)).toContain("the moon is in the wrong phase")
      expect(settings(svc.folder)).toEqual(before)
      expect(processes(`${FAILING} `)).toEqual([])
      expect(await client.names()).toEqual(expect.arrayContaining(["here_svc_echo"]))
      expect((await client.call("mcp_list")).structuredContent).toMatchObject({ total: 1 })
    },
    20_000,
  )

  test("if mcp.json cannot be backed up", async () => {
    await using client = await connect1(svc)
    writeFileSync(join(svc.folder, "backups"), "a file where a folder should be")
    const before = settings(svc.folder)
    const { structuredContent } = await client.call("mcp_install", {
      serverName: "new",
      command: "bun",
      args: [ECHO],
      env: { SOME_SECRET: "sekret-value-2" },
    })
    expect(structuredContent).toMatchObject({
      error: { code: "internal", message: expect.stringContaining("cannot create") },
    })
    expect(settings(svc.folder)).toEqual(before)
    rmSync(join(svc.folder, "backups"))
  }, 20_000)

  test("and shows the output of the server", async () => {
    await using client = await connect1(svc)
    const { structuredContent, content } = await client.call("mcp_install", {
      serverName: "new",
      command: "bun",
      args: [FAILING, "exit"],
    })
    expect((structuredContent.log as string[]).join()).toContain("the moon is in the wrong phase")
    expect(content[0]?.text).toContain("\n  stderr: fatal: the moon is in the wrong phase")
  }, 20_000)
})

test("two simultaneous installations both succeed, each with its own secrets [tools:secrets]", async () => {
  await using svc = await start(UNASKED)
  await using one = await connect1(svc)
  await using two = await connect2(svc)
  const install = (client: typeof one, serverName: string) =>
    client.call("mcp_install", { serverName, command: "bun", args: [ECHO], env: { TOKEN: `sekret-of-${serverName}` } })
  const results = await Promise.all([install(one, "a"), install(two, "b"), install(one, "c")])
  expect(results.map(({ structuredContent }) => structuredContent.status)).toEqual([
    "connected",
    "connected",
    "connected",
  ])
  expect(Object.keys(written(svc)).sort()).toEqual(["a", "b", "c", "here"])
  // Each has its own variable, because their values differ.
  expect(new Set(["a", "b", "c"].map((name) => written(svc)[name].env.TOKEN)).size).toBe(3)
  const [first, second] = await Promise.all([install(one, "same"), install(two, "same")])
  expect([first.isError ?? false, second.isError ?? false].sort()).toEqual([false, true])
}, 30_000)

test("a hand edit during an installation survives it, whether it succeeds or not", async () => {
  await using svc = await start(UNASKED)
  await using client = await connect1(svc)
  const file = join(svc.folder, "mcp.json")
  const during = async (args: object) => {
    const running = client.call("mcp_install", { serverName: "new", command: "bun", ...args })
    await eventually(() => readFileSync(file, "utf8").includes('"new"'))
    const text = readFileSync(file, "utf8")
    writeFileSync(file, `// by hand\n${text.replace('"here"', '"renamed"')}`)
    return running
  }
  const failed = await during({
    args: [FAILING, "silent"],
    config: { connectionTimeout: 1500 },
    env: { A_KEY: "sekret-3" },
  })
  expect(failed.structuredContent).toMatchObject({ error: { code: "rolled_back" } })
  expect(readIfThere(file)).toStartWith("// by hand\n")
  expect(Object.keys(JSON.parse(readFileSync(file, "utf8").replace("// by hand\n", "")).mcpServers)).toEqual([
    "renamed",
  ])
  expect(readIfThere(join(svc.folder, ".env"))).toBeUndefined()
  await eventually(async () => (await client.names()).includes("renamed_svc_echo"))
}, 20_000)

test("an installation is undone if svc or its caller ends in the middle", async () => {
  await using svc = await start(UNASKED)
  const file = join(svc.folder, "mcp.json")
  const before = readIfThere(file)
  const body = JSON.stringify({
    tool: "mcp_install",
    arguments: { serverName: "new", command: "bun", args: [FAILING, "silent"], env: { A_KEY: "sekret-4" } },
  })
  const install = (signal?: AbortSignal) =>
    fetch(`${svc.url}/mcp`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
      ...(signal === undefined ? {} : { signal }),
    }).catch(() => undefined)
  const controller = new AbortController()
  const given = install(controller.signal)
  await eventually(() => readIfThere(file)?.includes('"new"'))
  controller.abort()
  await given
  await eventually(() => readIfThere(file) === before && readIfThere(join(svc.folder, ".env")) === undefined)
  const cut = install()
  await eventually(() => readIfThere(file)?.includes('"new"'))
  svc.signal("SIGTERM")
  expect(await svc.exited).toBe(0)
  await cut
  expect([readIfThere(file), readIfThere(join(svc.folder, ".env"))]).toEqual([before, undefined])
  expect(processes(`${FAILING} `)).toEqual([])
}, 30_000)

test("if svc is killed during an installation, the next start undoes it", async () => {
  const folder = freshFolder()
  await using killed = await startSvc({ folder, config: { mcpServers: {} }, flags: UNASKED })
  const file = join(folder, "mcp.json")
  const before = readIfThere(file)
  void fetch(`${killed.url}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      tool: "mcp_install",
      arguments: { serverName: "new", command: "bun", args: [FAILING, "silent"], env: { A_KEY: "sekret-6" } },
    }),
  }).catch(() => undefined)
  await eventually(() => readIfThere(file)?.includes('"new"') && processes(`${FAILING} `).length > 0)
  killed.signal("SIGKILL")
  await killed.exited
  expect(readIfThere(file)).not.toBe(before)
  await using again = await startSvc({ folder, flags: UNASKED })
  await again.said("svc ended before it verified a change of new: the change was undone")
  expect([readIfThere(file), readIfThere(join(folder, ".env"))]).toEqual([before, undefined])
  expect(readdirSync(folder).filter((name) => name.startsWith("trial"))).toEqual([])
  await eventually(() => processes(`${FAILING} `).length === 0)
}, 20_000)

test.each([
  ["without an instance", false],
  ["with a running instance", true],
])(
  "an installation that the user interrupts is undone, %s",
  async (_name, running) => {
    const folder = freshFolder()
    await using stack = new AsyncDisposableStack()
    if (running) stack.use(await startSvc({ folder }))
    const file = join(folder, "mcp.json")
    const text = '{ "mcpServers": {} }'
    writeFileSync(file, text)
    const child = Bun.spawn({
      cmd: [
        SVC,
        "mcp",
        "install",
        "new",
        "--yes",
        "--env",
        "A_KEY=sekret-5",
        "--config-dir",
        folder,
        "--",
        "bun",
        FAILING,
        "silent",
      ],
      env: freshEnv(folder),
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
    })
    await eventually(() => readIfThere(file)?.includes('"new"') && processes(`${FAILING} `).length > 0)
    child.kill("SIGINT")
    expect(await child.exited).not.toBe(0)
    await eventually(() => readIfThere(file) === text && readIfThere(join(folder, ".env")) === undefined)
    await eventually(() => processes(`${FAILING} `).length === 0)
  },
  20_000,
)

test.each(CLIENTS)(
  "a client of %s gets progress during an installation",
  async (_name, connect) => {
    await using svc = await start(UNASKED)
    await using client = await connect(svc)
    const said: string[] = []
    const args = { serverName: "new", command: "bun", args: [FAILING, "silent"], config: { connectionTimeout: 2500 } }
    const { isError } = await client.call("mcp_install", args, (message) => said.push(message))
    expect([isError, said]).toEqual([true, ["waiting for new to connect"]])
  },
  20_000,
)

test("svc says that a server connects but offers nothing", async () => {
  await using svc = await start(UNASKED)
  await using client = await connect1(svc)
  const { structuredContent } = await client.call("mcp_install", {
    serverName: "empty",
    command: "bun",
    args: [ECHO, "--tools", "0"],
  })
  expect(structuredContent.warnings).toEqual(["empty is connected but offers no tools, prompts or resources"])
  const disabled = await client.call("mcp_install", {
    serverName: "later",
    package: "some-package",
    version: "1.2.3",
    enabled: false,
  })
  expect(disabled.structuredContent).toMatchObject({ installed: true, status: "disconnected", state: "disabled" })
  expect(written(svc).later).toEqual({ command: "npx", args: ["-y", "some-package@1.2.3"], disabled: true })
}, 20_000)

describe.each([
  ["without an instance", false],
  ["with a running instance", true],
])("svc mcp install and uninstall %s", (_name, running) => {
  test("do what the tools do", async () => {
    const folder = freshFolder()
    await using stack = new AsyncDisposableStack()
    if (running) stack.use(await startSvc({ folder, config: { mcpServers: {} } }))
    const svc = (...args: string[]) => {
      const at = args.indexOf("--")
      const end = at < 0 ? args.length : at
      const placed = [...args.slice(0, end), "--config-dir", folder, ...args.slice(end)]
      return runSvc(["mcp", ...placed], freshEnv(folder))
    }
    const file = () => JSON.parse(readIfThere(join(folder, "mcp.json")) ?? "").mcpServers
    expect(await svc("install", "new", "--", "bun", ECHO)).toMatchObject({
      code: 64,
      stderr: `svc: no terminal to ask for confirmation; add --yes to let svc run: bun ${ECHO}\n`,
    })
    expect((await svc("install", "new", "--", "bun", ECHO, "--auth-module=/tmp/x")).stderr).toEndWith(
      "--auth-module=/tmp/x\n",
    )
    expect(await svc("install", "new", "--dry-run", "--package", "foo", "--version", "1.2")).toMatchObject({
      code: 0,
      stdout: "would install new from foo: npx -y foo@1.2\n",
    })
    expect(file()).toEqual({})
    const done = await svc(
      "install",
      "new",
      "--yes",
      "--env",
      "A_TOKEN=sekret-1",
      "--tag",
      "t",
      "--json",
      "--",
      "bun",
      ECHO,
    )
    expect(JSON.parse(done.stdout)).toMatchObject({ installed: true, status: "connected", tools: 1 })
    expect(file()).toEqual({ new: { command: "bun", args: [ECHO], env: { A_TOKEN: "${A_TOKEN}" }, tags: ["t"] } })
    expect(readIfThere(join(folder, ".env"))).toBe("A_TOKEN=sekret-1\n")
    expect(await svc("install", "new", "--yes", "--", "bun", ECHO)).toMatchObject({ code: 64 })
    const before = readIfThere(join(folder, "mcp.json"))
    const silent = await svc("install", "bad", "--yes", "--", "bun", FAILING, "exit")
    expect([silent.code, silent.stderr]).toEqual([69, expect.stringContaining("the moon is in the wrong phase")])
    const failed = await svc("install", "bad", "--yes", "--", "bun", FAILING, "list")
    expect([failed.code, failed.stderr]).toEqual([69, expect.stringContaining("svc undid the change")])
    expect(readIfThere(join(folder, "mcp.json"))).toBe(before)
    expect((await svc("uninstall", "new")).code).toBe(64)
    expect((await svc("uninstall", "new", "--yes")).stdout).toStartWith("uninstalled new; backup: ")
    expect(file()).toEqual({})
    const again = await svc("uninstall", "new", "--yes")
    expect([again.code, again.stderr]).toEqual([64, "svc: no server is named new; there are none yet\n"])
  }, 30_000)
})

/** Returns the documents without the pins of tools, which svc writes a moment after a server has listed. */
const settings = (folder: string) =>
  Object.fromEntries(
    Object.entries(documents(folder)).filter(([path]) => !/\/tool(?:s|-definitions)\.json$/.test(path)),
  )
