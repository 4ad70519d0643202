/** The login of `svc admin`: links, sessions, and requests that a page of another origin may have made. */
import { expect, test } from "bun:test"
import { AdminLogin, type LoginStore } from "../../../src/features/rest/admin-login.ts"
import { RequestError } from "../../../src/lib/errors.ts"
import { manualClock } from "../../clock.ts"

const HOST = "http://127.0.0.1:3050"
const MINUTE = 60_000
const request = (headers: Record<string, string> = {}, method = "GET") =>
  new Request(`${HOST}/api/v1/servers`, { method, headers })
function open(externalUrl?: string, store?: LoginStore, clock = manualClock()) {
  let last = 0
  const login = new AdminLogin(clock, () => `secret-${++last}`, externalUrl, store)
  /** Returns the headers that the page of a session sends. */
  const headersOf = (session = login.createSession()) => ({
    cookie: login.cookie(request(), session).split(";")[0] ?? "",
    "x-csrf-token": session.csrf,
  })
  return { clock, login, headersOf }
}

test("a link works once, within 60 seconds [rest:login]", async () => {
  const { clock, login } = open()
  const [first, late] = [login.createLink(), login.createLink()]
  expect(login.redeem(first)).toBeDefined()
  expect(login.redeem(first)).toBeUndefined()
  expect(login.redeem("guess")).toBeUndefined()
  await clock.pass(MINUTE)
  expect(login.redeem(late)).toBeUndefined()
})

test("a session ends after 12 hours, with its token, or when its holder logs out", async () => {
  const { clock, login, headersOf } = open()
  const [kept, ended] = [headersOf(), headersOf()]
  const short = headersOf(login.createSession({ token: "svc_x", until: clock.now() + MINUTE }))
  login.end(request(ended))
  expect(login.admit(request(ended))).toBeUndefined()
  expect(login.admit(request(short))).toMatchObject({ token: "svc_x" })
  await clock.pass(MINUTE)
  expect(login.admit(request(short))).toBeUndefined()
  await clock.pass(12 * 60 * MINUTE - MINUTE - 1)
  expect(login.admit(request(kept))).toBeDefined()
  await clock.pass(1)
  expect(login.admit(request(kept))).toBeUndefined()
})

test("links and sessions are bounded: the oldest are removed", () => {
  const { login, headersOf } = open()
  const link = login.createLink()
  for (let count = 0; count < 16; count++) login.createLink()
  expect(login.redeem(link)).toBeUndefined()
  const session = headersOf()
  for (let count = 0; count < 100; count++) login.createToken()
  expect(login.admit(request(session))).toBeDefined()
  for (let count = 0; count < 100; count++) login.createSession()
  expect(login.admit(request(session))).toBeUndefined()
})

