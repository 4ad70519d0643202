/** The table of clients: files on each platform, entries as each client documents them, and round trips through each format. */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { editClientDocument, readClientDocument, valueIn } from "../../../src/features/connect/client-edit.ts"
import {
  CLIENTS,
  type ClientEndpoint,
  type ClientName,
  clientEntry,
  clientFiles,
  clientRow,
  entryPath,
} from "../../../src/features/connect/clients.ts"
import { readForeignServers } from "../../../src/features/connect/import.ts"

const URL = "http://127.0.0.1:3050/mcp"
const headers = { Authorization: "Bearer t" }
const HTTP: ClientEndpoint = { kind: "http", url: URL, headers }
const STDIO: ClientEndpoint = { kind: "stdio", command: "/bin/svc", args: ["proxy", "--start"] }

/** What each client documents: the user's file on Linux, the section, and the entry for an address and for a command. */
const DOCUMENTED: Record<ClientName, readonly [file: string, section: string, http: unknown, stdio: unknown]> = {
  "claude-code": [
    "/h/.claude.json",
    "mcpServers",
    { type: "http", url: URL, headers },
    { type: "stdio", command: "/bin/svc", args: ["proxy", "--start"] },
  ],
  "claude-desktop": [
    "/h/.config/Claude/claude_desktop_config.json",
    "mcpServers",
    undefined,
    { command: "/bin/svc", args: ["proxy", "--start"] },
  ],
  cursor: [
    "/h/.cursor/mcp.json",
    "mcpServers",
    { url: URL, headers },
    { command: "/bin/svc", args: ["proxy", "--start"] },
  ],
  vscode: [
    "/h/.config/Code/User/mcp.json",
    "servers",
    { type: "http", url: URL, headers },
    { type: "stdio", command: "/bin/svc", args: ["proxy", "--start"] },
  ],
  "vscode-insiders": [
    "/h/.config/Code - Insiders/User/mcp.json",
    "servers",
    { type: "http", url: URL, headers },
    { type: "stdio", command: "/bin/svc", args: ["proxy", "--start"] },
  ],
  codex: [
    "/h/.codex/config.toml",
    "mcp_servers",
    { url: URL, http_headers: headers },
    { command: "/bin/svc", args: ["proxy", "--start"] },
  ],
  windsurf: [
    "/h/.codeium/windsurf/mcp_config.json",
    "mcpServers",
    { serverUrl: URL, headers },
    { command: "/bin/svc", args: ["proxy", "--start"] },
  ],
  zed: [
    "/h/.config/zed/settings.json",
    "context_servers",
    { url: URL, headers },
    { source: "custom", command: "/bin/svc", args: ["proxy", "--start"], env: {} },
  ],
  gemini: [
    "/h/.gemini/settings.json",
    "mcpServers",
    { url: URL, type: "http", headers },
    { command: "/bin/svc", args: ["proxy", "--start"] },
  ],
  cline: [
    "/h/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
    "mcpServers",
    { type: "streamableHttp", url: URL, headers, disabled: false },
    { command: "/bin/svc", args: ["proxy", "--start"], disabled: false },
  ],
  roo: [
    "/h/.config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
    "mcpServers",
    { type: "streamable-http", url: URL, headers },
    { command: "/bin/svc", args: ["proxy", "--start"] },
  ],
  continue: [
    "/h/.continue/mcpServers/svc.json",
    "mcpServers",
    { type: "http", url: URL, headers },
    { command: "/bin/svc", args: ["proxy", "--start"] },
  ],
  opencode: [
    "/h/.config/opencode/opencode.json",
    "mcp",
    { type: "remote", url: URL, headers, enabled: true },
    { type: "local", command: ["/bin/svc", "proxy", "--start"], enabled: true },
  ],
  "copilot-cli": [
    "/h/.copilot/mcp-config.json",
    "mcpServers",
    { type: "http", url: URL, headers, tools: ["*"] },
    { type: "local", command: "/bin/svc", args: ["proxy", "--start"], tools: ["*"] },
  ],
  junie: ["/h/.junie/mcp/mcp.json", "mcpServers", undefined, { command: "/bin/svc", args: ["proxy", "--start"] }],
  goose: [
    "/h/.config/goose/config.yaml",
    "extensions",
    { enabled: true, type: "streamable_http", name: "svc", description: "", uri: URL, headers, timeout: 300 },
    {
      enabled: true,
      type: "stdio",
      name: "svc",
      description: "",
      cmd: "/bin/svc",
      args: ["proxy", "--start"],
      timeout: 300,
    },
  ],
  "amazon-q": [
    "/h/.aws/amazonq/mcp.json",
    "mcpServers",
    { type: "http", url: URL, headers },
    { command: "/bin/svc", args: ["proxy", "--start"] },
  ],
  kiro: [
    "/h/.kiro/settings/mcp.json",
    "mcpServers",
    { url: URL, headers },
    { command: "/bin/svc", args: ["proxy", "--start"] },
  ],
  "lm-studio": [
    "/h/.lmstudio/mcp.json",
    "mcpServers",
    { url: URL, headers },
    { command: "/bin/svc", args: ["proxy", "--start"] },
  ],
  warp: [
    "/h/.warp/.mcp.json",
    "mcpServers",
    { url: URL, headers },
    { command: "/bin/svc", args: ["proxy", "--start"] },
  ],
}

