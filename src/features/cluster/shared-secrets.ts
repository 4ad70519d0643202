/**
 * Keeps secrets in the shared state: OAuth tokens and registered clients of svc.
 *
 *  1. Each entry is sealed with a key from SVC_STATE_KEY, which all replicas have. Without it, anyone who can read Redis can read
 *     the secrets, and `onunsealed` is called once.
 *  2. One replica at a time runs a task for a name: a refresh token may be valid only once. If it dies, another replica can run a
 *     task LEASE_MS later.
 */
import { type Clock, delay } from "../../lib/clock.ts"
import { sha256 } from "../../lib/digest.ts"
import { UnavailableError } from "../../lib/errors.ts"
import type { SecretStore } from "../../store/secret-store.ts"
import { isObject } from "../../wire/message.ts"
import { createStateSeal } from "./shared-document.ts"
import type { Lease, SharedState } from "./shared-state.ts"

export type SharedSecretsDeps = {
  readonly state: SharedState
  /** The id of this replica. */
  readonly replica: string
  /** SVC_STATE_KEY */
  readonly stateKey: string | undefined
  readonly clock: Clock
  onunsealed(): void
}

/** Returns the store, whose methods reject with an UnavailableError while the state is away. Reads nothing until one is called. */
export function createSharedSecrets({ state, replica, stateKey, clock, onunsealed }: SharedSecretsDeps): SecretStore {
  const seal = createStateSeal(stateKey, onunsealed)
  const open = async (text: string): Promise<unknown> => {
    const { sealed, entry } = JSON.parse(text) as { sealed?: string; entry?: unknown }
    if (sealed === undefined) return entry
    const opened = await seal.open(sealed)
    if (opened === undefined)
      throw new UnavailableError(
        "authorizations in the shared state are sealed with another SVC_STATE_KEY; set the same key on all replicas",
      )
    return JSON.parse(opened)
  }
  return {
    async read() {
      const record = (await state.read(KEY)) ?? {}
      const entries = await Promise.all(Object.values(record).map(open))
      return Object.fromEntries(entries.flatMap((one) => (isNamed(one) ? [[one.name, one.entry]] : [])))
    },
    async put(name, entry) {
      // A name may contain a secret, for example in a URL.
      const field = sha256(name, "base64url")
      if (entry === undefined) {
        await state.write(KEY, { [field]: undefined })
        return
      }
      const named = { name, entry }
      const sealed = await seal.seal(JSON.stringify(named))
      const text = JSON.stringify(sealed === undefined ? { entry: named } : { sealed })
      await state.write(KEY, { [field]: text })
    },
    async exclusive(name, task) {
      const lease = await acquire(`secret:${sha256(name, "base64url")}`)
      let cancel: () => void = () => undefined
      const renew = () => {
        cancel = clock.after(RENEW_MS, () => {
          // If the lease is lost while the state is away, the outcome of the task counts.
          lease.renew().catch(() => false)
          renew()
        })
      }
      renew()
      try {
        return await task()
      } finally {
        cancel()
        await lease.release().catch(() => undefined)
      }
    },
  }

  async function acquire(name: string): Promise<Lease> {
    for (let waited = 0; ; waited += PAUSE_MS) {
      const lease = await state.lease(name, replica, LEASE_MS)
      if (lease.kind === "own") return lease
      if (waited >= WAIT_MS)
        throw new UnavailableError(
          "another replica has not finished renewing this authorization; try again in a moment",
        )
      await delay(clock, PAUSE_MS)
    }
  }
}

// ---

const KEY = "authorizations"
const LEASE_MS = 5000
const RENEW_MS = 1500
const PAUSE_MS = 100
/** Longer than the timeout of an authorization server. */
const WAIT_MS = 60_000

const isNamed = (value: unknown): value is { readonly name: string; readonly entry: unknown } =>
  isObject(value) && typeof value.name === "string"
