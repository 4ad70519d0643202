/** `svc doctor`: one finding for each broken home directory, none for a healthy one, and repairs that lose nothing. */
import { expect, test } from "bun:test"
import { chmodSync, existsSync, mkdirSync, statSync, utimesSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import type * as z from "zod"
import { freePort, freshFolder } from "../e2e/harness.ts"
import { JSON_SHAPES } from "../json-shapes.ts"
import { runCommand } from "../run-command.ts"

const echo = { command: process.execPath, args: [join(import.meta.dir, "../fixtures/echo.ts")] }

type Home = {
  readonly servers?: Record<string, unknown>
  /** The text of mcp.json in place of the servers. */
  readonly text?: string
  /** Further files below the home, with their modes. */
  readonly files?: Readonly<Record<string, readonly [text: string, mode: number]>>
  readonly env?: Readonly<Record<string, string>>
}

const at = (home: string, name: string) => join(home, ".config", "svc", name)

function build({ servers = { echo }, text, files = {} }: Home): string {
  const home = freshFolder()
  mkdirSync(at(home, ""), { recursive: true, mode: 0o700 })
  writeFileSync(at(home, "mcp.json"), text ?? JSON.stringify({ mcpServers: servers }), { mode: 0o600 })
  for (const [name, [content, mode]] of Object.entries(files)) {
    mkdirSync(dirname(join(home, name)), { recursive: true, mode: 0o700 })
    writeFileSync(join(home, name), content)
    chmodSync(join(home, name), mode)
  }
  return home
}

type Found = z.infer<typeof JSON_SHAPES.finding>

async function doctor(home: string, env: Readonly<Record<string, string>> = {}, ...flags: string[]) {
  const port = String(await freePort())
  const { code, stdout } = await runCommand(["doctor", "--json", ...flags], { home, env: { SVC_PORT: port, ...env } })
  return { code, findings: JSON_SHAPES.finding.array().parse(JSON.parse(stdout).findings) }
}

/** The only finding of a home: its check, severity and text. */
async function only(home: Home): Promise<Found> {
  const { code, findings } = await doctor(build(home), home.env)
  expect(findings.map(({ check, what }) => `${check}: ${what}`)).toHaveLength(1)
  const [found] = findings as [Found]
  expect(code).toBe(found.severity === "error" ? 2 : 1)
  expect(found.why).not.toBe("")
  expect(found.fix).not.toBe("")
  return found
}

test("a healthy home has no findings, with and without a configuration [doctor:findings]", async () => {
  expect(await doctor(build({}))).toEqual({ code: 0, findings: [] })
  expect(await doctor(freshFolder())).toEqual({ code: 0, findings: [] })
  const { stdout } = await runCommand(["doctor"], { home: build({}), env: { SVC_PORT: String(await freePort()) } })
  expect(stdout).toMatch(/^no problems found \(\d+ checks\)\n$/)
})

const remote = (server: { readonly port?: number | undefined }, more: object = {}) => ({
  servers: { far: { url: `http://127.0.0.1:${server.port}/mcp`, ...more } },
})
const answering = (answer: (request: Request) => Response) =>
  Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: answer })

