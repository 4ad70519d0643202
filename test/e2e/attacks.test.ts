/** Attacks on the HTTP side of svc. Each attack succeeds if its guard is removed. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { exportJWK, generateKeyPair, type JWTHeaderParameters, SignJWT } from "jose"
import { eventually, fixture, freshEnv, freshFolder, type Instance, modern, runSvc, SVC, startSvc } from "./harness.ts"
import { startIssuer } from "./issuer.ts"

const echo = (...tags: string[]) => ({ command: "bun", args: [fixture("echo.ts")], tags })
const config = { mcpServers: { shop: echo("web"), files: echo("local") } }
const JSON_TYPE = { "content-type": "application/json" }
const PARAMS = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } }
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

const post = (svc: Instance, body: unknown, headers: Record<string, string> = {}, path = "/mcp") =>
  fetch(`${svc.url}${path}`, {
    method: "POST",
    headers: { ...JSON_TYPE, ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  })
const open = (svc: Instance, params: object = PARAMS, headers = {}) =>
  post(svc, { jsonrpc: "2.0", id: 1, method: "initialize", params }, headers)
const works = async (svc: Instance, headers = {}) =>
  (await modern(`${svc.url}/mcp`, "tools/call", { name: "shop_svc_echo", arguments: { m: "x" } }, headers)).status ===
  200

/** Writes raw bytes to a socket. Returns the answer when the other side closes, or when `until` is satisfied. */
async function raw(svc: Instance, text: string, { drip = "", until = /\r\n\r\n/ as RegExp | undefined } = {}) {
  const { port } = new URL(svc.url)
  let got = ""
  const { promise, resolve } = Promise.withResolvers<void>()
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: Number(port),
    socket: {
      data(_, bytes) {
        got += bytes.toString()
        if (until?.test(got)) resolve()
      },
      close: () => resolve(),
      error: () => resolve(),
    },
  })
  socket.write(text)
  let going = true
  const dripping = (async () => {
    for (const char of drip) {
      await Bun.sleep(200)
      if (!going) return
      socket.write(char)
    }
  })()
  await promise
  going = false
  await dripping
  socket.end()
  return got
}
const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0)