const linux = { platform: "linux", home: "/h", cwd: "/c", env: {} }

test.each(CLIENTS)("%s gets its entry in the documented form, at the documented place [connect:formats]", (client) => {
  const [file, section, http, stdio] = DOCUMENTED[client]
  expect(clientFiles(client, linux)[0]).toEqual({ file, scope: "user" })
  expect(entryPath(client, "svc")).toEqual([section, "svc"])
  expect(clientRow(client).http === undefined ? undefined : clientEntry(client, HTTP)).toEqual(http as never)
  expect(clientEntry(client, STDIO)).toEqual(stdio as never)
})

/** A file as a person keeps it, in the format of a client: comments, another server, other settings. */
function keptByHand(file: string, section: string): string {
  if (file.endsWith(".toml"))
    return `# mine\nmodel = "m" # inline\n\n[${section}.other] # other\ncommand = "x"\nargs = [ "1",\n  "2" ]\n\n# the last\n[tui]\nbell = true\n`
  if (file.endsWith(".yaml"))
    return `# mine\nMODEL: m\n${section}:\n  other:\n    type: stdio\n    cmd: x # inline\n    args: ["1"]\n\n# the last\nMODE: auto\n`
  return `{\n\t// mine\n\t"theme": "dark", // inline\n\t"${section}": {\n\t\t"other": { "command": "x", "args": ["1"] }, // kept\n\t},\n\t"last": [1, 2]\n}\n`
}

test.each(CLIENTS)(
  "an entry of %s is added, read back and removed with all other bytes in place [connect:formats]",
  (client) => {
    const [{ file }] = clientFiles(client, linux)
    const path = entryPath(client, "svc")
    const before = keptByHand(file, String(path[0]))
    for (const endpoint of clientRow(client).http === undefined ? [STDIO] : [HTTP, STDIO]) {
      const after = editClientDocument(before, file, [{ path, value: clientEntry(client, endpoint) }])
      for (const line of before.split("\n")) expect(after).toContain(line)
      const read = readForeignServers(after, file).find(({ name }) => name === "svc")
      expect(read?.problem).toBeUndefined()
      expect(read?.notes).toEqual([])
      expect(read?.server).toMatchObject(
        endpoint.kind === "http" ? { url: URL, headers } : { command: "/bin/svc", args: ["proxy", "--start"] },
      )
      expect(editClientDocument(after, file, [{ path, value: undefined }])).toBe(before)
    }
  },
)

test("files are where each platform keeps them, and where variables move them", () => {
  for (const platform of ["linux", "darwin", "win32"])
    for (const client of CLIENTS)
      for (const { file } of clientFiles(client, { ...linux, platform }))
        expect(platform === "win32" ? file.startsWith("\\") : file.startsWith("/")).toBe(true)
  const first = (client: ClientName, host: object) => clientFiles(client, { ...linux, ...host })[0].file
  const windows = { platform: "win32", home: "C:\\me", env: { APPDATA: "C:\\me\\AppData\\Roaming" } }
  expect(first("claude-desktop", windows)).toBe("C:\\me\\AppData\\Roaming\\Claude\\claude_desktop_config.json")
  expect(first("zed", windows)).toBe("C:\\me\\AppData\\Roaming\\Zed\\settings.json")
  expect(first("opencode", windows)).toBe("C:\\me\\.config\\opencode\\opencode.json")
  expect(first("vscode", { platform: "darwin" })).toBe("/h/Library/Application Support/Code/User/mcp.json")
  expect(first("codex", { env: { CODEX_HOME: "/x" } })).toBe("/x/config.toml")
  expect(first("claude-code", { env: { CLAUDE_CONFIG_DIR: "/x" } })).toBe("/x/.claude.json")
  expect(first("zed", { env: { XDG_CONFIG_HOME: "/x" } })).toBe("/x/zed/settings.json")
  expect(clientFiles("cursor", linux)[1]).toEqual({ file: "/c/.cursor/mcp.json", scope: "project" })
})

/** Written by the clients themselves, with `mcp add`. */
test.each([
  ["claude-code", "claude-code.json", ".claude.json", {}],
  ["codex", "codex.toml", "config.toml", {}],
  ["gemini", "gemini.json", "settings.json", { Authorization: "Bearer example" }],
] as const)("svc writes what %s itself writes [connect:formats]", (client, fixture, name, headers) => {
  const text = readFileSync(join(import.meta.dir, "..", "..", "fixtures", "clients", fixture), "utf8")
  const file = `/h/.${client}/${name}`
  const path = entryPath(client, "svc")
  const entry = clientEntry(client, { kind: "http", url: URL, headers })
  expect(valueIn(readClientDocument(text, file), path)).toEqual(entry)
  expect(editClientDocument(text, file, [{ path, value: entry }])).toBe(text)
  const without = editClientDocument(text, file, [{ path, value: undefined }])
  const again = editClientDocument(without, file, [{ path, value: entry }])
  expect(readClientDocument(again, file)).toEqual(readClientDocument(text, file))
  expect(readForeignServers(text, file).filter(({ project }) => project === undefined)).toMatchObject([
    { name: "svc", server: { url: URL } },
    { name: "files", server: { command: "npx", args: ["-y", "@modelcontextprotocol/server-filesystem", "/work"] } },
  ])
})
