/** Discovery, installation and updates from registries, on the built binary. */
import { expect, test } from "bun:test"
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type Fault, type Registry, type Server, startRegistry } from "../fixtures/registry.ts"
import { CLIENTS, connect1, connect2 } from "./clients.ts"
import {
  eventually,
  freshEnv,
  freshFolder,
  type Instance,
  ROOT,
  readIfThere,
  runSvc,
  SVC,
  startSvc,
  typeSvc,
} from "./harness.ts"

const ECHO = join(ROOT, "test/fixtures/echo.ts")
const FAILING = join(ROOT, "test/fixtures/failing.ts")
const NAME = "io.github.someone/weather"

const weather = (version: string, more: object = {}): Server => ({
  name: NAME,
  title: "Weather",
  description: "Forecasts for every city\u0007 \u202ehidden",
  version,
  repository: { url: "https://github.com/someone/weather", source: "github" },
  packages: [
    {
      registryType: "npm",
      identifier: "@someone/weather",
      version,
      transport: { type: "stdio" },
      packageArguments: [{ type: "named", name: "--units", default: "me$tric" }],
      environmentVariables: [
        { name: "WEATHER_API_KEY", description: "Your key", isRequired: true, isSecret: true },
        { name: "WEATHER_REGION", description: "A region" },
      ],
      ...more,
    },
  ],
})
const SERVERS: readonly Server[] = [
  ...Array.from({ length: 130 }, (_, index) => ({
    name: `io.github.filler/server-${index}`,
    description: `Filler number ${index}`,
    version: "1.0.0",
    packages: [{ registryType: "oci", identifier: `filler/s${index}`, version: "1", transport: { type: "stdio" } }],
  })),
  weather("1.0.0"),
  weather("2.0.0"),
  weather("1.1.0"),
  {
    name: "com.example/sky",
    description: "Remote weather maps",
    version: "0.1.0",
    remotes: [
      {
        type: "streamable-http",
        url: "http://127.0.0.1:1/{tenant}/mcp",
        variables: { tenant: { description: "Your tenant", isRequired: true } },
        headers: [
          {
            name: "X-Thing",
            value: "Bearer {token}",
            isSecret: true,
            variables: { token: { isSecret: true, default: "none" } },
          },
        ],
      },
    ],
  },
  {
    name: "com.example/bundle",
    description: "A bundle",
    version: "1.0.0",
    packages: [{ registryType: "mcpb", identifier: "https://x/y.mcpb", version: "1", transport: { type: "stdio" } }],
  },
  { name: "com.example/broken", description: 5, version: "1", packages: [{ nonsense: true }] } as never,
]

/** A folder with an `npx` that runs small servers of ours: version 2.0.0 does not list. */
function fakeNpx(): string {
  const folder = join(freshFolder(), "bin")
  mkdirSync(folder)
  const script = `#!/bin/sh
case "$2" in
  *@2.0.0) exec bun ${FAILING} list ;;
  *@1.1.0) exec bun ${ECHO} --tools 3 ;;
  *) exec bun ${ECHO} --tools 2 ;;
esac
`
  writeFileSync(join(folder, "npx"), script)
  chmodSync(join(folder, "npx"), 0o755)
  return folder
}

const start = (registries: readonly object[], flags: readonly string[] = [], folder?: string): Promise<Instance> =>
  startSvc({
    config: { mcpServers: { here: { command: "bun", args: [ECHO] } }, registries },
    flags: [
      "--internal-tools",
      "all",
      "--startup-wait",
      "10s",
      "--confirm-installs",
      "off",
      "--confirm-edits",
      "off",
      ...flags,
    ],
    env: { PATH: `${fakeNpx()}:${process.env.PATH}` },
    ...(folder === undefined ? {} : { folder }),
  })
