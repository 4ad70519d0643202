/** Time as a parameter: whoever waits or dates takes a `Clock`, so that five minutes can be tested in microseconds. */
export type Clock = {
  /** Milliseconds since the epoch. */
  now(): number
  /** Runs `run` once after `ms` milliseconds; the returned function calls it off. A running timer holds the process. */
  after(ms: number, run: () => void): () => void
}

/** Waits until something is over, at most `ms` milliseconds. */
export async function quiet(clock: Clock, busy: () => boolean, ms: number): Promise<void> {
  const until = clock.now() + ms
  while (busy() && clock.now() < until) await new Promise<void>((done) => clock.after(POLL_MS, done))
}

const POLL_MS = 20
/** What a timer holds: 24 days. */
const MAX_MS = 2 ** 31 - 1

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, run) {
    // One that is longer would run at once.
    const timer = setTimeout(run, Math.min(ms, MAX_MS))
    return () => clearTimeout(timer)
  },
}
