/** `svc serve`: everything put together, and its life from the first line to the last process. */
import { homedir } from "node:os"
import type { CommandDef } from "citty"
import { Agent } from "../agent/agent.ts"
import { HEALTH_LEVELS, type ProcessFacts } from "../agent/health.ts"
import { exposition, Metrics } from "../agent/metrics.ts"
import { createReload, type Reloaded } from "../agent/reload.ts"
import { statusOf } from "../agent/status.ts"
import type { Backend } from "../backend/backend.ts"
import { openChild } from "../backend/child.ts"
import { createCapture, lines } from "../backend/stderr.ts"
import { createWarden } from "../backend/warden.ts"
import { isHidden } from "../catalog/catalog.ts"
import { pathsOf } from "../config/paths.ts"
import { jsonSchema } from "../config/schema.ts"
import type { Plan, Spec } from "../config/spec.ts"
import { createMissing, readTexts, watchFiles } from "../config/store.ts"
import { systemClock } from "../lib/clock.ts"
import { formatIssue, messageOf, RequestError, UnavailableError } from "../lib/errors.ts"
import { LOG_LEVELS, openLog } from "../lib/log.ts"
import { createCleaner } from "../lib/redact.ts"
import { createSealer } from "../lib/seal.ts"
import { version } from "../lib/version.ts"
import { openControl } from "../serve/control.ts"
import { createGuard, isLoopback } from "../serve/guard.ts"
import { serveHealth } from "../serve/health.ts"
import { clientAddress, createLimiter, HEALTH_LIMIT, parseTrustProxy } from "../serve/limit.ts"
import { EVERYTHING, type Listening, listen } from "../serve/server.ts"
import { serveStdio } from "../serve/stdio.ts"
import { Calls } from "../session/calls.ts"
import { createFace } from "../session/face.ts"
import { Sessions } from "../session/sessions.ts"
import { createIds } from "../wire/frame.ts"
import type { Params } from "../wire/message.ts"
import { options, usage } from "./command.ts"

export const serve: CommandDef = {
  meta: { name: "serve", description: "Run the servers of mcp.json and offer them as one MCP server" },
  args: {
    config: { type: "string", description: "The configuration file", valueHint: "path" },
    "config-dir": {
      type: "string",
      description: "The configuration directory (default ~/.config/svc)",
      valueHint: "directory",
    },
    host: { type: "string", description: "Address to listen on (default 127.0.0.1)" },
    port: { type: "string", description: "Port to listen on (default 3050; 0 takes a free one)" },
    transport: { type: "string", description: "http or stdio (default http)" },
    demo: { type: "boolean", description: "Serve a small built-in server; reads no configuration" },
    reload: { type: "boolean", description: "Follow changes of the files (default; --no-reload turns it off)" },
    "startup-wait": { type: "string", description: "How long the first list waits for servers (default 5s)" },
    "shutdown-grace": { type: "string", description: "How long running calls may finish at the end (default 10s)" },
    "max-body": { type: "string", description: "Largest request body (default 4MiB)" },
    "max-result": { type: "string", description: "Largest message of a server (default 64MiB)" },
    "session-ttl": { type: "string", description: "How long an unused session lives (default 24h)" },
    "health-info-level": { type: "string", description: "full, basic or minimal (default minimal)" },
    "health-rate-limit": { type: "string", description: "on or off (default on: 200 requests in 5 minutes)" },
    "trust-proxy": { type: "string", description: "Whose X-Forwarded-For counts: off, loopback, addresses, CIDRs" },
    metrics: { type: "boolean", description: "Offer /metrics for Prometheus" },
    "log-level": { type: "string", description: "debug, info, warn or error (default info)" },
    "log-format": { type: "string", description: "text or json (default text)" },
    "allowed-host": { type: "string", description: "Host names svc is reached under, with commas" },
    "allowed-origin": { type: "string", description: "Origins of pages that may call svc, with commas" },
    "allow-unauthenticated": { type: "boolean", description: "Listen beyond this machine without authentication" },
  },
  run: ({ args }) => run(args),
}

// ---