test("credentials of a registry reach neither clients nor commands, not even where it repeats them [secrets:errors]", async () => {
  const [key, token, password, query] = ["canary-in-header", "canary-in-scheme", "canary-in-user", "canary-in-query"]
  let answer = (_key: string): Response => Response.json({})
  await using registry = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: ({ headers }) => answer(`${headers.get("x-api-key")} ${headers.get("authorization")?.split(" ")[1]}`),
  })
  const registries = [
    { name: "echo", url: registry.url.href, headers: { "x-api-key": key, authorization: `Bearer ${token}` } },
    { name: "other", url: `http://me:${password}@127.0.0.1:1/?api_key=${query}` },
  ]
  await using svc = await start(registries)
  await using client = await connect1(svc)
  const said: string[] = []
  for (const next of [
    (text: string) => Response.redirect(`http://127.0.0.1:1/${"x".repeat(150)}?${text}`),
    (text: string) => new Response("", { headers: { "content-type": `text/${"x".repeat(60)}${text}` } }),
    (text: string) => Response.json({ servers: [{ server: { name: "a/b", description: text, version: "1" } }] }),
  ]) {
    answer = next
    for (const [tool, args] of [
      ["mcp_search", { query: `q${said.length}` }],
      ["mcp_registry_status", {}],
      ["mcp_registry_info", {}],
      ["mcp_registry_list", {}],
    ] as const)
      said.push(JSON.stringify(await client.call(tool, args as never)))
    for (const args of [["list"], ["status"], ["search", `s${said.length}`]]) {
      const { stdout, stderr } = await runSvc(["registry", ...args, "--config-dir", svc.folder])
      said.push(stdout, stderr)
    }
  }
  said.push(svc.stderr())
  expect(said.join()).toContain("echo")
  expect(said.filter((text) => /canary/.test(text))).toEqual([])
}, 30_000)

const configured = (registry: Registry) => [{ name: "test", url: registry.url }]
const document = (svc: Instance) => JSON.parse(readIfThere(join(svc.folder, "mcp.json")) ?? "")

