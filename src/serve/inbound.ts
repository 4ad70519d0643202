/**
 * One HTTP request in the middleware, and the type of all middleware.
 *
 * An Inbound is created once, by the listener, and is immutable: a middleware that learns more about the request passes a copy
 * to `next`. A middleware answers itself, or returns the response of `next`, with or without further headers. It creates no
 * promise unless it awaits something, because it runs for every call.
 */
import { ANONYMOUS, type Principal } from "./principal.ts"

export type Inbound = {
  readonly request: Request
  /** The path of the URL, percent-encoded as it came, without the query and without a slash at its end, which means nothing. */
  readonly path: string
  /** The end of the path that `path` lacks: a slash, or "". The name of a protected resource has it. RFC 9728, 3.3. */
  readonly slash: string
  /** The query of the URL with its question mark, or "". */
  readonly search: string
  /** Returns the address of the client's socket. Costs a system call: call it only if the address is needed. */
  readonly address: () => string
  /** ANONYMOUS until the authentication has run. */
  readonly principal: Principal
}

/** Answers a request. */
export type Respond = (inbound: Inbound) => Response | Promise<Response>

/** Answers a request, or passes it to `next`. */
export type Middleware = (inbound: Inbound, next: Respond) => Response | Promise<Response>

/** Reads the parts of a request that middleware needs. Does not parse the whole URL, because this runs for every call. */
export function createInbound(request: Request, address: () => string): Inbound {
  const { url } = request
  // If the request has no Host, Bun provides only the path.
  const start = url.startsWith("/") ? 0 : url.indexOf("/", url.indexOf("://") + 3)
  const query = url.indexOf("?")
  const end = query < 0 ? url.length : query
  let last = end
  while (last > start + 1 && url.charCodeAt(last - 1) === SLASH) last--
  const path = start < 0 || start >= end ? "/" : url.slice(start, last)
  return { request, path, slash: url.slice(last, end), search: url.slice(end), address, principal: ANONYMOUS }
}

/** Joins middleware into one function: the first in the list runs first, `last` answers requests that none of them answers. */
export const compose = (list: readonly Middleware[], last: Respond): Respond =>
  list.reduceRight<Respond>((next, middleware) => (inbound) => middleware(inbound, next), last)

/** Adds headers to a response. */
export function withHeaders(
  served: Response | Promise<Response>,
  headers: Readonly<Record<string, string>>,
): Response | Promise<Response> {
  if (served instanceof Promise) return served.then((response) => withHeaders(response, headers))
  for (const [name, value] of Object.entries(headers)) served.headers.set(name, value)
  return served
}

// ---

const SLASH = 0x2f
