/** The options of `svc serve`: flags, each of which is also an `SVC_*` variable, read once. */
import { resolve } from "node:path"
import { parseResultBudget, RESULT_BUDGET_FORM, type ResultBudget } from "../config/result-budget.ts"
import { formatFilterProblem, parseFilter, type TagFilter } from "../config/tag-filter.ts"
import { TOOL_LISTINGS } from "../config/tool-listing.ts"
import { isLoopback } from "../lib/address.ts"
import { readOptions, usageError } from "../lib/command-line.ts"
import { LOG_LEVELS } from "../lib/log.ts"
import { didYouMean } from "../lib/nearest.ts"
import { HEALTH_LEVELS } from "../report/health.ts"
import { parseTrustProxy, type TrustProxy } from "../serve/address-rate-limit.ts"
import type { ClusterOptions } from "../serve/cluster.ts"
import { DEFAULT_PORT } from "../serve/default-address.ts"
import type { ServerOptions } from "../serve/server.ts"
import { readClusterUrl } from "./cluster-url.ts"
import { CONFIG_ARGS } from "./config-paths.ts"

type Given = ReturnType<typeof readOptions>

/** How an option is written and read. Times are read as milliseconds, sizes as bytes. */
type Kind<T, Type extends "string" | "boolean" = "string"> = {
  readonly type: Type
  readonly valueHint?: string
  /** The default as help shows it. */
  readonly byDefault?: string
  readonly read: (given: Given, flag: string) => T
}

type Marks = {
  /** `svc serve --help` shows the option; `--help --all` shows every option. */
  readonly common?: true
  /** The replicas of a cluster must have the same value, because it decides what clients see or who gets in. */
  readonly shared?: true
}
const COMMON = { common: true } as const
const SHARED = { shared: true } as const

const kind = <T>(read: Kind<T>["read"], byDefault?: string, valueHint?: string): Kind<T> => ({
  type: "string",
  ...(byDefault === undefined ? {} : { byDefault }),
  ...(valueHint === undefined ? {} : { valueHint }),
  read,
})
const text = <T>(parse: (text: string | undefined) => T, byDefault?: string, valueHint?: string) =>
  kind((given, name) => parse(given.text(name)), byDefault, valueHint)
const TEXT = text((value) => value)
const PATH = text((value) => value, undefined, "path")
const NAMES = text(list)
const flag = (byDefault = false): Kind<boolean, "boolean"> => ({
  type: "boolean",
  read: (given, name) => given.flag(name, byDefault),
})
const choice = <const T extends string>(choices: readonly T[], byDefault: NoInfer<T>) =>
  kind((given, name) => given.choice(name, choices, byDefault), byDefault, choices.join("|"))
const ON_OFF = kind((given, name) => given.choice(name, ["on", "off"], "on") === "on", "on", "on|off")
const integer = (byDefault: number, least: number, most: number, note = "") =>
  kind((given, name) => given.integer(name, byDefault, least, most), `${byDefault}${note}`)
const duration = (byDefault: string, note = "") =>
  kind((given, name) => given.duration(name, byDefault), `${byDefault}${note}`)
const size = (byDefault: string) => kind((given, name) => given.size(name, byDefault), byDefault)
/** A limit of at least `least`, which 0 turns off. */
const limit = <T>(byDefault: number, least: number, most: number, none: T, note: string) =>
  kind((given, name): number | T => {
    const value = given.integer(name, byDefault, 0, most)
    if (value > 0 && value < least)
      throw usageError(`--${name} must be 0 (no limit) or at least ${least}, not ${value}`)
    return value === 0 ? none : value
  }, `${byDefault}${note}`)
const address = (example: string, valueHint?: string) =>
  kind(
    (given, name) => {
      const url = given.text(name)
      if (url !== undefined && !(URL.canParse(url) && /^https?:/.test(url)))
        throw usageError(`--${name} must be an http or https URL, such as ${example}`)
      return url
    },
    undefined,
    valueHint,
  )

