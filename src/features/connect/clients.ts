/**
 * The MCP clients that svc knows: the files in which each keeps its servers, and the format of an entry. One row per client,
 * from the client's documentation. `svc connect` writes these files, and `svc config import` reads them.
 */
import { posix, win32 } from "node:path"
import type { Path } from "../../config/document.ts"
import type { Params } from "../../wire/message.ts"
import { valueIn } from "./client-edit.ts"
import { nestedSections } from "./import.ts"

/** `user`: a file of the user, for all projects. `project`: a file in the project's folder, usually shared with its repository. */
type ClientScope = "user" | "project"

/** The machine and working directory that determine the paths of client files. */
export type ClientHost = {
  readonly platform: string
  readonly home: string
  readonly cwd: string
  /** The environment. `APPDATA`, `XDG_CONFIG_HOME` and the `folderVariable` of a row move files. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Whether a file is there; none is by default. */
  readonly exists?: (file: string) => boolean
}

/** How a client reaches svc. */
export type ClientEndpoint =
  | { readonly kind: "http"; readonly url: string; readonly headers: Readonly<Record<string, string>> }
  | { readonly kind: "stdio"; readonly command: string; readonly args: readonly string[] }

/** A file with servers of a client. */
export type ClientFile = { readonly file: string; readonly scope: ClientScope }

export type ClientName = keyof typeof ROWS

/**
 * One client. A file begins with `~/` (home), `settings/` (the platform's folder for applications), `config/`
 * (`XDG_CONFIG_HOME` on every platform) or `./` (the project).
 */
export type ClientRow = {
  readonly title: string
  readonly user: string
  /** The user's file on Windows, if it differs. */
  readonly windows?: string
  /** The variable that names the folder of the user's file instead. */
  readonly folderVariable?: string
  readonly project?: string
  /** Whether the client also reads these files with the ending `.jsonc`; svc takes such a file if the other one is not there. */
  readonly jsonc?: true
  /** The member of the document that holds the servers. */
  readonly section: readonly string[]
  /** The entry for an address; missing for a client that only starts commands. */
  readonly http?: (url: string, headers: Params) => Params
  /** The entry for a command. */
  readonly stdio: (command: string, args: readonly string[]) => Params
  /**
   * Returns the client's own command that adds a server, or undefined if the client has no command for the scope. Must not be
   * used with a token: other users can read arguments.
   */
  readonly adds?: (name: string, endpoint: ClientEndpoint, scope: ClientScope) => readonly string[] | undefined
  /** What the user does afterwards. */
  readonly next?: string
}

/** Returns the row of a client. */
export const clientRow = (name: ClientName): ClientRow => ROWS[name]

/** Returns the files in which a client keeps servers, the user's own file first. */
export function clientFiles(name: ClientName, host: ClientHost): readonly [ClientFile, ...ClientFile[]] {
  const { user, windows, folderVariable, project, jsonc } = clientRow(name)
  const { join, basename } = host.platform === "win32" ? win32 : posix
  const moved = folderVariable === undefined ? undefined : host.env[folderVariable]
  const place = host.platform === "win32" ? (windows ?? user) : user
  const file = moved === undefined || moved === "" ? locate(place, host) : join(moved, basename(place))
  const there = (path: string) =>
    jsonc === true && host.exists?.(path) === false && host.exists(`${path}c`) ? `${path}c` : path
  return [
    { file: there(file), scope: "user" },
    ...(project === undefined ? [] : [{ file: there(locate(project, host)), scope: "project" } as const]),
  ]
}

/** Returns the path of a server in the client's document: in the section within the client's section, if the document has one. */
export function entryPath(client: ClientName, name: string, document?: unknown): Path {
  const { section } = clientRow(client)
  const [nested] = nestedSections(valueIn(document, section))
  return [...section, ...(nested === undefined ? [] : [nested]), name]
}

/** Returns the entry that a client needs for an endpoint. */
export function clientEntry(client: ClientName, endpoint: ClientEndpoint): Params {
  const { http, stdio } = clientRow(client)
  if (endpoint.kind === "stdio") return stdio(endpoint.command, endpoint.args)
  if (http === undefined) throw new Error(`${client} takes no address`)
  return http(endpoint.url, Object.keys(endpoint.headers).length === 0 ? {} : { headers: endpoint.headers })
}

