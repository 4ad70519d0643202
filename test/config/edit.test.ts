import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { parseDocument } from "../../src/config/document.ts"
import {
  addServer,
  type Edit,
  patchServer,
  removeServer,
  renameServer,
  setDisabled,
  setToolDescription,
  setToolDisabled,
  writtenServers,
} from "../../src/config/edit.ts"
import { RequestError } from "../../src/lib/errors.ts"

const TEXT = `{
    // mine, do not touch
    "unknown": { "kept" : [1,2,   3] }, // really
    "mcpServers": {
        "a": { "command": "x", /* why */ "disabledTools": ["one"] },
        "b": { "url": "http://h/mcp" },
        "t": { "command": "stale", "disabledTools": ["old"] }
    },
    "mcpTemplates": { "t": { "command": "fresh" } },
}
`
const value = (text: string) =>
  parseDocument(text, "mcp.json").value as {
    mcpServers: Record<string, Record<string, unknown>>
    mcpTemplates: Record<string, Record<string, unknown>>
  }

describe("edits", () => {
  test.each(['{"mcpServers": {"a": {"command": "x"},}}', '{"mcpServers": {"a": {} /* its comma */ , // end\n}}'])(
    "remove the comma of an only member too: %s",
    (text) => {
      expect(value(removeServer("a")(text)).mcpServers).toEqual({})
    },
  )

  test("change only their target", () => {
    const added = addServer("c", { command: "y" })(TEXT)
    expect(value(added).mcpServers.c).toEqual({ command: "y" })
    for (const kept of [
      "// mine, do not touch",
      '"unknown": { "kept" : [1,2,   3] }, // really',
      '/* why */ "disabledTools": ["one"]',
    ])
      expect(added).toContain(kept)
    expect(value(removeServer("b")(TEXT)).mcpServers).not.toHaveProperty("b")
    expect(value(renameServer("a", "z")(TEXT)).mcpServers.z).toEqual({ command: "x", disabledTools: ["one"] })
    expect(value(patchServer("a", { timeout: 5, disabledTools: null })(TEXT)).mcpServers.a).toEqual({
      command: "x",
      timeout: 5,
    })
  })

  test("rename in place and keep comments", () => {
    expect(renameServer("a", "z")(TEXT)).toBe(TEXT.replace('"a":', '"z":'))
    expect(renameServer("a", "a")(TEXT)).toBe(TEXT)
    expect(renameServer("t", "u")(TEXT)).toBe(TEXT.replaceAll('"t":', '"u":'))
    expect(() => renameServer("a", "b")(TEXT)).toThrow("already")
    expect(() => renameServer("none", "none")(TEXT)).toThrow("no server")
  })

  test("rename with the tools that settings name: what is hidden stays hidden [tool:renamed]", () => {
    const text = `{"mcpServers":{"a b":{
      "disabledTools": ["a-b_svc_one", /* why */ "two", "a b_svc_three", "other_svc_four"],
      "toolDescriptionOverrides": { "a-b_svc_one": "1", "a b_svc_two": "2", "two": "mine" }, // texts
      "toolOverrides": { "a-b_svc_three": { "title": "3" } }
    }}}`
    expect(renameServer("a b", "z")(text)).toBe(
      text
        .replace('"a b":', '"z":')
        .replace('["a-b_svc_one"', '["one"')
        .replace('"a b_svc_three"', '"three"')
        .replace('"a-b_svc_one":', '"one":')
        .replace('"a-b_svc_three":', '"three":'),
    )
  })

  test("remove a template together with the server that it shadows", () => {
    expect(writtenServers(removeServer("t")(TEXT)).has("t")).toBe(false)
  })

  test("leave the other entries of a list as they are", () => {
    const text = '{"mcpServers":{"a":{"disabledTools":[\n"one", // why\n"two"\n]}}}'
    expect(setToolDisabled("a", "three", true)(text)).toBe(text.replace('"two"', '"two",\n"three"'))
    expect(setToolDisabled("a", "two", false)(text)).toBe(text.replace('"one", // why\n"two"', '"one" // why'))
  })

  test("enable a server that a string disabled", () => {
    for (const disabled of ["true", "Yes", "{{#if x}}true{{/if}}", true, 1]) {
      const text = JSON.stringify({ mcpServers: { a: { command: "x", disabled } } })
      expect(value(setDisabled("a", false)(text)).mcpServers.a).toEqual({ command: "x" })
    }
    const text = '{"mcpServers":{"a":{"disabled":"no"}}}'
    expect(value(setDisabled("a", true)(text)).mcpServers.a).toEqual({ disabled: true })
  })

  test("apply merge patches as RFC 7396 does", () => {
    const patched = patchServer("a", { oauth: { clientId: "me", clientSecret: null, deep: { x: null } }, args: [null] })
    expect(value(patched(TEXT)).mcpServers.a).toMatchObject({ oauth: { clientId: "me", deep: {} }, args: [null] })
    expect(value(patched(TEXT)).mcpServers.a?.oauth).not.toHaveProperty("clientSecret")
  })

  test("reject a name with the slug of another server", () => {
    const text = addServer("x y", {})(TEXT)
    expect(() => addServer("x/y", {})(text)).toThrow(
      '"x/y" and "x y" would give their tools the same names; choose another name',
    )
    expect(() => renameServer("a", "x/y")(text)).toThrow("would give their tools the same names")
    expect(writtenServers(renameServer("x y", "x/y")(text)).has("x/y")).toBe(true)
  })

  test("that change nothing return the same text", () => {
    expect(setDisabled("a", false)(TEXT)).toBe(TEXT)
    expect(setToolDisabled("a", "one", true)(TEXT)).toBe(TEXT)
    expect(setToolDisabled("a", "two", false)(TEXT)).toBe(TEXT)
  })

  test("undo each other", () => {
    expect(value(setDisabled("a", false)(setDisabled("a", true)(TEXT)))).toEqual(value(TEXT))
    expect(value(setToolDisabled("a", "two", false)(setToolDisabled("a", "two", true)(TEXT)))).toEqual(value(TEXT))
  })

  test("of a tool change the template and not the server that it shadows", () => {
    const changed = value(setToolDisabled("t", "write", true)(TEXT))
    expect([changed.mcpTemplates.t?.disabledTools, changed.mcpServers.t?.disabledTools]).toEqual([["write"], ["old"]])
  })

  test("accept both names of a tool", () => {
    const text = '{"mcpServers":{"é":{"disabledTools":["one"]}}}'
    expect(setToolDisabled("é", "-_svc_one", true)(text)).toBe(text)
    expect(value(setToolDisabled("é", "-_svc_two", true)(text)).mcpServers.é?.disabledTools).toEqual(["one", "two"])
  })

  test("show a tool that was hidden by its qualified name", () => {
    const text = '{"mcpServers":{"a":{"command":"x","disabledTools":["a_svc_one"]}}}'
    expect(value(setToolDisabled("a", "one", false)(text)).mcpServers.a).toEqual({ command: "x" })
  })

  test("find a server by its slug too", () => {
    const text = '{"mcpServers":{"a b":{"command":"x"},"c":{}}}'
    expect(value(setDisabled("a-b", true)(text)).mcpServers["a b"]).toEqual({ command: "x", disabled: true })
    expect(value(setToolDisabled("a-b", "one", true)(text)).mcpServers["a b"]?.disabledTools).toEqual(["one"])
    expect(renameServer("a-b", "d")(text)).toBe(text.replace("a b", "d"))
    expect(value(removeServer("a-b")(text)).mcpServers).toEqual({ c: {} })
  })

  test("of a missing server suggest the nearest name", () => {
    expect(() => removeServer("bb")(TEXT)).toThrow("no server is named bb; did you mean b?")
    expect(() => addServer("a", {})(TEXT)).toThrow("already")
    expect(() => addServer("x_svc_y", {})(TEXT)).toThrow("must not")
  })

  test("keep tabs and Windows line ends", () => {
    const text = '{\r\n\t"mcpServers": {\r\n\t\t"a": { "command": "x" }\r\n\t}\r\n}\r\n'
    const changed = addServer("b", { command: "y" })(text)
    expect(changed).toContain('"a": { "command": "x" },\r\n\t\t"b": {\r\n\t\t\t"command": "y"\r\n\t\t}')
    expect(changed.replaceAll("\r\n", "")).not.toContain("\n")
  })
})

