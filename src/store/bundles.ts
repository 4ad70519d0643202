/**
 * The files of bundles: `bundles/<server>/<hash>` in the configuration directory, for their user alone.
 *
 *  1. A bundle is unpacked beside, and appears whole under its name, at once with the text that refers to it.
 *  2. mcp.json decides what stays: a bundle of a server that it does not name any more goes with the change.
 *  3. What a process left that was killed goes at the next start, unless a backup names it still.
 */

import { randomUUID } from "node:crypto"
import { existsSync, readdirSync, readFileSync, renameSync, rmdirSync } from "node:fs"
import { chmod, mkdir, rm, writeFile } from "node:fs/promises"
import { dirname, join, sep } from "node:path"
import { slugOf } from "../config/plan.ts"
import type { Clock } from "../lib/clock.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"
import { retryOnWindowsLock } from "../lib/windows-lock.ts"
import { listBackups, lockDocuments } from "./documents.ts"
import { makePrivateFolder } from "./files.ts"
import { type Release, tryAcquireOnce } from "./lock.ts"
import { ownName, type Paths } from "./paths.ts"

/** A file of a bundle. */
export type BundleFile = {
  /** Relative, with slashes; whoever gives it has seen that it stays in the folder. */
  readonly path: string
  readonly executable: boolean
  read(): Promise<Uint8Array>
}

/** A bundle that is unpacked and not in its place yet. */
export type StagedBundle = {
  /** Puts it there, where it is not there already. */
  commit(): void
  /** Takes away what has not been placed. */
  discard(): Promise<void>
}

/** The bundles of a configuration. */
export type BundleStore = {
  folder(server: string, hash: string): string
  unpack(folder: string, files: readonly BundleFile[], signal: AbortSignal): Promise<StagedBundle>
  prune(server: string): Promise<void>
}

export const createBundleStore = (paths: Paths, clock: Clock): BundleStore => ({
  folder: (server, hash) => bundleFolder(paths, server, hash),
  unpack: (folder, files, signal) => unpackBundle(paths, folder, files, signal),
  prune: (server) => pruneBundles(paths, server, clock),
})

/** Where the bundle of a server is or is to be. `hash` is the SHA-256 of its archive. */
export const bundleFolder = (paths: Paths, server: string, hash: string): string =>
  join(bundlesOf(paths), slugOf(server), hash.slice(0, HASH_LENGTH))

/** Unpacks a bundle that is to come to `folder`. Throws an UnavailableError, with nothing left, where that fails. */
export async function unpackBundle(
  paths: Paths,
  folder: string,
  files: readonly BundleFile[],
  signal: AbortSignal,
): Promise<StagedBundle> {
  const staging = join(bundlesOf(paths), `${STAGING}${randomUUID()}`)
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
      // What a server runs of its own, npm's `.bin` for example, is executable where its archive says so.
      if (executable) await chmod(target, 0o700)
    }
  } catch (cause) {
    await discard()
    // The caller may be a client: a path within the bundle says enough.
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
        throw new UnavailableError(`cannot make ${folder}: ${messageOf(cause)}`, { cause })
      }
    },
    discard,
  }
}

/** Whether there are any. */
export const hasBundles = (paths: Paths): boolean => existsSync(bundlesOf(paths))

/** Takes away the bundles of a server that mcp.json does not name. */
export async function pruneBundles(paths: Paths, server: string, clock: Clock): Promise<void> {
  if (!hasBundles(paths)) return
  const release = await lockDocuments(paths, clock)
  try {
    await pruneFolder(join(bundlesOf(paths), slugOf(server)), textsOf([paths.file]))
    removeEmpty(bundlesOf(paths))
  } finally {
    release()
  }
}

/**
 * Takes away what processes left that were killed; what cannot be taken away, as what still runs on Windows, stays until
 * another time. Whoever calls it holds the lock.
 */
export async function sweepBundles(paths: Paths): Promise<void> {
  if (!hasBundles(paths)) return
  const all = bundlesOf(paths)
  const texts = textsOf([paths.file, ...listBackups(paths)])
  for (const entry of readdirSync(all, { withFileTypes: true })) {
    const { name } = entry
    const folder = join(all, name)
    try {
      // A file manager may leave files of its own.
      if (!entry.isDirectory() && !STAGING_LOCK.test(name)) continue
      if (name.startsWith(STAGING)) await sweepStaging(folder.replace(/\.lock$/, ""))
      else await pruneFolder(folder, texts)
    } catch {
      // The rest goes all the same.
    }
  }
  removeEmpty(all)
}

// ---

const HASH_LENGTH = 16
/** No server's folder begins so. */
const STAGING = "~"
const STAGING_LOCK = /^~.*\.lock$/

const bundlesOf = (paths: Paths): string => join(paths.directory, ownName("bundles", paths))

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
