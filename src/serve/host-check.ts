/**
 * Checks Host and Origin of every request, so that a page of another site cannot reach a local instance by DNS rebinding.
 * basic: Streamable HTTP, Security & Endpoint.
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
  const problemOf = ({ request: { headers }, path }: Inbound): string | undefined => {
    const host = headers.get("host")
    // Browsers always send Host; some load balancers probe with HTTP/1.0 and without it.
    if (checksHost && host !== null && !passed.has(host)) {
      // DNS rebinding needs a host name, so a literal IP address is safe (load balancers probe by address).
      if (!isOwn(host) && (loopback || !isAddress(nameOf(host))))
        return `Host ${host.slice(0, 100)} is not allowed; allow it with --allowed-host`
      if (passed.size < MAX_REMEMBERED) passed.add(host)
    }
    const origin = headers.get("origin")
    if (origin === null || origins.has(origin.toLowerCase()) || isPublished(path)) return undefined
    if (URL.canParse(origin) && isOwn(new URL(origin).host)) return undefined
    return `Origin ${origin.slice(0, 100)} is not allowed; allow it with --allowed-origin`
  }
  return (inbound, next) => {
    const problem = problemOf(inbound)
    if (problem === undefined) return next(inbound)
    return errorResponse(new RequestError("forbidden", problem), { shape: shapeOf(inbound.path) })
  }
}

// ---

const MAX_REMEMBERED = 64

const nameOf = (host: string): string => plainHost(host.replace(/:\d+$/, ""))
