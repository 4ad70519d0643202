/** The login of `svc admin`: links, sessions, and requests that a page of another origin may have made. */
import { expect, test } from "bun:test"
import { RequestError } from "../../src/lib/errors.ts"
import { AdminLogin, sessionCookie } from "../../src/serve/admin-login.ts"
import { manualClock } from "../clock.ts"

const HOST = "http://127.0.0.1:3050"
const MINUTE = 60_000
const request = (headers: Record<string, string> = {}, method = "GET") =>
  new Request(`${HOST}/api/v1/servers`, { method, headers })
const cookieOf = (secret: string | undefined) => ({ cookie: sessionCookie(request(), secret).split(";")[0] ?? "" })

function open() {
  const clock = manualClock()
  let last = 0
  return { clock, login: new AdminLogin(clock, () => `secret-${++last}`) }
}

test("a link holds once, and for 60 seconds [rest:login]", async () => {
  const { clock, login } = open()
  const [first, late] = [login.createLink(), login.createLink()]
  expect(login.redeem(first)).toBeString()
  expect(login.redeem(first)).toBeUndefined()
  expect(login.redeem("guess")).toBeUndefined()
  await clock.pass(MINUTE)
  expect(login.redeem(late)).toBeUndefined()
})

test("a session ends after 12 hours, or when its holder logs out", async () => {
  const { clock, login } = open()
  const [kept, ended] = [cookieOf(login.createSession()), cookieOf(login.createSession())]
  login.end(request(ended))
  expect(login.admit(request(ended))).toBeUndefined()
  await clock.pass(12 * 60 * MINUTE - 1)
  expect(login.admit(request(kept))).toBeDefined()
  await clock.pass(1)
  expect(login.admit(request(kept))).toBeUndefined()
})

test("links and sessions are bounded: the oldest give way", () => {
  const { login } = open()
  const link = login.createLink()
  for (let count = 0; count < 16; count++) login.createLink()
  expect(login.redeem(link)).toBeUndefined()
  const session = cookieOf(login.createSession())
  for (let count = 0; count < 100; count++) login.createSession()
  expect(login.admit(request(session))).toBeUndefined()
})

test("a token in the header needs no CSRF token; a cookie does, and this origin, also beside other cookies", () => {
  const { login } = open()
  const secret = login.createSession()
  const token = { authorization: `Bearer ${secret}` }
  const { csrf = "" } = login.admit(request(token, "POST")) ?? {}
  const cookie = `a=b; ${cookieOf(secret).cookie}; c=d`
  expect(login.admit(request({ cookie, origin: HOST, "x-csrf-token": csrf }, "PUT"))).toBeDefined()
  const refused = [
    { cookie, origin: HOST },
    { cookie, "x-csrf-token": csrf },
    { cookie, origin: "null", "x-csrf-token": csrf },
    { cookie, origin: "http://127.0.0.1:3051", "x-csrf-token": csrf },
    { cookie, origin: HOST, "x-csrf-token": csrf, "sec-fetch-site": "cross-site" },
  ]
  for (const headers of refused) expect(() => login.admit(request(headers, "PUT"))).toThrow(RequestError)
})

test("the cookie is of one port, and Secure over https", () => {
  expect(sessionCookie(request(), "s")).toBe("svc_admin_3050=s; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200")
  expect(sessionCookie(new Request("https://svc.example/x"), "s")).toEndWith("; Secure")
  expect(sessionCookie(request())).toContain("Max-Age=0")
})
