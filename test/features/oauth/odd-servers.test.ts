/** Sign-ins at authorization servers that do not follow the letter: each succeeds, or says why in one line. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { TransientError } from "../../../src/backend/client-transport.ts"
import { challengeOf, discover } from "../../../src/features/oauth/oauth-client.ts"
import type { Params } from "../../../src/wire/message.ts"
import { type Authority, type Resource, startAuthority, startResource } from "../../fixtures/authority.ts"
import { logIn, SECRET, simulateProcess } from "./process.ts"

let directory = ""
let authority: Authority
let resource: Resource
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "svc-odd-"))
  authority = await startAuthority({ accessTtl: 600 })
  resource = startResource(authority)
})
afterEach(async () => {
  resource[Symbol.dispose]()
  await authority.stop()
  rmSync(directory, { recursive: true, force: true })
})

/** Changes the answer to a request; undefined leaves it. */
type Oddity = (path: string, answer: Params, status: number) => Params | Response | undefined

const processWith = (oddity: Oddity, refuse: (path: string) => Response | undefined = () => undefined) =>
  simulateProcess({
    directory,
    url: resource.url,
    async fetch(url, init) {
      const { pathname } = new URL(url)
      const refused = refuse(pathname)
      if (refused !== undefined) return refused
      const response = await fetch(url, init)
      if (pathname === "/mcp") return response
      const text = await response.clone().text()
      const answer: unknown = text.startsWith("{") ? JSON.parse(text) : {}
      const changed = oddity(pathname, answer as Params, response.status)
      if (changed === undefined) return response
      return changed instanceof Response ? changed : Response.json(changed, { status: response.status })
    },
  })

const isToken = (path: string) => path === "/token"
const isRegistration = (path: string) => path === "/reg"
const isServer = (path: string) => path.includes("openid-configuration") || path.includes("oauth-authorization-server")
const isResource = (path: string) => path.includes("oauth-protected-resource")
const page = () => new Response("<!doctype html><title>Welcome</title>", { headers: { "content-type": "text/html" } })

describe("a sign-in succeeds [oauth:foreign-answers]", () => {
  const ODD: readonly (readonly [string, Oddity])[] = [
    [
      "absent members of tokens as null and empty, the lifetime as text",
      (path, answer) =>
        isToken(path) ? { ...answer, id_token: null, scope: "", expires_in: String(answer.expires_in) } : undefined,
    ],
    ["the scope of tokens as a list", (path, answer) => (isToken(path) ? { ...answer, scope: ["read"] } : undefined)],
    ["tokens without their type", (path, { token_type: _, ...answer }) => (isToken(path) ? answer : undefined)],
    [
      "a registration with the client id alone",
      (path, { client_id }) => (isRegistration(path) ? { client_id } : undefined),
    ],
    [
      "a registration with null and empty members",
      (path, answer) =>
        isRegistration(path)
          ? { ...answer, client_uri: "", logo_uri: null, contacts: null, client_secret_expires_at: "0", scope: null }
          : undefined,
    ],
    [
      "metadata with null, empty and single members",
      (path, answer) =>
        isServer(path)
          ? { ...answer, scopes_supported: null, revocation_endpoint: "", grant_types_supported: "authorization_code" }
          : undefined,
    ],
    [
      "metadata with booleans as text",
      (path, answer) =>
        isServer(path)
          ? { ...answer, client_id_metadata_document_supported: "false", claims_supported: "a b" }
          : undefined,
    ],
    [
      "metadata without response types and keys",
      (path, { response_types_supported: _, subject_types_supported: __, jwks_uri: ___, ...answer }) =>
        isServer(path) ? answer : undefined,
    ],
    [
      "an issuer with a final slash at the resource alone",
      (path, answer) => (isResource(path) ? { ...answer, authorization_servers: [`${authority.issuer}/`] } : undefined),
    ],
    [
      "a resource with a final slash in its metadata",
      (path, answer) => (isResource(path) ? { ...answer, resource: `${answer.resource}/` } : undefined),
    ],
    [
      "a web page at the first discovery address",
      (path) => (path.includes("oauth-authorization-server") ? page() : undefined),
    ],
    [
      "an empty object at the first discovery address",
      (path) => (path.includes("oauth-authorization-server") ? {} : undefined),
    ],
    [
      "a failure at the first discovery address",
      (path) => (path.includes("oauth-authorization-server") ? new Response("", { status: 500 }) : undefined),
    ],
  ]
  test.each(ODD)("%s", async (_name, oddity) => {
    const one = processWith(oddity)
    await logIn(one)
    expect(await one.credentials.authorization()).toStartWith("Bearer ")
    expect(await one.oauth.status([one.spec])).toMatchObject([{ state: "authorized" }])
  })
})

