import { describe, expect, test } from "bun:test"
import { buildCatalog, emptyCatalog, hasChanged, toolOf, viewOf } from "../../src/catalog/catalog.ts"
import type { Listing } from "../../src/catalog/listing.ts"
import { createScope } from "../../src/catalog/scope.ts"
import { excludedBy, type RuledEntry, shapeOf } from "../../src/catalog/view-rules.ts"
import { parseDocument } from "../../src/config/document.ts"
import { type Preset, readPresets } from "../../src/config/presets.ts"
import { fakePeer, fakeSpec } from "../fakes.ts"

const presetsOf = (written: object) => readPresets(parseDocument(JSON.stringify({ presets: written }), "presets.json"))
const presetOf = (written: object): Preset => {
  const { presets, issues } = presetsOf({ p: written })
  expect(issues).toEqual([])
  return presets.get("p") as Preset
}
const server = (name: string, tags: readonly string[] = []) => ({
  ...fakeSpec({ tags: [...tags] }),
  id: name,
  name,
  slug: name,
})
const tool = (name: string, readOnlyHint?: boolean): RuledEntry => ({
  kind: "tool",
  tool: {
    name,
    inputSchema: { type: "object" },
    ...(readOnlyHint === undefined ? {} : { annotations: { readOnlyHint } }),
  },
})
const prompt = (name: string): RuledEntry => ({ kind: "prompt", name })
const resource = (name: string): RuledEntry => ({ kind: "resource", name })

describe("the rules of a preset", () => {
  test.each([
    [{ allow: ["github/get_*"] }, "github", tool("get_me"), true],
    [{ allow: ["github/get_*"] }, "github", tool("create"), false],
    [{ allow: ["github/get_*"] }, "gitlab", tool("get_me"), false],
    [{ allow: ["git*/get_*"] }, "gitlab", tool("get_me"), true],
    [{ allow: ["github/*"] }, "github", prompt("review"), true],
    [{ allow: ["github/*"] }, "github", resource("repo://a/b"), true],
    [{ allow: ["github"] }, "github", tool("x"), true],
    [{ allow: ["*"] }, "github", tool("x"), true],
    [{ allow: ["github/get_*"] }, "github", prompt("get_review"), false],
    [{ allow: ["github/prompt:re*"] }, "github", prompt("review"), true],
    [{ allow: ["github/prompt:re*"] }, "github", tool("review"), false],
    [{ allow: ["github/resource:repo://a/*"] }, "github", resource("repo://a/b/c"), true],
    [{ allow: ["github/resource:repo://a/*"] }, "github", resource("repo://b/c"), false],
    [{ allow: ["github/a*"] }, "github", tool("a/b"), false],
    [{ allow: ["github/a*/*"] }, "github", tool("a/b"), true],
    [{ allow: ["github/*"], deny: ["*/delete_*"] }, "github", tool("delete_repo"), false],
    [{ deny: ["*/delete_*"] }, "github", tool("get_me"), true],
    [{ deny: ["github"] }, "github", tool("get_me"), false],
    [{ servers: ["git*"] }, "github", tool("x"), true],
    [{ servers: ["git*"] }, "slack", tool("x"), false],
    [{ readOnly: true }, "github", tool("x", true), true],
    [{ readOnly: true }, "github", tool("x", false), false],
    [{ readOnly: true }, "github", tool("x"), false],
    [{ readOnly: true }, "github", prompt("x"), true],
    [{ filter: "web", allow: ["*"] }, "github", tool("x"), false],
  ] as const)("%j of %s: %j is included: %p [views:rules]", (written, name, entry, included) => {
    expect(excludedBy(presetOf(written), server(name), entry) === undefined).toBe(included)
  })

  test("an old preset has no shape, and one that selects nothing is refused [views:old]", () => {
    expect(shapeOf([[presetOf({ filter: "web" })]])).toBeUndefined()
    const { presets, issues } = presetsOf({
      none: { description: "x" },
      bad: { names: { x: "y" } },
      odd: { names: { "a/x": "y z" } },
    })
    expect([presets.size, issues.length]).toEqual([0, 3])
  })
})

const listing = (names: readonly string[], more: Partial<Listing> = {}): Listing => ({
  ...fakePeer("legacy"),
  tools: names.map((name) => ({ name, inputSchema: { type: "object" } })),
  prompts: [],
  resources: [],
  resourceTemplates: [],
  ...more,
})

