/** The audit log of calls and changes, and the refusal of calls above a rate limit. */
import { expect, test } from "bun:test"
import { existsSync, statSync } from "node:fs"
import { join } from "node:path"
import { eventually, freshEnv, freshFolder, modern, ROOT, readIfThere, runSvc, startSvc, svcIn } from "./harness.ts"

const echo = (more = {}) => ({ command: "bun", args: [join(ROOT, "test/fixtures/echo.ts")], ...more })
const lines = (file: string): Record<string, unknown>[] =>
  (readIfThere(file) ?? "")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line))

test("each call and each change is a line, and contents are not logged [audit:log]", async () => {
  const folder = freshFolder()
  const file = join(folder, "deep", "audit.log")
  const config = { mcpServers: { a: echo() } }
  const flags = ["--audit-log", file, "--internal-tools", "all"]
  await using svc = await startSvc({ config, folder, flags })
  const call = (name: string, args: object) => modern(`${svc.url}/mcp`, "tools/call", { name, arguments: args })
  await call("a_svc_echo", { m: "my secret" })
  await call("a_svc_none", {})
  await call("mcp_list", {})
  await svcIn(folder)("mcp", "restart", "a")
  svc.signal("SIGTERM")
  expect(await svc.exited).toBe(0)
  const written = lines(file)
  expect(written).toMatchObject([
    {
      principal: "anonymous",
      client: "test/1",
      method: "tools/call",
      server: "a",
      tool: "echo",
      outcome: "ok",
      ms: expect.any(Number),
      sent: expect.any(Number),
      received: expect.any(Number),
      id: 1,
    },
    { method: "tools/call", tool: "a_svc_none", outcome: "error" },
    { method: "tools/call", server: "svc", tool: "mcp_list", outcome: "ok" },
    { principal: "local", method: "svc/restart", server: "a", outcome: "ok" },
  ])
  expect(written[0]?.time).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  expect(readIfThere(file)).not.toContain("my secret")
  expect(statSync(file).mode & 0o777).toBe(0o600)
}, 20_000)

test("arguments are logged with --audit-arguments, without secrets and on one line", async () => {
  const folder = freshFolder()
  const file = join(folder, "audit.log")
  const config = { mcpServers: { a: echo({ env: { API_KEY: "hunter2-hunter2" } }) } }
  await using svc = await startSvc({ config, folder, flags: ["--audit-log", file, "--audit-arguments"] })
  const password = "short"
  const m = "hunter2-hunter2 \n\u001b[31m red ghp_abcdefghijklmnopqrstuvwxyz0123456789"
  await modern(`${svc.url}/mcp`, "tools/call", { name: "a_svc_echo", arguments: { m, password, n: { token: 7 } } })
  await eventually(() => lines(file).length === 1)
  const text = readIfThere(file) ?? ""
  expect(text).not.toContain("hunter2")
  expect(text).not.toContain("ghp_abc")
  expect(text.trim().split("\n")).toHaveLength(1)
  expect(text).not.toContain("\u001b")
  expect(lines(file)[0]?.arguments).toMatchObject({
    m: expect.stringContaining("red"),
    password: "[REDACTED]",
    n: { token: "[REDACTED]" },
  })
}, 20_000)

test("the audit log shows the client's address, and which calls only the token prevents; the client cannot tell them from unknown names [audit:denied]", async () => {
  const folder = freshFolder()
  const file = join(folder, "audit.log")
  const config = { mcpServers: { a: echo({ tags: ["web"] }), b: echo({ tags: ["db"] }) } }
  const flags = ["--auth", "--audit-log", file, "--internal-tools", "all", "--trust-proxy", "loopback"]
  await using svc = await startSvc({ config, folder, flags: [...flags, "--startup-wait", "20s"] })
  const create = ["auth", "token", "create", "--tags", "web", "--config-dir", folder]
  const token = (await runSvc(create, freshEnv(folder))).stdout.trim()
  const headers = { authorization: `Bearer ${token}`, "x-forwarded-for": "203.0.113.7" }
  const call = (name: string, query = "") =>
    modern(`${svc.url}/mcp${query}`, "tools/call", { name, arguments: { m: "x" } }, headers)
  expect((await call("a_svc_echo")).status).toBe(200)
  const [denied, unknown] = [await call("b_svc_echo"), await call("c_svc_echo")]
  expect(denied.body.error?.code).toBe(unknown.body.error?.code)
  await call("mcp_list")
  await call("b_svc_echo", "?tags=web")
  await call("a_svc_none")
  await fetch(`${svc.url}/mcp`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ tool: "b_svc_echo", arguments: {} }),
  })
  const calls = () => lines(file).filter(({ method }) => method === "tools/call")
  await eventually(() => calls().length === 7)
  expect(calls().map(({ address, server, tool, outcome }) => [address, server, tool, outcome])).toEqual(
    [
      ["a", "echo", "ok"],
      ["b", "echo", "denied"],
      [undefined, "c_svc_echo", "error"],
      ["svc", "mcp_list", "denied"],
      [undefined, "b_svc_echo", "error"],
      [undefined, "a_svc_none", "error"],
      ["b", "echo", "denied"],
    ].map((one) => ["203.0.113.7", ...one]),
  )
  // Without a trusted proxy, all clients of a loopback address are on this machine.
  const local = join(folder, "local.log")
  await using own = await startSvc({ config, flags: ["--audit-log", local] })
  await modern(`${own.url}/mcp`, "tools/call", { name: "a_svc_echo", arguments: { m: "x" } })
  await eventually(() => existsSync(local) && lines(local).some(({ method }) => method === "tools/call"))
  expect(lines(local).map(({ address }) => address)).toEqual([undefined])
}, 20_000)

