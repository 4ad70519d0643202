/** A client of a preset cannot tell svc from one whose servers have only what the preset includes. */
import { expect, test } from "bun:test"
import { mkdirSync, renameSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { z } from "zod"
import { randomFrom } from "../random.ts"
import {
  eventually,
  fixture,
  freshEnv,
  freshFolder,
  type Instance,
  json,
  modern,
  runSvc,
  SVC,
  startSvc,
  svcIn,
} from "./harness.ts"
import { eventsOf, listen } from "./replicas.ts"

type Entry = { readonly name?: string; readonly uri?: string; readonly uriTemplate?: string }
type Entries = Readonly<Record<"tools" | "prompts" | "resources" | "resourceTemplates", readonly Entry[]>>

const tool = (name: string, readOnlyHint = false) => ({
  name,
  description: `Does ${name.replaceAll("_", " ")}`,
  inputSchema: { type: "object", properties: { [`of_${name}`]: { type: "string" } } },
  annotations: { readOnlyHint },
})
const ALL: Readonly<Record<string, Entries>> = {
  alpha: {
    tools: ["get_issue", "list_issues", "delete_issue", "create_issue", "secret_tool"].map((name) =>
      tool(name, /get|list/.test(name)),
    ),
    prompts: [{ name: "triage" }, { name: "secret_prompt" }],
    resources: [
      { name: "open", uri: "notes://open/1" },
      { name: "secret", uri: "notes://secret/1" },
    ],
    resourceTemplates: [{ name: "by", uriTemplate: "notes://open/{id}" }],
  },
  beta: {
    tools: ["get_page", "delete_page", "search"].map((name) => tool(name)),
    prompts: [],
    resources: [],
    resourceTemplates: [],
  },
  hidden: { tools: [tool("secret_other")], prompts: [], resources: [], resourceTemplates: [] },
}
const NAMING = { names: { "alpha/list_issues": "issues" }, prefix: "server", separator: "_svc_" }
const VIEW = {
  servers: ["alpha", "beta"],
  allow: ["alpha/*", "beta/get_*", "beta/delete_*"],
  deny: ["*/delete_*", "alpha/secret_*", "alpha/prompt:secret*", "alpha/resource:notes://secret/*"],
  ...NAMING,
}

/** Returns the entries without those that the preset leaves out. */
const shown = (entries: Entries): Entries => {
  const keep = ({ name = "", uri = "" }: Entry) => !/delete|secret|^search$/.test(`${name}${uri}`)
  return {
    tools: entries.tools.filter(keep),
    prompts: entries.prompts.filter(keep),
    resources: entries.resources.filter(keep),
    resourceTemplates: entries.resourceTemplates.filter(keep),
  }
}

/** Returns the mcp.json of servers whose entries are in files of a folder; `more`: further settings of alpha. */
const configOf = (folder: string, servers: Readonly<Record<string, Entries>>, more: object = {}) => ({
  mcpServers: Object.fromEntries(
    Object.keys(servers).map((name) => {
      const args = [fixture("defined.ts"), join(folder, "entries", `${name}.json`)]
      return [name, { command: "bun", args, ...(name === "alpha" ? more : {}) }]
    }),
  ),
})

const writePreset = (folder: string, preset: object) =>
  writeFileSync(join(folder, "presets.json"), JSON.stringify({ presets: { v: preset } }))

/** Starts svc with servers of these entries and one preset `v`; `more`: further settings of alpha. */
async function serve(servers: Readonly<Record<string, Entries>>, preset: object, more: object = {}): Promise<Instance> {
  const folder = freshFolder()
  mkdirSync(join(folder, "entries"))
  for (const [name, entries] of Object.entries(servers))
    writeFileSync(join(folder, "entries", `${name}.json`), JSON.stringify(entries))
  writePreset(folder, preset)
  const svc = await startSvc({ folder, config: configOf(folder, servers, more) })
  await eventually(
    async () =>
      (await (await fetch(`${svc.url}/api/servers`)).text()).split('"connected"').length > Object.keys(servers).length,
  )
  return svc
}

const BODY = z.looseObject({})
type Query = "?preset=v" | "?preset=v&tools=search"
/** Clients of one svc and view. `told` counts the notifications that each has received, the last one over a stream of 2026. */
type Clients = AsyncDisposable & {
  readonly told: number[]
  readonly greetings: unknown
  ask(nth: number, method: string, params: object): unknown
}

/** Connects a client of each transport: HTTP with a session, HTTP without one, `/sse`, and stdio. */
async function clientsOf({ url, folder }: Instance, query: Query): Promise<Clients> {
  const args = query
    .slice(1)
    .split("&")
    .map((option) => `--${option}`)
  const transports = [
    new StreamableHTTPClientTransport(new URL(`${url}/mcp${query}`)),
    new SSEClientTransport(new URL(`${url}/sse${query}`)),
    new StdioClientTransport({
      command: SVC,
      args: ["proxy", "--config-dir", folder, ...args],
      env: freshEnv(folder),
      stderr: "ignore",
    }),
  ]
  const told = [...transports.map(() => 0), 0]
  const clients = await Promise.all(
    transports.map(async (transport, nth) => {
      const client = new Client({ name: "t", version: "1" })
      client.fallbackNotificationHandler = async () => {
        told[nth] = (told[nth] ?? 0) + 1
      }
      await client.connect(transport as never)
      return client
    }),
  )
  const leaving = new AbortController()
  const wanted = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true }
  const stream = await listen({ url }, wanted, {}, { query, signal: leaving.signal })
  const listening = (async () => {
    for await (const { message } of eventsOf(stream))
      if (message.method?.endsWith("list_changed")) told[3] = (told[3] ?? 0) + 1
  })().catch(() => undefined)
  return {
    told,
    greetings: clients.map((client) => [client.getInstructions(), client.getServerCapabilities()]),
    async ask(nth, method, params) {
      const client = clients[nth]
      if (client === undefined) {
        const { result, error } = (await modern(`${url}/mcp${query}`, method, { ...params })).body
        return { result, error }
      }
      try {
        return await client.request({ method, params } as never, BODY)
      } catch (error) {
        const { code, message, data } = error as { code?: number; message: string; data?: unknown }
        return { code, message, data }
      }
    },
    async [Symbol.asyncDispose]() {
      leaving.abort()
      await Promise.all([listening, ...clients.map((client) => client.close())])
    },
  }
}

