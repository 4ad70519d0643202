/**
 * Locks between processes, held by SQLite on a database file that stays empty.
 *
 *  1. The kernel frees a lock when its process ends, however it ends: locks do not become stale, and need no process ids.
 *  2. The file of a lock is never removed: another process could hold the lock of the removed file. The exception is a lock
 *     with a name that is used only once (`tryAcquireOnce`).
 *  3. Nothing else in the process opens the file of a held lock: POSIX frees the locks of a file with its first close.
 */
import type { Database } from "bun:sqlite"
import { chownSync, closeSync, lstatSync, openSync, statSync, truncateSync } from "node:fs"
import { dirname } from "node:path"
import { type Clock, delay } from "../lib/clock.ts"
import { fileProblem, RequestError, UnavailableError } from "../lib/errors.ts"
import { removeAll, WRITABLE_FOLDER_ADVICE } from "./files.ts"

/** Releases the lock. */
export type Release = () => void

/** Takes a lock; waits for it up to `timeout` milliseconds, then throws a RequestError (conflict). */
export async function acquire(lock: string, clock: Clock, timeout = LOCK_MS): Promise<Release> {
  for (let waited = 0; ; waited += LOCK_PAUSE_MS) {
    const release = await tryAcquire(lock)
    if (release !== undefined) return release
    if (waited >= timeout)
      throw new RequestError(
        "conflict",
        `another svc process has held ${lock} for ${timeout / 1000} s; try again when it is done, or end it`,
      )
    await delay(clock, LOCK_PAUSE_MS)
  }
}

/** Takes a lock if it is free; otherwise returns undefined. Throws an UnavailableError if the file cannot be locked. */
export async function tryAcquire(lock: string): Promise<Release | undefined> {
  // Loads SQLite with the first lock: a command that only reads takes no lock.
  const sqlite = await import("bun:sqlite")
  let database: Database | undefined
  try {
    makeLockFile(lock)
    const held = new sqlite.Database(lock, { readwrite: true, create: false })
    database = held
    // Nothing is ever written: the rollback journal needs no file, and a killed process leaves none.
    held.run("PRAGMA journal_mode = MEMORY")
    held.run("BEGIN EXCLUSIVE")
    return () => held.close()
  } catch (cause) {
    database?.close()
    const code = cause instanceof Error && "code" in cause ? String(cause.code) : ""
    if (code.startsWith("SQLITE_BUSY")) return undefined
    if (code !== "SQLITE_NOTADB")
      throw new UnavailableError(`cannot lock ${lock}: ${fileProblem(cause)}; ${WRITABLE_FOLDER_ADVICE}`, { cause })
    // Old versions of svc wrote a process id into the file. The lock is on the file, not on its content.
    truncateSync(lock, 0)
    return tryAcquire(lock)
  }
}

/**
 * Takes a lock as proof that its owner is alive; the release removes its file. The name is random and used by one owner only,
 * so that no other process ever waits for the lock. Not a process id: containers that share a folder number their processes
 * separately.
 */
export async function tryAcquireOnce(lock: string): Promise<Release | undefined> {
  const release = await tryAcquire(lock)
  if (release === undefined) return undefined
  return () => {
    release()
    removeAll([lock])
  }
}

// ---

const LOCK_MS = 5000
const LOCK_PAUSE_MS = 25

/** Creates a missing file, with mode 0600 and the owner of its folder. Throws if the path is a link. */
function makeLockFile(lock: string): void {
  const found = lstatSync(lock, { throwIfNoEntry: false })
  if (found?.isFile() === false) throw new Error("it must be a regular file, not a link")
  if (found !== undefined) return
  try {
    closeSync(openSync(lock, "wx", 0o600))
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return
    throw error
  }
  // A command that root runs must not lock out the owner of the folder.
  const { uid, gid } = statSync(dirname(lock))
  if (process.getuid?.() === 0 && uid !== 0) chownSync(lock, uid, gid)
}
