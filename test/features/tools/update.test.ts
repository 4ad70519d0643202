/** Tests the update of a server from a registry: its plan, and its effects. */
import { describe, expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import type { Bundle } from "../../../src/features/registry/bundle.ts"
import { readManifest } from "../../../src/features/registry/bundle-manifest.ts"
import { originOf } from "../../../src/features/tools/registry-entries.ts"
import { mcpUpdate } from "../../../src/features/tools/update.ts"
import { planUpdate, type UpdateRequest, updatableOrigin } from "../../../src/features/tools/update-plan.ts"
import type { Params } from "../../../src/wire/message.ts"
import { entryOf, stage } from "./stage.ts"

const NAME = "a/weather"
const KEY = { name: "API_KEY", isSecret: true, isRequired: true }
const version = (number: string, more: object = {}) => ({
  name: NAME,
  description: "d",
  version: number,
  packages: [{ registryType: "npm", identifier: "weather", version: number, environmentVariables: [KEY], ...more }],
})
const installedFrom = { registry: "test", name: NAME, version: "1.0.0", type: "npm", package: "weather@1.0.0" }
const installed = (more: Params = {}): Params => ({
  command: "npx",
  args: ["-y", "weather@1.0.0"],
  env: { API_KEY: "${API_KEY}" },
  installedFrom,
  ...more,
})

/** Plans the update of a server, and returns the plan with the server that it writes. */
async function planned(server: Params, request: Partial<UpdateRequest> & Pick<UpdateRequest, "entry">) {
  await using at = stage({ config: { mcpServers: { w: server } }, dotenv: "API_KEY=k\n" })
  const documents = at.context.editor.read()
  const origin = originOf(server)
  if (origin === undefined) throw new Error("the server has no origin")
  const plan = planUpdate(at.context, {
    name: "w",
    origin,
    documents,
    installed: entryOf(version("1.0.0")),
    bundle: undefined,
    env: {},
    ...request,
  })
  const written = () => {
    const { config, dotenv } = plan.change(documents)
    return { server: JSON.parse(config).mcpServers.w as Params, dotenv }
  }
  return { plan, written }
}

describe("the plan of an update", () => {
  test("changes the version and keeps the values that the person has set", async () => {
    const own = installed({ tags: ["a"], env: { API_KEY: "${API_KEY}", MODE: "own" }, disabled: true })
    const { plan, written } = await planned(own, { entry: entryOf(version("2.0.0")) })
    expect(plan).toMatchObject({ from: "1.0.0", to: "2.0.0", enabled: false, missing: [], warnings: [] })
    expect(written().server).toEqual({
      ...own,
      args: ["-y", "weather@2.0.0"],
      installedFrom: { ...installedFrom, version: "2.0.0", package: "weather@2.0.0" },
    })
    expect(plan.question.what).toBe(
      "Update the MCP server w from 1.0.0 to 2.0.0 of the registry test and let svc run this",
    )
  })

  test("finds values in the arguments and uses them in the arguments of the new version", async () => {
    const units = { type: "named", name: "--units" }
    const one = installed({ args: ["-y", "weather@1.0.0", "--units", "metric"] })
    const { written } = await planned(one, {
      entry: entryOf(version("2.0.0", { packageArguments: [{ type: "positional", value: "serve" }, units] })),
      installed: entryOf(version("1.0.0", { packageArguments: [units] })),
    })
    expect(written().server.args).toEqual(["-y", "weather@2.0.0", "serve", "--units", "metric"])
  })

  test("keeps arguments that the person has changed, and those of a version that the registry no longer has", async () => {
    const mine = installed({ args: ["-y", "weather@1.0.0", "--mine"] })
    const entry = entryOf(version("2.0.0", { packageArguments: [{ type: "positional", isRequired: true, name: "p" }] }))
    for (const known of [entryOf(version("1.0.0")), undefined]) {
      const { plan, written } = await planned(mine, { entry, installed: known })
      expect(written().server.args).toEqual(["-y", "weather@2.0.0", "--mine"])
      expect(plan.warnings).toEqual([expect.stringContaining("stay unchanged; by default, the new version runs npx")])
      // No argument can be missing if the arguments stay.
      expect(plan.missing).toEqual([])
    }
  })

  test("names the values that the new version needs", async () => {
    const environmentVariables = [KEY, { name: "REGION", isRequired: true }]
    const { plan } = await planned(installed(), { entry: entryOf(version("2.0.0", { environmentVariables })) })
    expect(plan.missing).toMatchObject([{ name: "REGION", secret: false }])
  })

  test("moves new secrets to .env, shows them to the person and hides them in answers", async () => {
    const { plan, written } = await planned(installed(), {
      entry: entryOf(version("2.0.0")),
      env: { API_KEY: "new", EXTRA: "1" },
    })
    expect(plan.question.shown).toBe("npx -y weather@2.0.0 with API_KEY=new EXTRA=1")
    expect(plan.command).toBe("npx -y weather@2.0.0 with API_KEY=••• EXTRA=1")
    expect(written()).toMatchObject({
      server: { env: { API_KEY: "${W_API_KEY}", EXTRA: "1" } },
      dotenv: "API_KEY=k\nW_API_KEY=new\n",
    })
  })

  test("keeps the variables of a remote's address and its headers", async () => {
    const remote = (number: string, url: string) =>
      entryOf({
        name: NAME,
        version: number,
        remotes: [
          {
            type: "streamable-http",
            url,
            variables: { host: { isRequired: true } },
            headers: [{ name: "Authorization", isSecret: true, isRequired: true }],
          },
        ],
      })
    const server = {
      type: "streamableHttp",
      url: "https://eu.example.com/v1",
      headers: { Authorization: "${T}" },
      installedFrom: { registry: "test", name: NAME, version: "1.0.0", type: "remote" },
    }
    const { plan } = await planned(server, {
      entry: remote("2.0.0", "https://{host}.example.com/v2"),
      installed: remote("1.0.0", "https://{host}.example.com/v1"),
    })
    expect(plan.command).toBe("connect to https://eu.example.com/v2 with Authorization=${T}")
    const five = remote("1.0.0", "https://{a}{b}{c}{d}{e}.example.com")
    const many = await planned(server, { entry: remote("2.0.0", "https://{host}.example.com/v2"), installed: five })
    expect(many.plan.missing).toMatchObject([{ name: "host" }])
  })

  test("takes a bundle's values from its origin, and drops values that name a file of the old bundle", async () => {
    const manifest = readManifest(
      JSON.stringify({
        manifest_version: "0.3",
        name: "sun",
        version: "2.0.0",
        server: {
          type: "node",
          entry_point: "i.js",
          mcp_config: { command: "node", args: ["${__dirname}/i.js"], env: { MODE: "${user_config.mode}" } },
        },
        user_config: { mode: { type: "string", title: "Mode", required: true } },
      }),
    )
    const entry = entryOf(version("2.0.0", { registryType: "mcpb" }))
    const bundle = { from: entry.packages[0], hash: "ab".repeat(32), manifest, files: [] } as unknown as Bundle
    const server = {
      command: "node",
      args: ["/old/i.js"],
      cwd: "/old",
      env: { MODE: "fast", FILE: "/old/data", OWN: "1" },
      installedFrom: { ...installedFrom, type: "mcpb", values: { mode: "fast" } },
    }
    const { plan } = await planned(server, { entry, bundle })
    expect(plan.command).toMatch(/^node \S+\/i\.js in \S+ with MODE=fast OWN=1$/)
    expect(plan.question.what).toContain(", the bundle weather (sha256 ")
    const slow = await planned(server, { entry, bundle, env: { mode: "slow" } })
    expect(slow.plan.command).toContain("MODE=slow")
  })

  test("is refused if svc cannot run the new version, or if the server is from no registry", async () => {
    const entry = entryOf(version("2.0.0", { registryType: "cargo" }))
    await expect(planned(installed(), { entry })).rejects.toMatchObject({ fault: "conflict" })
    for (const [section, server] of [
      ["mcpServers", { command: "x" }],
      ["mcpTemplates", installed()],
    ] as const)
      expect(() => updatableOrigin("w", section, server)).toThrow(
        expect.objectContaining({ fault: "conflict", hint: expect.objectContaining({ tool: "mcp_edit" }) }),
      )
  })
})

describe("mcp_update", () => {
  const entries = [version("1.0.0"), version("2.0.0")]
  const config = `{ "mcpServers": { "w": ${JSON.stringify(installed())} } } // mine\n`
  const options = { config, dotenv: "API_KEY=k\n", entries }

  test("writes the new version and keeps the text around it", async () => {
    await using at = stage(options)
    await at.start()
    expect(await at.run(mcpUpdate, { serverName: "w" })).toMatchObject({
      updated: true,
      from: "1.0.0",
      to: "2.0.0",
      status: "connected",
      tools: 1,
      reload: { replaced: ["w"] },
      changes: [
        expect.objectContaining({ key: "args", to: "[-y, weather@2.0.0]" }),
        expect.anything(),
        expect.anything(),
      ],
    })
    expect(at.documents().config).toEndWith("// mine\n")
    expect(at.documents().config).toContain("weather@2.0.0")
  })

  test("changes nothing in a dry run, for the installed version, or if a value is missing or the person declines", async () => {
    const needy = version("3.0.0", { environmentVariables: [{ name: "REGION", isRequired: true }] })
    await using at = stage({ ...options, entries: [...entries, needy], answer: false })
    const before = at.documents()
    const update = (args: Params) => at.run(mcpUpdate, { serverName: "w", ...args })
    expect(await update({ version: "2.0.0", dryRun: true })).toMatchObject({ updated: false, to: "2.0.0" })
    expect(await update({ version: "1.0.0" })).toMatchObject({
      updated: false,
      from: "1.0.0",
      to: "1.0.0",
      changes: [],
    })
    expect(await update({ dryRun: true })).toMatchObject({ changes: [], missing: [{ name: "REGION" }] })
    await expect(update({})).rejects.toMatchObject({
      fault: "invalid_argument",
      data: { missing: [{ name: "REGION" }] },
    })
    await expect(update({ version: "2.0.0" })).rejects.toMatchObject({ fault: "declined" })
    expect(at.documents()).toEqual(before)
  })

  test("restores everything if the new version does not connect [tools:rollback]", async () => {
    const broken = version("4.0.0", { packageArguments: [{ type: "positional", value: "broken" }] })
    await using at = stage({ ...options, entries: [...entries, broken] })
    await at.start()
    const before = at.documents()
    const env = { API_KEY: "other" }
    expect(await at.run(mcpUpdate, { serverName: "w", env }).catch((error: unknown) => error)).toMatchObject({
      fault: "rolled_back",
      message: expect.stringMatching(/^w: .*svc undid the change\.$/),
      data: { log: ["the last line of its log"] },
    })
    expect(at.documents()).toEqual(before)
    expect(at.agent.backend("w")?.state.kind).toBe("connected")
  })

  test("removes only its own change from documents that another program has edited meanwhile", async () => {
    const broken = version("4.0.0", { packageArguments: [{ type: "positional", value: "broken" }] })
    let edit: () => void = () => undefined
    await using at = stage({
      ...options,
      entries: [...entries, broken],
      toolsOf({ args }) {
        if (args.includes("broken")) edit()
        return args.includes("broken") ? undefined : []
      },
    })
    await at.start()
    edit = () => {
      const append = (file: string, text: string) => writeFileSync(file, readFileSync(file, "utf8") + text)
      append(at.paths.file, "// theirs\n")
      append(at.paths.dotenv, "THEIRS=1\n")
    }
    const env = { API_KEY: "other" }
    await expect(at.run(mcpUpdate, { serverName: "w", env })).rejects.toMatchObject({ fault: "rolled_back" })
    const { config: text = "", dotenv } = at.documents()
    expect(text).toEndWith("// mine\n// theirs\n")
    expect(text).toContain("weather@1.0.0")
    expect(dotenv).toBe("API_KEY=k\nTHEIRS=1\n")
  })

  test("is refused if the server was edited after the person was asked", async () => {
    await using at = stage({ ...options, answer: true })
    await at.start()
    const { person } = at.context
    const meddling = {
      async agrees(...asked: Parameters<NonNullable<typeof person>["agrees"]>) {
        writeFileSync(at.paths.file, config.replace('"npx"', '"other"'))
        return (await person?.agrees(...asked)) === true
      },
    }
    expect(
      await mcpUpdate.run({ serverName: "w" }, { ...at.context, person: meddling }).catch((error) => error),
    ).toMatchObject({ fault: "conflict", message: "w was changed in the meantime" })
    expect(at.documents().config).toContain('"other"')
  })

  test("warns if the server's registry is not configured any more", async () => {
    await using at = stage({ ...options, config: config.replace('"registry":"test"', '"registry":"gone"') })
    expect(await at.run(mcpUpdate, { serverName: "w", dryRun: true })).toMatchObject({
      warnings: ["the registry gone, from which w was installed, is not configured; this is the entry of test"],
    })
  })
})
