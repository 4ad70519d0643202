/** Time as a parameter: whoever waits or dates takes a `Clock`, so that five minutes can be tested in microseconds. */
export type Clock = {
  /** Milliseconds since the epoch. */
  now(): number
  /** Runs `run` once after `ms` milliseconds; the returned function calls it off. A running timer holds the process. */
  after(ms: number, run: () => void): () => void
}

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}