const NAMES = [
  "get_issue",
  "list_issues",
  "issues",
  "delete_issue",
  "secret_tool",
  "get_page",
  "delete_page",
  "search",
  "secret_other",
  "isues",
  "get",
  "secret",
]

// A resource that a view leaves out is refused in the words of svc: those of its server cannot be known.
const URIS = [
  ...["open/1", "open/{id}"].map((path) => `svc://alpha/notes://${path}`),
  ...["hidden", "nobody"].flatMap((server) =>
    ["open/1", "secret/{id}"].map((path) => `svc://${server}/notes://${path}`),
  ),
]

/** Returns a random request. */
function requestOf(random: () => number): { method: string; params: Record<string, unknown> } {
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T
  const server = pick(["alpha", "beta", "hidden", "nobody"])
  const name = pick(["", `${server}_svc_`, `${server}/`]) + pick(NAMES)
  const call = (method: string, params: Record<string, unknown>) => ({ method, params })
  return pick([
    () => call(pick(["tools/list", "prompts/list", "resources/list", "resources/templates/list"]), {}),
    () => call("tools/call", { name, arguments: { of_get_issue: "x" } }),
    () => call("tools/call", { name: "call_tool", arguments: { name, arguments: {} } }),
    () => call("tools/call", { name: "call_read_tool", arguments: { name, arguments: {}, server } }),
    () =>
      call("tools/call", {
        name: "search_tools",
        arguments: { query: pick(["issues", "secret", "delete page", "get", name]) },
      }),
    () => call("prompts/get", { name: pick(["", `${server}_svc_`]) + pick(["triage", "secret_prompt", "triag"]) }),
    () =>
      call("completion/complete", {
        ref: { type: "ref/prompt", name: `alpha_svc_${pick(["triage", "secret_prompt"])}` },
        argument: { name: "a", value: "o" },
      }),
    () =>
      call("resources/read", {
        uri: `svc://${server === "beta" ? "alpha" : server}/${pick(["notes://open/1", "notes://open/77"])}`,
      }),
    () => call("resources/read", { uri: `svc:instructions/${server}` }),
    () => call(pick(["resources/subscribe", "resources/unsubscribe", "resources/read"]), { uri: pick(URIS) }),
    () =>
      call("completion/complete", {
        ref: { type: "ref/resource", uri: pick(URIS) },
        argument: { name: "id", value: "o" },
      }),
    () =>
      call("completion/complete", {
        ref: { type: "ref/prompt", name: pick(NAMES) },
        argument: { name: "a", value: "" },
      }),
    () => call(pick(["logging/setLevel", "ping", "tools/nothing"]), { level: "info" }),
    () => call(pick(["tasks/get", "tasks/cancel", "tasks/result"]), { taskId: pick([`${server}_svc_1`, "1", name]) }),
    () => call("tools/list", { cursor: pick(["", "0", name]) }),
  ])()
}

