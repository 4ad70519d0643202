/**
 * Changes of mcp.json and `.env` together that can be undone: byte for byte if the files are unchanged since, otherwise by
 * removing only svc's own change from them.
 *
 *  1. A change applies to the current texts. If another program saves a file meanwhile, svc reads it again.
 *  2. A failed write leaves everything as before, including the backups.
 *  3. `.env` is written first, because mcp.json refers to its variables. Only its owner can read it.
 *  4. A named change is on trial until it is kept or undone. A note on disk has the original texts: if the process ends first,
 *     the next process undoes the change. A lock shows that the process is alive.
 */
import { existsSync, readdirSync, readFileSync, rmdirSync, statSync, unlinkSync } from "node:fs"
import { join } from "node:path"
import type { Clock } from "../lib/clock.ts"
import { digest } from "../lib/digest.ts"
import { isObject } from "../wire/message.ts"
import { hasBundles, sweepBundles } from "./bundles.ts"
import {
  backup,
  contentionError,
  documentTemporaries,
  lockDocuments,
  MAX_TRIES,
  MINIMAL,
  pruneBackups,
} from "./documents.ts"
import { decodeText, readBytes, replaceFile, replaceState } from "./files.ts"
import { type Release, tryAcquireOnce } from "./lock.ts"
import { ownName, type Paths } from "./paths.ts"

/** The texts of both documents; an empty document for a missing file. */
export type WrittenDocuments = { readonly config: string; readonly dotenv: string }
/** A function from the texts before to the texts after. */
export type DocumentChange = (written: WrittenDocuments) => WrittenDocuments

/** A change that was made. */
export type AppliedChange = {
  readonly before: WrittenDocuments
  readonly after: WrittenDocuments
  /** The backup of the previous mcp.json; undefined if it did not change. */
  readonly backup: string | undefined
  /** Ends the trial: the change stays. */
  keep(): void
  /** Undoes the change. `reverse` removes it from texts that have been edited since. */
  undo(reverse: DocumentChange): Promise<void>
}

/** Reads both texts. Throws an UnavailableError if one cannot be read. */
export const readDocuments = (paths: Paths): WrittenDocuments => textsOf(readOriginals(paths))

/**
 * Changes both documents. Throws what `change` throws, with nothing written. `trial` names a change that the next process must
 * undo if this process ends before the change is kept or undone.
 */
export async function changeDocuments(
  paths: Paths,
  change: DocumentChange,
  clock: Clock,
  trial?: string,
): Promise<AppliedChange> {
  const release = await lockDocuments(paths, clock)
  let begun: Trial | undefined
  try {
    if (trial !== undefined) begun = await beginTrial(paths, trial)
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const applied = attempt(paths, change, clock, begun)
      if (applied !== undefined) return applied
    }
    throw contentionError(paths.file)
  } catch (error) {
    begun?.end()
    throw error
  } finally {
    release()
  }
}

/** Edits mcp.json alone, without a trial. Resolves to false if nothing changed. */
export async function editConfig(paths: Paths, edit: (text: string) => string, clock: Clock): Promise<boolean> {
  const { before, after, keep } = await changeDocuments(
    paths,
    ({ config, dotenv }) => ({ config: edit(config), dotenv }),
    clock,
  )
  keep()
  return after.config !== before.config
}

/** Undoes the trials of processes that have ended, and removes their other files. Returns a sentence for each trial. */
export async function recoverTrials(paths: Paths, clock: Clock): Promise<readonly string[]> {
  if (!existsSync(paths.directory)) return []
  if (trialsIn(paths).length === 0 && !hasBundles(paths) && documentTemporaries(paths).length === 0) return []
  const release = await lockDocuments(paths, clock)
  try {
    const reports: string[] = []
    // Listed again under the lock: the owner of a note removes it when its change is kept.
    for (const id of trialsIn(paths)) reports.push(...(await recoverTrial(id, paths)))
    await sweepBundles(paths)
    return reports
  } finally {
    release()
  }
}

