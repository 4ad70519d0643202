/** The options of `svc serve`: flags, each of which is also an `SVC_*` variable, read once. */
import { resolve } from "node:path"
import type { ArgsDef } from "citty"
import { parseResultBudget, RESULT_BUDGET_FORM, type ResultBudget } from "../config/result-budget.ts"
import { formatFilterProblem, parseFilter, type TagFilter } from "../config/tag-filter.ts"
import { TOOL_LISTINGS, type ToolListing } from "../config/tool-listing.ts"
import { isLoopback } from "../lib/address.ts"
import { readOptions, usageError } from "../lib/command-line.ts"
import { LOG_LEVELS, type LogLevel } from "../lib/log.ts"
import { didYouMean } from "../lib/nearest.ts"
import { HEALTH_LEVELS, type HealthLevel } from "../report/health.ts"
import { parseTrustProxy, type TrustProxy } from "../serve/address-rate-limit.ts"
import type { ServerOptions } from "../serve/server.ts"
import type { ToolChoice } from "../tools/tool.ts"
import { type ClusterUrl, readClusterUrl } from "./cluster-url.ts"
import { CONFIG_ARGS, DEFAULT_PORT } from "./config-paths.ts"

export const SERVE_OPTIONS = {
  ...CONFIG_ARGS,
  host: { type: "string", description: "Address to listen on (default 127.0.0.1)", valueHint: "host" },
  port: { type: "string", description: `Port to listen on (default ${DEFAULT_PORT}; 0 picks a free one)` },
  listen: { type: "string", description: "Address as HOST:PORT or unix:/path, instead of --host and --port" },
  "tls-cert": {
    type: "string",
    description: "Certificate chain (PEM); reloaded when the file changes",
    valueHint: "path",
  },
  "tls-key": { type: "string", description: "Private key of the certificate (PEM)", valueHint: "path" },
  auth: { type: "boolean", description: "Require a token from clients; see `svc auth token`" },
  "auth-issuer": {
    type: "string",
    description: "OAuth issuer; svc also accepts its access tokens (turns --auth on)",
  },
  "auth-audience": {
    type: "string",
    description: "Audience that access tokens must name (default: the URL to which the client sends them)",
  },
  "auth-scopes": {
    type: "string",
    description:
      "Whether the scopes of an access token limit its servers. on (default): a tagged server requires the scope tag:NAME for one of its tags; off: every valid token gives access to all servers",
    valueHint: "on|off",
  },
  transport: {
    type: "string",
    description: "Transport for clients: http or stdio (default http)",
    valueHint: "http|stdio",
  },
  background: {
    type: "boolean",
    description:
      "Run svc in the background, and return when it is ready; see `svc ps` and `svc stop` (no environment variable)",
  },
  json: { type: "boolean", description: "With --background, print JSON (no environment variable)" },
  init: { type: "boolean", description: "Create the file that --config names if it does not exist" },
  demo: { type: "boolean", description: "Serve a small built-in MCP server, without a configuration" },
  admin: {
    type: "boolean",
    description: "Serve REST at /api and the admin page at /admin (default; --no-admin turns both off)",
  },
  reload: {
    type: "boolean",
    description: "Apply changes to mcp.json and .env while running (default; --no-reload turns it off)",
  },
  "startup-wait": {
    type: "string",
    description: "How long lists and calls wait for servers that are starting (default 5s)",
  },
  "shutdown-grace": {
    type: "string",
    description: "How long running calls may take to finish on shutdown (default 10s)",
  },
  "drain-delay": {
    type: "string",
    description:
      "With --cluster: how long a replica that is stopping still accepts requests, so that the load balancer can see that it is not ready (default 3s)",
  },
  "max-body": { type: "string", description: "Largest request body (default 4MiB)" },
  "receive-timeout": {
    type: "string",
    description: "How long a client may take to send a complete request (default 2m, at most 4m)",
  },
  "max-result": { type: "string", description: "Largest message from a server (default 64MiB)" },
  "result-budget": {
    type: "string",
    description:
      'Largest tool result that clients get in full, in characters or as "4000 tokens"; svc stores a larger result and sends a part of it (default 0: no limit)',
  },
  "result-ttl": { type: "string", description: "How long a stored result can be read (default 1h)" },
  "session-ttl": { type: "string", description: "How long an unused session is kept (default 24h)" },
  "max-in-flight": {
    type: "string",
    description: "Maximum concurrent requests per server and per session (default 1000)",
  },
  "session-rate-limit": { type: "string", description: "Maximum calls per minute of one session (default: no limit)" },
  "audit-log": {
    type: "string",
    description: "File to which svc appends a line for each call and change",
    valueHint: "path",
  },
  "audit-arguments": {
    type: "boolean",
    description: "Include the arguments of tool calls in the audit log, with secrets redacted",
  },
  pagination: { type: "string", description: "Entries per page of a list (default 0: all on one page)" },
  "max-tool-name": {
    type: "string",
    description:
      "Shorten names of tools and prompts on /mcp to this many characters; most models accept 64 (default 0: no limit)",
  },
  "instructions-budget": {
    type: "string",
    description: "Maximum length of the instructions on /mcp, in characters (default 2048; 0: no limit)",
  },
  tools: {
    type: "string",
    description:
      "Tools that svc lists to clients: all (default), or search (only svc's search tools); an address (?tools=), a preset or a token overrides it",
  },
  filter: { type: "string", description: 'Run only servers whose tags match, such as "web and not slow"' },
  "template-linger": {
    type: "string",
    description: "How long a template instance keeps running without clients (default 30s)",
  },
  "template-context": {
    type: "string",
    description: "Whether templates use the context that HTTP clients send: none or trusted (default none)",
    valueHint: "none|trusted",
  },
  persist: {
    type: "boolean",
    description: "Keep sessions and the owners of tasks across restarts (default; --no-persist turns it off)",
  },
  cluster: {
    type: "string",
    description:
      "Run as one of several replicas that share a Redis or Valkey: redis[s]://HOST:PORT; write a password as a reference to a variable",
    valueHint: "url",
  },
  "cluster-address": {
    type: "string",
    description: "Address at which the other replicas reach this one (default: the address it listens on)",
    valueHint: "url",
  },
  "health-info-level": {
    type: "string",
    description: "Level of detail of /health: full, basic or minimal (default minimal)",
    valueHint: "full|basic|minimal",
  },
  "health-rate-limit": {
    type: "string",
    description: "Limit each address to 200 requests to /health in 5 minutes: on or off (default on)",
    valueHint: "on|off",
  },
  "trust-proxy": {
    type: "string",
    description:
      "Proxies from which svc accepts X-Forwarded-For: off, loopback, or comma-separated addresses and CIDRs (default off)",
    valueHint: "off|loopback",
  },
  "internal-tools": {
    type: "string",
    description:
      "Offer tools that manage svc: all, or a comma-separated list of discovery, installation, management and safe (default: none)",
    valueHint: "all|safe|discovery|installation|management",
  },
  "confirm-installs": {
    type: "string",
    description:
      "If the client cannot ask a person to approve a new command: on refuses to run it, off runs it (default on)",
    valueHint: "on|off",
  },
  "confirm-edits": {
    type: "string",
    description:
      "If the client cannot ask a person to approve a change that clients see: on refuses it, off makes it (default on)",
    valueHint: "on|off",
  },
  metrics: { type: "boolean", description: "Serve Prometheus metrics at /metrics" },
  "log-level": {
    type: "string",
    description: "Minimum level to log: debug, info, warn or error (default info)",
    valueHint: "debug|info|warn|error",
  },
  "log-format": {
    type: "string",
    description: "Format of the log: text or json (default text)",
    valueHint: "text|json",
  },
  "log-file": {
    type: "string",
    description: "File to which svc writes its log instead of stderr, rotated by size",
    valueHint: "path",
  },
  "external-url": {
    type: "string",
    description: "Public URL of svc, if it differs from the address it listens on",
  },
  "allowed-host": {
    type: "string",
    description: "Additional host names that clients may use for svc, comma-separated",
  },
  "allowed-origin": { type: "string", description: "Origins of web pages that may call svc, comma-separated" },
  "allow-unauthenticated": {
    type: "boolean",
    description: "Listen beyond this machine without authentication",
  },
} as const satisfies ArgsDef

