/**
 * The Streamable HTTP transport, with a session for legacy servers and without one for modern servers. basic: Transports,
 * Streamable HTTP.
 *
 *  1. A stream that breaks in the middle costs only its request.
 *  2. If the server has forgotten the session (404; many servers answer 400), svc opens a new session, once for all requests
 *     that got this answer, and sends each request once more, because it was never executed. Nothing else is ever sent twice.
 *  3. If the server refuses a method in the new session as well, it has another reason: the method opens no session for a
 *     while.
 *  4. Any other refusal in a session may mean the same: servers say it in every way. svc then sends one ping. If the server
 *     refuses the ping too, svc opens a new session, at most once a minute, and sends the request once more if the refusal shows
 *     that it was not executed (session-refusal.ts).
 */
import { REPLICA_HEADER, type RemoteLaunch } from "../config/server-spec.ts"
import { ArrayMap } from "../lib/array-map.ts"
import { Backoff } from "../lib/backoff.ts"
import { BoundedMap } from "../lib/bounded-map.ts"
import { delay } from "../lib/clock.ts"
import { type Era, MODERN_VERSION } from "../wire/era.ts"
import { decode } from "../wire/frame.ts"
import { asText, notificationText } from "../wire/message.ts"
import type { ServerSentEvent } from "../wire/sse.ts"
import { type ClientTransport, type Outgoing, saysSessionIsGone, UnauthorizedError } from "./client-transport.ts"
import {
  ACCEPT_JSON_OR_SSE,
  type AnyResponse,
  bodyOf,
  fetchInOrigin,
  fetchWhileWanted,
  fetchWithCredentials,
  isEventStream,
  isUrgent,
  MAX_ERROR_BODY,
  mayRepeat,
  mediaType,
  NetworkError,
  NotAcceptedError,
  PINGS,
  type RemoteDeps,
  type RemoteEvents,
  readBody,
  readEvents,
  readFrame,
  statusError,
  statusErrorWith,
  TooLargeError,
  unexpectedType,
} from "./http.ts"
import { classify } from "./negotiate.ts"
import { progressInOrder } from "./progress-order.ts"
import {
  errorIn,
  isAnswer,
  isTemporary,
  meansLost,
  otherRefusal,
  refusalIn,
  refusalInFailure,
  type ServerRefusal,
  statusRefusal,
  verdictOf,
  wasNotExecuted,
} from "./session-refusal.ts"

type Exchanged = { readonly response: AnyResponse; readonly used: string | undefined; readonly isAgain: boolean }

/** Connects with the first frame, and reports failures through `events`. */
export class StreamableHttpTransport implements ClientTransport {
  readonly pid = undefined
  readonly buffered = 0
  /** The controllers that abort the requests in flight. */
  private readonly requests = new ArrayMap<number, AbortController>()
  private readonly stopped = new AbortController()
  /** The `Mcp-Session-Id` that the server assigned. */
  private session: string | undefined
  private negotiated: { readonly era: Era; readonly protocolVersion: string } | undefined
  /** The headers of most requests in a session. */
  private usual: UsualHeaders | undefined
  /** The `initialize` request, to open the session again. */
  private initializeFrame: Uint8Array | string | undefined
  private renewal: Promise<void> | undefined
  /** Methods that were also refused in a new session, and when they may open a session again. */
  private readonly refusedMethods = new BoundedMap<string, { readonly until: number; readonly backoff: Backoff }>(
    MAX_REFUSED_METHODS,
  )
  /** Counts the sessions that svc has opened: an answer in an earlier one must not change the id of this one. */
  private opened = 0
  /** The check whether the server still knows the session. */
  private check: Promise<boolean> | undefined
  /** When the session may be checked again, and when a check may open a new one, milliseconds since the epoch. */
  private checkAt = 0
  private renewAt = 0
  /** Whether the server has answered a ping. */
  private answersPings = false
  /** The refusal of the ping for which svc has opened the last session. */
  private refusedPing: ServerRefusal | undefined
  private closed = false
  private readonly inOrder: ReturnType<typeof progressInOrder>

