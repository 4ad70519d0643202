/** Authorization of remote servers, against a real authorization server and with a manual clock. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { UnauthorizedError } from "../../../src/backend/client-transport.ts"
import type { RemoteLaunch, ServerSpec } from "../../../src/config/server-spec.ts"
import { type Authority, type Resource, startAuthority, startResource } from "../../fixtures/authority.ts"
import { answerTo, logIn, type Process, type ProcessOptions, SECRET, simulateProcess } from "./process.ts"

let directory = ""
let authority: Authority
let resource: Resource
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "svc-oauth-"))
  authority = await startAuthority({ accessTtl: 600 })
  resource = startResource(authority)
})
afterEach(async () => {
  resource[Symbol.dispose]()
  await authority.stop()
  rmSync(directory, { recursive: true, force: true })
})

const tokenRequests = () => authority.asked.get("/token") ?? 0
const processOf = (talk?: ProcessOptions["fetch"]): Process =>
  simulateProcess({ directory, url: resource.url, ...(talk === undefined ? {} : { fetch: talk }) })

test("twenty concurrent requests with an expired token cost one renewal [oauth:refresh]", async () => {
  const one = processOf()
  await logIn(one)
  const first = await one.credentials.authorization()
  expect(await one.credentials.authorization()).toBe(first)
  const before = tokenRequests()
  one.pass(595_000)
  const sent = await Promise.all(Array.from({ length: 20 }, () => one.credentials.authorization()))
  expect(new Set(sent).size).toBe(1)
  expect(sent[0]).not.toBe(first)
  expect(tokenRequests()).toBe(before + 1)
})

test("of two processes one renews, and the other takes the new tokens", async () => {
  const one = processOf()
  await logIn(one)
  const two = processOf()
  await two.credentials.authorization()
  const before = tokenRequests()
  one.pass(595_000)
  two.pass(595_000)
  const [mine, theirs] = await Promise.all([one.credentials.authorization(), two.credentials.authorization()])
  expect(mine).toBe(theirs as string)
  expect(tokenRequests()).toBe(before + 1)
})

test("while the authorization server is down, a valid token is used and an expired one is kept", async () => {
  const one = processOf()
  await logIn(one)
  const first = await one.credentials.authorization()
  await authority.stop()
  one.pass(590_000)
  expect(await one.credentials.authorization()).toBe(first)
  one.pass(20_000)
  await expect(one.credentials.authorization()).rejects.toThrow("nothing listens at")
  await authority.start()
  expect(await one.credentials.authorization()).not.toBe(first)
  expect(await one.oauth.status([one.spec])).toMatchObject([{ state: "authorized" }])
})

test("a 401 to a token that another request has renewed meanwhile is only retried", async () => {
  const one = processOf()
  await logIn(one)
  const first = await one.credentials.authorization()
  one.pass(595_000)
  await one.credentials.authorization()
  const before = tokenRequests()
  expect(await one.credentials.challenged(new Response(null, { status: 401 }), first)).toBe(true)
  expect(tokenRequests()).toBe(before)
})

test("tokens are known as secrets as soon as they exist", async () => {
  const one = processOf()
  const before = one.oauth.secrets
  await logIn(one)
  const { oauth, credentials } = one
  expect(oauth.secrets).not.toBe(before)
  expect(oauth.secrets).toContain((await credentials.authorization())?.replace("Bearer ", "") ?? "none")
  expect(oauth.secrets).toBe(oauth.secrets)
})

test("finished resolves or rejects as the authorization ended, also afterwards", async () => {
  const one = processOf()
  const good = await one.oauth.begin(one.spec, undefined)
  await one.oauth.finish(await answerTo(good?.url ?? ""))
  await one.oauth.finished(good?.state ?? "")
  const bad = await one.oauth.begin(one.spec, "http://127.0.0.1:2/oauth/callback")
  const refused = new URLSearchParams({ state: bad?.state ?? "", error: "access_denied", iss: authority.issuer })
  await expect(one.oauth.finish(refused)).rejects.toThrow(/^web was not authorized by 127\.0\.0\.1:\d+: access_denied/)
  await expect(one.oauth.finished(bad?.state ?? "")).rejects.toThrow("access_denied")
  expect(() => one.oauth.finished("guessed")).toThrow("svc does not know this sign-in")
})

test("the error of an authorization server is masked before it is cut: no part of a secret is shown", async () => {
  const one = processOf()
  const begun = await one.oauth.begin(one.spec, undefined)
  const refused = new URLSearchParams({
    state: begun?.state ?? "",
    error: "access_denied",
    error_description: `${"x".repeat(280)}${SECRET} ${"y".repeat(180)}${SECRET}`,
    iss: authority.issuer,
  })
  await expect(one.oauth.finish(refused)).rejects.toThrow(/x{280}\[REDACTED\] y{180}\[REDACTED\]$/)
})

test("a state that svc did not issue, or accepted once, is refused", async () => {
  const one = processOf()
  const begun = await one.oauth.begin(one.spec, undefined)
  const answer = await answerTo(begun?.url ?? "")
  await expect(one.oauth.finish(new URLSearchParams({ state: "guessed", code: "x" }))).rejects.toThrow(
    "does not wait for this sign-in",
  )
  await expect(one.oauth.finish(new URLSearchParams({ code: "x" }))).rejects.toThrow("does not wait for this sign-in")
  await one.oauth.finish(answer)
  await expect(one.oauth.finish(answer)).rejects.toThrow("does not wait for this sign-in")
})

test("a response that names another issuer is refused before its code is redeemed", async () => {
  const one = processOf()
  const begun = await one.oauth.begin(one.spec, undefined)
  const answer = await answerTo(begun?.url ?? "")
  answer.set("iss", "https://evil.example")
  const before = tokenRequests()
  await expect(one.oauth.finish(answer)).rejects.toThrow("was not authorized")
  expect(tokenRequests()).toBe(before)
})

test("the refusal of a configured Authorization header is final", async () => {
  const { oauth, spec } = processOf()
  const launch = { ...spec.launch, headers: { authorization: "Bearer written" } } as RemoteLaunch
  const credentials = oauth.credentials(spec, launch)
  expect(await credentials.authorization()).toBeUndefined()
  const refused = credentials.challenged(new Response(null, { status: 401 }), undefined)
  await expect(refused).rejects.toThrow(UnauthorizedError)
  await expect(refused).rejects.toThrow("refused the credentials in headers (401)")
})

test("twenty concurrent refusals lead to one registration and one address", async () => {
  const { oauth, credentials } = processOf()
  const refusals = await Promise.all(
    Array.from({ length: 20 }, () =>
      credentials.challenged(new Response(null, { status: 401 }), undefined).catch((error: unknown) => error),
    ),
  )
  const addresses = refusals.map((error) => (error as UnauthorizedError).authorizationUrl)
  expect(new Set(addresses).size).toBe(1)
  expect(addresses[0]).toStartWith(authority.issuer)
  expect(authority.asked.get("/reg")).toBe(1)
  expect(oauth.secrets).toHaveLength(1)
})

test("the declared lifetime of a token is capped to a valid date", async () => {
  const one = processOf(async (url, init) => {
    const response = await fetch(url, init)
    if (!url.endsWith("/token")) return response
    return Response.json({ ...((await response.json()) as object), expires_in: 1e300 })
  })
  await logIn(one)
  const [status] = await one.oauth.status([one.spec])
  expect(status?.expires).toMatch(/^21\d\d-/)
})

test("a new token that expired in transit is renewed", async () => {
  const one = processOf()
  await logIn(one)
  for (let renewals = 0; renewals < 2; renewals++) {
    const sent = await one.credentials.authorization()
    const before = tokenRequests()
    one.pass(600_000)
    expect(await one.credentials.challenged(new Response(null, { status: 401 }), sent)).toBe(true)
    expect(tokenRequests()).toBe(before + 1)
  }
})

test("without a redirect address of its own, a server without OAuth needs a token, and one with OAuth a sign-in", async () => {
  const refusalAt = (url: string) =>
    simulateProcess({ directory, url, callback: undefined })
      .request()
      .catch((error: unknown) => (error as UnauthorizedError).refusal)
  expect(await refusalAt(resource.url)).toBe("sign-in needed")
  using keyed = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: ({ url }) => new Response(null, { status: url.endsWith("/mcp") ? 401 : 404 }),
  })
  expect(await refusalAt(`${keyed.url.href}mcp`)).toBe("token needed")
})

test("the request before a sign-in carries the configured headers to no other origin [remote:redirect]", async () => {
  const seen: string[] = []
  const { oauth, spec } = simulateProcess({
    directory,
    url: "http://server/mcp",
    fetch: async (url, { headers }) => {
      if (new Headers(headers).has("x-api-key")) seen.push(new URL(url).origin)
      return new Response(null, { status: 307, headers: { location: "http://elsewhere/mcp" } })
    },
  })
  const keyed = { ...spec, launch: { ...spec.launch, headers: { "x-api-key": "k" } } } as ServerSpec
  await expect(oauth.begin(keyed, undefined)).rejects.toThrow("redirects to another origin (http://elsewhere)")
  expect(seen).toEqual(["http://server"])
})
