/**
 * A map for entries that come and go all the time, such as the requests in flight. It keeps the order of a Map and finds
 * keys by a search, which is fast up to some thousand entries.
 *
 * Not a Map: JavaScriptCore replaces the table of a Map after a few additions and deletions, and each old table refers to the
 * next. Once the garbage collector has promoted one table to the old generation, all later tables and their entries survive
 * until the next full collection, which cost a tenth of the CPU time of a call.
 */
export class ArrayMap<K extends number | string, V> {
  private readonly storedKeys: K[] = []
  private readonly storedValues: (V | undefined)[] = []
  /** Where the entries begin: those before it have been removed. */
  private first = 0

  get size(): number {
    return this.storedKeys.length - this.first
  }

  get(key: K): V | undefined {
    const at = this.indexOf(key)
    return at < 0 ? undefined : this.storedValues[at]
  }

  has(key: K): boolean {
    return this.indexOf(key) >= 0
  }

  /** Sets an entry. A known key keeps its place. */
  set(key: K, value: V): void {
    const at = this.indexOf(key)
    if (at >= 0) this.storedValues[at] = value
    else {
      this.storedKeys.push(key)
      this.storedValues.push(value)
    }
  }

  /** Removes an entry and returns its value; undefined if there is none. */
  take(key: K): V | undefined {
    const at = this.indexOf(key)
    if (at < 0) return undefined
    const { storedKeys: keys, storedValues: values } = this
    const value = values[at]
    if (at - this.first < keys.length - 1 - at) this.removeFirst(at)
    else {
      for (let to = at; to < keys.length - 1; to++) {
        keys[to] = keys[to + 1] as K
        values[to] = values[to + 1]
      }
      keys.pop()
      values.pop()
    }
    return value
  }

  /** Returns the entries as they are now, in the order in which their keys were set first. */
  entries(): readonly (readonly [K, V])[] {
    const values = this.values()
    return this.keys().map((key, at) => [key, values[at] as V])
  }

  /** Returns the keys as they are now, in the same order. */
  keys(): readonly K[] {
    return this.storedKeys.slice(this.first)
  }

  /** Returns the values as they are now, in the same order. */
  values(): readonly V[] {
    return this.storedValues.slice(this.first) as V[]
  }

  /** Removes all entries. */
  clear(): void {
    this.storedKeys.length = 0
    this.storedValues.length = 0
    this.first = 0
  }

  // ---

  private indexOf(key: K): number {
    return this.storedKeys.indexOf(key, this.first)
  }

  /**
   * Removes an entry: moves those before it, of which there are few, because most entries are removed in the order in which they
   * were set. To move all others to the start instead took a thirtieth of a call with 64 callers.
   */
  private removeFirst(at: number): void {
    const { storedKeys: keys, storedValues: values, first } = this
    for (let to = at; to > first; to--) {
      keys[to] = keys[to - 1] as K
      values[to] = values[to - 1]
    }
    values[first] = undefined
    this.first = first + 1
    if (this.first < MAX_REMOVED) return
    keys.splice(0, MAX_REMOVED)
    values.splice(0, MAX_REMOVED)
    this.first = 0
  }
}

// ---

/** The number of removed entries at the start after which their places are given up together. */
const MAX_REMOVED = 256
