/**
 * The cookies of one remote server, in memory, for load balancers that pin a client to a node. RFC 6265.
 *
 *  1. A jar belongs to one connection and one origin, so a cookie never reaches another server.
 *  2. A configured Cookie header takes precedence over a cookie of the same name.
 */
import type { Clock } from "../lib/clock.ts"

/** The most cookies of a jar, and the most characters of a name with its value. */
export const MAX_COOKIES = 50
export const MAX_COOKIE = 4096

type Kept = { readonly name: string; readonly value: string; readonly path: string; readonly until: number }

export class CookieJar {
  /** By name and path, oldest first. */
  private readonly kept = new Map<string, Kept>()

  constructor(private readonly clock: Pick<Clock, "now">) {}

  get isEmpty(): boolean {
    return this.kept.size === 0
  }

  /** Keeps the cookies of a response to a request for `url`; drops those that have ended, and the oldest past the limit. */
  take(lines: readonly string[], url: URL): void {
    for (const line of lines.slice(0, MAX_COOKIES)) {
      const cookie = readCookie(line, url, this.clock.now())
      if (cookie === undefined) continue
      const key = `${cookie.name};${cookie.path}`
      this.kept.delete(key)
      if (cookie.until > this.clock.now()) this.kept.set(key, cookie)
    }
    for (const key of this.kept.keys()) {
      if (this.kept.size <= MAX_COOKIES) break
      this.kept.delete(key)
    }
  }

  /** Returns the Cookie header for a request; undefined if there is none. `configured` is the header that the user has set. */
  headerFor(url: URL, configured: string | undefined): string | undefined {
    const now = this.clock.now()
    const own = new Set(configured?.split(";").map((pair) => pair.split("=", 1)[0]?.trim()))
    const sent = [...this.kept.values()]
      .filter(({ name, path, until }) => until > now && isWithin(url.pathname, path) && !own.has(name))
      .sort((one, other) => other.path.length - one.path.length)
      .map(({ name, value }) => `${name}=${value}`)
    return [...(configured === undefined ? [] : [configured]), ...sent].join("; ") || undefined
  }
}

// ---

/** Returns the cookie that a Set-Cookie header sets, without a time limit for the session; undefined if it must be ignored. */
function readCookie(line: string, url: URL, now: number): Kept | undefined {
  const [pair = "", ...rest] = line.split(";", MAX_ATTRIBUTES)
  const at = pair.indexOf("=")
  const name = pair.slice(0, at).trim()
  const value = pair.slice(at + 1).trim()
  // Controls could end the header of a later request.
  if (at < 1 || name === "" || name.length + value.length > MAX_COOKIE || !/^[\x20-\x7e\x80-\xff]*$/.test(pair.trim()))
    return undefined
  const attributes = new Map<string, string>()
  for (const attribute of rest) {
    const equals = attribute.indexOf("=")
    const key = (equals < 0 ? attribute : attribute.slice(0, equals)).trim().toLowerCase()
    attributes.set(key, equals < 0 ? "" : attribute.slice(equals + 1).trim())
  }
  const domain = attributes.get("domain")?.replace(/^\./, "").toLowerCase() ?? ""
  if (domain !== "" && domain !== url.hostname && !url.hostname.endsWith(`.${domain}`)) return undefined
  if (attributes.has("secure") && url.protocol !== "https:") return undefined
  const given = attributes.get("path") ?? ""
  const path = given.startsWith("/") ? given : url.pathname.slice(0, Math.max(1, url.pathname.lastIndexOf("/")))
  return { name, value, path, until: endOf(attributes, now) }
}

/** Returns when a cookie ends, in milliseconds since the epoch. Max-Age takes precedence over Expires. */
function endOf(attributes: ReadonlyMap<string, string>, now: number): number {
  const seconds = attributes.get("max-age") ?? ""
  if (/^-?\d{1,12}$/.test(seconds)) return now + Number(seconds) * 1000
  const at = Date.parse(attributes.get("expires") ?? "")
  return Number.isNaN(at) ? Number.POSITIVE_INFINITY : at
}

/** Whether a path lies within the path of a cookie. RFC 6265, 5.1.4. */
const isWithin = (path: string, of: string): boolean =>
  path === of || (path.startsWith(of) && (of.endsWith("/") || path[of.length] === "/"))

const MAX_ATTRIBUTES = 20
