/** Tables that must not grow without end. */

/** Drops what was put in first, until a table holds at most `most`. */
export function dropOldest<K>(table: Map<K, unknown>, most: number): void {
  for (const key of table.keys()) {
    if (table.size <= most) return
    table.delete(key)
  }
}
