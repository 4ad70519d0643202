/**
 * The login of REST and the admin page. Without `--auth`, the control socket, which only this user can open, issues a link for
 * a browser or a token for a program. With `--auth`, a browser exchanges a client token for a session.
 *
 *  1. A link works once, within 60 seconds. It sets a cookie that scripts cannot read and that other sites cannot send.
 *  2. The cookie alone is not enough: browsers send it to every port of this host, so another server there could replay it.
 *     Each request also needs the key of the session in a header. The page stores the key where only its own origin can read
 *     it, and pages of other origins cannot send that header. Changes also require the Origin header of this origin.
 *  3. A token for a program is sent in the Authorization header, which no page can forge. It is another kind of secret than the
 *     cookie, and each is accepted only in its own place: whoever receives the cookie cannot send it as a token.
 *  4. Sessions and tokens are limited in number, and end after 12 hours. A session made from a token has the same rights as that
 *     token, and ends with it. Both are only in memory, and end with svc.
 *  5. A session made from a link outlives svc: its hashes and its end are stored, but nothing from which somebody could log in.
 *     Nothing is read before the first request that needs a session.
 */
import { BoundedMap } from "../../lib/bounded-map.ts"
import type { Clock } from "../../lib/clock.ts"
import { sha256 } from "../../lib/digest.ts"
import { RequestError } from "../../lib/errors.ts"
import { lazy } from "../../lib/lazy.ts"

/** Who sent a request: a browser with a session, or a program with a token of svc admin. */
export type AdminSession = BrowserSession | ProgramToken

/** The login of a browser: the request has its cookie and its key. */
export type BrowserSession = {
  readonly kind: "browser"
  /** The hash of the key that each request with the cookie must repeat in the header `X-CSRF-Token`. */
  readonly csrfHash: string
  /** Milliseconds since the epoch. */
  readonly until: number
  /** The token from which it was made; undefined for the link of `svc admin`. */
  readonly token: string | undefined
}

/** A token for a program. */
type ProgramToken = {
  readonly kind: "program"
  /** Milliseconds since the epoch. */
  readonly until: number
}

/** A new session of a browser. Its secret goes into the cookie, its key to the page, and neither is stored anywhere. */
export type NewSession = BrowserSession & { readonly secret: string; readonly csrf: string }

/** A session that outlives svc: the hashes of its secret and of its key, and its end in milliseconds since the epoch. */
type StoredLogin = { readonly secret: string; readonly csrf: string; readonly until: number }

/** Stores the sessions that outlive svc. */
export type LoginStore = {
  /** Returns the sessions that were saved last, oldest first; none if there are none or they cannot be read. */
  load(): readonly StoredLogin[]
  /** Replaces all sessions. Never throws. */
  save(logins: readonly StoredLogin[]): void
}

/** The token from which a session is made, and when it expires. */
type Holder = { readonly token?: string | undefined; readonly until?: number | undefined }

/** The path of the link of `svc admin`. With an issuer, it starts a login there and is also the redirect URI. */
export const LOGIN_PATH = "/admin/login"

export class AdminLogin {
  /** When links expire, by the hash of the secret, so that the time of a look-up reveals nothing about secrets. */
  private readonly links = new BoundedMap<string, number>(MAX_LINKS)
  /** The sessions by the hash of the cookie's secret. */
  private readonly browsers = lazy(() => new BoundedMap(MAX_SESSIONS, this.load()))
  /** The tokens by their hash. */
  private readonly programs = new BoundedMap<string, ProgramToken>(MAX_SESSIONS)
  private readonly external: URL | undefined

  constructor(
    private readonly clock: Clock,
    /** Returns unguessable text. */
    private readonly newSecret: () => string,
    /** The public address of svc, if it differs from the address in requests. */
    externalUrl: string | undefined,
    /** Keeps the sessions that are made from links; without it, they end with svc. */
    private readonly store?: LoginStore,
  ) {
    this.external = externalUrl === undefined ? undefined : new URL(externalUrl)
  }

  /** Returns the code of a new link. */
  createLink(): string {
    const code = this.newSecret()
    this.links.set(keyOf(code), this.clock.now() + LINK_MS)
    return code
  }

  /** Uses up a link. Returns a new session; undefined if the link is unknown, used or too old. */
  redeem(code: string): NewSession | undefined {
    const until = this.links.get(keyOf(code))
    this.links.delete(keyOf(code))
    return until === undefined || until <= this.clock.now() ? undefined : this.createSession()
  }

  /** Returns a new session of a browser. */
  createSession({ token, until = Number.POSITIVE_INFINITY }: Holder = {}): NewSession {
    const [secret, csrf] = [this.newSecret(), this.newSecret()]
    const ends = Math.min(until, this.clock.now() + SESSION_MS)
    const session = { kind: "browser", csrfHash: keyOf(csrf), until: ends, token } as const
    this.browsers().set(keyOf(secret), session)
    if (token === undefined) this.save()
    return { ...session, secret, csrf }
  }

  /** Returns a new token for a program. */
  createToken(): string {
    const token = this.newSecret()
    this.programs.set(keyOf(token), { kind: "program", until: this.clock.now() + SESSION_MS })
    return token
  }

