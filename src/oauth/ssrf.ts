/**
 * Where a remote server may send svc when it says who authorizes for it: it is the server that names the addresses, and svc
 * stands where the server may not reach. authorization: Security Considerations; best practices: SSRF.
 *
 *  1. Only http and https: Bun would open files and buckets too.
 *  2. A server elsewhere names no address of this machine or its network. Names that resolve to one are not looked through:
 *     many an intranet has them.
 *  3. Who is spoken to encrypted names nobody who is not.
 */

import { readBody, reasonOf } from "../backend/http.ts"
import { TransientError } from "../backend/link.ts"
import { isPrivate } from "../lib/address.ts"

/** As the SDK wants one. */
export type BoundedFetch = (url: string | URL, init?: RequestInit) => Promise<Response>

/**
 * A fetch for talk with the authorization server that `server` has named: bounded in time, size and reach; failures that
 * say nothing are TransientErrors.
 */
export function boundedFetch(
  fetch: (url: string, init: RequestInit) => Promise<Response>,
  server: string,
): BoundedFetch {
  const check = createSsrfGuard(server)
  return async (url, init) => {
    const signal = AbortSignal.timeout(ANSWER_MS)
    let target = new URL(url)
    let response: Response
    let body: Uint8Array
    for (let hops = 0; ; hops++) {
      check(target)
      try {
        response = await fetch(target.href, { ...init, redirect: "manual", signal })
        body = await readBody(response, MAX_ANSWER)
      } catch (cause) {
        throw new TransientError(`${target.host} cannot be reached: ${reasonOf(cause)}`, { cause })
      }
      const next = init?.method === "POST" || response.status >= 400 ? null : response.headers.get("location")
      if (next === null || !URL.canParse(next, target.href)) break
      if (hops >= MAX_REDIRECTS) throw new TransientError(`${target.host} redirects too often`)
      target = new URL(next, target)
    }
    const { host } = target
    const { status } = response
    if (status >= 500 || status === 429) throw new TransientError(`${host} answered ${status}`)
    const type = response.headers.get("content-type")
    return new Response(body.length === 0 ? null : body, {
      status,
      headers: type === null ? {} : { "content-type": type },
    })
  }
}

/** A check of addresses that the server at an address of the configuration has named: throws where svc must not go. */
export function createSsrfGuard(server: string): (url: URL) => void {
  const from = new URL(server)
  const inside = isPrivate(from.hostname)
  return (url) => {
    if (url.protocol !== "https:" && url.protocol !== "http:")
      throw new Error(`svc goes to no ${url.protocol.slice(0, 20)} address`)
    const there = isPrivate(url.hostname)
    if (there && !inside) throw new Error(`${url.host} is in svc's own network, and ${from.host} is not`)
    if (url.protocol === "http:" && !there && from.protocol === "https:") throw new Error(`${url.host} is not https`)
  }
}

// ---

const ANSWER_MS = 15_000
const MAX_ANSWER = 1024 * 1024
const MAX_REDIRECTS = 3
