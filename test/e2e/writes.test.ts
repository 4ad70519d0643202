/** Commands that change something return when the running svc has applied the change, or refused it. */
import { expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { freshEnv, freshFolder, type Instance, modern, runSvc, SVC, startSvc } from "./harness.ts"

/** The number of repetitions; `SVC_TEST_TIMES=200` for the full test. */
const TIMES = Number(process.env.SVC_TEST_TIMES ?? 10)
const demo = { command: SVC, args: ["demo-server"] }

const commandsOf =
  ({ folder }: Pick<Instance, "folder">) =>
  (...args: string[]) => {
    const at = args.indexOf("--")
    const [own, program] = at < 0 ? [args, []] : [args.slice(0, at), args.slice(at)]
    return runSvc([...own, "--config-dir", folder, ...program], freshEnv(folder))
  }

test("a server that was added is listed as connected, and one that was removed is not listed [cli:writes]", async () => {
  await using instance = await startSvc({ config: {} })
  const svc = commandsOf(instance)
  for (let time = 0; time < TIMES; time++) {
    expect((await svc("mcp", "add", "one", "--", ...[demo.command, ...demo.args])).stdout).toBe(
      "added one: connected, 3 tools\n",
    )
    expect(JSON.parse((await svc("mcp", "list", "--json")).stdout)).toMatchObject([
      { name: "one", state: "connected", tools: 3 },
    ])
    const { body } = await modern(`${instance.url}/mcp`, "tools/list")
    expect(JSON.stringify(body)).toContain("one_svc_echo")
    expect((await svc("mcp", "remove", "one")).code).toBe(0)
    const after = await modern(`${instance.url}/mcp`, "tools/list")
    expect(JSON.stringify(after.body)).not.toContain("one_svc_echo")
  }
}, 300_000)

test("a server that was enabled can be restarted, and a tool that was hidden is not offered [cli:writes]", async () => {
  await using instance = await startSvc({ config: { mcpServers: { one: demo } } })
  const svc = commandsOf(instance)
  const tools = async () => JSON.stringify((await modern(`${instance.url}/mcp`, "tools/list")).body)
  for (let time = 0; time < TIMES; time++) {
    expect((await svc("mcp", "disable", "one")).code).toBe(0)
    expect(await tools()).not.toContain("one_svc_echo")
    expect((await svc("mcp", "enable", "one", "--no-wait")).stdout).toContain("enabled one (")
    expect((await svc("mcp", "restart", "one")).stdout).toBe("restarted one: connected, 3 tools\n")
    expect((await svc("mcp", "tools", "disable", "one", "echo")).code).toBe(0)
    expect(await tools()).not.toContain("one_svc_echo")
    expect((await svc("mcp", "tools", "enable", "one", "echo")).code).toBe(0)
    expect(await tools()).toContain("one_svc_echo")
  }
}, 300_000)

test("a token that was created is accepted, a revoked one refused, and a preset selects at once [cli:writes]", async () => {
  await using instance = await startSvc({
    config: { mcpServers: { one: { ...demo, tags: ["web"] } } },
    flags: ["--auth"],
  })
  const svc = commandsOf(instance)
  for (let time = 0; time < TIMES; time++) {
    const token = (await svc("auth", "token", "create", "--name", "bob")).stdout.trim()
    const ask = (query = "") =>
      modern(`${instance.url}/mcp${query}`, "tools/list", {}, { authorization: `Bearer ${token}` })
    expect((await ask()).status).toBe(200)
    expect((await svc("preset", "create", "work", "--filter", "web")).code).toBe(0)
    expect((await ask("?preset=work")).status).toBe(200)
    expect((await svc("preset", "delete", "work")).code).toBe(0)
    expect((await ask("?preset=work")).status).not.toBe(200)
    expect((await svc("auth", "token", "revoke", "bob")).code).toBe(0)
    expect((await ask()).status).toBe(401)
  }
}, 300_000)

test("an svc of another configuration in the directory follows the tokens and presets that it shares [cli:writes]", async () => {
  const folder = freshFolder()
  const file = join(folder, "other.json")
  writeFileSync(file, "{}")
  await using instance = await startSvc({ folder, flags: ["--config", file, "--auth"] })
  const svc = commandsOf(instance)
  for (let time = 0; time < TIMES; time++) {
    const token = (await svc("auth", "token", "create", "--name", "bob")).stdout.trim()
    const ask = () => modern(`${instance.url}/mcp`, "tools/list", {}, { authorization: `Bearer ${token}` })
    expect((await ask()).status).toBe(200)
    expect((await svc("auth", "token", "revoke", "bob")).code).toBe(0)
    expect((await ask()).status).toBe(401)
  }
}, 300_000)

test("a command reports the state of the server, also under --json [cli:writes:outcome]", async () => {
  await using instance = await startSvc({ config: {} })
  const svc = commandsOf(instance)
  expect(await svc("mcp", "add", "bad", "--", "/no/such/program")).toMatchObject({
    code: 69,
    stdout: expect.stringMatching(/^added bad; it does not start: no program at \/no\/such\/program/),
  })
  const invalid = await svc("mcp", "add", "unset", "--env", "A=$NOWHERE", "--", "x")
  const remedy = `add NOWHERE=… to ${join(instance.folder, ".env")}`
  expect([invalid.code, invalid.stderr]).toEqual([69, `note: env.A refers to the variable NOWHERE\n${remedy}\n`])
  expect(invalid.stdout).toStartWith("added unset; unset is not loaded: env.A refers to NOWHERE")
  expect(
    JSON.parse((await svc("mcp", "add", "sleepy", "--timeout", "0.1s", "--json", "--", "sleep", "60")).stdout),
  ).toEqual({
    changed: true,
    file: join(instance.folder, "mcp.json"),
    applied: true,
    servers: [{ name: "sleepy", state: "starting" }],
  })
})

const STRICT = {
  templateSettings: { failureMode: "strict" },
  mcpTemplates: { t: { command: "x", args: ["{{project.path}}"] } },
}

test("an edit that every reload would refuse is not written; one that the running svc refuses stays, with exit 78 [cli:writes:refused]", async () => {
  await using instance = await startSvc({ config: STRICT })
  const svc = commandsOf(instance)
  const file = join(instance.folder, "mcp.json")
  const before = readFileSync(file, "utf8")
  const refused = await svc("mcp", "edit", "t", '{"args":["{{#if}}"]}')
  expect([refused.code, readFileSync(file, "utf8")]).toEqual([78, before])
  writeFileSync(file, before.replace("{{project.path}}", "{{#if}}"))
  const stays = await svc("mcp", "add", "more", "--", "true")
  expect(stays.code).toBe(78)
  expect(stays.stderr).toContain("the change is written, but the running svc refuses the configuration")
  expect(JSON.parse(readFileSync(file, "utf8")).mcpServers.more).toEqual({ command: "true" })
})

test("a command returns at once with --no-wait, without a running svc, and with an svc that does not follow its files [cli:writes:no-wait]", async () => {
  const folder = freshFolder()
  const alone = await commandsOf({ folder })("mcp", "add", "a", "--", process.execPath)
  expect([alone.code, alone.stdout]).toEqual([0, `added a (${join(folder, "mcp.json")})\n`])
  await using instance = await startSvc({ config: {}, flags: ["--no-reload"] })
  const svc = commandsOf(instance)
  const kept = await svc("mcp", "add", "a", "--", process.execPath)
  expect([kept.code, kept.stderr]).toEqual([
    0,
    "the running svc has --no-reload: it applies the change when it starts again\n",
  ])
  expect((await svc("mcp", "list")).stdout).toMatch(/^a +stdio +not loaded$/m)
  expect((await svc("mcp", "add", "b", "--no-wait", "--", process.execPath)).stderr).toBe("")
})
