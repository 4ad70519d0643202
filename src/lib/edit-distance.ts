/** Counts the edits between two words: optimal string alignment, in which a swap of neighbors is one edit (Damerau). */

type EditRows = [before: Int32Array, last: Int32Array, next: Int32Array]

/** Returns the rows that `editDistance` works in, for words of up to `length` letters. */
export const editRows = (length: number): EditRows => [
  new Int32Array(length + 1),
  new Int32Array(length + 1),
  new Int32Array(length + 1),
]

/** Returns the distance of two words, or more than `limit` as soon as it is certain to exceed it. */
export function editDistance(a: string, b: string, limit: number, rows: EditRows): number {
  let [before, last, next] = rows
  for (let j = 0; j <= b.length; j++) last[j] = j
  for (let i = 1; i <= a.length; i++) {
    next[0] = i
    let least = i
    const letter = a.charCodeAt(i - 1)
    for (let j = 1; j <= b.length; j++) {
      const other = b.charCodeAt(j - 1)
      let value = (last[j - 1] as number) + (letter === other ? 0 : 1)
      value = Math.min(value, (last[j] as number) + 1, (next[j - 1] as number) + 1)
      if (i > 1 && j > 1 && letter === b.charCodeAt(j - 2) && a.charCodeAt(i - 2) === other)
        value = Math.min(value, (before[j - 2] as number) + 1)
      next[j] = value
      if (value < least) least = value
    }
    // A swap in the next row adds one to a value of the row before this one, whose least value is at most one less.
    if (least > limit) return limit + 1
    const spare = before
    before = last
    last = next
    next = spare
  }
  return last[b.length] as number
}