/** Puts these entries in place of a server's, at once. */
function replaceEntries({ folder }: Instance, server: string, entries: Entries): void {
  const file = join(folder, "entries", `${server}.json`)
  writeFileSync(`${file}.next`, JSON.stringify(entries))
  renameSync(`${file}.next`, file)
}

const QUERIES = ["?preset=v", "?preset=v&tools=search"] as const

/** Sends the same random requests to both. Returns those with different answers; none may say what the view leaves out. */
async function compare(both: readonly (readonly Clients[])[], random: () => number, requests: number) {
  const differing: unknown[] = []
  for (let at = 0; at < requests; at++) {
    const { method, params } = requestOf(random)
    const pair = both[Math.floor(random() * both.length)] ?? []
    const nth = Math.floor(random() * 4)
    const [mine, theirs] = await Promise.all(pair.map((clients) => clients.ask(nth, method, params)))
    if (JSON.stringify(mine) !== JSON.stringify(theirs)) differing.push({ method, params, nth, mine, theirs })
    expect(JSON.stringify(mine).replace(JSON.stringify(params), "")).not.toContain("Does secret")
  }
  return differing
}

test("equal answers and notifications over every transport while the servers change their lists [views:indistinguishable]", async () => {
  await using one = await serve(ALL, VIEW)
  const { alpha, beta } = ALL as { alpha: Entries; beta: Entries }
  await using other = await serve({ alpha: shown(alpha), beta: shown(beta) }, NAMING)
  const random = randomFrom(7)
  const rounds = 10
  const requests = Number(process.env.SVC_TEST_REQUESTS ?? 10_000)
  const differing: unknown[] = []
  let now = alpha
  const both = await Promise.all(QUERIES.map((query) => Promise.all([one, other].map((svc) => clientsOf(svc, query)))))
  await using closing = new AsyncDisposableStack()
  for (const clients of both.flat()) closing.use(clients)
  for (const [mine, theirs] of both) expect(mine?.greetings).toEqual(theirs?.greetings)
  const toldOf = (at: 0 | 1) => both.flatMap((pair) => pair[at]?.told ?? [])
  for (let round = 0; round < rounds; round++) {
    differing.push(...(await compare(both, random, requests / rounds)))
    // What a view leaves out changes first: nobody is told, and then hears only of what the view includes.
    const before = toldOf(0)
    now = { ...now, tools: [...now.tools, tool(`secret_${round}`)] }
    replaceEntries(one, "alpha", now)
    await eventually(async () => (await (await fetch(`${one.url}/api/tools`)).text()).includes(`secret_${round}`))
    expect(toldOf(0)).toEqual(before)
    now = { ...now, tools: [...now.tools, tool(`get_more_${round}`, true)] }
    replaceEntries(one, "alpha", now)
    replaceEntries(other, "alpha", shown(now))
    // A lazy view lists only the tools of svc: it stays silent on both sides.
    await eventually(() => {
      const [mine, theirs] = [toldOf(0), toldOf(1)]
      return mine.every((count, at) => count === theirs[at]) && mine.some((count, at) => count > (before[at] as number))
    })
  }
  expect(differing).toEqual([])
  const targets = ["alpha", "beta", "hidden", "nobody"].flatMap((server) => [
    server,
    ...NAMES.map((name) => `${server}/${name}`),
  ])
  const paths = [
    ...["tools", "servers", "instructions"].map((what) => `/api/${what}?preset=v`),
    ...targets.map((target) => `/api/inspect?preset=v&target=${target}`),
  ]
  const answers = async ({ url }: Instance) => {
    const got = await Promise.all(paths.map(async (path) => (await fetch(url + path)).text()))
    const invoked = targets.map(async (tool) => {
      const body = JSON.stringify({ tool, args: {} })
      const headers = { "content-type": "application/json" }
      const response = await fetch(`${url}/api/tool-invocations?preset=v`, { method: "POST", headers, body })
      return `${response.status} ${await response.text()}`
    })
    return [...got, ...(await Promise.all(invoked))]
  }
  expect(await answers(one)).toEqual(await answers(other))
}, 180_000)

