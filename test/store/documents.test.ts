import { afterEach, beforeEach, expect, test } from "bun:test"
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { jsonSchema } from "../../src/config/schema.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { ConfigError } from "../../src/lib/errors.ts"
import { createMissing, listBackups, readTexts } from "../../src/store/documents.ts"
import { replaceFile } from "../../src/store/files.ts"
import { ownName, type Paths, pathsOf } from "../../src/store/paths.ts"
import { editConfig } from "../../src/store/transaction.ts"

let folder: string
let paths: Paths

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "svc-store-"))
  paths = {
    directory: folder,
    file: join(folder, "mcp.json"),
    dotenv: join(folder, ".env"),
    presets: join(folder, "presets.json"),
  }
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

test("paths follow the platform and the flags [config:file:default] [config:file:dir] [config:file:config]", () => {
  const base = { config: undefined, directory: undefined, platform: "linux", home: "/h", appData: undefined, cwd: "/w" }
  expect(pathsOf(base)).toEqual({
    directory: "/h/.config/svc",
    file: "/h/.config/svc/mcp.json",
    dotenv: "/h/.config/svc/.env",
    presets: "/h/.config/svc/presets.json",
  })
  expect(pathsOf({ ...base, directory: "d" })).toEqual({
    directory: "/w/d",
    file: "/w/d/mcp.json",
    dotenv: "/w/d/.env",
    presets: "/w/d/presets.json",
  })
  expect(pathsOf({ ...base, directory: "/d", config: "/c/my.json" })).toEqual({
    directory: "/d",
    file: "/c/my.json",
    dotenv: "/c/.env",
    presets: "/d/presets.json",
  })
  expect(pathsOf({ ...base, platform: "win32", appData: "/appdata" }).directory).toBe("/appdata/svc")
})

test("on Windows, every spelling of a path leads to the same file names for a configuration [config:file:config]", () => {
  const own = { ...paths, directory: "/Data/svc", file: "/Data/svc/mcp.json" }
  expect(ownName("control", { ...own, file: "/data/SVC/MCP.json" }, "win32")).toBe("control")
  const other = ownName("control", { ...own, file: "/C/Mine.json" }, "win32")
  expect(other).toMatch(/^control-/)
  expect(ownName("control", { ...own, file: "/c/mine.JSON" }, "win32")).toBe(other)
  expect(ownName("control", { ...own, file: "/data/SVC/MCP.json" }, "linux")).toMatch(/^control-/)
})

test("an edit keeps the permissions and the newest twenty backups [config:backups]", async () => {
  writeFileSync(paths.file, "0")
  // A mode that the umask would have removed.
  chmodSync(paths.file, 0o660)
  for (let count = 1; count <= 25; count++) await editConfig(paths, () => String(count), systemClock)
  expect(readFileSync(paths.file, "utf8")).toBe("25")
  expect(statSync(paths.file).mode & 0o777).toBe(0o660)
  const backups = listBackups(paths)
  expect(backups).toHaveLength(20)
  expect(readFileSync(backups[0] as string, "utf8")).toBe("24")
  expect(readdirSync(folder).sort()).toEqual(["backups", "mcp.json", "mcp.json.lock"])
})

test("an edit applies to the text that an editor saved meanwhile, and never overwrites it", async () => {
  writeFileSync(paths.file, "mine")
  let saves = 1
  const edit = () =>
    editConfig(
      paths,
      (text) => {
        if (saves-- > 0) writeFileSync(paths.file, `theirs ${saves}`)
        return `${text} edited`
      },
      systemClock,
    )
  expect(await edit()).toBe(true)
  expect(readFileSync(paths.file, "utf8")).toBe("theirs 0 edited")
  saves = 100
  await expect(edit()).rejects.toThrow("another program keeps changing")
  expect(readFileSync(paths.file, "utf8")).toStartWith("theirs ")
  expect(readFileSync(paths.file, "utf8")).not.toContain("edited")
})

test("an edit keeps the owner of a file", async () => {
  // Only an administrator may change the owner of files.
  if (process.getuid?.() !== 0) return
  writeFileSync(paths.file, "0")
  chownSync(paths.file, 12345, 54321)
  await editConfig(paths, () => "1", systemClock)
  expect(statSync(paths.file)).toMatchObject({ uid: 12345, gid: 54321 })
})

test("two files that share a directory have separate backups", async () => {
  const other = { ...paths, file: join(folder, "other.json") }
  for (const [place, text] of [
    [paths, "mine"],
    [other, "theirs"],
  ] as const) {
    writeFileSync(place.file, text)
    await editConfig(place, () => "edited", systemClock)
  }
  const kept = [paths, other].map((place) => listBackups(place).map((path) => readFileSync(path, "utf8")))
  expect(kept).toEqual([["mine"], ["theirs"]])
})

test("an edit that throws changes nothing", async () => {
  writeFileSync(paths.file, "before")
  const edit = editConfig(
    paths,
    () => {
      throw new Error("no")
    },
    systemClock,
  )
  expect(edit).rejects.toThrow("no")
  await edit.catch(() => undefined)
  expect(readdirSync(folder).sort()).toEqual(["mcp.json", "mcp.json.lock"])
})

