/** Links over the old HTTP+SSE transport. basic 2024-11-05: Transports, HTTP with SSE. */
import type { RemoteLaunch } from "../config/server-spec.ts"
import { messageOf } from "../lib/errors.ts"
import { decode } from "../wire/frame.ts"
import type { ServerSentEvent } from "../wire/sse.ts"
import {
  ACCEPT_JSON_OR_SSE,
  fetchWithCredentials,
  isEventStream,
  NetworkError,
  type RemoteDeps,
  type RemoteEvents,
  readEvents,
  statusError,
} from "./http.ts"
import { type Link, oversize } from "./link.ts"

/**
 * A link over HTTP+SSE: one stream in, posts to the endpoint that its first event names. Resolves when it has named it, and
 * rejects with what the transport failed with.
 */
export async function openSse(launch: RemoteLaunch, events: RemoteEvents, deps: RemoteDeps): Promise<Link> {
  const whole = new AbortController()
  let closed = false
  const lose = (reason: string) => {
    if (closed) return
    closed = true
    whole.abort()
    events.onclose({ reason })
  }
  const headers = { ...launch.headers, accept: "text/event-stream" }
  const response = await fetchWithCredentials(launch.url, { method: "GET", headers, signal: whole.signal }, deps)
  if (!response.ok || !isEventStream(response)) throw await statusError(response, deps)
  const endpoint = await new Promise<string>((resolve, reject) => {
    const take = (event: ServerSentEvent) => {
      if (event.event === "endpoint")
        resolve(new URL(event.data === undefined ? "" : decode(event.data), launch.url).href)
      else if (event.data !== undefined && event.data.length > 0) events.onframe(event.data)
    }
    const long = oversize(deps.clock, events.ondropped, () => lose(`sent an event of more than ${deps.limit} bytes`))
    readEvents(response, deps.limit, take, long).then(
      () => {
        reject(new Error("closed its event stream"))
        lose("closed its event stream")
      },
      (error: unknown) => {
        reject(error)
        lose(`its event stream broke: ${messageOf(error)}`)
      },
    )
  })
  if (new URL(endpoint).origin !== new URL(launch.url).origin) {
    closed = true
    whole.abort()
    throw new Error("named an endpoint of another origin")
  }
  return {
    pid: undefined,
    buffered: 0,
    send(frame, { number }) {
      if (closed) return
      const sent = { ...launch.headers, "content-type": "application/json", accept: ACCEPT_JSON_OR_SSE }
      fetchWithCredentials(endpoint, { method: "POST", headers: sent, body: frame, signal: whole.signal }, deps)
        .then(async (answer) => {
          if (!answer.ok) throw await statusError(answer, deps)
          await answer.body?.cancel()
        })
        .catch((error: unknown) => {
          if (closed) return
          if (number !== undefined) events.onfail?.(number, error instanceof Error ? error : new Error(String(error)))
          if (error instanceof NetworkError) lose(error.message)
        })
    },
    async close() {
      closed = true
      whole.abort()
    },
  }
}
