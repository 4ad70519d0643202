import { expect, test } from "bun:test"
import { isIP } from "node:net"
import fc from "fast-check"
import { clientNetworkOf, isAddress, isLoopback, isPrivate, parseRange, plainHost } from "../../src/lib/address.ts"

const THIS_MACHINE = [
  ..."localhost LOCALHOST localhost. svc.localhost svc.localhost. 127.0.0.1 127.0.0.2 127.255.255.254".split(" "),
  ..."::1 [::1] 0:0:0:0:0:0:0:1 ::ffff:127.0.0.1 [::ffff:7f00:1]".split(" "),
]
const NETWORK = [
  ..."0.0.0.0 10.0.0.1 100.64.0.1 169.254.169.254 172.31.0.1 192.168.1.1".split(" "),
  ..."[::] fd00::1 [fe80::1] fe80::1%eth0 ::ffff:10.0.0.1 [::ffff:a9fe:a9fe]".split(" "),
]
const ELSEWHERE = [
  ..."example.com localhost.example.com notlocalhost 127.0.0.1.example.com 128.0.0.1 172.32.0.1 1.2.3.4".split(" "),
  ..."2001:db8::1 [2001:db8::1] ::ffff:1.2.3.4".split(" "),
  ..."localhost%.evil.example localhost%25.evil.example 127.0.0.1%.evil.example 10.0.0.1%1".split(" "),
  "",
]

test("a host is loopback, private or public in each of its spellings", () => {
  expect(THIS_MACHINE.filter((host) => !isLoopback(host) || !isPrivate(host))).toEqual([])
  expect(NETWORK.filter((host) => isLoopback(host) || !isPrivate(host))).toEqual([])
  expect(ELSEWHERE.filter((host) => isLoopback(host) || isPrivate(host))).toEqual([])
})

test("each host has one canonical spelling", () => {
  expect(["Example.COM.", "[2001:DB8:0:0::1]", "::ffff:1.2.3.4", "fe80::1%eth0", "1.2.3.4"].map(plainHost)).toEqual([
    "example.com",
    "2001:db8::1",
    "1.2.3.4",
    "fe80::1",
    "1.2.3.4",
  ])
  expect(["1.2.3.4", "[::1]", "::ffff:1.2.3.4", "example.com", "1.2.3", ""].map(isAddress)).toEqual([
    true,
    true,
    true,
    false,
    false,
    false,
  ])
})

test("what is an address agrees with Node.js, as far as a URL can hold it", () => {
  const almost = fc.string({ unit: fc.constantFrom(..."0125f:.["), maxLength: 12 })
  fc.assert(
    fc.property(fc.oneof(almost, fc.ipV4(), fc.ipV4Extended(), fc.ipV6(), fc.domain()), (text) => {
      const bare = text.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "")
      // WebKit refuses some spellings, such as 0::0:0:0:1.2.3.4.
      const family = isIP(bare) === 6 && !URL.canParse(`http://[${bare}]`) ? 0 : isIP(bare)
      expect(isAddress(text)).toBe(family !== 0)
    }),
    { numRuns: 1000 },
  )
})

test("an address with a colon too many at its end is none", () => {
  for (const text of ["::ffff:", "1:2:3:4:5:6:7:8:", "[::1:]"]) expect(isAddress(text)).toBe(false)
  expect(parseRange("::ffff:/64")).toBeUndefined()
})

test("a range includes addresses of its family, and no name", () => {
  const holds = (range: string, address: string) => parseRange(range)?.(address)
  expect(holds("10.0.0.0/8", "10.9.9.9")).toBe(true)
  expect(holds("10.0.0.0/8", "::ffff:10.9.9.9")).toBe(true)
  expect(holds("10.0.0.0/8", "11.0.0.1")).toBe(false)
  expect(holds("10.0.0.1", "10.0.0.1")).toBe(true)
  expect(holds("fd00::/8", "[fd12::1]")).toBe(true)
  expect(holds("fd00::/8", "fe00::1")).toBe(false)
  expect(holds("0.0.0.0/0", "example.com")).toBe(false)
  for (const wrong of ["10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8/8", "fd00::/129", "example.com", "1.2.3", ""])
    expect(parseRange(wrong)).toBeUndefined()
})

test("addresses of one /64 are one client", () => {
  expect(["2001:db8:1:2::1", "2001:db8:1:2:3:4:5:6", "[2001:DB8:1:2::]"].map(clientNetworkOf)).toEqual([
    "2001:db8:1:2::/64",
    "2001:db8:1:2::/64",
    "2001:db8:1:2::/64",
  ])
  expect(["::1", "::ffff:1.2.3.4", "1.2.3.4", "unix"].map(clientNetworkOf)).toEqual([
    "0:0:0:0::/64",
    "1.2.3.4",
    "1.2.3.4",
    "unix",
  ])
})
