/**
 * The machine of a backend: `step(state, event, policy) -> [state, effects]`. One machine for every backend, supervised or
 * not, stdio or remote: unsupervised is a policy.
 *
 *   stopped ─start─▶ starting ─opened─▶ connected
 *                       │                 │    ▲
 *                      lost              lost  opened
 *                       ▼                 ▼    │
 *                       └───▶ waiting ─due─▶ recovering ─lost─▶ waiting | crashed
 *
 *   Lost is failed to open, exited, or gone silent. With the policy `never`: lost ─▶ failed. With the budget of
 *   `supervised` spent: lost ─▶ crashed. `reconnect` has no budget. From anywhere: stop ─▶ stopped, restart ─▶ recovering
 *   with a fresh budget. A refusal (401) ─▶ unauthorized, where only an order helps.
 *
 *  1. Everything that changes a state is in this file; it has no clock, no timer and no I/O. Time arrives in events.
 *  2. Reports and timers carry the epoch they answer; the stale ones are dropped in one place, and no other code checks.
 *  3. Total: every state answers every event, and "nothing happens" is an answer.
 *  4. At most one process and one timer; what is published is published exactly while connected. `close` comes before the
 *     next `open`, and the driver does not begin the one before the other is done.
 *
 * spec: Supervised backend.
 */
import type { RestartPolicy } from "../config/server-spec.ts"

/** How a process ended; `at` is milliseconds since the epoch. */
export type ProcessExit = { readonly code: number | null; readonly signal: string | null; readonly at: number }

/**
 * One backend's state. Each variant has exactly its own facts; times are milliseconds since the epoch. `attempt` counts
 * consecutive automatic restarts so far (0 on a first start).
 */
export type BackendState =
  | { readonly kind: "stopped"; readonly epoch: number }
  | { readonly kind: "starting"; readonly epoch: number; readonly since: number }
  | {
      readonly kind: "connected"
      readonly epoch: number
      readonly since: number
      readonly pid: number | undefined
      readonly attempt: number
    }
  | { readonly kind: "waiting"; readonly epoch: number; readonly attempt: number; readonly retryAt: number }
  | { readonly kind: "recovering"; readonly epoch: number; readonly attempt: number; readonly since: number }
  | { readonly kind: "crashed"; readonly epoch: number; readonly attempt: number; readonly at: number }
  | { readonly kind: "failed"; readonly epoch: number; readonly at: number }
  | { readonly kind: "unauthorized"; readonly epoch: number; readonly at: number }

/** `now` is milliseconds since the epoch, and never goes back. */
export type BackendEvent =
  | { readonly kind: "start" | "stop" | "restart"; readonly now: number }
  | { readonly kind: "opened"; readonly epoch: number; readonly now: number; readonly pid: number | undefined }
  | { readonly kind: "lost" | "unauthorized" | "due" | "stable"; readonly epoch: number; readonly now: number }

export type BackendEffect =
  | { readonly kind: "open"; readonly epoch: number }
  | { readonly kind: "close" | "publish" | "unpublish" | "cancelTimer" }
  | { readonly kind: "wait"; readonly event: "due" | "stable"; readonly epoch: number; readonly ms: number }

/** A connection that lived this long refills the budget. */
export const STABLE_MS = 5 * 60_000

export const INITIAL_STATE: BackendState = { kind: "stopped", epoch: 0 }

