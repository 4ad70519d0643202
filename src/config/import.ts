/** The servers that other applications are configured with, as entries of mcp.json. Pure: paths in, texts in, servers out. */
import { posix, win32 } from "node:path"
import { isObject, type Params } from "../wire/message.ts"
import { parseDocument } from "./document.ts"

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

export type Surroundings = {
  readonly platform: string
  readonly home: string
  readonly appData: string | undefined
  readonly cwd: string
}

/** Where an application keeps its servers, the user's own file first. */
export function filesOf(application: Application, { platform, home, appData, cwd }: Surroundings): readonly string[] {
  const { join } = platform === "win32" ? win32 : posix
  const support =
    platform === "darwin"
      ? join(home, "Library", "Application Support")
      : platform === "win32"
        ? (appData ?? join(home, "AppData", "Roaming"))
        : join(home, ".config")
  switch (application) {
    case "claude-desktop":
      return [join(support, "Claude", "claude_desktop_config.json")]
    case "claude-code":
      return [join(home, ".claude.json"), join(cwd, ".mcp.json")]
    case "cursor":
      return [join(home, ".cursor", "mcp.json"), join(cwd, ".cursor", "mcp.json")]
    case "vscode":
      return [join(support, "Code", "User", "mcp.json"), join(cwd, ".vscode", "mcp.json")]
    case "codex":
      return [join(home, ".codex", "config.toml")]
    case "windsurf":
      return [join(home, ".codeium", "windsurf", "mcp_config.json")]
    case "zed":
      return [
        platform === "win32" ? join(support, "Zed", "settings.json") : join(home, ".config", "zed", "settings.json"),
      ]
    case "gemini":
      return [join(home, ".gemini", "settings.json")]
  }
}

export type Found = { readonly name: string; readonly server: Params; readonly notes: readonly string[] }

/**
 * The servers in a file of any of these applications, recognised by its shape. `parseToml` reads what is not JSON.
 * Throws a ConfigError where the text cannot be read.
 */
export function readForeign(
  text: string,
  file: string,
  parseToml: (text: string) => unknown,
  cwd: string,
): readonly Found[] {
  const value = file.endsWith(".toml") ? parseToml(text) : parseDocument(text, file).value
  if (!isObject(value)) return []
  const project = isObject(value.projects) && isObject(value.projects[cwd]) ? value.projects[cwd].mcpServers : undefined
  const sections: readonly (readonly [unknown, Dollars])[] = [
    [value.mcpServers, "references"],
    [project, "references"],
    [value.servers, "references"],
    [value.mcp_servers, "literal"],
    [value.context_servers, "literal"],
  ]
  return sections.flatMap(([section, dollars]) =>
    Object.entries(isObject(section) ? section : {}).flatMap(([name, entry]) =>
      isObject(entry) ? [convert(name, entry, dollars)] : [],
    ),
  )
}

// ---

/** Whether a `$` in a value refers to the environment there. */
type Dollars = "references" | "literal"

const KEPT = ["command", "args", "cwd", "env", "url", "headers", "type", "disabled"] as const

function convert(name: string, entry: Params, dollars: Dollars): Found {
  const notes: string[] = []
  // Zed wrote the command as an object once; Gemini and Windsurf have other names for the address.
  const nested = isObject(entry.command) ? { ...entry.command, command: entry.command.path } : {}
  const source: Params = { ...entry, ...nested, url: entry.url ?? entry.httpUrl ?? entry.serverUrl }
  const server: Record<string, unknown> = {}
  for (const key of KEPT) {
    const value = source[key]
    if (value === undefined || value === null) continue
    if (
      key === "type" &&
      typeof value === "string" &&
      !["stdio", "http", "sse", "streamableHttp", "streamable-http", "streamable_http"].includes(value)
    )
      continue
    server[key] = key === "type" || key === "disabled" ? value : translate(value, dollars, notes)
  }
  if (typeof entry.bearer_token_env_var === "string")
    server.headers = {
      ...(isObject(server.headers) ? server.headers : {}),
      Authorization: `Bearer \${${entry.bearer_token_env_var}}`,
    }
  if (isObject(entry.http_headers))
    server.headers = {
      ...(isObject(server.headers) ? server.headers : {}),
      ...(translate(entry.http_headers, dollars, notes) as Params),
    }
  if (entry.enabled === false) server.disabled = true
  return { name: name.replaceAll("_svc_", "-"), server, notes: [...new Set(notes)] }
}

function translate(value: unknown, dollars: Dollars, notes: string[]): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => translate(item, dollars, notes))
  if (isObject(value))
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, translate(item, dollars, notes)]))
  if (typeof value !== "string") return value
  if (dollars === "literal") return value.replaceAll("$", "$$$$")
  const unknown = /\$\{(?:input|workspaceFolder|userHome|command)[^}]*\}/.exec(value)?.[0]
  if (unknown !== undefined) notes.push(`${unknown} means nothing here: put the value in`)
  return value.replace(/\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}/g, "${$1}")
}
