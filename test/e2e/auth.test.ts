/** Authentication of clients: static tokens, an OAuth issuer, certificates and sockets. */
import { afterAll, expect, test } from "bun:test"
import { chmodSync, existsSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { SignJWT } from "jose"
import { type Authority, browse, startAuthority } from "../fixtures/authority.ts"
import { eventually, freshEnv, freshFolder, type Instance, modern, ROOT, runSvc, startSvc } from "./harness.ts"
import { startIssuer } from "./issuer.ts"

const echo = (...tags: string[]) => ({ command: "bun", args: [join(ROOT, "test/fixtures/echo.ts")], tags })
const config = { mcpServers: { shop: echo("web"), files: echo("local"), bare: echo() } }

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const names = async (svc: Instance, token: string) => {
  const { tools } = (await modern(`${svc.url}/mcp`, "tools/list", {}, bearer(token))).body.result as {
    tools: { name: string }[]
  }
  return tools.map(({ name }) => name.split("_svc_")[0])
}
const makeCertificate = (cert: string, key: string, name: string) =>
  Bun.spawnSync([
    ...["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"],
    ...["-keyout", key, "-out", cert, "-days", "2", "-subj", `/CN=${name}`],
  ])
const cli =
  (folder: string) =>
  (...args: string[]) =>
    runSvc(["auth", "token", ...args, "--config-dir", folder], freshEnv(folder))

test("with --auth everything but the health checks of load balancers requires a token [auth:paths] [auth:open] [auth:enabled]", async () => {
  await using svc = await startSvc({ config, flags: ["--auth", "--health-info-level", "full", "--metrics"] })
  await svc.said("no client can connect yet")
  const status = async (path: string, init?: RequestInit) => (await fetch(`${svc.url}${path}`, init)).status
  for (const path of [
    "/mcp",
    "/servers/shop/mcp",
    "/sse",
    "/messages",
    "/health/mcp",
    "/health/mcp/shop",
    "/metrics",
    "/x",
  ])
    expect([path, await status(path)]).toEqual([path, 401])
  for (const path of ["/health", "/health/live", "/health/ready"])
    await eventually(async () => (await status(path)) === 200)
  const report = (await (await fetch(`${svc.url}/health`)).json()) as { configuration: { authEnabled: boolean } }
  expect(report.configuration.authEnabled).toBe(true)
  const challenge = (await fetch(`${svc.url}/mcp`)).headers.get("www-authenticate")
  expect(challenge).toBe('Bearer realm="svc"')

  const token = cli(svc.folder)
  const made = (await token("create", "--name", "all")).stdout.trim()
  expect(made).toMatch(/^svc_[0-9a-f]{12}_[\w-]{43}$/)
  await eventually(async () => (await status("/health/mcp", { headers: bearer(made) })) === 200)
  expect(await names(svc, made)).toEqual(["shop", "files", "bare"])
  expect(await status(`/mcp?access_token=${made}`)).toBe(400)
  expect(await status("/mcp", { headers: { authorization: `Basic ${made}` } })).toBe(401)
  expect(await status("/mcp", { headers: bearer(`${made.slice(0, -1)}${made.endsWith("A") ? "B" : "A"}`) })).toBe(401)
  // svc neither stores nor prints it.
  const file = await Bun.file(join(svc.folder, "tokens.json")).text()
  expect(file).not.toContain(made.slice(18))
  expect(statSync(join(svc.folder, "tokens.json")).mode & 0o777).toBe(0o600)
  expect(svc.stderr()).not.toContain(made)
  expect((await token("list")).stdout).not.toContain(made.slice(18))

  // A variable that is not set must not make a token that opens more.
  for (const flag of ["--tags", "--expires"]) {
    for (const args of [[flag, ""], [`${flag}=`]]) {
      const empty = await token("create", ...args)
      expect([empty.code, empty.stdout, empty.stderr]).toEqual([64, "", `svc: ${flag} needs a value: it is empty\n`])
    }
  }
  expect((await token("create", "--expires", "999999999d")).code).toBe(64)
  expect((await runSvc(["serve", "--auth-issuer", ""])).code).toBe(64)

  expect((await token("revoke", "all")).code).toBe(0)
  await eventually(async () => (await status("/health/mcp", { headers: bearer(made) })) === 401)
  expect((await token("revoke", "all")).code).toBe(64)
}, 20_000)

test("open streams of a token receive nothing from a server that has lost the tag, at every address [auth:tags:streams]", async () => {
  const withTags = (...tags: string[]) => ({
    mcpServers: { x: { command: "bun", args: [join(ROOT, "test/fixtures/replica.ts")], tags } },
  })
  await using svc = await startSvc({ config: withTags("web"), flags: ["--auth"] })
  const make = async (...args: string[]) => (await cli(svc.folder)("create", ...args)).stdout.trim()
  const [all, web] = [await make(), await make("--tags", "web")]
  await eventually(async () => (await fetch(`${svc.url}/mcp`, { headers: bearer(web) })).status !== 401)
  await svc.said("x: connected")
  const json = { "content-type": "application/json", accept: "application/json, text/event-stream" }
  const post = (path: string, body: object, headers: Record<string, string>) =>
    fetch(`${svc.url}${path}`, {
      method: "POST",
      headers: { ...json, ...headers },
      body: JSON.stringify({ jsonrpc: "2.0", ...body }),
    })
  /** Follows the messages of a stream. */
  const follow = (response: Response) => {
    expect(response.status).toBe(200)
    const heard: string[] = []
    const reading = (async () => {
      const decoder = new TextDecoder()
      let text = ""
      for await (const chunk of response.body ?? []) {
        text += decoder.decode(chunk, { stream: true })
        heard.splice(0, heard.length, ...[...text.matchAll(/^data: (\{.*)\n\n/gm)].map(([, data = ""]) => data))
      }
    })()
    reading.catch(() => undefined)
    return heard
  }
  /** Opens the stream of a session that is subscribed to the note, and a modern stream, at one address. */
  const listen = async (path: string, uri: string, by: string) => {
    const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } }
    const opened = await post(path, { id: 0, method: "initialize", params }, bearer(by))
    const session = { ...bearer(by), "mcp-session-id": opened.headers.get("mcp-session-id") ?? "" }
    expect((await post(path, { id: 1, method: "resources/subscribe", params: { uri } }, session)).status).toBe(200)
    const legacy = await fetch(`${svc.url}${path}`, { headers: { ...session, accept: "text/event-stream" } })
    const meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    }
    const method = "subscriptions/listen"
    const notifications = { toolsListChanged: true, resourceSubscriptions: [uri] }
    const current = await post(
      path,
      { id: 2, method, params: { notifications, _meta: meta } },
      { ...bearer(by), "mcp-protocol-version": "2026-07-28", "mcp-method": method },
    )
    return [follow(legacy), follow(current)] as const
  }
  const streams = {
    own: await listen("/servers/x/mcp", "note://1", web),
    aggregate: await listen("/mcp", "svc://x/note://1", web),
    admin: await listen("/servers/x/mcp", "note://1", all),
  }
  let told = 0
  /** Lets the server log and update the note. Resolves when the streams of the admin have both. */
  const stir = async () => {
    const mark = `mark ${++told}`
    const call = (name: string, args: object) =>
      modern(`${svc.url}/servers/x/mcp`, "tools/call", { name, arguments: args }, bearer(all))
    const [legacy, current] = streams.admin
    const updates = () => current.filter((message) => message.includes("resources/updated")).length
    const before = updates()
    await call("touch", {})
    await call("tell", { text: mark })
    await eventually(() => updates() > before && legacy.some((message) => message.includes(mark)))
    return mark
  }
  const lengths = () => [...streams.own, ...streams.aggregate].map(({ length }) => length)
  const visible = await stir()
  await eventually(() =>
    [streams.own[0], streams.aggregate[0]].every((all) => all.some((one) => one.includes(visible))),
  )
  await eventually(() =>
    [streams.own[1], streams.aggregate[1]].every((all) => all.some((one) => one.includes("updated"))),
  )
  writeFileSync(join(svc.folder, "mcp.json"), JSON.stringify(withTags("local")))
  await eventually(async () => (await modern(`${svc.url}/servers/x/mcp`, "tools/list", {}, bearer(web))).status === 404)
  // The aggregate reports that its lists have changed.
  await eventually(() => streams.aggregate.every((all) => all.at(-1)?.includes("list_changed")))
  const before = lengths()
  const hidden = [await stir(), await stir()]
  expect(lengths()).toEqual(before)
  for (const all of [...streams.own, ...streams.aggregate])
    expect(all.filter((one) => hidden.some((mark) => one.includes(mark)))).toEqual([])
  expect(streams.own.flat().filter((one) => one.includes("list_changed"))).toEqual([])
  writeFileSync(join(svc.folder, "mcp.json"), JSON.stringify(withTags("web", "local")))
  await eventually(async () => (await modern(`${svc.url}/servers/x/mcp`, "tools/list", {}, bearer(web))).status === 200)
  const again = await stir()
  await eventually(() => [streams.own[0], streams.aggregate[0]].every((all) => all.some((one) => one.includes(again))))
}, 30_000)