test.each(CLIENTS)(
  "a client of %s finds, installs and updates a server [tools:discovery] [tools:installation]",
  async (_name, connect) => {
    await using registry = startRegistry(SERVERS)
    await using svc = await start(configured(registry))
    await using client = await connect(svc)

    expect((await client.call("mcp_registry_list")).structuredContent).toEqual({
      registries: [{ name: "test", url: registry.url }],
    })
    expect((await client.call("mcp_registry_status")).structuredContent).toMatchObject({
      registries: [{ name: "test", available: true, latencyMs: expect.any(Number) }],
    })
    expect((await client.call("mcp_registry_info", { registry: "test" })).structuredContent).toMatchObject({
      available: true,
      servers: 134,
      examples: expect.arrayContaining(["io.github.filler/server-0"]),
    })

    const { structuredContent: found } = await client.call("mcp_search", { query: "weather forecasts" })
    expect(found).toMatchObject({
      servers: [
        { name: NAME, title: "Weather", version: "1.1.0", types: ["npm"], transports: ["stdio"], installed: false },
        { name: "com.example/sky", types: ["remote"], transports: ["streamable-http"] },
      ],
    })
    expect(JSON.stringify(found)).not.toMatch("\\u0007")
    const names = async (args: object) =>
      ((await client.call("mcp_search", args as never)).structuredContent.servers as { name: string }[]).map(
        ({ name }) => name,
      )
    expect(await names({ query: "weather", type: "remote" })).toEqual(["com.example/sky"])
    expect(await names({ query: "weather", transport: "stdio" })).toEqual([NAME])
    const first = await client.call("mcp_search", { query: "filler", limit: 3 })
    expect(first.structuredContent.total).toBe(130)
    const second = await names({ query: "filler", limit: 3, cursor: first.structuredContent.nextCursor })
    expect(second).toHaveLength(3)
    expect((first.structuredContent.servers as { name: string }[]).map(({ name }) => name)).not.toContain(second[0])

    expect((await client.call("mcp_info", { serverName: NAME })).structuredContent).toMatchObject({
      installed: false,
      entry: { name: NAME, version: "1.1.0" },
      versions: ["1.0.0", "2.0.0", "1.1.0"],
      command: "npx -y @someone/weather@1.1.0 --units me$$tric",
      required: [{ name: "WEATHER_API_KEY", description: "Your key", secret: true }],
      optional: expect.arrayContaining([expect.objectContaining({ name: "WEATHER_REGION" })]),
    })

    const missing = await client.call("mcp_install", { serverName: NAME, version: "1.0.0" })
    expect(missing.structuredContent).toMatchObject({
      error: { code: "invalid_argument" },
      installed: false,
      missing: [{ name: "WEATHER_API_KEY", secret: true }],
    })
    const env = { WEATHER_API_KEY: "sekret-weather-1", "--units": "imperial" }
    const done = await client.call("mcp_install", { serverName: NAME, version: "1.0.0", env })
    expect(done.structuredContent).toMatchObject({
      serverName: "weather",
      installed: true,
      version: "1.0.0",
      status: "connected",
      tools: 2,
      variables: ["WEATHER_API_KEY"],
    })
    expect(document(svc).mcpServers.weather).toEqual({
      command: "npx",
      args: ["-y", "@someone/weather@1.0.0", "--units", "imperial"],
      env: { WEATHER_API_KEY: "${WEATHER_API_KEY}" },
      installedFrom: { registry: "test", name: NAME, version: "1.0.0", type: "npm", package: "@someone/weather@1.0.0" },
    })
    expect(readIfThere(join(svc.folder, ".env"))).toBe("WEATHER_API_KEY=sekret-weather-1\n")
    expect((await client.call("mcp_search", { query: "weather", limit: 1 })).structuredContent).toMatchObject({
      servers: [{ name: NAME, installed: true, installedAs: ["weather"] }],
    })
    expect((await client.call("mcp_install", { serverName: NAME, env })).structuredContent).toMatchObject({
      error: { code: "conflict" },
    })

    const dry = await client.call("mcp_update", { serverName: "weather", dryRun: true })
    expect(dry.structuredContent).toMatchObject({ updated: false, from: "1.0.0", to: "1.1.0" })
    expect(dry.structuredContent.changes).toContainEqual({
      key: "args",
      from: "[-y, @someone/weather@1.0.0, --units, imperial]",
      to: "[-y, @someone/weather@1.1.0, --units, imperial]",
    })
    await client.call("mcp_edit", { serverName: "weather", patch: { tags: ["mine"] } })
    const before = readIfThere(join(svc.folder, "mcp.json"))
    const failed = await client.call("mcp_update", { serverName: "weather", version: "2.0.0" })
    expect(failed.structuredContent).toMatchObject({
      error: {
        code: "rolled_back",
        message: expect.stringMatching(/I will not list.*svc undid the change\.$/),
      },
    })
    expect(readIfThere(join(svc.folder, "mcp.json"))).toBe(before)
    expect((await client.call("mcp_status", { serverName: "weather" })).structuredContent).toMatchObject({
      servers: [{ status: "connected", tools: 2 }],
    })
    expect((await client.call("mcp_update", { serverName: "weather" })).structuredContent).toMatchObject({
      updated: true,
      to: "1.1.0",
      status: "connected",
      tools: 3,
      reload: { replaced: ["weather"] },
    })
    expect(document(svc).mcpServers.weather).toMatchObject({
      args: ["-y", "@someone/weather@1.1.0", "--units", "imperial"],
      env: { WEATHER_API_KEY: "${WEATHER_API_KEY}" },
      tags: ["mine"],
      installedFrom: { version: "1.1.0" },
    })
    expect((await client.call("mcp_update", { serverName: "weather" })).structuredContent).toMatchObject({
      updated: false,
    })
    expect((await client.call("mcp_info", { serverName: "weather" })).structuredContent).toMatchObject({
      installed: true,
      installedVersion: "1.1.0",
      server: { status: "connected" },
      entry: { name: NAME },
    })
  },
  60_000,
)

