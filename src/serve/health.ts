/** The health endpoints over HTTP. They read the snapshot and never wait for a backend. spec: Endpoints. */
import {
  type HealthLevel,
  healthReport,
  livenessReport,
  type ProcessFacts,
  type Report,
  readinessReport,
} from "../agent/health.ts"
import type { Snapshot } from "../agent/snapshot.ts"
import { messageOf } from "../lib/errors.ts"

export type HealthDeps = {
  snapshot(): Snapshot
  facts(): ProcessFacts
  readonly level: HealthLevel
  redact(text: string): string
}

/** The response to a request under `/health`, or undefined where the path is another. */
export function serveHealth(request: Request, path: string, deps: HealthDeps): Response | undefined {
  if (path !== "/health" && !path.startsWith("/health/")) return undefined
  const find = REPORTS[path]
  if (find === undefined) return json(404, { error: "Not found" })
  if (request.method !== "GET" && request.method !== "HEAD")
    return json(405, { error: "Method not allowed" }, { allow: "GET, HEAD" })
  try {
    const { status, body, headers } = find(deps)
    return json(status, body, headers)
  } catch (error) {
    const message = deps.redact(messageOf(error))
    const timestamp = new Date(deps.facts().now).toISOString()
    return json(500, { status: "unhealthy", timestamp, error: "Health check failed", message })
  }
}

// ---

const REPORTS: Readonly<Record<string, (deps: HealthDeps) => Report>> = {
  "/health": (deps) => healthReport(deps.snapshot(), deps.facts(), deps),
  "/health/live": (deps) => livenessReport(deps.facts()),
  "/health/ready": (deps) => readinessReport(deps.snapshot(), deps.facts(), deps),
}

function json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", "cache-control": "no-cache, no-store, must-revalidate", ...headers },
  })
}
