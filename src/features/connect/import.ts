/** Imports servers from the configuration of other applications. Pure: paths and texts in, entries of mcp.json out. */
import { isDeepStrictEqual } from "node:util"
import type { Path } from "../../config/document.ts"
import { writtenServers } from "../../config/edit.ts"
import { isAddressOf, isSvcCommand } from "../../config/own-service.ts"
import { type HostEnvironment, isDisabled, nameProblem, planServer } from "../../config/plan.ts"
import { serverSchema } from "../../config/schema.ts"
import { IGNORED_KEYS } from "../../config/sections.ts"
import { SUBSTITUTED_KEYS } from "../../config/server-keys.ts"
import { SEPARATOR } from "../../config/server-spec.ts"
import { lazy } from "../../lib/lazy.ts"
import { schemaProblem } from "../../lib/schema-problem.ts"
import { isObject, type Params } from "../../wire/message.ts"
import { readClientDocument, valueIn } from "./client-edit.ts"

/** A server of another application. `problem` says why it cannot be imported; `notes` name settings that are dropped. */
export type ForeignServer = {
  readonly name: string
  /** The folder of the server's project, in a file of all projects (Claude Code's scope `local`). */
  readonly project: string | undefined
  /** Its place in the document. */
  readonly path: Path
  readonly server: Params
  readonly notes: readonly string[]
  readonly problem: string | undefined
}

/**
 * Reads the servers, including those of all projects, in a file of any client. Recognizes the format by the members of the
 * document. Throws a ConfigError if the text is malformed.
 */
export function readForeignServers(text: string, file: string): readonly ForeignServer[] {
  const value = readClientDocument(text, file)
  const projects = Object.entries(isObject(value.projects) ? value.projects : {})
  const sections: readonly Section[] = [
    ...SECTIONS.map((key) => ({ path: [key], project: undefined })),
    ...projects.map(([folder]) => ({ path: ["projects", folder, "mcpServers"], project: folder })),
  ]
  return sections.flatMap(({ path, project }) => {
    const section = valueIn(value, path)
    return Object.entries(isObject(section) ? section : {}).flatMap(([name, entry]): readonly ForeignServer[] =>
      isObject(entry) && !BUILT_IN.includes(String(entry.type))
        ? [{ ...convert(name, entry, dollarsIn(file), unitIn(file)), project, path: [...path, name] }]
        : [],
    )
  })
}

/** Whether an entry points to svc itself, which clients reach at `addresses`: svc must not offer its own tools twice. */
export const isSvc = ({ command, args, url }: Params, addresses: readonly string[]): boolean =>
  typeof url === "string"
    ? isAddressOf(url, addresses)
    : isSvcCommand(String(command), Array.isArray(args) ? args.map(String) : [])

/** Whether two entries run the same command, or reach the same address, with the same settings. References are resolved. */
export function isSameServer(one: Params, other: Params, world: HostEnvironment): boolean {
  const [first, second] = [one, other].map((server) => launchOf(server, world))
  return first !== undefined && second !== undefined && isDeepStrictEqual(first, second)
}

/**
 * Returns the entries of a client that are equal to an enabled server in svc's mcp.json, whose text is `config`. `includes`
 * selects svc's servers by their tags.
 */
export function servedEntries(
  entries: readonly ForeignServer[],
  config: string,
  world: HostEnvironment,
  includes: (tags: readonly string[]) => boolean = () => true,
): readonly ForeignServer[] {
  const served = [...writtenServers(config).values()].filter(
    ({ section, server }) => section !== "mcpTemplates" && !isDisabled(server) && includes(tagsOf(server)),
  )
  return entries.filter((entry) => served.some(({ server }) => isSameServer(entry.server, server, world)))
}

// ---

const tagsOf = ({ tags }: Params): readonly string[] => (Array.isArray(tags) ? tags.map(String) : [])

/** Returns the launch of a server without the settings that only svc has; undefined if it cannot run. */
function launchOf(server: Params, world: HostEnvironment): unknown {
  const { command, args, cwd, env, url, headers } = server
  const parsed = serverSchema().safeParse(url === undefined ? { command, args, cwd, env } : { url, headers })
  const planned = parsed.success ? planServer("server", "server", parsed.data, {}, world) : undefined
  return planned !== undefined && "spec" in planned ? planned.spec.launch : undefined
}

type Section = { readonly path: Path; readonly project: string | undefined }

/** The members in which clients keep their servers. */
const SECTIONS = ["mcpServers", "servers", "mcp_servers", "context_servers", "mcp", "extensions"] as const

/** Types of entries of goose that are not MCP servers. */
const BUILT_IN: readonly string[] = ["builtin", "platform", "frontend", "inline_python"]

/** Which `$` in a value refer to the environment in an application: none, those before braces, or all. */
type Dollars = "literal" | "braces" | "references"

function dollarsIn(file: string): Dollars {
  if (/claude_desktop_config\.json$|\.(?:toml|ya?ml)$|[\\/]\.?zed[\\/]settings\.json$/i.test(file)) return "literal"
  return /(?:\.claude|[\\/]\.mcp|[\\/](?:\.cursor|\.vscode|User)[\\/]mcp|mcp_config)\.json$/.test(file)
    ? "braces"
    : "references"
}

/** Returns the unit of `timeout` in milliseconds, for files of clients in which it limits requests; undefined for others. */
function unitIn(file: string): number | undefined {
  if (/[\\/]\.(?:gemini|qwen)[\\/]settings\.json$/.test(file)) return 1
  return /[\\/]goose[\\/].*\.ya?ml$/.test(file) ? 1000 : undefined
}