test("the question to a person shows the registry's status of a server", async () => {
  await using registry = startRegistry([{ ...weather("1.0.0"), status: "deleted" }])
  await using svc = await startSvc({
    config: { mcpServers: {}, registries: configured(registry) },
    flags: ["--internal-tools", "all"],
  })
  const asked: string[] = []
  await using client = await connect1(svc, (message) => {
    asked.push(message)
    return "decline"
  })
  await client.call("mcp_install", { serverName: NAME, env: { WEATHER_API_KEY: "sekret" } })
  expect(asked[0]).toStartWith(
    `Install the MCP server weather from ${NAME} 1.0.0 in the registry test (where it is deleted) and let svc run this?`,
  )
}, 20_000)

test("a person sees the values that an entry or an assistant sets, and the values that they typed are hidden [tools:shown]", async () => {
  const fixed = { name: "NODE_OPTIONS", isSecret: true, value: "--require=/home/me/evil.cjs" }
  const usual = { name: "PROXY_TOKEN", isSecret: true, default: "--usual" }
  const [one] = weather("1.0.0").packages as { environmentVariables: object[] }[]
  const environmentVariables = [...(one?.environmentVariables ?? []), fixed, usual]
  await using registry = startRegistry([{ ...weather("1.0.0"), packages: [{ ...one, environmentVariables }] }])
  const env = { PATH: `${fakeNpx()}:${process.env.PATH}` }
  await using svc = await startSvc({
    config: { mcpServers: {}, registries: configured(registry) },
    flags: ["--internal-tools", "all"],
    env,
  })
  const shown = "NODE_OPTIONS=--require=/home/me/evil.cjs PROXY_TOKEN=--usual"
  const asked: string[] = []
  await using client = await connect1(svc, (message) => {
    asked.push(message)
    return "decline"
  })
  const given = { WEATHER_API_KEY: "sekret-typed" }
  const { structuredContent } = await client.call("mcp_install", { serverName: NAME, env: given })
  expect(structuredContent).toMatchObject({ error: { code: "declined" } })
  expect(asked[0]).toContain("WEATHER_API_KEY=sekret-typed")
  expect(asked[0]).toContain(shown)

  const typed = await typeSvc(["mcp", "install", NAME, "--config-dir", svc.folder], {
    folder: svc.folder,
    env,
    answers: ["sekret-typed", "n"],
  })
  expect(typed.shown).toContain(shown)
  expect(typed.shown).toContain("WEATHER_API_KEY=•••")
  expect(typed.shown).not.toContain("sekret-typed")
  expect(readIfThere(join(svc.folder, ".env"))).toBeUndefined()
}, 20_000)

test("a terminal runs what it showed, or nothing: the registry is asked again in between [tools:agreed]", async () => {
  const other = { registryType: "npm", identifier: "other", version: "1.0.0", transport: { type: "stdio" } }
  let asked = 0
  await using registry = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      if (!request.url.includes("/versions/")) return Response.json({ servers: [] })
      // A registry's 404 is not cached; the next registry's entry is shown.
      if (asked++ === 0) return new Response("{}", { status: 404 })
      return Response.json({ server: { ...weather("1.0.0"), packages: [other] } })
    },
  })
  await using honest = startRegistry([weather("1.0.0", { environmentVariables: [] })])
  const registries = [{ name: "first", url: registry.url.origin }, ...configured(honest)]
  const folder = freshFolder()
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: {}, registries }))
  const env = { PATH: `${fakeNpx()}:${process.env.PATH}` }
  const typed = await typeSvc(["mcp", "install", NAME, "--config-dir", folder], { folder, env, answers: ["y"] })
  expect(typed.shown).toContain("npx -y @someone/weather@1.0.0")
  expect(typed.shown).toContain("What would run now differs from what was shown")
  expect(asked).toBe(2)
  expect(JSON.parse(readFileSync(join(folder, "mcp.json"), "utf8")).mcpServers).toEqual({})
}, 20_000)

