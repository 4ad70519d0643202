/** Watches files that users edit, through their folders: an atomic replace would end a watch of the file itself. */
import { type FSWatcher, realpathSync, statSync, watch } from "node:fs"
import { basename, dirname } from "node:path"
import { type Clock, every } from "../lib/clock.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"
import { readText } from "./files.ts"

export type Watch = {
  /** Records the current texts as known, so that svc's own edits are not reported. */
  acknowledge(): void
  /** Reports a change that is already written, without the debounce, because its writer waits. */
  check(): void
  close(): void
}

/**
 * Calls `onchange` when the text of a file has changed, DEBOUNCE_MS after the last event. Events of folders are fast, but
 * some file systems have none, so the files are also compared every POLL_MS. `read` returns the text of a file; what it throws
 * counts as the text.
 */
export function watchFiles(
  files: readonly string[],
  clock: Clock,
  onchange: () => void,
  read: (file: string) => string | undefined = readText,
): Watch {
  const fingerprint = () => fingerprintOf(files, read)
  let seen = fingerprint()
  let cancelDebounce: (() => void) | undefined
  let deadline = 0
  let closed = false
  const compare = () => {
    cancelDebounce = undefined
    const now = fingerprint()
    if (closed || now === seen) return
    seen = now
    onchange()
  }
  const schedule = () => {
    // Constant events in a folder must not delay a change for ever.
    if (cancelDebounce === undefined) deadline = clock.now() + POLL_MS
    else if (clock.now() > deadline) return
    cancelDebounce?.()
    cancelDebounce = clock.after(DEBOUNCE_MS, compare)
  }
  const watchers = new Map<string, FSWatcher>()
  const attach = () => {
    for (const folder of foldersOf(files)) {
      if (watchers.has(folder)) continue
      try {
        const watcher = watch(folder, { persistent: false }, (_event, name) => {
          // Some systems do not name the file, for example when the folder itself is removed.
          if (typeof name !== "string" || isRelevant(files, name)) schedule()
        })
        watcher.on("error", () => {
          watcher.close()
          watchers.delete(folder)
        })
        watchers.set(folder, watcher)
      } catch {
        // The next poll tries a missing folder again.
      }
    }
  }
  attach()
  const cancelPoll = every(clock, POLL_MS, () => {
    attach()
    if (cancelDebounce === undefined && fingerprint() !== seen) schedule()
  })
  return {
    acknowledge() {
      seen = fingerprint()
    },
    check() {
      cancelDebounce?.()
      compare()
    },
    close() {
      closed = true
      cancelDebounce?.()
      cancelPoll()
      for (const watcher of watchers.values()) watcher.close()
    },
  }
}

/**
 * Watches files, and folders with all below them. `next` resolves DEBOUNCE_MS after the last change since it last resolved. What
 * tools write beside sources counts as no change. Throws an UnavailableError if a path does not exist.
 */
export function watchTrees(paths: readonly string[], clock: Clock): { next(): Promise<void>; close(): void } {
  let changed = Promise.withResolvers<void>()
  let cancelDebounce: (() => void) | undefined
  const note = () => {
    cancelDebounce?.()
    cancelDebounce = clock.after(DEBOUNCE_MS, () => changed.resolve())
  }
  const isFolder = (path: string) => {
    const facts = statSync(path, { throwIfNoEntry: false })
    if (facts === undefined) throw new UnavailableError(`${path} does not exist`)
    return facts.isDirectory()
  }
  const folders = paths.filter(isFolder)
  const watchers = folders.map((folder) =>
    watch(folder, { recursive: true }, (_event, name) => {
      if (typeof name !== "string" || !isGenerated(name)) note()
    }),
  )
  const files = watchFiles(
    paths.filter((path) => !folders.includes(path)),
    clock,
    () => changed.resolve(),
  )
  return {
    async next() {
      await changed.promise
      changed = Promise.withResolvers()
    },
    close() {
      cancelDebounce?.()
      files.close()
      for (const watcher of watchers) watcher.close()
    },
  }
}

/** Whether a path below a watched folder is one that tools write: dependencies, caches, logs, and names with a dot. */
export const isGenerated = (path: string): boolean => GENERATED.test(path)

// ---

/** Names of files and folders that tools write. */
const GENERATED = /(?:^|[\\/])(?:node_modules|__pycache__|\.[^\\/]*|[^\\/]*\.(?:pyc|tsbuildinfo|log))(?:[\\/]|$)/

/** Editors write several times for one change. */
const DEBOUNCE_MS = 300
const POLL_MS = 2000

/** Returns a hash of the texts: the same bytes cause no reload. */
function fingerprintOf(files: readonly string[], read: (file: string) => string | undefined): string {
  const part = (path: string) => {
    try {
      return read(path) ?? "missing"
    } catch (error) {
      return messageOf(error)
    }
  }
  return files.map((path) => Bun.hash(part(path))).join()
}

/** Returns the folders of the files and of the targets of symbolic links. */
function foldersOf(files: readonly string[]): ReadonlySet<string> {
  const folders = new Set<string>()
  for (const path of files) {
    folders.add(dirname(path))
    try {
      folders.add(dirname(realpathSync(path)))
    } catch {
      // A missing file, or a dangling link.
    }
  }
  return folders
}

/** Whether an event on a name can matter: events on svc's own backups, locks and temporary files do not. */
function isRelevant(files: readonly string[], name: string): boolean {
  if (name.endsWith(".lock") || name.endsWith(".tmp") || name === "backups" || /^logs(?:-|$)/.test(name)) return false
  return files.some((path) => basename(path) === name) || name.startsWith("..") || !name.includes(".")
}
