/**
 * Shows the start of svc. On a terminal: a status line with the servers that are starting, then a summary with the servers
 * that need attention, the address, and the commands to run next. Elsewhere: one line of the log.
 */

import type { Snapshot } from "../agent/snapshot.ts"
import { type Clock, systemClock } from "../lib/clock.ts"
import { shellWord } from "../lib/shell-word.ts"
import { cut, formatFacts, formatTable } from "../lib/table.ts"
import { type Look, paint } from "../lib/terminal.ts"
import { counted } from "../lib/text.ts"
import { TONE_BY_STATE } from "../report/server-state.ts"
import { type ServerStatus, type Status, statusOf } from "../report/status.ts"
import type { Runtime } from "./runtime.ts"
import type { ServeOptions } from "./serve-options.ts"

/** Facts about the start that the summary shows. */
export type StartFacts = {
  /** The address for clients; undefined on stdio and on a Unix socket. */
  readonly endpoint: string | undefined
  /** The flags that select the same configuration in another command. */
  readonly configFlags: readonly string[]
  readonly isDemo: boolean
  /** Whether svc's commands with the same flags reach this svc; a second demo is not reachable. */
  readonly isReachable: boolean
}

/** Shows the progress of the start, and its outcome once svc has tried to connect each server. `close` ends it early. */
export function showStart(
  { agent, redactor, terminal, log }: Pick<Runtime, "agent" | "redactor" | "terminal" | "log">,
  { admin, auth, transport }: Pick<ServeOptions, "admin" | "auth" | "transport">,
  facts: StartFacts,
  clock: Clock = systemClock,
): { close(): void } {
  const shows = transport === "http" ? terminal : undefined
  let cancel = () => {}
  let isOver = false
  let isSummaryShown = false
  const draw = () => {
    const text = startingText(agent.snapshot(), clock.now())
    if (isSummaryShown && text === "") return close()
    if (shows !== undefined) shows.show(cut(text, shows.look.width - 1))
    cancel = clock.after(REDRAW_MS, draw)
  }
  const close = () => {
    if (isOver) return
    isOver = true
    cancel()
    shows?.show("")
  }
  if (shows !== undefined) draw()
  void agent.whenLoaded(undefined, SUMMARY_AFTER_MS).then(() => {
    if (isOver || agent.stopping) return
    cancel()
    shows?.show("")
    isSummaryShown = true
    const status = statusOf(agent.snapshot(), clock.now(), (text) => redactor().maskCredentials(text))
    if (shows !== undefined) shows.write(`${summaryScreen(status, { ...facts, admin, auth }, shows.look)}\n`)
    else if (status.servers.length > 0) log.info(summaryLine(status))
    // The servers that are still starting are shown below the summary.
    if (shows !== undefined) draw()
  })
  return { close }
}

/** Returns the text of the status line: the servers in their first start; empty if there are none. */
export function startingText({ backends }: Snapshot, now: number): string {
  const starting = backends.filter(({ loading }) => loading.startedAt !== undefined && loading.endedAt === undefined)
  if (starting.length === 0) return ""
  const since = Math.min(...starting.map(({ loading }) => loading.startedAt ?? now))
  const seconds = Math.floor((now - since) / 1000)
  const runners = starting.map(({ spec: { launch } }) =>
    launch.transport === "stdio" ? RUNNERS.find((one) => launch.command.endsWith(one)) : undefined,
  )
  const runner = runners.find((one) => one !== undefined)
  const why = runner !== undefined && seconds >= INSTALLING_AFTER_S ? `: ${runner} may be installing` : ""
  return `starting: ${starting.map(({ spec }) => spec.id).join(", ")} (${seconds} s${why})`
}

/** Returns the outcome of a start as one line. */
export function summaryLine({ servers }: Status): string {
  const troubled = servers.filter(needsAttention).map(({ id, state }) => `${id} (${state})`)
  const named = `${troubled.slice(0, MOST_NAMED).join(", ")}${troubled.length > MOST_NAMED ? ", …" : ""}`
  const attention = troubled.length === 0 ? "" : `; needing attention: ${named}; see \`svc mcp status\``
  return `${readyText(servers)}${attention}`
}

