/**
 * The documents on disk: read, watched, and written so that nothing is lost.
 *
 *  1. A missing mcp.json is an empty configuration; a missing `.env` an empty environment.
 *  2. The folder is watched, not the file: an atomic replace would take the watch with it.
 *  3. An edit is made to what is there at that moment, under a lock, with a backup first, and appears whole or not at all.
 */
import { randomBytes } from "node:crypto"
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  type FSWatcher,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  statSync,
  unlinkSync,
  watch,
  writeFileSync,
  writeSync,
} from "node:fs"
import { basename, dirname, join } from "node:path"
import { type Clock, pause } from "../lib/clock.ts"
import { messageOf, RequestError, UnavailableError } from "../lib/errors.ts"
import { ownName, type Paths } from "./paths.ts"

/** The documents' texts; undefined where there is no such file. */
export type Texts = {
  readonly config: string | undefined
  readonly dotenv: string | undefined
  readonly presets: string | undefined
}

/** The documents' files, for a watch. */
export const documentFiles = ({ file, dotenv, presets }: Paths): readonly string[] => [file, dotenv, presets]

/** Reads the documents. Throws an UnavailableError where one cannot be read. */
export function readTexts(paths: Paths): Texts {
  return { config: readText(paths.file), dotenv: readText(paths.dotenv), presets: readText(paths.presets) }
}

/** Makes the folder, a minimal file and the JSON Schema it names where there is no file. True if it made them. */
export function createMissing(paths: Paths, schema: string): boolean {
  if (existsSync(paths.file)) return false
  makeFolder(dirname(paths.file))
  makeFolder(paths.directory)
  replaceFile(join(dirname(paths.file), "mcp.schema.json"), schema, 0o644)
  replaceFile(paths.file, MINIMAL, 0o600)
  return true
}

/**
 * Changes mcp.json by a function from text to text. Under a lock, so that two edits at once cannot lose one; the old text
 * is kept in `backups`. Throws what `change` throws, with nothing written. Returns false where nothing changed.
 */
export const editConfig = (paths: Paths, change: (text: string) => string, clock: Clock): Promise<boolean> =>
  editFile(paths, paths.file, MINIMAL, change, clock, (before) => {
    backup(paths, before, clock)
    pruneBackups(paths)
  })

/** Changes presets.json in the same way, without a backup. */
export const editPresets = (paths: Paths, change: (text: string) => string, clock: Clock): Promise<boolean> =>
  editFile(paths, paths.presets, "{}\n", change, clock)

/** Changes the file of tokens in the same way, without a backup. */
export const editTokens = (
  paths: Paths,
  file: string,
  change: (text: string) => string,
  clock: Clock,
): Promise<boolean> => editFile(paths, file, '{"tokens":[]}\n', change, clock)

/** Backups of the file, newest first, as full paths; those of another that shares the directory are not among them. */
export function listBackups(paths: Paths): readonly string[] {
  const folder = join(paths.directory, "backups")
  if (!existsSync(folder)) return []
  const start = `${ownName("mcp", paths)}-`
  return readdirSync(folder)
    .filter((name) => name.startsWith(start) && /^\d{4}-.*\.json$/.test(name.slice(start.length)))
    .sort()
    .reverse()
    .map((name) => join(folder, name))
}

/** `note` says that what is there now is known: svc's own edits are not news. */
export type Watch = { note(): void; close(): void }

/**
 * Calls `onchange` when the text of a file may be another one, at most once in `debounce` milliseconds.
 * Folder events are quick but some file systems have none, so the files are also looked at every few seconds.
 */
