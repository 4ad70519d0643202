/** Waits for backends: for the end of a start, for the return of a lost one, for the first attempt of several. */
import type { Backend } from "../backend/backend.ts"
import { awaitsAnswer } from "../catalog/listing.ts"
import { runsElsewhere } from "../config/server-spec.ts"
import type { Clock } from "../lib/clock.ts"

export class Readiness {
  private readonly checks = new Map<Backend, Set<() => void>>()
  private readonly firstAttempts = new Set<FirstAttemptWait>()

  constructor(private readonly clock: Clock) {}

  /** Resolves when a backend is no longer opening: it is connected, failed, waits for a retry, or was stopped. */
  whenSettled(backend: Backend): Promise<void> {
    const isSettled = () => !isOpening(backend) && !isRelisting(backend)
    return isSettled() ? Promise.resolve() : this.until(backend, isSettled)
  }

  /**
   * Resolves when a lost backend is connected again or will not be in time, at the latest after `ms` milliseconds. Undefined
   * if it is not about to return, or if too many calls already wait for it.
   */
  whenBack(backend: Backend, ms: number): Promise<void> | undefined {
    const deadline = this.clock.now() + ms
    const isReturning = () =>
      isOpening(backend) ||
      // The next replica replaces a server of a lost replica before any retry.
      (backend.state.kind === "waiting" && (backend.state.retryAt < deadline || runsElsewhere(backend.spec)))
    return this.while(backend, isReturning, ms)
  }

  /**
   * Resolves when a connected backend has answered its first lists or failed to, or after `ms` milliseconds. Undefined if no
   * answer is pending, or if too many calls already wait for it.
   */
  whenListed(backend: Backend, ms: number): Promise<void> | undefined {
    const isListing = () => backend.published !== undefined && awaitsAnswer(backend.published.listing)
    return this.while(backend, isListing, ms)
  }

  /**
   * Resolves when a backend that has woken has answered its lists, or after `ms` milliseconds. Undefined if none is awaited, or if
   * too many calls already wait for it.
   */
  whenRelisted(backend: Backend, ms: number): Promise<void> | undefined {
    return this.while(backend, () => isRelisting(backend), ms)
  }

  /**
   * Resolves when each of these backends (undefined: all) was connected, failed or refused once, or after `ms` milliseconds;
   * earlier if `isEnough` returns true. The caller reports progress with `endFirstAttempts`.
   */
  whenAttempted(ids: ReadonlySet<string> | undefined, ms: number, isEnough = () => false): Promise<void> {
    return new Promise((resolve) => {
      const wait: FirstAttemptWait = {
        ids,
        isEnough,
        end: () => {
          cancel()
          this.firstAttempts.delete(wait)
          resolve()
        },
      }
      const cancel = this.clock.after(ms, wait.end)
      this.firstAttempts.add(wait)
    })
  }

  /** Whether no further request may wait for first attempts. */
  get isFull(): boolean {
    return this.firstAttempts.size >= MAX_WAITING
  }

  /** Ends each wait for first attempts that needs none of the `untried` backends; calls `before` ahead of each end. */
  endFirstAttempts(untried: readonly string[], before: () => void): void {
    for (const wait of [...this.firstAttempts]) {
      if (!wait.isEnough() && untried.some((id) => wait.ids?.has(id) ?? true)) continue
      before()
      wait.end()
    }
  }

  /** Checks the waits for a backend again after its state has changed. */
  changed(backend: Backend): void {
    for (const check of [...(this.checks.get(backend) ?? [])]) check()
  }

  // ---

  /** Waits while `isPending` holds. Undefined if it does not, or if too many calls wait for the backend already. */
  private while(backend: Backend, isPending: () => boolean, ms: number): Promise<void> | undefined {
    if (!isPending() || (this.checks.get(backend)?.size ?? 0) >= MAX_WAITING) return undefined
    return this.until(backend, () => !isPending(), ms)
  }

  /** Resolves when `isOver` holds after a change of the backend, or after `ms` milliseconds. */
  private until(backend: Backend, isOver: () => boolean, ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const checks = this.checks.get(backend) ?? new Set()
      this.checks.set(backend, checks)
      const end = () => {
        cancel?.()
        checks.delete(check)
        if (checks.size === 0) this.checks.delete(backend)
        resolve()
      }
      const check = () => {
        if (isOver()) end()
      }
      const cancel = ms === undefined ? undefined : this.clock.after(ms, end)
      checks.add(check)
    })
  }
}

// ---

/** A wait for the first attempts of backends, by id; undefined for all. */
type FirstAttemptWait = { readonly ids: ReadonlySet<string> | undefined; isEnough(): boolean; end(): void }

/** The number of calls that may wait for one backend at once. */
const MAX_WAITING = 1000

const isRelisting = ({ state }: Backend): boolean => state.kind === "awake"

const isOpening = ({ state: { kind } }: Backend): boolean =>
  kind === "starting" || kind === "recovering" || kind === "waking"
