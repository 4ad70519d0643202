import { describe, expect, test } from "bun:test"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import fc from "fast-check"
import { addVariables, parseDotenv } from "../../src/config/dotenv.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { listBackups, lockDocuments } from "../../src/store/documents.ts"
import type { Paths } from "../../src/store/paths.ts"
import { changeDocuments, type DocumentChange, readDocuments, recoverTrials } from "../../src/store/transaction.ts"

const CONFIG = '{ "mcpServers": {} } // mine\r\n'

function place(files: Record<string, string> = { "mcp.json": CONFIG }): Paths {
  const directory = mkdtempSync(join(tmpdir(), "svc-transaction-"))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text)
  const at = (name: string) => join(directory, name)
  return { directory, file: at("mcp.json"), dotenv: at(".env"), presets: at("presets.json") }
}

/** Returns every file below a folder with its bytes and mode, without locks, which are empty and stay. */
function contents(folder: string): Record<string, string> {
  return Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter(({ name }) => !name.endsWith(".lock"))
      .map((entry) => {
        const path = join(entry.parentPath, entry.name)
        const mode = (statSync(path).mode & 0o777).toString(8)
        return [path, entry.isDirectory() ? mode : `${mode} ${readFileSync(path).toString("hex")}`]
      }),
  )
}

/** The files of changes on trial. */
const trialsIn = ({ directory }: Paths): readonly string[] =>
  readdirSync(directory).filter((name) => name.startsWith("trial-"))

/** The note of the one change on trial. */
const noteIn = (paths: Paths): string =>
  join(paths.directory, trialsIn(paths).find((name) => name.endsWith(".json")) ?? "")

const both: DocumentChange = ({ config, dotenv }) => ({ config: `${config}// more\n`, dotenv: `${dotenv}KEY=1\n` })
const apart: DocumentChange = ({ config, dotenv }) => ({
  config: config.replace("// more\n", ""),
  dotenv: dotenv.replace("KEY=1\n", ""),
})

