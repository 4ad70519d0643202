/**
 * The two eras of MCP. Legacy peers (2025 revisions) open with `initialize` and hold sessions; modern peers (2026-07-28) are
 * stateless and carry version and capabilities in the `_meta` of each request. basic: Versioning and Compatibility.
 */
import { metaOf, type Params } from "./message.ts"

export type Era = "legacy" | "modern"

/** Newest first: svc requests the first from a legacy server. */
export const LEGACY_VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"] as const
export const MODERN_VERSIONS = ["2026-07-28"] as const
export const MODERN_VERSION = MODERN_VERSIONS[0]

export const META_VERSION = "io.modelcontextprotocol/protocolVersion"
export const META_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
export const META_CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
export const META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
export const META_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
/** 2025-11-25: names the task that a message belongs to. basic: Tasks, Related Task Metadata. */
export const META_TASK = "io.modelcontextprotocol/related-task"
/** In the modern era, tasks are this extension. */
export const TASKS_EXTENSION = "io.modelcontextprotocol/tasks"

/** From: MCP Apps. */
export const UI_EXTENSION = "io.modelcontextprotocol/ui"
/** extension: Skills. */
export const SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
export const META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

/** The levels of log messages, least severe first. server: Logging. */
export const MCP_LOG_LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] as const

/** Error codes of 2026-07-28. basic: Error Codes. */
export const HEADER_MISMATCH = -32020
export const MISSING_CLIENT_CAPABILITY = -32021
export const UNSUPPORTED_VERSION = -32022

/** The code of the official SDKs for a session that a server does not have. */
export const SESSION_NOT_FOUND = -32001

/** Returns the version in a request's `_meta`, which only modern requests have; otherwise undefined. */
export function modernVersionOf(params: Params | undefined): string | undefined {
  const version = metaOf(params)?.[META_VERSION]
  return typeof version === "string" ? version : undefined
}

/** Returns the revision for the answer to `initialize`: the requested one if svc supports it, else svc's newest. */
export function negotiateLegacy(requested: unknown): string {
  return LEGACY_VERSIONS.find((version) => version === requested) ?? LEGACY_VERSIONS[0]
}

/** Whether a value is one of MCP's log levels. */
export const isLogLevel = (value: unknown): value is (typeof MCP_LOG_LEVELS)[number] => severityOf(value) >= 0

/** Returns how severe a log level is, from 0; -1 unless it is one of MCP's. */
export const severityOf = (level: unknown): number => (MCP_LOG_LEVELS as readonly unknown[]).indexOf(level)
