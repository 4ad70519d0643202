/** The servers that other applications are configured with, as entries of mcp.json. Pure: paths in, texts in, servers out. */

import { posix, win32 } from "node:path"
import { isLoopback } from "../lib/address.ts"
import { isObject, type Params } from "../wire/message.ts"
import { parseDocument } from "./document.ts"
import { nameProblem } from "./plan.ts"
import { serverSchema } from "./schema.ts"
import { IGNORED_KEYS } from "./sections.ts"
import { SEPARATOR } from "./server-spec.ts"

export const APPLICATIONS = [
  "claude-desktop",
  "claude-code",
  "cursor",
  "vscode",
  "codex",
  "windsurf",
  "zed",
  "gemini",
] as const
export type Application = (typeof APPLICATIONS)[number]

export type ApplicationHost = {
  readonly platform: string
  readonly home: string
  readonly appData: string | undefined
  readonly cwd: string
}

/** A file that an application keeps servers in. A project's is written by its repository, the user's by the user. */
export type Source = { readonly file: string; readonly owner: "user" | "project" }

/** Where an application keeps its servers, the user's own file first. */
export function filesOf(
  application: Application,
  { platform, home, appData, cwd }: ApplicationHost,
): readonly [Source, ...Source[]] {
  const { join } = platform === "win32" ? win32 : posix
  const support =
    platform === "darwin"
      ? join(home, "Library", "Application Support")
      : platform === "win32"
        ? (appData ?? join(home, "AppData", "Roaming"))
        : join(home, ".config")
  const user = (...path: readonly string[]): Source => ({ file: join(...path), owner: "user" })
  const project = (...path: readonly string[]): Source => ({ file: join(cwd, ...path), owner: "project" })
  switch (application) {
    case "claude-desktop":
      return [user(support, "Claude", "claude_desktop_config.json")]
    case "claude-code":
      return [user(home, ".claude.json"), project(".mcp.json")]
    case "cursor":
      return [user(home, ".cursor", "mcp.json"), project(".cursor", "mcp.json")]
    case "vscode":
      return [user(support, "Code", "User", "mcp.json"), project(".vscode", "mcp.json")]
    case "codex":
      return [user(home, ".codex", "config.toml")]
    case "windsurf":
      return [user(home, ".codeium", "windsurf", "mcp_config.json")]
    case "zed":
      return [
        platform === "win32" ? user(support, "Zed", "settings.json") : user(home, ".config", "zed", "settings.json"),
      ]
    case "gemini":
      return [user(home, ".gemini", "settings.json")]
  }
}

/** A server of theirs. `problem` says why it cannot be one of ours; `notes` what of it does not come along. */
export type ForeignServer = {
  readonly name: string
  readonly server: Params
  readonly notes: readonly string[]
  readonly problem: string | undefined
}

/**
 * The servers in a file of any of these applications, recognised by its shape. `parseToml` reads what is not JSON.
 * Throws a ConfigError where the text cannot be read.
 */
export function readForeignServers(
  text: string,
  file: string,
  parseToml: (text: string) => unknown,
  cwd: string,
): readonly ForeignServer[] {
  const value = file.endsWith(".toml") ? parseToml(text) : parseDocument(text, file).value
  if (!isObject(value)) return []
  const projects = isObject(value.projects) ? value.projects : {}
  // Claude Code writes the paths of Windows with slashes.
  const here = projects[cwd] ?? projects[cwd.replaceAll("\\", "/")]
  const project = isObject(here) ? here.mcpServers : undefined
  const dollars = dollarsIn(file)
  const sections: readonly (readonly [unknown, Dollars])[] = [
    [value.mcpServers, dollars],
    [project, dollars],
    [value.servers, dollars],
    [value.mcp_servers, "literal"],
    [value.context_servers, "literal"],
  ]
  return sections.flatMap(([section, dollars]) =>
    Object.entries(isObject(section) ? section : {}).flatMap(([name, entry]) =>
      isObject(entry) ? [convert(name, entry, dollars)] : [],
    ),
  )
}

