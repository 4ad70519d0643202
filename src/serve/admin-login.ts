/**
 * The login of REST and the admin page. Where `--auth` is off, the control socket, which only this user can open, gives out a
 * link for a browser or a token for a program. Where it is on, a browser turns a client token into a session.
 *
 *  1. A link holds for 60 seconds, once. It sets a cookie that scripts cannot read and that no other site can send.
 *  2. A cookie alone is worth nothing: browsers send it to every port of this host, so that another server there can repeat it.
 *     Each request also needs the session's key, which the page keeps where only its own origin can read it. Pages of other
 *     origins cannot send that header either; changes need this very origin besides.
 *  3. A token for a program is a session without a browser: it comes in the Authorization header, which no page can forge.
 *  4. Sessions are in memory alone, bounded, and end after 12 hours or with svc. One that was made from a client token is that
 *     token: it may do no more, and ends with it.
 */
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Clock } from "../lib/clock.ts"
import { sha256 } from "../lib/digest.ts"
import { RequestError } from "../lib/errors.ts"

export type AdminSession = {
  /** What each request with the cookie must repeat in the header `X-CSRF-Token`. */
  readonly csrf: string
  /** Milliseconds since the epoch. */
  readonly until: number
  /** The client token that it stands for; undefined without `--auth`. */
  readonly token: string | undefined
}

/** A session that begins: its secret is for the cookie, and kept nowhere. */
export type NewSession = AdminSession & { readonly secret: string }

/** The client token of a session, and when it expires. */
type Holder = { readonly token?: string | undefined; readonly until?: number | undefined }

/** The path of the link of `svc admin`; with an issuer, what begins a login there, and what the issuer redirects to. */
export const LOGIN_PATH = "/admin/login"

export class AdminLogin {
  /** By the hash of the secret, so that a look-up takes no time that tells of a secret. */
  private readonly links = new BoundedMap<string, number>(MAX_LINKS)
  private readonly sessions = new BoundedMap<string, AdminSession>(MAX_SESSIONS)
  private readonly external: URL | undefined

  constructor(
    private readonly clock: Clock,
    /** Returns unguessable text. */
    private readonly newSecret: () => string,
    /** The address svc is reached under, if it is not the one that requests come to. */
    externalUrl: string | undefined,
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

  /** Returns a new session. */
  createSession({ token, until = Number.POSITIVE_INFINITY }: Holder = {}): NewSession {
    const secret = this.newSecret()
    const ends = Math.min(until, this.clock.now() + SESSION_MS)
    const session = { csrf: this.newSecret(), until: ends, token }
    this.sessions.set(keyOf(secret), session)
    return { ...session, secret }
  }

  /**
   * Returns the session of a request; undefined if it has none. Throws a RequestError for a request that a page of another
   * origin may have made, or another server of this host that has got the cookie.
   */
  admit(request: Request): AdminSession | undefined {
    const { headers } = request
    const authorization = headers.get("authorization")
    if (authorization !== null) return this.find(bearerOf(authorization))
    const session = this.find(this.cookieOf(request))
    if (session === undefined) return undefined
    this.requireOwnPage(request)
    const isChange = !READING.has(request.method)
    if (isChange && !headers.has("origin"))
      throw new RequestError("forbidden", "A change with a cookie needs the Origin header")
    if (keyOf(headers.get("x-csrf-token") ?? "") === keyOf(session.csrf)) return session
    throw new RequestError(
      "unauthorized",
      "A request with the cookie needs the header X-CSRF-Token with the key of this login: open the admin page anew with `svc admin`",
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

  /** Ends the session of a request. */
  end(request: Request): void {
    const authorization = request.headers.get("authorization")
    this.sessions.delete(keyOf(authorization === null ? this.cookieOf(request) : bearerOf(authorization)))
  }

  /** Returns the cookie of a session, for the browser that made `request`; without a session, one that removes it. */
  cookie(request: Request, session?: NewSession): string {
    const secure = this.isSecure(request) ? "; Secure" : ""
    const age = session === undefined ? 0 : Math.max(0, Math.floor((session.until - this.clock.now()) / 1000))
    return `${this.cookieName(request)}=${session?.secret ?? ""}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${age}${secure}`
  }

  // ---

  private find(secret: string): AdminSession | undefined {
    const session = this.sessions.get(keyOf(secret))
    return session !== undefined && session.until > this.clock.now() ? session : undefined
  }

  /** Whether an origin is that of the address under which the request came; behind a proxy the scheme may differ. */
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

  /** Returns the name of the cookie: svc on other ports of this host have cookies of their own. */
  private cookieName(request: Request): string {
    // The prefix lets browsers refuse a cookie that a page without https, or of a neighboring domain, sets.
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
