/** Limits calls per minute with buckets that the replicas of a cluster share. */

import type { CallRateLimit } from "../../call/call-rate-limit.ts"
import { hashOfSession } from "../../store/session-store.ts"
import type { SharedState } from "./shared-state.ts"

/** Creates the limit that all replicas share. While the shared state cannot be reached, each replica counts alone with `own`. */
export function createSharedRateLimit(
  state: Pick<SharedState, "take">,
  own: CallRateLimit,
  onrefuse: () => void = () => undefined,
): CallRateLimit {
  return {
    async take(holder, key, perMinute) {
      const name = typeof key === "string" ? `${holder} ${key}` : sessionName(key)
      if (name === undefined) return own.take(holder, key, perMinute)
      try {
        const wait = await state.take(name, perMinute)
        if (wait !== undefined) onrefuse()
        return wait
      } catch {
        return own.take(holder, key, perMinute)
      }
    },
  }
}

// ---

const sessionName = (session: object): string | undefined =>
  "id" in session && typeof session.id === "string" ? `session ${hashOfSession(session.id)}` : undefined