/** Whether an entry of theirs brings them to svc itself, which listens at `address`: it would offer all that it has twice. */
export function isSvc({ command, args, url }: Params, address: string): boolean {
  if (typeof url === "string" && URL.canParse(url) && URL.canParse(address)) {
    const [there, here] = [new URL(url), new URL(address)]
    return isLoopback(there.hostname) && isLoopback(here.hostname) && there.port === here.port
  }
  const [first] = Array.isArray(args) ? args : []
  return /(?:^|[\\/])svc(?:\.exe)?$/i.test(String(command)) && (first === "proxy" || first === "serve")
}

// ---

/** Which `$` in a value refer to the environment there: none, those before braces, or all. */
type Dollars = "literal" | "braces" | "references"

function dollarsIn(file: string): Dollars {
  if (/claude_desktop_config\.json$/.test(file)) return "literal"
  return /(?:\.claude|[\\/]\.mcp|[\\/](?:\.cursor|\.vscode|User)[\\/]mcp|mcp_config)\.json$/.test(file)
    ? "braces"
    : "references"
}

/** What comes along as it is. A `timeout` does not: it means one thing or another, in one unit or another. */
const KEPT: readonly string[] = Object.keys(serverSchema.shape).filter((key) => key !== "timeout")
/** Values of these may refer to the environment. spec: Environment substitution, supported places. */
const SUBSTITUTED: readonly string[] = ["command", "args", "cwd", "env", "url", "headers", "oauth"]
/** What has other names, or means nothing here and would not be missed. */
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
  "version",
]

function convert(name: string, entry: Params, dollars: Dollars): ForeignServer {
  const notes: string[] = []
  // Zed wrote the command as an object once.
  const nested = isObject(entry.command) ? { ...entry.command, command: entry.command.path } : {}
  const source: Params = { ...entry, ...nested, ...renamed(entry) }
  const server: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(source)) {
    if (value === undefined || value === null) continue
    if (KEPT.includes(key)) server[key] = SUBSTITUTED.includes(key) ? translate(value, dollars, notes) : value
    else if (!FOREIGN.includes(key) && !IGNORED_KEYS.includes(key) && !isEmpty(value) && !(key in nested))
      notes.push(`${key} does not come along`)
  }
  const headers = { ...map(entry.http_headers, (text) => translate(text, dollars, notes)), ...references(entry) }
  if (Object.keys(headers).length > 0)
    server.headers = { ...(isObject(server.headers) ? server.headers : {}), ...headers }
  if (Array.isArray(entry.env_vars))
    server.env = {
      ...Object.fromEntries(entry.env_vars.map((variable: unknown) => [String(variable), `\${${variable}}`])),
      ...(isObject(server.env) ? server.env : {}),
    }
  const own = name.replaceAll(SEPARATOR, "-")
  return { name: own, server, notes: [...new Set(notes)], problem: problemOf(own, server) }
}

/** What is called otherwise elsewhere. */
function renamed(entry: Params): Params {
  const milliseconds = (seconds: unknown) => (typeof seconds === "number" ? seconds * 1000 : undefined)
  return {
    url: entry.url ?? entry.httpUrl ?? entry.serverUrl,
    disabled: entry.enabled === false ? true : entry.disabled,
    disabledTools: entry.disabledTools ?? entry.disabled_tools ?? entry.excludeTools,
    connectionTimeout: entry.connectionTimeout ?? milliseconds(entry.startup_timeout_sec),
    requestTimeout: entry.requestTimeout ?? milliseconds(entry.tool_timeout_sec),
  }
}

/** Headers whose values are the names of variables. */
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

/** Why a server of theirs cannot be one of ours. */
function problemOf(name: string, server: Params): string | undefined {
  const parsed = serverSchema.safeParse(server)
  if (!parsed.success) return parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; ")
  const { command, url } = parsed.data
  if (command === undefined && url === undefined) return "it has neither a command nor a url"
  return nameProblem(name)
}

function translate(value: unknown, dollars: Dollars, notes: string[]): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => translate(item, dollars, notes))
  if (isObject(value)) return map(value, (item) => translate(item, dollars, notes))
  if (typeof value !== "string") return value
  if (dollars === "literal") return value.replaceAll("$", "$$$$")
  const unknown = /\$\{(?:input|workspaceFolder|userHome|command)[^}]*\}/.exec(value)?.[0]
  if (unknown !== undefined) notes.push(`${unknown} means nothing here: put the value in`)
  return dollars === "braces" ? value.replace(/\$(?!\{)/g, "$$$$") : value
}
