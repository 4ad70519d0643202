/**
 * A change of mcp.json and `.env` together that can be undone: byte for byte where nobody else wrote in between, and by
 * taking out what was ours where somebody did.
 *
 *  1. The change is made to what is there at that moment. A file that somebody saves in between is read again.
 *  2. A write that fails leaves everything as it was, the backups too.
 *  3. `.env` is written first: what refers to it must find it. It is for its owner alone.
 *  4. A change that has a name is on trial until it is kept or undone. What was before is noted on disk meanwhile: where
 *     the process does not come to that, the next one takes the change back. A lock held meanwhile tells that the process
 *     is alive.
 */
import { randomUUID } from "node:crypto"
import { existsSync, readdirSync, readFileSync, rmdirSync, statSync, unlinkSync } from "node:fs"
import { join } from "node:path"
import type { Clock } from "../lib/clock.ts"
import { digest } from "../lib/digest.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"
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
import { decodeText, replaceFile, replaceState } from "./files.ts"
import { type Release, tryAcquireOnce } from "./lock.ts"
import type { Paths } from "./paths.ts"

/** Both texts; an empty one where there is no file. */
export type WrittenDocuments = { readonly config: string; readonly dotenv: string }
export type DocumentChange = (written: WrittenDocuments) => WrittenDocuments

/** A change that was made. */
export type AppliedChange = {
  readonly before: WrittenDocuments
  readonly after: WrittenDocuments
  /** Where the mcp.json of before is kept; undefined where it did not change. */
  readonly backup: string | undefined
  /** The change stays. */
  keep(): void
  /** Takes it back. `reverse` takes it out of a text that somebody else has changed since. */
  undo(reverse: DocumentChange): Promise<void>
}

/** Both texts as they are. Throws an UnavailableError where one cannot be read. */
export const readDocuments = (paths: Paths): WrittenDocuments => textsOf(readOriginals(paths))

/**
 * Changes both documents. Throws what `change` throws, with nothing written. `trial` is the name of a change that is to be
 * taken back where this process ends before it is kept or undone.
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
      const done = attempt(paths, change, clock, begun)
      if (done !== undefined) return done
    }
    throw contentionError(paths.file)
  } catch (error) {
    begun?.end()
    throw error
  } finally {
    release()
  }
}

/** Takes back the changes of processes that ended before they were kept or undone, and what else they left. Says what of it. */
export async function recover(paths: Paths, clock: Clock): Promise<readonly string[]> {
  if (!existsSync(paths.directory)) return []
  if (trialsIn(paths).length === 0 && !hasBundles(paths) && documentTemporaries(paths).length === 0) return []
  const release = await lockDocuments(paths, clock)
  try {
    const said: string[] = []
    // Listed again under the lock: the owner of a note removes it when its change is kept.
    for (const id of trialsIn(paths)) said.push(...(await recoverTrial(id, paths)))
    await sweepBundles(paths)
    return said
  } finally {
    release()
  }
}

// ---

const TRIAL = /^trial-([\da-f-]+)\.(?:json|lock)$/

/** The ids of the trials that have a note or a lock in the folder. */
const trialsIn = ({ directory }: Paths): readonly string[] => [
  ...new Set(readdirSync(directory).flatMap((name) => TRIAL.exec(name)?.[1] ?? [])),
]

const noteOfTrial = ({ directory }: Paths, id: string): string => join(directory, `trial-${id}.json`)
const lockOfTrial = ({ directory }: Paths, id: string): string => join(directory, `trial-${id}.lock`)

/** A change on trial: the name it is told by, the file of its note, and the lock that its process holds meanwhile. */
type Trial = { readonly name: string; readonly note: string; end(): void }

async function beginTrial(paths: Paths, name: string): Promise<Trial> {
  const id = randomUUID()
  const note = noteOfTrial(paths, id)
  let release: Release | undefined = await tryAcquireOnce(lockOfTrial(paths, id))
  return {
    name,
    note,
    end() {
      // The note first: a note without an owner is taken back.
      if (existsSync(note)) unlinkSync(note)
      release?.()
      release = undefined
    },
  }
}