export function step(
  state: BackendState,
  event: BackendEvent,
  policy: RestartPolicy,
): readonly [BackendState, readonly BackendEffect[]] {
  if ("epoch" in event && event.epoch !== state.epoch) return [state, []]
  const { now } = event
  switch (event.kind) {
    case "start":
      return state.kind === "stopped"
        ? begin({ kind: "starting", epoch: state.epoch + 1, since: now }, [])
        : [state, []]
    case "stop":
      return state.kind === "stopped" ? [state, []] : [{ kind: "stopped", epoch: state.epoch + 1 }, leave(state)]
    case "restart":
      return begin({ kind: "recovering", epoch: state.epoch + 1, attempt: 0, since: now }, leave(state))
    case "opened": {
      if (state.kind !== "starting" && state.kind !== "recovering") return [state, []]
      const attempt = state.kind === "recovering" ? state.attempt : 0
      const { epoch } = state
      const stable: BackendEffect[] = attempt > 0 ? [{ kind: "wait", event: "stable", epoch, ms: STABLE_MS }] : []
      return [{ kind: "connected", epoch, since: now, pid: event.pid, attempt }, [{ kind: "publish" }, ...stable]]
    }
    case "lost":
      return lose(state, now, policy)
    case "unauthorized":
      return isOpen(state) ? [{ kind: "unauthorized", epoch: state.epoch, at: now }, leave(state)] : [state, []]
    case "due":
      return state.kind === "waiting"
        ? begin({ kind: "recovering", epoch: state.epoch + 1, attempt: state.attempt, since: now }, [])
        : [state, []]
    case "stable":
      return state.kind === "connected" ? [{ ...state, attempt: 0 }, []] : [state, []]
  }
}

/** Milliseconds before attempt `n`: the delay times 1, 2, 4, 8, then 16. */
export const restartDelay = (n: number, delay: number): number => delay * 2 ** Math.min(n - 1, 4)

/** What the world calls a state. */
export type StateStatus = {
  /** spec: Server connection status. */
  readonly status: "connected" | "error" | "disconnected" | "awaiting_oauth"
  /** spec: Supervision summary; undefined where a state is not counted. */
  readonly aggregate: "connected" | "restarting" | "crashLoop" | "stopped" | undefined
  /** Whether a supervised backend in this state holds /health/ready at 503. */
  readonly holdsReady: boolean
}

export const STATUS_BY_STATE: Readonly<Record<BackendState["kind"], StateStatus>> = {
  stopped: { status: "disconnected", aggregate: "stopped", holdsReady: false },
  starting: { status: "disconnected", aggregate: "stopped", holdsReady: false },
  connected: { status: "connected", aggregate: "connected", holdsReady: false },
  waiting: { status: "disconnected", aggregate: "restarting", holdsReady: true },
  recovering: { status: "disconnected", aggregate: "restarting", holdsReady: true },
  crashed: { status: "error", aggregate: "crashLoop", holdsReady: true },
  failed: { status: "error", aggregate: undefined, holdsReady: false },
  unauthorized: { status: "awaiting_oauth", aggregate: "stopped", holdsReady: false },
}

// ---

/** Whether a process or connection exists or is being made. */
const isOpen = (state: BackendState): boolean =>
  state.kind === "starting" || state.kind === "connected" || state.kind === "recovering"

function begin<S extends BackendState>(
  state: S,
  effects: readonly BackendEffect[],
): readonly [S, readonly BackendEffect[]] {
  return [state, [...effects, { kind: "open", epoch: state.epoch }]]
}

/** What must be undone when a state is left for good. */
function leave(state: BackendState): readonly BackendEffect[] {
  switch (state.kind) {
    case "connected":
      return [
        { kind: "unpublish" },
        ...(state.attempt > 0 ? [{ kind: "cancelTimer" } as const] : []),
        { kind: "close" },
      ]
    case "starting":
    case "recovering":
      return [{ kind: "close" }]
    case "waiting":
      return [{ kind: "cancelTimer" }]
    case "stopped":
    case "crashed":
    case "failed":
    case "unauthorized":
      return []
  }
}

function lose(
  state: BackendState,
  now: number,
  policy: RestartPolicy,
): readonly [BackendState, readonly BackendEffect[]] {
  if (!isOpen(state)) return [state, []]
  const { epoch } = state
  const spent = "attempt" in state ? state.attempt : 0
  if (policy.kind === "never") return [{ kind: "failed", epoch, at: now }, leave(state)]
  const attempt = spent + 1
  if (policy.kind === "supervised" && policy.limit > 0 && attempt > policy.limit)
    return [{ kind: "crashed", epoch, attempt: spent, at: now }, leave(state)]
  const ms = restartDelay(attempt, policy.delay)
  const wait: BackendEffect = { kind: "wait", event: "due", epoch, ms }
  return [{ kind: "waiting", epoch, attempt, retryAt: now + ms }, [...leave(state), wait]]
}
