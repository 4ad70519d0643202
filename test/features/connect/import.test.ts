import { expect, test } from "bun:test"
import { isSameServer, isSvc, readForeignServers } from "../../../src/features/connect/import.ts"

const read = (value: unknown, file = "x.json") => readText(JSON.stringify(value), file)
const readText = (text: string, file: string) =>
  readForeignServers(text, file).map(({ path: _, project: __, ...server }) => server)

test("the servers of all projects of Claude Code are found, each with its project and place [import:scopes]", () => {
  const file = {
    mcpServers: { all: { command: "x" } },
    projects: {
      "/home/me/site": { mcpServers: { p: { command: "y" } } },
      "C:/Users/me/p": { mcpServers: { p: { command: "z" } } },
      "/empty": {},
    },
  }
  expect(readForeignServers(JSON.stringify(file), "/home/me/.claude.json")).toMatchObject([
    { name: "all", project: undefined, path: ["mcpServers", "all"] },
    { name: "p", project: "/home/me/site", path: ["projects", "/home/me/site", "mcpServers", "p"] },
    { name: "p", project: "C:/Users/me/p", server: { command: "z" } },
  ])
})

const WORLD = { parent: { KEY: "s3cret" }, platform: "linux", home: "/h", folder: "/h/.config/svc", dotenv: {} }

test.each([
  [{ command: "npx", args: ["-y", "a"] }, { command: "npx", args: ["-y", "a"], type: "stdio", tags: ["t"] }, true],
  [{ command: "npx", args: ["-y", "a"] }, { command: "npx", args: ["-y", "b"] }, false],
  [{ command: "x", env: { A: "s3cret" } }, { command: "x", env: { A: "${KEY}" }, restartOnExit: true }, true],
  [{ command: "x", env: { A: "other" } }, { command: "x", env: { A: "${KEY}" } }, false],
  [
    { url: "https://h/mcp", headers: { "X-Key": "s3cret" } },
    { url: "https://h/mcp", headers: { "x-key": "$KEY" } },
    true,
  ],
  [{ url: "https://h/mcp" }, { url: "https://h/other" }, false],
  [{ command: "x", env: { A: "${UNSET}" } }, { command: "x", env: { A: "${UNSET}" } }, false],
])("%j and %j are the same server: %p [import:same]", (one, other, same) => {
  expect(isSameServer(one, other, WORLD)).toBe(same)
})

test("each application's servers become entries of mcp.json", () => {
  expect(read({ mcpServers: { a: { command: "x", args: ["1"], env: { K: "v" }, autoApprove: [] } } })).toEqual([
    { name: "a", server: { command: "x", args: ["1"], env: { K: "v" } }, notes: [], problem: undefined },
  ])
  expect(
    read({
      projects: {
        "/project": { mcpServers: { p: { type: "http", url: "http://h" } } },
        "/other": { mcpServers: { q: {} } },
      },
    }),
  ).toMatchObject([
    { name: "p", server: { type: "http", url: "http://h" } },
    { name: "q", problem: "it has neither a command nor a url" },
  ])
  expect(read({ servers: { v: { command: "x", env: { T: "${env:TOKEN}", W: "${workspaceFolder}/x" } } } })).toEqual([
    {
      name: "v",
      server: { command: "x", env: { T: "${env:TOKEN}", W: "${workspaceFolder}/x" } },
      notes: [],
      problem: undefined,
    },
  ])
  expect(
    readText(
      '[mcp_servers.c]\nurl = "http://h"\nbearer_token_env_var = "TOK"\nenabled = false\n[mcp_servers.d]\ncommand = "x"\nenv.P = "a$b"\n',
      "config.toml",
    ),
  ).toMatchObject([
    { name: "c", server: { url: "http://h", headers: { Authorization: "Bearer ${TOK}" }, disabled: true } },
    { name: "d", server: { env: { P: "a$$b" } } },
  ])
  expect(read({ context_servers: { z: { command: { path: "/bin/z", args: ["s"], env: {} } } } })).toMatchObject([
    { name: "z", server: { command: "/bin/z", args: ["s"] } },
  ])
  expect(read({ mcpServers: { g: { httpUrl: "http://h/mcp" } } })).toMatchObject([{ server: { url: "http://h/mcp" } }])
  expect(read({ mcpServers: { h: { serverUrl: "http://h/mcp", command: "x" } } })).toMatchObject([
    { problem: "it has both a command and a url: remove one of them" },
  ])
  expect(read({ nothing: 1 })).toEqual([])
})