test("a token opens its servers, its sessions belong to it alone, and it expires [auth:tags] [auth:session]", async () => {
  const detailed = ["--health-info-level", "full", "--metrics"]
  await using svc = await startSvc({ config, flags: ["--auth", "--internal-tools", "all", ...detailed] })
  const token = cli(svc.folder)
  const make = async (...args: string[]) => (await token("create", ...args)).stdout.trim()
  const [all, web, other, short] = [
    await make(),
    await make("--tags", "web"),
    await make("--tags", "web,local"),
    await make("--expires", "3s"),
  ]
  await eventually(async () => (await fetch(`${svc.url}/mcp`, { headers: bearer(short) })).status !== 401)
  const passing = await fetch(`${svc.url}/sse`, { headers: bearer(short) })
  expect(await names(svc, web)).toEqual(["shop"])
  expect(await names(svc, other)).toEqual(["shop", "files"])
  expect(await names(svc, all)).toContain("mcp_list")
  const call = (name: string, by: string) =>
    modern(`${svc.url}/mcp`, "tools/call", { name, arguments: { m: "x" } }, bearer(by))
  expect((await call("shop_svc_echo", web)).body.result).toBeDefined()
  for (const name of ["files_svc_echo", "mcp_list"])
    expect((await call(name, web)).body.error?.message).toContain("Unknown tool")
  const plain = await fetch(`${svc.url}/mcp`, {
    method: "POST",
    headers: { ...bearer(web), "content-type": "application/json" },
    body: JSON.stringify({ tool: "mcp_list", arguments: {} }),
  })
  expect(plain.status).toBe(404)
  const server = (name: string, by: string) => modern(`${svc.url}/servers/${name}/mcp`, "tools/list", {}, bearer(by))
  expect((await server("shop", web)).status).toBe(200)
  for (const name of ["files", "bare", "none"]) expect((await server(name, web)).status).toBe(404)
  const look = (path: string, by: string) => fetch(`${svc.url}${path}`, { headers: bearer(by) })
  expect(await (await look("/health/mcp", web)).json()).toMatchObject({
    summary: { total: 1 },
    servers: { byState: { ready: ["shop"] } },
  })
  expect(await (await look("/health/mcp", all)).json()).toMatchObject({ summary: { total: 3 } })
  expect([(await look("/health/mcp/shop", web)).status, (await look("/health/mcp/files", web)).status]).toEqual([
    200, 404,
  ])
  expect([(await look("/metrics", all)).status, (await look("/metrics", web)).status]).toEqual([200, 403])

  const post = (by: string, body: object, session?: string) =>
    fetch(`${svc.url}/mcp`, {
      method: "POST",
      headers: {
        ...bearer(by),
        "content-type": "application/json",
        ...(session === undefined ? {} : { "mcp-session-id": session }),
      },
      body: JSON.stringify({ jsonrpc: "2.0", ...body }),
    })
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } }
  const opened = await post(web, { id: 1, method: "initialize", params })
  const session = opened.headers.get("mcp-session-id") ?? ""
  expect((await post(web, { id: 2, method: "ping" }, session)).status).toBe(200)
  for (const by of [all, other]) expect((await post(by, { id: 3, method: "ping" }, session)).status).toBe(404)
  // A stream that is open ends with its token.
  const stream = await fetch(`${svc.url}/mcp`, {
    headers: { ...bearer(web), accept: "text/event-stream", "mcp-session-id": session },
  })
  expect(stream.status).toBe(200)
  const end = await fetch(`${svc.url}/mcp`, {
    method: "DELETE",
    headers: { ...bearer(all), "mcp-session-id": session },
  })
  expect(end.status).toBe(404)
  expect((await post(web, { id: 4, method: "ping" }, session)).status).toBe(200)

  await passing.text()
  expect((await look("/sse", short)).status).toBe(401)
  await token("revoke", web.split("_")[1] ?? "")
  await stream.text()
  expect((await post(web, { id: 5, method: "ping" }, session)).status).toBe(401)

  expect((await token("list")).stdout).toContain("(expired)")
}, 20_000)

