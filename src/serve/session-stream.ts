/**
 * The stream that a session's client opens for what belongs to no request, or to take up one that broke.
 * 2025-11-25: Transports, Listening for Messages from the Server; Resumability and Redelivery.
 */
import { type EventSink, requestOf } from "../session/event-log.ts"
import type { Session } from "../session/session.ts"
import { errorText } from "../wire/message.ts"
import { formatEvent } from "../wire/sse.ts"
import {
  BYTE_STRATEGY,
  isUnread,
  type OpenStream,
  type OpenStreams,
  primingEvent,
  SSE_COMMENT,
  SSE_HEADERS,
} from "./http-exchange.ts"

/** Opens it, after the event that the client saw last where it says one. */
export function openSessionStream(session: Session, last: string | null, streams: OpenStreams): Response {
  const about = { "mcp-session-id": session.id }
  // Clients come back for more after an answer that is an error; this tells them that there is none. From: HTML, SSE.
  if (last !== null && (last === TOLD || session.events.isOver(last)))
    return new Response(null, { status: 204, headers: about })
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
      const stream: OpenStream = { keepAlive: () => controller.enqueue(SSE_COMMENT), close: () => stop() }
      let number: number | undefined
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
          // The client had closed it already.
        }
      }
      streams.add(stream)
      controller.enqueue(SSE_COMMENT)
      // A stream that cannot be taken up starts anew: a 404 would tell the client that its session is gone.
      number = last === null ? undefined : session.events.resume(last, sink)
      const lost = number === undefined && last !== null ? requestOf(last) : undefined
      if (lost !== undefined) {
        // Nobody else will tell the client, and it would come back for ever.
        controller.enqueue(formatEvent(errorText(lost, -32603, LOST), TOLD))
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

/** The event after which nothing comes. */
const TOLD = "told"
const LOST = "The answer to this request is lost: svc was restarted while it ran, or it is too long ago"