// ---

const TRIAL = /^trial-([\da-f-]+)\.(?:json|lock)$/

/** Returns the ids of the trials that have a note or a lock in the folder. */
const trialsIn = ({ directory }: Paths): readonly string[] => [
  ...new Set(readdirSync(directory).flatMap((name) => TRIAL.exec(name)?.[1] ?? [])),
]

const noteOfTrial = ({ directory }: Paths, id: string): string => join(directory, `trial-${id}.json`)
const lockOfTrial = ({ directory }: Paths, id: string): string => join(directory, `trial-${id}.lock`)

/** A change on trial: its name for messages, and the path of its note. `end` removes the note and releases the lock. */
type Trial = { readonly name: string; readonly note: string; end(): void }

async function beginTrial(paths: Paths, name: string): Promise<Trial> {
  const id = crypto.randomUUID()
  const note = noteOfTrial(paths, id)
  let release: Release | undefined = await tryAcquireOnce(lockOfTrial(paths, id))
  return {
    name,
    note,
    end() {
      // The note first: another process undoes a trial with a note but no lock.
      if (existsSync(note)) unlinkSync(note)
      release?.()
      release = undefined
    },
  }
}

/** Undoes a trial if its lock is free, which means that its process has ended. Returns a sentence about it, or none. */
async function recoverTrial(id: string, paths: Paths): Promise<readonly string[]> {
  const release = await tryAcquireOnce(lockOfTrial(paths, id))
  if (release === undefined) return []
  try {
    const note = noteOfTrial(paths, id)
    // The owner of the trial has ended it meanwhile.
    if (!existsSync(note)) return []
    const noted = readNote(note)
    // Several files may share the folder.
    if (noted !== undefined && ownName("trial", { ...paths, file: noted.file }) !== ownName("trial", paths)) return []
    const reports = noted === undefined ? [] : undoTrial(noted, paths)
    unlinkSync(note)
    return reports
  } finally {
    release()
  }
}

type Original = { readonly bytes: Buffer; readonly mode: number } | undefined
type Originals = { readonly config: Original; readonly dotenv: Original }

/** Tries a change once. Returns undefined, with everything as before, if another program wrote mcp.json meanwhile. */
function attempt(
  paths: Paths,
  change: DocumentChange,
  clock: Clock,
  trial: Trial | undefined,
): AppliedChange | undefined {
  const originals = readOriginals(paths)
  const before = textsOf(originals)
  const after = change(before)
  const folder = join(paths.directory, "backups")
  const hadFolder = existsSync(folder)
  let backupPath: string | undefined
  const removeTraces = () => {
    if (trial !== undefined && existsSync(trial.note)) unlinkSync(trial.note)
    if (backupPath !== undefined && existsSync(backupPath)) unlinkSync(backupPath)
    if (!hadFolder && existsSync(folder)) rmdirSync(folder)
  }
  let written = false
  try {
    if (after.config !== before.config && originals.config !== undefined)
      backupPath = backup(paths, originals.config.bytes, clock)
    if (trial !== undefined) writeNote(trial, paths, { originals, before, after, backup: backupPath ?? "" })
    if (after.dotenv !== before.dotenv) replaceFile(paths.dotenv, after.dotenv, 0o600)
    written = after.config === before.config || replaceConfig(paths, originals.config, after.config)
  } finally {
    if (!written) {
      if (after.dotenv !== before.dotenv) restoreFile(paths.dotenv, originals.dotenv)
      removeTraces()
    }
  }
  if (!written) return undefined
  return {
    before,
    after,
    backup: backupPath,
    keep() {
      trial?.end()
      pruneBackups(paths)
    },
    async undo(reverse) {
      const release = await lockDocuments(paths, clock)
      try {
        const now = textsOf(readOriginals(paths))
        for (const [key, path] of [
          ["config", paths.file],
          ["dotenv", paths.dotenv],
        ] as const) {
          if (after[key] === before[key]) continue
          if (now[key] === after[key]) restoreFile(path, originals[key])
          else replaceFile(path, reverse(now)[key], undefined)
        }
        removeTraces()
        trial?.end()
      } finally {
        release()
      }
    },
  }
}