// ---

const typed =
  (type: string, more: Params = {}) =>
  (url: string, headers: Params) => ({ type, url, ...headers, ...more })
const bare = (url: string, headers: Params): Params => ({ url, ...headers })
const command = (command: string, args: readonly string[]): Params => ({ command, args })
const typedCommand = (command: string, args: readonly string[]): Params => ({ type: "stdio", command, args })

/** The arguments of `mcp add` of Claude Code and Gemini CLI, which are alike. */
const optionsOf = (endpoint: ClientEndpoint, scope: ClientScope): readonly string[] => [
  "--scope",
  scope,
  "--transport",
  endpoint.kind,
]

const addedByCode =
  (program: string): NonNullable<ClientRow["adds"]> =>
  (name, endpoint, scope) =>
    scope === "user" ? [program, "--add-mcp", JSON.stringify({ name, ...clientEntry("vscode", endpoint) })] : undefined

const ROWS = {
  "claude-code": {
    title: "Claude Code",
    user: "~/.claude.json",
    folderVariable: "CLAUDE_CONFIG_DIR",
    project: "./.mcp.json",
    section: ["mcpServers"],
    http: typed("http"),
    stdio: typedCommand,
    adds: (name, endpoint, scope) => [
      "claude",
      "mcp",
      "add",
      ...optionsOf(endpoint, scope),
      name,
      ...(endpoint.kind === "http" ? [endpoint.url] : ["--", endpoint.command, ...endpoint.args]),
    ],
  },
  "claude-desktop": {
    title: "Claude Desktop",
    user: "settings/Claude/claude_desktop_config.json",
    section: ["mcpServers"],
    stdio: command,
    next: "quit and restart Claude Desktop",
  },
  cursor: {
    title: "Cursor",
    user: "~/.cursor/mcp.json",
    project: "./.cursor/mcp.json",
    section: ["mcpServers"],
    http: bare,
    stdio: command,
  },
  vscode: {
    title: "VS Code",
    user: "settings/Code/User/mcp.json",
    project: "./.vscode/mcp.json",
    section: ["servers"],
    http: typed("http"),
    stdio: typedCommand,
    adds: addedByCode("code"),
  },
  "vscode-insiders": {
    title: "VS Code Insiders",
    user: "settings/Code - Insiders/User/mcp.json",
    project: "./.vscode/mcp.json",
    section: ["servers"],
    http: typed("http"),
    stdio: typedCommand,
    adds: addedByCode("code-insiders"),
  },
  codex: {
    title: "Codex",
    user: "~/.codex/config.toml",
    folderVariable: "CODEX_HOME",
    project: "./.codex/config.toml",
    section: ["mcp_servers"],
    http: (url, { headers }) => ({ url, ...(headers === undefined ? {} : { http_headers: headers }) }),
    stdio: command,
    adds: (name, endpoint, scope) =>
      scope === "user"
        ? [
            "codex",
            "mcp",
            "add",
            name,
            ...(endpoint.kind === "http" ? ["--url", endpoint.url] : ["--", endpoint.command, ...endpoint.args]),
          ]
        : undefined,
  },
  windsurf: {
    title: "Windsurf",
    user: "~/.codeium/windsurf/mcp_config.json",
    section: ["mcpServers"],
    http: (serverUrl, headers) => ({ serverUrl, ...headers }),
    stdio: command,
  },
  zed: {
    title: "Zed",
    user: "config/zed/settings.json",
    windows: "settings/Zed/settings.json",
    project: "./.zed/settings.json",
    section: ["context_servers"],
    http: bare,
    stdio: (path, args) => ({ source: "custom", command: path, args, env: {} }),
  },
  gemini: {
    title: "Gemini CLI",
    user: "~/.gemini/settings.json",
    project: "./.gemini/settings.json",
    section: ["mcpServers"],
    http: (url, headers) => ({ url, type: "http", ...headers }),
    stdio: command,
    adds: (name, endpoint, scope) => [
      "gemini",
      "mcp",
      "add",
      ...optionsOf(endpoint, scope),
      name,
      ...(endpoint.kind === "http" ? [endpoint.url] : [endpoint.command, "--", ...endpoint.args]),
    ],
  },
  cline: {
    title: "Cline",
    user: "settings/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
    section: ["mcpServers"],
    http: typed("streamableHttp", { disabled: false }),
    stdio: (path, args) => ({ command: path, args, disabled: false }),
  },
  roo: {
    title: "Roo Code",
    user: "settings/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
    project: "./.roo/mcp.json",
    section: ["mcpServers"],
    http: typed("streamable-http"),
    stdio: command,
  },
  continue: {
    title: "Continue",
    // A file of its own: Continue reads every file of this folder.
    user: "~/.continue/mcpServers/svc.json",
    project: "./.continue/mcpServers/svc.json",
    section: ["mcpServers"],
    http: typed("http"),
    stdio: command,
  },
  opencode: {
    title: "OpenCode",
    user: "config/opencode/opencode.json",
    project: "./opencode.json",
    jsonc: true,
    section: ["mcp"],
    http: typed("remote", { enabled: true }),
    stdio: (path, args) => ({ type: "local", command: [path, ...args], enabled: true }),
  },
  "copilot-cli": {
    title: "GitHub Copilot CLI",
    user: "~/.copilot/mcp-config.json",
    folderVariable: "COPILOT_HOME",
    section: ["mcpServers"],
    http: typed("http", { tools: ["*"] }),
    stdio: (path, args) => ({ type: "local", command: path, args, tools: ["*"] }),
  },
  junie: {
    title: "JetBrains Junie",
    user: "~/.junie/mcp/mcp.json",
    project: "./.junie/mcp/mcp.json",
    section: ["mcpServers"],
    stdio: command,
  },
  goose: {
    title: "goose",
    user: "config/goose/config.yaml",
    windows: "settings/Block/goose/config/config.yaml",
    section: ["extensions"],
    http: (uri, headers) => ({
      enabled: true,
      type: "streamable_http",
      name: "svc",
      description: "",
      uri,
      ...headers,
      timeout: 300,
    }),
    stdio: (cmd, args) => ({ enabled: true, type: "stdio", name: "svc", description: "", cmd, args, timeout: 300 }),
  },
  "amazon-q": {
    title: "Amazon Q Developer",
    user: "~/.aws/amazonq/mcp.json",
    project: "./.amazonq/mcp.json",
    section: ["mcpServers"],
    http: typed("http"),
    stdio: command,
  },
  kiro: {
    title: "Kiro",
    user: "~/.kiro/settings/mcp.json",
    project: "./.kiro/settings/mcp.json",
    section: ["mcpServers"],
    http: bare,
    stdio: command,
  },
  "lm-studio": {
    title: "LM Studio",
    user: "~/.lmstudio/mcp.json",
    section: ["mcpServers"],
    http: bare,
    stdio: command,
  },
  warp: {
    title: "Warp",
    user: "~/.warp/.mcp.json",
    project: "./.warp/.mcp.json",
    section: ["mcpServers"],
    http: bare,
    stdio: command,
  },
} as const satisfies Readonly<Record<string, ClientRow>>

/** The names of the clients. */
export const CLIENTS = Object.keys(ROWS) as readonly ClientName[]

/** Returns the path of a file of a row on this machine. */
function locate(place: string, { platform, home, cwd, env }: ClientHost): string {
  const { join } = platform === "win32" ? win32 : posix
  const [root = "", ...rest] = place.split("/")
  const xdg =
    env.XDG_CONFIG_HOME === undefined || env.XDG_CONFIG_HOME === "" ? join(home, ".config") : env.XDG_CONFIG_HOME
  switch (root) {
    case "~":
      return join(home, ...rest)
    case ".":
      return join(cwd, ...rest)
    case "config":
      return join(xdg, ...rest)
    default:
      if (platform === "darwin") return join(home, "Library", "Application Support", ...rest)
      return join(platform === "win32" ? (env.APPDATA ?? join(home, "AppData", "Roaming")) : xdg, ...rest)
  }
}
