/** Returns memory that a start or a busy period has left behind to the system. */
import { readFileSync } from "node:fs"
import type { Clock } from "../lib/clock.ts"

/** Checks every ten seconds, until it is closed, and trims when svc has become idle. */
export function trimWhenIdle(clock: Clock, isBusy: () => boolean): { close(): void } {
  let used = process.cpuUsage()
  /** Whether svc has worked since the last trim. */
  let worked = true
  /** Own memory after the last trim, in bytes. */
  let trimmed = 0
  let cancel: () => void
  const check = () => {
    const now = process.cpuUsage()
    const quiet = now.user + now.system - used.user - used.system < QUIET_US
    used = now
    cancel = clock.after(CHECK_MS, check)
    worked ||= !quiet || ownMemory() > trimmed + MIN_GAIN_BYTES
    // Trimming drops compiled code, too, which is compiled again at the next use: only while svc is idle.
    if (!worked || !quiet || isBusy()) return
    Bun.shrink()
    // It works when the event loop is idle, and uses pages of the executable itself.
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
/** Of CPU time per check: a hundredth of a core. */
const QUIET_US = 100_000
const MIN_GAIN_BYTES = 4 * 1024 * 1024
const LINUX = process.platform === "linux"

/** Loads libc, so it is imported at the first trim. */
async function dropPages(): Promise<void> {
  try {
    const { dropExecutablePages } = await import("./executable-pages.ts")
    dropExecutablePages()
  } catch {
    // Without /proc or libc the pages stay: the kernel takes them when it needs memory.
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