export function watchFiles(files: readonly string[], clock: Clock, debounce: number, onchange: () => void): Watch {
  let seen = fingerprint(files)
  let cancelDebounce: (() => void) | undefined
  let patience = 0
  let closed = false
  const look = () => {
    cancelDebounce = undefined
    const now = fingerprint(files)
    if (closed || now === seen) return
    seen = now
    onchange()
  }
  const poke = () => {
    // A folder where something happens all the time must not keep a change from being seen.
    if (cancelDebounce === undefined) patience = clock.now() + POLL_MS
    else if (clock.now() > patience) return
    cancelDebounce?.()
    cancelDebounce = clock.after(debounce, look)
  }
  const watchers = new Map<string, FSWatcher>()
  const attach = () => {
    for (const folder of foldersOf(files)) {
      if (watchers.has(folder)) continue
      try {
        const watcher = watch(folder, { persistent: false }, (_event, name) => {
          if (name === null || relevant(files, name.toString())) poke()
        })
        watcher.on("error", () => {
          watcher.close()
          watchers.delete(folder)
        })
        watchers.set(folder, watcher)
      } catch {
        // A folder that is not there yet is looked for again.
      }
    }
  }
  attach()
  let cancelPoll: () => void = () => undefined
  const poll = () => {
    cancelPoll = clock.after(POLL_MS, () => {
      attach()
      if (cancelDebounce === undefined && fingerprint(files) !== seen) poke()
      poll()
    })
  }
  poll()
  return {
    note() {
      seen = fingerprint(files)
    },
    close() {
      closed = true
      cancelDebounce?.()
      cancelPoll()
      for (const watcher of watchers.values()) watcher.close()
    },
  }
}

/**
 * Writes a file whole or not at all: a temporary beside it, fsync, rename. A symbolic link stays one. Where `still` says no
 * at the last moment, nothing is written, and the answer is false.
 */
export function replaceFile(
  path: string,
  content: string | Uint8Array,
  mode: number | undefined,
  still: () => boolean = () => true,
): boolean {
  const target = existsSync(path) ? realpathSync(path) : path
  const was = statSync(target, { throwIfNoEntry: false })
  return writeWhole(target, content, mode ?? (was === undefined ? 0o600 : was.mode & 0o777), still, was)
}

/** Writes a file that svc keeps for itself in the same way. A symbolic link there is nobody's wish: it is replaced. */
export const replaceState = (path: string, content: string): boolean => writeWhole(path, content, 0o600, () => true)

// ---

function writeWhole(
  target: string,
  content: string | Uint8Array,
  kept: number,
  still: () => boolean,
  owner?: { readonly uid: number; readonly gid: number },
): boolean {
  const temporary = join(dirname(target), `.${basename(target)}.${randomBytes(6).toString("hex")}.tmp`)
  try {
    const handle = openSync(temporary, "wx", kept)
    try {
      writeFileSync(handle, content)
      fsyncSync(handle)
    } finally {
      closeSync(handle)
    }
    if (owner !== undefined) giveTo(owner, temporary)
    chmodSync(temporary, kept)
    const wanted = still()
    if (wanted) renameSync(temporary, target)
    else unlinkSync(temporary)
    return wanted
  } catch (cause) {
    if (existsSync(temporary)) unlinkSync(temporary)
    throw new UnavailableError(`cannot write ${target}: ${messageOf(cause)}`, { cause })
  }
}

/** A file stays whose it was, as far as its writer may decide that: an administrator's edit must not lock its user out. */
function giveTo({ uid, gid }: { readonly uid: number; readonly gid: number }, path: string): void {
  const own = statSync(path)
  if (own.uid === uid && own.gid === gid) return
  try {
    chownSync(path, uid, gid)
  } catch {
    // Only an administrator may give files away.
  }
}

/** What stands in a file that svc makes. */
export const MINIMAL = `{
  "$schema": "./mcp.schema.json",
  "mcpServers": {}
}
`
const ELSEWHERE = "svc keeps files of its own there: choose a folder that it can write to with --config-dir"
const POLL_MS = 2000
const KEPT_BACKUPS = 20
/** How often a file may be another one when it is to be replaced. */
export const MAX_TRIES = 20
const LOCK_MS = 5000
const LOCK_PAUSE_MS = 25
/** Locks of this very process: one that has its pid and is not here is of a process before (in a container all are 1). */
const HELD = new Set<string>()

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8")
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && (cause.code === "ENOENT" || cause.code === "ENOTDIR"))
      return undefined
    throw new UnavailableError(`cannot read ${path}: ${messageOf(cause)}`, { cause })
  }
}

