/** `svc upgrade` while svc runs: the new program takes over, and no call fails. */
import { expect, test } from "bun:test"
import { linkSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { isAlive } from "../../src/store/files.ts"
import { runProgram } from "../process.ts"
import { echo, eventually, fixture, freshEnv, freshFolder, modernRequest, SVC, startSvc } from "./harness.ts"

/** Only there, two processes can share a port. */
const NOT_LINUX = process.platform !== "linux"

/** An svc that is installed in a home of its own, with the previous program beside it: a rollback is an upgrade, too. */
function installSvc(previous: string | undefined) {
  const home = realpathSync(freshFolder())
  const bin = join(home, ".local", "bin")
  mkdirSync(bin, { recursive: true })
  const program = join(bin, "svc")
  linkSync(SVC, program)
  if (previous === undefined) linkSync(SVC, join(bin, "svc.previous"))
  else writeFileSync(join(bin, "svc.previous"), previous, { mode: 0o755 })
  const run = (...args: readonly string[]) => runProgram([program, ...args], { cwd: home, env: freshEnv(home) })
  return { home, program, run }
}

type Home = ReturnType<typeof installSvc>

const configOf = ({ home }: Home, config: unknown) => {
  mkdirSync(join(home, ".config", "svc"), { recursive: true })
  writeFileSync(join(home, ".config", "svc", "mcp.json"), JSON.stringify(config))
}

async function startInBackground(home: Home) {
  const { stdout } = await home.run("serve", "--background", "--json", "--port", "0", "--wait", "20s")
  const { pid, address } = JSON.parse(stdout) as { pid: number; address: string }
  return { pid, address }
}

const running = async (
  home: Home,
): Promise<{ readonly pid: number; readonly address: string; readonly startedBy: string }> =>
  JSON.parse((await home.run("ps", "--json")).stdout).running[0]

const legacyRequest = (id: number, method: string, params: object, session?: string): RequestInit => ({
  method: "POST",
  headers: {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    ...(session === undefined ? {} : { "mcp-session-id": session, "mcp-protocol-version": "2025-11-25" }),
  },
  body: JSON.stringify({ jsonrpc: "2.0", id, method, params }),
})

async function openSession(address: string): Promise<string> {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } }
  const response = await fetch(address, legacyRequest(1, "initialize", params))
  await response.text()
  return response.headers.get("mcp-session-id") ?? ""
}

/** Calls a tool again and again until `stop`: in sessions and without, over connections that stay open or not. */
function callers(address: string, sessions: readonly string[]) {
  const failures: unknown[] = []
  let calls = 0
  let isOver = false
  const caller = async (requestOf: (params: Record<string, unknown>) => RequestInit) => {
    while (!isOver) {
      const n = calls++
      try {
        const response = await fetch(address, requestOf({ name: "one_svc_echo", arguments: { m: `m${n}` } }))
        const text = await response.text()
        if (!text.includes(`"m${n}"`)) failures.push([response.status, text])
      } catch (error) {
        failures.push(String(error))
      }
    }
  }
  const all = Promise.all([
    ...[{}, {}, { connection: "close" }, { connection: "close" }].map((headers) =>
      caller((params) => modernRequest("tools/call", params, headers)),
    ),
    ...sessions.map((session) => caller((params) => legacyRequest(2, "tools/call", params, session))),
  ])
  return {
    failures,
    calls: () => calls,
    async stop() {
      isOver = true
      await all
    },
  }
}

test.skipIf(NOT_LINUX)(
  "a new program takes over from svc in the background on its port, and no call fails [cli:upgrade:handover]",
  async () => {
    const home = installSvc(undefined)
    configOf(home, { mcpServers: { one: echo() } })
    const { pid, address } = await startInBackground(home)
    const sessions = await Promise.all([1, 2, 3].map(() => openSession(address)))
    const load = callers(address, sessions)
    await eventually(() => load.calls() > 100)
    const done = await home.run("upgrade", "--rollback")
    expect(done.code).toBe(0)
    const [, successor = ""] = /process \d+ hands over to process (\d+)/.exec(done.stderr) ?? []
    // The next command finds the successor.
    const now = await running(home)
    expect([now?.pid, now?.address, now?.startedBy]).toEqual([Number(successor), address, "background"])
    const before = load.calls()
    await eventually(() => load.calls() > before + 200)
    expect(isAlive(pid)).toBe(false)
    await load.stop()
    expect(load.failures).toEqual([])
    expect((await home.run("stop")).stdout).toContain(successor)
  },
  60_000,
)

test.skipIf(NOT_LINUX)(
  "if the new program does not start, svc goes on [cli:upgrade:handover]",
  async () => {
    const home = installSvc(
      '#!/bin/sh\n[ "$1" = --version ] && echo "9.9.9 (abc)" && exit 0\necho "svc: broken" >&2\nexit 7\n',
    )
    configOf(home, { mcpServers: { one: echo() } })
    const { pid, address } = await startInBackground(home)
    const done = await home.run("upgrade", "--rollback")
    expect(done.stderr).toContain(
      `process ${pid} stays on the old version until it starts again: the new svc ended with exit code 7`,
    )
    expect((await fetch(address.replace("/mcp", "/health/live"))).status).toBe(200)
    // The installed program is the broken one now.
    process.kill(pid, "SIGTERM")
    await eventually(() => !isAlive(pid))
    expect(readFileSync(join(home.home, ".config", "svc", "svc.log"), "utf8")).toContain("stopping: SIGTERM")
  },
  60_000,
)

test.skipIf(NOT_LINUX)(
  "systemd learns which process is the service now [cli:upgrade:handover]",
  async () => {
    const home = installSvc(undefined)
    const socket = join(freshFolder(), "notify")
    const receiver = Bun.spawn(["bun", fixture("datagrams.ts"), socket], { stdout: "pipe", stderr: "inherit" })
    let said = ""
    const decoder = new TextDecoder()
    const reading = (async () => {
      for await (const chunk of receiver.stdout) said += decoder.decode(chunk, { stream: true })
    })()
    await eventually(() => said.includes("bound"))
    const env = { HOME: home.home, SVC_STARTED_BY: "service", NOTIFY_SOCKET: socket, WATCHDOG_USEC: "100000" }
    const svc = await startSvc({ config: { mcpServers: { one: echo() } }, env })
    const { stderr } = await home.run("upgrade", "--rollback")
    const [, successor = ""] = /hands over to process (\d+)/.exec(stderr) ?? []
    expect(await svc.exited).toBe(0)
    await eventually(() => said.includes(`MAINPID=${successor}`))
    const after = () => said.slice(said.indexOf("MAINPID="))
    await eventually(
      () => after().includes(`READY=1\\nSTATUS=listening on ${svc.url}`) && after().includes("WATCHDOG=1"),
    )
    expect(said).not.toContain("STOPPING")
    process.kill(Number(successor), "SIGTERM")
    await eventually(() => !isAlive(Number(successor)))
    receiver.kill()
    await reading
    await svc[Symbol.asyncDispose]()
  },
  60_000,
)
