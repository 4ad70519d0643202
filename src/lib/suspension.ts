/** Notices that the process did not run for a while: it was suspended, or its machine was. */
import { type Clock, every } from "./clock.ts"

export type SuspensionWatch = {
  /** Calls `onresume` first if the process was suspended just now: a request may come before any timer. */
  look(): void
  close(): void
}

/** Calls `onresume` after each time that the process did not run for GAP_MS. */
export function watchSuspension(clock: Clock, onresume: () => void): SuspensionWatch {
  let last = clock.now()
  const look = () => {
    const now = clock.now()
    const gap = now - last
    last = now
    if (gap > GAP_MS) onresume()
  }
  return { look, close: every(clock, BEAT_MS, look) }
}

// ---

const BEAT_MS = 1000
const GAP_MS = 2000
