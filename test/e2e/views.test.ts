/** A client of a preset cannot tell svc from one whose servers have only what the preset includes. */
import { expect, test } from "bun:test"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { randomFrom } from "../random.ts"
import { eventually, fixture, freshFolder, type Instance, json, modern, runSvc, startSvc, svcIn } from "./harness.ts"

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

/** Starts svc with servers of these entries and one preset `v`. */
async function serve(servers: Readonly<Record<string, Entries>>, preset: object): Promise<Instance> {
  const folder = freshFolder()
  mkdirSync(join(folder, "entries"))
  const config = Object.entries(servers).map(([name, entries]) => {
    const file = join(folder, "entries", `${name}.json`)
    writeFileSync(file, JSON.stringify(entries))
    return [name, { command: "bun", args: [fixture("defined.ts"), file] }]
  })
  writeFileSync(join(folder, "presets.json"), JSON.stringify({ presets: { v: preset } }))
  const svc = await startSvc({ folder, config: { mcpServers: Object.fromEntries(config) } })
  await eventually(
    async () =>
      (await (await fetch(`${svc.url}/api/servers`)).text()).split('"connected"').length > Object.keys(servers).length,
  )
  return svc
}

/** Sends a request as a client of a legacy session of its own. */
async function legacy(url: string, method: string, params: object): Promise<unknown> {
  const post = (body: object, headers: Record<string, string> = {}) =>
    fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
      body: JSON.stringify({ jsonrpc: "2.0", ...body }),
    })
  const bodyOf = async (response: Response) => {
    const text = await response.text()
    return JSON.parse(/^data: ?(\{.*)$/m.exec(text)?.[1] ?? text) as Record<string, unknown>
  }
  const hello = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } }
  const opened = await post({ id: 0, method: "initialize", params: hello })
  const session = { "mcp-session-id": opened.headers.get("mcp-session-id") ?? "" }
  const answer = await bodyOf(opened)
  if (method === "initialize") return answer
  await post({ method: "notifications/initialized" }, session)
  return bodyOf(await post({ id: 1, method, params }, session))
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
  ])()
}

test("equal answers to random requests of both eras, listed and lazy [views:indistinguishable]", async () => {
  await using one = await serve(ALL, VIEW)
  const { alpha, beta } = ALL
  await using other = await serve({ alpha: shown(alpha as Entries), beta: shown(beta as Entries) }, NAMING)
  const random = randomFrom(7)
  const count = Number(process.env.SVC_TEST_REQUESTS ?? 300)
  const differing: unknown[] = []
  for (let at = 0; at < count; at++) {
    const { method, params } = at === 0 ? { method: "initialize", params: {} } : requestOf(random)
    const query = random() < 0.5 ? "?preset=v" : "?preset=v&tools=search"
    const isLegacy = method === "initialize" || at % 3 === 0
    const ask = async ({ url }: Instance) =>
      isLegacy
        ? legacy(`${url}/mcp${query}`, method, params)
        : (await modern(`${url}/mcp${query}`, method, params)).body
    const [mine, theirs] = await Promise.all([ask(one), ask(other)])
    if (JSON.stringify(mine) !== JSON.stringify(theirs)) differing.push({ method, params, query, mine, theirs })
    expect(JSON.stringify(mine).replace(JSON.stringify(params), "")).not.toContain("Does secret")
  }
  expect(differing).toEqual([])
  for (const path of ["/api/tools?preset=v", "/api/servers?preset=v", "/api/instructions?preset=v"]) {
    const [mine, theirs] = await Promise.all([one, other].map(async ({ url }) => (await fetch(url + path)).text()))
    expect(mine).toBe(theirs)
  }
}, 120_000)

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

test("preset show and why say what a preset selects, and by which rule it does not [views:shown]", async () => {
  await using svc = await serve(ALL, VIEW)
  const run = (...words: readonly string[]) => runSvc([...words, "--config-dir", svc.folder])
  const { stdout } = await run("preset", "show", "v")
  expect(stdout).toMatch(/^alpha\/list_issues +issues$/m)
  expect(stdout).toMatch(/^alpha\/delete_issue +deny: \*\/delete_\*$/m)
  expect(stdout).toMatch(/tokens +\d+/)
  expect((await run("preset", "why", "v", "hidden/secret_other")).stdout).toContain("servers names its server nowhere")
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
