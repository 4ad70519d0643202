/** The context of a command: the configuration directory, its documents, and the running svc that serves them, if any. */
import { dirname, join } from "node:path"
import type { ArgsDef } from "citty"
import { createReload } from "../agent/reload.ts"
import { CONFIG_ARGS, DEFAULT_PORT, findPaths } from "../app/config-paths.ts"
import { resolveCommand } from "../backend/resolve-command.ts"
import { type Document, parseDocument } from "../config/document.ts"
import { parseDotenv } from "../config/dotenv.ts"
import { type HostEnvironment, plan } from "../config/plan.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import { readOptions, usageError } from "../lib/command-line.ts"
import { type Issue, messageOf, UnavailableError } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { silentLog } from "../lib/log.ts"
import type { Status } from "../report/status.ts"
import { callControl, callNeighbors, servedUrl } from "../serve/control-socket.ts"
import { type DocumentTexts, readTexts } from "../store/documents.ts"
import { ownService } from "../store/own-service.ts"
import type { Paths } from "../store/paths.ts"
import { isObject, type Params } from "../wire/message.ts"

/** The flags of every command that works on a configuration and prints a result. */
export const CONTEXT_ARGS = {
  ...CONFIG_ARGS,
  json: { type: "boolean", description: "Print JSON" },
} as const satisfies ArgsDef

/** The argument of commands for one server or all. */
export const ONE_SERVER_ARG = {
  name: { type: "positional", required: false, description: "Name of one server (default: all)", valueHint: "server" },
} as const satisfies ArgsDef

export type CommandContext = {
  readonly paths: Paths
  /** What plans depend on besides the documents; `world` adds `.env`. */
  readonly baseWorld: Omit<HostEnvironment, "dotenv">
  world(): HostEnvironment
  /** Returns the environment with a text of `.env`. Throws a ConfigError if the text is not valid. */
  worldOf(dotenv: string): HostEnvironment
  document(): Document
  /** Calls a control method of the running instance; undefined if none runs. `timeout` in milliseconds. */
  ask(method: string, params?: Params, timeout?: number): Promise<unknown>
  /** Makes the running svc of other configurations in the same directory read the files that they share with this one. */
  tellNeighbors(timeout: number): Promise<void>
}

/** Opens the context that the flags and variables name. Throws a ConfigError as `findPaths` does. */
export function openContext(
  args: Readonly<Record<string, unknown>>,
  missing: "allowed" | "refused" = "refused",
): CommandContext {
  const { env, platform } = process
  const paths = findPaths(args, missing)
  const own = ownService(paths, [servedUrl(paths) ?? defaultAddress()])
  const baseWorld = { parent: env, platform, home: homeDirectory(), folder: dirname(paths.file), own }
  const worldOf = (dotenv: string) => ({ ...baseWorld, dotenv: parseDotenv(dotenv, paths.dotenv) })
  return {
    paths,
    baseWorld,
    document: () => parseDocument(readTexts(paths).config() ?? "", paths.file),
    world: () => worldOf(readTexts(paths).dotenv() ?? ""),
    worldOf,
    ask: (method, params = {}, timeout) => callControl(paths, method, params, timeout),
    tellNeighbors: (timeout) => callNeighbors(paths, "reload", {}, timeout),
  }
}

/** Returns the secrets of the configuration; none if it cannot be read. */
export function configuredSecrets(context: Pick<CommandContext, "document" | "world">): readonly string[] {
  try {
    const { specs, idleSecrets } = plan(context.document(), context.world())
    return [...specs.flatMap(({ secrets }) => secrets), ...idleSecrets]
  } catch {
    return []
  }
}

/** The error of a command that only a running instance can answer. */
export function notRunning({ directory, file }: Paths, otherwise = ""): UnavailableError {
  const flag = file === join(directory, "mcp.json") ? "" : ` --config ${file}`
  return new UnavailableError(`svc is not running for ${file}; start it with \`svc serve${flag}\`${otherwise}`)
}

/** Returns how to set the variable that an issue says is not set; undefined if the issue is another one. */
export function variableFix(message: string, { dotenv }: Pick<Paths, "dotenv">): string | undefined {
  const [, variable] = /(?:refers to|names) ([A-Za-z_]\w*), which is not set/.exec(message) ?? []
  return variable === undefined ? undefined : `add ${variable}=… to ${dotenv}`
}

/**
 * Returns why the command of a server is not found, beginning with the server's name; undefined if it is found or there is
 * none.
 */
export function commandProblem({ name, launch }: ServerSpec): string | undefined {
  if (launch.transport !== "stdio") return undefined
  const which = (command: string, options: { PATH: string; cwd?: string }) => Bun.which(command, options)
  try {
    resolveCommand(launch, name, { windows: process.platform === "win32", which })
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}

/** Returns the issues that a start or a reload would find in these texts. */
export function findIssues({ paths, baseWorld }: CommandContext, read: () => DocumentTexts): readonly Issue[] {
  const reload = createReload({
    agent: { setPresets() {}, refuse() {} },
    instances: { update: () => ({ added: [], removed: [], replaced: [], retuned: [] }) },
    log: silentLog,
    paths,
    read,
    world: baseWorld,
  })
  return reload().issues
}

/** The status of a running svc with its addresses: of svc itself, and for clients. */
type RunningStatus = Status & { readonly url?: string; readonly endpoint?: string }

/** Returns the status of the running svc of this configuration; undefined if none runs. Rejects if it does not answer. */
export async function runningStatus({ ask }: Pick<CommandContext, "ask">): Promise<RunningStatus | undefined> {
  const status = await ask("status")
  return isObject(status) ? (status as RunningStatus) : undefined
}

/** As `runningStatus`, and undefined if svc does not answer. */
export const statusIfAnswered = (context: Pick<CommandContext, "ask">): Promise<RunningStatus | undefined> =>
  runningStatus(context).catch(() => undefined)

/** Returns the address of the running svc of this configuration; undefined if none runs or it does not listen. */
export const runningUrl = async (context: Pick<CommandContext, "ask">): Promise<string | undefined> =>
  (await statusIfAnswered(context))?.url

/** Returns the port in SVC_PORT; undefined if there is none, or it is 0 for any free port. */
export const namedPort = (): number | undefined =>
  readOptions({}, process.env).integer("port", 0, 0, 65_535) || undefined

/** Returns the address at which svc listens by default. */
export const defaultAddress = (): string => `http://127.0.0.1:${namedPort() ?? DEFAULT_PORT}/`

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
