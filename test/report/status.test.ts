import { expect, test } from "bun:test"
import type { BackendSnapshot } from "../../src/agent/snapshot.ts"
import { healthReport } from "../../src/report/health.ts"
import { serverReport } from "../../src/report/loading.ts"
import { statusOf, worstOf } from "../../src/report/status.ts"
import { backend, facts, NOW, snapshot } from "./snapshots.ts"

const redactAll = (text: string) => text.replace("at /srv", "•")

/** Returns the reports about one server: its status, its `/health` entry, and its `/health/mcp/:serverName` body. */
function reportsOn(server: BackendSnapshot) {
  const shown = snapshot([server])
  const options = { level: "full", redactAll } as const
  const { servers } = healthReport(shown, facts, options).body as { servers: { details: object[] } }
  return {
    status: statusOf(shown, NOW, redactAll).servers[0],
    health: servers.details[0],
    loading: serverReport(server.spec.id, shown, facts, options).body,
  }
}

const connected = { ...backend("connected", "a"), lastError: "is over at /srv" }

test("a healthy server is reported as healthy, without a past error [tools:health]", () => {
  const { status, health, loading } = reportsOn({ ...connected, lastPing: NOW - 5000 })
  expect(status).toMatchObject({
    status: "connected",
    state: "connected",
    healthy: true,
    lastPing: "2026-01-02T03:04:00.678Z",
  })
  expect(status?.lastError).toBeUndefined()
  expect(health).toMatchObject({ healthy: true, lastError: "is over •" })
  expect(loading.error).toBeUndefined()
})

test.each([
  [{ responsive: false, lastPing: NOW - 1000 }, "degraded", "does not answer pings"],
  [{ lastTransportFailure: { at: NOW - 1000, reason: "answered 502 at /srv" } }, "degraded", "answered 502 •"],
] as const)(
  "a connected server that is not healthy has the same reason in every report (%#) [tools:health]",
  (change, state, reason) => {
    const { status, health, loading } = reportsOn({ ...connected, ...change })
    expect(status).toMatchObject({ status: "connected", state, healthy: false, lastError: reason })
    expect(health).toMatchObject({ status: "connected", healthy: false, lastError: reason })
    expect(loading).toMatchObject({ state: "ready", error: reason })
  },
)

test("a server that is not connected is not healthy, and its last error is the reason [tools:health]", () => {
  const { status, health, loading } = reportsOn({ ...backend("failed", "a"), lastError: "exited at /srv" })
  expect(status).toMatchObject({ status: "error", healthy: false, lastError: "exited •" })
  expect(health).toMatchObject({ status: "error", healthy: false, lastError: "exited •" })
  expect(loading).toMatchObject({ state: "failed", error: "exited •" })
  expect(reportsOn({ ...backend("starting", "a"), lastError: undefined }).status).not.toHaveProperty("lastError")
})

test("the worst instance of a template represents the template [tools:health]", () => {
  const unhealthy = { ...connected, lastTransportFailure: { at: NOW - 1000, reason: "x" } }
  const degraded = { ...connected, listed: connected.listed && { ...connected.listed, failing: ["prompts/list: x"] } }
  const servers = [connected, degraded, unhealthy, backend("waiting", "a")]
  const { servers: shown } = statusOf(snapshot(servers), NOW, redactAll)
  for (const count of [1, 2, 3, 4]) expect(worstOf(shown.slice(0, count))).toBe(shown[count - 1])
  expect(worstOf([])).toBeUndefined()
})
