/** `svc connect` and `svc disconnect` on the files of several clients, without a running svc. */
import { expect, test } from "bun:test"
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { parseDocument } from "../../src/config/document.ts"
import type { Params } from "../../src/wire/message.ts"
import { freePort, readIfThere } from "../e2e/harness.ts"
import { CURSOR, clientHome } from "../fixtures/client-home.ts"
import { commandsIn } from "../run-command.ts"

test("a file that belongs to both the user and the project is listed once [cli:table]", async () => {
  const folder = clientHome({ ".cursor/mcp.json": CURSOR })
  const { stdout } = await commandsIn(folder, { env: { COLUMNS: "80" } })("connect", "--list")
  expect(stdout.match(/^cursor .* ~\/\.cursor\/mcp\.json$/gm)?.length).toBe(1)
  for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80)
})

test("the change of a file on one long line is shown formatted, and written on one line [connect:shown]", async () => {
  const line = JSON.stringify({
    history: ["x".repeat(300)],
    mcpServers: { other: { url: "https://other.example/mcp" } },
  })
  const folder = clientHome({ ".cursor/mcp.json": line })
  const { stdout } = await commandsIn(folder)("connect", "cursor", "--dry-run", "--url", "http://127.0.0.1:1/mcp")
  const changed = stdout.split("\n").filter((one) => /^[-+]/.test(one))
  expect(changed).toContain('+       "url": "http://127.0.0.1:1/mcp"')
  expect(changed.join("\n")).not.toContain("history")
  expect(readFileSync(join(folder, ".cursor/mcp.json"), "utf8")).toBe(line)
})

test("connect shows the change, writes it with a backup, and undoes it byte for byte [connect:shown] [connect:undo] [connect:replace]", async () => {
  const folder = clientHome({ ".cursor/mcp.json": CURSOR })
  const file = join(folder, ".cursor/mcp.json")
  const svc = commandsIn(folder)
  const dry = await svc("connect", "cursor", "--no-stdio", "--replace", "--dry-run")
  expect(dry.stdout).toContain('+     "svc": {')
  expect(dry.stdout).toContain('-     "files"')
  expect(dry.stdout).not.toContain("abcdef123456")
  expect(await svc("connect", "cursor", "--no-stdio", "--replace")).toMatchObject({
    code: 64,
    stderr: "svc: no terminal to ask for confirmation; add --yes, or --dry-run to see the change\n",
  })
  expect(readFileSync(file, "utf8")).toBe(CURSOR)
  const { stderr: shown } = await commandsIn(folder, { answers: ["n"] })("connect", "cursor")
  expect(shown).toContain("connect Cursor to svc? [y/N]")
  expect(readFileSync(file, "utf8")).toBe(CURSOR)
  chmodSync(file, 0o640)
  const done = await svc("connect", "cursor", "--no-stdio", "--replace", "--yes", "--json")
  expect(JSON.parse(done.stdout)).toMatchObject({
    client: "cursor",
    scope: "user",
    file,
    name: "svc",
    url: "http://127.0.0.1:3050/mcp",
    replaced: ["files"],
    changed: true,
  })
  expect(readFileSync(JSON.parse(done.stdout).backup, "utf8")).toBe(CURSOR)
  const written = readFileSync(file, "utf8")
  // The change is shown from the present file to the final one, without the steps between them.
  const shownLines = (mark: string) =>
    dry.stdout.split("\n").flatMap((line) => (line.startsWith(`${mark} `) ? [line.slice(2)] : []))
  const masked = (text: string) => text.replace("abcdef123456", "[REDACTED]").split("\n")
  const without = (text: string, other: string) => masked(text).filter((line) => !masked(other).includes(line))
  expect(shownLines("-")).toEqual(without(CURSOR, written))
  expect(shownLines("+")).toEqual(without(written, CURSOR))
  expect(dry.stdout.match(/^@@/gm)).toHaveLength(1)
  expect(written).toContain("// mine")
  expect(written).toContain('"other": { "command": "npx", "args": ["-y", "other"] },')
  expect(written).not.toContain("files")
  expect(statSync(file).mode & 0o777).toBe(0o640)
  expect((await svc("connect", "cursor", "--no-stdio", "--yes")).stdout).toContain("is already connected")
  expect((await svc("connect", "--list")).stdout).toMatch(/cursor +connected +user/)
  expect((await svc("connect", "cursor", "--undo", "--yes")).code).toBe(0)
  expect(readFileSync(file, "utf8")).toBe(CURSOR)
  expect((await svc("connect", "cursor", "--undo", "--yes")).stderr).toContain("svc has made no change of")
})

