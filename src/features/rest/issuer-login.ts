/**
 * The login of the admin page at the issuer of `--auth-issuer`: an authorization code with PKCE. Imported at the first such login.
 *
 *  1. A login must end in the browser that began it: a cookie contains a secret of that browser, so that no page can log another
 *     person's browser in. RFC 9700, 4.7.
 *  2. The token is only for svc (RFC 8707), requests `svc:admin`, and is kept in memory like a token that a person enters.
 *  3. The number of pending logins is limited, and each expires after ten minutes.
 */

import { BoundedMap } from "../../lib/bounded-map.ts"
import type { Clock } from "../../lib/clock.ts"
import { sha256 } from "../../lib/digest.ts"
import { HTTP_STATUS, messageOf, RequestError, UnavailableError } from "../../lib/errors.ts"
import { cookieNamed, LOGIN_PATH } from "./admin-login.ts"

/** An authorization at the issuer: the address where it begins, and the exchange of its answer for a token. */
type BegunLogin = {
  readonly url: string
  /** `expires_in` in seconds. Rejects with the reason if the issuer gives no token. */
  redeem(answer: URLSearchParams): Promise<{ readonly access_token: string; readonly expires_in?: number | undefined }>
}

/**
 * Begins an authorization for `resource` (RFC 8707), which returns to `redirectUrl` with `state`. Rejects with a RequestError if
 * the issuer does not accept svc as a client, and with another error if it cannot be reached.
 */
export type BeginLogin = (redirectUrl: string, resource: string | undefined, state: string) => Promise<BegunLogin>

export type IssuerLoginOptions = {
  readonly issuer: string
  /** The audience that tokens must have; undefined for the address of MCP. */
  readonly audience: string | undefined
  readonly clock: Clock
  readonly authorize: BeginLogin
  /** Returns unguessable text. */
  newSecret(): string
  /** Returns the public address of svc, without a trailing slash. */
  base(): string
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
  const { issuer, audience, clock, authorize, newSecret, base } = options
  const waiting = new BoundedMap<string, Waiting>(MAX_WAITING)
  const redirectUrl = () => `${base()}${LOGIN_PATH}`
  return {
    async begin(request) {
      // The issuer redirects to the public address, and the cookie must have the same host.
      if (new URL(request.url).host !== new URL(base()).host) return redirect(redirectUrl())
      try {
        const [state, browser] = [newSecret(), newSecret()]
        const { url, redeem } = await authorize(redirectUrl(), resourceOf(audience, base()), state)
        const until = clock.now() + WAIT_MS
        waiting.set(state, { redeem, browser: sha256(browser, "base64url"), until })
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
      try {
        const { access_token: token, expires_in: seconds } = await found.redeem(answer)
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
  readonly redeem: BegunLogin["redeem"]
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