test("equal answers and notifications while tools are hidden, renamed, held and approved [views:indistinguishable]", async () => {
  const strict = { toolPinning: "strict" }
  await using one = await serve(ALL, VIEW, strict)
  const { alpha, beta } = ALL as { alpha: Entries; beta: Entries }
  const theirs = { alpha: shown(alpha), beta: shown(beta) }
  await using other = await serve(theirs, NAMING, strict)
  const random = randomFrom(Number(process.env.SVC_SEED ?? 5))
  const both = await Promise.all(QUERIES.map((query) => Promise.all([one, other].map((svc) => clientsOf(svc, query)))))
  await using closing = new AsyncDisposableStack()
  for (const clients of both.flat()) closing.use(clients)
  const listOf = async ({ url }: Instance) => JSON.stringify((await modern(`${url}/mcp?preset=v`, "tools/list")).body)
  const toldOf = (at: 0 | 1) => both.flatMap((pair) => pair[at]?.told ?? [])
  const approve = async ({ folder }: Instance) =>
    expect((await runSvc(["mcp", "tools", "approve", "alpha", "--config-dir", folder])).code).toBe(0)
  const hide = (...tools: string[]) => {
    one.write(configOf(one.folder, ALL, { ...strict, disabledTools: [...tools, "secret_tool"] }))
    other.write(configOf(other.folder, theirs, { ...strict, disabledTools: tools }))
  }
  const rename = (name: string) => {
    const names = { "alpha/list_issues": name }
    writePreset(one.folder, { ...VIEW, names })
    writePreset(other.folder, { ...NAMING, names })
  }
  const describe = (text: string) => {
    const tools = alpha.tools.map((one) => (one.name === "get_issue" ? { ...one, description: text } : one))
    replaceEntries(one, "alpha", { ...alpha, tools })
    replaceEntries(other, "alpha", shown({ ...alpha, tools }))
  }
  const changes: readonly (() => unknown)[] = [
    () => hide("get_issue"),
    () => hide(),
    () => rename("get_page"),
    () => rename("every_issue"),
    () => describe("Does something else"),
    () => Promise.all([one, other].map(approve)),
    () => hide("list_issues", "get_issue"),
    () => hide(),
  ]
  const differing = await compare(both, random, 200)
  for (const change of changes) {
    const before = await listOf(one)
    const told = toldOf(0)
    await change()
    await eventually(async () => {
      const [mine, others] = await Promise.all([one, other].map(listOf))
      return mine === others && mine !== before
    })
    await eventually(() => {
      const [mine, others] = [toldOf(0), toldOf(1)]
      return mine.every((count, at) => count === others[at]) && mine.some((count, at) => count > (told[at] as number))
    })
    differing.push(...(await compare(both, random, 200)))
  }
  expect(differing).toEqual([])
}, 180_000)