/** The groups of the options in the help of `svc serve`; each option is in one. */
export const OPTION_GROUPS = {
  configuration: ["config", "config-dir", "init", "background", "json", "demo", "filter", "reload", "persist"],
  listening: ["host", "port", "listen", "transport", "tls-cert", "tls-key", "external-url"],
  "access control": [
    "auth",
    "auth-issuer",
    "auth-audience",
    "auth-scopes",
    "allowed-host",
    "allowed-origin",
    "allow-unauthenticated",
    "admin",
    "trust-proxy",
  ],
  "several replicas": ["cluster", "cluster-address"],
  "times and limits": [
    "startup-wait",
    "shutdown-grace",
    "drain-delay",
    "receive-timeout",
    "session-ttl",
    "max-body",
    "max-result",
    "result-budget",
    "result-ttl",
    "max-in-flight",
    "session-rate-limit",
    "pagination",
  ],
  "templates and tools": [
    "template-context",
    "template-linger",
    "tools",
    "max-tool-name",
    "instructions-budget",
    "internal-tools",
    "confirm-installs",
    "confirm-edits",
  ],
  "health and logs": [
    "health-info-level",
    "health-rate-limit",
    "metrics",
    "log-level",
    "log-format",
    "log-file",
    "audit-log",
    "audit-arguments",
  ],
} as const satisfies Readonly<Record<string, readonly (keyof typeof SERVE_OPTIONS)[]>>

