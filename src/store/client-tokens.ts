/**
 * Static bearer tokens of clients, kept as hashes in `tokens.json` of the configuration directory, readable by its user
 * alone. A token is `svc_<id>_<secret>`: the id finds the entry; the secret has 256 random bits, so that a plain hash is
 * enough. The ids of revoked tokens stay in the file for a while: other replicas of a cluster may not know of it yet, and an
 * entry that comes back with such an id, from a backup or from them, is refused.
 */
import { randomBytes, timingSafeEqual } from "node:crypto"
import { lstatSync, readFileSync } from "node:fs"
import { isDeepStrictEqual } from "node:util"
import * as z from "zod"
import { LEAST_RESULT_BUDGET, type ResultBudget } from "../config/result-budget.ts"
import { TOOL_LISTINGS, type ToolListing } from "../config/tool-listing.ts"
import { sha256 } from "../lib/digest.ts"
import { messageOf, RequestError, UnavailableError } from "../lib/errors.ts"
import { parseIfJson } from "../lib/json.ts"
import { lazy } from "../lib/lazy.ts"
import { unknownNameError } from "../lib/nearest.ts"

export type ClientToken = {
  readonly id: string
  readonly name: string
  /** Tags of the servers that it gives access to; undefined for all. */
  readonly tags?: readonly string[] | undefined
  /** The presets to which its holder is bound. Its tags are empty if none are given, so that an older svc gives it access to no server. */
  readonly presets?: readonly string[] | undefined
  /** Whether it gives access only to `/metrics`. Its tags are empty, so that an older svc gives it access to no server. */
  readonly metricsOnly?: true | undefined
  /** The tools that views list to the token's holder, unless the address states it. */
  readonly tools?: ToolListing | undefined
  /** The limit of results for the token's holder, unless the preset of the address states one. */
  readonly resultBudget?: ResultBudget | undefined
  /** ISO 8601. */
  readonly created: string
  readonly expires?: string | undefined
  /** SHA-256 of the whole token, hexadecimal. */
  readonly hash: string
  /** ISO 8601: when a replica of a cluster noticed the last change of this entry. */
  readonly changed?: string | undefined
}

/** What the file holds. */
export type TokenFile = {
  /** By id, without those that are revoked. */
  readonly tokens: ReadonlyMap<string, ClientToken>
  /** Ids of revoked tokens, with the time until which they are kept, in milliseconds since the epoch. */
  readonly revoked: ReadonlyMap<string, number>
}

export const NO_TOKENS: TokenFile = { tokens: new Map(), revoked: new Map() }