test.each<[name: string, home: Home, check: string, what: string | RegExp, fix: string | RegExp]>([
  ["no JSON", { text: '{ "mcpServers": { "a" {} } }' }, "configuration", /expected a colon/, /mcp\.json:1/],
  [
    "a time with a unit",
    { servers: { a: { ...echo, timeout: "5 minutes" } } },
    "configuration",
    /a is not loaded: .*300000/,
    /config check/,
  ],
  [
    "an unknown key",
    { servers: { a: { ...echo, comand: 1 } } },
    "configuration",
    /did you mean "command"/,
    /mcp\.json/,
  ],
  [
    "a variable that is not set",
    { servers: { a: { ...echo, env: { KEY: "$SVC_DOCTOR_KEY" } } } },
    "variables",
    /SVC_DOCTOR_KEY, which is not set/,
    /^add SVC_DOCTOR_KEY=… to .*\.env$/,
  ],
  [
    "a command that a known program provides",
    { servers: { a: { command: "uvx", args: ["x"] } }, env: { PATH: "/nowhere" } },
    "commands",
    /command not found: uvx/,
    "install uv, which provides it",
  ],
  [
    "a command with its arguments",
    { servers: { a: { command: "npx -y x" } } },
    "commands",
    /put its arguments into "args"/,
    /mcp\.json/,
  ],
  ["a folder that is gone", { servers: { a: { ...echo, cwd: "/no/such" } } }, "commands", /\/no\/such/, /create it/],
  [
    "a file of tokens that others can read",
    { files: { ".config/svc/tokens.json": ["{}", 0o644] } },
    "permissions",
    /tokens\.json can be read by others \(mode 644\)/,
    /^chmod 600 .*tokens\.json$/,
  ],
  [
    "a .env that others can read, with a secret",
    {
      servers: { a: { ...echo, env: { API_TOKEN: "$API_TOKEN" } } },
      files: { ".config/svc/.env": ["API_TOKEN=Canary-0123456789\n", 0o644] },
    },
    "permissions",
    /\.env can be read by others/,
    /^chmod 600/,
  ],
  [
    "a description that models refuse",
    { servers: { a: { ...echo, toolDescriptionOverrides: { echo: "x".repeat(3000) } } } },
    "limits",
    /echo/,
    /mcp tools describe a TOOL TEXT/,
  ],
  [
    "a server that a client starts, too",
    {
      servers: { a: echo },
      files: { ".cursor/mcp.json": [JSON.stringify({ mcpServers: { b: echo } }), 0o600] },
    },
    "clients",
    "Cursor also starts b",
    "svc connect cursor --replace",
  ],
  [
    "a .svcrc with an unknown preset",
    { servers: { a: echo }, files: { ".svcrc": ['{ "preset": "none" }', 0o600] } },
    "project",
    /\.svcrc:1:3: no preset is named none; there are none yet/,
    /correct .*\.svcrc/,
  ],
  [
    "an svc that was killed",
    { files: { ".config/svc/control.json": [JSON.stringify({ pid: 2 ** 30, token: "t", socket: "/no/s" }), 0o600] } },
    "leftovers",
    /files of a killed svc: .*control\.json/,
    "svc doctor --fix",
  ],
  [
    "a running svc that is listed and has ended",
    {
      files: {
        ".config/svc/running/x.json": [
          JSON.stringify({ pid: 2 ** 30, directory: "/x", file: "/x/mcp.json", startedAt: "2026-01-01T00:00:00Z" }),
          0o600,
        ],
      },
    },
    "leftovers",
    "an ended svc process is still listed as running",
    "svc doctor --fix",
  ],
])("%s is found [doctor:findings]", async (_, home, check, what, fix) => {
  const found = await only(home)
  expect(found.check).toBe(check)
  expect(found.what).toMatch(what)
  expect(found.fix).toMatch(fix)
  expect(JSON.stringify(found)).not.toContain("Canary")
})

test("a file that others can read is found if it contains a secret, but not if it only refers to one [doctor:findings]", async () => {
  const KEY = "Canary-0123456789"
  const files = (API_KEY: string, Authorization: string) => {
    const mcpServers = {
      a: { ...echo, env: { API_KEY } },
      b: { url: "http://127.0.0.1:9/mcp", disabled: true, headers: { Authorization } },
    }
    return { ".config/svc/mcp.json": [JSON.stringify({ mcpServers }), 0o644] } as const
  }
  const references = build({ files: files("${KEY}", "Bearer ${KEY}") })
  expect(await doctor(references, { KEY })).toEqual({ code: 0, findings: [] })
  for (const literal of [files(KEY, "Bearer ${KEY}"), files("${KEY}", `Bearer ${KEY}`)]) {
    const { check, what } = await only({ files: literal, env: { KEY } })
    expect([check, what]).toEqual(["permissions", expect.stringMatching(/mcp\.json can be read by others/)])
  }
})