test("an update uses the arguments of the new version with the existing values, unless a person has changed the arguments", async () => {
  const version = (version: string, packageArguments: object[]): Server => ({
    name: "com.example/args",
    description: "Arguments",
    version,
    packages: [{ registryType: "npm", identifier: "args", version, transport: { type: "stdio" }, packageArguments }],
  })
  const key = { type: "named", name: "--key", isRequired: true, isSecret: true }
  await using registry = startRegistry([
    version("1.0.0", [key]),
    version("1.0.1", [{ type: "positional", value: "serve" }, key, { type: "named", name: "--new", isRequired: true }]),
  ])
  await using svc = await start(configured(registry))
  await using client = await connect1(svc)
  const call = async (name: string, args: object) => (await client.call(name, args as never)).structuredContent
  const install = { registryId: "com.example/args", version: "1.0.0", env: { "--key": "sekret-arg" } }
  for (const serverName of ["a", "b"])
    expect(await call("mcp_install", { ...install, serverName })).toMatchObject({ installed: true })
  expect(await call("mcp_update", { serverName: "a" })).toMatchObject({
    error: { code: "invalid_argument" },
    missing: [{ name: "--new" }],
  })
  expect(await call("mcp_update", { serverName: "a", env: { "--new": "n" } })).toMatchObject({
    updated: true,
    warnings: [],
  })
  expect(document(svc).mcpServers.a.args).toEqual(["-y", "args@1.0.1", "serve", "--key", "${A___KEY}", "--new", "n"])

  await call("mcp_edit", { serverName: "b", patch: { args: ["-y", "args@1.0.0", "--mine"] } })
  expect(await call("mcp_update", { serverName: "b" })).toMatchObject({
    updated: true,
    warnings: [expect.stringContaining("stay unchanged; by default, the new version runs npx -y args@1.0.1 serve")],
  })
  expect(document(svc).mcpServers.b.args).toEqual(["-y", "args@1.0.1", "--mine"])

  svc.write({ ...document(svc), registries: [{ name: "other", url: registry.url }] })
  expect(await call("mcp_update", { serverName: "b", version: "1.0.0", dryRun: true })).toMatchObject({
    warnings: expect.arrayContaining([
      "the registry test, from which b was installed, is not configured; this is the entry of other",
    ]),
  })
}, 30_000)

test("svc reports entries that the registry does not know or that svc cannot run", async () => {
  await using registry = startRegistry(SERVERS)
  await using svc = await start(configured(registry))
  await using client = await connect1(svc)
  const failure = async (name: string, args: Record<string, unknown>) =>
    (await client.call(name, args)).structuredContent.error as { code: string; message: string }
  expect(await failure("mcp_install", { serverName: "io.github.someone/wether" })).toMatchObject({
    code: "not_found",
    message: expect.stringContaining(`did you mean ${NAME}`),
  })
  expect(await failure("mcp_install", { serverName: NAME, version: "9.9.9" })).toMatchObject({
    code: "not_found",
    message: expect.stringContaining("has no version 9.9.9, only 1.0.0, 2.0.0, 1.1.0"),
  })
  expect(await failure("mcp_install", { serverName: "com.example/bundle" })).toMatchObject({
    code: "invalid_argument",
    message: expect.stringContaining("mcpb"),
  })
  expect(await failure("mcp_search", { query: "x", registry: "tset" })).toMatchObject({
    code: "not_found",
    message: expect.stringContaining("did you mean test?"),
  })
  expect(await failure("mcp_update", { serverName: "here" })).toMatchObject({ code: "conflict" })
  // The last part of a name is enough if only one server has it.
  expect((await client.call("mcp_install", { serverName: "sky", dryRun: true })).structuredContent).toMatchObject({
    serverName: "sky",
    missing: [{ name: "tenant" }],
  })
  const remote = await client.call("mcp_install", {
    serverName: "clouds",
    registryId: "com.example/sky",
    env: { tenant: "me", token: "sekret-tok-1" },
    enabled: false,
  })
  expect(remote.structuredContent).toMatchObject({
    installed: true,
    serverName: "clouds",
    variables: ["CLOUDS_TOKEN"],
  })
  expect(document(svc).mcpServers.clouds).toMatchObject({
    type: "streamableHttp",
    url: "http://127.0.0.1:1/me/mcp",
    headers: { "X-Thing": "Bearer ${CLOUDS_TOKEN}" },
    disabled: true,
  })
  expect(readIfThere(join(svc.folder, ".env"))).toBe("CLOUDS_TOKEN=sekret-tok-1\n")
}, 20_000)