/** Returns an option in the form that citty and help read. */
const option = <T, Type extends "string" | "boolean">(
  { byDefault, ...kind }: Kind<T, Type>,
  meaning: string,
  marks: Marks = {},
) => ({
  ...kind,
  ...marks,
  description: byDefault === undefined ? meaning : `${meaning} (default ${byDefault})`,
})

/** Gives options their group in help. */
const group = <T extends object>(title: string, options: T) =>
  Object.fromEntries(Object.entries(options).map(([name, one]) => [name, { ...one, group: title }])) as {
    [Name in keyof T]: T[Name] & { readonly group: string }
  }

/**
 * The options by flag. `ServeOptions`, its reader, help, the documentation and the comparison of replicas derive from this
 * table. The commands themselves read the options without `read`, which have no variable.
 */
export const SERVE_OPTIONS = {
  ...group("configuration", {
    config: { ...CONFIG_ARGS.config, ...COMMON },
    "config-dir": CONFIG_ARGS["config-dir"],
    init: { type: "boolean", description: "Create the file that --config names if it does not exist" },
    background: {
      type: "boolean",
      description:
        "Run svc in the background, and return when it is ready; see `svc ps` and `svc stop` (no environment variable)",
      ...COMMON,
    },
    json: { type: "boolean", description: "With --background, print JSON (no environment variable)" },
    wait: {
      type: "string",
      description:
        "With --background, return when the servers are connected, at most after this time; exit 69 if one is not (no environment variable)",
      valueHint: "time",
    },
    quiet: { type: "boolean", description: "With --background, print nothing but problems (no environment variable)" },
    demo: option(flag(), "Serve a small built-in MCP server, without a configuration", COMMON),
    "allow-commands": option(flag(), "Run the commands of ${cmd:…} references in the configuration"),
    filter: option(text(readFilter), 'Run only servers whose tags match, such as "web and not slow"', {
      ...COMMON,
      ...SHARED,
    }),
    servers: option(NAMES, "Run only these servers, by name, comma-separated", SHARED),
    reload: option(flag(true), "Apply changes to mcp.json and .env while running (default; --no-reload turns it off)"),
    persist: option(
      flag(true),
      "Keep sessions and the owners of tasks across restarts (default; --no-persist turns it off)",
    ),
  } as const),
  ...group("listening", {
    host: option(
      text((host = "127.0.0.1") => host, "127.0.0.1", "host"),
      "Address to listen on",
      COMMON,
    ),
    port: option(integer(DEFAULT_PORT, 0, 65_535, "; 0 picks a free one"), "Port to listen on", COMMON),
    listen: option(TEXT, "Address as HOST:PORT or unix:/path, instead of --host and --port"),
    transport: option(choice(["http", "stdio"], "http"), "Transport for clients: http or stdio", COMMON),
    "tls-cert": option(PATH, "Certificate chain (PEM); reloaded when the file changes", COMMON),
    "tls-key": option(PATH, "Private key of the certificate (PEM)", COMMON),
    "external-url": option(
      address("https://svc.example.com"),
      "Public URL of svc, if it differs from the address it listens on",
      COMMON,
    ),
  }),
  ...group("access control", {
    auth: option(flag(), "Require a token from clients; see `svc auth token`", { ...COMMON, ...SHARED }),
    "auth-issuer": option(
      address("https://id.example.com"),
      "OAuth issuer; svc also accepts its access tokens (turns --auth on)",
      SHARED,
    ),
    "auth-audience": option(
      TEXT,
      "Audience that access tokens must name (default: the URL to which the client sends them)",
      SHARED,
    ),
    "auth-scopes": option(
      ON_OFF,
      "Whether the scopes of an access token limit its servers. on: a tagged server requires the scope tag:NAME for one of its tags; off: every valid token gives access to all servers",
      SHARED,
    ),
    "auth-groups": option(
      TEXT,
      'Claim of an access token with the groups of its holder, such as groups. They decide what it may use: the presets that name a group in "groups" (default: the scopes decide)',
      SHARED,
    ),
    "allowed-host": option(NAMES, "Additional host names that clients may use for svc, comma-separated"),
    "allowed-origin": option(NAMES, "Origins of web pages that may call svc, comma-separated"),
    "allow-unauthenticated": option(flag(), "Listen beyond this machine without authentication"),
    admin: option(flag(true), "Serve REST at /api and the admin page at /admin (default; --no-admin turns both off)"),
    "trust-proxy": option(
      text(readTrustProxy, "off", "off|loopback"),
      "Proxies from which svc accepts X-Forwarded-For: off, loopback, or comma-separated addresses and CIDRs",
    ),
  }),
  ...group("several replicas", {
    cluster: option(
      text((value) => value, undefined, "url"),
      "Run as one of several replicas that share a Redis or Valkey: redis[s]://HOST:PORT; write a password as a reference to a variable",
    ),
    "cluster-address": option(
      address("http://10.0.0.5:3050", "url"),
      "Address at which the other replicas reach this one (default: the address it listens on)",
    ),
  }),
  ...group("times and limits", {
    "lazy-start": option(
      flag(),
      "Start stdio servers only when a client needs them, unless their configuration says otherwise",
    ),
    "idle-timeout": option(
      kind((given, name) => (given.text(name) === undefined ? undefined : given.duration(name, "0")), "never"),
      "How long a stdio server may be without a call before its process ends until the next call, such as 10m",
    ),
    "startup-wait": option(duration("5s"), "How long lists and calls wait for servers that are starting"),
    "shutdown-grace": option(duration("10s"), "How long running calls may take to finish on shutdown"),
    "drain-delay": option(
      duration("3s"),
      "With --cluster: how long a replica that is stopping still accepts requests, so that the load balancer can see that it is not ready",
    ),
    "receive-timeout": option(duration("2m", ", at most 4m"), "How long a client may take to send a complete request"),
    "session-ttl": option(duration("24h"), "How long an unused session is kept"),
    "max-body": option(size("4MiB"), "Largest request body"),
    "max-result": option(size("64MiB"), "Largest message from a server"),
    "result-budget": option(
      text((value = "0") => readResultBudget(value), "0: no limit"),
      'Largest tool result that clients get in full, in characters or as "4000 tokens"; svc stores a larger result and sends a part of it',
    ),
    "result-ttl": option(duration("1h"), "How long a stored result can be read"),
    "max-in-flight": option(integer(1000, 1, 1_000_000), "Maximum concurrent requests per server and per session"),
    "session-rate-limit": option(
      limit(0, 1, 10_000_000, undefined, ": no limit"),
      "Maximum calls per minute of one session",
      SHARED,
    ),
    pagination: option(
      limit(0, 1, 1_000_000, Number.POSITIVE_INFINITY, ": all on one page"),
      "Entries per page of a list",
    ),
  }),
  ...group("templates and tools", {
    "template-context": option(
      choice(["none", "trusted"], "none"),
      "Whether templates use the context that HTTP clients send: none or trusted",
    ),
    "template-linger": option(duration("30s"), "How long a template instance keeps running without clients"),
    "internal-tools": option(
      text((value) => list(value).map(toolChoiceOf), "none", "all|safe|discovery|installation|management"),
      "Offer tools that manage svc: all, or a comma-separated list of discovery, installation, management and safe",
      { ...COMMON, ...SHARED },
    ),
    tools: option(
      choice(TOOL_LISTINGS, "all"),
      "Tools that svc lists to clients: all, or search (only svc's search tools); an address (?tools=), a preset or a token overrides it",
      { ...COMMON, ...SHARED },
    ),
    "max-tool-name": option(
      // Below 32 characters, too little of a name is left to read.
      limit(0, 32, 1_000, undefined, ": no limit"),
      "Shorten names of tools and prompts on /mcp to this many characters, and replace all but letters, digits, _ and -; most models accept 64",
      SHARED,
    ),
    "instructions-budget": option(
      // Shorter instructions do not explain how to find tools.
      limit(2048, 256, 1_000_000, Number.POSITIVE_INFINITY, "; 0: no limit"),
      "Maximum length of the instructions on /mcp, in characters",
    ),
    "confirm-installs": option(
      ON_OFF,
      "If the client cannot ask a person to approve a new command: on refuses to run it, off runs it",
    ),
    "confirm-edits": option(
      ON_OFF,
      "If the client cannot ask a person to approve a change that clients see: on refuses it, off makes it",
    ),
  }),
  ...group("health and logs", {
    "health-info-level": option(choice(HEALTH_LEVELS, "minimal"), "Level of detail of /health: full, basic or minimal"),
    "health-rate-limit": option(ON_OFF, "Limit each address to 200 requests to /health in 5 minutes: on or off"),
    metrics: option(flag(), "Serve Prometheus metrics at /metrics", COMMON),
    "metrics-principals": option(
      flag(),
      "Count the calls of each client in the metrics, by the name of its token or login",
    ),
    "log-level": option(choice(LOG_LEVELS, "info"), "Minimum level to log: debug, info, warn or error", COMMON),
    "log-format": option(choice(["text", "json"], "text"), "Format of the log: text or json"),
    "log-file": option(PATH, "File to which svc writes its log instead of stderr, rotated by size"),
    "audit-log": option(PATH, "File to which svc appends a line for each call and change"),
    activity: option(
      choice(["off", "names", "content"], "names"),
      "What svc keeps in memory of the last 200 calls, for `svc activity` and the admin page: nothing (off), their names (names; also their content once somebody uses the page or REST), or their names and content (content)",
    ),
    "access-log": option(PATH, "File to which svc appends a line of JSON for each HTTP request; - is stdout"),
    "otlp-endpoint": option(
      address("http://localhost:4318", "url"),
      "Receiver to which svc sends traces and metrics, over OTLP/HTTP; OTEL_EXPORTER_OTLP_ENDPOINT does the same, and the other variables of OpenTelemetry apply",
    ),
    "otlp-content": option(flag(), "Include the arguments and results of tool calls in traces, with secrets redacted"),
    "otlp-baggage": option(NAMES, "Servers that receive the baggage of clients if svc sends traces, comma-separated"),
    "audit-arguments": option(flag(), "Include the arguments of tool calls in the audit log, with secrets redacted"),
  }),
} as const

