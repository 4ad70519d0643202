/** Reads and atomically writes files, in folders that only their user can open. */
import {
  accessSync,
  chmodSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  type Stats,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs"
import { basename, dirname, join, resolve } from "node:path"
import { ConfigError, fileProblem, UnavailableError } from "../lib/errors.ts"
import { parseIfJson } from "../lib/json.ts"
import { retryOnWindowsLock } from "../lib/windows-lock.ts"
import { isObject, type Params } from "../wire/message.ts"

/** Runs `open` under a umask that restricts a new socket to this user from its creation on. */
export function withPrivateUmask<T>(open: () => T): T {
  const before = process.umask(0o177)
  try {
    return open()
  } finally {
    process.umask(before)
  }
}

/**
 * Returns the text of a file; undefined if it is missing. Throws a ConfigError if it is a directory, and an UnavailableError
 * if it cannot be read.
 */
export const readText = (path: string): string | undefined => readIfThere(path, (bytes) => decodeText(bytes))

/** Returns the bytes of a file, and otherwise the same as `readText`. */
export const readBytes = (path: string): Buffer | undefined => readIfThere(path, (bytes) => bytes)

/**
 * Returns the bytes of a file. Throws the error of the system, or an UnavailableError if it is no regular file or too large: a
 * repository or another program may have put a pipe there, which would block svc, or a link to a device without an end.
 */
export function readRegularFile(path: string): Buffer {
  // Not even opened if it is none: opening a device may have an effect.
  requireRegular(statSync(path))
  const handle = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
  try {
    const facts = fstatSync(handle)
    requireRegular(facts)
    if (facts.size > MAX_FILE_BYTES)
      throw new UnavailableError(`it has ${facts.size} bytes, and svc reads at most ${MAX_FILE_BYTES}`)
    return readFileSync(handle)
  } finally {
    closeSync(handle)
  }
}

/**
 * Decodes the bytes of a file: UTF-8, or UTF-16 with a byte-order mark, as Windows PowerShell's `>` writes it. Throws an
 * UnavailableError for other bytes: replacement characters would become values, and an edit would write them.
 */
export function decodeText(bytes: Buffer): string {
  const [first, second] = bytes
  if (first === 0xff && second === 0xfe) return new TextDecoder("utf-16le").decode(bytes)
  if (first === 0xfe && second === 0xff) return new TextDecoder("utf-16be").decode(bytes)
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new UnavailableError("the file is not UTF-8 text")
  }
}

/**
 * Writes a file atomically: a temporary file beside it, fsync, rename. Replaces the target of a symbolic link, not the link,
 * even if the target is missing. Returns false, with nothing written, if `isCurrent` returns false just before the rename.
 * Throws an UnavailableError.
 */
export function replaceFile(
  path: string,
  content: string | Uint8Array,
  mode: number | undefined,
  isCurrent: () => boolean = () => true,
): boolean {
  const target = linkTarget(path)
  const existing = statSync(target, { throwIfNoEntry: false })
  const newMode = mode ?? (existing === undefined ? 0o600 : existing.mode & 0o777)
  return writeAtomically(target, content, newMode, isCurrent, existing)
}