test("the answer says how a registry failed, and contains its cached entries [registry:stale]", async () => {
  await using registry = startRegistry(SERVERS)
  await using svc = await start(configured(registry))
  await using client = await connect2(svc)
  for (const fault of ["500", "malformed", "half", "html", "no list"] as const satisfies readonly Fault[]) {
    registry.fault = fault
    for (const result of [
      await client.call("mcp_search", { query: "weather" }),
      await client.call("mcp_install", { serverName: NAME }),
    ])
      expect([fault, result.structuredContent.error]).toMatchObject([
        fault,
        {
          code: "registry_unavailable",
          message: expect.stringMatching(/^registry test: (?:answered|sent an)/),
        },
      ])
  }
  expect((await client.call("mcp_registry_status")).structuredContent).toMatchObject({
    registries: [{ available: true }],
  })
  registry.fault = "500"
  expect((await client.call("mcp_registry_status")).structuredContent).toMatchObject({
    registries: [{ available: false, error: "registry test: answered HTTP 500" }],
  })
  expect((await client.call("mcp_registry_info")).structuredContent).toMatchObject({
    available: false,
    warnings: ["registry test: answered HTTP 500"],
  })
  registry.fault = "none"
  const { structuredContent: fresh } = await client.call("mcp_search", { query: "weather" })
  const { length } = registry.asked
  expect((await client.call("mcp_search", { query: "weather" })).structuredContent).toEqual(fresh)
  expect(registry.asked).toHaveLength(length)

  // Two hours later, in another run.
  const cache = join(svc.folder, "registries")
  const folder = freshFolder()
  mkdirSync(join(folder, "registries"))
  for (const name of readdirSync(cache)) {
    const cached = JSON.parse(readFileSync(join(cache, name), "utf8"))
    writeFileSync(join(folder, "registries", name), JSON.stringify({ ...cached, at: cached.at - 120 * 60_000 }))
  }
  await using later = await start(configured(registry), [], folder)
  await using again = await connect2(later)
  registry.fault = "500"
  expect((await again.call("mcp_search", { query: "weather" })).structuredContent).toMatchObject({
    servers: fresh.servers,
    warnings: ["registry test: answered HTTP 500; using the answer from 120 min ago"],
  })
  registry.fault = "none"
  expect((await again.call("mcp_search", { query: "weather" })).structuredContent).toEqual(fresh)
  expect(registry.asked.slice(length).every((asked) => asked.endsWith(" 304"))).toBe(true)
}, 30_000)

