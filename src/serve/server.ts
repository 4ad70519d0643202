/**
 * Inbound HTTP: one listener, the table of middleware that every request passes, and the routes behind it.
 *
 *   /                       a page for people, JSON for programs
 *   /mcp                    the aggregate, or the part of it that the query selects
 *   /servers/<name>/mcp     one backend under its own names
 *   /sse, /messages         the old HTTP+SSE transport
 *   /api/…, /admin/…        REST, the admin page, and the login of `svc admin`
 *   /health …, /metrics …,
 *   …/mcp/server-card       middleware: see MIDDLEWARE_ORDER
 */

import type { Agent } from "../agent/agent.ts"
import type { Scope } from "../catalog/scope.ts"
import { readTools } from "../catalog/selection.ts"
import type { ToolListing } from "../config/tool-listing.ts"
import type { Clock } from "../lib/clock.ts"
import { RequestError } from "../lib/errors.ts"
import { percentDecoded } from "../lib/text.ts"
import { withPrivateUmask } from "../store/files.ts"
import { CLOSED_CONNECTION, UNIX_SOCKET } from "./address-rate-limit.ts"
import { insufficientScope, isScope, TAG_SCOPE } from "./challenge.ts"
import { type OpenStream, type OpenStreams, SSE_HEADERS } from "./http-exchange.ts"
import { compose, createInbound, type Inbound, type Middleware, type Respond } from "./inbound.ts"
import { type McpDeps, serveMcp } from "./mcp.ts"
import { createScopeNarrowing, isLimited, mayEnter, maySee, type NarrowScope, type Principal } from "./principal.ts"
import type { ScopeOf } from "./query-scope.ts"
import { endsConnection, errorResponse, shapeOf } from "./respond.ts"
import { MESSAGES_PATH, messagesPath, openSseStream, postSseMessage, type SsePipes } from "./sse.ts"

/**
 * The middleware that every request passes before the routes, in this order:
 *
 *  1. `cors` answers preflights, which have no token, and marks all other responses, refusals included.
 *  2. `hostCheck` comes before any token check and expensive work, so that pages of other sites learn nothing.
 *  3. `authenticate` comes before every part that shows data.
 *  4. `firstLoad` holds requests until the configuration is read, except `/health/live`, which does not need it.
 *  5. `healthLimit` counts requests before a report is rendered.
 *     `durations` and `accessLog` surround all others, so that they also have what those refuse; `accessPrincipal` tells the log
 *     who asked.
 *  6. The others answer their own paths: `resourceMetadata`, `oauthCallback`, `metrics`, `health`, `serverCards`.
 */
const MIDDLEWARE_ORDER = [
  "durations",
  "accessLog",
  "cors",
  "hostCheck",
  "authenticate",
  "accessPrincipal",
  "firstLoad",
  "healthLimit",
  "resourceMetadata",
  "oauthCallback",
  "metrics",
  "health",
  "serverCards",
] as const

type MiddlewareName = (typeof MIDDLEWARE_ORDER)[number]

/** The middleware by name; undefined if it is turned off. That of a feature may be missing. */
export type MiddlewareTable = {
  readonly [name in Exclude<MiddlewareName, Optional>]: Middleware | undefined
} & { readonly [name in Optional]?: Middleware | undefined }

/** Middleware that is off by default, or of a feature. */
type Optional = "oauthCallback" | "durations" | "accessLog" | "accessPrincipal"

export type ServerOptions = {
  readonly address: { readonly hostname: string; readonly port: number } | { readonly unix: string }
  /** Certificate chain and key, PEM. */
  readonly tls: Tls | undefined
  /** Milliseconds within which a request must arrive completely, and after which an idle connection is closed. */
  readonly receiveTimeout: number
  /** Whether another process of the same user may listen on the port as well. */
  readonly sharesPort: boolean
}

export type Tls = { readonly cert: string; readonly key: string }

export type ServerDeps = {
  readonly agent: Agent
  readonly clock: Clock
  readonly mcp: McpDeps
  readonly pipes: SsePipes
  readonly scopeOf: ScopeOf
  /** Which tools svc lists to clients by default. */
  readonly tools: ToolListing
  readonly middleware: MiddlewareTable
  /**
   * Decides about requests of other replicas, which skip the middleware: returns their principal or a refusal, and undefined for
   * requests of clients.
   */
  readonly admitReplica?: ((inbound: Inbound) => Principal | Response | undefined) | undefined
  /** Returns the address of a request's client, which may be behind a proxy (`socket`); undefined if nothing reads it. */
  readonly clientOf?: ((socket: string, request: Request) => string) | undefined
  /** Whether each connection ends with its next response; MCP requests follow `mcp.leaving`. */
  readonly endsConnections?: (() => boolean) | undefined
  /** Serves REST and the admin page; undefined with `--no-admin`. */
  readonly api?: ((request: ApiRequest) => Promise<Response>) | undefined
  /** Answers `GET /`. */
  frontPage(request: Request): Promise<Response>
  /** Returns the public address of svc, without a trailing slash. */
  base(): string
}

