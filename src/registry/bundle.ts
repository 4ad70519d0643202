/**
 * Bundles (MCPB) as registries name them: downloaded, compared with the hash of the registry's entry, and read. Nothing is
 * on disk yet. The last one is remembered for a while, for what was asked for first is mostly installed next.
 */
import type { Clock } from "../lib/clock.ts"
import { messageOf, RequestError } from "../lib/errors.ts"
import { type BundleManifest, isProgram, readManifest } from "./bundle-manifest.ts"
import { RegistryError } from "./client.ts"
import type { Package, RegistryEntry } from "./entry.ts"
import { isSafeAddress } from "./install-plan.ts"
import { readZip, type ZipEntry } from "./zip.ts"

/** A bundle that is what its registry says it is. */
export type Bundle = {
  readonly from: Package
  /** SHA-256 of the archive, in lower case. */
  readonly hash: string
  readonly manifest: BundleManifest
  readonly files: readonly ZipEntry[]
}

/** Whoever waits for a bundle. */
export type DownloadOptions = {
  readonly signal: AbortSignal
  progress(message: string): void
}

export type Bundles = {
  /** Throws a RegistryError where it cannot be had or is another one, a RequestError where svc cannot use it. */
  open(entry: RegistryEntry, from: Package, waiting: DownloadOptions): Promise<Bundle>
}

export type BundleDeps = {
  readonly clock: Clock
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
}

export function createBundles(deps: BundleDeps): Bundles {
  let last: Bundle | undefined
  let cancel: () => void = () => undefined
  return {
    async open(entry, from, waiting) {
      const hash = (from.fileSha256 ?? "").toLowerCase()
      if (last?.hash === hash) return { ...last, from }
      const bytes = await download(entry, from.identifier, waiting, deps)
      const found = Buffer.from(await crypto.subtle.digest("SHA-256", bytes)).toString("hex")
      if (found !== hash)
        throw new RegistryError(
          entry.registry,
          `the bundle at ${from.identifier} is not the one that ${entry.name} names: its sha256 begins with ${found.slice(0, SHOWN)}, and not with ${hash.slice(0, SHOWN)}`,
        )
      try {
        const bundle = { from, hash, ...(await readBundle(bytes)) }
        cancel()
        last = bundle
        cancel = deps.clock.after(REMEMBERED_MS, () => {
          last = undefined
        })
        return bundle
      } catch (error) {
        throw new RequestError(
          "invalid_params",
          `${entry.name} cannot be installed: the bundle at ${from.identifier} cannot be used: ${messageOf(error)}`,
        )
      }
    },
  }
}

// ---

const SHOWN = 12
const REMEMBERED_MS = 5 * 60_000
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
  const late = new AbortController()
  const stop = (why: string) => () => late.abort(new Error(why))
  const cancelAll = clock.after(LONGEST_MS, stop(`it took longer than ${LONGEST_MS / 60_000} min`))
  let cancelSilent: () => void = () => undefined
  const hear = () => {
    cancelSilent()
    cancelSilent = clock.after(SILENT_MS, stop(`nothing came for ${SILENT_MS / 1000} s`))
  }
  const give = stop("the caller gave up")
  signal.addEventListener("abort", give)
  if (signal.aborted) give()
  try {
    hear()
    progress(`downloading ${address}`)
    const response = await follow(address, late.signal, deps)
    const whole = Number(response.headers.get("content-length") ?? 0)
    const parts: Uint8Array[] = []
    let size = 0
    let told = clock.now()
    for await (const part of response.body ?? []) {
      hear()
      size += part.length
      if (size > MAX_BYTES) throw new Error(`it is larger than ${MAX_BYTES / MEGABYTE} MiB`)
      parts.push(part)
      if (clock.now() - told < PROGRESS_MS) continue
      told = clock.now()
      progress(`downloading ${address}: ${inMegabytes(size)}${whole > 0 ? ` of ${inMegabytes(whole)}` : ""} MiB`)
    }
    return Buffer.concat(parts)
  } catch (error) {
    const why = late.signal.aborted ? late.signal.reason : error
    throw new RegistryError(registry, `the bundle at ${address} cannot be downloaded: ${messageOf(why)}`)
  } finally {
    cancelAll()
    cancelSilent()
    signal.removeEventListener("abort", give)
    // What is still on its way is not wanted any more.
    late.abort()
  }
}

const MEGABYTE = 1024 * 1024
const inMegabytes = (bytes: number): string => (bytes / MEGABYTE).toFixed(1)

/** Follows redirects to where it may be fetched from too. Nothing but the address is told to anybody. */
async function follow(address: string, signal: AbortSignal, deps: BundleDeps): Promise<Response> {
  let url = address
  for (let hop = 0; hop <= MAX_HOPS; hop++) {
    const response = await deps.fetch(url, { signal, redirect: "manual" })
    const { status, headers, ok } = response
    const location = headers.get("location")
    if (status < 300 || status >= 400 || location === null) {
      if (ok) return response
      throw new Error(`it was answered with HTTP ${status}`)
    }
    await response.body?.cancel()
    const next = URL.parse(location, url)?.href ?? location
    // What came over https does not go on without it.
    if (!isSafeAddress(next) || (url.startsWith("https:") && !next.startsWith("https:")))
      throw new Error(`it sends svc on to ${next.slice(0, 200)}, which is not https`)
    url = next
  }
  throw new Error(`it sends svc on more than ${MAX_HOPS} times`)
}
