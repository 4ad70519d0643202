/** The log of a running svc: lines to stderr, the journal of each server, and the redaction of both. */
import { WireLog } from "../backend/wire-log.ts"
import { slugOf } from "../config/server-spec.ts"
import { systemClock } from "../lib/clock.ts"
import { type Log, openLog } from "../lib/log.ts"
import { createStderrWriter, say, stderrLook, terminalLook } from "../lib/output.ts"
import { createLiveRedactor, type Redactor } from "../lib/redact.ts"
import { wrap } from "../lib/table.ts"
import { createLiveOutput, type LiveOutput, type Look } from "../lib/terminal.ts"
import { counted } from "../lib/text.ts"
import { logsFolder, type Paths } from "../store/paths.ts"
import { createServerLogs, type ServerLogs, withServerLogs } from "../store/server-logs.ts"
import type { ServeOptions } from "./serve-options.ts"

export type Logging = {
  readonly log: Log
  readonly serverLogs: ServerLogs
  /** Writes the messages of watched servers to their logs. */
  readonly wire: WireLog
  /** Returns a redactor that knows the current secrets. */
  redactor(): Redactor
  /** Adds sources of secrets; until it is called, the redactor only knows patterns. */
  followSecrets(sources: readonly (() => readonly string[])[]): void
  /** The terminal that log lines go to; undefined if they go elsewhere, or are JSON. */
  readonly terminal: (LiveOutput & { readonly look: Look }) | undefined
  /** Logs an error that is a bug of svc, with its stack, and with the trace of its request if there is one. */
  onbug(error: unknown, trace?: string): void
}

/** The file of the log, which receives the lines instead of stderr. */
export type LogFile = { write(line: string): void; close(): Promise<void> }

/** Opens the file of the log. Rejects with an UnavailableError if it cannot be written. */
export async function openLogFile(path: string): Promise<LogFile> {
  const { openJournal } = await import("../lib/journal.ts")
  const journal = await openJournal({
    path,
    clock: systemClock,
    onfail: say,
    lost: (count) => `${new Date(systemClock.now()).toISOString()} warn  ${counted(count, "line")} of the log lost`,
  })
  return { write: (line) => journal.add({ text: () => line.trimEnd() }), close: () => journal.close() }
}

/** Opens the log. Without `paths`, the journals of servers are kept only in memory. */
export function openLogging(
  { logLevel, logFormat }: Pick<ServeOptions, "logLevel" | "logFormat">,
  paths: Paths | undefined,
  file?: LogFile,
): Logging {
  const { cleaner: redactor, follow: followSecrets } = createLiveRedactor()
  const mask = (text: string) => redactor().maskCredentials(text)
  const write = createStderrWriter(MAX_UNREAD_BYTES)
  const look = logFormat === "text" ? terminalLook() : undefined
  const terminal = look === undefined ? undefined : { ...createLiveOutput(write), look }
  const stderr = openLog({
    level: logLevel,
    format: logFormat,
    clock: systemClock,
    mask,
    look: file === undefined ? look : undefined,
    write: file?.write ?? (terminal === undefined ? write : (line) => terminal.write(wrapLine(line, stderrLook()))),
  })
  const serverLogs = createServerLogs({
    directory: paths === undefined ? undefined : logsFolder(paths),
    clock: systemClock,
    onfail: (reason) => stderr.warn(reason),
  })
  const log = withServerLogs(serverLogs, stderr, mask)
  return {
    log,
    serverLogs,
    wire: new WireLog({
      clock: systemClock,
      mask,
      write: (server, line) => serverLogs.append(slugOf(server), "debug", line),
    }),
    redactor,
    followSecrets,
    terminal,
    onbug: (error, trace) =>
      log.error(`internal error: ${error instanceof Error ? error.stack : String(error)}`, { trace }),
  }
}

// ---

/** Wraps a line of the log at words, for the width that the terminal has now. */
const wrapLine = (line: string, look: Look): string => `${wrap(line.trimEnd(), look)}\n`

/** The most bytes of log lines that wait for a reader of stderr; further lines are dropped. */
const MAX_UNREAD_BYTES = 1024 * 1024
