/**
 * Measures the throughput of the health endpoints relative to a bare Bun.serve route in the same run: `bun
 * test/bench/health.ts`. Targets: /health/live at least half, /health (full, 50 servers) at least a fifth.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const ROUNDS = 5
const ROUND_MS = 1000
const CONNECTIONS = 16
const ROOT = join(import.meta.dir, "..", "..")
const folder = mkdtempSync(join(tmpdir(), "svc-bench-"))

/** Returns the requests per second over keep-alive connections. */
async function rate(port: number, path: string): Promise<number> {
  const request = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`
  const stop = performance.now() + ROUND_MS
  let done = 0
  await Promise.all(
    Array.from(
      { length: CONNECTIONS },
      () =>
        new Promise<void>((resolve) => {
          let need = 0
          let head = ""
          void Bun.connect({
            hostname: "127.0.0.1",
            port,
            socket: {
              open: (socket) => void socket.write(request),
              data(socket, data) {
                if (need <= 0) {
                  head += data.toString("latin1")
                  const end = head.indexOf("\r\n\r\n")
                  if (end < 0) return
                  if (!head.startsWith("HTTP/1.1 200")) throw new Error(head.slice(0, 200))
                  need = Number(/content-length: (\d+)/i.exec(head)?.[1]) - (head.length - end - 4)
                  head = ""
                } else need -= data.length
                if (need > 0) return
                done++
                if (performance.now() > stop) {
                  socket.end()
                  resolve()
                } else socket.write(request)
              },
            },
          })
        }),
    ),
  )
  return (done * 1000) / ROUND_MS
}

writeFileSync(
  join(folder, "bare.ts"),
  "const s = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('ok') }); console.log(s.port)",
)
const bare = Bun.spawn({ cmd: ["bun", join(folder, "bare.ts")], stdout: "pipe" })
const barePort = Number(new TextDecoder().decode((await bare.stdout.getReader().read()).value).trim())
const servers = Object.fromEntries(
  Array.from({ length: 50 }, (_, index) => [
    `s${index}`,
    { command: "bun", args: [join(ROOT, "test/fixtures/echo.ts")] },
  ]),
)
writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: servers }))
const svc = Bun.spawn({
  cmd: [
    join(ROOT, "dist/svc"),
    "serve",
    "--config-dir",
    folder,
    "--port",
    "0",
    "--health-info-level",
    "full",
    "--health-rate-limit",
    "off",
  ],
  stderr: "pipe",
})
let said = ""
const reader = svc.stderr.getReader()
while ((said.match(/: connected/g) ?? []).length < 50) said += new TextDecoder().decode((await reader.read()).value)
const port = Number(/listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(said)?.[1])

const results: Record<string, number[]> = { bare: [], live: [], full: [] }
for (let round = 0; round < ROUNDS; round++) {
  results.bare?.push(await rate(barePort, "/"))
  results.live?.push(await rate(port, "/health/live"))
  results.full?.push(await rate(port, "/health"))
}
bare.kill()
svc.kill()
await svc.exited
rmSync(folder, { recursive: true, force: true })
const median = (name: string) => (results[name] ?? []).sort((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? 0
const floor = median("bare")
for (const [name, aim] of [
  ["live", 0.5],
  ["full", 0.2],
] as const)
  process.stdout.write(
    `/health${name === "live" ? "/live" : " (full, 50 servers)"}: ${Math.round(median(name))}/s, ${(median(name) / floor).toFixed(2)} of a bare route (target ${aim})\n`,
  )