  constructor(
    private readonly launch: RemoteLaunch,
    private readonly events: RemoteEvents,
    private readonly deps: RemoteDeps,
  ) {
    this.inOrder = progressInOrder(deps.clock)
  }

  get hasSession(): boolean {
    return this.session !== undefined
  }

  send(frame: Uint8Array | string, about: Outgoing): void {
    if (!this.closed) this.inOrder(about, () => this.deliver(frame, about))
  }

  abandon(number: number, reason?: string): void {
    const controller = this.requests.take(number)
    // Closing the stream cancels a modern request; a legacy server needs a notification.
    if (this.negotiated?.era !== "modern" && controller !== undefined) {
      const params = { requestId: this.deps.ids.text(number), ...(reason === undefined ? {} : { reason }) }
      void this.deliver(notificationText("notifications/cancelled", params), {
        number: undefined,
        method: "notifications/cancelled",
      })
    }
    controller?.abort()
  }

  settle(era: Era, protocolVersion: string): void {
    this.negotiated = { era, protocolVersion }
  }

  /** Deletes the server's session, if there is one, and closes all streams. */
  async close(): Promise<void> {
    if (this.closed) return
    this.closed = true
    if (this.session !== undefined) await this.deleteSession()
    this.end()
  }

  // ---

  private lose(reason: string): void {
    if (this.closed) return
    this.closed = true
    this.end()
    this.events.onclose({ reason })
  }

  private end(): void {
    this.stopped.abort()
    for (const controller of this.requests.values()) controller.abort()
    this.deps.close?.()
  }

  private headersFor(about: Outgoing | undefined, accept: string): Record<string, string> {
    const { negotiated, session } = this
    const headers: Record<string, string> = { ...this.launch.headers, accept }
    const modern = negotiated === undefined ? about?.method === "server/discover" : negotiated.era === "modern"
    if (modern) {
      headers["mcp-protocol-version"] = negotiated?.protocolVersion ?? MODERN_VERSION
      if (about?.method !== undefined) headers["mcp-method"] = about.method
      Object.assign(headers, about?.headers)
    } else if (negotiated !== undefined && negotiated.protocolVersion >= "2025-06-18") {
      headers["mcp-protocol-version"] = negotiated.protocolVersion
    }
    if (session !== undefined && !modern && about?.method !== "initialize") headers["mcp-session-id"] = session
    return headers
  }

  /** Returns the headers of a POST: the same object for most requests in a session, which is cheaper to write. */
  private headersOfPost(about: Outgoing): Readonly<Record<string, string>> {
    const { negotiated, session, usual } = this
    const isUsual = negotiated?.era === "legacy" && about.method !== "initialize"
    if (isUsual && usual?.session === session && usual?.negotiated === negotiated) return usual.headers
    const headers = { ...this.headersFor(about, ACCEPT_JSON_OR_SSE), "content-type": "application/json" }
    if (isUsual) this.usual = { session, negotiated, headers }
    return headers
  }

  private async post(frame: Uint8Array | string, about: Outgoing, signal: AbortSignal): Promise<AnyResponse> {
    const { opened, launch, deps } = this
    const headers = this.headersOfPost(about)
    const request = {
      method: "POST",
      headers,
      body: bodyOf(frame),
      signal,
      mayRepeat: () => mayRepeat(about, this.events),
      isUrgent: isUrgent(about),
    }
    const isRequest = about.number !== undefined || about.method === "initialize"
    const response = isRequest
      ? await fetchWithCredentials(launch.url, request, deps)
      : await fetchWhileWanted(launch.url, request, deps, () => false)
    if (about.method !== "initialize" && about.method !== "server/discover") this.noteSession(response, opened)
    return response
  }

  /** Takes the session from the answer to `initialize`. */
  private enterSession(response: AnyResponse): void {
    this.opened++
    this.session = response.headers.get("mcp-session-id") ?? undefined
  }

