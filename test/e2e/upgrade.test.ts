/** `svc upgrade` and `svc uninstall` of an installed binary, with releases of a file server on this machine. */
import { expect, test } from "bun:test"
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import { releaseFile } from "../../src/features/system/release-download.ts"
import { JSON_SHAPES } from "../json-shapes.ts"
import { runProgram } from "../process.ts"
import { freshEnv, freshFolder, SVC } from "./harness.ts"

const FILE = releaseFile(process.platform, process.arch, false)
const programOf = (version: string) => `#!/bin/sh\necho "${version} (abc)"\n`

/** An svc that is installed in a home of its own. */
function installSvc() {
  const home = realpathSync(freshFolder())
  const bin = join(home, ".local", "bin")
  mkdirSync(bin, { recursive: true })
  const program = join(bin, "svc")
  linkSync(SVC, program)
  const run = (...args: readonly string[]) => runProgram([program, ...args], { cwd: home, env: freshEnv(home) })
  return { home, bin, program, run }
}

/** Serves a release: `latest` at …/latest/download, others by their version. */
function serveReleases(programs: Readonly<Record<string, Uint8Array | string>>) {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      const [, version = "", file] =
        /^\/(?:latest\/download|download\/v([\d.]+))\/(.*)$/.exec(new URL(request.url).pathname) ?? []
      const program = programs[version === "" ? "latest" : version]
      if (program === undefined) return new Response("none", { status: 404 })
      if (file === FILE) return new Response(program)
      return new Response(`${new Bun.CryptoHasher("sha256").update(program).digest("hex")}  ${FILE}\n`)
    },
  })
  return { url: new URL("/latest/download", server.url).href, [Symbol.asyncDispose]: () => server.stop(true) }
}

test("a newer release is named by --check, and installed [cli:upgrade]", async () => {
  const { program, run } = installSvc()
  await using releases = serveReleases({ latest: programOf("99.0.0"), "0.0.1": programOf("0.0.1") })
  const from = ["--releases", releases.url]
  const check = await run("upgrade", "--check", ...from)
  expect([check.code, check.stdout]).toEqual([
    0,
    `another release of svc is available (this is ${manifest.version}); \`svc upgrade\` installs it\n`,
  ])
  expect(readFileSync(program).equals(readFileSync(SVC))).toBe(true)

  const done = await run("upgrade", ...from)
  expect([done.code, done.stdout]).toEqual([
    0,
    expect.stringContaining(`svc 99.0.0 is installed instead of ${manifest.version}`),
  ])
  expect(done.stderr).toContain("no key for releases: it checked the SHA-256, but no signature")
  expect(readFileSync(program, "utf8")).toBe(programOf("99.0.0"))
  expect(readFileSync(join(program, "..", "svc.previous")).equals(readFileSync(SVC))).toBe(true)
}, 30_000)

test("the same release and an older one are not installed, unless the version is named [cli:upgrade]", async () => {
  const { program, run } = installSvc()
  await using same = serveReleases({ latest: readFileSync(SVC) })
  const none = await run("upgrade", "--releases", same.url)
  expect([none.code, none.stdout]).toEqual([0, `svc ${manifest.version} is the latest release\n`])

  await using older = serveReleases({ latest: programOf("0.0.1"), "0.0.1": programOf("0.0.1") })
  const refused = await run("upgrade", "--releases", older.url)
  expect([refused.code, refused.stderr]).toEqual([69, expect.stringContaining("is 0.0.1; nothing was changed")])
  expect(existsSync(join(program, "..", "svc.previous"))).toBe(false)
  const wanted = await run("upgrade", "--version", "v0.0.1", "--releases", older.url, "--json")
  expect(JSON.parse(wanted.stdout)).toEqual({ from: manifest.version, to: "0.0.1" })
}, 30_000)

test("a rollback exchanges the program with the previous one [cli:upgrade]", async () => {
  const { bin, program, run } = installSvc()
  writeFileSync(join(bin, "svc.previous"), programOf("0.0.9"))
  chmodSync(join(bin, "svc.previous"), 0o755)
  const back = await run("upgrade", "--rollback")
  expect([back.code, back.stdout]).toEqual([0, `svc is 0.0.9 again, instead of ${manifest.version}\n`])
  expect(readFileSync(program, "utf8")).toBe(programOf("0.0.9"))
  expect(readFileSync(join(bin, "svc.previous")).equals(readFileSync(SVC))).toBe(true)

  const again = installSvc()
  writeFileSync(join(again.bin, "svc.previous"), programOf("99.0.0"))
  chmodSync(join(again.bin, "svc.previous"), 0o755)
  expect((await again.run("upgrade", "--rollback")).stdout).toContain("this has undone the last rollback")
}, 30_000)

