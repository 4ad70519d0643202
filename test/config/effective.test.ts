import { expect, test } from "bun:test"
import { parseDocument } from "../../src/config/document.ts"
import { effectiveOf } from "../../src/config/effective.ts"

const world = {
  parent: { HOST: "h.example", TOKEN: "hunter2" },
  dotenv: { LOCAL: "hunter2" },
  platform: "linux",
  home: "/h",
  folder: "/f",
}

const effective = (document: object, showSecrets = false) =>
  effectiveOf(parseDocument(JSON.stringify(document), "mcp.json"), "a", world, showSecrets) ?? []

/** Returns the written values, and their sources. */
function rows(document: object, showSecrets = false) {
  const written = effective(document, showSecrets).filter(
    ({ key, from }) => key === "type" || !from.includes("built-in"),
  )
  return Object.fromEntries(written.map(({ key, value, from }) => [key, [value, ...from]]))
}

test("each part of a merged value shows its source", () => {
  const serverDefaults = { env: { A: "1", B: "2" }, envFilter: ["X"], requestTimeout: 5, headers: { h: "v" } }
  const a = { command: "x", env: { B: "3" }, envFilter: ["Y"] }
  expect(rows({ serverDefaults, mcpServers: { a } })).toEqual({
    type: ["stdio", "built-in"],
    command: ["x", "server"],
    "env.A": ["1", "default"],
    "env.B": ["3", "server"],
    envFilter: [["X", "Y"], "default", "server"],
    requestTimeout: [5, "default"],
  })
})

test("values have their types, and built-in defaults are among them [cli:status:typed]", () => {
  const serverDefaults = { maxRestarts: 0, headers: { h: "v" } }
  const a = { command: "x", args: ["$HOST", "b"], env: { PORT: 8080, KEY: 7 }, restartOnExit: true, timeout: 500 }
  expect(effective({ serverDefaults, mcpServers: { a } })).toEqual([
    { key: "type", value: "stdio", from: ["built-in"] },
    { key: "env.PORT", value: 8080, from: ["server"] },
    { key: "env.KEY", value: "•••", from: ["server"] },
    { key: "timeout", value: 500, from: ["server"] },
    { key: "restartOnExit", value: true, from: ["server"] },
    { key: "command", value: "x", from: ["server"] },
    { key: "args", value: ["•••", "b"], from: ["server", "env"] },
    { key: "maxRestarts", value: 0, from: ["default"] },
    { key: "protocolVersion", value: "auto", from: ["built-in"] },
    { key: "connectionTimeout", value: 500, from: ["server"] },
    { key: "requestTimeout", value: 500, from: ["server"] },
    { key: "restartDelay", value: 1000, from: ["built-in"] },
    { key: "stderr", value: "pipe", from: ["built-in"] },
    { key: "isolation", value: "shared", from: ["built-in"] },
    { key: "toolPinning", value: "report", from: ["built-in"] },
  ])
})

test("a value without an effect on this kind of server is marked as ignored [cli:status:typed]", () => {
  const ignoredOf = (server: object) =>
    effective({ mcpServers: { a: server } }).flatMap(({ key, ignored }) => (ignored === true ? [key] : []))
  expect(ignoredOf({ url: "https://h", env: { A: "1" }, restartOnExit: true })).toEqual(["env.A", "restartOnExit"])
  expect(ignoredOf({ command: "x", headers: { h: "v" } })).toEqual(["headers.h"])
  expect(ignoredOf({ command: "x", timeout: 1, connectionTimeout: 2, requestTimeout: 3 })).toEqual(["timeout"])
})

test("the values of a template come from its section [cli:status:typed]", () => {
  const a = { type: "{{project.custom.type}}", command: "x", env: { B: "{{project.name}}" } }
  const document = {
    serverDefaults: { env: { A: "1", B: "2" } },
    mcpTemplates: { a },
    mcpServers: { a: { url: "https://h" } },
  }
  expect(rows(document)).toEqual({
    type: ["stdio", "template"],
    command: ["x", "template"],
    "env.A": ["1", "default"],
    "env.B": ["{{project.name}}", "template"],
  })
  expect(effective(document).some(({ ignored }) => ignored)).toBe(false)
})

test("a reference shows the source of its value, not the value", () => {
  const a = { command: "x", env: ["LOCAL", "V=$TOKEN", "LITERAL_KEY=hunter2", "MODE=on"] }
  expect(rows({ mcpServers: { a } })).toMatchObject({
    "env.LOCAL": ["•••", "server", ".env"],
    "env.V": ["•••", "server", "env"],
    "env.LITERAL_KEY": ["•••", "server"],
    "env.MODE": ["on", "server"],
  })
  expect(rows({ mcpServers: { a } }, true)).toMatchObject({ "env.LOCAL": ["hunter2", "server", ".env"] })
})

test("a secret is hidden in every place", () => {
  for (const a of [
    { url: "https://me:hunter2@h/mcp" },
    { url: "https://h/mcp?api_key=hunter2" },
    { url: "https://h/mcp", headers: { "x-any": "hunter2" } },
    { url: "https://h/mcp", headers: { authorization: "Bearer hunter2$HOST" } },
    { url: "https://h/mcp", oauth: { clientSecret: "hunter2" } },
    { url: "https://h/mcp", oauth: { assertion: "hunter2" } },
    { url: "https://h/mcp", oauth: { subjectToken: "hunter2", identityProviderClientSecret: "hunter2" } },
    { command: "x", args: ["--token", "hunter2"] },
    { command: "x", args: ["--api-key=hunter2"] },
    { command: "x", env: { API_KEY: "hunter2" } },
    { command: "x", env: ["API_KEY=hunter2"] },
    { command: "x", env: { DATABASE: "postgres://u:hunter2@h/db" } },
  ])
    expect(JSON.stringify(rows({ mcpServers: { a } }))).not.toContain("hunter2")
})

test("an oauth setting is no secret because its name looks like one", () => {
  const oauth = { tokenEndpointAuthMethod: "none", dpopBoundAccessTokens: true, subjectTokenFile: "file" }
  expect(rows({ mcpServers: { a: { url: "https://h/mcp", oauth } } })).toMatchObject({
    "oauth.tokenEndpointAuthMethod": ["none", "server"],
    "oauth.dpopBoundAccessTokens": [true, "server"],
    "oauth.subjectTokenFile": ["file", "server"],
  })
})

test("the description of a tool is no secret, even if its name looks like one", () => {
  const a = { command: "x", toolDescriptionOverrides: { get_token: "Gives one" } }
  expect(rows({ mcpServers: { a } })["toolDescriptionOverrides.get_token"]).toEqual(["Gives one", "server"])
})
