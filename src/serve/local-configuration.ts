/** A configuration on this machine, and the running svc that serves it, if any. */
import { dirname } from "node:path"
import { createReload } from "../agent/reload.ts"
import { resolveCommand } from "../backend/resolve-command.ts"
import { type Document, parseDocument } from "../config/document.ts"
import { parseDotenv } from "../config/dotenv.ts"
import { writtenServers } from "../config/edit.ts"
import { keysOf } from "../config/externalize-secrets.ts"
import { type HostEnvironment, plan } from "../config/plan.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import { type Issue, messageOf } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { silentLog } from "../lib/log.ts"
import type { Status } from "../report/status.ts"
import { type DocumentTexts, readTexts } from "../store/documents.ts"
import { ownService } from "../store/own-service.ts"
import type { Paths } from "../store/paths.ts"
import { isObject, type Params } from "../wire/message.ts"
import { callControl, callNeighbors, servedUrl } from "./control-socket.ts"
import { defaultAddress } from "./default-address.ts"

export type LocalConfiguration = {
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

/** Opens the configuration at `paths`. It reads none of the files. `references` returns values that are not in the environment. */
export function openConfiguration(paths: Paths, references?: HostEnvironment["references"]): LocalConfiguration {
  const { env, platform } = process
  const own = ownService(paths, [servedUrl(paths) ?? defaultAddress()])
  const baseWorld = { parent: env, platform, home: homeDirectory(), folder: dirname(paths.file), own, references }
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

/** Returns the servers of the configuration as written, as `writtenServers` does. Throws a ConfigError that names the file. */
export const configuredServers = ({ paths }: Pick<LocalConfiguration, "paths">): ReturnType<typeof writtenServers> =>
  writtenServers(readTexts(paths).config() ?? "{}", paths.file)

/** Returns the secrets of the configuration; none if it cannot be read. */
export function configuredSecrets(context: Pick<LocalConfiguration, "document" | "world">): readonly string[] {
  try {
    const document = context.document()
    const { specs, idleSecrets } = plan(document, context.world())
    return [...specs.flatMap(({ secrets }) => secrets), ...idleSecrets, ...keysOf(document)]
  } catch {
    return []
  }
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
export function findIssues({ paths, baseWorld }: LocalConfiguration, read: () => DocumentTexts): readonly Issue[] {
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

/** The status of a running svc with its addresses: of svc itself, and for clients; and whether these can rely on theirs. */
type RunningStatus = Status & { readonly url?: string; readonly endpoint?: string; readonly keepsAddress?: boolean }

/** Returns the status of the running svc of this configuration; undefined if none runs. Rejects if it does not answer. */
export async function runningStatus({ ask }: Pick<LocalConfiguration, "ask">): Promise<RunningStatus | undefined> {
  const status = await ask("status")
  return isObject(status) ? (status as RunningStatus) : undefined
}

/** As `runningStatus`, and undefined if svc does not answer. */
export const statusIfAnswered = (context: Pick<LocalConfiguration, "ask">): Promise<RunningStatus | undefined> =>
  runningStatus(context).catch(() => undefined)

/** Returns the address of the running svc of this configuration; undefined if none runs or it does not listen. */
export const runningUrl = async (context: Pick<LocalConfiguration, "ask">): Promise<string | undefined> =>
  (await statusIfAnswered(context))?.url
