/** svc with servers that are protected by a real authorization server. */
import { expect, test } from "bun:test"
import { chmodSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { type Authority, browse, startAuthority, startResource } from "../fixtures/authority.ts"
import { connect1 } from "./clients.ts"
import { eventually, freshEnv, freshFolder, type Instance, modern, ROOT, runSvc, SVC, startSvc } from "./harness.ts"

const LIMIT_MS = 30_000
/** Keeps the secrets of tests out of the machine's keychain. */
const env = { SVC_KEYCHAIN: "off" }
const FULL = ["--health-info-level", "full", "--health-rate-limit", "off"]

type Health = { state: string; authorizationUrl?: string; error?: string; backendSupervision?: unknown }
const healthOf = async (svc: Instance, name = "web") =>
  (await (await fetch(`${svc.url}/health/mcp/${name}`)).json()) as Health
const stateIs = (svc: Instance, state: string) =>
  eventually(async () => {
    const health = await healthOf(svc)
    return health.state === state && health
  })
const addressOf = (svc: Instance) => eventually(async () => (await healthOf(svc)).authorizationUrl)
const call = async (svc: Instance) =>
  (await modern(`${svc.url}/mcp`, "tools/call", { name: "web_svc_whoami", arguments: {} })).body
const YOU = { content: [{ text: "you" }] }
const secretsOf = (folder: string) => readFileSync(join(folder, "secrets", "oauth.json"), "utf8")
const tokensIn = (text: string) => [...text.matchAll(/"(?:access|refresh)":"([^"]+)"/g)].map(([, token = ""]) => token)
const logIn = async (svc: Instance) => {
  expect(await browse(await addressOf(svc))).toMatchObject({
    status: 200,
    text: expect.stringContaining("web is authorized"),
  })
  await stateIs(svc, "ready")
}
const tokenRequests = (authority: Authority) => authority.asked.get("/token") ?? 0

test(
  "after the user has opened the sign-in address once, the server connects; nothing else restarts [oauth:login] [auth:awaiting]",
  async () => {
    await using authority = await startAuthority()
    using resource = startResource(authority)
    const echo = { command: "bun", args: [join(ROOT, "test", "fixtures", "echo.ts"), "--pid"] }
    const folder = freshFolder()
    const config = { mcpServers: { web: { url: resource.url }, other: echo } }
    let tokens: string[] = []
    {
      await using svc = await startSvc({ config, flags: FULL, env })
      const pid = async () => (await modern(`${svc.url}/mcp`, "tools/call", { name: "other_svc_echo" })).body.result
      const before = await pid()
      expect(await stateIs(svc, "awaiting_oauth")).toMatchObject({
        authorizationUrl: expect.stringContaining(authority.issuer),
      })
      const address = await addressOf(svc)
      expect(svc.stderr().split(address)).toHaveLength(2)
      expect(new URL(address).searchParams.get("code_challenge_method")).toBe("S256")
      const shown = async (...args: string[]) =>
        (await runSvc(["mcp", "status", ...args, "--config-dir", svc.folder], env)).stdout
      expect(await shown()).toMatch(/^web +sign-in needed +run `svc auth login web`/m)
      expect(await shown("web")).toMatch(/^ {2}sign in +http/m)
      expect(await shown("web")).toContain(address)
      const end = await browse(address)
      expect(end).toMatchObject({ status: 200, text: expect.stringContaining("web is authorized") })
      await stateIs(svc, "ready")
      expect((await call(svc)).result).toMatchObject(YOU)
      expect(await pid()).toEqual(before)

      // The answer is valid only once; its tokens are stored, and shown nowhere.
      expect(await browse(end.url)).toMatchObject({
        status: 400,
        text: expect.stringContaining("svc does not wait for this sign-in"),
      })
      tokens = tokensIn(secretsOf(svc.folder))
      expect(tokens).toHaveLength(2)
      expect(statSync(join(svc.folder, "secrets", "oauth.json")).mode & 0o777).toBe(0o600)
      const status = await runSvc(["auth", "status", "--json", "--config-dir", svc.folder], env)
      expect(JSON.parse(status.stdout)).toEqual([
        {
          server: "web",
          state: "authorized",
          scopes: ["read"],
          renews: true,
          expires: expect.any(String),
          issuer: authority.issuer,
        },
      ])
      const texts = [
        svc.stderr(),
        status.stdout,
        await (await fetch(`${svc.url}/health/mcp`)).text(),
        await shown("--verbose"),
      ].join("\n")
      for (const token of tokens) expect(texts).not.toContain(token)
      // Files that svc is writing come and go.
      await eventually(async () => (await Bun.$`cp -r ${svc.folder}/. ${folder}`.nothrow().quiet()).exitCode === 0)
    }
    // A later start needs no user.
    await using again = await startSvc({ config, flags: FULL, env, folder })
    await stateIs(again, "ready")
    expect(again.stderr()).not.toContain("sign-in needed")
  },
  LIMIT_MS,
)

test(
  "while an authorization server is down, calls fail, but users do not have to log in again [oauth:refresh]",
  async () => {
    await using authority = await startAuthority({ accessTtl: 2 })
    using resource = startResource(authority)
    await using svc = await startSvc({ config: { mcpServers: { web: { url: resource.url } } }, flags: FULL, env })
    await logIn(svc)
    expect((await call(svc)).result).toMatchObject(YOU)
    const refreshed = tokenRequests(authority)
    await eventually(async () => (await call(svc)).result !== undefined && tokenRequests(authority) > refreshed)

    await authority.stop()
    const failure = await eventually(async () => {
      const { result } = await call(svc)
      return result?.isError === true && result
    })
    expect(JSON.stringify(failure)).toContain("nothing listens at")
    await authority.start()
    await eventually(async () => (await call(svc)).result?.isError === undefined)
    expect(svc.stderr().match(/web: sign-in needed/g)).toHaveLength(1)

    // With new keys, tokens signed with the old ones are refused, and renewed silently.
    await authority.stop()
    await authority.start("new")
    await eventually(async () => (await call(svc)).result?.isError === undefined)
    expect(svc.stderr().match(/web: sign-in needed/g)).toHaveLength(1)
  },
  LIMIT_MS,
)

test(
  "a grant that was revoked leads to a new login",
  async () => {
    await using authority = await startAuthority({ accessTtl: 1 })
    using resource = startResource(authority)
    await using svc = await startSvc({ config: { mcpServers: { web: { url: resource.url } } }, flags: FULL, env })
    await logIn(svc)
    await authority.revokeAll()
    await eventually(async () => {
      await call(svc)
      return (await healthOf(svc)).state === "awaiting_oauth"
    })
    expect(svc.stderr()).toContain("no longer renews the sign-in")
    await logIn(svc)
    expect((await call(svc)).result).toMatchObject(YOU)
  },
  LIMIT_MS,
)

test.each([
  ["audience", { audience: "https://another.example/mcp" }],
  ["issuer", { issuer: "https://another.example" }],
] as const)(
  "after a token with a wrong %s, svc stops asking and gives the reason [oauth:terminal]",
  async (_what, wants) => {
    await using authority = await startAuthority()
    using resource = startResource(authority, wants)
    await using svc = await startSvc({ config: { mcpServers: { web: { url: resource.url } } }, flags: FULL, env })
    await browse(await addressOf(svc))
    await svc.said("they disagree on its audience, issuer or keys")
    expect(await healthOf(svc)).toMatchObject({ state: "awaiting_oauth" })
    expect((await healthOf(svc)).authorizationUrl).toBeUndefined()
  },
  LIMIT_MS,
)

test(
  "a call that needs more scopes says so, and works after the user agreed; other calls continue",
  async () => {
    await using authority = await startAuthority()
    using resource = startResource(authority, { callScope: "write" })
    await using svc = await startSvc({ config: { mcpServers: { web: { url: resource.url } } }, flags: FULL, env })
    await logIn(svc)
    const refused = (await call(svc)).result
    expect(refused).toMatchObject({ isError: true })
    expect(JSON.stringify(refused)).toContain("requires more scopes (write)")
    const health = await healthOf(svc)
    expect(health.state).toBe("ready")
    expect(new URL(health.authorizationUrl ?? "").searchParams.get("scope")).toStartWith("read write")
    expect(await browse(health.authorizationUrl ?? "")).toMatchObject({ status: 200 })
    expect((await call(svc)).result).toMatchObject(YOU)
    expect((await healthOf(svc)).authorizationUrl).toBeUndefined()
  },
  LIMIT_MS,
)

test(
  "client_credentials need nobody",
  async () => {
    await using authority = await startAuthority({ accessTtl: 2 })
    using resource = startResource(authority)
    const oauth = { clientId: "machine", clientSecret: "${SECRET}", grantType: "client_credentials" }
    await using svc = await startSvc({
      config: { mcpServers: { web: { url: resource.url, oauth } } },
      flags: FULL,
      env: { ...env, SECRET: "machine-secret-of-the-test" },
    })
    await stateIs(svc, "ready")
    const before = tokenRequests(authority)
    await eventually(async () => (await call(svc)).result !== undefined && tokenRequests(authority) > before)
    expect(svc.stderr()).not.toContain("machine-secret-of-the-test")
  },
  LIMIT_MS,
)

/** Runs `svc auth login` with a browser that follows redirects. */
async function login(folder: string, ...flags: string[]) {
  const child = Bun.spawn({
    cmd: [SVC, "auth", "login", "web", "--no-browser", "--config-dir", folder, ...flags],
    env: { ...freshEnv(folder), ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  })
  let said = ""
  let page: Promise<{ readonly status: number; readonly text: string }> | undefined
  for await (const chunk of child.stderr) {
    said += new TextDecoder().decode(chunk)
    const address = /^(http\S+)\n/m.exec(said)?.[1]
    if (address !== undefined) page ??= browse(address)
  }
  return { code: await child.exited, said, stdout: await new Response(child.stdout).text(), page: await page }
}

test(
  "svc auth login, status and logout, with a running svc and without one",
  async () => {
    await using authority = await startAuthority()
    using resource = startResource(authority)
    const config = { mcpServers: { web: { url: resource.url } } }
    await using svc = await startSvc({ config, flags: FULL, env })
    await stateIs(svc, "awaiting_oauth")
    expect(await login(svc.folder)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^signed in to web: connected, \d+ tools?\n$/),
      page: { status: 200 },
    })
    await stateIs(svc, "ready")

    const gone = await runSvc(["auth", "logout", "web", "--config-dir", svc.folder], env)
    expect(gone).toMatchObject({ code: 0, stdout: "signed out of web\n" })
    expect(authority.asked.get("/token/revocation")).toBeGreaterThan(0)
    expect(tokensIn(secretsOf(svc.folder))).toEqual([])
    await stateIs(svc, "awaiting_oauth")
    svc.signal("SIGTERM")
    await svc.exited

    // No svc runs now: the command itself waits for the browser, on its own port.
    const alone = await login(svc.folder)
    expect(alone).toMatchObject({ code: 0, page: { status: 200 } })
    expect(alone.said).toContain("redirect_uri=http%3A%2F%2F127.0.0.1%3A")
    expect(tokensIn(secretsOf(svc.folder))).toHaveLength(2)
    const status = await runSvc(["auth", "status", "--config-dir", svc.folder], env)
    expect(status.stdout).toMatch(/web\s+authorized\s+read\s+20\S+\s+yes\s+http:/)
    const again = await startSvc({ config, flags: FULL, env, folder: svc.folder })
    await stateIs(again, "ready")
    again.signal("SIGTERM")
    await again.exited
  },
  LIMIT_MS,
)

