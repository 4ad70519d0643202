/**
 * Keeps the eras of launches in the shared state: an era that one replica has learned costs the others no failed probe.
 *
 *  1. An era that was learned or forgotten here counts here at once, and is written when the state can be reached.
 *  2. For all other eras the shared state counts: one that it does not have was forgotten or lost, and is learned again.
 */
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Clock } from "../lib/clock.ts"
import { parseIfJson } from "../lib/json.ts"
import { DAY_MS, type EraCache, type KnownEra, MAX_LAUNCHES, parseKnownEras, rememberEras } from "./era-cache.ts"
import type { SharedState } from "./shared-state.ts"
import { createSync, type Sync } from "./shared-sync.ts"

export type SharedErasDeps = {
  readonly state: SharedState
  readonly clock: Clock
  /** Makes the other replicas `sync`. */
  tell(): void
}

/** Returns the cache, which is empty until the first `sync`. */
export function createSharedEras({ state, clock, tell }: SharedErasDeps): EraCache & Sync {
  const known = new BoundedMap<string, KnownEra>(MAX_LAUNCHES)
  /** Keys of launches whose eras were learned or forgotten here, and are not written yet. */
  const unwritten = new Set<string>()
  let cancelSave: (() => void) | undefined
  const exchange = async (): Promise<void> => {
    const record = (await state.read(KEY)) ?? {}
    const stored = new Map(parseKnownEras(Object.entries(record).map(([key, text]) => [key, parseIfJson(text)])))
    for (const key of known.keys()) if (!stored.has(key) && !unwritten.has(key)) known.delete(key)
    for (const [key, era] of stored) if (!unwritten.has(key)) known.set(key, era)
    const changed = [...unwritten]
    if (changed.length === 0) return
    const kept = [...stored].sort(([, a], [, b]) => b.at - a.at).slice(0, MAX_LAUNCHES - changed.length)
    const keeps = new Set(kept.flatMap(([key, { at }]) => (clock.now() - at < DAY_MS ? [key] : [])))
    const dropped = Object.keys(record).filter((key) => !keeps.has(key))
    const written = new Map(changed.map((key) => [key, known.get(key)]))
    const entries = [...written].map(([key, era]) => [key, era && JSON.stringify(era)])
    const changes = { ...Object.fromEntries(dropped.map((key) => [key, undefined])), ...Object.fromEntries(entries) }
    await state.write(KEY, changes, { ttl: DAY_MS })
    for (const [key, era] of written) if (known.get(key) === era) unwritten.delete(key)
    tell()
  }
  const { sync, close } = createSync(state, exchange)
  return {
    ...rememberEras(known, clock, (key) => {
      unwritten.add(key)
      // A start probes many launches at once: their eras are written together.
      cancelSave ??= clock.after(SAVE_MS, () => {
        cancelSave = undefined
        void sync()
      })
    }),
    sync,
    close() {
      cancelSave?.()
      close()
    },
  }
}

// ---

const KEY = "eras"
const SAVE_MS = 200
