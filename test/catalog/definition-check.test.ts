import { describe, expect, test } from "bun:test"
import { isSpecType as sdk2 } from "@modelcontextprotocol/client"
import {
  InitializeResultSchema,
  ListPromptsResultSchema,
  ListResourcesResultSchema,
  ListResourceTemplatesResultSchema,
  ListToolsResultSchema,
} from "@modelcontextprotocol/sdk/types.js"
import { checkEntry, checkHandshake, definitionTexts, legacyTool } from "../../src/catalog/definition-check.ts"
import type { ListMethod } from "../../src/catalog/listing.ts"
import { parseExact } from "../../src/lib/json.ts"
import type { Era } from "../../src/wire/era.ts"
import { isObject, type Params } from "../../src/wire/message.ts"
import { ODD, type RandomLists, randomLists } from "../definitions.ts"

const SDK1 = {
  ListTools: ListToolsResultSchema,
  ListPrompts: ListPromptsResultSchema,
  ListResources: ListResourcesResultSchema,
  ListResourceTemplates: ListResourceTemplatesResultSchema,
}
const LISTS: readonly (readonly [ListMethod, keyof RandomLists, keyof typeof SDK1])[] = [
  ["tools/list", "tools", "ListTools"],
  ["prompts/list", "prompts", "ListPrompts"],
  ["resources/list", "resources", "ListResources"],
  ["resources/templates/list", "resourceTemplates", "ListResourceTemplates"],
]

test("both SDKs accept each entry that svc lets through [definitions:contained]", () => {
  let [accepted, repaired] = [0, 0]
  for (let seed = 0; seed < 60; seed++) {
    const lists = randomLists(seed, 0.05, 20)
    for (const [method, key, schema] of LISTS)
      for (const [at, given] of lists[key].entries())
        for (const era of ["legacy", "modern"] as const) {
          const { entry, issues } = checkEntry(method, era, given, at)
          if (entry === undefined) continue
          accepted++
          if (issues.length > 0) repaired++
          const shown = JSON.parse(JSON.stringify(method === "tools/list" ? legacyTool(entry) : entry))
          const list = { [key]: [shown] }
          const read = [SDK1[schema].safeParse(list).error, sdk2[`${schema}Result`](list)]
          expect([seed, shown, read]).toEqual([seed, shown, [undefined, true]])
        }
  }
  expect(accepted).toBeGreaterThan(5000)
  expect(repaired).toBeGreaterThan(1000)
})

test("numbers that clients read as infinite are left out, and nothing else of their tool [definitions:contained]", () => {
  const text = `{"name":"t","inputSchema":{"type":"object","properties":{
    "a":{"type":"number","maximum":1e400,"default":-1e999,"minimum":1e3},
    "b":{"enum":[1,1e400,[2,-1e400]],"x-deep":{"__proto__":{"c":1e400,"d":1}}},"c":{"const":${"9".repeat(400)}}}},
    "outputSchema":{"type":"object","properties":{"a":{"default":1e400,"type":"number"}}}}`
  const { entry, issues } = checkEntry("tools/list", "legacy", parseExact(text), 1)
  expect(JSON.parse(JSON.stringify(entry))).toEqual(
    JSON.parse(`{"name":"t","inputSchema":{"type":"object","properties":{
      "a":{"type":"number","minimum":1000},"b":{"enum":[1,[2]],"x-deep":{"__proto__":{"d":1}}},"c":{}}},
      "outputSchema":{"type":"object","properties":{"a":{"type":"number"}}}}`),
  )
  expect(issues).toHaveLength(7)
  expect(sdk2.ListToolsResult({ tools: [JSON.parse(JSON.stringify(entry))] })).toBe(true)
  const capabilities = parseExact(
    '{"experimental":{"x":{"a":1e400}},"logging":{"b":[1e400]},"extensions":{"y":{"c":1}}}',
  )
  const said = checkHandshake("s", { serverInfo: {}, capabilities, instructions: undefined, members: undefined })
  expect(said.capabilities).toEqual({ experimental: { x: {} }, logging: { b: [] }, extensions: { y: { c: 1 } } })
  const { members } = checkHandshake("s", { ...said, members: { _meta: { progressToken: 2 ** 60 } } })
  expect(members).toEqual({ _meta: {} })
})

test("valid definitions stay the same objects, with unknown members and their order [definitions:unchanged]", () => {
  for (let seed = 0; seed < 60; seed++) {
    const lists = randomLists(seed, 0, 10)
    for (const [method, key] of LISTS)
      for (const [at, given] of lists[key].entries()) {
        const { entry, issues } = checkEntry(method, "legacy", given, at)
        const isEndless = issues.some(({ reason }) => reason.includes("refers to itself"))
        if (!isEndless) expect([seed, issues, entry === given]).toEqual([seed, [], true])
      }
  }
})

