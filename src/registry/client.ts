/**
 * One MCP registry over HTTP: the published API, version 0.1. An answer is taken from the cache while it is fresh, asked
 * for again with its ETag after that, and from the cache whatever its age where the registry cannot be reached.
 */
import type { RegistrySource } from "../config/registries.ts"
import type { Clock } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { RegistryCache } from "./cache.ts"
import { type RegistryEntry, readEntry } from "./entry.ts"

/** The registry could not be asked, and nothing was known. */
export class RegistryError extends Error {
  override readonly name = "RegistryError"
  constructor(
    readonly registry: string,
    message: string,
  ) {
    super(`${registry}: ${message}`)
  }
}

export type RegistryClientDeps = {
  readonly clock: Clock
  readonly cache: RegistryCache
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
}

export type CachedAnswer<T> = {
  readonly value: T
  /** How old it is, milliseconds, and why it is not new; undefined where the registry has just said so. */
  readonly stale: { readonly age: number; readonly reason: string } | undefined
}

export type RegistryPage = { readonly entries: readonly RegistryEntry[]; readonly nextCursor: string | undefined }

/** One page of all servers in their latest version, by name, or of those in which the registry finds `search`. */
export async function listServers(
  source: RegistrySource,
  { search, cursor, limit }: { readonly search?: string; readonly cursor?: string | undefined; readonly limit: number },
  deps: RegistryClientDeps,
): Promise<CachedAnswer<RegistryPage>> {
  const query = new URLSearchParams({ version: "latest", limit: String(limit) })
  if (search !== undefined) query.set("search", search)
  if (cursor !== undefined) query.set("cursor", cursor)
  const fresh = search === undefined ? LISTING_FRESH_MS : FRESH_MS
  return get(source, `/servers?${query}`, deps, (body) => readPage(body, source), fresh)
}

/** One version of a server, or `latest`; undefined where the registry does not have it. */
export async function getVersion(
  source: RegistrySource,
  name: string,
  version: string,
  deps: RegistryClientDeps,
): Promise<CachedAnswer<RegistryEntry | undefined>> {
  const path = `/servers/${inPath(name)}/versions/${inPath(version)}`
  return get(source, path, deps, (body) => {
    if (body === undefined) return undefined
    const entry = readEntry(body, source.name)
    if (entry === undefined) throw new RegistryError(source.name, "answered something that is no server")
    return entry
  })
}

/** All versions of a server, as the registry orders them; none where it does not have it. */
export async function listVersions(
  source: RegistrySource,
  name: string,
  deps: RegistryClientDeps,
): Promise<CachedAnswer<readonly RegistryEntry[]>> {
  return get(source, `/servers/${inPath(name)}/versions`, deps, (body) =>
    body === undefined ? [] : readPage(body, source).entries,
  )
}

/** How long the registry takes to answer, milliseconds. Throws a RegistryError where it does not. */
export async function ping(source: RegistrySource, deps: RegistryClientDeps): Promise<number> {
  const { clock } = deps
  const started = clock.now()
  await ask(source, "/servers?limit=1", {}, deps)
  return clock.now() - started
}

// ---

const TIMEOUT_MS = 10_000
const FRESH_MS = 5 * 60_000
/** The listing of all is many requests, and only helps a search. */
const LISTING_FRESH_MS = 60 * 60_000
const MAX_BYTES = 8 * 1024 * 1024

/** Throws a RegistryError where it is no list. */
function readPage(value: unknown, { name }: RegistrySource): RegistryPage {
  if (!isObject(value) || !Array.isArray(value.servers))
    throw new RegistryError(name, "answered something that is no list")
  const entries = value.servers.flatMap((one: unknown) => readEntry(one, name) ?? [])
  const next = isObject(value.metadata) ? (value.metadata.nextCursor ?? value.metadata.next_cursor) : undefined
  return { entries, nextCursor: typeof next === "string" && next !== "" ? next : undefined }
}

/** What `read` makes of the answer (undefined for 404). It throws before anything is kept that is none. */
async function get<T>(
  source: RegistrySource,
  path: string,
  deps: RegistryClientDeps,
  read: (body: unknown) => T,
  fresh = FRESH_MS,
): Promise<CachedAnswer<T>> {
  const { clock, cache } = deps
  const url = addressOf(source, path)
  const known = cache.get(url)
  if (known !== undefined && clock.now() - known.at < fresh) return { value: read(known.body), stale: undefined }
  try {
    const asked = await ask(source, path, known?.etag === undefined ? {} : { "if-none-match": known.etag }, deps)
    if (asked.status === 404) return { value: read(undefined), stale: undefined }
    const body = asked.status === 304 ? known?.body : asked.body
    const value = read(body)
    cache.set({ url, etag: asked.etag ?? known?.etag, at: clock.now(), body })
    return { value, stale: undefined }
  } catch (error) {
    if (!(error instanceof RegistryError) || known === undefined) throw error
    return { value: read(known.body), stale: { age: clock.now() - known.at, reason: error.message } }
  }
}

const inPath = (text: string): string => encodeURIComponent(text.toWellFormed())

const addressOf = ({ url }: RegistrySource, path: string): string =>
  `${url.replace(/\/+$/, "").replace(/\/v0(\.1)?$/, "")}/v0.1${path}`

type RegistryResponse = { readonly status: number; readonly etag: string | undefined; readonly body: Params }

async function ask(
  source: RegistrySource,
  path: string,
  headers: Readonly<Record<string, string>>,
  deps: RegistryClientDeps,
): Promise<RegistryResponse> {
  const fail = (message: string) => new RegistryError(source.name, message)
  const late = new AbortController()
  const cancel = deps.clock.after(TIMEOUT_MS, () => late.abort())
  let response: Response
  let text: string
  try {
    response = await deps.fetch(addressOf(source, path), {
      headers: { accept: "application/json", ...source.headers, ...headers },
      signal: late.signal,
      // The headers are this registry's: wherever it sends svc may be somebody else.
      redirect: "manual",
    })
    text = await readText(response)
  } catch (error) {
    throw fail(
      late.signal.aborted ? `did not answer within ${TIMEOUT_MS / 1000} s` : `cannot be reached: ${messageOf(error)}`,
    )
  } finally {
    cancel()
  }
  const { status } = response
  const elsewhere = response.headers.get("location")
  if (status >= 300 && status < 400 && elsewhere !== null)
    throw fail(`sends svc on to ${elsewhere.slice(0, 200)}; if that is right, name it as the registry's url`)
  const etag = response.headers.get("etag") ?? undefined
  if (status === 304 || status === 404) return { status, etag, body: {} }
  if (!response.ok) throw fail(`answered with HTTP ${status}`)
  const type = response.headers.get("content-type") ?? ""
  if (!/\bjson\b/i.test(type)) throw fail(`answered with ${type.slice(0, 80) || "no content type"} instead of JSON`)
  try {
    const body: unknown = JSON.parse(text)
    if (isObject(body)) return { status, etag, body }
  } catch {
    // Said below.
  }
  throw fail("answered with something that is no JSON object")
}

async function readText(response: Response): Promise<string> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > MAX_BYTES) throw new Error(`the answer is larger than ${MAX_BYTES} bytes`)
    parts.push(chunk)
  }
  return Buffer.concat(parts).toString("utf8")
}
