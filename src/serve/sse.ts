/** The old HTTP+SSE transport: a stream on /sse, posts to /messages. 2024-11-05: Transports, HTTP with SSE. */
import type { Scope } from "../catalog/scope.ts"
import { Pipe, type PipeDeps } from "../session/pipe.ts"
import { replicaIn } from "../store/replica-id.ts"
import { type Id, parseJson, requestIdOf } from "../wire/message.ts"
import { formatEvent } from "../wire/sse.ts"
import { BYTE_STRATEGY, isUnread, SSE_COMMENT, SSE_HEADERS } from "./http-exchange.ts"
import type { McpDeps } from "./mcp.ts"
import { isSame, type Principal } from "./principal.ts"
import { readBodyText } from "./request-body.ts"
import { accepted, errorResponse, UnknownSessionError } from "./respond.ts"

export const MESSAGES_PATH = "/messages"

/** The open streams by session id, each with the principal that opened it. */
export type SsePipes = Map<string, { readonly pipe: Pipe; readonly principal: Principal }>

/** What a stream is opened for. `messages` is the reference to the endpoint for posts, as the client resolves it. */
type StreamRequest = { readonly scope: Scope; readonly principal: Principal; readonly messages: string }

/**
 * Returns the reference to the endpoint for posts. Relative if svc is published under a path, which the proxy in front of svc
 * removes: an absolute path would leave it.
 */
export function messagesPath(base: string, slash: string): string {
  if (!URL.canParse(base) || new URL(base).pathname === "/") return MESSAGES_PATH
  return slash === "" ? MESSAGES_PATH.slice(1) : `..${MESSAGES_PATH}`
}

/** Answers `GET /sse`: opens the stream and names the endpoint for posts. */
export function openSseStream(
  http: Request,
  { scope, principal, messages }: StreamRequest,
  pipes: SsePipes,
  deps: McpDeps,
): Response {
  const id = `${deps.gateway.replicas?.replica ?? ""}${deps.newId()}`
  const { contexts } = deps
  let stop: () => void = () => undefined
  /** The scope of the client's last `initialize`. */
  let opened: Scope | undefined
  const detach = () => opened !== undefined && contexts?.detach(opened)
  const inContext: PipeDeps["inContext"] =
    contexts &&
    (async (era, params, info) => {
      // Nobody would detach the instances of a client that is gone.
      if (!pipes.has(id)) return scope
      const own = contexts[era === "legacy" ? "session" : "request"](scope, params, info, "sse")
      if (era === "legacy") {
        detach()
        opened = own.scope
      }
      await own.ready
      return own.scope
    })
  const source = {
    start(controller: ReadableStreamDefaultController<Uint8Array>) {
      const pipe = new Pipe({
        ...deps,
        http,
        id,
        scope,
        principal: principal.name,
        inContext,
        send: (frame) => push(frame),
      })
      const push = (frame: Uint8Array | string) => {
        if (isUnread(controller)) {
          controller.error(new Error("the client does not read"))
          stop()
        } else if (pipes.has(id)) controller.enqueue(formatEvent(frame))
      }
      const stream = {
        keepAlive: () => controller.enqueue(SSE_COMMENT),
        close: () => stop(),
        // Only this stream receives the answers of running calls.
        drain: () => void pipe.drained().then(() => stop()),
      }
      stop = () => {
        if (!pipes.delete(id)) return
        deps.streams.delete(stream)
        pipe.close("the client closed its stream")
        detach()
        try {
          controller.close()
        } catch {
          // The client has already closed it.
        }
      }
      pipes.set(id, { pipe, principal })
      deps.streams.add(stream)
      controller.enqueue(formatEvent(`${messages}?sessionId=${id}`, undefined, "endpoint"))
    },
    cancel: () => stop(),
  }
  const body = new ReadableStream(source, BYTE_STRATEGY)
  return new Response(body, { headers: SSE_HEADERS })
}

/** Answers `POST /messages?sessionId=…`: accepts one message; its answer is sent on the stream. */
export async function postSseMessage(
  request: Request,
  principal: Principal,
  pipes: SsePipes,
  { maxBody, onbug, forward }: McpDeps,
): Promise<Response> {
  const id = new URL(request.url, "http://localhost").searchParams.get("sessionId") ?? ""
  let body = ""
  try {
    const found = pipes.get(id)
    const home = found === undefined ? replicaIn(id) : undefined
    body = await readBodyText(request, maxBody)
    if (forward !== undefined && home !== undefined) {
      const forwarded = await forward(home, request, body)
      if (forwarded !== undefined) return forwarded
    }
    if (found === undefined || !isSame(found.principal, principal))
      throw new UnknownSessionError("No stream has this sessionId; open /sse first")
    found.pipe.receive(body)
    return accepted()
  } catch (error) {
    return errorResponse(error, { shape: "jsonrpc", id: requestIdIn(body), onbug })
  }
}

// ---

/** Returns the id of the request in a body; undefined if there is none, or the body cannot be read. */
function requestIdIn(body: string): Id | undefined {
  try {
    return requestIdOf(parseJson(body))
  } catch {
    return undefined
  }
}
