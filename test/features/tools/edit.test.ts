/** Tests edits of a server: which need a person's consent, which are refused, and what is written. */
import { describe, expect, test } from "bun:test"
import type { ConsentKind } from "../../../src/features/tools/consent.ts"
import { mcpEdit, planEdit } from "../../../src/features/tools/edit.ts"
import { mcpStatus } from "../../../src/features/tools/status.ts"
import type { Params } from "../../../src/wire/message.ts"
import { tool } from "../../agent/memory-agent.ts"
import { stage } from "./stage.ts"

const SERVER = { command: "x", env: { API_KEY: "mine" }, disabledTools: ["two"] }
const CONFIG = { mcpServers: { a: SERVER, b: { command: "x" } } }

async function planned(patch: Params, newName?: string, config: object = CONFIG) {
  await using at = stage({ config })
  return planEdit(at.context, { documents: at.context.editor.read(), name: "a", patch, newName, moveKeys: false })
}

describe("the plan of an edit", () => {
  test("needs consent for what runs and for what clients are offered, but not for timing", async () => {
    const cases: readonly (readonly [patch: Params, consents: readonly ConsentKind[]])[] = [
      [{ requestTimeout: 9000, restartOnExit: true, rateLimit: 10 }, []],
      [{ command: "y" }, ["installs"]],
      [{ env: { MODE: "1" } }, ["installs"]],
      [{ cwd: "/tmp" }, ["installs"]],
      [{ unknown: true }, ["installs"]],
      [{ tags: ["a"] }, ["edits"]],
      [{ disabledTools: null }, ["edits"]],
      [{ toolDescriptionOverrides: { one: "text" } }, ["edits"]],
      [{ disabled: true }, ["edits"]],
      [{ args: ["a"], tags: ["a"] }, ["installs", "edits"]],
      [{ disabled: false }, ["installs", "edits"]],
      [{ command: "x" }, []],
    ]
    for (const [patch, consents] of cases) expect([patch, (await planned(patch)).consents]).toEqual([patch, consents])
    expect((await planned({}, "c")).consents).toEqual(["edits"])
  })

  test("shows the person the new values and hides those from the file", async () => {
    const config = { ...CONFIG, serverDefaults: { env: { NODE_OPTIONS: "--require=/x" } } }
    const { question, changes } = await planned({ env: { A_TOKEN: "given" }, tags: ["t"] }, "c", config)
    expect(question.what).toBe("Change the MCP server a and let svc run this")
    expect(question.shown.split("\n")).toEqual([
      "x with API_KEY=••• A_TOKEN=given",
      "serverDefaults adds: NODE_OPTIONS=--require=/x",
      "name: a -> c",
      'tags: ["t"]',
    ])
    expect(changes).toEqual([
      { key: "name", from: "a", to: "c" },
      { key: "env.A_TOKEN", from: undefined, to: "•••" },
      { key: "tags", from: undefined, to: "[t]" },
    ])
    const offered = await planned({ tags: ["t"] })
    expect(offered.question.what).toBe("Change the MCP server a, as every client sees it")
  })

  test("shows everything that runs if it enables a server [tools:confirm]", async () => {
    const config = { mcpServers: { a: { ...SERVER, disabled: true, restartOnExit: true } } }
    for (const disabled of [null, false, "no"]) {
      const { question, consents } = await planned({ disabled, tags: ["t"] }, undefined, config)
      expect(consents).toEqual(["installs", "edits"])
      expect(question.what).toBe("Change the MCP server a and let svc run this")
      expect(question.shown.split("\n").toSorted()).toEqual([
        `disabled: true -> ${disabled === null ? "nothing" : JSON.stringify(disabled)}`,
        'disabledTools: ["two"]',
        "restartOnExit: true",
        'tags: ["t"]',
        "x with API_KEY=•••",
      ])
    }
  })

  test("reports every written change, also one without an effect [tools:changes]", async () => {
    const config = { mcpServers: CONFIG.mcpServers, serverDefaults: { requestTimeout: 7000, env: { B_TOKEN: "b" } } }
    const changesOf = async (patch: Params, newName?: string) => (await planned(patch, newName, config)).changes
    expect(await changesOf({}, "c")).toEqual([{ key: "name", from: "a", to: "c" }])
    expect(await changesOf({ requestTimeout: 7000, env: { B_TOKEN: "b" } })).toEqual([
      { key: "env", from: "•••", to: "•••" },
      { key: "requestTimeout", from: undefined, to: "7000" },
    ])
    expect(await changesOf({ disabledTool: ["x"], apiKey: "k", more: { token: "k", mode: "m" } })).toEqual([
      { key: "disabledTool", from: undefined, to: '["x"]' },
      { key: "apiKey", from: undefined, to: "•••" },
      { key: "more", from: undefined, to: '{"token":"•••","mode":"m"}' },
    ])
    expect(await changesOf({ command: "x" })).toEqual([])
    const { warnings } = await planned({ disabledTool: [] }, undefined, {
      mcpServers: { ...CONFIG.mcpServers, b: { command: "x", disabledTool: [] } },
    })
    expect(warnings).toEqual([expect.stringContaining('did you mean "disabledTools"?')])
  })

  test("warns of a key that is written into mcp.json, not of a reference [secrets:moved]", async () => {
    const text = "looks like a key, and mcp.json contains it in plain text; `svc secret import` moves it to .env"
    expect((await planned({ env: { A_TOKEN: "given" } })).warnings).toContain(`a: env.A_TOKEN ${text}`)
    expect((await planned({ args: ["--token", "given"] })).warnings).toContain(`a: args[1] ${text}`)
    expect((await planned({ env: { A_TOKEN: "${X:-d}", B_TOKEN: "", MODE: "given" } }, "c")).warnings).toEqual([])
    expect((await planned({ headers: { "X-Api-Key": "given" } })).warnings.at(-1)).toContain(`X-Api-Key ${text}`)
  })

  test("with moveKeys, puts a new key into .env, and shows it to the person all the same [secrets:moved]", async () => {
    await using at = stage({ config: CONFIG, answer: true })
    await at.start()
    const patch = { env: { A_TOKEN: "Canary-01" }, args: ["a", "--token", "Canary-02"] }
    const { warnings } = await at.run(mcpEdit, { serverName: "a", patch, moveKeys: true })
    expect(warnings).toEqual([])
    expect(at.servers().a).toMatchObject({ env: { A_TOKEN: "${A_TOKEN}" }, args: ["a", "--token", "${A_A_TOKEN}"] })
    expect(JSON.stringify(at.documents().config)).not.toContain("Canary")
    for (const line of ["A_TOKEN=Canary-01", "A_A_TOKEN=Canary-02"]) expect(at.documents().dotenv).toContain(line)
    expect(at.asked).toEqual([expect.stringContaining("--token Canary-02 with API_KEY=••• A_TOKEN=Canary-01")])
  })

  test("is refused if the result is not valid", async () => {
    await expect(planned({ requestTimeout: "long" })).rejects.toMatchObject({ fault: "invalid_argument" })
    await expect(planned({ env: { A: "${NOWHERE}" } })).rejects.toMatchObject({ fault: "invalid_argument" })
    await expect(planned({}, "b")).rejects.toMatchObject({ fault: "conflict" })
    await expect(planned({}, "x_svc_y")).rejects.toMatchObject({ fault: "invalid_params" })
  })
})