/** Returns a tool after its check. */
const tool = (members: object, era: Era = "legacy") =>
  checkEntry("tools/list", era, { name: "t", inputSchema: { type: "object" }, ...members }, 1)
const checked = (method: ListMethod, entry: object) => checkEntry(method, "legacy", entry, 1)

describe("of a definition, svc", () => {
  const good = { name: "t", inputSchema: { type: "object" } }

  test("leaves out optional members that are null or of another type [definitions:repaired]", () => {
    for (const member of ["title", "description", "annotations", "_meta", "icons", "execution", "outputSchema"])
      for (const value of [null, 7]) {
        const { entry, issues } = tool({ [member]: value })
        expect([member, entry]).toEqual([member, good])
        expect(issues).toMatchObject([{ kind: "tool", name: "t", member }])
      }
    const hints = { readOnlyHint: null, destructiveHint: "yes", idempotentHint: true, "x-own": null }
    expect(tool({ annotations: hints }).entry).toEqual({
      ...good,
      annotations: { idempotentHint: true, "x-own": null },
    })
    expect(tool({ icons: [{ src: "a" }, { src: null }, null, { src: "b", sizes: "48x48" }] }).entry?.icons).toEqual([
      { src: "a" },
      { src: "b" },
    ])
    expect(checked("prompts/list", { name: "p", arguments: null }).entry).toEqual({ name: "p" })
    expect(checked("prompts/list", { name: "p", arguments: [{}, { name: "a", required: "yes" }] }).entry).toEqual({
      name: "p",
      arguments: [{ name: "a" }],
    })
    const odd = { size: null, mimeType: 5, annotations: { priority: 5, audience: ["user"], lastModified: "today" } }
    expect(checked("resources/list", { uri: "a:b", name: "r", ...odd }).entry).toEqual({
      uri: "a:b",
      name: "r",
      annotations: { audience: ["user"] },
    })
  })

  test("reads an empty list as an empty object, and vice versa [definitions:repaired]", () => {
    expect(tool({ _meta: [], annotations: [] }).entry).toEqual({ ...good, _meta: {}, annotations: {} })
    expect(tool({ inputSchema: { type: "object", properties: [], required: {} } }).entry?.inputSchema).toEqual({
      type: "object",
      properties: {},
      required: [],
    })
    const nested = { type: "object", properties: { a: { type: "object", properties: [] }, b: [] } }
    expect(tool({ inputSchema: nested }).entry?.inputSchema).toEqual({
      type: "object",
      properties: { a: { type: "object", properties: {} }, b: {} },
    })
  })

  test("reads the schema of arguments as that of an object, or leaves the tool out [definitions:repaired]", () => {
    for (const inputSchema of [undefined, null, {}, [], true, { type: null }, { type: ["object", "null"] }])
      expect([inputSchema, tool({ inputSchema }).entry?.inputSchema]).toEqual([inputSchema, { type: "object" }])
    const properties = { a: { type: "string" } }
    expect(tool({ inputSchema: { properties } }).entry?.inputSchema).toEqual({ type: "object", properties })
    for (const inputSchema of [{ type: "strin" }, { type: "string" }, "object", 5, ["a"], false])
      expect([inputSchema, tool({ inputSchema }).entry]).toEqual([inputSchema, undefined])
    expect(tool({ inputSchema: { type: "object", properties: { a: null, b: true, c: "text", d: {} } } }).entry).toEqual(
      {
        name: "t",
        inputSchema: { type: "object", properties: { a: {}, b: {}, c: {}, d: {} } },
      },
    )
    expect(tool({ inputSchema: { type: "object", required: [1, "a"] } }).entry?.inputSchema).toEqual({
      type: "object",
      required: ["a"],
    })
  })

  test("leaves out output schemas that clients cannot compile [definitions:output]", () => {
    const of = (a: unknown, more: object = {}) => ({ type: "object", properties: { a }, ...more })
    for (const outputSchema of [
      of({ $ref: "#/$defs/none" }),
      of({ $ref: "other.json" }),
      of({ type: "strin" }),
      of({ type: "string", pattern: "(" }),
      of({ minimum: "5" }),
      of({ enum: [] }),
      of({ $ref: "#/$defs/b" }, { $defs: { b: { $ref: "#/$defs/b" } } }),
      of({}, { $schema: "http://json-schema.org/draft-04/schema#" }),
      { type: "array" },
      {},
    ]) {
      const { entry, issues } = tool({ outputSchema })
      expect([outputSchema, entry]).toEqual([outputSchema, good])
      expect(issues).toHaveLength(1)
    }
    expect(tool({ outputSchema: { properties: { a: { minimum: null, id: "A" } } } }).entry?.outputSchema).toEqual({
      type: "object",
      properties: { a: {} },
    })
  })

  test("bounds its work for deep and large schemas [definitions:contained]", () => {
    let deep: Params = {}
    for (let level = 0; level < 250; level++) deep = { properties: { a: deep } }
    expect(tool({ outputSchema: { type: "object", ...deep } }).entry).toEqual(good)
    expect(tool({ inputSchema: { type: "object", ...deep } }).entry?.inputSchema).toEqual({ type: "object", ...deep })
    const wide = {
      type: "object",
      properties: Object.fromEntries(Array.from({ length: 200_000 }, (_, at) => [at, {}])),
    }
    expect(tool({ outputSchema: wide }).entry).toEqual(good)
    expect(tool({ inputSchema: wide }).entry?.inputSchema).toBe(wide)
    const members = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`p${at}`, {}]))
    const copies = Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [at, { $ref: "#/$defs/big" }]))
    const repeated = { type: "object", properties: copies, $defs: { big: { properties: members } } }
    expect(tool({ outputSchema: repeated }).issues).toMatchObject([{ member: expect.stringContaining("outputSchema") }])
  })

  test("leaves out entries without a usable name or URI [definitions:left-out]", () => {
    for (const entry of [{}, { name: null }, { name: 5 }])
      for (const method of ["tools/list", "prompts/list"] as const)
        expect([entry, checked(method, entry).entry]).toEqual([entry, undefined])
    expect(checkEntry("tools/list", "legacy", null, 3)).toMatchObject({
      entry: undefined,
      issues: [{ kind: "tool", name: "no. 3", member: "", reason: "is not an object: left out" }],
    })
    expect(checked("resources/list", { name: "r" }).entry).toBeUndefined()
    expect(checked("resources/list", { uri: "a:b" }).entry).toEqual({ uri: "a:b", name: "a:b" })
    expect(checked("resources/templates/list", { uriTemplate: "a:{b}", name: null }).entry).toEqual({
      uriTemplate: "a:{b}",
      name: "a:{b}",
    })
  })
})