test("keys of notifications and registries are found in a file that others can read, and in arguments [doctor:findings]", async () => {
  const found = async (part: object) => {
    const text = JSON.stringify({ mcpServers: { echo }, ...part })
    const { findings } = await doctor(build({ files: { ".config/svc/mcp.json": [text, 0o644] } }), { KEY: "k" })
    return findings.map(({ check, what }) => `${check}: ${what.replace(/^\S*mcp\.json/, "mcp.json")}`)
  }
  const readable = "permissions: mcp.json can be read by others (mode 644)"
  const hook = "https://hooks.slack.com/services/"
  expect(await found({ notify: [{ url: `${hook}T01ABCDEF/B01ABCDEF/a1B2c3D4e5F6g7H8` }] })).toEqual([readable])
  expect(await found({ registries: [{ name: "a", url: "http://127.0.0.1:9/?k=sk-canary0123456" }] })).toContain(
    readable,
  )
  expect(await found({ notify: [{ url: `${hook}\${KEY}` }, { command: "true", args: ["--key", "x"] }] })).toEqual([])
  expect(await found({ notify: [{ command: "true", args: ["${API_KEY:-x}", "Canary", "${HOME}"] }] })).toEqual([
    "arguments: notify[0]: args[0] contains a secret",
  ])
  expect(await found({ notify: [{ command: "true", args: ["--token", "Canary-0123456789"] }] })).toEqual([
    "arguments: notify[0]: args[1] contains a secret",
    readable,
  ])
})

test("a client whose entry of svc leads nowhere, secrets that nothing uses, and a file as the folder are found [doctor:findings]", async () => {
  const url = `http://127.0.0.1:${await freePort()}/mcp`
  const entry = JSON.stringify({ mcpServers: { svc: { type: "http", url } } })
  const dead = await only({ files: { ".claude.json": [entry, 0o600] } })
  expect([dead.check, dead.what]).toEqual(["clients", `Claude Code expects svc at ${url}, where nothing listens`])
  const moved = JSON.stringify({ mcpServers: { mine: { command: "/opt/old/svc", args: ["proxy", "--start"] } } })
  const gone = await only({ files: { ".cursor/mcp.json": [moved, 0o600] } })
  expect([gone.what, gone.fix]).toEqual([
    "Cursor starts svc as /opt/old/svc, which does not exist",
    "svc connect cursor",
  ])
  const asks = (...args: readonly string[]) => ({
    files: {
      ".cursor/mcp.json": [JSON.stringify({ mcpServers: { svc: { command: "svc", args } } }), 0o600],
      ".config/svc/presets.json": [JSON.stringify({ presets: { dev: { servers: ["*"] } } }), 0o600],
    } as const,
  })
  const lost = await only(asks("proxy", "--start", "--preset", "dev,old"))
  expect(lost.what).toBe("Cursor asks svc for the preset old, which does not exist")
  for (const args of [
    ["proxy", "--preset", "dev"],
    ["proxy", "--preset", "old", "--config-dir", "/elsewhere"],
  ])
    expect(await doctor(build(asks(...args)))).toEqual({ code: 0, findings: [] })
  const idle = await only({ files: { ".config/svc/.env": ["API_KEY=Canary-0123456789\n", 0o644] } })
  expect([idle.check, idle.what]).toEqual(["permissions", expect.stringMatching(/\.env can be read by others/)])
  const preset = await only({ files: { ".claude.json": [entry, 0o600], ".config/svc/presets.json": ["{}", 0o644] } })
  expect(preset.check).toBe("clients")
  const home = build({})
  const { code, stdout } = await runCommand(["doctor", "--config-dir", at(home, "mcp.json")], { home })
  expect(code).toBe(2)
  expect(stdout).toContain("mcp.json is a file; svc needs a folder there")
})

