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
import type { Clock } from "../lib/clock.ts"
import { codesOf, publicMessage } from "../lib/errors.ts"
import { errorText } from "../wire/message.ts"
import { type Admit, insufficient, isScope, TAG_SCOPE } from "./auth.ts"
import type { Cors } from "./cors.ts"
import { type OpenStream, type OpenStreams, SSE_HEADERS } from "./http-exchange.ts"
import { type McpDeps, serveMcp } from "./mcp.ts"
import { ANONYMOUS, maySee, type Principal, scopeOfPrincipal } from "./principal.ts"
import { withPrivateUmask } from "./proxy-server.ts"
import type { ScopeOf } from "./query-scope.ts"
import { JSON_HEADERS } from "./respond.ts"
import { openSseStream, postSseMessage, type SsePipes } from "./sse.ts"

export type ServerOptions = {
  readonly address: { readonly hostname: string; readonly port: number } | { readonly unix: string }
  /** Certificate chain and key, PEM. */
  readonly tls: Tls | undefined
  /** Milliseconds in which a request must have come whole, and after which a quiet connection is closed. */
  readonly receiveTimeout: number
}

export type Tls = { readonly cert: string; readonly key: string }

/** Gives the client's address: asking for it costs a system call, so only who needs it asks. */
export type AddressOf = () => string

/** A part of the routes: a response, or undefined for "not mine". */
export type Wrapper = (
  request: Request,
  path: string,
  address: AddressOf,
  principal: Principal,
) => Response | Promise<Response> | undefined

export type ServerDeps = {
  readonly agent: Agent
  readonly clock: Clock
  readonly mcp: McpDeps
  readonly pipes: SsePipes
  readonly scopeOf: ScopeOf
  /** What pages of named origins may read; undefined where no page may. */
  readonly cors: Cors | undefined
  /** Asked first, of every request: a refusal, or undefined. */
  readonly hostCheck: (request: Request) => Response | undefined
  /** Who a request is from, where somebody asks. */
  readonly admit: Admit | undefined
  /** Asked then, in order: the callback, metrics, health. */
  readonly wrappers: readonly Wrapper[]
  /** The address svc is reached under. */
  base(): string
}

/**
 * `stop` takes no more connections; with `now` it ends the open ones too. `secure` serves new connections with another
 * certificate, and throws where it is none; connections that are open go on with theirs.
 */
export type Listening = { readonly url: URL; stop(now: boolean): Promise<void>; secure(tls: Tls): void }

/** Starts to listen. Throws what `Bun.serve` throws where the address is taken or the certificate is none. */
export function listenHttp({ address, tls, receiveTimeout }: ServerOptions, deps: ServerDeps): Listening {
  const idleTimeout = Math.ceil(receiveTimeout / 1000)
  const open = (at: ServerOptions["address"], secured: Tls | undefined) => {
    const server = Bun.serve({
      ...(at as { hostname: string; port: number }),
      ...(secured === undefined ? {} : { tls: secured }),
      // For what a client sends. Calls and streams may be silent for long: each has its own bounds.
      idleTimeout,
      // Bun's own refusal has no body and comes first: it is for what is far past the limit.
      maxRequestBodySize: 2 * deps.mcp.maxBody,
      fetch(request, self) {
        const served = route(request, () => self.requestIP(request)?.address ?? "", own)
        if (request.method === "POST") return served
        if (!(served instanceof Promise)) return settle(request, served)
        self.timeout(request, 0)
        return served.then((response) => settle(request, response))
      },
      error(error) {
        deps.mcp.onbug(error)
        return new Response(errorText(undefined, -32603, "internal error"), { status: 500, headers: JSON_HEADERS })
      },
    })
    // A stream lasts. Anybody may ask for the rest, and must not hold a connection for good.
    const settle = (request: Request, response: Response): Response => {
      server.timeout(request, response.headers.get("content-type") === STREAM ? 0 : idleTimeout)
      return response
    }
    const own: ServerDeps = { ...deps, mcp: { ...deps.mcp, onbody: (request) => server.timeout(request, 0) } }
    return server
  }
  let server = withPrivateUmask(() => open(address, tls))
  let current = tls
  const { url } = server
  const old: Promise<void>[] = []
  return {
    url,
    async stop(now) {
      await Promise.all([server.stop(now), ...old])
    },
    secure(next) {
      // The listener gives the port free at once, and is gone when its last connection is.
      old.push(server.stop(false))
      const at = "unix" in address ? address : { ...address, port: Number(url.port) }
      try {
        server = withPrivateUmask(() => open(at, next))
        current = next
      } catch (error) {
        server = withPrivateUmask(() => open(at, current))
        throw error
      }
    },
  }
}

