/**
 * Pages of a list. A cursor names the last entry of its page, so that the next page starts after that entry even if the
 * catalog has changed meanwhile. If the entry is gone, the client must list again. server: Pagination.
 */
import { RequestError } from "../lib/errors.ts"
import type { PagedMethod } from "./listing.ts"

export type Page = { readonly entries: readonly string[]; readonly nextCursor: string | undefined }

/**
 * Returns at most `size` entries (JSON texts) from `cursor` on; from the first without one. Clients also write a cursor that is
 * absent as null or "". Throws a RequestError for a cursor of another list.
 */
export function pageOf(entries: readonly string[], method: PagedMethod, size: number, cursor: unknown): Page {
  const start = cursor === undefined || cursor === null || cursor === "" ? 0 : after(entries, method, cursor)
  const end = Math.min(entries.length, start + size)
  const last = entries[end - 1]
  return {
    entries: entries.slice(start, end),
    nextCursor: last === undefined || end === entries.length ? undefined : encode(method, end, keyOf(last, method)),
  }
}

// ---

const KEYS = {
  "tools/list": "name",
  "prompts/list": "name",
  "resources/list": "uri",
  "resources/templates/list": "uriTemplate",
  "skills/list": "uri",
} as const satisfies Readonly<Record<PagedMethod, string>>

const keyOf = (entry: string, method: PagedMethod): string => String(JSON.parse(entry)[KEYS[method]])

const encode = (method: PagedMethod, end: number, key: string): string =>
  Buffer.from(JSON.stringify([method, end, key])).toString("base64url")

/** Returns the index after the entry that a cursor names. Looks first at the former index of the entry. */
function after(entries: readonly string[], method: PagedMethod, cursor: unknown): number {
  const [list, end, key] = decode(cursor)
  if (list === method && typeof end === "number" && typeof key === "string") {
    const last = entries[end - 1]
    if (last !== undefined && keyOf(last, method) === key) return end
    // Parsing all entries would take long.
    const written = JSON.stringify(key).slice(1, -1)
    const found = entries.findIndex((entry) => entry.includes(written) && keyOf(entry, method) === key)
    if (found >= 0) return found + 1
  }
  throw new RequestError(
    "invalid_params",
    "The cursor belongs to another list, or its entry is gone: list again without a cursor",
  )
}

function decode(cursor: unknown): readonly unknown[] {
  try {
    const value: unknown = JSON.parse(Buffer.from(String(cursor), "base64url").toString("utf8"))
    return Array.isArray(value) ? value : []
  } catch {
    return []
  }
}
