import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import type { BackendSnapshot, Snapshot } from "../../src/agent/snapshot.ts"
import type { BackendState } from "../../src/backend/supervision.ts"
import { createRedactor } from "../../src/lib/redact.ts"
import {
  type HealthLevel,
  healthReport,
  livenessReport,
  overallHealth,
  type ProcessFacts,
  readinessReport,
} from "../../src/report/health.ts"
import { loadingReport, serverReport } from "../../src/report/loading.ts"
import { createHealth } from "../../src/serve/health.ts"
import { ANONYMOUS } from "../../src/serve/principal.ts"

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5, 678)
const facts: ProcessFacts = {
  now: NOW,
  version: "1.2.3",
  uptimeSeconds: 77,
  heapUsed: 30 * 1024 * 1024,
  heapTotal: 90 * 1024 * 1024,
  pid: 42,
  runtime: "bun 1.4.5",
  platform: "linux",
  arch: "x64",
  authEnabled: false,
}

const STATES: Record<BackendState["kind"], BackendState> = {
  stopped: { kind: "stopped", epoch: 1 },
  starting: { kind: "starting", epoch: 1, since: NOW },
  connected: { kind: "connected", epoch: 1, since: NOW - 1000, pid: 7, attempt: 0 },
  waiting: { kind: "waiting", epoch: 1, attempt: 2, retryAt: NOW + 2000 },
  recovering: { kind: "recovering", epoch: 1, attempt: 2, since: NOW },
  crashed: { kind: "crashed", epoch: 1, attempt: 5, at: NOW },
  failed: { kind: "failed", epoch: 1, at: NOW },
  unauthorized: { kind: "unauthorized", epoch: 1, at: NOW },
}

function backend(
  kind: BackendState["kind"],
  name = kind as string,
  restart: "supervised" | "never" | "reconnect" = "supervised",
): BackendSnapshot {
  const connected = kind === "connected"
  return {
    spec: {
      id: name,
      name,
      slug: name,
      secrets: [],
      launch: { transport: "stdio", command: "x", args: [], cwd: undefined, env: {}, stderr: "pipe", mode: "auto" },
      tuning: {
        tags: [],
        disabledTools: [],
        toolDescriptionOverrides: {},
        connectionTimeout: 1,
        requestTimeout: 1,
        restart: { kind: restart, limit: 5, delay: 1000 },
        isolation: "shared",
        idleTimeout: 600_000,
        maxProcesses: 50,
        toolPinning: "report",
      },
    },
    state: STATES[kind],
    template: undefined,
    lastConnected: connected ? NOW - 1000 : undefined,
    lastError: connected ? undefined : "went away",
    lastExit: undefined,
    loading: { startedAt: undefined, endedAt: undefined },
    restartCount: 3,
    lastTransportFailure: undefined,
    responsive: true,
    listed: connected
      ? {
          era: "legacy",
          protocolVersion: "2025-11-25",
          tools: 1,
          prompts: 2,
          resources: 3,
          resourceTemplates: 4,
          failing: [],
        }
      : undefined,
    authorizationUrl: undefined,
    changedTools: [],
    suspiciousTools: [],
  }
}

const snapshot = (backends: readonly BackendSnapshot[], loaded = true): Snapshot => ({
  startedAt: NOW - 77_000,
  loaded,
  backends,
  templates: [],
  disabled: loaded ? ["off"] : [],
  issues: [],
  generation: 1,
})

const at = (level: HealthLevel) => ({
  level,
  count: undefined,
  now: () => NOW,
  redactAll: (text: string) => text.replace("away", "•"),
})

/** The paths of all fields of a body. */
function fields(value: unknown, prefix = ""): string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [prefix]
  return Object.entries(value).flatMap(([key, inner]) => fields(inner, prefix === "" ? key : `${prefix}.${key}`))
}