test("a tokens file that another user can read or owns admits no client", async () => {
  await using svc = await startSvc({ config, flags: ["--auth"] })
  const token = cli(svc.folder)
  const made = (await token("create")).stdout.trim()
  const admitted = async () => (await fetch(`${svc.url}/mcp`, { headers: bearer(made) })).status !== 401
  await eventually(admitted)
  const file = join(svc.folder, "tokens.json")
  const text = await Bun.file(file).text()
  chmodSync(file, 0o644)
  writeFileSync(file, `${text} `)
  await svc.said("can be read by others")
  expect(await admitted()).toBe(false)
  expect((await token("list")).code).toBe(69)
  chmodSync(file, 0o600)
  writeFileSync(file, text)
  await eventually(admitted)
  renameSync(file, join(svc.folder, "elsewhere.json"))
  writeFileSync(join(svc.folder, "elsewhere.json"), `${text}\n`)
  symlinkSync("elsewhere.json", file)
  await svc.said("not a link")
  expect((await token("create")).code).toBe(69)
  expect(await admitted()).toBe(false)
}, 20_000)

const issuers: { stop(): void }[] = []
afterAll(() => {
  for (const issuer of issuers) issuer.stop()
})

test("every claim of an issuer's token is checked [auth:oauth] [auth:scopes]", async () => {
  const issuer = await startIssuer()
  issuers.push(issuer)
  const odd = { ...config, mcpServers: { ...config.mcpServers, odd: echo("日本", 'a "b"') } }
  await using svc = await startSvc({ config: odd, flags: ["--auth-issuer", issuer.url, "--internal-tools", "all"] })
  const status = async (token: string, path = "/mcp") =>
    (await modern(`${svc.url}${path}`, "tools/list", {}, bearer(token))).status
  const aud = `${svc.url}/mcp`

  const good = await issuer.sign({ aud })
  expect(await status(good)).toBe(200)

  // The answer says how to get a token.
  const refused = await fetch(`${svc.url}/mcp`)
  const metadata = /resource_metadata="([^"]+)"/.exec(refused.headers.get("www-authenticate") ?? "")?.[1] ?? ""
  expect(metadata).toBe(`${svc.url}/.well-known/oauth-protected-resource/mcp`)
  expect(await (await fetch(metadata)).json()).toMatchObject({
    resource: aud,
    authorization_servers: [issuer.url],
    scopes_supported: ["tag:local", "tag:web"],
  })

  const bad = {
    "another audience": await issuer.sign({ aud: "http://elsewhere/mcp" }),
    "no audience": await issuer.sign({}),
    "another issuer": await issuer.sign({ aud, iss: "http://elsewhere" }),
    expired: await issuer.sign({ aud }, { ends: Math.floor(Date.now() / 1000) - 120 }),
    "not yet": await issuer.sign({ aud, nbf: Math.floor(Date.now() / 1000) + 600 }),
    "another's key": await issuer.sign({ aud }, { key: (await issuer.another()).privateKey }),
    "alg none": `${btoa('{"alg":"none"}')}.${good.split(".")[1]}.`.replaceAll("=", ""),
    "a shared secret": await new SignJWT({ sub: "ada", iss: issuer.url, aud })
      .setProtectedHeader({ alg: "HS256", kid: "one" })
      .setExpirationTime("5m")
      .sign(new TextEncoder().encode("x".repeat(32))),
    garbage: "a.b.c",
  }
  for (const [what, token] of Object.entries(bad)) expect([what, await status(token)]).toEqual([what, 401])
  // A clock that is half a minute off.
  expect(await status(await issuer.sign({ aud }, { ends: Math.floor(Date.now() / 1000) - 10 }))).toBe(200)

  // Scopes: tags, and svc's own tools.
  const web = await issuer.sign({ aud, scope: "openid tag:web" })
  expect(await names(svc, web)).toEqual(["shop", "bare"])
  // A client that requests fewer scopes sees less, not more.
  expect(await names(svc, good)).toEqual(["bare"])
  expect(await names(svc, await issuer.sign({ aud, scope: "tag:web tag:local" }))).toEqual(["shop", "files", "bare"])
  expect(await names(svc, await issuer.sign({ aud, scope: "svc:admin" }))).toContain("mcp_list")
  const more = await fetch(`${svc.url}/servers/files/mcp`, {
    method: "POST",
    headers: bearer(await issuer.sign({ aud: `${svc.url}/servers/files/mcp`, scope: "tag:web" })),
  })
  expect(more.status).toBe(403)
  expect(more.headers.get("www-authenticate")).toContain('error="insufficient_scope", scope="tag:local"')
  // A tag that cannot be a scope cannot be requested.
  const without = await fetch(`${svc.url}/servers/odd/mcp`, { method: "POST", headers: bearer(good) })
  expect([without.status, svc.stderr().includes("internal error")]).toEqual([404, false])

  // Another key; the issuer goes away in the middle.
  await issuer.rotate()
  const rotated = await issuer.sign({ aud })
  await eventually(async () => (await status(rotated)) === 200, 20_000)
  issuer.power(false)
  expect(await status(await issuer.sign({ aud, sub: "grace" }))).toBe(200)
  await using cold = await startSvc({ config, flags: ["--auth-issuer", issuer.url, "--auth-scopes", "off"] })
  const unknown = await fetch(`${cold.url}/mcp`, { headers: bearer(await issuer.sign({ aud: `${cold.url}/mcp` })) })
  expect([unknown.status, unknown.headers.get("retry-after")]).toEqual([503, "5"])
  issuer.power(true)
  expect(await names(cold, await issuer.sign({ aud: `${cold.url}/mcp` }))).toHaveLength(3)
}, 60_000)

