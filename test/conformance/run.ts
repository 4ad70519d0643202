/**
 * The official conformance suite against two servers of our own, directly and through svc: what passes directly must pass
 * through svc. `bun test/conformance/run.ts [--verbose]`; needs dist/svc.
 *
 * Four pairs: inbound 2025-11-25 and 2026-07-28, outbound legacy and modern, each over stdio and HTTP.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { EXPECTED_FAILURES } from "./expected-failures.ts"

const ROOT = join(import.meta.dir, "..", "..")
const SUITE = join(ROOT, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
const REVISIONS = ["2025-11-25", "2026-07-28"] as const
const folder = mkdtempSync(join(tmpdir(), "svc-conformance-"))

type Backend = { readonly name: string; readonly direct: string; readonly server: object }

async function freePort(): Promise<number> {
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() })
  const { port } = server
  await server.stop(true)
  return port as number
}

async function untilListening(port: number): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    const socket = await Bun.connect({ hostname: "127.0.0.1", port, socket: { data() {} } }).catch(() => undefined)
    if (socket !== undefined) return void socket.end()
    await Bun.sleep(20)
  }
  throw new Error(`nothing listens on ${port}`)
}

/** What the suite requires of a client. svc is the client. */
const AUTH_SCENARIOS = [
  "auth/metadata-default",
  "auth/metadata-var1",
  "auth/metadata-var2",
  "auth/metadata-var3",
  "auth/basic-cimd",
  "auth/scope-from-www-authenticate",
  "auth/scope-from-scopes-supported",
  "auth/scope-omitted-when-undefined",
  "auth/scope-step-up",
  "auth/scope-retry-limit",
  "auth/token-endpoint-auth-basic",
  "auth/token-endpoint-auth-post",
  "auth/token-endpoint-auth-none",
  "auth/pre-registration",
]
const CLIENT_SCENARIOS = {
  "2025-11-25": ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry", ...AUTH_SCENARIOS],
  "2026-07-28": [
    "tools_call",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    ...AUTH_SCENARIOS,
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/authorization-server-migration",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
  ],
} as const
/** Extensions of the suite that svc has too. */
const EXTENSION_SCENARIOS = [
  "auth/client-credentials-jwt",
  "auth/client-credentials-basic",
  "auth/dpop",
  "auth/dpop-nonce",
  "auth/wif-jwt-bearer",
  "auth/enterprise-managed-authorization",
]

async function clientPasses(scenario: string, revision: string | undefined): Promise<boolean> {
  const command = `bun ${join(import.meta.dir, "client.ts")}`
  const version = revision === undefined ? [] : ["--spec-version", revision]
  const child = Bun.spawn({
    cmd: ["bun", SUITE, "client", "--command", command, "--scenario", scenario, ...version],
    cwd: folder,
    stdout: "ignore",
    stderr: "ignore",
  })
  return (await child.exited) === 0
}

