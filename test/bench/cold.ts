/**
 * The time from a cold start to a complete `tools/list`, and to the result of a call of a server that is asleep: svc, compared
 * with the same servers without svc.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Figure, Measured } from "./figure.ts"
import { serversOf } from "./lists.ts"
import { median, quantile } from "./rig.ts"
import { backend, callFrame, OPENING, openSession, SVC, startSvc, stdio } from "./targets.ts"

const TOOLS = 20
/** The number of calls of a server that is asleep. */
const WAKES = 60

export async function measureCold(rounds: number): Promise<Measured> {
  const figures: Figure[] = []
  for (const servers of [1, 50]) {
    const direct: number[] = []
    const through: number[] = []
    for (let round = 0; round < rounds; round++) {
      direct.push(await startDirectly(servers))
      through.push(await startThrough(servers))
    }
    const from = `${median(through).toFixed(0)} ms vs. ${median(direct).toFixed(0)} ms`
    figures.push(
      servers === 1
        ? {
            what: "cold start, 1 stdio server, added to the time of the server without svc",
            value: median(through.map((ms, n) => ms - (direct[n] ?? 0))),
            unit: "ms",
            aim: { most: 35 },
            from,
          }
        : {
            what: `cold start, ${servers} stdio servers, relative to the same servers without svc`,
            value: median(through.map((ms, n) => ms / (direct[n] ?? Number.NaN))),
            unit: "×",
            aim: { most: 1.3 },
            from,
          },
    )
  }
  return { figures: [...figures, await measureAsleep(rounds), ...(await measureWake())] }
}

// ---

/** Compares the first list of fifty servers that are asleep with that of one server, which svc starts. */
async function measureAsleep(rounds: number): Promise<Figure> {
  const servers = 50
  await using known = newFolder(servers)
  await startIn(known.folder, servers, ["--lazy-start"])
  const asleep: number[] = []
  const one: number[] = []
  for (let round = 0; round < rounds; round++) {
    asleep.push(await startIn(known.folder, servers, ["--lazy-start"]))
    one.push(await startThrough(1))
  }
  return {
    what: `cold start, ${servers} stdio servers that are asleep, relative to 1 server that svc starts`,
    value: median(asleep.map((ms, n) => ms / (one[n] ?? Number.NaN))),
    unit: "×",
    aim: { most: 1.6 },
    from: `${median(asleep).toFixed(0)} ms vs. ${median(one).toFixed(0)} ms`,
  }
}

/** Compares a call of a server that is asleep with a start of the same server without svc and a call of it. */
async function measureWake(): Promise<readonly Figure[]> {
  await using svc = await startSvc({ one: { ...stdio(), idleTimeout: 50 } }, ["--health-info-level", "basic"])
  const headers = { ...JSON_HEADERS, ...(await openSession(svc)) }
  const url = `http://127.0.0.1:${svc.port}`
  const isAsleep = async () => (await (await fetch(`${url}/health`)).text()).includes('"asleep":true')
  const added: number[] = []
  for (let wake = 0; wake < WAKES; wake++) {
    const alone = await runDirectly(callFrame(2, "echo"))
    while (!(await isAsleep())) await Bun.sleep(10)
    const body = callFrame(2, svc.tool("echo"))
    const started = performance.now()
    const response = await fetch(`${url}${svc.path}`, { method: "POST", headers, body })
    const answer = await response.text()
    if (!answer.includes("hello world")) throw new Error(`a call of a server that was asleep got ${answer}`)
    added.push(performance.now() - started - alone)
  }
  return (
    [
      [0.5, 30],
      [0.95, 60],
    ] as const
  ).map(([share, most]) => ({
    what: `first call of a server that is asleep, added to its start and call without svc, quantile ${share}`,
    value: quantile(added, share),
    unit: "ms",
    aim: { most },
    from: `${WAKES} pairs`,
  }))
}

const LIST = { jsonrpc: "2.0", id: 2, method: "tools/list" }

const JSON_HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" }

/** Returns the milliseconds until each of several servers, started at once, has listed its tools. */
const startDirectly = (servers: number): Promise<number> =>
  runDirectly(JSON.stringify(LIST), servers, "--tools", String(TOOLS))

/** Returns the milliseconds until each of several servers, started at once, has answered a request with the id 2. */
async function runDirectly(request: string, servers = 1, ...flags: string[]): Promise<number> {
  const started = performance.now()
  const children = Array.from({ length: servers }, () =>
    Bun.spawn({ cmd: backend(...flags), stdin: "pipe", stdout: "pipe", stderr: "ignore" }),
  )
  await Promise.all(
    children.map(async ({ stdin, stdout }) => {
      const reader = stdout.getReader()
      let text = ""
      const until = async (sign: string) => {
        while (!text.includes(sign)) text += new TextDecoder().decode((await reader.read()).value)
      }
      stdin.write(`${OPENING[0]}\n`)
      stdin.flush()
      await until('"id":1')
      stdin.write(`${OPENING[1]}\n${request}\n`)
      stdin.flush()
      await until('"id":2')
    }),
  )
  const took = performance.now() - started
  for (const child of children) child.kill("SIGKILL")
  await Promise.all(children.map((child) => child.exited))
  return took
}

/** Returns the milliseconds from the start of svc until a client has the tools of all servers. */
async function startThrough(servers: number): Promise<number> {
  await using fresh = newFolder(servers)
  return await startIn(fresh.folder, servers)
}

function newFolder(servers: number): AsyncDisposable & { readonly folder: string } {
  const folder = mkdtempSync(join(tmpdir(), "svc-bench-"))
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: serversOf(servers, TOOLS) }))
  return { folder, [Symbol.asyncDispose]: async () => rmSync(folder, { recursive: true, force: true }) }
}

async function startIn(folder: string, servers: number, flags: readonly string[] = []): Promise<number> {
  const started = performance.now()
  const child = Bun.spawn({
    cmd: [SVC, "serve", "--config-dir", folder, "--port", "0", ...flags],
    env: { PATH: process.env.PATH ?? "", HOME: folder },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  })
  let said = ""
  const decoder = new TextDecoder()
  const reader = child.stderr.getReader()
  while (!said.includes("/mcp\n")) said += decoder.decode((await reader.read()).value)
  void (async () => {
    while (!(await reader.read()).done);
  })()
  const target = { port: Number(/listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(said)?.[1]), path: "/mcp" }
  const headers = await openSession(target)
  const response = await fetch(`http://127.0.0.1:${target.port}/mcp`, {
    method: "POST",
    headers: { ...JSON_HEADERS, ...headers },
    body: JSON.stringify(LIST),
  })
  const { result } = (await response.json()) as { result: { tools: unknown[] } }
  const took = performance.now() - started
  child.kill("SIGTERM")
  await child.exited
  if (result.tools.length !== servers * TOOLS)
    throw new Error(`the first list held ${result.tools.length} tools of ${servers * TOOLS}`)
  return took
}
