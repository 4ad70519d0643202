/**
 * The state machine of a backend: `step(state, event, policy) -> [state, effects]`. All backends share it, supervised or not,
 * stdio or remote: unsupervised is a policy.
 *
 *   stopped ─start─▶ starting ─opened─▶ connected
 *                       │                 │    ▲
 *                      lost              lost  opened
 *                       ▼                 ▼    │
 *                       └───▶ waiting ─due─▶ recovering ─lost─▶ waiting | crashed
 *
 *   stopped ─rest─▶ asleep ─wake─▶ waking ─negotiated─▶ awake ─opened─▶ connected ─sleep─▶ asleep
 *   waking ─opened─▶ connected, if calls must wait for its lists; waking, awake ─lost─▶ as above
 *
 *   Lost: failed to open, exited, or stopped answering. Refused: a loss that another attempt will not repair, such as a wrong
 *   address; attempts become rarer. Policy `never`: lost ─▶ failed; a server that does not wake gets its attempts first, because svc
 *   had ended it. Policy `supervised` with its attempts used up: lost ─▶ crashed. Policy `reconnect` has no limit. From any
 *   state: stop ─▶ stopped, restart ─▶ recovering with fresh attempts. A 401 ─▶ unauthorized, until an operator restarts or
 *   authorizes.
 *
 *  1. All changes of state are in this file. It has no clock, no timer and no I/O: time arrives in events.
 *  2. Reports and timers carry the epoch of their effect. The first line of `step` drops stale events; no other code checks.
 *  3. The machine is total: every state handles every event, if only with no change and no effects.
 *  4. There is at most one process and one timer. The listing is published exactly while connected, asleep, waking or awake. `close` precedes
 *     the next `open`, and the driver finishes the one before it begins the other.
 *
 * spec: Supervised backend.
 */
import type { RestartPolicy } from "../config/server-spec.ts"

/** The exit of a process; `at` is milliseconds since the epoch. */
export type ProcessExit = { readonly code: number | null; readonly signal: string | null; readonly at: number }

/**
 * The state of a backend. Times are milliseconds since the epoch. `attempt` counts consecutive automatic restarts so far
 * (0 on a first start).
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
  /** Without a process, because nobody needs it; its last listing stays published. */
  | { readonly kind: "asleep"; readonly epoch: number; readonly since: number }
  /** Starts because a call needs it. Counts as connected, and keeps the listing, until it fails. */
  | { readonly kind: "waking"; readonly epoch: number; readonly since: number }
  /** Takes calls while it answers its lists; until then its last listing stays published. */
  | { readonly kind: "awake"; readonly epoch: number; readonly since: number; readonly pid: number | undefined }
  | { readonly kind: "waiting"; readonly epoch: number; readonly attempt: number; readonly retryAt: number }
  | { readonly kind: "recovering"; readonly epoch: number; readonly attempt: number; readonly since: number }
  | { readonly kind: "crashed"; readonly epoch: number; readonly attempt: number; readonly at: number }
  | { readonly kind: "failed"; readonly epoch: number; readonly at: number }
  | { readonly kind: "unauthorized"; readonly epoch: number; readonly at: number }

/** `now` is milliseconds since the epoch, and never goes back. */
export type BackendEvent =
  /** `rest`: start without a process; `sleep`: end the process, and start it when it is needed; `wake`: it is needed. */
  | { readonly kind: "start" | "rest" | "sleep" | "wake" | "stop" | "restart"; readonly now: number }
  /** `negotiated`: a server that wakes can take calls; `opened`: it has also answered its lists. */
  | {
      readonly kind: "negotiated" | "opened"
      readonly epoch: number
      readonly now: number
      readonly pid: number | undefined
    }
  | {
      readonly kind: "lost" | "refused" | "unauthorized" | "due" | "stable"
      readonly epoch: number
      readonly now: number
    }

/** The effects that the driver must run, in order. */
export type BackendEffect =
  | { readonly kind: "open"; readonly epoch: number }
  | { readonly kind: "close" | "publish" | "unpublish" | "cancelTimer" }
  | { readonly kind: "wait"; readonly event: "due" | "stable"; readonly epoch: number; readonly ms: number }

/** A connection that lived this long resets the attempts. */
export const STABLE_MS = 5 * 60_000

export const INITIAL_STATE: BackendState = { kind: "stopped", epoch: 0 }