/** Scenario names with whether all of their checks passed. Scenarios that are not scored are left out. */
async function suite(url: string, revision: string, scenario?: string): Promise<ReadonlyMap<string, boolean>> {
  const output = mkdtempSync(join(folder, "out-"))
  const which =
    scenario === undefined ? ["--requirements", revision] : ["--scenario", scenario, "--spec-version", revision]
  const child = Bun.spawn({
    cmd: ["bun", SUITE, "server", "--url", url, ...which, "-o", output],
    cwd: folder,
    stdout: "pipe",
    stderr: "ignore",
  })
  const text = await new Response(child.stdout).text()
  await child.exited
  const notScored = new Set(
    [...text.slice(text.indexOf("Not scored")).matchAll(/^\s+[✓✗] (\S+) \(/gm)].map(([, name]) => name),
  )
  const found = new Map<string, boolean>()
  for (const name of readdirSync(output)) {
    const scenario = /^server-(.+)-\d{4}-\d{2}-\d{2}T/.exec(name)?.[1]
    if (scenario === undefined || (text.includes("Not scored") && notScored.has(scenario))) continue
    const checks = JSON.parse(readFileSync(join(output, name, "checks.json"), "utf8")) as {
      id: string
      status: string
      errorMessage?: string
    }[]
    const failures = checks.filter(({ status }) => status === "FAILURE")
    found.set(scenario, failures.length === 0)
    if (process.argv.includes("--verbose"))
      for (const failure of failures)
        process.stderr.write(`  ${url} ${revision} ${scenario}: ${failure.errorMessage}\n`)
  }
  if (found.size === 0) throw new Error(`the suite said nothing about ${url}:\n${text.slice(-2000)}`)
  return found
}

/**
 * One scenario after the other, each with a new process of the server. A shared legacy stdio server cannot say whose a
 * question is, and the suite's scenarios leave calls behind that wait for an answer: the next ones would be refused.
 */
async function suiteApart(
  name: string,
  url: string,
  revision: string,
  scenarios: Iterable<string>,
): Promise<ReadonlyMap<string, boolean>> {
  const found = new Map<string, boolean>()
  for (const scenario of scenarios) {
    for (const [key, passes] of await suite(url, revision, scenario)) found.set(key, passes)
    const restart = Bun.spawn({
      cmd: [join(ROOT, "dist", "svc"), "mcp", "restart", name, "--config-dir", folder],
      stdout: "ignore",
    })
    await restart.exited
    for (let ready = false; !ready; ) {
      const { body } = await fetch(`${new URL(url).origin}/health/mcp/${name}`).then(async (response) => ({
        body: (await response.json()) as { state?: string },
      }))
      ready = body.state === "ready"
      if (!ready) await Bun.sleep(20)
    }
  }
  return found
}

const children: Bun.Subprocess[] = []
try {
  const ports = { one: await freePort(), two: await freePort(), svc: await freePort() }
  const fixture = (file: string) => join(ROOT, "test", "fixtures", file)
  const start = (cmd: string[], stderr: "ignore" | "inherit" = "ignore") =>
    children.push(Bun.spawn({ cmd, stdin: "ignore", stdout: "ignore", stderr }))
  start(["bun", fixture("everything-1x.ts"), "--port", String(ports.one)])
  start(["bun", fixture("everything-2x.ts"), "--port", String(ports.two)])
  await Promise.all([untilListening(ports.one), untilListening(ports.two)])
  const one = `http://127.0.0.1:${ports.one}/mcp`
  const two = `http://127.0.0.1:${ports.two}/mcp`
  const stdio = (file: string) => ({ command: "bun", args: [fixture(file)] })
  const backends: readonly Backend[] = [
    { name: "1x-stdio", direct: one, server: stdio("everything-1x.ts") },
    { name: "1x-http", direct: one, server: { type: "streamableHttp", url: one } },
    { name: "2x-2025-stdio", direct: two, server: { ...stdio("everything-2x.ts"), protocolVersion: "legacy" } },
    { name: "2x-2025-http", direct: two, server: { type: "streamableHttp", url: two, protocolVersion: "legacy" } },
    { name: "2x-2026-stdio", direct: two, server: { ...stdio("everything-2x.ts"), protocolVersion: "2026-07-28" } },
    { name: "2x-2026-http", direct: two, server: { type: "streamableHttp", url: two, protocolVersion: "2026-07-28" } },
  ]
  writeFileSync(
    join(folder, "mcp.json"),
    JSON.stringify({ mcpServers: Object.fromEntries(backends.map(({ name, server }) => [name, server])) }),
  )
  start(
    [
      join(ROOT, "dist", "svc"),
      "serve",
      "--config-dir",
      folder,
      "--port",
      String(ports.svc),
      "--startup-wait",
      "20s",
      "--health-rate-limit",
      "off",
    ],
    "ignore",
  )
  await untilListening(ports.svc)

  const direct = new Map<string, ReadonlyMap<string, boolean>>()
  const wrong: string[] = []
  const stale = new Set(Object.keys(EXPECTED_FAILURES))
  const count = (results: ReadonlyMap<string, boolean>) =>
    `${[...results.values()].filter(Boolean).length}/${results.size}`
  for (const revision of REVISIONS) {
    for (const url of [one, two]) {
      const results = await suite(url, revision)
      direct.set(`${revision} ${url}`, results)
      process.stdout.write(`${revision}  ${(url === one ? "1x" : "2x").padEnd(16)} directly     ${count(results)}\n`)
    }
    for (const { name, direct: url } of backends) {
      const through = `http://127.0.0.1:${ports.svc}/servers/${name}/mcp`
      const shared = revision === "2026-07-28" && (name === "1x-stdio" || name === "2x-2025-stdio")
      const wanted = direct.get(`${revision} ${two}`)?.keys() ?? []
      const results = shared ? await suiteApart(name, through, revision, wanted) : await suite(through, revision)
      // A legacy server cannot pass the modern suite directly: there svc is held to what the 2x server does.
      const measure = direct.get(`${revision} ${revision === "2026-07-28" ? two : url}`)
      const failing = [...(measure ?? [])]
        .filter(([scenario, passes]) => passes && results.get(scenario) !== true)
        .map(([scenario]) => scenario)
      for (const scenario of failing) {
        const key = `${revision} ${name} ${scenario}`
        if (EXPECTED_FAILURES[key] === undefined) wrong.push(key)
        stale.delete(key)
      }
      process.stdout.write(
        `${revision}  ${name.padEnd(16)} through svc  ${count(results)}${failing.length > 0 ? `  (${failing.length} that pass directly do not)` : ""}\n`,
      )
    }
  }
  for (const [revision, scenarios] of [
    ...REVISIONS.map((one) => [one, CLIENT_SCENARIOS[one]] as const),
    [undefined, EXTENSION_SCENARIOS] as const,
  ]) {
    const title = revision ?? "extensions"
    let passed = 0
    for (const scenario of scenarios) {
      if (await clientPasses(scenario, revision)) passed++
      else wrong.push(`${title} svc as a client: ${scenario}`)
    }
    process.stdout.write(`${title}  svc as a client                ${passed}/${scenarios.length}\n`)
  }
  for (const key of wrong) process.stdout.write(`FAILS THROUGH svc: ${key}\n`)
  for (const key of stale) process.stdout.write(`STALE, it passes: ${key}\n`)
  process.stdout.write(
    `${wrong.length + stale.size === 0 ? "1 passed, 0 failed" : `0 passed, ${wrong.length + stale.size} failed`}\n`,
  )
  process.exitCode = wrong.length + stale.size === 0 ? 0 : 1
} finally {
  for (const child of children.reverse()) {
    child.kill()
    await child.exited
  }
  rmSync(folder, { recursive: true, force: true })
}
