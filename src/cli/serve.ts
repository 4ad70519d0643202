/** `svc serve`: its life, from the first line to the last process. */
import { lookup } from "node:dns/promises"
import { existsSync, unlinkSync } from "node:fs"
import type { CommandDef } from "citty"
import { openContext } from "../app/command-context.ts"
import { clearSocket, openInboundAuth, readTls, type Watched, watchTls } from "../app/inbound-auth.ts"
import { trimWhenIdle } from "../app/memory-trim.ts"
import { createStdoutWriter } from "../app/output.ts"
import { findProjectContext, watchProjectContext } from "../app/project-context.ts"
import { startReloadLoop } from "../app/reload-loop.ts"
import { createRuntime, type Runtime } from "../app/runtime.ts"
import { readSettings, SERVE_ARGS, type Settings } from "../app/settings.ts"
import { systemClock, waitWhile } from "../lib/clock.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"
import { exposition } from "../report/metrics.ts"
import { createAddressLimiter, createHealthLimit, HEALTH_LIMIT } from "../serve/address-rate-limit.ts"
import { createCors } from "../serve/cors.ts"
import { createHealth } from "../serve/health.ts"
import { createHostCheck } from "../serve/host-check.ts"
import { createMetricsEndpoint } from "../serve/metrics.ts"
import { createCallback } from "../serve/oauth-callback.ts"
import { WAITING_RESULTS } from "../serve/proxy-server.ts"
import { type Listening, listenHttp } from "../serve/server.ts"
import { serveStdio } from "../serve/stdio.ts"
import { createTrustedClient } from "../serve/trusted-client.ts"
import type { Paths } from "../store/paths.ts"
import { demoPlan } from "./demo-server.ts"

export const serve: CommandDef = {
  meta: { name: "serve", description: "Run the servers of mcp.json and offer them as one MCP server" },
  args: SERVE_ARGS,
  run: ({ args }) => run(args),
}

// ---

const KEEP_ALIVE_MS = 25_000
const ENDS = ["SIGINT", "SIGTERM"] as const
/** Nobody can send a SIGTERM there. SIGBREAK is Ctrl-Break; SIGHUP, that the window is closed: seconds are left. */
const WINDOWS_ENDS = ["SIGINT", "SIGBREAK", "SIGHUP"] as const

async function run(args: Readonly<Record<string, unknown>>): Promise<number> {
  const settings = readSettings(args, process.env, process.platform)
  const paths = settings.demo ? undefined : openContext(args).paths
  const runtime = await createRuntime(settings, paths)
  const { agent, sessions, suspendedCalls, streams, mcp, serverLogs, log } = runtime
  process.on("unhandledRejection", mcp.onbug)
  process.on("uncaughtException", mcp.onbug)

  // From here on a signal ends what has been begun.
  const ended = signalled()
  const listening = settings.transport === "http" ? await startHttp(runtime, settings, paths) : undefined
  agent.awaitInitialLoad(settings.startupWait)
  const files = paths === undefined ? undefined : await startReloadLoop(runtime, settings, paths, listening?.url.href)
  // Said when the configuration is this svc's: who waits for it may rely on that.
  listening?.greet()
  const tidy = trimWhenIdle(systemClock, () => agent.inFlight > 0)
  if (settings.demo) runtime.instances.update(demoPlan(process.env))
  let cancelKeepAlive: () => void
  const keepAlive = () => {
    for (const stream of streams) stream.keepAlive()
    cancelKeepAlive = systemClock.after(KEEP_ALIVE_MS, keepAlive)
  }
  cancelKeepAlive = systemClock.after(KEEP_ALIVE_MS, keepAlive)

  const reason = await Promise.race([
    ended,
    ...(settings.transport === "stdio" ? [serveClient(runtime, settings)] : []),
  ])
  log.info(`stopping: ${reason}`)
  cancelKeepAlive()
  tidy.close()
  files?.close()
  listening?.close()
  void listening?.stop(false)
  await waitWhile(systemClock, () => agent.inFlight > 0, settings.shutdownGrace)
  for (const stream of [...streams]) stream.close()
  sessions.close()
  suspendedCalls.close()
  runtime.instances.close()
  await agent.close()
  // An installation whose server has just been stopped takes back what it wrote.
  await files?.idle()
  void listening?.stop(true)
  serverLogs.flush()
  await runtime.closeAudit()
  return 0
}

