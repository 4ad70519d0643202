/**
 * Verifies the access tokens of an OAuth 2.1 issuer: JWTs, checked against its keys. Keys are fetched when they are first
 * needed, again for an unknown key id, and periodically; fetched keys stay valid while the issuer cannot be reached.
 * RFC 9068; RFC 8414; RFC 7517.
 */
import { createRemoteJWKSet, errors, type JWTHeaderParameters, type JWTPayload, jwtVerify } from "jose"
import { BoundedMap } from "../lib/bounded-map.ts"
import { digest } from "../lib/digest.ts"
import { messageOf } from "../lib/errors.ts"
import { isObject } from "../wire/message.ts"

/** The claims of a valid token that svc uses. */
export type TokenClaims = {
  /** The kind distinguishes a user from a client with the same name. */
  readonly holder: { readonly kind: "subject" | "client"; readonly id: string }
  readonly scopes: readonly string[]
  /** The groups of the holder, in the claim that svc was told to read; undefined if it was told none. */
  readonly groups?: readonly string[] | undefined
  /** Milliseconds since the epoch. */
  readonly until: number
}

export type TokenVerdict =
  | { readonly kind: "valid"; readonly claims: TokenClaims }
  | { readonly kind: "invalid"; readonly reason: string }
  /** The keys cannot be fetched at the moment. */
  | { readonly kind: "unavailable" }

export type Issuer = {
  readonly url: string
  /** The scopes in the issuer's metadata; empty until it has been fetched. */
  readonly scopes: readonly string[]
  /** Checks whether a token is valid for a path below svc's address, or for svc as a whole. */
  verify(token: string, base: string, path: string): Promise<TokenVerdict>
  /** Fetches the keys again. Called periodically. Never rejects. */
  refresh(): Promise<void>
}

export type IssuerOptions = {
  readonly url: string
  /** The audience that tokens must have; undefined for the address to which they are sent. */
  readonly audience: string | undefined
  /** The claim with the groups of the holder; undefined if groups do not count. */
  readonly groupsClaim?: string | undefined
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  now(): number
  onnote(message: string): void
}

export function createIssuer({ url, audience, groupsClaim, fetch, now, onnote }: IssuerOptions): Issuer {
  let scopes: readonly string[] = []
  let reported = false
  let keys: Promise<IssuerKeys> | undefined
  const verdicts = new BoundedMap<string, { readonly verdict: TokenVerdict; readonly until: number }>(MAX_VERDICTS)
  const load = async (): Promise<IssuerKeys> => {
    const found = await discover(url, fetch)
    scopes = found.scopes
    reported = false
    const set = createRemoteJWKSet(new URL(found.keys), {
      cacheMaxAge: Number.POSITIVE_INFINITY,
      cooldownDuration: COOLDOWN_MS,
      timeoutDuration: TIMEOUT_MS,
    })
    return { issuer: found.issuer, set }
  }
  const known = () => {
    keys ??= load()
    keys.catch(() => {
      keys = undefined
    })
    return keys
  }
  const check = async (token: string, resources: readonly string[]): Promise<TokenVerdict> => {
    let found: IssuerKeys
    try {
      found = await known()
    } catch (error) {
      // Reported once, because anyone can send tokens and must not fill the log.
      if (!reported) onnote(`the issuer ${url} cannot be reached: ${messageOf(error)}`)
      reported = true
      return { kind: "unavailable" }
    }
    try {
      const { payload, protectedHeader } = await jwtVerify(token, found.set, {
        issuer: found.issuer,
        algorithms: ALGORITHMS,
        clockTolerance: CLOCK_SKEW_S,
        requiredClaims: ["exp", "iss"],
        currentDate: new Date(now()),
      })
      const problem = kindProblem(protectedHeader, payload)
      if (problem !== undefined) return invalid(problem)
      if (!isFor(payload, resources)) return invalid("The token is not for this server (aud)")
      const holder = holderOf(payload)
      if (holder === undefined) return invalid("The token has no subject (sub)")
      const until = ((payload.exp ?? 0) + CLOCK_SKEW_S) * 1000
      const groups = groupsClaim === undefined ? undefined : groupsOf(payload, groupsClaim)
      return { kind: "valid", claims: { holder, scopes: scopesOf(payload), groups, until } }
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
      // Without a configured audience, a token must be for the address to which it is sent, or for svc as a whole.
      const addresses = [path, "", "/mcp"].flatMap((end) => [`${base}${end}`, `${base}${end}/`])
      const resources = audience === undefined ? addresses : [audience]
      const verdict = await check(token, resources)
      if (verdict.kind !== "valid") return verdict
      verdicts.set(key, { verdict, until: Math.min(verdict.claims.until, now() + REMEMBER_MS) })
      return verdict
    },
    async refresh() {
      try {
        await (await known()).set.reload()
      } catch {
        // The previous keys stay valid until the issuer can be reached again.
      }
    },
  }
}

// ---

/** An issuer's own name, which its tokens repeat exactly, and its keys. */
type IssuerKeys = { readonly issuer: string; readonly set: ReturnType<typeof createRemoteJWKSet> }

