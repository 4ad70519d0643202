import { describe, expect, test } from "bun:test"
import { Instances } from "../../src/agent/instances.ts"
import { parseDocument } from "../../src/config/document.ts"
import type { ServerSpec } from "../../src/config/server-spec.ts"
import { matchesFilter, parseFilter } from "../../src/config/tag-filter.ts"
import type { TemplateContext } from "../../src/template/context-schema.ts"
import { planDocument } from "../../src/template/instance.ts"
import { createMemoryAgent, WORLD } from "./memory-agent.ts"

const at = (path: string, sessionId = "s"): TemplateContext => ({
  project: { path, name: "p", git: {}, custom: {} },
  user: { username: "ada", home: "/h" },
  transport: { type: "stdio", client: {} },
  context: { path, timestamp: "2026-01-01T00:00:00.000Z", sessionId, version: "1" },
})

/** Instances of servers that do not start: the tests check which instances exist. */
function stage(filter = "not none") {
  const { agent, clock, log, logged } = createMemoryAgent()
  const parsed = parseFilter(filter)
  if ("problem" in parsed) throw new Error(parsed.problem.message)
  const selects = ({ tuning }: ServerSpec) => matchesFilter(parsed.filter, tuning.tags)
  const instances = new Instances({ agent, clock, log, linger: 30_000, selects })
  const update = (document: object) => {
    const read = parseDocument(JSON.stringify(document), "mcp.json")
    const { plan, templates } = planDocument(read, WORLD)
    return instances.update(plan, templates)
  }
  const paths = () =>
    agent.all().map(({ spec }) => (spec.launch.transport === "stdio" ? (spec.launch.args[0] ?? spec.name) : ""))
  return { clock, agent, instances, update, paths, logged }
}

const TEMPLATES = {
  mcpServers: { still: { command: "x" } },
  mcpTemplates: { fs: { command: "x", args: ["{{project.path}}"] } },
}

