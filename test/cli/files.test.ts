/** The commands that read and change files, without a running svc. */
import { expect, test } from "bun:test"
import { mkdirSync, readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { freshFolder, readIfThere } from "../e2e/harness.ts"
import { commandsIn, runCommand } from "../run-command.ts"

const ECHO = join(import.meta.dir, "../fixtures/echo.ts")
const json = async (run: Promise<{ readonly stdout: string }>) => JSON.parse((await run).stdout)

test("servers are added, changed and removed without an instance", async () => {
  const folder = freshFolder()
  const svc = commandsIn(folder)
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
  expect((await svc("mcp", "remove", "two")).stderr).toBe("svc: no server is named two; the only one is uno\n")
  expect((await json(svc("config", "backups", "--json"))).length).toBe(5)
  expect((await svc("config", "backups")).stdout).toMatch(
    /^BACKUP +WRITTEN +NEXT CHANGE\nmcp-\S+ {2}\d+ s ago +removed two\nmcp-\S+ {2}\d+ s ago +disabled two\n/,
  )
  expect((await svc("config", "restore")).stdout).toMatch(
    /^restored mcp-\S+\.json: added two; `svc config restore` undoes this/,
  )
  expect(await json(svc("mcp", "list", "--json"))).toMatchObject([{ name: "uno" }, { name: "two" }])
  expect((await svc("config", "restore")).stdout).toMatch(/^restored mcp-\S+\.json: removed two;/)
  expect(await json(svc("mcp", "list", "--json"))).toMatchObject([{ name: "uno" }])
  expect((await svc("mcp", "restart", "uno")).code).toBe(69)
})

test("config restore shows the change at a terminal, without secrets, and asks [cli:config:restore]", async () => {
  const folder = freshFolder()
  const svc = commandsIn(folder)
  const file = join(folder, "mcp.json")
  expect((await svc("mcp", "add", "one", "-e", "API_KEY=oldsecret", "--", "x")).code).toBe(0)
  expect((await svc("mcp", "edit", "one", "-e", "API_KEY=newsecret", "-e", "MODE=fast")).code).toBe(0)
  const edited = readIfThere(file)
  const { stderr: shown, code } = await commandsIn(folder, { answers: ["n"] })("config", "restore")
  expect([code, readIfThere(file)]).toEqual([0, edited])
  expect(shown).toContain('"MODE": "fast"')
  expect(shown).not.toMatch(/oldsecret|newsecret/)
  expect((await commandsIn(folder, { answers: ["y"] })("config", "restore")).stdout).toContain("restored mcp-")
  expect(readIfThere(file)).toContain("oldsecret")
  expect((await commandsIn(folder, { answers: [] })("config", "restore", "--yes")).stderr).not.toContain("[y/N]")
})

test("config check reports each issue with file, line and column, and exits with 78", async () => {
  const folder = freshFolder()
  mkdirSync(folder, { recursive: true })
  writeFileSync(
    join(folder, "mcp.json"),
    '{\n  "mcpServers": {\n    "a": { "command": 1 },\n    "b": { "command": "x", "env": { "K": "$NOWHERE" } }\n  },\n  "extra": 1\n}',
  )
  const { code, stdout } = await commandsIn(folder)("config", "check")
  expect(code).toBe(78)
  for (const part of [
    "mcp.json:3:12: ",
    "mcp.json:4:5: b is not loaded: env.K refers to NOWHERE",
    'mcp.json:6:3: unknown key "extra"',
  ])
    expect(stdout).toContain(part)
})

test("config check --strict fails for a misspelled key, and not for a limit of clients [cli:check:strict]", async () => {
  const folder = freshFolder()
  const check = (server: object, ...flags: string[]) => {
    writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { a: { command: "x", ...server } } }))
    return commandsIn(folder)("config", "check", ...flags)
  }
  expect(await check({ comand: "y" })).toMatchObject({ code: 0, stdout: expect.stringContaining("(warning)") })
  expect(await check({ comand: "y" }, "--strict")).toMatchObject({ code: 78 })
  const long = { toolDescriptionOverrides: { echo: "x".repeat(3000) } }
  expect(await check(long, "--strict")).toMatchObject({ code: 0, stdout: expect.stringContaining("(warning)") })
})

test("config check finds everything that a start would find, also in templates, presets and .env", async () => {
  const folder = freshFolder()
  const check = () => commandsIn(folder)("config", "check")
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
  const svc = commandsIn(folder)
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
    const { servers } = await json(commandsIn(folder)("mcp", "status", "a", "--verbose", "--json", ...flags))
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
    const { stdout } = await commandsIn(folder, { env: { COLUMNS: "70" } })("mcp", ...command)
    expect(stdout).toMatch(
      new RegExp(
        `^  args +\\[-y, a-package, +${origin}\n +/home/someone/projects/first,\n +/home/someone/second\\]$`,
        "m",
      ),
    )
    expect(stdout).toMatch(/^ {2}connectionTimeout {2}300000 +built-in$/m)
  }
})

test("health says that an address is not svc", async () => {
  using other = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => Response.json({ fine: true }) })
  const { code, stderr, stdout } = await commandsIn(freshFolder())("health", "--url", `http://127.0.0.1:${other.port}`)
  expect([code, stderr, stdout]).toEqual([69, expect.stringContaining("is not svc: it answered 200"), ""])
})

