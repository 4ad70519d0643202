/** Counts finished calls by minute, server and tool, for charts. Keeps one hour, and at most MAX_TOOLS tools per minute. */

import type { FinishedCall } from "../../call/ports.ts"
import type { Clock } from "../../lib/clock.ts"

/** The calls of one tool in one minute. */
export type CallCount = {
  readonly server: string
  readonly tool: string
  calls: number
  errors: number
  seconds: number
  longest: number
}

export class CallHistory {
  /** Counts by the start of the minute, in milliseconds since the epoch, oldest first. */
  private readonly minutes = new Map<number, Map<string, CallCount>>()
  readonly since: number

  constructor(private readonly clock: Clock) {
    this.since = clock.now()
  }

  add({ server, tool, outcome, seconds }: Omit<FinishedCall, "parts" | "call" | "answer">): void {
    const minute = this.clock.now() - (this.clock.now() % MINUTE_MS)
    const counts = this.minutes.get(minute) ?? new Map<string, CallCount>()
    this.minutes.set(minute, counts)
    this.drop(minute)
    const known = `${server} ${tool}`
    const key = counts.has(known) || counts.size < MAX_TOOLS ? known : OTHER
    const named = key === OTHER ? { server: OTHER, tool: OTHER } : { server, tool }
    const count = counts.get(key) ?? { ...named, calls: 0, errors: 0, seconds: 0, longest: 0 }
    counts.set(key, count)
    count.calls++
    if (outcome !== "ok") count.errors++
    count.seconds += seconds
    count.longest = Math.max(count.longest, seconds)
  }

  /** Returns the counts of the last hour, oldest first. */
  counts(): readonly (CallCount & { readonly minute: number })[] {
    this.drop(this.clock.now())
    return [...this.minutes].flatMap(([minute, counts]) => [...counts.values()].map((count) => ({ minute, ...count })))
  }

  // ---

  private drop(now: number): void {
    for (const minute of this.minutes.keys()) if (minute <= now - KEPT_MS) this.minutes.delete(minute)
  }
}

// ---

const MINUTE_MS = 60_000
const KEPT_MS = 60 * MINUTE_MS
const MAX_TOOLS = 500
const OTHER = "other"
