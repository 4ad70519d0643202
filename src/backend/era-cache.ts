/**
 * Remembers the negotiated eras of launches for as long as svc runs, so that a server that svc itself starts again (after a crash,
 * or for another session) is not probed again. Not longer: after a start of svc, a server may be another version.
 */
import type { Launch } from "../config/server-spec.ts"
import { BoundedMap } from "../lib/bounded-map.ts"
import { sha256 } from "../lib/digest.ts"
import type { Era } from "../wire/era.ts"

export type EraCache = {
  get(launch: Launch): Era | undefined
  set(launch: Launch, era: Era): void
  forget(launch: Launch): void
}

export function createEraCache(): EraCache {
  const known = new BoundedMap<string, Era>(MAX_LAUNCHES)
  return {
    get: (launch) => known.get(keyOf(launch)),
    set: (launch, era) => void known.set(keyOf(launch), era),
    forget: (launch) => void known.delete(keyOf(launch)),
  }
}

// ---

const MAX_LAUNCHES = 1000

/** Returns the key of a launch: a hash, because a launch may be long. */
const keyOf = (launch: Launch): string => sha256(JSON.stringify(launch), "base64url")