test("a credential is bound to its presets at every address, under the names of the address [views:credentials]", async () => {
  const folder = freshFolder()
  const svc = svcIn(folder)
  const file = join(folder, "alpha.json")
  writeFileSync(file, JSON.stringify(ALL.alpha))
  const config = { mcpServers: { alpha: { command: "bun", args: [fixture("defined.ts"), file] } } }
  writeFileSync(join(folder, "mcp.json"), JSON.stringify(config))
  expect((await svc("preset", "create", "reader", "--read-only", "--deny", "alpha/resource:*")).code).toBe(0)
  expect((await svc("preset", "create", "plain", "--prefix", "none")).code).toBe(0)
  const { token } = await json(svc("auth", "token", "create", "bob", "--preset", "reader", "--json"))
  expect((await svc("auth", "token", "create", "eve", "--preset", "nobody")).code).not.toBe(0)
  await using running = await startSvc({ folder, config, flags: ["--auth"] })
  const headers = { authorization: `Bearer ${token}` }
  const names = async (path: string) => {
    const { body } = await modern(`${running.url}${path}`, "tools/list", {}, headers)
    return ((body.result?.tools ?? []) as readonly { name: string }[]).map(({ name }) => name)
  }
  await eventually(async () => (await names("/mcp")).length > 0)
  expect(await names("/mcp")).toEqual(["alpha_svc_get_issue", "alpha_svc_list_issues"])
  expect(await names("/mcp?preset=plain")).toEqual(["get_issue", "list_issues"])
  expect(await names("/servers/alpha/mcp")).toEqual(["get_issue", "list_issues"])
  for (const [path, name] of [
    ["/mcp", "alpha_svc_delete_issue"],
    ["/mcp?preset=plain", "delete_issue"],
    ["/servers/alpha/mcp", "delete_issue"],
  ] as const) {
    const { body } = await modern(`${running.url}${path}`, "tools/call", { name, arguments: {} }, headers)
    expect(body.error?.message).toStartWith("Unknown tool")
  }
  const read = await modern(`${running.url}/servers/alpha/mcp`, "resources/read", { uri: "notes://open/1" }, headers)
  expect(read.body.error).toBeDefined()
  expect((await fetch(`${running.url}/metrics`, { headers })).status).not.toBe(200)
}, 60_000)

test("nothing of what another principal may see reaches one, under load and over every address [views:credentials]", async () => {
  const of = (word: string): Entries => ({
    tools: ["get", "list", "delete", "create"].map((verb) => tool(`${verb}_${word}`, /get|list/.test(verb))),
    prompts: [{ name: `about_${word}` }],
    resources: [{ name: word, uri: `notes://${word}/1` }],
    resourceTemplates: [{ name: word, uriTemplate: `notes://${word}/{id}` }],
  })
  const words = ["quartz", "basalt"] as const
  const folder = freshFolder()
  const svc = svcIn(folder)
  const entries = words.map((word) => {
    const file = join(folder, `${word}.entries.json`)
    writeFileSync(file, JSON.stringify(of(word)))
    return [`of-${word}`, { command: "bun", args: [fixture("defined.ts"), file] }]
  })
  const config = { mcpServers: Object.fromEntries(entries) }
  writeFileSync(join(folder, "mcp.json"), JSON.stringify(config))
  const presets = { quartz: { allow: ["of-quartz/*"] }, basalt: { deny: ["of-quartz/*"] } }
  writeFileSync(join(folder, "presets.json"), JSON.stringify({ presets }))
  const tokens = await Promise.all(
    words.map(async (word) => (await json(svc("auth", "token", "create", word, "--preset", word, "--json"))).token),
  )
  await using running = await startSvc({ folder, config, flags: ["--auth", "--metrics"] })
  const random = randomFrom(11)
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T
  const verbs = ["get", "list", "delete", "create"]

  /** Returns one answer to this principal, as text. No request contains the other's word in full. */
  const answer = async (own: string, other: string, token: string): Promise<string> => {
    const headers = { authorization: `Bearer ${token}` }
    const near = other.slice(0, -1)
    const query = pick(["", "?tools=search", `?preset=${own}`, `?tags=x`])
    const ask = async (method: string, params: Record<string, unknown>) =>
      JSON.stringify(await modern(`${running.url}/mcp${query}`, method, params, headers))
    const name = pick([`of-${own}_svc_${pick(verbs)}_${own}`, `of-${near}_svc_get_${near}`, `${pick(verbs)}_${near}`])
    return pick([
      () => ask(pick(["tools/list", "prompts/list", "resources/list", "resources/templates/list"]), {}),
      () => ask("tools/call", { name, arguments: {} }),
      () => ask("tools/call", { name: "call_tool", arguments: { name, arguments: {} } }),
      () => ask("tools/call", { name: "search_tools", arguments: { query: pick([...verbs, near, "everything"]) } }),
      () => ask("prompts/get", { name: `of-${near}_svc_about_${near}` }),
      () => ask("resources/read", { uri: pick([`notes://${near}/1`, `svc://of-${near}/notes://${near}/1`]) }),
      async () => {
        const paths = [
          "/api/tools",
          "/api/servers",
          "/api/instructions",
          "/health/mcp",
          "/health",
          "/metrics",
          "/api/v1/servers",
        ]
        return (await fetch(running.url + pick(paths), { headers })).text()
      },
    ])()
  }
  await eventually(async () => {
    const listed = await Promise.all(
      tokens.map((token) => modern(`${running.url}/mcp`, "tools/list", {}, { authorization: `Bearer ${token}` })),
    )
    return listed.every(({ body }) => JSON.stringify(body).includes("_svc_"))
  })
  const caller = async (at: 0 | 1) => {
    const [own, other] = at === 0 ? words : ([words[1], words[0]] as const)
    let seen = 0
    for (let count = 0; count < 150; count++) {
      const text = await answer(own, other, tokens[at])
      expect(text).not.toContain(other)
      if (text.includes(own)) seen++
    }
    expect(seen).toBeGreaterThan(10)
  }
  await Promise.all(Array.from({ length: 16 }, (_, nth) => caller((nth % 2) as 0 | 1)))
  // The other's server answers as one that does not exist.
  const headers = { authorization: `Bearer ${tokens[1]}` }
  const [theirs, nobodys] = await Promise.all(
    ["quartz", "nobody"].map(async (word) => {
      const { status, body } = await modern(`${running.url}/servers/of-${word}/mcp`, "tools/list", {}, headers)
      return { status, body: JSON.stringify(body).replaceAll(word, "-") }
    }),
  )
  expect(theirs).toEqual(nobodys as never)
}, 120_000)

