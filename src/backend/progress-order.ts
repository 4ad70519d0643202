import { type Clock, withTimeout } from "../lib/clock.ts"
import type { Outgoing } from "./client-transport.ts"

/**
 * Returns a function that delivers messages which each go in a request of their own. Progress of a client goes after the progress
 * before it, and an answer of a client after all progress: a server ignores progress of a request that has its answer. `deliver`
 * must not reject.
 */
export function progressInOrder(clock: Clock): (about: Outgoing, deliver: () => Promise<void>) => void {
  let last: Promise<void> | undefined
  return (about, deliver) => {
    const isProgress = about.method === "notifications/progress"
    const isAnswer = about.number === undefined && about.method === undefined
    const before = isProgress || isAnswer ? last : undefined
    const delivered = before === undefined ? deliver() : withTimeout(clock, MAX_WAIT_MS, before).then(deliver)
    if (!isProgress) return
    last = delivered
    void delivered.then(() => {
      if (last === delivered) last = undefined
    })
  }
}

// ---

/** Servers accept a notification at once: one that does not must not hold up answers. */
const MAX_WAIT_MS = 1000