test("an entry that points to svc itself is recognized", () => {
  const own = (server: Record<string, unknown>) => isSvc(server, ["http://127.0.0.1:3050/"])
  for (const host of ["localhost.", "svc.localhost", "[::1]", "[::ffff:127.0.0.1]", "127.0.0.2"])
    expect(own({ url: `http://${host}:3050/mcp` })).toBe(true)
  expect(
    [
      { url: "http://localhost:3050/mcp?preset=work" },
      { url: "http://127.0.0.1:3050/sse" },
      { command: "svc", args: ["proxy", "--start"] },
      { command: "/home/me/.local/bin/svc", args: ["serve", "--transport", "stdio"] },
    ].map(own),
  ).toEqual([true, true, true, true])
  expect(
    [
      { url: "http://127.0.0.1:3051/mcp" },
      { url: "https://h:3050/mcp" },
      { command: "svc", args: ["demo-server"] },
    ].map(own),
  ).toEqual([false, false, false])
})

test("settings with other names are converted, and dropped settings are noted", () => {
  expect(
    readText(
      `[mcp_servers.c]
command = "x"
env_vars = ["TOKEN"]
startup_timeout_sec = 20
tool_timeout_sec = 1.5
disabled_tools = ["rm"]
enabled_tools = ["ls"]
[mcp_servers.c.env]
A = "1"
[mcp_servers.d]
url = "http://h"
http_headers = { X-A = "$1" }
env_http_headers = { X-B = "B_TOKEN" }
`,
      "config.toml",
    ),
  ).toEqual([
    {
      name: "c",
      server: {
        command: "x",
        env: { TOKEN: "${TOKEN}", A: "1" },
        disabledTools: ["rm"],
        connectionTimeout: 20_000,
        requestTimeout: 1500,
      },
      notes: ['enabled_tools is not imported; `svc preset create NAME --allow "c/ls"` limits the tools'],
      problem: undefined,
    },
    {
      name: "d",
      server: { url: "http://h", headers: { "X-A": "$$1", "X-B": "${B_TOKEN}" } },
      notes: [],
      problem: undefined,
    },
  ])
  expect(
    read({
      mcpServers: {
        g: { command: "x", timeout: 5, excludeTools: ["a"], trust: true },
        ours: { command: "x", tags: ["t"], restartOnExit: true },
      },
    }),
  ).toMatchObject([
    {
      server: { command: "x", disabledTools: ["a"] },
      notes: ["timeout is not imported", "trust is not imported: the client asks before it calls a tool"],
    },
    { server: { command: "x", tags: ["t"], restartOnExit: true }, notes: [] },
  ])
})

test("an entry that svc cannot run has a problem", () => {
  const problems = (mcpServers: unknown) => read({ mcpServers }).map(({ problem }) => problem)
  expect(problems({ a: { type: "ws", url: "wss://h" }, b: { command: 5 }, c: {}, "..": { command: "x" } })).toEqual([
    expect.stringContaining("type: "),
    expect.stringContaining("command: "),
    "it has neither a command nor a url",
    expect.stringContaining("must not be . or .."),
  ])
})

test("a dollar is a reference only if it was one in the application", () => {
  const env = (file: string) =>
    read({ mcpServers: { a: { command: "x", env: { K: "a$$b$c${D}" } } } }, file)[0]?.server.env
  expect(env("/h/.config/Claude/claude_desktop_config.json")).toEqual({ K: "a$$$$b$$c$${D}" })
  for (const file of ["/h/.claude.json", "/p/.mcp.json", "/p/.cursor/mcp.json", "/p/.vscode/mcp.json"])
    expect(env(file)).toEqual({ K: "a$$$$b$$c${D}" })
  for (const file of ["/h/.gemini/settings.json", "any.json"]) expect(env(file)).toEqual({ K: "a$$b$c${D}" })
})
