/**
 * For two minutes, one of twenty supervised servers is killed every 50 ms, while clients keep calling. SVC_CHAOS_MS shortens
 * the test.
 */
import { expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { eventually, processes, ROOT, startSvc } from "../e2e/harness.ts"

const SERVERS = 20
const CALLERS = 16
const KILL_EVERY_MS = 50
const REQUEST_TIMEOUT_MS = 5000
const DURATION_MS = Number(process.env.SVC_CHAOS_MS ?? 120_000)

/** The anonymous memory of a process, in KiB: unlike the pages of the program, no other svc shares it. */
const memoryOf = (pid: number) =>
  Number(/^Anonymous:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1])
const descriptorsOf = (pid: number) => readdirSync(`/proc/${pid}/fd`).length
const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

test(
  "every call ends correctly, and svc is in its former state when the killing stops",
  async () => {
    const mark = `svc-mark-${crypto.randomUUID()}`
    const names = Array.from({ length: SERVERS }, (_, index) => `s${index}`)
    const server = (name: string) => ({
      command: "bun",
      args: [join(ROOT, "test/fixtures/echo.ts"), "--name", name, mark],
      restartOnExit: true,
      restartDelay: 20,
      maxRestarts: 0,
      requestTimeout: REQUEST_TIMEOUT_MS,
    })
    await using svc = await startSvc({
      config: { mcpServers: Object.fromEntries(names.map((name) => [name, server(name)])) },
      flags: ["--startup-wait", "30s"],
    })
    const clients = await Promise.all(
      Array.from({ length: CALLERS }, async () => {
        const client = new Client({ name: "chaos", version: "1" })
        await client.connect(new StreamableHTTPClientTransport(new URL(`${svc.url}/mcp`)) as never)
        return client
      }),
    )
    const ready = () =>
      fetch(`${svc.url}/health/ready`).then((response) => response.json()) as Promise<{
        backendSupervision: { connected: number }
      }>
    await eventually(async () => (await ready()).backendSupervision.connected === SERVERS, 30_000)
    // Callers keep their connections open, so descriptors are counted while all callers call at once.
    await Promise.all(clients.map((client) => client.callTool({ name: `${names[0]}_svc_echo`, arguments: { m: "" } })))
    const descriptors = descriptorsOf(svc.pid)

    const outcomes = { right: 0, failed: 0, wrong: [] as string[], slowest: 0 }
    let running = true
    const callers = clients.map(async (client, caller) => {
      for (let count = 0; running; count++) {
        const name = names[(caller * 7 + count) % SERVERS] as string
        const m = `${name} ${caller} ${count}`
        const began = performance.now()
        try {
          const result = (await client.callTool({ name: `${name}_svc_echo`, arguments: { m } })) as {
            isError?: boolean
            content: { text: string }[]
          }
          const text = result.content[0]?.text ?? ""
          if (result.isError === true && text.startsWith(`${name}: `)) outcomes.failed++
          else if (text === m) outcomes.right++
          else outcomes.wrong.push(`${m} -> ${text}`)
        } catch (error) {
          // While a server is down, its tools are too.
          if (error instanceof Error && error.message.includes("Unknown tool")) outcomes.failed++
          else outcomes.wrong.push(`${m} -> ${error}`)
          await Bun.sleep(1)
        }
        outcomes.slowest = Math.max(outcomes.slowest, performance.now() - began)
      }
    })
    const memory: number[] = []
    const end = Date.now() + DURATION_MS
    for (let tick = 0; Date.now() < end; tick++) {
      const alive = processes(mark)
      const victim = alive[Math.floor(Math.random() * alive.length)]
      if (victim !== undefined)
        try {
          process.kill(victim, "SIGKILL")
        } catch {
          // The process has already ended.
        }
      if (tick % 20 === 0) memory.push(memoryOf(svc.pid))
      await Bun.sleep(KILL_EVERY_MS)
    }
    running = false
    await Promise.all(callers)
    await eventually(async () => (await ready()).backendSupervision.connected === SERVERS, 30_000)
    process.stderr.write(
      `chaos: ${outcomes.right} right, ${outcomes.failed} failed, slowest ${Math.round(outcomes.slowest)} ms; memory ${memory[0]} … ${memory.at(-1)} KiB\n`,
    )
    expect(outcomes.wrong.slice(0, 5)).toEqual([])
    expect(outcomes.right).toBeGreaterThan(1000)
    expect(outcomes.slowest).toBeLessThan(REQUEST_TIMEOUT_MS + 2000)
    await eventually(() => processes(mark).length === SERVERS)
    // The callers' connections come and go; one lost descriptor per killed process would add up to thousands.
    await eventually(() => descriptorsOf(svc.pid) <= descriptors + CALLERS)
    // Compares the memory after the first half with the memory at the end: until then, a slow machine still compiles code.
    const settled = memory.slice(Math.floor(memory.length / 2))
    expect(median(settled.slice(-5))).toBeLessThan(median(settled.slice(0, 5)) * 1.2)
    await Promise.all(clients.map((client) => client.close()))
  },
  DURATION_MS + 120_000,
)
