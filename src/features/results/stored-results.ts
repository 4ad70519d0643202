/** Opens the store of large results: sealed with a key of the secret store, so that results survive a restart of svc. */

import { systemClock } from "../../lib/clock.ts"
import { messageOf, UnavailableError } from "../../lib/errors.ts"
import type { Paths } from "../../store/paths.ts"
import { openSecrets } from "../../store/secret-store.ts"
import { ResultStore } from "./result-store.ts"

export type StoredResultOptions = {
  /** Undefined if svc keeps nothing on disk. */
  readonly paths: Paths | undefined
  readonly folder: string | undefined
  /** Milliseconds. */
  readonly ttl: number
  /** Whether results can be read after a restart of svc. */
  readonly persist: boolean
  /** The id of this replica in a cluster. */
  readonly replica: string | undefined
}

/** Opens the store without reading or writing yet. Throws an UnavailableError if svc keeps nothing on disk. */
export function openStoredResults(
  { paths, folder, ttl, persist, replica }: StoredResultOptions,
  warn: (text: string) => void,
): ResultStore {
  if (paths === undefined || folder === undefined)
    throw new UnavailableError("svc runs without a configuration directory")
  const key = async () => {
    if (!persist) return randomKey()
    try {
      return await keptKey(paths)
    } catch (error) {
      warn(`stored results will not survive a restart of svc: ${messageOf(error)}`)
      return randomKey()
    }
  }
  return new ResultStore({ folder, clock: systemClock, key, ttl, capacity: CAPACITY_BYTES, replica })
}

// ---

const CAPACITY_BYTES = 1024 ** 3
const KEY_BYTES = 32
const ENTRY = "stored results"

const randomKey = (): Uint8Array => crypto.getRandomValues(new Uint8Array(KEY_BYTES))

/** Returns the key from the secret store, and creates it the first time. Rejects with an UnavailableError. */
async function keptKey(paths: Paths): Promise<Uint8Array> {
  const secrets = openSecrets(paths)
  return secrets.exclusive(ENTRY, async () => {
    const known = (await secrets.read())[ENTRY]
    if (typeof known === "string") return Buffer.from(known, "base64url")
    const key = randomKey()
    await secrets.put(ENTRY, Buffer.from(key).toString("base64url"))
    return key
  })
}
