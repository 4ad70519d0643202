import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { systemClock } from "../../src/lib/clock.ts"
import { acquire, tryAcquire } from "../../src/store/lock.ts"
import { manualClock } from "../clock.ts"

const folder = mkdtempSync(join(tmpdir(), "svc-lock-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A process that holds a lock until it is killed. */
async function holderOf(lock: string): Promise<Bun.Subprocess> {
  const source = `const { acquire } = await import(${JSON.stringify(join(import.meta.dir, "../../src/store/lock.ts"))})
    const { systemClock } = await import(${JSON.stringify(join(import.meta.dir, "../../src/lib/clock.ts"))})
    globalThis.release = await acquire(${JSON.stringify(lock)}, systemClock)
    console.log("held")
    setInterval(() => globalThis.release, 1000)`
  const holder = Bun.spawn({ cmd: [process.execPath, "-e", source], stdout: "pipe", stderr: "inherit" })
  await holder.stdout.getReader().read()
  return holder
}

test("a lock is taken while another process holds it, and free when that process is killed [config:edit:lock]", async () => {
  const lock = join(folder, "a.lock")
  const holder = await holderOf(lock)
  expect(await tryAcquire(lock)).toBeUndefined()
  holder.kill("SIGKILL")
  await holder.exited
  const release = await tryAcquire(lock)
  expect(release).toBeDefined()
  release?.()
})

test("two callers in one process exclude each other", async () => {
  const lock = join(folder, "b.lock")
  const release = await acquire(lock, systemClock)
  expect(await tryAcquire(lock)).toBeUndefined()
  const next = acquire(lock, systemClock)
  release()
  ;(await next)()
})

test("the wait for a lock is bounded, and its error names the lock and what to do", async () => {
  const lock = join(folder, "c.lock")
  const release = await acquire(lock, systemClock)
  const clock = manualClock()
  const waiting = acquire(lock, clock, 1000)
  let over = false
  void waiting.catch(() => undefined).finally(() => (over = true))
  while (!over) {
    await new Promise(setImmediate)
    await clock.pass(25)
  }
  await expect(waiting).rejects.toThrow(`another svc process has held ${lock} for 1 s; try again when it is done`)
  release()
})

test("a lock file with a process id is taken over, a link is rejected", async () => {
  const lock = join(folder, "d.lock")
  writeFileSync(lock, String(process.pid))
  ;(await acquire(lock, systemClock))()
  symlinkSync(join(folder, "elsewhere"), join(folder, "e.lock"))
  await expect(tryAcquire(join(folder, "e.lock"))).rejects.toThrow("must be a regular file, not a link")
})
