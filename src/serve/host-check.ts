/**
 * Who may speak to svc from a browser: Host and Origin are checked on every request, so that a page of somebody else's
 * cannot reach a local instance by rebinding a name. basic: Streamable HTTP, Security & Endpoint.
 */
import { isAddress, isLoopback, plainHost } from "../lib/address.ts"
import { errorText } from "../wire/message.ts"
import { JSON_HEADERS } from "./respond.ts"

export type HostCheckOptions = {
  /** Names svc is reached under besides the loopback ones, without port. */
  readonly allowedHosts: readonly string[]
  /** Origins of pages that may call it. */
  readonly allowedOrigins: readonly string[]
  /** Whether svc listens on loopback alone; else any Host goes unless hosts are named. */
  readonly loopback: boolean
}

/** A refusal, or undefined where the request may pass. */
export function createHostCheck({
  allowedHosts,
  allowedOrigins,
  loopback,
}: HostCheckOptions): (request: Request) => Response | undefined {
  const names = new Set(allowedHosts.map(plainHost))
  const isOwn = (host: string) => names.has(nameOf(host)) || isLoopback(nameOf(host))
  const origins = new Set(allowedOrigins.map((origin) => origin.toLowerCase().replace(/\/$/, "")))
  const checksHost = loopback || allowedHosts.length > 0
  const passed = new Set<string>()
  return (request) => {
    const host = request.headers.get("host")
    // Browsers always name one; HTTP/1.0, in which some load balancers probe, need not.
    if (checksHost && host !== null && !passed.has(host)) {
      // A rebound name is a name: who asks for an address, as a load balancer does that probes it, was not lured here.
      if (!isOwn(host) && (loopback || !isAddress(nameOf(host))))
        return refuse(`Host ${host.slice(0, 100)} is not allowed; name it with --allowed-host`)
      if (passed.size < MAX_REMEMBERED) passed.add(host)
    }
    const origin = request.headers.get("origin")
    if (origin === null) return undefined
    if (origins.has(origin.toLowerCase())) return undefined
    if (URL.canParse(origin) && isOwn(new URL(origin).host)) return undefined
    return refuse(`Origin ${origin.slice(0, 100)} is not allowed; name it with --allowed-origin`)
  }
}

// ---

const MAX_REMEMBERED = 64

const nameOf = (host: string): string => plainHost(host.replace(/:\d+$/, ""))

const refuse = (message: string): Response =>
  new Response(errorText(undefined, -32600, message), { status: 403, headers: JSON_HEADERS })