/** The options of `svc serve`, parsed. Times are in milliseconds, sizes in bytes. */
export type ServeOptions = {
  readonly transport: "http" | "stdio"
  readonly address: ServerOptions["address"]
  /** Only this machine can reach the address. */
  readonly loopback: boolean
  readonly tls: { readonly cert: string; readonly key: string } | undefined
  readonly auth: boolean
  readonly authIssuer: string | undefined
  readonly authAudience: string | undefined
  /** The scopes of an issuer's token decide which tagged servers it grants. */
  readonly authByScope: boolean
  readonly demo: boolean
  readonly admin: boolean
  readonly reload: boolean
  readonly healthLevel: HealthLevel
  readonly startupWait: number
  /** How long a replica that stops still accepts requests. */
  readonly drainDelay: number
  readonly shutdownGrace: number
  readonly maxBody: number
  /** The time within which a request must arrive completely. */
  readonly receiveTimeout: number
  readonly maxResult: number
  /** Largest result that clients get whole, in characters; 0 for any size. */
  readonly resultBudget: ResultBudget
  readonly resultTtl: number
  readonly sessionTtl: number
  /** Concurrent requests per server, and per session. */
  readonly maxInFlight: number
  readonly sessionRate: number | undefined
  readonly auditLog: string | undefined
  readonly auditArguments: boolean
  /** Maximum entries per page of a list. */
  readonly pageSize: number
  /** Maximum characters of a qualified name; undefined for no limit. */
  readonly maxToolName: number | undefined
  /** Maximum characters of the instructions of all servers together. */
  readonly instructionsBudget: number
  /** Which tools svc lists to clients. */
  readonly tools: ToolListing
  /** Selects the servers that run, by their tags. */
  readonly filter: TagFilter
  readonly templateLinger: number
  /** Templates use the context that HTTP clients send. */
  readonly trustContext: boolean
  /** Sessions and the owners of tasks survive a restart of svc. */
  readonly persist: boolean
  /** The state that this replica shares with others; undefined for a single svc. */
  readonly cluster: ClusterOptions | undefined
  readonly healthRateLimit: boolean
  readonly trustProxy: TrustProxy
  /** The internal tools that svc offers to clients. */
  readonly internalTools: readonly ToolChoice[]
  /** A person must approve a new command before it runs. */
  readonly confirmInstalls: boolean
  /** A person must approve changes to descriptions, hidden tools and names, which other clients' models read. */
  readonly confirmEdits: boolean
  readonly metrics: boolean
  readonly logLevel: LogLevel
  readonly logFormat: "text" | "json"
  /** The file of the log; undefined for stderr. */
  readonly logFile: string | undefined
  /** Without a trailing slash. */
  readonly externalUrl: string | undefined
  readonly allowedHosts: readonly string[]
  readonly allowedOrigins: readonly string[]
}

export type ClusterOptions = ClusterUrl & {
  /** The URL at which other replicas reach this one, without a trailing slash; undefined for the one that it listens on. */
  readonly address: string | undefined
}

