/**
 * The shared parts of transports to remote backends: requests with credentials, and reading of responses.
 *
 *  1. A network failure before any response may mean that the server is gone: the transport is lost if a ping fails likewise.
 *     Some servers reset the connection of one request and answer the others.
 *  2. svc follows redirects only within the origin: headers may be secrets.
 */
import type { Launch } from "../config/server-spec.ts"
import type { Clock } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import { isConnectionRefused, isReset, networkReason, withHosts } from "../lib/network-error.ts"
import { decode, type OfferFrame, type RequestIds } from "../wire/frame.ts"
import { PartialFrame } from "../wire/lines.ts"
import { type ServerSentEvent, SseDecoder } from "../wire/sse.ts"
import {
  HeadersRefusedError,
  type Outgoing,
  type OversizeWatch,
  type TransportEvents,
  UnauthorizedError,
} from "./client-transport.ts"
import { ClosedUnansweredError, type RemoteFetch, type RemoteRequest } from "./http-client.ts"
import { HttpStatusError, LEGACY_ADVICE } from "./negotiate.ts"
import { RemoteResponse, readParts, type TakePart } from "./remote-response.ts"

/** Credentials for a remote backend, from its OAuth settings. */
export type Credentials = {
  /** Returns the `Authorization` header to send, if any. */
  authorization(): Promise<string | undefined>
  /** The header that `authorization` returned last. */
  readonly last: string | undefined
  /**
   * Returns the proof to send with a header that `authorization` returned; undefined unless its token is bound to a key. A
   * proof is for one request. RFC 9449.
   */
  proof(sent: string, method: string, url: string): Promise<string | undefined>
  /** Records the nonce for the next proofs from the response to a request with a proof. */
  noteNonce(response: Response): Promise<void>
  /** Notes that the server accepted a header. */
  accepted(sent: string): void
  /**
   * Handles a 401, or a 403 with a challenge. `sent` is the header of the request. Resolves to true if a retry may succeed.
   * Rejects with an UnauthorizedError if a user must authorize svc.
   */
  challenged(response: Response, sent: string | undefined): Promise<boolean>
}

export type RemoteEvents = TransportEvents & {
  /** The server has sent a comment on a stream, which is no message: it lives. */
  readonly oncomment?: (() => void) | undefined
  /** The server's session was opened again: its lists may have changed. */
  onrenewed?(): void
  /** A request got no response at all: the receiver should ping the server. A ping without a response loses the transport. */
  onsuspect?(): void
  /** The server rejected a request with 400, 404 or 405, as a server of another era does. */
  onrejected?(): void
  /** Whether the tool that a request calls is read-only or idempotent. */
  isSafeCall?(number: number): boolean
  /** The server refused the stream for its own messages with a 401. */
  onrefused?(error: UnauthorizedError): void
}

export type RemoteDeps = {
  readonly fetch: RemoteFetch
  /** Closes the connections of `fetch`. */
  close?(): void
  readonly clock: Clock
  readonly credentials: Credentials | undefined
  readonly ids: RequestIds
  /** The size limit of one message, in bytes. */
  readonly limit: number
  /** Masks credentials in a text: a server that refuses a request may repeat its headers. */
  mask(text: string): string
}

/** A response to a request of svc's own client, or of fetch. */
export type AnyResponse = Response | RemoteResponse

/** The `Accept` header of a POST. basic: Transports, Sending Messages to the Server. */
export const ACCEPT_JSON_OR_SSE = "application/json, text/event-stream"
/** The most bytes that are read of the body of an error response. */
export const MAX_ERROR_BODY = 64 * 1024

/** The request got no response at all. */
export class NetworkError extends Error {}

/** No server has seen the request: nothing listens at the address, or the replica there does not run the server. */
export class NotAcceptedError extends NetworkError {}

/**
 * A response broke off, or cannot be decompressed. Its message is for clients and therefore svc's own: the message of the cause
 * may contain the whole address, whose path and query may be secret.
 */
export class BrokenResponseError extends Error {
  constructor(cause: unknown) {
    super(isReset(cause) ? "closed the connection within its response" : "sent a response that cannot be read", {
      cause,
    })
  }

  /** The cause for the log, if it says more than the message. */
  get detail(): string | undefined {
    return isReset(this.cause) ? undefined : withHosts(messageOf(this.cause))
  }
}

/** The requests of svc's own that show whether a server can be reached. */
export const PINGS: ReadonlySet<string | undefined> = new Set(["ping", "server/discover"])

/**
 * Whether a message may reach the server twice: if it only reads, or says the same again. Of a call, the server's own hints of
 * its tool decide. A response that comes a second time answers nothing.
 */
