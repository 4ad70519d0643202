/**
 * svc between real servers and real clients, all from npm: `bun run peers [--dir DIR] [--only TEXT] [--write]`; needs npm
 * and dist/svc. Compares what each server lists directly and through svc, and what each client lists and calls through
 * svc with the same from a bare client. Fails for any difference.
 *
 * `--dir` keeps the installations for the next run; `--write` writes the counts to docs/conformance.md.
 */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { eventually, freshEnv, freshFolder, ROOT, SVC, startSvc } from "../e2e/harness.ts"
import { type Driven, PEER_CLIENTS, type PeerClient, type Way } from "./clients.ts"
import { connectHttp, connectStdio, type RawClient } from "./raw-client.ts"
import { PEER_SERVERS, type PeerServer } from "./servers.ts"

const argument = (name: string) => {
  const at = process.argv.indexOf(name)
  return at < 0 ? undefined : process.argv[at + 1]
}
const kept = argument("--dir")
const dir = kept === undefined ? mkdtempSync(join(tmpdir(), "svc-peers-")) : resolve(kept)
const only = argument("--only") ?? ""
/** The most pages that a list may have. */
const MAX_PAGES = 100
/** How long a client may take for a list and a call. */
const DRIVE_MS = 60_000
/** Servers and clients that run at the same time. */
const JOBS = 2
/** What a client of the measurement calls: a tool of `@modelcontextprotocol/server-everything`. */
const CALL = { tool: "everything_svc_echo", message: "hello" }
const LISTS = {
  "tools/list": "tools",
  "prompts/list": "prompts",
  "resources/list": "resources",
  "resources/templates/list": "resourceTemplates",
} as const

const WAY_NAMES: Readonly<Record<Way, string>> = { http: "HTTP", sse: "HTTP+SSE", stdio: "`svc proxy`" }

/** What clients require beside themselves. */
const BESIDE = [
  { package: "@langchain/core", version: "1.4.0" },
  { package: "@langchain/langgraph", version: "1.7.3" },
  { package: "@mastra/core", version: "0.24.9" },
  { package: "genkit", version: "1.42.0" },
  { package: "ai", version: "6.0.326" },
  { package: "@llamaindex/core", version: "0.6.22" },
  { package: "@llamaindex/env", version: "0.1.30" },
  { package: "eventsource", version: "3.0.7" },
  { package: "zod", version: "4.6.7" },
]

type Listed = Readonly<Record<string, unknown>>

const servers = PEER_SERVERS.filter(({ package: name }) => name.includes(only))
const clients = PEER_CLIENTS.filter(({ package: name, as = name }) => as.includes(only))
/** Clients have a folder of their own, because both sides pin packages that the other requires in other versions. */
const folders = { servers: join(dir, "servers"), clients: join(dir, "clients") }
try {
  await install(folders.servers, PEER_SERVERS)
  await install(folders.clients, [...PEER_CLIENTS, ...BESIDE])
  const compared = await inParallel(servers, compareServer)
  const driven = clients.length === 0 ? [] : await driveClients()
  report(compared, driven)
} finally {
  if (kept === undefined) rmSync(dir, { recursive: true, force: true })
}

// ---

/** Installs pinned packages without their scripts, if the folder does not have them. */
async function install(
  folder: string,
  packages: readonly { readonly package: string; readonly version: string; readonly as?: string }[],
): Promise<void> {
  const dependencies = Object.fromEntries(
    packages.map(({ package: name, version, as }) =>
      as === undefined ? [name, version] : [as, `npm:${name}@${version}`],
    ),
  )
  const document = JSON.stringify({ private: true, dependencies }, null, 2)
  const file = join(folder, "package.json")
  const mark = join(folder, "node_modules", ".installed")
  if (existsSync(mark) && readFileSync(mark, "utf8") === document) return
  mkdirSync(folder, { recursive: true })
  writeFileSync(file, document)
  process.stdout.write(`installing ${packages.length} packages in ${folder}\n`)
  const flags = ["--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund", "--loglevel=error"]
  const npm = Bun.spawn({ cmd: ["npm", "install", ...flags], cwd: folder, stdin: "ignore" })
  if ((await npm.exited) !== 0) throw new Error(`npm install failed in ${folder}`)
  writeFileSync(mark, document)
}

