/**
 * What runs: a `Plan` of `ServerSpec`s. `plan` makes it from the documents and the environment; no later code reads an
 * option, a default or a variable again.
 *
 * A change in `launch` replaces the backend; a change in `tuning` alone restarts nothing.
 */
import { digest } from "../lib/digest.ts"
import type { Issue } from "../lib/errors.ts"
import type { ResultBudget } from "./result-budget.ts"

/** Separates the server's name from the tool's in the aggregate; no server's name may contain it. */
export const SEPARATOR = "_svc_"

/** spec: Server object, `protocolVersion`. */
export type ProtocolMode = "auto" | "legacy" | "2026-07-28"

/** The transports of remote servers, as `type` names them in the configuration. */
export const REMOTE_TRANSPORTS = ["http", "sse", "streamableHttp"] as const
export type RemoteTransportType = (typeof REMOTE_TRANSPORTS)[number]
export type TransportType = "stdio" | RemoteTransportType

/** How to start a child process. */
export type StdioLaunch = {
  readonly transport: "stdio"
  readonly command: string
  readonly args: readonly string[]
  /** Absolute, or undefined for svc's own working directory. */
  readonly cwd: string | undefined
  /** The child's whole environment; nothing is added to it later. */
  readonly env: Readonly<Record<string, string>>
  readonly stderr: "pipe" | "overlapped" | "inherit" | "ignore" | number
  readonly mode: ProtocolMode
}

/** choice: Configuration, `oauth`. */
export type OAuthSettings = {
  readonly clientId?: string
  readonly clientSecret?: string
  readonly scopes?: readonly string[]
  readonly autoRegister?: boolean
  readonly redirectUrl?: string
  readonly grantType?: "authorization_code" | "client_credentials" | "jwt-bearer" | "token-exchange"
  readonly tokenEndpointAuthMethod?: string
  readonly assertion?: string
  /** Absolute, as is `subjectTokenFile`. */
  readonly assertionFile?: string
  readonly identityProvider?: string
  readonly identityProviderClientId?: string
  readonly identityProviderClientSecret?: string
  readonly subjectToken?: string
  readonly subjectTokenFile?: string
  readonly dpopBoundAccessTokens?: boolean
}

/** How to reach a remote server. */
export type RemoteLaunch = {
  readonly transport: RemoteTransportType
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly oauth: OAuthSettings | undefined
  readonly mode: ProtocolMode
}

export type Launch = StdioLaunch | RemoteLaunch

/** What svc does when a backend is lost. spec: Supervised backend. */
export type RestartPolicy = {
  /** Only stdio backends with `restartOnExit` are supervised; remote ones reconnect without a limit. */
  readonly kind: "never" | "supervised" | "reconnect"
  /** Most consecutive automatic restarts; 0 is unlimited. */
  readonly limit: number
  /** Milliseconds before the first attempt. */
  readonly delay: number
}

/** Replacements for members of a tool's definition; an undefined member stays. */
export type ToolOverride = {
  readonly title?: string | undefined
  readonly annotations?: Readonly<Record<string, boolean | undefined>> | undefined
  readonly searchHint?: string | undefined
  readonly alwaysLoad?: boolean | undefined
}

/** The settings of a server that do not restart it. */
export type Tuning = {
  readonly tags: readonly string[]
  /** Local names and `<server>_svc_<tool>` names, as the operator wrote them. */
  readonly disabledTools: readonly string[]
  readonly toolDescriptionOverrides: Readonly<Record<string, string>>
  readonly toolOverrides?: Readonly<Record<string, ToolOverride>> | undefined
  /** For the tools without a value in `toolOverrides`. */
  readonly alwaysLoad?: boolean | undefined
  readonly searchHint?: string | undefined
  /** Names and patterns of the tools that lazy views list as well. */
  readonly alwaysVisible: readonly string[]
  /** Milliseconds. */
  readonly connectionTimeout: number
  /** Milliseconds; progress resets it. */
  readonly requestTimeout: number
  /** Milliseconds that requests may wait with nothing received before the server counts as lost; undefined for the default. */
  readonly unresponsiveTimeout?: number | undefined
  readonly restart: RestartPolicy
  readonly isolation: "shared" | "session"
  /** The replicas of a cluster that run the server: one at a time, or all if undefined. */
  readonly replicas?: "one" | undefined
  /** Milliseconds without a call after which a session's dedicated process ends; 0 for never. */
  readonly idleTimeout: number
  /** Whether svc starts the server only when a client needs it. */
  readonly lazy?: true | undefined
  /** Milliseconds without a call after which the process that all clients share ends until it is needed; undefined for never. */
  readonly sleepAfter?: number | undefined
  /** Limit of dedicated processes at the same time. */
  readonly maxProcesses: number
  /** Calls per minute; undefined for no limit. */
  readonly rateLimit?: number | undefined
  /** The limit of results in characters; 0 for no limit; undefined for the default of `svc serve`. */
  readonly resultBudget?: ResultBudget | undefined
  /** What svc does with a tool if its definition has changed since svc first saw it. */
  readonly toolPinning: "off" | "report" | "strict"
}

