/** Sign-ins at generated authorization servers, without a network: what is odd but clear succeeds, all else ends with a reason in one line. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import fc from "fast-check"
import { challengeOf } from "../../../src/features/oauth/oauth-client.ts"
import type { Params } from "../../../src/wire/message.ts"
import { simulateProcess } from "./process.ts"

let directory = ""
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "svc-generated-"))
})
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const HOST = "http://127.0.0.1:1"
const ISSUER = "http://127.0.0.1:2"
const RESOURCE = `${HOST}/mcp`
const METADATA = `${HOST}/.well-known/oauth-protected-resource/mcp`

/** The usual answers. */
const USUAL = {
  resource: {
    resource: RESOURCE,
    authorization_servers: [ISSUER],
    scopes_supported: ["read"],
    resource_name: "R",
    bearer_methods_supported: ["header"],
  },
  server: {
    issuer: ISSUER,
    authorization_endpoint: `${ISSUER}/auth`,
    token_endpoint: `${ISSUER}/token`,
    registration_endpoint: `${ISSUER}/reg`,
    revocation_endpoint: `${ISSUER}/revoke`,
    response_types_supported: ["code"],
    grant_types_supported: ["authorization_code", "refresh_token"],
    scopes_supported: ["read", "write"],
    code_challenge_methods_supported: ["S256"],
    token_endpoint_auth_methods_supported: ["none"],
    service_documentation: `${ISSUER}/docs`,
    client_id_metadata_document_supported: false,
  },
  registration: {
    client_id: "c",
    client_id_issued_at: 1_700_000_000,
    client_secret_expires_at: 0,
    redirect_uris: ["http://127.0.0.1:1/oauth/callback"],
    client_name: "svc",
    client_uri: "https://svc.example",
    grant_types: ["authorization_code"],
    scope: "read",
    token_endpoint_auth_method: "none",
  },
  tokens: {
    access_token: "T",
    token_type: "Bearer",
    expires_in: 600,
    refresh_token: "R",
    scope: "read",
    id_token: "i",
  },
} as const satisfies Readonly<Record<string, Params>>
type Part = keyof typeof USUAL
const PARTS = Object.keys(USUAL) as Part[]

/** The members without which no sign-in is possible, or whose absence means something else. */
const NEEDED: readonly string[] = [
  ...["resource", "authorization_servers"],
  ...[
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "code_challenge_methods_supported",
  ],
  ...["client_id", "access_token", "token_type", "refresh_token"],
]

/** An answer: a status, a text, and its type. */
type Answer = { readonly status: number; readonly text: string; readonly type: string }
/** What one authorization server does. */
type Server = {
  readonly challenge: string
  /** The answer at the first address of the metadata of the resource and of the server. */
  readonly decoys: Readonly<Partial<Record<"resource" | "server", Answer>>>
  readonly answers: Readonly<Record<Part, Answer>>
}

const respond = ({ status, text, type }: Answer) => new Response(text, { status, headers: { "content-type": type } })

/** Returns a process of svc for which the network is one server. `renewal` answers its later requests for tokens. */
function processAt(server: Server, renewal?: Answer) {
  let redeemed = 0
  const one = simulateProcess({
    directory: mkdtempSync(join(directory, "one-")),
    url: RESOURCE,
    async fetch(url) {
      const { origin, pathname } = new URL(url)
      const { answers, decoys, challenge } = server
      const path = `${origin}${pathname}`
      if (path === RESOURCE) return new Response(null, { status: 401, headers: { "www-authenticate": challenge } })
      if (path === METADATA) return respond(decoys.resource ?? answers.resource)
      if (path === `${HOST}/.well-known/oauth-protected-resource`) return respond(answers.resource)
      if (path === `${ISSUER}/.well-known/oauth-authorization-server`) return respond(decoys.server ?? answers.server)
      if (path === `${ISSUER}/.well-known/openid-configuration`) return respond(answers.server)
      if (path === `${ISSUER}/reg`) return respond(answers.registration)
      if (path !== `${ISSUER}/token`) return new Response(null, { status: 404 })
      return respond(redeemed++ > 0 && renewal !== undefined ? renewal : answers.tokens)
    },
  })
  return {
    ...one,
    /** Signs in as a person does. */
    async signIn() {
      await one.request().catch(() => undefined)
      const { url = "" } = (await one.oauth.begin(one.spec, undefined)) ?? {}
      const state = new URL(url).searchParams.get("state") ?? ""
      await one.oauth.finish(new URLSearchParams({ code: "code", state }))
      return one.credentials.authorization()
    },
  }
}

