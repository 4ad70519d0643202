/** Measures HTTP requests by method, route and status. Texts of clients become no label. */
import type { Inbound, Middleware } from "./inbound.ts"

type DurationDeps = {
  /** Milliseconds of a monotonic clock. */
  ticks(): number
  readonly scheme: "http" | "https"
  record(
    values: readonly [method: string, route: string | undefined, status: number, scheme: string],
    seconds: number,
  ): void
}

/** Creates middleware that measures requests until their response begins. It surrounds all others. */
export function createHttpDurations({ ticks, scheme, record }: DurationDeps): Middleware {
  const done = ({ request, path }: Inbound, { status }: Response, started: number) => {
    const method = METHODS.has(request.method) ? request.method : "_OTHER"
    record([method, routeOf(path), status, scheme], (ticks() - started) / 1000)
  }
  return (inbound, next) => {
    const started = ticks()
    const served = next(inbound)
    if (!(served instanceof Promise)) {
      done(inbound, served, started)
      return served
    }
    return served.then((response) => {
      done(inbound, response, started)
      return response
    })
  }
}

// ---

/** Returns the route of a path; undefined if it may be none of svc's. */
function routeOf(path: string): string | undefined {
  if (ROUTES.has(path)) return path
  return PATTERNS.find(([pattern]) => pattern.test(path))?.[1]
}

const METHODS: ReadonlySet<string> = new Set(["GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"])
const ROUTES: ReadonlySet<string> = new Set([
  "/",
  "/mcp",
  "/sse",
  "/messages",
  "/metrics",
  "/health",
  "/health/live",
  "/health/ready",
  "/health/mcp",
  "/oauth/callback",
])
const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/^\/servers\/[^/]+\/mcp$/, "/servers/{name}/mcp"],
  [/^\/health\/mcp\/[^/]+$/, "/health/mcp/{name}"],
  [/^\/api\//, "/api/{path}"],
  [/^\/admin(?:\/|$)/, "/admin/{path}"],
  [/^\/\.well-known\//, "/.well-known/{path}"],
  [/\/mcp\/server-card$/, "/{path}/server-card"],
]