const KEEP_ALIVE_MS = 25_000
const DEBOUNCE_MS = 300
const STOP_GRACE_MS = 2000
const MAX_SESSIONS = 10_000

async function run(args: Readonly<Record<string, unknown>>): Promise<number> {
  const { env, platform } = process
  const clock = systemClock
  const option = options(args, env)
  const transport = option.choice("transport", ["http", "stdio"], "http")
  const hostname = option.text("host") ?? "127.0.0.1"
  const port = option.integer("port", 3050, 0, 65_535)
  const level = option.choice("health-info-level", HEALTH_LEVELS, "minimal")
  const startupWait = option.duration("startup-wait", 5000)
  const grace = option.duration("shutdown-grace", 10_000)
  const maxBody = option.size("max-body", 4 * 1024 * 1024)
  const limit = option.size("max-result", 64 * 1024 * 1024)
  const demo = option.flag("demo")
  const loopback = isLoopback(hostname)
  if (transport === "http" && !loopback && !option.flag("allow-unauthenticated"))
    throw usage(
      `listening on ${hostname} lets others in without authentication; add --allow-unauthenticated if that is meant`,
    )
  const mask = (text: string) => text
  const log = openLog({
    level: option.choice("log-level", LOG_LEVELS, "info"),
    format: option.choice("log-format", ["text", "json"], "text"),
    clock,
    mask,
    write: (line) => void process.stderr.write(line),
  })
  // Follows the plan: what it resolves must not be shown from that moment on.
  let known: readonly string[] = []
  let current = createCleaner(known)
  const cleaner = () => {
    if (agent !== undefined && agent.secrets !== known) {
      known = agent.secrets
      current = createCleaner(known)
    }
    return current
  }
  const onbug = (error: unknown) => log.error(`internal error: ${error instanceof Error ? error.stack : String(error)}`)
  process.on("unhandledRejection", onbug)
  process.on("uncaughtException", onbug)

  const startedAt = clock.now()
  const random = () => crypto.randomUUID().replaceAll("-", "")
  const warden = createWarden((reason) => log.warn(`servers may outlive svc if it is killed: ${reason}`))
  process.on("exit", () => warden.close())
  const agent: Agent = new Agent({
    clock,
    log,
    startedAt,
    ids: createIds(random().slice(0, 16)),
    limit,
    version,
    eras: createEras(),
    credentials: () => undefined,
    // A call may be silent for as long as its own timeout says.
    fetch: (url, init) => fetch(url, { ...init, timeout: false } as RequestInit),
    openChild(launch, events, { name: server }) {
      const capture = (level: "info" | "warn", source: string) =>
        createCapture({ clock, redact: mask, emit: (line) => log[level](`${source}: ${line}`, { server }) })
      return openChild(launch, events, {
        server,
        clock,
        limit,
        grace: STOP_GRACE_MS,
        warden,
        onstderr: capture("info", "stderr"),
        onnoise: lines(capture("warn", "stdout, not a message")),
      })
    },
  })
  const metrics = option.flag("metrics") ? new Metrics() : undefined
  const sessions = new Sessions(
    clock,
    { count: MAX_SESSIONS, ttl: option.duration("session-ttl", 24 * 3_600_000) },
    (session) => agent.forget(session),
  )
  const { face } = createFace(
    agent,
    () => sessions.all(),
    version,
    metrics === undefined ? undefined : { now: () => performance.now(), record: (...call) => metrics.record(...call) },
  )
  const streams = new Set<{ keepAlive(): void; close(): void }>()
  const calls = new Calls({
    clock,
    sealer: createSealer(crypto.getRandomValues(new Uint8Array(32))),
    newId: random,
    onbug,
  })
  const mcp = { face, sessions, calls, newId: random, maxBody, onbug, streams }
  const facts = (): ProcessFacts => {
    const { heapUsed, heapTotal } = process.memoryUsage()
    const now = clock.now()
    return {
      now,
      version,
      uptimeSeconds: Math.round((now - startedAt) / 1000),
      heapUsed,
      heapTotal,
      pid: process.pid,
      runtime: `bun ${Bun.version}`,
      platform,
      arch: process.arch,
      authEnabled: false,
    }
  }

  let listening: Listening | undefined
  if (transport === "http") {
    const guard = createGuard({
      allowedHosts: list(option.text("allowed-host")),
      allowedOrigins: list(option.text("allowed-origin")),
      loopback,
    })
    const trusted = parseTrustProxy(option.text("trust-proxy") ?? "off")
    if (trusted === undefined) throw usage("--trust-proxy must be off, loopback, or addresses and CIDRs with commas")
    const limiter = createLimiter(clock, HEALTH_LIMIT)
    const limited = (address: string) => {
      const verdict = limiter(address)
      if (metrics !== undefined && verdict.retryAfter !== undefined) metrics.rateLimited++
      return verdict
    }
    const count =
      option.choice("health-rate-limit", ["on", "off"], "on") === "off"
        ? undefined
        : (request: Request, address: string) =>
            limited(clientAddress(address, request.headers.get("x-forwarded-for"), trusted))
    const health = {
      snapshot: () => agent.snapshot(),
      facts,
      level,
      redact: (text: string) => cleaner().redact(text),
      count,
    }
    try {
      listening = listen(
        { hostname, port },
        {
          agent,
          mcp,
          pipes: new Map(),
          wrappers: [
            guard,
            (_request, path) => serveMetrics(path),
            (request, path, address) => serveHealth(request, path, address, health),
          ],
        },
      )
    } catch (cause) {
      if (cause instanceof Error && "code" in cause && cause.code === "EADDRINUSE")
        throw new UnavailableError(`port ${port} on ${hostname} is in use; choose another with --port`, { cause })
      throw new UnavailableError(`cannot listen on ${hostname}:${port}: ${messageOf(cause)}`, { cause })
    }
    log.info(`listening on ${listening.url.href}mcp`)
    if (!loopback) log.warn(`anybody who can reach ${hostname} can use every server: there is no authentication`)
  }

  agent.awaitFirstRound(startupWait)
  const files = demo ? undefined : await follow()
  if (demo) agent.apply(demoPlan(env))
  const keepAlive = () => {
    for (const stream of streams) stream.keepAlive()
    cancelKeepAlive = clock.after(KEEP_ALIVE_MS, keepAlive)
  }
  let cancelKeepAlive = clock.after(KEEP_ALIVE_MS, keepAlive)

  const reason = await Promise.race([
    signalled(),
    ...(transport === "stdio"
      ? [
          serveStdio(
            { input: Bun.stdin.stream(), write: (bytes) => void process.stdout.write(bytes) },
            { face, sessions, calls, id: random(), scope: EVERYTHING, principal: "stdio", onbug },
            maxBody,
          ).then(() => "the client is gone"),
        ]
      : []),
  ])
  log.info(`stopping: ${reason}`)
  cancelKeepAlive()
  files?.close()
  void listening?.stop(false)
  await quiet(grace)
  for (const stream of [...streams]) stream.close()
  sessions.close()
  calls.close()
  await agent.close()
  void listening?.stop(true)
  return 0

  /** Reads the files, and again whenever they change. */
  async function follow(): Promise<{ close(): void }> {
    const paths = pathsOf({
      config: option.text("config"),
      directory: option.text("config-dir"),
      platform,
      home: homedir(),
      appData: env.APPDATA,
      cwd: process.cwd(),
    })
    if (createMissing(paths, `${JSON.stringify(jsonSchema(), null, 2)}\n`))
      log.info(`made an empty configuration: ${paths.file}`)
    const reload = createReload({
      agent,
      log,
      files: { config: paths.file, dotenv: paths.dotenv },
      read: () => readTexts(paths),
      world: { parent: env, platform, home: homedir(), folder: paths.file.replace(/[\\/][^\\/]*$/, "") },
    })
    // Clients that start svc over stdio may be several on one directory; only an instance that listens has its door.
    const control =
      transport === "http" ? await openControl(paths, (method, params) => answer(method, params, reload)) : undefined
    reload()
    process.on("SIGHUP", reload)
    if (args.reload === false) return { close: () => control?.close() }
    const watcher = watchFiles(paths, clock, DEBOUNCE_MS, () => {
      const { applied } = reload()
      if (metrics !== undefined) metrics.reloads[applied === undefined ? "refused" : "ok"]++
      if (applied === undefined) return
      const said = Object.entries(applied).flatMap(([what, ids]) =>
        ids.length === 0 ? [] : [`${what} ${ids.join(", ")}`],
      )
      log.info(`reloaded: ${said.length === 0 ? "nothing changed" : said.join("; ")}`)
    })
    return {
      close() {
        watcher.close()
        control?.close()
      },
    }
  }

  /** What svc's own commands may ask of this instance. */
  function answer(method: string, params: Params, reload: () => Reloaded): unknown {
    switch (method) {
      case "status":
        return { ...statusOf(agent.snapshot(), cleaner().redact), pid: process.pid, version, url: listening?.url.href }
      case "restart": {
        const wanted = typeof params.name === "string" ? [find(params.name)] : agent.all()
        for (const backend of wanted) backend.restart()
        return { restarted: wanted.map(({ spec }) => spec.id) }
      }
      case "reload": {
        const { applied, issues } = reload()
        return { applied, issues: issues.map(formatIssue) }
      }
      case "tools": {
        const { spec, published } = find(String(params.name))
        if (published === undefined) throw new UnavailableError(`${spec.name} is not connected`)
        return {
          tools: published.listing.tools.map((tool) => ({
            name: tool.name,
            description: tool.description,
            disabled: isHidden(spec, tool.name),
          })),
        }
      }
      default:
        throw new RequestError("unknown_method", `This svc does not know ${method}; it is version ${version}`)
    }
  }

  function find(name: string): Backend {
    const backend = agent.find(name)
    if (backend === undefined) throw new RequestError("not_found", `No server is named ${name}`)
    return backend
  }

  function serveMetrics(path: string): Response | undefined {
    if (metrics === undefined || path !== "/metrics") return undefined
    const gauges = {
      inFlight: agent.inFlight,
      sessions: sessions.size,
      uptimeSeconds: Math.round((clock.now() - startedAt) / 1000),
      version,
    }
    return new Response(exposition(metrics, agent.snapshot(), gauges), {
      headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" },
    })
  }

  /** Waits until no call runs, at most `ms` milliseconds. */
  async function quiet(ms: number): Promise<void> {
    const until = clock.now() + ms
    while (agent.inFlight > 0 && clock.now() < until) await new Promise<void>((done) => clock.after(20, done))
  }

  /** The first signal ends it gracefully, the second at once. */
  function signalled(): Promise<string> {
    return new Promise((resolve) => {
      let count = 0
      for (const signal of ["SIGINT", "SIGTERM"] as const)
        process.on(signal, () => {
          if (++count > 1) process.exit(1)
          resolve(signal)
        })
    })
  }
}

