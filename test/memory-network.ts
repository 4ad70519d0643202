/**
 * Shared state in memory, with the rules of the one in Redis (features/cluster/shared-state.test.ts runs the same tests on both), and a
 * network to it that a test can cut. What replicas decide is tested with it: no Redis is needed.
 */

import type {
  Lease,
  RecordGroup,
  SharedRecord,
  SharedState,
  TakenLease,
  WindowCount,
} from "../src/features/cluster/shared-state.ts"
import { systemClock } from "../src/lib/clock.ts"
import { UnavailableError } from "../src/lib/errors.ts"

/** The network between replicas and their shared state. */
export type SharedNetwork = AsyncDisposable & {
  /** Opens the state for one more replica. */
  open(): Promise<SharedState>
  /** Ends all connections and refuses new ones, until `mend`. */
  cut(): Promise<void>
  mend(): Promise<void>
  /** Removes all that the state holds. */
  clear(): Promise<void>
  /** Lets all code run that waits only for the state. */
  settle(): Promise<void>
}

/** Opens a network to an empty state. `now` returns milliseconds. */
export function memoryNetwork(now: () => number = systemClock.now): SharedNetwork {
  const memory = new Memory(now)
  const states = new Set<MemoryState>()
  let isCut = false
  const connect = (connected: boolean) => {
    isCut = !connected
    for (const state of states) state.connect(connected)
  }
  return {
    async open() {
      const state = new MemoryState(memory, states)
      if (!isCut) state.connect(true)
      states.add(state)
      return state
    },
    cut: async () => connect(false),
    mend: async () => connect(true),
    clear: async () => memory.clear(),
    settle: () => settleStates(states),
    async [Symbol.asyncDispose]() {
      for (const state of states) state.close()
    },
  }
}

/** Lets all code run that waits only for these states. */
export async function settleStates(states: ReadonlySet<SharedState>): Promise<void> {
  // The answers of a connection come in order, and so do its messages; what one sets going takes another turn.
  for (let turn = 0; turn < SETTLE_TURNS; turn++) {
    await Promise.all([...states].map((state) => state.read("nothing").catch(() => undefined)))
    const marker = `settled ${crypto.randomUUID()}`
    const heard = [...states].map((state) => whenHeard(state, marker))
    const sent = await [...states][0]?.publish(marker).catch((error: unknown) => error)
    if (sent === undefined) await Promise.all(heard)
  }
}

/** The leases of names, by the rules of the scripts in redis-state.ts. Times are milliseconds. */
export class LeaseTable {
  private readonly leases = new Map<string, { holder: string; token: number; end: number }>()
  private readonly fences = new Map<string, number>()

  /** Returns the token of a new lease, or the lease that is in its way. */
  acquire(name: string, holder: string, ttl: number, seen: number, now: number): number | Omit<TakenLease, "kind"> {
    const found = this.find(name, now)
    if (found !== undefined) return { token: found.token, holder: found.holder, remaining: found.end - now }
    const last = this.fences.get(name) ?? 0
    const isKnown = last >= seen
    const token = isKnown ? last + 1 : seen
    this.fences.set(name, token)
    this.leases.set(name, { holder: isKnown ? holder : "", token, end: now + ttl })
    return isKnown ? token : { token, holder: "", remaining: ttl }
  }

  /** Extends a lease, also one that was cleared. Returns false if it is another's. */
  renew(name: string, holder: string, ttl: number, token: number, now: number): boolean {
    const found = this.find(name, now)
    if (found === undefined ? (this.fences.get(name) ?? 0) >= token : found.token !== token) return false
    if (found === undefined) this.fences.set(name, token)
    this.leases.set(name, { holder, token, end: now + ttl })
    return true
  }

  release(name: string, token: number): void {
    if (this.leases.get(name)?.token === token) this.leases.delete(name)
  }

  /** Lets a lease run out. Returns whether there was one. */
  expire(name: string): boolean {
    return this.leases.delete(name)
  }

  clear(): void {
    this.leases.clear()
    this.fences.clear()
  }

  private find(name: string, now: number) {
    const found = this.leases.get(name)
    return found === undefined || found.end <= now ? undefined : found
  }
}

// ---

type Stored = { readonly fields: Map<string, string>; end: number; used: number }

/** What the state holds. Each method runs whole, as a script in Redis does. */
class Memory {
  readonly leases = new LeaseTable()
  private readonly records = new Map<string, Stored>()
  private readonly groups = new Map<string, Set<string>>()
  private readonly buckets = new Map<string, { left: number; at: number }>()
  private readonly windows = new Map<string, { count: number; end: number }>()
  private writes = 0

  constructor(readonly now: () => number) {}

  read(key: string, fields: readonly string[] | undefined): SharedRecord | undefined {
    const found = this.find(key)?.fields
    if (found === undefined) return undefined
    const wanted = new Set(fields ?? found.keys())
    return Object.fromEntries([...found].filter(([field]) => wanted.has(field)))
  }

  write(...[key, changes, { ttl, require, group } = {}]: Parameters<SharedState["write"]>): boolean {
    const found = this.find(key)
    if (require !== undefined && (require === "absent") !== (found === undefined)) return false
    const record = found ?? { fields: new Map<string, string>(), end: Number.POSITIVE_INFINITY, used: 0 }
    record.used = ++this.writes
    if (ttl !== undefined) record.end = this.now() + ttl
    this.records.set(key, record)
    for (const [field, value] of Object.entries(changes))
      if (value === undefined) record.fields.delete(field)
      else record.fields.set(field, value)
    if (group !== undefined) this.trim(key, group)
    if (record.fields.size === 0) this.records.delete(key)
    return true
  }