async function editFile(
  paths: Paths,
  file: string,
  empty: string,
  change: (text: string) => string,
  clock: Clock,
  keep?: (before: string) => void,
): Promise<boolean> {
  makeFolder(paths.directory)
  const lock = file === paths.file ? lockOf(paths) : join(paths.directory, `${basename(file)}.lock`)
  const release = await acquire(lock, clock)
  try {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const before = readText(file)
      const after = change(before ?? empty)
      if (after === before) return false
      if (before !== undefined) keep?.(before)
      // An editor does not know of the lock: what it has saved meanwhile is read again.
      const still = () => readText(file) === before
      if (replaceFile(file, after, before === undefined ? 0o600 : undefined, still)) return true
    }
  } finally {
    release()
  }
  throw contended(file)
}

/** The texts themselves: same bytes, no reload. */
function fingerprint(files: readonly string[]): string {
  const part = (path: string) => {
    try {
      return readText(path) ?? "missing"
    } catch (error) {
      return messageOf(error)
    }
  }
  return files.map((path) => Bun.hash(part(path))).join()
}

/** The folders of the files and, for symbolic links, of what they point to. */
function foldersOf(files: readonly string[]): ReadonlySet<string> {
  const folders = new Set<string>()
  for (const path of files) {
    folders.add(dirname(path))
    try {
      folders.add(dirname(realpathSync(path)))
    } catch {
      // Missing, or a link to nothing.
    }
  }
  return folders
}

/** Whether an event on this name can matter: svc's own backups, locks and temporaries do not. */
function relevant(files: readonly string[], name: string): boolean {
  if (name.endsWith(".lock") || name.endsWith(".tmp") || name === "backups" || name === "logs") return false
  return files.some((path) => basename(path) === name) || name.startsWith("..") || !name.includes(".")
}

/** For a file that is another one each time it is to be replaced. */
export const contended = (file: string): RequestError =>
  new RequestError("conflict", `${file} is being changed by somebody else all the time; try again later`)

/** Makes a folder that is its user's alone. Throws an UnavailableError that says what to do. */
export function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  } catch (cause) {
    throw new UnavailableError(`cannot make ${folder}: ${messageOf(cause)}; ${ELSEWHERE}`, { cause })
  }
}

/** Keeps a text in `backups`; gives the file's path. */
export function backup(paths: Paths, text: string | Uint8Array, clock: Clock): string {
  const folder = join(paths.directory, "backups")
  makeFolder(folder)
  const nameAt = (time: number) => `${ownName("mcp", paths)}-${new Date(time).toISOString().replaceAll(":", "-")}.json`
  // Names must sort as they came: two edits in one millisecond get two.
  let time = clock.now()
  while (existsSync(join(folder, nameAt(time)))) time++
  const path = join(folder, nameAt(time))
  replaceFile(path, text, 0o600)
  return path
}

/** The oldest backups go. */
export function pruneBackups(paths: Paths): void {
  for (const old of listBackups(paths).slice(KEPT_BACKUPS)) unlinkSync(old)
}

/** The lock under which mcp.json and what belongs to it is changed. */
export const lockOf = ({ directory }: Paths): string => join(directory, "mcp.json.lock")

/** Takes the lock file; one whose process is gone is taken over. The returned function gives it back. */
export async function acquire(lock: string, clock: Clock, patience = LOCK_MS): Promise<() => void> {
  for (let waited = 0; waited < patience; waited += LOCK_PAUSE_MS) {
    try {
      const handle = openSync(lock, "wx", 0o600)
      writeSync(handle, String(process.pid))
      closeSync(handle)
      HELD.add(lock)
      return () => {
        HELD.delete(lock)
        unlinkSync(lock)
      }
    } catch (cause) {
      if (!(cause instanceof Error && "code" in cause && cause.code === "EEXIST"))
        throw new UnavailableError(`cannot lock ${lock}: ${messageOf(cause)}; ${ELSEWHERE}`, { cause })
    }
    const holder = Number(readText(lock) ?? "0")
    if (holder > 0 && (holder === process.pid ? !HELD.has(lock) : !isAlive(holder))) {
      try {
        unlinkSync(lock)
      } catch {
        // Somebody else took it over.
      }
      continue
    }
    await pause(clock, LOCK_PAUSE_MS)
  }
  throw new RequestError("conflict", `another edit holds ${lock}; if none runs, remove it`)
}

/** Whether there is a process with this id. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}
