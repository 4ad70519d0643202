/** REST of the built binary: each answer is checked against the OpenAPI document that the binary serves. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import fc from "fast-check"
import { browse, startAuthority, startResource } from "../fixtures/authority.ts"
import { type Api, connect, type Json, token } from "./api.ts"
import { eventually, freshFolder, type Instance, npmServer, runSvc, SVC, startSvc } from "./harness.ts"

const SECRET = "sk-live-4f9c2a7e1b8d"
const DEMO = { command: SVC, args: ["demo-server"] }
const CONFIG = {
  mcpServers: {
    every: { ...npmServer("server-everything"), tags: ["work"], env: { API_KEY: SECRET, MODE: "plain" } },
    demo: { ...DEMO, tags: ["play"] },
    off: { ...DEMO, disabled: true },
  },
  mcpTemplates: { project: { command: "echo", args: ["{{project.name}}"] } },
}

let svc: Instance
let api: Api

beforeAll(async () => {
  svc = await startSvc({ config: CONFIG })
  await svc.said(/every: connected/)
  api = await connect(svc)
})
afterAll(() => svc[Symbol.asyncDispose]())

describe("reading [rest:openapi]", () => {
  test.each([
    "/status",
    "/session",
    "/servers",
    "/servers?tag=work&limit=1",
    "/servers/every",
    "/tools?server=every&q=echo",
    "/tools/every_svc_echo",
    "/search?q=echo",
    "/resources",
    "/resource-templates",
    "/prompts",
    "/templates",
    "/presets",
    "/presets/preview?filter=work%20or%20nothing",
    "/config",
    "/config/schema",
    "/config/servers/every",
    "/sessions",
    "/activity",
    "/approvals",
    "/logs?server=every",
    "/registries/servers/every",
  ])("GET %s", async (path) => {
    expect((await api("GET", path)).status).toBe(200)
  })

  test.each([
    ["GET", "/servers/nope", undefined, 404],
    ["GET", "/servers?limit=0", undefined, 400],
    ["GET", "/servers?cursor=x", undefined, 400],
    ["GET", "/servers?stray=1", undefined, 400],
    ["GET", "/tools/every_svc_nope", undefined, 404],
    ["GET", "/presets/preview?filter=and", undefined, 400],
    ["POST", "/servers", { name: "bad" }, 400],
    ["POST", "/servers", { name: "every", server: DEMO }, 409],
    ["POST", "/servers", { name: "typo", server: { command: "x", timeout: "soon" } }, 400],
    ["PATCH", "/servers/nope", { patch: { tags: ["x"] } }, 404],
    ["POST", "/tools/every_svc_nope/call", { arguments: {} }, 404],
    ["POST", "/servers/nope/restart", undefined, 404],
    ["PUT", "/config/servers/every", { server: DEMO }, 428],
    ["DELETE", "/presets/nope", undefined, 404],
  ])("%s %s with %p is a problem", async (method, path, body, status) => {
    const answer = await api(method, path, body)
    expect({ ...answer.body, detail: "" }).toMatchObject({ status, type: "about:blank" })
    expect(answer.status).toBe(status)
  })

  test("an unknown path, a wrong method, another type of body and a large body are problems", async () => {
    const { url } = svc
    const { headers } = await token(svc)
    const ask = (path: string, init: RequestInit) =>
      fetch(`${url}/api/v1${path}`, { ...init, headers: { ...headers, ...init.headers } })
    expect((await ask("/nothing", {})).status).toBe(404)
    const wrong = await ask("/servers/every", {
      method: "POST",
      body: "{}",
      headers: { "content-type": "application/json" },
    })
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, PATCH, DELETE"])
    expect(
      (await ask("/servers", { method: "POST", body: "name=x", headers: { "content-type": "text/plain" } })).status,
    ).toBe(415)
    const large = {
      method: "POST",
      body: `"${"x".repeat(5 * 1024 * 1024)}"`,
      headers: { "content-type": "application/json" },
    }
    const refused = await ask("/servers", large)
    expect([refused.status, refused.headers.get("content-type")]).toEqual([413, "application/problem+json"])
  })

  test("pages of a list hold every entry once, in order [rest:pages]", async () => {
    const whole = names((await api("GET", "/tools?limit=1000")).body)
    const paged: string[] = []
    for (let cursor = ""; ; ) {
      const { body } = await api("GET", `/tools?limit=4${cursor}`)
      paged.push(...names(body))
      if (body.nextCursor === undefined) break
      cursor = `&cursor=${body.nextCursor}`
    }
    expect(paged).toEqual(whole)
    expect(whole.length).toBeGreaterThan(10)
  })

  test("no answer shows a secret [rest:secrets]", async () => {
    for (const path of ["/config", "/config/servers/every", "/servers/every", "/servers", "/logs", "/status"]) {
      const { body } = await api("GET", path)
      expect(JSON.stringify(body)).not.toContain(SECRET)
    }
  })
})

test("with --auth, a token without tags manages svc, and one with tags sees its servers in the views [rest:auth]", async () => {
  await using auth = await startSvc({ config: CONFIG, flags: ["--auth"] })
  const create = async (...args: string[]) => {
    const { stdout } = await runSvc(["auth", "token", "create", "--json", ...args, "--config-dir", auth.folder])
    return { authorization: `Bearer ${(JSON.parse(stdout) as { token: string }).token}` }
  }
  const [all, some] = [await create("--name", "all"), await create("--name", "some", "--tags", "work")]
  await auth.said(/every: connected/)
  const ask = (path: string, headers?: Record<string, string>) =>
    fetch(`${auth.url}${path}`, { headers: headers ?? {} })
  expect((await ask("/api/v1/servers")).status).toBe(401)
  expect((await ask("/api/v1/servers", some)).status).toBe(403)
  expect((await ask("/api/v1/servers", all)).status).toBe(200)
  expect((await ask("/api/servers")).status).toBe(401)
  const { servers } = (await (await ask("/api/servers", some)).json()) as { servers: { name: string }[] }
  expect(servers.map(({ name }) => name)).toEqual(["every"])
})

test("changes through REST are in the audit log, with the token that made them [audit:rest]", async () => {
  const log = join(freshFolder(), "audit.jsonl")
  await using audited = await startSvc({ config: CONFIG, flags: ["--auth", "--audit-log", log] })
  const create = ["auth", "token", "create", "--json", "--name", "op", "--config-dir", audited.folder]
  const { token: text, id } = JSON.parse((await runSvc(create)).stdout) as { token: string; id: string }
  const headers = { authorization: `Bearer ${text}`, "content-type": "application/json" }
  const body = JSON.stringify({ changes: [{ server: "demo", tool: "x", disabled: true }] })
  await fetch(`${audited.url}/api/v1/tools`, { method: "PATCH", headers, body })
  await fetch(`${audited.url}/api/v1/servers/nope/restart`, { method: "POST", headers })
  const lines = await eventually(() => {
    const all = readFileSync(log, "utf8")
      .split("\n")
      .filter((line) => line.includes("svc/rest"))
    return all.length >= 2 && all.map((line) => JSON.parse(line) as Json)
  })
  expect(lines).toMatchObject([
    { principal: `token ${id}`, method: "svc/rest PATCH /tools", outcome: "ok" },
    { principal: `token ${id}`, method: "svc/rest POST /servers/{name}/restart", server: "nope", outcome: "error" },
  ])
})

test("a change whose file cannot be written is refused with the reason by each endpoint, and changes nothing [rest:edits]", async () => {
  const folder = freshFolder()
  const config = { mcpServers: { demo: { ...DEMO, tags: ["x"] }, off: { ...DEMO, disabled: true } } }
  await using instance = await startSvc({ folder, config })
  await instance.said(/demo: connected/)
  const ask = await connect(instance)
  const file = join(folder, "mcp.json")
  const before = readFileSync(file, "utf8")
  writeFileSync(join(folder, "backups"), "in place of the folder")
  for (const [method, path, body] of [
    ["PATCH", "/servers/demo", { patch: { tags: ["y"] } }],
    ["POST", "/servers/demo/disable", undefined],
    ["POST", "/servers/off/enable", undefined],
    ["POST", "/servers", { name: "more", server: DEMO }],
    ["PATCH", "/tools", { changes: [{ server: "demo", tool: "echo", disabled: true }] }],
    ["DELETE", "/servers/off", undefined],
  ] as const) {
    const { status, body: problem } = await ask(method, path, body)
    expect([path, status, problem]).toEqual([
      path,
      503,
      expect.objectContaining({ code: "unavailable", detail: expect.stringContaining("backups") }),
    ])
  }
  expect(readFileSync(file, "utf8")).toBe(before)
})

test("--no-admin leaves out REST and its login [rest:off]", async () => {
  await using bare = await startSvc({ config: CONFIG, flags: ["--no-admin"] })
  for (const path of ["/api/v1/servers", "/api/servers", "/admin/login?code=x", "/admin"])
    expect([path, (await fetch(`${bare.url}${path}`)).status]).toEqual([path, 404])
  const { code, stderr } = await runSvc(["admin", "--config-dir", bare.folder])
  expect([code, stderr]).toEqual([69, expect.stringContaining("--no-admin")])
})

describe("views without a version [rest:views]", () => {
  const get = async (path: string) => {
    const answer = await fetch(`${svc.url}${path}`)
    return { status: answer.status, body: (await answer.json()) as Json }
  }
  const invoke = async (body: unknown) => {
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }
    const answer = await fetch(`${svc.url}/api/tool-invocations`, init)
    return { status: answer.status, body: (await answer.json()) as Json }
  }

  test("they select as /mcp does", async () => {
    const all = await get("/api/servers")
    expect((all.body.servers as Json[]).map(({ name }) => name)).toEqual(["every", "demo"])
    expect(((await get("/api/servers?tags=work")).body.servers as Json[]).map(({ name }) => name)).toEqual(["every"])
    const tools = (await get("/api/tools?tags=work")).body.tools as Json[]
    expect(tools.map(({ server }) => server)).not.toContain("demo")
    expect(tools[0]).toMatchObject({ server: "every", tool: "echo", name: "every_svc_echo" })
    expect((await get("/api/servers?tags=")).status).toBe(400)
  })

  test("inspect shows a server or a tool, and suggests a name", async () => {
    expect((await get("/api/inspect?target=every")).body).toMatchObject({ name: "every", status: "connected" })
    expect((await get("/api/inspect?target=every/echo")).body).toMatchObject({
      tool: "echo",
      inputSchema: { type: "object" },
    })
    const near = await get("/api/inspect?target=every/ecko")
    expect([near.status, near.body.error]).toEqual([404, expect.stringContaining("every/echo")])
    expect((await get("/api/inspect")).status).toBe(400)
    expect(String((await get("/api/instructions")).body.instructions)).toContain("every")
  })

  test("a call is answered with 502 if its server dies during the call, and with 503 after that", async () => {
    const command = { command: "bun", args: [join(import.meta.dir, "../fixtures/dying.ts"), "after", "0"] }
    await using dying = await startSvc({ config: { mcpServers: { dying: command } } })
    await dying.said(/dying: connected/)
    const init = {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ tool: "dying/echo", args: {} }),
    }
    const call = async () => (await fetch(`${dying.url}/api/tool-invocations`, init)).status
    expect([await call(), await call()]).toEqual([502, 503])
  }, 20_000)

  test("a tool is called by server/tool", async () => {
    const { status, body } = await invoke({ tool: "every/echo", args: { message: "hi" } })
    expect([status, body]).toEqual([
      200,
      { server: "every", tool: "echo", result: { content: [{ type: "text", text: "Echo: hi" }] } },
    ])
    expect((await invoke({ tool: "every/echo", arguments: { message: "hi" } })).body).toEqual(body)
    expect((await invoke({ tool: "echo" })).status).toBe(400)
    expect((await invoke({ tool: "every/echo", args: [] })).status).toBe(400)
    expect((await invoke({ tool: "every/nope" })).status).toBe(404)
    expect((await invoke({ tool: "nope/echo" })).status).toBe(404)
  })
})

describe("changes", () => {
  test("a server is added, changed, disabled, enabled, restarted and removed, and all of it is in the file [rest:openapi]", async () => {
    const added = await api("POST", "/servers", { name: "extra", server: { ...DEMO, tags: ["x"] } })
    expect([added.status, (added.body.server as Json).state]).toEqual([201, "connected"])
    expect((await api("PATCH", "/servers/extra", { patch: { tags: ["y"] }, dryRun: true })).body.dryRun).toBe(true)
    expect(written().extra).toMatchObject({ tags: ["x"] })
    expect((await api("PATCH", "/servers/extra", { patch: { tags: ["y"] } })).status).toBe(200)
    expect(written().extra).toMatchObject({ tags: ["y"] })
    expect((await api("POST", "/servers/extra/disable")).body.enabled).toBe(false)
    expect((await api("GET", "/servers/extra")).body.state).toBe("disabled")
    expect((await api("POST", "/servers/extra/enable")).body.enabled).toBe(true)
    expect((await api("POST", "/servers/extra/restart")).body.restarted).toEqual(["extra"])
    expect((await api("POST", "/servers/extra/approve", {})).body.approved).toEqual([])
    expect((await api("DELETE", "/servers/extra")).status).toBe(200)
    expect(written().extra).toBeUndefined()
  })

  test("a server of any size is refused before it is checked [rest:edits]", async () => {
    const server = { ...DEMO, headers: Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`h${at}`, "a"])) }
    for (const [method, path, body] of [
      ["POST", "/servers", { name: "large", server }],
      ["PATCH", "/servers/demo", { patch: server }],
      ["PUT", "/config/servers/demo", { server }],
    ] as const) {
      const { status, body: problem } = await api(method, path, body, { "if-match": "*" })
      expect([path, status, problem.detail]).toEqual([path, 400, expect.stringContaining("more than 2000 values")])
    }
  })

  test("tools are hidden and described in bulk, beside the server's own text [rest:descriptions]", async () => {
    const change = { server: "every", tool: "echo", disabled: true, description: "<b>Says it again</b>" }
    const changed = await api("PATCH", "/tools", {
      changes: [change, { server: "every", tool: "get-sum", disabled: true }],
    })
    expect(changed.body).toMatchObject({ changed: true, reload: { retuned: ["every"] } })
    const shown = (await api("GET", "/tools/every_svc_echo")).body
    expect(shown).toMatchObject({
      disabled: true,
      description: "<b>Says it again</b>",
      upstreamDescription: "Echoes back the input string",
    })
    expect(names((await api("GET", "/tools?server=every&disabled=true")).body)).toEqual([
      "every_svc_echo",
      "every_svc_get-sum",
    ])
    expect((await api("POST", "/tools/every_svc_echo/call", { arguments: { message: "x" } })).status).toBe(404)
    const back = ["echo", "get-sum"].map((tool) => ({ server: "every", tool, disabled: false, description: null }))
    await api("PATCH", "/tools", { changes: back })
    expect(written().every).not.toHaveProperty("disabledTools")
    expect(written().every).not.toHaveProperty("toolDescriptionOverrides")
    const called = await api("POST", "/tools/every_svc_echo/call", { arguments: { message: "x" } })
    expect(called.body.result).toEqual({ content: [{ type: "text", text: "Echo: x" }] })
  })

  test("many changes of tools leave time for other requests [rest:descriptions]", async () => {
    const change = (disabled: boolean) =>
      Array.from({ length: 600 }, (_, at) => ({ server: "demo", tool: `none${at}`, disabled }))
    let answered = 0
    let isDone = false
    const changing = api("PATCH", "/tools", { changes: change(true) }).finally(() => {
      isDone = true
    })
    while (!isDone) {
      expect((await api("GET", "/presets")).status).toBe(200)
      answered++
    }
    expect([(await changing).status, answered > 20]).toEqual([200, true])
    expect((await api("PATCH", "/tools", { changes: change(false) })).status).toBe(200)
  })

  test("hiding the last tool answers 409 unless it is confirmed [rest:zero-tools]", async () => {
    const before = written()
    const all = names((await api("GET", "/tools?server=demo&limit=1000")).body).map((name) =>
      name.replace("demo_svc_", ""),
    )
    const changes = all.map((tool) => ({ server: "demo", tool, disabled: true }))
    const refused = await api("PATCH", "/tools", { changes })
    expect([refused.status, refused.body.data]).toEqual([409, { reason: "confirmation_required", servers: ["demo"] }])
    expect((await api("PATCH", "/servers/demo", { patch: { disabledTools: all } })).status).toBe(409)
    const { body, headers } = await api("GET", "/config/servers/demo")
    const match = { "if-match": headers.get("etag") ?? "" }
    const server = { ...(body.server as Json), disabledTools: all }
    expect((await api("PUT", "/config/servers/demo", { server }, match)).status).toBe(409)
    expect(written()).toEqual(before)
    expect((await api("PATCH", "/tools", { changes, confirmZeroTools: true })).status).toBe(200)
    expect((await api("PATCH", "/servers/demo", { patch: { disabledTools: null } })).status).toBe(200)
  })

  test("a server that was changed since it was read answers 412, a hidden value stays [rest:if-match] [rest:secrets]", async () => {
    const { body, headers } = await api("GET", "/config/servers/every")
    const etag = headers.get("etag") ?? ""
    const server = { ...(body.server as Json), tags: ["work", "edited"] }
    expect((server as Json).env).toEqual({ API_KEY: "•••", MODE: "plain" })
    const done = await api("PUT", "/config/servers/every", { server }, { "if-match": etag })
    expect(written().every).toMatchObject({ tags: ["work", "edited"], env: { API_KEY: SECRET } })
    expect((await api("PUT", "/config/servers/every", { server }, { "if-match": etag })).status).toBe(412)
    const next = { "if-match": done.headers.get("etag") ?? "" }
    for (const env of [{ OTHER_KEY: "•••" }, { API_KEY: "x •••" }, { MODE: "•••" }]) {
      const stray = { ...server, env }
      expect((await api("PUT", "/config/servers/every", { server: stray }, next)).status).toBe(400)
    }
    // An edit of another server does not matter.
    await runSvc(["mcp", "edit", "demo", '{"tags":["other"]}', "--config-dir", svc.folder])
    const back = { ...server, tags: ["work"] }
    expect((await api("PUT", "/config/servers/every", { server: back }, next)).status).toBe(200)
  })

  test("an installation first shows the whole command, and runs only what was shown [rest:install]", async () => {
    const request = { serverName: "fresh", command: SVC, args: ["demo-server"] }
    const plan = (await api("POST", "/install", request)).body
    expect(plan).toMatchObject({ installed: false, command: expect.stringContaining("demo-server") })
    expect(written().fresh).toBeUndefined()
    const other = await api("POST", "/install", { ...request, args: ["demo-server", "--x"], digest: plan.digest })
    expect([other.status, written().fresh]).toEqual([409, undefined])
    const done = await api("POST", "/install", { ...request, digest: plan.digest })
    expect(done.body).toMatchObject({ installed: true, state: "connected" })
    const broken = { serverName: "broken", command: "no-such-program-at-all" }
    const { digest } = (await api("POST", "/install", broken)).body
    const undone = await api("POST", "/install", { ...broken, digest })
    expect([undone.status, (undone.body.data as Json).reason, written().broken]).toEqual([
      409,
      "rolled_back",
      undefined,
    ])
    await api("DELETE", "/servers/fresh")
  })

  test("the sign-in to a remote server starts from REST, and connects it [rest:authorize]", async () => {
    await using authority = await startAuthority()
    using resource = startResource(authority)
    await using remote = await startSvc({ config: { mcpServers: { web: { url: resource.url }, demo: DEMO } } })
    const ask = await connect(remote)
    const { url, ...started } = (await ask("POST", "/servers/web/authorize")).body
    expect(started).toEqual({ server: "web", authorized: false })
    expect((await browse(String(url))).text).toContain("web is authorized")
    await eventually(async () => (await ask("GET", "/servers/web")).body.state === "connected")
    expect((await ask("POST", "/servers/demo/authorize")).status).toBe(400)
    expect((await ask("POST", "/servers/nope/authorize")).status).toBe(404)
  })

  test("presets are created, changed and deleted [rest:openapi]", async () => {
    const made = await api("PUT", "/presets/daily", { filter: "work", description: "by day" })
    expect(made.body).toEqual({ name: "daily", filter: "work", description: "by day", servers: ["every"] })
    expect((await api("PUT", "/presets/daily", { filter: "work or other" })).body.servers).toEqual(["every", "demo"])
    expect((await api("GET", "/presets")).body.items).toMatchObject([{ name: "daily", filter: "work or other" }])
    expect((await api("PUT", "/presets/daily", { filter: "(" })).status).toBe(400)
    expect((await api("DELETE", "/presets/daily")).body).toEqual({ deleted: "daily" })
  })

  test("events tell of edits, states and calls, and the log is followed [rest:events]", async () => {
    await using events = await follow("/events")
    await using lines = await follow("/logs/stream?server=demo")
    await api("POST", "/tools/every_svc_echo/call", { arguments: { message: "x" } })
    expect(await events.next("call")).toMatchObject({
      server: "every",
      tool: "echo",
      outcome: "ok",
      ms: expect.any(Number),
    })
    const { items } = (await api("GET", "/activity?server=every")).body as { items: Json[] }
    expect(items.at(-1)).toMatchObject({ server: "every", tool: "echo", errors: 0, maxMs: expect.any(Number) })
    await runSvc(["mcp", "edit", "demo", '{"tags":["seen"]}', "--config-dir", svc.folder])
    expect(await events.next("configuration")).toEqual({ issues: 0 })
    expect(await events.next("server")).toMatchObject({ name: "demo", tags: ["seen"] })
    await api("POST", "/servers/demo/restart")
    expect(await events.next("server")).toMatchObject({ name: "demo" })
    expect(await lines.next("line")).toMatchObject({ server: "demo", level: expect.any(String) })
  })

  test("a removed server is told of before the configuration, so that nobody who then reads again asks for it [rest:events]", async () => {
    await api("POST", "/servers", { name: "gone", server: { command: SVC, args: ["demo-server"], disabled: true } })
    await using events = await follow("/events")
    await api("DELETE", "/servers/gone")
    expect(await events.next("removed", "configuration")).toEqual({ name: "gone" })
    expect(await events.next("removed", "configuration")).toEqual({ issues: 0 })
  })

  test("edits through REST, commands and the file never lose one another [rest:edits]", async () => {
    type Way = "merge patch" | "bulk" | "replace" | "command" | "file"
    const ways: readonly Way[] = ["merge patch", "bulk", "replace", "command", "file"]
    /** Sends a change until it is accepted: 409 means that another edit was faster and that this one was not written. */
    const patched = async (path: string, body: Json): Promise<void> => {
      const { status } = await api("PATCH", path, body)
      if (status === 409) return patched(path, body)
      expect(status).toBe(200)
    }
    const edit = async (way: Way, tool: string): Promise<void> => {
      const path = ["toolDescriptionOverrides", tool]
      switch (way) {
        case "merge patch":
          await patched("/servers/demo", { patch: { [path[0] as string]: { [tool]: way } } })
          return
        case "bulk":
          await patched("/tools", { changes: [{ server: "demo", tool, description: way }] })
          return
        case "replace": {
          const { body, headers } = await api("GET", "/config/servers/demo")
          const { toolDescriptionOverrides: known = {}, ...server } = body.server as { toolDescriptionOverrides?: Json }
          const next = { ...server, toolDescriptionOverrides: { ...known, [tool]: way } }
          const { status } = await api(
            "PUT",
            "/config/servers/demo",
            { server: next },
            { "if-match": headers.get("etag") ?? "" },
          )
          // Another edit was faster: read again.
          if (status === 412) await edit(way, tool)
          else expect(status).toBe(200)
          return
        }
        case "command":
          await runSvc([
            "mcp",
            "edit",
            "demo",
            JSON.stringify({ toolDescriptionOverrides: { [tool]: way } }),
            "--config-dir",
            svc.folder,
          ])
          return
        case "file": {
          const text = JSON.parse(readFileSync(file(), "utf8")) as { mcpServers: Record<string, Json> }
          const demo = text.mcpServers.demo as { toolDescriptionOverrides?: Json }
          demo.toolDescriptionOverrides = { ...demo.toolDescriptionOverrides, [tool]: way }
          svc.write(text)
        }
      }
    }
    let round = 0
    const run = fc.asyncProperty(fc.array(fc.constantFrom(...ways), { minLength: 2, maxLength: 5 }), async (chosen) => {
      round++
      const wanted = Object.fromEntries(chosen.map((way, at) => [`tool-${round}-${at}`, way]))
      let running: Promise<void>[] = []
      for (const [tool, way] of Object.entries(wanted)) {
        // An editor saves what it has read: it can only keep what was written before. What comes next need not wait for the reload.
        if (way === "file") await Promise.all(running)
        running = [...running, edit(way, tool)]
      }
      await Promise.all(running)
      expect(written().demo?.toolDescriptionOverrides).toMatchObject(wanted)
    })
    await fc.assert(run, { numRuns: 8, endOnFailure: true })
    await api("PATCH", "/servers/demo", { patch: { toolDescriptionOverrides: null } })
  })
})

