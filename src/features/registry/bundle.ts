/**
 * Downloads bundles (MCPB) of registry entries, compares them with the hash of the entry, and reads them in memory. Keeps the
 * last bundle for five minutes, because an installation usually follows its preview.
 */
import type { Clock } from "../../lib/clock.ts"
import { messageOf, RequestError } from "../../lib/errors.ts"
import { type BundleManifest, isProgram, readManifest } from "./bundle-manifest.ts"
import { RegistryError } from "./client.ts"
import type { Package, RegistryEntry } from "./entry.ts"
import { isSafeAddress } from "./install-plan.ts"
import { readZip, type ZipEntry } from "./zip.ts"

/** A bundle whose hash matches the registry's entry. */
export type Bundle = {
  readonly from: Package
  /** SHA-256 of the archive, in lower case. */
  readonly hash: string
  readonly manifest: BundleManifest
  readonly files: readonly ZipEntry[]
}

/** The cancellation and progress of a download. */
type DownloadOptions = {
  readonly signal: AbortSignal
  progress(message: string): void
}

export type Bundles = {
  /**
   * Downloads and reads a bundle. Rejects with a RegistryError if the download fails or has another hash, and with a
   * RequestError if svc cannot use the bundle.
   */
  open(entry: RegistryEntry, from: Package, options: DownloadOptions): Promise<Bundle>
}

export type BundleDeps = {
  readonly clock: Clock
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
}

/** Creates a downloader, which keeps one bundle. */
export function createBundles(deps: BundleDeps): Bundles {
  let last: Bundle | undefined
  let cancel: () => void = () => undefined
  return {
    async open(entry, from, options) {
      const hash = (from.fileSha256 ?? "").toLowerCase()
      if (last?.hash === hash) return { ...last, from }
      const bytes = await download(entry, from.identifier, options, deps)
      const found = Buffer.from(await crypto.subtle.digest("SHA-256", bytes)).toString("hex")
      if (found !== hash)
        throw new RegistryError(
          entry.registry,
          `the bundle at ${from.identifier} does not match the entry of ${entry.name}: its sha256 begins with ${found.slice(0, HASH_DIGITS)}, not with ${hash.slice(0, HASH_DIGITS)}`,
        )
      try {
        const bundle = { from, hash, ...(await readBundle(bytes)) }
        cancel()
        last = bundle
        cancel = deps.clock.after(KEPT_MS, () => {
          last = undefined
        })
        return bundle
      } catch (error) {
        throw new RequestError(
          "invalid_params",
          `${entry.name} cannot be installed: the bundle at ${from.identifier} is unusable: ${messageOf(error)}`,
        )
      }
    },
  }
}

// ---

/** Digits of a hash in messages. */
const HASH_DIGITS = 12
const KEPT_MS = 5 * 60_000
const SILENT_MS = 30_000
const LONGEST_MS = 10 * 60_000
const PROGRESS_MS = 2000
const MAX_BYTES = 256 * 1024 * 1024
const MAX_MANIFEST = 1024 * 1024
const MAX_HOPS = 5

async function readBundle(bytes: Uint8Array): Promise<Pick<Bundle, "manifest" | "files">> {
  const files = readZip(bytes)
  const packed = files.find(({ path }) => path === "manifest.json")
  if (packed === undefined) throw new Error("it has no manifest.json")
  const text = await packed.read()
  if (text.length > MAX_MANIFEST) throw new Error("its manifest.json is too large")
  const manifest = readManifest(new TextDecoder().decode(text))
  return {
    manifest,
    files: files.map((file) => ({ ...file, executable: file.executable || isProgram(manifest, file.path) })),
  }
}

async function download(
  { registry }: RegistryEntry,
  address: string,
  { signal, progress }: DownloadOptions,
  deps: BundleDeps,
): Promise<Uint8Array<ArrayBuffer>> {
  const { clock } = deps
  const stopped = new AbortController()
  const stop = (why: string) => () => stopped.abort(new Error(why))
  const cancelAll = clock.after(LONGEST_MS, stop(`it took longer than ${LONGEST_MS / 60_000} min`))
  let cancelSilent: () => void = () => undefined
  const restartSilence = () => {
    cancelSilent()
    cancelSilent = clock.after(SILENT_MS, stop(`no data arrived for ${SILENT_MS / 1000} s`))
  }
  const giveUp = stop("the caller gave up")
  signal.addEventListener("abort", giveUp)
  if (signal.aborted) giveUp()
  try {
    restartSilence()
    progress(`downloading ${address}`)
    const response = await follow(address, stopped.signal, deps)
    const total = Number(response.headers.get("content-length") ?? 0)
    const parts: Uint8Array[] = []
    let size = 0
    let reported = clock.now()
    for await (const part of response.body ?? []) {
      restartSilence()
      size += part.length
      if (size > MAX_BYTES) throw new Error(`it is larger than ${MAX_BYTES / MEGABYTE} MiB`)
      parts.push(part)
      if (clock.now() - reported < PROGRESS_MS) continue
      reported = clock.now()
      progress(`downloading ${address}: ${inMegabytes(size)}${total > 0 ? ` of ${inMegabytes(total)}` : ""} MiB`)
    }
    return Buffer.concat(parts)
  } catch (error) {
    const why = stopped.signal.aborted ? stopped.signal.reason : error
    throw new RegistryError(registry, `cannot download the bundle at ${address}: ${messageOf(why)}`)
  } finally {
    cancelAll()
    cancelSilent()
    signal.removeEventListener("abort", giveUp)
    // Ends the connection if data is still arriving.
    stopped.abort()
  }
}

const MEGABYTE = 1024 * 1024
const inMegabytes = (bytes: number): string => (bytes / MEGABYTE).toFixed(1)

/** Follows redirects, to safe addresses only. Sends no header but the defaults. */
async function follow(address: string, signal: AbortSignal, deps: BundleDeps): Promise<Response> {
  let url = address
  for (let hop = 0; hop <= MAX_HOPS; hop++) {
    const response = await deps.fetch(url, { signal, redirect: "manual" })
    const { status, headers, ok } = response
    const location = headers.get("location")
    if (status < 300 || status >= 400 || location === null) {
      if (ok) return response
      throw new Error(`the server answered HTTP ${status}`)
    }
    await response.body?.cancel()
    const next = URL.parse(location, url)?.href ?? location
    // Never from https to http.
    if (!isSafeAddress(next) || (url.startsWith("https:") && !next.startsWith("https:")))
      throw new Error(`it redirects to ${next.slice(0, 200)}, which is not https`)
    url = next
  }
  throw new Error(`it redirects more than ${MAX_HOPS} times`)
}
