/** Who waits for a backend, and for what of it. Each wait ends by itself; only so many wait for one backend's return. */
import type { Backend } from "../backend/backend.ts"
import type { Clock } from "../lib/clock.ts"

export class Readiness {
  private readonly checks = new Map<Backend, Set<() => void>>()

  constructor(private readonly clock: Clock) {}

  /** Resolves when a backend is not about to be connected any more: it is, or it failed, waits, or was stopped. */
  whenSettled(backend: Backend): Promise<void> {
    return isOpening(backend) ? this.until(backend, () => !isOpening(backend)) : Promise.resolve()
  }

  /**
   * For a backend that is away and may be back within `ms` milliseconds: resolves when it is, when it will not be, or when
   * they are over. Undefined where there is nothing to wait for, or too many wait already.
   */
  whenBack(backend: Backend, ms: number): Promise<void> | undefined {
    const deadline = this.clock.now() + ms
    const comes = () => isOpening(backend) || (backend.state.kind === "waiting" && backend.state.retryAt < deadline)
    if (!comes() || (this.checks.get(backend)?.size ?? 0) >= MAX_WAITING) return undefined
    return this.until(backend, () => !comes(), ms)
  }

  /** A backend is not what it was. */
  changed(backend: Backend): void {
    for (const check of [...(this.checks.get(backend) ?? [])]) check()
  }

  // ---

  /** Resolves when something holds of a backend's state, or after `ms` milliseconds. */
  private until(backend: Backend, holds: () => boolean, ms?: number): Promise<void> {
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
        if (holds()) end()
      }
      const cancel = ms === undefined ? undefined : this.clock.after(ms, end)
      checks.add(check)
    })
  }
}

// ---

const MAX_WAITING = 1000

const isOpening = ({ state }: Backend): boolean => state.kind === "starting" || state.kind === "recovering"
