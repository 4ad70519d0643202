/** Addresses and names of machines: which of them are this machine's, which are its network's, and ranges of them. */
import { BlockList, isIP } from "node:net"

/** The names under which this machine is reached most often. */
export const LOOPBACK_HOSTS: readonly string[] = ["localhost", "127.0.0.1", "::1"]

/**
 * Returns a host in one spelling: without brackets, zone and last dot, in lower case; an IPv6 address in its shortest form
 * (RFC 5952), or as IPv4 where it maps one.
 */
export function plainHost(host: string): string {
  const bare = host
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/%.*$/, "")
    .replace(/\.$/, "")
    .toLowerCase()
  if (isIP(bare) !== 6) return bare
  const shortest = new URL(`http://[${bare}]`).hostname.slice(1, -1)
  const [, high, low] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(shortest) ?? []
  if (high === undefined || low === undefined) return shortest
  const [left, right] = [Number.parseInt(high, 16), Number.parseInt(low, 16)]
  return [left >> 8, left & 255, right >> 8, right & 255].join(".")
}

/** Whether a host is an IP address and no name. */
export const isAddress = (host: string): boolean => isIP(plainHost(host)) !== 0

/** Whether a host is this machine, as far as can be told without asking a resolver. RFC 6761: Domain Name Reservations. */
export const isLoopback = (host: string): boolean => isIn(LOOPBACK, host) || isLocalName(plainHost(host))

/** Whether a host is this machine or an address of its network: loopback, private, link-local and shared. RFC 6890. */
export const isPrivate = (host: string): boolean => isIn(PRIVATE, host) || isLoopback(host)

/** Reads an address or a CIDR. Returns a check of addresses; undefined where it is neither. */
export function parseRange(text: string): ((address: string) => boolean) | undefined {
  const [address = "", length, ...more] = text.split("/")
  const family = isIP(address)
  const longest = family === 6 ? 128 : 32
  const prefix = length === undefined ? longest : /^\d{1,3}$/.test(length) ? Number(length) : Number.NaN
  if (family === 0 || more.length > 0 || !(prefix <= longest)) return undefined
  const range = new BlockList()
  range.addSubnet(address, prefix, familyOf(address))
  return (other) => isIn(range, other)
}

/** Returns the network of a client: an IPv6 client owns a /64, and one of IPv4 an address. */
export function networkOf(address: string): string {
  const plain = plainHost(address)
  if (isIP(plain) !== 6) return plain
  const [head = [], tail = []] = plain.split("::").map((part) => part.split(":").filter((group) => group !== ""))
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => "0")
  return `${[...head, ...zeros, ...tail].slice(0, 4).join(":")}::/64`
}

// ---

const LOOPBACK = listOf(["127.0.0.0", 8], ["::1", 128])
const PRIVATE = listOf(
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
  ["::", 128],
  ["fc00::", 7],
  ["fe80::", 10],
)

function listOf(...ranges: readonly (readonly [net: string, prefix: number])[]): BlockList {
  const list = new BlockList()
  for (const [net, prefix] of ranges) list.addSubnet(net, prefix, familyOf(net))
  return list
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIP(address) === 6 ? "ipv6" : "ipv4"
}

const isLocalName = (name: string): boolean => name === "localhost" || name.endsWith(".localhost")

function isIn(list: BlockList, host: string): boolean {
  const plain = plainHost(host)
  return isIP(plain) !== 0 && list.check(plain, familyOf(plain))
}
