/** A map with a bound: setting a key beyond `limit` entries drops the entry that was set first. */
export class BoundedMap<K, V> extends Map<K, V> {
  constructor(
    private readonly limit: number,
    entries: Iterable<readonly [K, V]> = [],
  ) {
    super()
    for (const [key, value] of entries) this.set(key, value)
  }

  /** Sets an entry. A known key keeps its age: delete it first to make it the newest. */
  override set(key: K, value: V): this {
    super.set(key, value)
    if (this.size > this.limit) this.delete(this.keys().next().value as K)
    return this
  }
}
