/**
 * Makes a replica leave its cluster so that no call fails, whether the load balancer probes `/health/ready` or not.
 *
 *  1. For `--drain-delay` it reports that it is not ready, and serves the requests that it receives. Each response ends its
 *     connection, so that a load balancer that keeps connections open has none left to use when they are closed.
 *  2. Then it passes new work on to the other replicas: a load balancer that does not probe still sends it some. It must still
 *     accept connections, because the others forward what its running calls need over them.
 *  3. When its own calls have ended, it accepts no more connections: a load balancer tries the next replica.
 *  4. It ends when the requests that it passed on are answered too. Steps 2 to 4 have `--shutdown-grace`, of which the last part
 *     is reserved for step 4: a call whose client is away may never end, and must not make others fail. When it begins, servers
 *     that run once are taken from their running calls, because calls that were passed on may wait for their next owner.
 */

import { type Clock, delay, withTimeout } from "../../lib/clock.ts"
import type { LeavingParts, LeavingTimes } from "../../serve/cluster.ts"
import type { ServerLeases } from "./server-leases.ts"

/**
 * `drain` announces that this replica stops. `leave` passes new work on to the other replicas from now on, and returns false if all
 * of them stop too.
 */
export type LeavingSteps = { drain(): void; leave(): boolean }

/** Leaves the cluster. Resolves when svc can end without failing a call, or when the time for that is over. */
export async function leaveCluster(
  {
    agent,
    leases,
    streams,
    listening,
  }: LeavingParts & {
    readonly leases: Pick<ServerLeases, "drain" | "leave"> | undefined
  },
  steps: LeavingSteps,
  { drainDelay, shutdownGrace }: LeavingTimes,
  clock: Clock,
): Promise<void> {
  leases?.drain()
  steps.drain()
  await delay(clock, drainDelay)
  const end = clock.now() + shutdownGrace
  const ownMs = shutdownGrace * (1 - RESERVED_SHARE)
  const whenDrained = (by: number) => withTimeout(clock, Math.max(0, by - clock.now()), agent.drained())
  // The last replica has no other to pass anything on to.
  if (steps.leave()) await leases?.leave(ownMs)
  else await listening?.refuse()
  for (const stream of [...streams]) stream.drain?.()
  await whenDrained(end - shutdownGrace + ownMs)
  await listening?.refuse()
  // A stream may last forever. The stream of a call ends with the call.
  const isServing = () => (listening?.pending() ?? 0) > streams.size
  while (isServing() && clock.now() < end) await delay(clock, LOOK_MS)
  await whenDrained(end)
}

// ---

const LOOK_MS = 20
const RESERVED_SHARE = 0.25
