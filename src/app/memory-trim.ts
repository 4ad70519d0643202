/** Memory that a start or a busy hour leaves behind is given back when nothing happens. */
import type { Clock } from "../lib/clock.ts"

/** Looks every ten seconds, until it is closed. */
export function trimWhenIdle(clock: Clock, isBusy: () => boolean): { close(): void } {
  let used = process.cpuUsage()
  /** What was left of memory the last time, in bytes. */
  let least = 0
  let cancel: () => void
  const look = () => {
    const now = process.cpuUsage()
    const quiet = now.user + now.system - used.user - used.system < QUIET_US
    used = now
    const rss = process.memoryUsage.rss()
    // Code that is compiled goes too, and is compiled again when it is needed: only while nobody needs it.
    if (quiet && !isBusy() && rss > least + WORTH_BYTES) {
      Bun.shrink()
      least = process.memoryUsage.rss()
    }
    cancel = clock.after(LOOK_MS, look)
  }
  cancel = clock.after(LOOK_MS, look)
  return { close: () => cancel() }
}

// ---

const LOOK_MS = 10_000
/** A hundredth of a core. */
const QUIET_US = 100_000
const WORTH_BYTES = 4 * 1024 * 1024
