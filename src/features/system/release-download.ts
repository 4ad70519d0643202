/**
 * Finds and downloads a release. A file is used only if SHA256SUMS contains its SHA-256, and SHA256SUMS is signed with the key
 * that was compiled in. The signature names the version, so that an old release cannot be passed off as a new one. A build
 * without a key, such as one from source, only checks the SHA-256.
 */
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs"
import { isLoopback } from "../../lib/address.ts"
import { usageError } from "../../lib/command-line.ts"
import { messageOf, UnavailableError } from "../../lib/errors.ts"
import { verifyMinisign } from "../../lib/minisign.ts"
import { networkReason } from "../../lib/network-error.ts"

/** Where releases are, and which file of a release this machine needs. */
export type ReleaseSource = {
  /** The path of the program, without links. */
  readonly program: string
  /** The name of this platform's file in a release. */
  readonly file: string
  /** The URL of the folder with the latest release. */
  readonly releases: string
  /** The public key of minisign; undefined if none was compiled in. */
  readonly key: string | undefined
}

export type FoundRelease = {
  /** Undefined without a signature: then only the downloaded program can tell. */
  readonly version: string | undefined
  readonly url: string
  readonly sha256: string
  /** Whether the release is the program that is installed. */
  readonly isInstalled: boolean
}

/** Returns the name of a platform's file in a release. */
export function releaseFile(platform: string, arch: string, isMusl: boolean): string {
  if (platform === "win32") return `svc-windows-${arch}.exe`
  return `svc-${platform}-${arch}${platform === "linux" && isMusl ? "-musl" : ""}`
}

/** Finds the latest release, or the release `wanted`, and checks its signature. Rejects with an UnavailableError. */
export async function findRelease(
  { program, file, releases, key }: ReleaseSource,
  wanted?: string,
): Promise<FoundRelease> {
  const folder = wanted === undefined ? releases : folderOfVersion(releases, wanted)
  const sums = await download(`${folder}/SHA256SUMS`, MAX_TEXT).catch(
    orIfMissing(`there is no release at ${folder}: it has no SHA256SUMS`),
  )
  const signature =
    key === undefined
      ? undefined
      : await download(`${folder}/SHA256SUMS.minisig`, MAX_TEXT).catch(orIfMissing(unsignedText(folder)))
  const version = key === undefined || signature === undefined ? undefined : signedVersion(sums, signature, key)
  if (version !== undefined && wanted !== undefined && version !== wanted)
    throw new UnavailableError(
      `the release at ${folder} is signed as ${version}, not as ${wanted}; nothing was changed`,
    )
  const line = sums
    .toString("utf8")
    .split("\n")
    .find((one) => one.slice(HASH_LENGTH) === `  ${file}`)
  const sha256 = line?.slice(0, HASH_LENGTH) ?? ""
  if (!/^[0-9a-f]{64}$/.test(sha256))
    throw new UnavailableError(`the release at ${folder} has no file ${file} for this machine`)
  return { version, url: `${folder}/${file}`, sha256, isInstalled: (await sha256Of(program)) === sha256 }
}

/** Downloads the program of a release to a new file. Rejects with an UnavailableError, unless the SHA-256 is the signed one. */
export async function downloadRelease({ url, sha256 }: FoundRelease, path: string): Promise<void> {
  const handle = openSync(path, "wx", 0o600)
  try {
    const hasher = new Bun.CryptoHasher("sha256")
    await downloadParts(url, MAX_PROGRAM, PROGRAM_MS, (part) => {
      hasher.update(part)
      for (let at = 0; at < part.length; ) at += writeSync(handle, part, at)
    })
    fsyncSync(handle)
    if (hasher.digest("hex") !== sha256)
      throw new UnavailableError(`the SHA-256 of ${url} differs from SHA256SUMS; nothing was changed`)
  } finally {
    closeSync(handle)
  }
}

// ---

const MAX_TEXT = 1024 * 1024
const MAX_PROGRAM = 1024 * 1024 * 1024
const TEXT_MS = 30_000
const PROGRAM_MS = 15 * 60_000
const HASH_LENGTH = 64

class MissingFileError extends UnavailableError {}

/** Returns a handler of a failed download, which throws an error with `text` if the file does not exist. */
const orIfMissing = (text: string) => (cause: unknown) => {
  throw cause instanceof MissingFileError ? new UnavailableError(text, { cause }) : cause
}

const unsignedText = (folder: string): string =>
  `the release at ${folder} is unsigned: it has no SHA256SUMS.minisig, so svc cannot verify its origin; nothing was changed. Choose a signed release with --version or --releases, or, if you trust this one, replace the program by hand`

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

/** Requests a URL. Rejects with an UnavailableError unless the answer is a file over https, or from this machine. */
async function request(url: string, ms: number): Promise<Response> {
  if (!isSafe(url)) throw usageError(`releases must be at an https URL, not at ${url}`)
  let response: Response
  try {
    response = await fetch(url, { signal: AbortSignal.timeout(ms) })
  } catch (cause) {
    throw new UnavailableError(networkReason(url, cause), { cause })
  }
  if (response.status === 404) throw new MissingFileError(`cannot download ${url}: the server answered 404`)
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

/** Downloads a file, and passes each part to `take`. */
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

async function sha256Of(path: string): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256")
  for await (const part of Bun.file(path).stream()) hasher.update(part)
  return hasher.digest("hex")
}