test("any sequence of edits keeps the document valid and all other bytes", () => {
  const name = fc.constantFrom("a", "b", "c", "d", "é x", "t")
  const edit: fc.Arbitrary<Edit> = fc.oneof(
    fc
      .tuple(name, fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 }))
      .map(([one, server]) => addServer(one, server as never)),
    name.map(removeServer),
    fc.tuple(name, name).map(([one, other]) => renameServer(one, other)),
    fc.tuple(name, fc.boolean()).map(([one, disabled]) => setDisabled(one, disabled)),
    fc
      .tuple(name, fc.string({ minLength: 1 }), fc.boolean())
      .map(([one, tool, disabled]) => setToolDisabled(one, tool, disabled)),
    fc
      .tuple(name, fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 }))
      .map(([one, patch]) => patchServer(one, patch as never)),
  )
  fc.assert(
    fc.property(fc.array(edit, { maxLength: 12 }), (edits) => {
      const kept = '"kept" : {"command":"x" , /* so */\n"args":["1",\n] }'
      let text = TEXT.replace('"a":', `${kept},\n        "a":`)
      for (const one of edits) {
        const before = text
        try {
          text = one(text)
        } catch (error) {
          expect(error).toBeInstanceOf(RequestError)
          text = before
        }
        expect(() => writtenServers(text)).not.toThrow()
        expect(text).toContain('    // mine, do not touch\n    "unknown": { "kept" : [1,2,   3] }, // really\n')
        expect(text).toContain(kept)
      }
    }),
  )
})