describe("overall", () => {
  test.each([
    [false, 0, 0, "unhealthy"],
    [false, 2, 2, "unhealthy"],
    [true, 0, 0, "degraded"],
    [true, 3, 3, "healthy"],
    [true, 3, 2, "degraded"],
    [true, 2, 1, "unhealthy"],
    [true, 3, 0, "unhealthy"],
  ] as const)("loaded %p, %p servers, %p healthy: %s", (loaded, total, healthy, expected) => {
    expect(overallHealth(loaded, total, healthy)).toBe(expected)
  })
  test("the boundaries are those of the table [health:overall:not-loaded] [health:overall:all] [health:overall:none] [health:overall:half]", () => {
    expect([
      overallHealth(false, 1, 1),
      overallHealth(true, 1, 1),
      overallHealth(true, 0, 0),
      overallHealth(true, 4, 2),
    ]).toEqual(["unhealthy", "healthy", "degraded", "unhealthy"])
  })
})

describe("/health", () => {
  const mixed = snapshot([backend("connected", "a"), backend("connected", "b"), backend("failed", "c")])

  test("minimal tells counts and no error text [health:level:minimal] [health:report:servers] [health:report:configuration]", () => {
    const { body, status } = healthReport(mixed, facts, at("minimal"))
    expect(status).toBe(200)
    expect(body).toEqual({
      status: "degraded",
      timestamp: "2026-01-02T03:04:05.678Z",
      version: "1.2.3",
      system: { uptime: 77, memory: { percentage: 33.3 } },
      servers: { total: 3, healthy: 2, unhealthy: 1 },
      configuration: {
        loaded: true,
        serverCount: 4,
        enabledCount: 3,
        disabledCount: 1,
        authEnabled: false,
        transport: "http",
      },
    })
  })

  test("basic adds these fields and no others [health:level:basic] [health:report:absent]", () => {
    const { body } = healthReport(mixed, facts, at("basic"))
    expect(fields({ ...body, servers: undefined }).filter((path) => path.startsWith("system."))).toEqual([
      "system.uptime",
      "system.memory.used",
      "system.memory.total",
      "system.memory.percentage",
      "system.process.nodeVersion",
      "system.process.platform",
    ])
    const { details } = body.servers as { details: unknown[] }
    expect(details[0]).toEqual({
      name: "a",
      status: "connected",
      healthy: true,
      lastConnected: "2026-01-02T03:04:04.678Z",
      tags: [],
    })
    expect(details[2]).toEqual({ name: "c", status: "error", healthy: false, lastError: "went •", tags: [] })
  })

  test("full adds these fields and no others [health:level:full] [health:report:memory]", () => {
    const { body } = healthReport(mixed, facts, at("full"))
    expect(body.system).toEqual({
      uptime: 77,
      memory: { used: 30, total: 90, percentage: 33.3 },
      process: { pid: 42, nodeVersion: "bun 1.4.5", platform: "linux", arch: "x64" },
    })
    const { details } = body.servers as { details: object[] }
    expect(Object.keys(details[0] ?? {})).toEqual([
      "name",
      "status",
      "healthy",
      "lastConnected",
      "tags",
      "type",
      "attempt",
      "protocolVersion",
      "era",
      "tools",
      "resources",
      "prompts",
    ])
  })

  test("full tells what is wrong with the document, and where in it, but not where it lies", () => {
    const issue = {
      code: "json",
      severity: "error",
      message: "not JSON",
      file: "/home/ada/my svc/mcp.json",
      line: 3,
    } as const
    const { redactAll } = createRedactor([])
    const { body } = healthReport({ ...mixed, issues: [issue] }, facts, { ...at("full"), redactAll })
    expect(body.issues).toEqual(["mcp.json:3: not JSON"])
  })

  test("a server that is left out of the configuration counts as one that is down", () => {
    const issue = {
      code: "server",
      severity: "error",
      message: "web is left out: it went away",
      server: "web",
    } as const
    const rest = { ...issue, severity: "warning" } as const
    const known = [
      { ...issue, server: "connected" },
      { ...issue, server: "off" },
      { ...rest, server: "other" },
    ]
    const there = { ...backend("connected"), loading: { startedAt: NOW - 3000, endedAt: NOW - 1000 } }
    const whole = { ...snapshot([there]), issues: [issue, ...known] }
    const { status, body } = healthReport(whole, facts, at("basic"))
    expect([status, body.status]).toEqual([503, "unhealthy"])
    expect(body.servers).toMatchObject({
      total: 2,
      healthy: 1,
      unhealthy: 1,
      details: [{ name: "connected" }, { name: "web", status: "error", lastError: "web is left out: it went •" }],
    })
    expect(body.configuration).toMatchObject({ serverCount: 3, enabledCount: 2, disabledCount: 1 })
    expect(loadingReport(whole, facts, at("basic")).body).toMatchObject({
      loading: { isComplete: true, successRate: 50 },
      summary: { total: 2, ready: 1, failed: 1 },
      servers: { byState: { failed: ["web"] }, details: { web: { state: "failed", error: expect.anything() } } },
      degraded: true,
    })
    const one = serverReport("web", whole, facts, at("minimal"))
    expect([one.status, one.headers, one.body]).toEqual([
      503,
      { "x-server-state": "failed" },
      { name: "web", state: "failed", timestamp: expect.any(String) },
    ])
    expect(serverReport("other", whole, facts, at("minimal")).status).toBe(404)
  })

  test("memory is never more than all of it", () => {
    const { body } = healthReport(mixed, { ...facts, heapUsed: facts.heapTotal * 1.2 }, at("basic"))
    expect(body.system).toEqual(expect.objectContaining({ memory: { used: 108, total: 108, percentage: 100 } }))
  })

  test("headers repeat the body, and the status follows it [health:http:headers] [health:http:status] [health:report:version] [health:report:uptime] [health:report:timestamp] [health:status:values]", async () => {
    for (const [backends, expected] of [
      [[backend("connected")], [200, "healthy"]],
      [[], [200, "degraded"]],
      [[backend("failed")], [503, "unhealthy"]],
    ] as const) {
      const deps = { ...at("minimal"), snapshot: () => snapshot(backends), facts: () => facts }
      const response = createHealth(deps)(new Request("http://x/health"), "/health", () => "", ANONYMOUS)
      expect([response?.status, response?.headers.get("x-health-status")] as unknown).toEqual(expected)
      expect(response?.headers.get("content-type")).toBe("application/json")
      expect(response?.headers.get("cache-control")).toBe("no-cache, no-store, must-revalidate")
      expect([response?.headers.get("x-service-version"), response?.headers.get("x-uptime-seconds")]).toEqual([
        "1.2.3",
        "77",
      ])
      expect(await response?.json()).toMatchObject({
        status: expected[1],
        timestamp: "2026-01-02T03:04:05.678Z",
        version: "1.2.3",
        system: { uptime: 77 },
      })
    }
  })

  test("not loaded is 503 with zero counts, ready too [health:http:not-loaded]", () => {
    const { body, status } = healthReport(snapshot([], false), facts, at("minimal"))
    expect([status, body.status, body.configuration]).toEqual([
      503,
      "unhealthy",
      { loaded: false, serverCount: 0, enabledCount: 0, disabledCount: 0, authEnabled: false, transport: "http" },
    ])
    expect(readinessReport(snapshot([], false), facts, at("minimal"))).toMatchObject({
      status: 503,
      body: { status: "not_ready" },
    })
  })

  test("a disabled server counts in the configuration alone [health:report:disabled]", () => {
    const { body } = healthReport(snapshot([backend("connected")]), facts, at("minimal"))
    expect([body.servers, body.configuration]).toMatchObject([{ total: 1 }, { serverCount: 2, disabledCount: 1 }])
  })

  test("a server is not healthy without answers or with a failed transport [health:healthy:server]", () => {
    const one = backend("connected")
    for (const [change, healthy] of [
      [{}, 1],
      [{ responsive: false }, 0],
      [{ lastTransportFailure: NOW - 59_000 }, 0],
      [{ lastTransportFailure: NOW - 61_000 }, 1],
    ] as const)
      expect(healthReport(snapshot([{ ...one, ...change }]), facts, at("minimal")).body.servers).toMatchObject({
        healthy,
      })
  })

  test("a report that throws is 500 with a redacted reason [health:http:failure]", async () => {
    const deps = {
      ...at("full"),
      facts: () => facts,
      snapshot(): Snapshot {
        throw new Error("the heap went away")
      },
    }
    const response = createHealth(deps)(new Request("http://x/health"), "/health", () => "", ANONYMOUS)
    expect(response?.status).toBe(500)
    expect(await response?.json()).toEqual({
      status: "unhealthy",
      timestamp: "2026-01-02T03:04:05.678Z",
      error: "Health check failed",
      message: "the heap went •",
    })
  })

  test("a wrong method is 405 with Allow and an unknown path 404, both JSON [health:http:method]", async () => {
    const deps = { ...at("minimal"), snapshot: () => snapshot([]), facts: () => facts }
    const post = createHealth(deps)(new Request("http://x/health", { method: "POST" }), "/health", () => "", ANONYMOUS)
    expect([post?.status, post?.headers.get("allow"), typeof (await post?.json())]).toEqual([
      405,
      "GET, HEAD",
      "object",
    ])
    const lost = createHealth(deps)(new Request("http://x/health/x"), "/health/x", () => "", ANONYMOUS)
    expect([lost?.status, typeof (await lost?.json())]).toEqual([404, "object"])
    expect(createHealth(deps)(new Request("http://x/healthy"), "/healthy", () => "", ANONYMOUS)).toBeUndefined()
  })
})