test("the groups in an issuer's token decide what its holder sees [auth:groups]", async () => {
  const issuer = await startIssuer()
  issuers.push(issuer)
  const folder = freshFolder({
    "presets.json": JSON.stringify({
      presets: {
        sales: { servers: ["shop"], groups: ["Sales Team", "9f0c"] },
        archive: { servers: ["files"], groups: ["keepers"] },
        free: { servers: ["bare"] },
      },
    }),
  })
  const flags = ["--auth-issuer", issuer.url, "--internal-tools", "all", "--auth-groups"]
  await using svc = await startSvc({ config, folder, flags: [...flags, "realm_access.roles"] })
  const seenAt = async (at: Instance, claims: object) =>
    names(at, await issuer.sign({ aud: `${at.url}/mcp`, ...claims }))
  const seen = (roles: unknown, claims: object = {}) => seenAt(svc, { realm_access: { roles }, ...claims })

  expect(await seen(["Sales Team", "others"])).toEqual(["shop"])
  expect(await seen(["9f0c", "keepers"])).toEqual(["shop", "files"])
  expect(await seen("keepers")).toEqual(["files"])
  expect(await seen(["preset:free"])).toEqual(["bare"])
  expect(await seen(["tag:web"])).toEqual(["shop", "bare"])
  expect(await seen(["preset:free,archive"])).toEqual([])
  // Scopes, which a client chooses, add nothing; only the issuer's administrator scope does.
  expect(await seen(["keepers"], { scope: "tag:web preset:free" })).toEqual(["files"])
  expect(await seen(["none"], { scope: "svc:admin" })).toContain("mcp_list")
  for (const nothing of [[], ["none"], ["svc:admin"], [7, null], "", { a: "keepers" }, undefined, ["tag:web,keepers"]])
    expect([nothing, (await seen(nothing, { scope: "tag:web preset:sales" })).filter((one) => one !== "bare")]).toEqual(
      [nothing, []],
    )
  expect(await seen(["none"])).toEqual([])
  // A group that the file names later counts at the next request.
  writeFileSync(
    join(folder, "presets.json"),
    JSON.stringify({ presets: { sales: { servers: ["shop"], groups: ["none"] } } }),
  )
  await eventually(async () => (await seen(["none"])).join() === "shop")
  expect(await seen(["Sales Team"])).toEqual([])

  // A claim whose name has dots of its own.
  await using literal = await startSvc({
    config,
    folder: freshFolder(),
    flags: [...flags, "https://id.example/groups"],
  })
  expect(await seenAt(literal, { "https://id.example/groups": ["tag:local"] })).toEqual(["files", "bare"])
}, 60_000)

