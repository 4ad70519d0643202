/**
 * The login of REST and the admin page where `--auth` is off: the control socket, which only this user can open, gives out a
 * link for a browser or a token for a program.
 *
 *  1. A link holds for 60 seconds, once. It sets a cookie that scripts cannot read and that no other site can send.
 *  2. A cookie alone changes nothing: a change also needs the session's CSRF token and this very origin, because a page of
 *     another port of this host counts as the same site.
 *  3. A token for a program is a session without a browser: it comes in the Authorization header, which no page can forge.
 *  4. Sessions are in memory alone, bounded, and end after 12 hours or with svc.
 */
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Clock } from "../lib/clock.ts"
import { sha256 } from "../lib/digest.ts"
import { RequestError } from "../lib/errors.ts"

export type AdminSession = {
  /** What changes must repeat in the header `X-CSRF-Token`. */
  readonly csrf: string
  /** Milliseconds since the epoch. */
  readonly until: number
}

export class AdminLogin {
  /** By the hash of the secret, so that a look-up takes no time that tells of a secret. */
  private readonly links = new BoundedMap<string, number>(MAX_LINKS)
  private readonly sessions = new BoundedMap<string, AdminSession>(MAX_SESSIONS)

  constructor(
    private readonly clock: Clock,
    /** Returns unguessable text. */
    private readonly newSecret: () => string,
  ) {}

  /** Returns the code of a new link. */
  createLink(): string {
    const code = this.newSecret()
    this.links.set(keyOf(code), this.clock.now() + LINK_MS)
    return code
  }

  /** Uses up a link. Returns the secret of a new session; undefined if the link is unknown, used or too old. */
  redeem(code: string): string | undefined {
    const until = this.links.get(keyOf(code))
    this.links.delete(keyOf(code))
    return until === undefined || until <= this.clock.now() ? undefined : this.createSession()
  }

  /** Returns the secret of a new session. */
  createSession(): string {
    const secret = this.newSecret()
    this.sessions.set(keyOf(secret), { csrf: this.newSecret(), until: this.clock.now() + SESSION_MS })
    return secret
  }

  /**
   * Returns the session of a request; undefined if it has none. Throws a RequestError for a request that a page of another
   * origin may have made.
   */
  admit(request: Request): AdminSession | undefined {
    const { headers } = request
    const token = BEARER.exec(headers.get("authorization") ?? "")?.[1]
    if (token !== undefined) return this.find(token)
    const session = this.find(cookieOf(request))
    if (session === undefined) return undefined
    const site = headers.get("sec-fetch-site")
    if (site !== null && site !== "same-origin" && site !== "none") throw foreign()
    const origin = headers.get("origin")
    if (origin !== null && !isOwnOrigin(origin, request)) throw foreign()
    if (READING.has(request.method)) return session
    if (origin === null) throw new RequestError("forbidden", "A change with a cookie needs the Origin header")
    if (headers.get("x-csrf-token") === session.csrf) return session
    throw new RequestError(
      "forbidden",
      "A change with a cookie needs the header X-CSRF-Token; GET /api/v1/session has its value",
    )
  }

  /** Ends the session of a request. */
  end(request: Request): void {
    const token = BEARER.exec(request.headers.get("authorization") ?? "")?.[1]
    this.sessions.delete(keyOf(token ?? cookieOf(request)))
  }

  // ---

  private find(secret: string): AdminSession | undefined {
    const session = this.sessions.get(keyOf(secret))
    return session !== undefined && session.until > this.clock.now() ? session : undefined
  }
}

/** Returns the cookie of a session, for the browser that made `request`; without a secret, one that removes it. */
export function sessionCookie(request: Request, secret?: string): string {
  const secure = new URL(request.url).protocol === "https:" ? "; Secure" : ""
  const age = secret === undefined ? 0 : SESSION_MS / 1000
  return `${cookieName(request)}=${secret ?? ""}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${age}${secure}`
}

// ---

const LINK_MS = 60_000
const MAX_LINKS = 16
const SESSION_MS = 12 * 3_600_000
const MAX_SESSIONS = 100
const READING: ReadonlySet<string> = new Set(["GET", "HEAD"])
const BEARER = /^Bearer +([\w.~+/=-]{1,200})$/i

const keyOf = (secret: string): string => sha256(secret, "base64url")

/** Returns the name of the cookie: browsers give the cookies of one port to all ports of a host. */
const cookieName = ({ url }: Request): string => `svc_admin_${new URL(url).port || "default"}`

function cookieOf(request: Request): string {
  const name = cookieName(request)
  const pairs = (request.headers.get("cookie") ?? "").split(";").map((pair) => pair.trim().split("="))
  return pairs.find(([key]) => key === name)?.[1] ?? ""
}

/** Whether an origin is that of the address under which the request came; behind a proxy the scheme may differ. */
const isOwnOrigin = (origin: string, request: Request): boolean =>
  URL.canParse(origin) && new URL(origin).host === new URL(request.url).host

const foreign = () => new RequestError("forbidden", "A page of another origin cannot use this login")