/** Listens. Throws an UnavailableError that names what is taken. */
async function startHttp(
  runtime: Runtime,
  settings: Settings,
  paths: Paths | undefined,
): Promise<Listening & Watched & { greet(): void }> {
  const { agent, mcp, metrics, log, redactor, facts } = runtime
  const { address, loopback, trustProxy, tls } = settings
  const healthLimit = settings.healthRateLimit
    ? createHealthLimit({
        limiter: createAddressLimiter(systemClock, HEALTH_LIMIT),
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
    level: settings.healthLevel,
    redactAll: (text: string) => redactor().redactAll(text),
  })
  const metricsEndpoint =
    metrics === undefined
      ? undefined
      : createMetricsEndpoint(() => {
          const { uptimeSeconds, version } = facts()
          const gauges = { inFlight: agent.inFlight, sessions: runtime.sessions.size, uptimeSeconds, version }
          return exposition(metrics, agent.snapshot(), gauges)
        })
  const oauthCallback = createCallback({
    finish: (answer) => runtime.oauth.finish(answer),
    hide: (text) => redactor().maskKnown(text),
    client: () => runtime.oauth.description(),
  })
  const base = () => (settings.externalUrl ?? local).replace(/\/$/, "")
  const auth = await openInboundAuth(runtime, settings, paths, base)
  const unix = "unix" in address ? address.unix : undefined
  if (unix !== undefined) await clearSocket(unix)
  let listening: Listening
  try {
    listening = listenHttp(
      { address, tls: tls === undefined ? undefined : readTls(tls), receiveTimeout: settings.receiveTimeout },
      {
        agent,
        clock: systemClock,
        mcp,
        pipes: new Map(),
        scopeOf: runtime.scopeOf,
        middleware: {
          cors: createCors(settings.allowedOrigins),
          hostCheck: createHostCheck(settings),
          authenticate: auth?.authenticate,
          healthLimit,
          resourceMetadata: auth?.resourceMetadata,
          oauthCallback,
          metrics: metricsEndpoint,
          health,
        },
        base,
      },
    )
  } catch (cause) {
    if (cause instanceof UnavailableError) throw cause
    // Bun says that a port is in use, too, where a name has no address.
    if ("hostname" in address && !(await hasAddress(address.hostname)))
      throw new UnavailableError(`there is no address of ${address.hostname} to listen on`, { cause })
    if ("port" in address && cause instanceof Error && "code" in cause && cause.code === "EADDRINUSE")
      throw new UnavailableError(`port ${address.port} on ${address.hostname} is in use; choose another with --port`, {
        cause,
      })
    const context = "unix" in address ? address.unix : `${address.hostname}:${address.port}`
    throw new UnavailableError(`cannot listen on ${context}: ${messageOf(cause)}`, { cause })
  }
  const local = unix === undefined ? localUrl(listening.url) : "http://localhost/"
  const certificate = tls === undefined ? undefined : watchTls(tls, listening, log)
  // No browser comes back to a socket.
  const reached = settings.externalUrl ?? (unix === undefined ? local : undefined)
  if (reached !== undefined) runtime.reachedAt(reached)
  return {
    ...listening,
    greet() {
      log.info(`listening on ${unix === undefined ? `${listening.url.href}mcp` : `unix:${unix}`}`)
      if (!loopback && !settings.auth)
        log.warn("anybody who can reach this address can use every server: there is no authentication")
    },
    close() {
      auth?.close()
      certificate?.close()
      if (unix !== undefined && existsSync(unix)) unlinkSync(unix)
    },
  }
}

const hasAddress = (hostname: string): Promise<boolean> =>
  lookup(hostname).then(
    () => true,
    () => false,
  )

/** The address of a listener as a browser on this machine reaches it. */
function localUrl(url: URL): string {
  const local = new URL(url)
  if (local.hostname === "0.0.0.0" || local.hostname === "[::]") local.hostname = "127.0.0.1"
  return local.href
}

/** Serves the client that started svc, where it was started, until it is gone. */
async function serveClient({ mcp, trustedClient: deps, log }: Runtime, settings: Settings): Promise<string> {
  const { maxBody, maxResult, shutdownGrace } = settings
  const { promise: ended, resolve: end } = Promise.withResolvers<string>()
  const streams = { input: Bun.stdin.stream(), write: createStdoutWriter(WAITING_RESULTS * maxResult, end) }
  const directory = process.cwd()
  const note = (text: string) => log.warn(text)
  const id = mcp.newId()
  const member = createTrustedClient(findProjectContext(directory, [], note), id, "stdio", deps)
  const following = watchProjectContext(directory, [], note, (found) => {
    try {
      member.updateContext(found)
    } catch (error) {
      log.warn(messageOf(error))
    }
  })
  const { scope, initialize } = member
  const served = serveStdio(streams, { ...mcp, id, scope, principal: "stdio", onclient: initialize }, maxBody, (busy) =>
    waitWhile(systemClock, busy, shutdownGrace),
  )
  const reason = await Promise.race([served.then(() => "the client is gone"), ended])
  following.close()
  member.detach()
  return reason
}

/** The first signal ends svc gracefully, the second at once. */
function signalled(): Promise<string> {
  return new Promise((resolve) => {
    let count = 0
    for (const signal of process.platform === "win32" ? WINDOWS_ENDS : ENDS)
      process.on(signal, () => {
        if (++count > 1) process.exit(1)
        resolve(signal)
      })
  })
}
