/** The keys of a cluster: they seal what clients carry to any replica, and mark ids that they bring back. */
import { systemClock } from "../lib/clock.ts"
import { createMarker, createSealer, type Marker, type Sealer } from "../lib/seal.ts"
import type { SharedState } from "../store/shared-state.ts"

export type ClusterKeys = {
  readonly sealer: Sealer
  readonly mark: Marker
  /** Calls `listener` when the shared state is back after it was away; `lost`: without what was in it. */
  onback(listener: (lost: boolean) => void): void
  /** Resolves when the keys are those of the cluster. */
  readonly ready: Promise<void>
  close(): void
}

/**
 * Returns the keys that all replicas use. The first replica creates them. Until the state is reached they are this replica's
 * own; if the state has lost them, they are stored again.
 */
export function createKeys(state: Pick<SharedState, "connected" | "swap" | "read" | "onstate">): ClusterKeys {
  const { promise: ready, resolve } = Promise.withResolvers<void>()
  const fresh = () => crypto.getRandomValues(new Uint8Array(KEY_BYTES))
  let keys = { mark: fresh(), seal: fresh() }
  let marker = createMarker(() => keys.mark)
  let sealer = createSealer(keys.seal)
  /** Random text that goes with the keys: another one shows that the state was lost in between. */
  let epoch: string | undefined
  const listeners: ((lost: boolean) => void)[] = []
  const agree = async (): Promise<void> => {
    const encode = (key: Uint8Array) => Buffer.from(key).toString("base64url")
    const decode = (text: string) => new Uint8Array(Buffer.from(text, "base64url"))
    await state.swap(KEYS, "mark", undefined, encode(keys.mark))
    await state.swap(KEYS, "seal", undefined, encode(keys.seal))
    await state.swap(KEYS, "epoch", undefined, crypto.randomUUID())
    const found = await state.read(KEYS)
    // Somebody cleared it in between. A key without bytes would be one that everybody knows.
    if (found?.mark === undefined || found.seal === undefined || found.epoch === undefined) return agree()
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
  // The state may be lost while it is connected: somebody cleared it. Another replica would make other keys.
  let cancel: () => void
  const look = () => {
    const found = state.connected && epoch !== undefined ? state.read(KEYS) : undefined
    found?.then((keys) => (keys?.epoch === epoch ? undefined : agree())).catch(() => undefined)
    cancel = systemClock.after(LOOK_MS, look)
  }
  cancel = systemClock.after(LOOK_MS, look)
  return {
    sealer: { seal: (text) => sealer.seal(text), open: (text) => sealer.open(text) },
    mark: (...texts) => marker(...texts),
    ready,
    onback: (listener) => void listeners.push(listener),
    close: () => cancel(),
  }
}

// ---

const KEYS = "keys"
const KEY_BYTES = 32
const RETRY_MS = 1000
const LOOK_MS = 2000