/** Takes back the trial of a process that has ended: one whose lock is free. */
async function recoverTrial(id: string, paths: Paths): Promise<readonly string[]> {
  const release = await tryAcquireOnce(lockOfTrial(paths, id))
  if (release === undefined) return []
  try {
    const note = noteOfTrial(paths, id)
    // Its owner has come to an end of it meanwhile.
    if (!existsSync(note)) return []
    const noted = readNote(note)
    // Several files may share the folder.
    if (noted !== undefined && noted.file !== paths.file) return []
    const taken = noted === undefined ? [] : takeBack(noted, paths)
    unlinkSync(note)
    return taken
  } finally {
    release()
  }
}

type Original = { readonly bytes: Buffer; readonly mode: number } | undefined
type Originals = { readonly config: Original; readonly dotenv: Original }

/** Undefined where somebody else wrote mcp.json in the meantime. */
function attempt(
  paths: Paths,
  change: DocumentChange,
  clock: Clock,
  trial: Trial | undefined,
): AppliedChange | undefined {
  const were = readOriginals(paths)
  const before = textsOf(were)
  const after = change(before)
  const folder = join(paths.directory, "backups")
  const hadFolder = existsSync(folder)
  let kept: string | undefined
  const restore = () => {
    if (trial !== undefined && existsSync(trial.note)) unlinkSync(trial.note)
    if (kept !== undefined && existsSync(kept)) unlinkSync(kept)
    if (!hadFolder && existsSync(folder)) rmdirSync(folder)
  }
  const done: AppliedChange = {
    before,
    after,
    get backup() {
      return kept
    },
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
          if (now[key] === after[key]) put(path, were[key])
          else replaceFile(path, reverse(now)[key], undefined)
        }
        restore()
        trial?.end()
      } finally {
        release()
      }
    },
  }
  try {
    if (after.config !== before.config && were.config !== undefined) kept = backup(paths, were.config.bytes, clock)
    if (trial !== undefined) {
      const ours = {
        config: [before, after].map(({ config }) => digest(config)),
        dotenv: [before, after].map(({ dotenv }) => digest(dotenv)),
      }
      replaceState(trial.note, noteOf({ name: trial.name, file: paths.file, ours, ...were, backup: kept ?? "" }))
    }
    if (after.dotenv !== before.dotenv) replaceFile(paths.dotenv, after.dotenv, 0o600)
    if (after.config === before.config) return done
    const still = () => textsOf({ config: read(paths.file), dotenv: undefined }).config === before.config
    const mode = were.config === undefined ? 0o600 : undefined
    if (replaceFile(paths.file, after.config, mode, still)) return done
  } catch (error) {
    if (after.dotenv !== before.dotenv) put(paths.dotenv, were.dotenv)
    restore()
    throw error
  }
  if (after.dotenv !== before.dotenv) put(paths.dotenv, were.dotenv)
  restore()
  return undefined
}

/** Writes a file as it was, with the bytes and the mode it had, or takes it away. */
function put(path: string, original: Original): void {
  if (original !== undefined) replaceFile(path, original.bytes, original.mode)
  else if (existsSync(path)) unlinkSync(path)
}

/** What is on disk of a change on trial: what was before, and which texts were ours, by their digests. */
type TrialNote = Originals & {
  readonly name: string
  readonly file: string
  readonly ours: { readonly [key in keyof WrittenDocuments]: readonly string[] }
  /** Empty where there is none. */
  readonly backup: string
}

/** It may have been cut off between the two files. */
function takeBack({ name, ours, backup, ...were }: TrialNote, paths: Paths): readonly string[] {
  const now = readDocuments(paths)
  if (now.config === textsOf(were).config && now.dotenv === textsOf(were).dotenv) return []
  const begun = `svc ended before a change of ${name} was seen to work`
  if (!ours.config.includes(digest(now.config)) || !ours.dotenv.includes(digest(now.dotenv)))
    return [`${begun}: the files have been edited since, so it stays`]
  put(paths.file, were.config)
  put(paths.dotenv, were.dotenv)
  if (existsSync(backup)) unlinkSync(backup)
  return [`${begun}: it was taken back`]
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
  if (!existsSync(path)) return undefined
  try {
    return { bytes: readFileSync(path), mode: statSync(path).mode & 0o777 }
  } catch (cause) {
    throw new UnavailableError(`cannot read ${path}: ${messageOf(cause)}`, { cause })
  }
}
