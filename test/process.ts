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

/** Runs a program to its end, with `input` as its stdin, and returns its exit code and what it wrote. */
export async function runProgram(
  cmd: readonly string[],
  options: {
    readonly cwd?: string
    readonly env?: Readonly<Record<string, string | undefined>>
    readonly input?: string | Uint8Array
  },
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const { input = "", ...rest } = options
  const child = Bun.spawn([...cmd], { ...rest, stdin: Buffer.from(input as string), stdout: "pipe", stderr: "pipe" })
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, stdout, stderr }
}