export const mayRepeat = ({ number, method }: Outgoing, events: RemoteEvents): boolean =>
  method === undefined ||
  REPEATABLE.has(method) ||
  (method === "tools/call" && number !== undefined && events.isSafeCall?.(number) === true)

/** Whether requests in flight could wait for a message: for an answer to the server, a cancellation, a ping or a stream. */
export const isUrgent = ({ number, method }: Outgoing): boolean =>
  number === undefined || PINGS.has(method) || method === "subscriptions/listen"

/** A message past the limit. */
export class TooLargeError extends Error {
  override readonly message = "sent a message past the size limit"
}

/**
 * Sends one request with the server's credentials, and again with new credentials if the server refuses them. Rejects with a
 * NetworkError, with an UnauthorizedError if a user must authorize svc, or with an HttpStatusError for a redirect that svc
 * does not follow.
 */
export async function fetchWithCredentials(url: string, init: RemoteRequest, deps: RemoteDeps): Promise<AnyResponse> {
  for (let challenges = 0; ; challenges++) {
    const authorization = deps.credentials === undefined ? undefined : await deps.credentials.authorization()
    const response = await fetchInOrigin(url, init, deps, authorization)
    if (response.status !== 401 && !(response.status === 403 && response.headers.has("www-authenticate"))) {
      if (authorization !== undefined && response.status < 500) deps.credentials?.accepted(authorization)
      return response
    }
    const again =
      challenges < MAX_CHALLENGES && (await deps.credentials?.challenged(asResponse(response), authorization)) === true
    if (again) {
      await response.body?.cancel()
      continue
    }
    if (response.status === 403) return response
    await response.body?.cancel()
    throw init.headers.authorization === undefined
      ? new UnauthorizedError("answered 401: authorization required")
      : new HeadersRefusedError()
  }
}

/**
 * Sends one request with its configured headers, which may be secrets: follows redirects only within the origin. Every request
 * with configured headers goes through here. Rejects with a NetworkError, or with an HttpStatusError for a redirect that svc
 * does not follow. A redirected response has the final address as its `url`.
 */
export async function fetchInOrigin<R extends AnyResponse>(
  url: string,
  init: RemoteRequest,
  deps: Pick<RemoteDeps, "credentials"> & { readonly fetch: (url: string, init: RemoteRequest) => Promise<R> },
  authorization?: string,
): Promise<R> {
  const method = init.method ?? "GET"
  let target = url
  for (let hops = 0; ; hops++) {
    const headers =
      authorization === undefined
        ? init.headers
        : await authorizedHeaders(init.headers, authorization, method, target, deps)
    let response: R
    try {
      response = await deps.fetch(target, { ...init, headers, redirect: "manual" })
    } catch (cause) {
      if (init.signal?.aborted && !isTimeout(init.signal.reason)) throw cause
      const Failure = isConnectionRefused(cause) ? NotAcceptedError : NetworkError
      const mayHaveRun = cause instanceof ClosedUnansweredError && cause.wasSent && init.mayRepeat?.() === false
      throw new Failure(`${networkReason(target, cause)}${mayHaveRun ? MAY_HAVE_RUN : ""}`, { cause })
    }
    if (headers.dpop !== undefined) await deps.credentials?.noteNonce(asResponse(response))
    const { status } = response
    const location = response.headers.get("location")
    const isMoved = [301, 302, 303].includes(status)
    // Without a location there is nothing to follow: the same request again could run a call again.
    if (location === null || !(isMoved || status === 307 || status === 308)) {
      if (hops > 0) Object.defineProperty(response, "url", { value: target })
      return response
    }
    await response.body?.cancel()
    const next = URL.parse(location, target)
    if (next === null) throw new HttpStatusError(status, "redirects to an invalid address")
    // These make a GET of a POST.
    if (isMoved && method !== "GET") throw movedError(status, new URL(target), next)
    if (next.origin !== new URL(url).origin)
      throw new HttpStatusError(
        status,
        `redirects to another origin (${next.origin}): put that URL into the configuration`,
      )
    if (hops >= MAX_REDIRECTS)
      throw new HttpStatusError(
        status,
        `redirects more than ${MAX_REDIRECTS} times: put the final URL into the configuration`,
      )
    target = next.href
  }
}

/**
 * Sends a request whose response nobody may need any more: checks every UNWANTED_MS whether it `isWanted`, and gives it up
 * otherwise, because it holds a connection. Rejects as `fetchWithCredentials` does.
 */