/** Creates a token. `text` is shown once and kept nowhere. Times are milliseconds since the epoch. */
export function createToken(
  name: string,
  {
    tags,
    presets,
    metricsOnly,
    tools,
    resultBudget,
    expires,
    now,
  }: Pick<ClientToken, "tags" | "presets" | "metricsOnly" | "tools" | "resultBudget"> & {
    expires?: number | undefined
    now: number
  },
): { readonly token: ClientToken; readonly text: string } {
  const id = randomBytes(6).toString("hex")
  const text = `svc_${id}_${randomBytes(32).toString("base64url")}`
  return {
    text,
    token: {
      id,
      name,
      ...(tags === undefined && presets === undefined ? {} : { tags: tags ?? [] }),
      ...(presets === undefined ? {} : { presets }),
      ...(metricsOnly === undefined ? {} : { tags: [], metricsOnly }),
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

/** Whether two entries are the same; when they changed does not count. */
export const isSameToken = (one: ClientToken | undefined, other: ClientToken | undefined): boolean =>
  isDeepStrictEqual({ ...one, changed: undefined }, { ...other, changed: undefined })

/**
 * Returns until when the id of a token that is revoked now is kept: until the token would have expired, and for a year if it
 * would not.
 */
export const revokedUntil = ({ expires }: Pick<ClientToken, "expires">, now: number): number =>
  // A day at least: replicas that are away for a while hear of it, and clocks differ.
  expires === undefined ? now + YEAR_MS : Math.max(Date.parse(expires), now + DAY_MS)

/** Returns a file with other tokens. Those that it no longer has are revoked. */
export function replaceTokens(
  { tokens, revoked }: TokenFile,
  next: ReadonlyMap<string, ClientToken>,
  now: number,
): TokenFile {
  const removed = [...tokens.values()].filter(({ id }) => !next.has(id))
  const kept = [...revoked].filter(([, until]) => until > now)
  return {
    tokens: next,
    revoked: new Map([...kept, ...removed.map((one) => [one.id, revokedUntil(one, now)] as const)]),
  }
}

/**
 * Reads the tokens of a file; none if the file is missing. Throws an UnavailableError that says what to do if other
 * users can read or change the file, or if it is malformed: a foreign file must not grant access.
 */
export function readTokens(file: string, platform: string): TokenFile {
  const text = readPrivate(file, platform)
  return text === undefined ? NO_TOKENS : parseTokens(text, file)
}

/** Returns what an error of `readTokens` means for clients. */
export const refusedTokens = (error: unknown): string => `all tokens are refused: ${messageOf(error)}`

/** Parses the JSON of a token; returns undefined for any other text. */
export const parseToken = (text: string): ClientToken | undefined => tokenSchema().safeParse(parseIfJson(text)).data

/** Returns the text of a file. */
export function printTokens({ tokens, revoked }: TokenFile): string {
  const ends = [...revoked].map(([id, until]) => ({ id, until: new Date(until).toISOString() }))
  const content = { tokens: [...tokens.values()], ...(ends.length === 0 ? {} : { revoked: ends }) }
  return `${JSON.stringify(content, null, 2)}\n`
}

/** Returns the token with an id or a name. Throws a RequestError if there is no such token, or more than one. */
export function pickToken(tokens: ReadonlyMap<string, ClientToken>, wanted: string): ClientToken {
  const found = [...tokens.values()].filter(({ id, name }) => id === wanted || name === wanted)
  const [only] = found
  if (only === undefined)
    throw unknownNameError(
      "token",
      wanted,
      [...tokens.values()].map(({ id, name }) => name || id),
    )
  if (found.length > 1)
    throw new RequestError(
      "conflict",
      `${found.length} tokens are named ${wanted}; give an id: ${found.map(({ id }) => id).join(", ")}`,
    )
  return only
}

// ---

/** Parses the text of a file. Throws an UnavailableError. */
function parseTokens(text: string, file: string): TokenFile {
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
  const revoked = new Map((parsed.data.revoked ?? []).map(({ id, until }) => [id, Date.parse(until)]))
  return {
    tokens: new Map(parsed.data.tokens.flatMap((token) => (revoked.has(token.id) ? [] : [[token.id, token]]))),
    revoked,
  }
}

const DAY_MS = 24 * 3_600_000
const YEAR_MS = 365 * DAY_MS
const ID = /^[0-9a-f]{12}$/

const tokenSchema = lazy(() =>
  z.object({
    id: z.string().regex(ID),
    name: z.string(),
    tags: z.array(z.string()).optional(),
    presets: z.array(z.string()).min(1).optional(),
    metricsOnly: z.literal(true).optional(),
    tools: z.enum(TOOL_LISTINGS).optional(),
    resultBudget: z
      .number()
      .int()
      .refine((budget) => budget === 0 || budget >= LEAST_RESULT_BUDGET)
      .optional(),
    created: z.iso.datetime(),
    expires: z.iso.datetime().optional(),
    hash: z.string().regex(/^[0-9a-f]{64}$/),
    changed: z.iso.datetime().optional(),
  }),
)

const fileSchema = lazy(() =>
  z.object({
    tokens: z.array(tokenSchema()),
    revoked: z.array(z.object({ id: z.string().regex(ID), until: z.iso.datetime() })).optional(),
  }),
)

const hashOf = (text: string): string => sha256(text, "hex")

/** Reads a file that only its user can read; returns undefined if it is missing. Throws an UnavailableError for any other file. */
export function readPrivate(file: string, platform: string): string | undefined {
  const facts = lstatSync(file, { throwIfNoEntry: false })
  if (facts === undefined) return undefined
  if (!facts.isFile()) throw new UnavailableError(`${file} must be a regular file, not a link`)
  if (platform !== "win32" && (facts.mode & 0o077) !== 0)
    throw new UnavailableError(
      `${file} can be read by others; run chmod 600 on it, and revoke its tokens if they may have been read`,
    )
  return readFileSync(file, "utf8")
}