/** Returns the screen at the end of a start. */
export function summaryScreen(
  status: Status,
  { endpoint, configFlags, isDemo, isReachable, admin, auth }: StartFacts & Pick<ServeOptions, "admin" | "auth">,
  look: Look,
): string {
  const { servers, invalid } = status
  const flags = configFlags.map((word) => ` ${shellWord(word, false)}`).join("")
  const where = endpoint === undefined ? "" : `: ${endpoint}`
  const troubled = [
    ...servers.filter(needsAttention).map((one) => [one.id, one.state, adviceFor(one, flags)] as const),
    ...Object.entries(invalid).map(([name, reason]) => [name, "invalid", reason] as const),
  ]
  const rows = troubled
    .slice(0, MOST_ROWS)
    .map(([name, state, note]) => [`  ${name}`, { text: state, tone: TONE_BY_STATE[state] }, note])
  const token = auth ? ' --header "Authorization: Bearer TOKEN"' : ""
  const next: (readonly [string, string])[] = [
    ...(endpoint === undefined
      ? []
      : [
          ["connect a client", `svc connect claude-code${isReachable ? flags : ` --url ${endpoint}`}`] as const,
          ["  or by hand", `claude mcp add -t http svc ${endpoint}${token}`] as const,
          ...(admin && isReachable ? [["open the page", `svc admin${flags}`] as const] : []),
        ]),
    ...(auth ? [["create a token", `svc auth token create USER${flags}`] as const] : []),
    ["add a server", `svc mcp add NAME${flags} -- COMMAND ARGS…`],
    ["import servers", `svc config import${flags}`],
    ...(isDemo ? [["serve them", "svc serve"] as const] : []),
    ...(troubled.length === 0 ? [] : [["see the reasons", `svc mcp status${flags}`] as const]),
    ["stop", "Ctrl-C"],
  ]
  return [
    "",
    `${paint(`svc is ready${where}`, "strong", look)}`,
    status.loaded ? readyText(servers) : `the configuration is not loaded; \`svc config check${flags}\` shows why`,
    ...(rows.length === 0
      ? []
      : ["", "needing attention:", formatTable(ATTENTION_COLUMNS, rows, look).split("\n").slice(1).join("\n")]),
    ...(troubled.length > MOST_ROWS ? [`  and ${troubled.length - MOST_ROWS} more`] : []),
    "",
    formatFacts(
      next.flatMap(([label, command]) =>
        shellLines(command, look.width - COMMAND_INDENT).map((line, at) => [at === 0 ? label : "", line] as const),
      ),
      { ...look, width: Number.POSITIVE_INFINITY },
    ),
    "",
  ].join("\n")
}

// ---

const REDRAW_MS = 250
/** Servers that take longer are shown as starting in the summary. */
const SUMMARY_AFTER_MS = 10_000
const INSTALLING_AFTER_S = 3
const MOST_NAMED = 10
const MOST_ROWS = 12

const ATTENTION_COLUMNS = ["", "", { title: "", fit: "wrap" }] as const

/** The columns before a command in the summary. */
const COMMAND_INDENT = 20

/** Breaks a command that is wider than `width` between words, so that a shell accepts the copied lines as one command. */
function shellLines(command: string, width: number): readonly string[] {
  if (command.length <= width) return [command]
  const lines: string[] = []
  for (const word of command.match(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g) ?? []) {
    const line = lines.at(-1)
    if (line !== undefined && `${line} ${word} \\`.length <= width) lines[lines.length - 1] = `${line} ${word}`
    else lines.push(line === undefined ? word : `  ${word}`)
  }
  return lines.map((line, at) => (at === lines.length - 1 ? line : `${line} \\`))
}

/** Commands that install a package before they run it. */
const RUNNERS = ["npx", "uvx", "bunx", "dnx", "docker"]

const needsAttention = ({ state }: ServerStatus): boolean => state !== "connected" && state !== "asleep"

/** Returns `2 of 3 servers ready, 17 tools`. */
function readyText(servers: readonly ServerStatus[]): string {
  if (servers.length === 0) return "no servers yet"
  const ready = servers.filter(({ status }) => status === "connected")
  const tools = ready.reduce((sum, one) => sum + (one.tools ?? 0), 0)
  return `${ready.length} of ${counted(servers.length, "server")} ready, ${counted(tools, "tool")}`
}

/** Returns the command that helps a server, or why it is not ready. */
function adviceFor({ name, state, lastError, issues }: ServerStatus, flags: string): string {
  if (state === "sign-in needed") return `run \`svc auth login ${name}${flags}\``
  return [...new Set([lastError, ...(issues ?? [])])].filter((one) => one !== undefined).join("; ")
}
