import { expect, test } from "bun:test"
import {
  CLOSED_CONNECTION,
  clientAddress,
  createAddressLimiter,
  HEALTH_LIMIT,
  parseTrustProxy,
  UNIX_SOCKET,
} from "../../src/serve/address-rate-limit.ts"

function clocked() {
  let now = 1000
  return { clock: { now: () => now, after: () => () => undefined }, pass: (ms: number) => (now += ms) }
}

test("two hundred requests pass in five minutes, and the next one must wait [health:limit:rate] [health:limit:headers]", () => {
  const { clock, pass } = clocked()
  const count = createAddressLimiter(clock, HEALTH_LIMIT)
  for (let index = 1; index <= 200; index++) expect(count("1.2.3.4").retryAfter).toBeUndefined()
  pass(60_000)
  expect(count("1.2.3.4")).toEqual({
    retryAfter: 240,
    headers: {
      "ratelimit-policy": '"health";q=200;w=300',
      ratelimit: '"health";r=0;t=240',
      "ratelimit-limit": "200",
      "ratelimit-remaining": "0",
      "ratelimit-reset": "240",
    },
  })
  expect(count("1.2.3.5").retryAfter).toBeUndefined()
  pass(240_000)
  expect(count("1.2.3.4").headers["ratelimit-remaining"]).toBe("199")
})

test("the addresses of one IPv6 /64 count as one client", () => {
  const count = createAddressLimiter(clocked().clock, { requests: 1, windowMs: 1000 })
  expect(count("2001:db8:1:2::1").retryAfter).toBeUndefined()
  expect(count("2001:db8:1:2:3:4:5:6").retryAfter).toBe(1)
  expect(count("2001:db8:1:3::1").retryAfter).toBeUndefined()
})

test("pages of other origins, logins and other requests of one address count by themselves [inbound:foreign]", () => {
  const count = createAddressLimiter(clocked().clock, { requests: 1, windowMs: 1000 })
  for (const sender of ["page", "", "login"] as const) {
    expect(count("1.2.3.4", sender).retryAfter).toBeUndefined()
    expect(count("1.2.3.4", sender).retryAfter).toBe(1)
  }
  expect(count("1.2.3.4").retryAfter).toBe(1)
})

test("a clock that is set back does not prolong a window", () => {
  const { clock, pass } = clocked()
  const count = createAddressLimiter(clock, { requests: 1, windowMs: 1000 })
  count("1.2.3.4")
  expect(count("1.2.3.4").retryAfter).toBe(1)
  pass(-500)
  expect(count("1.2.3.4").retryAfter).toBeUndefined()
  expect(count("1.2.3.4").retryAfter).toBe(1)
})

test("a flood of addresses does not make the table grow without bound", () => {
  const count = createAddressLimiter(clocked().clock, { requests: 1, windowMs: 1000 })
  for (let index = 0; index < 20_000; index++) count(`10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`)
  expect(count("10.0.78.31").retryAfter).toBe(1)
  expect(count("10.0.0.0").retryAfter).toBeUndefined()
})

test("X-Forwarded-For is read only from trusted proxies, and only the hop that they added", () => {
  const trust = (text: string) => parseTrustProxy(text) ?? (() => expect.unreachable())
  expect(clientAddress("10.0.0.1", "6.6.6.6", trust("off"))).toBe("10.0.0.1")
  expect(clientAddress("127.0.0.1", "6.6.6.6, 7.7.7.7", trust("loopback"))).toBe("7.7.7.7")
  for (const proxy of ["::1", "127.0.0.2", "::ffff:127.0.0.1", "::ffff:7f00:1"])
    expect(clientAddress(proxy, "6.6.6.6", trust("loopback"))).toBe("6.6.6.6")
  expect(clientAddress("::ffff:10.0.0.1", "6.6.6.6, 7.7.7.7, 10.9.9.9", trust("10.0.0.0/8"))).toBe("7.7.7.7")
  expect(clientAddress("9.9.9.9", "6.6.6.6", trust("10.0.0.0/8"))).toBe("9.9.9.9")
  expect(clientAddress("fd00::1", "2001:db8::1", trust("fd00::/8"))).toBe("2001:db8::1")
  for (const [trusted, client] of [
    ["loopback", "6.6.6.6"],
    ["off", UNIX_SOCKET],
    ["10.0.0.0/8", UNIX_SOCKET],
  ] as const)
    expect(clientAddress(UNIX_SOCKET, "6.6.6.6", trust(trusted))).toBe(client)
  expect(clientAddress(CLOSED_CONNECTION, "6.6.6.6", trust("loopback"))).toBe(CLOSED_CONNECTION)
  expect(clientAddress("10.0.0.1", "nonsense", trust("10.0.0.1"))).toBe("10.0.0.1")
  for (const wrong of ["yes", "10.0.0.0/33", "1.2.3", "fd00::/129", "1::2::3"])
    expect(parseTrustProxy(wrong)).toBeUndefined()
})
