/** `svc setup` and its undo, as a new user meets them: one question, and every file as it was afterwards. */
import { describe, expect, test } from "bun:test"
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import fc from "fast-check"
import { echo, eventually, fixture, freshEnv, freshFolder, json, readIfThere, svcIn, typeSvc } from "./harness.ts"

const lists = { command: "bun", args: [fixture("lists.ts")] }
const CURSOR = `{
  // mine
  "mcpServers": {
    "files": ${JSON.stringify({ ...echo(), env: { API_KEY: "abcdef123456789" } })}, // kept
  },
}
`
const GEMINI = JSON.stringify({
  theme: "dark",
  mcpServers: { lists, files: { ...echo(), env: { API_KEY: "abcdef123456789" } } },
})
const CLAUDE = '{"numStartups":3}'
const FILES = { ".cursor/mcp.json": CURSOR, ".gemini/settings.json": GEMINI, ".claude.json": CLAUDE }
const ENV = { SVC_PORT: "0" }

/** A home whose svc is stopped at the end. */
function home(files: Readonly<Record<string, string>>) {
  const folder = freshFolder(files)
  const svc = svcIn(folder, ENV)
  const now = () => Object.fromEntries(Object.keys(files).map((name) => [name, readIfThere(join(folder, name))]))
  return {
    folder,
    svc,
    now,
    async [Symbol.asyncDispose]() {
      await svc("stop", "--timeout", "2s")
    },
  }
}

test("one question sets up three clients, and they work after a reboot, until the undo [setup:all]", async () => {
  await using user = home(FILES)
  const { folder, svc, now } = user
  const env = { ...ENV, SVC_CONFIG_DIR: folder }
  const { code, shown } = await typeSvc(["setup"], { folder, env, answers: ["y"] })
  expect([code, shown.match(/\[y\/N\]/g)]).toEqual([0, ["[y/N]"]])
  expect(shown).toContain("works      files: connected")
  expect(shown).not.toContain("abcdef123456789")
  for (const file of Object.values(now())) {
    expect(file).toContain('"proxy"')
    expect(file).not.toContain("abcdef123456789")
  }
  // svc is gone, and a client starts first.
  await svc("stop")
  const { command, args } = JSON.parse(now()[".gemini/settings.json"] ?? "").mcpServers.svc
  const client = new Client({ name: "t", version: "1" })
  await client.connect(
    new StdioClientTransport({ command, args, env: { ...freshEnv(folder), ...env }, stderr: "ignore" }),
  )
  await eventually(async () => (await client.listTools()).tools.some(({ name }) => name === "lists_svc_hello"))
  await client.close()

  expect((await svc("setup", "--yes")).stdout).toContain("nothing to set up")
  expect((await svc("setup", "--undo", "--yes")).code).toBe(0)
  expect(now()).toEqual(FILES)
  expect([readIfThere(join(folder, "mcp.json")), readIfThere(join(folder, ".env"))]).toEqual([undefined, undefined])
  expect((await svc("setup", "--undo", "--yes")).code).not.toBe(0)
}, 60_000)

test("a server that does not start is named with its reason, and the others work [setup:all]", async () => {
  const broken = { command: "sh", args: ["-c", "echo 'KEY is missing' >&2; exit 3"] }
  await using user = home({ ".cursor/mcp.json": JSON.stringify({ mcpServers: { broken, files: echo() } }) })
  const { code, stdout } = await user.svc("setup", "--yes", "--json")
  expect(code).toBe(69)
  expect(JSON.parse(stdout)).toMatchObject({
    servers: [
      { name: "broken", found: "new", lastError: expect.stringContaining("KEY is missing") },
      { name: "files", found: "new", state: "connected" },
    ],
    clients: [{ client: "cursor", changed: true, connected: true }],
    problems: [],
  })
}, 60_000)

test("without consent nothing is written, and without a terminal --yes is asked for [setup:all]", async () => {
  await using user = home(FILES)
  const { folder, svc, now } = user
  expect((await svc("setup")).code).toBe(64)
  expect((await svc("setup", "--dry-run")).stdout).toContain("Cursor connects to svc")
  expect((await typeSvc(["setup"], { folder, env: { ...ENV, SVC_CONFIG_DIR: folder }, answers: ["n"] })).code).toBe(0)
  expect([now(), readIfThere(join(folder, "mcp.json"))]).toEqual([FILES, undefined])
})

test("without a client, setup says what to do, and with --http how clients find svc after a reboot [setup:all]", async () => {
  await using user = home({})
  expect((await user.svc("setup", "--yes")).stdout).toContain("name a client, as in `svc setup cursor`")
  const done = await user.svc("setup", "cursor", "--http", "--yes")
  expect([done.code, done.stdout]).toEqual([0, expect.stringContaining("`svc service install` starts svc")])
  const file = join(user.folder, ".cursor/mcp.json")
  expect(readIfThere(file)).toMatch(/"url": "http:\/\/127\.0\.0\.1:\d+\/mcp"/)
  expect((await user.svc("setup", "--undo", "--yes")).code).toBe(0)
  expect(readIfThere(file)).toBeUndefined()
})

