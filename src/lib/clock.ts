/** Time as a parameter: code that waits or reads the time takes a `Clock`, so that tests need not wait. */
export type Clock = {
  /** Milliseconds since the epoch. */
  now(): number
  /** Runs `run` once after `ms` milliseconds; the returned function cancels it. A running timer keeps the process alive. */
  after(ms: number, run: () => void): () => void
}

/**
 * Runs `run` every `ms` milliseconds, until the returned function is called. A run that throws, which is a bug, does not end the
 * repetition.
 */
export function every(clock: Clock, ms: number, run: () => void): () => void {
  let cancel: () => void
  const beat = () => {
    cancel = clock.after(ms, beat)
    run()
  }
  cancel = clock.after(ms, beat)
  return () => cancel()
}

/** Resolves after `ms` milliseconds, or as soon as the signal is aborted. */
export function delay(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) return resolve()
    const done = () => {
      cancel()
      signal?.removeEventListener("abort", done)
      resolve()
    }
    const cancel = clock.after(ms, done)
    signal?.addEventListener("abort", done)
  })
}

/**
 * Returns a clock that runs one thing at a time, with other events in between: long pieces of work of several callers that all
 * are due do not add up.
 */
export function oneAtATime(clock: Clock): Clock {
  const due = new Set<() => void>()
  let isArmed = false
  const arm = () => {
    if (isArmed || due.size === 0) return
    isArmed = true
    clock.after(0, () => {
      isArmed = false
      const [run] = due
      if (run !== undefined) due.delete(run)
      arm()
      run?.()
    })
  }
  return {
    now: () => clock.now(),
    after(ms, run) {
      const once = () => run()
      const enter = () => {
        due.add(once)
        arm()
      }
      const cancel = ms === 0 ? undefined : clock.after(ms, enter)
      if (ms === 0) enter()
      return () => {
        cancel?.()
        due.delete(once)
      }
    },
  }
}

/** Waits for a promise, at most `ms` milliseconds. Rejects if the promise does. */
export async function withTimeout(clock: Clock, ms: number, promise: Promise<unknown>): Promise<void> {
  const late = Promise.withResolvers<void>()
  const cancel = clock.after(ms, late.resolve)
  await Promise.race([promise, late.promise]).finally(cancel)
}

/** Returns milliseconds in the largest unit that fits without a fraction: "5 min", "30 s", "300 ms". */
export function formatDuration(ms: number): string {
  if (ms >= 60_000 && ms % 60_000 === 0) return `${ms / 60_000} min`
  return ms >= 1000 && ms % 1000 === 0 ? `${ms / 1000} s` : `${ms} ms`
}

/** The system clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, run) {
    // setTimeout fires at once if the delay is longer.
    const timer = setTimeout(run, Math.min(ms, MAX_MS))
    return () => clearTimeout(timer)
  },
}

/**
 * Returns a clock that never goes back, for deadlines that other machines rely on: a deadline that has passed stays passed.
 * Setting the system time back does not stop this clock; setting it forward, or suspending the machine, moves it ahead.
 * `monotonic` returns milliseconds since any point in time.
 */
export function createSteadyClock(wall: Clock, monotonic: () => number): Clock {
  let start = wall.now() - monotonic()
  let offset = start
  return {
    after: wall.after,
    now() {
      const elapsed = monotonic()
      const step = wall.now() - elapsed - offset
      // A smaller difference is rounding.
      if (Math.abs(step) > STEP_MS) {
        offset += step
        start += Math.max(0, step)
      }
      return start + elapsed
    },
  }
}

// ---

const STEP_MS = 50
/** The longest delay of setTimeout: 24 days. */
const MAX_MS = 2 ** 31 - 1
