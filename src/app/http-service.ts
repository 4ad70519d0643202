/** Serves clients over HTTP: the listener with its routes, authentication, certificate and socket. */
import { existsSync, lstatSync, unlinkSync } from "node:fs"
import { type AdminInterface, createAdminInterface } from "../features/rest/admin-interface.ts"
import { LOGIN_PATH } from "../features/rest/admin-login.ts"
import { localUrl } from "../lib/address.ts"
import { systemClock } from "../lib/clock.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"
import { exposition } from "../report/metrics.ts"
import {
  clientAddress,
  createAddressLimiter,
  createHealthLimit,
  HEALTH_LIMIT,
  TRUST_NO_PROXY,
} from "../serve/address-rate-limit.ts"
import { createCors } from "../serve/cors.ts"
import { createHealth } from "../serve/health.ts"
import { createHostCheck } from "../serve/host-check.ts"
import { createMetricsEndpoint } from "../serve/metrics.ts"
import { createCallback } from "../serve/oauth-callback.ts"
import { describePortInUse } from "../serve/port-in-use.ts"
import { type Listening, listenHttp } from "../serve/server.ts"
import { createServerCards, isPublicDocument, type ServerCardOptions } from "../serve/server-card.ts"
import type { Paths } from "../store/paths.ts"
import { UNIX_SOCKET } from "./refused-logins.ts"
import type { Runtime } from "./runtime.ts"
import type { ServeOptions } from "./serve-options.ts"
import { readTls, watchTls } from "./tls.ts"

export type HttpService = Listening & {
  /** REST and its login; undefined with `--no-admin`. */
  readonly admin: AdminInterface | undefined
  /** The address for clients on this machine: `url`, but with 127.0.0.1 for 0.0.0.0. */
  readonly local: string
  /** The address of MCP for clients; undefined for a Unix socket. */
  readonly endpoint: string | undefined
  /** Answers all requests; until then, only those for `/health/live`. */
  admit(): void
  /** Logs the address. Call it once the configuration is loaded: programs that start svc wait for this line. */
  announce(): void
  /** Reads the tokens of clients now if their file has changed. */
  followTokens(): void
  /** Returns why svc refuses all tokens of clients now; undefined if it does not. */
  tokensProblem(): string | undefined
  close(): void
}