/** Replaces mcp.json. Returns false, with nothing written, if it is not the original any more. */
function replaceConfig(paths: Paths, original: Original, text: string): boolean {
  const before = textsOf({ config: original, dotenv: undefined }).config
  const isUnchanged = () => textsOf({ config: read(paths.file), dotenv: undefined }).config === before
  return replaceFile(paths.file, text, original === undefined ? 0o600 : undefined, isUnchanged)
}

/** Writes the note of a trial. */
function writeNote(
  { name, note }: Trial,
  { file }: Paths,
  change: {
    readonly originals: Originals
    readonly before: WrittenDocuments
    readonly after: WrittenDocuments
    readonly backup: string
  },
): void {
  const { originals, before, after, backup } = change
  const ours = {
    config: [before, after].map(({ config }) => digest(config)),
    dotenv: [before, after].map(({ dotenv }) => digest(dotenv)),
  }
  replaceState(note, noteOf({ name, file, ours, ...originals, backup }))
}

/** Restores a file with its original bytes and mode, or removes it. */
function restoreFile(path: string, original: Original): void {
  if (original !== undefined) replaceFile(path, original.bytes, original.mode)
  else if (existsSync(path)) unlinkSync(path)
}

/** The note of a trial: the original files, and the digests of svc's own texts (before and after). */
type TrialNote = Originals & {
  readonly name: string
  readonly file: string
  readonly ours: { readonly [key in keyof WrittenDocuments]: readonly string[] }
  /** The path of the backup, or empty. */
  readonly backup: string
}

/** Undoes a trial, even if its process ended between the two writes. Returns a sentence about it, or none. */
function undoTrial({ name, ours, backup, ...originals }: TrialNote, paths: Paths): readonly string[] {
  const now = readDocuments(paths)
  if (now.config === textsOf(originals).config && now.dotenv === textsOf(originals).dotenv) return []
  const prefix = `svc ended before it verified a change of ${name}`
  if (!ours.config.includes(digest(now.config)) || !ours.dotenv.includes(digest(now.dotenv)))
    return [`${prefix}: the files have been edited since, so the change stays`]
  restoreFile(paths.file, originals.config)
  restoreFile(paths.dotenv, originals.dotenv)
  if (existsSync(backup)) unlinkSync(backup)
  return [`${prefix}: the change was undone`]
}

function noteOf({ config, dotenv, ...rest }: TrialNote): string {
  const text = (original: Original) =>
    original === undefined ? null : { bytes: original.bytes.toString("base64"), mode: original.mode }
  return JSON.stringify({ ...rest, config: text(config), dotenv: text(dotenv) })
}

function readNote(path: string): TrialNote | undefined {
  const original = (value: unknown): Original =>
    isObject(value) ? { bytes: Buffer.from(String(value.bytes), "base64"), mode: Number(value.mode) } : undefined
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"))
    if (!isObject(value) || !isObject(value.ours)) return undefined
    const { config = [], dotenv = [] } = value.ours
    return {
      name: String(value.name),
      file: String(value.file),
      ours: { config: [config].flat().map(String), dotenv: [dotenv].flat().map(String) },
      backup: String(value.backup),
      config: original(value.config),
      dotenv: original(value.dotenv),
    }
  } catch {
    return undefined
  }
}

const readOriginals = (paths: Paths): Originals => ({ config: read(paths.file), dotenv: read(paths.dotenv) })

const textsOf = ({ config, dotenv }: Originals): WrittenDocuments => ({
  config: config === undefined ? MINIMAL : decodeText(config.bytes),
  dotenv: dotenv === undefined ? "" : decodeText(dotenv.bytes),
})

function read(path: string): Original {
  const bytes = readBytes(path)
  return bytes === undefined ? undefined : { bytes, mode: statSync(path).mode & 0o777 }
}
