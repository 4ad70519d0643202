import { describe, expect, test } from "bun:test"
import { readPasted as read } from "../../../src/features/connect/pasted.ts"

const readPasted = (text: string) => read(text, (name) => name === "weatherd")

/** Returns the name and the settings of the only server in a text. */
function one(text: string) {
  const all = readPasted(text)
  expect(all).toHaveLength(1)
  const [{ name, server, problem } = { name: "", server: {}, problem: "none" }] = all
  expect(problem).toBeUndefined()
  return [name, server] as const
}

describe("readPasted", () => {
  test.each([
    [
      "npx -y @modelcontextprotocol/server-memory",
      "memory",
      { command: "npx", args: ["-y", "@modelcontextprotocol/server-memory"] },
    ],
    [
      "$ uvx mcp-server-git --repository '/a b'",
      "git",
      { command: "uvx", args: ["mcp-server-git", "--repository", "/a b"] },
    ],
    [
      "API_KEY=x npx -y some-mcp@1.2.0",
      "some",
      { command: "npx", args: ["-y", "some-mcp@1.2.0"], env: { API_KEY: "x" } },
    ],
    [
      "docker run -i --rm \\\n  mcp/time:latest",
      "time",
      { command: "docker", args: ["run", "-i", "--rm", "mcp/time:latest"] },
    ],
    ["https://mcp.linear.app/mcp", "linear", { url: "https://mcp.linear.app/mcp" }],
    ["@playwright/mcp@latest", "playwright", { command: "npx", args: ["-y", "@playwright/mcp@latest"] }],
    ["/opt/tools/weather --port 3", "weather", { command: "/opt/tools/weather", args: ["--port", "3"] }],
  ] as const)("reads the line %s", (text, name, server) => {
    expect(one(text)).toEqual([name, server])
  })

  test.each([
    [
      "claude mcp add notes -e KEY=v -- npx -y notes-mcp",
      "notes",
      { command: "npx", args: ["-y", "notes-mcp"], env: { KEY: "v" } },
    ],
    [
      "claude mcp add --transport http sentry https://mcp.sentry.dev/mcp",
      "sentry",
      { url: "https://mcp.sentry.dev/mcp" },
    ],
    [
      'claude mcp add -t http -H "Authorization: Bearer x:y" a https://a.example/mcp',
      "a",
      { url: "https://a.example/mcp", headers: { Authorization: "Bearer x:y" } },
    ],
    ["codex mcp add docs --url https://docs.example/mcp", "docs", { url: "https://docs.example/mcp" }],
    ["gemini mcp add fs npx -- -y fs-mcp /tmp", "fs", { command: "npx", args: ["-y", "fs-mcp", "/tmp"] }],
    [
      "codex mcp add docs --url https://docs.example/mcp --bearer-token-env-var DOCS_TOKEN",
      "docs",
      { url: "https://docs.example/mcp", headers: { Authorization: "Bearer ${DOCS_TOKEN}" } },
    ],
    [
      "gemini mcp add --trust --exclude-tools a,b fs npx fs-mcp",
      "fs",
      { command: "npx", args: ["fs-mcp"], disabledTools: ["a", "b"] },
    ],
    ['[{"name": "fs", "command": "npx"}]', "fs", { command: "npx" }],
    ["- name: fs\n  command: npx", "fs", { command: "npx" }],
    ["claude mcp add fs npx -y fs-mcp", "fs", { command: "npx", args: ["-y", "fs-mcp"] }],
    [
      `claude mcp add-json w '{"type":"http","url":"https://w.example/mcp"}'`,
      "w",
      { type: "http", url: "https://w.example/mcp" },
    ],
  ] as const)("reads the command of a client %s", (text, name, server) => {
    expect(one(text)).toEqual([name, server])
  })

  test("reads the JSON of clients, whole and in part", () => {
    const server = { command: "npx", args: ["-y", "gh"] }
    for (const text of [
      JSON.stringify({ mcpServers: { gh: server } }),
      JSON.stringify({ servers: { gh: { type: "stdio", ...server } } }),
      JSON.stringify({ gh: server }),
      `"gh": ${JSON.stringify(server)},`,
      JSON.stringify({ name: "gh", ...server }),
    ])
      expect(one(text)).toMatchObject(["gh", server])
    expect(one(JSON.stringify(server))).toEqual(["gh", server])
  })

  test("reads TOML and YAML", () => {
    expect(one('[mcp_servers.gh]\ncommand = "npx"\nargs = ["-y", "gh"]')).toEqual([
      "gh",
      { command: "npx", args: ["-y", "gh"] },
    ])
    expect(
      one("extensions:\n  gh:\n    type: stdio\n    enabled: true\n    cmd: npx\n    args: [-y, gh]"),
    ).toMatchObject(["gh", { command: "npx" }])
  })

  test("reads several servers, and says why one cannot run", () => {
    const all = readPasted('{"mcpServers": {"a": {"command": "x"}, "b": {"args": []}}}')
    expect(all.map(({ name, problem }) => [name, problem === undefined])).toEqual([
      ["a", true],
      ["b", false],
    ])
  })

  test.each([
    ["weatherd --port 3", { command: "weatherd", args: ["--port", "3"] }],
    ["weatherd", { command: "weatherd", args: [] }],
    ['```json\n{ "w": { "command": "weatherd" } }\n```', { command: "weatherd" }],
  ])("reads a program of this machine, and a text in a fence: %p", (text, server) => {
    expect(one(text)[1]).toEqual(server)
  })

  test.each([
    ["please add the server for my calendar", /this machine has no program named "please"; paste the JSON/],
    ["To begin, add this:", /no program named/],
    ["[1, 2]", /no program named/],
    ["github", /it is not clear what "github" is; if it is an npm package, paste `npx -y github`/],
    ["https://mcp.example.com/mcp and more", /more words after the address/],
  ])("says of %p what is wrong, instead of taking it for a server [admin:paste]", (text, why) => {
    expect(() => readPasted(text)).toThrow(why)
  })

  test.each(["", "{}", "'npx", '{"mcpServers": '])("refuses %p", (text) => {
    expect(() => readPasted(text)).toThrow()
  })
})
