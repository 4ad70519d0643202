/**
 * Addresses and host names: loopback, private networks, and ranges (CIDR). Loads node:net (4 ms) only for ranges, because
 * every command and the first request import this file.
 */
import type { BlockList } from "node:net"
import { lazy } from "./lazy.ts"

/** The usual names and addresses of the loopback interface. */
export const LOOPBACK_HOSTS: readonly string[] = ["localhost", "127.0.0.1", "::1"]

/**
 * Returns the canonical spelling of a host: lower case, without brackets and trailing dot. Writes an IPv6 address in its
 * shortest form (RFC 5952) without its zone, and an IPv4-mapped one as IPv4.
 */
export function plainHost(host: string): string {
  const bare = host
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/\.$/, "")
    .toLowerCase()
  // Only IPv6 addresses have zones: `localhost%.evil.example` is another name.
  const [address = ""] = bare.split("%", 1)
  if (familyOf(address) !== "ipv6") return bare
  const shortest = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const [, high, low] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(shortest) ?? []
  if (high === undefined || low === undefined) return shortest
  const [left, right] = [Number.parseInt(high, 16), Number.parseInt(low, 16)]
  return [left >> 8, left & 255, right >> 8, right & 255].join(".")
}

/** Whether a host is an IP address, not a name. */
export const isAddress = (host: string): boolean => familyOf(plainHost(host)) !== undefined

/** Whether a host is this machine, without asking a resolver. RFC 6761: Domain Name Reservations. */
export function isLoopback(host: string): boolean {
  const plain = plainHost(host)
  return plain === "::1" || isLocalName(plain) || (plain.startsWith("127.") && familyOf(plain) === "ipv4")
}

/** Whether a host is a loopback, private, link-local or shared address, or a name of this machine. RFC 6890. */
export const isPrivate = (host: string): boolean => isIn(PRIVATE(), host) || isLoopback(host)

/** Returns the URL of a host without a scheme: https, or http on this machine; undefined for any other text. */
export function urlOfHost(text: string): URL | undefined {
  const url = HOST.test(text) ? URL.parse(`https://${text}`) : null
  if (url !== null && isLoopback(url.hostname)) url.protocol = "http:"
  return url ?? undefined
}

/** Returns the address of a listener as a program on this machine reaches it: 127.0.0.1 for 0.0.0.0 and [::]. */
export function localUrl(url: URL): string {
  const local = new URL(url)
  if (local.hostname === "0.0.0.0" || local.hostname === "[::]") local.hostname = "127.0.0.1"
  return local.href
}

/** Parses an address or a CIDR range. Returns a function that checks addresses, or undefined for any other text. */
export function parseRange(text: string): ((address: string) => boolean) | undefined {
  const [address = "", length, ...more] = text.split("/")
  const family = familyOf(address)
  const longest = family === "ipv6" ? 128 : 32
  if (family === undefined || more.length > 0 || !/^\d{1,3}$/.test(length ?? "0")) return undefined
  const prefix = length === undefined ? longest : Number(length)
  if (prefix > longest) return undefined
  const range = blockListOf([address, prefix])
  return (other) => isIn(range, other)
}

/** Returns the network that one client owns: the /64 of an IPv6 address, or the IPv4 address itself. */
export function clientNetworkOf(address: string): string {
  const plain = plainHost(address)
  if (familyOf(plain) !== "ipv6") return plain
  const [head = [], tail = []] = plain.split("::").map((part) => part.split(":").filter((group) => group !== ""))
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => "0")
  return `${[...head, ...zeros, ...tail].slice(0, 4).join(":")}::/64`
}

// ---

const HOST = /^(?:localhost|[\w-]+(?:\.[\w-]+)+|\[[\da-f:.]+\])(?::\d{1,5})?(?:\/\S*)?$/i

const PRIVATE = lazy(() =>
  blockListOf(
    ["0.0.0.0", 8],
    ["10.0.0.0", 8],
    ["100.64.0.0", 10],
    ["169.254.0.0", 16],
    ["172.16.0.0", 12],
    ["192.168.0.0", 16],
    ["::", 128],
    ["fc00::", 7],
    ["fe80::", 10],
  ),
)
const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/

function blockListOf(...ranges: readonly (readonly [net: string, prefix: number])[]): BlockList {
  const list = new (process.getBuiltinModule("node:net").BlockList)()
  for (const [net, prefix] of ranges) list.addSubnet(net, prefix, familyOf(net))
  return list
}

/** Returns the family of an address without brackets and zone; undefined if the text is not an address. */
function familyOf(text: string): "ipv4" | "ipv6" | undefined {
  if (IPV4.test(text)) return "ipv4"
  // The URL parser accepts an extra colon at the end.
  const isCandidate = text.includes(":") && /^[\da-f:.]+$/i.test(text) && !/[^:]:$/.test(text)
  return isCandidate && URL.canParse(`http://[${text}]`) ? "ipv6" : undefined
}

const isLocalName = (name: string): boolean => name === "localhost" || name.endsWith(".localhost")

function isIn(list: BlockList, host: string): boolean {
  const plain = plainHost(host)
  const family = familyOf(plain)
  return family !== undefined && list.check(plain, family)
}
