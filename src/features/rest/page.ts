/**
 * Divides lists into pages. A list is sorted by a key, and a cursor contains the key of the last entry of a page: the next
 * page starts after that key, even if entries were added or removed meanwhile.
 */
import * as z from "zod"
import { RequestError } from "../../lib/errors.ts"

export type RestPage<T> = { readonly items: readonly T[]; readonly nextCursor?: string }

/** The query of a list that comes in pages. */
export const PAGE_QUERY = {
  limit: z.coerce.number().int().min(1).max(1000).default(100).describe("Maximum number of entries in one page"),
  cursor: z.string().optional().describe("nextCursor of the previous page"),
}

/** Returns the schema of a page. */
export const pageSchema = <T extends z.ZodType>(item: T) =>
  z.strictObject({
    items: z.array(item),
    nextCursor: z.string().optional().describe("Cursor of the next page; absent on the last page"),
  })

/** Returns a page of at most `limit` entries after `cursor`. Keys must be unique. Throws a RequestError for an invalid cursor. */
export function pageBy<T>(
  all: readonly T[],
  keyOf: (item: T) => string,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string | undefined },
): RestPage<T> {
  const after = cursor === undefined ? undefined : decode(cursor)
  const rest = all
    .map((item) => ({ key: keyOf(item), item }))
    .filter(({ key }) => after === undefined || key > after)
    .sort((one, other) => (one.key < other.key ? -1 : 1))
  const shown = rest.slice(0, limit)
  const last = shown.at(-1)
  return {
    items: shown.map(({ item }) => item),
    ...(last === undefined || rest.length <= limit ? {} : { nextCursor: encode(last.key) }),
  }
}

// ---

const encode = (key: string): string => Buffer.from(`k${key}`).toString("base64url")

function decode(cursor: string): string {
  const text = Buffer.from(cursor, "base64url").toString("utf8")
  if (text.startsWith("k") && encode(text.slice(1)) === cursor) return text.slice(1)
  throw new RequestError("invalid_params", "The cursor is not valid for this list; leave it out to start again")
}
