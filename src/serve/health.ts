/** The health endpoints over HTTP. They read the snapshot and never wait for a backend. spec: Endpoints. */
import {
  type HealthLevel,
  healthReport,
  livenessReport,
  type ProcessFacts,
  type Report,
  readinessReport,
} from "../agent/health.ts"
import { loadingReport, serverReport } from "../agent/loading.ts"
import type { Snapshot } from "../agent/snapshot.ts"
import { messageOf } from "../lib/errors.ts"
import type { Verdict } from "./limit.ts"

export type HealthDeps = {
  snapshot(): Snapshot
  facts(): ProcessFacts
  readonly level: HealthLevel
  redact(text: string): string
  /** Counts a request of this client; undefined where there is no limit. */
  count: ((request: Request, address: string) => Verdict) | undefined
}

/** The response to a request under `/health`, or undefined where the path is another. */
export function serveHealth(request: Request, path: string, address: string, deps: HealthDeps): Response | undefined {
  if (path !== "/health" && !path.startsWith("/health/")) return undefined
  const verdict = deps.count?.(request, address)
  const limits = verdict?.headers ?? {}
  if (verdict?.retryAfter !== undefined) {
    const { retryAfter } = verdict
    return json(429, { error: "Too many requests", retryAfter }, { ...limits, "retry-after": String(retryAfter) })
  }
  const find = reportOf(path)
  if (find === undefined) return json(404, { error: "Not found" }, limits)
  if (request.method !== "GET" && request.method !== "HEAD")
    return json(405, { error: "Method not allowed" }, { ...limits, allow: "GET, HEAD" })
  try {
    const { status, body, headers } = find(deps)
    return json(status, body, { ...limits, ...headers })
  } catch (error) {
    const message = deps.redact(messageOf(error))
    const timestamp = new Date(deps.facts().now).toISOString()
    return json(500, { status: "unhealthy", timestamp, error: "Health check failed", message }, limits)
  }
}

// ---

type Find = (deps: HealthDeps) => Report

const REPORTS: Readonly<Record<string, Find>> = {
  "/health": (deps) => healthReport(deps.snapshot(), deps.facts(), deps),
  "/health/live": (deps) => livenessReport(deps.facts()),
  "/health/ready": (deps) => readinessReport(deps.snapshot(), deps.facts(), deps),
  "/health/mcp": (deps) => loadingReport(deps.snapshot(), deps.facts(), deps),
}

function reportOf(path: string): Find | undefined {
  if (Object.hasOwn(REPORTS, path)) return REPORTS[path]
  const name = /^\/health\/mcp\/([^/]+)$/.exec(path)?.[1]
  if (name === undefined) return undefined
  let decoded = name
  try {
    decoded = decodeURIComponent(name)
  } catch {
    // A name that is not percent-encoding is taken as it is.
  }
  return (deps) => serverReport(decoded, deps.snapshot(), deps.facts(), deps)
}

function json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", "cache-control": "no-cache, no-store, must-revalidate", ...headers },
  })
}
