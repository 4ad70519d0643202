/** Secrets outside of mcp.json: where they come from, and that they reach nothing but their servers. */
import { expect, test } from "bun:test"
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { startReceiver } from "../otlp.ts"
import { eventually, fixture, freshFolder, modern, processes, runSvc, startSvc, svcIn, WINDOWS } from "./harness.ts"

/** A server that writes the value of its variable K to a file, and then serves. */
const writing = (file: string, mark: string, value: string) => ({
  command: "sh",
  args: ["-c", 'printf "%s\\n" "$K" >>"$0"; exec bun "$1" "$2"', file, fixture("echo.ts"), mark],
  env: { K: value },
})

const linesOf = (file: string): readonly string[] => readFileSync(file, "utf8").trim().split("\n")

/** Returns all files below a folder. */
const filesIn = (folder: string): readonly string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())

test.skipIf(WINDOWS)(
  "the values of references reach their servers and nothing else, and a change restarts only its server [secrets:hidden] [secrets:refresh]",
  async () => {
    const [folder, out] = [freshFolder(), freshFolder()]
    const canaries = ["canary-of-a-file", "canary-of-a-command", "canary-after-rotation"] as const
    writeFileSync(join(out, "secret"), `${canaries[0]}\n`)
    writeFileSync(join(out, "printed"), `${canaries[1]}\n`)
    const marks = [1, 2, 3].map(() => `svc-mark-${crypto.randomUUID()}`) as [string, string, string]
    const config = {
      mcpServers: {
        file: writing(join(out, "file"), marks[0], `\${file:${join(out, "secret")}}`),
        cmd: writing(join(out, "cmd"), marks[1], `\${cmd:cat '${join(out, "printed")}'}`),
        plain: { command: "bun", args: [fixture("echo.ts"), marks[2]] },
        gone: { command: "bun", args: [fixture("echo.ts"), "${file:/nowhere/at/all}"] },
      },
    }
    const flags = ["--allow-commands", "--log-level", "debug", "--audit-log", join(out, "audit"), "--audit-arguments"]
    await using svc = await startSvc({ folder, config, flags })
    await eventually(() => marks.every((mark) => processes(mark).length === 1))
    expect([linesOf(join(out, "file")), linesOf(join(out, "cmd"))]).toEqual([[canaries[0]], [canaries[1]]])
    await svc.said("gone is not loaded: args[1] refers to ${file:/nowhere/at/all}")
    const pids = () => marks.map((mark) => processes(mark)[0])
    const [first, ...others] = pids()

    writeFileSync(join(out, "secret"), canaries[2])
    const refreshed = await runSvc(["secret", "refresh", "--config-dir", folder])
    expect([refreshed.code, refreshed.stderr]).toEqual([0, ""])
    await eventually(() => linesOf(join(out, "file")).length === 2 && pids()[0] !== undefined && pids()[0] !== first)
    expect(linesOf(join(out, "file"))[1]).toBe(canaries[2])
    expect(pids().slice(1)).toEqual(others)

    const said = [svc.stderr(), readFileSync(join(out, "audit"), "utf8"), refreshed.stdout]
    for (const path of ["/health?level=full", "/api/servers", "/api/config"])
      said.push(await (await fetch(svc.url + path)).text())
    for (const words of [
      ["mcp", "status", "file", "--verbose"],
      ["mcp", "list", "--json"],
      ["secret", "list"],
      ["doctor"],
      ["config", "check"],
    ]) {
      const { stdout, stderr } = await runSvc([...words, "--config-dir", folder])
      said.push(stdout, stderr)
    }
    for (const file of filesIn(folder)) said.push(readFileSync(file, "utf8"))
    expect(said.filter((text) => /canary/.test(text))).toEqual([])
    expect(processes("canary")).toEqual([])
  },
  60_000,
)