test("an undo keeps later edits elsewhere, and refuses where svc wrote [connect:undo]", async () => {
  const folder = clientHome({ ".cursor/mcp.json": CURSOR })
  const file = join(folder, ".cursor/mcp.json")
  const svc = commandsIn(folder)
  await svc("connect", "cursor", "--no-stdio", "--replace", "--yes")
  const edited = readFileSync(file, "utf8").replace('"other":', '"renamed":')
  writeFileSync(file, edited.replace("/mcp", "/mcp?preset=mine"))
  expect(await svc("connect", "cursor", "--undo", "--yes")).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("mcpServers.svc in "),
  })
  writeFileSync(file, edited)
  expect((await svc("connect", "cursor", "--undo", "--yes")).code).toBe(0)
  const after = readFileSync(file, "utf8")
  expect(after).toContain("renamed")
  expect(after).toContain('"files"')
  expect(after).not.toContain("svc")
})

test("an undo brings back the servers of a client whose entry for svc was removed by hand [connect:undo]", async () => {
  const folder = clientHome({ ".cursor/mcp.json": CURSOR })
  const file = join(folder, ".cursor/mcp.json")
  const svc = commandsIn(folder)
  await svc("connect", "cursor", "--replace", "--yes")
  const { svc: _, ...others } = parseDocument(readFileSync(file, "utf8"), file).value.mcpServers as Params
  writeFileSync(file, JSON.stringify({ mcpServers: others }))
  expect((await svc("connect", "cursor", "--undo", "--yes")).code).toBe(0)
  const { mcpServers } = parseDocument(readFileSync(file, "utf8"), file).value as { mcpServers: Params }
  expect(Object.keys(mcpServers).sort()).toEqual(["files", "other"])
})

test("an undo brings back the entry that svc replaced, after an edited one was removed by hand [connect:undo]", async () => {
  const original = '{ "mcpServers": { "svc": { "command": "svc", "args": ["proxy", "--preset", "old"] } } }'
  const folder = clientHome({ ".cursor/mcp.json": original })
  const file = join(folder, ".cursor/mcp.json")
  const svc = commandsIn(folder)
  await svc("connect", "cursor", "--no-stdio", "--yes")
  writeFileSync(file, readFileSync(file, "utf8").replace("/mcp", "/mcp?preset=mine"))
  expect((await svc("connect", "cursor", "--undo", "--yes")).stderr).toContain(
    "remove it from the file, and undo again",
  )
  writeFileSync(file, '{ "mcpServers": {} }')
  expect((await svc("connect", "cursor", "--undo", "--yes")).code).toBe(0)
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(JSON.parse(original))
})

test("svc's entry comes beside the servers of OpenCode 2, which are in a section of their own [connect:replace]", async () => {
  const file = ".config/opencode/opencode.json"
  const local = (name: string) => ({
    type: "local",
    command: ["npx", "-y", name],
    environment: { API_KEY: "abcdef123456" },
  })
  const folder = clientHome({ [file]: JSON.stringify({ mcp: { servers: { fs: local("fs"), own: local("own") } } }) })
  expect((await commandsIn(folder)("connect", "opencode", "--replace", "--yes")).code).toBe(0)
  const { mcp } = JSON.parse(readFileSync(join(folder, file), "utf8"))
  expect([Object.keys(mcp), Object.keys(mcp.servers)]).toEqual([["servers"], ["own", "svc"]])
})

