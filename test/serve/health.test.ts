import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import type { Snapshot } from "../../src/agent/snapshot.ts"
import type { HealthLevel } from "../../src/report/health.ts"
import { createHealth, type HealthDeps, UNCACHED } from "../../src/serve/health.ts"
import { createInbound } from "../../src/serve/inbound.ts"
import { ANONYMOUS, type Principal } from "../../src/serve/principal.ts"
import { backend, facts, NOW, STATES, snapshot } from "../report/snapshots.ts"

const depsOf = (shown: Snapshot, level: HealthLevel = "minimal"): HealthDeps => ({
  level,
  now: () => NOW,
  facts: () => facts,
  redactAll: (text) => text.replace("away", "•"),
  snapshot: () => shown,
  presets: () => new Map(),
})

/** Answers one request; 418 means that it was passed on. */
async function ask(deps: HealthDeps, path: string, method = "GET", principal: Principal = ANONYMOUS) {
  const inbound = { ...createInbound(new Request(`http://x${path}`, { method }), () => ""), principal }
  return await createHealth(deps)(inbound, () => new Response(null, { status: 418 }))
}

type LoadingBody = {
  readonly loading: { readonly isComplete: boolean; readonly successRate: number }
  readonly summary: Readonly<
    Record<"total" | "pending" | "loading" | "ready" | "failed" | "awaitingOAuth" | "cancelled", number>
  >
  readonly servers: {
    readonly byState: Readonly<Record<string, readonly string[]>>
    readonly details: Readonly<Record<string, { readonly state: string }>>
  }
}
type HealthBody = {
  readonly servers: {
    readonly healthy: number
    readonly details: readonly { readonly name: string; readonly healthy: boolean }[]
  }
}

describe("/health", () => {
  test("headers repeat the body, and the status follows it [health:http:headers] [health:http:status] [health:report:version] [health:report:uptime] [health:report:timestamp] [health:status:values]", async () => {
    for (const [backends, status, verdict] of [
      [[backend("connected")], 200, "healthy"],
      [[], 200, "degraded"],
      [[backend("failed")], 503, "unhealthy"],
    ] as const) {
      const response = await ask(depsOf(snapshot(backends)), "/health")
      expect(response.status).toBe(status)
      expect(response.headers.toJSON()).toEqual({
        "content-type": "application/json",
        "cache-control": "no-cache, no-store, must-revalidate",
        "x-health-status": verdict,
        "x-service-version": "1.2.3",
        "x-uptime-seconds": "77",
      })
      expect(await response.json()).toMatchObject({
        status: verdict,
        timestamp: "2026-01-02T03:04:05.678Z",
        version: "1.2.3",
        system: { uptime: 77 },
      })
    }
  })

  test("before a configuration is loaded /health and /health/ready are 503, /health/mcp is 404 [health:http:not-loaded]", async () => {
    const deps = depsOf(snapshot([], false))
    for (const [path, status] of [
      ["/health", 503],
      ["/health/ready", 503],
      ["/health/mcp", 404],
      ["/health/mcp/web", 404],
      ["/health/live", 200],
    ] as const)
      expect([path, (await ask(deps, path)).status]).toEqual([path, status])
  })

  test("a report that throws is 500 with a redacted reason, and svc is still alive [health:http:failure] [health:live]", async () => {
    const deps = {
      ...depsOf(snapshot([]), "full"),
      snapshot(): Snapshot {
        throw new Error("the heap went away")
      },
    }
    const response = await ask(deps, "/health")
    expect(response.status).toBe(500)
    expect(await response.json()).toEqual({
      status: "unhealthy",
      timestamp: "2026-01-02T03:04:05.678Z",
      error: "Health check failed",
      message: "the heap went •",
    })
    const live = await ask(deps, "/health/live")
    expect([live.status, await live.json()]).toEqual([200, { status: "alive", timestamp: "2026-01-02T03:04:05.678Z" }])
  })

  test("a wrong method is 405 with Allow and an unknown path 404, both JSON and uncached [health:http:method]", async () => {
    const deps = depsOf(snapshot([]))
    const post = await ask(deps, "/health", "POST")
    expect([post.status, post.headers.get("allow"), await post.json()]).toEqual([
      405,
      "GET, HEAD",
      { error: "Method not allowed" },
    ])
    const lost = await ask(deps, "/health/x")
    expect([lost.status, await lost.json()]).toEqual([404, { error: "There is no such health report" }])
    for (const response of [post, lost]) expect(response.headers.get("cache-control")).toBe(UNCACHED["cache-control"])
  })

  test("other paths are passed on", async () => {
    for (const path of ["/healthy", "/mcp", "/"]) expect((await ask(depsOf(snapshot([])), path)).status).toBe(418)
  })

  test("a principal with tags sees only its servers", async () => {
    const [seen, other] = [backend("connected", "seen"), backend("failed", "other")]
    const tagged = { ...seen, spec: { ...seen.spec, tuning: { ...seen.spec.tuning, tags: ["team"] } } }
    const deps = depsOf(snapshot([tagged, other]), "basic")
    const team = { ...ANONYMOUS, name: "token 1", tags: ["team"], untagged: false, admin: false }
    expect(await (await ask(deps, "/health/mcp", "GET", team)).json()).toMatchObject({ summary: { total: 1 } })
    expect((await ask(deps, "/health/mcp/other", "GET", team)).status).toBe(404)
    expect((await ask(deps, "/health/mcp/other")).status).toBe(503)
  })
})

