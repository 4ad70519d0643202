/** The health endpoints over HTTP. They read the snapshot and never wait for a backend. spec: Endpoints. */

import type { Snapshot } from "../agent/snapshot.ts"
import { messageOf } from "../lib/errors.ts"
import {
  type HealthLevel,
  healthReport,
  livenessReport,
  type ProcessFacts,
  type Report,
  readinessReport,
} from "../report/health.ts"
import { loadingReport, serverReport } from "../report/loading.ts"
import type { RateVerdict } from "./address-rate-limit.ts"
import { maySee, type Principal } from "./principal.ts"

export type HealthDeps = {
  snapshot(): Snapshot
  /** Milliseconds since the epoch. */
  now(): number
  facts(): ProcessFacts
  readonly level: HealthLevel
  redactAll(text: string): string
  /** Counts a request of this client; undefined where there is no limit. */
  count: ((request: Request, address: () => string) => RateVerdict) | undefined
}

/** Gives the function that answers requests under `/health`, and undefined for any other path. */
export function createHealth(
  deps: HealthDeps,
): (request: Request, path: string, address: () => string, principal: Principal) => Response | undefined {
  const cached = new Map<
    string,
    { readonly snapshot: Snapshot; readonly until: number; readonly answer: HealthAnswer }
  >()
  const make = (find: Find, snapshot: Snapshot): HealthAnswer => {
    const { status, body, headers } = find(deps, snapshot)
    return { status, body: JSON.stringify(body), headers: { ...HEADERS, ...headers } }
  }
  /** A report is made once for each snapshot and moment: pollers in numbers cost what one does. */
  const answerOf = (path: string, find: Find, principal: Principal): HealthAnswer => {
    const snapshot = deps.snapshot()
    if (principal.tags !== undefined) return make(find, seenBy(principal, snapshot))
    const known = cached.get(path)
    if (known !== undefined && known.snapshot === snapshot && deps.now() < known.until) return known.answer
    const answer = make(find, snapshot)
    // Only the fixed paths are kept: names of servers are the caller's choice.
    if (Object.hasOwn(REPORTS, path)) cached.set(path, { snapshot, until: deps.now() + FRESH_MS, answer })
    return answer
  }
  return (request, path, address, principal) => {
    if (path !== "/health" && !path.startsWith("/health/")) return undefined
    const verdict = deps.count?.(request, address)
    const limits = verdict?.headers
    if (verdict?.retryAfter !== undefined) {
      const { retryAfter } = verdict
      return json(429, { error: "Too many requests", retryAfter }, { ...limits, "retry-after": String(retryAfter) })
    }
    const live = path === "/health/live"
    const find = live ? undefined : reportAt(path)
    if (!live && find === undefined) return json(404, { error: "Not found" }, limits)
    if (request.method !== "GET" && request.method !== "HEAD")
      return json(405, { error: "Method not allowed" }, { ...limits, allow: "GET, HEAD" })
    try {
      if (find === undefined) {
        const { status, body } = livenessReport({ now: deps.now() })
        return json(status, body, limits)
      }
      const { status, body, headers } = answerOf(path, find, principal)
      return new Response(body, { status, headers: limits === undefined ? headers : { ...headers, ...limits } })
    } catch (error) {
      const message = deps.redactAll(messageOf(error))
      const timestamp = new Date(deps.now()).toISOString()
      return json(500, { status: "unhealthy", timestamp, error: "Health check failed", message }, limits)
    }
  }
}

/** How to make the report that a path stands for; undefined where it is none. */
export function reportAt(path: string): Find | undefined {
  if (Object.hasOwn(REPORTS, path)) return REPORTS[path]
  const name = /^\/health\/mcp\/([^/]+)$/.exec(path)?.[1]
  if (name === undefined) return undefined
  let decoded = name
  try {
    decoded = decodeURIComponent(name)
  } catch {
    // A name that is not percent-encoding is taken as it is.
  }
  return (deps, snapshot) => serverReport(decoded, snapshot, deps.facts(), deps)
}

// ---

type Find = (deps: Pick<HealthDeps, "facts" | "level" | "redactAll">, snapshot: Snapshot) => Report
type HealthAnswer = { readonly status: number; readonly body: string; readonly headers: Record<string, string> }

const FRESH_MS = 500
const HEADERS = { "content-type": "application/json", "cache-control": "no-cache, no-store, must-revalidate" }

const REPORTS: Readonly<Record<string, Find>> = {
  "/health": (deps, snapshot) => healthReport(snapshot, deps.facts(), deps),
  "/health/ready": (deps, snapshot) => readinessReport(snapshot, deps.facts(), deps),
  "/health/mcp": (deps, snapshot) => loadingReport(snapshot, deps.facts(), deps),
}

/** The servers that a principal may know of, and no names of others. */
const seenBy = (principal: Principal, snapshot: Snapshot): Snapshot => ({
  ...snapshot,
  backends: snapshot.backends.filter(({ spec }) => maySee(principal, spec.tuning.tags)),
  templates: [],
  disabled: [],
  issues: [],
})

function json(status: number, body: unknown, headers?: Readonly<Record<string, string>>): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: headers === undefined ? HEADERS : { ...HEADERS, ...headers },
  })
}
