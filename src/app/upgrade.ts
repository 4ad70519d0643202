/**
 * Replaces the program with another release.
 *
 *  1. Nothing of a release is used before its SHA-256 stands in SHA256SUMS, and that file is signed by the key that was
 *     compiled in. The signature names the version, so that an old release cannot be passed off as a new one. A build without
 *     a key, as from source, checks the SHA-256 alone.
 *  2. The new file is written beside the program, is run once for its version, and then takes the program's place at once:
 *     at every moment there is a whole program. The one before is kept as `svc.previous`.
 *  3. What a package manager has installed, only the package manager replaces.
 */
import { randomBytes } from "node:crypto"
import {
  accessSync,
  chmodSync,
  chownSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  statSync,
  writeSync,
} from "node:fs"
import { basename, dirname, join } from "node:path"
import { isLoopback } from "../lib/address.ts"
import { systemClock } from "../lib/clock.ts"
import { usageError } from "../lib/command-line.ts"
import { messageOf, RequestError, UnavailableError } from "../lib/errors.ts"
import { verifyMinisign } from "../lib/minisign.ts"
import { networkReason } from "../lib/network-error.ts"
import { findTemporaries, removeAll } from "../store/files.ts"

export type Upgrade = {
  /** The path of the program, without links. */
  readonly program: string
  /** The version of the program. */
  readonly version: string
  /** The name of this platform's file in a release. */
  readonly file: string
  /** The URL of the folder with the latest release. */
  readonly releases: string
  /** The public key of minisign; undefined if none was compiled in. */
  readonly key: string | undefined
}

export type FoundRelease = {
  /** Undefined without a signature: then only the downloaded program knows. */
  readonly version: string | undefined
  readonly url: string
  readonly sha256: string
  /** Whether it is the program that runs. */
  readonly isInstalled: boolean
}

/** Returns the name of a platform's file in a release. */
export function releaseFile(platform: string, arch: string, isMusl: boolean): string {
  if (platform === "win32") return `svc-windows-${arch}.exe`
  return `svc-${platform}-${arch}${platform === "linux" && isMusl ? "-musl" : ""}`
}

/** Returns the command of the package manager that has installed a program; undefined if none has. */
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

/** Finds the latest release, or that of a version, and checks its signature. Rejects with an UnavailableError. */
export async function findRelease({ program, file, releases, key }: Upgrade, wanted?: string): Promise<FoundRelease> {
  const folder = wanted === undefined ? releases : folderOfVersion(releases, wanted)
  const sums = await download(`${folder}/SHA256SUMS`, MAX_TEXT)
  const version =
    key === undefined ? undefined : signedVersion(sums, await download(`${folder}/SHA256SUMS.minisig`, MAX_TEXT), key)
  if (version !== undefined && wanted !== undefined && version !== wanted)
    throw new UnavailableError(
      `the release at ${folder} is signed as ${version}, not as ${wanted}; nothing was changed`,
    )
  const line = sums
    .toString("utf8")
    .split("\n")
    .find((one) => one.slice(HASH_LENGTH) === `  ${file}`)
  const sha256 = line?.slice(0, HASH_LENGTH) ?? ""
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw new UnavailableError(`the release at ${folder} has no ${file}`)
  return { version, url: `${folder}/${file}`, sha256, isInstalled: (await sha256Of(program)) === sha256 }
}

/**
 * Downloads a release and puts it in the place of the program. `isWanted` may refuse its version. Returns the version. Rejects
 * with an UnavailableError; then nothing is changed.
 */