test("a cookie is no token, and a token is no cookie: each is accepted only in its place [rest:login]", async () => {
  const { clock, login } = open()
  const session = login.createSession()
  const token = login.createToken()
  const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` })
  const page = { cookie: `svc_admin_3050=${token}`, "x-csrf-token": session.csrf }
  for (const method of ["GET", "POST"]) {
    expect(login.admit(request(bearer(token), method))).toMatchObject({ kind: "program" })
    for (const secret of [session.secret, session.csrf])
      expect(login.admit(request(bearer(secret), method))).toBeUndefined()
    for (const key of [session.csrf, token, ""])
      expect(login.admit(request({ ...page, "x-csrf-token": key, origin: HOST }, method))).toBeUndefined()
  }
  // Nobody can log the browser out with the cookie as a token, or a program with its token as a cookie.
  login.end(request(bearer(session.secret)))
  login.end(request(page))
  const own = { cookie: `svc_admin_3050=${session.secret}`, "x-csrf-token": session.csrf }
  expect(login.admit(request(own))).toMatchObject({ kind: "browser" })
  expect(login.admit(request(bearer(token)))).toBeDefined()
  await clock.pass(12 * 60 * MINUTE)
  expect(login.admit(request(bearer(token)))).toBeUndefined()
})

test("a session that was made from a token ends with the token", () => {
  const { login, headersOf } = open()
  const token = login.createToken()
  const [made, other] = [headersOf(login.createSession({ token })), headersOf()]
  login.end(request({ authorization: `Bearer ${token}` }))
  expect(login.admit(request({ authorization: `Bearer ${token}` }))).toBeUndefined()
  expect(login.admit(request(made))).toBeUndefined()
  expect(login.admit(request(other))).toBeDefined()
})

test("a token in the header needs no key; a cookie needs one even for reading, and this origin for changes, also beside other cookies", () => {
  const { login, headersOf } = open()
  const session = login.createSession()
  expect(login.admit(request({ authorization: `Bearer ${login.createToken()}` }, "POST"))).toBeDefined()
  const { "x-csrf-token": key, ...only } = headersOf(session)
  const cookie = `a=b; ${only.cookie}; c=d`
  expect(login.admit(request({ cookie, origin: HOST, "x-csrf-token": key }, "PUT"))).toBeDefined()
  expect(login.admit(request({ cookie, "x-csrf-token": key }))).toBeDefined()
  const [other, foreign] = [{ origin: "http://127.0.0.1:3051" }, { "sec-fetch-site": "cross-site" }]
  const refused = [
    { cookie, origin: HOST },
    { cookie, origin: HOST, "x-csrf-token": headersOf()["x-csrf-token"] },
    { cookie, "x-csrf-token": key },
    { cookie, origin: "null", "x-csrf-token": key },
    { cookie, ...other, "x-csrf-token": key },
    { cookie, origin: HOST, "x-csrf-token": key, ...foreign },
  ]
  for (const headers of refused) expect(() => login.admit(request(headers, "PUT"))).toThrow(RequestError)
  // Another server of this host gets the cookie of a browser that visits it, and could repeat it.
  expect(() => login.admit(request({ cookie }))).toThrow(/X-CSRF-Token/)
  for (const headers of [{ ...other }, foreign])
    expect(() => login.admit(request({ cookie, "x-csrf-token": key, ...headers }))).toThrow(RequestError)
})

test("a cookie does not make up for a wrong token in the header", () => {
  const { login, headersOf } = open()
  for (const authorization of ["Bearer guess", "Basic eDp5", "Bearer"])
    expect(login.admit(request({ ...headersOf(), authorization }))).toBeUndefined()
})

test("the cookie is named after one port, and over https is limited to this host", () => {
  const { login } = open("https://svc.example/base/")
  const session = { ...login.createSession(), secret: "s" }
  const at = (url: string) => login.cookie(new Request(url), session)
  expect(at(`${HOST}/x`)).toBe("svc_admin_3050=s; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200")
  const secure = "__Host-svc_admin_default=s; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200; Secure"
  expect(at("https://other.example/x")).toBe(secure)
  // A proxy takes https, and calls svc over http with the host that the browser named.
  expect(at("http://svc.example/x")).toBe(secure)
  expect(login.cookie(request())).toContain("Max-Age=0")
})

test("behind a proxy that calls svc by another host, the external origin counts as the page's own", () => {
  const { login, headersOf } = open("https://svc.example/base/")
  const headers = headersOf()
  expect(login.admit(request({ ...headers, origin: "https://svc.example" }, "PUT"))).toBeDefined()
  expect(() => login.admit(request({ ...headers, origin: "https://evil.example" }, "PUT"))).toThrow(RequestError)
})

/** A store in memory that counts its use. */
function memoryStore() {
  let saved = "[]"
  const used = { loads: 0, saves: 0 }
  const store: LoginStore = {
    load() {
      used.loads++
      return JSON.parse(saved)
    },
    save(logins) {
      used.saves++
      saved = JSON.stringify(logins)
    },
  }
  return { store, used, saved: () => saved }
}

test("a login from a link outlives svc, and what is stored logs nobody in [rest:login:restart]", async () => {
  const { store, saved } = memoryStore()
  const first = open(undefined, store)
  const session = first.login.redeem(first.login.createLink())
  if (session === undefined) throw new Error("no session")
  const own = first.headersOf(session)
  const stored: { secret: string; csrf: string; until: number }[] = JSON.parse(saved())
  expect(stored).toEqual([
    { secret: expect.any(String), csrf: expect.any(String), until: first.clock.now() + 12 * 60 * MINUTE },
  ])
  for (const secret of [session.secret, session.csrf]) expect(saved()).not.toContain(secret)

  const { clock, login } = open(undefined, store)
  const change = { ...own, origin: HOST }
  expect(login.admit(request(change, "PUT"))).toMatchObject({ kind: "browser" })
  expect(() => login.admit(request({ cookie: own.cookie }))).toThrow(/X-CSRF-Token/)
  const [{ secret = "", csrf = "" } = {}] = stored
  expect(login.admit(request({ cookie: `svc_admin_3050=${secret}`, "x-csrf-token": session.csrf }))).toBeUndefined()
  expect(() => login.admit(request({ ...own, "x-csrf-token": csrf }))).toThrow(/X-CSRF-Token/)
  await clock.pass(12 * 60 * MINUTE)
  expect(login.admit(request(own))).toBeUndefined()
})

test("a person who logs out is logged out after a restart, and ended logins are no longer stored [rest:login:restart]", async () => {
  const { store, saved } = memoryStore()
  const { clock, login, headersOf } = open(undefined, store)
  const [left, kept] = [headersOf(), headersOf()]
  login.end(request(left))
  const later = open(undefined, store).login
  expect(later.admit(request(left))).toBeUndefined()
  expect(later.admit(request(kept))).toBeDefined()
  await clock.pass(12 * 60 * MINUTE)
  headersOf()
  expect(JSON.parse(saved())).toHaveLength(1)
})

test("logins from tokens are never stored, and the stored ones are bounded and end within 12 hours [rest:login:restart]", () => {
  const { store, used, saved } = memoryStore()
  const { clock, login } = open(undefined, store)
  const token = login.createToken()
  login.end(request({ authorization: `Bearer ${token}` }))
  login.createSession({ token: login.createToken() })
  expect(used.saves).toBe(0)
  for (let count = 0; count < 101; count++) login.createSession()
  expect(JSON.parse(saved())).toHaveLength(100)
  store.save([{ secret: "a", csrf: "b", until: clock.now() + 13 * 60 * MINUTE }])
  open(undefined, store).login.createSession()
  expect(JSON.parse(saved())).toHaveLength(1)
})

test("stored logins are read at the first request with a cookie, and once [rest:login:restart]", () => {
  const { store, used } = memoryStore()
  const { login, headersOf } = open(undefined, store)
  login.createLink()
  login.admit(request())
  login.admit(request({ authorization: "Bearer x" }))
  expect(used.loads).toBe(0)
  const own = headersOf()
  login.admit(request(own))
  login.admit(request(own))
  expect(used.loads).toBe(1)
})
