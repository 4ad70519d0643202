/**
 * Measures what a server that floods its stderr as fast as possible costs: memory of svc, and latency of another server.
 * `bun test/bench/flood.ts [SECONDS]`. Targets: less than 20 MB of growth; the other server's p99 less than doubles.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const SECONDS = Number(process.argv[2] ?? 10)
const ROOT = join(import.meta.dir, "..", "..")
const folder = mkdtempSync(join(tmpdir(), "svc-bench-"))
const FLOOD = join(folder, "flood.ts")
writeFileSync(
  FLOOD,
  `const chunk = Buffer.from(process.argv[2] === "lines" ? ("some line of a log " + "x".repeat(80) + "\\n").repeat(600) : "y".repeat(60000))
const { writeSync } = require("node:fs")
let on = false
let rest = ""
process.stdin.on("data", (data) => {
  for (const line of (rest + data).split("\\n").slice(0, -1)) {
    const { id, method } = JSON.parse(line)
    if (id === undefined) continue
    const result = method === "initialize" ? { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "f", version: "1" } } : method === "tools/list" ? { tools: [{ name: "flood", inputSchema: { type: "object" } }] } : method === "tools/call" ? { content: [] } : undefined
    process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...(result ? { result } : { error: { code: -32601, message: "no" } }) }) + "\\n")
    if (method === "tools/call") on = true
  }
})
process.stdin.on("end", () => process.exit(0))
let bytes = 0
const go = () => { if (on) for (let n = 0; n < 20; n++) try { bytes += writeSync(2, chunk) } catch {} ; setImmediate(go) }
go()
setInterval(() => { try { require("node:fs").writeFileSync(process.argv[3], String(bytes)) } catch {} }, 200)
`,
)

const pss = (pid: number) =>
  Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1]) / 1024

for (const kind of ["lines", "no line breaks"] as const) {
  const count = join(folder, "bytes")
  writeFileSync(
    join(folder, "mcp.json"),
    JSON.stringify({
      mcpServers: {
        flood: { command: "bun", args: [FLOOD, kind, count] },
        calm: { command: "bun", args: [join(ROOT, "test/fixtures/echo.ts")] },
      },
    }),
  )
  const svc = Bun.spawn({
    cmd: [join(ROOT, "dist/svc"), "serve", "--config-dir", folder, "--port", "0"],
    stderr: "pipe",
  })
  let said = ""
  const reading = (async () => {
    for await (const chunk of svc.stderr) if (said.length < 100_000) said += new TextDecoder().decode(chunk)
  })()
  while ((said.match(/: connected/g) ?? []).length < 2) await Bun.sleep(10)
  const url = /listening on (\S+)/.exec(said)?.[1] ?? ""
  const call = async (name: string) => {
    const started = performance.now()
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: {
          name,
          arguments: {},
          _meta: {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
          },
        },
      }),
    })
    await response.text()
    return performance.now() - started
  }
  const p99 = async (ms: number) => {
    const times: number[] = []
    const end = performance.now() + ms
    while (performance.now() < end) {
      times.push(await call("calm_svc_echo"))
      await Bun.sleep(1)
    }
    times.sort((a, b) => a - b)
    return times[Math.floor(times.length * 0.99)] ?? 0
  }
  await p99(500)
  const calm = await p99(2000)
  const before = pss(svc.pid)
  await call("flood_svc_flood")
  const loud = await p99(SECONDS * 1000)
  const after = pss(svc.pid)
  const written = Number(readFileSync(count, "utf8")) / 1024 / 1024
  process.stdout.write(
    `${kind}: ${Math.round(written)} MB in ${SECONDS} s; memory ${before.toFixed(1)} -> ${after.toFixed(1)} MB; p99 of the other server ${calm.toFixed(2)} -> ${loud.toFixed(2)} ms\n`,
  )
  svc.kill()
  await svc.exited
  await reading
}
rmSync(folder, { recursive: true, force: true })
