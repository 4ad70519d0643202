/**
 * One record of the shared state, of which each replica keeps what it knows: a value for each field.
 *
 *  1. A change counts here at once. It is unwritten until an exchange has written it: one that could not be written is written
 *     when the state is back.
 *  2. An exchange reads the record, merges it with what is known, and writes what is unwritten. There is one at a time: each
 *     includes the changes before it.
 *  3. A value is written only over the one that it was merged with; if another replica was faster, both are merged. A value that is
 *     `final` is written over any other.
 */
import { isDeepStrictEqual } from "node:util"
import { derivedSealer } from "../../store/secret-store.ts"
import type { SharedRecord, SharedState } from "./shared-state.ts"

/** What makes one kind of document. `V` is the value of a field. */
export type DocumentRules<V> = {
  /** The key of the record. */
  readonly key: string
  /** Returns the value of a text in the state; undefined if this replica cannot use it. */
  parse(field: string, text: string): V | undefined | Promise<V | undefined>
  print(value: V): string | Promise<string>
  /** Returns the value that counts: `found`, which is in the state, `mine`, or another one. */
  merge(field: string, found: V, mine: V | undefined, isUnwritten: boolean): V
  isFinal(field: string, value: V): boolean
  /** Returns the fields that are removed from the record. */
  over?(record: SharedRecord): readonly string[]
  /** Called with the fields that other replicas have changed, after all of them are known. */
  onchange?(changes: readonly ValueChange<V>[]): void
  /** Makes the other replicas `sync`. */
  tell(): void
}

/** A value that another replica has written; `wasUnwritten`: it took the place of one that was not written yet. */
type ValueChange<V> = { readonly field: string; readonly value: V; readonly wasUnwritten: boolean }

/** What a replica exchanges with the shared state. */
export type Sync = {
  /** Exchanges changes. Never rejects: while the state is away, the replica keeps what it has. */
  sync(): Promise<void>
  close(): void
}

export class SharedDocument<V> implements Sync {
  private readonly values = new Map<string, V>()
  private readonly unwritten = new Set<string>()
  /** Those who wait until the state was read. */
  private readonly waiting: (() => void)[] = []
  private running: Promise<void> = Promise.resolve()
  /** Whether the other replicas do not know yet what this one has written. */
  private hasWritten = false
  readonly close: () => void

  /** Starts to follow the state of the connection. Reads nothing before the first exchange. */
  constructor(
    private readonly state: Pick<SharedState, "onstate" | "read" | "write" | "swap">,
    private readonly rules: DocumentRules<V>,
  ) {
    this.close = state.onstate((connected) => {
      if (connected) void this.sync()
    })
  }

  /** What is known, by field. */
  get known(): ReadonlyMap<string, V> {
    return this.values
  }

  /** Whether changes are not written yet. */
  get hasUnwritten(): boolean {
    return this.unwritten.size > 0
  }

  /** Changes a field here. The next exchange writes it. */
  set(field: string, value: V): void {
    this.values.set(field, value)
    this.unwritten.add(field)
  }

  /** Forgets a field here. */
  forget(field: string): void {
    this.values.delete(field)
    this.unwritten.delete(field)
  }

  readonly sync = (): Promise<void> => {
    this.running = this.running.then(() => this.exchange()).catch(() => undefined)
    return this.running
  }

  /** Resolves when the state was read once more. Stays pending while that fails. */
  readonly refresh = (): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.waiting.push(resolve)
    void this.sync()
    return promise
  }

  // ---

  private async exchange(): Promise<void> {
    while (await this.exchangeOnce());
    if (!this.hasWritten) return
    this.hasWritten = false
    this.rules.tell()
  }

  /** Reads and writes the record. Resolves with true if another replica has changed meanwhile what would have been written. */
  private async exchangeOnce(): Promise<boolean> {
    const { state, rules, values, unwritten } = this
    const waited = this.waiting.length
    const record = (await state.read(rules.key)) ?? {}
    const found = new Map(
      await Promise.all(
        Object.entries(record).map(async ([field, text]) => [field, await rules.parse(field, text)] as const),
      ),
    )
    // Without waiting in between: a change that arrives meanwhile would be overwritten.
    const changes = [...found].flatMap(([field, value]) => (value === undefined ? [] : this.take(field, value)))
    // The state has lost the others.
    for (const field of values.keys()) if (record[field] === undefined) unwritten.add(field)
    if (changes.length > 0) rules.onchange?.(changes)
    for (const done of this.waiting.splice(0, waited)) done()
    const over = rules.over?.(record) ?? []
    if (over.length > 0) await state.write(rules.key, Object.fromEntries(over.map((field) => [field, undefined])))
    return this.write(record)
  }

  /** Writes what is unwritten. Resolves with true if a field of `record` has changed meanwhile. */
  private async write(record: SharedRecord): Promise<boolean> {
    const { state, values, unwritten } = this
    const { key, isFinal, print } = this.rules
    const final: Record<string, string> = {}
    const written = await Promise.all(
      [...unwritten].map(async (field) => {
        const value = values.get(field) as V
        const text = await print(value)
        if (isFinal(field, value)) final[field] = text
        else if (!(await state.swap(key, field, record[field], text))) return undefined
        return [field, value] as const
      }),
    )
    if (Object.keys(final).length > 0) await state.write(key, final)
    for (const change of written)
      if (change !== undefined) {
        this.hasWritten = true
        // It may have changed since.
        if (values.get(change[0]) === change[1]) unwritten.delete(change[0])
      }
    return written.includes(undefined)
  }

  /** Takes a value of the state. Returns the change, if it is one. */
  private take(field: string, found: V): readonly ValueChange<V>[] {
    const { values, unwritten } = this
    const before = values.get(field)
    const wasUnwritten = unwritten.has(field)
    const newest = this.rules.merge(field, found, before, wasUnwritten)
    if (newest === found) unwritten.delete(field)
    else unwritten.add(field)
    if (isDeepStrictEqual(newest, before)) return []
    values.set(field, newest)
    return [{ field, value: newest, wasUnwritten }]
  }
}

/** Seals texts with a key from SVC_STATE_KEY, which all replicas have. Both methods resolve with undefined without one. */
export type StateSeal = {
  seal(text: string): Promise<string | undefined>
  open(text: string): Promise<string | undefined>
}

/** Returns the seal. `onunsealed` is called once, when a text is to be sealed without a key. */
export function createStateSeal(stateKey: string | undefined, onunsealed: () => void): StateSeal {
  // The cluster is the salt: all replicas derive the same key without asking for one.
  const sealer = stateKey === undefined ? undefined : derivedSealer(stateKey, SALT)
  let hasWarned = false
  return {
    async seal(text) {
      if (sealer === undefined && !hasWarned) onunsealed()
      hasWarned = true
      return (await sealer)?.seal(text)
    },
    open: async (text) => (await sealer)?.open(text),
  }
}

// ---

const SALT = "svc cluster"
