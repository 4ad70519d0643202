/** A clock that a test advances by hand. */
import type { Clock } from "../src/lib/clock.ts"

export type ManualClock = Clock & {
  /** Lets `ms` milliseconds pass: timers run in order, and pending promises settle between them. */
  pass(ms: number): Promise<void>
  /** The number of active timers. */
  readonly timers: number
}

export function manualClock(start = 1_800_000_000_000): ManualClock {
  let now = start
  let timers: { readonly at: number; readonly run: () => void }[] = []
  return {
    now: () => now,
    after(ms, run) {
      const timer = { at: now + ms, run }
      timers.push(timer)
      return () => {
        timers = timers.filter((other) => other !== timer)
      }
    },
    async pass(ms) {
      const until = now + ms
      await settle()
      for (;;) {
        const next = timers.reduce<(typeof timers)[number] | undefined>(
          (first, timer) => (timer.at <= until && (first === undefined || timer.at < first.at) ? timer : first),
          undefined,
        )
        if (next === undefined) break
        timers = timers.filter((timer) => timer !== next)
        now = Math.max(now, next.at)
        next.run()
        await settle()
      }
      now = until
      await settle()
    },
    get timers() {
      return timers.length
    },
  }
}

/** Lets all code run that does not wait for an external event. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await Promise.resolve()
}