  /** Takes the session's id from an answer: some servers replace it, or assign it late. `opened` is of the time of the request. */
  private noteSession(response: AnyResponse, opened: number): void {
    const id = response.headers.get("mcp-session-id")
    if (id !== null && response.ok && opened === this.opened && this.negotiated?.era !== "modern") this.session = id
  }

  /** Opens an event stream, from the event after `lastEventId` on. The server's own stream is urgent: calls could wait for it. */
  private async get(lastEventId: string | undefined, signal: AbortSignal, isUrgent: boolean): Promise<AnyResponse> {
    const { opened } = this
    const headers = this.headersFor(undefined, "text/event-stream")
    if (lastEventId !== undefined) headers["last-event-id"] = lastEventId
    const request = { method: "GET", headers, signal, mayRepeat: () => true, isUrgent }
    const response = await fetchWithCredentials(this.launch.url, request, this.deps)
    this.noteSession(response, opened)
    return response
  }

  private async deleteSession(): Promise<void> {
    const { deps, launch } = this
    const own = this.headersFor(undefined, ACCEPT_JSON_OR_SSE)
    const signal = AbortSignal.timeout(DELETE_TIMEOUT_MS)
    await fetchInOrigin(
      launch.url,
      { method: "DELETE", headers: own, signal, mayRepeat: () => true, isUrgent: true },
      deps,
      deps.credentials?.last,
    )
      .then((response) => response.body?.cancel())
      .catch(() => undefined)
  }

  /** Opens the session again, unless another request has replaced the session `lost`. */
  private async renew(lost: string): Promise<void> {
    if (this.session !== lost) return this.renewal
    this.renewal ??= this.reinitialize().finally(() => {
      this.renewal = undefined
    })
    return this.renewal
  }

  /** Whether a refusal of this method may mean that the server has forgotten the session `used`. */
  private mayRenew(used: string, method = ""): boolean {
    return this.session !== used || this.deps.clock.now() >= (this.refusedMethods.get(method)?.until ?? 0)
  }

  /** Records whether a new session helped a request: some servers answer 404 to methods that they do not offer. */
  private noteRenewal(method = "", refused: boolean): void {
    const { refusedMethods } = this
    if (!refused) {
      refusedMethods.delete(method)
      return
    }
    const backoff =
      refusedMethods.get(method)?.backoff ?? new Backoff({ first: FIRST_RENEWAL_PAUSE_MS, max: MAX_RENEWAL_PAUSE_MS })
    refusedMethods.set(method, { until: this.deps.clock.now() + backoff.next(), backoff })
  }

  private async reinitialize(): Promise<void> {
    const { signal } = this.stopped
    const response = await this.post(this.initializeFrame ?? "", { number: undefined, method: "initialize" }, signal)
    if (!response.ok) {
      const error = await statusError(response, this.deps)
      // The server is another version now: svc negotiates again over a new connection.
      if (classify(error) === "legacy") this.lose(`opens no new session: ${error.message}`)
      throw error
    }
    const verdict = await readVerdict(response, this.deps.limit)
    if (verdict !== "answered")
      throw new Error(`opens no new session: ${this.deps.mask(verdict.text).slice(0, MAX_TEXT)}`)
    this.enterSession(response)
    const method = "notifications/initialized"
    const accepted = await this.post(`{"jsonrpc":"2.0","method":"${method}"}`, { number: undefined, method }, signal)
    await accepted.body?.cancel()
    this.events.onrenewed?.()
  }

  /** Sends one frame and handles its response. Never rejects. */
  private async deliver(frame: Uint8Array | string, about: Outgoing): Promise<void> {
    const { number } = about
    // The end of the transport aborts the requests that it knows: listeners would cost more.
    const controller = number === undefined ? this.stopped : new AbortController()
    if (number !== undefined) this.requests.set(number, controller)
    try {
      if (number === undefined) await (await this.exchange(frame, about, controller.signal)).response.body?.cancel()
      else await this.request(frame, { ...about, number }, controller.signal)
    } catch (error) {
      if (!controller.signal.aborted) this.failed(about, error)
    } finally {
      if (number !== undefined) this.requests.take(number)
    }
  }