test("svc accepts the tokens of a real authorization server, and none for another audience", async () => {
  const env = { SVC_KEYCHAIN: "off" }
  const behind = async (authority: Authority, door: Instance) => {
    const svc = await startSvc({
      config: { mcpServers: { web: { url: `${door.url}/mcp`, oauth: { scopes: ["read"] } } } },
      flags: ["--health-info-level", "full", "--health-rate-limit", "off"],
      env,
    })
    const health = async () =>
      (await (await fetch(`${svc.url}/health/mcp/web`)).json()) as { state: string; authorizationUrl?: string }
    const address = await eventually(async () => (await health()).authorizationUrl)
    expect(address).toStartWith(authority.issuer)
    expect(await browse(address)).toMatchObject({ status: 200 })
    return { svc, health }
  }
  await using authority = await startAuthority()
  await using door = await startSvc({ config, flags: ["--auth-issuer", authority.issuer], env })
  const { svc, health } = await behind(authority, door)
  await eventually(async () => (await health()).state === "ready")
  const call = () => modern(`${svc.url}/mcp`, "tools/call", { name: "web_svc_bare_svc_echo", arguments: { m: "hi" } })
  expect((await call()).body.result).toMatchObject({ content: [{ text: "hi" }] })
  const listed = (await modern(`${svc.url}/mcp`, "tools/list")).body.result as { tools: { name: string }[] }
  expect(listed.tools.map(({ name }) => name)).toEqual(["web_svc_bare_svc_echo"])
  // The known keys suffice.
  await authority.stop()
  expect((await call()).body.result).toMatchObject({ content: [{ text: "hi" }] })
  await authority.start()
  await svc[Symbol.asyncDispose]()

  await using careless = await startAuthority({ audience: "https://elsewhere.example/mcp" })
  await using second = await startSvc({ config, flags: ["--auth-issuer", careless.issuer], env })
  const refused = await behind(careless, second)
  await refused.svc.said("web: ")
  expect((await refused.health()).state).not.toBe("ready")
  await refused.svc[Symbol.asyncDispose]()
}, 30_000)

