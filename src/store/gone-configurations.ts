/**
 * Removes the files that svc keeps for configurations that are gone. Several configurations may share a directory
 * (`--config`). The names of their files contain a digest of the path of mcp.json; a note beside them has the path itself.
 *
 *  1. Removes only files that svc creates again: those of the control socket, sessions, logins, results and logs (earlier versions:
 *     also eras). Pins of tools, backups and bundles stay.
 *  2. A configuration is gone if its file does not exist, no svc has started for it for a week, and none holds its lock: a
 *     drive may be missing for a while.
 */
import { existsSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { isObject } from "../wire/message.ts"
import { readFolder, readText, removeAll, replaceState } from "./files.ts"
import { tryAcquire } from "./lock.ts"
import { ownName, type Paths } from "./paths.ts"

/** Writes the note of a configuration; its time is that of this start. The mcp.json of the directory needs no note. */
export function noteConfiguration(paths: Paths): void {
  const name = ownName(NOTE, paths)
  if (name !== NOTE) replaceState(join(paths.directory, `${name}.json`), `${JSON.stringify({ file: paths.file })}\n`)
}

/** Removes the files of configurations that are gone, MAX_AT_ONCE at a time. Resolves to the paths of their mcp.json. */
export async function sweepGone({ directory }: Pick<Paths, "directory">, now: number): Promise<readonly string[]> {
  const names = readFolder(directory)
  const gone = names.flatMap((name) => readNote(directory, name, now)).slice(0, MAX_AT_ONCE)
  const swept: string[] = []
  for (const { digest, file } of gone) {
    const release = await tryAcquire(join(directory, `control-${digest}.lock`))
    if (release === undefined) continue
    const itsFiles = new RegExp(`^(?:control|eras|sessions|logins|results|logs|start|svc)-${digest}(?:\\.|$)`)
    for (const name of names) if (itsFiles.test(name)) rmSync(join(directory, name), { recursive: true, force: true })
    release()
    // Removes the file of the lock, too: without mcp.json no svc takes the lock.
    removeAll([join(directory, `control-${digest}.lock`), join(directory, `${NOTE}-${digest}.json`)])
    swept.push(file)
  }
  return swept
}

// ---

const NOTE = "configuration"
const UNUSED_MS = 7 * 24 * 3_600_000
const MAX_AT_ONCE = 20

/** Returns the configuration of a note if it is gone, with the digest in the names of its files. */
function readNote(directory: string, name: string, now: number): readonly { digest: string; file: string }[] {
  const digest = /^configuration-([\da-f]{8})\.json$/.exec(name)?.[1]
  if (digest === undefined) return []
  try {
    const path = join(directory, name)
    const note: unknown = JSON.parse(readText(path) ?? "")
    const file = isObject(note) && typeof note.file === "string" ? note.file : ""
    const isItsNote = `${ownName(NOTE, { directory, file })}.json` === name
    return isItsNote && !existsSync(file) && statSync(path).mtimeMs < now - UNUSED_MS ? [{ digest, file }] : []
  } catch {
    // Incomplete, or from another version.
    return []
  }
}
