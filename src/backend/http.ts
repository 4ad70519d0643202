/**
 * What links to remote backends share: requests with credentials, and what is read of their answers.
 *
 *  1. A network failure before any answer means that the peer is gone: the link is lost.
 *  2. Redirects are followed within the origin only: headers may be secrets.
 */
import type { Clock } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import { decode, type RequestIds } from "../wire/frame.ts"
import { createDecoder, type ServerSentEvent } from "../wire/sse.ts"
import { type LinkEvents, type oversize, UnauthorizedError } from "./link.ts"
import { HttpStatusError } from "./negotiate.ts"

/** Credentials for a remote backend, from its OAuth settings. */
export type Credentials = {
  /** The `Authorization` header to send, if there is one. */
  authorization(): Promise<string | undefined>
  /** The one that `authorization` gave last. */
  readonly last: string | undefined
  /** The server has taken a header. */
  accepted(sent: string): void
  /**
   * A 401 or 403 with a challenge to what was sent: true where a retry may succeed. Throws an UnauthorizedError where a
   * person is needed.
   */
  challenged(response: Response, sent: string | undefined): Promise<boolean>
}

export type RemoteEvents = LinkEvents & {
  /** The peer's session was opened anew: what it offers may have changed. */
  onrenewed?(): void
  /** Its own stream was refused for want of authorization. */
  onrefused?(error: UnauthorizedError): void
}

export type RemoteDeps = {
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  readonly clock: Clock
  readonly credentials: Credentials | undefined
  readonly ids: RequestIds
  /** Bytes of one message at most. */
  readonly limit: number
  /** Takes credentials out of a text: a server that refuses a request may repeat its headers. */
  mask(text: string): string
}

/** What a client of either transport takes for an answer. */
export const ACCEPT_JSON_OR_SSE = "application/json, text/event-stream"
/** Bytes of an error's body that are looked at. */
export const MAX_ERROR_BODY = 64 * 1024

/** No answer came at all. */
export class NetworkError extends Error {}

/** A message past the limit. */
export class TooLargeError extends Error {
  override readonly message = "sends too much"
}

/**
 * One request with the credentials of its server, asked for again where they are refused. Throws a NetworkError, an
 * UnauthorizedError where a person is needed, or an HttpStatusError for a redirect that is not followed.
 */
export async function fetchWithCredentials(
  url: string,
  init: RequestInit & { headers: Record<string, string> },
  deps: RemoteDeps,
): Promise<Response> {
  for (let challenges = 0; ; challenges++) {
    const authorization = await deps.credentials?.authorization()
    const headers = authorization === undefined ? init.headers : { ...init.headers, authorization }
    const response = await follow(url, { ...init, headers }, deps)
    if (response.status !== 401 && !(response.status === 403 && response.headers.has("www-authenticate"))) {
      if (authorization !== undefined && response.status < 500) deps.credentials?.accepted(authorization)
      return response
    }
    const again = challenges < MAX_CHALLENGES && (await deps.credentials?.challenged(response, authorization)) === true
    if (again) {
      await response.body?.cancel()
      continue
    }
    if (response.status === 403) return response
    await response.body?.cancel()
    throw new UnauthorizedError("answered 401: it wants authorization")
  }
}

export const mediaType = (response: Response): string =>
  response.headers.get("content-type")?.split(";")[0]?.trim() ?? "no content type"
export const isEventStream = (response: Response): boolean => response.ok && mediaType(response) === "text/event-stream"

/** An error status, with the start of what was said about it. */
export async function statusError(response: Response, deps: RemoteDeps): Promise<HttpStatusError> {
  const body = await readBody(response, MAX_ERROR_BODY).catch(() => new Uint8Array())
  return refusalOf(response, body, deps)
}

/** The same with a body that has been read. */
export function refusalOf({ status }: Response, body: Uint8Array, { mask }: RemoteDeps): HttpStatusError {
  // Masked before it is cut: half a secret would not be known again.
  const text = mask(decode(body.subarray(0, MASKED_BYTES)))
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, SNIPPET_LENGTH)
  return new HttpStatusError(status, `answered ${status}${text === "" ? "" : `: ${text}`}`)
}

/** Reads a stream to its end. One that belongs to a single request ends with an event past the limit. */
export async function readEvents(
  response: Response,
  limit: number,
  emit: (event: ServerSentEvent) => void,
  long: ReturnType<typeof oversize> = REFUSED,
): Promise<void> {
  const feed = createDecoder(emit, limit, long.ondropped, long.onlong)
  for await (const chunk of response.body ?? []) feed(chunk)
}

/** Bun's code (`ConnectionRefused`) says more than its sentence, which names the URL. */
export function reasonOf(cause: unknown): string {
  if (cause instanceof Error && "code" in cause && typeof cause.code === "string") return cause.code
  return messageOf(cause)
}

/** The whole of a body. Throws where it is larger than `limit` bytes. */
export async function readBody(response: Response, limit: number): Promise<Uint8Array> {
  const declared = Number(response.headers.get("content-length") ?? 0)
  if (declared > limit) {
    await response.body?.cancel()
    throw new TooLargeError()
  }
  // What is compressed has another size than it says.
  if (declared > 0 && !response.headers.has("content-encoding")) return response.bytes()
  const parts: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > limit) throw new TooLargeError()
    parts.push(chunk)
  }
  return parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts)
}

// ---

const MAX_REDIRECTS = 3
const MASKED_BYTES = 8 * 1024
const SNIPPET_LENGTH = 200
/** A token that has expired, one that others have renewed meanwhile, and a new one that is refused too. */
const MAX_CHALLENGES = 3

const refuse = () => {
  throw new TooLargeError()
}
const REFUSED = { onlong: refuse, ondropped: refuse }

async function follow(url: string, init: RequestInit, deps: RemoteDeps): Promise<Response> {
  let target = url
  for (let hops = 0; ; hops++) {
    let response: Response
    try {
      response = await deps.fetch(target, { ...init, redirect: "manual" })
    } catch (cause) {
      if (init.signal?.aborted) throw cause
      throw new NetworkError(`cannot be reached: ${reasonOf(cause)}`, { cause })
    }
    if (response.status !== 307 && response.status !== 308) return response
    const next = new URL(response.headers.get("location") ?? "", target)
    await response.body?.cancel()
    if (next.origin !== new URL(url).origin)
      throw new HttpStatusError(
        response.status,
        `redirects to another origin (${next.origin}): put that URL into the configuration`,
      )
    if (hops >= MAX_REDIRECTS)
      throw new HttpStatusError(
        response.status,
        `redirects more than ${MAX_REDIRECTS} times: put the URL where it ends into the configuration`,
      )
    target = next.href
  }
}
