/** The difference of two texts, line by line. */

import { canStep, type Steps, stepsOf } from "./steps.ts"

export type DiffLine = { readonly kind: "same" | "removed" | "added"; readonly text: string }

/**
 * Returns the lines of two texts, each marked as the same, removed or added, with as few changes as possible. If more than
 * 2,000 lines differ, or finding the differences takes more than `steps`, all lines between the first and the last difference are
 * replaced.
 */
export function diffLines(
  before: readonly string[],
  after: readonly string[],
  steps = stepsOf(MAX_STEPS),
): readonly DiffLine[] {
  let start = 0
  while (start < Math.min(before.length, after.length) && before[start] === after[start]) start++
  let end = 0
  while (end < Math.min(before.length, after.length) - start && before.at(-1 - end) === after.at(-1 - end)) end++
  const [old, now] = [before.slice(start, before.length - end), after.slice(start, after.length - end)]
  return [
    ...marked("same", before.slice(0, start)),
    ...(compare(old, now, steps) ?? [...marked("removed", old), ...marked("added", now)]),
    ...marked("same", before.slice(before.length - end)),
  ]
}

/**
 * Returns `base` with the changes of both `one` and `other`, which were made from it; undefined if they change the same
 * lines, or insert lines at the same place.
 */
export function mergeLines(
  base: readonly string[],
  one: readonly string[],
  other: readonly string[],
): readonly string[] | undefined {
  const hunks = [one, other]
    .flatMap((after) => hunksOf(diffLines(base, after)))
    .toSorted((first, second) => first.start - second.start || first.end - second.end)
  const merged: string[] = []
  let [at, inserted] = [0, -1]
  for (const { start, end, lines } of hunks) {
    if (start < at || (start === end && start === inserted)) return undefined
    merged.push(...base.slice(at, start), ...lines)
    at = end
    if (start === end) inserted = end
  }
  return [...merged, ...base.slice(at)]
}

// ---

/** The lines from `start` to before `end` of a text, and the lines that replace them. */
type Hunk = { readonly start: number; end: number; readonly lines: string[] }

function hunksOf(diff: readonly DiffLine[]): readonly Hunk[] {
  const hunks: Hunk[] = []
  let at = 0
  for (const [index, { kind, text }] of diff.entries()) {
    if (kind !== "same") {
      if (index === 0 || diff[index - 1]?.kind === "same") hunks.push({ start: at, end: at, lines: [] })
      const hunk = hunks.at(-1) as Hunk
      if (kind === "removed") hunk.end++
      else hunk.lines.push(text)
    }
    if (kind !== "added") at++
  }
  return hunks
}

const MAX_CHANGES = 2000
const MAX_STEPS = 1_000_000

const marked = (kind: DiffLine["kind"], lines: readonly string[]): readonly DiffLine[] =>
  lines.map((text) => ({ kind, text }))

/**
 * Compares by the greedy algorithm of Myers ("An O(ND) Difference Algorithm and Its Variations", 1986), whose work grows with
 * the number of changes, not with the distance between them. Returns undefined if there are more than MAX_CHANGES, or no steps are left.
 */
function compare(old: readonly string[], now: readonly string[], steps: Steps): readonly DiffLine[] | undefined {
  if (old.length === 0 || now.length === 0 || Math.abs(old.length - now.length) > MAX_CHANGES) return undefined
  // For each number of changes, how many old lines are consumed at most, by diagonal (old lines minus new lines).
  const reached: Int32Array[] = []
  const at = (changes: number, diagonal: number) => reached[changes]?.[diagonal + changes] ?? -1
  /** Whether the best path to a diagonal ends with an added line, not with a removed one. */
  const adds = (changes: number, diagonal: number) =>
    diagonal === -changes || (diagonal !== changes && at(changes - 1, diagonal - 1) < at(changes - 1, diagonal + 1))
  /** Where the same lines on a diagonal begin, after the last change. */
  const start = (changes: number, diagonal: number) => {
    if (changes === 0) return 0
    return adds(changes, diagonal) ? at(changes - 1, diagonal + 1) : at(changes - 1, diagonal - 1) + 1
  }
  const linesBack = (changes: number): readonly DiffLine[] => {
    const lines: DiffLine[] = []
    let [x, y] = [old.length, now.length]
    for (let left = changes; left >= 0; left--) {
      const isAdded = adds(left, x - y)
      for (const from = start(left, x - y); x > from; x--, y--) lines.push({ kind: "same", text: old[x - 1] as string })
      if (left > 0)
        lines.push(
          isAdded ? { kind: "added", text: now[--y] as string } : { kind: "removed", text: old[--x] as string },
        )
    }
    return lines.reverse()
  }
  for (let changes = 0; changes <= MAX_CHANGES; changes++) {
    const row = new Int32Array(2 * changes + 1)
    reached.push(row)
    for (let diagonal = -changes; diagonal <= changes; diagonal += 2) {
      let x = start(changes, diagonal)
      const from = x
      while (x < old.length && x - diagonal < now.length && old[x] === now[x - diagonal]) x++
      if (!canStep(steps, 1 + x - from)) return undefined
      row[diagonal + changes] = x
      if (x >= old.length && x - diagonal >= now.length) return linesBack(changes)
    }
  }
  return undefined
}