/** Returns the keys that are copied. Not `timeout`: its meaning and unit differ between applications. */
const keptKeys = lazy(() => Object.keys(serverSchema().shape).filter((key) => key !== "timeout"))
/** Transports with other names than in svc. */
const FOREIGN_TYPES: ReadonlyMap<string, string> = new Map([
  ["local", "stdio"],
  ["remote", "http"],
])
/** Keys that are renamed, or have no meaning for svc and can be dropped without a note. */
const FOREIGN = [
  "httpUrl",
  "serverUrl",
  "enabled",
  "bearer_token_env_var",
  "http_headers",
  "env_http_headers",
  "env_vars",
  "disabled_tools",
  "excludeTools",
  "startup_timeout_sec",
  "tool_timeout_sec",
  "trust",
  "source",
  "gallery",
  "tools",
  "uri",
  "cmd",
  "envs",
  "env_keys",
  "environment",
  "bundled",
  "available_tools",
  "display_name",
  "version",
]

function convert(
  name: string,
  entry: Params,
  dollars: Dollars,
  unit: number | undefined,
): Omit<ForeignServer, "project" | "path"> {
  const notes: string[] = []
  // Old versions of Zed write the command as an object.
  const nested = isObject(entry.command) ? { ...entry.command, command: entry.command.path } : wordsOf(entry.command)
  const source: Params = { ...entry, ...nested, ...renamed(entry) }
  const server: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(source)) {
    if (value === undefined || value === null) continue
    if (keptKeys().includes(key))
      server[key] = SUBSTITUTED_KEYS.includes(key) ? translate(value, dollars, notes) : value
    else if (key === "timeout" && unit !== undefined && typeof value === "number") server.requestTimeout = value * unit
    else if (!FOREIGN.includes(key) && !IGNORED_KEYS.includes(key) && !isEmpty(value) && !(key in nested))
      notes.push(`${key} is not imported`)
  }
  const headers = { ...map(entry.http_headers, (text) => translate(text, dollars, notes)), ...references(entry) }
  if (Object.keys(headers).length > 0)
    server.headers = { ...(isObject(server.headers) ? server.headers : {}), ...headers }
  if (Array.isArray(entry.env_vars))
    server.env = {
      ...Object.fromEntries(entry.env_vars.map((variable: unknown) => [String(variable), `\${${variable}}`])),
      ...(isObject(server.env) ? server.env : {}),
    }
  const ownName = name.replaceAll(SEPARATOR, "-")
  return { name: ownName, server, notes: [...new Set(notes)], problem: problemOf(ownName, server) }
}

/** Returns the command and the arguments of a command in one list, as OpenCode writes it. */
function wordsOf(command: unknown): Params {
  if (!Array.isArray(command)) return {}
  const [program, ...args] = command
  return { command: program, args }
}

/** Returns settings under svc's names and in its units. */
function renamed(entry: Params): Params {
  const milliseconds = (seconds: unknown) => (typeof seconds === "number" ? seconds * 1000 : undefined)
  return {
    url: entry.url ?? entry.httpUrl ?? entry.serverUrl ?? entry.uri,
    ...(entry.cmd === undefined ? {} : { command: entry.cmd }),
    ...(entry.environment === undefined && entry.envs === undefined ? {} : { env: entry.environment ?? entry.envs }),
    ...(FOREIGN_TYPES.has(String(entry.type)) ? { type: FOREIGN_TYPES.get(String(entry.type)) } : {}),
    disabled: entry.enabled === false ? true : entry.disabled,
    disabledTools: entry.disabledTools ?? entry.disabled_tools ?? entry.excludeTools,
    connectionTimeout: entry.connectionTimeout ?? milliseconds(entry.startup_timeout_sec),
    requestTimeout: entry.requestTimeout ?? milliseconds(entry.tool_timeout_sec),
  }
}

/** Returns the headers that an entry takes from variables, as references. */
const references = (entry: Params): Params => ({
  ...map(entry.env_http_headers, (variable) => `\${${variable}}`),
  ...(typeof entry.bearer_token_env_var === "string"
    ? { Authorization: `Bearer \${${entry.bearer_token_env_var}}` }
    : {}),
})

const map = (value: unknown, to: (item: unknown) => unknown): Params =>
  Object.fromEntries(Object.entries(isObject(value) ? value : {}).map(([key, item]) => [key, to(item)]))

const isEmpty = (value: unknown): boolean =>
  value === false || value === "" || (typeof value === "object" && value !== null && Object.keys(value).length === 0)

/** Returns why a server cannot be imported, or undefined. */
function problemOf(name: string, server: Params): string | undefined {
  const parsed = serverSchema().safeParse(server, { error: schemaProblem })
  if (!parsed.success) return parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; ")
  const { command, url } = parsed.data
  if (command === undefined && url === undefined) return "it has neither a command nor a url"
  if (command !== undefined && url !== undefined) return "it has both a command and a url: remove one of them"
  return nameProblem(name)
}

function translate(value: unknown, dollars: Dollars, notes: string[]): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => translate(item, dollars, notes))
  if (isObject(value)) return map(value, (item) => translate(item, dollars, notes))
  if (typeof value !== "string") return value
  if (dollars === "literal") return value.replaceAll("$", "$$$$")
  const unknown = /\$\{(?:workspaceFolder|userHome|command)[^{}]*\}/.exec(value)?.[0]
  if (unknown !== undefined) notes.push(`svc does not know ${unknown}: write the value in its place`)
  return dollars === "braces" ? value.replace(/\$(?!\{)/g, "$$$$") : value
}