test("a replaced certificate is used without a restart, and a broken one is not", async () => {
  const folder = freshFolder()
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")]
  const make = (name: string) => makeCertificate(cert, key, name)
  make("first")
  await using svc = await startSvc({ config, folder, flags: ["--tls-cert", cert, "--tls-key", key] })
  expect(svc.url).toStartWith("https://")
  const subject = async () => {
    const { port } = new URL(svc.url)
    const child = Bun.spawn(
      ["sh", "-c", `echo | openssl s_client -connect 127.0.0.1:${port} | openssl x509 -noout -subject`],
      { stdout: "pipe", stderr: "ignore" },
    )
    return (await new Response(child.stdout).text()).trim()
  }
  const live = () => fetch(`${svc.url}/health/live`, { tls: { rejectUnauthorized: false }, keepalive: false })
  expect((await live()).status).toBe(200)
  expect(await subject()).toContain("first")
  make("second")
  await eventually(async () => (await subject()).includes("second"))
  writeFileSync(cert, "nothing")
  await svc.said("the certificate was not replaced")
  expect((await live()).status).toBe(200)
  // svc may see the file before it is completely written.
  writeFileSync(cert, "")
  await svc.said(/not replaced.*not replaced/s)
  expect((await live()).status).toBe(200)
  expect(await subject()).toContain("second")
  make("third")
  await eventually(async () => (await subject()).includes("third"))
  writeFileSync(cert, "nothing")
  const wrong = await runSvc([
    "serve",
    "--tls-cert",
    cert,
    "--tls-key",
    key,
    "--port",
    "0",
    "--config-dir",
    freshFolder(),
  ])
  expect([wrong.code, wrong.stderr]).toEqual([69, expect.stringContaining("cert.pem")])
  const missing = await runSvc(["serve", "--tls-cert", "x.pem", "--tls-key", key, "--port", "0"])
  expect([missing.code, missing.stderr]).toEqual([69, "svc: cannot read x.pem: ENOENT: no such file or directory\n"])
  expect((await runSvc(["serve", "--tls-cert", cert])).code).toBe(64)
}, 20_000)

