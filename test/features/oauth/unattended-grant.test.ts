/** Grants that need no person: with an assertion of the platform, and with an ID token that an identity provider exchanges. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type JWTPayload, SignJWT } from "jose"
import { TransientError, UnauthorizedError } from "../../../src/backend/client-transport.ts"
import type { OAuthSettings } from "../../../src/config/server-spec.ts"
import { type Process, simulateProcess } from "./process.ts"

type TokenRequest = { readonly parameters: Record<string, string>; readonly authorization: string | null }

/** An issuer that records the requests to its token endpoint. */
function startIssuer(answer: () => object | Response) {
  const requests: TokenRequest[] = []
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request): Promise<Response> {
      const { origin, pathname } = new URL(request.url)
      if (pathname === "/.well-known/oauth-authorization-server")
        return Response.json({
          issuer: origin,
          authorization_endpoint: `${origin}/authorize`,
          token_endpoint: `${origin}/token`,
          response_types_supported: ["code"],
          token_endpoint_auth_methods_supported: ["none", "client_secret_basic"],
        })
      if (pathname !== "/token") return new Response(null, { status: 404 })
      const parameters = Object.fromEntries(new URLSearchParams(await request.text()))
      requests.push({ parameters, authorization: request.headers.get("authorization") })
      const body = answer()
      if (body instanceof Response) return body
      return Response.json(body, { status: "error" in body ? 400 : 200 })
    },
  })
  const url = `http://127.0.0.1:${server.port}`
  return { url, requests, stop: () => server.stop(true) }
}

let directory = ""
let issued = 0
let refusal: object | undefined
/** Answers of token endpoints with the status 200 that have no token, and what svc says of them. */
const WITHOUT_TOKEN: readonly (readonly [string, () => object, RegExp])[] = [
  ["an object without a token", () => ({ token_type: "Bearer", expires_in: 600 }), /access_token/],
  ["a token that is no text", () => ({ access_token: 1, token_type: "Bearer" }), /access_token/],
  [
    "an error",
    () => Response.json({ error: "invalid_scope", error_description: "no such\nscope" }),
    /invalid_scope.*no such scope/,
  ],
  ["a list", () => [], /JSON object|access_token/],
  ["a web page", () => new Response("<!doctype html>\n<title>Log in</title>"), /JSON|access_token/],
  ["nothing", () => new Response(""), /JSON|access_token/],
]
let authority: ReturnType<typeof startIssuer>
let identityProvider: ReturnType<typeof startIssuer>
let resource: Bun.Server<undefined>
let url = ""
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "svc-grant-"))
  issued = 0
  refusal = undefined
  authority = startIssuer(
    () => refusal ?? { access_token: `access-${++issued}`, token_type: "Bearer", expires_in: 600 },
  )
  identityProvider = startIssuer(
    () =>
      refusal ?? {
        access_token: "the-id-jag",
        issued_token_type: "urn:ietf:params:oauth:token-type:id-jag",
        token_type: "N_A",
      },
  )
  resource = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      if (request.url.includes("/.well-known/"))
        return Response.json({ resource: url, authorization_servers: [authority.url], scopes_supported: ["read"] })
      return request.headers.get("authorization") === `Bearer access-${issued}`
        ? new Response("ok")
        : new Response(null, { status: 401, headers: { "www-authenticate": "Bearer" } })
    },
  })
  url = `http://127.0.0.1:${resource.port}/mcp`
})
afterEach(() => {
  resource.stop(true)
  authority.stop()
  identityProvider.stop()
  rmSync(directory, { recursive: true, force: true })
})

const jwt = (claims: JWTPayload, ends: number | string = "1h") =>
  new SignJWT({ sub: "workload", ...claims })
    .setProtectedHeader({ alg: "HS256" })
    .setExpirationTime(ends)
    .sign(new Uint8Array(32))
const expired = () => Math.floor(Date.now() / 1000) - 60
const file = () => join(directory, "token")
const processWith = (settings: OAuthSettings): Process => simulateProcess({ directory, url, settings })
const workload = (): OAuthSettings => ({ grantType: "jwt-bearer", assertionFile: file() })
const enterprise = (subjectToken: string): OAuthSettings => ({
  grantType: "token-exchange",
  clientId: "svc-at-the-server",
  clientSecret: "secret-at-the-server",
  identityProvider: identityProvider.url,
  identityProviderClientId: "svc-at-the-idp",
  subjectToken,
})