/** Expects a reason for people: one line without the terms of a validator. */
function expectReason(error: unknown) {
  expect(error).toBeInstanceOf(Error)
  const { message } = error as Error
  expect(message).not.toMatch(/[\n\r]|Invalid input|invalid_type|"path"|JSON Parse|undefined|\[object/)
  expect(message.length).toBeLessThan(1000)
}

// ---

const chosen = <T>(...values: readonly T[]) => fc.constantFrom(...values)
const json = (value: unknown): Answer => ({ status: 200, text: JSON.stringify(value), type: "application/json" })

/** Ways to write a challenge that names the metadata, or none at all. */
const challenges = chosen(
  `Bearer resource_metadata="${METADATA}"`,
  `bearer realm="a, b", RESOURCE_METADATA = "${METADATA}" , scope=read`,
  `Basic realm="x", Bearer resource_metadata=${METADATA}`,
  `Negotiate, Bearer error="invalid_token",error_description="say \\"hi\\"",resource_metadata="${METADATA}"`,
  `Negotiate YII=, Bearer resource_metadata="${METADATA}"`,
  'Bearer resource_metadata=""',
  "Bearer",
  "",
)

/** A discovery address without usable metadata, before one that has it. */
const decoys = chosen<Answer | undefined>(
  undefined,
  { status: 200, text: "<!doctype html><title>Welcome</title>", type: "text/html" },
  { status: 200, text: "", type: "application/json" },
  { status: 404, text: "{}", type: "application/json" },
  { status: 500, text: "oops", type: "text/plain" },
  ...[{}, [], null, "no", { error: "not_found" }, { resource: null, issuer: "" }].map(json),
)

/** Spellings of a member that mean the same to svc. */
function spellings(part: Part, name: string, value: unknown): readonly unknown[] {
  if (name === "token_type") return ["Bearer", "bearer", "BEARER", undefined, null]
  if (name === "issuer" || (part === "resource" && name === "resource")) return [value, `${value}/`]
  if (name === "authorization_servers") return [[ISSUER], [`${ISSUER}/`], [ISSUER, null, ""], ISSUER]
  if (NEEDED.includes(name)) return [value]
  const absent = [undefined, null, ""]
  if (Array.isArray(value)) return [value, [null, ...value, ""], value.join(" "), ...absent, []]
  if (typeof value === "number") return [value, String(value), ...absent, `${value}s`, []]
  if (typeof value === "boolean") return [value, String(value), ...absent]
  return name === "scope" ? [value, [value], ...absent] : [value, ...absent]
}

/** A document whose members are spelt in other ways, with members that nobody knows. */
const clear = (part: Part): fc.Arbitrary<Answer> =>
  fc
    .tuple(
      fc.record(
        Object.fromEntries(
          Object.entries(USUAL[part]).map(([name, value]) => [name, chosen(...spellings(part, name, value))]),
        ),
      ),
      chosen("", "\uFEFF", " \n"),
      chosen("application/json", "Application/JSON; charset=UTF-8", "text/plain", "text/html"),
      chosen(200, ...(part === "registration" ? [201] : [])),
    )
    .map(([document, before, type, status]) => ({
      status,
      text: `${before}${JSON.stringify({ ...document, x_unknown: { a: [null] } })}`,
      type,
    }))

const oddValue = fc.oneof(
  chosen<unknown>(
    null,
    "",
    [],
    {},
    0,
    -1,
    1.5,
    true,
    false,
    "a\nb",
    "x".repeat(5000),
    "javascript:1",
    "http://[",
    "//x",
  ),
  chosen<unknown>(
    ISSUER,
    [[]],
    [{}],
    [null],
    { toString: 1 },
    "file:///etc/passwd",
    "\u0000\u202e",
    "http://10.0.0.1/",
  ),
  fc.jsonValue({ maxDepth: 2 }),
)
const oddText = fc.oneof(
  chosen("", "null", "[]", "0", '"x"', "{", "<html>\n<h1>No</h1>", '{"error":null}', '{"error":{"code":1}}', "a=b&c=d"),
  chosen(
    '{"__proto__":{}}',
    '{"error":"x y\\nz","error_description":["a"]}',
    `{"a":${"[".repeat(300)}${"]".repeat(300)}}`,
  ),
  fc.string({ maxLength: 60 }),
  fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify(value)),
)

