/**
 * Checks Host and Origin of every request, so that a page of another site cannot reach a local instance by DNS rebinding.
 * Refuses what such a page loads without an Origin, such as images and scripts: they would use up limits and open streams.
 * basic: Streamable HTTP, Security & Endpoint; Fetch Metadata Request Headers.
 */
import { isAddress, isLoopback, plainHost } from "../lib/address.ts"
import { RequestError } from "../lib/errors.ts"
import type { Inbound, Middleware } from "./inbound.ts"
import { errorResponse, shapeOf } from "./respond.ts"

export type HostCheckOptions = {
  /** Host names of svc, without port, in addition to the loopback names. */
  readonly allowedHosts: readonly string[]
  /** Origins of pages that may call svc. */
  readonly allowedOrigins: readonly string[]
  /** Whether svc listens only on loopback. If not, every Host is accepted unless hosts are named. */
  readonly loopback: boolean
  /** Whether pages of all origins may read the document of a path. Default: none. */
  isPublished?(path: string): boolean
}

/** Returns middleware that refuses requests with a wrong Host or Origin. */
export function createHostCheck({
  allowedHosts,
  allowedOrigins,
  loopback,
  isPublished = () => false,
}: HostCheckOptions): Middleware {
  const names = new Set(allowedHosts.map(plainHost))
  const isOwn = (host: string) => names.has(nameOf(host)) || isLoopback(nameOf(host))
  const origins = new Set(allowedOrigins.map((origin) => origin.toLowerCase().replace(/\/$/, "")))
  const checksHost = loopback || allowedHosts.length > 0
  const passed = new Set<string>()
  const isAllowed = (origin: string) =>
    origins.has(origin.toLowerCase()) || (URL.canParse(origin) && isOwn(new URL(origin).host))
  /** Checks a request without an Origin. Browsers send one with each POST. */
  const loadProblem = (headers: Headers, path: string): string | undefined => {
    // A person who follows a link opens the address, and has no limits of others.
    if (headers.get("sec-fetch-site") !== "cross-site" || headers.get("sec-fetch-mode") === "navigate") return undefined
    const referer = headers.get("referer") ?? ""
    if (isPublished(path) || (URL.canParse(referer) && isAllowed(new URL(referer).origin))) return undefined
    return "A page of another site cannot load this; allow its origin with --allowed-origin"
  }
  const problemOf = ({ request, path }: Inbound): string | undefined => {
    const { headers } = request
    const host = headers.get("host")
    // Browsers always send Host; some load balancers probe with HTTP/1.0 and without it.
    if (checksHost && host !== null && !passed.has(host)) {
      // DNS rebinding needs a host name, so a literal IP address is safe (load balancers probe by address).
      if (!isOwn(host) && (loopback || !isAddress(nameOf(host))))
        return `Host ${host.slice(0, 100)} is not allowed; allow it with --allowed-host`
      if (passed.size < MAX_REMEMBERED) passed.add(host)
    }
    const origin = headers.get("origin")
    if (origin === null) return request.method === "POST" ? undefined : loadProblem(headers, path)
    if (isAllowed(origin) || isPublished(path)) return undefined
    return `Origin ${origin.slice(0, 100)} is not allowed; allow it with --allowed-origin`
  }
  return (inbound, next) => {
    const problem = problemOf(inbound)
    if (problem === undefined) return next(inbound)
    return errorResponse(new RequestError("forbidden", problem), { shape: shapeOf(inbound.path) })
  }
}

/**
 * Whether a page of another origin has made a request, as far as its headers show. Browsers send Sec-Fetch-Site to https and
 * loopback addresses only.
 */
export function isOfOtherPage({ headers }: Pick<Request, "headers">): boolean {
  const site = headers.get("sec-fetch-site")
  if (site !== null) return site !== "same-origin" && site !== "none"
  const page = headers.get("origin") ?? headers.get("referer")
  return page !== null && (!URL.canParse(page) || new URL(page).host !== headers.get("host"))
}

// ---

const MAX_REMEMBERED = 64

const nameOf = (host: string): string => plainHost(host.replace(/:\d+$/, ""))
