/** Where svc keeps its documents. spec: Configuration file, default location. */
import { dirname, join, resolve } from "node:path"
import { digest } from "../lib/digest.ts"

export type Paths = {
  /** The configuration directory: backups, presets, logs, the control socket. */
  readonly directory: string
  /** The effective mcp.json. */
  readonly file: string
  /** The `.env` beside it. */
  readonly dotenv: string
  readonly presets: string
}

export type PathOptions = {
  /** `--config` */
  readonly config: string | undefined
  /** `--config-dir` or SVC_CONFIG_DIR */
  readonly directory: string | undefined
  readonly platform: string
  readonly home: string
  /** `%APPDATA%` */
  readonly appData: string | undefined
  readonly cwd: string
}

export function pathsOf({ config, directory, platform, home, appData, cwd }: PathOptions): Paths {
  const standard =
    platform === "win32" ? join(appData ?? join(home, "AppData", "Roaming"), "svc") : join(home, ".config", "svc")
  const chosen = directory === undefined ? standard : resolve(cwd, directory)
  const file = config === undefined ? join(chosen, "mcp.json") : resolve(cwd, config)
  return { directory: chosen, file, dotenv: join(dirname(file), ".env"), presets: join(chosen, "presets.json") }
}

/**
 * How a file is called among what belongs to one configuration, for several may share a directory: `name` alone where it
 * is that of the directory itself.
 */
export function ownName(name: string, { directory, file }: Paths): string {
  if (file === join(directory, "mcp.json")) return name
  return `${name}-${digest(file, 8)}`
}