test(
  "if the browser is on another machine, pasting the address at which it ends is enough",
  async () => {
    await using authority = await startAuthority()
    using resource = startResource(authority)
    const folder = freshFolder()
    await Bun.write(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { web: { url: resource.url } } }))
    const child = Bun.spawn({
      cmd: [SVC, "auth", "login", "web", "--no-browser", "--config-dir", folder],
      env: { ...freshEnv(folder), ...env },
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
    })
    let said = ""
    for await (const chunk of child.stderr) {
      said += new TextDecoder().decode(chunk)
      const address = /^(http\S+)\n/m.exec(said)?.[1]
      if (address === undefined || !said.includes("paste the URL")) continue
      const end = await browse(address, new URL(address).searchParams.get("redirect_uri") ?? "none")
      child.stdin.write(`${end.url}\n`)
      child.stdin.flush()
    }
    expect(await child.exited).toBe(0)
    expect(tokensIn(secretsOf(folder))).toHaveLength(2)
  },
  LIMIT_MS,
)

test(
  "secrets that others can read are not used, and reported once; after they are fixed, a restart of the server is enough",
  async () => {
    await using authority = await startAuthority()
    using resource = startResource(authority)
    const config = { mcpServers: { web: { url: resource.url } } }
    const folder = freshFolder()
    const first = await startSvc({ config, flags: FULL, env, folder })
    await logIn(first)
    first.signal("SIGTERM")
    await first.exited
    const file = join(folder, "secrets", "oauth.json")
    chmodSync(file, 0o644)
    await using svc = await startSvc({ config, flags: FULL, env, folder })
    await stateIs(svc, "awaiting_oauth")
    expect(svc.stderr().match(/web: \S+oauth\.json can be read by others \(mode 644\): chmod 600 it/g)).toHaveLength(1)
    chmodSync(file, 0o600)
    expect((await runSvc(["mcp", "restart", "web", "--config-dir", folder], env)).code).toBe(0)
    await stateIs(svc, "ready")
  },
  LIMIT_MS,
)

