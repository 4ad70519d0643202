import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { askControl, localDoor } from "../../src/serve/control.ts"

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
    expect(await askControl(paths, "hello", {})).toBeUndefined()
    expect(localDoor(paths)?.lost).toBe(true)
  })
  expect(heard).toEqual([])
})

test("who answers like no svc is none", async () => {
  await withStranger(process.pid, async () => {
    expect(await askControl(paths, "hello", {})).toBeUndefined()
  })
})
