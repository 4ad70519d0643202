/** Files that people edit, watched. The folder is watched, not the file: an atomic replace would take the watch with it. */
import { type FSWatcher, realpathSync, watch } from "node:fs"
import { basename, dirname } from "node:path"
import type { Clock } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import { readText } from "./files.ts"

/** `note` says that what is there now is known: svc's own edits are not news. */
export type Watch = { acknowledge(): void; close(): void }

/**
 * Calls `onchange` when the text of a file may be another one, at most once in `debounce` milliseconds.
 * Folder events are quick but some file systems have none, so the files are also looked at every few seconds.
 */
export function watchFiles(files: readonly string[], clock: Clock, debounce: number, onchange: () => void): Watch {
  let seen = fingerprint(files)
  let cancelDebounce: (() => void) | undefined
  let patience = 0
  let closed = false
  const look = () => {
    cancelDebounce = undefined
    const now = fingerprint(files)
    if (closed || now === seen) return
    seen = now
    onchange()
  }
  const poke = () => {
    // A folder where something happens all the time must not keep a change from being seen.
    if (cancelDebounce === undefined) patience = clock.now() + POLL_MS
    else if (clock.now() > patience) return
    cancelDebounce?.()
    cancelDebounce = clock.after(debounce, look)
  }
  const watchers = new Map<string, FSWatcher>()
  const attach = () => {
    for (const folder of foldersOf(files)) {
      if (watchers.has(folder)) continue
      try {
        const watcher = watch(folder, { persistent: false }, (_event, name) => {
          // Some systems do not say which file it is, as where the folder itself is gone.
          if (typeof name !== "string" || relevant(files, name)) poke()
        })
        watcher.on("error", () => {
          watcher.close()
          watchers.delete(folder)
        })
        watchers.set(folder, watcher)
      } catch {
        // A folder that is not there yet is looked for again.
      }
    }
  }
  attach()
  let cancelPoll: () => void = () => undefined
  const poll = () => {
    cancelPoll = clock.after(POLL_MS, () => {
      attach()
      if (cancelDebounce === undefined && fingerprint(files) !== seen) poke()
      poll()
    })
  }
  poll()
  return {
    acknowledge() {
      seen = fingerprint(files)
    },
    close() {
      closed = true
      cancelDebounce?.()
      cancelPoll()
      for (const watcher of watchers.values()) watcher.close()
    },
  }
}

// ---

const POLL_MS = 2000

/** The texts themselves: same bytes, no reload. */
function fingerprint(files: readonly string[]): string {
  const part = (path: string) => {
    try {
      return readText(path) ?? "missing"
    } catch (error) {
      return messageOf(error)
    }
  }
  return files.map((path) => Bun.hash(part(path))).join()
}

/** The folders of the files and, for symbolic links, of what they point to. */
function foldersOf(files: readonly string[]): ReadonlySet<string> {
  const folders = new Set<string>()
  for (const path of files) {
    folders.add(dirname(path))
    try {
      folders.add(dirname(realpathSync(path)))
    } catch {
      // Missing, or a link to nothing.
    }
  }
  return folders
}

/** Whether an event on this name can matter: svc's own backups, locks and temporaries do not. */
function relevant(files: readonly string[], name: string): boolean {
  if (name.endsWith(".lock") || name.endsWith(".tmp") || name === "backups" || name === "logs") return false
  return files.some((path) => basename(path) === name) || name.startsWith("..") || !name.includes(".")
}
