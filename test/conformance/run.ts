/**
 * The official conformance suite against servers of both generations, directly and through svc, and with svc as the
 * client of the suite's own servers. `bun run conformance [--all] [--verbose] [--jobs N] [--only TEXT]`; needs dist/svc.
 *
 * Without `--all` it runs the rows that CI runs and compares them with docs/conformance.md; with `--all` it runs every row
 * and writes that page. Fails for a difference without an entry in differences.ts, and for an entry that does not occur.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { eventually, fixture, freePort, type Instance, ROOT, SVC, startHttp, startSvc } from "../e2e/harness.ts"
import { startCluster } from "../e2e/replicas.ts"
import { NO_REDIS } from "../redis.ts"
import { DIFFERENCES, type Difference } from "./differences.ts"
import { clientRowLine, renderPage, replicaRowLine, serverRowLine } from "./page.ts"
import { referenceServers } from "./reference-servers.ts"
import {
  CLIENT_ROWS,
  type ClientRow,
  isQuick,
  REPLICA_ROWS,
  type ReplicaRow,
  SERVER_ROWS,
  type ServerName,
  type ServerRow,
  yardstickOf,
} from "./rows.ts"
import { scenarioSets, unmentioned } from "./scenarios.ts"
import { clientPasses, type Outcome, readSuite, serverOutcome } from "./suite.ts"

const PAGE = join(ROOT, "docs", "conformance.md")
const argument = (name: string) => {
  const at = process.argv.indexOf(name)
  return at < 0 ? undefined : process.argv[at + 1]
}
/**
 * The scenario whose outcome at a shared legacy server changes with the calls that other scenarios leave open, because svc holds
 * the server's question meanwhile. It counts as failed, which differences.ts explains.
 */
const UNSTEADY = "input-required-result-capability-check"

const all = process.argv.includes("--all")
const only = argument("--only")
const jobs = Number(argument("--jobs") ?? 2)

const SERVERS: Readonly<Record<Exclude<ServerName, "sdk-1x" | "sdk-2x">, readonly [file: string, ...args: string[]]>> =
  {
    "own-1x": ["everything-1x.ts"],
    "own-2x": ["everything-2x.ts"],
    "skills-1x": ["skills.ts"],
    "skills-2x": ["skills.ts", "--modern"],
    "tasks-2x": ["task-tools.ts"],
  }
/** The key of the processes of a server that replicas run beside each other, in hexadecimal. */
const STATE_KEY = "5c".repeat(32)
/** The name of the measured server in svc's configuration. */
const NAME = "it"
const FLAGS = ["--startup-wait", "20s", "--health-rate-limit", "off", "--health-info-level", "full"]

const references = all ? await referenceServers() : undefined
const suite = await readSuite()
const sets = await scenarioSets(suite)
/** The scenarios of a row, which its server runs one by one if they belong to an extension. */
const scenariosFor = ({ family, revision }: Pick<ServerRow, "family" | "revision">): readonly string[] =>
  sets.server[family === "own" || family === "sdk" ? revision : family]
const isExtension = ({ family }: Pick<ServerRow, "family">): boolean => family === "skills" || family === "tasks"
const wanted = (line: string) => only === undefined || line.includes(only)
const serverRows = SERVER_ROWS.filter((row) => (all || isQuick(row)) && wanted(serverRowLine(row, [])))
const clientRows = CLIENT_ROWS.filter(
  (row) =>
    (all || (row.mode === "auto" && row.client === "legacy" && row.backends === 1)) && wanted(clientRowLine(row, "")),
)

/** What passes directly, by server and revision. */
const direct = new Map<string, Outcome>()
/** What passes at `/mcp` of one svc with one server, in the default mode over stdio, by server and revision. */
const throughOne = new Map<string, Outcome>()
const wrong: string[] = []
const occurred = new Set<Difference>()

const measuredDirectly = new Map(
  serverRows.flatMap((row) =>
    [row.server, yardstickOf(row.family, row.revision)].map((server) => [
      `${server} ${row.revision}`,
      { ...row, server },
    ]),
  ),
)
await inParallel([...measuredDirectly], async ([key, row]) => {
  await using remote = await startRemote(row.server)
  direct.set(key, await serverOutcome(remote.url, row.revision, scenariosFor(row), { each: isExtension(row) }))
})
const launches = Object.values(
  Object.groupBy(serverRows, ({ server, transport, mode, tools }) => `${server} ${transport} ${mode} ${tools}`),
).filter((rows) => rows !== undefined)
const measured = new Map<ServerRow, readonly string[]>()
await inParallel(launches, measureServer)
const replicaLines: string[] = []
if (only === undefined && NO_REDIS === undefined)
  for (const rows of Object.values(Object.groupBy(REPLICA_ROWS, ({ server, processes }) => `${server} ${processes}`)))
    await measureReplicas(rows ?? [])