test("with an external address, browsers return to it, and svc describes itself there", async () => {
  await using authority = await startAuthority()
  using resource = startResource(authority)
  await using svc = await startSvc({
    config: { mcpServers: { web: { url: resource.url } } },
    flags: [...FULL, "--auth", "--external-url", "https://svc.example.com/"],
    env,
  })
  // A browser has no token of svc: svc recognizes its return by the state.
  const redirect = "https://svc.example.com/oauth/callback"
  const address = await eventually(() => /sign-in needed[^\n]*, or open (http\S+)/.exec(svc.stderr())?.[1])
  expect(new URL(address).searchParams.get("redirect_uri")).toBe(redirect)
  const client = await fetch(`${svc.url}/oauth/client.json`, { headers: { host: "svc.example.com" } })
  expect(await client.json()).toMatchObject({
    client_id: "https://svc.example.com/oauth/client.json",
    redirect_uris: [redirect],
    token_endpoint_auth_method: "none",
  })
  // The proxy in front of svc forwards it.
  const end = await browse(address, redirect)
  const page = await fetch(end.url.replace("https://svc.example.com", svc.url), {
    headers: { host: "svc.example.com" },
  })
  expect(page.status).toBe(200)
  await svc.said("web: connected")
})

test.skipIf(process.platform === "win32")(
  "if svc listens only on a socket, the command waits for the browser",
  async () => {
    await using authority = await startAuthority()
    using resource = startResource(authority)
    const folder = freshFolder()
    await Bun.write(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { web: { url: resource.url } } }))
    const svc = Bun.spawn({
      cmd: [SVC, "serve", "--config-dir", folder, "--listen", `unix:${join(folder, "svc.sock")}`],
      env: { ...freshEnv(folder), ...env },
      stdin: "ignore",
      stdout: "ignore",
      stderr: "pipe",
    })
    let said = ""
    const reading = (async () => {
      for await (const chunk of svc.stderr) said += new TextDecoder().decode(chunk)
    })()
    await eventually(() => said.includes("sign-in needed; run `svc auth login web`"))
    expect(await login(folder)).toMatchObject({ code: 0, page: { status: 200 } })
    await eventually(() => said.includes("web: connected"))
    svc.kill("SIGTERM")
    await reading
  },
  LIMIT_MS,
)

