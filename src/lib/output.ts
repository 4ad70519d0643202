/** What commands print: results to stdout, as tables for people or JSON for programs, and messages to stderr. */

import { fstatSync, statSync } from "node:fs"
import { escaped } from "./log.ts"
import { type Cell, type Column, formatFacts, formatTable, printableLines, wrap } from "./table.ts"
import { type Look, lookOf } from "./terminal.ts"

/** Returns how stdout is shown. */
export const stdoutLook = (): Look => lookOf(process.stdout, process.env)

/** Returns how stderr is shown. */
export const stderrLook = (): Look => lookOf(process.stderr, process.env)

/** Returns how stderr is shown if it is a terminal that can replace a line in place. */
export const terminalLook = (): Look | undefined =>
  isTerminal() && process.env.TERM !== "dumb" ? stderrLook() : undefined

/** Whether stderr is a terminal. Checks the file first: `process.stderr` loads Node's streams, which takes 5 ms of a start. */
export const isTerminal = (): boolean => isDevice(STDERR) && process.stderr.isTTY === true

/** Formats rows for stdout as a table with a head: see `lib/table.ts`. */
export const table = (head: readonly Column[], rows: readonly (readonly Cell[])[]): string =>
  formatTable(head, rows, stdoutLook())

/** Formats the facts about one thing for stdout. */
export const facts = (rows: readonly (readonly [label: string, value: Cell])[]): string =>
  formatFacts(rows, stdoutLook())

/** Formats the issues of a configuration for stdout, under a head; they wrap at words. */
export const issueLines = (issues: readonly string[]): string =>
  ["issues", ...issues.map((issue) => wrap(`  ${issue}`, stdoutLook()))].join("\n")

/** Prints a result, as JSON if `asJson` is true. Escapes control characters: text from servers must not control the terminal. */
export function print(asJson: boolean, value: unknown, text: () => string): void {
  const out = asJson ? escaped(JSON.stringify(value, null, 2)) : printableLines(text())
  if (out !== "") process.stdout.write(`${out}\n`)
}

/** Prints a message to stderr; on a terminal, long lines wrap at words. */
export const say = (text: string): void => {
  const look = stderrLook()
  const lines = printableLines(text).split("\n")
  process.stderr.write(`${lines.map((line) => wrap(line, look)).join("\n")}\n`)
}

/**
 * Returns a writer to the client on stdout. Calls `onend` with the reason when the client is gone, or leaves more than
 * `limit` bytes unread.
 */
export function createStdoutWriter(limit: number, onend: (reason: string) => void): (bytes: Uint8Array) => void {
  let waiting = 0
  process.stdout.on("error", () => onend("client disconnected"))
  return (bytes) => {
    waiting += bytes.length
    process.stdout.write(bytes, () => {
      waiting -= bytes.length
    })
    if (waiting > limit) onend("client does not read")
  }
}

/**
 * Returns a writer to stderr. Drops lines while more than `limit` bytes are unread: many programs that start svc never read
 * them.
 */
export function createStderrWriter(limit: number): (line: string) => void {
  let waiting = 0
  // If a terminal closes, Bun's writer fails outside of its promises. Elsewhere it is used, because Node's streams load slowly.
  const write = isTerminal() ? writeToTerminal : createWriter(Bun.stderr.writer())
  return (line) => {
    if (waiting > limit) return
    waiting += line.length
    write(line, () => {
      waiting -= line.length
    })
  }
}

/** Formats a duration for people, such as `3 min`. */
export function ago(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  for (const [size, name] of [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
  ] as const)
    if (seconds >= size) return `${Math.floor(seconds / size)} ${name}`
  return `${seconds} s`
}

// ---

const STDERR = 2

type WriteLine = (line: string, ondone: () => void) => void

const writeToTerminal: WriteLine = (line, ondone) => process.stderr.write(line, ondone)

const createWriter =
  (sink: Bun.FileSink): WriteLine =>
  (line, ondone) => {
    try {
      // Both return a promise if the reader is slow, and fail if it is gone.
      const unread = [sink.write(line), sink.flush()].filter((written) => written instanceof Promise)
      if (unread.length === 0) ondone()
      else void Promise.allSettled(unread).then(ondone)
    } catch {
      ondone()
    }
  }

/**
 * Whether a file may be a terminal: a device, but not the null device. Always true on Windows, which does not distinguish
 * them.
 */
function isDevice(file: number): boolean {
  if (process.platform === "win32") return true
  try {
    const found = fstatSync(file)
    return found.isCharacterDevice() && found.rdev !== statSync("/dev/null").rdev
  } catch {
    return false
  }
}
