/**
 * Lets a command that has changed a file wait until the running svc has applied or refused the change, and report the
 * outcome.
 */
import type { ArgsDef } from "citty"
import { delay, systemClock } from "../lib/clock.ts"
import { readOptions } from "../lib/command-line.ts"
import { ConfigError, codesOf, messageOf, UnavailableError } from "../lib/errors.ts"
import { isTerminal, print, say, stdoutLook } from "../lib/output.ts"
import { wrap } from "../lib/table.ts"
import { counted } from "../lib/text.ts"
import { idleStateOf, type ServerState } from "../report/server-state.ts"
import { type Status, worstOf } from "../report/status.ts"
import type { LocalConfiguration } from "../serve/local-configuration.ts"
import { isObject, type Params } from "../wire/message.ts"

/** The flag of every command that changes a file which a running svc applies. */
export const FOLLOW_ARGS = {
  wait: {
    type: "boolean",
    description: "Return when the running svc has applied the change (default; --no-wait: at once)",
  },
} as const satisfies ArgsDef

/** The flags of commands that start a server. */
export const START_ARGS = {
  ...FOLLOW_ARGS,
  timeout: { type: "string", description: "How long to wait for the server to connect (default 10s)" },
} as const satisfies ArgsDef

/**
 * What the running svc has done with a change. `followed`: false if it runs with `--no-reload`. `applied`: false if it refuses
 * the configuration and keeps the last valid one.
 */
type Followed = {
  readonly followed: boolean
  readonly applied: boolean
  readonly issues: readonly string[]
  readonly status: Status
  /** The address of the state that replicas share, if it cannot be reached. */
  readonly away?: string
}

type FollowingContext = Pick<LocalConfiguration, "ask" | "tellNeighbors">

/**
 * Waits until the running svc has applied the change, and until each of `servers` has connected or failed, at most `--timeout`.
 * A running svc of another configuration in the same directory shares the tokens and presets, and also applies the change.
 * Undefined if no svc runs for the configuration, or the command has `--no-wait`. With `fresh` values, it asks for all secrets anew. `done` describes the change in the error for
 * an svc that does not answer.
 */
export async function followChange(
  { ask, tellNeighbors }: FollowingContext,
  args: Readonly<Record<string, unknown>>,
  done: string,
  servers: readonly string[] = [],
  values: "current" | "fresh" = "current",
): Promise<Followed | undefined> {
  if (args.wait === false) return undefined
  const wait = readOptions({ timeout: args.timeout }, {}).duration("timeout", CONNECT_MS)
  const over = new AbortController()
  if (servers.length > 0)
    void delay(systemClock, REPORT_AFTER_MS, over.signal).then(() => {
      if (!over.signal.aborted) say(`waiting for ${servers.join(", ")} to connect`)
    })
  try {
    const [answer] = await Promise.all([
      ask("reload", { names: servers, wait, ...(values === "fresh" ? { fresh: true } : {}) }, wait + ANSWER_MS),
      tellNeighbors(ANSWER_MS),
    ])
    return isObject(answer) && isObject(answer.status) ? (answer as Followed) : undefined
  } catch (error) {
    if (error instanceof UnavailableError) throw new UnavailableError(`${done}, but ${messageOf(error)}`)
    throw error
  } finally {
    over.abort()
  }
}

/** The output of a command that has changed something: `result` as JSON, `done` for people. */
export type WrittenChange = {
  /** `edit` (default): of a file, which the running svc has to read. `order`: to the running svc, which has done it. */
  readonly kind?: "edit" | "command"
  readonly result: Params
  readonly done: string
  /** The file, for people; left out if the output shows the outcome for a server. */
  readonly file?: string
  /** The servers that the command has added or changed, under their new names. */
  readonly servers?: readonly string[]
  /** Problems that the change has introduced. */
  readonly warnings?: readonly string[]
}

/**
 * Waits for a change to be applied, prints the outcome, and returns the exit code: 78 if the running svc refuses the
 * configuration, 69 if a server of the change does not start.
 */
