/** Who waits until each of some backends was connected, failed or refused once. Each wait ends by itself. */
import type { Clock } from "../lib/clock.ts"

/** A wait for backends, by id; undefined for all. */
type FirstAttemptWait = { readonly ids: ReadonlySet<string> | undefined; end(): void }

export class FirstAttempts {
  private readonly open = new Set<FirstAttemptWait>()

  constructor(private readonly clock: Clock) {}

  /** Resolves when the wait is ended, or after `ms` milliseconds. */
  wait(ids: ReadonlySet<string> | undefined, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wait: FirstAttemptWait = {
        ids,
        end: () => {
          cancel()
          this.open.delete(wait)
          resolve()
        },
      }
      const cancel = this.clock.after(ms, wait.end)
      this.open.add(wait)
    })
  }

  /** The waits that are over while only these backends are still to be tried. */
  over(untried: readonly string[]): readonly FirstAttemptWait[] {
    return [...this.open].filter(({ ids }) => !untried.some((id) => ids?.has(id) ?? true))
  }
}
