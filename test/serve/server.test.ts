/** The order of the middleware and the shapes of errors, tested on the routes directly, without a port. */
import { describe, expect, test } from "bun:test"
import type { Agent } from "../../src/agent/agent.ts"
import { RequestError } from "../../src/lib/errors.ts"
import { createAddressLimiter, createHealthLimit } from "../../src/serve/address-rate-limit.ts"
import { createAuthentication, createResourceMetadata } from "../../src/serve/auth.ts"
import { createCors } from "../../src/serve/cors.ts"
import { createHealth } from "../../src/serve/health.ts"
import { createHostCheck } from "../../src/serve/host-check.ts"
import { createInbound } from "../../src/serve/inbound.ts"
import type { McpDeps } from "../../src/serve/mcp.ts"
import { createMetricsEndpoint } from "../../src/serve/metrics.ts"
import { createCallback } from "../../src/serve/oauth-callback.ts"
import { createRoute, type MiddlewareTable } from "../../src/serve/server.ts"
import type { Issuer, TokenVerdict } from "../../src/serve/token-issuer.ts"
import { createToken } from "../../src/store/client-tokens.ts"
import { manualClock } from "../clock.ts"
import { backend, facts, snapshot } from "../report/snapshots.ts"

const PAGE = "https://page.example"
const METADATA = "/.well-known/oauth-protected-resource"

