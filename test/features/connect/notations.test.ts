/** What an import makes of the notations of clients: each row is a row of the table in docs/clients.md. */
import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import fc from "fast-check"
import { referencesIn } from "../../../src/config/substitution.ts"
import { placed, readForeignServers } from "../../../src/features/connect/import.ts"
import { mapStrings } from "../../../src/lib/json.ts"
import type { Params } from "../../../src/wire/message.ts"

type Row = {
  /** As the table writes it, and who writes it. */
  readonly notation: string
  readonly clients: string
  readonly file: string
  readonly text: string | object
  /** The entries of mcp.json, by name. */
  readonly servers: Readonly<Record<string, Params>>
  readonly notes?: readonly string[]
}

const x = { command: "x" }
const ROWS: readonly Row[] = [
  {
    notation: "`mcpServers: {NAME: …}`",
    clients:
      "Claude Code, Claude Desktop, Cursor, Windsurf, Cline, Roo Code, Kilo Code, Gemini CLI, Qwen Code, Copilot CLI, Junie, Amazon Q, Kiro, LM Studio, Warp, Trae, AnythingLLM, Witsy",
    file: "/h/.cursor/mcp.json",
    text: { mcpServers: { a: x } },
    servers: { a: x },
  },
  {
    notation: "`servers: {NAME: …}`",
    clients: "VS Code",
    file: "/h/.vscode/mcp.json",
    text: { servers: { a: { type: "stdio", ...x } } },
    servers: { a: { type: "stdio", ...x } },
  },
  {
    notation: "`mcp: {servers: {NAME: …}}`",
    clients: "VS Code settings, OpenCode 2, mcp-agent",
    file: "/h/.config/Code/User/settings.json",
    text: { "editor.tabSize": 2, mcp: { servers: { a: x } } },
    servers: { a: x },
  },
  {
    notation: "`mcp: {NAME: {type: local}}`",
    clients: "OpenCode, Crush",
    file: "/h/.config/opencode/opencode.json",
    text: { mcp: { a: { type: "local", command: ["x", "1"], environment: { K: "v" } } } },
    servers: { a: { type: "stdio", command: "x", args: ["1"], env: { K: "v" } } },
  },
  {
    notation: "`[mcp_servers.NAME]`",
    clients: "Codex",
    file: "/h/.codex/config.toml",
    text: '[mcp_servers.a]\ncommand = "x"\nenv_vars = ["A", { name = "B", source = "remote" }]\n',
    servers: { a: { ...x, env: { A: "${A}", B: "${B}" } } },
  },
  {
    notation: "`[mcp.servers.NAME]`",
    clients: "Codex forks",
    file: "/h/config.toml",
    text: '[mcp.servers.a]\ncommand = "x"\n',
    servers: { a: x },
  },
  {
    notation: "`context_servers`",
    clients: "Zed",
    file: "/h/.config/zed/settings.json",
    text: { context_servers: { a: { command: { path: "x", args: ["1"] } } } },
    servers: { a: { ...x, args: ["1"] } },
  },
  {
    notation: "`amp.mcpServers`",
    clients: "Amp",
    file: "/h/.config/amp/settings.json",
    text: { "amp.mcpServers": { a: x } },
    servers: { a: x },
  },
  {
    notation: "`mcpServers: [{name: …}]`",
    clients: "Continue, 5ire, Augment",
    file: "/h/.continue/config.yaml",
    text: "mcpServers:\n  - name: a\n    command: x\n  - name: b\n    type: sse\n    url: https://b.example/sse\n",
    servers: { a: x, b: { type: "sse", url: "https://b.example/sse" } },
  },
  {
    notation: "`modelContextProtocolServers: [{transport: …}]`",
    clients: "Continue",
    file: "/h/.continue/config.json",
    text: {
      experimental: { modelContextProtocolServers: [{ transport: { type: "stdio", command: "x", args: ["1"] } }] },
    },
    servers: { "server-1": { type: "stdio", ...x, args: ["1"] } },
  },
  {
    notation: "`extensions: {NAME: {cmd, envs, env_keys}}`",
    clients: "goose",
    file: "/h/.config/goose/config.yaml",
    text: "extensions:\n  a:\n    type: stdio\n    cmd: x\n    envs: {A: b}\n    env_keys: [TOKEN]\n    timeout: 3\n  dev: {type: builtin, enabled: true}\n",
    servers: { a: { type: "stdio", ...x, env: { A: "b", TOKEN: "${TOKEN}" }, requestTimeout: 3000 } },
  },
  {
    notation: "`${NAME}` in a goose or LibreChat file",
    clients: "goose, LibreChat",
    file: "/h/librechat.yaml",
    text: 'mcpServers:\n  a:\n    type: streamable-http\n    url: https://a.example/mcp\n    headers:\n      X-Key: "${KEY}"\n',
    servers: { a: { type: "streamable-http", url: "https://a.example/mcp", headers: { "X-Key": "${KEY}" } } },
  },
  {
    notation: "`{{LIBRECHAT_USER_ID}}`",
    clients: "LibreChat",
    file: "/h/librechat.yaml",
    text: 'mcpServers:\n  a:\n    url: https://a.example/mcp\n    headers: {X-User: "{{LIBRECHAT_USER_ID}}"}\n',
    servers: { a: { url: "https://a.example/mcp", headers: { "X-User": "{{LIBRECHAT_USER_ID}}" } } },
    notes: ["svc does not know {{LIBRECHAT_USER_ID}}: write the value in its place"],
  },
  {
    notation: "`{env:NAME}`",
    clients: "OpenCode",
    file: "/h/.config/opencode/opencode.jsonc",
    text: {
      mcp: { a: { type: "remote", url: "https://a.example/mcp", headers: { Authorization: "Bearer {env:KEY}" } } },
    },
    servers: { a: { type: "http", url: "https://a.example/mcp", headers: { Authorization: "Bearer ${KEY}" } } },
  },
  {
    notation: "`{file:PATH}`",
    clients: "OpenCode",
    file: "/h/.config/opencode/opencode.json",
    text: { mcp: { a: { type: "local", command: ["x"], environment: { K: "{file:./key}", L: "{file:~/key}" } } } },
    servers: {
      a: { type: "stdio", command: "x", args: [], env: { K: "{file:./key}", L: "{file:~/key}" } },
    },
    notes: [
      "svc reads no file for an imported server: if it should read {file:./key}, write ${file:PATH} in its place",
      "svc reads no file for an imported server: if it should read {file:~/key}, write ${file:PATH} in its place",
    ],
  },
  {
    notation: "`${{ secrets.NAME }}`",
    clients: "Continue",
    file: "/h/.continue/config.yaml",
    text: 'mcpServers:\n  - name: a\n    command: x\n    env: {K: "${{ secrets.KEY }}"}\n',
    servers: { a: { ...x, env: { K: "${KEY}" } } },
  },
  {
    notation: "`${env:NAME}`",
    clients: "VS Code, Cursor",
    file: "/h/.cursor/mcp.json",
    text: { mcpServers: { a: { ...x, env: { K: "${env:KEY}" } } } },
    servers: { a: { ...x, env: { K: "${env:KEY}" } } },
  },
  {
    notation: "`${file:…}`, `${keychain:…}`, `${cmd:…}`",
    clients: "any",
    file: "/p/.mcp.json",
    text: { mcpServers: { a: { ...x, args: ["${file:/etc/passwd}", "$${cmd:id}", "$$${cmd:id}"] } } },
    servers: { a: { ...x, args: ["$${file:/etc/passwd}", "$$$${cmd:id}", "$$$$$${cmd:id}"] } },
    notes: [
      "svc does not read files, the keychain or commands for an imported server; to add such a reference, use `svc mcp edit`",
    ],
  },
  {
    notation: "`enabled`, `enable`, `isActive`, `active`: `false`; `disable`: `true`",
    clients: "OpenCode, Cherry Studio, and others",
    file: "/h/x.json",
    text: {
      mcpServers: {
        a: { ...x, isActive: false },
        b: { ...x, active: false },
        c: { ...x, enabled: false },
        d: { ...x, isActive: true },
        e: { ...x, enabled: "false" },
        f: { ...x, enable: false },
        g: { ...x, disable: true },
        h: { ...x, disable: false, isDisabled: "no" },
        i: { ...x, autoStart: false },
      },
    },
    servers: {
      a: { ...x, disabled: true },
      b: { ...x, disabled: true },
      c: { ...x, disabled: true },
      d: x,
      e: { ...x, disabled: true },
      f: { ...x, disabled: true },
      g: { ...x, disabled: true },
      h: x,
      i: x,
    },
    notes: ["autoStart is not imported"],
  },
  {
    notation: "`[{name: …}]` without a section",
    clients: "guides",
    file: "/h/x.json",
    text: '[{"name": "a", "command": "x"}]',
    servers: { a: x },
  },
  {
    notation: "`mcp: {allowed, excluded}`",
    clients: "Gemini CLI",
    file: "/h/.gemini/settings.json",
    text: { mcpServers: { a: x, b: x, c: x }, mcp: { allowed: ["a", "b"], excluded: ["b"] } },
    servers: { a: x, b: { ...x, disabled: true }, c: { ...x, disabled: true } },
  },
  {
    notation: "`projects: {FOLDER: {disabledMcpServers}}`",
    clients: "Claude Code",
    file: "/h/.claude.json",
    text: { projects: { "/p": { mcpServers: { a: x, b: x }, disabledMcpServers: ["b"] } } },
    servers: { a: x, b: { ...x, disabled: true } },
  },
  {
    notation: "`transport: sse` beside a `url`",
    clients: "guides",
    file: "/h/x.json",
    text: {
      mcpServers: {
        a: { url: "https://a.example/sse", transport: "sse" },
        b: { url: "https://b.example/mcp", transport: "ws" },
      },
    },
    servers: { a: { type: "sse", url: "https://a.example/sse" }, b: { url: "https://b.example/mcp" } },
    notes: ["svc does not know the transport ws"],
  },
  {
    notation: "`settings: {mcp: {servers}}`, `customizations: {vscode: {mcp: {servers}}}`",
    clients: "VS Code workspaces and dev containers",
    file: "/p/x.code-workspace",
    text: { settings: { mcp: { servers: { a: x } } }, customizations: { vscode: { mcp: { servers: { b: x } } } } },
    servers: { a: x, b: x },
  },
  {
    notation: "`tools`, `available_tools`, `enabled_tools`, `includeTools`",
    clients: "Copilot CLI, goose, Codex, Gemini CLI",
    file: "/h/x.json",
    text: {
      mcpServers: {
        a: { ...x, includeTools: ["r", "w"] },
        b: { ...x, tools: ["*"] },
        c: { ...x, enabled_tools: [] },
        d: { ...x, tools: { t: { approval_mode: "approve" } } },
      },
    },
    servers: { a: x, b: x, c: x, d: x },
    notes: [
      'includeTools is not imported; `svc preset create NAME --allow "a/r,a/w"` limits the tools',
      "enabled_tools allows no tool; svc offers them all until `svc mcp disable c`",
      "tools is not imported",
    ],
  },
  {
    notation: "`oauth: {scope, redirectUri, callbackPort}`",
    clients: "Claude Code, Gemini CLI, OpenCode",
    file: "/h/x.json",
    text: {
      mcpServers: {
        a: { url: "https://a.example/mcp", oauth: { clientId: "c", callbackPort: 3118, scope: "r w", enabled: true } },
        b: { url: "https://b.example/mcp", oauth: false },
      },
    },
    servers: {
      a: { url: "https://a.example/mcp", oauth: { scopes: ["r", "w"], clientId: "c" } },
      b: { url: "https://b.example/mcp" },
    },
    notes: ["oauth.callbackPort is not imported"],
  },
  {
    notation: '`"command": ""` beside a `url`',
    clients: "generators",
    file: "/h/x.json",
    text: { mcpServers: { a: { command: "", url: "https://a.example/mcp" } } },
    servers: { a: { url: "https://a.example/mcp" } },
  },
  {
    notation: '`"env": {"NAME": null}`',
    clients: "generators",
    file: "/h/x.json",
    text: { mcpServers: { a: { ...x, env: { A: "1", B: null } } } },
    servers: { a: { ...x, env: { A: "1" } } },
    notes: ["env.B has no value: set it"],
  },
  {
    notation: "`{NAME: {command: …}}` without a section",
    clients: "Claude Code plugins, guides",
    file: "/p/.mcp.json",
    text: { a: x, more: { no: "server" } },
    servers: { a: x },
  },
]

