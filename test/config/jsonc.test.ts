import { expect, test } from "bun:test"
import fc from "fast-check"
import { parseTree } from "jsonc-parser"
import { findNode, type Path, parseDocument } from "../../src/config/document.ts"
import { removeValue, renameKey, setValue } from "../../src/config/jsonc.ts"

const FILE = `{
  // first
  "a": { "x": 1, "y": [1,2] }, // of a
  "b": {
      "z" : 1   // of z
  },
  /* of c */ "c": [
    "one", // 1
    "two"
  ]
}
`

test("a new member is written like its neighbours", () => {
  expect(setValue(FILE, ["d"], { e: [] })).toBe(FILE.replace('"two"\n  ]', '"two"\n  ],\n  "d": {\n    "e": []\n  }'))
  expect(setValue(FILE, ["a", "n"], true)).toBe(FILE.replace("[1,2] }", '[1,2], "n": true }'))
  expect(setValue(FILE, ["b", "n"], true)).toBe(
    FILE.replace('"z" : 1   // of z', '"z" : 1,   // of z\n      "n": true'),
  )
  expect(setValue(FILE, ["c", 2], "three")).toBe(FILE.replace('"two"', '"two",\n    "three"'))
  expect(setValue("{}", ["a", "b"], 1)).toBe('{\n  "a": {\n    "b": 1\n  }\n}')
  expect(setValue("", ["a"], 1)).toBe('{\n  "a": 1\n}\n')
  expect(setValue('{\n\t"a": 1, // last\n}', ["b"], 2)).toBe('{\n\t"a": 1, // last\n\t"b": 2,\n}')
  expect(setValue("{ // empty\n}", ["a"], 1)).toBe('{ // empty\n  "a": 1\n}')
})

test("a value is replaced in place", () => {
  expect(setValue(FILE, ["b", "z"], "new")).toBe(FILE.replace('"z" : 1', '"z" : "new"'))
  expect(setValue(FILE, ["a", "y"], { q: 1 })).toBe(FILE.replace("[1,2]", '{"q":1}'))
  expect(setValue('{"a": null}', ["a", "b"], 1)).toBe('{"a": {"b":1}}')
})

test("a member is removed with its line and its comma", () => {
  expect(removeValue(FILE, ["a"])).toBe(FILE.replace(/ {2}"a".*\n/, ""))
  expect(removeValue(FILE, ["a", "x"])).toBe(FILE.replace('"x": 1, ', ""))
  expect(removeValue(FILE, ["a", "y"])).toBe(FILE.replace(', "y": [1,2]', ""))
  expect(removeValue(FILE, ["b", "z"])).toBe(FILE.replace(/\{\s+"z".*\n\s+\}/, "{}"))
  expect(removeValue(FILE, ["c", 1])).toBe(FILE.replace('"one", // 1\n    "two"', '"one" // 1'))
  expect(removeValue(FILE, ["none", "x"])).toBe(FILE)
})

test("of duplicate keys the last is edited, and all are removed", () => {
  const twice = '{"a": 1, "b": 2, "a": 3}'
  expect(setValue(twice, ["a"], 4)).toBe('{"a": 1, "b": 2, "a": 4}')
  expect(removeValue(twice, ["a"])).toBe('{"b": 2}')
})

test("renaming changes only the key", () => {
  expect(renameKey(FILE, ["b"], 'q"')).toBe(FILE.replace('"b":', '"q\\"":'))
})

// ---

const gap = fc.constantFrom("", " ", "\n", "\r\n  ", "\n\t", " /* , ] } */ ", ' // ", {\n', "\n// :\n  ")
const key = fc.constantFrom("a", "b", "c", "é", "__proto__", '"')