/** Returns the next state and the effects of an event. Total and pure. */
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
    case "rest":
      return state.kind === "stopped" ? [{ kind: "asleep", epoch: state.epoch + 1, since: now }, []] : [state, []]
    case "sleep":
      return state.kind === "connected"
        ? [{ kind: "asleep", epoch: state.epoch + 1, since: now }, leave(state)]
        : [state, []]
    case "wake":
      return state.kind === "asleep" ? begin({ kind: "waking", epoch: state.epoch + 1, since: now }, []) : [state, []]
    case "stop":
      return state.kind === "stopped" ? [state, []] : [{ kind: "stopped", epoch: state.epoch + 1 }, leave(state)]
    case "restart":
      return begin({ kind: "recovering", epoch: state.epoch + 1, attempt: 0, since: now }, leave(state))
    case "negotiated":
      return state.kind === "waking"
        ? [{ kind: "awake", epoch: state.epoch, since: now, pid: event.pid }, [{ kind: "publish" }]]
        : [state, []]
    case "opened": {
      // It is connected since it takes calls.
      if (state.kind === "awake")
        return [{ ...state, kind: "connected", attempt: 0 }, [{ kind: "unpublish" }, { kind: "publish" }]]
      if (state.kind !== "starting" && state.kind !== "recovering" && state.kind !== "waking") return [state, []]
      const attempt = state.kind === "recovering" ? state.attempt : 0
      const { epoch } = state
      const stable: BackendEffect[] = attempt > 0 ? [{ kind: "wait", event: "stable", epoch, ms: STABLE_MS }] : []
      return [{ kind: "connected", epoch, since: now, pid: event.pid, attempt }, [{ kind: "publish" }, ...stable]]
    }
    case "lost":
    case "refused":
      return lose(state, now, policy, event.kind)
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

/** Returns the milliseconds before attempt `n`: the delay times 1, 2, 4, 8, then 16; after a refusal up to 256. */
export const restartDelay = (n: number, delay: number, after: "lost" | "refused" = "lost"): number =>
  delay * 2 ** Math.min(n - 1, after === "lost" ? 4 : 8)

/** The report of a state. */
export type StateStatus = {
  /** spec: Server connection status. */
  readonly status: "connected" | "error" | "disconnected" | "awaiting_oauth"
  /** spec: Supervision summary; undefined for a state that is not counted. */
  readonly aggregate: "connected" | "restarting" | "crashLoop" | "stopped" | undefined
  /** Whether a supervised backend in this state holds /health/ready at 503. */
  readonly holdsReady: boolean
}

export const STATUS_BY_STATE: Readonly<Record<BackendState["kind"], StateStatus>> = {
  stopped: { status: "disconnected", aggregate: "stopped", holdsReady: false },
  starting: { status: "disconnected", aggregate: "stopped", holdsReady: false },
  connected: { status: "connected", aggregate: "connected", holdsReady: false },
  asleep: { status: "connected", aggregate: "connected", holdsReady: false },
  waking: { status: "connected", aggregate: "connected", holdsReady: false },
  awake: { status: "connected", aggregate: "connected", holdsReady: false },
  waiting: { status: "disconnected", aggregate: "restarting", holdsReady: true },
  recovering: { status: "disconnected", aggregate: "restarting", holdsReady: true },
  crashed: { status: "error", aggregate: "crashLoop", holdsReady: true },
  failed: { status: "error", aggregate: undefined, holdsReady: false },
  unauthorized: { status: "awaiting_oauth", aggregate: "stopped", holdsReady: false },
}

/** Whether a server has no process, or is getting one, while its last listing stays published. */
export const isDozing = ({ kind }: BackendState): boolean => kind === "asleep" || kind === "waking"

// ---

/** Whether a process or connection exists or is being opened. */
const isOpen = (state: BackendState): boolean =>
  state.kind === "starting" || state.kind === "connected" || state.kind === "recovering" || isWaking(state)

function begin<S extends BackendState>(
  state: S,
  effects: readonly BackendEffect[],
): readonly [S, readonly BackendEffect[]] {
  return [state, [...effects, { kind: "open", epoch: state.epoch }]]
}

/** Returns the effects that end a state. */
function leave(state: BackendState): readonly BackendEffect[] {
  switch (state.kind) {
    case "connected":
      return [
        { kind: "unpublish" },
        ...(state.attempt > 0 ? [{ kind: "cancelTimer" } as const] : []),
        { kind: "close" },
      ]
    case "awake":
      return [{ kind: "unpublish" }, { kind: "close" }]
    case "starting":
    case "recovering":
    case "waking":
      return [{ kind: "close" }]
    case "waiting":
      return [{ kind: "cancelTimer" }]
    case "stopped":
    case "asleep":
    case "crashed":
    case "failed":
    case "unauthorized":
      return []
  }
}

const isWaking = ({ kind }: BackendState): boolean => kind === "waking" || kind === "awake"

/** Whether a server is started again that svc itself had ended, or had not started yet. */
const isRevived = (state: BackendState): boolean =>
  isWaking(state) || (state.kind === "recovering" && state.attempt > 0)

function lose(
  state: BackendState,
  now: number,
  policy: RestartPolicy,
  kind: "lost" | "refused",
): readonly [BackendState, readonly BackendEffect[]] {
  if (!isOpen(state)) return [state, []]
  const { epoch } = state
  const previous = "attempt" in state ? state.attempt : 0
  const attempt = previous + 1
  const isUsedUp = policy.limit > 0 && attempt > policy.limit
  if (policy.kind === "never" && (isUsedUp || !isRevived(state)))
    return [{ kind: "failed", epoch, at: now }, leave(state)]
  if (policy.kind === "supervised" && isUsedUp)
    return [{ kind: "crashed", epoch, attempt: previous, at: now }, leave(state)]
  const ms = restartDelay(attempt, policy.delay, kind)
  const wait: BackendEffect = { kind: "wait", event: "due", epoch, ms }
  return [{ kind: "waiting", epoch, attempt, retryAt: now + ms }, [...leave(state), wait]]
}