export async function fetchWhileWanted(
  url: string,
  init: RemoteRequest,
  deps: RemoteDeps,
  isWanted: () => boolean,
): Promise<AnyResponse> {
  const { signal } = init
  const controller = new AbortController()
  const abort = () => controller.abort(signal?.reason)
  let cancel: () => void = () => undefined
  const check = () => {
    cancel = deps.clock.after(UNWANTED_MS, () => {
      if (isWanted()) check()
      else controller.abort(new Error("was not answered in time"))
    })
  }
  check()
  signal?.addEventListener("abort", abort)
  if (signal?.aborted === true) abort()
  try {
    return await fetchWithCredentials(url, { ...init, signal: controller.signal }, deps)
  } finally {
    cancel()
    signal?.removeEventListener("abort", abort)
  }
}

/** Returns the media type of a response in lower case, without parameters; the whole header if it names several types. */
export function mediaType(response: AnyResponse): string {
  const given = response.headers.get("content-type")
  if (given === "application/json" || given === "text/event-stream") return given
  const text = given?.trim().toLowerCase()
  if (text === undefined || text === "") return "no content type"
  // Some proxies add the header again.
  const [type = "", ...others] = text.split(",").map((one) => one.split(";")[0]?.trim())
  return others.every((other) => other === type) ? type : text
}
export const isEventStream = (response: AnyResponse): boolean =>
  response.ok && mediaType(response) === "text/event-stream"

const isWebPage = (response: AnyResponse): boolean => mediaType(response) === "text/html"

/** Returns the error for a success that is not a message, such as the page of a web site. */
export const unexpectedType = (response: AnyResponse): HttpStatusError =>
  new HttpStatusError(
    response.status,
    isWebPage(response)
      ? "answered with a web page, not MCP: is the address right?"
      : `answered ${response.status} with ${mediaType(response)}, not with MCP`,
  )

/** Whether an address looks like one of HTTP+SSE. */
export const endsInSse = (url: string): boolean => /\/sse\/?$/.test(URL.parse(url)?.pathname ?? "")

/** Returns advice about a remote server that does not answer, as the end of a message; "" if there is none. */
export function silenceAdvice(launch: Launch): string {
  if (launch.transport === "stdio") return ""
  if (launch.transport === "http" && endsInSse(launch.url)) return SSE_ADVICE
  return launch.mode === "auto" && launch.transport !== "sse" ? `; ${LEGACY_ADVICE}` : ""
}

/** Advice about an address that looks like one of HTTP+SSE, as the end of a message. */
export const SSE_ADVICE = '; if it speaks HTTP+SSE, set "type": "sse"'

/** Returns advice about a status with which a server refuses every request, as the end of a message; "" for other statuses. */
export function statusHint({ status }: HttpStatusError, headers: Readonly<Record<string, string>>): string {
  switch (status) {
    case 403:
      return headers.authorization === undefined
        ? "; it refuses access: does it need headers.Authorization?"
        : "; it refuses access: check headers.Authorization"
    case 404:
    case 405:
    case 410:
      return '; no MCP at this address: most end in "mcp" or "sse"'
    default:
      return ""
  }
}

/** Returns the error of an error status, with the start of the response's body. */
export async function statusError(response: AnyResponse, deps: RemoteDeps): Promise<HttpStatusError> {
  const body = await readBody(response, MAX_ERROR_BODY).catch(() => new Uint8Array())
  return statusErrorWith(response, body, deps)
}

/** Returns the error of an error status, with the start of `body`, except for a web page, whose text explains nothing. */
export function statusErrorWith(response: AnyResponse, body: Uint8Array, { mask }: RemoteDeps): HttpStatusError {
  const { status } = response
  // Masks the whole text, and without the NULs of UTF-16: the redactor would not recognize a part of a secret.
  const words = mask(decode(body).replaceAll("\0", "")).replace(/\s+/g, " ").trim()
  const text = isWebPage(response) || /^<(?:!doctype|html|\?xml)/i.test(words) ? "" : words.slice(0, SNIPPET_LENGTH)
  return new HttpStatusError(status, `answered ${status}${text === "" ? "" : `: ${text}`}`)
}

/**
 * Reads an event stream to its end. Rejects with a BrokenResponseError, and without `watch` with a TooLargeError for an event
 * past the limit: the stream belongs to a single request.
 */
export async function readEvents(
  response: AnyResponse,
  limit: number,
  onevent: (event: ServerSentEvent) => void,
  watch: OversizeWatch = REJECT_OVERSIZE,
  { onlarge, oncomment }: Pick<RemoteEvents, "onlarge" | "oncomment"> = {},
): Promise<void> {
  const { ondropped, onlong } = watch
  const decoder = new SseDecoder({ onevent, limit, ondropped, onlong, onlarge, oncomment })
  try {
    await readChunks(response, (chunk) => decoder.push(chunk))
  } finally {
    decoder.fail("closed the stream within an answer")
  }
}

/** Types a frame as a body of fetch, whose types exclude shared memory: frames are never in shared memory. */
export const bodyOf = (frame: Uint8Array | string) => frame as Uint8Array<ArrayBuffer> | string

