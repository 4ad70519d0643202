/** Facts about the keys of a server in mcp.json that need no schema. */
import type { TransportType } from "./server-spec.ts"

/** Keys that only one kind of server supports. spec: serverDefaults, merge rules 5 and 6; Server object. */
export const STDIO_ONLY = [
  "command",
  "args",
  "cwd",
  "env",
  "inheritParentEnv",
  "envFilter",
  "stderr",
  "restartOnExit",
  "maxRestarts",
  "restartDelay",
  "start",
  "stateful",
] as const
export const REMOTE_ONLY = ["url", "headers", "oauth"] as const

/** Keys with values that may refer to the environment. spec: Environment substitution, supported places. */
export const SUBSTITUTED_KEYS: readonly string[] = ["command", "args", "cwd", "env", "url", "headers", "oauth"]

/** Returns the transport of a server under its main name; undefined without type, command and url. */
export function transportOf(config: {
  readonly type?: TransportType | "streamable-http" | "streamable_http" | "streamablehttp" | undefined
  readonly command?: string | undefined
  readonly url?: string | undefined
}): TransportType | undefined {
  switch (config.type) {
    case undefined:
      if (config.command !== undefined) return "stdio"
      return config.url === undefined ? undefined : "http"
    case "streamable-http":
    case "streamable_http":
    case "streamablehttp":
      return "streamableHttp"
    default:
      return config.type
  }
}

/** Keys whose values are a fixed set. In a template the value may be an expression, and is checked when it is rendered. */
export const ENUM_KEYS = ["type", "stderr", "protocolVersion", "isolation", "start", "replicas", "toolPinning"] as const
