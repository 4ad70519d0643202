/**
 * How long a cold start takes: `svc --version`, and the first 200 of /health/live, beside a bare Bun.serve binary.
 * `bun test/bench/start.ts [--json]`; milliseconds, medians of interleaved rounds.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const ROUNDS = 15
const SVC = join(import.meta.dir, "..", "..", "dist", "svc")
const folder = mkdtempSync(join(tmpdir(), "svc-bench-"))

async function freePort(): Promise<number> {
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() })
  const { port } = server
  await server.stop(true)
  return port as number
}

/** Milliseconds until the path answers 200. */
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

const bare = join(folder, "bare")
writeFileSync(
  join(folder, "bare.ts"),
  "Bun.serve({ hostname: '127.0.0.1', port: Number(process.argv[2]), fetch: () => new Response('ok') })",
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

const times: Record<string, number[]> = {
  "svc --version": [],
  "bare Bun.serve, first answer": [],
  "svc serve, first /health/live": [],
}
for (let round = 0; round < ROUNDS; round++) {
  times["svc --version"]?.push(untilExit([SVC, "--version"]))
  times["bare Bun.serve, first answer"]?.push(await untilAnswer((port) => [bare, String(port)]))
  times["svc serve, first /health/live"]?.push(
    await untilAnswer((port) => [SVC, "serve", "--config-dir", folder, "--port", String(port)]),
  )
}
rmSync(folder, { recursive: true, force: true })

const rows = Object.entries(times).map(([what, values]) => {
  const sorted = values.sort((a, b) => a - b)
  const at = (part: number) => Math.round((sorted[Math.floor((sorted.length - 1) * part)] ?? 0) * 10) / 10
  return { what, median: at(0.5), worst: at(1) }
})
process.stdout.write(
  process.argv.includes("--json")
    ? `${JSON.stringify(rows)}\n`
    : `${rows.map(({ what, median, worst }) => `${what.padEnd(32)} ${String(median).padStart(7)} ms   worst ${worst} ms`).join("\n")}\n`,
)
