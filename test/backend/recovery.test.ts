/** The driver with real processes: restarts, and the answers to calls meanwhile. */
import { afterEach, expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Backend } from "../../src/backend/backend.ts"
import { resultOf } from "../../src/backend/connection.ts"
import { openConnection } from "../../src/backend/open-connection.ts"
import { createReaper } from "../../src/backend/reaper.ts"
import { StdioTransport } from "../../src/backend/stdio.ts"
import type { RestartPolicy, ServerSpec, StdioLaunch } from "../../src/config/server-spec.ts"
import { type Clock, systemClock } from "../../src/lib/clock.ts"
import { silentLog } from "../../src/lib/log.ts"
import { createRequestIds } from "../../src/wire/frame.ts"
import { isAlive, until } from "../process.ts"

const DYING = join(import.meta.dir, "../fixtures/dying.ts")
const reaper = createReaper(() => undefined)
const running: Backend[] = []

afterEach(async () => {
  await Promise.all(running.splice(0).map((backend) => backend.stop()))
})

function start(
  args: readonly string[],
  restart: Partial<RestartPolicy> = {},
  connectionTimeout = 10_000,
  more: Partial<StdioLaunch> = {},
  clock: Clock = systemClock,
): Backend {
  const launch: StdioLaunch = {
    transport: "stdio",
    command: process.execPath,
    args: [DYING, ...args],
    cwd: undefined,
    env: { PATH: process.env.PATH ?? "" },
    stderr: "ignore",
    mode: "legacy",
    ...more,
  }
  const spec: ServerSpec = {
    id: "dying",
    name: "dying",
    slug: "dying",
    launch,
    tuning: {
      tags: [],
      disabledTools: [],
      toolDescriptionOverrides: {},
      alwaysVisible: [],
      connectionTimeout,
      requestTimeout: 5000,
      restart: { kind: "supervised", limit: 5, delay: 20, ...restart },
      isolation: "shared",
      idleTimeout: 600_000,
      maxProcesses: 50,
      toolPinning: "report",
    },
    secrets: [],
  }
  const ids = createRequestIds("test")
  const backend = new Backend(spec, {
    clock,
    open: (planned, hooks, signal) =>
      openConnection(
        planned,
        { owner: undefined, subscriptions: () => [], logLevel: () => undefined, onnotification() {}, ...hooks },
        {
          openChild: (childLaunch, events) =>
            StdioTransport.open(childLaunch, events, {
              server: "dying",
              clock,
              limit: 1 << 20,
              grace: 400,
              reaper,
              output: { onstderr() {}, onstderrend() {}, onstdoutnoise() {}, exitReason: () => "Error: no such thing" },
            }),
          openClient: () => ({ fetch, close() {} }),
          credentials: () => undefined,
          ids,
          clock,
          log: silentLog,
          eras: { get: () => undefined, set() {}, forget() {} },
          limit: 1 << 20,
          version: "0",
        },
        signal,
      ),
    onchange() {},
    onnote() {},
  })
  running.push(backend)
  backend.start()
  return backend
}

const connected = (backend: Backend) => until(() => backend.published !== undefined, "the connection")
const is = (backend: Backend, kind: string) => until(() => backend.state.kind === kind, kind)

async function call(backend: Backend, name: string): Promise<string> {
  const connection = backend.published?.open.connection
  if (connection === undefined) throw new Error("not connected")
  const params = { name, arguments: { n: 1 } }
  const outcome = await connection.request({ method: "tools/call", params, caller: undefined, timeout: 5000 }).outcome
  const { content } = resultOf(outcome) as { content: { text: string }[] }
  return content[0]?.text ?? ""
}

test("a call in flight fails once with the server's name, and the next process answers the next call", async () => {
  const backend = start(["after", "1"])
  await connected(backend)
  const first = await call(backend, "pid")
  await expect(call(backend, "pid")).rejects.toThrow("dying: exited with code 4")
  expect(backend.published).toBeUndefined()
  await connected(backend)
  const second = await call(backend, "pid")
  expect(second).not.toBe(first)
  expect(isAlive(Number(first))).toBe(false)
  expect(backend.facts).toMatchObject({ restartCount: 1, lastExit: { code: 4, signal: null } })
})