/** Reads a whole body. Rejects with a TooLargeError past `limit` bytes, or with a BrokenResponseError. */
export async function readBody(response: AnyResponse, limit: number): Promise<Uint8Array<ArrayBuffer>> {
  const read = await readFrame(response, limit, undefined)
  return read ?? new Uint8Array()
}

/** Reads a body that is one frame; resolves with undefined if `onlarge` takes it. Rejects as `readBody` does. */
export async function readFrame(
  response: AnyResponse,
  limit: number,
  onlarge: OfferFrame | undefined,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const whole = response instanceof RemoteResponse ? response.whole : undefined
  if ((whole?.length ?? Number(response.headers.get("content-length") ?? 0)) > limit) {
    await response.body?.cancel()
    throw new TooLargeError()
  }
  if (whole !== undefined) return whole as Uint8Array<ArrayBuffer>
  const frame = new PartialFrame(limit, rejectOversize, onlarge)
  await readChunks(response, (chunk) => frame.push(chunk))
  const ended = frame.end()
  return ended.kind === "whole" ? (ended.frame as Uint8Array<ArrayBuffer>) : undefined
}

// ---

const MAY_HAVE_RUN = "; it may have executed the request, so svc has not sent it again"
/** The requests and notifications that may reach a server twice. */
const REPEATABLE: ReadonlySet<string> = new Set([
  "initialize",
  "ping",
  "server/discover",
  "tools/list",
  "prompts/list",
  "prompts/get",
  "resources/list",
  "resources/templates/list",
  "resources/read",
  "resources/subscribe",
  "resources/unsubscribe",
  "subscriptions/listen",
  "completion/complete",
  "logging/setLevel",
  "tasks/get",
  "tasks/list",
  "tasks/result",
  "tasks/cancel",
  "notifications/initialized",
  "notifications/cancelled",
  "notifications/progress",
  "notifications/roots/list_changed",
])
const MAX_REDIRECTS = 3
/** Servers answer a notification at once. */
const UNWANTED_MS = 60_000
const SNIPPET_LENGTH = 200
/**
 * One for an expired token, one for a token that another request has renewed meanwhile, one for a refused new token, and one
 * for a proof without the server's nonce.
 */
const MAX_CHALLENGES = 4

/** Returns the headers of one request with an `Authorization` header, and with a proof if its token is bound to a key. */
async function authorizedHeaders(
  headers: Readonly<Record<string, string>>,
  authorization: string,
  method: string,
  url: string,
  { credentials }: Pick<RemoteDeps, "credentials">,
): Promise<Record<string, string>> {
  const dpop = await credentials?.proof(authorization, method, url)
  return { ...headers, authorization, ...(dpop === undefined ? {} : { dpop }) }
}

const asResponse = (response: AnyResponse): Response =>
  response instanceof RemoteResponse ? response.response : response

function rejectBroken(cause: unknown): never {
  throw new BrokenResponseError(cause)
}

/** Reads a body to its end. `take` may ask to wait by a promise. Rejects with a BrokenResponseError, or with what `take` throws. */
async function readChunks(response: AnyResponse, take: TakePart): Promise<void> {
  let isTaking = false
  const noted: TakePart = (part) => {
    isTaking = true
    const waiting = take(part)
    if (waiting === undefined) isTaking = false
    return waiting?.then(() => {
      isTaking = false
    })
  }
  try {
    await (response instanceof RemoteResponse ? response.read(noted) : readParts(response, noted))
  } catch (error) {
    if (isTaking) throw error
    rejectBroken(error)
  }
}

const rejectOversize = () => {
  throw new TooLargeError()
}
const REJECT_OVERSIZE: OversizeWatch = { onlong: rejectOversize, ondropped: rejectOversize }

const isTimeout = (reason: unknown): boolean => reason instanceof Error && reason.name === "TimeoutError"

/** Returns the error of a redirect that makes a GET of a POST. */
const movedError = (status: number, from: URL, to: URL): HttpStatusError =>
  new HttpStatusError(status, `redirects ${differenceOf(from, to)}`)

/** Returns where an address differs from another, and what to do. Names no path, which may be secret. */
function differenceOf(from: URL, to: URL): string {
  if (from.host !== to.host) return `to ${to.host}: use that address`
  if (from.protocol !== to.protocol) return `to ${to.protocol.slice(0, -1)}: write ${to.protocol}// in url`
  if (to.pathname === `${from.pathname}/`) return "to the same path with a slash at its end: add the slash to url"
  if (from.pathname === `${to.pathname}/`) return "to the same path without its last slash: remove the slash from url"
  const what = from.pathname === to.pathname ? "the same path with another query" : "another path"
  return `to ${what} on ${to.host}: put the URL of its Location header into the configuration`
}