test("documents in the encoding of Windows PowerShell are read and edited", async () => {
  const text = '\ufeff{\r\n  "mcpServers": {}\r\n}\r\n'
  writeFileSync(paths.file, text, "utf16le")
  writeFileSync(paths.dotenv, Buffer.from("\ufeffA=ä\r\n", "utf16le").swap16())
  const { config, dotenv } = readTexts(paths)
  expect([config(), dotenv()]).toEqual([text.slice(1), "A=ä\r\n"])
  expect(await editConfig(paths, (before) => before.replace("{}", '{ "a": { "command": "x" } }'), systemClock)).toBe(
    true,
  )
  expect(readTexts(paths).config()).toBe('{\r\n  "mcpServers": { "a": { "command": "x" } }\r\n}\r\n')
})

test("a directory in place of a document is a configuration error that names the directory", async () => {
  mkdirSync(paths.file)
  const problem = `${paths.file}: this is a directory`
  expect(() => readTexts(paths).config()).toThrow(ConfigError)
  expect(() => readTexts(paths).config()).toThrow(problem)
  await expect(editConfig(paths, () => "{}", systemClock)).rejects.toThrow(problem)
})

test("concurrent edits lose nothing [config:edit:lock]", async () => {
  writeFileSync(paths.file, "")
  await Promise.all(
    Array.from({ length: 20 }, (_, index) => editConfig(paths, (text) => `${text}${index},`, systemClock)),
  )
  const numbers = readFileSync(paths.file, "utf8").split(",").slice(0, -1).map(Number)
  expect(numbers.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, index) => index))
})

test("processes that create the file at the same time lose no edit [config:edit:lock]", async () => {
  const at = (file: string) => JSON.stringify(join(import.meta.dir, "../../src", file))
  const source = (index: number) => `
    const { createMissing } = await import(${at("store/documents.ts")})
    const { editConfig } = await import(${at("store/transaction.ts")})
    const { systemClock } = await import(${at("lib/clock.ts")})
    const { addServer } = await import(${at("config/edit.ts")})
    const paths = ${JSON.stringify(paths)}
    process.stdout.write("ready")
    for await (const _ of process.stdin) break
    await createMissing(paths, systemClock)
    await editConfig(paths, addServer("s${index}", { command: "true" }), systemClock)
    process.exit(0)`
  const writers = Array.from({ length: 12 }, (_, index) =>
    Bun.spawn({
      cmd: [process.execPath, "-e", source(index)],
      stdin: "pipe",
      stdout: "pipe",
      stderr: "inherit",
    }),
  )
  await Promise.all(writers.map(({ stdout }) => stdout.getReader().read()))
  for (const { stdin } of writers) {
    stdin.write("go")
    void stdin.flush()
  }
  expect(await Promise.all(writers.map(({ exited }) => exited))).toEqual(writers.map(() => 0))
  const { mcpServers } = JSON.parse(readFileSync(paths.file, "utf8"))
  expect(Object.keys(mcpServers)).toHaveLength(12)
}, 60_000)

test("the next edit removes the temporary files of killed writers, and nothing else [config:edit:lock]", async () => {
  writeFileSync(paths.file, "0")
  mkdirSync(join(folder, "backups"))
  const left = [".mcp.json.0123456789ab.tmp", "..env.0123456789ab.tmp", "backups/.mcp-2026.json.0123456789ab.tmp"]
  const others = [".other.json.0123456789ab.tmp", ".mcp.json.swp", ".mcp.json.tmp"]
  for (const name of [...left, ...others]) writeFileSync(join(folder, name), "secret")
  await editConfig(paths, () => "1", systemClock)
  expect(
    readdirSync(folder, { recursive: true })
      .map(String)
      .filter((name) => name.includes("/.") || name.startsWith("."))
      .sort(),
  ).toEqual(others.sort())
})

test("an edit of a link changes its target", async () => {
  mkdirSync(join(folder, "real"))
  writeFileSync(join(folder, "real", "it.json"), "{}")
  symlinkSync(join(folder, "real", "it.json"), paths.file)
  await editConfig(paths, () => "{ }", systemClock)
  expect(readFileSync(join(folder, "real", "it.json"), "utf8")).toBe("{ }")
})

test("a link whose target is missing stays a link, and its target is written; a cycle of links is refused", () => {
  const [link, further] = [join(folder, "link"), join(folder, "further")]
  symlinkSync("further", link)
  symlinkSync("target.json", further)
  replaceFile(link, "{}", 0o600)
  expect(lstatSync(link).isSymbolicLink() && lstatSync(further).isSymbolicLink()).toBe(true)
  expect(readFileSync(join(folder, "target.json"), "utf8")).toBe("{}")
  symlinkSync("circle", join(folder, "circle"))
  expect(() => replaceFile(join(folder, "circle"), "{}", 0o600)).toThrow("lead in a circle")
  expect(lstatSync(join(folder, "circle")).isSymbolicLink()).toBe(true)
})

test("a missing file is created with its schema, an existing one is kept", async () => {
  expect(await createMissing(paths, systemClock)).toBe(true)
  expect(JSON.parse(readFileSync(paths.file, "utf8"))).toEqual({ $schema: "./mcp.schema.json", mcpServers: {} })
  expect(JSON.parse(readFileSync(join(folder, "mcp.schema.json"), "utf8"))).toEqual(jsonSchema())
  expect(await createMissing(paths, systemClock)).toBe(false)
  expect(readTexts(paths).dotenv()).toBeUndefined()
})
