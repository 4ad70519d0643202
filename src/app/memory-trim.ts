/** Returns memory to the system after a start or a busy period. */
import { readFileSync } from "node:fs"
import type { Clock } from "../lib/clock.ts"

/** Checks every ten seconds whether svc has become idle, and then trims its memory. `close` ends the checks. */
export function trimWhenIdle(clock: Clock, isBusy: () => boolean): { close(): void } {
  let used = process.cpuUsage()
  /** Whether svc has worked since the last trim. */
  let worked = true
  /** The memory of this process after the last trim, in bytes. */
  let trimmed = 0
  let cancel: () => void
  const check = () => {
    const now = process.cpuUsage()
    const quiet = now.user + now.system - used.user - used.system < QUIET_US
    used = now
    cancel = clock.after(CHECK_MS, check)
    worked ||= !quiet || ownMemory() > trimmed + MIN_GAIN_BYTES
    // Trims only while svc is idle, because code that is dropped must be compiled again at its next use.
    if (!worked || !quiet || isBusy()) return
    Bun.shrink()
    // Bun shrinks when the event loop is idle, and uses pages of the executable for that, so these are dropped afterwards.
    cancel = clock.after(SHRINK_MS, finish)
  }
  const finish = () => {
    cancel = clock.after(CHECK_MS - SHRINK_MS, check)
    worked = false
    if (LINUX) void dropPages()
    trimmed = ownMemory()
  }
  cancel = clock.after(CHECK_MS, check)
  return { close: () => cancel() }
}

// ---

const CHECK_MS = 10_000
const SHRINK_MS = 500
/** CPU time between two checks: one percent of a core. */
const QUIET_US = 100_000
const MIN_GAIN_BYTES = 4 * 1024 * 1024
const LINUX = process.platform === "linux"

/** Drops pages of the executable. Imports the code at the first trim, because it loads libc. */
async function dropPages(): Promise<void> {
  try {
    const { dropExecutablePages } = await import("./executable-pages.ts")
    dropExecutablePages()
  } catch {
    // Without /proc or libc the pages stay until the kernel needs the memory.
  }
}

/** Returns resident memory in bytes; on Linux without the pages of files, which come and go. From: proc_pid_status(5). */
function ownMemory(): number {
  try {
    const status = LINUX ? readFileSync("/proc/self/status", "latin1") : ""
    const kilobytes = /^RssAnon:\s+(\d+)/m.exec(status)?.[1]
    return kilobytes === undefined ? process.memoryUsage.rss() : Number(kilobytes) * 1024
  } catch {
    return process.memoryUsage.rss()
  }
}