describe("mcp_edit", () => {
  const offersTwo = { config: CONFIG, toolsOf: () => [tool("one"), tool("two")] }

  test("changes the named settings, renames the server, and leaves everything else unchanged", async () => {
    await using at = stage(offersTwo)
    await at.start()
    const done = await at.run(mcpEdit, {
      serverName: "a",
      patch: { env: { API_KEY: null }, args: ["v"] },
      newName: "c",
    })
    expect(done).toMatchObject({
      serverName: "c",
      dryRun: false,
      status: "connected",
      reload: { added: ["c"], removed: ["a"] },
    })
    expect(at.servers()).toEqual({ c: { ...SERVER, env: {}, args: ["v"] }, b: { command: "x" } })
  })

  test("has the status that mcp_status shows, and says if nothing changes [tools:changes]", async () => {
    const template = { command: "x", args: ["{{project.name}}"] }
    await using at = stage({ config: { ...CONFIG, mcpTemplates: { t: template } } })
    await at.start()
    const patches: readonly (readonly [name: string, patch: Params, state: string])[] = [
      ["a", { command: "x" }, "connected"],
      ["a", { disabled: true }, "disabled"],
      ["t", { tags: ["x"] }, "not in use"],
      ["b", { command: "broken" }, "failed"],
    ]
    for (const [serverName, patch, state] of patches) {
      const edited = await at.run(mcpEdit, { serverName, patch })
      const { servers } = await at.run(mcpStatus, { serverName })
      const [{ status }] = servers as [Params]
      expect([serverName, edited.status, edited.state]).toEqual([serverName, status, state])
    }
    const { text } = await mcpEdit.run({ serverName: "t", patch: { tags: ["x"] } }, at.context)
    expect(text).toBe("t already has these settings")
  })

  test("in a dry run, only shows what would change", async () => {
    await using at = stage({ ...offersTwo, answer: false })
    await at.start()
    const before = at.documents()
    const plan = await at.run(mcpEdit, { serverName: "a", patch: { disabledTools: ["one", "two"] }, dryRun: true })
    expect(plan).toMatchObject({ dryRun: true, warnings: ["a would no longer offer any tool"] })
    expect([at.documents(), at.asked]).toEqual([before, []])
  })

  test("asks a person once, and changes nothing if they decline", async () => {
    await using at = stage({ ...offersTwo, answer: false })
    await at.start()
    const before = at.documents()
    const edit = at.run(mcpEdit, { serverName: "a", patch: { args: ["v"], tags: ["t"] } })
    await expect(edit).rejects.toMatchObject({ fault: "declined", data: { command: expect.stringContaining("x v") } })
    expect(at.asked).toEqual(['Change the MCP server a and let svc run this?\n\nx v with API_KEY=•••\ntags: ["t"]'])
    expect(at.documents()).toEqual(before)
    // An assistant may change timing without consent.
    expect(await at.run(mcpEdit, { serverName: "a", patch: { requestTimeout: 9000 } })).toMatchObject({ dryRun: false })
    expect(at.asked).toHaveLength(1)
  })

  test("hides the last tool only if that is confirmed [tools:zero]", async () => {
    await using at = stage(offersTwo)
    await at.start()
    const patch = { disabledTools: ["one", "a_svc_two"] }
    await expect(at.run(mcpEdit, { serverName: "a", patch })).rejects.toMatchObject({
      fault: "confirmation_required",
      hint: { tool: "mcp_edit", args: { serverName: "a", patch, confirmZeroTools: true } },
    })
    expect(await at.run(mcpEdit, { serverName: "a", patch, confirmZeroTools: true })).toMatchObject({
      status: "connected",
    })
    expect(at.servers().a?.disabledTools).toEqual(patch.disabledTools)
    // A server that already offers no tools can be edited.
    expect(await at.run(mcpEdit, { serverName: "a", patch: { requestTimeout: 9000 } })).toMatchObject({
      status: "connected",
      warnings: ["a is connected but offers no tools, prompts or resources"],
    })
  })

  test("needs something to change, and a server that exists", async () => {
    await using at = stage(offersTwo)
    await expect(at.run(mcpEdit, { serverName: "a" })).rejects.toMatchObject({ fault: "invalid_argument" })
    await expect(at.run(mcpEdit, { serverName: "zz", patch: { tags: [] } })).rejects.toMatchObject({
      fault: "not_found",
      message: "No server is named zz",
      hint: { tool: "mcp_list" },
    })
  })
})
