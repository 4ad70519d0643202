/**
 * A map for entries that come and go all the time, such as the requests in flight. It keeps the order of a Map and finds
 * keys by a search, which is fast up to some thousand entries.
 *
 * A Map is unfit for that in JavaScriptCore: it replaces its table after a few additions and deletions, and each old table
 * refers to the next. Once one of them is old to the garbage collector, all later tables and their entries survive until the
 * next full collection, which cost a tenth of the CPU time of a call.
 */
export class ArrayMap<K extends number | string, V> {
  private readonly held: K[] = []
  private readonly items: V[] = []

  get size(): number {
    return this.held.length
  }

  get(key: K): V | undefined {
    const at = this.held.indexOf(key)
    return at < 0 ? undefined : this.items[at]
  }

  has(key: K): boolean {
    return this.held.indexOf(key) >= 0
  }

  /** Sets an entry. A known key keeps its place. */
  set(key: K, value: V): void {
    const at = this.held.indexOf(key)
    if (at >= 0) this.items[at] = value
    else {
      this.held.push(key)
      this.items.push(value)
    }
  }

  /** Removes an entry and returns its value; undefined if there is none. */
  take(key: K): V | undefined {
    const at = this.held.indexOf(key)
    if (at < 0) return undefined
    const value = this.items[at]
    removeAt(this.held, at)
    removeAt(this.items, at)
    return value
  }

  /** Returns the entries as they are now, in the order in which their keys were set first. */
  entries(): readonly (readonly [K, V])[] {
    return this.held.map((key, at) => [key, this.items[at] as V])
  }

  /** Returns the keys as they are now, in the same order. */
  keys(): readonly K[] {
    return this.held.slice()
  }

  /** Returns the values as they are now, in the same order. */
  values(): readonly V[] {
    return this.items.slice()
  }

  /** Removes all entries. */
  clear(): void {
    this.held.length = 0
    this.items.length = 0
  }
}

// ---

/** Removes an item. Mostly the list is short, or the item its first or last: then this is several times as fast as `splice`. */
function removeAt(list: unknown[], at: number): void {
  for (let to = at; to < list.length - 1; to++) list[to] = list[to + 1]
  list.pop()
}
