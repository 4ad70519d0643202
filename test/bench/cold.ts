/** The time from a cold start to a complete `tools/list`: svc with its servers, compared with the same servers without svc. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Figure, Measured } from "./figure.ts"
import { serversOf } from "./lists.ts"
import { median } from "./rig.ts"
import { backend, OPENING, openSession, SVC } from "./targets.ts"

const TOOLS = 20

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
  return { figures }
}

// ---

const LIST = { jsonrpc: "2.0", id: 2, method: "tools/list" }

/** Returns the milliseconds until each of several servers, started at once, has listed its tools. */
async function startDirectly(servers: number): Promise<number> {
  const started = performance.now()
  const children = Array.from({ length: servers }, () =>
    Bun.spawn({ cmd: backend("--tools", String(TOOLS)), stdin: "pipe", stdout: "pipe", stderr: "ignore" }),
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
      stdin.write(`${OPENING[1]}\n${JSON.stringify(LIST)}\n`)
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
  const folder = mkdtempSync(join(tmpdir(), "svc-bench-"))
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: serversOf(servers, TOOLS) }))
  const started = performance.now()
  const child = Bun.spawn({
    cmd: [SVC, "serve", "--config-dir", folder, "--port", "0"],
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
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
    body: JSON.stringify(LIST),
  })
  const { result } = (await response.json()) as { result: { tools: unknown[] } }
  const took = performance.now() - started
  child.kill("SIGTERM")
  await child.exited
  rmSync(folder, { recursive: true, force: true })
  if (result.tools.length !== servers * TOOLS)
    throw new Error(`the first list held ${result.tools.length} tools of ${servers * TOOLS}`)
  return took
}