/** A request for REST, with the facts that the listener knows about it. */
export type ApiRequest = {
  readonly inbound: Inbound
  readonly streams: OpenStreams
  /** Returns the scope that the client has on `/mcp` with the same query. Throws a RequestError for an invalid query. */
  scope(): Scope
  /** Called when the body has arrived: from then on, svc is responsible for the duration of the request. */
  onbody(): void
}

export type Listening = {
  readonly url: URL
  /** Returns the number of requests whose responses have not ended. */
  pending(): number
  /** Ends each connection with its next response. */
  drain(): void
  /** Accepts no more connections, and closes those that are idle. Resolves when that is done. */
  refuse(): Promise<void>
  /** Closes all connections. */
  stop(): Promise<void>
  /** Serves new connections with another certificate. Throws if that is invalid; open connections keep theirs. */
  secure(tls: Tls): void
}

/** Starts to listen. Throws what `Bun.serve` throws if the address is taken or the certificate is invalid. */
export function listenHttp({ address, tls, receiveTimeout, sharesPort }: ServerOptions, deps: ServerDeps): Listening {
  const idleTimeout = Math.ceil(receiveTimeout / 1000)
  const { clientOf } = deps
  const unknownPeer = "unix" in address ? UNIX_SOCKET : CLOSED_CONNECTION
  const peerOf = (server: Bun.Server<undefined>, request: Request) => server.requestIP(request)?.address ?? unknownPeer
  let received = 0
  let draining = false
  const endsConnections = () => draining || deps.endsConnections?.() === true
  const open = (at: ServerOptions["address"], secured: Tls | undefined) => {
    const server = Bun.serve({
      ...(at as { hostname: string; port: number }),
      reusePort: sharesPort,
      ...(secured === undefined ? {} : { tls: secured }),
      // Limits how long a client may take to send. Calls and streams may be silent for long, and have their own limits.
      idleTimeout,
      // Bun refuses before svc does, and without a body, so its limit is well above svc's.
      maxRequestBodySize: 2 * deps.mcp.maxBody,
      fetch(request, self) {
        received++
        const served = respond(createInbound(request, () => peerOf(self, request)))
        if (request.method === "POST")
          return endsConnections() && served instanceof Promise ? served.then(endsConnection) : served
        if (!(served instanceof Promise)) return settle(request, served)
        self.timeout(request, 0)
        return served.then((response) => settle(request, response))
      },
      error(error) {
        // Bun does not tell which request failed; most are MCP.
        return errorResponse(error, { shape: "jsonrpc", onbug: deps.mcp.onbug })
      },
    })
    // Streams stay open. Any other response must not hold its connection forever.
    const settle = (request: Request, response: Response): Response => {
      server.timeout(request, response.headers.get("content-type") === STREAM ? 0 : idleTimeout)
      return endsConnections() ? endsConnection(response) : response
    }
    const respond = createRoute({
      ...deps,
      mcp: {
        ...deps.mcp,
        onbody: (request) => server.timeout(request, 0),
        addressOf: clientOf && ((request) => clientOf(peerOf(server, request), request)),
      },
    })
    return server
  }
  let server = withPrivateUmask(() => open(address, tls))
  let current = tls
  const { url } = server
  const old: { readonly server: typeof server; readonly stopped: Promise<void> }[] = []
  return {
    url,
    pending() {
      return [server, ...old.map((one) => one.server)].reduce((sum, { pendingRequests }) => sum + pendingRequests, 0)
    },
    drain() {
      draining = true
    },
    async refuse() {
      await quiet(() => received)
      void server.stop(false)
    },
    async stop() {
      await Promise.all([server.stop(true), ...old.map(({ stopped }) => stopped)])
    },
    secure(next) {
      // The old listener releases the port at once, and ends with its last connection.
      old.push({ server, stopped: server.stop(false) })
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

/** Returns the function that answers requests: the middleware in its order, then the routes. */
export function createRoute(deps: ServerDeps): Respond {
  const list = MIDDLEWARE_ORDER.map((name) => deps.middleware[name]).filter((middleware) => middleware !== undefined)
  const narrowScope = createScopeNarrowing(deps.tools, () => deps.agent.presets)
  const serve: Respond = (inbound) => serveRoute(inbound, deps, narrowScope)
  const serveClient = compose(list, serve)
  const { admitReplica } = deps
  if (admitReplica === undefined) return serveClient
  return (inbound) => {
    const admitted = admitReplica(inbound)
    if (admitted === undefined) return serveClient(inbound)
    return admitted instanceof Response ? admitted : serve({ ...inbound, principal: admitted })
  }
}

/** Returns a set that keeps open streams in `streams`, and closes each at the time `until`, when its token expires. */
export function closedAt(until: number, streams: OpenStreams, clock: Clock): OpenStreams {
  const timers = new Map<OpenStream, () => void>()
  return {
    add(stream) {
      const cancel = clock.after(Math.max(0, until - clock.now()), () => stream.close())
      timers.set(stream, cancel)
      return streams.add(stream)
    },
    delete(stream) {
      timers.get(stream)?.()
      return streams.delete(stream)
    },
  }
}

// ---

/**
 * Resolves when no request has arrived for some turns of the event loop. A request on a connection that svc has not read yet
 * would be lost with the connection, and a load balancer does not repeat it.
 */
async function quiet(received: () => number): Promise<void> {
  let before = received()
  for (let turns = 0, idle = 0; idle < QUIET_TURNS && turns < MAX_TURNS; turns++) {
    await new Promise<void>((resolve) => setImmediate(resolve))
    idle = received() === before ? idle + 1 : 0
    before = received()
  }
}

const QUIET_TURNS = 3
/** Under constant load there is no quiet moment. */
const MAX_TURNS = 200

/** Answers a request that no middleware answered. Renders errors of the routes. */
function serveRoute(inbound: Inbound, deps: ServerDeps, narrowScope: NarrowScope): Response | Promise<Response> {
  const { request, path, search, principal } = inbound
  const { clock, pipes } = deps
  // Throws a RequestError for an invalid query.
  const scope = () => narrowScope(deps.scopeOf(search), principal)
  const { until } = principal
  const mcp = until === undefined ? deps.mcp : { ...deps.mcp, streams: closedAt(until, deps.mcp.streams, clock) }
  try {
    switch (path) {
      case "/":
        if (request.method !== "GET" && request.method !== "HEAD") return wrongMethod(path, "GET, HEAD")
        return deps.frontPage(request)
      case "/mcp":
        return serveMcp(request, scope(), principal, mcp)
      case "/sse":
        if (request.method !== "GET") return wrongMethod(path, "GET")
        return openSseStream(
          request,
          { scope: scope(), principal, messages: messagesPath(deps.base(), inbound.slash) },
          pipes,
          mcp,
        )
      case MESSAGES_PATH:
        if (request.method !== "POST") return wrongMethod(path, "POST")
        return postSseMessage(request, principal, pipes, mcp)
    }
    if (deps.api !== undefined && API_PATH.test(path))
      return deps.api({ inbound, streams: mcp.streams, scope, onbody: () => mcp.onbody?.(request) })
    const name = SERVER_PATH.exec(path)?.[1]
    if (name !== undefined) return serveBackend(percentDecoded(name), inbound, mcp, deps, narrowScope)
    throw new RequestError("not_found", `There is no endpoint ${path.slice(0, 200)}; MCP is at /mcp`)
  } catch (error) {
    return errorResponse(error, { shape: shapeOf(path), onbug: deps.mcp.onbug })
  }
}

/** Serves one backend under its own names. Throws a RequestError if there is none that the principal may see. */
function serveBackend(
  name: string,
  inbound: Inbound,
  mcp: McpDeps,
  { agent, base }: ServerDeps,
  narrowScope: NarrowScope,
): Response | Promise<Response> {
  const { request, search, principal } = inbound
  // Instances of templates are offered only to their own clients.
  const backend = agent.find(name).find(({ spec }) => spec.id === spec.name)
  if (backend !== undefined) {
    const { id, tuning } = backend.spec
    if (mayEnter(principal, backend.spec, agent.presets)) {
      const tools = search === "" ? undefined : readTools(new URLSearchParams(search))
      return serveMcp(request, narrowScope({ kind: "server", id, tools }, principal), principal, mcp)
    }
    const tag = tuning.tags.find(isScope)
    if (principal.scoped && tag !== undefined && !maySee(principal, tuning.tags))
      return insufficientScope([`${TAG_SCOPE}${tag}`], inbound, base())
  }
  const template = isLimited(principal) ? undefined : agent.snapshot().templates.find((one) => one === name)
  throw new RequestError(
    "not_found",
    template === undefined
      ? `No server is named ${name.slice(0, 100)}`
      : `${template} is a template; its instances are at /mcp, for clients that send their context`,
  )
}

const STREAM = SSE_HEADERS["content-type"]
const API_PATH = /^\/(?:api\/|admin(?:\/|$))/
const SERVER_PATH = /^\/servers\/([^/]+)\/mcp$/

const wrongMethod = (path: string, allow: string): Response =>
  errorResponse(new RequestError("wrong_method", "Method not allowed"), { shape: shapeOf(path), headers: { allow } })
