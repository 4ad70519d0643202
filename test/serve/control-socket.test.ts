import { afterAll, expect, test } from "bun:test"
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { callControl, openControlSocket, proxyEndpoint } from "../../src/serve/control-socket.ts"
import type { ProxyServerDeps } from "../../src/serve/proxy-server.ts"
import { tryAcquire } from "../../src/store/lock.ts"
import { manualClock } from "../clock.ts"

const directory = mkdtempSync(join(tmpdir(), "svc-control-"))
afterAll(() => rmSync(directory, { recursive: true, force: true }))
const file = join(directory, "mcp.json")
const paths = { directory, file, dotenv: join(directory, ".env"), presets: join(directory, "presets.json") }

/** An endpoint with a port, as on Windows, on which another program now listens. */
async function withStranger(pid: number, ask: () => Promise<void>): Promise<readonly string[]> {
  const tokens: string[] = []
  const fetch = ({ headers }: Request) => {
    tokens.push(headers.get("authorization") ?? "")
    return new Response("<html>")
  }
  const stranger = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch })
  const { port } = stranger
  writeFileSync(join(directory, "control.json"), JSON.stringify({ pid, port, lines: { port }, token: "secret" }))
  try {
    await ask()
  } finally {
    await stranger.stop(true)
  }
  return tokens
}

/** Runs a test while another instance holds the lock of the control socket. */
async function withLockHeld(run: () => Promise<void>): Promise<void> {
  const release = await tryAcquire(join(directory, "control.lock"))
  try {
    await run()
  } finally {
    release?.()
  }
}

test("the token is not sent to the port of an instance that was killed", async () => {
  const gone = Bun.spawn({ cmd: [process.execPath, "--version"], stdout: "ignore" })
  await gone.exited
  const tokens = await withStranger(gone.pid, async () => {
    expect(await callControl(paths, "hello", {})).toBeUndefined()
    expect(proxyEndpoint(paths)?.lost).toBe(true)
  })
  expect(tokens).toEqual([])
})

test("a listener that does not answer like svc does not count as an instance", async () => {
  await withStranger(process.pid, async () => {
    expect(await callControl(paths, "hello", {})).toBeUndefined()
  })
})

test("a second instance of one configuration is refused and names the process that serves it", async () => {
  const instance = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => Response.json({ result: { pid: 4711 } }) })
  const door = { pid: process.pid, port: instance.port, token: "secret" }
  writeFileSync(join(directory, "control.json"), JSON.stringify(door))
  const local = { trustedClient: { clock: manualClock() } } as unknown as ProxyServerDeps
  await withLockHeld(async () => {
    await expect(openControlSocket(paths, () => null, local, "http://127.0.0.1:3050/")).rejects.toThrow(
      `process 4711 already serves ${file}; \`svc stop\` stops it`,
    )
  }).finally(() => instance.stop(true))
})

test("a second instance is refused if the first holds the lock and does not answer", async () => {
  rmSync(join(directory, "control.json"), { force: true })
  const clock = manualClock()
  await withLockHeld(async () => {
    const opening = openControlSocket(paths, () => null, { trustedClient: { clock } } as unknown as ProxyServerDeps, "")
    let over = false
    void opening
      .catch(() => undefined)
      .finally(() => {
        over = true
      })
    while (!over) {
      await new Promise(setImmediate)
      await clock.pass(50)
    }
    await expect(opening).rejects.toThrow(
      /another svc, which holds \S+control\.lock and does not answer, already serves/,
    )
  })
})

test("servers start under the lock and before the socket opens; a failure releases the lock", async () => {
  rmSync(join(directory, "control.json"), { force: true })
  const lock = join(directory, "control.lock")
  const local = { trustedClient: { clock: manualClock() } } as unknown as ProxyServerDeps
  const opening = openControlSocket(
    paths,
    () => null,
    local,
    "",
    async () => {
      expect(await tryAcquire(lock)).toBeUndefined()
      expect(existsSync(join(directory, "control.json"))).toBe(false)
      throw new Error("a faulty template")
    },
  )
  await expect(opening).rejects.toThrow("a faulty template")
  const release = await tryAcquire(lock)
  expect(release).toBeDefined()
  release?.()
})