test("several registries are searched together, and one that is down is only a warning", async () => {
  await using one = startRegistry([weather("1.0.0")])
  await using two = startRegistry(SERVERS)
  await using svc = await start([
    { name: "first", url: one.url },
    { name: "down", url: "http://127.0.0.1:1" },
    { name: "second", url: two.url },
  ])
  await using client = await connect1(svc)
  expect((await client.call("mcp_search", { query: "weather" })).structuredContent).toMatchObject({
    servers: [{ name: NAME, registry: "first", version: "1.0.0" }, { registry: "second" }],
    warnings: [expect.stringMatching(/^registry down: nothing listens at/)],
  })
  expect((await client.call("mcp_info", { serverName: "com.example/sky" })).structuredContent).toMatchObject({
    entry: { registry: "second" },
  })
}, 20_000)

test("a deprecated server is shown with the registry's reason [registry:status]", async () => {
  const statusMessage = "moved to io.github.someone/forecast"
  await using registry = startRegistry([{ ...weather("1.0.0"), status: "deprecated", statusMessage }])
  await using svc = await start(configured(registry))
  await using client = await connect1(svc)
  const found = await client.call("mcp_search", { query: "weather" })
  expect(found.structuredContent).toMatchObject({ servers: [{ name: NAME, status: "deprecated", statusMessage }] })
  expect(JSON.stringify(found.content)).toContain(`${NAME} 1.0.0 (deprecated: ${statusMessage})`)
  const warning = `${NAME} is deprecated in its registry: ${statusMessage}`
  for (const [tool, args] of [
    ["mcp_info", { serverName: NAME }],
    ["mcp_install", { serverName: NAME, dryRun: true }],
  ] as const)
    expect((await client.call(tool, args as never)).structuredContent.warnings).toContain(warning)
  const listed = await runSvc(["mcp", "search", "weather", "--config-dir", svc.folder])
  expect(listed.stdout).toContain(`deprecated  ${statusMessage}`)
  const shown = await runSvc(["registry", "info", NAME, "--config-dir", svc.folder])
  expect([shown.stdout, shown.stderr]).toEqual([
    expect.stringContaining("\nstatus      deprecated\n"),
    `warning: ${warning}\n`,
  ])
}, 20_000)

test("without a network, a well-known server is found and installed as one of a registry [registry:known]", async () => {
  await using svc = await start([{ name: "down", url: "http://127.0.0.1:1" }])
  await using client = await connect1(svc)
  const name = "io.github.modelcontextprotocol/memory"
  const call = async (tool: string, args: object) => (await client.call(tool, args as never)).structuredContent
  expect(await call("mcp_search", { query: "remembers facts", limit: 1 })).toMatchObject({
    servers: [{ name, registry: "bundled with svc", types: ["npm"] }],
    warnings: [expect.stringMatching(/^registry down: nothing listens at .* well-known servers known to svc since 20/)],
  })
  const warnings = [expect.stringMatching(/^registry down: .*: this is the entry known to svc since 20/)]
  expect(await call("mcp_info", { serverName: name })).toMatchObject({ installed: false, entry: { name }, warnings })
  expect(await call("mcp_install", { serverName: name })).toMatchObject({
    serverName: "memory",
    installed: true,
    source: `${name} ${document(svc).mcpServers.memory.installedFrom.version} in the registry bundled with svc`,
    tools: 2,
    warnings,
  })
  expect(document(svc).mcpServers.memory).toMatchObject({ command: "npx", installedFrom: { name } })
  expect(await call("mcp_update", { serverName: "memory" })).toMatchObject({ error: { code: "registry_unavailable" } })
  expect(await call("mcp_info", { serverName: "memory" })).toMatchObject({
    installed: true,
    warnings: [expect.stringMatching(/^registry down: nothing listens/)],
  })
  expect(await call("mcp_install", { serverName: "io.github.nobody/nothing" })).toMatchObject({
    error: { code: "registry_unavailable" },
  })
}, 20_000)

