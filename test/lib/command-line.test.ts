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

  test("a boolean flag takes true or false as its only values", async () => {
    expect((await findCommand(root, ["serve", "--demo=false"])).args).toEqual(["--demo=false"])
    for (const word of ["--demo=maybe", "--no-demo=true", "--demo="])
      await expect(findCommand(root, ["serve", word])).rejects.toThrow("takes no value")
  })

  const named = { args: { name: { type: "positional", required: true }, tags: { type: "string" } } } as const
  const program = { ...named, addressFlag: "url" }
  const commands = { subCommands: { show: named, add: program } }

  test("a missing argument and one too many name the command's help", async () => {
    await expect(findCommand(commands, ["show"])).rejects.toThrow("NAME is missing; see `svc show --help`")
    await expect(findCommand(commands, ["show", "a", "b"])).rejects.toThrow(
      'unexpected argument "b"; see `svc show --help`',
    )
    expect((await findCommand(commands, ["show", "--", "-a"])).args).toEqual(["--", "-a"])
  })

  test("a program or an address in the wrong place is answered with the corrected line", async () => {
    await expect(findCommand(commands, ["add", "air", "npx", "-y", "air"])).rejects.toThrow(
      "put the command after --: svc add air -- npx -y air",
    )
    await expect(findCommand(commands, ["add", "air", "https://air.example/mcp"])).rejects.toThrow(
      "put the address after --url: svc add air --url https://air.example/mcp",
    )
    await expect(findCommand(commands, ["add", "--", "npx"])).rejects.toThrow("NAME is missing")
    expect((await findCommand(commands, ["add", "air", "--", "npx", "-y"])).args).toEqual(["air", "--", "npx", "-y"])
  })

  test("a flag before the command is unknown, or belongs after the command", async () => {
    await expect(findCommand(commands, ["-V"])).rejects.toThrow("unknown flag: -V; did you mean -v?")
    await expect(findCommand(commands, ["--tags", "x", "show"])).rejects.toThrow("put --tags after the command")
  })
})