/** Asymmetric algorithms only: with a shared secret, every party that can verify a token can also forge one. */
const ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]
const CLOCK_SKEW_S = 30
const COOLDOWN_MS = 10_000
const TIMEOUT_MS = 5000
const REMEMBER_MS = 60_000
const MAX_VERDICTS = 10_000
const MAX_GROUPS = 1000
const MAX_METADATA = 256 * 1024

const invalid = (reason: string): TokenVerdict => ({ kind: "invalid", reason })
const notAccessToken = (field: string): string => `The token is not an access token (${field})`

/**
 * Fetches the issuer's metadata. Throws an Error with the problem if it is unusable. The configured name of the issuer may
 * differ in a trailing slash; the names in metadata and tokens may not. RFC 8414, 3.3.
 */
async function discover(
  url: string,
  fetch: IssuerOptions["fetch"],
): Promise<{ readonly issuer: string; readonly keys: string; readonly scopes: readonly string[] }> {
  const issuer = new URL(url)
  const path = issuer.pathname.replace(/\/$/, "")
  const places = [
    `${issuer.origin}/.well-known/oauth-authorization-server${path}`,
    `${issuer.origin}/.well-known/openid-configuration${path}`,
    `${issuer.origin}${path}/.well-known/openid-configuration`,
  ]
  let problem = "it serves no metadata"
  for (const place of new Set(places)) {
    const response = await fetch(place, {
      signal: AbortSignal.timeout(TIMEOUT_MS),
      headers: { accept: "application/json" },
    })
    if (!response.ok) continue
    const body = await response.text()
    const metadata: unknown = body.length > MAX_METADATA ? undefined : JSON.parse(body)
    if (!isObject(metadata) || typeof metadata.jwks_uri !== "string") problem = `${place} names no jwks_uri`
    else if (typeof metadata.issuer !== "string" || metadata.issuer.replace(/\/$/, "") !== url.replace(/\/$/, ""))
      problem = `${place} names another issuer`
    else if (new URL(metadata.jwks_uri).protocol !== issuer.protocol)
      problem = `the keys at ${metadata.jwks_uri} do not have the issuer's URL scheme`
    else
      return {
        issuer: metadata.issuer,
        keys: metadata.jwks_uri,
        scopes: Array.isArray(metadata.scopes_supported) ? metadata.scopes_supported.map(String) : [],
      }
  }
  throw new Error(problem)
}

/**
 * Claims of ID tokens (OpenID Connect Core, 2 and 3.3.2.11) and of logout and event tokens (RFC 8417) that access tokens do
 * not have.
 */
const FOREIGN_CLAIMS = ["nonce", "at_hash", "c_hash", "s_hash", "events"]
/** Claims of Keycloak and Cognito that name the kind of a token. */
const KIND_CLAIMS = ["typ", "token_use"]
const FOREIGN_KINDS = ["id", "refresh", "offline", "logout"]

/**
 * Returns why a signed token is not a bearer access token; undefined if it may be one. An issuer signs tokens of several kinds
 * with the same keys, and an ID token is given to parties that must not call svc. RFC 9068, 4, requires the type `at+jwt`.
 * Because many issuers write `JWT` or no type, such tokens are accepted unless their claims show another kind. RFC 8725, 3.11.
 */
function kindProblem({ typ }: JWTHeaderParameters, payload: JWTPayload): string | undefined {
  // RFC 7800, 3.1; RFC 9449, 7.2: the sender would have to prove possession of the key.
  if (payload.cnf !== undefined) return "The token is bound to a key (cnf); send a bearer token that is not"
  const type = (typ === undefined ? "jwt" : String(typ)).toLowerCase().replace(/^application\//, "")
  if (type === "at+jwt") return undefined
  if (type !== "jwt") return notAccessToken("typ")
  const claim =
    FOREIGN_CLAIMS.find((name) => payload[name] !== undefined) ??
    KIND_CLAIMS.find((name) => FOREIGN_KINDS.includes(String(payload[name]).toLowerCase()))
  return claim === undefined ? undefined : notAccessToken(claim)
}

const isFor = ({ aud }: JWTPayload, wanted: readonly string[]): boolean =>
  (Array.isArray(aud) ? aud : [aud]).some((one) => one !== undefined && wanted.includes(one))

function scopesOf({ scope, scp }: JWTPayload): readonly string[] {
  const scopes = scope ?? scp
  if (typeof scopes === "string") return scopes.split(" ").filter((one) => one !== "")
  return Array.isArray(scopes) ? scopes.map(String) : []
}

/**
 * Returns the groups in a claim: a text, or a list of texts. The name of the claim may be a path of members, as Keycloak's
 * `realm_access.roles`, unless a claim has exactly this name.
 */
function groupsOf(payload: JWTPayload, claim: string): readonly string[] {
  const value = Object.hasOwn(payload, claim)
    ? payload[claim]
    : claim
        .split(".")
        .reduce<unknown>((at, member) => (isObject(at) && Object.hasOwn(at, member) ? at[member] : undefined), payload)
  const groups = Array.isArray(value) ? value : [value]
  return groups.filter((one) => typeof one === "string" && one !== "").slice(0, MAX_GROUPS)
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
