/** Serves clients over HTTP: the listener with its routes, authentication, certificate and socket. */
import { existsSync, lstatSync, unlinkSync } from "node:fs"
import { localUrl } from "../lib/address.ts"
import { systemClock } from "../lib/clock.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import { exposition } from "../report/metric-family.ts"
import {
  clientAddress,
  createAddressLimiter,
  createHealthLimit,
  HEALTH_LIMIT,
  TRUST_NO_PROXY,
  type TrustProxy,
} from "../serve/address-rate-limit.ts"
import { createCors } from "../serve/cors.ts"
import { createHealth } from "../serve/health.ts"
import { createHostCheck } from "../serve/host-check.ts"
import { createHttpDurations } from "../serve/http-durations.ts"
import type { Middleware } from "../serve/inbound.ts"
import { createMetricsEndpoint } from "../serve/metrics.ts"
import { clientMetadataUrl, createCallback } from "../serve/oauth-callback.ts"
import { describePortInUse } from "../serve/port-in-use.ts"
import { type Listening, listenHttp, type MiddlewareTable, type ServerDeps } from "../serve/server.ts"
import { createServerCards, isPublicDocument, type ServerCardOptions } from "../serve/server-card.ts"
import type { Predecessor } from "../serve/system.ts"
import type { Paths } from "../store/paths.ts"
import type { OpenAccessLog } from "./access-log.ts"
import { type AdminInterface, openAdmin, openIssuerClient, readPasted } from "./features.ts"
import type { InboundAuth } from "./inbound-auth.ts"
import { cheapUsageOf, familiesOf, ownUsage } from "./metric-families.ts"
import type { Runtime } from "./runtime.ts"
import type { ServeOptions } from "./serve-options.ts"
import { readTls, watchTls } from "./tls.ts"

export type HttpService = Listening & {
  /** REST and its login; undefined with `--no-admin`. */
  readonly admin?: AdminInterface | undefined
  /** The address for clients on this machine: `url`, but with 127.0.0.1 for 0.0.0.0. */
  readonly local: string
  /** Undefined for a Unix socket. */
  readonly port: number | undefined
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
  /** Writes the remaining lines of the access log. */
  closeAccessLog(): Promise<void>
}

/**
 * Listens for clients, on the port of a predecessor if there is one. Rejects with an UnavailableError that names the address if it is
 * taken.
 */
export async function startHttp(
  runtime: Runtime,
  options: ServeOptions,
  paths: Paths | undefined,
  predecessor?: Predecessor,
): Promise<HttpService> {
  const { agent, cluster, log } = runtime
  const { tls } = options
  const unix = "unix" in options.address ? options.address.unix : undefined
  const place = new Place(options.externalUrl, unix)
  const gate = createGate()
  const admin = options.admin ? await openAdmin(adminDeps(runtime, options, paths), options) : undefined
  const auth = options.auth
    ? await (await import("./inbound-auth.ts")).openInboundAuth(runtime, options, paths, {
        base: place.base,
        tokenOf: admin?.tokenOf,
      })
    : undefined
  if (unix !== undefined) await clearSocket(unix)
  const accessLog =
    options.accessLog === undefined
      ? undefined
      : await (await import("./access-log.ts")).openAccessLog(options.accessLog, runtime, clientOf(options))
  const middleware = middlewareOf(runtime, options, {
    accessLog,
    gate,
    auth,
    redirectUrls: () => admin?.redirectUrls(place.base()),
  })
  const listening = await listen(
    options,
    { paths, predecessor },
    serverDeps(runtime, options, { middleware, api: admin?.serve, base: place.base }),
  )
  place.listensAt(listening.url)
  cluster?.join(listening.url, () => ({
    calls: agent.inFlight,
    sessions: runtime.sessions.size,
    streams: runtime.streams.size,
  }))
  const certificate = tls === undefined ? undefined : watchTls(tls, listening, log)
  if (place.publicUrl !== undefined) runtime.setPublicUrl(place.publicUrl)
  return {
    ...listening,
    admin,
    local: localUrl(listening.url),
    port: unix === undefined ? Number(listening.url.port || (tls === undefined ? 80 : 443)) : undefined,
    endpoint: place.endpoint,
    admit: gate.open,
    announce: () => announce(log, options, listening.url, place.endpoint),
    followTokens: () => auth?.follow(),
    tokensProblem: () => auth?.problem(),
    closeAccessLog: async () => accessLog?.close(),
    close() {
      auth?.close()
      certificate?.close()
      if (unix !== undefined && existsSync(unix)) unlinkSync(unix)
    },
  }
}

