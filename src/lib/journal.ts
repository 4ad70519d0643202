/**
 * A file of lines that only grows, for what must be kept.
 *
 *  1. Nobody waits for the disk: lines are made and written a moment later, in the order in which they came.
 *  2. Bounded: so many files of so many bytes, so many lines that wait. What had to be left out is counted in a line.
 *  3. For its owner alone, and never through a link. It is opened for each batch, so that somebody else may rotate it too.
 *  4. `close` returns when all of it is on the disk.
 */
import { constants } from "node:fs"
import { type FileHandle, mkdir, open, rename } from "node:fs/promises"
import { dirname } from "node:path"
import type { Clock } from "./clock.ts"
import { messageOf, UnavailableError } from "./errors.ts"

export type Journal = {
  /** Takes a line to be made (without a break) when it is written. */
  add(line: () => string): void
  close(): Promise<void>
}

export type JournalOptions = {
  readonly path: string
  readonly clock: Clock
  /** Lines cannot be written; said once until they can be again. */
  onfail(reason: string): void
  /** The line that tells how many are missing. */
  lost(count: number): string
  readonly maxFileBytes?: number
  /** The one that is written to included. */
  readonly maxFiles?: number
}

/** Rejects with an UnavailableError where the file cannot be written. */
export async function openJournal(options: JournalOptions): Promise<Journal> {
  const { path, clock, onfail, lost, maxFileBytes = 16 * 1024 * 1024, maxFiles = 5 } = options
  let waiting: (() => string)[] = []
  let missing = 0
  let failing = false
  let timer: (() => void) | undefined
  let writing: Promise<void> = Promise.resolve()

  const write = async (lines: readonly (() => string)[], sync: boolean) => {
    const left = missing
    try {
      const text = [...(left > 0 ? [lost(left)] : []), ...lines.map((make) => make())]
        .map((line) => `${line}\n`)
        .join("")
      let file = await openOwn(path)
      try {
        const { size } = await file.stat()
        if (size > 0 && size + Buffer.byteLength(text) > maxFileBytes) {
          await file.close()
          for (let number = maxFiles - 1; number > 0; number--)
            await rename(nameOf(path, number - 1), nameOf(path, number)).catch(() => undefined)
          file = await openOwn(path)
        }
        await file.writeFile(text)
        if (sync) await file.sync()
      } finally {
        await file.close()
      }
      missing -= left
      failing = false
    } catch (error) {
      missing += lines.length
      if (!failing) onfail(`${path} cannot be written: ${messageOf(error)}`)
      failing = true
    }
  }
  const flush = (sync: boolean) => {
    timer?.()
    timer = undefined
    const lines = waiting
    waiting = []
    writing = writing.then(() => write(lines, sync))
    return writing
  }

  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await (await openOwn(path)).close()
  } catch (cause) {
    throw new UnavailableError(`${path} cannot be written: ${messageOf(cause)}`, { cause })
  }
  return {
    add(line) {
      if (waiting.length >= MAX_WAITING) {
        missing++
        return
      }
      waiting.push(line)
      timer ??= clock.after(WRITE_MS, () => void flush(false))
    },
    close: () => flush(true),
  }
}

// ---

const WRITE_MS = 200
const MAX_WAITING = 20_000

const nameOf = (path: string, number: number): string => (number === 0 ? path : `${path}.${number}`)

async function openOwn(path: string): Promise<FileHandle> {
  const { O_APPEND, O_CREAT, O_WRONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants
  // A pipe that nobody reads must not hold up the start.
  const file = await open(path, O_APPEND | O_CREAT | O_WRONLY | O_NOFOLLOW | O_NONBLOCK, 0o600)
  try {
    const facts = await file.stat()
    if (!facts.isFile()) throw new Error("it is no plain file")
    // Windows has no modes: there every file looks as if others could read it.
    if (process.platform !== "win32" && (facts.mode & 0o077) !== 0) await file.chmod(0o600)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}
