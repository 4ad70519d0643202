/**
 * The access tokens of an OAuth 2.1 issuer: JWTs, checked against its keys. Keys are fetched when they are first needed,
 * again for a key that is not known, and now and then; an issuer that goes away takes nothing with it that was fetched.
 * RFC 9068; RFC 8414; RFC 7517.
 */
import { createRemoteJWKSet, errors, type JWTPayload, jwtVerify } from "jose"
import { BoundedMap } from "../lib/bounded-map.ts"
import { digest } from "../lib/digest.ts"
import { messageOf } from "../lib/errors.ts"
import { isObject } from "../wire/message.ts"

/** What a valid token says. */
export type TokenClaims = {
  /** The kind of name and the name: a user and a client that are spelled alike are two. */
  readonly holder: { readonly kind: "subject" | "client"; readonly id: string }
  readonly scopes: readonly string[]
  /** Milliseconds since the epoch. */
  readonly until: number
}

export type TokenVerdict =
  | { readonly kind: "valid"; readonly claims: TokenClaims }
  | { readonly kind: "invalid"; readonly reason: string }
  /** The keys cannot be had at the moment. */
  | { readonly kind: "unavailable" }

export type Issuer = {
  readonly url: string
  /** The scopes it says it knows; none before it was first asked. */
  readonly scopes: readonly string[]
  /** Whether a token is good for a path below svc's address, or for all of svc. */
  verify(token: string, base: string, path: string): Promise<TokenVerdict>
  /** Fetches the keys, also again; called now and then. Never rejects. */
  refresh(): Promise<void>
}

export type IssuerOptions = {
  readonly url: string
  /** What tokens must be for; undefined: the address they are used at. */
  readonly audience: string | undefined
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  now(): number
  onnote(message: string): void
}

export function createIssuer({ url, audience, fetch, now, onnote }: IssuerOptions): Issuer {
  let scopes: readonly string[] = []
  let said = false
  let keys: Promise<ReturnType<typeof createRemoteJWKSet>> | undefined
  const verdicts = new BoundedMap<string, { readonly verdict: TokenVerdict; readonly until: number }>(MAX_VERDICTS)
  const load = async () => {
    const found = await discover(url, fetch)
    scopes = found.scopes
    said = false
    return createRemoteJWKSet(new URL(found.keys), {
      cacheMaxAge: Number.POSITIVE_INFINITY,
      cooldownDuration: COOLDOWN_MS,
      timeoutDuration: TIMEOUT_MS,
    })
  }
  const known = () => {
    keys ??= load()
    keys.catch(() => {
      keys = undefined
    })
    return keys
  }
  const check = async (token: string, resources: readonly string[]): Promise<TokenVerdict> => {
    let set: Awaited<ReturnType<typeof known>>
    try {
      set = await known()
    } catch (error) {
      // Once: whoever sends tokens must not fill the log.
      if (!said) onnote(`the issuer ${url} cannot be reached: ${messageOf(error)}`)
      said = true
      return { kind: "unavailable" }
    }
    try {
      const { payload } = await jwtVerify(token, set, {
        issuer: [url, url.replace(/\/$/, ""), `${url.replace(/\/$/, "")}/`],
        algorithms: ALGORITHMS,
        clockTolerance: CLOCK_SKEW_S,
        requiredClaims: ["exp", "iss"],
        currentDate: new Date(now()),
      })
      if (!isFor(payload, resources)) return invalid("The token is not for this server (aud)")
      const holder = holderOf(payload)
      if (holder === undefined) return invalid("The token says nobody (sub)")
      const until = ((payload.exp ?? 0) + CLOCK_SKEW_S) * 1000
      return { kind: "valid", claims: { holder, scopes: scopesOf(payload), until } }
    } catch (error) {
      if (error instanceof errors.JWKSTimeout || !(error instanceof errors.JOSEError)) return { kind: "unavailable" }
      return invalid(reasonOf(error))
    }
  }
  return {
    url,
    get scopes() {
      return scopes
    },
    async verify(token, base, path) {
      const key = digest(`${path} ${token}`, 64)
      const found = verdicts.get(key)
      if (found !== undefined && found.until > now()) return found.verdict
      // What a token may be for where no audience is configured: the address it is used at, or all of svc.
      const resources = audience === undefined ? [`${base}${path}`, base, `${base}/`, `${base}/mcp`] : [audience]
      const verdict = await check(token, resources)
      if (verdict.kind !== "valid") return verdict
      verdicts.set(key, { verdict, until: Math.min(verdict.claims.until, now() + REMEMBER_MS) })
      return verdict
    },
    async refresh() {
      try {
        await (await known()).reload()
      } catch {
        // What was fetched before is good until the issuer can be asked again.
      }
    },
  }
}