  private failed({ number, method = "" }: Outgoing, error: unknown): void {
    // A response that is too large says nothing about the server's health.
    if (error instanceof TooLargeError) {
      this.events.ondropped(new Uint8Array(), number)
      return
    }
    if (number !== undefined) this.events.onfail?.(number, error instanceof Error ? error : new Error(String(error)))
    if (error instanceof NetworkError) this.suspect(method, error)
  }

  /** Handles a request that got no response: loses the transport, or asks for a ping if the server has answered before. */
  private suspect(method: string, error: NetworkError): void {
    const isProbe = this.negotiated === undefined && method === "server/discover"
    // A server may reset the connection of a probe that it does not know, and answer `initialize`.
    if (isProbe && !(error instanceof NotAcceptedError)) return
    if (this.negotiated === undefined || PINGS.has(method)) this.lose(error.message)
    else this.events.onsuspect?.()
  }

  /**
   * Posts one frame, and once more in a new session if the server has forgotten the old one. Returns the response, the session
   * in which the frame was posted last, and whether it was posted again.
   */
  private async exchange(frame: Uint8Array | string, about: Outgoing, signal: AbortSignal): Promise<Exchanged> {
    if (about.method === "initialize") {
      this.initializeFrame = frame
      const response = await this.post(frame, about, signal)
      this.enterSession(response)
      return { response, used: undefined, isAgain: false }
    }
    await this.renewal
    let used = this.session
    let isAgain = false
    let response = await this.post(frame, about, signal)
    if (used !== undefined && this.mayRenew(used, about.method) && (await isForgotten(response))) {
      await response.body?.cancel()
      await this.renew(used)
      used = this.session
      isAgain = true
      response = await this.post(frame, about, signal)
      this.noteRenewal(about.method, await isForgotten(response))
    }
    if (about.method === "notifications/initialized" && response.ok) void this.listen()
    return { response, used, isAgain }
  }

  /** Sends a request and handles its answer. A refusal in a session is passed on once the session is known to live. */
  private async request(
    frame: Uint8Array | string,
    about: Outgoing & { readonly number: number },
    signal: AbortSignal,
  ): Promise<void> {
    const { method = "", number } = about
    const isLegacy = this.negotiated?.era === "legacy"
    let used: string | undefined
    let refusal: ServerRefusal | undefined
    let isAgain = false
    try {
      const sent = await this.exchange(frame, about, signal)
      isAgain = sent.isAgain
      used = isLegacy ? sent.used : undefined
      refusal = await this.receive(sent.response, { number, signal, inSession: used !== undefined })
    } catch (error) {
      used = isLegacy ? this.session : undefined
      refusal = used === undefined ? undefined : refusalInFailure(error)
      if (refusal === undefined) throw error
    }
    if (method === "ping" && refusal === undefined) this.answersPings = true
    if (refusal === undefined || used === undefined) return
    const isRenewed = await this.renewIfLost(used, refusal, method)
    if (!isRenewed || isAgain || !wasNotExecuted(refusal, this.refusedPing)) return refusal.passOn()
    const response = await this.post(frame, about, signal)
    await this.receive(response, { number, signal, inSession: false })
  }