test("a server that requires a token but offers no OAuth is recognized, and svc says what to do", async () => {
  const kinds = {
    // Its stream is of the old transport, and the only thing that says 401.
    old: (request: Request) => new Response(null, { status: request.method === "GET" ? 401 : 405 }),
    key: () => new Response(null, { status: 401 }),
  }
  const servers = Object.values(kinds).map((answer) =>
    Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: (request) =>
        new URL(request.url).pathname === "/mcp" ? answer(request) : new Response(null, { status: 404 }),
    }),
  )
  const [old, key] = servers.map(({ url }) => `${url.href}mcp`)
  const headers = { Authorization: "Bearer written-by-hand" }
  await using svc = await startSvc({
    config: { mcpServers: { old: { url: old }, key: { url: key }, written: { url: key, headers } } },
    flags: FULL,
    env,
  })
  for (const [name, reason] of [
    ["old", "`svc mcp edit old -H 'Authorization: Bearer ${TOKEN}'` sets it"],
    ["key", "`svc mcp edit key -H 'Authorization: Bearer ${TOKEN}'` sets it"],
    ["written", "refused the credentials in headers (401)"],
  ] as const) {
    const health = await eventually(async () => {
      const found = await healthOf(svc, name)
      return found.state === "awaiting_oauth" && found
    })
    expect(health.error).toContain(reason)
    expect(health.authorizationUrl).toBeUndefined()
  }
  const place = ["--config-dir", svc.folder]
  for (const flags of [place, ["--url", svc.url, ...place]]) {
    const { stdout } = await runSvc(["health", ...flags], env)
    for (const [name, state] of [
      ["old", "token needed"],
      ["key", "token needed"],
      ["written", "credentials refused"],
    ] as const)
      expect(stdout).toMatch(new RegExp(`^${name} +${state} `, "m"))
  }
  const added = await runSvc(["mcp", "add", "new", "--url", String(key), ...place], env)
  expect(added.stdout).toStartWith(
    "added new; it requires a token in a header (401), and offers no sign-in; `svc mcp edit",
  )
  const found = JSON.parse((await runSvc(["doctor", "--json", ...place], env)).stdout)
  expect(found.findings).toContainEqual(
    expect.objectContaining({ subject: "key", fix: expect.stringContaining("svc mcp edit key -H") }),
  )
  const login = await runSvc(["auth", "login", "key", ...place], env)
  expect(login.stderr).toContain("requires a token in a header (401), and offers no sign-in")
  for (const server of servers) await server.stop(true)
})

