/**
 * The rate limit of the health endpoints: fixed windows by client address, in a bounded table. spec: Limits; choice: Rate
 * limit. Also who the client is, where a proxy stands in front.
 */
import { dropOldest } from "../lib/bounded.ts"
import type { Clock } from "../lib/clock.ts"

export type Limit = { readonly requests: number; readonly windowMs: number }

export const HEALTH_LIMIT: Limit = { requests: 200, windowMs: 5 * 60_000 }

/** What counting a request says: headers for its response, and how long to wait where it is one too many. */
export type Verdict = { readonly headers: Readonly<Record<string, string>>; readonly retryAfter: number | undefined }

/** Counts requests by address. */
export function createLimiter(clock: Clock, { requests, windowMs }: Limit): (address: string) => Verdict {
  const windows = new Map<string, { ends: number; count: number }>()
  const seconds = Math.ceil(windowMs / 1000)
  return (address) => {
    const now = clock.now()
    const key = groupOf(address)
    let window = windows.get(key)
    if (window === undefined || window.ends <= now) {
      windows.delete(key)
      window = { ends: now + windowMs, count: 0 }
      windows.set(key, window)
      // A flood of addresses must not make the table grow, nor lift the limit of the one at hand.
      dropOldest(windows, MAX_ADDRESSES)
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
  const ranges = parts.map((part) => (part === "loopback" ? loopback : rangeOf(part)))
  if (ranges.includes(undefined)) return undefined
  return (address) => ranges.some((range) => range?.(address) === true)
}

/** The client's address: the last one in X-Forwarded-For that no trusted proxy stands at, or the socket's. */
export function clientAddress(socket: string, forwarded: string | null, trusted: TrustProxy): string {
  if (forwarded === null || !trusted(plain(socket))) return plain(socket)
  const hops = forwarded
    .slice(-MAX_FORWARDED)
    .split(",")
    .map((hop) => plain(hop.trim()))
  for (const hop of hops.reverse()) if (isAddress(hop) && !trusted(hop)) return hop
  return plain(socket)
}

/** Whether a text is an IP address and no name. */
export const isAddress = (text: string): boolean => bitsOf(text) !== undefined

// ---

const MAX_ADDRESSES = 10_000
const MAX_FORWARDED = 1024

/** `::ffff:1.2.3.4` is an IPv4 address; brackets and ports are no part of one. */
function plain(address: string): string {
  return address
    .replace(/^::ffff:(?=\d+\.)/i, "")
    .replace(/^\[([^\]]*)\](?::\d+)?$/, "$1")
    .replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, "$1")
}

/** IPv6 clients own a /64: one of them must not count as many. */
function groupOf(address: string): string {
  if (!address.includes(":")) return address
  const bits = bitsOf(address)
  return bits === undefined ? address : `${bits.slice(0, 64)}/64`
}

const loopback = (address: string): boolean => address === "::1" || address.startsWith("127.")

function rangeOf(text: string): TrustProxy | undefined {
  const [address = "", length] = text.split("/")
  const bits = bitsOf(address)
  if (bits === undefined) return undefined
  const count = length === undefined ? bits.length : /^\d{1,3}$/.test(length) ? Number(length) : Number.NaN
  if (!(count >= 0 && count <= bits.length)) return undefined
  return (other) => {
    const found = bitsOf(other)
    return found !== undefined && found.length === bits.length && found.startsWith(bits.slice(0, count))
  }
}

/** An address as its bits in text, or undefined where it is none. */
function bitsOf(address: string): string | undefined {
  if (/^\d{1,3}(\.\d{1,3}){3}$/.test(address)) {
    const parts = address.split(".").map(Number)
    return parts.every((part) => part < 256)
      ? parts.map((part) => part.toString(2).padStart(8, "0")).join("")
      : undefined
  }
  if (!/^[0-9a-f:]{2,39}$/i.test(address)) return undefined
  const [head = "", tail, ...more] = address.split("::")
  if (more.length > 0) return undefined
  const left = head === "" ? [] : head.split(":")
  const right = tail === undefined || tail === "" ? [] : tail.split(":")
  const missing = 8 - left.length - right.length
  if (tail === undefined ? missing !== 0 : missing < 1) return undefined
  const groups = [...left, ...Array.from({ length: missing }, () => "0"), ...right]
  if (!groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return undefined
  return groups.map((group) => Number.parseInt(group, 16).toString(2).padStart(16, "0")).join("")
}