for (const mode of ["sigkill", "close-stdout", "fork"])
  test(`a server that ends by ${mode} is replaced, and nothing of it is left`, async () => {
    const backend = start([mode])
    await connected(backend)
    const pids = [Number(await (mode === "fork" ? call(backend, "child") : 0)), backend.published?.open.pid ?? 0]
    await expect(call(backend, "echo")).rejects.toThrow("dying: ")
    await connected(backend)
    expect(backend.published?.open.pid).not.toBe(pids[1])
    expect(pids.filter((pid) => pid > 0 && isAlive(pid))).toEqual([])
  })

test("a server that exits at once is in a crash loop after its attempts, and an operator's restart starts over", async () => {
  const backend = start(["at-start"], { limit: 2, delay: 1 })
  await is(backend, "crashed")
  expect(backend.facts).toMatchObject({ restartCount: 2, lastExit: { code: 3 } })
  backend.restart()
  await is(backend, "crashed")
  expect(backend.facts.restartCount).toBe(5)
})

test("an attempt on a silent server is aborted after connectionTimeout and its process ended", async () => {
  const backend = start(["hang"], { limit: 1, delay: 1 }, 300)
  await is(backend, "crashed")
  expect(backend.facts.lastError).toBe("no answer within 300 ms (connectionTimeout)")
  await backend.stop()
})

test("stop resolves when a server that ignores everything but SIGKILL is dead", async () => {
  const backend = start(["stubborn"])
  await connected(backend)
  const pid = backend.published?.open.pid ?? 0
  await backend.stop()
  expect(isAlive(pid)).toBe(false)
})

test("an operator's restart replaces a healthy process", async () => {
  const backend = start(["calm"])
  await connected(backend)
  const first = backend.published?.open.pid
  backend.restart()
  await connected(backend)
  expect(backend.published?.open.pid).not.toBe(first)
  expect(isAlive(first ?? 0)).toBe(false)
})

test("twenty servers that are killed at random come back, and every call is answered", async () => {
  const backends = Array.from({ length: 20 }, () => start(["calm"], { limit: 0, delay: 1 }))
  await Promise.all(backends.map(connected))
  let answered = 0
  let failed = 0
  let over = false
  const callers = backends.map(async (backend) => {
    while (!over) {
      if (backend.published === undefined) {
        await Bun.sleep(2)
        continue
      }
      const { pid } = backend.published.open
      await call(backend, "pid").then(
        (text) => {
          expect(text).toBe(String(pid))
          answered++
        },
        (error: Error) => {
          expect(error.message).toStartWith("dying: ")
          failed++
        },
      )
    }
  })
  // A frozen walk through the servers: each dies once, some in the middle of another's recovery.
  for (let n = 0; n < 20; n++) {
    const { published } = backends[(n * 7) % 20] as Backend
    if (published?.open.pid !== undefined) process.kill(-published.open.pid, "SIGKILL")
    await Bun.sleep(10)
  }
  await Promise.all(backends.map(connected))
  over = true
  await Promise.all(callers)
  expect(answered).toBeGreaterThan(0)
  expect(failed).toBeGreaterThan(0)
  const pids = backends.map(({ published }) => published?.open.pid)
  expect(new Set(pids).size).toBe(20)
}, 30_000)

test("a start that ends is an attempt, and an unsupervised server that just exits is started once [supervise:attempt]", async () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-starts-"))
  const file = join(folder, "starts")
  const launch = { command: "sh", args: ["-c", `echo x>>"${file}"; exit 2`], mode: "auto" } as const
  const count = () => readFileSync(file, "utf8").trim().split("\n").length
  try {
    await is(start([], {}, 10_000, launch), "crashed")
    // The first start, and five attempts.
    expect(count()).toBe(6)
    rmSync(file)
    // No wait is short, because a busy machine may need longer than usual to run the command.
    const patient: Clock = { ...systemClock, after: (ms, run) => systemClock.after(Math.max(ms, 5000), run) }
    const once = start([], { kind: "never" }, 10_000, launch, patient)
    await is(once, "failed")
    expect(count()).toBe(1)
    expect(once.facts).toMatchObject({ lastExit: { code: 2 } })
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test("the attempt after an exit on the probe tries the legacy era [protocol:mode:exit]", async () => {
  const strict = [join(import.meta.dir, "../fixtures/echo.ts"), "--strict"]
  for (const kind of ["supervised", "never"] as const) {
    const backend = start([], { kind }, 10_000, { args: strict, mode: "auto" })
    await connected(backend)
    expect(backend.published?.open.peer.era).toBe("legacy")
    expect(backend.facts.restartCount).toBe(kind === "never" ? 0 : 1)
  }
})
