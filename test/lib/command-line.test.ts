import { describe, expect, test } from "bun:test"
import { findCommand, readOptions } from "../../src/lib/command-line.ts"

describe("boolean flags", () => {
  test.each([
    [{}, {}, false],
    [{ auth: true }, { SVC_AUTH: "off" }, true],
    [{}, { SVC_AUTH: "On" }, true],
    [{}, { SVC_AUTH: "1" }, true],
    [{}, { SVC_AUTH: "no" }, false],
    [{}, { SVC_AUTH: "" }, false],
  ])("flags %j and variables %j: %p", (args, env, expected) => {
    expect(readOptions(args, env).flag("auth")).toBe(expected)
  })

  test("a flag with the default on is turned off by its variable", () => {
    expect(readOptions({}, {}).flag("reload", true)).toBe(true)
    expect(readOptions({}, { SVC_RELOAD: "off" }).flag("reload", true)).toBe(false)
  })

  test("a variable that is neither on nor off is refused", () => {
    expect(() => readOptions({}, { SVC_AUTH: "enabled" }).flag("auth")).toThrow(
      "SVC_AUTH must be on or off, not enabled",
    )
  })
})

describe("commands", () => {
  const leaf = { args: { demo: { type: "boolean" }, port: { type: "string" } } } as const
  const root = { subCommands: { serve: leaf, mcp: { subCommands: { list: leaf } } } }

  test("help may come before the command", async () => {
    for (const words of [
      ["help", "mcp", "list"],
      ["mcp", "help", "list"],
      ["mcp", "list", "--help"],
    ]) {
      const { path, help } = await findCommand(root, words)
      expect([path, help]).toEqual([["mcp", "list"], true])
    }
  })

  test("flags of the configuration and of the output may come before the command", async () => {
    const args = { config: { type: "string" }, json: { type: "boolean" } } as const
    const nested = { subCommands: { mcp: { subCommands: { list: { args } } }, serve: leaf } }
    for (const words of [
      ["--config", "x", "--json", "mcp", "list"],
      ["mcp", "--config", "x", "--json", "list"],
    ])
      expect((await findCommand(nested, words)).args).toEqual(["--config", "x", "--json"])
    expect((await findCommand(nested, ["--config=x", "mcp", "list"])).args).toEqual(["--config=x"])
    await expect(findCommand(nested, ["--json", "serve"])).rejects.toThrow("unknown flag: --json")
  })

  test("a boolean flag takes true or false as its only values", async () => {
    expect((await findCommand(root, ["serve", "--demo=false"])).args).toEqual(["--demo=false"])
    for (const word of ["--demo=maybe", "--no-demo=true", "--demo="])
      await expect(findCommand(root, ["serve", word])).rejects.toThrow("takes no value")
  })

  const named = { args: { name: { type: "positional", required: true }, tags: { type: "string" } } } as const
  const settings = { url: { type: "string" }, env: { type: "string", alias: "e" } } as const
  const program = { args: { ...named.args, ...settings }, addressFlag: "url", envFlag: "env" }
  const commands = { subCommands: { show: named, add: program } }

  test("a missing argument and one too many name the command's help", async () => {
    await expect(findCommand(commands, ["show"])).rejects.toThrow("NAME is missing; see `svc show --help`")
    await expect(findCommand(commands, ["show"], async ([name]) => `svc ${name} it`)).rejects.toThrow(
      "NAME is missing, as in `svc show it`; see `svc show --help`",
    )
    await expect(findCommand(commands, ["show", "a", "b"])).rejects.toThrow(
      'unexpected argument "b"; see `svc show --help`',
    )
    expect((await findCommand(commands, ["show", "--", "-a"])).args).toEqual(["--", "-a"])
  })

  test.each([
    ["air npx -y air --url x", "air -- npx -y air --url x"],
    ["air -- npx -y", "air -- npx -y"],
    ["--tags a air npx -y", "--tags a air -- npx -y"],
    ["-e A=1 B=2 air npx -e C=3", "-e A=1 --env=B=2 air -- npx -e C=3"],
    ["air A=1 npx", "air --env=A=1 -- npx"],
    ["air https://air.example/mcp --tags a", "air --url https://air.example/mcp --tags a"],
    ["air npx --help", "air -- npx --help"],
    ["air server.js one", "air -- server.js one"],
  ])("%s is read as %s [cli:add]", async (given, read) => {
    const { args, help } = await findCommand(commands, ["add", ...given.split(" ")])
    expect([args.join(" "), help]).toEqual([read, false])
  })

  test("a flag of svc after a bare program is noted, or refused if it would choose a configuration [cli:add:flags]", async () => {
    const read = (line: string) => findCommand(commands, ["add", ...line.split(" ")])
    expect((await read("air docker run -e KEY --json x")).notes).toEqual([
      "note: -e belongs to docker; put svc's flags before NAME",
      "note: --json belongs to docker; put svc's flags before NAME",
    ])
    expect((await read("air -- docker run -e KEY --config x")).notes).toEqual([])
    expect((await read("air docker --configure -env")).notes).toEqual([])
    for (const flag of ["--config", "--config-dir", "--config=x"])
      await expect(read(`air npx ${flag} x`)).rejects.toThrow(
        "may be svc's or the program's: put it before NAME if it is svc's, or -- before npx if it is the program's",
      )
  })

  test("a word that may be an address or a program is refused with both lines [cli:add:address]", async () => {
    for (const word of ["mcp.air.example/mcp", "run.sh", "localhost:3000/mcp"])
      await expect(findCommand(commands, ["add", "air", word])).rejects.toThrow(
        `${word} may be an address or a program: write https://${word}, or put the program after -- (-- ${word})`,
      )
    await expect(findCommand(commands, ["add", "--", "npx"])).rejects.toThrow("NAME is missing")
  })

  test("words of other programs are read as svc's, or answered with them [cli:aliases]", async () => {
    const { mcp } = root.subCommands
    const group = { subCommands: { mcp }, aliases: { ls: ["mcp", "list"], claude: [], stop: "`kill` stops it" } }
    for (const words of [["ls"], ["claude", "mcp", "list"]])
      expect((await findCommand(group, words)).path).toEqual(["mcp", "list"])
    await expect(findCommand(group, ["stop"])).rejects.toThrow("unknown command: stop; `kill` stops it")
    await expect(findCommand(group, ["constructor"])).rejects.toThrow("unknown command: constructor")
    // A name that only says what to type is no suggestion.
    await expect(findCommand(group, ["stopp"])).rejects.toThrow("unknown command: stopp; the commands are mcp")
  })

  test("a retired name runs its successor, with a warning that names it [cli:retired]", async () => {
    const { mcp } = root.subCommands
    const old = { subCommands: { none: {} }, retired: { show: ["mcp", "list"] } }
    const found = await findCommand({ subCommands: { mcp, old } }, ["old", "show"])
    expect(found).toMatchObject({
      path: ["mcp", "list"],
      notes: ["warning: `svc old show` will be removed in the next release; use `svc mcp list`"],
    })
  })

  test("a flag before the command is unknown, or belongs after the command", async () => {
    await expect(findCommand(commands, ["-V"])).rejects.toThrow("unknown flag: -V; did you mean -v?")
    await expect(findCommand(commands, ["--tags", "x", "show"])).rejects.toThrow("put --tags after the command")
  })
})
