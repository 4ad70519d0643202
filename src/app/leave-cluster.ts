/**
 * How a replica leaves its cluster so that no call fails, whether the load balancer probes `/health/ready` or not.
 *
 *  1. For `--drain-delay` it says that it is not ready, and serves what comes. Each response ends its connection: a load balancer
 *     that keeps connections has none left that it could use just when they are closed.
 *  2. Then it leaves new work to the other replicas: a load balancer that does not probe still sends it some, and the replica
 *     must go on to accept connections, over which the others bring what its running calls need.
 *  3. When its own calls have ended, it accepts no more connections: a load balancer takes the next replica.
 *  4. It is ready to end when what it has passed on has been answered, too. All that has `--shutdown-grace`. The last part of it is
 *     for that alone: a call whose client is away may never end, and must not take others with it.
 */
import { type Clock, delay, withTimeout } from "../lib/clock.ts"
import type { Listening } from "../serve/server.ts"
import type { Cluster } from "./cluster.ts"
import type { Runtime } from "./runtime.ts"
import type { ServeOptions } from "./serve-options.ts"

/** Resolves when nothing that was begun is lost if svc ends now, or when the time for that is over. */
export async function leaveCluster(
  { agent, leases, streams }: Pick<Runtime, "agent" | "leases" | "streams">,
  cluster: Cluster,
  listening: Listening | undefined,
  { drainDelay, shutdownGrace }: Pick<ServeOptions, "drainDelay" | "shutdownGrace">,
  clock: Clock,
): Promise<void> {
  leases?.drain()
  cluster.drain()
  await delay(clock, drainDelay)
  const end = clock.now() + shutdownGrace
  const whenDrained = (by: number) => withTimeout(clock, Math.max(0, by - clock.now()), agent.drained())
  // The last replica has nobody to leave anything to.
  if (cluster.leave()) await leases?.leave(shutdownGrace)
  else await listening?.refuse()
  for (const stream of [...streams]) stream.drain?.()
  await whenDrained(end - shutdownGrace * LAST_PART)
  await listening?.refuse()
  // A stream may last for ever. One of a call ends with the call.
  const isServing = () => (listening?.pending() ?? 0) > streams.size
  while (isServing() && clock.now() < end) await delay(clock, LOOK_MS)
  await whenDrained(end)
}

// ---

const LOOK_MS = 20
const LAST_PART = 0.25
