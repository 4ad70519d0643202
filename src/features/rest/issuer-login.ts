/**
 * The login of the admin page at the issuer of `--auth-issuer`: an authorization code with PKCE. svc is a public client, by its
 * client metadata document or by a registration, as the issuer's metadata allows. Imported at the first such login.
 *
 *  1. A login must end in the browser that began it: a cookie contains a secret of that browser, so that no page can log another
 *     person's browser in. RFC 9700, 4.7.
 *  2. The token is only for svc (RFC 8707), requests `svc:admin`, and is kept in memory like a token that a person enters.
 *  3. The number of pending logins is limited, and each expires after ten minutes. svc registers once per run.
 */

import { boundedFetch } from "../../backend/ssrf.ts"
import { BoundedMap } from "../../lib/bounded-map.ts"
import type { Clock } from "../../lib/clock.ts"
import { sha256 } from "../../lib/digest.ts"
import { HTTP_STATUS, messageOf, RequestError, UnavailableError } from "../../lib/errors.ts"
import { ADMIN_SCOPE } from "../../serve/challenge.ts"
import {
  type AuthorizationServer,
  authorizationUrl,
  describeIssuer,
  type OAuthClient,
  redeem,
  register,
  supportsMetadataUrl,
} from "../oauth/oauth-client.ts"
import { cookieNamed, LOGIN_PATH } from "./admin-login.ts"

export type IssuerLoginOptions = {
  readonly issuer: string
  /** The audience that tokens must have; undefined for the address of MCP. */
  readonly audience: string | undefined
  readonly clock: Clock
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  /** Returns unguessable text. */
  newSecret(): string
  /** Returns the public address of svc, without a trailing slash. */
  base(): string
  /** The address of svc's client metadata document, if issuers can read it. */
  readonly metadataUrl: string | undefined
}

/** A token of the issuer, and when it expires, milliseconds since the epoch. */
type IssuedToken = { readonly token: string; readonly until: number | undefined }

export type IssuerLogin = {
  /**
   * Returns the redirect to the issuer. Throws a typed error if the issuer cannot be reached or does not accept svc as a
   * client.
   */
  begin(request: Request): Promise<Response>
  /** Exchanges the code of the returning redirect for a token. Throws a RequestError with the reason if there is no token. */
  finish(request: Request): Promise<IssuedToken>
}

export function createIssuerLogin(options: IssuerLoginOptions): IssuerLogin {
  const { issuer, audience, clock, newSecret, base, metadataUrl } = options
  const fetch = boundedFetch(options.fetch, issuer)
  const waiting = new BoundedMap<string, Waiting>(MAX_WAITING)
  const redirectUrl = () => `${base()}${LOGIN_PATH}`
  let registered: Promise<OAuthClient> | undefined
  const clientAt = (authority: AuthorizationServer): Promise<OAuthClient> => {
    if (metadataUrl !== undefined && supportsMetadataUrl(authority))
      return Promise.resolve({ id: metadataUrl, method: "none", issuer: authority.issuer })
    if (authority.metadata?.registration_endpoint === undefined)
      throw new RequestError(
        "conflict",
        `${issuer} does not register clients automatically; log in with one of its tokens, or with a token of \`svc auth token create\``,
      )
    registered ??= register(authority, redirectUrl(), ADMIN_SCOPE, "none", fetch).catch((error: unknown) => {
      registered = undefined
      throw error
    })
    return registered
  }
  return {
    async begin(request) {
      // The issuer redirects to the public address, and the cookie must have the same host.
      if (new URL(request.url).host !== new URL(base()).host) return redirect(redirectUrl())
      try {
        const authority = await describeIssuer(issuer, resourceOf(audience, base()), fetch)
        const client = await clientAt(authority)
        const [state, browser] = [newSecret(), newSecret()]
        const { url, verifier } = await authorizationUrl(
          authority,
          client,
          redirectUrl(),
          state,
          ADMIN_SCOPE,
          undefined,
        )
        const until = clock.now() + WAIT_MS
        waiting.set(state, { authority, client, verifier, browser: sha256(browser, "base64url"), until })
        return redirect(url, cookie(base(), browser))
      } catch (error) {
        if (error instanceof RequestError) throw error
        throw new UnavailableError(
          `cannot log in at ${issuer} at the moment: ${messageOf(error).slice(0, MAX_REASON)}`,
          {
            cause: error,
          },
        )
      }
    },
    async finish(request) {
      const answer = new URL(request.url).searchParams
      const state = answer.get("state") ?? ""
      const found = waiting.get(state)
      const browser = cookieNamed(COOKIE, request)
      if (found === undefined || found.until <= clock.now() || found.browser !== sha256(browser, "base64url"))
        throw new RequestError(
          "forbidden",
          "this login was not started in this browser, or has expired after ten minutes; log in again",
        )
      waiting.delete(state)
      const { authority, client, verifier } = found
      try {
        const tokens = await redeem(authority, client, redirectUrl(), verifier, answer, undefined, fetch)
        const { access_token: token, expires_in: seconds } = tokens
        return { token, until: seconds === undefined ? undefined : clock.now() + seconds * 1000 }
      } catch (cause) {
        throw new RequestError("forbidden", `${issuer}: ${messageOf(cause).slice(0, MAX_REASON)}`, undefined, { cause })
      }
    },
  }
}

// ---

/** A pending login, which waits for the redirect. */
type Waiting = {
  readonly authority: AuthorizationServer
  readonly client: OAuthClient
  /** The PKCE secret. */
  readonly verifier: string
  /** The hash of the secret in the browser's cookie. */
  readonly browser: string
  readonly until: number
}

const COOKIE = "svc_admin_login"
const WAIT_MS = 600_000
const MAX_WAITING = 100
const MAX_REASON = 500

/** Returns the resource for which svc requests the token (RFC 8707): svc then expects it among the token's audiences. */
function resourceOf(audience: string | undefined, base: string): string | undefined {
  if (audience === undefined) return `${base}/mcp`
  return URL.canParse(audience) ? audience : undefined
}

/**
 * Returns the header that sets the cookie. It is not `SameSite=Strict`: browsers would not send it with the issuer's
 * redirect.
 */
function cookie(base: string, browser: string): Readonly<Record<string, string>> {
  const secure = new URL(base).protocol === "https:" ? "; Secure" : ""
  return { "set-cookie": `${COOKIE}=${browser}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${WAIT_MS / 1000}${secure}` }
}

const redirect = (location: string, headers: Readonly<Record<string, string>> = {}): Response =>
  new Response(null, {
    status: HTTP_STATUS.seeOther,
    headers: { location, "cache-control": "no-store", "referrer-policy": "no-referrer", ...headers },
  })