const serverLines = serverRows.map((row) => serverRowLine(row, measured.get(row) ?? []))
const passed = new Map<ClientRow, string>()
await inParallel(clientRows, async (row) => {
  const scenarios = sets.client[row.revision]
  const revision = row.revision === "extensions" ? undefined : row.revision
  const env = { SVC_SUITE_MODE: row.mode, SVC_SUITE_CLIENT: row.client, SVC_SUITE_BACKENDS: String(row.backends) }
  let count = 0
  for (const scenario of scenarios) {
    const passes = await clientPasses(scenario, revision, env)
    if (passes) count++
    judge(
      `${clientRowLine(row, "")} ${scenario}`,
      passes,
      DIFFERENCES.filter(
        (entry) => entry.side === "client" && entry.scenarios.includes(scenario) && entry.matches(row),
      ),
    )
  }
  passed.set(row, `${count}/${scenarios.length}`)
  process.stdout.write(`${clientRowLine(row, passed.get(row) ?? "")}\n`)
})
const clientLines = clientRows.map((row) => clientRowLine(row, passed.get(row) ?? ""))
const lines = [...serverLines, ...replicaLines, ...clientLines]

for (const line of wrong) process.stdout.write(`${line}\n`)
if (all && only === undefined) {
  const unused = DIFFERENCES.filter((entry) => !occurred.has(entry)).map(
    ({ reason }) => `STALE, no row has it: ${reason}`,
  )
  wrong.push(...unused)
  for (const line of unused) process.stdout.write(`${line}\n`)
  const tables = {
    servers: serverLines,
    replicas: NO_REDIS === undefined ? replicaLines : undefined,
    clients: clientLines,
    sets,
  }
  if (wrong.length === 0) writeFileSync(PAGE, renderPage(readFileSync(PAGE, "utf8"), tables))
} else {
  const page = readFileSync(PAGE, "utf8")
  for (const line of lines.filter((line) => !page.includes(line))) {
    wrong.push(line)
    process.stdout.write(`NOT IN docs/conformance.md (bun run conformance --all): ${line}\n`)
  }
}
for (const name of unmentioned(suite, readFileSync(PAGE, "utf8"))) {
  wrong.push(name)
  process.stdout.write(`NEITHER RUN NOR EXCLUDED in docs/conformance.md (bun run conformance --all): ${name}\n`)
}
process.stdout.write(
  `${wrong.length === 0 ? `${lines.length} passed, 0 failed` : `0 passed, ${wrong.length} failed`}\n`,
)
process.exitCode = wrong.length === 0 ? 0 : 1

// ---

/** Measures the rows of one launch, which differ in the suite's revision: with one server behind svc, and with three. */
async function measureServer(rows: readonly ServerRow[]): Promise<void> {
  const [first] = rows
  if (first === undefined) return
  const { server, transport, mode, family } = first
  await using remote = transport === "http" ? await startRemote(server) : undefined
  const launch = remote === undefined ? stdio(server) : { type: "streamableHttp", url: remote.url }
  const found = new Map<ServerRow, string[]>(rows.map((row) => [row, []]))
  for (const others of [{}, { one: stdio("own-1x"), two: stdio("own-2x") }]) {
    await using svc = await startSvc({
      config: { mcpServers: { [NAME]: { ...launch, protocolVersion: mode }, ...others } },
      flags: FLAGS,
    })
    const state = await settled(svc.url)
    const alone = Object.keys(others).length === 0
    for (const row of rows) {
      const cells = found.get(row) ?? []
      for (const path of alone ? [`/servers/${NAME}/mcp`, "/mcp"] : ["/mcp"]) {
        const label = `${serverRowLine(row, [])} ${path} of ${alone ? 1 : 3}`
        if (row.era === "refused" || state !== "ready") {
          if ((row.era === "refused") !== (state !== "ready")) wrong.push(`${label}: svc says ${state}`)
          cells.push(state === "ready" ? "accepted" : "refused")
          continue
        }
        const alias = path === "/mcp" ? NAME : undefined
        const url = `${svc.url}${path}${row.tools === "search" ? "?tools=search" : ""}`
        const outcome = await measure(url, row, alias, () => restart(svc))
        if (alone && path === "/mcp" && isQuick(row) && row.transport === "stdio")
          throughOne.set(`${row.server} ${row.revision}`, outcome)
        cells.push(count(outcome))
        for (const [scenario, passes] of direct.get(`${yardstickOf(family, row.revision)} ${row.revision}`) ?? [])
          if (passes)
            judge(
              `${label} ${scenario}`,
              outcome.get(scenario) === true,
              DIFFERENCES.filter(
                (entry) => entry.side === "server" && entry.scenarios.includes(scenario) && entry.matches(row),
              ),
            )
      }
    }
  }
  for (const row of rows) {
    const cells = [count(direct.get(`${server} ${row.revision}`) ?? new Map()), ...(found.get(row) ?? [])]
    measured.set(row, cells)
    process.stdout.write(`${serverRowLine(row, cells)}\n`)
  }
}

