/**
 * Sends a client's request on to the replica that it belongs to, and streams the response back.
 *
 *  1. The request goes on as it came, with its credentials and its `Host`: the other replica authenticates and answers it as if
 *     the load balancer had chosen it. So nothing needs to be trusted but the client.
 *  2. A request goes on once: whoever sends the header FORWARDED_BY gets what this replica has.
 *  3. A replica that does not accept the connection is gone, and this one answers with what it has. So it does if the other one
 *     stops, and says by ELSEWHERE_HEADER that the request is another's.
 */
import { messageOf, UnavailableError } from "../lib/errors.ts"
import { isConnectionRefused } from "../lib/network-error.ts"
import type { Replica } from "../store/replicas.ts"

export type ForwardDeps = {
  /** The id of this replica. */
  readonly replica: string
  /** Returns another replica that lives. */
  find(id: string): Pick<Replica, "address"> | undefined
  /** Sends a request, like fetch. */
  send(url: string, init: RequestInit): Promise<Response>
}

/**
 * Sends a request on to a replica. `body` is its body if that was read already. Resolves with undefined if this replica must
 * answer; rejects with an UnavailableError if the other one ended while it worked on the request.
 */
export type Forward = (
  to: string | undefined,
  request: Request,
  body?: string,
) => Promise<Response | undefined> | undefined

/** Creates the function that forwards. It returns undefined at once if there is no other replica to send the request to. */
export function createForward({ replica, find, send }: ForwardDeps): Forward {
  return (to, request, body) => {
    if (to === undefined || to === replica || request.headers.has(FORWARDED_BY)) return undefined
    const target = find(to)
    if (target === undefined) return undefined
    const { pathname, search } = new URL(request.url, "http://localhost")
    const headers = new Headers(request.headers)
    for (const name of HOP_BY_HOP) headers.delete(name)
    // What the other replica compresses, this one would have to decompress.
    headers.set("accept-encoding", "identity")
    headers.set(FORWARDED_BY, replica)
    const { method, signal } = request
    return send(`${target.address}${pathname}${search}`, {
      method,
      headers,
      signal,
      redirect: "manual",
      ...(body === undefined ? {} : { body }),
    }).then(relayed, (cause: unknown) => {
      if (isConnectionRefused(cause)) return undefined
      throw new UnavailableError(`The replica of svc that worked on this request has ended (${messageOf(cause)})`, {
        cause,
      })
    })
  }
}

/** A header of a response that leaves the request to any other replica. */
export const ELSEWHERE_HEADER = "svc-elsewhere"

/** Whether another replica has sent a request on. */
export const isForwarded = ({ headers }: Request): boolean => headers.has(FORWARDED_BY)

// ---

const FORWARDED_BY = "svc-forwarded-by"
const HOP_BY_HOP = ["connection", "keep-alive", "transfer-encoding", "content-length", "upgrade", "te", "trailer"]

async function relayed(response: Response): Promise<Response | undefined> {
  if (response.headers.has(ELSEWHERE_HEADER)) {
    await response.body?.cancel()
    return undefined
  }
  const headers = new Headers(response.headers)
  for (const name of HOP_BY_HOP) headers.delete(name)
  return new Response(response.body, { status: response.status, headers })
}
