/** Helpers for tests of processes. */

/** Waits for a condition that depends on another process. Fails after ten seconds. */
export async function until(condition: () => boolean, what = "the condition"): Promise<void> {
  for (let turn = 0; turn < 2000; turn++) {
    if (condition()) return
    await Bun.sleep(5)
  }
  throw new Error(`${what} did not come about`)
}

/** Whether a process exists and is not merely waiting to be reaped. */
export function isAlive(pid: number): boolean {
  const { stdout } = Bun.spawnSync(["ps", "-o", "stat=", "-p", String(pid)])
  const stat = stdout.toString().trim()
  return stat !== "" && !stat.startsWith("Z")
}
