/** Warns if replicas have had different configurations for a minute: a rollout takes less, a forgotten file stays. */
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import type { Replicas } from "../store/replicas.ts"

export type ConfigurationDrift = {
  /** The ids of the replicas whose configuration has differed from this one's for a minute. */
  readonly differing: readonly string[]
  close(): void
}

/** Starts to compare the configurations. Logs when the set of replicas that differ changes. */
export function watchConfigurations(
  replicas: Pick<Replicas, "all">,
  clock: Clock,
  log: Pick<Log, "warn" | "info">,
): ConfigurationDrift {
  const since = new Map<string, number>()
  let differing: readonly string[] = []
  let cancel: () => void
  const check = () => {
    const all = replicas.all()
    const own = all.find(({ self }) => self)
    const others = all.filter(({ self, config }) => own !== undefined && !self && config !== own.config)
    for (const id of [...since.keys()]) if (!others.some((other) => other.id === id)) since.delete(id)
    for (const { id } of others) if (!since.has(id)) since.set(id, clock.now())
    const before = differing
    differing = [...since].flatMap(([id, at]) => (clock.now() - at >= DRIFT_MS ? [id] : []))
    if (differing.join() !== before.join())
      if (differing.length > 0)
        log.warn(
          `replicas have had another configuration for over a minute: ${differing.join(", ")}; give all replicas the same mcp.json, or clients see servers come and go`,
        )
      else log.info("all replicas have the same configuration")
    cancel = clock.after(CHECK_MS, check)
  }
  cancel = clock.after(CHECK_MS, check)
  return {
    get differing() {
      return differing
    },
    close: () => cancel(),
  }
}

// ---

const DRIFT_MS = 60_000
const CHECK_MS = 5000