test("legacy clients get tools of modern servers without what only modern clients accept", () => {
  const members = {
    outputSchema: { type: "array" },
    inputSchema: { type: "object", properties: { a: true, b: false } },
  }
  const { entry, issues } = tool(members, "modern")
  expect([entry, issues]).toEqual([{ name: "t", ...members }, []])
  expect(legacyTool(entry as Params)).toEqual({
    name: "t",
    inputSchema: { type: "object", properties: { a: {}, b: { not: {} } } },
  })
})

test("both SDKs accept each handshake after its check [definitions:handshake]", () => {
  const good = {
    serverInfo: { name: "s", version: "1", title: "S", icons: [{ src: "a" }] },
    capabilities: {
      tools: { listChanged: true },
      logging: {},
      extensions: { "a/b": {} },
      experimental: { x: {} },
      tasks: {},
    },
    instructions: "Use it.",
    members: { _meta: { a: null }, other: null },
  }
  expect(checkHandshake("s", good)).toMatchObject({ ...good, handshakeIssues: [] })
  const variants = (value: unknown): unknown[] => [
    ...ODD,
    ...(isObject(value)
      ? Object.keys(value).flatMap((key) => variants(value[key]).map((odd) => ({ ...value, [key]: odd })))
      : []),
  ]
  for (const key of ["serverInfo", "capabilities", "instructions", "members"] as const)
    for (const odd of variants(good[key])) {
      const { members, handshakeIssues: _issues, serverInfo, ...rest } = checkHandshake("s", { ...good, [key]: odd })
      const given = { serverInfo: { name: "s", version: "1", ...serverInfo }, protocolVersion: "2025-11-25" }
      const shown = JSON.parse(JSON.stringify({ ...members, ...rest, ...given }))
      const read = [InitializeResultSchema.safeParse(shown).error, sdk2.InitializeResult(shown)]
      expect([key, odd, read]).toEqual([key, odd, [undefined, true]])
    }
  const { capabilities } = checkHandshake("s", { ...good, capabilities: { tools: [], prompts: null, resources: true } })
  expect(capabilities).toEqual({ tools: {}, resources: {} })
})

test("similar issues become one text with the first names, and entries that are left out come first", () => {
  const issue = { kind: "tool", member: "title", reason: "is null: left out" } as const
  expect(definitionTexts(["a", "b", "c", "d", "e"].map((name) => ({ ...issue, name })))).toEqual([
    "tools a, b, c and 2 more: title is null: left out",
  ])
  const gone = { ...issue, name: "z", member: "name", reason: "is not a string: the tool is left out" }
  expect(definitionTexts([{ ...issue, name: "a" }, gone])[0]).toBe("tool z: name is not a string: the tool is left out")
  expect(definitionTexts([{ ...issue, name: "a", kind: "prompt" }])).toEqual(["prompt a: title is null: left out"])
})
