/**
 * Static bearer tokens of clients, stored as hashes in `tokens.json` of the configuration directory, readable by its user
 * only. A token is `svc_<id>_<secret>`: the id finds the entry; the secret has 256 random bits, so that a plain hash is
 * enough.
 */
import { randomBytes, timingSafeEqual } from "node:crypto"
import { lstatSync, readFileSync } from "node:fs"
import * as z from "zod"
import { LEAST_RESULT_BUDGET, type ResultBudget } from "../config/result-budget.ts"
import { TOOL_LISTINGS, type ToolListing } from "../config/tool-listing.ts"
import { sha256 } from "../lib/digest.ts"
import { messageOf, RequestError, UnavailableError } from "../lib/errors.ts"
import { lazy } from "../lib/lazy.ts"

export type ClientToken = {
  readonly id: string
  readonly name: string
  /** Tags of the servers that it gives access to; undefined for all. */
  readonly tags?: readonly string[] | undefined
  /** The tools that views list to the token's holder, unless the address states it. */
  readonly tools?: ToolListing | undefined
  /** The limit of results for the token's holder, unless the preset of the address states one. */
  readonly resultBudget?: ResultBudget | undefined
  /** ISO 8601. */
  readonly created: string
  readonly expires?: string | undefined
  /** SHA-256 of the whole token, hexadecimal. */
  readonly hash: string
}

/** Creates a token. `text` is shown once and never stored. Times are milliseconds since the epoch. */
export function createToken(
  name: string,
  {
    tags,
    tools,
    resultBudget,
    expires,
    now,
  }: Pick<ClientToken, "tags" | "tools" | "resultBudget"> & { expires?: number | undefined; now: number },
): { readonly token: ClientToken; readonly text: string } {
  const id = randomBytes(6).toString("hex")
  const text = `svc_${id}_${randomBytes(32).toString("base64url")}`
  return {
    text,
    token: {
      id,
      name,
      ...(tags === undefined ? {} : { tags }),
      ...(tools === undefined ? {} : { tools }),
      ...(resultBudget === undefined ? {} : { resultBudget }),
      created: new Date(now).toISOString(),
      ...(expires === undefined ? {} : { expires: new Date(expires).toISOString() }),
      hash: hashOf(text),
    },
  }
}

/** Returns the id in the text of a token; undefined if svc did not create it. */
export const tokenId = (text: string): string | undefined => /^svc_([0-9a-f]{12})_[\w-]{43}$/.exec(text)?.[1]

/** Returns a token's id with its name, for messages, in a form that redaction does not mistake for a token. */
export const describeToken = ({ id, name }: Pick<ClientToken, "id" | "name">): string =>
  name === "" ? `token id ${id}` : `token id ${id} (${name})`

/** Returns the token of a text, or undefined if it is unknown or expired. Compares in constant time. */
export function findToken(
  text: string,
  tokens: ReadonlyMap<string, ClientToken>,
  now: number,
): ClientToken | undefined {
  const id = tokenId(text)
  const token = id === undefined ? undefined : tokens.get(id)
  if (token === undefined) return undefined
  const [actual, expected] = [Buffer.from(hashOf(text), "hex"), Buffer.from(token.hash, "hex")]
  if (actual.length !== expected.length || !timingSafeEqual(actual, expected)) return undefined
  return token.expires !== undefined && Date.parse(token.expires) <= now ? undefined : token
}

/**
 * Reads the tokens of a file by id; none if the file is missing. Throws an UnavailableError that says what to do if other
 * users can read or change the file, or if it is malformed: a foreign file must not grant access.
 */
export function readTokens(file: string, platform: string): ReadonlyMap<string, ClientToken> {
  const text = readPrivate(file, platform)
  return text === undefined ? new Map() : parseTokens(text, file)
}

/** Parses the JSON of a token; returns undefined for any other text. */
export function parseToken(text: string): ClientToken | undefined {
  try {
    return tokenSchema().safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

/** Returns the text of a token file. */
export const printTokens = (tokens: Iterable<ClientToken>): string =>
  `${JSON.stringify({ tokens: [...tokens] }, null, 2)}\n`

/** Returns the token with an id or a name. Throws a RequestError if there is no such token, or more than one. */
export function pickToken(tokens: ReadonlyMap<string, ClientToken>, wanted: string): ClientToken {
  const found = [...tokens.values()].filter(({ id, name }) => id === wanted || name === wanted)
  const [only] = found
  if (only === undefined) throw new RequestError("not_found", `no token has the ID or name ${wanted}`)
  if (found.length > 1)
    throw new RequestError(
      "conflict",
      `${found.length} tokens are named ${wanted}; give an id: ${found.map(({ id }) => id).join(", ")}`,
    )
  return only
}

// ---

/** Parses the text of a file. Throws an UnavailableError. */
function parseTokens(text: string, file: string): ReadonlyMap<string, ClientToken> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new UnavailableError(
      `${file} is not JSON: ${messageOf(cause)}; repair it, or remove it and create new tokens`,
    )
  }
  const parsed = fileSchema().safeParse(value)
  if (!parsed.success)
    throw new UnavailableError(
      `${file}: ${parsed.error.issues[0]?.path.join(".")}: ${parsed.error.issues[0]?.message}; repair it, or remove it and create new tokens`,
    )
  return new Map(parsed.data.tokens.map((token) => [token.id, token]))
}

const tokenSchema = lazy(() =>
  z.object({
    id: z.string().regex(/^[0-9a-f]{12}$/),
    name: z.string(),
    tags: z.array(z.string()).optional(),
    tools: z.enum(TOOL_LISTINGS).optional(),
    resultBudget: z
      .number()
      .int()
      .refine((budget) => budget === 0 || budget >= LEAST_RESULT_BUDGET)
      .optional(),
    created: z.iso.datetime(),
    expires: z.iso.datetime().optional(),
    hash: z.string().regex(/^[0-9a-f]{64}$/),
  }),
)

const fileSchema = lazy(() => z.object({ tokens: z.array(tokenSchema()) }))

const hashOf = (text: string): string => sha256(text, "hex")

/** Reads a file that only its user can read; returns undefined if it is missing. Throws an UnavailableError for any other file. */
function readPrivate(file: string, platform: string): string | undefined {
  const facts = lstatSync(file, { throwIfNoEntry: false })
  if (facts === undefined) return undefined
  if (!facts.isFile()) throw new UnavailableError(`${file} must be a regular file, not a link`)
  if (platform !== "win32" && (facts.mode & 0o077) !== 0)
    throw new UnavailableError(
      `${file} can be read by others; run chmod 600 on it, and revoke its tokens if they may have been read`,
    )
  return readFileSync(file, "utf8")
}
