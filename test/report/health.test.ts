import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import type { BackendSnapshot } from "../../src/agent/snapshot.ts"
import type { BackendState } from "../../src/backend/supervision.ts"
import { createRedactor } from "../../src/lib/redact.ts"
import {
  type HealthLevel,
  healthOf,
  healthReport,
  livenessReport,
  overallHealth,
  readinessReport,
} from "../../src/report/health.ts"
import { loadingReport, serverReport } from "../../src/report/loading.ts"
import { backend, facts, NOW, STATES, snapshot } from "./snapshots.ts"

const at = (level: HealthLevel) => ({
  level,
  redactAll: (text: string) => text.replace("away", "•"),
})

/** Returns the paths of all fields of a body. */
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
  test("the boundaries match the table [health:overall:not-loaded] [health:overall:all] [health:overall:none] [health:overall:half]", () => {
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

  test("a server that refused svc has the reason as a field [health:refusal]", () => {
    const refused = { ...backend("unauthorized", "a"), refusal: "token needed" } as const
    const of = (level: HealthLevel) =>
      healthReport(snapshot([refused, backend("connected", "b")]), facts, at(level)).body as {
        readonly servers: { readonly details: readonly object[] }
      }
    for (const level of ["basic", "full"] as const) {
      const [a, b] = of(level).servers.details
      expect(a).toMatchObject({ status: "awaiting_oauth", refusal: "token needed" })
      expect(b).not.toHaveProperty("refusal")
    }
    expect(of("minimal").servers).not.toHaveProperty("details")
  })

  test("minimal has counts and no error text [health:level:minimal] [health:report:servers] [health:report:configuration]", () => {
    const { verdict, body } = healthReport(mixed, facts, at("minimal"))
    expect(verdict).toBe("degraded")
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
        invalidCount: 0,
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
      "hiddenTools",
      "resources",
      "prompts",
    ])
  })

  test("full has the issues of the document with file name and line, without its folder", () => {
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

  test("a server that no replica runs counts as not healthy [health:report:unowned]", () => {
    const reason = "runs on one replica at a time"
    const unowned = [{ name: "only", slug: "only", tags: ["t"], state: "no owner", reason }] as const
    const { verdict, body } = healthReport({ ...snapshot([backend("connected")]), unowned }, facts, at("full"))
    expect(verdict).toBe("unhealthy")
    expect(body).toMatchObject({
      servers: {
        total: 2,
        healthy: 1,
        unhealthy: 1,
        details: [
          { name: "connected" },
          { name: "only", status: "disconnected", healthy: false, lastError: reason, tags: ["t"] },
        ],
      },
      configuration: { serverCount: 3, enabledCount: 2 },
    })
  })

  test("a server that an issue keeps from running appears only in the issues and in invalidCount [health:report:left-out]", () => {
    const issue = {
      code: "server",
      severity: "error",
      message: "web is not loaded: it went away",
      server: "web",
    } as const
    const good = { ...backend("connected"), loading: { startedAt: NOW - 3000, endedAt: NOW - 1000 } }
    const whole = { ...snapshot([good]), templates: ["unused"], issues: [issue] }
    const { verdict, body } = healthReport(whole, facts, at("full"))
    expect(verdict).toBe("healthy")
    expect(body).toMatchObject({
      status: "healthy",
      servers: { total: 1, healthy: 1, unhealthy: 0, details: [{ name: "connected" }] },
      configuration: { serverCount: 3, enabledCount: 2, disabledCount: 1, invalidCount: 1 },
      issues: ["web is not loaded: it went •"],
    })
    expect(loadingReport(whole, facts, at("basic")).body).toMatchObject({
      loading: { isComplete: true, successRate: 100 },
      summary: { total: 1, ready: 1, failed: 0 },
      servers: { byState: { ready: ["connected"] } },
      degraded: false,
    })
    expect(serverReport("web", whole, facts, at("minimal"))).toEqual({
      verdict: "failed",
      body: { name: "web", state: "failed", timestamp: expect.any(String) },
    })
    expect(serverReport("other", whole, facts, at("minimal")).verdict).toBe("unknown")
  })

  test("used memory never exceeds the total", () => {
    const { body } = healthReport(mixed, { ...facts, heapUsed: facts.heapTotal * 1.2 }, at("basic"))
    expect(body.system).toEqual(expect.objectContaining({ memory: { used: 108, total: 108, percentage: 100 } }))
  })

  test("before a configuration is loaded svc is unhealthy with zero counts, and not ready [health:http:not-loaded]", () => {
    const { verdict, body } = healthReport(snapshot([], false), facts, at("minimal"))
    expect([verdict, body.status, body.configuration]).toEqual([
      "unhealthy",
      "unhealthy",
      {
        loaded: false,
        serverCount: 0,
        enabledCount: 0,
        disabledCount: 0,
        invalidCount: 0,
        authEnabled: false,
        transport: "http",
      },
    ])
    expect(readinessReport(snapshot([], false), facts, at("minimal"))).toMatchObject({
      verdict: "not_ready",
      body: { status: "not_ready" },
    })
  })

  test("a disabled server counts only under configuration [health:report:disabled]", () => {
    const { body } = healthReport(snapshot([backend("connected")]), facts, at("minimal"))
    expect([body.servers, body.configuration]).toMatchObject([{ total: 1 }, { serverCount: 2, disabledCount: 1 }])
  })

  test("a server is not healthy without answers or with a failed transport [health:healthy:server]", () => {
    const one = backend("connected")
    for (const [change, healthy] of [
      [{}, 1],
      [{ responsive: false }, 0],
      [{ lastTransportFailure: { at: NOW - 59_000, reason: "answered 502" } }, 0],
      [{ lastTransportFailure: { at: NOW - 61_000, reason: "answered 502" } }, 1],
    ] as const)
      expect(healthReport(snapshot([{ ...one, ...change }]), facts, at("minimal")).body.servers).toMatchObject({
        healthy,
      })
  })
})