test("remote servers that cannot be used are found, each with its cause [doctor:findings]", async () => {
  const page = () => new Response("<html>Hello</html>", { headers: { "content-type": "text/html" } })
  const oauth = (request: Request) => {
    const { origin, pathname } = new URL(request.url)
    return pathname.startsWith("/.well-known/oauth-protected-resource")
      ? Response.json({ resource: `${origin}/mcp`, authorization_servers: [origin] })
      : new Response("", { status: 401 })
  }
  const cases: readonly (readonly [
    answer: ((request: Request) => Response) | undefined,
    what: RegExp,
    fix: RegExp,
    more?: object,
  ])[] = [
    [undefined, /^far: nothing listens at 127\.0\.0\.1:\d+$/, /url/],
    [() => new Response("no", { status: 404 }), /^far: answered 404$/, /most end in "mcp" or "sse"/],
    [() => new Response("no", { status: 403 }), /^far: answered 403$/, /headers\.Authorization/],
    [page, /^far: answered with a web page/, /end in "mcp"/],
    [
      () => new Response("", { status: 401 }),
      /^far: requires a token in a header \(401\), and offers no sign-in$/,
      /mcp edit far -H/,
    ],
    [oauth, /^far: sign-in needed$/, /^svc auth login far$/],
    [
      () => new Response("", { status: 401 }),
      /^far: refused the credentials in headers \(401\)$/,
      /mcp edit far -H/,
      { headers: { Authorization: "Bearer Canary-0123456789" } },
    ],
    [() => new Response("", { status: 502 }), /^far: answered 502$/, /log/],
  ]
  for (const [answer, what, fix, more] of cases) {
    const server = answer === undefined ? { port: await freePort(), stop() {} } : answering(answer)
    const found = await only(remote(server, more))
    await server.stop()
    expect([found.check, found.what]).toEqual(["remotes", expect.stringMatching(what)])
    expect(found.fix).toMatch(fix)
  }
})

test("a remote server of either era is no finding [doctor:findings]", async () => {
  const answers = [
    () => Response.json({ jsonrpc: "2.0", id: 1, result: {} }),
    () => Response.json({ jsonrpc: "2.0", id: 1, error: { code: -32601, message: "no" } }),
    () => Response.json({ jsonrpc: "2.0", id: null, error: { code: -32000, message: "no" } }, { status: 400 }),
  ]
  for (const answer of answers) {
    await using server = answering(answer)
    expect(await doctor(build(remote(server)))).toEqual({ code: 0, findings: [] })
  }
})

test("a port in use and an old Node.js are found [doctor:findings]", async () => {
  await using other = answering(() => new Response("hello"))
  const used = await doctor(build({}), { SVC_PORT: String(other.port) })
  expect([used.code, used.findings[0]?.what]).toEqual([
    1,
    expect.stringContaining(`port ${other.port} on 127.0.0.1 is in use`),
  ])
  const home = build({ servers: { a: { command: "node", args: ["x.js"] } } })
  const bin = join(home, "bin")
  mkdirSync(bin)
  writeFileSync(join(bin, "node"), "#!/bin/sh\necho v14.21.3\n", { mode: 0o755 })
  const old = await doctor(home, { PATH: `${bin}:/usr/bin:/bin` })
  expect(old.findings).toMatchObject([{ check: "node", severity: "warning", what: `${bin}/node is Node.js v14.21.3` }])
})

test("--fix makes repairs that lose nothing, shows each, and asks on a terminal [doctor:fix]", async () => {
  const home = build({
    text: '{ "mcpServers": { "a": { "command": "uvx" } } }',
    files: {
      ".config/svc/tokens.json": ["{}", 0o644],
      ".config/svc/control.json": [JSON.stringify({ pid: 2 ** 30, token: "t" }), 0o600],
      ".config/svc/.mcp.json.0123456789ab.tmp": ["{}", 0o600],
    },
  })
  const old = new Date(Date.now() - 3 * 86_400_000)
  utimesSync(at(home, ".mcp.json.0123456789ab.tmp"), old, old)
  const world = { home, env: { PATH: "/nowhere", SVC_PORT: String(await freePort()) } }
  const unasked = await runCommand(["doctor", "--fix"], world)
  expect([unasked.code, unasked.stderr]).toEqual([64, expect.stringContaining("--yes")])
  expect(existsSync(at(home, "control.json"))).toBe(true)
  const { code, stdout, stderr } = await runCommand(["doctor", "--fix", "--yes"], world)
  expect(stderr.match(/^fixed: /gm)).toHaveLength(3)
  expect(statSync(at(home, "tokens.json")).mode & 0o777).toBe(0o600)
  expect(existsSync(at(home, "control.json"))).toBe(false)
  expect(existsSync(at(home, ".mcp.json.0123456789ab.tmp"))).toBe(false)
  // The missing command remains: svc cannot install it.
  expect([code, stdout]).toEqual([2, expect.stringMatching(/command not found: uvx[\s\S]*\n1 error\n$/)])
})
