/** The difference of two texts, line by line. */

export type DiffLine = { readonly kind: "same" | "removed" | "added"; readonly text: string }

/**
 * Returns the lines of two texts, each marked as the same, removed or added, with as few changes as possible. If a part that
 * differs is longer than 2,000 lines, it is replaced as a whole.
 */
export function diffLines(before: readonly string[], after: readonly string[]): readonly DiffLine[] {
  let start = 0
  while (start < Math.min(before.length, after.length) && before[start] === after[start]) start++
  let end = 0
  while (end < Math.min(before.length, after.length) - start && before.at(-1 - end) === after.at(-1 - end)) end++
  const [old, now] = [before.slice(start, before.length - end), after.slice(start, after.length - end)]
  return [
    ...marked("same", before.slice(0, start)),
    ...(Math.max(old.length, now.length) > MAX_COMPARED
      ? [...marked("removed", old), ...marked("added", now)]
      : compare(old, now)),
    ...marked("same", before.slice(before.length - end)),
  ]
}

// ---

const MAX_COMPARED = 2000

const marked = (kind: DiffLine["kind"], lines: readonly string[]): readonly DiffLine[] =>
  lines.map((text) => ({ kind, text }))

/** Compares by the longest common subsequence. */
function compare(old: readonly string[], now: readonly string[]): readonly DiffLine[] {
  const width = now.length + 1
  // For each pair of offsets, the length of the longest common subsequence of the lines from there on.
  const longest = new Uint16Array((old.length + 1) * width)
  for (let at = old.length - 1; at >= 0; at--)
    for (let to = now.length - 1; to >= 0; to--)
      longest[at * width + to] =
        old[at] === now[to]
          ? (longest[(at + 1) * width + to + 1] as number) + 1
          : Math.max(longest[(at + 1) * width + to] as number, longest[at * width + to + 1] as number)
  const lines: DiffLine[] = []
  let [at, to] = [0, 0]
  while (at < old.length && to < now.length) {
    if (old[at] === now[to]) {
      lines.push({ kind: "same", text: old[at] as string })
      at++
      to++
    } else if ((longest[(at + 1) * width + to] as number) >= (longest[at * width + to + 1] as number))
      lines.push({ kind: "removed", text: old[at++] as string })
    else lines.push({ kind: "added", text: now[to++] as string })
  }
  return [...lines, ...marked("removed", old.slice(at)), ...marked("added", now.slice(to))]
}
