/**
 * The recent log of each backend: its captured output and svc's own lines about it, in a bounded ring in memory and in
 * `logs/<slug>.log`, for `svc logs`.
 *
 *  1. Bounded: servers, lines and bytes in memory, bytes per file, files per server.
 *  2. Lines arrive redacted and printable. Only their owner can read the files.
 *  3. A disk failure never affects a server: it is reported once, and the ring goes on.
 */
import { appendFileSync, closeSync, fstatSync, mkdirSync, openSync, readFileSync, renameSync, statSync } from "node:fs"
import { join } from "node:path"
import { slugOf } from "../config/server-spec.ts"
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Clock } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import { LOG_LEVELS, type Log, type LogFields, type LogLevel, printable } from "../lib/log.ts"
import { retryOnWindowsLock } from "../lib/windows-lock.ts"

export type LogLine = {
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly level: LogLevel
  readonly slug: string
  readonly text: string
}

export type ServerLogsOptions = {
  /** The folder of the files; undefined keeps lines only in memory. */
  readonly directory: string | undefined
  readonly clock: Clock
  /** Called with the first of consecutive failures to write. */
  onfail(reason: string): void
  readonly maxFileBytes?: number
  /** Per server, the current file included. */
  readonly maxFiles?: number
  readonly maxLines?: number
}

export type ServerLogs = {
  append(slug: string, level: LogLevel, text: string): void
  /** Returns the lines of a server that are in memory, oldest first. */
  read(slug: string): readonly LogLine[]
  /** Calls `online` with each new line. The returned function unsubscribes it. */
  watch(online: (line: LogLine) => void): () => void
  /** Writes pending lines to the disk. */
  flush(): void
}

export function createServerLogs(options: ServerLogsOptions): ServerLogs {
  const { directory, clock, maxFileBytes = MAX_FILE_BYTES, maxFiles = MAX_FILES, maxLines = MAX_LOG_LINES } = options
  const rings = new BoundedMap<string, LogLine[]>(MAX_SERVERS)
  const pending = new Map<string, string>()
  const watchers = new Set<(line: LogLine) => void>()
  let timer: (() => void) | undefined
  let failing = false

  const flush = () => {
    timer?.()
    timer = undefined
    for (const [slug, text] of pending) {
      try {
        write(directory ?? "", slug, text, maxFileBytes, maxFiles)
        failing = false
      } catch (error) {
        if (!failing) options.onfail(`cannot write the log of ${slug}: ${messageOf(error)}`)
        failing = true
      }
    }
    pending.clear()
  }
  return {
    append(slug, level, text) {
      const line: LogLine = { at: clock.now(), level, slug, text: printable(text.slice(0, MAX_TEXT)) }
      const ring = rings.get(slug) ?? []
      rings.set(slug, ring)
      ring.push(line)
      // Cut in blocks: moving the whole ring for each line would cost more than the line itself.
      if (ring.length >= maxLines * 2) ring.splice(0, ring.length - maxLines)
      for (const watcher of watchers) watcher(line)
      if (directory === undefined) return
      pending.set(slug, `${pending.get(slug) ?? ""}${formatLine(line)}\n`)
      timer ??= clock.after(WRITE_MS, () => {
        timer = undefined
        flush()
      })
    },
    read: (slug) => (rings.get(slug) ?? []).slice(-maxLines),
    watch(online) {
      watchers.add(online)
      return () => void watchers.delete(online)
    },
    flush,
  }
}

/**
 * Reads the log files of servers: the first call for a server returns all of its lines, oldest first; each later call returns
 * the new lines. For lines from before the start of the running instance, or without a running instance.
 */
export function openLogFiles(directory: string, maxFiles: number = MAX_FILES): (slug: string) => readonly LogLine[] {
  /** The file and offset where reading stopped; rotation replaces the file. */
  const positions = new Map<string, { readonly ino: number; readonly end: number }>()
  return (slug) => {
    const known = positions.get(slug)
    const current = statSync(fileOf(directory, slug, 0), { throwIfNoEntry: false })
    if (current === undefined || (known?.ino === current.ino && known.end === current.size)) return []
    const lines: LogLine[] = []
    for (let number = known?.ino === current.ino ? 0 : maxFiles - 1; number >= 0; number--) {
      const file = readLog(fileOf(directory, slug, number))
      if (file === undefined) continue
      const { ino, end, bytes } = file
      // Among rotated files, only the one where reading stopped has new lines.
      if (number > 0 && known !== undefined && ino !== known.ino) continue
      const from = ino === known?.ino ? known.end : 0
      for (const row of bytes.subarray(from, end).toString("utf8").split("\n")) {
        const line = parseLine(row, slug)
        if (line !== undefined) lines.push(line)
      }
      if (number === 0) positions.set(slug, { ino, end })
    }
    return lines
  }
}

/** Returns a log that also appends its lines about a server to the server's log, masked. */
export function withServerLogs(logs: ServerLogs, log: Log, mask: (text: string) => string): Log {
  const at =
    (level: LogLevel) =>
    (message: string, fields?: LogFields): void => {
      log[level](message, fields)
      if (fields?.server !== undefined) logs.append(slugOf(fields.server), level, mask(message))
    }
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") }
}

/** Formats a line for a file: `2026-11-21T02:49:27.123Z info  text`. */
export function formatLine({ at, level, text }: LogLine): string {
  return `${new Date(at).toISOString()} ${level.padEnd(5)} ${text}`
}

/** Parses a line that `formatLine` wrote; undefined for any other text. */
export function parseLine(row: string, slug: string): LogLine | undefined {
  const [, time = "", word = "", text = ""] = /^(\S{24}) (.{5}) (.*)$/s.exec(row) ?? []
  const level = LOG_LEVELS.find((name) => name === word.trimEnd())
  const at = Date.parse(time)
  return level === undefined || Number.isNaN(at) ? undefined : { at, level, slug, text }
}

// ---

const MAX_FILE_BYTES = 1024 * 1024
const MAX_FILES = 3
const MAX_LOG_LINES = 500

const WRITE_MS = 250
/** Servers in memory, removed ones included. */
const MAX_SERVERS = 1000
/** Longer than any line that the capture of stderr passes on. */
const MAX_TEXT = 16 * 1024

/** Reads a file, with the end of its last complete line; undefined if it is missing. */
function readLog(path: string): { readonly ino: number; readonly bytes: Buffer; readonly end: number } | undefined {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return undefined
  const handle = openSync(path, "r")
  try {
    const bytes = readFileSync(handle)
    return { ino: fstatSync(handle).ino, bytes, end: bytes.lastIndexOf(LF) + 1 }
  } finally {
    closeSync(handle)
  }
}

const LF = 0x0a

const fileOf = (directory: string, slug: string, number: number): string =>
  // The number is last, because `web.1.log` is the file of a server named web.1.
  join(directory, number === 0 ? `${slug}.log` : `${slug}.log.${number}`)

function write(directory: string, slug: string, text: string, maxBytes: number, maxFiles: number): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const file = fileOf(directory, slug, 0)
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0
  if (size > 0 && size + Buffer.byteLength(text) > maxBytes)
    for (let number = maxFiles - 1; number > 0; number--) {
      const from = fileOf(directory, slug, number - 1)
      if (statSync(from, { throwIfNoEntry: false }) !== undefined)
        retryOnWindowsLock(() => renameSync(from, fileOf(directory, slug, number)))
    }
  appendFileSync(file, text, { mode: 0o600 })
}