describe("/health/mcp", () => {
  test("is 202 until loading is complete, with its progress in headers [health:mcp:collection]", async () => {
    const loading = { ...backend("starting", "slow"), loading: { startedAt: NOW - 500, endedAt: undefined } }
    const loaded = { ...backend("connected"), loading: { startedAt: NOW - 3000, endedAt: NOW - 1000 } }
    for (const [backends, status, complete, rate] of [
      [[loaded, loading], 202, "false", "50"],
      [[loaded], 200, "true", "100"],
    ] as const) {
      const { status: actual, headers } = await ask(depsOf(snapshot(backends)), "/health/mcp")
      expect([actual, headers.get("x-loading-complete"), headers.get("x-success-rate")] as unknown).toEqual([
        status,
        complete,
        rate,
      ])
    }
  })

  test("while a loaded server restarts, loading stays complete and the server counts as failed [health:mcp:restarting]", async () => {
    const loading = { startedAt: NOW - 3000, endedAt: NOW - 1000 }
    for (const kind of ["waiting", "recovering"] as const) {
      const response = await ask(depsOf(snapshot([{ ...backend(kind, "b"), loading }]), "basic"), "/health/mcp")
      const { status, headers } = response
      expect([status, headers.get("x-loading-complete"), headers.get("x-success-rate")]).toEqual([200, "true", "0"])
      expect(await response.json()).toMatchObject({
        loading: { isComplete: true, successRate: 0 },
        summary: { total: 1, loading: 0, failed: 1 },
        servers: { byState: { restarting: ["b"] } },
      })
    }
  })

  test("no part of a report contradicts another, whatever the servers are [health:mcp:consistent]", async () => {
    const time = fc.option(fc.integer({ min: NOW - 10_000, max: NOW }), { nil: undefined })
    const anyServer = fc.record({
      kind: fc.constantFrom(...(Object.keys(STATES) as (keyof typeof STATES)[])),
      restart: fc.constantFrom("supervised", "never", "reconnect" as const),
      loading: fc.record({ startedAt: time, endedAt: time }),
    })
    const issue = { code: "server", severity: "error", message: "it is not loaded", server: "left-out" } as const
    await fc.assert(
      fc.asyncProperty(fc.array(anyServer, { maxLength: 8 }), fc.boolean(), async (servers, hasIssue) => {
        const backends = servers.map(({ kind, restart, loading }, index) => ({
          ...backend(kind, `s${index}`, restart),
          loading,
        }))
        const shown = { ...snapshot(backends), templates: ["t"], issues: hasIssue ? [issue] : [] }
        const response = await ask(depsOf(shown, "full"), "/health/mcp")
        const { loading, summary, servers: listed } = (await response.json()) as LoadingBody
        const { total, ...counts } = summary
        const ids = backends.map(({ spec }) => spec.id)
        expect(total).toBe(ids.length)
        expect(Object.values(counts).reduce((sum, count) => sum + count, 0)).toBe(total)
        expect(Object.values(listed.byState).flat().sort()).toEqual(ids.toSorted())
        expect(Object.keys(listed.details).sort()).toEqual(ids.toSorted())
        for (const [state, members] of Object.entries(listed.byState))
          for (const id of members) expect(listed.details[id]?.state).toBe(state)
        const ofState = (...states: string[]) => states.flatMap((state) => listed.byState[state] ?? []).length
        expect(counts).toEqual({
          pending: ofState("pending"),
          loading: ofState("loading"),
          ready: ofState("ready"),
          failed: ofState("failed", "restarting", "crash-loop"),
          awaitingOAuth: ofState("awaiting_oauth"),
          cancelled: ofState("stopped"),
        })
        expect(loading.isComplete).toBe(counts.pending + counts.loading === 0)
        expect(loading.successRate).toBe(total === 0 ? 100 : Math.round((counts.ready / total) * 1000) / 10)
        expect(response.status).toBe(loading.isComplete ? 200 : 202)
        expect(response.headers.get("x-loading-complete")).toBe(String(loading.isComplete))
        expect(response.headers.get("x-success-rate")).toBe(String(loading.successRate))
        const { servers: health } = (await (await ask(depsOf(shown, "full"), "/health")).json()) as HealthBody
        expect(health).toMatchObject({ total, unhealthy: total - health.healthy })
        expect(health.details.filter(({ healthy }) => healthy)).toHaveLength(health.healthy)
        expect(health.details.map(({ name }) => name)).toEqual(ids)
        for (const id of ids) {
          const one = await ask(depsOf(shown, "full"), `/health/mcp/${id}`)
          expect(one.headers.get("x-server-state")).toBe(listed.details[id]?.state as string)
        }
      }),
    )
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
  ] as const)("a server %s is %p [health:mcp:server]", async (kind, status, state) => {
    const it = { ...backend(kind, "it"), loading: { startedAt: NOW - 3000, endedAt: NOW - 1000 } }
    const response = await ask(depsOf(snapshot([it])), "/health/mcp/it")
    expect([response.status, response.headers.get("x-server-state")] as unknown).toEqual([status, state])
    expect(await response.json()).toMatchObject({ state })
  })

  test("a disabled server is 503, an idle template 200, an unknown name 404 without a state", async () => {
    const deps = depsOf({ ...snapshot([]), templates: ["t"] })
    const read = async (name: string) => {
      const { status, headers } = await ask(deps, `/health/mcp/${name}`)
      return [status, headers.get("x-server-state")]
    }
    expect(await read("off")).toEqual([503, "stopped"])
    expect(await read("t")).toEqual([200, "idle"])
    expect(await read("missing")).toEqual([404, null])
  })
})