type Compared = {
  readonly server: PeerServer
  readonly counts: readonly number[]
  readonly problem: string | undefined
}

/** Lists a server directly and through svc, and returns what differs. */
async function compareServer(server: PeerServer): Promise<Compared> {
  const folder = freshFolder()
  const { command, args } = commandOf(server)
  const env = { ...freshEnv(folder), ...server.env }
  const direct = await (async () => {
    await using client = await connectStdio([command, ...args], { cwd: folder, env })
    return client === undefined ? undefined : await listAll(client)
  })()
  const through = await (async () => {
    await using svc = await startSvc({
      config: { mcpServers: { it: { command, args, cwd: folder, env: server.env ?? {} } } },
      flags: ["--startup-wait", "60s", "--health-rate-limit", "off"],
    })
    const state = await eventually(async () => {
      const response = await fetch(`${svc.url}/health/mcp/it`)
      const { state } = (await response.json()) as { state: string }
      return ["pending", "loading"].includes(state) ? undefined : state
    }, 120_000)
    if (state !== "ready") return undefined
    await using client = await connectHttp(`${svc.url}/servers/it/mcp`)
    return await listAll(client)
  })()
  rmSync(folder, { recursive: true, force: true })
  const counts = Object.values(LISTS).map((key) => (direct?.[key] as readonly unknown[] | undefined)?.length ?? 0)
  const done = { server, counts, problem: difference(direct, through) }
  process.stdout.write(`${serverLine(done)}\n`)
  return done
}

function difference(direct: Listed | undefined, through: Listed | undefined): string | undefined {
  if (direct === undefined) return through === undefined ? "does not start" : "starts through svc alone"
  if (through === undefined) return "does not start through svc"
  const differing = Object.keys(direct).filter((key) => !Bun.deepEquals(direct[key], through[key], true))
  for (const key of differing)
    if (process.argv.includes("--verbose"))
      process.stderr.write(`${key}\n  ${JSON.stringify(direct[key])}\n  ${JSON.stringify(through[key])}\n`)
  return differing.length === 0 ? undefined : `differs: ${differing.join(", ")}`
}

/** Returns the entries of each list, over all pages. A list that fails is an empty one: servers have lists that fail. */
async function listAll(client: RawClient): Promise<Listed> {
  const found: Record<string, unknown> = {}
  for (const [method, key] of Object.entries(LISTS)) {
    const entries: unknown[] = []
    for (let cursor: unknown, page = 0; page === 0 || (cursor !== undefined && page < MAX_PAGES); page++) {
      const { result } = (await client.request(method, cursor === undefined ? {} : { cursor })) ?? {}
      entries.push(...((result?.[key] as unknown[] | undefined) ?? []))
      cursor = result?.nextCursor
    }
    found[key] = entries
  }
  return found
}

function commandOf({ package: name, bin, binary, args = [] }: PeerServer): {
  command: string
  args: readonly string[]
} {
  const folder = join(folders.servers, "node_modules", name)
  if (binary !== undefined) {
    // Some packages leave this to a script, and scripts are not run.
    chmodSync(join(folder, binary), 0o755)
    return { command: join(folder, binary), args }
  }
  const { bin: bins } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    bin: string | Readonly<Record<string, string>>
  }
  const file = typeof bins === "string" ? bins : (bins[bin ?? ""] ?? Object.values(bins)[0] ?? "")
  return { command: "node", args: [join(folder, file), ...args] }
}

type Result = {
  readonly client: PeerClient
  readonly way: Way
  readonly problem: string | undefined
  readonly count: number
}

