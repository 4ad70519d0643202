/** Imports servers from the configuration of other applications. Pure: paths and texts in, entries of mcp.json out. */
import { posix, win32 } from "node:path"
import { isLoopback } from "../lib/address.ts"
import { schemaProblem } from "../lib/schema-problem.ts"
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

/** The machine and working directory that the files of applications are looked up for. */
export type ApplicationHost = {
  readonly platform: string
  readonly home: string
  readonly appData: string | undefined
  readonly cwd: string
}

/** A file with servers of an application. A project's file comes with its repository, the user's from the user. */
export type Source = { readonly file: string; readonly owner: "user" | "project" }

/** Returns the files in which an application keeps its servers, the user's own file first. */
export function filesOf(
  application: Application,
  { platform, home, appData, cwd }: ApplicationHost,
): readonly [Source, ...Source[]] {
  const { join } = platform === "win32" ? win32 : posix
  const support = supportFolder({ platform, home, appData }, join)
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

/** A server of another application. `problem` says why it cannot be imported; `notes` name settings that are dropped. */
export type ForeignServer = {
  readonly name: string
  readonly server: Params
  readonly notes: readonly string[]
  readonly problem: string | undefined
}

/**
 * Reads the servers in a file of any of these applications, recognised by its shape. `parseToml` reads `.toml` files;
 * `cwd` selects the project in a file of Claude Code. Throws a ConfigError if the text is malformed.
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
  // Claude Code writes Windows paths with slashes.
  const project = projects[cwd] ?? projects[cwd.replaceAll("\\", "/")]
  const projectServers = isObject(project) ? project.mcpServers : undefined
  const dollars = dollarsIn(file)
  const sections: readonly (readonly [unknown, Dollars])[] = [
    [value.mcpServers, dollars],
    [projectServers, dollars],
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

/** Whether an entry points to svc itself, which listens at `address`: svc must not offer its own tools twice. */
export function isSvc({ command, args, url }: Params, address: string): boolean {
  if (typeof url === "string" && URL.canParse(url) && URL.canParse(address)) {
    const [target, own] = [new URL(url), new URL(address)]
    return isLoopback(target.hostname) && isLoopback(own.hostname) && target.port === own.port
  }
  const [first] = Array.isArray(args) ? args : []
  return /(?:^|[\\/])svc(?:\.exe)?$/i.test(String(command)) && (first === "proxy" || first === "serve")
}

// ---

/** Returns the folder in which a platform keeps the settings of applications. */
function supportFolder(
  { platform, home, appData }: Omit<ApplicationHost, "cwd">,
  join: (...parts: string[]) => string,
): string {
  if (platform === "darwin") return join(home, "Library", "Application Support")
  return platform === "win32" ? (appData ?? join(home, "AppData", "Roaming")) : join(home, ".config")
}

/** Which `$` in a value refer to the environment in an application: none, those before braces, or all. */
type Dollars = "literal" | "braces" | "references"

function dollarsIn(file: string): Dollars {
  if (/claude_desktop_config\.json$/.test(file)) return "literal"
  return /(?:\.claude|[\\/]\.mcp|[\\/](?:\.cursor|\.vscode|User)[\\/]mcp|mcp_config)\.json$/.test(file)
    ? "braces"
    : "references"
}

/** Keys that are copied. Not `timeout`: its meaning and unit differ between applications. */
const KEPT: readonly string[] = Object.keys(serverSchema.shape).filter((key) => key !== "timeout")
/** Keys with values that may refer to the environment. spec: Environment substitution, supported places. */
const SUBSTITUTED: readonly string[] = ["command", "args", "cwd", "env", "url", "headers", "oauth"]
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
  "version",
]

function convert(name: string, entry: Params, dollars: Dollars): ForeignServer {
  const notes: string[] = []
  // Old versions of Zed write the command as an object.
  const nested = isObject(entry.command) ? { ...entry.command, command: entry.command.path } : {}
  const source: Params = { ...entry, ...nested, ...renamed(entry) }
  const server: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(source)) {
    if (value === undefined || value === null) continue
    if (KEPT.includes(key)) server[key] = SUBSTITUTED.includes(key) ? translate(value, dollars, notes) : value
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

/** Returns settings under svc's names and in its units. */
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
  const parsed = serverSchema.safeParse(server, { error: schemaProblem })
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
  const unknown = /\$\{(?:input|workspaceFolder|userHome|command)[^}]*\}/.exec(value)?.[0]
  if (unknown !== undefined) notes.push(`svc does not know ${unknown}: write the value in its place`)
  return dollars === "braces" ? value.replace(/\$(?!\{)/g, "$$$$") : value
}