test.skipIf(WINDOWS)(
  "a server that repeats its secrets everywhere, and a client that sends them, put them nowhere that svc writes or shows [secrets:hidden]",
  async () => {
    const [folder, out] = [freshFolder(), freshFolder()]
    await using receiver = startReceiver()
    const gossip = (value: string, ...args: string[]) => ({
      command: "bun",
      args: [fixture("gossip.ts"), ...args],
      env: { K: value },
      restartOnExit: true,
      restartDelay: 20,
      start: "lazy",
    })
    const secrets = {
      file: "canary-of-a-file",
      cmd: "canary-of-a-command",
      dotenv: "canary-in-dotenv",
      parent: "canary-of-svc",
      flag: "canary-of-a-flag",
      literal: "canary-by-name",
    }
    writeFileSync(join(out, "secret"), secrets.file)
    writeFileSync(join(out, "printed"), secrets.cmd)
    writeFileSync(join(folder, ".env"), `GOSSIP_KEY=${secrets.dotenv}\n`)
    const mcpServers = {
      file: gossip(`\${file:${join(out, "secret")}}`),
      cmd: gossip(`\${cmd:cat '${join(out, "printed")}'}`),
      dotenv: gossip("${GOSSIP_KEY}"),
      parent: gossip("${PARENT_KEY}"),
      flag: gossip("plain", "--api-key", secrets.flag),
      literal: { ...gossip("${API_KEY}"), env: { API_KEY: secrets.literal, K: "${API_KEY}" } },
    }
    await using svc = await startSvc({
      folder,
      config: { mcpServers },
      env: { PARENT_KEY: secrets.parent },
      flags: [
        ...["--allow-commands", "--log-level", "debug", "--health-info-level", "full", "--metrics"],
        ...["--audit-log", join(out, "audit"), "--audit-arguments", "--access-log", join(out, "access")],
        ...["--otlp-endpoint", receiver.url, "--otlp-content", "--activity", "content"],
      ],
    })
    const names = Object.keys(secrets) as (keyof typeof secrets)[]
    await eventually(async () => {
      const { body } = await modern(`${svc.url}/mcp`, "tools/list", {})
      return names.every((name) => JSON.stringify(body).includes(`${name}_svc_leak`))
    })
    const call = async (name: string, given: object = {}) =>
      JSON.stringify((await modern(`${svc.url}/mcp`, "tools/call", { name, arguments: given })).body)
    for (const name of names) {
      const secret = secrets[name]
      // To its own client a server may say what it wants.
      expect(await call(`${name}_svc_leak`, { a: secret, [secret]: [{ [`${secret}!`]: 1 }] })).toContain(secret)
      await call(`${name}_svc_fail`, { a: secret })
      await call(`${name}_svc_${secret}`)
      await call(`${name}_svc_die`)
      await eventually(async () => (await call(`${name}_svc_leak`)).includes(secret))
    }
    await eventually(() => receiver.spans.length >= names.length * 5)

    const shown: [where: string, text: string][] = [["the log", svc.stderr()]]
    const token = (await runSvc(["admin", "--token", "--config-dir", folder])).stdout.trim()
    const ofServers = names.flatMap((name) => [`servers/${name}`, `config/servers/${name}`])
    const paths = [
      ...["/health", "/health?level=full", "/health/ready", "/metrics", "/api/servers"],
      ...[
        "servers",
        "usage",
        "config",
        "calls",
        "status",
        "sessions",
        "activity",
        "logs",
        "approvals",
        "secrets",
        "doctor",
      ].map((path) => `/api/v1/${path}`),
      ...ofServers.map((path) => `/api/v1/${path}`),
      ...names.map((name) => `/health/mcp/${name}`),
    ]
    for (const path of paths) {
      const response = await fetch(svc.url + path, { headers: { authorization: `Bearer ${token}` } })
      expect([path, response.status]).toEqual([path, 200])
      shown.push([path, await response.text()])
    }
    for (const words of [
      ...[
        ["mcp", "status", "--verbose"],
        ["mcp", "status", "--json"],
        ["mcp", "list", "--json"],
      ],
      ...names.flatMap((name) => [
        ["mcp", "get", name],
        ["logs", name],
      ]),
      ...[["secret", "list"], ["secret", "import", "--dry-run"], ["doctor"], ["config", "check"], ["ps", "--json"]],
      ...[["activity"], ["activity", "--json"]],
    ]) {
      const { stdout, stderr } = await runSvc([...words, "--config-dir", folder])
      shown.push([words.join(" "), stdout + stderr])
    }
    shown.push([
      "spans",
      JSON.stringify(receiver.spans, (_, value) => (typeof value === "bigint" ? `${value}` : value)),
    ])
    svc.signal("SIGTERM")
    await svc.exited
    const own = ["mcp.json", ".env"].map((name) => join(folder, name))
    for (const file of [...filesIn(folder), join(out, "audit"), join(out, "access")])
      if (!own.includes(file)) shown.push([file, readFileSync(file, "latin1")])
    const leaks = shown.flatMap(([where, text]) =>
      /canary/.test(text) ? [`${where}: ${text.match(/.{0,80}canary.{0,40}/)}`] : [],
    )
    expect(leaks).toEqual([])
    // What was hidden was there.
    for (const [where, sign] of [
      ["audit", "leak"],
      ["access", "tools/call"],
    ] as const)
      expect(readFileSync(join(out, where), "utf8")).toContain(sign)
  },
  120_000,
)

