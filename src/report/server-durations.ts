/** Measures how long connections to servers last, and how long servers take to wake. */
import type { Backend } from "../backend/backend.ts"
import type { BackendState } from "../backend/supervision.ts"
import type { Metrics } from "./metrics.ts"

/** The parts of a backend that are measured. */
type Observed = Pick<Backend, "spec" | "state" | "listing">

/** Returns the function that is called when the state of a backend may have changed; `now` is milliseconds since the epoch. */
export function observeServers(
  { connections, wakes }: Pick<Metrics, "connections" | "wakes">,
  now: () => number,
): (backend: Observed) => void {
  const known = new WeakMap<Observed, { readonly state: BackendState; readonly version: string | undefined }>()
  return (backend) => {
    const { spec, state, listing } = backend
    const before = known.get(backend)
    if (before?.state === state) return
    known.set(backend, { state, version: state.kind === "connected" ? listing?.protocolVersion : undefined })
    if (before === undefined) return
    const { state: old, version } = before
    const error = ERRORS[state.kind]
    if (old.kind === "connected" && (state.kind !== "connected" || state.epoch !== old.epoch)) {
      const protocol = spec.launch.transport === "stdio" ? undefined : "http"
      connections.record([spec.id, version, protocol, error], (now() - old.since) / 1000)
    }
    if (old.kind === "waking" && state.kind !== "waking") wakes.record([spec.id, error], (now() - old.since) / 1000)
  }
}

// ---

/** The `error.type` of a connection that ended, or of an attempt to wake, by the state that follows. */
const ERRORS: Partial<Record<BackendState["kind"], string>> = {
  waiting: "unavailable",
  crashed: "unavailable",
  failed: "unavailable",
  unauthorized: "unauthorized",
}
