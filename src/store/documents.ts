/**
 * The documents on disk: read, and edited so that nothing is lost.
 *
 *  1. A missing mcp.json is an empty configuration; a missing `.env` an empty environment.
 *  2. An edit is made to what is there at that moment, under a lock, with a backup first, and appears whole or not at all.
 */
import { existsSync, readdirSync, realpathSync, unlinkSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { jsonSchema } from "../config/schema.ts"
import type { Clock } from "../lib/clock.ts"
import { RequestError } from "../lib/errors.ts"
import { findTemporaries, makePrivateFolder, readText, removeAll, replaceFile } from "./files.ts"
import { acquire, type Release } from "./lock.ts"
import { ownName, type Paths } from "./paths.ts"

/** The documents' texts; undefined where there is no such file. */
export type DocumentTexts = {
  readonly config: string | undefined
  readonly dotenv: string | undefined
  readonly presets: string | undefined
}

/** The documents' files, for a watch. */
export const documentFiles = ({ file, dotenv, presets }: Paths): readonly string[] => [file, dotenv, presets]

/** Reads the documents. Throws an UnavailableError where one cannot be read. */
export function readTexts(paths: Paths): DocumentTexts {
  return { config: readText(paths.file), dotenv: readText(paths.dotenv), presets: readText(paths.presets) }
}

/** Makes the folder, a minimal file and the JSON Schema it names where there is no file. Resolves to whether it did. */
export async function createMissing(paths: Paths, clock: Clock): Promise<boolean> {
  if (existsSync(paths.file)) return false
  makePrivateFolder(dirname(paths.file))
  const release = await lockDocuments(paths, clock)
  try {
    // Another process may have made it, and edited it, in the meantime.
    if (existsSync(paths.file)) return false
    replaceFile(join(dirname(paths.file), SCHEMA_FILE), `${JSON.stringify(jsonSchema(), null, 2)}\n`, 0o644)
    replaceFile(paths.file, MINIMAL, 0o600)
    return true
  } finally {
    release()
  }
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

/** Keeps a text in `backups`; gives the file's path. */
export function backup(paths: Paths, text: string | Uint8Array, clock: Clock): string {
  const folder = join(paths.directory, "backups")
  makePrivateFolder(folder)
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

/** What stands in a file that svc makes. */
export const MINIMAL = `{
  "$schema": "../config/mcp.schema.json",
  "mcpServers": {}
}
`
/** How often a file may be another one when it is to be replaced. */
export const MAX_TRIES = 20

/** For a file that is another one each time it is to be replaced. */
export const contentionError = (file: string): RequestError =>
  new RequestError("conflict", `${file} is being changed by somebody else all the time; try again later`)

/** Takes the lock of mcp.json and what belongs to it, and removes the temporaries of writers that were killed. */
export async function lockDocuments(paths: Paths, clock: Clock): Promise<Release> {
  makePrivateFolder(paths.directory)
  const release = await acquire(join(paths.directory, "mcp.json.lock"), clock)
  // Their writers take the same lock, so that none is in use.
  removeAll(documentTemporaries(paths))
  return release
}

/** The temporaries of mcp.json and what belongs to it. */
export function documentTemporaries(paths: Paths): readonly string[] {
  const backups = `${ownName("mcp", paths)}-`
  return [
    ...[paths.file, paths.dotenv, join(dirname(paths.file), SCHEMA_FILE)].flatMap(temporariesOf),
    ...findTemporaries(paths.directory, (name) => /^trial-[\da-f-]+\.json$/.test(name)),
    ...findTemporaries(join(paths.directory, "backups"), (name) => name.startsWith(backups)),
  ]
}

// ---

const KEPT_BACKUPS = 20
const SCHEMA_FILE = "mcp.schema.json"

/** They lie beside the file itself, not beside a link to it. */
function temporariesOf(file: string): readonly string[] {
  const target = existsSync(file) ? realpathSync(file) : file
  return findTemporaries(dirname(target), (name) => name === basename(target))
}

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
  keep?: (before: string) => void,
): Promise<boolean> {
  const release = await lockFile(paths, file, clock)
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
  throw contentionError(file)
}
