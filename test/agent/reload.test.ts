import { afterEach, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, rmSync, unlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createReload } from "../../src/agent/reload.ts"
import { parseDocument } from "../../src/config/document.ts"
import { plan } from "../../src/config/plan.ts"
import { formatIssue } from "../../src/lib/errors.ts"
import { readTexts } from "../../src/store/documents.ts"
import { readTemplates } from "../../src/template/instance.ts"
import { settle } from "../clock.ts"
import { createMemoryAgent, tool, WORLD } from "./memory-agent.ts"

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

/** An agent that follows real documents in a temporary folder. */
function follow() {
  const directory = mkdtempSync(join(tmpdir(), "svc-reload-"))
  folders.push(directory)
  const at = (name: string) => join(directory, name)
  const paths = { directory, file: at("mcp.json"), dotenv: at(".env"), presets: at("presets.json") }
  /** The environments of the processes, in the order of their starts. */
  const started: Readonly<Record<string, string>>[] = []
  const { agent, log } = createMemoryAgent(({ env }) => {
    started.push(env)
    return [tool("one")]
  })
  const instances = { update: agent.apply.bind(agent) }
  const apply = createReload({ agent, instances, log, paths, read: () => readTexts(paths), world: WORLD })
  return {
    agent,
    paths,
    started,
    write: (document: unknown) => writeFileSync(paths.file, JSON.stringify(document)),
    /** Reloads. Resolves to the issues and to what changed. */
    async reload() {
      const { applied, issues } = apply()
      await settle()
      return { applied, issues: issues.map((issue) => formatIssue(issue).replaceAll(`${directory}/`, "")) }
    },
  }
}

test("an empty file is refused at the start and later, a missing one only later [config:file:empty]", async () => {
  for (const text of ["", " \n"]) {
    const { agent, paths, reload, write } = follow()
    writeFileSync(paths.file, text)
    expect(await reload()).toEqual({
      applied: undefined,
      issues: ["mcp.json:1:1: not valid JSON: the file is empty; write {} for a configuration without servers"],
    })
    expect(agent.loaded).toBe(false)
    write({})
    expect((await reload()).issues).toEqual([])
    expect(agent.loaded).toBe(true)
    writeFileSync(paths.file, text)
    expect((await reload()).applied).toBeUndefined()
  }
  const { agent, paths, reload, write } = follow()
  expect((await reload()).issues).toEqual([])
  expect(agent.loaded).toBe(true)
  write({})
  await reload()
  unlinkSync(paths.file)
  expect((await reload()).issues).toEqual([
    "mcp.json:1:1: the file is gone; write {} for a configuration without servers",
  ])
})

test("a .env that is not UTF-8 or cannot be read is refused under its own name; its last values stay [env:dotenv:unreadable]", async () => {
  const { paths, reload, started, write } = follow()
  const document = (a: object) => ({ mcpServers: { a: { command: "x", env: { V: "${V}" }, ...a } } })
  write(document({}))
  writeFileSync(paths.dotenv, "V=ä\n")
  await reload()
  expect(started).toEqual([{ V: "ä" }])
  writeFileSync(paths.dotenv, Buffer.from("V=\xff\xfe\n", "latin1"))
  expect(await reload()).toMatchObject({
    applied: { replaced: [] },
    issues: [".env: cannot read .env: the file is not UTF-8 text"],
  })
  unlinkSync(paths.dotenv)
  mkdirSync(paths.dotenv)
  const { applied, issues } = await reload()
  expect(issues).toEqual([expect.stringMatching(/^\.env: this is a directory/)])
  expect(applied).toMatchObject({ replaced: [] })
  // The configuration is applied nevertheless, with the last values.
  write(document({ args: ["new"] }))
  expect((await reload()).applied).toMatchObject({ replaced: ["a"] })
  expect(started).toEqual([{ V: "ä" }, { V: "ä" }])
})

test("an mcp.json that is not UTF-8 is refused", async () => {
  const { paths, reload } = follow()
  writeFileSync(paths.file, Buffer.from('{"mcpServers":{"\xe4":{"command":"x"}}}', "latin1"))
  expect(await reload()).toMatchObject({
    applied: undefined,
    issues: ["mcp.json: cannot read mcp.json: the file is not UTF-8 text"],
  })
})

test("an entry that becomes invalid while its server runs keeps its last valid form, with an issue [config:server:last-valid]", async () => {
  const { agent, reload, started, write } = follow()
  const blank = { command: "x", toolDescriptionOverrides: { one: "" } }
  const described = "mcpServers.a.toolDescriptionOverrides.one: must not be blank"
  write({ mcpServers: { a: blank, b: { command: "x" } } })
  // Its server does not run yet, so it is left out.
  expect(await reload()).toMatchObject({ applied: { added: ["b"] }, issues: [expect.stringContaining(described)] })
  write({ mcpServers: { a: { command: "x", tags: ["t"] }, b: { command: "x" } } })
  await reload()
  const starts = started.length
  for (const [entry, problem] of [
    [blank, described],
    [{ command: 7 }, "mcpServers.a.command: "],
    [{ command: "x", env: { "A=B": "x" } }, "a: env has an invalid variable name"],
    [{}, "a: it needs a command or a url"],
    ["nonsense", "mcpServers.a: "],
  ] as const) {
    write({ mcpServers: { a: entry, b: { command: "x", tags: [String(problem)] } } })
    const { applied, issues } = await reload()
    expect(applied).toEqual({ added: [], removed: [], replaced: [], retuned: ["b"] })
    expect(issues.join("\n")).toContain(problem)
    expect(issues.join("\n")).toContain("a keeps running in its last valid form")
    expect(started).toHaveLength(starts)
    expect(
      agent
        .snapshot()
        .backends.map(({ spec }) => spec.id)
        .sort(),
    ).toEqual(["a", "b"])
  }
  // A variable may have been removed on purpose, and so may a server that is disabled or removed.
  for (const entry of [{ command: "$GONE" }, { ...blank, disabled: true }, undefined]) {
    write({ mcpServers: { a: { command: "x" } } })
    await reload()
    write({ mcpServers: { a: entry } })
    expect((await reload()).applied).toMatchObject({ removed: ["a"] })
    write({ mcpServers: { a: blank } })
    expect((await reload()).applied).toMatchObject({ added: [] })
  }
})

test("a template that becomes invalid keeps its last valid form too [config:server:last-valid]", () => {
  const last = { servers: new Map(), templates: new Map([["t", { command: "x" }]]) }
  const read = (t: object) => {
    const document = parseDocument(JSON.stringify({ mcpTemplates: { t } }), "mcp.json")
    const planned = plan(document, WORLD, last)
    return { planned, fixed: readTemplates(document, planned.templates, WORLD, last.templates).fixed }
  }
  const { planned, fixed } = read({ command: 7 })
  expect(fixed).toMatchObject([{ name: "t", config: { command: "x" } }])
  expect(planned.issues.map(({ severity }) => severity)).toEqual(["error", "warning"])
  expect(read({ command: 7, disabled: true }).fixed).toEqual([])
})