test("a search ends at once if its client no longer waits", async () => {
  await using registry = startRegistry(SERVERS)
  registry.fault = "slow"
  const folder = freshFolder()
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: {}, registries: configured(registry) }))
  const child = Bun.spawn({
    cmd: [SVC, "mcp", "search", "weather", "--config-dir", folder],
    env: freshEnv(folder),
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
  })
  await eventually(() => registry.waiting > 0)
  child.kill("SIGINT")
  await child.exited
  expect(child.signalCode).toBe("SIGINT")
}, 20_000)

test("svc registry and svc mcp search, install and update do the same for a person [cli:retired]", async () => {
  await using registry = startRegistry(SERVERS)
  const folder = freshFolder()
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: {}, registries: configured(registry) }))
  const env = { ...freshEnv(folder), PATH: `${fakeNpx()}:${process.env.PATH}` }
  const svc = (...args: string[]) => runSvc([...args, "--config-dir", folder], env)
  expect((await svc("mcp", "search", "weather", "--json")).stdout).toContain(`"name": "${NAME}"`)
  const remote = ["search", "weather", "--type", "remote"]
  const { stdout } = await svc("mcp", ...remote)
  expect(stdout).toMatch(/^NAME .*\ncom\.example\/sky /)
  expect(await svc("registry", ...remote)).toMatchObject({
    code: 0,
    stdout,
    stderr: expect.stringContaining("use `svc mcp search`\n"),
  })
  expect((await svc("registry", "info", NAME)).stdout).toMatch(/\nneeds {7}WEATHER_API_KEY {2}Your key\n/)
  expect((await svc("registry", "versions", NAME)).stdout).toBe("1.0.0\n2.0.0\n1.1.0\n")
  expect((await svc("registry", "list")).stdout).toContain(registry.url)
  expect(await svc("registry", "status")).toMatchObject({ code: 0, stdout: expect.stringMatching(/in \d+ ms/) })
  expect(readdirSync(folder).sort()).toEqual(["mcp.json", "registries"])
  expect(await svc("mcp", "install", NAME, "--version", "1.0.0", "--yes")).toMatchObject({
    code: 64,
    stderr: "svc: weather needs WEATHER_API_KEY (Your key); pass each as --env NAME=value\n",
  })
  const extra = await svc("mcp", "install", NAME, "--env", "WEATHER_API_KEY=sekret-weather-2", "--env", "EXTRA=1")
  expect(extra.stderr).toStartWith(
    "warning: its registry entry does not declare EXTRA\nsvc: no terminal to ask for confirmation; add --yes to let svc run: npx ",
  )
  const given = ["--yes", "--env", "WEATHER_API_KEY=sekret-weather-2"]
  expect((await svc("mcp", "install", NAME, "--version", "1.0.0", ...given)).stdout).toBe(
    "installed weather: connected, 2 tools\n",
  )
  expect((await svc("registry", "info", NAME)).stdout).toContain("\ninstalled   yes, as weather\n")
  expect((await svc("mcp", "update", "weather", "--dry-run")).stdout).toContain(
    "would update weather from 1.0.0 to 1.1.0",
  )
  expect(await svc("mcp", "update", "weather", "--version", "2.0.0", "--yes")).toMatchObject({ code: 69 })
  expect((await svc("mcp", "update", "weather", "--yes")).stdout).toStartWith(
    "updated weather from 1.0.0 to 1.1.0: connected, 3 tools\n",
  )
  expect((await svc("mcp", "update", "weather")).stdout).toBe("weather is already at 1.1.0\n")
  const same = await svc("mcp", "update", "weather", "--yes", "--env", "WEATHER_API_KEY=sekret-weather-3")
  expect(same).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("updated weather from 1.1.0 to 1.1.0: connected"),
  })
  expect(readIfThere(join(folder, ".env"))).toContain("sekret-weather-3")
  registry.fault = "html"
  expect(await svc("registry", "status")).toMatchObject({ code: 69 })
  expect((await svc("registry", "info", "x/y")).code).toBe(69)
}, 30_000)