/** JSON of any form that people give it. */
const { value: written } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, depthIdentifier: "json" },
    fc.constantFrom("1", '"x, // y"', "null", "true", "[]", "{}", '"}"'),
    fc
      .tuple(
        fc.uniqueArray(key, { maxLength: 3 }),
        fc.array(fc.tuple(gap, gap, gap, gap, tie("value"))),
        fc.boolean(),
        gap,
      )
      .map(([keys, parts, trailing, end]) => {
        const members = keys.flatMap((name, index) => {
          const part = parts[index]
          if (part === undefined) return []
          const [one, two, three, four, value] = part
          return [`${one}${JSON.stringify(name)}${two}:${three}${value}${four}`]
        })
        return `{${members.join(",")}${trailing && members.length > 0 ? "," : ""}${end}}`
      }),
    fc
      .tuple(fc.array(fc.tuple(gap, tie("value"), gap), { maxLength: 3 }), fc.boolean(), gap)
      .map(([items, trailing, end]) => {
        const elements = items.map((item) => item.join(""))
        return `[${elements.join(",")}${trailing && elements.length > 0 ? "," : ""}${end}]`
      }),
  ),
}))
const documents = fc
  .tuple(fc.constantFrom("", "\ufeff"), gap, written, gap)
  .filter(([, , value]) => value.startsWith("{"))
  .map((parts) => parts.join(""))
const paths = fc
  .tuple(key, fc.array(fc.oneof(key, fc.nat(2)), { maxLength: 2 }))
  .map(([first, rest]): Path => [first, ...rest])

/** The text of everything that is neither on the way to `path` nor below it. */
function others(text: string, path: Path): readonly string[] {
  const root = parseTree(text, [], { allowTrailingComma: true })
  const around = root === undefined ? undefined : findNode(root, path.slice(0, -1))
  const [first, ...rest] = path
  const found: string[] = []
  const walk = (at: Path, [step, ...more]: Path) => {
    const node = root === undefined ? undefined : findNode(root, at)
    node?.children?.forEach((child, index) => {
      const name = child.type === "property" ? child.children?.[0]?.value : index
      const value = child.type === "property" ? child.children?.[1] : child
      if (name !== step && value !== undefined)
        found.push(`${String(name)} ${text.slice(value.offset, value.offset + value.length)}`)
    })
    if (step !== undefined && more.length > 0) walk([...at, step], more)
  }
  if (first !== undefined) walk([], [first, ...rest])
  return around === undefined ? [] : found
}

const at = (value: unknown, path: Path): unknown =>
  path.reduce<unknown>(
    (inner, step) =>
      typeof inner === "object" && inner !== null && Object.hasOwn(inner, step)
        ? (inner as Record<string | number, unknown>)[step]
        : undefined,
    value,
  )

test("setting a value keeps the bytes of every other value", () => {
  fc.assert(
    fc.property(documents, paths, fc.jsonValue({ maxDepth: 1 }), (text, wanted, value) => {
      const { value: original } = parseDocument(text, "f")
      // An index beyond an array's end appends.
      const path = wanted.reduce<Path>((done, step) => {
        const around = at(original, done)
        const length = Array.isArray(around) ? around.length : 0
        return done.concat(typeof step === "number" ? Math.min(step, length) : step)
      }, [])
      const fits = path.every((step, index) => {
        const around = at(original, path.slice(0, index))
        return around === undefined || (typeof step === "number") === Array.isArray(around)
      })
      const before = fits ? others(text, path) : []
      const changed = setValue(text, path, value)
      const document = parseDocument(changed, "f")
      expect(at(document.value, path)).toEqual(JSON.parse(JSON.stringify(value)))
      if (before.length > 0) expect(others(changed, path)).toEqual(before)
      expect(changed.startsWith("\ufeff")).toBe(text.startsWith("\ufeff"))
    }),
    { numRuns: 1000 },
  )
})

test("removing a value keeps the bytes of every other value", () => {
  fc.assert(
    fc.property(documents, paths, (text, path) => {
      const { value } = parseDocument(text, "f")
      const changed = removeValue(text, path)
      if (at(value, path) === undefined) return expect(changed).toBe(text)
      const after = parseDocument(changed, "f").value
      const parent = at(after, path.slice(0, -1))
      if (Array.isArray(parent)) expect(parent).toHaveLength((at(value, path.slice(0, -1)) as unknown[]).length - 1)
      else {
        expect(at(after, path)).toBeUndefined()
        expect(others(changed, path)).toEqual(others(text, path))
      }
    }),
    { numRuns: 1000 },
  )
})