describe("instances", () => {
  test("outlive their last client while a call runs on them, unless another client keeps them", async () => {
    const { clock, agent, instances, update, paths } = stage()
    update(TEMPLATES)
    agent.isBusy = () => true
    const [one, two] = [{}, {}]
    instances.attach(one, at("/a"))
    instances.attach(one, at("/b"))
    instances.attach(two, at("/b"))
    instances.detach(one)
    await clock.pass(300_000)
    expect(paths()).toEqual(["still", "/a", "/b"])
    agent.isBusy = () => false
    await clock.pass(1_000)
    expect(paths()).toEqual(["still", "/b"])
    expect(clock.timers).toBe(0)
  })

  test("run as long as a client uses them, and a little longer", async () => {
    const { clock, instances, update, paths } = stage()
    update(TEMPLATES)
    const [one, two, three] = [{}, {}, {}]
    instances.attach(one, at("/a"))
    instances.attach(two, at("/a", "other"))
    instances.attach(three, at("/b"))
    expect(paths()).toEqual(["still", "/a", "/b"])
    expect(instances.of(one)).toEqual(instances.of(two))
    instances.detach(one)
    await clock.pass(60_000)
    expect(paths()).toEqual(["still", "/a", "/b"])
    instances.detach(two)
    expect(instances.of(two).size).toBe(0)
    await clock.pass(29_000)
    expect(paths()).toEqual(["still", "/a", "/b"])
    // A client that returns in time finds the same process.
    instances.attach(one, at("/a"))
    await clock.pass(60_000)
    expect(paths()).toEqual(["still", "/a", "/b"])
    instances.detach(one)
    await clock.pass(31_000)
    expect(paths()).toEqual(["still", "/b"])
    instances.close()
  })

  test("of earlier contexts of the same client are limited in number", async () => {
    const { clock, instances, update, paths } = stage()
    update(TEMPLATES)
    const one = {}
    for (const path of ["/a", "/b", "/c", "/d", "/e", "/f"]) instances.attach(one, at(path))
    await clock.pass(1)
    expect(paths()).toEqual(["still", "/c", "/d", "/e", "/f"])
    await clock.pass(30_000)
    expect(paths()).toEqual(["still", "/f"])
    expect(clock.timers).toBe(0)
  })

  test("follow a client whose context changes", async () => {
    const { clock, instances, update, paths } = stage()
    update(TEMPLATES)
    const one = {}
    instances.attach(one, at("/a"))
    const [before] = instances.of(one)
    instances.attach(one, at("/b"))
    expect(instances.of(one)).not.toContain(before as string)
    await clock.pass(31_000)
    expect(paths()).toEqual(["still", "/b"])
    instances.close()
  })

  test("are replaced only if their rendering changes", () => {
    const { instances, update } = stage()
    update({ mcpTemplates: { fs: { command: "x", args: ["{{project.path}}"] }, db: { command: "y" } } })
    const one = {}
    instances.attach(one, at("/a"))
    const ids = [...instances.of(one)]
    const hidden = update({
      mcpTemplates: { fs: { command: "x", args: ["{{project.path}}"], disabledTools: ["rm"] }, db: { command: "y" } },
    })
    expect(hidden).toMatchObject({ replaced: [], retuned: [ids[0]], added: [], removed: [] })
    const other = update({ mcpTemplates: { fs: { command: "z", args: ["{{project.path}}"] }, db: { command: "y" } } })
    expect(other).toMatchObject({ replaced: [ids[0]], added: [], removed: [] })
    const gone = update({ mcpTemplates: { db: { command: "y" } } })
    expect(gone).toMatchObject({ removed: [ids[0]] })
    instances.close()
  })

  test("that cannot be rendered become issues, and with strict, nothing changes", () => {
    const { agent, instances, update, paths, logged } = stage()
    update(TEMPLATES)
    const one = {}
    instances.attach(one, at("/a"))
    const broken = { mcpTemplates: { fs: { command: "x", args: ["{{project.custom.x}}"] } } }
    expect(() => update({ ...broken, templateSettings: { failureMode: "strict" } })).toThrow("project.custom.x")
    expect(paths()).toEqual(["still", "/a"])
    expect(instances.of(one).size).toBe(1)
    update(broken)
    expect(paths()).toEqual([])
    expect(agent.snapshot().issues.map(({ message }) => message)).toEqual([expect.stringContaining("custom.x")])
    instances.attach({}, at("/b"))
    expect(logged.at(-1)).toContain("custom.x")
    instances.close()
  })

  test("that could not be rendered before do not block a change with strict", () => {
    const { instances, update, paths } = stage()
    const strict = (mcpServers: object) => ({
      mcpServers,
      mcpTemplates: { fs: { command: "x", args: ["{{project.custom.x}}"] } },
      templateSettings: { failureMode: "strict" },
    })
    update(strict({}))
    instances.attach({}, at("/a"))
    expect(paths()).toEqual([])
    update(strict({ more: { command: "more" } }))
    expect(paths()).toEqual(["more"])
    instances.close()
  })

  test("are bounded in number", () => {
    const { instances, update, paths, agent } = stage()
    update({ mcpTemplates: { fs: { command: "x", args: ["{{project.path}}"] } } })
    for (let count = 0; count < 300; count++) instances.attach({}, at(`/${count}`))
    expect(paths()).toHaveLength(256)
    expect(agent.snapshot().issues[0]?.message).toContain("256 instances")
    instances.close()
  })

  test("of a template that needs no context run for all clients, under the template's name [template:fixed]", () => {
    const { agent, instances, update } = stage()
    const ids = () =>
      agent
        .all()
        .map(({ spec }) => spec.id)
        .sort()
    const document = (db: object) => ({
      mcpServers: { db: { command: "shadowed" } },
      mcpTemplates: {
        db,
        fs: { command: "x", args: ["{{project.path}}"] },
        off: { command: "x", disabled: true },
      },
    })
    update(document({ command: "y", args: ["{{#if true}}{{context.version}}{{/if}}"] }))
    expect(ids()).toEqual(["db"])
    expect(agent.snapshot().templates).toEqual(["fs"])
    instances.attach({}, at("/a"))
    expect(ids()).toEqual(["db", expect.stringMatching(/^fs#/)])
    // A condition on the context needs it, whatever it inserts.
    expect(update(document({ command: "y", args: ["{{#if project.team}}a{{/if}}"] })).removed).toEqual(["db"])
    expect(ids()).toEqual([expect.stringMatching(/^db#/), expect.stringMatching(/^fs#/)])
    update(document({ command: "$GONE" }))
    expect(ids()).toEqual([expect.stringMatching(/^fs#/)])
    expect(agent.snapshot().issues).toMatchObject([{ server: "db", message: expect.stringContaining("GONE") }])
    instances.close()
  })

  test("and servers run only if --filter selects them", () => {
    const { instances, update, paths } = stage("web")
    update({
      mcpServers: { a: { command: "a", tags: ["web"] }, b: { command: "b" } },
      mcpTemplates: {
        fs: { command: "x", args: ["{{project.path}}"], tags: ["{{project.name}}"] },
        web: { command: "y", args: ["web"], tags: ["web"] },
      },
    })
    instances.attach({}, at("/a"))
    expect(paths()).toEqual(["a", "web"])
    instances.close()
  })
})