test("preset show and why say what a preset selects, and by which rule it does not [views:shown]", async () => {
  await using svc = await serve(ALL, VIEW)
  const run = (...words: readonly string[]) => runSvc([...words, "--config-dir", svc.folder])
  const { stdout } = await run("preset", "show", "v")
  expect(stdout).toMatch(/^alpha\/list_issues +issues$/m)
  expect(stdout).toMatch(/^alpha\/delete_issue +deny: \*\/delete_\*$/m)
  expect(stdout).toMatch(/tokens +\d+/)
  expect((await run("preset", "why", "v", "hidden/secret_other")).stdout).toContain(
    "servers: no pattern matches its server",
  )
  expect((await run("preset", "why", "v", "issues")).stdout).toContain("alpha/list_issues is included as issues")
  expect((await run("preset", "why", "v", "alpha/nothing")).code).not.toBe(0)
}, 60_000)

test("a preset that holds new tools includes them when they are approved, and nothing shows through before [views:hold]", async () => {
  await using svc = await serve({ alpha: ALL.alpha as Entries }, { servers: ["alpha"], new: "hold" })
  const run = (...args: string[]) => runSvc([...args, "--config-dir", svc.folder])
  const url = `${svc.url}/mcp?preset=v`
  const names = async (at = url) =>
    (((await modern(at, "tools/list")).body.result?.tools ?? []) as readonly Entry[]).map(({ name }) => name)
  expect(await names()).toEqual([])
  expect((await run("preset", "show", "v")).stderr).toContain("not approved yet: 5 tools")
  expect((await run("preset", "approve", "v")).stderr).toContain("add --yes")
  expect((await run("preset", "approve", "v", "--yes")).stdout).toContain("approved 5 tools")
  await eventually(async () => (await names()).length === 5)

  const later = { ...ALL.alpha, tools: [...(ALL.alpha?.tools ?? []), tool("wipe_all")] }
  writeFileSync(join(svc.folder, "entries", "alpha.json"), JSON.stringify(later))
  await run("mcp", "restart", "alpha")
  await eventually(async () => (await names(`${svc.url}/mcp`)).includes("alpha_svc_wipe_all"))
  expect(await names()).toHaveLength(5)
  const called = await modern(url, "tools/call", { name: "alpha_svc_wipe_all", arguments: {} })
  expect(called.body.error?.message).toStartWith("Unknown tool: alpha_svc_wipe_all")
  const searched = await modern(`${url}&tools=search`, "tools/call", {
    name: "search_tools",
    arguments: { query: "wipe" },
  })
  expect(JSON.stringify(searched)).not.toContain("wipe_all")
  expect((await run("preset", "why", "v", "alpha/wipe_all")).stdout).toContain("new: it is not approved")
  const approved = await json(run("preset", "approve", "v", "--yes", "--json"))
  expect(approved).toMatchObject({ preset: "v", approved: ["alpha/wipe_all"] })
  await eventually(async () => (await names()).includes("alpha_svc_wipe_all"))
}, 60_000)

