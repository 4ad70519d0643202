/**
 * The file of the audit log: a JSON line for each call, written behind the call's back. It is rotated by size, and what
 * cannot be written is counted and told, not waited for.
 */
import { closeSync, existsSync, fstatSync, fsyncSync, mkdirSync, openSync, renameSync, write, writeSync } from "node:fs"
import { dirname } from "node:path"
import type { Clock } from "../lib/clock.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"

export type AuditFile = {
  write(entry: object): void
  /** Writes what is left, to the disk itself. */
  close(): void
}

export type AuditFileOptions = {
  readonly file: string
  readonly clock: Clock
  /** Bytes after which another file is begun. */
  readonly limit: number
  onfail(message: string): void
}

/** Opens the file. Throws an UnavailableError where it cannot be written. */
export function openAuditFile({ file, clock, limit, onfail }: AuditFileOptions): AuditFile {
  let handle = open(file)
  let size = fstatSync(handle).size
  let waiting: string[] = []
  let waitingBytes = 0
  let lost = 0
  let writing = false
  let cancel: (() => void) | undefined

  const rotate = () => {
    fsyncSync(handle)
    closeSync(handle)
    for (let number = KEPT - 1; number >= 0; number--) {
      const from = number === 0 ? file : `${file}.${number}`
      if (existsSync(from)) renameSync(from, `${file}.${number + 1}`)
    }
    handle = open(file)
    size = 0
  }
  const take = (): Buffer => {
    if (lost > 0)
      waiting.push(`${JSON.stringify({ time: new Date(clock.now()).toISOString(), method: "svc/audit", lost })}\n`)
    lost = 0
    const bytes = Buffer.from(waiting.join(""))
    waiting = []
    waitingBytes = 0
    return bytes
  }
  const flush = () => {
    cancel = undefined
    if (writing || waiting.length === 0) return
    writing = true
    const bytes = take()
    const put = (at: number) => {
      write(handle, bytes, at, bytes.length - at, null, (error, count) => {
        if (error === null && at + count < bytes.length) {
          put(at + count)
          return
        }
        writing = false
        if (error !== null) onfail(`the audit log cannot be written: ${messageOf(error)}`)
        size += bytes.length
        try {
          if (size >= limit) rotate()
        } catch (problem) {
          onfail(`the audit log cannot be rotated: ${messageOf(problem)}`)
        }
        if (waiting.length > 0) cancel ??= clock.after(FLUSH_MS, flush)
      })
    }
    put(0)
  }
  return {
    write(entry) {
      const line = `${JSON.stringify(entry)}\n`
      if (waitingBytes + line.length > MAX_WAITING) {
        if (lost++ === 0) onfail("the disk is too slow for the audit log: entries are lost")
        return
      }
      waiting.push(line)
      waitingBytes += line.length
      cancel ??= clock.after(FLUSH_MS, flush)
    },
    close() {
      cancel?.()
      try {
        writeSync(handle, take())
        fsyncSync(handle)
        closeSync(handle)
      } catch (error) {
        onfail(`the audit log cannot be written: ${messageOf(error)}`)
      }
    },
  }
}

// ---

const KEPT = 5
const FLUSH_MS = 100
const MAX_WAITING = 16 * 1024 * 1024

function open(file: string): number {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    return openSync(file, "a", 0o600)
  } catch (cause) {
    throw new UnavailableError(`cannot write ${file}: ${messageOf(cause)}`, { cause })
  }
}