function viewWith(
  presets: object,
  query: string,
  servers: Readonly<Record<string, Listing>>,
  previous = emptyCatalog(),
) {
  const known = presetsOf(presets).presets
  const queries = [{ preset: query }]
  const scope = createScope(
    () => queries,
    () => known,
  )
  const catalog = buildCatalog(
    Object.entries(servers).map(([name, one]) => ({ spec: server(name), listing: one })),
    previous,
  )
  return { catalog, scope, view: viewOf(catalog, scope) }
}

const named = (view: ReturnType<typeof viewWith>["view"]) =>
  view.entries("tools/list", "legacy").map((text) => (JSON.parse(text) as { name: string }).name)

describe("a view", () => {
  const servers = { a: listing(["x", "y", "z"]), b: listing(["x", "w"]) }

  test("has what one of its presets includes, under the names of the first that states them [views:union] [views:names]", () => {
    const presets = {
      p: { allow: ["a/x"], names: { "a/x": "ex", "b/w": "we" } },
      q: { allow: ["b/w", "a/y"], prefix: "none" },
    }
    expect(named(viewWith(presets, "p,q", servers).view)).toEqual(["ex", "a_svc_y", "we"])
    expect(named(viewWith(presets, "q,p", servers).view)).toEqual(["x", "y", "w"])
    expect(named(viewWith(presets, "q", servers).view)).toEqual(["y", "w"])
  })

  test("knows a tool by its name there alone, and describes it under that name [views:names]", () => {
    const { view } = viewWith({ p: { allow: ["a/*"], names: { "a/x": "ex" } } }, "p", servers)
    expect([view.tools.get("ex")?.name, view.tools.get("a_svc_x"), view.tools.get("b_svc_w")]).toEqual([
      "x",
      undefined,
      undefined,
    ])
    expect(toolOf(view, "ex")).toMatchObject({ name: "ex" })
    expect(toolOf(view, "a_svc_y")).toMatchObject({ name: "a_svc_y" })
  })

  test.each([
    [{ prefix: "none" }, ["a_svc_x", "y", "z", "b_svc_x", "w"], ["x"]],
    [{ prefix: "my", separator: "." }, ["a_svc_x", "my.y", "my.z", "b_svc_x", "my.w"], ["my.x"]],
    [{ prefix: "server", separator: "__" }, ["a__x", "a__y", "a__z", "b__x", "b__w"], []],
    [
      { names: { "a/x": "call_tool", "a/y": "b_svc_w" } },
      ["a_svc_x", "a_svc_y", "a_svc_z", "b_svc_x", "b_svc_w"],
      ["call_tool", "b_svc_w"],
    ],
  ])(
    "keeps the qualified names of entries whose names collide: %j [views:collisions]",
    (written, names, collisions) => {
      const { view } = viewWith({ p: written }, "p", servers)
      expect([named(view), view.collisions]).toEqual([names, collisions])
      expect(new Set(names).size).toBe(names.length)
    },
  )

  test("checks the URI to which a template expands [views:resources]", () => {
    const rows = listing([], { resourceTemplates: [{ name: "row", uriTemplate: "db://rows/{id}" }] })
    const { view } = viewWith(
      { p: { allow: ["a/resource:db://rows/*"], deny: ["a/resource:db://rows/secret*"] } },
      "p",
      { a: rows },
    )
    const isFound = (uri: string) => view.resource(uri) !== undefined
    expect(view.entries("resources/templates/list", "legacy")).toHaveLength(1)
    expect(["svc://a/db://rows/1", "svc://a/db://rows/secret/1", "svc://a/db://other"].map(isFound)).toEqual([
      true,
      false,
      false,
    ])
  })

  test("does not change with what it leaves out [views:quiet]", () => {
    const presets = { p: { allow: ["a/x"] } }
    const first = viewWith(presets, "p", servers)
    const after = (more: readonly string[]) => {
      const next = viewWith(presets, "p", { ...servers, a: listing(more) }, first.catalog)
      return hasChanged(first.view, next.view, "tools/list")
    }
    expect([after(["x", "y", "new"]), after(["y"])]).toEqual([false, true])
  })
})
