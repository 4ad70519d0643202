/**
 * The health endpoints over HTTP. Maps the verdict of a report to a status and headers. Reads the snapshot and never waits for
 * a backend. spec: Endpoints.
 */

import type { Snapshot } from "../agent/snapshot.ts"
import type { Preset } from "../config/presets.ts"
import { codesOf, HTTP_STATUS, messageOf, RequestError, statusOfFault } from "../lib/errors.ts"
import { percentDecoded } from "../lib/text.ts"
import {
  type HealthVerdict,
  healthReport,
  livenessReport,
  type ProcessFacts,
  type ReadinessVerdict,
  type Report,
  type ReportOptions,
  readinessReport,
} from "../report/health.ts"
import { type LoadingVerdict, loadingReport, type ServerVerdict, serverReport } from "../report/loading.ts"
import type { Middleware } from "./inbound.ts"
import { isLimited, mayEnter, type Principal } from "./principal.ts"
import { errorResponse, jsonResponse, shapeOf } from "./respond.ts"

export type HealthDeps = ReportOptions & {
  snapshot(): Snapshot
  /** Milliseconds since the epoch. */
  now(): number
  facts(): ProcessFacts
  /** The presets to which principals may be bound. */
  presets(): ReadonlyMap<string, Preset>
}

/** A report as an HTTP response. */
type HealthResponse = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Report<string>["body"]
}

/** Returns middleware that answers everything under `/health`. */
export function createHealth(deps: HealthDeps): Middleware {
  const cached = new Map<string, CachedReport>()
  const render = (find: FindReport, snapshot: Snapshot): RenderedReport => {
    const { status, body, headers } = find(deps, snapshot)
    return { status, body: JSON.stringify(body), headers: { ...HEADERS, ...headers } }
  }
  /** Renders a report at most once per snapshot and FRESH_MS, so that many pollers cost no more than one. */
  const renderOnce = (path: string, find: FindReport, principal: Principal): RenderedReport => {
    const snapshot = deps.snapshot()
    if (isLimited(principal)) return render(find, visibleTo(principal, snapshot, deps.presets()))
    const known = cached.get(path)
    if (known !== undefined && known.snapshot === snapshot && deps.now() < known.until) return known.response
    const response = render(find, snapshot)
    // Caches only the fixed paths: clients choose the names of servers, so these are unbounded.
    if (Object.hasOwn(REPORTS, path)) cached.set(path, { snapshot, until: deps.now() + FRESH_MS, response })
    return response
  }
  return (inbound, next) => {
    const { request, path, principal } = inbound
    if (!isHealthPath(path)) return next(inbound)
    const live = path === "/health/live"
    const find = live ? undefined : reportAt(path)
    const refuse = (error: RequestError, headers = {}) =>
      errorResponse(error, { shape: shapeOf(path), headers: { ...UNCACHED, ...headers } })
    if (!live && find === undefined) return refuse(new RequestError("not_found", "There is no such health report"))
    if (request.method !== "GET" && request.method !== "HEAD")
      return refuse(new RequestError("wrong_method", "Method not allowed"), { allow: "GET, HEAD" })
    try {
      // Liveness must not depend on the snapshot.
      if (find === undefined) return jsonResponse(livenessReport({ now: deps.now() }), undefined, UNCACHED)
      const { status, body, headers } = renderOnce(path, find, principal)
      return new Response(body, { status, headers })
    } catch (error) {
      const message = deps.redactAll(messageOf(error))
      const timestamp = new Date(deps.now()).toISOString()
      const body = { status: "unhealthy", timestamp, error: "Health check failed", message }
      return jsonResponse(body, codesOf(error).http, UNCACHED)
    }
  }
}

export const isHealthPath = (path: string): boolean => path === "/health" || path.startsWith("/health/")

/** The header that prevents caches from storing responses. */
export const UNCACHED = { "cache-control": "no-cache, no-store, must-revalidate" }

/** Returns the function that renders the report at a path; undefined if there is none. */
export function reportAt(path: string): FindReport | undefined {
  if (Object.hasOwn(REPORTS, path)) return REPORTS[path]
  const name = /^\/health\/mcp\/([^/]+)$/.exec(path)?.[1]
  if (name === undefined) return undefined
  return (deps, snapshot) => showServer(percentDecoded(name), snapshot, deps.facts(), deps)
}

// ---

type FindReport = (deps: Pick<HealthDeps, "facts" | "level" | "redactAll">, snapshot: Snapshot) => HealthResponse
type RenderedReport = { readonly status: number; readonly body: string; readonly headers: Record<string, string> }
type CachedReport = { readonly snapshot: Snapshot; readonly until: number; readonly response: RenderedReport }

const FRESH_MS = 500
const HEADERS = { "content-type": "application/json", ...UNCACHED }

/** spec: GET /health, GET /health/ready; choice: `/health/mcp`, `/health/mcp/:serverName`. */
const STATUS_BY_VERDICT: Readonly<Record<HealthVerdict | ReadinessVerdict | LoadingVerdict | ServerVerdict, number>> = {
  healthy: HTTP_STATUS.ok,
  degraded: HTTP_STATUS.ok,
  unhealthy: HTTP_STATUS.unavailable,
  ready: HTTP_STATUS.ok,
  not_ready: HTTP_STATUS.unavailable,
  complete: HTTP_STATUS.ok,
  not_loaded: statusOfFault("not_found"),
  unknown: statusOfFault("not_found"),
  idle: HTTP_STATUS.ok,
  awaiting_oauth: HTTP_STATUS.ok,
  pending: HTTP_STATUS.accepted,
  loading: HTTP_STATUS.accepted,
  stopped: HTTP_STATUS.unavailable,
  restarting: HTTP_STATUS.unavailable,
  "crash-loop": HTTP_STATUS.unavailable,
  failed: HTTP_STATUS.unavailable,
}

const REPORTS: Readonly<Record<string, FindReport>> = {
  "/health": (deps, snapshot) => {
    const facts = deps.facts()
    const { verdict, body } = healthReport(snapshot, facts, deps)
    const headers = {
      "x-health-status": verdict,
      "x-service-version": facts.version,
      "x-uptime-seconds": String(facts.uptimeSeconds),
    }
    return { status: STATUS_BY_VERDICT[verdict], headers, body }
  },
  "/health/ready": (deps, snapshot) => {
    const { verdict, body } = readinessReport(snapshot, deps.facts(), deps)
    return { status: STATUS_BY_VERDICT[verdict], headers: {}, body }
  },
  "/health/mcp": (deps, snapshot) => {
    const { verdict, successRate, body } = loadingReport(snapshot, deps.facts(), deps)
    const headers = { "x-loading-complete": String(verdict === "complete"), "x-success-rate": String(successRate) }
    return { status: STATUS_BY_VERDICT[verdict], headers: verdict === "not_loaded" ? {} : headers, body }
  },
}

function showServer(...request: Parameters<typeof serverReport>): HealthResponse {
  const { verdict, body } = serverReport(...request)
  const headers = verdict === "unknown" || verdict === "not_loaded" ? {} : { "x-server-state": verdict }
  return { status: STATUS_BY_VERDICT[verdict], headers, body }
}

/** Returns the snapshot as a principal may see it: only its servers, without the names of others. */
const visibleTo = (principal: Principal, snapshot: Snapshot, presets: ReadonlyMap<string, Preset>): Snapshot => ({
  ...snapshot,
  backends: snapshot.backends.filter(({ spec }) => mayEnter(principal, spec, presets)),
  templates: [],
  disabled: [],
  issues: [],
})
