/**
 * The stream that a session's client opens for messages that belong to no request, or to resume a broken stream.
 * 2025-11-25: Transports, Listening for Messages from the Server; Resumability and Redelivery.
 */
import { RPC_CODE, UnavailableError } from "../lib/errors.ts"
import { type EventSink, requestOf } from "../session/event-log.ts"
import type { Session } from "../session/session.ts"
import { errorText } from "../wire/message.ts"
import { formatEvent } from "../wire/sse.ts"
import { ELSEWHERE_HEADER } from "./elsewhere.ts"
import {
  BYTE_STRATEGY,
  isUnread,
  type OpenStream,
  type OpenStreams,
  primingEvent,
  SSE_COMMENT,
  SSE_HEADERS,
} from "./http-exchange.ts"
import { errorResponse } from "./respond.ts"

/** Opens the stream, or resumes it after the event `last` if the client names one. */
export function openSessionStream(session: Session, last: string | null, streams: OpenStreams): Response {
  const about = { "mcp-session-id": session.id }
  const isFinished = last !== null && session.events.isOver(last)
  const isOfCall = last !== null && (last === LOST_EVENT || requestOf(last) !== undefined)
  // Messages of other replicas would be lost on a new stream, because this replica is stopping. The rest of an old stream
  // can be sent.
  if (session.isStreamDrained && !isOfCall && (last === null || isFinished || !session.events.has(last)))
    return errorResponse(new UnavailableError(MOVED_ON, { retryAfter: 1 }), {
      shape: "jsonrpc",
      headers: { ...about, [ELSEWHERE_HEADER]: "1" },
    })
  // Clients reconnect after an error response; 204 tells them that nothing follows. From: HTML, SSE.
  if (last === LOST_EVENT || isFinished) return new Response(null, { status: 204, headers: about })
  let stop: () => void = () => undefined
  const source = {
    start(controller: ReadableStreamDefaultController<Uint8Array>) {
      let open = true
      const sink: EventSink = {
        event(id: string, frame: Uint8Array | string) {
          if (isUnread(controller)) {
            controller.error(new Error("the client does not read"))
            stop()
          }
          if (open) controller.enqueue(formatEvent(frame, id))
          return open
        },
        end: () => stop(),
      }
      let number: number | undefined
      const stream: OpenStream = {
        keepAlive: () => controller.enqueue(SSE_COMMENT),
        close: () => stop(),
        // Only this stream receives the answer of a call that runs here.
        drain() {
          if (number === session.standalone) session.drainStream()
        },
      }
      const outlet = (text: string) => {
        if (open && number !== undefined) session.events.send(number, text)
        return open
      }
      stop = () => {
        if (!open) return
        open = false
        streams.delete(stream)
        if (session.outlet === outlet) session.outlet = undefined
        if (number !== undefined) session.events.detach(number, sink)
        try {
          controller.close()
        } catch {
          // The client has already closed it.
        }
      }
      streams.add(stream)
      controller.enqueue(SSE_COMMENT)
      // A stream that cannot be resumed starts over: a 404 would mean that the session is gone.
      number = last === null ? undefined : session.events.resume(last, sink)
      const lost = number === undefined && last !== null ? requestOf(last) : undefined
      if (lost !== undefined) {
        // Without this event, the client would reconnect forever.
        controller.enqueue(formatEvent(errorText(lost, RPC_CODE.internalError, LOST), LOST_EVENT))
        stop()
      } else if (number === undefined) {
        number = session.events.open(sink)
        session.open(outlet, number)
        if (session.sendsPrimingEvent) controller.enqueue(primingEvent(session.events.start(number)))
      } else if (number === session.standalone) session.open(outlet, number)
    },
    cancel: () => stop(),
  }
  const body = new ReadableStream(source, BYTE_STRATEGY)
  return new Response(body, { headers: { ...SSE_HEADERS, ...about } })
}

// ---

/** The id of the event that reports a lost answer: nothing follows it. */
const LOST_EVENT = "told"
const MOVED_ON = "This replica of svc is stopping; open the stream again, at another replica"
const LOST = "The answer to this request is lost: svc restarted while it ran, or the answer is too old; send it again"
