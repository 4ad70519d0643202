import { expect, test } from "bun:test"
import { editClientDocument, readClientDocument, revertEdits } from "../../../src/features/connect/client-edit.ts"

const path = ["s", "svc"]
const set = (text: string, file: string, value: unknown) => editClientDocument(text, file, [{ path, value }])

test("TOML: a table is appended, replaced in place and removed with its tables", () => {
  const other = '[s.a]\nx = 1\n\n# of z\n[z]\ny = """\n[s.svc]\n"""\n'
  const one = set(other, "c.toml", { url: "u", http_headers: { "X-A": 'q"\\' } })
  expect(one).toBe(`${other}\n[s.svc]\nurl = "u"\n\n[s.svc.http_headers]\nX-A = "q\\"\\\\"\n`)
  const middle = '[s.svc]\nurl = "old"\n[s.svc.env]\nA = "b"\n\n# of a\n[s.a]\nx = 1\n'
  expect(set(middle, "c.toml", { url: "new" })).toBe('[s.svc]\nurl = "new"\n\n# of a\n[s.a]\nx = 1\n')
  expect(set(middle, "c.toml", undefined)).toBe("# of a\n[s.a]\nx = 1\n")
  expect(set("", "c.toml", { url: "u" })).toBe('[s.svc]\nurl = "u"\n')
  expect(set("a = 1", "c.toml", { url: "u" })).toBe('a = 1\n\n[s.svc]\nurl = "u"\n')
  expect(set("a = 1\r\n", "c.toml", { url: "u" })).toBe('a = 1\r\n\r\n[s.svc]\r\nurl = "u"\r\n')
  expect(set('[s."svc"]\nurl = "old"\n', "c.toml", { url: "u" })).toBe('[s.svc]\nurl = "u"\n')
  expect(set('[[s2]]\nq = 1\n[s.svc]\nurl = "old"\n[[s2]]\nq = 2\n', "c.toml", undefined)).toBe(
    "[[s2]]\nq = 1\n[[s2]]\nq = 2\n",
  )
})

test("YAML: a member is added to a block, replaced and removed", () => {
  const text = "a: 1\ns:\n    x:\n        k: v # c\n\nb: 2\n"
  expect(set(text, "c.yaml", { uri: "u" })).toBe("a: 1\ns:\n    x:\n        k: v # c\n    svc:\n      uri: u\n\nb: 2\n")
  expect(set("s: {}\n", "c.yaml", { uri: "u: x" })).toBe('s:\n  svc:\n    uri: "u: x"\n')
  expect(set("", "c.yaml", { uri: "u" })).toBe("s:\n  svc:\n    uri: u\n")
  expect(set("s:\n  svc:\n    uri: old\n  x: 1\n", "c.yaml", { uri: "u" })).toBe("s:\n  svc:\n    uri: u\n  x: 1\n")
  expect(set("s:\n  svc:\n    uri: old\nb: 2\n", "c.yaml", undefined)).toBe("s: {}\nb: 2\n")
})

test.each([
  ["c.toml", 's = { svc = { url = "old" } }\n', { url: "u" }],
  ["c.toml", 's.svc.url = "old"\n', undefined],
  ["c.toml", "s = { a = 1 }\n", { url: "u" }],
  ["c.yaml", "s: {svc: {uri: old}}\n", { uri: "u" }],
  ["c.yaml", "s: &anchor\n  x: 1\n", { uri: "u" }],
])("a %s in a form that cannot be edited safely is refused: %j [connect:untouched]", (file, text, value) => {
  expect(() => set(text, file, value)).toThrow(`${file} is written in a form that svc cannot edit safely`)
})

test.each([
  ["c.json", '{\n  "s": {,}\n}', "c.json:2:9: not valid JSON"],
  ["c.toml", "a = 1\n\n  b = = 2\n", "c.toml:3:3: not valid TOML"],
  ["c.yaml", "a: 1\nb: [\n", "c.yaml:2:1: not valid YAML"],
  ["c.yaml", "- 1\n", "c.yaml:1:1: the document must consist of named values"],
])("a malformed %s is refused with line and column [connect:untouched]", (file, text, message) => {
  expect(() => readClientDocument(text, file)).toThrow(message)
  expect(() => set(text, file, {})).toThrow(message)
})

test("edits are taken back where they were made, unless the value has been changed since [connect:undo]", () => {
  const before = '{ "s": { "a": { "k": 1 } } }'
  const now = '{ "s": { "svc": { "url": "u" } }, "more": 1 }'
  const paths = [path, ["s", "a"]]
  expect(readClientDocument(revertEdits(before, now, "c.json", paths, () => true).text, "c.json")).toEqual({
    s: { a: { k: 1 } },
    more: 1,
  })
  expect(() => revertEdits(before, now, "c.json", paths, (_, value) => value === undefined)).toThrow(
    "s.svc in c.json has been changed since",
  )
})

test.each([
  ["c.json", '{\n  "theme": 1,\n  "s": {\n    // of a\n    "a": { "k": 1 }, // why\n    "b": 2\n  }\n}\n', "1,", "2,"],
  ["c.toml", "theme = 1\n\n# of a\n[s.a] # why\n# inside\nk = 1\n\n[z]\nq = 1\n", "theme = 1", "theme = 2"],
  ["c.yaml", "theme: 1\ns:\n  # of a\n  a: # why\n    # inside\n    k: 1\nz: 1\n", "theme: 1", "theme: 2"],
])("%s: values come back with their comments, beside edits of others [connect:undo]", (file, before, old, edited) => {
  const paths = [path, ["s", "a"]]
  const values = [{ url: "u" }, undefined]
  const written = editClientDocument(
    before,
    file,
    paths.map((place, at) => ({ path: place, value: values[at] })),
  )
  const now = written.replace(old, edited)
  expect(revertEdits(before, now, file, paths, () => true)).toEqual({
    text: before.replace(old, edited),
    isWhole: true,
  })
})

test("values that come back without their comments are told [connect:undo]", () => {
  const before = '{\n  "s": {\n    "a": { "k": 1 /* why */ }\n  }\n}\n'
  const now = '{\n  "s": {\n    "svc": { "url": "u" },\n    "mine": {}\n  }\n}\n'
  const { text, isWhole } = revertEdits(before, now, "c.json", [path, ["s", "a"]], () => true)
  expect([readClientDocument(text, "c.json"), isWhole]).toEqual([{ s: { a: { k: 1 }, mine: {} } }, false])
})
