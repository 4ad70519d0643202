import { expect, test } from "bun:test"
import { CookieJar, MAX_COOKIE, MAX_COOKIES } from "../../src/backend/cookie-jar.ts"
import { manualClock } from "../clock.ts"

const at = (url: string) => new URL(url)
const MCP = at("https://node.example.com/api/mcp")

/** Returns what a jar sends to `url` after a response to a request for MCP has set these cookies. */
function sent(lines: readonly string[], url = MCP, configured?: string, from = MCP) {
  const jar = new CookieJar(manualClock())
  jar.take(lines, from)
  return jar.headerFor(url, configured)
}

test("cookies are sent back to their path, the longest path first [remote:cookies]", () => {
  const lines = [
    "a=1; Path=/",
    "b=2",
    "c=3; path=/api/mcp; HttpOnly; SameSite=None",
    "d=4; Path=/other",
    "e=5; Path=/ap",
  ]
  expect(sent(lines)).toBe("c=3; b=2; a=1")
  expect(sent(lines, at("https://node.example.com/other/x"))).toBe("d=4; a=1")
  expect(sent(lines, at("https://node.example.com/apix"))).toBe("a=1")
  expect(sent([])).toBeUndefined()
})

test("a cookie of another domain, without a name, too large or with controls is ignored [remote:cookies]", () => {
  expect(sent(["a=1; Domain=example.com", "b=2; Domain=.node.example.com"])).toBe("a=1; b=2")
  expect(sent(["a=1; Domain=evil.com", "b=2; Domain=e.com", "c=3; Domain=x.node.example.com"])).toBeUndefined()
  expect(sent(["=1", "novalue", `a=${"x".repeat(MAX_COOKIE)}`, "b=1\r\nX: y", "c=\0"])).toBeUndefined()
})

test("a secure cookie needs https [remote:cookies]", () => {
  const plain = at("http://node.example.com/mcp")
  expect(sent(["a=1; Secure"])).toBe("a=1")
  expect(sent(["a=1; Secure", "b=2"], plain, undefined, plain)).toBe("b=2")
})

test("a cookie ends with Max-Age, which counts before Expires, or when it is set again [remote:cookies]", () => {
  const clock = manualClock(Date.parse("2026-01-01T00:00:00Z"))
  const jar = new CookieJar(clock)
  const past = "Expires=Thu, 01 Jan 1970 00:00:00 GMT"
  jar.take([`a=1; Max-Age=10; ${past}`, "b=2; Expires=Thu, 01 Jan 2026 00:00:20 GMT", "c=3; Expires=never"], MCP)
  expect(jar.headerFor(MCP, undefined)).toBe("a=1; b=2; c=3")
  const later = new CookieJar({ now: () => 0 })
  later.take(["a=1", "b=2; Max-Age=0", "a=3; Max-Age=-1"], MCP)
  expect(later.headerFor(MCP, undefined)).toBeUndefined()
  later.take(["a=1", "a=2"], MCP)
  expect(later.headerFor(MCP, undefined)).toBe("a=2")
})

test("a cookie is not sent after its end [remote:cookies]", async () => {
  const clock = manualClock()
  const jar = new CookieJar(clock)
  jar.take(["a=1; Max-Age=10", "b=2"], MCP)
  await clock.pass(10_000)
  expect(jar.headerFor(MCP, undefined)).toBe("b=2")
})

test("a configured cookie comes first, and replaces one with the same name [remote:cookies]", () => {
  expect(sent(["a=1", "b=2"], MCP, "b=own; c=own")).toBe("b=own; c=own; a=1")
})

test("a jar holds a limited number of cookies, and drops the oldest [remote:cookies]", () => {
  const jar = new CookieJar(manualClock())
  for (let count = 0; count < 3 * MAX_COOKIES; count++) jar.take([`c${count}=1`], MCP)
  const names = jar.headerFor(MCP, undefined)?.split("; ") ?? []
  expect(names).toHaveLength(MAX_COOKIES)
  expect(names[0]).toBe(`c${2 * MAX_COOKIES}=1`)
})