test(
  "a server that requires authorization is installed, and the text contains the address to open",
  async () => {
    await using authority = await startAuthority()
    using resource = startResource(authority)
    const folder = freshFolder()
    const place = ["--config-dir", folder]
    const alone = await runSvc(["mcp", "install", "web", "--url", resource.url, "--yes", ...place], env)
    expect(alone).toMatchObject({
      code: 0,
      stdout: "installed web: awaiting_oauth\n",
      stderr: expect.stringContaining("warning: web waits until a person runs `svc auth login web`"),
    })
    const { mcpServers } = JSON.parse(readFileSync(join(folder, "mcp.json"), "utf8"))
    expect(mcpServers).toEqual({ web: { url: resource.url } })

    await using svc = await startSvc({ folder, env, flags: ["--internal-tools", "all", "--confirm-installs", "off"] })
    await using client = await connect1(svc)
    const { structuredContent, content } = await client.call("mcp_install", { serverName: "two", url: resource.url })
    expect(structuredContent).toMatchObject({ installed: true, status: "awaiting_oauth" })
    const [, address = ""] = /two waits until a person opens (http\S+)/.exec(content[0]?.text ?? "") ?? []
    expect(await browse(address)).toMatchObject({ text: expect.stringContaining("two is authorized") })
  },
  LIMIT_MS,
)
