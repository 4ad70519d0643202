/**
 * Unpacked bundles on disk: `bundles/<server>/<hash>` in the configuration directory, readable by their user alone.
 *
 *  1. A bundle is unpacked in a staging folder and moved into its place as a whole, together with the edit of mcp.json.
 *  2. A change of mcp.json removes the server's bundles that mcp.json no longer names.
 *  3. The next start removes the files that a killed process left, unless a backup still names them.
 */
import { existsSync, readdirSync, readFileSync, renameSync, rmdirSync } from "node:fs"
import { chmod, mkdir, rm, writeFile } from "node:fs/promises"
import { dirname, join, sep } from "node:path"
import { slugOf } from "../config/server-spec.ts"
import type { Clock } from "../lib/clock.ts"
import { fileProblem, messageOf, UnavailableError } from "../lib/errors.ts"
import { retryOnWindowsLock } from "../lib/windows-lock.ts"
import { listBackups, lockDocuments } from "./documents.ts"
import { makePrivateFolder } from "./files.ts"
import { type Release, tryAcquireOnce } from "./lock.ts"
import { ownName, type Paths } from "./paths.ts"

/** A file of a bundle to unpack. */
export type BundleFile = {
  /** Relative, with slashes. The caller has checked that it stays inside the folder. */
  readonly path: string
  readonly executable: boolean
  read(): Promise<Uint8Array>
}

/** An unpacked bundle that is not in its place yet. */
export type StagedBundle = {
  /** Moves it into its place, unless the same bundle is there already. Throws an UnavailableError. */
  commit(): void
  /** Removes the staging folder. */
  discard(): Promise<void>
}

/** The bundles of a configuration. */
export type BundleStore = {
  /** Returns the folder of a server's bundle. `hash` is the SHA-256 of its archive. */
  folder(server: string, hash: string): string
  /** Unpacks the files for `folder`. Throws an UnavailableError, with nothing left behind. */
  unpack(folder: string, files: readonly BundleFile[], signal: AbortSignal): Promise<StagedBundle>
  /** Removes the bundles of a server that mcp.json does not name. */
  prune(server: string): Promise<void>
}

export const createBundleStore = (paths: Paths, clock: Clock): BundleStore => ({
  folder: (server, hash) => bundleFolder(paths, server, hash),
  unpack: (folder, files, signal) => unpackBundle(paths, folder, files, signal),
  prune: (server) => pruneBundles(paths, server, clock),
})

/** Whether there are any bundles. */
export const hasBundles = (paths: Paths): boolean => existsSync(bundlesOf(paths))

/**
 * Removes the files that killed processes left. A folder that cannot be removed, such as a folder in use on Windows, stays
 * until the next sweep. The caller must hold the lock of the documents.
 */
export async function sweepBundles(paths: Paths): Promise<void> {
  if (!hasBundles(paths)) return
  const root = bundlesOf(paths)
  const texts = textsOf([paths.file, ...listBackups(paths)])
  for (const entry of readdirSync(root, { withFileTypes: true })) {
    const { name } = entry
    const folder = join(root, name)
    try {
      // A file manager may leave files of its own.
      if (!entry.isDirectory() && !STAGING_LOCK.test(name)) continue
      if (name.startsWith(STAGING)) await sweepStaging(folder.replace(/\.lock$/, ""))
      else await pruneFolder(folder, texts)
    } catch {
      // The other folders can still be removed.
    }
  }
  removeEmpty(root)
}

// ---

const HASH_LENGTH = 16
/** No slug of a server begins with it. */
const STAGING = "~"
const STAGING_LOCK = /^~.*\.lock$/

const bundlesOf = (paths: Paths): string => join(paths.directory, ownName("bundles", paths))

const bundleFolder = (paths: Paths, server: string, hash: string): string =>
  join(bundlesOf(paths), slugOf(server), hash.slice(0, HASH_LENGTH))

async function unpackBundle(
  paths: Paths,
  folder: string,
  files: readonly BundleFile[],
  signal: AbortSignal,
): Promise<StagedBundle> {
  const staging = join(bundlesOf(paths), `${STAGING}${crypto.randomUUID()}`)
  let release: Release | undefined
  const discard = async () => {
    await rm(staging, { recursive: true, force: true })
    release?.()
    release = undefined
    removeEmpty(bundlesOf(paths))
  }
  try {
    makePrivateFolder(bundlesOf(paths))
    // Tells the next sweep that this process is alive.
    release = await tryAcquireOnce(`${staging}.lock`)
    makePrivateFolder(staging)
    for (const { path, executable, read } of files) {
      if (signal.aborted) throw new Error("the caller gave up")
      const target = join(staging, ...path.split("/"))
      await mkdir(dirname(target), { recursive: true, mode: 0o700 })
      await writeFile(target, await read(), { flag: "wx", mode: 0o600 })
      // Programs that a server runs, in npm's `.bin` for example, are executable if the archive says so.
      if (executable) await chmod(target, 0o700)
    }
  } catch (cause) {
    await discard()
    // The caller may be a client: it sees the path inside the bundle only.
    const why = messageOf(cause).replaceAll(`${staging}${sep}`, "")
    throw new UnavailableError(`the bundle cannot be unpacked: ${why}`, { cause })
  }
  return {
    commit() {
      if (existsSync(folder)) return
      makePrivateFolder(dirname(folder))
      try {
        retryOnWindowsLock(() => renameSync(staging, folder))
      } catch (cause) {
        throw new UnavailableError(`cannot create ${folder}: ${fileProblem(cause)}`, { cause })
      }
    },
    discard,
  }
}

async function pruneBundles(paths: Paths, server: string, clock: Clock): Promise<void> {
  if (!hasBundles(paths)) return
  const release = await lockDocuments(paths, clock)
  try {
    await pruneFolder(join(bundlesOf(paths), slugOf(server)), textsOf([paths.file]))
    removeEmpty(bundlesOf(paths))
  } finally {
    release()
  }
}

const textsOf = (files: readonly string[]): string =>
  files.map((file) => (existsSync(file) ? readFileSync(file, "utf8") : "")).join("\n")

/** Removes a staging folder, and its lock, unless the process that unpacks there holds the lock. */
async function sweepStaging(folder: string): Promise<void> {
  const release = await tryAcquireOnce(`${folder}.lock`)
  if (release === undefined) return
  try {
    await rm(folder, { recursive: true, force: true })
  } finally {
    release()
  }
}

async function pruneFolder(folder: string, texts: string): Promise<void> {
  if (!existsSync(folder)) return
  for (const hash of readdirSync(folder))
    if (!texts.includes(hash)) await rm(join(folder, hash), { recursive: true, force: true })
  removeEmpty(folder)
}

function removeEmpty(folder: string): void {
  if (existsSync(folder) && readdirSync(folder).length === 0) rmdirSync(folder)
}
