/**
 * The keys of a cluster: one seals state that clients send back to any replica, the other authenticates ids that they send
 * back.
 */
import { every, systemClock } from "../lib/clock.ts"
import { createMarker, createSealer, type Marker, type Sealer } from "../lib/seal.ts"
import type { SharedState } from "../store/shared-state.ts"

export type ClusterKeys = {
  readonly sealer: Sealer
  readonly mark: Marker
  /** Calls `listener` when the shared state can be reached again; `lost`: whether its content was lost. */
  onback(listener: (lost: boolean) => void): void
  /** Checks whether the state has lost the keys; if so, stores them and calls the listeners. Rejects with an UnavailableError. */
  checkLoss(): Promise<void>
  /** Resolves when this replica uses the keys of the cluster. */
  readonly ready: Promise<void>
  close(): void
}

/**
 * Returns the keys that all replicas use. The first replica creates them. Until the shared state is reached, this replica
 * uses its own keys. If the shared state loses the keys, the replica stores them again.
 */
export function createKeys(state: Pick<SharedState, "connected" | "swap" | "read" | "onstate">): ClusterKeys {
  const { promise: ready, resolve } = Promise.withResolvers<void>()
  const fresh = () => crypto.getRandomValues(new Uint8Array(KEY_BYTES))
  let keys = { mark: fresh(), seal: fresh() }
  let marker = createMarker(() => keys.mark)
  let sealer = createSealer(keys.seal)
  /** Random text that is stored with the keys: if it changes, the shared state was lost in between. */
  let epoch: string | undefined
  const listeners: ((lost: boolean) => void)[] = []
  let agreeing: Promise<void> | undefined
  const agree = (): Promise<void> => {
    agreeing ??= store().finally(() => {
      agreeing = undefined
    })
    return agreeing
  }
  const store = async (): Promise<void> => {
    const encode = (key: Uint8Array) => Buffer.from(key).toString("base64url")
    const decode = (text: string) => new Uint8Array(Buffer.from(text, "base64url"))
    await state.swap(KEYS, "mark", undefined, encode(keys.mark))
    await state.swap(KEYS, "seal", undefined, encode(keys.seal))
    await state.swap(KEYS, "epoch", undefined, crypto.randomUUID())
    const found = await state.read(KEYS)
    // The state was cleared in between. Never continue with an empty key, which anyone would know.
    if (found?.mark === undefined || found.seal === undefined || found.epoch === undefined) return store()
    keys = { mark: decode(found.mark), seal: decode(found.seal) }
    marker = createMarker(() => keys.mark)
    sealer = createSealer(keys.seal)
    const before = epoch
    epoch = found.epoch
    if (before !== undefined) for (const listener of listeners) listener(before !== epoch)
    resolve()
  }
  const retry = () => {
    if (state.connected) agree().catch(() => void systemClock.after(RETRY_MS, retry))
  }
  state.onstate(retry)
  retry()
  // The state may be cleared while it is connected. Another replica would then create other keys.
  const checkLoss = async () => {
    if ((await state.read(KEYS))?.epoch !== epoch) await agree()
  }
  const cancel = every(systemClock, CHECK_MS, () => {
    if (state.connected && epoch !== undefined) checkLoss().catch(() => undefined)
  })
  return {
    sealer: { seal: (text) => sealer.seal(text), open: (text) => sealer.open(text) },
    mark: (...texts) => marker(...texts),
    ready,
    checkLoss,
    onback: (listener) => void listeners.push(listener),
    close: cancel,
  }
}

// ---

const KEYS = "keys"
const KEY_BYTES = 32
const RETRY_MS = 1000
const CHECK_MS = 2000
