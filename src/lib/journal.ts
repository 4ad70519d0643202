/**
 * An append-only file of lines, rotated by size.
 *
 *  1. Writing never blocks the caller: lines are rendered in batches soon after they were added, and written in larger
 *     batches, in order.
 *  2. Bounded: number and size of files, number of pending lines. Dropped lines, and lines that cannot be rendered, are
 *     counted in a line of their own.
 *  3. Readable only by its owner, and never written through a link. The file is opened for each batch, so that logrotate and
 *     the like may move it.
 *  4. `close` resolves when all lines are on the disk. It reports the number of lines that could not be written after all.
 *  5. A line that a full disk or a crash has cut off is closed before the next line. Only whole lines count as written.
 */
import { constants } from "node:fs"
import { type FileHandle, mkdir, open, rename } from "node:fs/promises"
import { dirname } from "node:path"
import type { Clock } from "./clock.ts"
import { fileProblem, UnavailableError } from "./errors.ts"
import { counted } from "./text.ts"

export type Journal = {
  /** Appends a line. */
  add(line: JournalLine): void
  close(): Promise<void>
}

/** A line of the journal. `text` returns it without a line break, and is called soon after the line was added. */
export type JournalLine = { text(): string }

export type JournalOptions = {
  readonly path: string
  readonly clock: Clock
  /** Called with the first of consecutive failures to write, and at the end if lines are missing. */
  onfail(reason: string): void
  /** Returns the line that reports how many lines were dropped. */
  lost(count: number): string
  readonly maxFileBytes?: number
  /** The current file included. */
  readonly maxFiles?: number
}

/** Opens a journal. Rejects with an UnavailableError if the file cannot be written. */
export async function openJournal(options: JournalOptions): Promise<Journal> {
  const { path, clock, onfail, lost, maxFileBytes = 16 * 1024 * 1024, maxFiles = 5 } = options
  let pending: JournalLine[] = []
  let batch = emptyBatch()
  let spare = emptyBatch()
  let unreported = 0
  let failing = false
  /** Whether the file may end within a line. */
  let mayBeCut = true
  let rendering: (() => void) | undefined
  let timer: (() => void) | undefined
  /** The current write. One batch is written at a time, so that `pending` and `batch` count all waiting lines. */
  let writing: Promise<void> | undefined

  const write = async ({ bytes, length, lines }: Batch, sync: boolean) => {
    const dropped = unreported
    const whole = bytes.subarray(0, length)
    let written = 0
    try {
      const report = Buffer.from(dropped > 0 ? `${lost(dropped)}\n` : "")
      let file = await openPrivate(path)
      try {
        const { size } = await file.stat()
        if (size > 0 && size + report.length + length > maxFileBytes) {
          await file.close()
          for (let number = maxFiles - 1; number > 0; number--)
            await rename(nameOf(path, number - 1), nameOf(path, number)).catch(() => undefined)
          file = await openPrivate(path)
        }
        if (mayBeCut && (await endsWithinLine(file))) await appendBytes(file, LINE_BREAK)
        mayBeCut = true
        await appendBytes(file, report)
        unreported -= dropped
        await appendBytes(file, whole, (count) => {
          written = count
        })
        mayBeCut = false
        if (sync) await file.sync()
      } finally {
        await file.close()
      }
      failing = false
    } catch (error) {
      unreported += lines - linesIn(whole.subarray(0, written))
      if (!failing) onfail(`${path} cannot be written: ${fileProblem(error)}`)
      failing = true
    }
  }
  const render = () => {
    rendering?.()
    rendering = undefined
    const lines = pending
    pending = []
    unreported += append(batch, lines)
    schedule()
  }
  const schedule = () => {
    if (writing === undefined && batch.lines > 0) timer ??= clock.after(WRITE_MS, () => void flush(false))
  }
  const flush = async (sync: boolean) => {
    timer?.()
    timer = undefined
    const full = batch
    batch = spare
    writing = write(full, sync)
    await writing
    writing = undefined
    spare = reused(full)
    schedule()
  }

  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await (await openPrivate(path)).close()
  } catch (cause) {
    throw new UnavailableError(`${path} cannot be written: ${fileProblem(cause)}`, { cause })
  }
  return {
    add(line) {
      if (pending.length + batch.lines >= MAX_PENDING) {
        unreported++
        return
      }
      pending.push(line)
      rendering ??= clock.after(RENDER_MS, render)
    },
    async close() {
      await writing
      render()
      await flush(true)
      if (unreported > 0) onfail(`${counted(unreported, "line")} could not be written to ${path}`)
    },
  }
}

// ---

/** Soon, while the data of a line is in the processor's caches: rendering the lines of calls later takes twice as long. */
const RENDER_MS = 1
const WRITE_MS = 200 - RENDER_MS
const MAX_PENDING = 20_000

/** Rendered lines. The buffer is reused: new buffers would make the garbage collector run more often. */
type Batch = { bytes: Buffer; length: number; lines: number }

const emptyBatch = (): Batch => ({ bytes: Buffer.alloc(0), length: 0, lines: 0 })

/** Returns an empty batch that reuses the buffer, unless the buffer is unusually large. */
const reused = ({ bytes }: Batch): Batch =>
  bytes.length > MAX_KEPT_BYTES ? emptyBatch() : { bytes, length: 0, lines: 0 }

const MAX_KEPT_BYTES = 4 * 1024 * 1024

/**
 * Renders lines into a batch, CHUNK at a time: joining thousands of texts at once takes longer. Returns the number of lines
 * that cannot be rendered.
 */
function append(batch: Batch, lines: readonly JournalLine[]): number {
  let failed = 0
  for (let from = 0; from < lines.length; from += CHUNK) {
    let text = ""
    for (const line of lines.slice(from, from + CHUNK))
      try {
        text += `${line.text()}\n`
      } catch {
        failed++
      }
    // A character has at most three bytes; counting them would read the text once more.
    const needed = batch.length + 3 * text.length
    if (needed > batch.bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(MIN_BYTES, 2 * needed))
      batch.bytes.copy(larger, 0, 0, batch.length)
      batch.bytes = larger
    }
    batch.length += batch.bytes.write(text, batch.length)
  }
  batch.lines += lines.length - failed
  return failed
}

const CHUNK = 32
const MIN_BYTES = 16 * 1024

const LF = 0x0a
const LINE_BREAK = Buffer.from("\n")

/** Appends bytes to a file. Calls `onwritten` with the number of bytes written so far: a full disk takes a part of them. */
async function appendBytes(
  file: FileHandle,
  bytes: Buffer,
  onwritten: (count: number) => void = () => undefined,
): Promise<void> {
  for (let at = 0; at < bytes.length; onwritten(at)) at += (await file.write(bytes, at)).bytesWritten
}

async function endsWithinLine(file: FileHandle): Promise<boolean> {
  const { size } = await file.stat()
  const last = Buffer.alloc(1)
  return size > 0 && (await file.read(last, 0, 1, size - 1)).bytesRead === 1 && last[0] !== LF
}

function linesIn(bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) count++
  return count
}

const nameOf = (path: string, number: number): string => (number === 0 ? path : `${path}.${number}`)

async function openPrivate(path: string): Promise<FileHandle> {
  const { O_APPEND, O_CREAT, O_RDWR, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants
  // O_NONBLOCK: opening a named pipe without a reader must not block the start.
  const file = await open(path, O_APPEND | O_CREAT | O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0o600)
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