test("the log names the address that clients can connect to, if svc listens on a different one", async () => {
  const external = await startSvc({ config, flags: ["--external-url", "https://svc.example.com/"] })
  expect(external.stderr()).toMatch(/listening on \S+\/mcp; clients connect to https:\/\/svc\.example\.com\/mcp\n/)
  await external[Symbol.asyncDispose]()
  await using everywhere = await startSvc({ config, flags: ["--host", "0.0.0.0", "--auth"] })
  const { port } = new URL(everywhere.url)
  expect(everywhere.stderr()).toContain(
    `:${port}/mcp; clients on this machine connect to http://127.0.0.1:${port}/mcp; set the address for other clients with --external-url\n`,
  )
}, 20_000)

test("a token for the metrics reads /metrics and nothing else [auth:metrics-only]", async () => {
  const folder = freshFolder()
  await using svc = await startSvc({
    config,
    folder,
    flags: ["--auth", "--metrics", "--health-info-level", "full"],
  })
  const auth = cli(folder)
  const made = await auth("create", "prometheus", "--metrics-only")
  expect(made.stderr).toContain("the token grants access to the metrics, without an expiry; --expires would limit it")
  const headers = { authorization: `Bearer ${made.stdout.trim()}`, "content-type": "application/json" }
  const status = async (path: string, method = "GET") =>
    (await fetch(`${svc.url}${path}`, { method, headers, ...(method === "POST" ? { body: "{}" } : {}) })).status
  expect([await status("/metrics"), await status("/health/live")]).toEqual([200, 200])
  for (const path of ["/mcp", "/servers/bare/mcp", "/api/v1/session", "/api/tool-invocations"])
    expect([path, await status(path, "POST")]).toEqual([path, 403])
  for (const path of ["/sse", "/health/mcp", "/api/v1/servers", "/api/tools"])
    expect([path, await status(path)]).toEqual([path, 403])
  expect((await auth("list")).stdout).toContain("none: only /metrics")
  expect((await auth("create", "--metrics-only", "--tags", "web")).code).toBe(64)
  // To an svc that does not know `metricsOnly`, the token gives access to no server.
  const [stored] = JSON.parse(readFileSync(join(folder, "tokens.json"), "utf8")).tokens
  expect(stored).toMatchObject({ tags: [], metricsOnly: true })
}, 20_000)

test("svc warns of tokens in clear text, unless clients use https or only this machine connects [auth:clear-text]", async () => {
  const everywhere = ["--auth", "--host", "0.0.0.0"]
  for (const [flags, warns] of [
    [everywhere, true],
    [[...everywhere, "--external-url", "http://svc.example.com"], true],
    [[...everywhere, "--external-url", "https://svc.example.com"], false],
    [["--auth"], false],
  ] as const) {
    await using svc = await startSvc({ config, flags: [...flags] })
    await eventually(() => svc.stderr().includes("3 of 3 servers ready"))
    expect(svc.stderr().includes("clients send their tokens in clear text; add --tls-cert")).toBe(warns)
  }
}, 20_000)