test("the assertion of a file is sent, and read anew for each token [oauth:workload]", async () => {
  const first = await jwt({ aud: authority.url })
  writeFileSync(file(), `${first}\n`)
  const one = processWith(workload())
  expect((await one.request()).status).toBe(200)
  const second = await jwt({ aud: `${authority.url}/`, jti: "2" })
  writeFileSync(file(), second)
  one.pass(595_000)
  expect((await one.request()).status).toBe(200)
  const grant = { grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", resource: url, scope: "read" }
  expect(authority.requests).toEqual([
    { parameters: { ...grant, assertion: first }, authorization: null },
    { parameters: { ...grant, assertion: second }, authorization: null },
  ])
  expect(one.oauth.secrets).toContain(first)
  expect(one.oauth.secrets).toContain(second)
  expect(await one.oauth.status([one.spec])).toMatchObject([{ state: "authorized", renews: true }])
})

test("a file without a valid assertion is read again by the next attempt, and nothing of it is sent [oauth:workload]", async () => {
  const one = processWith(workload())
  const attempt = () => one.request().catch((error: unknown) => error as Error)
  expect(await attempt()).toMatchObject({ message: `${file()} is missing or empty` })
  writeFileSync(file(), "root:x:0:0")
  expect(await attempt()).toMatchObject({ message: `${file()} is not a JWT` })
  writeFileSync(file(), await jwt({ aud: authority.url }, expired()))
  const late = await attempt()
  expect(late).toBeInstanceOf(TransientError)
  expect(late).toMatchObject({
    message: expect.stringMatching(/token expired at \d{4}-.*: a new token is needed there$/),
  })
  expect(authority.requests).toEqual([])
  writeFileSync(file(), await jwt({ aud: authority.url }))
  expect(await attempt()).toMatchObject({ status: 200 })
})

test("an assertion for another authorization server is not sent [oauth:workload]", async () => {
  for (const aud of ["https://trusted.example", ["https://trusted.example"], undefined]) {
    const one = processWith({ grantType: "jwt-bearer", assertion: await jwt(aud === undefined ? {} : { aud }) })
    const refused = one.request()
    await expect(refused).rejects.toThrow(UnauthorizedError)
    await expect(refused).rejects.toThrow(`not for the authorization server ${authority.url}`)
  }
  expect(authority.requests).toEqual([])
})

test("an assertion in the configuration does not become valid again: a person is told", async () => {
  const one = processWith({ grantType: "jwt-bearer", assertion: await jwt({ aud: authority.url }, expired()) })
  await expect(one.request()).rejects.toThrow(UnauthorizedError)
  await expect(one.request()).rejects.toThrow(
    /oauth.assertion expired at .*; when that is corrected, run `svc auth login web`/,
  )
})

test("a refused grant is reported, and neither repeated nor replaced by another grant [oauth:workload]", async () => {
  writeFileSync(file(), await jwt({ aud: authority.url }))
  const one = processWith(workload())
  refusal = { error: "invalid_grant", error_description: "unknown subject" }
  const refused = one.request()
  await expect(refused).rejects.toThrow(UnauthorizedError)
  await expect(refused).rejects.toThrow(
    `${new URL(authority.url).host} refused the grant jwt-bearer (invalid_grant): unknown subject; when that is corrected`,
  )
  expect(authority.requests).toHaveLength(1)
  // The same when a token that was good has expired.
  refusal = undefined
  expect((await one.request()).status).toBe(200)
  refusal = { error: "invalid_grant", error_description: "x".repeat(5000) }
  one.pass(600_000)
  const later = await one.request().catch((error: unknown) => error as Error)
  expect(later).toBeInstanceOf(UnauthorizedError)
  expect((later as Error).message.length).toBeLessThan(700)
  const begun = await one.oauth.begin(one.spec, undefined).catch((error: unknown) => error as Error)
  expect(begun).toMatchObject({ message: expect.stringMatching(/^web cannot be authorized: .{1,600}$/) })
})

test("an ID token is exchanged at its identity provider, and the grant redeemed [oauth:enterprise]", async () => {
  const subject = await jwt({ iss: `${identityProvider.url}/`, aud: "svc-at-the-idp" })
  const one = processWith({ ...enterprise(subject), identityProviderClientSecret: "secret-at-the-idp" })
  expect((await one.request()).status).toBe(200)
  expect(identityProvider.requests).toEqual([
    {
      parameters: {
        grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
        requested_token_type: "urn:ietf:params:oauth:token-type:id-jag",
        subject_token: subject,
        subject_token_type: "urn:ietf:params:oauth:token-type:id_token",
        audience: authority.url,
        resource: url,
        scope: "read",
      },
      authorization: `Basic ${btoa("svc-at-the-idp:secret-at-the-idp")}`,
    },
  ])
  expect(authority.requests).toMatchObject([
    {
      parameters: { grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", assertion: "the-id-jag" },
      authorization: `Basic ${btoa("svc-at-the-server:secret-at-the-server")}`,
    },
  ])
  expect(one.oauth.secrets).toContain("the-id-jag")
  expect(one.oauth.secrets).toContain(subject)
})

test("an ID token goes to no issuer but its own [oauth:enterprise]", async () => {
  const one = processWith(enterprise(await jwt({ iss: "https://idp.example" })))
  await expect(one.request()).rejects.toThrow("oauth.subjectToken is an ID token of https://idp.example")
  expect(identityProvider.requests).toEqual([])
})

test("the refusal of an identity provider names it, and the server gets no request [oauth:enterprise]", async () => {
  const one = processWith(enterprise(await jwt({ iss: identityProvider.url })))
  refusal = { error: "invalid_target", error_description: "not for this app" }
  await expect(one.request()).rejects.toThrow(`${new URL(identityProvider.url).host} issued no grant for`)
  await expect(one.request()).rejects.toThrow("invalid_target - not for this app")
  expect(authority.requests).toEqual([])
  expect(identityProvider.requests.every(({ parameters }) => parameters.client_id === "svc-at-the-idp")).toBe(true)
})

test("a grant without a token fails in one line that names the host and what to do [oauth:refused]", async () => {
  for (const [what, answer, reason] of WITHOUT_TOKEN) {
    const one = processWith({
      grantType: "client_credentials",
      clientId: "machine",
      clientSecret: "secret-at-the-server",
    })
    authority.requests.length = 0
    refusal = answer()
    const failure = await one.request().catch((error: unknown) => error as Error)
    expect(failure, what).toBeInstanceOf(UnauthorizedError)
    expect((failure as Error).message, what).toStartWith(`requires authorization, but ${new URL(authority.url).host} `)
    expect((failure as Error).message, what).toMatch(reason)
    expect((failure as Error).message, what).toEndWith("; when that is corrected, run `svc auth login web`")
    expect((failure as Error).message, what).not.toMatch(/[\n{}[\]]|invalid ;/)
    expect(authority.requests, what).toHaveLength(1)
  }
})

test("an identity provider without a grant is named in one line, with what to do [oauth:refused]", async () => {
  const foreign = () => ({
    access_token: "other",
    issued_token_type: "urn:ietf:params:oauth:token-type:jwt",
    token_type: "N_A",
  })
  for (const [what, answer, reason] of [...WITHOUT_TOKEN, ["another kind of token", foreign, /ID-JAG/] as const]) {
    const one = processWith(enterprise(await jwt({ iss: identityProvider.url })))
    refusal = answer()
    const failure = await one.request().catch((error: unknown) => error as Error)
    expect(failure, what).toBeInstanceOf(UnauthorizedError)
    const { host } = new URL(identityProvider.url)
    expect((failure as Error).message, what).toStartWith(`requires authorization, but ${host} issued no grant for `)
    expect((failure as Error).message, what).toMatch(reason)
    expect((failure as Error).message, what).toEndWith("; when that is corrected, run `svc auth login web`")
    expect((failure as Error).message, what).not.toMatch(/[\n{}[\]]/)
    expect(authority.requests, what).toEqual([])
  }
})