/** A listener's routes with everything turned on, and counters of what was reached. */
function listener(changes: Partial<MiddlewareTable> = {}, external = "http://localhost:3050") {
  const clock = manualClock()
  const all = createToken("all", { now: clock.now() })
  const team = createToken("team", { tags: ["team"], now: clock.now() })
  const tokens = new Map([all, team].map(({ token }) => [token.id, token]))
  const reached = { reports: 0, verifications: 0, limited: 0, bugs: [] as unknown[] }
  let verdict: TokenVerdict = { kind: "invalid", reason: 'The token is not valid ("aud")\n' }
  const issuer: Issuer = {
    url: "https://issuer.example",
    scopes: ["tag:team"],
    verify() {
      reached.verifications++
      return Promise.resolve(verdict)
    },
    refresh: () => Promise.resolve(),
  }
  const base = () => external
  const onbug = (error: unknown) => reached.bugs.push(error)
  const { spec: untagged } = backend("connected", "shop")
  const spec = { ...untagged, tuning: { ...untagged.tuning, tags: ["shop"] } }
  const limiter = createAddressLimiter(clock, { requests: 2, windowMs: 60_000 })
  const middleware: MiddlewareTable = {
    cors: createCors([PAGE]),
    hostCheck: createHostCheck({ allowedHosts: [], allowedOrigins: [PAGE], loopback: true }),
    authenticate: createAuthentication({
      tokens: () => tokens,
      issuer,
      byScope: true,
      presets: () => new Map(),
      now: clock.now,
      base,
      detailed: true,
      onrefused: () => undefined,
      onbug,
    }),
    firstLoad: undefined,
    healthLimit: createHealthLimit({
      limiter,
      probeLimiter: limiter,
      trustProxy: () => false,
      onlimited: () => reached.limited++,
    }),
    resourceMetadata: createResourceMetadata(issuer, base, () => ["team", "unknown"]),
    oauthCallback: createCallback({
      finish: () => Promise.reject(new RequestError("not_found", "<no such authorization>")),
      hide: (text) => text,
      client: () => Promise.resolve(undefined),
    }),
    metrics: createMetricsEndpoint(() => "svc_sessions 0\n"),
    health: createHealth({
      level: "basic",
      now: clock.now,
      facts: () => facts,
      redactAll: (text) => text,
      presets: () => new Map(),
      snapshot() {
        reached.reports++
        return snapshot([])
      },
    }),
    serverCards: undefined,
    ...changes,
  }
  const respond = createRoute({
    agent: {
      find: (name: string) => (name === "shop" ? [{ spec }] : []),
      snapshot: () => ({ templates: [] }),
    } as unknown as Agent,
    clock,
    mcp: { gateway: { hide: (text: string) => text }, onbug } as unknown as McpDeps,
    pipes: new Map(),
    tools: "all",
    scopeOf(search) {
      if (search === "?tags=") throw new RequestError("invalid_params", "tags is empty")
      return { kind: "server", id: "none" }
    },
    middleware,
    frontPage: async () => new Response("front"),
    base,
  })
  return {
    reached,
    all: all.text,
    team: team.text,
    answerIssuer(next: TokenVerdict) {
      verdict = next
    },
    async ask(path: string, headers: Record<string, string> = {}, method = "GET") {
      const request = new Request(`http://localhost:3050${path}`, {
        method,
        headers: { host: "localhost:3050", ...headers },
      })
      const response = await respond(createInbound(request, () => "192.0.2.1"))
      const text = await response.text()
      const json = response.headers.get("content-type") === "application/json"
      return { status: response.status, headers: response.headers, body: json ? JSON.parse(text) : text }
    },
  }
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

describe("the order of the middleware [inbound:order]", () => {
  test("a preflight passes without a token and before the host check", async () => {
    const { ask } = listener()
    const preflight = { origin: PAGE, "access-control-request-method": "POST", host: "svc.example" }
    const { status, headers } = await ask("/mcp", preflight, "OPTIONS")
    expect([status, headers.get("access-control-allow-origin")]).toEqual([204, PAGE])
    expect((await ask("/mcp", { ...preflight, origin: "https://other.example" }, "OPTIONS")).status).toBe(403)
  })

  test("an allowed page can read a refusal", async () => {
    const { status, headers } = await listener().ask("/mcp", { origin: PAGE })
    expect([status, headers.get("access-control-allow-origin"), headers.get("vary")]).toEqual([401, PAGE, "Origin"])
  })

  test("a wrong Host is refused before the token is checked", async () => {
    const { ask, all, reached } = listener()
    for (const headers of [{}, bearer("forged"), bearer(all)])
      for (const path of ["/mcp", "/health", "/metrics", METADATA, "/oauth/callback", "/missing"])
        expect([path, (await ask(path, { host: "evil.example", ...headers })).status]).toEqual([path, 403])
    expect(reached).toMatchObject({ verifications: 0, reports: 0, limited: 0 })
  })

  test("metrics can only be read", async () => {
    const { ask, all } = listener()
    const { status, headers } = await ask("/metrics", bearer(all), "DELETE")
    expect([status, headers.get("allow")]).toEqual([405, "GET, HEAD"])
  })

  test("a request without a token is refused before it is counted or parsed", async () => {
    const { ask, reached } = listener()
    for (let index = 0; index < 5; index++) expect((await ask("/health/mcp")).status).toBe(401)
    for (const path of ["/metrics", "/mcp", "/servers/shop/mcp", "/sse", "/messages", "/missing"])
      expect([path, (await ask(path)).status]).toEqual([path, 401])
    expect(reached.reports).toBe(0)
    expect((await ask("/health")).headers.get("ratelimit-remaining")).toBe("1")
  })

  test("health requests are counted before a report is made, and the responses state the limit", async () => {
    const { ask, reached } = listener()
    for (const path of ["/health", "/health/live"]) expect((await ask(path)).headers.get("ratelimit-limit")).toBe("2")
    const before = reached.reports
    const { status, headers, body } = await ask("/health/ready")
    expect([status, headers.get("retry-after"), headers.get("ratelimit-remaining"), body]).toEqual([
      429,
      "60",
      "0",
      { error: "Too many requests", retryAfter: 60 },
    ])
    expect(headers.get("cache-control")).toContain("no-store")
    expect(reached).toMatchObject({ reports: before, limited: 1 })
  })

  test("open paths need no token", async () => {
    const { ask } = listener()
    for (const path of ["/health", METADATA, `${METADATA}/mcp`])
      expect([path, (await ask(path)).status]).toEqual([path, 200])
    expect((await ask("/oauth/callback")).status).toBe(400)
    expect((await ask("/oauth/client.json")).status).toBe(404)
  })

  test("endpoints that are turned off do not exist", async () => {
    const off = { authenticate: undefined, metrics: undefined, healthLimit: undefined }
    const { ask } = listener(off)
    expect((await ask("/metrics")).status).toBe(404)
    const { status, headers } = await ask("/health/mcp")
    expect([status, headers.has("ratelimit-limit")]).toEqual([200, false])
  })
})

describe("the shapes of errors [inbound:errors]", () => {
  test("each refusal has the shape of its path", async () => {
    const { ask, all, team } = listener()
    const rpc = (message: string, code = -32600) => ({ jsonrpc: "2.0", error: { code, message } })
    const full = bearer(all)
    for (const [path, method, headers, status, body] of [
      ["/mcp", "POST", {}, 401, rpc("Send a bearer token in the Authorization header")],
      ["/metrics", "GET", {}, 401, { error: "Send a bearer token in the Authorization header" }],
      [
        "/metrics",
        "GET",
        bearer(team),
        403,
        { error: "/metrics reports on all servers, but this token is limited to some tags or presets" },
      ],
      ["/mcp", "PUT", full, 405, rpc("Method not allowed")],
      ["/sse", "POST", full, 405, rpc("Method not allowed")],
      ["/messages", "GET", full, 405, rpc("Method not allowed")],
      ["/mcp?tags=", "POST", full, 400, rpc("tags is empty", -32602)],
      ["/servers/missing/mcp", "POST", full, 404, rpc("No server is named missing", -32602)],
      ["/servers/%zz/mcp", "POST", full, 404, rpc("No server is named %zz", -32602)],
      ["/servers/shop/mcp", "POST", bearer(team), 404, rpc("No server is named shop", -32602)],
      ["/missing", "GET", full, 404, { error: "There is no endpoint /missing; MCP is at /mcp" }],
      ["/health/mcp/missing", "GET", full, 404, { error: "No server has this name", timestamp: expect.any(String) }],
    ] as const) {
      const response = await ask(path, headers, method)
      expect([path, response.status, response.body]).toEqual([path, status, body])
    }
  })

  test("the answer to a wrong method names the right ones", async () => {
    const { ask, all } = listener()
    const allow = async (path: string, method: string) => (await ask(path, bearer(all), method)).headers.get("allow")
    expect(await allow("/sse", "POST")).toBe("GET")
    expect(await allow("/messages", "GET")).toBe("POST")
    expect(await allow("/health", "POST")).toBe("GET, HEAD")
  })

  test("a browser gets a page whose text is escaped", async () => {
    const { status, headers, body } = await listener().ask("/oauth/callback?code=x")
    expect([status, headers.get("content-type")]).toEqual([400, "text/html; charset=utf-8"])
    expect(body).toContain("&#60;no such authorization&#62;")
  })

  test("a route that throws is reported, and answered with an internal error", async () => {
    const { ask, all, reached } = listener({ authenticate: undefined })
    expect(all).not.toBe("")
    const { status, body } = await ask("/sse")
    expect([status, body]).toEqual([500, { jsonrpc: "2.0", error: { code: -32603, message: "internal error" } }])
    expect(reached.bugs).toHaveLength(1)
  })
})

describe("authentication", () => {
  test("each refusal challenges, and names the metadata of its resource [auth:oauth]", async () => {
    const { ask } = listener()
    const challenge = async (path: string, headers = {}) => (await ask(path, headers)).headers.get("www-authenticate")
    const metadata = `resource_metadata="http://localhost:3050${METADATA}`
    expect(await challenge("/mcp")).toBe(`Bearer realm="svc", ${metadata}/mcp"`)
    expect(await challenge("/metrics")).toBe(`Bearer realm="svc", ${metadata}"`)
    expect(await challenge("/servers/a%20b/mcp", bearer("svc_x"))).toBe(
      `Bearer realm="svc", error="invalid_token", error_description="The token is unknown, expired or revoked", ${metadata}/servers/a%20b/mcp"`,
    )
    const basic = await ask("/mcp", { authorization: "Basic eDp5" })
    expect([basic.status, basic.headers.get("cache-control")]).toEqual([401, "no-store"])
    expect(basic.body.error.message).toBe("Authorization must be Bearer and a token")
  })

  test("a reason from a token's content cannot break out of the challenge", async () => {
    const { headers } = await listener().ask("/mcp", bearer("a.b.c"))
    expect(headers.get("www-authenticate")).toContain(`error_description="The token is not valid ('aud')'", `)
  })

  test("a token in the query is refused even beside a good header, and not repeated", async () => {
    const { ask, all } = listener()
    for (const name of ["access_token", "token", "bearer", "AUTHORIZATION"]) {
      const { status, headers, body } = await ask(`/mcp?tags=x&${name}=s3cret`, bearer(all))
      expect([status, headers.get("www-authenticate")] as unknown).toEqual([
        400,
        expect.stringContaining('error="invalid_request"'),
      ])
      expect(JSON.stringify([body, headers.toJSON()])).not.toContain("s3cret")
    }
  })

  test("a text that looks like a static token is never sent to the issuer", async () => {
    const { ask, reached } = listener()
    expect((await ask("/metrics", bearer("svc_unknown"))).status).toBe(401)
    expect(reached.verifications).toBe(0)
    expect((await ask("/metrics", bearer("a.b.c"))).status).toBe(401)
    expect(reached.verifications).toBe(1)
  })

  test("if the issuer's keys cannot be fetched, the answer is 503 with Retry-After, without a challenge", async () => {
    const { ask, answerIssuer } = listener()
    answerIssuer({ kind: "unavailable" })
    const { status, headers } = await ask("/mcp", bearer("a.b.c"))
    expect([status, headers.get("retry-after"), headers.has("www-authenticate")]).toEqual([503, "5", false])
  })

  test("a server outside of a token's scopes is 403 and names the scope; for a static token, it does not exist [auth:scopes]", async () => {
    const { ask, team, answerIssuer } = listener()
    answerIssuer({
      kind: "valid",
      claims: { holder: { kind: "subject", id: "ann" }, scopes: ["tag:team"], until: Number.POSITIVE_INFINITY },
    })
    const scoped = await ask("/servers/shop/mcp", bearer("a.b.c"), "POST")
    expect([scoped.status, scoped.headers.get("www-authenticate")]).toEqual([
      403,
      `Bearer realm="svc", error="insufficient_scope", scope="tag:shop", resource_metadata="http://localhost:3050${METADATA}/servers/shop/mcp"`,
    ])
    expect((await ask("/servers/shop/mcp", bearer(team), "POST")).status).toBe(404)
  })

  test("the metadata of svc under a path is at both addresses, and has the resource once [inbound:prefix]", async () => {
    const { ask } = listener({}, "https://gw.example/svc")
    for (const [path, resource] of [
      ["/svc/mcp", "https://gw.example/svc/mcp"],
      ["/mcp", "https://gw.example/svc/mcp"],
      ["/svc/servers/svc/mcp", "https://gw.example/svc/servers/svc/mcp"],
      ["/svc", "https://gw.example/svc"],
      ["", "https://gw.example/svc"],
    ])
      expect((await ask(`${METADATA}${path}`)).body.resource).toBe(resource)
  })

  test("the metadata names the scopes that the issuer knows", async () => {
    expect((await listener().ask(`${METADATA}/mcp`)).body).toEqual({
      resource: "http://localhost:3050/mcp",
      authorization_servers: ["https://issuer.example"],
      scopes_supported: ["tag:team"],
      bearer_methods_supported: ["header"],
      resource_name: "svc",
    })
  })
})

test("an Inbound has the path and the query of every spelling of a URL", () => {
  const read = (url: string) => {
    const { path, slash, search } = createInbound({ url } as Request, () => "")
    return [path, search, slash].filter((part, at) => at < 2 || part !== "")
  }
  expect(read("http://localhost:3050/mcp?tags=a")).toEqual(["/mcp", "?tags=a"])
  expect(read("http://localhost")).toEqual(["/", ""])
  expect(read("http://localhost?tags=a/b")).toEqual(["/", "?tags=a/b"])
  expect(read("/mcp?x=/y")).toEqual(["/mcp", "?x=/y"])
  expect(read("/mcp")).toEqual(["/mcp", ""])
  expect(read("/mcp/")).toEqual(["/mcp", "", "/"])
  expect(read("http://localhost/health/live//?x=/")).toEqual(["/health/live", "?x=/", "//"])
  expect(read("http://localhost/?x")).toEqual(["/", "?x"])
  expect(read("http://localhost//")).toEqual(["/", "", "/"])
})

describe("a slash at the end of an address changes nothing [inbound:slash]", () => {
  test("each route, refusal and open path answers the same", async () => {
    const { ask, all, team } = listener({ healthLimit: undefined })
    for (const path of [
      ...["/mcp", "/servers/shop/mcp", "/servers/missing/mcp", "/sse", "/messages", "/metrics", "/missing"],
      ...["/health", "/health/live", "/health/ready", "/health/mcp", "/health/mcp/missing", "/oauth/callback"],
    ])
      for (const headers of [{}, bearer(all), bearer(team)])
        for (const method of ["GET", "PUT"]) {
          const [plain, slashed] = [await ask(path, headers, method), await ask(`${path}/`, headers, method)]
          expect([path, slashed.status, slashed.body]).toEqual([path, plain.status, plain.body])
        }
  })

  test("the metadata and the challenge name the resource as the client wrote it", async () => {
    const { ask } = listener()
    for (const path of ["/mcp", "/mcp/", "/servers/shop/mcp/"]) {
      const { headers } = await ask(path)
      expect(headers.get("www-authenticate")).toContain(`resource_metadata="http://localhost:3050${METADATA}${path}"`)
      expect((await ask(`${METADATA}${path}`)).body.resource).toBe(`http://localhost:3050${path}`)
    }
  })
})