export async function installRelease(
  { program }: Upgrade,
  release: FoundRelease,
  isWanted: (version: string) => boolean,
): Promise<string> {
  checkWritable(program)
  const folder = dirname(program)
  const ofProgram = (name: string) => name === basename(program)
  // A killed upgrade leaves its file; another that runs now has just made its own.
  removeAll(findTemporaries(folder, ofProgram).filter((path) => systemClock.now() - statSync(path).mtimeMs > STALE_MS))
  const fresh = temporaryOf(program)
  try {
    const sum = await downloadTo(release.url, fresh)
    if (sum !== release.sha256)
      throw new UnavailableError(`the SHA-256 of ${release.url} differs from SHA256SUMS; nothing was changed`)
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

/** Exchanges the program and the one before it. Returns the version that runs from now on. */
export async function rollBack(program: string): Promise<string> {
  const previous = previousOf(program)
  if (!existsSync(previous)) throw new UnavailableError(`there is no earlier program: ${previous} does not exist`)
  checkWritable(program)
  const version = await versionOf(previous)
  const fresh = temporaryOf(program)
  renameSync(previous, fresh)
  replaceProgram(program, fresh)
  return version
}

/** Returns where the program before this one is kept. */
export const previousOf = (program: string): string => program.replace(/(\.exe)?$/, ".previous$1")

// ---

const MAX_TEXT = 1024 * 1024
const MAX_PROGRAM = 1024 * 1024 * 1024
const TEXT_MS = 30_000
const PROGRAM_MS = 15 * 60_000
const STALE_MS = 3_600_000
const HASH_LENGTH = 64

const temporaryOf = (program: string): string =>
  join(dirname(program), `.${basename(program)}.${randomBytes(6).toString("hex")}.tmp`)

/** Returns the folder of a version. Throws unless the releases are laid out as GitHub's. */
function folderOfVersion(releases: string, version: string): string {
  const latest = /\/latest\/download$/
  if (!/^\d+\.\d+\.\d+[\w.+-]*$/.test(version))
    throw usageError(`--version must be a version such as 1.2.3, not ${version}`)
  if (!latest.test(releases))
    throw usageError(
      `--version needs releases at …/releases/latest/download, not at ${releases}; give the folder of the version with --releases instead`,
    )
  return releases.replace(latest, `/download/v${version}`)
}

/** Returns the version that a signature names. */
function signedVersion(sums: Uint8Array, signature: Buffer, key: string): string {
  let comment: string
  try {
    comment = verifyMinisign(sums, signature.toString("utf8"), key)
  } catch (cause) {
    throw new UnavailableError(`SHA256SUMS is not signed by the key of svc: ${messageOf(cause)}; nothing was changed`, {
      cause,
    })
  }
  const version = /^svc (\d\S*)$/.exec(comment)?.[1]
  if (version === undefined)
    throw new UnavailableError("the signature of SHA256SUMS does not name a version of svc; nothing was changed")
  return version
}

/** Requests a URL. Rejects with an UnavailableError unless the answer is a file that came over https, or from this machine. */
async function request(url: string, ms: number): Promise<Response> {
  if (!isSafe(url)) throw usageError(`releases must be at an https URL, not at ${url}`)
  let response: Response
  try {
    response = await fetch(url, { signal: AbortSignal.timeout(ms) })
  } catch (cause) {
    throw new UnavailableError(networkReason(url, cause), { cause })
  }
  if (!response.ok) throw new UnavailableError(`cannot download ${url}: the server answered ${response.status}`)
  if (!isSafe(response.url))
    throw new UnavailableError(`${url} leads to ${new URL(response.url).origin}, which is not https`)
  return response
}

const isSafe = (url: string): boolean => {
  if (!URL.canParse(url)) return false
  const { protocol, hostname } = new URL(url)
  return protocol === "https:" || (protocol === "http:" && isLoopback(hostname))
}

/** Downloads a file in parts, each of which `take` gets. */
async function downloadParts(url: string, limit: number, ms: number, take: (part: Uint8Array) => void): Promise<void> {
  const { body } = await request(url, ms)
  let size = 0
  try {
    for await (const part of body ?? []) {
      size += part.length
      if (size > limit) throw new UnavailableError(`${url} is larger than ${limit} bytes`)
      take(part)
    }
  } catch (cause) {
    if (cause instanceof UnavailableError) throw cause
    throw new UnavailableError(`the download of ${url} broke off: ${messageOf(cause)}; nothing was changed`, { cause })
  }
}

async function download(url: string, limit: number): Promise<Buffer> {
  const parts: Uint8Array[] = []
  await downloadParts(url, limit, TEXT_MS, (part) => parts.push(part))
  return Buffer.concat(parts)
}

/** Downloads a program to a new file, and returns its SHA-256. */
async function downloadTo(url: string, path: string): Promise<string> {
  const handle = openSync(path, "wx", 0o600)
  try {
    const hasher = new Bun.CryptoHasher("sha256")
    await downloadParts(url, MAX_PROGRAM, PROGRAM_MS, (part) => {
      hasher.update(part)
      for (let at = 0; at < part.length; ) at += writeSync(handle, part, at)
    })
    fsyncSync(handle)
    return hasher.digest("hex")
  } finally {
    closeSync(handle)
  }
}

async function sha256Of(path: string): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256")
  for await (const part of Bun.file(path).stream()) hasher.update(part)
  return hasher.digest("hex")
}

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
    throw new UnavailableError(`cannot write to ${folder}: run this ${sudo}, or install svc into a folder of yours`, {
      cause,
    })
  }
}

/** Puts a new file in the place of the program, and keeps the program as the previous one. */
function replaceProgram(program: string, fresh: string): void {
  const previous = previousOf(program)
  if (process.platform === "win32") {
    // A program that runs can be moved, but not replaced.
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
    // A file system without links.
    copyFileSync(program, kept)
  }
  renameSync(kept, previous)
  renameSync(fresh, program)
}
