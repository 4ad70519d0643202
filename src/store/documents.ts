/**
 * The documents on disk: reads and edits them without losing data.
 *
 *  1. A missing mcp.json is an empty configuration, a missing `.env` an empty environment.
 *  2. An edit applies to the current text, under a lock, after a backup, and is written atomically.
 */
import { existsSync, readdirSync, realpathSync, unlinkSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { schemas } from "../config/lazy-schema.ts"
import type { Clock } from "../lib/clock.ts"
import { RequestError } from "../lib/errors.ts"
import { findTemporaries, makePrivateFolder, readText, removeAll, replaceFile } from "./files.ts"
import { acquire, type Release } from "./lock.ts"
import { ownName, type Paths } from "./paths.ts"

/** Reads the text of each document; undefined for a missing file. Throws an UnavailableError if the file cannot be read. */
export type DocumentTexts = {
  config(): string | undefined
  dotenv(): string | undefined
  presets(): string | undefined
}

/** Returns the files of the documents, for a watch. */
export const documentFiles = ({ file, dotenv, presets }: Paths): readonly string[] => [file, dotenv, presets]

/** Returns the reader of the documents. It reads each on its own, so that an unreadable document does not affect the others. */
export const readTexts = ({ file, dotenv, presets }: Paths): DocumentTexts => ({
  config: () => readText(file),
  dotenv: () => readText(dotenv),
  presets: () => readText(presets),
})

/** Creates the folder, a minimal mcp.json and its JSON Schema if mcp.json is missing. Resolves to whether it created them. */
export async function createMissing(paths: Paths, clock: Clock): Promise<boolean> {
  if (existsSync(paths.file)) return false
  makePrivateFolder(dirname(paths.file))
  const release = await lockDocuments(paths, clock)
  try {
    // Another process may have created it meanwhile.
    if (existsSync(paths.file)) return false
    replaceFile(join(dirname(paths.file), SCHEMA_FILE), `${JSON.stringify(schemas().jsonSchema(), null, 2)}\n`, 0o644)
    replaceFile(paths.file, MINIMAL, 0o600)
    return true
  } finally {
    release()
  }
}

/**
 * Edits presets.json by a function from text to text, under a lock, so that no concurrent edit is lost. Throws what `change`
 * throws, with nothing written. Resolves to false if nothing changed. `store/transaction.ts` edits mcp.json and `.env`.
 */
export const editPresets = (paths: Paths, change: (text: string) => string, clock: Clock): Promise<boolean> =>
  editFile(paths, paths.presets, "{}\n", change, clock)

/** Edits a file of tokens in the same way. */
export const editTokens = (
  paths: Paths,
  file: string,
  change: (text: string) => string,
  clock: Clock,
): Promise<boolean> => editFile(paths, file, '{"tokens":[]}\n', change, clock)

/** Edits the file of connections to clients in the same way. */
export const editConnections = (
  paths: Paths,
  file: string,
  change: (text: string) => string,
  clock: Clock,
): Promise<boolean> => editFile(paths, file, '{"connections":[]}\n', change, clock)

/** Returns the paths of the backups of mcp.json, newest first; not those of another file that shares the directory. */
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

/** Writes a text to a new file in `backups`. Returns its path. */
export function backup(paths: Paths, text: string | Uint8Array, clock: Clock): string {
  const folder = join(paths.directory, "backups")
  makePrivateFolder(folder)
  const nameAt = (time: number) => `${ownName("mcp", paths)}-${new Date(time).toISOString().replaceAll(":", "-")}.json`
  // Names must sort by time: two edits in one millisecond get different times.
  let time = clock.now()
  while (existsSync(join(folder, nameAt(time)))) time++
  const path = join(folder, nameAt(time))
  replaceFile(path, text, 0o600)
  return path
}

/** Removes the oldest backups beyond 20. */
export function pruneBackups(paths: Paths): void {
  for (const old of listBackups(paths).slice(KEPT_BACKUPS)) unlinkSync(old)
}

/** The text of an mcp.json that svc creates. */
export const MINIMAL = `{
  "$schema": "./mcp.schema.json",
  "mcpServers": {}
}
`
/** The most attempts of an edit, which is repeated if the file changes meanwhile. */
export const MAX_TRIES = 20

/** Returns the error for a file that changes faster than svc can edit it. */
export const contentionError = (file: string): RequestError =>
  new RequestError("conflict", `another program keeps changing ${file}; try again later`)

/** Takes the lock of mcp.json and its companions, and removes the temporary files of killed writers. */
export async function lockDocuments(paths: Paths, clock: Clock): Promise<Release> {
  makePrivateFolder(paths.directory)
  const release = await acquire(join(paths.directory, "mcp.json.lock"), clock)
  // Writers take the same lock, so no temporary file is in use.
  removeAll(documentTemporaries(paths))
  return release
}

/** Returns the temporary files of mcp.json and its companions. */
export function documentTemporaries(paths: Paths): readonly string[] {
  const backups = `${ownName("mcp", paths)}-`
  return [
    ...[paths.file, paths.dotenv, join(dirname(paths.file), SCHEMA_FILE)].flatMap(temporariesOf),
    ...findTemporaries(paths.directory, (name) => /^trial-[\da-f-]+\.json$/.test(name)),
    ...findTemporaries(join(paths.directory, "backups"), (name) => name.startsWith(backups)),
  ]
}

/** Returns the temporary files of a file; those of a link are beside its target. */
export function temporariesOf(file: string): readonly string[] {
  const target = existsSync(file) ? realpathSync(file) : file
  return findTemporaries(dirname(target), (name) => name === basename(target))
}

// ---

const KEPT_BACKUPS = 20
export const SCHEMA_FILE = "mcp.schema.json"

async function lockFile(paths: Paths, file: string, clock: Clock): Promise<Release> {
  if (file === paths.file) return lockDocuments(paths, clock)
  makePrivateFolder(paths.directory)
  const release = await acquire(join(paths.directory, `${basename(file)}.lock`), clock)
  removeAll(temporariesOf(file))
  return release
}

async function editFile(
  paths: Paths,
  file: string,
  empty: string,
  change: (text: string) => string,
  clock: Clock,
): Promise<boolean> {
  const release = await lockFile(paths, file, clock)
  try {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const before = readText(file)
      const after = change(before ?? empty)
      if (after === before) return false
      // Editors ignore the lock: the loop reads a text again that was saved meanwhile.
      const isUnchanged = () => readText(file) === before
      if (replaceFile(file, after, before === undefined ? 0o600 : undefined, isUnchanged)) return true
    }
  } finally {
    release()
  }
  throw contentionError(file)
}
