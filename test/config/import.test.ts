import { expect, test } from "bun:test"
import { APPLICATIONS, filesOf, readForeign } from "../../src/config/import.ts"

const read = (value: unknown, file = "x.json") => readForeign(JSON.stringify(value), file, () => value, "/project")

test("each application's servers become entries of mcp.json", () => {
  expect(read({ mcpServers: { a: { command: "x", args: ["1"], env: { K: "v" }, autoApprove: [] } } })).toEqual([
    { name: "a", server: { command: "x", args: ["1"], env: { K: "v" } }, notes: [] },
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
      server: { command: "x", env: { T: "${TOKEN}", W: "${workspaceFolder}/x" } },
      notes: ["${workspaceFolder} means nothing here: put the value in"],
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
  expect(read({ nothing: 1 })).toEqual([])
})

test("each application has its place on each platform", () => {
  for (const platform of ["linux", "darwin", "win32"])
    for (const application of APPLICATIONS) {
      const files = filesOf(application, { platform, home: "/h", appData: "/a", cwd: "/c" })
      expect(files.length).toBeGreaterThan(0)
      expect(files.every((file) => (platform === "win32" ? file.includes("\\") : file.startsWith("/")))).toBe(true)
    }
})