describe("setToolDescription", () => {
  const overrides = (text: string) =>
    (JSON.parse(text) as { mcpServers: { "my web": Record<string, unknown> } }).mcpServers["my web"]
      .toolDescriptionOverrides
  const text = (written?: object) =>
    JSON.stringify({ mcpServers: { "my web": written === undefined ? {} : { toolDescriptionOverrides: written } } })

  test("writes the local name, and replaces the text under the name that is written", () => {
    expect(overrides(setToolDescription("my web", "one", "x")(text()))).toEqual({ one: "x" })
    expect(overrides(setToolDescription("my web", "my-web_svc_one", "x")(text()))).toEqual({ one: "x" })
    const qualified = text({ "my-web_svc_one": "old", two: "kept" })
    expect(overrides(setToolDescription("my web", "one", "x")(qualified))).toEqual({
      "my-web_svc_one": "x",
      two: "kept",
    })
  })

  test("removes every spelling, and the key with the last one", () => {
    const written = text({ one: "a", "my-web_svc_one": "b", two: "kept" })
    expect(overrides(setToolDescription("my web", "one", undefined)(written))).toEqual({ two: "kept" })
    expect(overrides(setToolDescription("my web", "two", undefined)(text({ two: "x" })))).toBeUndefined()
    expect(setToolDescription("my web", "three", undefined)(written)).toBe(written)
  })

  test("refuses a tool without a name, and an unknown server", () => {
    expect(() => setToolDescription("my web", "", "x")(text())).toThrow("must not be empty")
    expect(() => setToolDescription("other", "one", "x")(text())).toThrow("other")
  })
})