/** A document with some members of any value, or any text with any status. */
const hostile = (part: Part): fc.Arbitrary<Answer> =>
  fc.oneof(
    { weight: 2, arbitrary: fc.constant(json(USUAL[part])) },
    {
      weight: 4,
      arbitrary: fc
        .dictionary(chosen(...Object.keys(USUAL[part]), "error", "error_description"), oddValue, { maxKeys: 3 })
        .map((odd) => json({ ...USUAL[part], ...odd })),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        status: chosen(200, 201, 204, 400, 401, 403, 404, 410, 429, 500, 503),
        text: oddText,
        type: chosen("application/json", "text/html", "x"),
      }),
    },
  )

const answersOf = (of: (part: Part) => fc.Arbitrary<Answer>) =>
  fc.record(Object.fromEntries(PARTS.map((part) => [part, of(part)])) as Record<Part, fc.Arbitrary<Answer>>)

const oddServers: fc.Arbitrary<Server> = fc.record({
  challenge: challenges,
  decoys: fc.record({ resource: decoys, server: decoys }),
  answers: answersOf(clear),
}) as fc.Arbitrary<Server>

describe("generated authorization servers", () => {
  test("that write what they mean in other ways sign svc in [oauth:foreign-answers]", async () => {
    await fc.assert(
      fc.asyncProperty(oddServers, async (server) => {
        const one = processAt(server)
        expect(await one.signIn()).toBe("Bearer T")
        expect(await one.oauth.status([one.spec])).toMatchObject([{ state: "authorized", renews: true }])
      }),
      { numRuns: 100 },
    )
  })

  test("may write any challenge: what is read of it is an address, or nothing", () => {
    const other = ["Basic", "Negotiate YII==", 'realm="a, b"', "resource_metadata", "scope=read", "DPoP", "error"]
    const piece = chosen(...other, ",", " ", "=", '"', "\\", "\t", `"${METADATA}"`, METADATA, "://", '"Bearer scope=x"')
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), chosen("", "Bearer ", "bearer,"), (pieces, before) => {
        const headers = { "www-authenticate": `${before}${pieces.join("")}` }
        const { metadataUrl } = challengeOf(new Response(null, { headers }))
        expect(metadataUrl === undefined || URL.canParse(metadataUrl)).toBe(true)
      }),
      { numRuns: 2000 },
    )
    // Whatever stands before it, a challenge for tokens is found.
    fc.assert(
      fc.property(
        fc.array(chosen("Basic", 'Digest realm="a, b=c", nonce=x', "Negotiate YII="), { maxLength: 5 }),
        (others) => {
          const headers = { "www-authenticate": [...others, `BEARER Resource_Metadata="${METADATA}"`].join(", ") }
          expect(challengeOf(new Response(null, { headers })).metadataUrl).toBe(METADATA)
        },
      ),
    )
  })

  test("that answer anything sign svc in, or are refused with a reason in one line [oauth:foreign-answers]", async () => {
    const servers = fc.record({ challenge: challenges, decoys: fc.constant({}), answers: answersOf(hostile) })
    await fc.assert(
      fc.asyncProperty(servers, async (server) => {
        const one = processAt(server)
        const signed = await one.signIn().catch((error: unknown) => error)
        if (typeof signed !== "string") expectReason(signed)
        else expect(signed).toMatch(/^(?:Bearer|DPoP) ./)
        await one.oauth.status([one.spec])
      }),
      { numRuns: 300 },
    )
  })

  test("that refuse a renewal in any form ask for a sign-in, unless the refusal is for now [oauth:refused]", async () => {
    const usual: Server = {
      challenge: `Bearer resource_metadata="${METADATA}"`,
      decoys: {},
      answers: Object.fromEntries(PARTS.map((part) => [part, json(USUAL[part])])) as Record<Part, Answer>,
    }
    const refusals = fc.record({
      status: fc.integer({ min: 400, max: 599 }),
      text: oddText,
      type: chosen("application/json", "text/html"),
    })
    await fc.assert(
      fc.asyncProperty(refusals, async (refusal) => {
        const one = processAt(usual, refusal)
        await one.signIn()
        one.pass(601_000)
        const isForNow = refusal.status >= 500 || [408, 425, 429].includes(refusal.status)
        const error = await one.request().catch((failure: unknown) => failure)
        expectReason(error)
        expect((error as Error).name).toBe(isForNow ? "TransientError" : "UnauthorizedError")
        if (!isForNow) expect((error as Error).message).toContain("svc auth login web")
        const [status] = await one.oauth.status([one.spec])
        expect(status?.renews === true).toBe(isForNow)
      }),
      { numRuns: 60 },
    )
  })
})
