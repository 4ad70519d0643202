/**
 * An append-only file of lines, rotated by size.
 *
 *  1. Writing never blocks the caller: lines are rendered and written in batches, in their order.
 *  2. Bounded: number and size of files, number of pending lines. Dropped lines are counted in a line of their own.
 *  3. Readable by its owner alone, and never written through a link. The file is opened for each batch, so that logrotate and
 *     the like may move it.
 *  4. `close` resolves when all lines are on the disk.
 */
import { constants } from "node:fs"
import { type FileHandle, mkdir, open, rename } from "node:fs/promises"
import { dirname } from "node:path"
import type { Clock } from "./clock.ts"
import { fileProblem, UnavailableError } from "./errors.ts"

export type Journal = {
  /** Appends a line. `line` is called when the line is written, and returns it without a line break. */
  add(line: () => string): void
  close(): Promise<void>
}

export type JournalOptions = {
  readonly path: string
  readonly clock: Clock
  /** Called with the first of consecutive failures to write. */
  onfail(reason: string): void
  /** Returns the line that tells how many lines were dropped. */
  lost(count: number): string
  readonly maxFileBytes?: number
  /** The current file included. */
  readonly maxFiles?: number
}

/** Opens a journal. Rejects with an UnavailableError if the file cannot be written. */
export async function openJournal(options: JournalOptions): Promise<Journal> {
  const { path, clock, onfail, lost, maxFileBytes = 16 * 1024 * 1024, maxFiles = 5 } = options
  let pending: (() => string)[] = []
  let missing = 0
  let failing = false
  let timer: (() => void) | undefined
  let writing: Promise<void> = Promise.resolve()

  const write = async (lines: readonly (() => string)[], sync: boolean) => {
    const dropped = missing
    try {
      const text = [...(dropped > 0 ? [lost(dropped)] : []), ...lines.map((make) => make())]
        .map((line) => `${line}\n`)
        .join("")
      let file = await openPrivate(path)
      try {
        const { size } = await file.stat()
        if (size > 0 && size + Buffer.byteLength(text) > maxFileBytes) {
          await file.close()
          for (let number = maxFiles - 1; number > 0; number--)
            await rename(nameOf(path, number - 1), nameOf(path, number)).catch(() => undefined)
          file = await openPrivate(path)
        }
        await file.writeFile(text)
        if (sync) await file.sync()
      } finally {
        await file.close()
      }
      missing -= dropped
      failing = false
    } catch (error) {
      missing += lines.length
      if (!failing) onfail(`${path} cannot be written: ${fileProblem(error)}`)
      failing = true
    }
  }
  const flush = (sync: boolean) => {
    timer?.()
    timer = undefined
    const lines = pending
    pending = []
    writing = writing.then(() => write(lines, sync))
    return writing
  }

  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await (await openPrivate(path)).close()
  } catch (cause) {
    throw new UnavailableError(`${path} cannot be written: ${fileProblem(cause)}`, { cause })
  }
  return {
    add(line) {
      if (pending.length >= MAX_PENDING) {
        missing++
        return
      }
      pending.push(line)
      timer ??= clock.after(WRITE_MS, () => void flush(false))
    },
    close: () => flush(true),
  }
}

// ---

const WRITE_MS = 200
const MAX_PENDING = 20_000

const nameOf = (path: string, number: number): string => (number === 0 ? path : `${path}.${number}`)

async function openPrivate(path: string): Promise<FileHandle> {
  const { O_APPEND, O_CREAT, O_WRONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants
  // O_NONBLOCK: opening a named pipe without a reader must not block the start.
  const file = await open(path, O_APPEND | O_CREAT | O_WRONLY | O_NOFOLLOW | O_NONBLOCK, 0o600)
  try {
    const facts = await file.stat()
    if (!facts.isFile()) throw new Error("it is not a regular file")
    // Windows has no modes: every file looks readable by others there.
    if (process.platform !== "win32" && (facts.mode & 0o077) !== 0) await file.chmod(0o600)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}