test("tokens leave a trace: refused, created, used by name, replaced and revoked [auth:refused] [auth:token:trace] [auth:token:name]", async () => {
  const folder = freshFolder()
  const file = join(folder, "audit.log")
  const config = { mcpServers: { a: echo() } }
  await using svc = await startSvc({ config, folder, flags: ["--auth", "--audit-log", file, "--metrics"] })
  const token = (...args: string[]) => runSvc(["auth", "token", ...args, "--config-dir", folder], freshEnv(folder))
  const call = (headers: Record<string, string>, url = `${svc.url}/mcp`) =>
    modern(url, "tools/call", { name: "a_svc_echo", arguments: { m: "x" } }, headers)
  const bearer = (text: string) => ({ authorization: `Bearer ${text}` })
  const bob = (await token("create", "--name", "bob", "--expires", "30d")).stdout.trim()
  const id = bob.split("_")[1]
  expect((await call(bearer(bob))).status).toBe(200)
  const second = await token("create", "--name", "bob")
  expect([second.code, second.stdout]).toEqual([64, ""])
  expect(second.stderr).toContain(`token id ${id} (bob) already exists`)
  const next = (await token("create", "--name", "bob", "--replace")).stdout.trim()
  expect((await call(bearer(next))).status).toBe(200)
  expect((await token("revoke", "bob")).code).toBe(0)
  const forged = `${next.slice(0, 17)}${"A".repeat(43)}`
  await call({})
  await call({ authorization: "Basic Ym9iOmJvYg==" })
  await call(bearer(bob))
  await call(bearer(forged))
  await call(bearer("nothing-of-svc"))
  await call({}, `${svc.url}/mcp?access_token=${bob}`)
  const other = (await token("create")).stdout.trim()
  await call(bearer(`${other.slice(0, -43)}${"A".repeat(43)}`))
  await svc.said(/refused login.*wrong secret/)
  const metrics = await fetch(`${svc.url}/metrics`, { headers: bearer(other) })
  expect(await metrics.text()).toContain("svc_refused_logins_total 7")
  const monitor = (await token("create", "prometheus", "--metrics-only")).stdout.trim()
  svc.signal("SIGTERM")
  expect(await svc.exited).toBe(0)
  const [newId, otherId] = [next.split("_")[1], other.split("_")[1]]
  const login = (reason: string) => ({ method: "svc/login", outcome: "error", address: "127.0.0.1", reason })
  expect(lines(file).filter(({ method }) => method !== "svc/reload")).toMatchObject([
    { method: "svc/auth.token.create", principal: "local", outcome: "ok", token: id, name: "bob" },
    { method: "tools/call", principal: `token ${id}`, name: "bob", outcome: "ok" },
    { method: "svc/auth.token.revoke", token: id, name: "bob" },
    { method: "svc/auth.token.create", token: newId, name: "bob" },
    { method: "tools/call", principal: `token ${newId}`, name: "bob" },
    { method: "svc/auth.token.revoke", token: newId, name: "bob" },
    login("no token"),
    login("Authorization must be Bearer and a token"),
    login(`token id ${id} is unknown or revoked`),
    login(`token id ${newId} is unknown or revoked`),
    login("the token is not one of svc's"),
    { ...login("a token in the query"), path: "/mcp" },
    { method: "svc/auth.token.create", token: otherId },
    login(`wrong secret for token id ${otherId}`),
    { method: "svc/auth.token.create", token: monitor.split("_")[1], tags: "", metricsOnly: true },
  ])
  for (const text of [svc.stderr(), readIfThere(file) ?? ""])
    for (const secret of [bob, next, other, monitor, forged]) expect(text).not.toContain(secret.slice(17))
  expect(svc.stderr()).toMatch(/refused login from 127\.0\.0\.1: no token \(\/mcp\)/)
  expect(svc.stderr()).toContain(`token id ${id} (bob) was revoked`)
}, 20_000)