test("an undo brings back a file in UTF-16 byte for byte [connect:undo]", async () => {
  const folder = clientHome({ ".cursor/mcp.json": CURSOR })
  const [path, svc] = [join(folder, ".cursor/mcp.json"), commandsIn(folder)]
  const original = Buffer.from(`\uFEFF${JSON.stringify({ mcpServers: { a: { command: "a" } } }, null, 2)}`, "utf16le")
  writeFileSync(path, original)
  expect((await svc("connect", "cursor", "--yes")).code).toBe(0)
  const undone = await svc("connect", "cursor", "--undo", "--yes")
  expect([undone.code, undone.stderr]).toEqual([0, expect.stringContaining('-     "svc": {')])
  expect(readFileSync(path).equals(original)).toBe(true)
})

test("an undo brings servers back in their order, also after the client has written its file anew [connect:undo]", async () => {
  const own = Object.fromEntries(["one", "two", "three"].map((name) => [name, { command: `${name}-mcp` }]))
  const folder = clientHome({
    "mcp.json": JSON.stringify({ mcpServers: own }),
    ".cursor/mcp.json": JSON.stringify({ mcpServers: own }),
  })
  const [file, svc] = [join(folder, ".cursor/mcp.json"), commandsIn(folder)]
  expect((await svc("connect", "cursor", "--replace", "--yes")).code).toBe(0)
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), theme: "dark" }, null, 2))
  const { stdout } = await svc("connect", "cursor", "--undo", "--yes", "--json")
  expect(JSON.parse(stdout)).toMatchObject({
    changed: true,
    notes: [expect.stringContaining("without their comments")],
  })
  expect(JSON.stringify(JSON.parse(readFileSync(file, "utf8")))).toBe(
    JSON.stringify({ mcpServers: own, theme: "dark" }),
  )
})

test("a file that did not exist is created for its user alone, and removed by the undo; a link stays one [connect:undo]", async () => {
  const folder = clientHome({ "dotfiles/settings.json": "{}\n" })
  mkdirSync(join(folder, ".gemini"))
  symlinkSync(join(folder, "dotfiles/settings.json"), join(folder, ".gemini/settings.json"))
  const svc = commandsIn(folder)
  const connected = await svc("connect", "windsurf", "--no-stdio", "--yes")
  expect([connected.code, connected.stderr]).toEqual([
    0,
    expect.stringContaining("\nsvc is not running, so the client"),
  ])
  const file = join(folder, ".codeium/windsurf/mcp_config.json")
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({
    mcpServers: { svc: { serverUrl: "http://127.0.0.1:3050/mcp" } },
  })
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect((await svc("connect", "windsurf", "--undo", "--yes")).code).toBe(0)
  expect(readIfThere(file)).toBeUndefined()
  expect((await svc("connect", "gemini", "--no-stdio", "--yes")).code).toBe(0)
  expect(lstatSync(join(folder, ".gemini/settings.json")).isSymbolicLink()).toBe(true)
  expect(readFileSync(join(folder, "dotfiles/settings.json"), "utf8")).toContain('"type": "http"')
  mkdirSync(join(folder, ".cursor"))
  symlinkSync("../gone/cursor.json", join(folder, ".cursor/mcp.json"))
  const [link, target] = [join(folder, ".cursor/mcp.json"), join(folder, "gone/cursor.json")]
  expect((await svc("connect", "cursor", "--yes")).code).toBe(0)
  expect([lstatSync(link).isSymbolicLink(), readFileSync(target, "utf8").includes("svc")]).toEqual([true, true])
  expect((await svc("connect", "cursor", "--undo", "--yes")).code).toBe(0)
  expect([lstatSync(link).isSymbolicLink(), readIfThere(target)]).toEqual([true, undefined])
})

