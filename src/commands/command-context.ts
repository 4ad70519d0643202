/** What commands share: the flags that name a configuration, and other repeated flags. */
import { join } from "node:path"
import type { ArgsDef } from "citty"
import { CONFIG_ARGS, findPaths } from "../app/config-paths.ts"
import { usageError } from "../lib/command-line.ts"
import { UnavailableError } from "../lib/errors.ts"
import { type LocalConfiguration, openConfiguration } from "../serve/local-configuration.ts"
import type { Paths } from "../store/paths.ts"

/** The flags of every command that works on a configuration and prints a result. */
export const CONTEXT_ARGS = {
  ...CONFIG_ARGS,
  json: { type: "boolean", description: "Print JSON" },
} as const satisfies ArgsDef

/** The argument of commands for one server or all. */
export const ONE_SERVER_ARG = {
  name: { type: "positional", required: false, description: "Name of one server (default: all)", valueHint: "server" },
} as const satisfies ArgsDef

/** Opens the configuration that the flags and variables name. Throws a ConfigError as `findPaths` does. */
export const openContext = (
  args: Readonly<Record<string, unknown>>,
  missing: "allowed" | "refused" = "refused",
): LocalConfiguration => openConfiguration(findPaths(args, missing))

/** The error of a command that only a running instance can answer. */
export function notRunning({ directory, file }: Paths, otherwise = ""): UnavailableError {
  const flag = file === join(directory, "mcp.json") ? "" : ` --config ${file}`
  return new UnavailableError(`svc is not running for ${file}; start it with \`svc serve${flag}\`${otherwise}`)
}

/** Returns all values of a flag that may be repeated, under any of its names. */
export function repeated(rawArgs: readonly string[], ...names: readonly string[]): readonly string[] {
  const end = rawArgs.indexOf("--")
  const own = end < 0 ? rawArgs : rawArgs.slice(0, end)
  const flags = names.map((name) => (name.length === 1 ? `-${name}` : `--${name}`))
  return own.flatMap((word, at) => {
    if (flags.includes(word)) return [own[at + 1] ?? ""]
    const flag = flags.find((one) => word.startsWith(`${one}=`))
    return flag === undefined ? [] : [word.slice(flag.length + 1)]
  })
}

/** The flags for tags: repeated, or with several tags separated by commas. */
export const TAG_ARGS = {
  tag: { type: "string", description: "Tags, comma-separated; may be repeated" },
  tags: { type: "string", description: "The same as --tag" },
} as const satisfies ArgsDef

/** The flag of other clients for the scope of a server. */
export const SCOPE_ARGS = {
  scope: { type: "string", alias: "s", description: "No effect: svc has one configuration" },
} as const satisfies ArgsDef

/** The note of a command that is given `--scope`. */
export const SCOPE_NOTE = "--scope has no effect: svc has one configuration for all projects"

/** Returns the tags that a command names. Throws a RequestError (usage) for a flag without any. */
export function tagsOf(rawArgs: readonly string[]): readonly string[] {
  for (const name of ["tag", "tags"])
    if (repeated(rawArgs, name).includes("")) throw usageError(`--${name} needs a value: it is empty`)
  const given = repeated(rawArgs, "tag", "tags")
  const tags = given.flatMap((text) => text.split(",")).map((tag) => tag.trim())
  const named = [...new Set(tags.filter((tag) => tag !== ""))]
  if (given.length > 0 && named.length === 0) throw usageError("--tags needs at least one tag")
  return named
}