test("a key that comes in by any command can be moved to .env [secrets:moved]", async () => {
  const folder = freshFolder({
    ".cursor/mcp.json": JSON.stringify({
      mcpServers: { imported: { command: "bun", args: [fixture("echo.ts"), "--api-key", "canary-1-imported"] } },
    }),
  })
  const svc = svcIn(folder)
  const program = ["bun", fixture("echo.ts")] as const
  const entry = { command: program[0], args: [program[1], "https://me:canary-2-json@example.com/x"] }
  expect((await svc("config", "import", "cursor", "--yes")).code).toBe(0)
  expect((await svc("mcp", "add-json", "json", JSON.stringify(entry), "--yes")).code).toBe(0)
  expect((await svc("mcp", "add", "--yes", "--env", "MY_TOKEN=canary-3-added", "added", ...program)).code).toBe(0)
  expect((await svc("mcp", "edit", "added", "--yes", "--env", "OTHER_TOKEN=canary-4-edited")).code).toBe(0)
  const open = await svc("mcp", "add", "--env", "LAST_TOKEN=canary-5-open", "open", ...program)
  expect(open.stderr).toContain("open: env.LAST_TOKEN looks like a key")
  const written = () => readFileSync(join(folder, "mcp.json"), "utf8")
  expect(written().match(/canary-\d-\w+/g)).toEqual(["canary-5-open"])
  const dry = await svc("secret", "import", "--dry-run")
  expect(dry.stderr).toContain("- open: env.LAST_TOKEN •••\n+ open: env.LAST_TOKEN ${LAST_TOKEN}")
  expect(written()).toContain("canary-5-open")
  expect((await svc("secret", "import", "--yes")).code).toBe(0)
  expect(written()).not.toContain("canary")
  // A second copy of a key is a key, too.
  writeFileSync(
    join(folder, "mcp.json"),
    JSON.stringify({ mcpServers: { old: { ...entry, args: [], env: { K_TOKEN: "canary-6-copied" } } } }),
  )
  expect((await svc("mcp", "add", "--yes", "--env", "K_TOKEN=canary-6-copied", "copy", ...program)).code).toBe(0)
  expect(written().match(/canary-6/g)).toHaveLength(1)
  const dotenv = readFileSync(join(folder, ".env"), "utf8")
  for (const canary of ["1-imported", "2-json", "3-added", "4-edited", "5-open"])
    expect(dotenv).toContain(`canary-${canary}`)
}, 60_000)