test("a link of a project is named with its target, in the question and in the answers [connect:link]", async () => {
  const folder = clientHome({
    "outside/other.json": "{}\n",
    "project/.vscode/note": "",
    "project/inner/real.json": "{}\n",
  })
  const project = join(folder, "project")
  const target = join(folder, "outside/other.json")
  const svc = commandsIn(folder, { cwd: project })
  const connect = (client: string, ...args: string[]) =>
    svc("connect", client, "--scope", "project", "--url", "http://127.0.0.1:1/mcp", ...args)
  symlinkSync("../outside/other.json", join(project, ".mcp.json"))
  const shown = `${join(project, ".mcp.json")}, a link to ${target} outside of the project`
  expect((await connect("claude-code", "--dry-run")).stdout).toStartWith(`${shown}\n`)
  expect(readFileSync(target, "utf8")).toBe("{}\n")
  const connected = await connect("claude-code", "--yes")
  expect([connected.code, connected.stderr.startsWith(`${shown}\n`)]).toEqual([0, true])
  expect(connected.stdout).toContain(`svc in ${shown}\n`)
  const again = JSON.parse((await connect("claude-code", "--yes", "--json")).stdout)
  expect([again.file, again.target]).toEqual([join(project, ".mcp.json"), target])
  expect((await svc("connect", "claude-code", "--scope", "project", "--undo", "--yes")).stdout).toContain(
    `restored ${shown}`,
  )
  // A folder may be the link, and the file need not exist.
  symlinkSync("../outside", join(project, ".cursor"))
  const beside = join(folder, "outside/mcp.json")
  expect((await connect("cursor", "--yes")).stdout).toContain(`, a link to ${beside} outside of the project`)
  expect(existsSync(beside)).toBe(true)
  // Within the project, and for a file of the user, the target is named too; a file that is no link is not.
  symlinkSync("../inner/real.json", join(project, ".vscode/mcp.json"))
  expect((await connect("vscode", "--dry-run")).stdout).toContain(`, a link to ${join(project, "inner/real.json")}\n`)
  mkdirSync(join(folder, ".gemini"))
  symlinkSync("../outside/other.json", join(folder, ".gemini/settings.json"))
  const user = ["--url", "http://127.0.0.1:1/mcp", "--dry-run"]
  expect((await svc("connect", "gemini", ...user)).stdout).toContain(`settings.json, a link to ${target}\n`)
  expect((await svc("connect", "windsurf", ...user)).stdout).not.toContain("a link to")
})

test.skipIf(process.platform === "win32")(
  "a device or a pipe in place of a client's file is not opened [files:regular]",
  async () => {
    const folder = clientHome({ ".cursor/mcp.json": CURSOR })
    const project = join(folder, "project")
    mkdirSync(join(project, ".vscode"), { recursive: true })
    mkdirSync(join(project, ".gemini"))
    symlinkSync("/dev/zero", join(project, ".mcp.json"))
    Bun.spawnSync(["mkfifo", join(project, ".vscode/mcp.json"), join(folder, "named")])
    symlinkSync(project, join(project, ".gemini/settings.json"))
    const svc = commandsIn(folder, { cwd: project })
    const listed = await svc("connect", "--list")
    expect([listed.code, listed.stdout.match(/^cursor /gm)?.length]).toEqual([0, 1])
    const imported = await svc("config", "import", "--project", "--yes", "--no-wait")
    for (const file of [".mcp.json", ".vscode/mcp.json"])
      expect(imported.stderr).toMatch(new RegExp(`${file}.*it is not a regular file`))
    expect(readFileSync(join(folder, "mcp.json"), "utf8")).toContain("other")
    for (const file of [join(project, ".mcp.json"), join(folder, "named")]) {
      const { code, stderr } = await svc("config", "import", file, "--yes", "--no-wait")
      expect([code === 0, stderr]).toEqual([false, expect.stringContaining("it is not a regular file")])
    }
    for (const client of ["claude-code", "vscode"]) {
      const { code, stderr } = await svc("connect", client, "--scope", "project", "--yes")
      expect([client, code === 0, stderr]).toEqual([client, false, expect.stringContaining("it is not a regular file")])
    }
    expect((await svc("doctor")).stderr).not.toContain("internal error")
  },
)

