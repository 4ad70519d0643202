/** What holds for every command: exit codes, streams, JSON, `--yes` and the answers to unknown names. */
import { expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "../../src/cli/root.ts"
import { findCommand } from "../../src/lib/command-line.ts"
import { EXIT_CODES } from "../../src/lib/errors.ts"
import { argumentsOf, runnableCommands, type TreeCommand } from "../command-tree.ts"
import { commandsIn } from "../run-command.ts"
import { echo, freshFolder, startSvc } from "./harness.ts"

const COMMANDS = await runnableCommands()
const ABSENT = "qqqqqqqqqq"

test("every command that takes a name answers an unknown one with a next step [cli:names]", async () => {
  await using instance = await startSvc({
    config: {
      mcpServers: { alpha: echo(), beta: echo() },
      mcpTemplates: { gamma: { command: "bun", args: ["{{project.name}}"] } },
    },
  })
  await instance.said("beta: connected")
  writeFileSync(join(instance.folder, "presets.json"), '{ "presets": { "own": { "servers": ["alpha"] } } }')
  const svc = commandsIn(instance.folder)
  expect((await svc("auth", "token", "create", "first")).code).toBe(0)
  const checked = new Set<string>()
  for (const command of COMMANDS)
    for (const { name, definition } of await argumentsOf(command)) {
      const kind = kindOf(definition)
      const isFlag = definition.type !== "positional"
      if (ACTING.has(lineOf(command)) || !EXISTING.has(kind) || ACCEPTS_ANY.has(`${lineOf(command)} ${name}`)) continue
      const words = [...command.path, ...(await filled(command, name)), ...(isFlag ? [`--${name}=${ABSENT}`] : [])]
      const { code, stdout, stderr } = await svc(...words, "--yes")
      expect([words, code, stdout]).toEqual([words, 64, ""])
      expect([words, stderr]).toEqual([words, expect.stringMatching(NEXT_STEP)])
      checked.add(kind)
    }
  expect([...checked].sort()).toEqual([...EXISTING].sort())
})

test("every command refuses an unknown flag with 64 and one line on stderr [cli:mistake]", async () => {
  const svc = commandsIn(freshFolder())
  for (const { path } of COMMANDS) {
    const { code, stdout, stderr } = await svc(...path, `--${ABSENT}`)
    expect([path, code, stdout]).toEqual([path, 64, ""])
    expect([path, stderr]).toEqual([path, expect.stringMatching(/^svc: unknown flag: --q+; see `svc .+ --help`\n$/)])
  }
})

test("every command says what is missing, with an example, and exits with 64 [cli:mistake]", async () => {
  const svc = commandsIn(freshFolder())
  for (const command of COMMANDS) {
    const [first] = await requiredOf(command)
    if (first === undefined) continue
    const { code, stdout, stderr } = await svc(...command.path)
    const missing = `svc: ${first.name.toUpperCase()} is missing, as in \``
    expect([command.path, code, stdout]).toEqual([command.path, 64, ""])
    expect([command.path, stderr]).toEqual([command.path, expect.stringContaining(missing)])
  }
})

test("every command shows its help on stdout, and exits with 0 [cli:help]", async () => {
  const svc = commandsIn(freshFolder())
  for (const { path } of COMMANDS) {
    const { code, stdout, stderr } = await svc(...path, "--help")
    expect([path, code, stderr]).toEqual([path, 0, ""])
    expect(stdout).toContain(`usage: svc ${path.join(" ")}`)
  }
})

test("every command accepts --yes, and -y [cli:yes]", async () => {
  for (const command of COMMANDS)
    for (const flag of ["--yes", "-y"]) {
      const words = [...command.path, ...(await filled(command)), flag]
      expect([words, (await findCommand(root, words)).path]).toEqual([words, command.path])
    }
})

test("every command that cannot read mcp.json names the file, and exits with 78 [cli:config:missing]", async () => {
  const folder = freshFolder({ "broken.json": "{" })
  const svc = commandsIn(folder)
  const refused = new Set<string>()
  for (const command of COMMANDS) {
    if (ACTING.has(lineOf(command)) || !(await takes(command, "config"))) continue
    for (const name of ["broken.json", "missing.json"]) {
      const file = join(folder, name)
      const { code, stdout, stderr } = await svc(...command.path, ...(await filled(command)), "--config", file)
      const line = `${lineOf(command)} ${name}`
      if (code === 78) expect([line, stdout + stderr]).toEqual([line, expect.stringContaining(file)])
      if (code === 78) refused.add(line)
      else expect([line, [0, 2, 64, 69].includes(code)]).toEqual([line, true])
    }
  }
  for (const line of ["mcp list", "mcp remove", "mcp tools list", "config check", "config import", "secret import"])
    for (const name of ["broken.json", "missing.json"]) expect(refused).toContain(`${line} ${name}`)
  expect((await svc("doctor", "--config", join(folder, "missing.json"))).code).toBe(2)
})

test("every command exits with a documented code, and prints only JSON under --json [cli:json]", async () => {
  const codes = EXIT_CODES.map(({ code }) => code).filter((code) => code !== 70)
  for (const command of COMMANDS) {
    if (ACTING.has(lineOf(command))) continue
    // A command may remove what the next one needs.
    const svc = commandsIn(
      freshFolder({
        "mcp.json": JSON.stringify({ mcpServers: { alpha: echo() }, registries: [UNREACHABLE] }),
        "presets.json": '{ "presets": { "own": { "servers": ["alpha"] } } }',
      }),
    )
    const json = (await takes(command, "json")) ? ["--json"] : []
    const words = [...command.path, ...json, ...(await filled(command))]
    const { code, stdout, stderr } = await svc(...words)
    expect([words, codes.includes(code)]).toEqual([words, true])
    if (json.length === 0) continue
    // The log is one line of JSON for each line, and there is none yet.
    const printed = lineOf(command) === "logs" ? stdout : JSON.parse(stdout)
    if (!("error" in Object(printed))) continue
    const error = { code: expect.any(String), message: expect.any(String) }
    expect([words, code > 1, printed, stderr]).toEqual([words, true, { error }, ""])
  }
})

// ---

/** The kinds of names that must exist; completion completes them. */
const EXISTING: ReadonlySet<string> = new Set(["server", "template", "preset", "token", "target", "server/tool"])

/** Arguments that also take names that do not exist now. */
const ACCEPTS_ANY: ReadonlySet<string> = new Set([
  "activity tool",
  "mcp tools approve tool",
  "mcp tools describe tool",
  "mcp tools disable tool",
  "mcp tools enable tool",
  "preset create preset",
])

/** Commands that act on the machine, or run until they are stopped. */
const ACTING: ReadonlySet<string> = new Set([
  "admin",
  "demo-server",
  "proxy",
  "serve",
  "service install",
  "service logs",
  "service status",
  "service uninstall",
  "setup",
  "uninstall",
  "upgrade",
])

/** The end of a message about an unknown name: the nearest name, the names that exist, or the command that lists them. */
const NEXT_STEP =
  /; (?:did you mean \S+\?|the only one is \S+|the names are .+ and \S+|`svc [^`]+` (?:lists|shows) the \w+)\n$/

/** A registry at the port of the discard service, where nothing listens. */
const UNREACHABLE = { name: "unreachable", url: "http://127.0.0.1:9" }

/** A valid value for each kind of argument, and for those without a kind, by name. */
const VALUES: Readonly<Record<string, string>> = {
  server: "alpha",
  template: "gamma",
  preset: "own",
  token: "first",
  tool: "echo",
  target: "alpha/echo",
  "server/tool": "alpha/echo",
}

/** What a command needs besides its required arguments. */
const MORE: Readonly<Record<string, readonly string[]>> = {
  "mcp add": ["echo"],
  "mcp add-json": ['{ "command": "echo" }'],
  "mcp edit": ['{ "disabled": true }'],
  "preset create": ["--read-only"],
  "preset edit": ["--read-only"],
}

const lineOf = ({ path }: TreeCommand): string => path.join(" ")

const kindOf = (definition: object): string =>
  "valueHint" in definition && typeof definition.valueHint === "string" ? definition.valueHint : ""

const takes = async (command: TreeCommand, flag: string): Promise<boolean> =>
  (await argumentsOf(command)).some(({ name }) => name === flag)

const requiredOf = async (command: TreeCommand) =>
  (await argumentsOf(command)).filter(
    ({ definition: { type, required } }) => type === "positional" && required !== false,
  )

/** Returns the words of a command's required arguments; the argument `absent` has a name that does not exist. */
async function filled(command: TreeCommand, absent?: string): Promise<readonly string[]> {
  const given = (await argumentsOf(command)).filter(
    ({ name, definition: { type, required } }) => type === "positional" && (required !== false || name === absent),
  )
  const words = given.map(({ name, definition }) => {
    const kind = kindOf(definition)
    return name === absent ? ABSENT : (VALUES[kind] ?? kind.split("|")[0]) || "x"
  })
  return [...words, ...(MORE[lineOf(command)] ?? [])]
}