describe("Host and Origin", () => {
  const svc = shared({ config })

  test.each([
    "evil.example",
    "evil.example:3050",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "",
    "[::1].evil",
  ])("a foreign Host %p is refused, on every path", async (host) => {
    for (const path of ["/mcp", "/health", "/servers/shop/mcp", "/.well-known/oauth-protected-resource"])
      expect(statusOf(await raw(svc(), `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`))).toBe(403)
  })

  test("a request without Host, as from a load balancer over HTTP/1.0, is accepted unless it has a foreign Origin", async () => {
    expect(statusOf(await raw(svc(), "GET /health/live HTTP/1.0\r\n\r\n"))).toBe(200)
    expect(statusOf(await raw(svc(), "GET /health HTTP/1.0\r\nOrigin: http://evil.example\r\n\r\n"))).toBe(403)
  })

  test.each([
    "https://evil.example",
    "null",
    "http://localhost.evil.example",
    "http://127.0.0.1.evil.example:3050",
    "file://",
  ])("a foreign Origin %p is refused, and a browser is told nothing", async (origin) => {
    for (const method of ["POST", "GET", "OPTIONS", "DELETE"]) {
      const answer = await fetch(`${svc().url}/mcp`, { method, headers: { origin, ...JSON_TYPE } })
      expect([method, answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([method, 403, null])
    }
  })

  test("no answer names the software behind it", async () => {
    for (const path of ["/mcp", "/health", "/nothing"]) {
      const { headers } = await fetch(`${svc().url}${path}`)
      expect([headers.get("server"), headers.get("x-powered-by")]).toEqual([null, null])
    }
  })
})

describe("a token", () => {
  const folder = freshFolder()
  const tokens: string[] = []
  const svc = shared({ config, folder, flags: ["--auth"] }, async () => {
    for (const name of ["one", "two"]) {
      const { stdout } = await runSvc(
        ["auth", "token", "create", "--name", name, "--config-dir", folder],
        freshEnv(folder),
      )
      tokens.push(stdout.trim())
    }
  })

  test("gives no access to the sessions, streams and answers of another principal", async () => {
    const [one, two] = [bearer(tokens[0] ?? ""), bearer(tokens[1] ?? "")]
    const session = (await open(svc(), PARAMS, one)).headers.get("mcp-session-id") ?? ""
    const take = (headers: object, init: object = {}) =>
      fetch(`${svc().url}/mcp`, {
        headers: { ...headers, "mcp-session-id": session, accept: "text/event-stream" },
        ...init,
      })
    expect((await take(two)).status).toBe(404)
    expect((await take(two, { method: "DELETE" })).status).toBe(404)
    expect(
      (await post(svc(), { jsonrpc: "2.0", id: 2, method: "ping" }, { ...two, "mcp-session-id": session })).status,
    ).toBe(404)
    expect(
      (await post(svc(), { jsonrpc: "2.0", id: 2, method: "ping" }, { ...one, "mcp-session-id": session })).status,
    ).toBe(200)

    const stopped = new AbortController()
    const stream = await fetch(`${svc().url}/sse`, { headers: one, signal: stopped.signal })
    const reader = (stream.body as ReadableStream<Uint8Array>).getReader()
    const { value } = await reader.read()
    const endpoint = /data: (\S+)/.exec(new TextDecoder().decode(value))?.[1] ?? ""
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" }
    expect((await post(svc(), ping, two, endpoint)).status).toBe(404)
    expect((await post(svc(), ping, one, endpoint)).status).toBe(202)
    stopped.abort()
  })

  test.each(["access_token", "token", "bearer", "authorization", "ACCESS_TOKEN"])(
    "in the query as %s is refused, even beside a valid one in the header",
    async (name) => {
      const url = `/mcp?${name}=${tokens[0]}`
      expect((await post(svc(), {}, {}, url)).status).toBe(400)
      expect((await post(svc(), {}, bearer(tokens[0] ?? ""), url)).status).toBe(400)
      expect((await post(svc(), {}, {}, `/mcp?%61ccess_token=${tokens[0]}`)).status).toBe(401)
      expect(svc().stderr()).not.toContain(tokens[0] ?? "-")
    },
  )

  test("is required under every spelling of a path", async () => {
    for (const path of [
      "/.well-known/../mcp",
      "/oauth/../mcp",
      "/health/../mcp",
      "/health/live/../../mcp",
      "//mcp",
      "/./mcp",
      "/MCP",
      "/mcp/",
      "/mcp;/health",
      "/health/mcp/..%2f..%2f..%2fmcp",
      "/.well-known/%2e%2e/mcp",
      "http://127.0.0.1/mcp",
    ]) {
      const body = JSON.stringify({ tool: "shop_svc_echo", arguments: {} })
      const answer = await raw(
        svc(),
        `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      )
      expect([path, statusOf(answer) >= 400, answer.includes('"result"')]).toEqual([path, true, false])
    }
  })
})

test("a JWT that names its own key, or the key of another issuer, is refused", async () => {
  const issuer = await startIssuer()
  await using svc = await startSvc({ config, flags: ["--auth-issuer", issuer.url] })
  const aud = `${svc.url}/mcp`
  const { publicKey, privateKey } = await generateKeyPair("ES256", { extractable: true })
  const jwk = { ...(await exportJWK(publicKey)), kid: "mine", alg: "ES256" }
  using thief = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => Response.json({ keys: [jwk] }) })
  const sign = (header: Partial<JWTHeaderParameters>) =>
    new SignJWT({ sub: "eve", iss: issuer.url, aud })
      .setProtectedHeader({ alg: "ES256", ...header })
      .setIssuedAt()
      .setExpirationTime("5m")
      .sign(privateKey)
  const status = async (token: string) => (await open(svc, PARAMS, bearer(token))).status
  expect(await status(await issuer.sign({ aud }))).toBe(200)
  const [, payload = ""] = (await issuer.sign({ aud })).split(".")
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
  const published = JSON.stringify(((await (await fetch(`${issuer.url}/jwks`)).json()) as { keys: object[] }).keys[0])
  const forged = {
    "a key in its header": await sign({ jwk, kid: "one" }),
    "the address of a key": await sign({ jku: `http://127.0.0.1:${thief.port}/`, kid: "mine" }),
    "a file as key": await sign({ kid: "../../../../dev/null" }),
    "no key": await sign({}),
    "alg none": `${encode({ alg: "none" })}.${payload}.`,
    "alg None": `${encode({ alg: "None", kid: "one" })}.${payload}.AAAA`,
    "the public key as secret": await new SignJWT({ sub: "eve", iss: issuer.url, aud })
      .setProtectedHeader({ alg: "HS256", kid: "one" })
      .setExpirationTime("5m")
      .sign(new TextEncoder().encode(published)),
    "another's claims": await issuer.sign({ aud }).then((good) => {
      const [head, , signature] = good.split(".")
      return `${head}.${encode({ sub: "root", iss: issuer.url, aud, exp: 4_000_000_000 })}.${signature}`
    }),
  }
  for (const [what, token] of Object.entries(forged)) expect([what, await status(token)]).toEqual([what, 401])
  issuer.stop()
}, 20_000)

test("a session and a stream accept messages only from exactly the identity that opened them [auth:identity]", async () => {
  const issuer = await startIssuer()
  await using svc = await startSvc({ config, flags: ["--auth-issuer", issuer.url, "--internal-tools", "all"] })
  const sign = (audience: string, taskOwners: object) =>
    issuer.sign({ aud: `${svc.url}${audience}`, sub: "alice", scope: "svc:admin", ...taskOwners } as never)
  const strangers = {
    "a token without scopes": { scope: "" },
    "a token with fewer tags": { scope: "tag:web" },
    "a client that is spelled like the user": { sub: undefined, client_id: "alice" },
    "another user": { sub: "bob" },
  }
  const stopped = new AbortController()
  const opener = await fetch(`${svc.url}/sse`, { headers: bearer(await sign("/sse", {})), signal: stopped.signal })
  const { value } = await (opener.body as ReadableStream<Uint8Array>).getReader().read()
  const endpoint = /data: (\S+)/.exec(new TextDecoder().decode(value))?.[1] ?? ""
  const session = (await open(svc, PARAMS, bearer(await sign("/mcp", {})))).headers.get("mcp-session-id") ?? ""
  const ping = { jsonrpc: "2.0", id: 1, method: "ping" }
  const posted = async (taskOwners: object) => [
    (await post(svc, ping, bearer(await sign("/messages", taskOwners)), endpoint)).status,
    (await post(svc, ping, { ...bearer(await sign("/mcp", taskOwners)), "mcp-session-id": session })).status,
  ]
  for (const [what, taskOwners] of Object.entries(strangers))
    expect([what, await posted(taskOwners)]).toEqual([what, [404, 404]])
  // Another token of the same holder with the same rights, as after a renewal, is the same identity.
  expect(await posted({ jti: "renewed" })).toEqual([202, 200])
  stopped.abort()
  issuer.stop()
}, 20_000)

describe("a malicious request", () => {
  const folder = freshFolder()
  const log = join(folder, "audit.log")
  const svc = shared({
    config,
    folder,
    flags: ["--max-body", "16KiB", "--log-level", "debug", "--audit-log", log, "--audit-arguments"],
  })

  test("cannot use the name of a server to reach anything but a server", async () => {
    for (const name of [
      "..%2f..%2fetc%2fpasswd",
      "%2e%2e",
      "..",
      "shop%00",
      "shop%2f..%2ffiles",
      "%ff%fe",
      "%",
      "__proto__",
      "constructor",
      "shop%0d%0aX-Evil:%201",
      "a".repeat(8000),
    ]) {
      for (const path of [`/servers/${name}/mcp`, `/health/mcp/${name}`]) {
        const answer = await raw(
          svc(),
          `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n`,
          { until: undefined },
        )
        // The dot segment is removed: the remaining path is /mcp, which needs a session, or /health.
        const isDots = name === ".." || name === "%2e%2e"
        const statuses = path.startsWith("/servers/") ? [405] : [200, 503]
        expect([path.slice(0, 60), (isDots ? statuses : [404]).includes(statusOf(answer))]).toEqual([
          path.slice(0, 60),
          true,
        ])
        expect(answer.toLowerCase()).not.toContain("\r\nx-evil")
        expect(answer).not.toContain("root:")
      }
    }
    expect(await works(svc())).toBe(true)
  })

  test("is bounded in its body, with or without a declared length, and in its headers", async () => {
    const large = "x".repeat(20_000)
    expect((await post(svc(), large)).status).toBe(413)
    const chunks = `${(20_000).toString(16)}\r\n${large}\r\n0\r\n\r\n`
    const head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    expect(statusOf(await raw(svc(), `${head}Transfer-Encoding: chunked\r\n\r\n${chunks}`))).toBe(413)
    expect(statusOf(await raw(svc(), `${head}X-Large: ${"x".repeat(100_000)}\r\n\r\n`))).toBe(431)
    const many = Array.from({ length: 1000 }, (_, number) => `X-${number}: 1\r\n`).join("")
    expect(statusOf(await raw(svc(), `${head}${many}\r\n`))).toBeGreaterThanOrEqual(400)
    // One request must not hide in another.
    const hidden = "0\r\n\r\nGET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    const smuggled = await raw(
      svc(),
      `${head}Content-Length: ${hidden.length}\r\nTransfer-Encoding: chunked\r\n\r\n${hidden}`,
      {
        until: /\r\n\r\n/,
      },
    )
    expect(statusOf(smuggled)).toBe(400)
    expect(await works(svc())).toBe(true)
  })

  test("with JSON that is nested too deeply, or with hundreds of them at once, is only refused", async () => {
    const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`
    expect((await post(svc(), nested(4000))).status).toBe(400)
    const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shop_svc_echo","arguments":{"m":"x","deep":${nested(3000)}}}}`
    const session = (await open(svc())).headers.get("mcp-session-id") ?? ""
    const refused = await post(svc(), call, { "mcp-session-id": session })
    expect([refused.status, await refused.json()]).toEqual([
      400,
      { jsonrpc: "2.0", id: 1, error: { code: -32600, message: "The message is nested deeper than 512 levels" } },
    ])
    expect((await post(svc(), call.replace(nested(3000), nested(500)), { "mcp-session-id": session })).status).toBe(200)
    const batch = Array.from({ length: 101 }, (_, id) => ({ jsonrpc: "2.0", id, method: "ping" }))
    expect((await post(svc(), batch, { "mcp-session-id": session })).status).toBe(400)
    expect(await works(svc())).toBe(true)
  })

  test("with keys that are special in JavaScript has no special effect", async () => {
    const evil = '{"tool":"mcp_list","isAdmin":true,"clientInfo":{"name":"evil"},"result":1}'
    const bodies = [
      `{"__proto__":${evil},"arguments":{}}`,
      `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"__proto__":${evil},"constructor":{"prototype":${evil}}}}`,
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"__proto__","arguments":{"__proto__":${evil}}}}`,
      `{"jsonrpc":"2.0","id":"__proto__","method":"constructor","params":{"_meta":{"__proto__":${evil}}}}`,
    ]
    const session = (await open(svc())).headers.get("mcp-session-id") ?? ""
    for (const body of bodies) {
      const answer = await post(svc(), body, { "mcp-session-id": session })
      expect([body, answer.status < 500, (await answer.text()).includes("mcp_list")]).toEqual([body, true, false])
    }
    for (const name of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
      const { body } = await modern(`${svc().url}/mcp`, "tools/call", { name, arguments: {} })
      expect(body.error?.message).toContain("Unknown tool")
      const preset = await post(
        svc(),
        { jsonrpc: "2.0", id: 1, method: "initialize", params: PARAMS },
        {},
        `/mcp?preset=${name}`,
      )
      expect([name, preset.status]).toEqual([name, 404])
      expect((await post(svc(), { jsonrpc: "2.0", id: 1, method: "ping" }, { "mcp-session-id": name })).status).toBe(
        404,
      )
    }
    expect(await works(svc())).toBe(true)
  })

  test("cannot forge log lines or control a terminal through the names of clients and tools", async () => {
    const evil = `x\n2026-01-01T00:00:00.000Z error FORGED\r\u001b[2J\u001b]0;owned\u0007\u009b31m\u202e\u2028{"forged":1}`
    const params = { ...PARAMS, clientInfo: { name: evil, version: evil } }
    const session = (await open(svc(), params)).headers.get("mcp-session-id") ?? ""
    const call = { jsonrpc: "2.0", id: evil, method: "tools/call", params: { name: evil, arguments: { [evil]: evil } } }
    await post(svc(), call, { "mcp-session-id": session })
    await post(svc(), { jsonrpc: "2.0", id: 1, method: evil }, { "mcp-session-id": session })
    await raw(
      svc(),
      `GET /servers/${encodeURIComponent(evil)}/mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
    )
    const written = () => readFileSync(log, "utf8")
    await eventually(() => written().includes("FORGED"))
    for (const line of written().split("\n").slice(0, -1)) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
      expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u202e]/)
      expect(JSON.parse(line).forged).toBeUndefined()
    }
    for (const line of svc().stderr().split("\n")) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
      expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028]/)
      expect(line).not.toStartWith("2026-01-01T00:00:00.000Z error FORGED")
    }
  })
})