type Flag = keyof typeof SERVE_OPTIONS
type FieldOf<Name extends string> = Name extends `${infer Word}-${infer Rest}`
  ? `${Word}${Capitalize<FieldOf<Rest>>}`
  : Name

/** The values of the options by flag in camel case, such as `startupWait` for `--startup-wait`. */
type Values = {
  readonly [Name in Flag as (typeof SERVE_OPTIONS)[Name] extends { read: unknown }
    ? FieldOf<Name>
    : never]: (typeof SERVE_OPTIONS)[Name] extends { read: (...given: never) => infer T } ? T : never
}

/** Returns the flags that the replicas of a cluster must share, with their values. */
export const sharedOptions = (options: ServeOptions): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(SERVE_OPTIONS).flatMap(([name, one]) =>
      "shared" in one ? [[`--${name}`, options[fieldOf(name) as keyof ServeOptions]]] : [],
    ),
  )

/** The options of `svc serve`: those of the table, but for the ones that only together have a meaning. */
export type ServeOptions = Omit<
  Values,
  | "host"
  | "port"
  | "listen"
  | "tlsCert"
  | "tlsKey"
  | "allowUnauthenticated"
  | "allowedHost"
  | "cluster"
  | "clusterAddress"
> & {
  readonly address: ServerOptions["address"]
  /** Only this machine can reach the address. */
  readonly loopback: boolean
  readonly tls: { readonly cert: string; readonly key: string } | undefined
  /** The state that this replica shares with others; undefined for a single svc. */
  readonly cluster: ClusterOptions | undefined
  readonly allowedHosts: readonly string[]
}