test("no undo writes a backup that was changed since, cut off or replaced over a client's file [connect:undo]", async () => {
  for (const change of ["", "\n", "{}", '{"mcpServers":{"other":{"command":"x"}}}', undefined]) {
    const folder = clientHome({ ".cursor/mcp.json": CURSOR })
    const [file, svc] = [join(folder, ".cursor/mcp.json"), commandsIn(folder)]
    const done = await svc("connect", "cursor", "--replace", "--yes", "--json")
    const { backup } = JSON.parse(done.stdout)
    const connected = readFileSync(file, "utf8")
    rmSync(backup)
    if (change === undefined) mkdirSync(backup)
    else writeFileSync(backup, change)
    const undone = await svc("connect", "cursor", "--undo", "--yes")
    expect([undone.code, readFileSync(file, "utf8")]).toEqual([64, connected])
    expect(undone.stderr).toContain(`the backup ${backup} cannot be read, or has been changed`)
    rmSync(backup, { recursive: true })
    writeFileSync(backup, CURSOR)
    expect((await svc("connect", "cursor", "--undo", "--yes")).code).toBe(0)
    expect(readFileSync(file, "utf8")).toBe(CURSOR)
  }
})

test("an entry for an svc that is gone is replaced or removed, and is no server to import [connect:gone]", async () => {
  const url = `http://127.0.0.1:${await freePort()}/mcp`
  const files = { ".cursor/mcp.json": JSON.stringify({ mcpServers: { svc: { url } } }) }
  const svc = commandsIn(clientHome(files))
  const found = JSON.parse((await svc("doctor", "--json")).stdout).findings as Params[]
  expect(found.find(({ check }) => check === "clients")?.fix).toContain("`svc connect cursor`")
  expect((await svc("config", "import", "--dry-run")).stdout).toMatch(
    /svc .* skipped: it is an entry for svc, and nothing listens there/,
  )
  const { stdout } = await svc("connect", "cursor", "--stdio", "--yes", "--json")
  expect(JSON.parse(stdout)).toMatchObject({ name: "svc", changed: true })
  const { stdout: removed } = await commandsIn(clientHome(files))("disconnect", "cursor", "--yes")
  expect(removed).toContain("disconnected Cursor")
  // Something listens there, so it may be another server.
  using other = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("", { status: 404 }) })
  const taken = { ".cursor/mcp.json": JSON.stringify({ mcpServers: { svc: { url: `${other.url}mcp` } } }) }
  const { stderr } = await commandsIn(clientHome(taken))("connect", "cursor", "--stdio", "--yes")
  expect(stderr).toContain("has another server named svc")
})

test("connect keeps the name of the entry that works beside one for an svc that is gone [connect:gone]", async () => {
  const dead = { url: `http://127.0.0.1:${await freePort()}/mcp` }
  const mcpServers = { svc: dead, hub: { command: "svc", args: ["proxy"] } }
  const folder = clientHome({ ".cursor/mcp.json": JSON.stringify({ mcpServers }) })
  const { stdout } = await commandsIn(folder)("connect", "cursor", "--stdio", "--yes", "--json")
  expect(JSON.parse(stdout).name).toBe("hub")
  expect(JSON.parse(readFileSync(join(folder, ".cursor/mcp.json"), "utf8")).mcpServers.svc).toEqual(dead)
})

