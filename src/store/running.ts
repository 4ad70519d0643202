/**
 * The list of a user's running svc processes, for `svc ps`: one file each, in the default configuration directory, whichever
 * directory the process uses itself. An entry is a hint: its reader asks the control socket whether the process still runs.
 */
import { join } from "node:path"
import { digest } from "../lib/digest.ts"
import { messageOf } from "../lib/errors.ts"
import { makePrivateFolder, readFolder, readState, removeAll, replaceState } from "./files.ts"
import { type Paths, pathsOf, standardDirectory } from "./paths.ts"

/** The ways to start svc. */
const STARTERS = ["terminal", "background", "proxy", "service", "program", "demo"] as const
export type Starter = (typeof STARTERS)[number]

export type RunningSvc = {
  readonly pid: number
  /** The configuration directory and mcp.json. */
  readonly directory: string
  readonly file: string
  /** ISO 8601 */
  readonly startedAt: string
  readonly startedBy: Starter
}

/** Returns the folder of the list. */
export const runningFolder = (home: string, appData: string | undefined, platform: string): string =>
  join(standardDirectory({ platform, home, appData }), "running")

/** Adds a process to the list until `close`. Returns the problem if that fails: svc then runs without an entry. */
export function announceRunning(folder: string, running: RunningSvc): { readonly problem?: string; close(): void } {
  const entry = entryOf(folder, running)
  try {
    makePrivateFolder(folder)
    replaceState(entry, `${JSON.stringify(running)}\n`)
    return { close: () => removeAll([entry]) }
  } catch (error) {
    return { problem: messageOf(error), close() {} }
  }
}

/** Returns the entries of the list, oldest first, without unreadable ones. */
export function listRunning(folder: string): readonly RunningSvc[] {
  const found = readFolder(folder).flatMap((name) => (name.endsWith(".json") ? readEntry(join(folder, name)) : []))
  return found.sort((one, other) => one.startedAt.localeCompare(other.startedAt))
}

/** Returns the paths that a listed svc uses. */
export const pathsOfRunning = ({ file, directory }: RunningSvc, home: string): Paths =>
  pathsOf({ config: file, directory, platform: process.platform, home, appData: undefined, cwd: directory })

/** Removes a stale entry. */
export const forgetRunning = (folder: string, running: RunningSvc): void => removeAll([entryOf(folder, running)])

// ---

/** Returns the file of an entry: one per configuration, because at most one svc runs for a configuration. */
const entryOf = (folder: string, { directory, file }: Pick<Paths, "directory" | "file">): string =>
  join(folder, `${digest(`${directory}\0${file}`, 16)}.json`)

function readEntry(file: string): readonly RunningSvc[] {
  const value = readState(file)
  // An entry may be incomplete, or from another version.
  const isEntry =
    Number.isInteger(value?.pid) &&
    [value?.directory, value?.file, value?.startedAt].every((one) => typeof one === "string")
  return isEntry ? [{ ...(value as RunningSvc), startedBy: starterOf(value?.startedBy) }] : []
}

/** Returns the starter that a text names; "program" for any other text. */
export const starterOf = (text: unknown): Starter => STARTERS.find((one) => one === text) ?? "program"
