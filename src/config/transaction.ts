/**
 * A change of mcp.json and `.env` together that can be undone: byte for byte where nobody else wrote in between, and by
 * taking out what was ours where somebody did.
 *
 *  1. The change is made to what is there at that moment. A file that somebody saves in between is read again.
 *  2. A write that fails leaves everything as it was, the backups too.
 *  3. `.env` is written first: what refers to it must find it. It is for its owner alone.
 */
import { existsSync, readFileSync, rmdirSync, statSync, unlinkSync } from "node:fs"
import { join } from "node:path"
import type { Clock } from "../lib/clock.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"
import type { Paths } from "./paths.ts"
import { acquire, backup, contended, MAX_TRIES, MINIMAL, pruneBackups, replaceFile } from "./store.ts"

/** Both texts; an empty one where there is no file. */
export type Written = { readonly config: string; readonly dotenv: string }
export type Change = (written: Written) => Written

/** A change that was made. */
export type Done = {
  readonly before: Written
  readonly after: Written
  /** Where the mcp.json of before is kept; undefined where it did not change. */
  readonly backup: string | undefined
  /** The change stays. */
  keep(): void
  /** Takes it back. `reverse` takes it out of a text that somebody else has changed since. */
  undo(reverse: Change): Promise<void>
}

/** Both texts as they are. Throws an UnavailableError where one cannot be read. */
export const readWritten = (paths: Paths): Written => textsOf(readOriginals(paths))

/** Changes both documents. Throws what `change` throws, with nothing written. */
export async function changeDocuments(paths: Paths, change: Change, clock: Clock): Promise<Done> {
  const lock = join(paths.directory, "mcp.json.lock")
  const release = await acquire(lock, clock)
  try {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const done = attempt(paths, change, clock, lock)
      if (done !== undefined) return done
    }
  } finally {
    release()
  }
  throw contended(paths.file)
}

// ---

type Original = { readonly bytes: Buffer; readonly mode: number } | undefined
type Originals = { readonly config: Original; readonly dotenv: Original }

/** Undefined where somebody else wrote mcp.json in the meantime. */
function attempt(paths: Paths, change: Change, clock: Clock, lock: string): Done | undefined {
  const were = readOriginals(paths)
  const before = textsOf(were)
  const after = change(before)
  const folder = join(paths.directory, "backups")
  const hadFolder = existsSync(folder)
  let kept: string | undefined
  const restore = () => {
    if (kept !== undefined && existsSync(kept)) unlinkSync(kept)
    if (!hadFolder && existsSync(folder)) rmdirSync(folder)
  }
  const done: Done = {
    before,
    after,
    get backup() {
      return kept
    },
    keep: () => pruneBackups(paths),
    async undo(reverse) {
      const release = await acquire(lock, clock)
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
      } finally {
        release()
      }
    },
  }
  try {
    if (after.config !== before.config && were.config !== undefined) kept = backup(paths, were.config.bytes, clock)
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

const readOriginals = (paths: Paths): Originals => ({ config: read(paths.file), dotenv: read(paths.dotenv) })

const textsOf = ({ config, dotenv }: Originals): Written => ({
  config: config === undefined ? MINIMAL : config.bytes.toString("utf8"),
  dotenv: dotenv === undefined ? "" : dotenv.bytes.toString("utf8"),
})

function read(path: string): Original {
  if (!existsSync(path)) return undefined
  try {
    return { bytes: readFileSync(path), mode: statSync(path).mode & 0o777 }
  } catch (cause) {
    throw new UnavailableError(`cannot read ${path}: ${messageOf(cause)}`, { cause })
  }
}
