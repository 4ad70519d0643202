/** Tokens that are bound to a key (RFC 9449), against a real authorization server and a server that checks each proof. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { OAuthSettings } from "../../../src/config/server-spec.ts"
import {
  type Authority,
  type AuthorityOptions,
  type Resource,
  type ResourceOptions,
  startAuthority,
  startResource,
} from "../../fixtures/authority.ts"
import { logIn, type Process, simulateProcess } from "./process.ts"

let directory = ""
const opened: { authority: Authority; resource: Resource }[] = []
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "svc-dpop-"))
})
afterEach(async () => {
  for (const { authority, resource } of opened.splice(0)) {
    resource[Symbol.dispose]()
    await authority.stop()
  }
  rmSync(directory, { recursive: true, force: true })
})

async function open(
  protection: ResourceOptions["dpop"] | "bearer",
  options: AuthorityOptions = {},
  settings?: OAuthSettings,
  talk?: (url: string, init: RequestInit) => Promise<Response>,
): Promise<{ authority: Authority; resource: Resource; process(): Process }> {
  const authority = await startAuthority(options)
  const resource = startResource(
    authority,
    protection === undefined || protection === "bearer" ? {} : { dpop: protection },
  )
  opened.push({ authority, resource })
  const more = { ...(settings === undefined ? {} : { settings }), ...(talk === undefined ? {} : { fetch: talk }) }
  return { authority, resource, process: () => simulateProcess({ directory, url: resource.url, ...more }) }
}

const stored = () => readFileSync(join(directory, "secrets", "oauth.json"), "utf8")
const schemeOf = async (one: Process) => (await one.credentials.authorization())?.split(" ")[0]
/** The server takes no GET, but only after it has accepted the token. */
const ACCEPTED = 405

test("a server that asks for DPoP gets a bound token with a new proof in each request [oauth:dpop]", async () => {
  const { resource, process } = await open({})
  const one = process()
  await logIn(one)
  expect(await schemeOf(one)).toBe("DPoP")
  const responses = await Promise.all([one.request(), one.request(), one.request("DELETE")])
  expect(responses.map(({ status }) => status)).toEqual([ACCEPTED, ACCEPTED, ACCEPTED])
  expect(resource.keys).toHaveLength(3)
  expect(new Set(resource.keys).size).toBe(1)
})

test("the key is kept with the tokens, is secret, and outlives the process and each renewal [oauth:dpop]", async () => {
  const { authority, resource, process } = await open({})
  const one = process()
  await logIn(one)
  await one.request()
  const key = /"d":"([^"]+)"/.exec(stored())?.[1] ?? "none"
  expect(one.oauth.secrets).toContain(key)
  const two = process()
  const first = await two.credentials.authorization()
  two.pass(595_000)
  expect(await two.credentials.authorization()).not.toBe(first)
  expect((await two.request()).status).toBe(ACCEPTED)
  expect(new Set(resource.keys).size).toBe(1)
  expect(stored()).toContain(key)
  // Another sign-in keeps the key; a sign-out deletes it.
  await logIn(two)
  expect(stored()).toContain(key)
  await two.oauth.logout(two.spec)
  expect(stored()).not.toContain(key)
  await logIn(two)
  await two.request()
  expect(new Set(resource.keys).size).toBe(2)
  expect(authority.asked.get("/token")).toBe(4)
})

test("the nonces of the authorization server and of the server are sent back [oauth:dpop]", async () => {
  let nonce = "first"
  const { resource, process } = await open({ nonce: () => nonce }, { dpopNonce: true })
  const one = process()
  await logIn(one)
  expect((await one.request()).status).toBe(ACCEPTED)
  const before = resource.calls()
  expect((await one.request()).status).toBe(ACCEPTED)
  expect(resource.calls()).toBe(before + 1)
  nonce = "second"
  expect((await one.request()).status).toBe(ACCEPTED)
  expect(resource.calls()).toBe(before + 3)
  one.pass(595_000)
  expect((await one.request()).status).toBe(ACCEPTED)
})

test("a server that demands a new nonce each time is not asked forever", async () => {
  let count = 0
  const { resource, process } = await open({ nonce: () => `nonce-${count++}` })
  const one = process()
  await logIn(one)
  const before = resource.calls()
  await expect(one.request()).rejects.toThrow("answered 401")
  expect(resource.calls()).toBe(before + 5)
})

test("a server that does not ask for DPoP gets a bearer token, though its authorization server has DPoP", async () => {
  const { process } = await open("bearer")
  const one = process()
  await logIn(one)
  expect(await schemeOf(one)).toBe("Bearer")
  expect((await one.request()).status).toBe(ACCEPTED)
  expect(stored()).not.toContain('"dpopKey"')
})

test("dpopBoundAccessTokens demands or prevents it [oauth:dpop]", async () => {
  const demanding = await open("bearer", {}, { dpopBoundAccessTokens: true })
  const one = demanding.process()
  await logIn(one)
  expect(await schemeOf(one)).toBe("DPoP")
  const preventing = await open({}, {}, { dpopBoundAccessTokens: false })
  const two = preventing.process()
  await logIn(two)
  expect(await schemeOf(two)).toBe("Bearer")
})

test("a bearer token is refused if the configuration demands a bound one, and a bound one without a proof", async () => {
  const typed = (type: string) => async (url: string, init: RequestInit) => {
    const response = await fetch(url, init)
    if (!url.endsWith("/token")) return response
    return Response.json({ ...((await response.json()) as object), token_type: type })
  }
  const downgraded = await open("bearer", {}, { dpopBoundAccessTokens: true }, typed("Bearer"))
  await expect(logIn(downgraded.process())).rejects.toThrow(/issued a bearer token.*enable DPoP there/)
  const unasked = await open("bearer", {}, undefined, typed("DPoP"))
  await expect(logIn(unasked.process())).rejects.toThrow(/without a proof from svc.*dpopBoundAccessTokens to true/)
})

test("the refusal of a proof for a new token says what to check", async () => {
  const { resource, process } = await open({})
  const one = process()
  await logIn(one)
  const sent = await one.credentials.authorization()
  const challenge = { "www-authenticate": 'DPoP error="invalid_dpop_proof"' }
  const refused = one.credentials.challenged(new Response(null, { status: 401, headers: challenge }), sent)
  await expect(refused).rejects.toThrow(/refuses the DPoP proof .* check the clock of this machine/)
  expect(resource.keys).toHaveLength(0)
})

test("without an algorithm that the server accepts, no sign-in starts", async () => {
  const { process } = await open({}, {}, undefined, async (url, init) => {
    const response = await fetch(url, init)
    if (!url.includes("/.well-known/o")) return response
    return Response.json({ ...((await response.json()) as object), dpop_signing_alg_values_supported: ["HS256"] })
  })
  const one = process()
  await expect(one.oauth.begin(one.spec, undefined)).rejects.toThrow(
    "accept no DPoP signing algorithm that svc supports",
  )
})