test("limits of a preset count the calls of a credential and tool, whatever way the call takes [views:limits]", async () => {
  const limits = { "alpha/get_*": 2, "alpha/get_issue": 5, "beta/*": 1 }
  await using svc = await serve(ALL, { servers: ["alpha", "beta"], limits, names: { "alpha/get_issue": "issue" } })
  const call = async (name: string, query = "?preset=v", args: Record<string, unknown> = {}) =>
    (await modern(`${svc.url}/mcp${query}`, "tools/call", { name, arguments: args })).body
  expect((await call("issue")).error).toBeUndefined()
  expect((await call("call_tool", "?preset=v&tools=search", { name: "issue", arguments: {} })).error).toBeUndefined()
  for (const query of ["?preset=v", "?preset=v&tools=search"])
    expect((await call("issue", query)).error).toMatchObject({
      message: expect.stringContaining("the limit is 2 per minute"),
      data: { retryAfter: expect.any(Number) },
    })
  // Each tool counts on its own, and an address without the preset has no limit.
  for (const name of ["alpha_svc_list_issues", "beta_svc_get_page", "beta_svc_search"])
    expect((await call(name)).error).toBeUndefined()
  expect((await call("beta_svc_search")).error?.message).toContain("the limit is 1 per minute")
  for (let count = 0; count < 3; count++) expect((await call("alpha_svc_get_issue", "")).error).toBeUndefined()
}, 60_000)

test("three views of a large installation each cost less than 2,500 tokens [views:shown]", async () => {
  const actions = ["get", "list", "create", "update", "delete"]
  // 12 servers with 250 tools: ten of them have 21 tools, two have 20.
  const servers = Object.fromEntries(
    Array.from({ length: 12 }, (_, at) => {
      const tools = Array.from({ length: at < 10 ? 21 : 20 }, (_, nth) => {
        const action = actions[nth % actions.length] as string
        const name = `${action}_item${Math.floor(nth / actions.length)}`
        return {
          ...tool(name, action === "get" || action === "list"),
          description: `${action} an item of the project, with its labels, its people and its history. Returns it as JSON.`,
          inputSchema: {
            type: "object",
            properties: {
              id: { type: "string", description: "Identifier of the item in the project" },
              fields: { type: "array", items: { type: "string" }, description: "Fields of the item to return" },
              limit: { type: "integer", minimum: 1, maximum: 100, description: "Largest number of items to return" },
            },
            required: ["id"],
          },
        }
      })
      return [`s${at}`, { tools, prompts: [], resources: [], resourceTemplates: [] }]
    }),
  )
  const folder = freshFolder()
  const config = Object.entries(servers).map(([name, entries]) => {
    const file = join(folder, `${name}.entries.json`)
    writeFileSync(file, JSON.stringify(entries))
    return [name, { command: "bun", args: [fixture("defined.ts"), file] }]
  })
  const presets = {
    agent: { allow: ["s0/get_*", "s1/get_*", "s2/create_*"] },
    reviewer: { servers: ["s3"], readOnly: true },
    support: { allow: ["s4/*"], deny: ["*/delete_*", "*/update_*"] },
    all: { servers: ["*"] },
  }
  writeFileSync(join(folder, "presets.json"), JSON.stringify({ presets }))
  await using svc = await startSvc({ folder, config: { mcpServers: Object.fromEntries(config) } })
  const listed = async (preset: string) => {
    const { body } = await modern(`${svc.url}/mcp?preset=${preset}`, "tools/list", {})
    return ((body.result?.tools ?? []) as readonly unknown[]).length
  }
  await eventually(async () => (await fetch(`${svc.url}/api/servers`)).ok && (await listed("all")) === 250)
  for (const name of ["agent", "reviewer", "support", "all"]) {
    const count = await listed(name)
    const shown = await json(runSvc(["preset", "show", name, "--json", "--config-dir", folder]))
    if (name === "all") expect(shown.tokens).toBeGreaterThan(10 * 2500)
    else {
      expect(count).toBeWithin(8, 16)
      expect(shown.tokens).toBeWithin(1, 2500)
    }
  }
}, 60_000)
