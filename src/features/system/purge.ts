/**
 * Removes a configuration directory, after moving out of it what exists only there.
 *
 *  1. Removes only the files that svc makes anew, sign-ins and mcp.json without servers. All others are moved, whoever wrote
 *     them: configuration, `.env`, presets, tokens, pins, bundles, backups.
 *  2. Removes nothing before everything is moved.
 *  3. Of a directory that is a symbolic link, only the link is removed: its target may be kept under version control.
 */
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  unlinkSync,
} from "node:fs"
import { join } from "node:path"
import { isDeepStrictEqual } from "node:util"
import type { Clock } from "../../lib/clock.ts"
import { fileProblem, UnavailableError } from "../../lib/errors.ts"
import { MINIMAL } from "../../store/documents.ts"
import { readFolder, readState, readText } from "../../store/files.ts"

/** Returns the names in a configuration directory that must not be removed with it. */
export function findPrecious(directory: string): readonly string[] {
  if (isLink(directory)) return []
  return readFolder(directory).filter((name) => !MADE_ANEW.test(name) && !isEmpty(directory, name))
}

/** Returns the path of a new folder in the home directory for the files of a purged configuration directory. */
export function placeForPrecious(home: string, clock: Clock): string {
  const nameAt = (time: number) => {
    const stamp = new Date(time).toISOString().slice(0, 19).replaceAll(":", "-")
    return join(home, `svc-backup-${stamp}`)
  }
  let time = clock.now()
  while (existsSync(nameAt(time))) time += 1000
  return nameAt(time)
}

/**
 * Moves what is precious in a configuration directory to `place`, and removes the directory. Returns the moved names. Throws an
 * UnavailableError, with nothing removed, if something cannot be moved.
 */
export function purge(directory: string, place: string): readonly string[] {
  if (isLink(directory)) {
    unlinkSync(directory)
    return []
  }
  const moved = findPrecious(directory)
  if (moved.length > 0) create(place)
  for (const name of moved) move(join(directory, name), join(place, name))
  for (const name of readFolder(directory)) rmSync(join(directory, name), { recursive: true, force: true })
  if (existsSync(directory)) rmdirSync(directory)
  return moved
}

// ---

/** Matches the names of what svc makes anew when it needs it, and of sign-ins. Others in the directory are the user's. */
const MADE_ANEW = new RegExp(
  [
    "control(?:-[0-9a-f]{8})?(?:\\.json|\\.lock|(?:-lines)?\\.sock)",
    "(?:eras|logins)(?:-[0-9a-f]{8})?\\.json",
    "sessions(?:-[0-9a-f]{8})?\\.sqlite(?:-wal|-shm|-journal)?",
    "(?:results|logs)(?:-[0-9a-f]{8})?",
    "(?:start|svc)(?:-[0-9a-f]{8})?\\.log(?:\\.\\d+)?",
    "configuration-[0-9a-f]{8}\\.json",
    "registries|running|secrets",
    "(?:mcp|presets|tokens|connections)\\.json\\.lock|trial-[0-9a-f-]+\\.lock",
    "mcp\\.schema\\.json",
    "\\..+\\.[0-9a-f]{12}\\.tmp",
  ]
    .map((one) => `^(?:${one})$`)
    .join("|"),
)

/** Whether a path is a symbolic link. */
export const isLink = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true

/** Whether a name in the directory has no content to keep: an empty folder, a configuration without servers, no connections. */
function isEmpty(directory: string, name: string): boolean {
  const path = join(directory, name)
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found === undefined) return true
  if (found.isDirectory())
    return !readdirSync(path, { recursive: true, withFileTypes: true }).some((one) => !one.isDirectory())
  if (!found.isFile()) return false
  if (name === "connections.json") return isDeepStrictEqual(readState(path), { connections: [] })
  return name === "mcp.json" && found.size < 1000 && readText(path) === MINIMAL
}

function create(place: string): void {
  try {
    mkdirSync(place, { recursive: true, mode: 0o700 })
  } catch (cause) {
    throw new UnavailableError(`cannot create ${place}: ${fileProblem(cause)}; nothing was removed`, { cause })
  }
}

function move(from: string, to: string): void {
  try {
    try {
      renameSync(from, to)
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EXDEV")) throw error
      // The home directory may be on another disk.
      cpSync(from, to, {
        recursive: true,
        verbatimSymlinks: true,
        preserveTimestamps: true,
        errorOnExist: true,
        force: false,
      })
      rmSync(from, { recursive: true })
    }
  } catch (cause) {
    throw new UnavailableError(`cannot move ${from} to ${to}: ${fileProblem(cause)}; nothing was removed`, { cause })
  }
}
