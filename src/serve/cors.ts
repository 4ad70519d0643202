/** What pages of the origins that are named may ask and read. Without `--allowed-origin` no page may. Fetch: CORS protocol. */

/** Answers a preflight itself, and marks what the page may read. */
export type Cors = (request: Request, serve: () => Response | Promise<Response>) => Response | Promise<Response>

/** `origins` as pages name themselves; undefined where there is none. */
export function createCors(origins: readonly string[]): Cors | undefined {
  if (origins.length === 0) return undefined
  const known = new Set(origins.map((origin) => origin.toLowerCase().replace(/\/$/, "")))
  return (request, serve) => {
    const origin = request.headers.get("origin") ?? ""
    if (!known.has(origin.toLowerCase())) return serve()
    if (request.method === "OPTIONS" && request.headers.has("access-control-request-method"))
      return preflight(request, origin)
    const mark = (response: Response): Response => {
      for (const [name, value] of Object.entries(allow(origin))) response.headers.set(name, value)
      return response
    }
    const served = serve()
    return served instanceof Promise ? served.then(mark) : mark(served)
  }
}

// ---

const allow = (origin: string) => ({
  "access-control-allow-origin": origin,
  vary: "Origin",
  "access-control-expose-headers": "Mcp-Session-Id, WWW-Authenticate, Retry-After, X-Health-Status",
})

function preflight(request: Request, origin: string): Response {
  // What a tool's parameters are repeated in cannot be listed beforehand.
  const asked = (request.headers.get("access-control-request-headers") ?? "").split(",").map((name) => name.trim())
  const own = asked.filter((name) => /^mcp-param-[\w-]{1,100}$/i.test(name)).slice(0, 50)
  return new Response(null, {
    status: 204,
    headers: {
      ...allow(origin),
      "access-control-allow-methods": "GET, POST, DELETE",
      "access-control-allow-headers": [...HEADERS, ...own].join(", "),
      "access-control-max-age": "600",
    },
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