test.each(["/api/mcp", "/mcp"])(
  "a stopped server of the person named svc stays, at %s [connect:gone]",
  async (path) => {
    const httpUrl = `http://127.0.0.1:${await freePort()}${path}`
    const file = ".gemini/settings.json"
    const mine = JSON.stringify({ mcpServers: { svc: { httpUrl, headers: path === "/mcp" ? { "X-Key": "k" } : {} } } })
    const folder = clientHome({ [file]: mine })
    const svc = commandsIn(folder)
    expect((await svc("disconnect", "gemini", "--yes")).stdout).toContain("is not connected to svc")
    expect((await svc("connect", "gemini", "--stdio", "--yes")).stderr).toContain("has another server named svc")
    expect((await svc("config", "import", "--dry-run")).stdout).not.toContain("skipped")
    expect(JSON.parse((await svc("doctor", "--json")).stdout).findings).not.toContainEqual(
      expect.objectContaining({ check: "clients" }),
    )
    expect(readFileSync(join(folder, file), "utf8")).toBe(mine)
  },
)

test("a client's file that is malformed, or has another server with the name, is not changed [connect:untouched]", async () => {
  const folder = clientHome({
    ".cursor/mcp.json": '{\n  "mcpServers": {,\n}',
    ".codex/config.toml": "[mcp_servers.svc]\ncommand = 'x'\n",
    ".config/opencode/opencode.json": '{"mcp":[{"mine":1}]}',
  })
  const svc = commandsIn(folder)
  const malformed = await svc("connect", "cursor", "--yes")
  expect(malformed).toMatchObject({ code: 78, stderr: expect.stringContaining("mcp.json:2:18: not valid JSON") })
  expect(readIfThere(join(folder, ".cursor/mcp.json"))).toBe('{\n  "mcpServers": {,\n}')
  expect((await svc("connect", "codex", "--yes")).stderr).toContain("has another server named svc; choose another name")
  expect((await svc("connect", "codex", "--no-stdio", "--name", "gateway", "--yes")).code).toBe(0)
  expect(readIfThere(join(folder, ".codex/config.toml"))).toBe(
    `[mcp_servers.svc]\ncommand = 'x'\n\n[mcp_servers.gateway]\nurl = "http://127.0.0.1:3050/mcp"\n`,
  )
  expect(await svc("connect", "opencode", "--yes")).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("opencode.json: mcp must be an object with a member for each server"),
  })
  expect(readIfThere(join(folder, ".config/opencode/opencode.json"))).toBe('{"mcp":[{"mine":1}]}')
  expect((await svc("connect", "cursed")).stderr).toContain("did you mean cursor?")
  expect((await svc("connect", "windsurf", "--scope", "project")).stderr).toContain("has no file for a project")
})

test("svc uses the client's own command if nothing can be lost, and checks the file to see whether it worked [connect:own-command]", async () => {
  const folder = clientHome({ "bin/codex": '#!/bin/sh\nmkdir -p "$HOME/.codex"\necho "$@" >>"$HOME/ran"\n' })
  chmodSync(join(folder, "bin/codex"), 0o755)
  const svc = commandsIn(folder, { env: { PATH: `${join(folder, "bin")}:${process.env.PATH}` } })
  // This one succeeds without writing anything.
  expect((await svc("connect", "codex", "--no-stdio", "--yes")).code).toBe(0)
  const file = join(folder, ".codex/config.toml")
  expect(readIfThere(join(folder, "ran"))).toBe("mcp add svc --url http://127.0.0.1:3050/mcp\n")
  expect(readIfThere(file)).toBe('[mcp_servers.svc]\nurl = "http://127.0.0.1:3050/mcp"\n')
  await svc("disconnect", "codex", "--yes")
  writeFileSync(file, "# comments that the command would drop\n")
  await svc("connect", "codex", "--no-stdio", "--yes")
  expect(readIfThere(join(folder, "ran"))).toBe("mcp add svc --url http://127.0.0.1:3050/mcp\n")
  expect(readIfThere(file)).toStartWith("# comments that the command would drop\n")
})

