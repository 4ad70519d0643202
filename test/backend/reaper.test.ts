import { expect, test } from "bun:test"
import { join } from "node:path"
import { isAlive, until } from "../process.ts"

const ABANDONER = join(import.meta.dir, "../fixtures/abandoner.ts")

async function abandon(mode: string, signal: NodeJS.Signals): Promise<readonly number[]> {
  const svc = Bun.spawn({
    cmd: [process.execPath, ABANDONER, mode],
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  })
  const reader = svc.stdout.getReader()
  const { value } = await reader.read()
  const { pids } = JSON.parse(Buffer.from(value ?? []).toString("utf8")) as { pids: number[] }
  expect(pids.map(isAlive)).toEqual([true, true])
  svc.kill(signal)
  await svc.exited
  return pids
}

test("no child outlives svc when it is killed, not even one that ignores everything but SIGKILL [process:killed]", async () => {
  const pids = await abandon("stay", "SIGKILL")
  await until(() => !pids.some(isAlive), "the end of the children")
}, 15_000)

test("when svc exits by itself, the reaper kills the remaining children at once", async () => {
  const pids = await abandon("exit", "SIGUSR2")
  await until(() => !pids.some(isAlive), "the end of the children")
})