// ---

const file = (): string => join(svc.folder, "mcp.json")

const written = (): Record<string, Json> =>
  (JSON.parse(readFileSync(file(), "utf8")) as { mcpServers: Record<string, Json> }).mcpServers

/** Follows server-sent events; `next` takes the next one of these names. */
async function follow(path: string): Promise<AsyncDisposable & { next(...names: string[]): Promise<unknown> }> {
  const { headers } = await token(svc)
  const stop = new AbortController()
  const response = await fetch(`${svc.url}/api/v1${path}`, { headers, signal: stop.signal })
  expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/event-stream"])
  const arrived: { event: string; data: unknown }[] = []
  void (async () => {
    let text = ""
    for await (const chunk of (response.body ?? []) as unknown as AsyncIterable<Uint8Array>) {
      text += Buffer.from(chunk).toString()
      const blocks = text.split("\n\n")
      text = blocks.pop() ?? ""
      for (const block of blocks) {
        const [, event = ""] = /^event: (.*)$/m.exec(block) ?? []
        const [, data = "null"] = /^data: (.*)$/m.exec(block) ?? []
        arrived.push({ event, data: JSON.parse(data) })
      }
    }
  })().catch(() => undefined)
  return {
    async next(...names) {
      const at = await eventually(() => {
        const found = arrived.findIndex(({ event }) => names.includes(event))
        return found < 0 ? undefined : { found }
      })
      return arrived.splice(at.found, 1)[0]?.data
    },
    async [Symbol.asyncDispose]() {
      stop.abort()
    },
  }
}

const names = ({ items }: Json): string[] => (items as Json[]).map(({ qualifiedName }) => String(qualifiedName))
