/**
 * Authenticates clients: static bearer tokens and, as an OAuth 2.1 resource server, the access tokens of one issuer.
 * choice: Inbound, `--auth`. authorization: Access Token Usage; RFC 6750; RFC 9728.
 *
 *  1. Every path needs a token unless `needsToken` declares it open: health without details, the OAuth callback, the metadata by
 *     which clients find svc and the issuer, and the files of the admin page. A path that does not exist also needs a token.
 *  2. The token is in the Authorization header of each request. For REST, the login of a browser may replace it
 *     (admin-login.ts), and is checked like its token. A session id is no proof of identity. A token in the query is refused
 *     even if the header is valid, because URLs end up in logs and histories.
 *  3. Static tokens are looked up by hash and compared in constant time. An accepted token is remembered until it expires or any
 *     token changes. A text that starts with `svc_` is never passed to the issuer's check.
 *  4. An issuer's token must be a bearer access token, signed by its keys, unexpired, and for this svc (token-issuer.ts). If the
 *     keys cannot be fetched, the answer is 503 and not 401, so that clients keep a token that may be valid.
 *  5. The principal sees servers by tags and presets (principal.ts). A static token with either, and an issuer's token without the
 *     admin scope, is not an admin. A token with presets and without tags sees what the presets include, whatever their tags. If
 *     the groups of the holder count, they decide in place of the scopes, and a holder without any sees nothing.
 *  6. A refusal names the resource metadata (RFC 9728) if there is an issuer, and the missing scope if the token has scopes. For
 *     other tokens, a server that they may not see does not exist.
 *  7. No refusal repeats the token. Each is reported with its reason, except if the issuer's keys cannot be fetched.
 */
import type { Preset } from "../config/presets.ts"
import { messageOf, RequestError, UnavailableError } from "../lib/errors.ts"
import { type ClientToken, describeToken, findToken, tokenId } from "../store/client-tokens.ts"
import { type ChallengeCode, challenge, METADATA_PATH, TAG_SCOPE } from "./challenge.ts"
import type { Inbound, Middleware } from "./inbound.ts"
import type { Principal } from "./principal.ts"
import { errorResponse, jsonResponse, shapeOf } from "./respond.ts"
import { isPublicDocument } from "./server-card.ts"
import { principalOfClaims, principalOfToken } from "./token-grants.ts"
import type { Issuer, TokenClaims } from "./token-issuer.ts"

export type AuthOptions = {
  /** Returns the current static tokens. */
  tokens(): ReadonlyMap<string, ClientToken>
  /** Resolves when `tokens` is up to date; returns undefined if it is. */
  catchUp?(): Promise<void> | undefined
  /**
   * Returns the token of a browser's login (admin-login.ts); undefined if the request has no login. Throws a RequestError for a
   * request that may come from another page or server. Undefined if there are no such logins.
   */
  readonly tokenOf?: ((inbound: Inbound) => string | undefined) | undefined
  readonly issuer: Issuer | undefined
  /** Whether a server with tags requires the scope of one of them. If not, each token of the issuer grants all servers. */
  readonly byScope: boolean
  /** Returns the presets, which name the groups that are bound to them. */
  presets(): ReadonlyMap<string, Preset>
  /** Milliseconds since the epoch. */
  now(): number
  /** Returns the public address of svc, without a trailing slash. */
  base(): string
  /** Whether `/health/mcp` names servers. Then it needs a token. */
  readonly detailed: boolean
  /** Called for each request that is refused. `reason` is for the operator and does not contain the token. */
  onrefused(inbound: Inbound, reason: string): void
  onbug(error: unknown): void
}