test("/health/live is alive [health:live]", () => {
  expect(livenessReport(facts)).toEqual({
    status: 200,
    body: { status: "alive", timestamp: "2026-01-02T03:04:05.678Z" },
    headers: {},
  })
})

describe("/health/ready", () => {
  test.each([
    ["connected", 200],
    ["stopped", 200],
    ["starting", 200],
    ["waiting", 503],
    ["recovering", 503],
    ["crashed", 503],
    ["unauthorized", 200],
  ] as const)("with a supervised backend %s: %p", (kind, status) => {
    expect(readinessReport(snapshot([backend(kind)]), facts, at("minimal")).status).toBe(status)
  })

  test("only supervised backends hold it back [health:ready:loaded] [health:ready:restarting] [health:ready:crash-loop] [health:ready:no-threshold] [supervise:remote]", () => {
    const ready = (one: BackendSnapshot) => readinessReport(snapshot([one]), facts, at("minimal")).body.status
    expect(ready(backend("waiting"))).toBe("not_ready")
    expect(ready(backend("crashed"))).toBe("not_ready")
    expect(ready(backend("waiting", "r", "reconnect"))).toBe("ready")
    expect(ready(backend("failed", "f", "never"))).toBe("ready")
  })

  test("minimal counts supervised backends [health:supervision:minimal]", () => {
    const all = Object.keys(STATES).map((kind) => backend(kind as BackendState["kind"]))
    const { body } = readinessReport(snapshot([...all, backend("waiting", "r", "reconnect")]), facts, at("minimal"))
    expect(body.backendSupervision).toEqual({ total: 8, connected: 1, restarting: 2, crashLoop: 1, stopped: 3 })
  })

  test("basic and full list them, full with process ids [health:supervision:basic] [health:supervision:full]", () => {
    const two = snapshot([backend("connected", "a"), backend("waiting", "b")])
    const basic = readinessReport(two, facts, at("basic")).body.backendSupervision as Record<string, object>
    expect(basic.b).toEqual({
      backendId: "b",
      state: "restarting",
      attempt: 2,
      limit: 5,
      nextRetryAt: "2026-01-02T03:04:07.678Z",
      lastExit: null,
      lastError: "went •",
    })
    const full = readinessReport(two, facts, at("full")).body.backendSupervision as Record<string, object>
    expect(Object.keys(full.a ?? {}).slice(-4)).toEqual(["pid", "startedAt", "stableSince", "restartCount"])
    expect(full.a).toMatchObject({ pid: 7 })
  })
})

