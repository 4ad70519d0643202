/**
 * Inbound HTTP: one listener, a route table, and the wrappers every request goes through.
 *
 *   /mcp                    the aggregate, or the part of it that the query selects
 *   /servers/<name>/mcp     one backend under its own names
 *   /sse, /messages         the old HTTP+SSE transport
 *   /health …               health.ts
 */
import type { Agent } from "../agent/agent.ts"
import type { Scope } from "../catalog/scope.ts"
import { codesOf, publicMessage } from "../lib/errors.ts"
import { errorText } from "../wire/message.ts"
import { JSON_HEADERS } from "./exchange.ts"
import { type McpDeps, serveMcp } from "./mcp.ts"
import type { ScopeOf } from "./scopes.ts"
import { openSseStream, postSseMessage, type SsePipes } from "./sse.ts"

export type ServerOptions = {
  readonly hostname: string
  readonly port: number
}

/** Gives the client's address: asking for it costs a system call, so only who needs it asks. */
export type AddressOf = () => string

/** A check or a part of the routes: a response, or undefined for "not mine". */
export type Wrapper = (request: Request, path: string, address: AddressOf) => Response | Promise<Response> | undefined

export type ServerDeps = {
  readonly agent: Agent
  readonly mcp: McpDeps
  readonly pipes: SsePipes
  readonly scopeOf: ScopeOf
  /** Asked first, in order: the guard, health. */
  readonly wrappers: readonly Wrapper[]
}

/** `stop` takes no more connections; with `now` it ends the open ones too. */
export type Listening = { readonly url: URL; stop(now: boolean): Promise<void> }

/** Starts to listen. Throws what `Bun.serve` throws where the port is taken. */
export function listen({ hostname, port }: ServerOptions, deps: ServerDeps): Listening {
  const server = Bun.serve({
    hostname,
    port,
    // Calls and streams may be silent for long: each has its own bounds.
    idleTimeout: 0,
    maxRequestBodySize: deps.mcp.maxBody,
    fetch(request, self) {
      return route(request, () => self.requestIP(request)?.address ?? "", deps)
    },
    error(error) {
      deps.mcp.onbug(error)
      return new Response(errorText(undefined, -32603, "internal error"), { status: 500, headers: JSON_HEADERS })
    },
  })
  return { url: server.url, stop: (now) => server.stop(now) }
}

/** One request to one response. Exported to be tested without a port. */
export function route(request: Request, address: AddressOf, deps: ServerDeps): Response | Promise<Response> {
  const path = pathOf(request.url)
  for (const wrapper of deps.wrappers) {
    const response = wrapper(request, path, address)
    if (response !== undefined) return response
  }
  if (path === "/mcp") return scoped(request, deps, (scope) => serveMcp(request, scope, ANYBODY, deps.mcp))
  if (path === "/sse")
    return request.method === "GET"
      ? scoped(request, deps, (scope) => openSseStream(scope, ANYBODY, deps.pipes, deps.mcp))
      : wrongMethod("GET")
  if (path === "/messages")
    return request.method === "POST" ? postSseMessage(request, ANYBODY, deps.pipes, deps.mcp) : wrongMethod("POST")
  const name = SERVER_PATH.exec(path)?.[1]
  if (name !== undefined) {
    // Instances of templates are their members' alone.
    const backend = deps.agent.find(decode(name)).find(({ spec }) => spec.id === spec.name)
    if (backend === undefined) return notFound(`No server is named ${decode(name).slice(0, 100)}`)
    return serveMcp(request, { kind: "server", id: backend.spec.id }, ANYBODY, deps.mcp)
  }
  return notFound(`Nothing is at ${path.slice(0, 200)}; MCP is at /mcp`)
}

// ---

/** Serves in the scope that the URL's query selects. */
function scoped(
  request: Request,
  { scopeOf }: ServerDeps,
  serve: (scope: Scope) => Response | Promise<Response>,
): Response | Promise<Response> {
  const query = request.url.indexOf("?")
  let scope: Scope
  try {
    scope = scopeOf(query < 0 ? "" : request.url.slice(query))
  } catch (error) {
    const { http, rpc } = codesOf(error)
    return new Response(errorText(undefined, rpc, publicMessage(error)), { status: http, headers: JSON_HEADERS })
  }
  return serve(scope)
}

const SERVER_PATH = /^\/servers\/([^/]+)\/mcp$/

/** The path of an absolute URL, without parsing the whole: this runs for every call. */
function pathOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("://") + 3)
  if (start < 0) return "/"
  const query = url.indexOf("?", start)
  return query < 0 ? url.slice(start) : url.slice(start, query)
}

function decode(name: string): string {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}

/** Who a client is where nobody asks. */
const ANYBODY = "anonymous"

const wrongMethod = (allow: string): Response =>
  new Response(JSON.stringify({ error: "Method not allowed" }), { status: 405, headers: { ...JSON_HEADERS, allow } })

const notFound = (message: string): Response =>
  new Response(JSON.stringify({ error: message }), { status: 404, headers: JSON_HEADERS })
