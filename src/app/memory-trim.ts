/** Returns memory that a start or a busy period has left behind to the system. */
import type { Clock } from "../lib/clock.ts"

/** Checks every ten seconds, until it is closed, and trims while svc is idle. */
export function trimWhenIdle(clock: Clock, isBusy: () => boolean): { close(): void } {
  let used = process.cpuUsage()
  /** Resident memory after the last trim, in bytes. */
  let trimmed = 0
  let cancel: () => void
  const check = () => {
    const now = process.cpuUsage()
    const quiet = now.user + now.system - used.user - used.system < QUIET_US
    used = now
    const rss = process.memoryUsage.rss()
    // Trimming drops compiled code, too, which is compiled again at the next use: only while svc is idle.
    if (quiet && !isBusy() && rss > trimmed + MIN_GAIN_BYTES) {
      Bun.shrink()
      trimmed = process.memoryUsage.rss()
    }
    cancel = clock.after(CHECK_MS, check)
  }
  cancel = clock.after(CHECK_MS, check)
  return { close: () => cancel() }
}

// ---

const CHECK_MS = 10_000
/** Of CPU time per check: a hundredth of a core. */
const QUIET_US = 100_000
const MIN_GAIN_BYTES = 4 * 1024 * 1024