/** The plan of `--demo`: this same program as its only server. */
function demoPlan(env: Readonly<Record<string, string | undefined>>): Plan {
  const compiled = import.meta.path.startsWith("/$bunfs/") || import.meta.path.includes("~BUN")
  const demo: Spec = {
    id: "demo",
    name: "demo",
    slug: "demo",
    secrets: [],
    launch: {
      transport: "stdio",
      command: process.execPath,
      args: compiled ? ["demo-server"] : [Bun.main, "demo-server"],
      cwd: undefined,
      env: { PATH: env.PATH ?? "" },
      stderr: "pipe",
      mode: "legacy",
    },
    tuning: {
      tags: [],
      disabledTools: [],
      toolDescriptionOverrides: {},
      connectionTimeout: 15_000,
      requestTimeout: 60_000,
      restart: { kind: "supervised", limit: 5, delay: 1000 },
      isolation: "shared",
    },
  }
  return { specs: [demo], disabled: [], issues: [] }
}

/** What was learned of each launch's era, for this run. */
function createEras() {
  const known = new Map<string, "2025" | "2026">()
  return {
    get: (launch: unknown) => known.get(JSON.stringify(launch)),
    set: (launch: unknown, era: "2025" | "2026") => void known.set(JSON.stringify(launch), era),
  }
}

const list = (text: string | undefined): readonly string[] =>
  (text ?? "").split(",").flatMap((part) => (part.trim() === "" ? [] : [part.trim()]))
