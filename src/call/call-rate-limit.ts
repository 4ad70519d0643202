/**
 * The token buckets of the limits per minute (`session/limits.ts`): each holder has one, which is filled evenly. The tables of buckets
 * are bounded.
 */

import { BoundedMap } from "../lib/bounded-map.ts"
import type { Clock } from "../lib/clock.ts"

/** Seconds to wait; undefined for none. */
type Wait = number | undefined

/** The holder of a bucket: a server, by its id; a client, by its session or else its principal; or a principal's use of a tool. */
type Holder = "server" | "client" | "tool"

export type CallRateLimit = {
  /**
   * Takes one call from a bucket. Returns the seconds to wait if the bucket is empty; a promise if replicas share the bucket.
   */
  take(holder: Holder, key: object | string, perMinute: number): Wait | Promise<Wait>
}

/** Creates the limit of one svc. `onrefuse` is called for each call that must wait. */
export function createCallRateLimit(
  clock: Pick<Clock, "now">,
  onrefuse: () => void = () => undefined,
): { take(holder: Holder, key: object | string, perMinute: number): Wait } {
  // One table for each kind of holder: a combined key would have to be created for each call.
  const named = {
    server: new BoundedMap<string, Bucket>(MAX_NAMED),
    client: new BoundedMap<string, Bucket>(MAX_NAMED),
    tool: new BoundedMap<string, Bucket>(MAX_NAMED),
  }
  // A session's bucket ends with the session.
  const held = new WeakMap<object, Bucket>()
  const bucketOf = (holder: Holder, key: object | string, perMinute: number): Bucket => {
    const known = typeof key === "string" ? named[holder].get(key) : held.get(key)
    if (known !== undefined) return known
    const bucket = { left: perMinute, at: clock.now() }
    if (typeof key === "object") held.set(key, bucket)
    else named[holder].set(key, bucket)
    return bucket
  }
  return {
    take(holder, key, perMinute) {
      const bucket = bucketOf(holder, key, perMinute)
      const now = clock.now()
      // The clock may have been set back.
      const passed = Math.max(0, now - bucket.at)
      bucket.left = Math.min(perMinute, bucket.left + (passed * perMinute) / MINUTE_MS)
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
