/**
 * The way back of one HTTP request: JSON until it must be SSE. The first thing that is not the answer turns the response
 * into a stream; nothing polls and nothing is held back. basic: Streamable HTTP, Receiving Messages.
 */
import { RequestError } from "../lib/errors.ts"
import type { Exchange } from "../session/client.ts"
import type { Params } from "../wire/message.ts"
import { formatEvent } from "../wire/sse.ts"

export const JSON_HEADERS = { "content-type": "application/json" }
export const SSE_HEADERS = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
}

/** An open stream to a client, as the server keeps it. */
export type Stream = {
  /** A comment that keeps an idle connection open. */
  keepAlive(): void
  /** svc is shutting down. */
  close(): void
}

export type Asker = (
  method: string,
  params: Params | undefined,
  signal: AbortSignal,
  send: (text: string) => void,
) => Promise<unknown>

export class HttpExchange implements Exchange, Stream {
  oncancel: ((reason: string) => void) | undefined
  /** Ends a stream that would go on for ever. */
  onshutdown: (() => void) | undefined
  /** Resolves with the HTTP response: at the answer, or at the first thing before it. */
  readonly response: Promise<Response>
  private resolve: (response: Response) => void = () => undefined
  private stream: ReadableStreamDefaultController<Uint8Array> | undefined
  private gone = false

  constructor(
    private readonly asker: Asker,
    private readonly streams: Set<Stream>,
  ) {
    this.response = new Promise((resolve) => {
      this.resolve = resolve
    })
  }

  notify(text: string): void {
    this.push(text)
  }

  ask(method: string, params: Params | undefined, signal: AbortSignal): Promise<unknown> {
    if (this.gone) return Promise.reject(new RequestError("invalid_request", "The client is gone"))
    return this.asker(method, params, signal, (text) => this.push(text))
  }

  /** Sends the answer and ends the response. `status` counts only where nothing was sent before. */
  finish(frame: Uint8Array | string, status = 200): void {
    if (this.stream === undefined) {
      this.resolve(new Response(frame as Uint8Array<ArrayBuffer> | string, { status, headers: JSON_HEADERS }))
      return
    }
    this.push(frame)
    if (this.gone) return
    this.gone = true
    this.streams.delete(this)
    this.stream.close()
  }

  /** The client is gone. */
  abort(): void {
    if (this.gone) return
    this.gone = true
    this.streams.delete(this)
    this.oncancel?.("the client closed the connection")
  }

  close(): void {
    this.onshutdown?.()
  }

  keepAlive(): void {
    if (!this.gone) this.stream?.enqueue(KEEP_ALIVE)
  }

  private push(frame: Uint8Array | string): void {
    if (this.gone) return
    this.stream ??= this.begin()
    this.stream.enqueue(formatEvent(frame))
  }

  private begin(): ReadableStreamDefaultController<Uint8Array> {
    let controller: ReadableStreamDefaultController<Uint8Array> | undefined
    const body = new ReadableStream<Uint8Array>({
      start: (started) => {
        controller = started
      },
      cancel: () => this.abort(),
    })
    this.streams.add(this)
    this.resolve(new Response(body, { headers: SSE_HEADERS }))
    return controller as unknown as ReadableStreamDefaultController<Uint8Array>
  }
}

// ---

const KEEP_ALIVE = new TextEncoder().encode(":\n\n")