describe("a client that uses too much", () => {
  test("is disconnected if it sends slowly, and no other client waits for it", async () => {
    await using svc = await startSvc({ config, flags: ["--receive-timeout", "1s"] })
    const head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    const slow = [
      ...Array.from({ length: 50 }, () =>
        raw(svc, `${head}Content-Length: 1000\r\n\r\n`, { drip: "x".repeat(150), until: undefined }),
      ),
      raw(svc, head, { drip: "x".repeat(150), until: undefined }),
      raw(svc, `${head}Transfer-Encoding: chunked\r\n\r\n20\r\n`, { drip: "x".repeat(30), until: undefined }),
      raw(svc, "", { until: undefined }),
    ]
    expect(await works(svc)).toBe(true)
    for (const answer of await Promise.all(slow)) expect(answer).not.toContain("200 OK")
    // One request must not keep a connection open either.
    const once = await raw(svc, "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n", { until: undefined })
    expect(once).toContain("200 OK")
    expect(svc.stderr()).not.toContain("internal error")
    expect(await works(svc)).toBe(true)
  }, 60_000)

  test("gets no more than 10,000 sessions; the least recently used one makes room", async () => {
    await using svc = await startSvc({ config, flags: ["--metrics", "--no-persist"] })
    const first = (await open(svc)).headers.get("mcp-session-id") ?? ""
    const ping = (session: string) =>
      post(svc, { jsonrpc: "2.0", id: 1, method: "ping" }, { "mcp-session-id": session })
    const second = (await open(svc)).headers.get("mcp-session-id") ?? ""
    for (let opened = 0; opened < 10_000; opened += 50)
      await Promise.all(Array.from({ length: 50 }, async () => void (await (await open(svc)).text())))
    expect(await (await fetch(`${svc.url}/metrics`)).text()).toContain("svc_sessions 10000\n")
    expect([(await ping(first)).status, (await ping(second)).status]).toEqual([404, 404])
    expect(await works(svc)).toBe(true)
  }, 60_000)
})

