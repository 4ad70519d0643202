/**
 * Remembers the negotiated era of each launch for a day, in the configuration directory, so that a start need not probe. A
 * broken or missing file is an empty cache.
 */
import { readFileSync } from "node:fs"
import type { Launch } from "../config/server-spec.ts"
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Clock } from "../lib/clock.ts"
import { sha256 } from "../lib/digest.ts"
import type { Era } from "../wire/era.ts"
import { isObject } from "../wire/message.ts"
import { replaceState } from "./files.ts"

/** `at` is milliseconds since the epoch. */
export type KnownEra = { readonly era: Era; readonly at: number }

/** The eras of launches. */
export type EraCache = {
  get(launch: Launch): Era | undefined
  set(launch: Launch, era: Era): void
  /** Forgets a launch, on disk too, so that an undone change leaves no trace. */
  forget(launch: Launch): void
}

/** Creates a cache; in memory only if `file` is undefined. */
export function createEraCache(file: string | undefined, clock: Clock): EraCache {
  const known = new BoundedMap<string, KnownEra>(MAX_LAUNCHES, read(file))
  const textOf = () => `${JSON.stringify(Object.fromEntries(known))}\n`
  let written = textOf()
  let cancelSave: (() => void) | undefined
  const write = () => {
    cancelSave?.()
    cancelSave = undefined
    if (file === undefined) return
    const text = textOf()
    if (text === written) return
    try {
      replaceState(file, text)
      written = text
    } catch {
      // Without the file the next start probes again.
    }
  }
  // A start probes many launches at once: write them together.
  const save = () => {
    if (file !== undefined) cancelSave ??= clock.after(SAVE_MS, write)
  }
  return rememberEras(known, clock, (key) => (known.has(key) ? save() : write()))
}

/** Returns a cache over the eras in `known`. `onchange` is called after each change, with the key of the launch. */
export const rememberEras = (
  known: Map<string, KnownEra>,
  clock: Clock,
  onchange: (key: string) => void,
): EraCache => ({
  get(launch) {
    const found = known.get(keyOf(launch))
    return found !== undefined && clock.now() - found.at < DAY_MS ? found.era : undefined
  },
  set(launch, era) {
    const key = keyOf(launch)
    const found = known.get(key)
    if (found?.era === era && clock.now() - found.at < DAY_MS) return
    known.delete(key)
    known.set(key, { era, at: clock.now() })
    onchange(key)
  },
  forget(launch) {
    const key = keyOf(launch)
    if (known.delete(key)) onchange(key)
  },
})

/** Returns the valid entries. */
export const parseKnownEras = (entries: readonly (readonly [string, unknown])[]): [string, KnownEra][] =>
  entries.flatMap(([key, found]) =>
    isObject(found) && ERAS.has(String(found.era)) && typeof found.at === "number"
      ? [[key, { era: ERAS.get(String(found.era)) as Era, at: found.at }]]
      : [],
  )

export const DAY_MS = 24 * 3_600_000
export const MAX_LAUNCHES = 1000

// ---

/** The eras as written; earlier versions wrote years. */
const ERAS: ReadonlyMap<string, Era> = new Map([
  ["legacy", "legacy"],
  ["modern", "modern"],
  ["2025", "legacy"],
  ["2026", "modern"],
])
const SAVE_MS = 500

/** Returns the key of a launch: a hash, because a launch contains secrets. */
const keyOf = (launch: Launch): string => sha256(JSON.stringify(launch), "base64url")

function read(file: string | undefined): [string, KnownEra][] {
  if (file === undefined) return []
  try {
    const value: unknown = JSON.parse(readFileSync(file, "utf8"))
    return parseKnownEras(Object.entries(isObject(value) ? value : {}))
  } catch {
    return []
  }
}
