/** The login of REST and the admin page: which requests are accepted, and which are not. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { type Authority, browse, startAuthority } from "../fixtures/authority.ts"
import { connect, type Json, token } from "./api.ts"
import { eventually, freshFolder, type Instance, runSvc, SVC, startSvc } from "./harness.ts"

const CONFIG = { mcpServers: { demo: { command: SVC, args: ["demo-server"], tags: ["play"] } } }
const CHANGES = ["POST", "PUT", "PATCH", "DELETE"]

type Headers = Record<string, string>

let svc: Instance
beforeAll(async () => {
  svc = await startSvc({ config: CONFIG })
  await svc.said(/demo: connected/)
})
afterAll(() => svc[Symbol.asyncDispose]())

/** Returns the status of a request to REST. */
const statusOf = async (at: Instance, path: string, headers: Headers, method = "GET") =>
  (await fetch(`${at.url}/api/v1${path}`, { method, headers })).status

/** Follows a link of `svc admin`. */
async function follow(at: Instance) {
  const { stdout } = await runSvc(["admin", "--print", "--config-dir", at.folder])
  const link = stdout.trim()
  const first = await fetch(link, { redirect: "manual" })
  return { link, first, ...pageOf(first.headers, /#key=(.*)$/.exec(first.headers.get("location") ?? "")?.[1] ?? "") }
}

/** Returns the headers that the page of a login sends. */
const pageOf = (headers: globalThis.Headers, key: string) => ({
  cookie: (headers.get("set-cookie") ?? "").split(";")[0] ?? "",
  key: { "x-csrf-token": key },
})

describe("without --auth [rest:login]", () => {
  test("nothing under /api/v1 answers without a login", async () => {
    for (const path of ["/servers", "/openapi.json", "/nothing"]) {
      const refused = await fetch(`${svc.url}/api/v1${path}`)
      expect([refused.status, refused.headers.get("content-type")]).toEqual([401, "application/problem+json"])
      // With --auth this header says that a token is needed.
      expect(refused.headers.has("www-authenticate")).toBe(false)
    }
  })

  test("a link sets a cookie that scripts cannot read, and holds once", async () => {
    const { link, first, key } = await follow(svc)
    expect([first.status, first.headers.get("location")]).toEqual([303, `./#key=${key["x-csrf-token"]}`])
    expect(first.headers.get("set-cookie")).toMatch(
      /^svc_admin_\d+=\S+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/,
    )
    expect((await fetch(link, { redirect: "manual" })).status).toBe(403)
    const page = await fetch(link, { headers: { accept: "text/html" } })
    expect([page.status, await page.text()]).toEqual([403, expect.stringContaining("run `svc admin` again")])
  })

  test("guessing links is slowed down, but a hostile page cannot use this to lock the user out", async () => {
    await using other = await startSvc({ config: CONFIG })
    for (const target of ["image", "iframe", "empty"]) {
      const headers = { "sec-fetch-dest": target }
      const tries = Array.from({ length: 30 }, () => fetch(`${other.url}/admin/login?code=guess`, { headers }))
      expect(new Set((await Promise.all(tries)).map(({ status }) => status))).toEqual(new Set([403]))
    }
    expect((await follow(other)).first.status).toBe(303)
    const tries = Array.from({ length: 30 }, () => fetch(`${other.url}/admin/login?code=guess`))
    const statuses = (await Promise.all(tries)).map(({ status }) => status)
    expect(new Set(statuses)).toEqual(new Set([403, 429]))
  })

  test("a page of another site uses up no limit of the people and programs on its machine [inbound:foreign]", async () => {
    await using other = await startSvc({ config: CONFIG })
    const { headers } = await token(other)
    const many = async (path: string, from: Headers, count: number) => {
      const statuses = new Set<number>()
      for (let done = 0; done < count; done += 200) {
        const batch = Array.from({ length: 200 }, () =>
          fetch(`${other.url}${path}`, { headers: from, redirect: "manual" }),
        )
        for (const response of await Promise.all(batch)) {
          await response.arrayBuffer()
          statuses.add(response.status)
        }
      }
      return [...statuses].sort()
    }
    const image = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image" }
    const tab = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" }
    const sibling = { ...image, "sec-fetch-site": "same-site" }
    const old = { referer: "https://evil.example/" }
    expect(await many("/api/v1/servers", image, 3200)).toEqual([403])
    expect(await many("/health", image, 400)).toEqual([403])
    for (const from of [tab, sibling, old]) {
      await many("/api/v1/servers", from, 1200)
      await many("/api/tools", from, 1200)
      await many("/health", from, 400)
      await many("/health/ready", from, 400)
      await many("/admin/login?code=guess", from, 200)
    }
    expect((await fetch(`${other.url}/health`, { headers: tab })).status).toBe(429)
    for (const path of ["/health", "/health/ready", "/api/tools"])
      expect([path, (await fetch(`${other.url}${path}`)).status]).toEqual([path, 200])
    expect((await fetch(`${other.url}/api/v1/servers`, { headers })).status).toBe(200)
    expect((await follow(other)).first.status).toBe(303)
    // Requests without any mark use up their own limit, and still not that of those who are logged in.
    await many("/api/v1/servers", {}, 3200)
    expect((await fetch(`${other.url}/api/v1/servers`)).status).toBe(429)
    expect((await fetch(`${other.url}/api/v1/servers`, { headers })).status).toBe(200)
  }, 60_000)

  test("a cookie alone is worthless, because another server on this host may have received it", async () => {
    const { cookie, key } = await follow(svc)
    for (const path of ["/servers", "/session", "/config", "/events", "/openapi.json"])
      expect([path, await statusOf(svc, path, { cookie })]).toEqual([path, 401])
    expect(await statusOf(svc, "/session", { cookie, ...key })).toBe(200)
    // No answer reveals the key.
    const answer = await fetch(`${svc.url}/api/v1/session`, { headers: { cookie, ...key } })
    expect(await answer.text()).not.toContain(key["x-csrf-token"])
  })

  test("the value of the cookie is no token, and makes no other login", async () => {
    const { cookie, key } = await follow(svc)
    const stolen = { authorization: `Bearer ${cookie.slice(cookie.indexOf("=") + 1)}` }
    for (const method of ["GET", ...CHANGES])
      for (const path of ["/servers", "/session", "/events"])
        expect([method, path, await statusOf(svc, path, stolen, method)]).toEqual([method, path, 401])
    expect(await statusOf(svc, "/session", { cookie, ...key })).toBe(200)
    const { headers } = await token(svc)
    const secret = new Headers(headers).get("authorization")?.slice("Bearer ".length)
    const asCookie = { cookie: `${cookie.slice(0, cookie.indexOf("="))}=${secret}`, ...key }
    expect(await statusOf(svc, "/servers", asCookie)).toBe(401)
  })

  test("a change needs the key and this origin", async () => {
    const { cookie, key } = await follow(svc)
    const change = (headers: Headers) => statusOf(svc, "/servers/demo/restart", { cookie, ...headers }, "POST")
    const origin = svc.url
    expect(await change({ origin, ...key })).toBe(200)
    expect(await change({ origin })).toBe(401)
    expect(await change({ origin, "x-csrf-token": "guess" })).toBe(401)
    expect(await change(key)).toBe(403)
    // Another port of this host is the same site to a browser.
    expect(await change({ origin: "http://127.0.0.1:1", ...key })).toBe(403)
    expect(await change({ origin, ...key, "sec-fetch-site": "same-site" })).toBe(403)
  })

  test("a page of another origin, or behind a rebound name, gets nothing with any request [admin:hostile]", async () => {
    const { cookie, key } = await follow(svc)
    const { port } = new URL(svc.url)
    for (const method of ["GET", ...CHANGES])
      for (const path of ["/servers", "/session", "/tools", "/install", "/config/servers/demo"]) {
        const from = (headers: Headers) => statusOf(svc, path, { cookie, ...key, ...headers }, method)
        expect([method, path, await from({ origin: "https://evil.example" })]).toEqual([method, path, 403])
        expect([method, path, await from({ origin: "null" })]).toEqual([method, path, 403])
        expect([method, path, await from({ origin: `http://127.0.0.1:${Number(port) + 1}` })]).toEqual([
          method,
          path,
          403,
        ])
        expect([method, path, await from({ host: `evil.example:${port}` })]).toEqual([method, path, 403])
      }
    const refused = await fetch(`${svc.url}/admin/login?code=x`, { headers: { host: `evil.example:${port}` } })
    expect(refused.status).toBe(403)
    const preflight = await fetch(`${svc.url}/api/v1/session`, {
      method: "OPTIONS",
      headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
    })
    expect([preflight.ok, preflight.headers.has("access-control-allow-origin")]).toEqual([false, false])
  })

  test("a login ends when the person logs out, and its streams with it", async () => {
    const { cookie, key } = await follow(svc)
    const stream = await fetch(`${svc.url}/api/v1/events`, { headers: { cookie, ...key } })
    expect(stream.status).toBe(200)
    const read = stream.text()
    expect(await statusOf(svc, "/session", { cookie, ...key, origin: svc.url }, "DELETE")).toBe(200)
    await read
    expect(await statusOf(svc, "/session", { cookie, ...key })).toBe(401)
  })

  test("a login from a link outlives a restart of svc, until the person logs out [rest:login:restart]", async () => {
    const before = await startSvc({ config: CONFIG })
    const { folder } = before
    const port = Number(new URL(before.url).port)
    const again = async () => {
      const next = await startSvc({ folder, port })
      await next.said(/demo: connected/)
      return next
    }
    const stop = async (svc: Instance) => {
      svc.signal("SIGTERM")
      await svc.exited
    }
    const { cookie, key } = await follow(before)
    const program = (await token(before)).headers
    await stop(before)
    const file = join(folder, "logins.json")
    const text = readFileSync(file, "utf8")
    for (const secret of [cookie.slice(cookie.indexOf("=") + 1), key["x-csrf-token"]])
      expect(text).not.toContain(secret)
    if (process.platform !== "win32") expect(statSync(file).mode & 0o777).toBe(0o600)
    const after = await again()
    const own = { cookie, ...key, origin: after.url }
    expect(await statusOf(after, "/servers/demo/restart", own, "POST")).toBe(200)
    expect(await statusOf(after, "/servers", { cookie })).toBe(401)
    expect((await fetch(`${after.url}/api/v1/servers`, { headers: program })).status).toBe(401)
    // Another configuration does not know the login.
    await using other = await startSvc({ config: CONFIG })
    const elsewhere = cookie.replace(/_\d+=/, `_${new URL(other.url).port}=`)
    expect(await statusOf(other, "/servers", { cookie: elsewhere, ...key })).toBe(401)
    expect(await statusOf(after, "/session", own, "DELETE")).toBe(200)
    await stop(after)
    await using last = await again()
    expect(await statusOf(last, "/servers", { cookie, ...key })).toBe(401)
  }, 60_000)

  test("a token of svc admin can also log in a browser", async () => {
    const { headers } = await token(svc)
    const answer = await fetch(`${svc.url}/api/v1/session`, { method: "POST", headers })
    const { csrf } = (await answer.json()) as { csrf: string }
    const { cookie, key } = pageOf(answer.headers, csrf)
    expect(await statusOf(svc, "/servers", { cookie, ...key })).toBe(200)
    expect(await statusOf(svc, "/session", {}, "POST")).toBe(401)
    expect((await fetch(`${svc.url}/api/v1/session`, { method: "DELETE", headers })).status).toBe(200)
    expect(await statusOf(svc, "/servers", { cookie, ...key })).toBe(401)
  })

  test("the answers of the login fit the document [rest:openapi]", async () => {
    const api = await connect(svc)
    expect((await api("GET", "/session")).body).toMatchObject({ principal: "local" })
    expect((await api("POST", "/session")).status).toBe(201)
    expect((await api("DELETE", "/session")).body).toEqual({ ended: true })
  })
})

describe("with --auth [rest:auth-login]", () => {
  const log = join(freshFolder(), "audit.jsonl")
  let auth: Instance
  beforeAll(async () => {
    auth = await startSvc({ config: CONFIG, flags: ["--auth", "--audit-log", log] })
    await auth.said(/demo: connected/)
  })
  afterAll(() => auth[Symbol.asyncDispose]())

  const command = (...args: string[]) => runSvc(["auth", "token", ...args, "--config-dir", auth.folder])
  const create = async (...args: string[]) =>
    JSON.parse((await command("create", "--json", ...args)).stdout) as { token: string; id: string }
  const logIn = async (text: string, headers: Headers = {}) => {
    const answer = await fetch(`${auth.url}/api/v1/session`, {
      method: "POST",
      headers: { authorization: `Bearer ${text}`, ...headers },
    })
    const { csrf = "" } = (await answer.json()) as { csrf?: string }
    return { status: answer.status, ...pageOf(answer.headers, csrf) }
  }

  test("a token becomes a login that ends when the token is revoked", async () => {
    const { token: text, id } = await create("--name", "admin")
    const { status, cookie, key } = await logIn(text)
    expect(status).toBe(201)
    const shown = await fetch(`${auth.url}/api/v1/session`, { headers: { cookie, ...key } })
    expect(await shown.json()).toEqual({ principal: `token ${id}`, until: expect.any(String) })
    expect(await statusOf(auth, "/servers", { cookie })).toBe(401)
    const change = { cookie, ...key, origin: auth.url }
    expect(await statusOf(auth, "/servers/demo/restart", change, "POST")).toBe(200)
    expect(await statusOf(auth, "/servers/demo/restart", { ...change, origin: "http://127.0.0.1:1" }, "POST")).toBe(403)
    const stream = await fetch(`${auth.url}/api/v1/events`, { headers: { cookie, ...key } })
    const read = stream.text()
    await command("revoke", id)
    await eventually(async () => (await statusOf(auth, "/servers", { cookie, ...key })) === 401)
    await read
  })

  test("the login opens REST alone, and does no more than its token", async () => {
    const admin = await logIn((await create("--name", "rest")).token)
    const headers = { cookie: admin.cookie, ...admin.key, "content-type": "application/json" }
    const mcp = await fetch(`${auth.url}/mcp`, { method: "POST", headers, body: "{}" })
    expect(mcp.status).toBe(401)
    expect((await fetch(`${auth.url}/api/servers`, { headers })).status).toBe(401)
    expect((await logIn((await create("--name", "some", "--tags", "play")).token)).status).toBe(403)
    expect((await logIn((await create("--name", "own")).token, { origin: "http://127.0.0.1:1" })).status).toBe(403)
  })

  test("an admin creates a token that works at once, and one that is no admin creates none [rest:tokens]", async () => {
    const post = async (text: string, body: Json) => {
      const headers = { authorization: `Bearer ${text}`, "content-type": "application/json" }
      const answer = await fetch(`${auth.url}/api/v1/tokens`, { method: "POST", headers, body: JSON.stringify(body) })
      return { status: answer.status, body: (await answer.json()) as Json }
    }
    const owner = (await create("--name", "owner")).token
    const made = await post(owner, { name: "limited", tags: ["play"] })
    expect(made.status).toBe(201)
    const limited = String(made.body.token)
    const read = await fetch(`${auth.url}/api/servers`, { headers: { authorization: `Bearer ${limited}` } })
    expect(read.status).toBe(200)
    const refused = await post(limited, { name: "wider" })
    expect([refused.status, JSON.stringify(refused.body).includes("svc_")]).toEqual([403, false])
    expect((await post("svc_guess", { name: "guessed" })).status).toBe(401)
    const whole = await post(owner, { name: "whole" })
    expect(await statusOf(auth, "/servers", { authorization: `Bearer ${whole.body.token}` })).toBe(200)
    const metrics = await post(owner, { name: "metrics", metricsOnly: true })
    expect(await statusOf(auth, "/servers", { authorization: `Bearer ${metrics.body.token}` })).toBe(403)
    const lines = readFileSync(log, "utf8")
    for (const text of [limited, whole.body.token, metrics.body.token]) expect(lines).not.toContain(String(text))
  })

  test("a login and a refused one are in the audit log", async () => {
    const { token: text, id } = await create("--name", "seen")
    expect((await logIn(`${text.slice(0, -4)}AAAA`)).status).toBe(401)
    expect((await logIn(text)).status).toBe(201)
    const lines = await eventually(() => {
      const all = readFileSync(log, "utf8")
        .split("\n")
        .filter((line) => line.includes(id))
      return all.some((line) => line.includes("POST /session")) && all.map((line) => JSON.parse(line) as Json)
    })
    expect(lines.slice(-2)).toMatchObject([
      { method: "svc/login", outcome: "error", reason: expect.stringContaining(id) },
      { method: "svc/rest POST /session", principal: `token ${id}`, outcome: "ok" },
    ])
    expect(readFileSync(log, "utf8")).not.toContain(text)
  })

  test("the page learns that a token is needed", async () => {
    const refused = await fetch(`${auth.url}/api/v1/session`)
    expect([refused.status, refused.headers.has("www-authenticate")]).toEqual([401, true])
  })
})

describe("with an issuer [rest:issuer-login]", () => {
  const start = (authority: Authority) => startSvc({ config: CONFIG, flags: ["--auth-issuer", authority.issuer] })
  const logIn = async (at: Instance, jar: Map<string, string>) => {
    const { status, url } = await browse(`${at.url}/admin/login`, undefined, jar)
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ")
    return { status, headers: { cookie, "x-csrf-token": /#key=(.*)$/.exec(url)?.[1] ?? "" } }
  }

  test("the page logs in there, and the login is the issuer's token", async () => {
    await using authority = await startAuthority({ scope: "svc:admin" })
    await using at = await start(authority)
    const { status, headers } = await logIn(at, new Map())
    expect(status).toBe(200)
    const shown = (await (await fetch(`${at.url}/api/v1/session`, { headers })).json()) as {
      principal: string
      until: string
    }
    expect(shown.principal).toContain(authority.issuer)
    expect(Date.parse(shown.until)).toBeLessThan(Date.now() + 11 * 60_000)
    expect(await statusOf(at, "/servers", headers)).toBe(200)
    // svc registers once.
    await logIn(at, new Map())
    expect(authority.asked.get("/reg")).toBe(1)
  })

  test("a login ends only in the browser that began it, and once", async () => {
    await using authority = await startAuthority({ scope: "svc:admin" })
    await using at = await start(authority)
    const jar = new Map<string, string>()
    const { url } = await browse(`${at.url}/admin/login`, `${at.url}/admin/login?code=`, jar)
    const stranger = await fetch(url, { redirect: "manual", headers: { accept: "text/html" } })
    expect([stranger.status, stranger.headers.has("set-cookie"), await stranger.text()]).toEqual([
      403,
      false,
      expect.stringContaining("was not started in this browser"),
    ])
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ")
    const own = () => fetch(url, { redirect: "manual", headers: { cookie } })
    expect((await own()).status).toBe(303)
    expect((await own()).status).toBe(403)
  })

  test("the page reports an issuer that does not know svc:admin, registers no clients, or is down", async () => {
    await using plain = await startAuthority()
    await using first = await start(plain)
    const refused = await fetch(`${first.url}/admin/login`, { headers: { accept: "text/html" } })
    expect(await refused.text()).toContain("Not logged in")
    await plain.stop()
    const down = await fetch(`${first.url}/admin/login`, { headers: { accept: "text/html" } })
    expect([down.status, await down.text()]).toEqual([503, expect.stringContaining(plain.issuer)])
    await plain.start()
    await using closed = await startAuthority({ registers: false })
    await using second = await start(closed)
    const unknown = await fetch(`${second.url}/admin/login`)
    expect([unknown.status, await unknown.text()]).toEqual([409, expect.stringContaining("does not register clients")])
  })
})
