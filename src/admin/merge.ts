/** Merges two changes of one server's settings. Pure. */
import { isSchema as isObject } from "./json-schema.ts"

type Settings = Readonly<Record<string, unknown>>

/** Stands for a hidden secret in the settings that svc shows. */
const HIDDEN = "•••"

/**
 * Returns the settings `theirs` with the changes that lead from `base` to `mine`; undefined if both have changed the same
 * member in different ways. The variables in `env`, and other members of objects, are merged one by one. A hidden secret looks the
 * same after a change, so a change of it by `mine` cannot be merged.
 */
export function mergedSettings(base: Settings, theirs: Settings, mine: Settings): Settings | undefined {
  const merged: Record<string, unknown> = { ...theirs }
  for (const key of new Set([...Object.keys(base), ...Object.keys(mine)])) {
    if (isSame(base[key], mine[key]) || isSame(theirs[key], mine[key])) continue
    if (!isSame(base[key], theirs[key])) {
      const inner = mergedMembers(base[key], theirs[key], mine[key])
      if (inner === undefined) return undefined
      merged[key] = inner
    } else if (changesHidden(base[key], mine[key])) return undefined
    else if (mine[key] === undefined) delete merged[key]
    else merged[key] = mine[key]
  }
  return merged
}

// ---

const mergedMembers = (base: unknown = {}, theirs: unknown, mine: unknown): Settings | undefined =>
  isObject(base) && isObject(theirs) && isObject(mine) ? mergedSettings(base, theirs, mine) : undefined

/** Whether a value in place of `base` replaces or removes a hidden secret. */
function changesHidden(base: unknown, mine: unknown): boolean {
  if (isSame(base, mine)) return false
  if (typeof base === "string") return base.includes(HIDDEN)
  if (Array.isArray(base)) {
    const after = Array.isArray(mine) ? mine : []
    return base.some((one) => changesHidden(one, after.includes(one) ? one : undefined))
  }
  return (
    isObject(base) && Object.keys(base).some((key) => changesHidden(base[key], isObject(mine) ? mine[key] : undefined))
  )
}

const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)
