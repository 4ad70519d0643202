import { describe, expect, test } from "bun:test"
import { parseDocument } from "../../src/config/document.ts"
import type { HostEnvironment, LastValid } from "../../src/config/plan.ts"
import { jsonSchema, type ServerConfig } from "../../src/config/schema.ts"
import { readSections } from "../../src/config/sections.ts"
import { formatIssue } from "../../src/lib/errors.ts"
import type { TemplateContext } from "../../src/template/context-schema.ts"
import { isSwitchedOff, planDocument, planInstance, templateIssues } from "../../src/template/instance.ts"

const WORLD: HostEnvironment = {
  parent: { TOKEN: "secret-1" },
  dotenv: {},
  platform: "linux",
  home: "/home/ada",
  folder: "/etc",
}
const contextOf = (path: string, custom = {}): TemplateContext => ({
  project: { path, name: "p", git: {}, custom },
  user: { username: "ada", home: "/home/ada" },
  transport: { type: "stdio", client: {} },
  context: { path, timestamp: "2026-01-02T03:04:05.678Z", sessionId: "s", version: "1" },
})
const plan = (template: ServerConfig, context = contextOf("/a"), world = WORLD) =>
  planInstance("fs", template, context, { env: { SHARED: "1" } }, world, new Map())
const specOf = (...args: Parameters<typeof plan>) => {
  const instance = plan(...args)
  if (instance.kind !== "spec") throw new Error(JSON.stringify(instance))
  return instance.spec
}

const FS: ServerConfig = { command: "fs", args: ["{{project.path}}", "$TOKEN"], disabledTools: ["rm"] }

describe("an expression in disabled of mcpServers [config:server:disabled-expression]", () => {
  const load = (disabled: string) =>
    planDocument(parseDocument(JSON.stringify({ mcpServers: { a: { command: "x", disabled } } }), "/m.json"), WORLD)
      .plan

  test.each([
    ["{{#if (eq 'a' 'a')}}true{{/if}}", false],
    ["{{#if (eq 'a' 'b')}}true{{/if}}", true],
    ["{{not true}}", true],
  ])("%s is rendered", (disabled, runs) => {
    const { specs, issues, disabled: off } = load(disabled)
    expect([specs.length, off, issues]).toEqual(runs ? [1, [], []] : [0, ["a"], []])
    expect(isSwitchedOff("a", "mcpServers", { disabled })).toBe(!runs)
  })

  test.each(["{{eq user.username 'ada'}}", "{{project.custom.off}}", "{{#if}}", "{{nonsense 1}}"])(
    "%s cannot be rendered: the server does not run",
    (disabled) => {
      const { specs, issues } = load(disabled)
      expect(specs).toEqual([])
      expect(issues).toMatchObject([{ severity: "error", server: "a", path: ["mcpServers", "a", "disabled"] }])
      expect(issues[0]?.message).toMatch(/^a does not run: (?:disabled|its disabled)/)
      expect(isSwitchedOff("a", "mcpServers", { disabled })).toBe(true)
      expect(isSwitchedOff("a", "mcpTemplates", { disabled })).toBe(false)
    },
  )
})

