/** Merges `serverDefaults` into a server. spec: serverDefaults, merge rules 1 to 6. */
import type { DefaultsConfig, ServerConfig } from "./schema.ts"
import { REMOTE_ONLY, STDIO_ONLY } from "./server-keys.ts"
import type { TransportType } from "./server-spec.ts"

/** The source of an effective value. */
export type ValueOrigin = "server" | "template" | "default" | "built-in"

/** Returns a server's configuration with its defaults. `origins` names the sources of each key; a merged key has two. */
export function applyDefaults(
  server: ServerConfig,
  defaults: DefaultsConfig,
  transport: TransportType,
): { readonly config: ServerConfig; readonly origins: Readonly<Record<string, readonly ValueOrigin[]>> } {
  const merged: Record<string, unknown> = { ...server }
  const origins: Record<string, readonly ValueOrigin[]> = Object.fromEntries(
    Object.keys(server).map((key) => [key, ["server" as const]]),
  )
  // Rules 5 and 6.
  const ignored: readonly string[] = transport === "stdio" ? REMOTE_ONLY : STDIO_ONLY
  for (const [key, value] of Object.entries(defaults)) {
    if (value === undefined || ignored.includes(key)) continue
    if (merged[key] === undefined) {
      merged[key] = value
      origins[key] = ["default"]
    }
  }
  const merge = (key: string, value: unknown) => {
    merged[key] = value
    origins[key] = ["default", "server"]
  }
  // Rule 1: objects merge, the server's keys win; arrays are replaced.
  if (isRecord(server.env) && isRecord(defaults.env) && transport === "stdio")
    merge("env", { ...defaults.env, ...server.env })
  // Rule 2: the server's patterns follow the defaults'; of equal patterns the first stays, as in `childEnvironment`.
  if (server.envFilter !== undefined && defaults.envFilter !== undefined && transport === "stdio")
    merge("envFilter", [...new Set([...defaults.envFilter, ...server.envFilter])])
  return { config: merged as ServerConfig, origins }
}

// ---

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)
