import { describe, expect, test } from "bun:test"
import { parseDocument } from "../../src/config/document.ts"
import { createPreset, deletePreset, editPreset, readPresets } from "../../src/config/presets.ts"
import { formatIssue } from "../../src/lib/errors.ts"

const read = (text: string) => {
  const { presets, issues } = readPresets(parseDocument(text, "presets.json"))
  return {
    presets: [...presets].map(([name, { text: filter }]) => `${name}: ${filter}`),
    issues: issues.map(formatIssue),
  }
}

describe("presets.json", () => {
  test("holds filters by name", () => {
    expect(read('{"presets": {"dev": {"filter": "web or db", "description": "work"}}} // mine')).toEqual({
      presets: ["dev: web or db"],
      issues: [],
    })
    expect(read("")).toEqual({ presets: [], issues: [] })
  })

  test("reports an invalid preset with its position and loads the others", () => {
    const text = `{
  "presets": {
    "good": { "filter": "a" },
    "half": { "filter": "a and" },
    "none": { "description": "x" },
    "odd": { "filter": "b", "colour": 1 },
    "text": "a"
  },
  "more": 1
}`
    expect(read(text)).toEqual({
      presets: ["good: a", "odd: b"],
      issues: [
        'presets.json:9:3: unknown key "more" is ignored',
        'presets.json:4:15: preset half is not loaded: its filter is invalid at column 6: expected a tag, "not" or "(", found the end',
        'presets.json:5:5: preset none is not loaded: it selects nothing; write "filter", "servers", "allow", "deny", "readOnly", "new", "limits", "names" or "prefix"',
        'presets.json:6:29: unknown key "colour" is ignored',
        "presets.json:7:5: preset text is not loaded: must be an object, not a string",
      ],
    })
  })

  test("is rejected if presets is not an object", () => {
    expect(() => read('{"presets": []}')).toThrow("presets.json:1:2: presets must be an object of presets by name")
    expect(() => read("{")).toThrow("presets.json:1:2")
  })
})

describe("an edit of presets", () => {
  const TEXT = `{
  // what I use
  "presets": {
    "dev": { "filter": "web", "description": "work" }, // daily
  }
}
`
  test("creates the first one", () => {
    expect(JSON.parse(createPreset("a", { filter: "x or y" })(""))).toEqual({ presets: { a: { filter: "x or y" } } })
  })

  test("keeps comments and other presets", () => {
    const text = createPreset("more", { filter: "db", description: "d" })(TEXT)
    expect(text).toContain("// what I use")
    expect(text).toContain("// daily")
    expect(read(text).presets).toEqual(["dev: web", "more: db"])
  })

  test("changes only the given members", () => {
    const text = editPreset("dev", { filter: "db" })(TEXT)
    expect(parseDocument(text, "x").value.presets).toEqual({ dev: { filter: "db", description: "work" } })
    const bare = editPreset("dev", { description: "" })(text)
    expect(parseDocument(bare, "x").value.presets).toEqual({ dev: { filter: "db" } })
    expect(editPreset("dev", {})(TEXT)).toBe(TEXT)
  })

  test("deletes a preset", () => {
    expect(read(deletePreset("dev")(TEXT)).presets).toEqual([])
  })

  test("is rejected if the name or the filter is invalid", () => {
    expect(() => createPreset("dev", { filter: "a" })(TEXT)).toThrow("there is already a preset named dev")
    expect(() => createPreset("a b", { filter: "a" })(TEXT)).toThrow("The name of a preset must be")
    expect(() => createPreset("x", { filter: "a b" })(TEXT)).toThrow("the filter is invalid at column 3")
    expect(() => editPreset("de", { filter: "a" })(TEXT)).toThrow("did you mean dev?")
    expect(() => editPreset("dev", { filter: "(" })(TEXT)).toThrow("the filter is invalid at column 2")
    expect(() => deletePreset("other")(TEXT)).toThrow("no preset is named other")
  })
})
