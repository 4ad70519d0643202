/**
 * The loading reports: the progress of loading, and the state of one server. spec: GET /health/mcp; choice: Health.
 */

import { type BackendSnapshot, rejectedServers, type Snapshot } from "../agent/snapshot.ts"
import { STATUS_BY_STATE } from "../backend/supervision.ts"
import { isCalled } from "../config/server-spec.ts"
import {
  healthOf,
  overallHealth,
  type ProcessFacts,
  type Report,
  type ReportOptions,
  supervisedBackends,
  supervisionSummary,
} from "./health.ts"

/** `not_loaded`: no configuration has been loaded yet. */
export type LoadingVerdict = "complete" | "loading" | "not_loaded"
/** `idle`: a template without instances. `unknown`: no server has the name. */
export type ServerVerdict = LoadingState | "idle" | "unknown" | "not_loaded"

/**
 * Returns the report of `/health/mcp`. All its parts derive from one state per server, so that none contradicts another.
 * `successRate` is the share of ready servers, in percent.
 */
export function loadingReport(
  snapshot: Snapshot,
  facts: ProcessFacts,
  options: ReportOptions,
): Report<LoadingVerdict> & { readonly successRate: number } {
  if (!snapshot.loaded) return { ...neverLoaded(facts), successRate: 0 }
  const { backends } = snapshot
  const total = backends.length
  const states = backends.map((backend) => [backend, loadingState(backend)] as const)
  const summary = { total, pending: 0, loading: 0, ready: 0, failed: 0, awaitingOAuth: 0, cancelled: 0 }
  for (const [, state] of states) summary[SUMMARY_KEYS[state]]++
  const isComplete = summary.pending + summary.loading === 0
  const times = backends.flatMap(({ loading: { startedAt, endedAt } }) =>
    startedAt === undefined || endedAt === undefined ? [] : [endedAt - startedAt],
  )
  const successRate = total === 0 ? 100 : Math.round((summary.ready / total) * 1000) / 10
  const averageLoadTime = times.length === 0 ? 0 : Math.round(times.reduce((sum, time) => sum + time, 0) / times.length)
  const healthy = backends.filter((backend) => healthOf(backend, facts.now).healthy).length
  return {
    verdict: isComplete ? "complete" : "loading",
    successRate,
    body: {
      loading: { isComplete, startTime: iso(snapshot.startedAt), successRate, averageLoadTime },
      summary,
      ...(options.level === "minimal"
        ? {}
        : {
            servers: {
              byState: groupBy(states),
              details: Object.fromEntries(
                states.map(([backend, state]) => [backend.spec.id, details(backend, state, facts, options)]),
              ),
            },
          }),
      backendSupervision: supervisionSummary(snapshot, options),
      degraded: overallHealth(snapshot.loaded, total, healthy) !== "healthy",
      timestamp: iso(facts.now),
    },
  }
}

/** Returns the report of `/health/mcp/:serverName`. For a template, the worst instance decides. */
export function serverReport(
  name: string,
  snapshot: Snapshot,
  facts: ProcessFacts,
  options: ReportOptions,
): Report<ServerVerdict> {
  if (!snapshot.loaded) return neverLoaded(facts)
  const found = snapshot.backends.filter(({ spec }) => isCalled(spec, name))
  const [first] = found
  if (first === undefined) {
    const without = (state: "failed" | "stopped" | "idle", more?: object): Report<ServerVerdict> => ({
      verdict: state,
      body: { name, state, ...more, timestamp: iso(facts.now) },
    })
    const reason = rejectedServers(snapshot).get(name)
    if (reason !== undefined) return without("failed", options.level === "minimal" ? {} : neverStarted(reason, options))
    if (snapshot.disabled.includes(name)) return without("stopped")
    // A template that no client uses has no instances.
    if (snapshot.templates.includes(name)) return without("idle")
    return { verdict: "unknown", body: { error: "No server has this name", timestamp: iso(facts.now) } }
  }
  const worst = found.reduce((least, one) => (badnessOf(one) > badnessOf(least) ? one : least), first)
  const state = loadingState(worst)
  const instances = found.filter(({ template }) => template !== undefined)
  return {
    verdict: state,
    body: {
      name: worst.spec.name,
      ...(options.level === "minimal" ? { state } : details(worst, state, facts, options)),
      ...(options.level === "minimal" || worst.listed === undefined
        ? {}
        : {
            generation: snapshot.generation,
            tools: worst.listed.tools,
            hiddenTools: worst.listed.hiddenTools,
            resources: worst.listed.resources,
            prompts: worst.listed.prompts,
          }),
      ...(options.level === "minimal" || instances.length === 0
        ? {}
        : { instances: instances.map((one) => ({ id: one.spec.id, state: loadingState(one) })) }),
      ...(supervisedBackends(snapshot).includes(worst) && options.level !== "minimal"
        ? { backendSupervision: supervisionSummary({ ...snapshot, backends: found }, options) }
        : {}),
      timestamp: iso(facts.now),
    },
  }
}

