/** Opens streams of server-sent events for REST. Their number is limited, and a client that does not read is disconnected. */
import { RequestError } from "../../lib/errors.ts"
import { BYTE_STRATEGY, isUnread, SSE_COMMENT, SSE_HEADERS } from "../../serve/http-exchange.ts"
import { formatEvent } from "../../wire/sse.ts"
import type { RestPorts } from "./endpoint.ts"

/** Opens a stream. `watch` receives the function that sends an event, and returns the function that ends the watch. */
export function openEventStream(
  { streams, restStreams }: Pick<RestPorts, "streams" | "restStreams">,
  watch: (send: (event: string, data: unknown) => void) => () => void,
): Response {
  if (restStreams.size >= MAX_STREAMS)
    throw new RequestError("too_many", `${MAX_STREAMS} streams are already open; close one of them`, {
      retryAfter: RETRY_S,
    })
  let stop: () => void = () => undefined
  const source = {
    start(controller: ReadableStreamDefaultController<Uint8Array>) {
      const stream = { keepAlive: () => controller.enqueue(SSE_COMMENT), close: () => stop() }
      let isOpen = true
      const end = watch((event, data) => {
        if (!isOpen) return
        if (isUnread(controller)) {
          controller.error(new Error("the client does not read"))
          stop()
        } else controller.enqueue(formatEvent(JSON.stringify(data), undefined, event))
      })
      stop = () => {
        if (!isOpen) return
        isOpen = false
        end()
        streams.delete(stream)
        restStreams.delete(stream)
        try {
          controller.close()
        } catch {
          // The client has already closed it.
        }
      }
      streams.add(stream)
      restStreams.add(stream)
      controller.enqueue(SSE_COMMENT)
    },
    cancel: () => stop(),
  }
  return new Response(new ReadableStream(source, BYTE_STRATEGY), { headers: SSE_HEADERS })
}

// ---

const MAX_STREAMS = 64
const RETRY_S = 5
