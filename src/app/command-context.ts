/** Where a command works: the configuration directory, its documents, and the instance that serves it, if one does. */
import { dirname } from "node:path"
import type { ArgsDef } from "citty"
import { createReload } from "../agent/reload.ts"
import { type Document, parseDocument } from "../config/document.ts"
import { parseDotenv } from "../config/dotenv.ts"
import type { World } from "../config/plan.ts"
import { readOptions } from "../lib/command-line.ts"
import { type Issue, UnavailableError } from "../lib/errors.ts"
import { silentLog } from "../lib/log.ts"
import { callControl } from "../serve/control-socket.ts"
import { type DocumentTexts, readTexts } from "../store/documents.ts"
import { type Paths, pathsOf } from "../store/paths.ts"
import { homeDirectory } from "../template/project.ts"
import type { Params } from "../wire/message.ts"

/** The flags that say which configuration is meant. */
export const CONFIG_ARGS = {
  config: { type: "string", description: "The configuration file", valueHint: "path" },
  "config-dir": {
    type: "string",
    description: "The configuration directory (default ~/.config/svc)",
    valueHint: "directory",
  },
} as const satisfies ArgsDef

/** The flags of every command that has a place and prints something. */
export const CONTEXT_ARGS = {
  ...CONFIG_ARGS,
  json: { type: "boolean", description: "Print JSON" },
} as const satisfies ArgsDef

export type CommandContext = {
  readonly paths: Paths
  /** What the documents are planned with; `.env` is read when it is asked for. */
  readonly baseWorld: Omit<World, "dotenv">
  world(): World
  document(): Document
  /** Asks the running instance; undefined where none runs. */
  ask(method: string, params?: Params, timeout?: number): Promise<unknown>
}

export function openContext(args: Readonly<Record<string, unknown>>): CommandContext {
  const { env, platform } = process
  const option = readOptions(args, env)
  const home = homeDirectory()
  const paths = pathsOf({
    config: option.text("config"),
    directory: option.text("config-dir"),
    platform,
    home,
    appData: env.APPDATA,
    cwd: process.cwd(),
  })
  const baseWorld = { parent: env, platform, home, folder: dirname(paths.file) }
  return {
    paths,
    baseWorld,
    document: () => parseDocument(readTexts(paths).config ?? "", paths.file),
    world: () => ({ ...baseWorld, dotenv: parseDotenv(readTexts(paths).dotenv ?? "", paths.dotenv) }),
    ask: (method, params = {}, timeout) => callControl(paths, method, params, timeout),
  }
}

/** For what only a running instance can do. */
export const notRunning = ({ file }: Paths): UnavailableError =>
  new UnavailableError(`svc is not running for ${file}; start it with \`svc serve\``)

/** All that a start or a reload would find wrong with these texts: it is one that changes nothing. */
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

/** All values of a flag that may stand several times. */
export function repeated(rawArgs: readonly string[], flag: string): readonly string[] {
  const end = rawArgs.indexOf("--")
  const own = end < 0 ? rawArgs : rawArgs.slice(0, end)
  return own.flatMap((word, at) => {
    if (word === `--${flag}`) return [own[at + 1] ?? ""]
    return word.startsWith(`--${flag}=`) ? [word.slice(flag.length + 3)] : []
  })
}