/** Listens for clients. Throws an UnavailableError that names the address if it is taken. */
export async function startHttp(
  runtime: Runtime,
  options: ServeOptions,
  paths: Paths | undefined,
): Promise<HttpService> {
  const { agent, cluster, mcp, metrics, log, redactor, facts } = runtime
  const { address, loopback, trustProxy, tls } = options
  const { promise: admitted, resolve: admit } = Promise.withResolvers<void>()
  let held: Promise<void> | undefined = admitted
  const ownHealthLimiter = createAddressLimiter(systemClock, HEALTH_LIMIT)
  const healthLimit = options.healthRateLimit
    ? createHealthLimit({
        limiter:
          cluster === undefined
            ? ownHealthLimiter
            : createAddressLimiter(systemClock, HEALTH_LIMIT, (key, ms) => cluster.count(`health:${key}`, ms)),
        probeLimiter: ownHealthLimiter,
        trustProxy,
        onlimited: () => {
          if (metrics !== undefined) metrics.rateLimited++
        },
      })
    : undefined
  const health = createHealth({
    snapshot: () => agent.snapshot(),
    now: () => systemClock.now(),
    facts,
    level: options.healthInfoLevel,
    redactAll: (text: string) => redactor().redactAll(text),
  })
  const metricsEndpoint =
    metrics === undefined
      ? undefined
      : createMetricsEndpoint(() => {
          const { uptimeSeconds, version } = facts()
          const results = runtime.mcp.gateway.results.sizes
          const gauges = {
            replica: cluster?.gauge(),
            streams: runtime.streams.size,
            inFlight: agent.inFlight,
            sessions: runtime.sessions.size,
            uptimeSeconds,
            version,
            results,
          }
          return exposition(metrics, agent.snapshot(), gauges)
        })
  const oauthCallback = createCallback({
    finish: (answer) => runtime.oauth.finish(answer),
    hide: (text) => redactor().maskKnown(text),
    client: () =>
      runtime.oauth.description(options.admin && options.authIssuer !== undefined ? [`${base()}${LOGIN_PATH}`] : []),
    forward: cluster?.forward,
  })
  const base = () => (options.externalUrl ?? local).replace(/\/$/, "")
  const admin = options.admin ? createAdminInterface(runtime, options) : undefined
  const auth = options.auth
    ? await (await import("./inbound-auth.ts")).openInboundAuth(runtime, options, paths, base, admin?.tokenOf)
    : undefined
  const unix = "unix" in address ? address.unix : undefined
  if (unix !== undefined) await clearSocket(unix)
  let listening: Listening
  try {
    listening = listenHttp(
      { address, tls: tls === undefined ? undefined : readTls(tls), receiveTimeout: options.receiveTimeout },
      {
        agent,
        clock: systemClock,
        mcp,
        pipes: new Map(),
        scopeOf: runtime.scopeOf,
        tools: options.tools,
        middleware: {
          cors: createCors(options.allowedOrigin),
          hostCheck: createHostCheck({
            ...options,
            allowedOrigins: options.allowedOrigin,
            isPublished: (path) => options.externalUrl !== undefined && isPublicDocument(path),
          }),
          authenticate: auth?.authenticate,
          firstLoad: (inbound, next) =>
            held === undefined || inbound.path === "/health/live" ? next(inbound) : held.then(() => next(inbound)),
          healthLimit,
          resourceMetadata: auth?.resourceMetadata,
          oauthCallback,
          metrics: metricsEndpoint,
          health,
          serverCards: createServerCards({
            agent,
            version: facts().version,
            externalUrl: options.externalUrl,
            auth: authentication(options),
          }),
        },
        admitReplica: cluster?.admission(),
        // Reading the address takes a twentieth of a call. It says nothing if all clients are on this machine.
        clientOf:
          runtime.audit && (!loopback || trustProxy !== TRUST_NO_PROXY)
            ? (socket, { headers }) => clientAddress(socket, headers.get("x-forwarded-for"), trustProxy) || UNIX_SOCKET
            : undefined,
        endsConnections: cluster && (() => cluster.leaving.endsConnections),
        api: admin?.serve,
        // Imported at the first request: few clients open this page.
        frontPage: async (request) => {
          const { serveFrontPage } = await import("../serve/front-page.ts")
          const { externalUrl, auth, admin } = options
          return serveFrontPage(request, { externalUrl, auth, rest: admin })
        },
        base,
      },
    )
  } catch (cause) {
    if (cause instanceof UnavailableError) throw cause
    // Bun also reports a name without an address as a port in use.
    if ("hostname" in address && !(await hasAddress(address.hostname)))
      throw new UnavailableError(`cannot listen on ${address.hostname}: the name has no address`, { cause })
    if ("port" in address && cause instanceof Error && "code" in cause && cause.code === "EADDRINUSE")
      throw new UnavailableError(await describePortInUse(address, paths), { cause })
    const place = "unix" in address ? address.unix : `${address.hostname}:${address.port}`
    throw new UnavailableError(`cannot listen on ${place}: ${messageOf(cause)}`, { cause })
  }
  cluster?.join(listening.url, () => ({
    calls: agent.inFlight,
    sessions: runtime.sessions.size,
    streams: runtime.streams.size,
  }))
  const local = unix === undefined ? localUrl(listening.url) : "http://localhost/"
  const certificate = tls === undefined ? undefined : watchTls(tls, listening, log)
  // A browser cannot be redirected to a Unix socket.
  const publicUrl = options.externalUrl ?? (unix === undefined ? local : undefined)
  if (publicUrl !== undefined) runtime.setPublicUrl(publicUrl)
  const endpoint = publicUrl === undefined ? undefined : `${publicUrl.replace(/\/$/, "")}/mcp`
  return {
    ...listening,
    admin,
    local: localUrl(listening.url),
    endpoint,
    admit() {
      held = undefined
      admit()
    },
    announce() {
      const place = unix === undefined ? `${listening.url.href}mcp` : `unix:${unix}`
      // Clients use another address behind a proxy, and if svc listens on 0.0.0.0, to which they cannot connect.
      const isElsewhere = endpoint !== undefined && endpoint !== place
      const where =
        options.externalUrl === undefined && !loopback
          ? `clients on this machine connect to ${endpoint}; set the address for other clients with --external-url`
          : `clients connect to ${endpoint}`
      log.info(`listening on ${place}${isElsewhere ? `; ${where}` : ""}`)
      if (loopback) return
      if (!options.auth) log.warn("no authentication: every client that can reach this address can use every server")
      else if (tls === undefined && !/^https:/i.test(options.externalUrl ?? ""))
        log.warn(
          "no encryption: clients send their tokens in clear text; add --tls-cert and --tls-key, or put an https proxy in front of svc and set its address with --external-url",
        )
    },
    followTokens: () => auth?.follow(),
    tokensProblem: () => auth?.problem(),
    close() {
      auth?.close()
      certificate?.close()
      if (unix !== undefined && existsSync(unix)) unlinkSync(unix)
    },
  }
}

// ---

const authentication = ({ auth, authIssuer }: ServeOptions): ServerCardOptions["auth"] => {
  if (!auth) return "none"
  return authIssuer === undefined ? "token" : "issuer"
}

/** Removes a socket that an earlier svc left behind. Throws an UnavailableError if the path is in use or is not a socket. */
async function clearSocket(path: string): Promise<void> {
  if (!existsSync(path)) return
  if (!lstatSync(path).isSocket())
    throw new UnavailableError(
      `cannot listen on ${path}: the file exists and is not a socket; choose another path with --listen`,
    )
  const used = await fetch("http://localhost/health/live", { unix: path, signal: AbortSignal.timeout(1000) }).then(
    () => true,
    () => false,
  )
  if (used)
    throw new UnavailableError(
      `another process already listens on ${path}; stop it, or choose another path with --listen`,
    )
  unlinkSync(path)
}

const hasAddress = (hostname: string): Promise<boolean> =>
  process
    .getBuiltinModule("node:dns/promises")
    .lookup(hostname)
    .then(
      () => true,
      () => false,
    )
