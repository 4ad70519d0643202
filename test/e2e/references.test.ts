/** Secrets outside of mcp.json: where they come from, and that they reach nothing but their servers. */
import { expect, test } from "bun:test"
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { eventually, fixture, freshFolder, processes, runSvc, startSvc, svcIn, WINDOWS } from "./harness.ts"

/** A server that writes the value of its variable K to a file, and then serves. */
const writing = (file: string, mark: string, value: string) => ({
  command: "sh",
  args: ["-c", 'printf "%s\\n" "$K" >>"$0"; exec bun "$1" "$2"', file, fixture("echo.ts"), mark],
  env: { K: value },
})

const linesOf = (file: string): readonly string[] => readFileSync(file, "utf8").trim().split("\n")

/** Returns all files below a folder. */
const filesIn = (folder: string): readonly string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())

test.skipIf(WINDOWS)(
  "the values of references reach their servers and nothing else, and a change restarts only its server [secrets:hidden] [secrets:refresh]",
  async () => {
    const [folder, out] = [freshFolder(), freshFolder()]
    const canaries = ["canary-of-a-file", "canary-of-a-command", "canary-after-rotation"] as const
    writeFileSync(join(out, "secret"), `${canaries[0]}\n`)
    writeFileSync(join(out, "printed"), `${canaries[1]}\n`)
    const marks = [1, 2, 3].map(() => `svc-mark-${crypto.randomUUID()}`) as [string, string, string]
    const config = {
      mcpServers: {
        file: writing(join(out, "file"), marks[0], `\${file:${join(out, "secret")}}`),
        cmd: writing(join(out, "cmd"), marks[1], `\${cmd:cat '${join(out, "printed")}'}`),
        plain: { command: "bun", args: [fixture("echo.ts"), marks[2]] },
        gone: { command: "bun", args: [fixture("echo.ts"), "${file:/nowhere/at/all}"] },
      },
    }
    const flags = ["--allow-commands", "--log-level", "debug", "--audit-log", join(out, "audit"), "--audit-arguments"]
    await using svc = await startSvc({ folder, config, flags })
    await eventually(() => marks.every((mark) => processes(mark).length === 1))
    expect([linesOf(join(out, "file")), linesOf(join(out, "cmd"))]).toEqual([[canaries[0]], [canaries[1]]])
    await svc.said("gone is not loaded: args[1] refers to ${file:/nowhere/at/all}")
    const pids = () => marks.map((mark) => processes(mark)[0])
    const [first, ...others] = pids()

    writeFileSync(join(out, "secret"), canaries[2])
    const refreshed = await runSvc(["secret", "refresh", "--config-dir", folder])
    expect([refreshed.code, refreshed.stderr]).toEqual([0, ""])
    await eventually(() => linesOf(join(out, "file")).length === 2 && pids()[0] !== undefined && pids()[0] !== first)
    expect(linesOf(join(out, "file"))[1]).toBe(canaries[2])
    expect(pids().slice(1)).toEqual(others)

    const said = [svc.stderr(), readFileSync(join(out, "audit"), "utf8"), refreshed.stdout]
    for (const path of ["/health?level=full", "/api/servers", "/api/config"])
      said.push(await (await fetch(svc.url + path)).text())
    for (const words of [
      ["mcp", "status", "file", "--verbose"],
      ["mcp", "list", "--json"],
      ["secret", "list"],
      ["doctor"],
      ["config", "check"],
    ]) {
      const { stdout, stderr } = await runSvc([...words, "--config-dir", folder])
      said.push(stdout, stderr)
    }
    for (const file of filesIn(folder)) said.push(readFileSync(file, "utf8"))
    expect(said.filter((text) => /canary/.test(text))).toEqual([])
    expect(processes("canary")).toEqual([])
  },
  60_000,
)

test("a key that comes in by any command can be moved to .env [secrets:moved]", async () => {
  const folder = freshFolder({
    ".cursor/mcp.json": JSON.stringify({
      mcpServers: { imported: { command: "bun", args: [fixture("echo.ts"), "--api-key", "canary-1-imported"] } },
    }),
  })
  const svc = svcIn(folder)
  const program = ["bun", fixture("echo.ts")] as const
  const entry = { command: program[0], args: [program[1], "https://me:canary-2-json@example.com/x"] }
  expect((await svc("config", "import", "cursor", "--yes")).code).toBe(0)
  expect((await svc("mcp", "add-json", "json", JSON.stringify(entry), "--yes")).code).toBe(0)
  expect((await svc("mcp", "add", "--yes", "--env", "MY_TOKEN=canary-3-added", "added", ...program)).code).toBe(0)
  expect((await svc("mcp", "edit", "added", "--yes", "--env", "OTHER_TOKEN=canary-4-edited")).code).toBe(0)
  const open = await svc("mcp", "add", "--env", "LAST_TOKEN=canary-5-open", "open", ...program)
  expect(open.stderr).toContain("open: env.LAST_TOKEN looks like a key")
  const written = () => readFileSync(join(folder, "mcp.json"), "utf8")
  expect(written().match(/canary-\d-\w+/g)).toEqual(["canary-5-open"])
  const dry = await svc("secret", "import", "--dry-run")
  expect(dry.stderr).toContain("- open: env.LAST_TOKEN •••\n+ open: env.LAST_TOKEN ${LAST_TOKEN}")
  expect(written()).toContain("canary-5-open")
  expect((await svc("secret", "import", "--yes")).code).toBe(0)
  expect(written()).not.toContain("canary")
  const dotenv = readFileSync(join(folder, ".env"), "utf8")
  for (const canary of ["1-imported", "2-json", "3-added", "4-edited", "5-open"])
    expect(dotenv).toContain(`canary-${canary}`)
}, 60_000)
