/**
 * The rate limit of the health endpoints: fixed windows by client address, in a bounded table. spec: Limits; choice: Rate
 * limit. Also who the client is, where a proxy stands in front.
 */
import { isAddress, isLoopback, networkOf, parseRange, plainHost } from "../lib/address.ts"
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Clock } from "../lib/clock.ts"

export type RateLimit = { readonly requests: number; readonly windowMs: number }

export const HEALTH_LIMIT: RateLimit = { requests: 200, windowMs: 5 * 60_000 }

/** What counting a request says: headers for its response, and how long to wait where it is one too many. */
export type RateVerdict = {
  readonly headers: Readonly<Record<string, string>>
  readonly retryAfter: number | undefined
}

/** Counts requests by address. */
export function createAddressLimiter(
  clock: Clock,
  { requests, windowMs }: RateLimit,
): (address: string) => RateVerdict {
  // A flood of addresses must not make the table grow, nor lift the limit of the client at hand.
  const windows = new BoundedMap<string, { ends: number; count: number }>(MAX_ADDRESSES)
  const seconds = Math.ceil(windowMs / 1000)
  return (address) => {
    const now = clock.now()
    const key = networkOf(address)
    let window = windows.get(key)
    if (window === undefined || window.ends <= now) {
      windows.delete(key)
      window = { ends: now + windowMs, count: 0 }
      windows.set(key, window)
    }
    window.count++
    const remaining = Math.max(0, requests - window.count)
    const reset = Math.max(1, Math.ceil((window.ends - now) / 1000))
    const headers = {
      "ratelimit-policy": `"health";q=${requests};w=${seconds}`,
      ratelimit: `"health";r=${remaining};t=${reset}`,
      "ratelimit-limit": String(requests),
      "ratelimit-remaining": String(remaining),
      "ratelimit-reset": String(reset),
    }
    return { headers, retryAfter: window.count > requests ? reset : undefined }
  }
}

/** Whose word counts about the client's address: nobody's, or that of proxies at these addresses. */
export type TrustProxy = (address: string) => boolean

/** Reads `--trust-proxy`: `off`, `loopback`, addresses and CIDRs with commas. Undefined where it is none of them. */
export function parseTrustProxy(text: string): TrustProxy | undefined {
  if (text === "" || text === "off") return () => false
  const parts = text.split(",").map((part) => part.trim())
  const ranges = parts.map((part) => (part === "loopback" ? isLoopback : parseRange(part)))
  if (ranges.includes(undefined)) return undefined
  return (address) => ranges.some((range) => range?.(address) === true)
}

/** The client's address: the last one in X-Forwarded-For that no trusted proxy stands at, or the socket's. */
export function clientAddress(socket: string, forwarded: string | null, trusted: TrustProxy): string {
  if (forwarded === null || !trusted(normalizeAddress(socket))) return normalizeAddress(socket)
  const hops = forwarded
    .slice(-MAX_FORWARDED)
    .split(",")
    .map((hop) => normalizeAddress(hop.trim()))
  for (const hop of hops.reverse()) if (isAddress(hop) && !trusted(hop)) return hop
  return normalizeAddress(socket)
}

// ---

const MAX_ADDRESSES = 10_000
const MAX_FORWARDED = 1024

/** An address in one spelling; a port is no part of it. */
const normalizeAddress = (address: string): string =>
  plainHost(address.replace(/^(\[[^\]]*\]):\d+$/, "$1").replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, "$1"))