export async function finishChange(
  context: FollowingContext,
  args: Readonly<Record<string, unknown>>,
  { kind = "edit", result, done, file, servers = [], warnings = [] }: WrittenChange,
  values: "current" | "fresh" = "current",
): Promise<number> {
  const answer = await followChange(context, args, done, servers, values)
  const followed = followedBy(answer, kind)
  const outcomes = followed === undefined ? [] : servers.map((name) => outcomeOf(name, followed.status))
  const isShown = (warning: string) =>
    outcomes.some(({ name, text }) => text.includes(warning.replace(`${name}: `, "")))
  for (const warning of warnings) if (!isShown(warning)) say(`warning: ${warning}`)
  const reported: Params = {
    ...(followed === undefined ? {} : { applied: followed.applied }),
    ...(outcomes.length === 0 ? {} : { servers: outcomes.map(({ text: _, ...outcome }) => outcome) }),
    ...(warnings.length === 0 ? {} : { warnings }),
  }
  const [only, ...others] = outcomes
  print(args.json === true, { ...result, ...reported }, () => {
    const look = stdoutLook()
    if (only === undefined) return wrap(file === undefined ? done : `${done} (${file})`, look)
    if (others.length === 0) return wrap(`${done}${only.text}`, look)
    return [done, ...outcomes.map(({ name, text }) => `  ${name}${text}`)].map((line) => wrap(line, look)).join("\n")
  })
  if (answer?.followed === false && kind === "edit")
    say(
      answer.status.demo === true
        ? "the running svc serves the demo; stop it and start `svc serve` to use your servers"
        : "the running svc has --no-reload: it applies the change when it starts again",
    )
  if (answer === undefined && servers.length > 0 && args.wait !== false && args.json !== true && isTerminal())
    say("svc is not running; `svc serve` starts it")
  if (followed === undefined || followed.applied)
    return outcomes.some(({ state }) => NOT_STARTED.has(state)) ? UNAVAILABLE_EXIT : 0
  say("the change is written, but the running svc refuses the configuration and keeps the last valid one:")
  for (const issue of followed.issues) say(`  ${issue}`)
  return CONFIG_EXIT
}

/** Returns the answer of a running svc that has done what the command wanted, or has judged it. */
function followedBy(answer: Followed | undefined, kind: "edit" | "command"): Followed | undefined {
  if (answer === undefined) return undefined
  if (kind === "command") return { ...answer, applied: true }
  return answer.followed ? answer : undefined
}

/** A server after a change; `lastError` is the reason why it does not run, or does not run yet. */
type ServerOutcome = {
  readonly name: string
  readonly state: ServerState
  readonly tools?: number
  readonly lastError?: string
  /** The text for people after the name. */
  readonly text: string
}

/** Returns the outcome for a server, from the status of the running svc. */
export function outcomeOf(name: string, status: Status): ServerOutcome {
  const shown = worstOf(status.servers.filter((one) => one.name === name || one.id === name))
  const state = shown?.state ?? idleStateOf(name, status)
  const { tools, lastError } = shown ?? {}
  const outcome = { name, state, ...(tools === undefined ? {} : { tools }) }
  switch (state) {
    case "connected":
    case "asleep":
    case "degraded":
      return { ...outcome, text: `: ${state}, ${counted(tools ?? 0, "tool")}` }
    case "sign-in needed":
      return { ...outcome, text: `: ${state}; \`svc auth login ${name}\` signs in` }
    case "token needed":
    case "credentials refused":
      return { ...outcome, ...(lastError === undefined ? {} : { lastError }), text: `; it ${lastError}` }
    case "invalid":
      return {
        ...outcome,
        lastError: status.invalid[name] ?? "",
        text: `; ${name} is not loaded: ${status.invalid[name]}`,
      }
    case "no owner": {
      const reason = status.unowned?.[name] ?? ""
      return { ...outcome, lastError: reason, text: `; it ${reason}` }
    }
    case "not in use":
      return { ...outcome, text: ": a template, which starts when a client uses it" }
    case "disabled":
    case "stopped":
    case "not loaded":
    case "not running":
      return { ...outcome, text: `: ${state}` }
    case "starting": {
      // Even with an error this is not a failure: a start may take minutes.
      const reason = lastError === undefined ? "" : ` (${lastError.replace(/ \(([^()]*)\)/, ", $1")})`
      const text = `: still starting${reason}; \`svc mcp status ${name}\` shows the progress`
      return { ...outcome, ...(lastError === undefined ? {} : { lastError }), text }
    }
    case "reconnecting":
    case "restarting":
    case "crash-loop":
    case "failed":
      return lastError === undefined
        ? { ...outcome, text: `: ${state}; \`svc mcp status ${name}\` shows when it is connected` }
        : { ...outcome, lastError, text: `; it does not start: ${lastError}` }
  }
}

/** Whether a server in this state needs nothing before clients can use it. */
export const isStarted = (state: ServerState): boolean => STARTED.has(state)

/** Returns an outcome as a sentence that begins with the name of the server. */
export function aboutServer({ name, text }: Pick<ServerOutcome, "name" | "text">): string {
  if (text.startsWith("; it ")) return `${name} ${text.slice("; it ".length)}`
  return text.startsWith(`; ${name} `) ? text.slice("; ".length) : `${name}${text}`
}

// ---

const CONNECT_MS = 10_000
/** How long svc may take to answer, in addition to the wait for servers. */
const ANSWER_MS = 60_000
const REPORT_AFTER_MS = 1000
const STARTED: ReadonlySet<ServerState> = new Set(["connected", "asleep", "degraded", "not in use"])
/** The states of a server that does not start, and that no further wait or sign-in helps. */
const NOT_STARTED: ReadonlySet<ServerState> = new Set(["restarting", "reconnecting", "crash-loop", "failed", "invalid"])
const UNAVAILABLE_EXIT = codesOf(new UnavailableError("")).exit
const CONFIG_EXIT = codesOf(new ConfigError([])).exit
