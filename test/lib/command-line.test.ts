import { describe, expect, test } from "bun:test"
import { findCommand, readOptions } from "../../src/lib/command-line.ts"

describe("switches", () => {
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

  test("a variable turns off a switch that is on by default", () => {
    expect(readOptions({}, {}).flag("reload", true)).toBe(true)
    expect(readOptions({}, { SVC_RELOAD: "off" }).flag("reload", true)).toBe(false)
  })

  test("a variable that is neither on nor off is rejected", () => {
    expect(() => readOptions({}, { SVC_AUTH: "enabled" }).flag("auth")).toThrow(
      "SVC_AUTH must be on or off, not enabled",
    )
  })
})

describe("words", () => {
  const leaf = { args: { demo: { type: "boolean" }, port: { type: "string" } } } as const
  const root = { subCommands: { serve: leaf, mcp: { subCommands: { list: leaf } } } }

  test("help may precede a command", async () => {
    for (const words of [
      ["help", "mcp", "list"],
      ["mcp", "help", "list"],
      ["mcp", "list", "--help"],
    ]) {
      const { path, help } = await findCommand(root, words)
      expect([path, help]).toEqual([["mcp", "list"], true])
    }
  })

  test("a switch takes no value but true or false", async () => {
    expect((await findCommand(root, ["serve", "--demo=false"])).args).toEqual(["--demo=false"])
    for (const word of ["--demo=maybe", "--no-demo=true", "--demo="])
      expect(findCommand(root, ["serve", word])).rejects.toThrow("takes no value")
  })
})
