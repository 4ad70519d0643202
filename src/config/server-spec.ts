/**
 * What is to run, decided: a `Plan` of `Spec`s. `plan` makes it from the documents and the environment; nothing after it
 * reads an option, a default or a variable again.
 *
 * If anything in a spec's `launch` changes, the backend is replaced; if only its `tuning` changes, nothing restarts.
 */
import type { Issue } from "../lib/errors.ts"

/** Between a server's name and its tool's in the aggregate; no server's name may contain it. */
export const SEPARATOR = "_svc_"

/** spec: Server object, `protocolVersion`. */
export type ProtocolMode = "auto" | "legacy" | "2026-07-28"

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
  readonly grantType?: "authorization_code" | "client_credentials"
  readonly tokenEndpointAuthMethod?: string
}

export type RemoteLaunch = {
  readonly transport: "http" | "sse" | "streamableHttp"
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly oauth: OAuthSettings | undefined
  readonly mode: ProtocolMode
}

export type Launch = StdioLaunch | RemoteLaunch

/** How a backend's loss is answered. spec: Supervised backend. */
export type RestartPolicy = {
  /** Only stdio backends with `restartOnExit` are supervised; remote ones reconnect without a limit. */
  readonly kind: "never" | "supervised" | "reconnect"
  /** Most consecutive automatic restarts; 0 is unlimited. */
  readonly limit: number
  /** Milliseconds before the first attempt. */
  readonly delay: number
}

export type Tuning = {
  readonly tags: readonly string[]
  /** Local names and `<server>_svc_<tool>` names, as the operator wrote them. */
  readonly disabledTools: readonly string[]
  readonly toolDescriptionOverrides: Readonly<Record<string, string>>
  /** Milliseconds. */
  readonly connectionTimeout: number
  /** Milliseconds; progress resets it. */
  readonly requestTimeout: number
  readonly restart: RestartPolicy
  readonly isolation: "shared" | "session"
  /** Milliseconds without a call after which a session's own process ends; 0 for never. */
  readonly idleTimeout: number
  /** Most processes at once that sessions have of their own. */
  readonly maxProcesses: number
  /** Calls per minute; undefined for any number. */
  readonly rateLimit?: number | undefined
  /** What happens with a tool that has become another one since it was first seen. */
  readonly toolPinning: "off" | "report" | "strict"
}

export type ServerSpec = {
  /** The server's name as written, or `name#hash` for an instance of a template. Unique in a plan. */
  readonly id: string
  /** The name in `mcp.json`. */
  readonly name: string
  /** The name in tool names and URLs: characters outside `[A-Za-z0-9._-]` are `-`. Unique in a plan but for instances. */
  readonly slug: string
  readonly launch: Launch
  readonly tuning: Tuning
  /** Resolved values that must never be shown: of `env`, headers, oauth and whatever came from a reference. */
  readonly secrets: readonly string[]
}

export type Plan = {
  /** Enabled servers, in the file's order. */
  readonly specs: readonly ServerSpec[]
  /** Names of templates that can have instances; those that have stand in `specs`. */
  readonly templates: readonly string[]
  /** Names of servers and templates that are in the file and disabled. */
  readonly disabled: readonly string[]
  /** What was wrong: servers left out, unknown keys. */
  readonly issues: readonly Issue[]
}

export const EMPTY_PLAN: Plan = { specs: [], templates: [], disabled: [], issues: [] }
