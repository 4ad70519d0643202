/** Snapshots for the tests of reports and of the code that displays them. */
import type { BackendSnapshot, Snapshot } from "../../src/agent/snapshot.ts"
import type { BackendState } from "../../src/backend/supervision.ts"
import type { ProcessFacts } from "../../src/report/health.ts"

export const NOW = Date.UTC(2026, 0, 2, 3, 4, 5, 678)
export const facts: ProcessFacts = {
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

export const STATES: Record<BackendState["kind"], BackendState> = {
  stopped: { kind: "stopped", epoch: 1 },
  starting: { kind: "starting", epoch: 1, since: NOW },
  connected: { kind: "connected", epoch: 1, since: NOW - 1000, pid: 7, attempt: 0 },
  asleep: { kind: "asleep", epoch: 1, since: NOW - 1000 },
  waking: { kind: "waking", epoch: 1, since: NOW },
  awake: { kind: "awake", epoch: 1, since: NOW, pid: 7 },
  waiting: { kind: "waiting", epoch: 1, attempt: 2, retryAt: NOW + 2000 },
  recovering: { kind: "recovering", epoch: 1, attempt: 2, since: NOW },
  crashed: { kind: "crashed", epoch: 1, attempt: 5, at: NOW },
  failed: { kind: "failed", epoch: 1, at: NOW },
  unauthorized: { kind: "unauthorized", epoch: 1, at: NOW },
}

/** A backend in one state. */
export function backend(
  kind: BackendState["kind"],
  name = kind as string,
  restart: "supervised" | "never" | "reconnect" = "supervised",
): BackendSnapshot {
  const connected = kind === "connected"
  return {
    asleep: kind === "asleep",
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
        alwaysVisible: [],
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
    lastPing: undefined,
    responsive: true,
    listed: connected
      ? {
          era: "legacy",
          protocolVersion: "2025-11-25",
          tools: 1,
          hiddenTools: 0,
          prompts: 2,
          resources: 3,
          resourceTemplates: 4,
          failing: [],
          unknownOverrides: [],
        }
      : undefined,
    offer: connected ? { characters: { tools: 100, instructions: 20 }, warnings: [], definitions: [] } : undefined,
    authorizationUrl: undefined,
    refusal: "sign-in needed",
    noisy: false,
    invalid: undefined,
    changedTools: [],
    suspiciousTools: [],
  }
}

/** A snapshot of these backends, with one disabled server "off" once loaded. */
export const snapshot = (backends: readonly BackendSnapshot[], loaded = true): Snapshot => ({
  startedAt: NOW - 77_000,
  loaded,
  backends,
  templates: [],
  disabled: loaded ? ["off"] : [],
  unowned: [],
  issues: [],
  isPlaced: true,
  generation: 1,
})