/** One server, fully resolved. */
export type ServerSpec = {
  /** The server's name as written, or `name#hash` for an instance of a template. Unique in a plan. */
  readonly id: string
  /** The name in `mcp.json`. */
  readonly name: string
  /** The name in tool names and URLs: see `slugOf`. Unique in a plan, except that instances share their template's. */
  readonly slug: string
  readonly launch: Launch
  readonly tuning: Tuning
  /** Resolved values that must never be shown: from `env`, headers, oauth and references. */
  readonly secrets: readonly string[]
}

/** A configured server or template that does not run, for the answers to calls of its tools. */
export type IdleServer = {
  readonly name: string
  readonly slug: string
  readonly tags: readonly string[]
  /**
   * `starting`: this or another replica of the cluster is about to run it. `no owner`: the shared state that says which replica
   * runs it cannot be reached.
   */
  readonly state: "disabled" | "invalid" | "starting" | "no owner"
  /** Why it does not run, as the end of a sentence that begins with its name. Never contains a value. */
  readonly reason: string
}

export type Plan = {
  /** Enabled servers, in the file's order. */
  readonly specs: readonly ServerSpec[]
  /** Names of the enabled templates, which can have instances. */
  readonly templates: readonly string[]
  /** Names of disabled servers and templates. */
  readonly disabled: readonly string[]
  /** The disabled and faulty entries that have a free slug and readable tags. */
  readonly idle: readonly IdleServer[]
  /** Servers that are not loaded, unknown keys and the like. */
  readonly issues: readonly Issue[]
  /** Values that must never be shown, of servers without a spec: disabled, not loaded, or templates as written. */
  readonly idleSecrets: readonly string[]
  /** Ids of servers that another replica ran and has handed over: it may still finish the calls that it accepted. */
  readonly handedOver?: ReadonlySet<string>
}

export const EMPTY_PLAN: Plan = { specs: [], templates: [], disabled: [], idle: [], issues: [], idleSecrets: [] }

/** Whether `given` names a server: by its name as written, its slug, or its id. */
export const isCalled = ({ name, slug, id }: Pick<ServerSpec, "name" | "slug" | "id">, given: string): boolean =>
  given === name || given === slug || given === id

/**
 * Returns the form of a server's name in tool names and URLs, which model APIs accept: other characters become `-`. A
 * name of which nothing readable would remain, such as one in Chinese, becomes a hash.
 */
export function slugOf(name: string): string {
  const slug = name.replace(/[^A-Za-z0-9_-]/g, "-")
  return slug === name || /[A-Za-z0-9]/.test(slug) ? slug : `server-${digest(name, HASH_LENGTH)}`
}

/**
 * Returns the names by which settings may refer to a tool, in descending precedence. Until 0.1, a slug kept dots, and was only
 * hyphens for a name in Chinese: that form stays valid for one release.
 */
export const toolNames = (server: Pick<ServerSpec, "name" | "slug">, tool: string): readonly string[] => [
  tool,
  ...toolPrefixes(server).map((prefix) => prefix + tool),
]

/** Returns what a tool's name may begin with in settings, in descending precedence. */
export function toolPrefixes({ name, slug }: Pick<ServerSpec, "name" | "slug">): readonly string[] {
  const old = name.replace(/[^A-Za-z0-9._-]/g, "-")
  return [...new Set([slug, old, name])].map((one) => `${one}${SEPARATOR}`)
}

/** Hexadecimal digits. */
const HASH_LENGTH = 6

/** The header by which a replica proves that it may reach a server of another replica. */
export const REPLICA_HEADER = "svc-replica"

/**
 * The header that identifies the client for which a replica relays a request: the replica's id, the digest of what the client may
 * use, and the client's identity if the replica knows it, separated by spaces.
 */
export const REPLICA_CLIENT_HEADER = "svc-replica-client"

/** The header by which a replica marks a request that continues a call which the other replica already runs. */
export const REPLICA_CONTINUES_HEADER = "svc-replica-continues"

/** Whether a server runs on another replica, which answers for it. */
export const runsElsewhere = ({ launch }: Pick<ServerSpec, "launch">): boolean =>
  launch.transport !== "stdio" && REPLICA_HEADER in launch.headers

/** Returns where a server runs whose process another replica has, and what to do there; undefined if it does not run elsewhere. */
export function elsewhereText(
  { name, launch }: Pick<ServerSpec, "name" | "launch">,
  command: "restart" | "start" | "sleep",
): string | undefined {
  if (launch.transport === "stdio" || !runsElsewhere({ launch })) return undefined
  return `${name} runs on the replica at ${new URL(launch.url).origin}, and only that one has its process: run \`svc mcp ${command} ${name}\` there (\`svc cluster status\` shows the replicas)`
}