describe("a sign-in that cannot succeed says why in one line [oauth:foreign-answers]", () => {
  const BROKEN: readonly (readonly [string, Oddity, RegExp])[] = [
    ["an answer without a token", (path) => (isToken(path) ? {} : undefined), /127\.0\.0\.1:\d+ .*access_token/],
    ["a web page in place of tokens", (path) => (isToken(path) ? page() : undefined), /127\.0\.0\.1:\d+ /],
    [
      "a refusal in a form of its own",
      (path) =>
        isToken(path) ? Response.json({ message: "tenant\nunknown", status: 403 }, { status: 403 }) : undefined,
      /tenant unknown/,
    ],
    [
      "a registration refused by a web page",
      (path) => (isRegistration(path) ? new Response("<html>\n<h1>No</h1>", { status: 403 }) : undefined),
      /did not register svc/,
    ],
    [
      "a refusal that repeats a secret where its text is cut",
      (path) =>
        isToken(path)
          ? Response.json(
              { error: "invalid_request", error_description: `${"x".repeat(190)}${SECRET}` },
              { status: 400 },
            )
          : undefined,
      /x{190}\[REDACTED\]/,
    ],
    [
      "metadata without an address to sign in at",
      (path, { authorization_endpoint: _, ...answer }) => (isServer(path) ? answer : undefined),
      /names no authorization endpoint/,
    ],
    [
      "metadata with an endpoint that is none",
      (path, answer) => (isServer(path) ? { ...answer, registration_endpoint: "nowhere" } : undefined),
      /127\.0\.0\.1:\d+ answered with a missing or invalid registration_endpoint/,
    ],
    [
      "metadata of another issuer",
      (path, answer) => (isServer(path) ? { ...answer, issuer: "http://other.example" } : undefined),
      /http:\/\/other\.example/,
    ],
  ]
  test.each(BROKEN)("%s", async (_name, oddity, reason) => {
    const one = processWith(oddity)
    const failure = await logIn(one).catch((error: Error) => error)
    expect(failure).toBeInstanceOf(Error)
    const { message } = failure as Error
    expect(message).toMatch(reason)
    expect(message).not.toContain("\n")
    expect(message).not.toMatch(/[{}]|"path"/)
  })
})

describe("a refused renewal", () => {
  const none: Oddity = () => undefined
  const refuse = (status: number, body: object | string) => (path: string) =>
    isToken(path) && isRefusing
      ? new Response(typeof body === "string" ? body : JSON.stringify(body), { status })
      : undefined
  let isRefusing = false
  beforeEach(() => {
    isRefusing = false
  })

  test.each([
    [200, { error: "bad_refresh_token", error_description: "expired" }],
    [200, { refresh_token: "Canary", token_type: "Bearer" }],
    [200, { ok: false, message: "expired" }],
    [200, "<html>log in</html>"],
    [200, ""],
    [400, { error: "invalid_request" }],
    [400, { error: "invalid_refresh_token", error_description: "expired" }],
    [400, { error: "invalid_grant" }],
    [401, { code: "token_expired" }],
    [403, { error: "access_denied" }],
    [404, "<html>not here</html>"],
  ])("with %d %j asks for a sign-in [oauth:refused]", async (status, body) => {
    const one = processWith(none, refuse(status, body))
    await logIn(one)
    isRefusing = true
    one.pass(601_000)
    const response = await one.request().catch((error: Error) => error)
    expect(response).toMatchObject({
      name: "UnauthorizedError",
      message: "sign-in needed; run `svc auth login web`",
    })
    expect(await one.oauth.status([one.spec])).toMatchObject([{ state: "waiting", renews: false }])
  })

  test("for now leaves the sign-in valid [oauth:refused]", async () => {
    let status = 408
    const one = processWith(none, (path) => refuse(status, "")(path))
    await logIn(one)
    isRefusing = true
    one.pass(601_000)
    for (status of [408, 425, 429, 503]) await expect(one.credentials.authorization()).rejects.toThrow(String(status))
    isRefusing = false
    expect(await one.credentials.authorization()).toStartWith("Bearer ")
  })

  test("that does not end the grant is tried again by the next connection", async () => {
    const one = processWith(none, refuse(403, "blocked by a firewall"))
    await logIn(one)
    isRefusing = true
    one.pass(601_000)
    await one.request().catch(() => undefined)
    isRefusing = false
    expect((await one.request("GET")).status).not.toBe(401)
    expect(await one.oauth.status([one.spec])).toMatchObject([{ state: "authorized", renews: true }])
  })

  test("is repeated with the granted scope [oauth:refused]", async () => {
    const scopes: (string | null)[] = []
    const one = simulateProcess({
      directory,
      url: resource.url,
      fetch(url, init) {
        const body = init.body instanceof URLSearchParams ? init.body : new URLSearchParams()
        if (body.get("grant_type") !== "refresh_token") return fetch(url, init)
        scopes.push(body.get("scope"))
        return body.has("scope")
          ? fetch(url, init)
          : Promise.resolve(Response.json({ error: "invalid_request" }, { status: 400 }))
      },
    })
    await logIn(one)
    one.pass(601_000)
    expect(await one.credentials.authorization()).toStartWith("Bearer ")
    expect(scopes).toEqual([null, expect.stringContaining("read")])
  })
})

