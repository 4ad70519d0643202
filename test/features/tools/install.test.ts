/** Tests that an installation or an update runs what the terminal showed, whatever a registry answers in between. */
import { describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { mcpInstall } from "../../../src/features/tools/install.ts"
import { invokeTool } from "../../../src/features/tools/tool.ts"
import { mcpUpdate } from "../../../src/features/tools/update.ts"
import type { Params } from "../../../src/wire/message.ts"
import { type StageOptions, stage } from "./stage.ts"

const entry = (version: string, identifier: string) => ({
  name: "a/nice",
  description: "d",
  version,
  packages: [
    {
      registryType: "npm",
      identifier,
      version,
      transport: { type: "stdio" },
      environmentVariables: [{ name: "HOOK", isSecret: true }],
    },
  ],
})
const INSTALLED = {
  command: "npx",
  args: ["-y", "good@1.0.0"],
  installedFrom: { registry: "test", name: "a/nice", version: "1.0.0", type: "npm", package: "good@1.0.0" },
}

describe("a plan that a terminal has shown", () => {
  const cases = [
    { tool: mcpInstall, args: { serverName: "a/nice", env: { HOOK: "h" } }, servers: {} },
    { tool: mcpUpdate, args: { serverName: "nice", env: { HOOK: "h" } }, servers: { nice: INSTALLED } },
  ]

  test("runs if it is still the same [tools:agreed]", async () => {
    for (const { tool, args, servers } of cases) {
      await using at = stage({ config: { mcpServers: servers }, entries: [entry("2.0.0", "good")] })
      const terminal = { ...at.context, terminal: { agreed: undefined } }
      const { data } = await tool.run({ ...args, dryRun: true }, terminal)
      expect(data.command).toBe("npx -y good@2.0.0 with HOOK=h")
      await tool.run(args, { ...at.context, terminal: { agreed: String(data.digest) } })
      expect(at.servers().nice).toMatchObject({ args: ["-y", "good@2.0.0"] })
    }
  })

  test("does not run if the registry, a value or the defaults have changed [tools:agreed]", async () => {
    for (const { tool, args, servers } of cases) {
      const config = { mcpServers: servers }
      const digestOf = async (options: object, more: object = {}) => {
        await using at = stage({ config, entries: [entry("2.0.0", "good")], ...options })
        const terminal = { ...at.context, terminal: { agreed: undefined } }
        return String((await tool.run({ ...args, ...more, dryRun: true }, terminal)).data.digest)
      }
      const agreed = await digestOf({})
      expect(await digestOf({})).toBe(agreed)
      for (const [options, more] of [
        [{ entries: [entry("2.0.0", "evil")] }],
        [{ entries: [entry("2.0.1", "good")] }],
        [{ config: { ...config, serverDefaults: { env: { NODE_OPTIONS: "--require=/x" } } } }],
        [{}, { env: { HOOK: "other" } }],
      ] as const) {
        await using at = stage({ config, entries: [entry("2.0.0", "good")], ...options })
        const before = at.documents()
        const run = tool.run({ ...args, ...more }, { ...at.context, terminal: { agreed } })
        await expect(run).rejects.toMatchObject({
          fault: "conflict",
          message: expect.stringContaining("differs from what was shown"),
        })
        expect([at.documents(), at.agent.all()]).toEqual([before, []])
      }
    }
  })

  test("has no digest for a model: short secrets can be guessed from it", async () => {
    await using at = stage({ entries: [entry("2.0.0", "good")] })
    expect((await at.run(mcpInstall, { serverName: "a/nice", dryRun: true })).digest).toBeUndefined()
  })

  test("is shown whole, even if it contains a secret of another server [tools:shown]", async () => {
    await using at = stage()
    const context = { ...at.context, maskCredentials: (text: string) => text.replaceAll("curl evil", "•••") }
    const args = { serverName: "x", command: "sh", args: ["-c", "curl evil"], dryRun: true }
    const commandIn = async (terminal: typeof at.context.terminal) =>
      (await invokeTool(mcpInstall, args, { ...context, terminal }, () => undefined)).structuredContent.command
    expect(await commandIn({ agreed: undefined })).toBe('sh -c "curl evil"')
    expect(await commandIn(undefined)).toBe('sh -c "•••"')
  })
})

test("at a terminal, keys that the caller passed are hidden, but nothing that could be code [tools:shown]", async () => {
  await using at = stage()
  const context = { ...at.context, terminal: { agreed: undefined } }
  const command = async (args: Params) =>
    (await invokeTool(mcpInstall, { serverName: "x", ...args, dryRun: true }, context, () => undefined))
      .structuredContent.command
  const url = "https://h.example/mcp?mode=a&api_key="
  expect([
    await command({
      command: "run",
      args: ["--api-key", "Canary-01", "--token=Canary-02", "-e", "A_KEY=Canary-03", "a"],
    }),
    await command({
      package: "p",
      args: ["postgres://bob:Canary-04@db/x"],
      env: { MAIN_DB: "postgres://b:Canary-05@db" },
    }),
    await command({ url: `${url}Canary-06` }),
    await command({ config: { serverUrl: `${url}Canary-07`, headers: { "X-Api-Key": "Canary-08" } } }),
    await command({ config: { command: "run", env: { A_KEY: "${X:-Canary-09}", B_KEY: "${cmd:a '}'}" } } }),
  ]).toEqual([
    "run --api-key ••• --token=••• -e A_KEY=••• a",
    "npx -y p postgres://•••@db/x with MAIN_DB=•••",
    `connect to ${url}•••`,
    `connect to ${url}••• with X-Api-Key=•••`,
    "run with A_KEY=${X:-•••} B_KEY=\"${cmd:a '}'}\"",
  ])
  const code = ["TOKEN=1 curl evil", "TOKEN=$(curl evil)", "TOKEN=1;curl", "--require=/x.cjs"]
  for (const part of code) expect(await command({ command: "sh", args: ["-c", part] })).toContain(part)
})

test("at a terminal, keys of an installed server are hidden, and those of a registry are shown [tools:shown]", async () => {
  const server = { ...INSTALLED, args: [...INSTALLED.args, "--token", "Canary-01"] }
  const entries = [entry("1.0.0", "good"), entry("2.0.0", "good"), { ...entry("1.0.0", "good"), name: "a/open" }]
  const [given] = entries[2]?.packages ?? []
  Object.assign(given ?? {}, { packageArguments: [{ type: "named", name: "--token", value: "Canary-02" }] })
  await using at = stage({ config: { mcpServers: { nice: server } }, entries })
  const terminal = { ...at.context, terminal: { agreed: undefined } }
  const updated = await mcpUpdate.run({ serverName: "nice", dryRun: true }, terminal)
  expect(updated.data.command).toBe("npx -y good@2.0.0 --token •••")
  const args = { serverName: "a/open", dryRun: true }
  const installed = await invokeTool(mcpInstall, args, terminal, () => undefined)
  expect(installed.structuredContent.command).toBe("npx -y good@1.0.0 --token Canary-02")
})

describe("a custom source in config", () => {
  /** Installs where a registry has an entry of the same short name, and any question to a registry fails. */
  async function install(args: Params, options: StageOptions = {}): Promise<Params> {
    await using at = stage({ ...options, entries: [entry("1.0.0", "good")] })
    const asked: string[] = []
    const find = (name: string) => {
      asked.push(name)
      return Promise.reject(new Error("is down"))
    }
    const context = { ...at.context, registries: { ...at.context.registries, find } }
    const result = await invokeTool(mcpInstall, { serverName: "nice", ...args }, context, () => undefined)
    return { ...result.structuredContent, asked, questions: at.asked, servers: at.servers() }
  }

  test("is installed without a question to a registry, once a person agrees [tools:install:config] [tools:codes]", async () => {
    const config = { command: "run", args: ["a"], env: { A_KEY: "k" }, requestTimeout: 5000 }
    const done = await install({ config, version: "latest" }, { answer: true })
    expect(done).toMatchObject({ installed: true, status: "connected", source: "a command", warnings: [], asked: [] })
    expect(done.questions).toEqual([expect.stringContaining("\n\nrun a with A_KEY=k\nrequestTimeout: 5000")])
    expect(done.servers).toEqual({ nice: { ...config, env: { A_KEY: "${A_KEY}" } } })
    const declined = await install({ config }, { answer: false })
    expect(declined).toMatchObject({ error: { code: "declined" }, servers: {} })
    const unasked = { preapproved: { installs: false, edits: false } }
    expect(await install({ config }, unasked)).toMatchObject({ error: { code: "confirmation_required" }, servers: {} })
  })

  test("may be an address, under any of its keys [tools:install:config]", async () => {
    const headers = { "X-Mode": "1" }
    for (const key of ["url", "serverUrl", "httpUrl"])
      expect(await install({ config: { [key]: "https://h/mcp", headers }, enabled: false })).toMatchObject({
        installed: true,
        status: "disconnected",
        state: "disabled",
        asked: [],
        servers: { nice: { url: "https://h/mcp", headers, disabled: true } },
      })
  })

  test("is checked like the arguments, and is never merged with another source [tools:install:config]", async () => {
    const cases: readonly (readonly [args: Params, message: string])[] = [
      [{ config: { command: "a", url: "https://h" } }, "Give one of command, url and package"],
      [{ url: "https://h", config: { command: "a" } }, "Give one of command, url and package"],
      [{ package: "p", config: { command: "a" } }, "Give one of command, url and package"],
      [{ command: "b", config: { command: "a" } }, "command and config.command differ"],
      [{ registryId: "a/nice", config: { command: "a" } }, "registryId names a registry entry"],
      [{ config: { url: "https://h", args: ["a"] } }, "args and env do not apply to a url"],
      [{ config: { args: ["a"] } }, "a registry entry has its own arguments"],
      [{ config: { command: 5 } }, '"config.command"'],
    ]
    for (const [args, message] of cases) {
      const { error, asked, servers } = await install(args)
      expect([args, error, asked, servers]).toEqual([
        args,
        { code: "invalid_argument", message: expect.stringContaining(message) },
        [],
        {},
      ])
    }
    await using at = stage({ entries: [entry("1.0.0", "good")] })
    await at.run(mcpInstall, {
      serverName: "a/nice",
      env: { HOOK: "h" },
      config: { command: null, url: null, tags: ["t"] },
    })
    expect(at.servers().nice).toMatchObject({ command: "npx", args: ["-y", "good@1.0.0"], tags: ["t"] })
  })

  test("warns of arguments without an effect [tools:install:config]", async () => {
    const { warnings } = await install({ version: "2", config: { command: "run", requestTimeot: 5 }, enabled: false })
    expect(warnings).toEqual([
      "version has no effect on a command or a url",
      expect.stringContaining('did you mean "requestTimeout"?'),
    ])
  })
})

test("an installation whose defaults change while the question is open is not made [tools:shown]", async () => {
  const changed = JSON.stringify({ serverDefaults: { env: { NODE_OPTIONS: "--require=/x" } } })
  await using at = stage({ answer: true, onask: () => writeFileSync(at.paths.file, changed) })
  const install = at.run(mcpInstall, { serverName: "x", command: "x" })
  await expect(install).rejects.toMatchObject({ fault: "conflict" })
  expect(at.documents().config).toBe(changed)
})
