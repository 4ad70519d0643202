import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
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

/** A door of a port, as on Windows, at which somebody else listens by now. */
async function withStranger(pid: number, ask: () => Promise<void>): Promise<readonly string[]> {
  const heard: string[] = []
  const fetch = ({ headers }: Request) => {
    heard.push(headers.get("authorization") ?? "")
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
  return heard
}

test("the port of an svc that is gone is not told its token", async () => {
  const gone = Bun.spawn({ cmd: [process.execPath, "--version"], stdout: "ignore" })
  await gone.exited
  const heard = await withStranger(gone.pid, async () => {
    expect(await callControl(paths, "hello", {})).toBeUndefined()
    expect(proxyEndpoint(paths)?.lost).toBe(true)
  })
  expect(heard).toEqual([])
})

test("who answers like no svc is none", async () => {
  await withStranger(process.pid, async () => {
    expect(await callControl(paths, "hello", {})).toBeUndefined()
  })
})

test("a second svc of one configuration is refused, and told which process serves", async () => {
  const release = await tryAcquire(join(directory, "control.lock"))
  const instance = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => Response.json({ result: { pid: 4711 } }) })
  const door = { pid: process.pid, port: instance.port, token: "secret" }
  writeFileSync(join(directory, "control.json"), JSON.stringify(door))
  const local = { trustedClient: { clock: manualClock() } } as unknown as ProxyServerDeps
  await expect(openControlSocket(paths, () => null, local)).rejects.toThrow(
    `process 4711 serves ${file} already; stop it`,
  )
  await instance.stop(true)
  release?.()
})

test("a second svc is refused where the first holds the configuration and does not answer", async () => {
  const release = await tryAcquire(join(directory, "control.lock"))
  rmSync(join(directory, "control.json"), { force: true })
  const clock = manualClock()
  const opening = openControlSocket(paths, () => null, { trustedClient: { clock } } as unknown as ProxyServerDeps)
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
  await expect(opening).rejects.toThrow(/another svc, which holds \S+control\.lock and does not answer, serves/)
  release?.()
})