  /**
   * Returns the session or token of a request; undefined if it has none. Throws a RequestError for a request that may come from a page of
   * another origin, or from another server on this host that received the cookie.
   */
  admit(request: Request): AdminSession | undefined {
    const { headers } = request
    const authorization = headers.get("authorization")
    if (authorization !== null) return this.current(this.programs.get(keyOf(bearerOf(authorization))))
    const session = this.browserOf(request)
    if (session === undefined) return undefined
    this.requireOwnPage(request)
    const isChange = !READING.has(request.method)
    if (isChange && !headers.has("origin"))
      throw new RequestError("forbidden", "The Origin header is missing; a change with the cookie needs it")
    if (keyOf(headers.get("x-csrf-token") ?? "") === session.csrfHash) return session
    throw new RequestError(
      "unauthorized",
      "A request with the cookie needs the header X-CSRF-Token with the key of this login; open the admin page again with `svc admin`",
    )
  }

  /** Throws a RequestError for a request that a page of another origin has made. */
  requireOwnPage(request: Request): void {
    const site = request.headers.get("sec-fetch-site")
    const origin = request.headers.get("origin")
    const isForeign = site !== null && site !== "same-origin" && site !== "none"
    if (isForeign || (origin !== null && !this.isOwnOrigin(origin, request)))
      throw new RequestError("forbidden", "A page of another origin cannot use this login")
  }

  /** Ends the session or token of a request, and the sessions that were made from this token. */
  end(request: Request): void {
    const authorization = request.headers.get("authorization")
    if (authorization === null) {
      const session = this.browserOf(request)
      if (session === undefined) return
      this.browsers().delete(keyOf(this.cookieOf(request)))
      if (session.token === undefined) this.save()
      return
    }
    const token = bearerOf(authorization)
    if (!this.programs.delete(keyOf(token))) return
    for (const [key, session] of [...this.browsers()]) if (session.token === token) this.browsers().delete(key)
  }

  /** Returns the cookie of a session for the browser that sent `request`; without a session, a cookie that removes it. */
  cookie(request: Request, session?: NewSession): string {
    const secure = this.isSecure(request) ? "; Secure" : ""
    const age = session === undefined ? 0 : Math.max(0, Math.ceil((session.until - this.clock.now()) / 1000))
    return `${this.cookieName(request)}=${session?.secret ?? ""}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${age}${secure}`
  }

  // ---

  /** Returns the stored sessions. */
  private load(): [string, BrowserSession][] {
    // Sessions of a clock that was ahead would last too long.
    const latest = this.clock.now() + SESSION_MS
    return (this.store?.load() ?? []).flatMap(({ secret, csrf: csrfHash, until }) =>
      until > latest ? [] : [[secret, { kind: "browser", csrfHash, until, token: undefined }]],
    )
  }

  /** Stores the sessions that were made from links and have not ended. */
  private save(): void {
    this.store?.save(
      [...this.browsers()].flatMap(([secret, session]) =>
        session.token === undefined && this.current(session) !== undefined
          ? [{ secret, csrf: session.csrfHash, until: session.until }]
          : [],
      ),
    )
  }

  /** Returns the session of a request's cookie. Reads no stored sessions for a request without a cookie. */
  private browserOf(request: Request): BrowserSession | undefined {
    const secret = this.cookieOf(request)
    return secret === "" ? undefined : this.current(this.browsers().get(keyOf(secret)))
  }

  /** Returns a session or token that has not ended. */
  private current<S extends AdminSession>(session: S | undefined): S | undefined {
    return session !== undefined && session.until > this.clock.now() ? session : undefined
  }

  /** Whether an origin matches the address of the request; behind a proxy, the scheme may differ. */
  private isOwnOrigin(origin: string, request: Request): boolean {
    if (!URL.canParse(origin)) return false
    const { host } = new URL(origin)
    return host === new URL(request.url).host || host === this.external?.host
  }

  /** Whether the browser reached svc over https, perhaps through a proxy. */
  private isSecure({ url }: Request): boolean {
    const { protocol, host } = new URL(url)
    return protocol === "https:" || (this.external?.protocol === "https:" && this.external.host === host)
  }

  /** Returns the name of the cookie, which contains the port: each svc on this host has its own cookie. */
  private cookieName(request: Request): string {
    // With this prefix, browsers refuse the cookie from pages without https, and from sibling domains.
    return `${this.isSecure(request) ? "__Host-" : ""}svc_admin_${new URL(request.url).port || "default"}`
  }

  private cookieOf(request: Request): string {
    return cookieNamed(this.cookieName(request), request)
  }
}

/** Returns the value of a cookie of a request; empty if it has none of this name. */
export function cookieNamed(name: string, { headers }: Request): string {
  const pairs = (headers.get("cookie") ?? "").split(";").map((pair) => pair.trim().split("="))
  return pairs.find(([key]) => key === name)?.[1] ?? ""
}

// ---

const LINK_MS = 60_000
const MAX_LINKS = 16
const SESSION_MS = 12 * 3_600_000
const MAX_SESSIONS = 100
const READING: ReadonlySet<string> = new Set(["GET", "HEAD"])

const bearerOf = (authorization: string): string => /^Bearer +([\w.~+/=-]{1,200})$/i.exec(authorization)?.[1] ?? ""

const keyOf = (secret: string): string => sha256(secret, "base64url")