test("an svc without a release URL, or from a package manager, says what to do [cli:upgrade]", async () => {
  const { home, run } = installSvc()
  const unknown = await run("upgrade")
  expect([unknown.code, unknown.stderr]).toEqual([69, expect.stringContaining("--releases")])
  const managed = join(home, "node_modules", "svc-linux-x64")
  mkdirSync(managed, { recursive: true })
  linkSync(SVC, join(managed, "svc"))
  for (const verb of ["upgrade", "uninstall"]) {
    const { exitCode, stderr } = Bun.spawnSync([join(managed, "svc"), verb], { env: freshEnv(home) })
    expect([exitCode, stderr.toString()]).toEqual([69, expect.stringContaining(`${verb} it with npm`)])
  }
})

test("svc uninstall shows what it removes, keeps the configuration, and moves it away with --purge [cli:uninstall]", async () => {
  const { home, bin, program, run } = installSvc()
  const config = join(home, ".config", "svc", "mcp.json")
  mkdirSync(join(config, ".."), { recursive: true })
  writeFileSync(config, "{}")
  const dry = await run("uninstall", "--dry-run")
  expect(dry.stdout).toBe(`remove ${program}\nkeep ${join(config, "..")}\n`)
  const planned = await run("uninstall", "--dry-run", "--json")
  expect(JSON_SHAPES.removal.parse(JSON.parse(planned.stdout))).toEqual({
    changed: false,
    removed: [program],
    restored: [],
    notRestored: [],
  })
  const unasked = await run("uninstall")
  expect([unasked.code, unasked.stderr]).toEqual([64, expect.stringContaining("add --yes")])
  const server = await run("uninstall", "memory")
  expect([server.code, server.stderr]).toEqual([64, expect.stringContaining("svc mcp uninstall memory")])

  await run("serve", "--background", "--port", "0")
  const running = await run("uninstall", "--yes")
  expect([running.code, running.stderr]).toEqual([69, expect.stringContaining("stop it with `svc stop`")])
  // A dry run changes nothing, so it shows what would be removed.
  const shown = await run("uninstall", "--dry-run")
  expect([shown.code, shown.stdout, shown.stderr]).toEqual([0, dry.stdout, running.stderr.replace("svc: ", "")])
  if (process.platform !== "win32") expect((await run("service", "install", "--dry-run")).stdout).toContain("serve")
  await run("stop")
  expect((await run("uninstall", "--yes")).code).toBe(0)
  expect([existsSync(program), existsSync(config)]).toEqual([false, true])

  linkSync(SVC, program)
  writeFileSync(join(bin, "svc.previous"), "")
  const purged = await run("uninstall", "--yes", "--purge", "--json")
  expect(purged.code).toBe(0)
  const { movedTo = "" } = JSON_SHAPES.removal.parse(JSON.parse(purged.stdout))
  expect(purged.stderr).toContain(`your configuration and backups are in ${movedTo}`)
  expect(existsSync(program) || existsSync(join(bin, "svc.previous")) || existsSync(join(config, ".."))).toBe(false)
  expect(readdirSync(movedTo)).toEqual(["mcp.json"])
}, 30_000)

const OWN = { github: { command: "gh-mcp" }, files: { command: "fs-mcp", args: ["~"] } }

/** A home in which svc serves the servers that two clients had. */
async function connectedHome() {
  const installed = installSvc()
  const { home, run } = installed
  const folder = join(home, ".config", "svc")
  const [cursor, gemini] = [join(home, ".cursor", "mcp.json"), join(home, ".gemini", "settings.json")]
  const text = `// mine\n${JSON.stringify({ mcpServers: OWN }, null, 1)}`
  for (const file of [cursor, gemini, join(folder, "mcp.json")]) {
    mkdirSync(join(file, ".."), { recursive: true })
    writeFileSync(file, file.startsWith(folder) ? JSON.stringify({ mcpServers: OWN }) : text)
  }
  writeFileSync(join(folder, ".env"), "KEY=1\n")
  for (const client of ["cursor", "gemini"])
    expect(await run("connect", client, "--no-stdio", "--replace", "--yes")).toMatchObject({ code: 0 })
  for (const file of [cursor, gemini]) expect(readFileSync(file, "utf8")).not.toContain("gh-mcp")
  return { ...installed, folder, cursor, gemini, text }
}

