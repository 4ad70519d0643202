/**
 * The vocabulary of server states for people, and the function that derives a state from the snapshot. Commands, internal
 * tools and pages show these words; the bodies of `/health` keep the specification's four. choice: Server connection status.
 */
import type { BackendSnapshot } from "../agent/snapshot.ts"
import type { Cell } from "../lib/table.ts"
import type { Tone } from "../lib/terminal.ts"
import { healthOf } from "./health.ts"

/** The states of a server with a process or connection, each with the color in which it is shown. */
const RUNNING = {
  starting: "notice",
  connected: "good",
  /** Without a process until a call needs it; its tools are listed. */
  asleep: "good",
  /** Connected, but a list fails, pings are unanswered, or its transport has failed in the last minute. */
  degraded: "notice",
  /** A remote server whose connection is lost. */
  reconnecting: "notice",
  /** A process that has ended, and that svc starts again. */
  restarting: "notice",
  "crash-loop": "bad",
  /** Lost, and not restarted because of its settings. */
  failed: "bad",
  "sign-in needed": "notice",
  /** A remote server that requires a token in a header. */
  "token needed": "notice",
  /** A remote server that refused the credentials in the configured headers. */
  "credentials refused": "bad",
  stopped: "faint",
} as const satisfies Record<string, Tone>

/** The states of a configured server without a process or connection. */
const IDLE = {
  disabled: "faint",
  /** Does not run because of an error in the configuration. */
  invalid: "bad",
  /** Runs on one replica of a cluster at a time, and no replica runs it at the moment. */
  "no owner": "bad",
  /** A template without instances. */
  "not in use": "faint",
  /** Written, but not applied yet. */
  "not loaded": "notice",
  "not running": "faint",
} as const satisfies Record<string, Tone>

export type ServerState = keyof typeof RUNNING | keyof typeof IDLE

/** The color of each state. The admin page has a copy, because it imports only types: its type is this table. */
export const TONE_BY_STATE = { ...RUNNING, ...IDLE } as const

/** Returns the table cell of a server's state. */
export const stateCell = (state: ServerState): Cell => ({ text: state, tone: TONE_BY_STATE[state] })

/** Returns the state of a backend at the moment `now`. */
export function stateOf(backend: BackendSnapshot, now: number): keyof typeof RUNNING {
  const { state, spec, listed } = backend
  switch (state.kind) {
    case "awake":
    case "connected":
      if ((listed?.failing.length ?? 0) > 0 || !healthOf(backend, now).healthy) return "degraded"
      return backend.asleep ? "asleep" : "connected"
    case "asleep":
      return state.kind
    case "waking":
      // Health does not count it as starting: its tools are listed, and a call waits for it.
      return "starting"
    case "waiting":
    case "recovering":
      return spec.tuning.restart.kind === "reconnect" ? "reconnecting" : "restarting"
    case "crashed":
      return "crash-loop"
    case "unauthorized":
      return backend.refusal
    case "starting":
    case "failed":
    case "stopped":
      return state.kind
  }
}

/** The servers without a process or connection. */
export type IdleServers = {
  readonly disabled: readonly string[]
  readonly templates: readonly string[]
  /** The servers that do not run because of an error in the configuration, by name, with the error. */
  readonly invalid: Readonly<Record<string, string>>
  /** The servers that run on one replica at a time, while no replica runs them, by name, with the reason. */
  readonly unowned?: Readonly<Record<string, string>>
}

/** Returns the state of a configured server without a process or connection. `idle` is undefined if svc is not running. */
export function idleStateOf(name: string, idle: IdleServers | undefined): keyof typeof IDLE {
  if (idle === undefined) return "not running"
  if (idle.disabled.includes(name)) return "disabled"
  if (Object.hasOwn(idle.invalid, name)) return "invalid"
  if (idle.unowned?.[name] !== undefined) return "no owner"
  return idle.templates.includes(name) ? "not in use" : "not loaded"
}
