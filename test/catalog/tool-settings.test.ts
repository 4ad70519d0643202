import { expect, test } from "bun:test"
import {
  descriptionOverride,
  hidesEveryTool,
  isHidden,
  toolRows,
  unknownOverrides,
  withOverrides,
} from "../../src/catalog/tool-settings.ts"
import { slugOf } from "../../src/config/server-spec.ts"

const server = (disabledTools: readonly string[], toolDescriptionOverrides: Readonly<Record<string, string>>) => ({
  name: "A b",
  slug: "a-b",
  tuning: { disabledTools, toolDescriptionOverrides },
})
const TOOLS = [{ name: "one", description: "1" }, { name: "two" }, { name: "one", description: "again" }]

test("a tool's description is overridden under each of its names, the local one first [tool:override:names]", () => {
  for (const key of ["one", "a-b_svc_one", "A b_svc_one"])
    expect(descriptionOverride(server([], { [key]: "mine" }), "one")).toBe("mine")
  expect(descriptionOverride(server([], { "a-b_svc_one": "long", one: "short" }), "one")).toBe("short")
  expect(descriptionOverride(server([], { other_svc_one: "x" }), "one")).toBeUndefined()
  expect(descriptionOverride(server([], {}), "constructor")).toBeUndefined()
})

test("the former names of a server's tools stay valid in settings [names:slug]", () => {
  for (const [name, slug, former] of [
    ["com.example", "com-example", "com.example"],
    ["com.example x", "com-example-x", "com.example-x"],
    ["日本", slugOf("日本"), "--"],
  ] as const)
    for (const prefix of [name, slug, former]) {
      const tuning = { disabledTools: [`${prefix}_svc_one`], toolDescriptionOverrides: {} }
      expect([prefix, isHidden({ name, slug, tuning }, "one")]).toEqual([prefix, true])
    }
})

test("an override of no tool is known, unless the tools are not [tool:override:names]", () => {
  const overridden = server([], { "a-b_svc_one": "x", two: "y", nope: "z" })
  expect(unknownOverrides(overridden, TOOLS)).toEqual(["nope"])
  expect(unknownOverrides(overridden, [])).toEqual(["a-b_svc_one", "two", "nope"])
  expect(unknownOverrides(overridden, undefined)).toEqual([])
})

test("a tool's title, annotations and _meta are overridden, by its own settings before those of the server [tool:overrides]", () => {
  const tool = {
    name: "one",
    title: "Old",
    annotations: { title: "Old", readOnlyHint: false, openWorldHint: false },
    inputSchema: { type: "object" },
    _meta: { "com.example/x": 1, "anthropic/searchHint": "old" },
  }
  const overridden = {
    ...server([], { one: "mine" }),
    tuning: {
      toolDescriptionOverrides: { one: "mine" },
      toolOverrides: {
        "a-b_svc_one": { title: "New", annotations: { readOnlyHint: true }, searchHint: "new" },
        two: { alwaysLoad: false },
      },
      alwaysLoad: true,
      searchHint: "all",
    },
  }
  expect(withOverrides(overridden, tool)).toEqual({
    ...tool,
    title: "New",
    description: "mine",
    annotations: { title: "New", readOnlyHint: true, openWorldHint: false },
    _meta: { "com.example/x": 1, "anthropic/searchHint": "new", "anthropic/alwaysLoad": true },
  })
  expect(withOverrides(overridden, { name: "two" })).toEqual({
    name: "two",
    _meta: { "anthropic/searchHint": "all", "anthropic/alwaysLoad": false },
  })
  expect(withOverrides(server([], {}), tool)).toEqual(tool)
  expect(toolRows({ ...overridden, tuning: { ...overridden.tuning, disabledTools: [] } }, [tool], () => false)).toEqual(
    [
      {
        name: "one",
        description: "mine",
        upstreamDescription: undefined,
        overrides: { alwaysLoad: true, title: "New", annotations: { readOnlyHint: true }, searchHint: "new" },
        disabled: false,
      },
    ],
  )
  expect(unknownOverrides(overridden, [tool])).toEqual(["two"])
})

test("rows of tools have both descriptions, and the hidden names that are of no tool [cli:tools:offline]", () => {
  const settings = server(["a-b_svc_two", "nope", "nope"], { one: "mine" })
  expect(toolRows(settings, TOOLS, (name) => name === "one")).toEqual([
    { name: "one", description: "mine", upstreamDescription: "1", disabled: false, held: true },
    { name: "two", description: undefined, disabled: true },
    { name: "nope", description: undefined, disabled: true, gone: true },
  ])
  expect(toolRows(settings, undefined, () => false)).toEqual([
    { name: "a-b_svc_two", description: undefined, disabled: true },
    { name: "nope", description: undefined, disabled: true },
  ])
})

const instance = (tools: readonly string[] | undefined, disabledTools: readonly string[] = []) => ({
  spec: { name: "A b", slug: "a-b", tuning: { disabledTools } },
  listing: tools === undefined ? undefined : { tools: tools.map((name) => ({ name })) },
})

test("the last enabled tool of any instance is known by each of its names [tools:zero]", () => {
  const both = ["one", "two"]
  for (const [instances, disabledTools, expected] of [
    [[instance(both)], ["one"], false],
    [[instance(both)], ["one", "a-b_svc_two"], true],
    [[instance(both)], ["A b_svc_one", "two"], true],
    [[instance(both, ["one"])], ["one", "two"], true],
    // Another instance still offers a tool, this one does not.
    [[instance(both), instance(["one"])], ["one"], true],
    // Nothing is lost by a server that offers none, or whose tools are not known.
    [[instance(both, both)], both, false],
    [[instance([])], both, false],
    [[instance(undefined)], both, false],
    [[], both, false],
  ] as const)
    expect([instances, disabledTools, hidesEveryTool(instances, disabledTools)]).toEqual([
      instances,
      disabledTools,
      expected,
    ])
})