  swap(key: string, field: string, expected: string | undefined, next: string): boolean {
    if (this.find(key)?.fields.get(field) !== expected) return false
    return this.write(key, { [field]: next })
  }

  remove(key: string, group: RecordGroup | undefined): boolean {
    if (group !== undefined) this.groups.get(group.name)?.delete(key)
    // A lease is a record too.
    const isThere = this.find(key) !== undefined || (key.startsWith("lease:") && this.leases.expire(key.slice(6)))
    this.records.delete(key)
    return isThere
  }

  take(key: string, perMinute: number): number | undefined {
    const now = this.now()
    const { left, at } = this.buckets.get(key) ?? { left: perMinute, at: now }
    const filled = Math.min(perMinute, left + (Math.max(0, now - at) * perMinute) / 60_000)
    this.buckets.set(key, { left: filled < 1 ? filled : filled - 1, at: now })
    return filled < 1 ? Math.max(1, Math.ceil(((1 - filled) * 60) / perMinute)) : undefined
  }

  count(key: string, windowMs: number): WindowCount {
    const now = this.now()
    const known = this.windows.get(key)
    const window = known !== undefined && known.end > now ? known : { count: 0, end: now + windowMs }
    this.windows.set(key, window)
    return { count: ++window.count, endsIn: window.end - now }
  }

  clear(): void {
    for (const table of [this.records, this.groups, this.buckets, this.windows, this.leases]) table.clear()
  }

  private find(key: string): Stored | undefined {
    const found = this.records.get(key)
    return found === undefined || found.end <= this.now() ? undefined : found
  }

  /** Ends the records of a group that were written the longest ago. */
  private trim(key: string, { name, most }: RecordGroup): void {
    const members = this.groups.get(name) ?? new Set()
    this.groups.set(name, members.add(key))
    const usedAt = (member: string) => this.find(member)?.used ?? 0
    const oldest = [...members].sort((a, b) => usedAt(a) - usedAt(b)).slice(0, Math.max(0, members.size - most))
    for (const member of oldest) {
      members.delete(member)
      this.records.delete(member)
    }
  }
}

/** The state as one replica reaches it. */
class MemoryState implements SharedState {
  readonly refusing = false
  private isConnected = false
  private readonly messageListeners = new Set<(text: string) => void>()
  private readonly stateListeners = new Set<(connected: boolean) => void>()

  constructor(
    private readonly memory: Memory,
    private readonly all: Set<MemoryState>,
  ) {}

  get connected(): boolean {
    return this.isConnected
  }

  connect(connected: boolean): void {
    if (this.isConnected === connected) return
    this.isConnected = connected
    for (const listener of this.stateListeners) listener(connected)
  }

  read(key: string, fields?: readonly string[]) {
    return this.run(() => this.memory.read(key, fields))
  }

  write(...change: Parameters<SharedState["write"]>) {
    return this.run(() => this.memory.write(...change))
  }

  swap(...field: Parameters<SharedState["swap"]>) {
    return this.run(() => this.memory.swap(...field))
  }

  remove(key: string, group?: RecordGroup) {
    return this.run(() => this.memory.remove(key, group))
  }

  take(key: string, perMinute: number) {
    return this.run(() => this.memory.take(key, perMinute))
  }

  count(key: string, windowMs: number) {
    return this.run(() => this.memory.count(key, windowMs))
  }

  lease(name: string, holder: string, ttl: number, seen = 0): Promise<Lease | TakenLease> {
    const { leases, now } = this.memory
    return this.run(() => {
      const token = leases.acquire(name, holder, ttl, seen, now())
      if (typeof token !== "number") return { kind: "taken", ...token }
      return {
        kind: "own",
        token,
        renew: () => this.run(() => leases.renew(name, holder, ttl, token, now())),
        release: () => this.run(() => leases.release(name, token)),
      }
    })
  }

  publish(text: string): Promise<void> {
    return this.run(() => {
      for (const state of this.all) if (state.connected) for (const listener of state.messageListeners) listener(text)
    })
  }

  onmessage(listener: (text: string) => void): () => void {
    this.messageListeners.add(listener)
    return () => void this.messageListeners.delete(listener)
  }

  onstate(listener: (connected: boolean) => void): () => void {
    this.stateListeners.add(listener)
    return () => void this.stateListeners.delete(listener)
  }

  close(): void {
    this.all.delete(this)
    this.isConnected = false
  }

  /** Runs a step on the state, and answers, each after other code has run, as over a network. */
  private async run<T>(work: () => T): Promise<T> {
    await this.travel()
    const answer = work()
    await this.travel()
    return answer
  }

  private async travel(): Promise<void> {
    if (this.isConnected) await new Promise((resolve) => setImmediate(resolve))
    if (!this.isConnected) throw new UnavailableError("The state in memory cannot be reached", { retryAfter: 2 })
  }
}

const SETTLE_TURNS = 4

const whenHeard = (state: SharedState, marker: string): Promise<void> =>
  new Promise((resolve) => {
    const end = state.onmessage((text) => {
      if (text !== marker) return
      end()
      resolve()
    })
  })
