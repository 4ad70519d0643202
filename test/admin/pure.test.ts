/** The decisions of the admin page that need no browser. */
import { describe, expect, test } from "bun:test"
import { mergedSettings } from "../../src/admin/merge.ts"
import { keyOfTool, presetName, rulesFor } from "../../src/admin/preset-choice.ts"

describe("mergedSettings [admin:merge]", () => {
  const base = { command: "a", tags: ["x"], cwd: "/" }

  test("keeps changes of different members", () => {
    expect(mergedSettings(base, { ...base, tags: ["y"] }, { ...base, command: "b" })).toEqual({
      ...base,
      tags: ["y"],
      command: "b",
    })
    expect(mergedSettings(base, { ...base, more: 1 }, { command: "a", tags: ["x"] })).toEqual({
      command: "a",
      tags: ["x"],
      more: 1,
    })
  })

  test("refuses two changes of one member, unless they are the same", () => {
    expect(mergedSettings(base, { ...base, cwd: "/b" }, { ...base, cwd: "/c" })).toBeUndefined()
    expect(mergedSettings(base, { ...base, cwd: "/b" }, { ...base, cwd: "/b" })).toEqual({ ...base, cwd: "/b" })
    const { cwd: _, ...without } = base
    expect(mergedSettings(base, without, { ...base, cwd: "/c" })).toBeUndefined()
  })
})

describe("rulesFor [admin:presets-ticked]", () => {
  const tools = ["a/one", "a/two", "b/one", "c/one"].map((key) => {
    const [server = "", name = ""] = key.split("/")
    return { server, name }
  })

  test("whole servers need no list of tools", () => {
    expect(rulesFor(tools, new Set(["b/one", "c/one"]))).toEqual({ matches: ["b", "c"], allow: [] })
  })

  test("a part of a server is listed, and the other servers stay whole", () => {
    expect(rulesFor(tools, new Set(["a/two", "b/one"]))).toEqual({
      matches: ["a", "b"],
      allow: ["a/two", "a/prompt:*", "a/resource:*", "b/*"],
    })
  })

  test("the key of a tool is that of the rules", () => expect(tools.map(keyOfTool)).toContain("a/one"))
})

test.each([
  ["My sales stuff", "My-sales-stuff"],
  ["  a/b?c  ", "a-b-c"],
  ["ok_1.2-x", "ok_1.2-x"],
  ["ÄÖ", ""],
])("the name %p of a preset becomes %p [admin:presets-ticked]", (typed, name) => {
  expect(presetName(typed)).toBe(name)
})