/** Resolves the symbolic links of a path; the target need not exist. Throws an UnavailableError for links in a circle. */
export function linkTarget(path: string): string {
  let target = path
  for (let count = 0; count < MAX_LINKS; count++) {
    if (existsSync(target)) return realpathSync(target)
    if (lstatSync(target, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return target
    target = resolve(realpathSync(dirname(target)), readlinkSync(target))
  }
  throw new UnavailableError(`cannot write ${path}: its symbolic links lead in a circle`)
}

/** Returns the path to which a write goes: without the links of the file and of its folders, which need not exist. */
export function realTarget(path: string): string {
  const target = linkTarget(resolve(path))
  const missing = [basename(target)]
  let folder = dirname(target)
  for (; !existsSync(folder) && folder !== dirname(folder); folder = dirname(folder)) missing.unshift(basename(folder))
  return join(realpathSync(folder), ...missing)
}

/** Writes a file of svc's own state in the same way, with mode 0600; replaces a symbolic link itself. */
export const replaceState = (path: string, content: string): boolean =>
  writeAtomically(path, content, 0o600, () => true)

/** Returns the object in a JSON file of svc's own state; undefined if the file is missing, unreadable or malformed. */
export function readState(path: string): Params | undefined {
  try {
    const value = parseIfJson(readFileSync(path, "utf8"))
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Creates a folder that only its user can open. Throws an UnavailableError that says what to do if svc cannot write to it. */
export function makePrivateFolder(folder: string): void {
  let attempt = "create"
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    attempt = "write to"
    accessSync(folder, constants.W_OK | constants.X_OK)
  } catch (cause) {
    throw new UnavailableError(`cannot ${attempt} ${folder}: ${fileProblem(cause)}; ${WRITABLE_FOLDER_ADVICE}`, {
      cause,
    })
  }
}

/** Whether a process with this id runs. A zombie does not count: in a container, possibly no process reaps it. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return process.platform !== "linux" || !isZombie(pid)
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}

/** The advice for a folder that svc cannot write to. */
export const WRITABLE_FOLDER_ADVICE =
  "svc keeps files of its own there: choose a writable folder with --config-dir (mcp.json may stay where it is: --config)"

/** Returns the temporary files, left by killed writers, of the files in a folder that `matches` selects by name. */
export function findTemporaries(folder: string, matches: (name: string) => boolean): readonly string[] {
  return readFolder(folder)
    .filter((entry) => matches(TEMPORARY.exec(entry)?.[1] ?? ""))
    .map((entry) => join(folder, entry))
}

/** Returns the names in a folder; none if it is missing or unreadable. */
export function readFolder(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** Removes files; ignores files that are missing or cannot be removed. */
export function removeAll(files: readonly string[]): void {
  for (const file of files)
    try {
      unlinkSync(file)
    } catch {
      // The next call tries again.
    }
}

// ---

function readIfThere<T>(path: string, decode: (bytes: Buffer) => T): T | undefined {
  try {
    return decode(readRegularFile(path))
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && (cause.code === "ENOENT" || cause.code === "ENOTDIR"))
      return undefined
    if (cause instanceof Error && "code" in cause && cause.code === "EISDIR")
      throw new ConfigError([{ code: "read", severity: "error", file: path, message: DIRECTORY }], { cause })
    throw new UnavailableError(`cannot read ${path}: ${fileProblem(cause)}`, { cause })
  }
}

const DIRECTORY = "this is a directory: move it away, or choose a file"

/** The limit of Linux. */
function requireRegular(facts: Stats): void {
  // The system's own error says that it is a directory.
  if (!facts.isFile() && !facts.isDirectory()) throw new UnavailableError("it is not a regular file")
}

/** Clients keep whole conversations in the file with their settings. */
const MAX_FILE_BYTES = 256 * 1024 * 1024
const MAX_LINKS = 40

function isZombie(pid: number): boolean {
  try {
    // proc_pid_stat(5): pid (comm) state …
    return /^.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, "latin1"))
  } catch {
    // Hidden, for example by hidepid, or just ended.
    return false
  }
}

/** Matches the names that `writeAtomically` gives. */
const TEMPORARY = /^\.(.+)\.[0-9a-f]{12}\.tmp$/

function writeAtomically(
  target: string,
  content: string | Uint8Array,
  mode: number,
  isCurrent: () => boolean,
  owner?: { readonly uid: number; readonly gid: number },
): boolean {
  const temporary = join(
    dirname(target),
    `.${basename(target)}.${crypto.getRandomValues(new Uint8Array(6)).toHex()}.tmp`,
  )
  try {
    const handle = openSync(temporary, "wx", mode)
    try {
      writeFileSync(handle, content)
      fsyncSync(handle)
    } finally {
      closeSync(handle)
    }
    if (owner !== undefined) copyOwner(owner, temporary)
    chmodSync(temporary, mode)
    const current = isCurrent()
    if (current) retryOnWindowsLock(() => renameSync(temporary, target))
    else unlinkSync(temporary)
    return current
  } catch (cause) {
    if (existsSync(temporary)) unlinkSync(temporary)
    throw new UnavailableError(`cannot write ${target}: ${fileProblem(cause)}`, { cause })
  }
}

/** Keeps the owner of a file if possible: an edit by root must not lock its user out. */
function copyOwner({ uid, gid }: { readonly uid: number; readonly gid: number }, path: string): void {
  const current = statSync(path)
  if (current.uid === uid && current.gid === gid) return
  try {
    chownSync(path, uid, gid)
  } catch {
    // Only root may change owners.
  }
}