test("a client with its servers in another file is connected too, and what it still starts is named [setup:beside]", async () => {
  const files = {
    ".continue/config.yaml": `name: mine\nmcpServers:\n  - name: files\n    ${Object.entries(echo())
      .map(([key, value]) => `${key}: ${JSON.stringify(value)}`)
      .join("\n    ")}\n`,
    ".config/opencode/opencode.jsonc": `{\n  // mine\n  "mcp": { "lists": { "type": "local", "command": ["bun", ${JSON.stringify(fixture("lists.ts"))}] } }\n}\n`,
  }
  await using user = home(files)
  const { stdout } = await user.svc("setup", "--yes")
  expect(stdout).toMatch(/connected {2}Continue: svc in .*svc\.json; the client still starts files itself/)
  expect(stdout).toMatch(/connected {2}OpenCode: svc in .*opencode\.jsonc, in place of lists\n/)
  // The undo needs no file that is gone again.
  rmSync(join(user.folder, ".continue/mcpServers/svc.json"))
  expect((await user.svc("setup", "--undo", "--yes")).code).toBe(0)
  expect([user.now(), readIfThere(join(user.folder, "mcp.json"))]).toEqual([files, undefined])
}, 60_000)

describe("the undo", () => {
  test("keeps what was edited since [setup:undo]", async () => {
    await using user = home({
      ...FILES,
      "mcp.json": '{\n  "mcpServers": { "old": { "command": "sh", "disabled": true } } // mine\n}\n',
    })
    const { folder, svc, now } = user
    await svc("setup", "--yes")
    await svc("mcp", "edit", "lists", "--tag", "mine", "--no-wait")
    const cursor = join(folder, ".cursor/mcp.json")
    writeFileSync(cursor, readFileSync(cursor, "utf8").replace("// mine", "// yours"))
    const undone = await svc("setup", "--undo", "--yes")
    expect(undone.stdout).toContain("kept lists")
    expect(now()[".cursor/mcp.json"]).toBe(CURSOR.replace("// mine", "// yours"))
    expect(Object.keys(await json(svc("mcp", "list", "--json")).then(namesOf))).toEqual(["old", "lists"])
    expect(now()["mcp.json"]).toContain("// mine")
  }, 60_000)

  test("of a client whose entry was edited leaves the servers in mcp.json [setup:undo]", async () => {
    await using user = home(FILES)
    const { folder, svc } = user
    await svc("setup", "--yes")
    const cursor = join(folder, ".cursor/mcp.json")
    const written = readFileSync(cursor, "utf8")
    writeFileSync(cursor, written.replace('"proxy"', '"proxy", "--tools", "search"'))
    const undone = await svc("setup", "--undo", "--yes")
    expect([undone.code, undone.stdout]).toEqual([69, expect.stringContaining("not undone: ")])
    const [copy = ""] = /[^ ]+\/backups\/clients\/[^ \n]+/.exec(undone.stdout) ?? []
    expect(readIfThere(copy)).toBe(CURSOR)
    expect(readIfThere(join(folder, "mcp.json"))).toContain('"files"')
    await svc("disconnect", "cursor", "--yes")
    expect((await svc("setup", "--undo", "--yes")).code).toBe(0)
    expect(readIfThere(cursor)).toBe(CURSOR)
  }, 60_000)

  test("gives every file of random homes its bytes back [setup:undo]", async () => {
    const places = [".cursor/mcp.json", ".gemini/settings.json", ".claude.json", ".codeium/windsurf/mcp_config.json"]
    const server = fc.record({
      command: fc.constantFrom("sh", "true", "node"),
      args: fc.array(fc.constantFrom("-c", "a b", "ü", "--key=abcdef1234567890")),
      env: fc.dictionary(fc.constantFrom("API_KEY", "A", "B"), fc.constantFrom("abcdef1234567890", "1", "")),
      disabled: fc.constant(true),
    })
    const file = fc
      .record({
        value: fc.record({
          mcpServers: fc.dictionary(fc.constantFrom("a", "b", "c d"), server),
          other: fc.jsonValue(),
        }),
        indent: fc.constantFrom(0, 2, "\t"),
        end: fc.constantFrom("", "\n", "\r\n", " // end\n"),
        mark: fc.constantFrom("", "\ufeff"),
      })
      .map(({ value, indent, end, mark }) => mark + JSON.stringify(value, null, indent) + end)
    const files = fc.dictionary(fc.constantFrom(...places, "mcp.json", ".env"), file, { minKeys: 1 })
    const property = fc.asyncProperty(files, async (given) => {
      // A file of another form than JSON.
      const before = { ...given, ...(".env" in given ? { ".env": "A=1\nexport B='2' # mine\n" } : {}) }
      await using user = home(before)
      await user.svc("setup", "--yes", "--timeout", "1s")
      if (readIfThere(join(user.folder, "setup.json")) !== undefined)
        expect((await user.svc("setup", "--undo", "--yes")).code).toBe(0)
      expect(user.now()).toEqual(before)
    })
    await fc.assert(property, { numRuns: 12, seed: 20_261_127 })
  }, 120_000)
})

const namesOf = (listed: unknown): Record<string, unknown> =>
  Object.fromEntries((listed as { name: string }[]).map((one) => [one.name, one]))
