/** Finds the configuration that a command's flags and variables name. It does not read it: `svc serve` listens before that. */
import { existsSync } from "node:fs"
import type { ArgsDef } from "citty"
import { readOptions } from "../lib/command-line.ts"
import { ConfigError } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { proxyEndpoint } from "../serve/control-socket.ts"
import { type Paths, pathsOf } from "../store/paths.ts"

/** The flags that name the configuration. */
export const CONFIG_ARGS = {
  config: { type: "string", description: "Configuration file", valueHint: "path" },
  "config-dir": {
    type: "string",
    description: "Configuration directory (default ~/.config/svc)",
    valueHint: "directory",
  },
} as const satisfies ArgsDef

/**
 * Returns the paths of the configuration that the flags and variables name. Throws a ConfigError if `--config` names a missing
 * file, which may be a typing error, unless `missing` allows it or svc runs for it: svc creates only the default file unasked.
 */
export function findPaths(args: Readonly<Record<string, unknown>>, missing: "allowed" | "refused"): Paths {
  const { env, platform } = process
  const option = readOptions(args, env)
  const paths = pathsOf({
    config: option.text("config"),
    directory: option.text("config-dir"),
    platform,
    home: homeDirectory(),
    appData: env.APPDATA,
    cwd: process.cwd(),
  })
  if (
    missing === "refused" &&
    option.text("config") !== undefined &&
    !existsSync(paths.file) &&
    proxyEndpoint(paths) === undefined
  )
    throw new ConfigError([
      {
        code: "read",
        severity: "error",
        message: `${paths.file} does not exist; check --config, or create it with \`svc serve --init --config FILE\``,
      },
    ])
  return paths
}
