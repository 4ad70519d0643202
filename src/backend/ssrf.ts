/**
 * Guards against SSRF: a remote server names the addresses of its authorization server, and svc may reach addresses that
 * the server cannot reach. authorization: Security Considerations; best practices: SSRF.
 *
 *  1. svc opens only http and https: Bun's fetch would open files and buckets too.
 *  2. A public server may not name an address of svc's machine or network. Host names that resolve to such an address pass,
 *     because intranets have them.
 *  3. A server reached over https may not name an http authorization server.
 */

import { isPrivate } from "../lib/address.ts"
import { networkReason } from "../lib/network-error.ts"
import { TransientError } from "./client-transport.ts"
import { readBody } from "./http.ts"

/** The type of fetch that the SDK takes. */
export type BoundedFetch = (url: string | URL, init?: RequestInit) => Promise<Response>

/**
 * Returns a fetch for addresses that the server at `server` named, bounded in time (`ms` for an answer with its redirects),
 * size, redirects and addresses. Rejects with a TransientError if there is no answer, or an answer that says nothing about the
 * grant (5xx, 408, 425, 429).
 */
export function boundedFetch(
  fetch: (url: string, init: RequestInit) => Promise<Response>,
  server: string,
  ms = ANSWER_MS,
): BoundedFetch {
  const check = createSsrfGuard(server)
  return async (url, init) => {
    const signal = AbortSignal.timeout(ms)
    let target = new URL(url)
    let response: Response
    let body: Uint8Array<ArrayBuffer>
    for (let hops = 0; ; hops++) {
      check(target)
      try {
        response = await fetch(target.href, { ...init, redirect: "manual", signal })
        body = await readBody(response, MAX_ANSWER)
      } catch (cause) {
        throw new TransientError(networkReason(target.href, cause), { cause })
      }
      const next = init?.method === "POST" || response.status >= 400 ? null : response.headers.get("location")
      if (next === null || !URL.canParse(next, target.href)) break
      if (hops >= MAX_REDIRECTS) throw new TransientError(`${target.host} redirects too often`)
      target = new URL(next, target)
    }
    const { host } = target
    const { status } = response
    if (status >= 500 || NOT_NOW.includes(status)) throw new TransientError(`${host} answered ${status}`, { status })
    const headers = KEPT_HEADERS.flatMap((name): [string, string][] => {
      const value = response.headers.get(name)
      return value === null ? [] : [[name, value]]
    })
    return new Response(body.length === 0 ? null : body, { status, headers })
  }
}

/** Returns a check for addresses that the server at `server` named. The check throws for an address that svc must not open. */
export function createSsrfGuard(server: string): (url: URL) => void {
  const from = new URL(server)
  const isLocalServer = isPrivate(from.hostname)
  return (url) => {
    if (url.protocol !== "https:" && url.protocol !== "http:")
      throw new Error(`svc does not open ${url.protocol.slice(0, 20)} addresses`)
    const isLocal = isPrivate(url.hostname)
    if (isLocal && !isLocalServer) throw new Error(`${url.host} is in svc's own network, and ${from.host} is not`)
    if (url.protocol === "http:" && !isLocal && from.protocol === "https:")
      throw new Error(`${url.host} must use https, as ${from.host} does`)
  }
}

// ---

/** Refusals that may be different a moment later. RFC 9110, 15.5.9; RFC 8470, 5.2; RFC 6585, 4. */
const NOT_NOW: readonly number[] = [408, 425, 429]

const ANSWER_MS = 15_000
const MAX_ANSWER = 1024 * 1024
const MAX_REDIRECTS = 3
/** The headers that the SDK needs. The nonce is for the next proof. RFC 9449, 8. */
const KEPT_HEADERS = ["content-type", "dpop-nonce"]