test("a resource without scopes leads to a registration without an empty one [oauth:foreign-answers]", async () => {
  const bodies: string[] = []
  const one = simulateProcess({
    directory,
    url: resource.url,
    async fetch(url, init) {
      if (url.endsWith("/reg")) bodies.push(String(init.body))
      const response = await fetch(url, init)
      return isResource(url)
        ? Response.json({ ...((await response.json()) as Params), scopes_supported: [] })
        : response
    },
  })
  await one.oauth.begin(one.spec, undefined)
  expect(bodies.map((body) => Object.keys(JSON.parse(body) as Params).includes("scope"))).toEqual([false])
})

test("an issuer with a final slash in its metadata alone is the server's, and another path is not [oauth:foreign-answers]", async () => {
  const named = (suffix: string) => async (url: string | URL, init?: RequestInit) => {
    const response = await fetch(url, init)
    if (!response.ok || !isServer(String(url))) return response
    const answer = (await response.json()) as Params
    return Response.json({ ...answer, issuer: `${answer.issuer}${suffix}` })
  }
  expect((await discover(resource.url, undefined, named("/"))).issuer).toBe(`${authority.issuer}/`)
  await expect(discover(resource.url, undefined, named("/other"))).rejects.toThrow("another issuer")
})

test("a resource whose metadata cannot be read now is not taken for one without [oauth:foreign-answers]", async () => {
  const named = `${new URL(resource.url).origin}/metadata`
  const asking = async (url: string | URL, init?: RequestInit) => {
    if (String(url) === named) throw new TransientError("127.0.0.1 answered 503", { status: 503 })
    return isResource(String(url)) ? new Response(null, { status: 404 }) : fetch(url, init)
  }
  await expect(discover(resource.url, named, asking)).rejects.toThrow("503")
})

describe("challenges", () => {
  test.each([
    ['Bearer resource_metadata = "https://h/a", scope=r', "https://h/a", "r"],
    ['BEARER Resource_Metadata="https://h/a"', "https://h/a", undefined],
    ['Basic realm="x, y", Bearer resource_metadata="https://h/a"', "https://h/a", undefined],
    ['Negotiate, Bearer resource_metadata="https://h/a",scope="a b"', "https://h/a", "a b"],
    ['Negotiate YII=, Bearer scope="a \\"b\\""', undefined, 'a "b"'],
    ['Basic resource_metadata="https://h/a"', undefined, undefined],
    ["Bearer", undefined, undefined],
    ["", undefined, undefined],
  ])("%s is read as RFC 9110 writes it", (header, metadataUrl, scope) => {
    const response = new Response(null, { status: 401, headers: { "www-authenticate": header } })
    expect(challengeOf(response)).toMatchObject({ metadataUrl, scope, dpop: false })
  })

  test("DPoP is found beside other schemes", () => {
    const response = new Response(null, { headers: { "www-authenticate": 'Bearer scope="a", DPoP algs="ES256"' } })
    expect(challengeOf(response).dpop).toBe(true)
  })
})
