/** Sums of the calls of the last hour. */
import type { Activity } from "./types.ts"

export type Counts = { readonly calls: number; readonly errors: number; readonly totalMs: number }

/** Sums the calls of each server. */
export function countsByServer(activity: readonly Activity[]): ReadonlyMap<string, Counts> {
  const counts = new Map<string, Counts>()
  for (const { server, calls, errors, meanMs } of activity) {
    const before = counts.get(server) ?? { calls: 0, errors: 0, totalMs: 0 }
    counts.set(server, {
      calls: before.calls + calls,
      errors: before.errors + errors,
      totalMs: before.totalMs + meanMs * calls,
    })
  }
  return counts
}