describe("an instance", () => {
  test("is a spec with the template's name and its own id", () => {
    const spec = specOf(FS)
    expect(spec).toMatchObject({
      name: "fs",
      slug: "fs",
      launch: { command: "fs", args: ["/a", "secret-1"], env: { SHARED: "1" } },
      tuning: { disabledTools: ["rm"] },
      secrets: ["secret-1"],
    })
    expect(spec.id).toMatch(/^fs#[0-9a-f]{16}$/)
  })

  test("is shared by contexts with equal renderings only", () => {
    expect(specOf(FS, contextOf("/a", { x: 1 }))).toEqual(specOf(FS, contextOf("/a")))
    expect(specOf(FS, contextOf("/b")).id).not.toBe(specOf(FS).id)
  })

  test("keeps its id when the definition's tools or the environment change [template:key]", () => {
    expect(specOf({ ...FS, disabledTools: [] })).toEqual({
      ...specOf(FS),
      tuning: { ...specOf(FS).tuning, disabledTools: [] },
    })
    const moved = specOf(FS, contextOf("/a"), { ...WORLD, parent: { TOKEN: "secret-2" } })
    expect(moved.id).toBe(specOf(FS).id)
    expect(moved.launch).not.toEqual(specOf(FS).launch)
  })

  test("may be disabled by its context", () => {
    const template = { ...FS, disabled: "{{project.custom.off}}" }
    for (const off of ["true", "1", "YES", "on", true])
      expect(plan(template, contextOf("/a", { off })).kind).toBe("disabled")
    for (const off of ["false", "no", "0", false]) expect(plan(template, contextOf("/a", { off })).kind).toBe("spec")
  })

  test("has enumerated values that are checked after rendering", () => {
    const read = (section: string) => {
      const mode = { command: "fs", stderr: "{{project.custom.mode}}", protocolVersion: "{{#if true}}legacy{{/if}}" }
      const { templates, servers, issues } = readSections(parseDocument(JSON.stringify({ [section]: { mode } }), "m"))
      return { config: [...templates, ...servers][0]?.config as ServerConfig, issues }
    }
    const { config } = read("mcpTemplates")
    expect(specOf(config, contextOf("/a", { mode: "ignore" })).launch).toMatchObject({
      stderr: "ignore",
      mode: "legacy",
    })
    expect(plan(config, contextOf("/a", { mode: "loud" }))).toEqual({
      kind: "wrong",
      problems: [expect.stringContaining("template fs: stderr: must be pipe")],
    })
    const { mcpTemplates } = jsonSchema().properties as Record<string, { additionalProperties: { properties: object } }>
    expect(mcpTemplates?.additionalProperties.properties).toMatchObject({
      type: { anyOf: [{ type: "string" }, { pattern: "\\{\\{" }] },
    })
    // Of a server nobody renders them.
    expect(read("mcpServers").issues.map(({ path }) => path?.[2])).toEqual(["stderr", "protocolVersion"])
  })

  test("has problems that show no values", () => {
    expect(plan({ command: "x", cwd: "/at/{{project.custom.x}}" })).toEqual({
      kind: "wrong",
      problems: ["template fs: cwd: {{project.custom.x}}: has no value here: set it in .svcrc"],
    })
    expect(plan({ command: "{{raw project.custom.x}}" }, contextOf("/a", { x: "" }))).toMatchObject({ kind: "wrong" })
    expect(plan({ command: "x", args: ["$NOT_SET", "{{user.home}}"] })).toEqual({
      kind: "wrong",
      problems: ["template fs: args[0] refers to NOT_SET, which is not set in the environment or in .env"],
    })
  })
})

test("the first load checks the templates, whatever is set for reloads [template:failure:first]", () => {
  const load = (failureMode: string, last?: LastValid) => {
    const mcpTemplates = { fs: { command: "x", args: ["{{nope}}", "{{#if user.name}}"] } }
    const templateSettings = { failureMode, validateOnReload: false }
    return planDocument(parseDocument(JSON.stringify({ mcpTemplates, templateSettings }), "mcp.json"), WORLD, last)
  }
  const last = { servers: new Map(), templates: new Map() }
  expect(() => load("strict")).toThrow("nope")
  expect(load("strict", last).plan).toMatchObject({ issues: [], templates: ["fs"] })
  expect(load("graceful").plan).toMatchObject({ issues: [{ server: "fs" }, { server: "fs" }], templates: [] })
  expect(load("graceful", last).plan).toMatchObject({ issues: [], templates: ["fs"] })
})

test("a problem that occurs in any context has its position in the file", () => {
  const text = `{
  "mcpTemplates": {
    "fs": {
      "command": "fs",
      "args": ["ok", "{{#if project.name}}"],
      "env": { "A": "{{user.mail}}", "B": "{{#if projct.name}}x{{/if}}" }
    }
  }
}`
  const document = parseDocument(text, "mcp.json")
  const issues = templateIssues(document, readSections(document).templates, new Map())
  expect(issues.map((issue) => `${issue.severity} ${formatIssue(issue)}`)).toEqual([
    "error mcp.json:5:22: template fs: args[1]: {{#if project.name}}: is not a valid template: a block is not closed",
    "error mcp.json:6:16: template fs: env.A: {{user.mail}}: there is no variable user.mail; did you mean user.email?",
    "error mcp.json:6:38: template fs: env.B: projct.name: there is no variable projct.name; did you mean project.name?",
  ])
})

test("program text from a context is reported with its position before any rendering [template:project]", () => {
  const text = `{
  "mcpTemplates": {
    "db": { "command": "sh",
      "args": ["-c", "run {{project.git.branch}}"] }
  }
}`
  const document = parseDocument(text, "mcp.json")
  expect(templateIssues(document, readSections(document).templates, new Map()).map(formatIssue)).toEqual([
    expect.stringMatching(
      /^mcp\.json:4:22: template db: args\[1\]: \{\{project\.git\.branch\}\}: would be program text: /,
    ),
  ])
})