/** Reads the options of `svc serve`, with their defaults. Throws a RequestError (usage) if a value is not valid. */
export function readServeOptions(
  args: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>>,
  platform: string,
): ServeOptions {
  const given = readOptions(args, env)
  const values = Object.fromEntries(
    Object.entries(SERVE_OPTIONS).flatMap(([name, one]) =>
      "read" in one ? [[fieldOf(name), one.read(given, name)]] : [],
    ),
  ) as Values
  const { host, port, listen, tlsCert, tlsKey, allowUnauthenticated, allowedHost, clusterAddress, ...rest } = values
  const { transport, authIssuer } = values
  const externalUrl = withoutSlash(values.externalUrl)
  const address = readAddress(listen, platform) ?? { hostname: host, port }
  const loopback = "unix" in address || isLoopback(address.hostname)
  if (authIssuer?.startsWith("http:") && !isLoopback(new URL(authIssuer).hostname))
    throw usageError(
      "--auth-issuer must use https unless the issuer runs on this machine: over http, an attacker could replace its keys",
    )
  const auth = values.auth || authIssuer !== undefined
  if (transport === "http" && !loopback && !auth && !allowUnauthenticated)
    throw usageError(
      `listening on ${"hostname" in address ? address.hostname : ""} without authentication lets every client that can reach this address use every server; add --auth, or --allow-unauthenticated if you want that`,
    )
  if ((tlsCert === undefined) !== (tlsKey === undefined))
    throw usageError("--tls-cert and --tls-key must be given together")
  if (clusterAddress !== undefined && values.cluster === undefined)
    throw usageError(
      `${args["cluster-address"] === undefined ? "SVC_CLUSTER_ADDRESS" : "--cluster-address"} needs --cluster, without which svc is not a replica: add --cluster, or leave the address out`,
    )
  if (values.cluster !== undefined && (transport === "stdio" || "unix" in address))
    throw usageError("--cluster needs --transport http and a port: the other replicas must reach this one")
  if (values.cluster !== undefined && tlsCert !== undefined && clusterAddress === undefined)
    throw usageError(
      "--cluster with --tls-cert needs --cluster-address: an https URL with a name that the certificate has",
    )
  return {
    ...rest,
    address,
    loopback,
    tls: tlsCert === undefined || tlsKey === undefined ? undefined : { cert: tlsCert, key: tlsKey },
    auth,
    receiveTimeout: Math.min(values.receiveTimeout, MAX_RECEIVE_MS),
    cluster:
      values.cluster === undefined
        ? undefined
        : {
            ...readClusterUrl(values.cluster, args.cluster === values.cluster, env),
            address: withoutSlash(clusterAddress),
          },
    externalUrl,
    allowedHosts: [...allowedHost, ...(externalUrl === undefined ? [] : [new URL(externalUrl).hostname])],
  }
}