test("a Unix socket is private to its user, replaces that of a killed svc, and is removed at the end", async () => {
  const folder = freshFolder()
  const unix = join(folder, "svc.sock")
  const start = () => startSvc({ config, folder, flags: ["--listen", `unix:${unix}`], ready: /listening on unix:/ })
  const first = await start()
  expect(statSync(unix).mode & 0o777).toBe(0o600)
  const get = async () => (await fetch("http://localhost/health/live", { unix })).status
  expect(await get()).toBe(200)
  const second = await runSvc(["serve", "--listen", `unix:${unix}`, "--config-dir", freshFolder()])
  expect([second.code, second.stderr]).toEqual([69, expect.stringContaining("already")])
  first.signal("SIGKILL")
  await first.exited
  expect(existsSync(unix)).toBe(true)
  await using again = await start()
  expect(await get()).toBe(200)
  expect((await runSvc(["health", "--url", `unix:${unix}`])).stdout).toContain("(svc 0.2.0): ")
  again.signal("SIGTERM")
  expect(await again.exited).toBe(0)
  expect(existsSync(unix)).toBe(false)
}, 20_000)

test("a trusted proxy at a Unix socket names the clients, which count separately", async () => {
  const folder = freshFolder()
  const unix = join(folder, "svc.sock")
  const flags = ["--listen", `unix:${unix}`, "--trust-proxy", "loopback"]
  await using _svc = await startSvc({ config, folder, flags, ready: /listening on unix:/ })
  const remaining = async (client: string) => {
    const headers = { "x-forwarded-for": client }
    return (await fetch("http://localhost/health/live", { unix, headers })).headers.get("ratelimit-remaining")
  }
  expect([await remaining("6.6.6.6"), await remaining("6.6.6.6"), await remaining("7.7.7.7")]).toEqual([
    "199",
    "198",
    "199",
  ])
}, 20_000)

test("a Unix socket stays private to its user after a new certificate", async () => {
  const folder = freshFolder()
  const [unix, cert, key] = [join(folder, "svc.sock"), join(folder, "cert.pem"), join(folder, "key.pem")]
  makeCertificate(cert, key, "first")
  const flags = ["--listen", `unix:${unix}`, "--tls-cert", cert, "--tls-key", key]
  await using svc = await startSvc({ config, folder, flags, ready: /listening on unix:/ })
  makeCertificate(cert, key, "second")
  await svc.said("reloaded the certificate")
  expect(statSync(unix).mode & 0o777).toBe(0o600)
  const live = await fetch("https://localhost/health/live", { unix, tls: { rejectUnauthorized: false } })
  expect(live.status).toBe(200)
}, 20_000)

test("web pages of allowed origins may call svc, and no others", async () => {
  await using svc = await startSvc({ config, flags: ["--allowed-origin", "https://app.example"] })
  const ask = (origin: string, method: string, headers: Record<string, string> = {}) =>
    fetch(`${svc.url}/mcp`, { method, headers: { origin, ...headers } })
  const preflight = await ask("https://app.example", "OPTIONS", {
    "access-control-request-method": "POST",
    "access-control-request-headers": "content-type,mcp-session-id,mcp-param-region,x-other",
  })
  expect(preflight.status).toBe(204)
  expect(preflight.headers.get("access-control-allow-origin")).toBe("https://app.example")
  expect(preflight.headers.get("access-control-allow-headers")).toContain("mcp-param-region")
  expect(preflight.headers.get("access-control-allow-headers")).not.toContain("x-other")
  const read = await ask("https://app.example", "GET")
  expect(read.headers.get("access-control-expose-headers")).toContain("Mcp-Session-Id")
  const other = await ask("https://evil.example", "OPTIONS", { "access-control-request-method": "POST" })
  expect([other.status, other.headers.get("access-control-allow-origin")]).toEqual([403, null])
})
