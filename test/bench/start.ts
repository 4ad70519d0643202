/**
 * Measures a cold start in milliseconds, in interleaved rounds: `svc --version`, `svc mcp list`, the first 200 of /health/live,
 * and the tools of one stdio server, compared with a bare binary and with the server alone. `bun test/bench/start.ts [--json]
 * [OTHER…]` also measures other builds of svc.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const ROUNDS = 21
const SVC = join(import.meta.dir, "..", "..", "dist", "svc")
const others = process.argv.slice(2).filter((word) => word !== "--json")
const folder = mkdtempSync(join(tmpdir(), "svc-bench-"))

async function freePort(): Promise<number> {
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() })
  const { port } = server
  await server.stop(true)
  return port as number
}

/** Returns the milliseconds until the path answers 200. */
async function untilAnswer(cmd: (port: number) => string[]): Promise<number> {
  const port = await freePort()
  const started = performance.now()
  const child = Bun.spawn({
    cmd: cmd(port),
    env: { PATH: process.env.PATH ?? "", HOME: folder },
    stdout: "ignore",
    stderr: "ignore",
  })
  for (;;) {
    const response = await fetch(`http://127.0.0.1:${port}/health/live`).catch(() => undefined)
    if (response?.status === 200) break
    await Bun.sleep(0.5)
  }
  const took = performance.now() - started
  child.kill("SIGTERM")
  await child.exited
  return took
}

function untilExit(cmd: string[]): number {
  const started = performance.now()
  Bun.spawnSync({ cmd, env: { PATH: process.env.PATH ?? "", HOME: folder } })
  return performance.now() - started
}

const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "bench", version: "1" } },
}
const LIST = { jsonrpc: "2.0", id: 2, method: "tools/list", params: {} }

/** Returns the milliseconds until svc lists the tool of its one server. */
async function untilListed(svc: string): Promise<number> {
  const port = await freePort()
  const started = performance.now()
  const child = Bun.spawn({
    cmd: [svc, "serve", "--config-dir", join(folder, "one"), "--port", String(port)],
    env: { PATH: process.env.PATH ?? "", HOME: folder },
    stdout: "ignore",
    stderr: "ignore",
  })
  const post = (body: object, session?: string) =>
    fetch(`http://127.0.0.1:${port}/mcp`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(session === undefined ? {} : { "mcp-session-id": session }),
      },
      body: JSON.stringify(body),
    }).catch(() => undefined)
  for (;;) {
    const opened = await post(INITIALIZE)
    const session = opened?.headers.get("mcp-session-id")
    if (session && (await (await post(LIST, session))?.text())?.includes("tool")) break
    await Bun.sleep(0.5)
  }
  const took = performance.now() - started
  child.kill("SIGTERM")
  await child.exited
  return took
}

/** Returns the milliseconds until the server lists its tool to a client on its pipes. */
async function untilListedDirectly(): Promise<number> {
  const started = performance.now()
  const child = Bun.spawn({ cmd: [bare, "mcp"], stdin: "pipe", stdout: "pipe", stderr: "ignore" })
  child.stdin.write(`${JSON.stringify(INITIALIZE)}\n${JSON.stringify(LIST)}\n`)
  child.stdin.flush()
  let text = ""
  const decoder = new TextDecoder()
  for await (const bytes of child.stdout) {
    text += decoder.decode(bytes)
    if (text.includes('"tools":[')) break
  }
  const took = performance.now() - started
  child.kill("SIGTERM")
  await child.exited
  return took
}

const bare = join(folder, "bare")
writeFileSync(
  join(folder, "bare.ts"),
  `if (process.argv[2] !== "mcp") Bun.serve({ hostname: "127.0.0.1", port: Number(process.argv[2]), fetch: () => new Response("ok") })
else for await (const line of console) {
  const { id, method, params } = JSON.parse(line)
  const result = method === "initialize"
    ? { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "one", version: "1" } }
    : { tools: [{ name: "tool", inputSchema: { type: "object" } }] }
  const error = { code: -32601, message: "no such method" }
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, ...(/^(initialize|tools\\/list|ping)$/.test(method) ? { result } : { error }) }))
}`,
)
const built = await Bun.build({
  entrypoints: [join(folder, "bare.ts")],
  minify: true,
  bytecode: true,
  format: "esm",
  compile: { outfile: bare, autoloadDotenv: false, autoloadBunfig: false },
})
if (!built.success) throw new AggregateError(built.logs)
writeFileSync(join(folder, "mcp.json"), "{}")
mkdirSync(join(folder, "one"))
writeFileSync(
  join(folder, "one", "mcp.json"),
  JSON.stringify({ mcpServers: { one: { command: bare, args: ["mcp"], protocolVersion: "legacy" } } }),
)

const times = new Map<string, number[]>()
const note = (what: string, took: number) => times.set(what, [...(times.get(what) ?? []), took])
for (let round = 0; round < ROUNDS; round++) {
  note("bare Bun.serve, first answer", await untilAnswer((port) => [bare, String(port)]))
  note("one server listed, directly", await untilListedDirectly())
  for (const [at, svc] of [SVC, ...others].entries()) {
    const name = at === 0 ? "svc" : `svc (${at})`
    note(`${name} --version`, untilExit([svc, "--version"]))
    note(`${name} mcp list`, untilExit([svc, "mcp", "list", "--config-dir", folder]))
    const serve = (port: number) => [svc, "serve", "--config-dir", folder, "--port", String(port)]
    note(`${name} serve, first /health/live`, await untilAnswer(serve))
    note(`${name} serve, one server listed`, await untilListed(svc))
  }
}
rmSync(folder, { recursive: true, force: true })

const rows = [...times].map(([what, values]) => {
  const sorted = values.sort((a, b) => a - b)
  const at = (part: number) => Math.round((sorted[Math.floor((sorted.length - 1) * part)] ?? 0) * 10) / 10
  return { what, least: at(0), median: at(0.5), worst: at(1) }
})
process.stdout.write(
  process.argv.includes("--json")
    ? `${JSON.stringify(rows)}\n`
    : `${rows.map(({ what, least, median, worst }) => `${what.padEnd(36)} least ${least}, median ${median}, worst ${worst} ms`).join("\n")}\n`,
)