test("svc is in the lists of the servers that Gemini CLI starts while it is connected [connect:lists]", async () => {
  const file = ".gemini/settings.json"
  const written = (allowed: string, excluded: string) =>
    `{\n  "mcp": { "allowed": [${allowed}], "excluded": [${excluded}] }, // mine\n  "mcpServers": { "a": { "command": "x" } }\n}\n`
  const folder = clientHome({ [file]: written('"a"', '"b", "svc"') })
  const svc = commandsIn(folder)
  const now = () => readFileSync(join(folder, file), "utf8")
  await svc("connect", "gemini", "--yes")
  expect(parseDocument(now(), "a").value.mcp).toEqual({ allowed: ["a", "svc"], excluded: ["b"] })
  expect((await svc("connect", "gemini", "--yes")).stdout).toContain("already connected")
  await svc("disconnect", "gemini", "--yes")
  expect(now()).toBe(written('"a"', '"b"'))
  for (const _ of [1, 2]) await svc("connect", "gemini", "--undo", "--yes")
  expect(now()).toBe(written('"a"', '"b", "svc"'))
})

test.each([
  ["disconnect", { allowed: ["svc", "github"] }, { allowed: ["github"] }],
  ["connect", { excluded: ["svc", "other"] }, { excluded: ["other"] }],
])(
  "the undo of `svc %s` beside later edits keeps the other servers of a list [connect:lists] [connect:undo]",
  async (word, mcp, changed) => {
    const lists = (value: object) => JSON.stringify(value).replaceAll(",", ", ")
    const written = (theme: string) =>
      `{\n  "theme": "${theme}",\n  "mcp": ${lists(mcp)}, // mine\n  "mcpServers": {\n    "svc": { "command": "svc", "args": ["proxy"] }\n  }\n}\n`
    const file = ".gemini/settings.json"
    const folder = clientHome({ [file]: written("light") })
    const svc = commandsIn(folder)
    const now = () => readFileSync(join(folder, file), "utf8")
    await svc(word, "gemini", "--yes")
    expect(now()).toContain(`"mcp": ${lists(changed)}, // mine`)
    writeFileSync(join(folder, file), now().replace("light", "dark"))
    expect((await svc("connect", "gemini", "--undo", "--yes")).code).toBe(0)
    expect(now()).toBe(written("dark"))
  },
)

test("an undo refuses a list that was edited since [connect:lists] [connect:undo]", async () => {
  const file = ".gemini/settings.json"
  const folder = clientHome({
    [file]: '{ "mcp": { "allowed": ["svc", "a"] }, "mcpServers": { "svc": { "command": "svc", "args": ["proxy"] } } }',
  })
  const svc = commandsIn(folder)
  await svc("disconnect", "gemini", "--yes")
  const edited = readFileSync(join(folder, file), "utf8").replace('"a"', '"a", "b"')
  writeFileSync(join(folder, file), edited)
  const { stderr } = await svc("connect", "gemini", "--undo", "--yes")
  expect([stderr, readFileSync(join(folder, file), "utf8")]).toEqual([
    expect.stringContaining("mcp.allowed in "),
    edited,
  ])
})

test("disconnect removes all entries for svc from a list, and their names [connect:lists]", async () => {
  const own = (name: string) => ({ name, command: "svc", args: ["proxy"] })
  const mine = { name: "mine", command: "x" }
  const mcp = { allowed: ["svc", "svc2", "mine"] }
  const file = ".gemini/settings.json"
  const folder = clientHome({ [file]: JSON.stringify({ mcp, mcpServers: [own("svc"), mine, own("svc2"), mine] }) })
  await commandsIn(folder)("disconnect", "gemini", "--yes")
  expect(JSON.parse(readFileSync(join(folder, file), "utf8"))).toEqual({
    mcp: { allowed: ["mine"] },
    mcpServers: [mine, mine],
  })
})

test("the list of clients has the presets of an entry as svc reads them [cli:table]", async () => {
  const svc = { command: "svc", args: ["proxy", "--preset", "q, p,"] }
  const folder = clientHome({ ".cursor/mcp.json": JSON.stringify({ mcpServers: { svc } }) })
  const listed: Params[] = JSON.parse((await commandsIn(folder)("connect", "--list", "--json")).stdout)
  expect(listed.find(({ client }) => client === "cursor")?.preset).toBe("q,p")
})