test("a server and a session each have a limit of calls per minute [limit:rate]", async () => {
  const folder = freshFolder()
  const file = join(folder, "audit.log")
  await using svc = await startSvc({
    folder,
    config: { serverDefaults: { rateLimit: 2 }, mcpServers: { a: echo(), b: echo({ rateLimit: 100 }) } },
    flags: ["--session-rate-limit", "6", "--metrics", "--audit-log", file],
  })
  const ask = (server: string) =>
    modern(`${svc.url}/mcp`, "tools/call", { name: `${server}_svc_echo`, arguments: { m: "x" } })
  const call = async (server: string) => {
    const { status, body } = await ask(server)
    expect(status).toBe(200)
    return body.result as { isError?: boolean; content: { text: string }[] }
  }
  expect([(await call("a")).isError, (await call("a")).isError]).toEqual([undefined, undefined])
  const third = await call("a")
  expect(third.isError).toBe(true)
  expect(third.content[0]?.text).toMatch(/^a has reached its rate limit; try again in \d+ s/)
  const direct = await fetch(`${svc.url}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ tool: "a_svc_echo", arguments: { m: "x" } }),
  })
  expect([direct.status, Number(direct.headers.get("retry-after")) > 0]).toEqual([429, true])
  expect([(await ask("b")).status, (await ask("b")).status]).toEqual([200, 200])
  const { status, body } = await ask("b")
  expect([status, body.error?.message]).toEqual([429, expect.stringMatching(/^Too many calls; try again in \d+ s$/)])
  expect(body.error?.data).toEqual({ retryAfter: expect.any(Number) })
  const metrics = await (await fetch(`${svc.url}/metrics`)).text()
  for (const line of [
    "svc_rate_limited_requests_total 3",
    'svc_calls_total{server="a",tool="echo",outcome="rate_limited"} 2',
    'svc_call_duration_seconds_count{server="a"} 2',
  ])
    expect(metrics).toContain(line)
  await eventually(() => lines(file).length === 7)
  expect(lines(file).map(({ outcome }) => outcome)).toEqual("ok ok rate_limited rate_limited ok ok error".split(" "))
}, 20_000)

test("a script that calls too often is told when to come back", async () => {
  await using svc = await startSvc({ config: { mcpServers: { a: echo() } }, flags: ["--session-rate-limit", "1"] })
  const headers = { "content-type": "application/json" }
  const body = JSON.stringify({ tool: "a_svc_echo", arguments: { m: "x" } })
  const call = () => fetch(`${svc.url}/mcp`, { method: "POST", headers, body })
  expect((await call()).status).toBe(200)
  const refused = await call()
  expect([refused.status, Number(refused.headers.get("retry-after")) > 0]).toEqual([429, true])
})

test("each session has its own calls per minute, but opening another session counts too", async () => {
  await using svc = await startSvc({ config: { mcpServers: { a: echo() } }, flags: ["--session-rate-limit", "3"] })
  const post = (body: object, session = "") =>
    fetch(`${svc.url}/mcp`, {
      method: "POST",
      headers: { "content-type": "application/json", ...(session === "" ? {} : { "mcp-session-id": session }) },
      body: JSON.stringify({ jsonrpc: "2.0", id: 7, ...body }),
    })
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } }
  const open = () => post({ method: "initialize", params })
  const tool = { method: "tools/call", params: { name: "a_svc_echo", arguments: { m: "x" } } }
  const session = (await open()).headers.get("mcp-session-id") ?? ""
  for (const status of [200, 200, 200, 429]) expect((await post(tool, session)).status).toBe(status)
  const refused = await post(tool, session)
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0)
  expect(((await refused.json()) as { id: number }).id).toBe(7)
  // Other requests still work.
  expect((await post({ method: "tools/list" }, session)).status).toBe(200)
  const second = (await open()).headers.get("mcp-session-id") ?? ""
  expect((await post(tool, second)).status).toBe(200)
  expect((await open()).status).toBe(200)
  expect((await open()).status).toBe(429)
  const plain = await post({ jsonrpc: undefined, tool: "a_svc_echo", arguments: {} })
  const { error } = (await plain.json()) as { error: { message: string } }
  expect([plain.status, error.message]).toEqual([429, expect.stringContaining("Too many")])
}, 20_000)

test("svc reports at the start that it cannot write the audit log", async () => {
  const { code, stderr } = await runSvc(["serve", "--port", "0", "--audit-log", "/proc/none/audit.log"])
  expect([code, stderr]).toEqual([69, expect.stringContaining("/proc/none/audit.log")])
})