  /**
   * Reads the response to a request. Resolves with a refusal that may concern the session if the request was sent in one, and is
   * to be passed on later. Rejects if the response is not the answer.
   */
  private async receive(
    response: AnyResponse,
    {
      number,
      signal,
      inSession,
    }: { readonly number: number; readonly signal: AbortSignal; readonly inSession: boolean },
  ): Promise<ServerRefusal | undefined> {
    if (!response.ok) return this.refused(response, number, inSession)
    const { events, deps } = this
    const isStream = isEventStream(response)
    let refusal: ServerRefusal | undefined
    let text = ""
    const take = (frame: Uint8Array) => {
      const found = inSession ? refusalIn(frame, () => pass(frame)) : undefined
      const id = found?.error?.id
      if (id == null || deps.ids.parse(id) === number) refusal ??= found
      if (refusal === undefined) pass(frame)
      return refusal === undefined
    }
    const pass = (frame: Uint8Array) => {
      events.onframe(frame, number)
      if (refusal !== undefined) throwIfPending()
    }
    const throwIfPending = () => {
      // A request that has been answered has not failed, and does not count against the server's health.
      if (events.isPending?.(number) !== false)
        throw new Error(isStream ? "closed the stream without an answer" : "sent a body without an answer")
    }
    if (isStream) await this.readStream(response, number, signal, take)
    else if (mediaType(response) === "application/json") {
      const frame = await readFrame(response, deps.limit, events.onlarge)
      if (frame !== undefined) take(frame)
    } else {
      text = decode(await readBody(response, MAX_ERROR_BODY).catch(() => new Uint8Array()))
      refusal = otherRefusal(unexpectedType(response), text)
      if (!inSession) refusal.passOn()
    }
    if (refusal !== undefined) return refusal
    try {
      throwIfPending()
    } catch (error) {
      if (!inSession) throw error
      return otherRefusal(error, text)
    }
    return undefined
  }

  /**
   * Reads one request's stream to its end and, if the server can resume it, its continuation. Stops when `takeFrame` returns
   * false.
   */
  private async readStream(
    first: AnyResponse,
    number: number,
    signal: AbortSignal,
    takeFrame: (frame: Uint8Array) => boolean,
  ): Promise<void> {
    const { deps, events } = this
    let response = first
    for (let resumes = 0; ; resumes++) {
      const tail = { id: undefined as string | undefined, retry: FIRST_RETRY_MS }
      const take = ({ id, retry, data }: ServerSentEvent) => {
        if (id !== undefined) tail.id = id
        if (retry !== undefined) tail.retry = Math.max(retry, MIN_RETRY_MS)
        if (data !== undefined && data.length > 0 && !takeFrame(data)) throw STOP
      }
      const end = await readEvents(response, deps.limit, take, undefined, events).catch((error: unknown) => {
        if (error !== STOP && (tail.id === undefined || error instanceof TooLargeError)) throw error
        return error
      })
      if (end === STOP) return
      const waiting = this.requests.has(number) && events.isPending?.(number) === true
      if (!waiting || tail.id === undefined || this.negotiated?.era === "modern" || resumes >= MAX_RESUMES) return
      await delay(deps.clock, tail.retry, signal)
      response = await this.get(tail.id, signal, false)
      if (!isEventStream(response)) {
        await response.body?.cancel()
        return
      }
    }
  }

  /**
   * Handles an error status: resolves with a refusal that may concern the session, or passes it on at once. Rejects with the
   * status if there is no JSON-RPC error in the body, or if the error could be mistaken for evidence of an era.
   */
  private async refused(response: AnyResponse, number: number, inSession: boolean): Promise<ServerRefusal | undefined> {
    if (response.headers.has(REPLICA_HEADER) && REPLICA_HEADER in this.launch.headers) {
      await response.body?.cancel()
      throw new NotAcceptedError("does not run on that replica any more")
    }
    const body = await readBody(response, MAX_ERROR_BODY).catch(() => new Uint8Array())
    const passOn = () => this.passRefusal(response, body, number)
    if (inSession && !isTemporary(response.status)) return statusRefusal(response.status, body, passOn)
    passOn()
    return undefined
  }