test("logs are selected by number, level and text, and are those of one configuration [cli:logs]", async () => {
  const folder = freshFolder()
  const line = (second: number, level: string, text: string) =>
    `2026-01-01T00:00:0${second}.000Z ${level.padEnd(5)} ${text}\n`
  const [first, second, third] = [line(1, "info", "hello"), line(2, "warn", "Timeout of a"), line(3, "error", "boom")]
  mkdirSync(join(folder, "logs"))
  writeFileSync(join(folder, "logs", "a.log"), first + second + third)
  const svc = commandsIn(folder)
  for (const flag of ["-n", "--tail", "--lines"])
    expect((await svc("logs", "a", flag, "2")).stdout).toBe(second + third)
  expect((await svc("logs", "a", "--level", "warn")).stdout).toBe(second + third)
  expect((await svc("logs", "a", "--grep", "timeout")).stdout).toBe(second)
  expect((await svc("logs", "--grep", "boom")).stdout).toBe(line(3, "error", "a: boom"))
  const other = join(folder, "other.json")
  writeFileSync(other, "{}")
  expect((await svc("logs", "--config", other)).stdout).toBe("")
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
  const svc = commandsIn(folder)
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
  const own = join(folder, "own")
  const svc = commandsIn(own, { home: folder })
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

  const asked = commandsIn(own, { home: folder, answers: ["n"] })
  const { stderr: shown, code } = await asked("config", "import", "--project")
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

test("a tool of a server that svc never saw is hidden with a warning [tools:zero]", async () => {
  const folder = freshFolder()
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { one: { command: "bun", args: [ECHO] } } }))
  const { code, stderr } = await commandsIn(folder)("mcp", "tools", "disable", "one", "echo")
  expect([code, stderr]).toEqual([
    0,
    "warning: the tools of one are not known, so svc cannot tell whether echo is the last one that it offers\n",
  ])
})

test("config import imports servers of other applications and overwrites none", async () => {
  const folder = freshFolder()
  const svc = commandsIn(folder)
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
  const { code, stderr } = await commandsIn(folder)("auth", "login", "web", "--no-browser")
  expect([code, stderr]).toEqual([64, expect.stringContaining("http://[REDACTED].test/")])
})

test("a file that --config names must exist, unless serve may create it [cli:config:missing]", async () => {
  const home = freshFolder()
  const svc = (words: readonly string[]) => runCommand(words, { home })
  const folder = freshFolder()
  const file = join(folder, "deep", "mpc.json")
  for (const line of ["serve --port 0", "health --wait 5s", "mcp list", "mcp remove a", "proxy", "config check"]) {
    const { code, stderr, stdout } = await svc([...line.split(" "), "--config", file])
    expect([line, code, stdout, stderr]).toEqual([
      line,
      78,
      "",
      `svc: ${file} does not exist; check --config, or create it with \`svc serve --init --config FILE\`\n`,
    ])
  }
  expect(readdirSync(folder)).toEqual([])
  expect(await svc(["config", "path", "--config", file])).toMatchObject({ code: 0, stdout: `${file}\n` })
})

test("a failure under --json is an object on stdout, with the exit code of the failure [cli:json]", async () => {
  const svc = commandsIn(freshFolder())
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

test("a template is shown as it is rendered for a project, without secrets", async () => {
  const [folder, project] = [freshFolder(), freshFolder({ ".git/HEAD": "ref: refs/heads/main\n" })]
  const args = ["{{project.path}}", "{{project.git.branch}}", "{{user.username}}"]
  const fs = { command: "x", args, env: { API_KEY: "${TOKEN}" } }
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpTemplates: { fs } }))
  const svc = commandsIn(folder, { env: { TOKEN: "hunter2-secret" } })
  const run = (...words: string[]) => svc("mcp", "render", ...words)
  const { stdout, code } = await run("fs", "--project", project)
  expect(code).toBe(0)
  const [, user = ""] = new RegExp(`\\[${project}, main, (\\S+)\\]`).exec(stdout) ?? []
  expect(user).not.toBe("")
  expect(stdout).not.toContain("hunter2")
  expect((await run("fs", "--project", project, "--show-secrets")).stdout).toContain("hunter2-secret")
  expect((await run("fss")).stderr).toContain("did you mean fs?")
  const outside = await run("fs", "--project", folder)
  expect([outside.code, outside.stdout]).toEqual([0, expect.stringContaining(`, , ${user}]`)])
  const client = { command: "x", args: ["{{transport.client.name}}", "{{transport.client.version}}"] }
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpTemplates: { client } }))
  expect((await run("client", "--client", "@scope/app@1.2.3")).stdout).toContain("[@scope/app, 1.2.3]")
  expect((await run("client", "--client", "app")).stdout).toContain("[app, ]")
})

test("without a running svc, the commands say how to start it", async () => {
  const folder = freshFolder()
  const svc = commandsIn(folder)
  for (const line of [["inspect"], ["search", "x"], ["instructions"], ["run", "a/b"]])
    expect(await svc(...line)).toMatchObject({
      code: 69,
      stderr: expect.stringContaining("start it with `svc serve`"),
    })
  const file = join(folder, "other.json")
  writeFileSync(file, "{}")
  const { stderr } = await svc("tokens", "--config", file)
  expect(stderr).toContain(`start it with \`svc serve --config ${file}\``)
})

test("a script is printed for four shells, and the right names for any other [cli:completion]", async () => {
  const wrong = await runCommand(["completion", "fsh"], { home: freshFolder() })
  expect([wrong.code, wrong.stderr]).toEqual([
    64,
    "svc: there is no completion for fsh; the shells are bash, zsh, fish, powershell\n",
  ])
})
