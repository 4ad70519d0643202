/**
 * Pages of a list. A cursor names the entry that a page ended with, so that a client can go on while the catalog changes
 * under it: what comes after that entry is the next page. Where the entry is gone, the client must list anew.
 * server: Pagination.
 */
import { RequestError } from "../lib/errors.ts"
import type { ListMethod } from "./listing.ts"

export type Page = { readonly entries: readonly string[]; readonly nextCursor: string | undefined }

/** At most `size` entries (JSON texts) from `cursor` on. Throws a RequestError for a cursor that is none of this list. */
export function pageOf(entries: readonly string[], method: ListMethod, size: number, cursor: unknown): Page {
  const start = cursor === undefined ? 0 : after(entries, method, cursor)
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
} as const satisfies Readonly<Record<ListMethod, string>>

const keyOf = (entry: string, method: ListMethod): string => String(JSON.parse(entry)[KEYS[method]])

const encode = (method: ListMethod, end: number, key: string): string =>
  Buffer.from(JSON.stringify([method, end, key])).toString("base64url")

/** The index of the first entry after the one a cursor names. It is looked for where it was first. */
function after(entries: readonly string[], method: ListMethod, cursor: unknown): number {
  const [listed, end, key] = decode(cursor)
  if (listed === method && typeof end === "number" && typeof key === "string") {
    const there = entries[end - 1]
    if (there !== undefined && keyOf(there, method) === key) return end
    const found = entries.findIndex((entry) => keyOf(entry, method) === key)
    if (found >= 0) return found + 1
  }
  throw new RequestError("invalid_params", "The cursor is not of this list, or what it stands for is gone: list again")
}

function decode(cursor: unknown): readonly unknown[] {
  try {
    const value: unknown = JSON.parse(Buffer.from(String(cursor), "base64url").toString("utf8"))
    return Array.isArray(value) ? value : []
  } catch {
    return []
  }
}
