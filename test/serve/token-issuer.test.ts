/** Access tokens of an issuer: which of the tokens that it signs are accepted. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose"
import { createIssuer, type TokenVerdict } from "../../src/serve/token-issuer.ts"

const AUDIENCE = "https://svc.example/mcp"
let keys: Awaited<ReturnType<typeof generateKeyPair>>
let server: Bun.Server<undefined>
let url = ""
beforeEach(async () => {
  keys = await generateKeyPair("ES256")
  const jwk = { ...(await exportJWK(keys.publicKey)), kid: "one", alg: "ES256" }
  server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) =>
      Response.json(request.url.endsWith("/jwks") ? { keys: [jwk] } : { issuer: url, jwks_uri: `${url}/jwks` }),
  })
  url = `http://127.0.0.1:${server.port}`
})
afterEach(() => server.stop(true))

async function verdictOn(
  typ: string | null | undefined,
  claims: JWTPayload = {},
  configured = url,
): Promise<TokenVerdict> {
  const token = await new SignJWT({ sub: "ada", iss: url, aud: AUDIENCE, ...claims })
    .setProtectedHeader({ alg: "ES256", kid: "one", ...(typ === undefined ? {} : { typ: typ as string }) })
    .setExpirationTime("5m")
    .sign(keys.privateKey)
  const issuer = createIssuer({
    url: configured,
    audience: AUDIENCE,
    fetch,
    now: () => Date.now(),
    onnote: () => undefined,
  })
  return issuer.verify(token, "https://svc.example", "/mcp")
}

test.each(["at+jwt", "application/at+jwt", "AT+JWT", "JWT", "jwt", undefined])(
  "a token of the type %p is accepted [auth:token-type]",
  async (typ) => {
    expect(await verdictOn(typ, { scope: "tag:web" })).toMatchObject({ kind: "valid", claims: { scopes: ["tag:web"] } })
  },
)

test.each(["id_token+jwt", "logout+jwt", "dpop+jwt", "oauth-id-jag+jwt", "secevent+jwt", "", "at+jwt+x", null])(
  "a token of the type %p is not an access token [auth:token-type]",
  async (typ) => {
    expect(await verdictOn(typ)).toEqual({ kind: "invalid", reason: "The token is not an access token (typ)" })
  },
)

test.each<[string, JWTPayload]>([
  ["nonce", { nonce: "n" }],
  ["at_hash", { at_hash: "h" }],
  ["c_hash", { c_hash: "h" }],
  ["s_hash", { s_hash: "h" }],
  ["events", { events: {} }],
  ["typ", { typ: "ID" }],
  ["typ", { typ: "Refresh" }],
  ["token_use", { token_use: "id" }],
])(
  "a token without a type that has the claim %s of another kind is refused [auth:token-type]",
  async (claim, claims) => {
    const refused = { kind: "invalid", reason: `The token is not an access token (${claim})` } as const
    expect(await verdictOn(undefined, claims)).toEqual(refused)
    expect(await verdictOn("JWT", claims)).toEqual(refused)
    expect(await verdictOn("at+jwt", claims)).toMatchObject({ kind: "valid" })
  },
)

test("claims that name an access token are accepted [auth:token-type]", async () => {
  expect(await verdictOn("JWT", { typ: "Bearer" })).toMatchObject({ kind: "valid" })
  expect(await verdictOn(undefined, { token_use: "access" })).toMatchObject({ kind: "valid" })
})

test.each<JWTPayload>([{ cnf: { jkt: "thumbprint" } }, { cnf: { "x5t#S256": "hash" } }, { cnf: {} }])(
  "a token that is bound to a key is not a bearer token: %j [auth:token-type]",
  async (claims) => {
    const verdict = await verdictOn("at+jwt", claims)
    expect(verdict).toMatchObject({ kind: "invalid", reason: expect.stringContaining("bound to a key (cnf)") })
  },
)

test("the issuer of a token is compared exactly with the issuer's own name, which may be configured without its last slash [auth:token-type]", async () => {
  for (const configured of [url, `${url}/`]) {
    expect(await verdictOn("at+jwt", {}, configured)).toMatchObject({ kind: "valid" })
    for (const iss of [`${url}/`, url.toUpperCase(), `${url}//`])
      expect(await verdictOn("at+jwt", { iss }, configured)).toEqual({
        kind: "invalid",
        reason: "The token is not valid (iss)",
      })
  }
})