describe("a change of both documents", () => {
  test("is atomic, with a backup, and .env is readable only by its owner", async () => {
    const paths = place()
    const done = await changeDocuments(paths, both, systemClock)
    done.keep()
    expect(readDocuments(paths)).toEqual({ config: `${CONFIG}// more\n`, dotenv: "KEY=1\n" })
    expect(statSync(paths.dotenv).mode & 0o777).toBe(0o600)
    expect(listBackups(paths)).toEqual([done.backup ?? ""])
    expect(readFileSync(done.backup ?? "", "utf8")).toBe(CONFIG)
  })

  test("restores the folder byte for byte when it is undone, with modes and old backups", async () => {
    for (const files of [
      { "mcp.json": CONFIG },
      { "mcp.json": CONFIG, ".env": "A=1" },
      { ".env": "\ufeffA=1\r\n" },
      { "mcp.json": Buffer.from([0x2f, 0x2f, 0xff, 0x0a, 0x7b, 0x7d]).toString("latin1") },
    ]) {
      const paths = place(files as Record<string, string>)
      if (existsSync(paths.dotenv)) chmodSync(paths.dotenv, 0o644)
      const backups = join(paths.directory, "backups")
      if (".env" in files) {
        mkdirSync(backups)
        for (let n = 10; n < 30; n++) writeFileSync(join(backups, `mcp-2026-01-${n}.json`), String(n))
      }
      const before = contents(paths.directory)
      const done = await changeDocuments(paths, both, systemClock)
      expect(contents(paths.directory)).not.toEqual(before)
      await done.undo(apart)
      expect(contents(paths.directory)).toEqual(before)
    }
  })

  test("on trial is undone by the next process if its own has ended, and only then", async () => {
    for (const files of [{ "mcp.json": CONFIG }, { "mcp.json": CONFIG, ".env": "A=1" }, {}]) {
      const paths = place(files as Record<string, string>)
      mkdirSync(join(paths.directory, "backups"))
      const before = contents(paths.directory)
      await changeDocuments(paths, both, systemClock, "new")
      // A living process, which holds the lock of the note, may still keep its change.
      expect(await recoverTrials(paths, systemClock)).toEqual([])
      renameSync(noteIn(paths), join(paths.directory, "trial-99999999.json"))
      expect(await recoverTrials({ ...paths, file: join(paths.directory, "other.json") }, systemClock)).toEqual([])
      expect(await recoverTrials(paths, systemClock)).toEqual([
        "svc ended before it verified a change of new: the change was undone",
      ])
      expect(contents(paths.directory)).toEqual(before)
    }
  })

  test("on trial leaves no note once it is kept or undone, and can be undone between its two writes", async () => {
    const paths = place()
    const note = join(paths.directory, "trial-99999999.json")
    const done = await changeDocuments(paths, both, systemClock, "new")
    const noted = readFileSync(noteIn(paths))
    await done.undo(apart)
    expect(trialsIn(paths)).toEqual([])
    writeFileSync(note, noted)
    writeFileSync(paths.dotenv, "KEY=1\n")
    expect(await recoverTrials(paths, systemClock)).toHaveLength(1)
    expect([readFileSync(paths.file, "utf8"), existsSync(paths.dotenv), existsSync(note)]).toEqual([
      CONFIG,
      false,
      false,
    ])
    const kept = await changeDocuments(paths, both, systemClock, "new")
    kept.keep()
    expect([await recoverTrials(paths, systemClock), trialsIn(paths)]).toEqual([[], []])
    writeFileSync(note, noted)
    writeFileSync(paths.file, "// by hand\n{}")
    expect(await recoverTrials(paths, systemClock)).toEqual([
      "svc ended before it verified a change of new: the files have been edited since, so the change stays",
    ])
    expect([readFileSync(paths.file, "utf8"), existsSync(note)]).toEqual(["// by hand\n{}", false])
    writeFileSync(note, "{ half")
    expect([await recoverTrials(paths, systemClock), trialsIn(paths)]).toEqual([[], []])
  })

  test("on trial survives the recovery of another process, even in another pid namespace, until its own is killed", async () => {
    const paths = place()
    const source = `const { changeDocuments, recover } = await import(${JSON.stringify(join(import.meta.dir, "../../src/store/transaction.ts"))})
      const { systemClock } = await import(${JSON.stringify(join(import.meta.dir, "../../src/lib/clock.ts"))})
      const change = ({ config, dotenv }) => ({ config: config + "// more\\n", dotenv })
      globalThis.done = await changeDocuments(${JSON.stringify(paths)}, change, systemClock, "new")
      console.log("begun")
      setInterval(() => globalThis.done, 1000)`
    await using owner = Bun.spawn({ cmd: [process.execPath, "-e", source], stdout: "pipe", stderr: "inherit" })
    await owner.stdout.getReader().read()
    // The note is named as in a pid namespace in which the owner's id belongs to a process that has ended here.
    for (const name of trialsIn(paths))
      renameSync(join(paths.directory, name), join(paths.directory, name.replace(`${owner.pid}`, "99999999")))
    expect(await recoverTrials(paths, systemClock)).toEqual([])
    expect(readDocuments(paths).config).toBe(`${CONFIG}// more\n`)
    owner.kill("SIGKILL")
    await owner.exited
    expect(await recoverTrials(paths, systemClock)).toHaveLength(1)
    expect([readDocuments(paths).config, trialsIn(paths)]).toEqual([CONFIG, []])
  })

  test("that its owner completes while a recovery waits for the lock is not undone [config:edit:lock]", async () => {
    const paths = place()
    const done = await changeDocuments(paths, both, systemClock, "new")
    renameSync(noteIn(paths), join(paths.directory, "trial-99999999.json"))
    const release = await lockDocuments(paths, systemClock)
    const recovery = recoverTrials(paths, systemClock)
    for (const name of trialsIn(paths)) unlinkSync(join(paths.directory, name))
    release()
    expect(await recovery).toEqual([])
    done.keep()
    expect(readDocuments(paths).config).toBe(`${CONFIG}// more\n`)
  })

  test("on trial is in the file with all concurrent changes of other processes", async () => {
    const paths = place()
    const names = Array.from({ length: 12 }, (_, at) => `// change ${at}\n`)
    const change = async (line: string) => {
      await recoverTrials(paths, systemClock)
      const done = await changeDocuments(
        paths,
        ({ config, dotenv }) => ({ config: `${config}${line}`, dotenv }),
        systemClock,
        line,
      )
      done.keep()
    }
    await Promise.all(names.map(change))
    expect(readDocuments(paths).config.split("\n").slice(1, -1).sort()).toEqual(names.map((line) => line.trim()).sort())
    expect(trialsIn(paths)).toEqual([])
  })

  test("is removed from texts that were edited since", async () => {
    const paths = place()
    const done = await changeDocuments(paths, both, systemClock)
    writeFileSync(paths.file, `// theirs\n${readFileSync(paths.file, "utf8")}`)
    await done.undo(apart)
    expect(readDocuments(paths)).toEqual({ config: `// theirs\n${CONFIG}`, dotenv: "" })
  })

  test("applies to a text that is saved at the same moment", async () => {
    const paths = place({ "mcp.json": CONFIG })
    let seen = 0
    const done = await changeDocuments(
      paths,
      (written) => {
        if (++seen === 1) writeFileSync(paths.file, `// theirs\n${written.config}`)
        return both(written)
      },
      systemClock,
    )
    expect([seen, done.after.config]).toEqual([2, `// theirs\n${CONFIG}// more\n`])
    expect(readDocuments(paths)).toEqual({ config: `// theirs\n${CONFIG}// more\n`, dotenv: "KEY=1\n" })
  })

  test("changes nothing if it cannot be written", async () => {
    const blocked = place({ "mcp.json": CONFIG, backups: "a file where a folder should be" })
    const before = contents(blocked.directory)
    expect(changeDocuments(blocked, both, systemClock)).rejects.toThrow("cannot create")
    await Promise.resolve()
    expect(contents(blocked.directory)).toEqual(before)
    const odd = place()
    mkdirSync(join(odd.directory, ".env"))
    expect(changeDocuments(odd, both, systemClock)).rejects.toThrow("this is a directory")
  })
})

test("the next start removes the files that a killed writer left", async () => {
  const paths = place()
  writeFileSync(join(paths.directory, ".mcp.json.0123456789ab.tmp"), "secret")
  expect(await recoverTrials(paths, systemClock)).toEqual([])
  expect(Object.keys(contents(paths.directory))).toEqual([paths.file])
})

test("a value written to .env reads back unchanged", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom("a", " ", "#", '"', "'", "`", "\\", "n", "=", "$", "é") }),
      (value) => {
        let text: string
        try {
          text = addVariables("OLD=1", { NEW: value, LAST: "x" }, ".env")
        } catch {
          // Only a value that contains every kind of quote cannot.
          expect(["'", '"', "`"].every((quote) => value.includes(quote)) || value.includes("\\")).toBe(true)
          return
        }
        expect(parseDotenv(text, ".env")).toEqual({ OLD: "1", NEW: value, LAST: "x" })
      },
    ),
  )
})