test("/health/live is alive [health:live]", () => {
  expect(livenessReport(facts)).toEqual({ status: "alive", timestamp: "2026-01-02T03:04:05.678Z" })
})

describe("/health/ready", () => {
  test.each([
    ["connected", "ready"],
    ["stopped", "ready"],
    ["starting", "ready"],
    ["waiting", "not_ready"],
    ["recovering", "not_ready"],
    ["crashed", "not_ready"],
    ["unauthorized", "ready"],
  ] as const)("with a supervised backend %s: %s", (kind, verdict) => {
    expect(readinessReport(snapshot([backend(kind)]), facts, at("minimal")).verdict).toBe(verdict)
  })

  test("is held back only by supervised backends [health:ready:loaded] [health:ready:restarting] [health:ready:crash-loop] [health:ready:no-threshold] [supervise:remote]", () => {
    const ready = (one: BackendSnapshot) => readinessReport(snapshot([one]), facts, at("minimal")).body.status
    expect(ready(backend("waiting"))).toBe("not_ready")
    expect(ready(backend("crashed"))).toBe("not_ready")
    expect(ready(backend("waiting", "r", "reconnect"))).toBe("ready")
    expect(ready(backend("failed", "f", "never"))).toBe("ready")
  })

  test("is held back by a server whose replica is not known yet [cluster:one:waits]", () => {
    const report = (isPlaced: boolean) => readinessReport({ ...snapshot([]), isPlaced }, facts, at("minimal")).verdict
    expect([report(false), report(true)]).toEqual(["not_ready", "ready"])
  })

  test("minimal counts supervised backends [health:supervision:minimal]", () => {
    const all = Object.keys(STATES).map((kind) => backend(kind as BackendState["kind"]))
    const { body } = readinessReport(snapshot([...all, backend("waiting", "r", "reconnect")]), facts, at("minimal"))
    expect(body.backendSupervision).toEqual({ total: 11, connected: 4, restarting: 2, crashLoop: 1, stopped: 3 })
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

  test("a first start is starting in the entries, and counts as stopped [health:supervision:starting]", () => {
    const first = snapshot([backend("starting", "a")])
    const report = readinessReport(first, facts, at("basic"))
    expect(report).toMatchObject({
      verdict: "ready",
      body: { backendSupervision: { a: { state: "starting", attempt: 0 } } },
    })
    expect(serverReport("a", first, facts, at("basic"))).toMatchObject({
      verdict: "loading",
      body: { state: "loading", backendSupervision: { a: { state: "starting" } } },
    })
    const { backendSupervision } = readinessReport(first, facts, at("minimal")).body
    expect(backendSupervision).toEqual({ total: 1, connected: 0, restarting: 0, crashLoop: 0, stopped: 1 })
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

  test("has the progress of loading, with names from basic on [health:mcp:collection]", () => {
    const some = snapshot([loaded("connected", "a"), loaded("failed", "b"), loading])
    const minimal = loadingReport(some, facts, at("minimal"))
    expect([minimal.verdict, minimal.successRate]).toEqual(["loading", 33.3])
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
    expect(loadingReport(snapshot([loaded("connected")]), facts, at("minimal")).verdict).toBe("complete")
    expect(loadingReport(snapshot([], false), facts, at("minimal")).verdict).toBe("not_loaded")
  })

  test.each([
    ["connected", "ready"],
    ["starting", "loading"],
    ["waiting", "restarting"],
    ["recovering", "restarting"],
    ["crashed", "crash-loop"],
    ["failed", "failed"],
    ["unauthorized", "awaiting_oauth"],
    ["stopped", "stopped"],
  ] as const)("the verdict on a server %s is %s", (kind, state) => {
    const { verdict, body } = serverReport("it", snapshot([loaded(kind, "it")]), facts, at("minimal"))
    expect([verdict, body.state]).toEqual([state, state])
  })

  test("a name without a server is unknown; of a template's instances, the worst decides", () => {
    expect(serverReport("missing", snapshot([]), facts, at("full")).verdict).toBe("unknown")
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
    expect([report.verdict, report.body.instances]).toEqual([
      "crash-loop",
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

test("the report of a start without an answer for 10 s says so, and what the process does wrong [backend:unanswered]", () => {
  const { spec, ...rest } = backend("starting")
  const slow = { ...rest, spec: { ...spec, tuning: { ...spec.tuning, connectionTimeout: 300_000 } } }
  const after = (ms: number, noisy = false) => healthOf({ ...slow, noisy, lastError: undefined }, NOW + ms)
  expect(after(9_999)).toEqual({ healthy: false, reason: undefined })
  expect(after(30_400)).toEqual({ healthy: false, reason: "no answer yet (30 s of 5 min)" })
  expect(after(30_000, true)).toEqual({
    healthy: false,
    reason: "no answer yet (30 s of 5 min); it prints text on stdout that is not MCP (logs belong on stderr)",
  })
})
