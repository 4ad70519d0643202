import { describe, expect, test } from "bun:test"
import { formatIssue } from "../../src/lib/errors.ts"
import { parseSvcrc, svcrcFolders } from "../../src/template/svcrc.ts"

describe(".svcrc", () => {
  test("holds preset, tags and context", () => {
    const value = {
      preset: "dev",
      tags: ["a", "b"],
      context: { projectId: "p", environment: "production", team: "t", custom: { port: 1, deep: { x: [true] } } },
    }
    expect(parseSvcrc(JSON.stringify(value), ".svcrc")).toEqual({ svcrc: value, issues: [], presetAt: ".svcrc:1:2" })
    expect(parseSvcrc("// nothing yet\n{ }", ".svcrc")).toEqual({ svcrc: {}, issues: [] })
  })

  test("warns about unknown keys with their line", () => {
    const { svcrc, issues } = parseSvcrc(
      '{\n  "presett": "x",\n  "context": {\n    "enviroment": "y", // slip\n    "custom": { "any": 1 }\n  }\n}',
      "/p/.svcrc",
    )
    expect(issues.map((issue) => `${issue.severity} ${formatIssue(issue)}`)).toEqual([
      'warning /p/.svcrc:2:3: unknown key "presett" is ignored; did you mean "preset"?',
      'warning /p/.svcrc:4:5: unknown key "enviroment" is ignored; did you mean "environment"?',
    ])
    expect(svcrc).toEqual({ context: { custom: { any: 1 } } })
  })

  test("is rejected if a value has the wrong type", () => {
    expect(() => parseSvcrc('{\n  "tags": "a"\n}', ".svcrc")).toThrow(".svcrc:2:3: tags: ")
    expect(() => parseSvcrc('{ "context": { "custom": [] } }', ".svcrc")).toThrow(".svcrc:1:16: context.custom: ")
    expect(() => parseSvcrc("{", ".svcrc")).toThrow(".svcrc:1:2: not valid JSON")
  })

  test("is bounded in size and depth", () => {
    const custom = (value: unknown) => () => parseSvcrc(JSON.stringify({ context: { custom: value } }), ".svcrc")
    expect(custom({ x: "y".repeat(70_000) })).toThrow(".svcrc:1:13: context.custom: is too large")
    expect(custom(Array.from({ length: 9 }).reduce((inner) => ({ inner }), {}))).toThrow("nested too deep")
    expect(() => parseSvcrc(JSON.stringify({ tags: ["t".repeat(5000)] }), ".svcrc")).toThrow(".svcrc:1:10: tags.0: ")
  })

  test("is searched up to the repository or the home, and not beyond", () => {
    expect(svcrcFolders("/home/ada/r/a/b", "/home/ada/r", "/home/ada")).toEqual([
      "/home/ada/r/a/b",
      "/home/ada/r/a",
      "/home/ada/r",
    ])
    expect(svcrcFolders("/home/ada/x", undefined, "/home/ada")).toEqual(["/home/ada/x", "/home/ada"])
    expect(svcrcFolders("/srv/r/x", "/srv/r", "/home/ada")).toEqual(["/srv/r/x", "/srv/r"])
  })

  test("of a shared parent folder is ignored [svcrc:search]", () => {
    expect(svcrcFolders("/tmp/x/y", undefined, "/home/ada")).toEqual(["/tmp/x/y"])
  })
})