  private passRefusal(response: AnyResponse, body: Uint8Array, number: number): void {
    const { negotiated, events, deps } = this
    if (negotiated !== undefined && REJECTIONS.includes(response.status)) events.onrejected?.()
    const isEvidence = negotiated !== undefined || (response.status !== 403 && response.status < 500)
    const error = errorIn(body)
    // A client would mistake an error about svc's session for one about its own.
    const concernsSession = negotiated !== undefined && error?.id == null && /session/i.test(asText(error?.message))
    if (isEvidence && error !== undefined && !concernsSession) events.onframe(body, number)
    // An error under another id answers nothing.
    if (events.isPending?.(number) === false) return
    throw statusErrorWith(response, body, deps)
  }

  /** Opens a new session if the server refuses a ping in the session `used` too. Resolves to whether there is another session. */
  private renewIfLost(used: string, refusal: ServerRefusal, method: string): Promise<boolean> {
    if (this.session !== used) return Promise.resolve(true)
    this.check ??= this.checkSession(used, refusal, method).finally(() => {
      this.check = undefined
    })
    return this.check
  }

  private async checkSession(used: string, refusal: ServerRefusal, method: string): Promise<boolean> {
    const { clock } = this.deps
    if (clock.now() < this.checkAt) return false
    const begun = clock.now()
    const ping = await this.pingOnce()
    this.checkAt = clock.now() + (clock.now() - begun < CHECK_PING_MS ? CHECK_MS : SILENT_CHECK_MS)
    if (ping === "answered") this.answersPings = true
    if (
      typeof ping === "string" ||
      isTemporary(ping.status) ||
      !meansLost(refusal, ping, { answersPings: this.answersPings, method })
    )
      return false
    if (clock.now() < this.renewAt) return false
    try {
      await this.renew(used)
    } catch (error) {
      if (error instanceof UnauthorizedError) throw error
      return false
    }
    this.renewAt = clock.now() + RENEWAL_MS
    this.refusedPing = ping
    return true
  }

  /** Sends a ping in the session. Resolves with its refusal, or how it ended. Never rejects. */
  private async pingOnce(): Promise<ServerRefusal | "answered" | "silent"> {
    const { ids, clock, limit } = this.deps
    const controller = new AbortController()
    const end = () => controller.abort()
    const cancel = clock.after(CHECK_PING_MS, end)
    this.stopped.signal.addEventListener("abort", end)
    const frame = `{"jsonrpc":"2.0","id":${JSON.stringify(ids.text(ids.next()))},"method":"ping"}`
    try {
      const response = await this.post(frame, { number: undefined, method: "ping" }, controller.signal)
      return await readVerdict(response, limit)
    } catch (error) {
      return refusalInFailure(error) ?? "silent"
    } finally {
      cancel()
      this.stopped.signal.removeEventListener("abort", end)
    }
  }

  /**
   * Keeps open the stream on which a legacy server sends messages of its own. Returns if the server has no such stream.
   * basic: Transports, Listening for Messages from the Server.
   */
  private async listen(): Promise<void> {
    const { deps, events } = this
    const { signal } = this.stopped
    const backoff = new Backoff({ first: FIRST_RETRY_MS, max: MAX_RETRY_MS })
    let lastId: string | undefined
    /** The session that was opened for this stream, until the stream opens in it. */
    let renewed: string | undefined
    /** Whether the server has had such a stream. */
    let worked = false
    const take = ({ id, retry, data }: ServerSentEvent) => {
      if (id !== undefined) lastId = id
      if (retry !== undefined) backoff.reset(Math.max(retry, MIN_RETRY_MS))
      if (data !== undefined && data.length > 0) events.onframe(data)
    }
    while (!this.closed) {
      await this.renewal?.catch(() => undefined)
      const used = this.session
      try {
        const response = await this.get(lastId, signal, true)
        if (used !== undefined && used !== renewed && (await isForgotten(response))) {
          await response.body?.cancel()
          await this.renew(used)
          renewed = this.session
          lastId = undefined
        } else if (isEventStream(response)) {
          backoff.reset()
          renewed = undefined
          worked = true
          await readEvents(response, deps.limit, take, undefined, { oncomment: events.oncomment })
        } else {
          const body = await readBody(response, MAX_ERROR_BODY).catch(() => new Uint8Array())
          if (endsListening(response.status, worked)) return
          if (worked && used !== undefined && !isTemporary(response.status))
            await this.renewIfLost(used, statusRefusal(response.status, body), "GET")
        }
      } catch (error) {
        if (this.closed || signal.aborted) return
        if (error instanceof NetworkError) this.suspect("", error)
        const refusal = worked ? refusalInFailure(error) : undefined
        const mayBeLost = used !== undefined && refusal !== undefined
        const isRenewed = mayBeLost && (await this.renewIfLost(used, refusal, "GET").catch(() => false))
        if (!isRenewed && error instanceof UnauthorizedError) return events.onrefused?.(error)
      }
      await delay(deps.clock, backoff.next(), signal)
    }
  }
}