/** Reads the value of `--result-budget`. Throws a RequestError (usage) if it is not valid. */
export function readResultBudget(text: string): ResultBudget {
  const budget = parseResultBudget(text)
  if (budget === undefined) throw usageError(`--result-budget ${RESULT_BUDGET_FORM}, not ${text}`)
  return budget
}

// ---

const MAX_RECEIVE_MS = 240_000

const withoutSlash = (url: string | undefined): string | undefined => url?.replace(/\/+$/, "")

const fieldOf = (name: string): string => name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())

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

const MATCH_ALL: TagFilter = { kind: "and", of: [] }

function readFilter(text: string | undefined): TagFilter {
  if (text === undefined) return MATCH_ALL
  const parsed = parseFilter(text)
  if ("problem" in parsed) throw usageError(formatFilterProblem("--filter", parsed.problem))
  return parsed.filter
}

/** Repeats the choices of the tools, because svc loads the tools only if they are used. */
const TOOL_CHOICES = ["all", "safe", "discovery", "installation", "management"] as const

function toolChoiceOf(word: string): (typeof TOOL_CHOICES)[number] {
  const choice = TOOL_CHOICES.find((one) => one === word)
  if (choice !== undefined) return choice
  throw usageError(
    `--internal-tools must be one or more of ${TOOL_CHOICES.join(", ")}, not ${word}${didYouMean(word, TOOL_CHOICES)}`,
  )
}

function readTrustProxy(text = "off"): TrustProxy {
  const trusted = parseTrustProxy(text)
  if (trusted !== undefined) return trusted
  throw usageError(`--trust-proxy must be off, loopback, or comma-separated addresses and CIDRs, not ${text}`)
}

function list(text = ""): readonly string[] {
  return text.split(",").flatMap((part) => (part.trim() === "" ? [] : [part.trim()]))
}