test("a client of svc over stdio that never reads is disconnected before it uses much memory", async () => {
  const folder = freshFolder()
  writeFileSync(join(folder, "mcp.json"), JSON.stringify(config))
  const child = Bun.spawn({
    cmd: [
      "sh",
      "-c",
      '"$0" serve --transport stdio --config-dir "$1" --max-result 1MiB | sleep 20 2> /dev/null',
      SVC,
      folder,
    ],
    env: freshEnv(folder),
    stdin: "pipe",
    stdout: "ignore",
    stderr: "pipe",
  })
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": PARAMS.clientInfo,
    "io.modelcontextprotocol/clientCapabilities": {},
  }
  const params = { name: "shop_svc_echo", arguments: { m: "x".repeat(200_000) }, _meta }
  let said = ""
  const reading = (async () => {
    for await (const chunk of child.stderr) said += new TextDecoder().decode(chunk)
  })()
  let id = 0
  await eventually(() => {
    if (said.includes("stopping")) return true
    const line = `${JSON.stringify({ jsonrpc: "2.0", id: ++id, method: "tools/call", params })}\n`
    // svc may have closed the pipe before its line about that has arrived here.
    for (const done of [child.stdin.write(line), child.stdin.flush()])
      void Promise.resolve(done).catch(({ code }: NodeJS.ErrnoException) => expect(code).toBe("EPIPE"))
    return undefined
  })
  expect(said).toContain("stopping: client does not read")
  child.kill()
  await reading
}, 20_000)

test("svc does not write sessions through a symbolic link", async () => {
  const theirs = join(freshFolder(), "theirs.sqlite")
  for (const ending of ["", "-wal"]) {
    const folder = freshFolder()
    symlinkSync(theirs, join(folder, `sessions.sqlite${ending}`))
    await using svc = await startSvc({ config, folder })
    await svc.said(/sessions are not stored.*must be a regular file/)
    expect((await open(svc)).status).toBe(200)
    expect(existsSync(theirs)).toBe(false)
  }
}, 20_000)

/** One svc for the tests of a group. */
function shared(options: Parameters<typeof startSvc>[0], before: () => Promise<void> = async () => undefined) {
  let instance: Instance | undefined
  beforeAll(async () => {
    await before()
    instance = await startSvc(options)
  })
  afterAll(() => instance?.[Symbol.asyncDispose]())
  return () => instance as Instance
}