// ---

type UsualHeaders = {
  readonly session: string | undefined
  readonly negotiated: object
  readonly headers: Readonly<Record<string, string>>
}

/** Reads the answer to a request of the transport's own, and judges it. */
async function readVerdict(response: AnyResponse, limit: number): Promise<ServerRefusal | "answered"> {
  if (!response.ok) return statusRefusal(response.status, await readBody(response, MAX_ERROR_BODY))
  if (!isEventStream(response)) return verdictOf(await readBody(response, limit))
  let verdict: ServerRefusal | "answered" = verdictOf(new Uint8Array())
  const take = ({ data }: ServerSentEvent) => {
    if (data === undefined || !isAnswer(data)) return
    verdict = verdictOf(data)
    throw STOP
  }
  await readEvents(response, limit, take).catch((error: unknown) => {
    if (error !== STOP) throw error
  })
  return verdict
}

/** Ends the reading of a stream whose rest is of no interest. */
const STOP = new Error("stopped")

/**
 * Whether a refusal of the stream for the server's own messages is final. A server that has had the stream refuses it for good
 * only with 405, or if it is gone (404 in a new session): it may not have noticed yet that the old one has ended (409), or limit
 * requests.
 */
const endsListening = (status: number, worked: boolean): boolean =>
  worked ? status === 404 || status === 405 : status < 500 && status !== 409 && !isTemporary(status)

/** The statuses with which servers answer requests of an era that they do not speak. */
const REJECTIONS = [400, 404, 405]
const FIRST_RETRY_MS = 1000
const MAX_RETRY_MS = 30_000
/** The shortest `retry` that svc follows: a server may request immediate reconnection every time. */
const MIN_RETRY_MS = 100
const MAX_RESUMES = 100
const DELETE_TIMEOUT_MS = 1000
const FIRST_RENEWAL_PAUSE_MS = 1000
const MAX_RENEWAL_PAUSE_MS = 5 * 60_000
const MAX_REFUSED_METHODS = 100
/** The time after a check of the session for which another refusal causes none. */
const CHECK_MS = 1000
/** The time after a check has opened a new session for which none opens another. */
const RENEWAL_MS = 60_000
/** The same after a ping that was given up, because a refusal waits for the ping. */
const SILENT_CHECK_MS = 30_000
const CHECK_PING_MS = 5000
/** The most characters of a refusal in a message. */
const MAX_TEXT = 200

/** Matches the body of a 400 that is about the protocol's session; a tool may have sessions of its own. */
const NO_SESSION = /session[ _-]?id|(invalid|unknown|expired) session/i

/** Whether the server refused a request because it does not know the session. Leaves the body readable. */
async function isForgotten(response: AnyResponse): Promise<boolean> {
  if (response.status !== 400) return response.status === 404
  const copy = new Response(response.clone().body)
  const body = await readBody(copy, MAX_ERROR_BODY).catch(() => new Uint8Array())
  const text = decode(body)
  // An error without an id is none of a tool.
  return NO_SESSION.test(text) || (errorIn(body)?.id === null && saysSessionIsGone(text))
}