/** Drives each client in each of its ways against one svc with two servers. */
async function driveClients(): Promise<readonly Result[]> {
  const everything = { package: "@modelcontextprotocol/server-everything", version: "" }
  const memory = { package: "@modelcontextprotocol/server-memory", version: "" }
  await using svc = await startSvc({
    config: { mcpServers: { everything: commandOf(everything), memory: commandOf(memory) } },
    flags: ["--startup-wait", "60s"],
  })
  const url = `${svc.url}/mcp`
  const target = { folder: folders.clients, url, proxy: [SVC, "proxy", "--config-dir", svc.folder], ...CALL }
  await using bare = await connectHttp(url)
  const names = namesOf((await listAll(bare)).tools)
  return await inParallel(
    clients.flatMap((client) => client.ways.map((way) => ({ client, way }))),
    async ({ client, way }) => {
      const home = freshFolder()
      const child = Bun.spawn({
        cmd: ["bun", join(import.meta.dir, "clients.ts"), client.as ?? client.package, way, JSON.stringify(target)],
        cwd: home,
        env: { ...freshEnv(home), MCP_USE_ANONYMIZED_TELEMETRY: "false" },
        stdin: "ignore",
        stdout: "pipe",
        stderr: process.argv.includes("--verbose") ? "inherit" : "ignore",
        timeout: DRIVE_MS,
      })
      const text = await new Response(child.stdout).text()
      await child.exited
      rmSync(home, { recursive: true, force: true })
      const driven = lastLine(text)
      const result = { client, way, count: driven?.names.length ?? 0, problem: fault(driven, names) }
      process.stdout.write(`${clientLine(result)}\n`)
      return result
    },
  )
}

function fault(driven: Driven | undefined, names: readonly string[]): string | undefined {
  if (driven === undefined) return "fails"
  if (!Bun.deepEquals([...driven.names].sort(), [...names].sort()))
    return `lists ${driven.names.length} of ${names.length}`
  return driven.text === `Echo: ${CALL.message}` ? undefined : `its call returned ${JSON.stringify(driven.text)}`
}

function lastLine(text: string): Driven | undefined {
  try {
    return JSON.parse(text.trim().split("\n").at(-1) ?? "") as Driven
  } catch {
    return undefined
  }
}

function namesOf(tools: unknown): readonly string[] {
  return (tools as readonly { readonly name: string }[]).map(({ name }) => name)
}

function serverLine({ server, counts, problem }: Compared): string {
  const credentials = server.env === undefined ? "none" : "placeholder"
  return `| \`${server.package}\` | ${server.version} | ${server.sdk ?? "TypeScript"} | ${credentials} | ${counts.join(" | ")} | ${problem ?? "equal"} |`
}

function clientLine({ client, way, count, problem }: Result): string {
  return `| \`${client.package}\` | ${client.version} | ${WAY_NAMES[way]} | ${count} | ${problem ?? "equal"} |`
}

/** Says what differs, and sets the exit code. */
function report(compared: readonly Compared[], driven: readonly Result[]): void {
  const wrong = [...compared, ...driven].filter(({ problem }) => problem !== undefined)
  process.stdout.write(`${compared.length + driven.length - wrong.length} equal, ${wrong.length} not\n`)
  process.exitCode = wrong.length === 0 ? 0 : 1
  if (wrong.length > 0 || only !== "" || !process.argv.includes("--write")) return
  const file = join(ROOT, "docs", "conformance.md")
  const totals = Object.values(LISTS).map((_key, at) =>
    compared.reduce((sum, { counts }) => sum + (counts[at] ?? 0), 0),
  )
  const [tools, prompts, resources, templates] = totals
  const free = compared.filter(({ server }) => server.env === undefined).length
  const text = [
    `${compared.length} servers from npm (${free} start without credentials, the others with placeholders) have the same lists directly and through svc: ${tools} tools, ${prompts} prompts, ${resources} resources and ${templates} resource templates.`,
    "",
    "| server | version | SDK | credentials | tools | prompts | resources | templates | through svc |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ...compared.map(serverLine),
    "",
    "| client | version | over | tools | list and call |",
    "| --- | --- | --- | --- | --- |",
    ...driven.map(clientLine),
  ]
  const page = readFileSync(file, "utf8")
  writeFileSync(
    file,
    page.replace(/(<!-- measured: peers -->\n)[\s\S]*?(<!-- \/measured -->)/, `$1${text.join("\n")}\n$2`),
  )
}

/** Runs `work` for each item, some at a time, and returns the results in the order of the items. */
async function inParallel<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<readonly R[]> {
  const results: R[] = []
  let next = 0
  await Promise.all(
    Array.from({ length: JOBS }, async () => {
      for (let at = next++; at < items.length; at = next++) results[at] = await work(items[at] as T)
    }),
  )
  return results
}