// ---

/** The addresses of svc. Without an external URL they are known once svc listens. */
class Place {
  private local = "http://localhost/"

  constructor(
    private readonly externalUrl: string | undefined,
    private readonly unix: string | undefined,
  ) {}

  listensAt(url: URL): void {
    if (this.unix === undefined) this.local = localUrl(url)
  }

  /** Returns the address at which clients reach svc, without a trailing slash. */
  readonly base = (): string => (this.externalUrl ?? this.local).replace(/\/$/, "")

  /** The address for browsers, which cannot be redirected to a Unix socket. */
  get publicUrl(): string | undefined {
    return this.externalUrl ?? (this.unix === undefined ? this.local : undefined)
  }

  /** The address of MCP for clients. */
  get endpoint(): string | undefined {
    return this.publicUrl === undefined ? undefined : `${this.base()}/mcp`
  }
}

type Gate = { readonly middleware: Middleware; open(): void }

/** Returns the middleware that holds requests until the gate is opened, but for `/health/live`. */
function createGate(): Gate {
  const { promise, resolve } = Promise.withResolvers<void>()
  let held: Promise<void> | undefined = promise
  return {
    middleware: (inbound, next) =>
      held === undefined || inbound.path === "/health/live" ? next(inbound) : held.then(() => next(inbound)),
    open() {
      held = undefined
      resolve()
    },
  }
}

/** The parts that the middleware of a running svc serves. */
type Served = {
  readonly accessLog?: OpenAccessLog | undefined
  readonly gate: Gate
  readonly auth: InboundAuth | undefined
  /** Returns the addresses to which the issuer redirects after a login to the admin page. */
  readonly redirectUrls?: () => readonly string[] | undefined
}

function middlewareOf(
  runtime: Runtime,
  options: ServeOptions,
  { accessLog, gate, auth, redirectUrls }: Served,
): MiddlewareTable {
  const { agent, cluster, facts, metrics, oauth, redactor } = runtime
  const { allowedOrigin, externalUrl } = options
  return {
    durations:
      metrics &&
      createHttpDurations({
        ticks: () => performance.now(),
        scheme: options.tls === undefined ? "http" : "https",
        record: (values, seconds) => metrics.http.record(values, seconds),
      }),
    accessLog: accessLog?.around,
    accessPrincipal: accessLog?.authenticated,
    cors: createCors(allowedOrigin),
    hostCheck: createHostCheck({
      ...options,
      allowedOrigins: allowedOrigin,
      isPublished: (path) => externalUrl !== undefined && isPublicDocument(path),
    }),
    authenticate: auth?.authenticate,
    firstLoad: gate.middleware,
    healthLimit: options.healthRateLimit ? healthLimit(runtime, options.trustProxy) : undefined,
    resourceMetadata: auth?.resourceMetadata,
    oauthCallback: createCallback({
      finish: (answer) => oauth.finish(answer),
      hide: (text) => redactor().maskKnown(text),
      client: () => oauth.description(redirectUrls?.() ?? []),
      forward: cluster?.forward,
    }),
    metrics: options.metrics
      ? metrics && createMetricsEndpoint(() => exposition(familiesOf(runtime, metrics)))
      : undefined,
    health: createHealth({
      presets: () => agent.presets,
      snapshot: () => agent.snapshot(),
      now: () => systemClock.now(),
      facts,
      level: options.healthInfoLevel,
      redactAll: (text) => redactor().redactAll(text),
    }),
    serverCards: createServerCards({ agent, version: facts().version, externalUrl, auth: authentication(options) }),
  }
}

/** Probes count on each replica alone. */
function healthLimit({ cluster, metrics }: Runtime, trustProxy: TrustProxy): Middleware {
  const probeLimiter = createAddressLimiter(systemClock, HEALTH_LIMIT)
  return createHealthLimit({
    limiter:
      cluster === undefined
        ? probeLimiter
        : createAddressLimiter(systemClock, HEALTH_LIMIT, (key, ms) => cluster.count(`health:${key}`, ms)),
    probeLimiter,
    trustProxy,
    onlimited: () => {
      if (metrics !== undefined) metrics.rateLimited++
    },
  })
}

