/**
 * Caches answers of registries on disk, so that searches work while a registry is down. One file per address, 200 at most; an
 * unreadable file counts as missing.
 */
import { mkdirSync, readdirSync, statSync, unlinkSync } from "node:fs"
import { join } from "node:path"
import { BoundedMap } from "../../lib/bounded-map.ts"
import { digest } from "../../lib/digest.ts"
import { readState, replaceFile } from "../../store/files.ts"

/** An answer with its address. */
type CachedResponse = {
  readonly url: string
  readonly etag: string | undefined
  /** When the registry last confirmed the answer, milliseconds since the epoch. */
  readonly at: number
  readonly body: unknown
}

export type RegistryCache = {
  get(url: string): CachedResponse | undefined
  set(cached: CachedResponse): void
}

/** Creates a cache in a folder, which is created with the first entry; only in memory if `folder` is undefined. */
export function createRegistryCache(folder: string | undefined): RegistryCache {
  const memory = new BoundedMap<string, CachedResponse>(MAX_FILES)
  const fileOf = (url: string) => join(folder ?? "", `${digest(url, 32)}.json`)
  return {
    get(url) {
      const known = memory.get(url)
      if (known !== undefined || folder === undefined) return known
      const read = readCached(fileOf(url), url)
      if (read !== undefined) memory.set(url, read)
      return read
    },
    set(cached) {
      memory.delete(cached.url)
      memory.set(cached.url, cached)
      if (folder === undefined) return
      try {
        mkdirSync(folder, { recursive: true, mode: 0o700 })
        replaceFile(fileOf(cached.url), JSON.stringify(cached), 0o600)
        prune(folder)
      } catch {
        // A disk failure costs the cache, not the answer.
      }
    },
  }
}

// ---

const MAX_FILES = 200

function readCached(file: string, url: string): CachedResponse | undefined {
  const value = readState(file)
  if (value?.url !== url || typeof value.at !== "number") return undefined
  return { url, at: value.at, etag: typeof value.etag === "string" ? value.etag : undefined, body: value.body }
}

/** Removes the oldest files beyond the limit. */
function prune(folder: string): void {
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"))
  if (files.length <= MAX_FILES) return
  const aged = files.map((name) => [statSync(join(folder, name)).mtimeMs, name] as const).sort(([a], [b]) => a - b)
  for (const [, name] of aged.slice(0, files.length - MAX_FILES)) unlinkSync(join(folder, name))
}