/** Reads the options of `svc serve`, with their defaults. Throws a RequestError (usage) if a value is not valid. */
export function readServeOptions(
  args: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>>,
  platform: string,
): ServeOptions {
  const option = readOptions(args, env)
  const transport = option.choice("transport", ["http", "stdio"], "http")
  const address = readAddress(option.text("listen"), platform) ?? {
    hostname: option.text("host") ?? "127.0.0.1",
    port: option.integer("port", DEFAULT_PORT, 0, 65_535),
  }
  const loopback = "unix" in address || isLoopback(address.hostname)
  const authIssuer = option.text("auth-issuer")
  if (authIssuer !== undefined && !(URL.canParse(authIssuer) && /^https?:/.test(authIssuer)))
    throw usageError("--auth-issuer must be an http or https URL, such as https://id.example.com")
  if (authIssuer?.startsWith("http:") && !isLoopback(new URL(authIssuer).hostname))
    throw usageError(
      "--auth-issuer must use https unless the issuer runs on this machine: over http, an attacker could replace its keys",
    )
  const auth = option.flag("auth") || authIssuer !== undefined
  if (transport === "http" && !loopback && !auth && !option.flag("allow-unauthenticated"))
    throw usageError(
      `listening on ${"hostname" in address ? address.hostname : ""} without authentication lets every client that can reach this address use every server; add --auth, or --allow-unauthenticated if you want that`,
    )
  const [cert, key] = [option.text("tls-cert"), option.text("tls-key")]
  if ((cert === undefined) !== (key === undefined)) throw usageError("--tls-cert and --tls-key must be given together")
  const trustProxy = parseTrustProxy(option.text("trust-proxy") ?? "off")
  if (trustProxy === undefined)
    throw usageError(
      `--trust-proxy must be off, loopback, or comma-separated addresses and CIDRs, not ${option.text("trust-proxy")}`,
    )
  const internalTools = list(option.text("internal-tools")).map(toolChoiceOf)
  const clusterUrl = option.text("cluster")
  const clusterAddress = option.text("cluster-address")?.replace(/\/+$/, "")
  if (clusterAddress !== undefined && clusterUrl === undefined)
    throw usageError(
      `${args["cluster-address"] === undefined ? "SVC_CLUSTER_ADDRESS" : "--cluster-address"} needs --cluster, without which svc is not a replica: add --cluster, or leave the address out`,
    )
  if (clusterUrl !== undefined && (transport === "stdio" || "unix" in address))
    throw usageError("--cluster needs --transport http and a port: the other replicas must reach this one")
  if (clusterUrl !== undefined && cert !== undefined && clusterAddress === undefined)
    throw usageError(
      "--cluster with --tls-cert needs --cluster-address: an https URL with a name that the certificate has",
    )
  if (clusterAddress !== undefined && !(URL.canParse(clusterAddress) && /^https?:/.test(clusterAddress)))
    throw usageError("--cluster-address must be an http or https URL, such as http://10.0.0.5:3050")
  const filter = option.text("filter")
  const externalUrl = option.text("external-url")?.replace(/\/+$/, "")
  if (externalUrl !== undefined && !(URL.canParse(externalUrl) && /^https?:/.test(externalUrl)))
    throw usageError("--external-url must be an http or https URL, such as https://svc.example.com")
  const maxToolName = option.integer("max-tool-name", 0, 0, 1_000) || undefined
  if (maxToolName !== undefined && maxToolName < MIN_TOOL_NAME)
    throw usageError(`--max-tool-name must be 0 (no limit) or at least ${MIN_TOOL_NAME}, not ${maxToolName}`)
  const instructionsBudget = option.integer("instructions-budget", 2048, 0, 1_000_000) || Number.POSITIVE_INFINITY
  if (instructionsBudget < MIN_INSTRUCTIONS)
    throw usageError(
      `--instructions-budget must be 0 (no limit) or at least ${MIN_INSTRUCTIONS}, not ${instructionsBudget}`,
    )
  return {
    transport,
    address,
    loopback,
    tls: cert === undefined || key === undefined ? undefined : { cert, key },
    auth,
    authIssuer,
    authAudience: option.text("auth-audience"),
    authByScope: option.choice("auth-scopes", ["on", "off"], "on") === "on",
    demo: option.flag("demo"),
    // The demo has no configuration to manage.
    admin: option.flag("admin", true) && !option.flag("demo"),
    reload: option.flag("reload", true),
    healthLevel: option.choice("health-info-level", HEALTH_LEVELS, "minimal"),
    startupWait: option.duration("startup-wait", 5000),
    drainDelay: option.duration("drain-delay", 3000),
    shutdownGrace: option.duration("shutdown-grace", 10_000),
    maxBody: option.size("max-body", 4 * 1024 * 1024),
    receiveTimeout: Math.min(option.duration("receive-timeout", 120_000), 240_000),
    maxResult: option.size("max-result", 64 * 1024 * 1024),
    resultBudget: readResultBudget(option.text("result-budget") ?? "0"),
    resultTtl: option.duration("result-ttl", 3_600_000),
    sessionTtl: option.duration("session-ttl", 24 * 3_600_000),
    maxInFlight: option.integer("max-in-flight", 1000, 1, 1_000_000),
    sessionRate: option.integer("session-rate-limit", 0, 0, 10_000_000) || undefined,
    auditLog: option.text("audit-log"),
    auditArguments: option.flag("audit-arguments"),
    pageSize: option.integer("pagination", 0, 0, 1_000_000) || Number.POSITIVE_INFINITY,
    maxToolName,
    instructionsBudget,
    tools: option.choice("tools", TOOL_LISTINGS, "all"),
    filter: filter === undefined ? MATCH_ALL : readFilter(filter),
    templateLinger: option.duration("template-linger", 30_000),
    trustContext: option.choice("template-context", ["none", "trusted"], "none") === "trusted",
    persist: option.flag("persist", true),
    cluster:
      clusterUrl === undefined
        ? undefined
        : { ...readClusterUrl(clusterUrl, args.cluster === clusterUrl, env), address: clusterAddress },
    healthRateLimit: option.choice("health-rate-limit", ["on", "off"], "on") === "on",
    trustProxy,
    internalTools,
    confirmInstalls: option.choice("confirm-installs", ["on", "off"], "on") === "on",
    confirmEdits: option.choice("confirm-edits", ["on", "off"], "on") === "on",
    metrics: option.flag("metrics"),
    logLevel: option.choice("log-level", LOG_LEVELS, "info"),
    logFormat: option.choice("log-format", ["text", "json"], "text"),
    logFile: option.text("log-file"),
    externalUrl,
    allowedHosts: [
      ...list(option.text("allowed-host")),
      ...(externalUrl === undefined ? [] : [new URL(externalUrl).hostname]),
    ],
    allowedOrigins: list(option.text("allowed-origin")),
  }
}

