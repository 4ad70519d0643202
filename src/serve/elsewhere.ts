/**
 * The port through which a request reaches another replica of svc (features/cluster/forward.ts), and the headers that mark such a request
 * and its response. A single svc forwards nothing.
 */
import { UnavailableError } from "../lib/errors.ts"
import type { Id } from "../wire/message.ts"
import { errorResponse } from "./respond.ts"

/**
 * Forwards a request to a replica. `body` is its body if it was read already, `id` the id of the JSON-RPC request in it. Resolves
 * with undefined if this replica must answer. Rejects with an UnansweredError if the other one ended while it worked on the
 * request, or does not answer; with an UnreachedError if it is alive and did not receive the request.
 */
export type Forward = (
  to: string | undefined,
  request: Request,
  body?: string,
  id?: Id,
) => Promise<Response | undefined> | undefined

/**
 * Sends a request that any replica can serve to one that does not stop, as the load balancer ought to have done. Resolves with
 * undefined if none accepts it. Returns undefined at once if there is none, or another replica has already passed the request on.
 */
export type PassOn = (request: Request, body: string, id: Id | undefined) => Promise<Response | undefined> | undefined

/** The error for a request to a replica that is alive but cannot be reached at its address. */
export class UnreachedError extends UnavailableError {
  constructor(replica: string) {
    super(
      `The replica of svc that this request belongs to (${replica}) cannot be reached from the one that received it; try again in a moment`,
      { retryAfter: 1 },
    )
  }
}

/** A header of a response with which a replica that stops declines a request: any other replica may serve it. */
export const ELSEWHERE_HEADER = "svc-elsewhere"

/** Returns the response that declines a forwarded request. */
export const elsewhereResponse = (): Response =>
  errorResponse(new UnavailableError("This replica of svc is stopping; try again in a moment", { retryAfter: 1 }), {
    shape: "jsonrpc",
    headers: { [ELSEWHERE_HEADER]: "1" },
  })

/** Whether another replica forwarded a request. */
export const isForwarded = ({ headers }: Request): boolean => headers.has(FORWARDED_BY)

/** The header that names the replica that forwarded a request. */
export const FORWARDED_BY = "svc-forwarded-by"
