/**
 * Replaces the program with another release.
 *
 *  1. The new file is written next to the program, is run once for its version, and then replaces the program atomically, so
 *     that a complete program is always in place. The replaced program is kept as `svc.previous`.
 *  2. A program that a package manager has installed is replaced only by the package manager.
 */
import { randomBytes } from "node:crypto"
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  copyFileSync,
  existsSync,
  linkSync,
  renameSync,
  statSync,
} from "node:fs"
import { basename, dirname, join } from "node:path"
import { systemClock } from "../../lib/clock.ts"
import { messageOf, RequestError, UnavailableError } from "../../lib/errors.ts"
import { findTemporaries, removeAll } from "../../store/files.ts"
import { downloadRelease, type FoundRelease } from "./release-download.ts"

/** Returns the command of the package manager that has installed a program; undefined for none. */
export function packageManagerOf(program: string, exists: (path: string) => boolean): string | undefined {
  const path = program.replaceAll("\\", "/")
  if (path.includes("/node_modules/")) return "npm"
  if (/\/Cellar\/|\/homebrew\//.test(path)) return "brew"
  if (path.startsWith("/nix/store/")) return "nix"
  if (/\/scoop\/apps\//i.test(path)) return "scoop"
  if (/\/WinGet\/Packages\//i.test(path)) return "winget"
  if (!/^\/(?:usr\/)?s?bin\//.test(path)) return undefined
  return exists("/var/lib/dpkg") ? "apt" : "dnf"
}

/**
 * Downloads a release and replaces the program with it. `isWanted` may refuse its version. Returns the version. Rejects with
 * an UnavailableError and changes nothing if that fails.
 */
export async function installRelease(
  program: string,
  release: FoundRelease,
  isWanted: (version: string) => boolean,
): Promise<string> {
  checkWritable(program)
  const folder = dirname(program)
  const ofProgram = (name: string) => name === basename(program)
  // Removes files of killed upgrades; a newer file may belong to an upgrade that is running.
  removeAll(findTemporaries(folder, ofProgram).filter((path) => systemClock.now() - statSync(path).mtimeMs > STALE_MS))
  const fresh = temporaryOf(program)
  try {
    await downloadRelease(release, fresh)
    const { mode, uid, gid } = statSync(program)
    chmodSync(fresh, mode | 0o500)
    if (process.getuid?.() === 0) chownSync(fresh, uid, gid)
    const version = await versionOf(fresh)
    if (release.version !== undefined && version !== release.version)
      throw new UnavailableError(
        `the program at ${release.url} is ${version}, not ${release.version}; nothing was changed`,
      )
    if (!isWanted(version))
      throw new UnavailableError(`the release at ${release.url} is ${version}; nothing was changed`)
    replaceProgram(program, fresh)
    return version
  } catch (error) {
    removeAll([fresh])
    if (error instanceof UnavailableError || error instanceof RequestError) throw error
    throw new UnavailableError(`cannot upgrade ${program}: ${messageOf(error)}; nothing was changed`, { cause: error })
  }
}

/** Swaps the program and the previous one. Returns the version that is now in place. */
export async function rollBack(program: string): Promise<string> {
  const previous = previousOf(program)
  if (!existsSync(previous)) throw new UnavailableError(`there is no previous program: ${previous} does not exist`)
  checkWritable(program)
  const version = await versionOf(previous)
  const fresh = temporaryOf(program)
  renameSync(previous, fresh)
  replaceProgram(program, fresh)
  return version
}

/** Returns the path of the previous program. */
export const previousOf = (program: string): string => program.replace(/(\.exe)?$/, ".previous$1")

// ---

const STALE_MS = 3_600_000
const temporaryOf = (program: string): string =>
  join(dirname(program), `.${basename(program)}.${randomBytes(6).toString("hex")}.tmp`)

/** Runs a program for its version. */
async function versionOf(program: string): Promise<string> {
  const child = Bun.spawn([program, "--version"], { stdin: "ignore", stdout: "pipe", stderr: "ignore" })
  const version = /^(\d\S*) \(/.exec(await new Response(child.stdout).text())?.[1]
  if ((await child.exited) !== 0 || version === undefined)
    throw new UnavailableError(`${basename(program)} does not run on this machine; nothing was changed`)
  return version
}

/** Throws an UnavailableError that says what to do if the program's folder cannot be written. */
export function checkWritable(program: string): void {
  const folder = dirname(program)
  try {
    accessSync(folder, constants.W_OK)
  } catch (cause) {
    const sudo = process.platform === "win32" ? "as an administrator" : "with sudo"
    throw new UnavailableError(
      `cannot write to ${folder}: run this ${sudo}, or install svc in a folder that you can write to`,
      {
        cause,
      },
    )
  }
}

/** Replaces the program with a new file, and keeps the program as the previous one. */
function replaceProgram(program: string, fresh: string): void {
  const previous = previousOf(program)
  if (process.platform === "win32") {
    // A running program can be moved, but not replaced.
    removeAll([previous])
    renameSync(program, previous)
    try {
      renameSync(fresh, program)
    } catch (error) {
      renameSync(previous, program)
      throw error
    }
    return
  }
  const kept = temporaryOf(program)
  try {
    linkSync(program, kept)
  } catch {
    // The file system has no links.
    copyFileSync(program, kept)
  }
  renameSync(kept, previous)
  renameSync(fresh, program)
}