/** Returns middleware that refuses requests without a valid token, and passes others on with their principal. */
export function createAuthentication(options: AuthOptions): Middleware {
  const { tokens, catchUp, tokenOf, issuer, byScope, presets, now, base, detailed, onrefused, onbug } = options
  const refuse = (error: RequestError | UnavailableError, { path, slash }: Inbound, code?: ChallengeCode): Response =>
    errorResponse(error, {
      shape: shapeOf(path),
      ...(error instanceof UnavailableError ? { retryAfter: ISSUER_RETRY_S } : {}),
      headers: {
        "cache-control": "no-store",
        ...(error instanceof UnavailableError
          ? {}
          : { "www-authenticate": challenge({ code, message: error.message }, path + slash, issuer && base()) }),
      },
    })
  const unauthorized = (inbound: Inbound, message: string, reason = message): Response => {
    onrefused(inbound, reason)
    return refuse(new RequestError("unauthorized", message), inbound, "invalid_token")
  }
  /** Returns the reason for the operator, with more detail than for the client: which token has expired, or has the same id. */
  const reasonFor = (text: string): string => {
    const expired = findToken(text, tokens(), Number.NEGATIVE_INFINITY)
    if (expired !== undefined) return `${describeToken(expired)} has expired`
    const id = tokenId(text)
    const known = id === undefined ? undefined : tokens().get(id)
    if (known !== undefined) return `wrong secret for ${describeToken(known)}`
    return id === undefined ? "the token is not one of svc's" : `token id ${id} is unknown or revoked`
  }
  // Rule 3: the constant-time comparison runs once for each accepted token.
  const accepted = new Map<string, Principal>()
  let acceptedAmong = tokens()
  const staticPrincipal = (text: string): Principal | undefined => {
    const current = tokens()
    if (current !== acceptedAmong) accepted.clear()
    acceptedAmong = current
    const found = accepted.get(text)
    if (found !== undefined && (found.until === undefined || now() < found.until)) return found
    const token = findToken(text, current, now())
    if (token === undefined) return undefined
    const principal = principalOfToken(token)
    if (accepted.size >= MAX_ACCEPTED) accepted.clear()
    accepted.set(text, principal)
    return principal
  }
  // The issuer's verdict on a token has the same claims for a while. Views are kept by principal.
  const issued = new WeakMap<
    TokenClaims,
    { readonly among: ReadonlyMap<string, Preset>; readonly principal: Principal }
  >()
  const issuedPrincipal = (claims: TokenClaims, url: string): Principal => {
    const among = presets()
    const found = issued.get(claims)
    if (found?.among === among) return found.principal
    const principal = principalOfClaims(claims, url, byScope, among)
    issued.set(claims, { among, principal })
    return principal
  }
  const authenticate = (inbound: Inbound): Admission | Promise<Admission> => {
    const { request, path, search } = inbound
    if (search !== "" && TOKEN_IN_QUERY.test(search)) {
      onrefused(inbound, "a token in the query")
      return refuse(new RequestError("invalid_request", IN_QUERY), inbound, "invalid_request")
    }
    const header = request.headers.get("authorization")
    let ofBrowser: string | undefined
    try {
      ofBrowser = header === null ? tokenOf?.(inbound) : undefined
    } catch (error) {
      if (!(error instanceof RequestError)) throw error
      onrefused(inbound, error.message)
      return refuse(error, inbound)
    }
    if (header === null && ofBrowser === undefined) {
      onrefused(inbound, "no token")
      return refuse(new RequestError("unauthorized", "Send a bearer token in the Authorization header"), inbound)
    }
    const text = ofBrowser ?? BEARER.exec(header ?? "")?.[1]
    if (text === undefined) return unauthorized(inbound, "Authorization must be Bearer and a token")
    const principal = staticPrincipal(text)
    if (principal !== undefined) return principal
    if (issuer === undefined || text.startsWith("svc_"))
      return unauthorized(inbound, "The token is unknown, expired or revoked", reasonFor(text))
    return issuer.verify(text, base(), path).then(
      (verdict) => {
        switch (verdict.kind) {
          case "valid":
            return issuedPrincipal(verdict.claims, issuer.url)
          case "invalid":
            return unauthorized(inbound, verdict.reason)
          case "unavailable":
            return refuse(
              new UnavailableError("The keys of the token issuer cannot be fetched; try again later"),
              inbound,
            )
        }
      },
      (error: unknown) => {
        onbug(error)
        return unauthorized(inbound, `The token cannot be read: ${messageOf(error).slice(0, 100)}`)
      },
    )
  }
  return (inbound, next) => {
    if (!needsToken(inbound.path, detailed)) return next(inbound)
    const admit = (admission: Admission) => {
      if (admission instanceof Response) return admission
      if (admission.metricsOnly !== true || inbound.path === "/metrics")
        return next({ ...inbound, principal: admission })
      onrefused(inbound, "the token gives access only to /metrics")
      return refuse(new RequestError("forbidden", "This token gives access only to /metrics"), inbound)
    }
    const decide = () => {
      const admission = authenticate(inbound)
      return admission instanceof Promise ? admission.then(admit) : admit(admission)
    }
    const behind = catchUp?.()
    return behind === undefined ? decide() : behind.then(decide)
  }
}

/**
 * Returns middleware that serves the protected resource metadata: the issuer of the tokens, and the scopes for `tags()` that
 * the issuer knows. Clients request every scope named there, and issuers refuse unknown ones.
 * RFC 9728.
 */
export const createResourceMetadata =
  (issuer: Pick<Issuer, "url" | "scopes">, base: () => string, tags: () => readonly string[]): Middleware =>
  (inbound, next) => {
    const { path, slash } = inbound
    if (path !== METADATA_PATH && !path.startsWith(`${METADATA_PATH}/`)) return next(inbound)
    const scopes = tags()
      .map((tag) => `${TAG_SCOPE}${tag}`)
      .filter((scope) => issuer.scopes.includes(scope))
    const metadata = {
      // Exactly the address that the client asks about.
      resource: `${base()}${withinBase(path.slice(METADATA_PATH.length), base())}${slash}`,
      authorization_servers: [issuer.url],
      ...(scopes.length === 0 ? {} : { scopes_supported: scopes }),
      bearer_methods_supported: ["header"],
      resource_name: "svc",
    }
    return jsonResponse(metadata, undefined, { "access-control-allow-origin": "*", "cache-control": "max-age=300" })
  }

// ---

/** Returns the path of a resource without the path under which svc is published: RFC 9728 puts the whole path after its own. */
function withinBase(path: string, base: string): string {
  const { pathname } = new URL(base)
  return pathname !== "/" && `${path}/`.startsWith(`${pathname}/`) ? path.slice(pathname.length) : path
}

/** A principal, or the response that refuses the request. */
type Admission = Principal | Response

/** RFC 6750, 3.1. */
const MAX_ACCEPTED = 1000
const ISSUER_RETRY_S = 5
const BEARER = /^Bearer +([\w.~+/=-]{1,8192})$/i
const TOKEN_IN_QUERY = /[?&](?:access_token|token|bearer|authorization)=/i
const IN_QUERY = "A token in the query is refused, because URLs end up in logs; send it in the Authorization header"

/** Matches the admin page and its files, which contain no data, and the login path. */
const PAGE_PATH = /^\/admin(?:\/(?:login|[\w-]+\.(?:js|css))?)?$/

/** choice: /health, /health/live and /health/ready never need a token; /health/mcp does if it names servers. */
function needsToken(path: string, detailed: boolean): boolean {
  if (path === "/" || path === "/health" || path === "/health/live" || path === "/health/ready") return false
  if (path.startsWith("/health/mcp")) return detailed
  if (PAGE_PATH.test(path)) return false
  return !path.startsWith("/.well-known/") && !path.startsWith("/oauth/") && !isPublicDocument(path)
}