/** Reads the value of `--result-budget`. Throws a RequestError (usage) if it is not valid. */
export function readResultBudget(text: string): ResultBudget {
  const budget = parseResultBudget(text)
  if (budget === undefined) throw usageError(`--result-budget ${RESULT_BUDGET_FORM}, not ${text}`)
  return budget
}

// ---

function readAddress(text: string | undefined, platform: string): ServerOptions["address"] | undefined {
  if (text === undefined) return undefined
  const unix = /^unix:(.+)$/.exec(text)?.[1]
  if (unix !== undefined) {
    if (platform === "win32") throw usageError("--listen unix:… is not supported on Windows; use HOST:PORT")
    return { unix: resolve(unix) }
  }
  const [, hostname, port] = /^(\[[0-9a-fA-F:]+\]|[^:\s]+):([0-9]{1,5})$/.exec(text) ?? []
  if (hostname === undefined || Number(port) > 65_535)
    throw usageError(`--listen must be HOST:PORT or unix:/path, not ${text}`)
  return { hostname: hostname.replace(/^\[|\]$/g, ""), port: Number(port) }
}

/** Below that too little is left of a name to read. */
const MIN_TOOL_NAME = 32
/** Shorter instructions do not explain how to find tools. */
const MIN_INSTRUCTIONS = 256

const MATCH_ALL: TagFilter = { kind: "and", of: [] }

function readFilter(text: string): TagFilter {
  const parsed = parseFilter(text)
  if ("problem" in parsed) throw usageError(formatFilterProblem("--filter", parsed.problem))
  return parsed.filter
}

/** Repeats the choices of the tools, because svc loads the tools only if they are used. */
const TOOL_CHOICES = ["all", "safe", "discovery", "installation", "management"] as const satisfies readonly ToolChoice[]

function toolChoiceOf(word: string): ToolChoice {
  const choice = TOOL_CHOICES.find((one) => one === word)
  if (choice !== undefined) return choice
  throw usageError(
    `--internal-tools must be one or more of ${TOOL_CHOICES.join(", ")}, not ${word}${didYouMean(word, TOOL_CHOICES)}`,
  )
}

const list = (text: string | undefined): readonly string[] =>
  (text ?? "").split(",").flatMap((part) => (part.trim() === "" ? [] : [part.trim()]))
