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
  private readonly storedValues: V[] = []

  get size(): number {
    return this.storedKeys.length
  }

  get(key: K): V | undefined {
    const at = this.storedKeys.indexOf(key)
    return at < 0 ? undefined : this.storedValues[at]
  }

  has(key: K): boolean {
    return this.storedKeys.indexOf(key) >= 0
  }

  /** Sets an entry. A known key keeps its place. */
  set(key: K, value: V): void {
    const at = this.storedKeys.indexOf(key)
    if (at >= 0) this.storedValues[at] = value
    else {
      this.storedKeys.push(key)
      this.storedValues.push(value)
    }
  }

  /** Removes an entry and returns its value; undefined if there is none. */
  take(key: K): V | undefined {
    const at = this.storedKeys.indexOf(key)
    if (at < 0) return undefined
    const value = this.storedValues[at]
    removeAt(this.storedKeys, at)
    removeAt(this.storedValues, at)
    return value
  }

  /** Returns the entries as they are now, in the order in which their keys were set first. */
  entries(): readonly (readonly [K, V])[] {
    return this.storedKeys.map((key, at) => [key, this.storedValues[at] as V])
  }

  /** Returns the keys as they are now, in the same order. */
  keys(): readonly K[] {
    return this.storedKeys.slice()
  }

  /** Returns the values as they are now, in the same order. */
  values(): readonly V[] {
    return this.storedValues.slice()
  }

  /** Removes all entries. */
  clear(): void {
    this.storedKeys.length = 0
    this.storedValues.length = 0
  }
}

// ---

/** Removes an item. In the usual cases (a short list, its first or last item) several times as fast as `splice`. */
function removeAt(list: unknown[], at: number): void {
  for (let to = at; to < list.length - 1; to++) list[to] = list[to + 1]
  list.pop()
}
