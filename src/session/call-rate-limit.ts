/** Calls per minute: a bucket for each server and each session, filled evenly, in a bounded table. */
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Clock } from "../lib/clock.ts"

export type CallRateLimit = {
  /** Takes one call from a bucket. Returns the seconds to wait if the bucket is empty. */
  take(key: object | string, perMinute: number): number | undefined
}

export function createCallRateLimit(clock: Pick<Clock, "now">, onrefuse: () => void = () => undefined): CallRateLimit {
  const named = new BoundedMap<string, Bucket>(MAX_NAMED)
  // A session's bucket ends with the session.
  const held = new WeakMap<object, Bucket>()
  const bucketOf = (key: object | string, perMinute: number): Bucket => {
    const known = typeof key === "string" ? named.get(key) : held.get(key)
    if (known !== undefined) return known
    const bucket = { left: perMinute, at: clock.now() }
    if (typeof key === "object") held.set(key, bucket)
    else named.set(key, bucket)
    return bucket
  }
  return {
    take(key, perMinute) {
      const bucket = bucketOf(key, perMinute)
      const now = clock.now()
      bucket.left = Math.min(perMinute, bucket.left + ((now - bucket.at) * perMinute) / MINUTE_MS)
      bucket.at = now
      if (bucket.left < 1) {
        onrefuse()
        return Math.max(1, Math.ceil(((1 - bucket.left) * MINUTE_MS) / perMinute / 1000))
      }
      bucket.left--
      return undefined
    },
  }
}

// ---

type Bucket = { left: number; at: number }

const MINUTE_MS = 60_000
const MAX_NAMED = 10_000
