/** Merges two changes of one server's settings. Pure. */

type Settings = Readonly<Record<string, unknown>>

/**
 * Returns the settings `theirs` with the changes that lead from `base` to `mine`; undefined if both have changed the same
 * member in different ways.
 */
export function mergedSettings(base: Settings, theirs: Settings, mine: Settings): Settings | undefined {
  const merged: Record<string, unknown> = { ...theirs }
  for (const key of new Set([...Object.keys(base), ...Object.keys(mine)])) {
    if (isSame(base[key], mine[key]) || isSame(theirs[key], mine[key])) continue
    if (!isSame(base[key], theirs[key])) return undefined
    if (mine[key] === undefined) delete merged[key]
    else merged[key] = mine[key]
  }
  return merged
}

// ---

const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)
