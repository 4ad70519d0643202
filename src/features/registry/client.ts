/**
 * The client of one MCP registry: the published HTTP API, version 0.1. Uses a cached answer while it is fresh, revalidates it
 * with its ETag after that, and uses it at any age if the registry cannot be reached.
 */
import { type RegistrySource, registrySecrets } from "../../config/registries.ts"
import type { Clock } from "../../lib/clock.ts"
import { parseIfJson } from "../../lib/json.ts"
import { networkReason } from "../../lib/network-error.ts"
import { createRedactor } from "../../lib/redact.ts"
import { isObject, type Params } from "../../wire/message.ts"
import type { RegistryCache } from "./cache.ts"
import { type RegistryEntry, readEntry } from "./entry.ts"

/** A registry failed, and the cache has no answer. */
export class RegistryError extends Error {
  override readonly name = "RegistryError"
  constructor(
    readonly registry: string,
    message: string,
    /** Whether no answer came at all, as without a network. */
    readonly isUnreachable = false,
  ) {
    super(`registry ${registry}: ${message}`)
  }
}

export type RegistryClientDeps = {
  readonly clock: Clock
  readonly cache: RegistryCache
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
}

/** A response, possibly from the cache. */
export type CachedAnswer<T> = {
  readonly value: T
  /** Age in milliseconds, and why the answer is not current; undefined if it is fresh or was just confirmed. */
  readonly stale: { readonly age: number; readonly reason: string } | undefined
}

export type RegistryPage = { readonly entries: readonly RegistryEntry[]; readonly nextCursor: string | undefined }

/** Returns one page of the latest versions of all servers, by name, or of the registry's search for `search`. */
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

/** Returns one version of a server, or `latest`; undefined if the registry does not have it. */
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
    if (entry === undefined) throw new RegistryError(source.name, "sent an invalid server entry")
    return entry
  })
}

/** Returns all versions of a server in the registry's order; none if the registry does not have it. */
export async function listVersions(
  source: RegistrySource,
  name: string,
  deps: RegistryClientDeps,
): Promise<CachedAnswer<readonly RegistryEntry[]>> {
  return get(source, `/servers/${inPath(name)}/versions`, deps, (body) =>
    body === undefined ? [] : readPage(body, source).entries,
  )
}

/** Returns the response time of a registry, in milliseconds. Throws a RegistryError if it does not answer. */
export async function ping(source: RegistrySource, deps: RegistryClientDeps): Promise<number> {
  const { clock } = deps
  const started = clock.now()
  await ask(source, "/servers?limit=1", {}, deps)
  return clock.now() - started
}

// ---

const TIMEOUT_MS = 10_000
const FRESH_MS = 5 * 60_000
/** The list of all servers takes many requests and only supplements a search. */
const LISTING_FRESH_MS = 60 * 60_000
const MAX_BYTES = 8 * 1024 * 1024

/** Reads a page. Throws a RegistryError if the answer is not a list. */
function readPage(value: unknown, { name }: RegistrySource): RegistryPage {
  if (!isObject(value) || !Array.isArray(value.servers)) throw new RegistryError(name, "sent an invalid list")
  const entries = value.servers.flatMap((one: unknown) => readEntry(one, name) ?? [])
  const next = isObject(value.metadata) ? (value.metadata.nextCursor ?? value.metadata.next_cursor) : undefined
  return { entries, nextCursor: typeof next === "string" && next !== "" ? next : undefined }
}

/** Gets a path and parses the answer with `read`, which gets undefined for 404. Does not cache an answer that `read` rejects. */
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
    const response = await ask(source, path, known?.etag === undefined ? {} : { "if-none-match": known.etag }, deps)
    if (response.status === 404) return { value: read(undefined), stale: undefined }
    const body = response.status === 304 ? known?.body : response.body
    const value = read(body)
    cache.set({ url, etag: response.etag ?? known?.etag, at: clock.now(), body })
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
  // A registry may repeat its headers. Masks a text before it is cut: the redactor would not recognize half a secret.
  const masked = (text: string) => createRedactor(registrySecrets(source)).maskCredentials(text)
  const timeout = new AbortController()
  const cancel = deps.clock.after(TIMEOUT_MS, () => timeout.abort())
  let response: Response
  let text: string
  try {
    response = await deps.fetch(addressOf(source, path), {
      headers: { accept: "application/json", ...source.headers, ...headers },
      signal: timeout.signal,
      // The headers may hold credentials for this registry only.
      redirect: "manual",
    })
    text = await readText(response)
  } catch (error) {
    const reason = timeout.signal.aborted
      ? `did not answer within ${TIMEOUT_MS / 1000} s`
      : masked(networkReason(addressOf(source, path), error))
    throw new RegistryError(source.name, reason, true)
  } finally {
    cancel()
  }
  const { status } = response
  const location = response.headers.get("location")
  if (status >= 300 && status < 400 && location !== null)
    throw fail(`redirects to ${masked(location).slice(0, 200)}; if that is correct, make it the url of the registry`)
  const etag = response.headers.get("etag") ?? undefined
  if (status === 304 || status === 404) return { status, etag, body: {} }
  if (!response.ok) throw fail(`answered HTTP ${status}`)
  const type = response.headers.get("content-type") ?? ""
  if (!/\bjson\b/i.test(type)) throw fail(`answered ${masked(type).slice(0, 80) || "no content type"} instead of JSON`)
  const body = parseIfJson(text)
  if (isObject(body)) return { status, etag, body }
  throw fail("sent an answer that is not a JSON object")
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