/** Returns the function that finds the address of a client. */
const clientOf =
  ({ trustProxy }: Pick<ServeOptions, "trustProxy">) =>
  (socket: string, { headers }: Request): string =>
    clientAddress(socket, headers.get("x-forwarded-for"), trustProxy)

function serverDeps(
  { agent, audit, cluster, mcp, scopeOf }: Runtime,
  { admin: hasAdmin, auth, externalUrl, loopback, tools, trustProxy }: ServeOptions,
  served: Pick<ServerDeps, "middleware" | "api" | "base">,
): ServerDeps {
  return {
    agent,
    clock: systemClock,
    mcp,
    pipes: new Map(),
    scopeOf,
    tools,
    ...served,
    admitReplica: cluster?.admission(),
    // Reading the address takes a twentieth of a call. It says nothing if all clients are on this machine.
    clientOf: audit && (!loopback || trustProxy !== TRUST_NO_PROXY) ? clientOf({ trustProxy }) : undefined,
    endsConnections: cluster && (() => cluster.leaving.endsConnections),
    // Imported at the first request: few clients open this page.
    async frontPage(request) {
      const { serveFrontPage } = await import("../serve/front-page.ts")
      return serveFrontPage(request, { externalUrl, auth, rest: hasAdmin })
    },
  }
}

function adminDeps(
  runtime: Runtime,
  { authIssuer, externalUrl }: ServeOptions,
  paths: Paths | undefined,
): Parameters<typeof openAdmin>[0] {
  const { cluster, mcp, oauth, redactor } = runtime
  return {
    ...runtime,
    paths,
    gateway: mcp.gateway,
    mask: (text) => redactor().maskCredentials(text),
    authorize: (spec) => oauth.begin(spec, undefined),
    countLogins: cluster && ((key, ms) => cluster.count(`login:${key}`, ms)),
    readPasted,
    usage: (pids) => ({ own: ownUsage(), trees: cheapUsageOf(pids) }),
    issuerClient: () => openIssuerClient(authIssuer ?? "", clientMetadataUrl(externalUrl)),
  }
}

/** Listens. Rejects with an UnavailableError that says why that is not possible. */
async function listen(
  { address: wanted, tls, receiveTimeout }: ServeOptions,
  { paths, predecessor }: { readonly paths: Paths | undefined; readonly predecessor: Predecessor | undefined },
  deps: ServerDeps,
): Promise<Listening> {
  const address = "port" in wanted ? { ...wanted, port: predecessor?.port ?? wanted.port } : wanted
  // Other systems do not divide connections between processes.
  const sharesPort = process.platform === "linux" && "port" in address
  try {
    if (sharesPort && predecessor === undefined && address.port !== 0) refuseSharing(address)
    return listenHttp({ address, tls: tls === undefined ? undefined : readTls(tls), receiveTimeout, sharesPort }, deps)
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
}

/** Throws, as listening would, if anything listens at an address: an svc there would share the port. */
function refuseSharing({ hostname, port }: { readonly hostname: string; readonly port: number }): void {
  Bun.listen({ hostname, port, socket: { data() {} } }).stop(true)
}

function announce(
  log: Log,
  { address, auth, externalUrl, loopback, tls }: ServeOptions,
  url: URL,
  endpoint: string | undefined,
): void {
  const place = "unix" in address ? `unix:${address.unix}` : `${url.href}mcp`
  // Clients use another address behind a proxy, and if svc listens on 0.0.0.0, to which they cannot connect.
  const isElsewhere = endpoint !== undefined && endpoint !== place
  const where =
    externalUrl === undefined && !loopback
      ? `clients on this machine connect to ${endpoint}; set the address for other clients with --external-url`
      : `clients connect to ${endpoint}`
  log.info(`listening on ${place}${isElsewhere ? `; ${where}` : ""}`)
  if (loopback) return
  if (!auth) log.warn("no authentication: every client that can reach this address can use every server")
  else if (tls === undefined && !/^https:/i.test(externalUrl ?? ""))
    log.warn(
      "no encryption: clients send their tokens in clear text; add --tls-cert and --tls-key, or put an https proxy in front of svc and set its address with --external-url",
    )
}

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
