/** The deprecated HTTP+SSE transport. basic 2024-11-05: Transports, HTTP with SSE. */
import type { RemoteLaunch } from "../config/server-spec.ts"
import { messageOf } from "../lib/errors.ts"
import { decode } from "../wire/frame.ts"
import type { ServerSentEvent } from "../wire/sse.ts"
import { type ClientTransport, type Outgoing, watchOversize } from "./client-transport.ts"
import {
  ACCEPT_JSON_OR_SSE,
  type AnyResponse,
  bodyOf,
  fetchWhileWanted,
  fetchWithCredentials,
  isEventStream,
  isUrgent,
  mayRepeat,
  NetworkError,
  PINGS,
  type RemoteDeps,
  type RemoteEvents,
  readEvents,
  statusError,
  unexpectedType,
} from "./http.ts"
import { HttpStatusError } from "./negotiate.ts"
import { progressInOrder } from "./progress-order.ts"
import { isTemporary } from "./session-refusal.ts"

/**
 * Receives messages on one event stream and posts to the endpoint that the stream's first event names. If the server refuses a
 * request, it may have forgotten the session that the endpoint names, while the stream stays open: svc then posts one ping. If the
 * server refuses that too, the connection is lost, and opened anew.
 */
export class SseTransport implements ClientTransport {
  readonly pid = undefined
  readonly buffered = 0
  private readonly stopped = new AbortController()
  private readonly endpoint = Promise.withResolvers<string>()
  private postUrl = ""
  private isSettled = false
  /** Whether a check of the session is under way. */
  private isChecking = false
  /** Whether the server has accepted a ping. */
  private acceptsPings = false
  private readonly inOrder: ReturnType<typeof progressInOrder>

  private constructor(
    private readonly launch: RemoteLaunch,
    private readonly events: RemoteEvents,
    private readonly deps: RemoteDeps,
  ) {
    this.inOrder = progressInOrder(deps.clock)
  }

  /** Opens the stream and waits for its endpoint. Rejects with the transport's failure. */
  static async open(launch: RemoteLaunch, events: RemoteEvents, deps: RemoteDeps): Promise<SseTransport> {
    const transport = new SseTransport(launch, events, deps)
    try {
      await transport.connect()
    } catch (error) {
      await transport.close()
      throw error
    }
    return transport
  }

  send(frame: Uint8Array | string, about: Outgoing): void {
    if (!this.isClosed) this.inOrder(about, () => this.deliver(frame, about))
  }

  settle(): void {
    this.isSettled = true
  }

  async close(): Promise<void> {
    this.stopped.abort()
    this.deps.close?.()
  }

  // ---

  /** Loses the connection if the server refuses a ping. */
  private async checkSession(isAfterPing: boolean): Promise<void> {
    // The server may lack pings.
    if (this.isChecking || (isAfterPing && !this.acceptsPings)) return
    this.isChecking = true
    const { ids, clock } = this.deps
    try {
      await this.post(`{"jsonrpc":"2.0","id":${JSON.stringify(ids.text(ids.next()))},"method":"ping"}`, {
        number: undefined,
        method: "ping",
      })
      this.acceptsPings = true
    } catch (error) {
      if (isStatusRefusal(error))
        this.lose(`refuses all requests, as if it had forgotten the session: ${messageOf(error)}`)
    }
    clock.after(CHECK_MS, () => {
      this.isChecking = false
    })
  }

  private get isClosed(): boolean {
    return this.stopped.signal.aborted
  }

  private async connect(): Promise<void> {
    const { launch, deps } = this
    const headers = { ...launch.headers, accept: "text/event-stream" }
    const { signal } = this.stopped
    const response = await fetchWithCredentials(
      launch.url,
      { method: "GET", headers, signal, mayRepeat: () => true },
      deps,
    )
    if (!response.ok) throw await statusError(response, deps)
    if (!isEventStream(response)) {
      await response.body?.cancel()
      throw unexpectedType(response)
    }
    void this.read(response, response.url === "" ? launch.url : response.url)
    const endpoint = await this.endpoint.promise
    if (new URL(endpoint).origin !== new URL(launch.url).origin) {
      throw new Error("named an endpoint of another origin")
    }
    this.postUrl = endpoint
  }

  /** Reads the stream at `url` until it ends, which loses the transport. */
  private async read(response: AnyResponse, url: string): Promise<void> {
    const { limit, clock } = this.deps
    const watch = watchOversize(clock, this.events.ondropped, () =>
      this.lose(`sent an event of more than ${limit} bytes`),
    )
    try {
      await readEvents(response, limit, (event) => this.take(event, url), watch, { oncomment: this.events.oncomment })
      this.endpoint.reject(new Error("closed its event stream"))
      this.lose("closed its event stream")
    } catch (error) {
      this.endpoint.reject(error)
      this.lose(`event stream broken: ${messageOf(error)}`)
    }
  }

  private take({ event, data }: ServerSentEvent, url: string): void {
    if (event === "endpoint") this.endpoint.resolve(new URL(data === undefined ? "" : decode(data), url).href)
    else if (data !== undefined && data.length > 0) this.events.onframe(data)
  }

  /** Posts one frame and handles a refusal. Never rejects. */
  private async deliver(frame: Uint8Array | string, about: Outgoing): Promise<void> {
    const { number, method } = about
    try {
      await this.post(frame, about)
      this.acceptsPings ||= method === "ping"
    } catch (error) {
      if (this.isClosed) return
      if (number !== undefined) this.events.onfail?.(number, error instanceof Error ? error : new Error(String(error)))
      if (this.isSettled && isStatusRefusal(error)) void this.checkSession(method === "ping")
      if (!(error instanceof NetworkError)) return
      if (this.isSettled && !PINGS.has(method)) this.events.onsuspect?.()
      else this.lose(error.message)
    }
  }

  private async post(frame: Uint8Array | string, about: Outgoing): Promise<void> {
    const headers = { ...this.launch.headers, "content-type": "application/json", accept: ACCEPT_JSON_OR_SSE }
    const request = {
      method: "POST",
      headers,
      body: bodyOf(frame),
      signal: this.stopped.signal,
      mayRepeat: () => mayRepeat(about, this.events),
      isUrgent: isUrgent(about),
    }
    const { number } = about
    // The answer comes on the stream.
    const isWanted = () => number !== undefined && this.events.isPending?.(number) === true
    const response = await fetchWhileWanted(this.postUrl, request, this.deps, isWanted)
    if (!response.ok) throw await statusError(response, this.deps)
    await response.body?.cancel()
  }

  private lose(reason: string): void {
    if (this.isClosed) return
    void this.close()
    this.events.onclose({ reason })
  }
}

// ---

/** The time after a check of the session for which another refusal causes none. */
const CHECK_MS = 1000

const isStatusRefusal = (error: unknown): boolean => error instanceof HttpStatusError && !isTemporary(error.status)
