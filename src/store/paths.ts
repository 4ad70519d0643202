/** The paths of svc's files. spec: Configuration file, default location. */
import { dirname, join, resolve } from "node:path"
import { digest } from "../lib/digest.ts"

export type Paths = {
  /** The configuration directory, for backups, presets, logs and the control socket. */
  readonly directory: string
  /** mcp.json, at its effective path. */
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

/** Returns the default configuration directory of a user. */
export const standardDirectory = ({
  platform,
  home,
  appData,
}: Pick<PathOptions, "platform" | "home" | "appData">): string =>
  platform === "win32" ? join(appData ?? join(home, "AppData", "Roaming"), "svc") : join(home, ".config", "svc")

/** Returns the paths for flags, variables and platform. */
export function pathsOf(options: PathOptions): Paths {
  const { config, directory, cwd } = options
  const chosen = directory === undefined ? standardDirectory(options) : resolve(cwd, directory)
  const file = config === undefined ? join(chosen, "mcp.json") : resolve(cwd, config)
  return { directory: chosen, file, dotenv: join(dirname(file), ".env"), presets: join(chosen, "presets.json") }
}

/** Returns the file of the tokens of clients. */
export const tokensFile = ({ directory }: Pick<Paths, "directory">): string => join(directory, "tokens.json")

/** Returns the folder with the logs of a configuration's servers: servers of two configurations may share a name. */
export const logsFolder = (paths: Paths): string => join(paths.directory, ownName("logs", paths))

/**
 * Returns a file name that is unique to a configuration: `name` itself for the mcp.json of the directory, else with a digest
 * of the path of mcp.json, because several configurations may share a directory. Windows ignores case in paths, and editors
 * write drive letters in either case: all spellings of a path share one name, and so one lock.
 */
export function ownName(
  name: string,
  { directory, file }: Pick<Paths, "directory" | "file">,
  platform: string = process.platform,
): string {
  const fold = (path: string) => (platform === "win32" ? path.toLowerCase() : path)
  if (fold(file) === fold(join(directory, "mcp.json"))) return name
  return `${name}-${digest(fold(file), 8)}`
}
