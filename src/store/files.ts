/**
 * Files that svc keeps on disk: read, written whole or not at all, in folders that are their user's alone.
 */
import { randomBytes } from "node:crypto"
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs"
import { basename, dirname, join } from "node:path"
import { messageOf, UnavailableError } from "../lib/errors.ts"
import { retryOnWindowsLock } from "../lib/windows-lock.ts"

/** A file's text; undefined where there is no such file. Throws an UnavailableError where it cannot be read. */
export function readText(path: string): string | undefined {
  try {
    return decodeText(readFileSync(path))
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && (cause.code === "ENOENT" || cause.code === "ENOTDIR"))
      return undefined
    throw new UnavailableError(`cannot read ${path}: ${messageOf(cause)}`, { cause })
  }
}

/** The text in a file's bytes: UTF-8, or UTF-16 with its mark, as Windows PowerShell writes what `>` sends to a file. */
export function decodeText(bytes: Buffer): string {
  const [first, second] = bytes
  if (first === 0xff && second === 0xfe) return new TextDecoder("utf-16le").decode(bytes)
  if (first === 0xfe && second === 0xff) return new TextDecoder("utf-16be").decode(bytes)
  return bytes.toString("utf8")
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

/** Makes a folder that is its user's alone. Throws an UnavailableError that says what to do. */
export function makePrivateFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  } catch (cause) {
    throw new UnavailableError(`cannot make ${folder}: ${messageOf(cause)}; ${ELSEWHERE}`, { cause })
  }
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

/** What to do where svc cannot keep its own files. */
export const ELSEWHERE =
  "svc keeps files of its own there: choose a folder that it can write to with --config-dir (mcp.json may stay where it is: --config)"

/** The temporaries in a folder that writers left which were killed; `of` says for which files. */
export function findTemporaries(folder: string, of: (name: string) => boolean): readonly string[] {
  try {
    return readdirSync(folder)
      .filter((entry) => of(TEMPORARY.exec(entry)?.[1] ?? ""))
      .map((entry) => join(folder, entry))
  } catch {
    // No folder, or none that may be read: none of svc's writers has been there.
    return []
  }
}

/** Removes files; one that is gone or cannot be removed costs nothing. */
export function removeAll(files: readonly string[]): void {
  for (const file of files)
    try {
      unlinkSync(file)
    } catch {
      // It goes another time.
    }
}

// ---

/** As `writeWhole` names them. */
const TEMPORARY = /^\.(.+)\.[0-9a-f]{12}\.tmp$/

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
    if (owner !== undefined) copyOwner(owner, temporary)
    chmodSync(temporary, kept)
    const wanted = still()
    if (wanted) retryOnWindowsLock(() => renameSync(temporary, target))
    else unlinkSync(temporary)
    return wanted
  } catch (cause) {
    if (existsSync(temporary)) unlinkSync(temporary)
    throw new UnavailableError(`cannot write ${target}: ${messageOf(cause)}`, { cause })
  }
}

/** A file stays whose it was, as far as its writer may decide that: an administrator's edit must not lock its user out. */
function copyOwner({ uid, gid }: { readonly uid: number; readonly gid: number }, path: string): void {
  const own = statSync(path)
  if (own.uid === uid && own.gid === gid) return
  try {
    chownSync(path, uid, gid)
  } catch {
    // Only an administrator may give files away.
  }
}