const read = ({ text, file }: Row) => readForeignServers(typeof text === "string" ? text : JSON.stringify(text), file)

describe("notations of clients", () => {
  test.each(ROWS)("$notation of $clients [import:notations]", (row) => {
    const found = read(row)
    expect(Object.fromEntries(found.map(({ name, server }) => [name, server]))).toEqual(row.servers)
    expect(found.flatMap(({ notes }) => notes)).toEqual([...(row.notes ?? [])])
    expect(found.flatMap(({ problem }) => problem ?? [])).toEqual([])
  })

  test("the documentation has each, and no other", () => {
    const page = readFileSync(join(import.meta.dir, "..", "..", "..", "docs", "clients.md"), "utf8")
    const [, table = ""] = page.split("| notation | written by | becomes |\n|---|---|---|\n")
    const [lines = ""] = table.split("\n\n")
    const written = lines.split("\n").map((line) => line.split(" | ").slice(0, 2).join(" | "))
    expect(written.toSorted()).toEqual(ROWS.map(({ notation, clients }) => `| ${notation} | ${clients}`).toSorted())
  })

  // svc itself would read a file, ask the keychain or run a command for such a reference.
  test("no text of another program becomes a reference to more than a variable [import:foreign-references]", () => {
    const piece = fc.constantFrom(
      ...[
        "$",
        "$$",
        "${",
        "}",
        "{",
        "{env:",
        "{file:",
        "${{ secrets.",
        " }}",
        "file:",
        "cmd:",
        "keychain:",
        "command:",
      ],
      ...[
        "{env:cmd:id}",
        "{file:/etc/passwd}",
        "{env:file:~/.ssh/id}",
        "${cmd:id}",
        "${A:-",
        "A",
        "/k",
        " ",
        "${input:x}",
      ],
    )
    const text = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(""))
    const server = fc.record(
      {
        command: text,
        cmd: text,
        args: fc.array(text, { maxLength: 2 }),
        cwd: text,
        env: fc.dictionary(text, text, { maxKeys: 2 }),
        envs: fc.dictionary(text, text, { maxKeys: 2 }),
        env_keys: fc.array(text, { maxLength: 2 }),
        env_vars: fc.array(fc.oneof(text, fc.record({ name: text })), { maxLength: 2 }),
        url: text,
        headers: fc.dictionary(text, text, { maxKeys: 2 }),
        http_headers: fc.dictionary(text, text, { maxKeys: 2 }),
        env_http_headers: fc.dictionary(text, text, { maxKeys: 2 }),
        bearer_token_env_var: text,
        oauth: fc.record({ clientId: text, clientSecret: text, scope: text }),
      },
      { requiredKeys: [] },
    )
    const files = fc.constantFrom("/p/.mcp.json", "/h/.config/goose/config.yaml", "/h/.codex/config.json", "/h/x.json")
    fc.assert(
      fc.property(server, files, (entry, file) => {
        for (const one of readForeignServers(JSON.stringify({ mcpServers: { a: entry } }), file))
          mapStrings(one.server, (value) => {
            expect(referencesIn(value).filter((name) => /^(?:file|cmd|keychain):/.test(name))).toEqual([])
            return value
          })
      }),
      { numRuns: 3000 },
    )
  })

  test.each([
    [
      { command: "node", args: ["./src/x.mjs"] },
      { command: "node", args: ["./src/x.mjs"], cwd: "/p" },
    ],
    [
      { command: "node", args: ["src/x.mjs"] },
      { command: "node", args: ["src/x.mjs"], cwd: "/p" },
    ],
    [{ command: "./run.sh" }, { command: "./run.sh", cwd: "/p" }],
    [
      { command: "x", cwd: "." },
      { command: "x", cwd: "/p" },
    ],
    [
      { command: "x", cwd: "sub" },
      { command: "x", cwd: "/p/sub" },
    ],
    [
      { command: "x", cwd: "/abs", args: ["./a"] },
      { command: "x", cwd: "/abs", args: ["./a"] },
    ],
    [
      { command: "npx", args: ["-y", "@scope/pkg"] },
      { command: "npx", args: ["-y", "@scope/pkg"] },
    ],
    [
      { command: "x", args: ["${workspaceFolder}/a"] },
      { command: "x", args: ["/p/a"] },
    ],
    [{ url: "https://h/mcp" }, { url: "https://h/mcp" }],
  ])("paths of a project's server are those of its folder: %j [import:project-paths]", (written, server) => {
    expect(placed(written, "/p", (file) => file === "/p/src/x.mjs")).toEqual({ server, isTemplate: false })
  })

  test("without a project, ${workspaceFolder} makes a template [import:workspace]", () => {
    expect(placed({ command: "x", args: ["--root=${workspaceFolder}"] }, undefined, () => false)).toMatchObject({
      server: { command: "x", args: ["--root={{project.path}}"] },
      isTemplate: true,
    })
    expect(placed({ command: "x" }, undefined, () => false)).toEqual({ server: { command: "x" }, isTemplate: false })
  })
})
