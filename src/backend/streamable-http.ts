/**
 * Links over Streamable HTTP, to legacy sessions and with modern requests. basic: Transports, Streamable HTTP.
 *
 *  1. A stream that breaks in the middle costs only its request.
 *  2. A session the peer has forgotten (404; many say 400) is opened again, once for all who find it so, and the request
 *     sent once more, for it was never executed. Nothing else is ever sent twice.
 */
import type { RemoteLaunch } from "../config/server-spec.ts"
import { delay } from "../lib/clock.ts"
import { type Era, MODERN_VERSION } from "../wire/era.ts"
import { decode } from "../wire/frame.ts"
import { asText, isObject } from "../wire/message.ts"
import type { ServerSentEvent } from "../wire/sse.ts"
import {
  ACCEPT_JSON_OR_SSE,
  fetchWithCredentials,
  isEventStream,
  MAX_ERROR_BODY,
  mediaType,
  NetworkError,
  type RemoteDeps,
  type RemoteEvents,
  readBody,
  readEvents,
  refusalOf,
  statusError,
  TooLargeError,
} from "./http.ts"
import { type Link, type Outgoing, UnauthorizedError } from "./link.ts"
import { HttpStatusError } from "./negotiate.ts"

/** A link over Streamable HTTP. `events` hear of its failures: it is there at once. */
export function openStreamable(launch: RemoteLaunch, events: RemoteEvents, deps: RemoteDeps): Link {
  const requests = new Map<number, AbortController>()
  const whole = new AbortController()
  let session: string | undefined
  let settled: { era: Era; protocolVersion: string } | undefined
  let opening: Uint8Array | string | undefined
  let renewing: Promise<void> | undefined
  let closed = false

  const lose = (reason: string) => {
    if (closed) return
    closed = true
    whole.abort()
    events.onclose({ reason })
  }

  const headersFor = (about: Outgoing | undefined, accept: string): Record<string, string> => {
    const headers: Record<string, string> = { ...launch.headers, accept }
    const modern = settled === undefined ? about?.method === "server/discover" : settled.era === "modern"
    if (modern) {
      headers["mcp-protocol-version"] = settled?.protocolVersion ?? MODERN_VERSION
      if (about?.method !== undefined) headers["mcp-method"] = about.method
      Object.assign(headers, about?.headers)
    } else if (settled !== undefined && settled.protocolVersion >= "2025-06-18") {
      headers["mcp-protocol-version"] = settled.protocolVersion
    }
    if (session !== undefined && !modern && about?.method !== "initialize") headers["mcp-session-id"] = session
    return headers
  }

  const post = async (frame: Uint8Array | string, about: Outgoing, signal: AbortSignal): Promise<Response> => {
    const headers = { ...headersFor(about, ACCEPT_JSON_OR_SSE), "content-type": "application/json" }
    return fetchWithCredentials(launch.url, { method: "POST", headers, body: frame, signal }, deps)
  }

  /** Opens the session again with the frames it was opened with first, unless another request has done so already. */
  const renew = async (lost: string): Promise<void> => {
    if (session !== lost) return renewing
    renewing ??= (async () => {
      const about = { number: undefined, method: "initialize" }
      const response = await post(opening ?? "", about, whole.signal)
      if (!response.ok) throw await statusError(response, deps)
      session = response.headers.get("mcp-session-id") ?? undefined
      await response.body?.cancel()
      const initialized = '{"jsonrpc":"2.0","method":"notifications/initialized"}'
      await (
        await post(initialized, { number: undefined, method: "notifications/initialized" }, whole.signal)
      ).body?.cancel()
      events.onrenewed?.()
    })().finally(() => {
      renewing = undefined
    })
    return renewing
  }

  /** Reads one request's stream to its end and, where the peer can resume it, its continuation. */
  const readStream = async (first: Response, number: number | undefined, signal: AbortSignal): Promise<void> => {
    let response = first
    for (let attempt = 0; ; attempt++) {
      const tail = { id: undefined as string | undefined, retry: DEFAULT_RETRY_MS }
      const take = (event: ServerSentEvent) => {
        if (event.id !== undefined) tail.id = event.id
        if (event.retry !== undefined) tail.retry = Math.max(event.retry, MIN_RETRY_MS)
        if (event.data !== undefined && event.data.length > 0) events.onframe(event.data, number)
      }
      await readEvents(response, deps.limit, take).catch((error: unknown) => {
        if (tail.id === undefined || error instanceof TooLargeError) throw error
      })
      const waiting = number !== undefined && requests.has(number) && events.isPending?.(number) === true
      if (!waiting || tail.id === undefined || settled?.era === "modern" || attempt >= MAX_RESUMES) return
      await delay(deps.clock, tail.retry, signal)
      const headers = { ...headersFor(undefined, "text/event-stream"), "last-event-id": tail.id }
      response = await fetchWithCredentials(launch.url, { method: "GET", headers, signal }, deps)
      if (!isEventStream(response)) return void response.body?.cancel()
    }
  }

  const deliver = async (frame: Uint8Array | string, about: Outgoing): Promise<void> => {
    const { number } = about
    const controller = new AbortController()
    const abort = () => controller.abort()
    whole.signal.addEventListener("abort", abort)
    if (number !== undefined) requests.set(number, controller)
    try {
      if (about.method === "initialize") opening = frame
      else await renewing
      const used = session
      let response = await post(frame, about, controller.signal)
      if (used !== undefined && about.method !== "initialize" && (await isForgotten(response))) {
        await response.body?.cancel()
        await renew(used)
        response = await post(frame, about, controller.signal)
      }
      if (about.method === "initialize") session = response.headers.get("mcp-session-id") ?? undefined
      if (about.method === "notifications/initialized" && response.ok) void listen()
      if (number === undefined) return void (await response.body?.cancel())
      if (!response.ok) return void (await refuse(response, number))
      const streams = isEventStream(response)
      if (streams) await readStream(response, number, controller.signal)
      else if (isJson(response)) events.onframe(await readBody(response, deps.limit), number)
      else {
        await response.body?.cancel()
        throw new HttpStatusError(response.status, `answered ${response.status} with ${mediaType(response)}`)
      }
      // A request that has its answer has not failed, and counts against nobody's health.
      if (events.isPending?.(number) !== false)
        events.onfail?.(
          number,
          new Error(streams ? "closed the stream without an answer" : "sent a body without an answer"),
        )
    } catch (error) {
      if (controller.signal.aborted) return
      // It says nothing of the server's health.
      if (error instanceof TooLargeError) return events.ondropped(new Uint8Array(), number)
      if (number !== undefined) events.onfail?.(number, error instanceof Error ? error : new Error(String(error)))
      if (error instanceof NetworkError) lose(error.message)
    } finally {
      whole.signal.removeEventListener("abort", abort)
      if (number !== undefined) requests.delete(number)
    }
  }

  /** An error status: a JSON-RPC error in its body counts, but not where it could be mistaken for a sign of an era. */
  const refuse = async (response: Response, number: number): Promise<void> => {
    const body = await readBody(response, MAX_ERROR_BODY).catch(() => new Uint8Array())
    const evidence = settled !== undefined || (response.status !== 403 && response.status < 500)
    const error = errorIn(body)
    // What it says of its session with svc, a client would take for its own session.
    const ofSession = settled !== undefined && error?.id == null && /session/i.test(asText(error?.message))
    if (evidence && error !== undefined && !ofSession) events.onframe(body, number)
    // An error under another id answers nothing.
    if (events.isPending?.(number) === false) return
    throw refusalOf(response, body, deps)
  }

  /** The stream for what the server says of its own accord. Only legacy peers have it, and not all of them. */
  const listen = async (): Promise<void> => {
    let wait = DEFAULT_RETRY_MS
    let lastId: string | undefined
    while (!closed) {
      try {
        await renewing
        const used = session
        const headers = headersFor(undefined, "text/event-stream")
        if (lastId !== undefined) headers["last-event-id"] = lastId
        const response = await fetchWithCredentials(launch.url, { method: "GET", headers, signal: whole.signal }, deps)
        if (used !== undefined && (await isForgotten(response))) {
          await response.body?.cancel()
          await renew(used)
          lastId = undefined
        } else if (!isEventStream(response)) {
          await response.body?.cancel()
          if (response.status < 500) return
        } else {
          wait = DEFAULT_RETRY_MS
          const take = (event: ServerSentEvent) => {
            if (event.id !== undefined) lastId = event.id
            if (event.retry !== undefined) wait = Math.max(event.retry, MIN_RETRY_MS)
            if (event.data !== undefined && event.data.length > 0) events.onframe(event.data)
          }
          await readEvents(response, deps.limit, take)
        }
      } catch (error) {
        if (closed || whole.signal.aborted) return
        if (error instanceof NetworkError) return lose(error.message)
        if (error instanceof UnauthorizedError) return events.onrefused?.(error)
      }
      await delay(deps.clock, wait, whole.signal)
      wait = Math.min(wait * 2, MAX_RETRY_MS)
    }
  }

  return {
    pid: undefined,
    buffered: 0,
    send(frame, about) {
      if (!closed) void deliver(frame, about)
    },
    abandon(number) {
      const controller = requests.get(number)
      requests.delete(number)
      if (settled?.era !== "modern" && controller !== undefined) {
        const cancelled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${JSON.stringify(deps.ids.text(number))}}}`
        void deliver(cancelled, { number: undefined, method: "notifications/cancelled" })
      }
      controller?.abort()
    },
    settle(era, protocolVersion) {
      settled = { era, protocolVersion }
    },
    async close() {
      if (closed) return
      closed = true
      const goodbye = session
      if (goodbye !== undefined) {
        const authorization = deps.credentials?.last
        const headers = {
          ...headersFor(undefined, ACCEPT_JSON_OR_SSE),
          ...(authorization === undefined ? {} : { authorization }),
        }
        const signal = AbortSignal.timeout(GOODBYE_MS)
        await deps
          .fetch(launch.url, { method: "DELETE", headers, signal })
          .then((response) => response.body?.cancel())
          .catch(() => undefined)
      }
      whole.abort()
    },
  }
}

// ---

const DEFAULT_RETRY_MS = 1000
const MAX_RETRY_MS = 30_000
/** A server may say that svc is to come back at once, and say so for ever. */
const MIN_RETRY_MS = 100
const MAX_RESUMES = 100
const GOODBYE_MS = 1000

/** What a 400 says where it means the session of the protocol; a tool may have sessions of its own. */
const NO_SESSION = /session[ _-]?id|(invalid|unknown|expired) session/i

/** Whether what was sent in a session was refused because the peer does not know it. The body can still be read. */
async function isForgotten(response: Response): Promise<boolean> {
  if (response.status !== 400) return response.status === 404
  const copy = new Response(response.clone().body)
  const body = await readBody(copy, MAX_ERROR_BODY).catch(() => new Uint8Array())
  return NO_SESSION.test(decode(body))
}

const isJson = (response: Response): boolean => mediaType(response) === "application/json"

/** The JSON-RPC error that a body is, if it is one. */
function errorIn(body: Uint8Array): { readonly id: unknown; readonly message: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(decode(body))
    return isObject(value) && value.jsonrpc === "2.0" && isObject(value.error)
      ? { id: value.id, message: value.error.message }
      : undefined
  } catch {
    return undefined
  }
}
