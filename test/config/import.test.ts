import { expect, test } from "bun:test"
import { APPLICATIONS, filesOf, isSvc, readForeignServers } from "../../src/config/import.ts"

const read = (value: unknown, file = "x.json") =>
  readForeignServers(JSON.stringify(value), file, () => value, "/project")

test("a project of Claude Code is found on Windows, where its path is written with slashes", () => {
  const file = { projects: { "C:/Users/me/p": { mcpServers: { p: { command: "x" } } } } }
  expect(readForeignServers(JSON.stringify(file), "x.json", () => file, "C:\\Users\\me\\p")).toMatchObject([
    { name: "p" },
  ])
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
  ).toMatchObject([{ name: "p", server: { type: "http", url: "http://h" } }])
  expect(read({ servers: { v: { command: "x", env: { T: "${env:TOKEN}", W: "${workspaceFolder}/x" } } } })).toEqual([
    {
      name: "v",
      server: { command: "x", env: { T: "${env:TOKEN}", W: "${workspaceFolder}/x" } },
      notes: ["svc does not know ${workspaceFolder}: write the value in its place"],
      problem: undefined,
    },
  ])
  expect(
    read(
      {
        mcp_servers: {
          c: { url: "http://h", bearer_token_env_var: "TOK", enabled: false },
          d: { command: "x", env: { P: "a$b" } },
        },
      },
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
  const own = (server: Record<string, unknown>) => isSvc(server, "http://127.0.0.1:3050/")
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
    read(
      {
        mcp_servers: {
          c: {
            command: "x",
            env: { A: "1" },
            env_vars: ["TOKEN"],
            startup_timeout_sec: 20,
            tool_timeout_sec: 1.5,
            disabled_tools: ["rm"],
            enabled_tools: ["ls"],
          },
          d: { url: "http://h", http_headers: { "X-A": "$1" }, env_http_headers: { "X-B": "B_TOKEN" } },
        },
      },
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
      notes: ["enabled_tools is not imported"],
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
    { server: { command: "x", disabledTools: ["a"] }, notes: ["timeout is not imported"] },
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

test("each application has a file on each platform", () => {
  for (const platform of ["linux", "darwin", "win32"])
    for (const application of APPLICATIONS) {
      const files = filesOf(application, { platform, home: "/h", appData: "/a", cwd: "/c" })
      expect(files.length).toBeGreaterThan(0)
      expect(files.every(({ file }) => (platform === "win32" ? file.includes("\\") : file.startsWith("/")))).toBe(true)
    }
})