// ---

/** Asymmetric ones alone: with a shared secret, who can check a token can make one. */
const ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]
const CLOCK_SKEW_S = 30
const COOLDOWN_MS = 10_000
const TIMEOUT_MS = 5000
const REMEMBER_MS = 60_000
const MAX_VERDICTS = 10_000
const MAX_METADATA = 256 * 1024

const invalid = (reason: string): TokenVerdict => ({ kind: "invalid", reason })

/** Where the keys are. Throws an Error that says what was wrong. */
async function discover(
  url: string,
  fetch: IssuerOptions["fetch"],
): Promise<{ readonly keys: string; readonly scopes: readonly string[] }> {
  const issuer = new URL(url)
  const path = issuer.pathname.replace(/\/$/, "")
  const places = [
    `${issuer.origin}/.well-known/oauth-authorization-server${path}`,
    `${issuer.origin}/.well-known/openid-configuration${path}`,
    `${issuer.origin}${path}/.well-known/openid-configuration`,
  ]
  let problem = "it describes itself nowhere"
  for (const place of new Set(places)) {
    const response = await fetch(place, {
      signal: AbortSignal.timeout(TIMEOUT_MS),
      headers: { accept: "application/json" },
    })
    if (!response.ok) continue
    const body = await response.text()
    const metadata: unknown = body.length > MAX_METADATA ? undefined : JSON.parse(body)
    if (!isObject(metadata) || typeof metadata.jwks_uri !== "string") problem = `${place} names no jwks_uri`
    else if (String(metadata.issuer).replace(/\/$/, "") !== url.replace(/\/$/, ""))
      problem = `${place} is of another issuer`
    else if (new URL(metadata.jwks_uri).protocol !== issuer.protocol)
      problem = `the keys at ${metadata.jwks_uri} are not as safe`
    else
      return {
        keys: metadata.jwks_uri,
        scopes: Array.isArray(metadata.scopes_supported) ? metadata.scopes_supported.map(String) : [],
      }
  }
  throw new Error(problem)
}

const isFor = ({ aud }: JWTPayload, wanted: readonly string[]): boolean =>
  (Array.isArray(aud) ? aud : [aud]).some((one) => one !== undefined && wanted.includes(one))

function scopesOf({ scope, scp }: JWTPayload): readonly string[] {
  const said = scope ?? scp
  return typeof said === "string"
    ? said.split(" ").filter((one) => one !== "")
    : Array.isArray(said)
      ? said.map(String)
      : []
}

function holderOf({ sub, client_id, azp }: JWTPayload): TokenClaims["holder"] | undefined {
  const [subject, client] = [text(sub), text(client_id) ?? text(azp)]
  if (subject !== undefined) return { kind: "subject", id: subject }
  return client === undefined ? undefined : { kind: "client", id: client }
}

const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined)

function reasonOf(error: errors.JOSEError): string {
  if (error instanceof errors.JWTExpired) return "The token has expired"
  if (error instanceof errors.JWTClaimValidationFailed) return `The token is not valid (${error.claim})`
  if (error instanceof errors.JWKSNoMatchingKey) return "The token is signed with a key that its issuer does not have"
  return "The token is not valid"
}