/** One request to one response. Exported to be tested without a port. */
export function route(request: Request, address: AddressOf, deps: ServerDeps): Response | Promise<Response> {
  if (deps.cors === undefined || !request.headers.has("origin")) return admit(request, address, deps)
  return deps.cors(request, () => admit(request, address, deps))
}

// ---

function admit(request: Request, address: AddressOf, deps: ServerDeps): Response | Promise<Response> {
  const path = pathOf(request.url)
  const refusal = deps.hostCheck(request)
  if (refusal !== undefined) return refusal
  if (deps.admit === undefined) return serve(request, path, address, ANONYMOUS, deps)
  const admission = deps.admit(request, path)
  if (admission instanceof Promise)
    return admission.then((admitted) =>
      admitted instanceof Response ? admitted : serve(request, path, address, admitted, deps),
    )
  return admission instanceof Response ? admission : serve(request, path, address, admission, deps)
}

function serve(
  request: Request,
  path: string,
  address: AddressOf,
  principal: Principal,
  deps: ServerDeps,
): Response | Promise<Response> {
  for (const wrapper of deps.wrappers) {
    const response = wrapper(request, path, address, principal)
    if (response !== undefined) return response
  }
  const { pipes } = deps
  const { name: who, until } = principal
  const mcp = until === undefined ? deps.mcp : { ...deps.mcp, streams: ending(deps.mcp.streams, until, deps.clock) }
  if (path === "/mcp") return scoped(request, principal, deps, (scope) => serveMcp(request, scope, who, mcp))
  if (path === "/sse")
    return request.method === "GET"
      ? scoped(request, principal, deps, (scope) => openSseStream(scope, principal, pipes, mcp))
      : wrongMethod("GET")
  if (path === "/messages")
    return request.method === "POST" ? postSseMessage(request, principal, pipes, mcp) : wrongMethod("POST")
  const name = SERVER_PATH.exec(path)?.[1]
  if (name !== undefined) {
    // Instances of templates are their members' alone.
    const backend = deps.agent.find(decode(name)).find(({ spec }) => spec.id === spec.name)
    if (backend === undefined) return notFound(`No server is named ${decode(name).slice(0, 100)}`)
    const { id, tuning } = backend.spec
    if (maySee(principal, tuning.tags)) return serveMcp(request, { kind: "server", id }, who, mcp)
    const tag = tuning.tags.find(isScope)
    return principal.scoped && tag !== undefined
      ? insufficient([`${TAG_SCOPE}${tag}`], path, deps.base())
      : notFound(`No server is named ${decode(name).slice(0, 100)}`)
  }
  return notFound(`Nothing is at ${path.slice(0, 200)}; MCP is at /mcp`)
}

/** Streams that end with the token they were opened with. */
function ending(streams: OpenStreams, until: number, clock: Clock): OpenStreams {
  const timers = new Map<OpenStream, () => void>()
  return {
    add(stream) {
      const end = clock.after(Math.max(0, until - clock.now()), () => stream.close())
      timers.set(stream, end)
      return streams.add(stream)
    },
    delete(stream) {
      timers.get(stream)?.()
      return streams.delete(stream)
    },
  }
}

/** Serves in the scope that the URL's query selects, as far as the principal sees it. */
function scoped(
  request: Request,
  principal: Principal,
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
  return serve(scopeOfPrincipal(scope, principal))
}

const STREAM = SSE_HEADERS["content-type"]
const SERVER_PATH = /^\/servers\/([^/]+)\/mcp$/

/** The path of a URL, without parsing the whole: this runs for every call. Without a Host it has nothing before the path. */
function pathOf(url: string): string {
  const start = url.startsWith("/") ? 0 : url.indexOf("/", url.indexOf("://") + 3)
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

const wrongMethod = (allow: string): Response =>
  new Response(JSON.stringify({ error: "Method not allowed" }), { status: 405, headers: { ...JSON_HEADERS, allow } })

const notFound = (message: string): Response =>
  new Response(JSON.stringify({ error: message }), { status: 404, headers: JSON_HEADERS })
