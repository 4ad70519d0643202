/**
 * CORS: decides which pages may call svc and read its responses in a browser; without `--allowed-origin`, none. Fetch: CORS
 * protocol.
 */
import { type Middleware, withHeaders } from "./inbound.ts"
import { noContent } from "./respond.ts"

/**
 * Returns middleware that answers preflights and marks responses as readable for the allowed origins; undefined if there are
 * none. `origins` are written as in the Origin header.
 */
export function createCors(origins: readonly string[]): Middleware | undefined {
  if (origins.length === 0) return undefined
  const known = new Set(origins.map((origin) => origin.toLowerCase().replace(/\/$/, "")))
  return (inbound, next) => {
    const { request } = inbound
    const origin = request.headers.get("origin")
    if (origin === null || !known.has(origin.toLowerCase())) return next(inbound)
    if (request.method === "OPTIONS" && request.headers.has("access-control-request-method"))
      return preflight(request, origin)
    return withHeaders(next(inbound), allow(origin))
  }
}

// ---

const allow = (origin: string) => ({
  "access-control-allow-origin": origin,
  vary: "Origin",
  "access-control-expose-headers": "Mcp-Session-Id, WWW-Authenticate, Retry-After, X-Health-Status",
})

function preflight(request: Request, origin: string): Response {
  // Headers that repeat a tool's parameters have names that depend on the tool, so they cannot be listed in advance.
  const requested = (request.headers.get("access-control-request-headers") ?? "").split(",").map((name) => name.trim())
  const params = requested.filter((name) => /^mcp-param-[\w-]{1,100}$/i.test(name)).slice(0, 50)
  return noContent({
    ...allow(origin),
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": [...HEADERS, ...params].join(", "),
    "access-control-max-age": "600",
  })
}

const HEADERS = [
  "Authorization",
  "Content-Type",
  "Accept",
  "Last-Event-ID",
  "Mcp-Session-Id",
  "Mcp-Protocol-Version",
  "Mcp-Method",
  "Mcp-Name",
]
