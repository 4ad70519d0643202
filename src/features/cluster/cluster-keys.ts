/**
 * The keys of a cluster: one seals state that clients send back to any replica, the other authenticates ids that they send
 * back.
 */
import { every, systemClock } from "../../lib/clock.ts"
import { createMarker, createSealer, type Marker, type Sealer } from "../../lib/seal.ts"
import type { SharedState } from "./shared-state.ts"

/**
 * The keys that all replicas use. The first replica creates them. Until the shared state is reached, this replica uses its own
 * keys. If the shared state loses the keys, the replica stores them again.
 */
export class ClusterKeys {
  readonly sealer: Sealer = {
    seal: (text) => this.currentSealer.seal(text),
    open: (text) => this.currentSealer.open(text),
  }
  private keys = { mark: freshKey(), seal: freshKey() }
  private currentMarker = createMarker(() => this.keys.mark)
  private currentSealer = createSealer(this.keys.seal)
  /** Random text that is stored with the keys: if it changes, the shared state was lost in between. */
  private epoch: string | undefined
  private readonly listeners: ((lost: boolean) => void)[] = []
  private agreeing: Promise<void> | undefined
  private readonly agreed = Promise.withResolvers<void>()
  /** Stops following the state. */
  readonly close: () => void

  constructor(private readonly state: Pick<SharedState, "connected" | "swap" | "read" | "onstate">) {
    state.onstate(() => this.retry())
    this.retry()
    // The state may be cleared while it is connected. Another replica would then create other keys.
    this.close = every(systemClock, CHECK_MS, () => {
      if (state.connected && this.epoch !== undefined) this.checkLoss().catch(() => undefined)
    })
  }

  /** Resolves when this replica uses the keys of the cluster. */
  get ready(): Promise<void> {
    return this.agreed.promise
  }

  readonly mark: Marker = (...texts) => this.currentMarker(...texts)

  /** Calls `listener` when the shared state can be reached again; `lost`: whether its content was lost. */
  onback(listener: (lost: boolean) => void): void {
    this.listeners.push(listener)
  }

  /** Checks whether the state has lost the keys; if so, stores them and calls the listeners. Rejects with an UnavailableError. */
  async checkLoss(): Promise<void> {
    if ((await this.state.read(KEYS))?.epoch !== this.epoch) await this.agree()
  }

  // ---

  private retry(): void {
    if (this.state.connected) this.agree().catch(() => void systemClock.after(RETRY_MS, () => this.retry()))
  }

  private agree(): Promise<void> {
    this.agreeing ??= this.store().finally(() => {
      this.agreeing = undefined
    })
    return this.agreeing
  }

  private async store(): Promise<void> {
    const { state, keys } = this
    await state.swap(KEYS, "mark", undefined, encode(keys.mark))
    await state.swap(KEYS, "seal", undefined, encode(keys.seal))
    await state.swap(KEYS, "epoch", undefined, crypto.randomUUID())
    const found = await state.read(KEYS)
    // The state was cleared in between. Never continue with an empty key, which anyone would know.
    if (found?.mark === undefined || found.seal === undefined || found.epoch === undefined) return this.store()
    const next = { mark: decode(found.mark), seal: decode(found.seal) }
    this.keys = next
    this.currentMarker = createMarker(() => next.mark)
    this.currentSealer = createSealer(next.seal)
    const before = this.epoch
    this.epoch = found.epoch
    if (before !== undefined) for (const listener of this.listeners) listener(before !== this.epoch)
    this.agreed.resolve()
  }
}

// ---

const KEYS = "keys"
const KEY_BYTES = 32
const RETRY_MS = 1000
const CHECK_MS = 2000

const freshKey = (): Uint8Array<ArrayBuffer> => crypto.getRandomValues(new Uint8Array(KEY_BYTES))
const encode = (key: Uint8Array): string => Buffer.from(key).toString("base64url")
const decode = (text: string): Uint8Array<ArrayBuffer> => new Uint8Array(Buffer.from(text, "base64url"))