/** Measures three replicas behind a load balancer: what passes through one svc must pass through them. */
async function measureReplicas(rows: readonly ReplicaRow[]): Promise<void> {
  const [first] = rows
  if (first === undefined) return
  const { server, processes } = first
  const launch = { ...stdio(server), ...(processes === "one" ? { replicas: "one" } : { env: { STATE_KEY } }) }
  await using cluster = await startCluster(3, { config: { mcpServers: { [NAME]: launch } }, flags: FLAGS })
  const ready = ({ url }: Instance) => eventually(async () => (await settled(url)) === "ready", 20_000)
  await Promise.all(cluster.replicas.map(ready))
  const again = async () => {
    await Promise.all(cluster.replicas.map(restart))
  }
  for (const row of rows) {
    const about = { ...row, family: "own", transport: "stdio", era: server === "own-1x" ? "legacy" : "both" } as const
    const outcome = await measure(`${cluster.url}/mcp`, about, NAME, again)
    const one = throughOne.get(`${server} ${row.revision}`) ?? new Map()
    replicaLines.push(replicaRowLine(row, [count(one), count(outcome)]))
    process.stdout.write(`${replicaLines.at(-1)}\n`)
    for (const [scenario, passes] of one)
      if (passes) judge(`${replicaRowLine(row, [])} ${scenario}`, outcome.get(scenario) === true, [])
  }
}

/** Runs the suite against an address, and repeats what may have been hindered; `again` gives the server new processes. */
async function measure(
  url: string,
  row: Pick<ServerRow, "family" | "transport" | "era" | "revision">,
  alias: string | undefined,
  again: () => Promise<void>,
): Promise<Outcome> {
  const outcome = new Map(await serverOutcome(url, row.revision, scenariosFor(row), { alias, each: isExtension(row) }))
  if (!leavesCallsBehind(row)) return outcome
  for (const scenario of [...outcome].flatMap(([name, passes]) => (passes ? [] : [name]))) {
    await again()
    for (const [name, passes] of await serverOutcome(url, row.revision, [scenario], { alias, each: true }))
      outcome.set(name, passes)
  }
  outcome.set(UNSTEADY, false)
  return outcome
}

/**
 * Whether scenarios hinder later ones. The suite's scenarios are several modern clients without sessions, and leave calls
 * open that wait for an answer; with calls of several clients in flight at a shared legacy stdio server, svc refuses the
 * server's questions. What fails is therefore repeated once, alone, with a new process of the server.
 */
function leavesCallsBehind({
  family,
  transport,
  era,
  revision,
}: Pick<ServerRow, "family" | "transport" | "era" | "revision">): boolean {
  return family !== "skills" && transport === "stdio" && era === "legacy" && revision === "2026-07-28"
}

/** Gives the measured server a new process. */
async function restart({ folder, url }: Instance): Promise<void> {
  const child = Bun.spawn({
    cmd: [SVC, "mcp", "restart", NAME, "--config-dir", folder],
    stdout: "ignore",
    stderr: "ignore",
  })
  await child.exited
  await eventually(async () => (await settled(url)) === "ready")
}

/** Notes what is wrong: a failure without an entry, or a pass with one. */
function judge(label: string, passes: boolean, entries: readonly Difference[]): void {
  for (const entry of entries) occurred.add(entry)
  if (!passes && entries.length === 0) wrong.push(`FAILS THROUGH svc: ${label}`)
  if (passes && entries.length > 0) wrong.push(`STALE, it passes: ${label}`)
}

function count(outcome: Outcome): string {
  return `${[...outcome.values()].filter(Boolean).length}/${outcome.size}`
}

/** Returns the state in which the measured server stays. */
async function settled(base: string): Promise<string> {
  let state = ""
  await eventually(async () => {
    const response = await fetch(`${base}/health/mcp/${NAME}`)
    state = ((await response.json()) as { state: string }).state
    return !["pending", "loading", "stopped"].includes(state)
  })
  return state
}

function stdio(server: ServerName): object {
  if (server === "sdk-1x" || server === "sdk-2x") throw new Error(`${server} does not serve stdio`)
  const [file, ...args] = SERVERS[server]
  return { command: "bun", args: [fixture(file), ...args] }
}

/** Starts the server over HTTP. */
async function startRemote(server: ServerName): Promise<AsyncDisposable & { readonly url: string }> {
  if (server !== "sdk-1x" && server !== "sdk-2x") {
    const { url, stop } = await startHttp(...SERVERS[server])
    return { url, [Symbol.asyncDispose]: stop }
  }
  if (references === undefined) throw new Error(`${server} is measured with --all only`)
  const port = await freePort()
  const child = Bun.spawn({
    cmd: ["bun", references[server]],
    env: { ...process.env, PORT: String(port) },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
  })
  const url = `http://127.0.0.1:${port}/mcp`
  await eventually(async () => (await fetch(url).catch(() => undefined)) !== undefined)
  return {
    url,
    async [Symbol.asyncDispose]() {
      child.kill()
      await child.exited
    },
  }
}

/** Runs `work` for each item, `jobs` at a time. */
async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = [...items]
  await Promise.all(
    Array.from({ length: jobs }, async () => {
      for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item)
    }),
  )
}