// ---

/** From best to worst. */
const LOADING_STATES = [
  "ready",
  "awaiting_oauth",
  "pending",
  "loading",
  "stopped",
  "restarting",
  "crash-loop",
  "failed",
] as const
type LoadingState = (typeof LOADING_STATES)[number]

/**
 * The key of the summary that counts each state. choice: a restarting server is down after it was loaded, so its own path
 * answers 503, as for `failed`.
 */
const SUMMARY_KEYS = {
  ready: "ready",
  awaiting_oauth: "awaitingOAuth",
  pending: "pending",
  loading: "loading",
  stopped: "cancelled",
  restarting: "failed",
  "crash-loop": "failed",
  failed: "failed",
} as const satisfies Readonly<Record<LoadingState, string>>

const badnessOf = (backend: BackendSnapshot): number => LOADING_STATES.indexOf(loadingState(backend))

const iso = (time: number): string => new Date(time).toISOString()

function loadingState({ state, loading }: BackendSnapshot): LoadingState {
  switch (state.kind) {
    case "stopped":
      return loading.startedAt === undefined ? "pending" : "stopped"
    case "starting":
      return "loading"
    case "connected":
    case "asleep":
    case "waking":
    case "awake":
      return "ready"
    case "waiting":
    case "recovering":
      return "restarting"
    case "crashed":
      return "crash-loop"
    case "failed":
      return "failed"
    case "unauthorized":
      return "awaiting_oauth"
  }
}

/** Returns the ids of the servers in each state. */
function groupBy(states: readonly (readonly [BackendSnapshot, LoadingState])[]): Record<string, string[]> {
  const groups: Record<string, string[]> = {}
  for (const [{ spec }, state] of states) {
    groups[state] ??= []
    groups[state].push(spec.id)
  }
  return groups
}

const neverStarted = (reason: string, { redactAll }: ReportOptions) => ({
  state: "failed",
  status: "error",
  retryCount: 0,
  error: redactAll(reason),
})

function details(
  backend: BackendSnapshot,
  state: LoadingState,
  { now }: ProcessFacts,
  { level, redactAll }: ReportOptions,
) {
  const { startedAt, endedAt } = backend.loading
  const { lastError, authorizationUrl } = backend
  const error = state === "ready" ? problemsOf(backend, now).join("; ") || undefined : lastError
  return {
    state,
    status: STATUS_BY_STATE[backend.state.kind].status,
    retryCount: "attempt" in backend.state ? backend.state.attempt : 0,
    ...(startedAt === undefined ? {} : { startTime: iso(startedAt), duration: (endedAt ?? now) - startedAt }),
    ...(endedAt === undefined ? {} : { endTime: iso(endedAt) }),
    ...(error === undefined ? {} : { error: redactAll(error) }),
    ...(level === "full" && authorizationUrl !== undefined ? { authorizationUrl } : {}),
  }
}

/** Returns the problems of a connected server: the lists that fail, and why it is not healthy. Not redacted. */
function problemsOf(backend: BackendSnapshot, now: number): readonly string[] {
  const health = healthOf(backend, now)
  const reason = health.healthy ? undefined : health.reason
  return [...(backend.listed?.failing ?? []), ...(reason === undefined ? [] : [reason])]
}

const neverLoaded = ({ now }: ProcessFacts): Report<"not_loaded"> => ({
  verdict: "not_loaded",
  body: { error: "No configuration has been loaded", timestamp: iso(now) },
})
