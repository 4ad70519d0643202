/** Merges two changes of one server's settings. Pure. */
import { isSchema as isObject } from "./json-schema.ts"

type Settings = Readonly<Record<string, unknown>>

/**
 * Returns the settings `theirs` with the changes that lead from `base` to `mine`; undefined if both have changed the same
 * member in different ways. The variables in `env`, and other members of objects, are merged one by one.
 */
export function mergedSettings(base: Settings, theirs: Settings, mine: Settings): Settings | undefined {
  const merged: Record<string, unknown> = { ...theirs }
  for (const key of new Set([...Object.keys(base), ...Object.keys(mine)])) {
    if (isSame(base[key], mine[key]) || isSame(theirs[key], mine[key])) continue
    if (!isSame(base[key], theirs[key])) {
      const inner = mergedMembers(base[key], theirs[key], mine[key])
      if (inner === undefined) return undefined
      merged[key] = inner
    } else if (mine[key] === undefined) delete merged[key]
    else merged[key] = mine[key]
  }
  return merged
}

// ---

const mergedMembers = (base: unknown = {}, theirs: unknown, mine: unknown): Settings | undefined =>
  isObject(base) && isObject(theirs) && isObject(mine) ? mergedSettings(base, theirs, mine) : undefined

const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)
