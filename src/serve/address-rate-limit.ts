/**
 * The rate limit of the health endpoints: fixed windows by client address, in a bounded table. Also finds the client's
 * address behind a trusted proxy. spec: Limits; choice: Rate limit.
 */
import { clientNetworkOf, isAddress, isLoopback, parseRange, plainHost } from "../lib/address.ts"
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Clock } from "../lib/clock.ts"
import { RequestError } from "../lib/errors.ts"
import { isHealthPath, UNCACHED } from "./health.ts"
import { isOfOtherPage } from "./host-check.ts"
import { type Middleware, withHeaders } from "./inbound.ts"
import { errorResponse, shapeOf } from "./respond.ts"

export type RateLimit = { readonly requests: number; readonly windowMs: number }

export const HEALTH_LIMIT: RateLimit = { requests: 200, windowMs: 5 * 60_000 }

/** The result of counting a request: headers for its response, and the seconds to wait if it is over the limit. */
type RateVerdict = {
  readonly headers: Readonly<Record<string, string>>
  readonly retryAfter: number | undefined
}

export type HealthLimitOptions = {
  /** Counts a request of an address. */
  readonly limiter: AddressLimiter
  /** Counts a probe: a request for the state of this process alone. */
  readonly probeLimiter: AddressLimiter
  readonly trustProxy: TrustProxy
  /** Called for each request over the limit. */
  onlimited(): void
}

/**
 * Returns middleware that counts requests under `/health` before a report is rendered, and answers 429 over the limit. Requests
 * that a page of another origin has made count by themselves: it must not use up the limit of programs on the same machine.
 */
export const createHealthLimit =
  ({ limiter, probeLimiter, trustProxy, onlimited }: HealthLimitOptions): Middleware =>
  (inbound, next) => {
    const { request, path, address } = inbound
    if (!isHealthPath(path)) return next(inbound)
    const forwarded = request.headers.get("x-forwarded-for")
    const count = PROBES.has(path) ? probeLimiter : limiter
    const sender = isOfOtherPage(request) ? "page" : ""
    const { headers, retryAfter } = count(clientAddress(address(), forwarded, trustProxy), sender)
    if (retryAfter === undefined) return withHeaders(next(inbound), headers)
    onlimited()
    const error = new RequestError("too_many", "Too many requests", { retryAfter })
    return errorResponse(error, { shape: shapeOf(path), headers: { ...headers, ...UNCACHED } })
  }

/** Counts a request of an address, separately for each kind of sender there. */
export type AddressLimiter = (address: string, sender?: Sender) => RateVerdict

/** The sender of a request: a page of another origin, a client with a login, or any other client. */
type Sender = "page" | "login" | ""

/** Counts a request in the window that replicas share for an address. Rejects while the shared state cannot be reached. */
export type CountShared = (
  address: string,
  windowMs: number,
) => Promise<{ readonly count: number; readonly endsIn: number }>

/**
 * Returns a function that counts requests by address; the addresses of one IPv6 /64 count as one. With `countShared`, replicas
 * count together. Requests do not wait for the shared count, so each replica admits a few more.
 */
export function createAddressLimiter(
  clock: Clock,
  { requests, windowMs }: RateLimit,
  countShared?: CountShared,
): AddressLimiter {
  // A flood of addresses must neither make the table grow, nor reset the limit of an active client.
  const windows = new BoundedMap<string, Window>(MAX_ADDRESSES)
  const seconds = Math.ceil(windowMs / 1000)
  const follow = async (window: Window, key: string) => {
    const shared = await countShared?.(key, windowMs).catch(() => undefined)
    if (shared === undefined) return
    window.count = Math.max(window.count, shared.count)
    window.ends = clock.now() + shared.endsIn
  }
  return (address, sender = "") => {
    const now = clock.now()
    const key = `${sender}${sender && " "}${clientNetworkOf(address)}`
    let window = windows.get(key)
    // The clock may have been set back.
    if (window === undefined || window.ends <= now || window.ends > now + windowMs) {
      windows.delete(key)
      window = { ends: now + windowMs, count: 0 }
      windows.set(key, window)
    }
    window.count++
    if (window.count <= requests) void follow(window, key)
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

/** Whether the peer at an address is a proxy whose X-Forwarded-For header is trusted. */
export type TrustProxy = (address: string) => boolean

/** The address of every peer at a Unix socket. */
export const UNIX_SOCKET = "the Unix socket"

/** The address of a peer that has closed its connection. No proxy: anybody can do that. */
export const CLOSED_CONNECTION = "a closed connection"

/** Trusts nobody. */
export const TRUST_NO_PROXY: TrustProxy = () => false

/**
 * Parses `--trust-proxy`: `off`, `loopback`, or addresses and CIDRs, separated by commas. Undefined if it is invalid. The peer at
 * a Unix socket runs on this machine, so `loopback` includes it.
 */
export function parseTrustProxy(text: string): TrustProxy | undefined {
  if (text === "" || text === "off") return TRUST_NO_PROXY
  const parts = text.split(",").map((part) => part.trim())
  const ranges = parts.map((part) => (part === "loopback" ? isOnThisMachine : parseRange(part)))
  if (ranges.includes(undefined)) return undefined
  return (address) => ranges.some((range) => range?.(address) === true)
}

/** Returns the client's address: the last one in X-Forwarded-For that is not a trusted proxy's, or else the socket's. */
export function clientAddress(socket: string, forwarded: string | null, trusted: TrustProxy): string {
  const peer = socket === UNIX_SOCKET ? socket : normalizeAddress(socket)
  if (forwarded === null || !trusted(peer)) return peer
  const hops = forwarded
    .slice(-MAX_FORWARDED)
    .split(",")
    .map((hop) => normalizeAddress(hop.trim()))
  for (const hop of hops.reverse()) if (isAddress(hop) && !trusted(hop)) return hop
  return peer
}

// ---

/** `ends` is in milliseconds since the epoch. */
type Window = { ends: number; count: number }

const MAX_ADDRESSES = 10_000
const MAX_FORWARDED = 1024
const PROBES: ReadonlySet<string> = new Set(["/health/live", "/health/ready"])

const isOnThisMachine = (address: string): boolean => address === UNIX_SOCKET || isLoopback(address)

/** Returns an address in one spelling, without a port. */
const normalizeAddress = (address: string): string =>
  plainHost(address.replace(/^(\[[^\]]*\]):\d+$/, "$1").replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, "$1"))