describe("/health/mcp", () => {
  const loaded = (kind: BackendState["kind"], name?: string): BackendSnapshot => ({
    ...backend(kind, name),
    loading: { startedAt: NOW - 3000, endedAt: NOW - 1000 },
  })
  const loading: BackendSnapshot = {
    ...backend("starting", "slow"),
    loading: { startedAt: NOW - 500, endedAt: undefined },
  }

  test("tells how loading goes, with names from basic on [health:mcp:collection]", () => {
    const some = snapshot([loaded("connected", "a"), loaded("failed", "b"), loading])
    const minimal = loadingReport(some, facts, at("minimal"))
    expect([minimal.status, minimal.headers]).toEqual([
      202,
      { "x-loading-complete": "false", "x-success-rate": "33.3" },
    ])
    expect(minimal.body).toEqual({
      loading: { isComplete: false, startTime: "2026-01-02T03:02:48.678Z", successRate: 33.3, averageLoadTime: 2000 },
      summary: { total: 3, pending: 0, loading: 1, ready: 1, failed: 1, awaitingOAuth: 0, cancelled: 0 },
      backendSupervision: { total: 3, connected: 1, restarting: 0, crashLoop: 0, stopped: 1 },
      degraded: true,
      timestamp: "2026-01-02T03:04:05.678Z",
    })
    const basic = loadingReport(some, facts, at("basic")).body.servers
    expect(basic).toMatchObject({
      byState: { ready: ["a"], failed: ["b"], loading: ["slow"] },
      details: { b: { error: "went •", duration: 2000 } },
    })
    expect(loadingReport(snapshot([loaded("connected")]), facts, at("minimal")).status).toBe(200)
    expect(loadingReport(snapshot([], false), facts, at("minimal")).status).toBe(404)
  })

  test.each([
    ["connected", 200, "ready"],
    ["starting", 202, "loading"],
    ["waiting", 503, "restarting"],
    ["recovering", 503, "restarting"],
    ["crashed", 503, "crash-loop"],
    ["failed", 503, "failed"],
    ["unauthorized", 200, "awaiting_oauth"],
    ["stopped", 503, "stopped"],
  ] as const)("a server %s is %p [health:mcp:server]", (kind, status, state) => {
    const report = serverReport("it", snapshot([loaded(kind, "it")]), facts, at("minimal"))
    expect([report.status, report.headers["x-server-state"], report.body.state]).toEqual([status, state, state])
  })

  test("an unknown name is 404, and the worst instance of a template decides", () => {
    expect(serverReport("nobody", snapshot([]), facts, at("full")).status).toBe(404)
    const instance = (kind: BackendState["kind"], id: string) => ({
      ...loaded(kind, id),
      spec: { ...backend(kind).spec, id, name: "t", slug: "t" },
      template: "t",
    })
    const report = serverReport(
      "t",
      snapshot([instance("connected", "t#1"), instance("crashed", "t#2")]),
      facts,
      at("basic"),
    )
    expect([report.status, report.body.instances]).toEqual([
      503,
      [
        { id: "t#1", state: "ready" },
        { id: "t#2", state: "crash-loop" },
      ],
    ])
  })
})

test("no secret, path, URL or address of an error is in any body at any level", () => {
  const word = fc.stringMatching(/^[A-Za-z0-9]{12,24}$/)
  fc.assert(
    fc.property(
      word,
      word,
      fc.ipV4(),
      fc.constantFrom("full", "basic", "minimal" as const),
      (secret, name, address, level) => {
        const lastError = `token=${secret} at /srv/${name}/x from http://${name}.example/${secret} (${address}) ${name}@example.com`
        const { redactAll } = createRedactor([])
        const bad = snapshot([
          { ...backend("failed", "bad"), lastError },
          { ...backend("crashed", "worse"), lastError },
        ])
        const options = { level, redactAll }
        const bodies = JSON.stringify(
          [healthReport, readinessReport, loadingReport]
            .map((report) => report(bad, facts, options).body)
            .concat(serverReport("bad", bad, facts, options).body),
        )
        for (const hidden of [secret, name, address]) expect(bodies).not.toContain(hidden)
      },
    ),
  )
})
