/**
 * Forwards a client's request to the replica that it belongs to, and streams the response back. A replica that stops passes new
 * requests on to any other.
 *
 *  1. The request is sent unchanged, with its credentials and its `Host`: the other replica authenticates and answers it as if
 *     the load balancer had chosen it. So it trusts only the client's own credentials.
 *  2. A request is forwarded once: this replica answers a request with the header FORWARDED_BY itself.
 *  3. If the other replica is gone, accepts no more connections, or declines with ELSEWHERE_HEADER because it stops, this replica
 *     answers as well as it can. A replica that says hello and was never reached may have a wrong address: the client is told to
 *     try again.
 *  4. A request that waits for a replica fails when that replica is gone (features/cluster/replicas.ts): a replica that hangs accepts
 *     connections, and does not answer. A stream that has begun ends with an error for its request.
 */
import { messageOf, publicMessage, RPC_CODE, UnansweredError } from "../../lib/errors.ts"
import { isConnectionRefused } from "../../lib/network-error.ts"
import { ELSEWHERE_HEADER, FORWARDED_BY, type Forward, type PassOn, UnreachedError } from "../../serve/elsewhere.ts"
import { BYTE_STRATEGY, SSE_HEADERS } from "../../serve/http-exchange.ts"
import { errorText, type Id } from "../../wire/message.ts"
import { formatEvent } from "../../wire/sse.ts"
import type { OtherReplica } from "./replicas.ts"

export type ForwardDeps = {
  /** The id of this replica. */
  readonly replica: string
  /** Returns another live replica; undefined if there is none with this id. */
  find(id: string): Pick<OtherReplica, "address" | "gone"> | undefined
  /** Returns whether a request to another replica can succeed; a promise while that is being tested. */
  reaches?(id: string): boolean | Promise<boolean>
  /** Sends a request, like fetch. */
  send(url: string, init: RequestInit): Promise<Response>
}

/** Returns the function that forwards. It returns undefined at once if there is no other replica to send the request to. */
export function createForward({ replica, find, reaches, send }: ForwardDeps): Forward {
  return (to, request, body, id) => {
    if (to === undefined || to === replica || request.headers.has(FORWARDED_BY)) return undefined
    const target = find(to)
    if (target === undefined) return undefined
    const go = async (): Promise<Response | undefined> => {
      const outcome = await sendTo(target, request, { body, id, mark: [FORWARDED_BY, replica], send })
      return outcome instanceof Response ? outcome : undefined
    }
    const isReached = reaches?.(to) ?? true
    if (isReached === true) return go()
    return Promise.resolve(isReached).then((reached) => {
      if (reached) return go()
      if (find(to) !== undefined) throw new UnreachedError(to)
      return undefined
    })
  }
}

export type PassOnDeps = Pick<ForwardDeps, "replica" | "send"> & {
  /** Returns the replicas that may serve the request. */
  others(): readonly Pick<OtherReplica, "address" | "gone">[]
}

/** Returns the function with which a replica that stops passes requests on to the others in turn. */
export function createPassOn({ replica, others, send }: PassOnDeps): PassOn {
  let last = 0
  return (request, body, id) => {
    const all = others()
    if (all.length === 0 || request.headers.has(PASSED_ON_BY)) return undefined
    const first = last++ % all.length
    const order = [...all.slice(first), ...all.slice(0, first)]
    const next = async (): Promise<Response | undefined> => {
      const target = order.shift()
      if (target === undefined) return undefined
      const outcome = await sendTo(target, request, { body, id, mark: [PASSED_ON_BY, replica], send })
      return outcome instanceof Response ? outcome : next()
    }
    return next()
  }
}

// ---

const PASSED_ON_BY = "svc-passed-on-by"
const HOP_BY_HOP = ["connection", "keep-alive", "transfer-encoding", "content-length", "upgrade", "te", "trailer"]

const ENDED = "The replica of svc that worked on this request has ended"
const SILENT = "The replica of svc that worked on this request does not answer; it may or may not have done the work"

type Sending = Pick<ForwardDeps, "send"> & {
  readonly body: string | undefined
  readonly id: Id | undefined
  /** The header that names the sending replica: FORWARDED_BY or PASSED_ON_BY. */
  readonly mark: readonly [name: string, replica: string]
}

/** Sends a request to another replica. Resolves with a word if that replica did not accept it; rejects with an UnansweredError. */
function sendTo(
  { address, gone }: Pick<OtherReplica, "address" | "gone">,
  request: Request,
  { body, id, mark, send }: Sending,
): Promise<Response | "refused" | "elsewhere"> {
  const { pathname, search } = new URL(request.url, "http://localhost")
  const headers = new Headers(request.headers)
  for (const name of HOP_BY_HOP) headers.delete(name)
  // This replica would have to decompress a compressed response.
  headers.set("accept-encoding", "identity")
  headers.set(...mark)
  const lost = (cause: unknown) =>
    new UnansweredError(gone.aborted ? SILENT : `${ENDED} (${messageOf(cause)})`, { cause })
  return send(`${address}${pathname}${search}`, {
    method: request.method,
    headers,
    signal: AbortSignal.any([request.signal, gone]),
    redirect: "manual",
    ...(body === undefined ? {} : { body }),
  }).then(
    (response) => relayed(response, (cause) => (id === undefined ? undefined : errorEvent(id, lost(cause)))),
    (cause: unknown) => {
      if (isConnectionRefused(cause)) return "refused"
      throw lost(cause)
    },
  )
}

/** Returns the response as this replica sends it. `last` returns the last event for an event stream that breaks off, if any. */
async function relayed(
  response: Response,
  last: (cause: unknown) => Uint8Array | undefined,
): Promise<Response | "elsewhere"> {
  if (response.headers.has(ELSEWHERE_HEADER)) {
    await response.body?.cancel()
    return "elsewhere"
  }
  const headers = new Headers(response.headers)
  for (const name of HOP_BY_HOP) headers.delete(name)
  const { body, status } = response
  const isStream = headers.get("content-type") === SSE_HEADERS["content-type"]
  return new Response(body !== null && isStream ? endedWith(body, last) : body, { status, headers })
}

/** Returns a copy of an event stream that ends with the event of `last` if the stream breaks off, so that its client knows why. */
function endedWith(
  body: ReadableStream<Uint8Array>,
  last: (cause: unknown) => Uint8Array | undefined,
): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  const source = {
    async pull(controller: ReadableStreamDefaultController<Uint8Array>) {
      try {
        const { done, value } = await reader.read()
        if (done) controller.close()
        else controller.enqueue(value)
      } catch (cause) {
        const event = last(cause)
        if (event !== undefined) controller.enqueue(event)
        controller.close()
      }
    },
    cancel: (reason: unknown) => reader.cancel(reason),
  }
  return new ReadableStream(source, BYTE_STRATEGY)
}

/** Returns the event of an error answer. Empty lines come first: the stream may have broken off within an event. */
function errorEvent(id: Id, error: UnansweredError): Uint8Array {
  const event = formatEvent(errorText(id, RPC_CODE.internalError, publicMessage(error)))
  return Buffer.concat([Buffer.from("\n\n"), event])
}
