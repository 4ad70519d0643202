/** Kills svc while it starts its servers, or its reaper first: no server may remain. SVC_CHAOS_ROUNDS sets the number of rounds. */
import { afterEach, expect, test } from "bun:test"
import { rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { eventually, freshEnv, freshFolder, processes, SVC, startSvc } from "../e2e/harness.ts"

const ROUNDS = Number(process.env.SVC_CHAOS_ROUNDS ?? 6)
const SERVERS = 30
const WINDOW_MS = 200

const mark = `svc-mark-${crypto.randomUUID()}`
afterEach(() => {
  for (const pid of processes(mark)) process.kill(pid, "SIGKILL")
})

/** Servers that ignore the end of their stdin and every polite signal. */
const stubborn = () =>
  Object.fromEntries(
    Array.from({ length: SERVERS }, (_, index) => [
      `s${index}`,
      { command: "sh", args: ["-c", 'trap "" TERM HUP; while :; do sleep 1000; done', mark] },
    ]),
  )

test(
  "a kill in the first moments leaves no server behind [process:killed]",
  async () => {
    const folder = freshFolder()
    writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: stubborn() }))
    const cmd = [SVC, "serve", "--config-dir", folder, "--port", "0"]
    let started = 0
    for (let round = 0; round < ROUNDS; round++) {
      const svc = Bun.spawn({ cmd, env: freshEnv(folder), stdin: "ignore", stdout: "ignore", stderr: "ignore" })
      // Half of the kills come at random, half as soon as a server appears.
      if (round % 2 === 0) await Bun.sleep(Math.random() * WINDOW_MS)
      else await eventually(() => processes(mark).length > 0)
      started += processes(mark).length
      svc.kill("SIGKILL")
      await svc.exited
    }
    expect(started).toBeGreaterThan(0)
    await eventually(() => processes(mark).length === 0)
    rmSync(folder, { recursive: true, force: true })
  },
  ROUNDS * 2000 + 30_000,
)

test("a reaper that was killed is replaced, and the next one knows the servers", async () => {
  await using svc = await startSvc({ config: { mcpServers: stubborn() } })
  await eventually(() => processes(mark).length >= SERVERS)
  const reapers = () => childrenOf(svc.pid).filter(({ args }) => args.includes("while read -r op id"))
  const [first] = await eventually(() => (reapers().length === 1 ? reapers() : undefined))
  process.kill(first?.pid ?? 0, "SIGKILL")
  await eventually(() => reapers().some(({ pid }) => pid !== first?.pid))
  svc.signal("SIGKILL")
  await svc.exited
  await eventually(() => processes(mark).length === 0)
}, 30_000)

// ---

function childrenOf(parent: number): { readonly pid: number; readonly args: string }[] {
  const { stdout } = Bun.spawnSync(["ps", "-o", "pid=,args=", "-ww", "--ppid", String(parent)])
  return stdout
    .toString()
    .split(/\n(?= *\d+ )/)
    .map((text) => ({ pid: Number.parseInt(text, 10), args: text }))
}