test("svc uninstall first gives the clients their own servers back, and --purge loses nothing [cli:uninstall:keeps]", async () => {
  const { home, folder, cursor, gemini, text, program, run } = await connectedHome()
  mkdirSync(join(folder, "logs"))
  writeFileSync(join(folder, "logs", "files.log"), "")
  writeFileSync(join(folder, "server.py"), "mine")
  const target = join(home, "cursor.json")
  renameSync(cursor, target)
  symlinkSync(target, cursor)
  const dry = await run("uninstall", "--purge", "--dry-run")
  for (const [file, title] of [
    [`${cursor}, a link to ${target}`, "Cursor"],
    [gemini, "Gemini CLI"],
  ] as const)
    expect(dry.stdout).toContain(`restore ${file} (${title}): without svc, with github, files again\n`)
  expect(readFileSync(cursor, "utf8")).toContain("svc")
  const done = await run("uninstall", "--purge", "--yes")
  expect([done.code, existsSync(folder), existsSync(program)]).toEqual([0, false, false])
  for (const file of [cursor, gemini]) expect(readFileSync(file, "utf8")).toBe(text)
  const place = /your configuration and backups are in (.*)/.exec(done.stderr)?.[1] ?? ""
  expect(place).toStartWith(join(home, "svc-backup-"))
  expect(readdirSync(place).sort()).toEqual([".env", "mcp.json", "server.py"])
  expect(statSync(place).mode & 0o777).toBe(0o700)
})

test("svc uninstall keeps the backup of a client's file that it cannot restore, and fails [cli:uninstall:keeps]", async () => {
  const { home, folder, cursor, gemini, text, run } = await connectedHome()
  const edited = readFileSync(cursor, "utf8").replace(/http:[^"]*/, "http://127.0.0.1:1/mcp")
  writeFileSync(cursor, edited)
  const done = await run("uninstall", "--purge", "--yes", "--json")
  expect([done.code, existsSync(folder)]).toEqual([69, false])
  expect([readFileSync(cursor, "utf8"), readFileSync(gemini, "utf8")]).toEqual([edited, text])
  const { restored, notRestored, movedTo = "" } = JSON_SHAPES.removal.parse(JSON.parse(done.stdout))
  expect([restored, notRestored.map(({ file }) => file)]).toEqual([[gemini], [cursor]])
  const [{ backup = "" } = {}] = notRestored
  expect(backup).toStartWith(join(home, "svc-backup-"))
  expect(readFileSync(backup, "utf8")).toBe(text)
  expect(done.stderr).toContain(`Cursor still refers to svc in ${cursor}, which cannot be restored: mcpServers.svc`)
  expect(readdirSync(movedTo).sort()).toEqual([".env", "backups", "connections.json", "mcp.json"])
})

test("svc uninstall leaves a client's file whose backup is damaged, and offers no damaged backup [cli:uninstall:keeps]", async () => {
  const { folder, cursor, gemini, text, run } = await connectedHome()
  const connected = readFileSync(cursor, "utf8")
  const backups = join(folder, "backups", "clients")
  for (const name of readdirSync(backups)) if (name.startsWith("cursor")) writeFileSync(join(backups, name), "")
  const done = await run("uninstall", "--yes")
  expect([done.code, readFileSync(cursor, "utf8"), readFileSync(gemini, "utf8")]).toEqual([69, connected, text])
  expect(done.stderr).toContain(`Cursor still refers to svc in ${cursor}, which cannot be restored: the backup`)
  expect(done.stderr).not.toContain("as it was before svc")
})

test("svc uninstall keeps the copy of a client's file that is gone, and the target of a linked directory [cli:uninstall:keeps]", async () => {
  const { home, folder, cursor, gemini, text, run } = await connectedHome()
  const target = join(home, "dotfiles")
  renameSync(folder, target)
  symlinkSync(target, folder)
  rmSync(cursor)
  const undone = await run("connect", "cursor", "--undo", "--yes")
  expect([undone.code, undone.stderr]).toEqual([64, expect.stringContaining(`${cursor} is gone`)])
  expect(undone.stderr).toContain(join(folder, "backups", "clients", "cursor-"))
  const shown = await run("uninstall", "--purge", "--dry-run")
  expect(shown.stdout).toContain(`remove ${folder}, which is a link: ${target} stays as it is`)
  const done = await run("uninstall", "--purge", "--yes")
  expect([done.code, existsSync(folder), readFileSync(gemini, "utf8")]).toEqual([0, false, text])
  expect(done.stderr).toContain(`Cursor: ${cursor} is gone; as it was before svc, it is in ${folder}`)
  expect(readdirSync(join(target, "backups", "clients"))).toHaveLength(1)
  expect(existsSync(join(target, "mcp.json"))).toBe(true)
})

test("svc uninstall names the copy of a client's file whose comments are lost [cli:uninstall]", async () => {
  const { run, gemini, folder } = await connectedHome()
  const { mcpServers } = JSON.parse(readFileSync(gemini, "utf8").replace("// mine", ""))
  writeFileSync(gemini, JSON.stringify({ mcpServers, theme: 1 }))
  const { code, stdout } = await run("uninstall", "--yes", "--json")
  const { notes } = JSON_SHAPES.removal.parse(JSON.parse(stdout))
  expect([code, notes]).toEqual([0, [expect.stringContaining(`${gemini}: the file was edited since`)]])
  expect(existsSync(notes?.[0]?.split(" is still in ")[1] ?? folder)).toBe(true)
})
