/**
 * Names of a backend's tools, prompts and resources in the aggregate, both ways.
 *
 *   tools, prompts   <slug>_svc_<name>                also the ids of tasks
 *   resources        svc://<slug>/<original URI>      also templates: a URI template keeps its braces
 *   MCP Apps         ui://<slug>_svc_<rest>           hosts render only `ui://`, so the scheme stays
 *
 * With `--max-tool-name`, a longer name is cut, first the server's part, and characters that model APIs refuse become
 * `-`. Such a name ends in `_` and a hash of the whole name, so that the short form depends only on the name.
 * The endpoint of one server (`/servers/<server>/mcp`) has the server's own names.
 */
import { SEPARATOR, slugOf } from "../config/server-spec.ts"
import { digest } from "../lib/digest.ts"
import { cutText } from "../lib/text.ts"

/** The name of the server that stands for svc's own tools. */
export const OWN = "svc"

/** Returns the name of a tool, prompt or task in the aggregate. */
export const qualify = (slug: string, name: string): string => `${slug}${SEPARATOR}${name}`

/**
 * Returns a name with at most `max` characters, letters, digits, `_` and `-` only: any other name is cut or changed, and ends in
 * a hash of the whole. The server's part is cut first, because the tool's own name says what the tool does. Returns the name
 * itself without a limit.
 */
export function shortened(full: string, max: number): string {
  if (max === Number.POSITIVE_INFINITY) return full
  const name = full.replace(/[^A-Za-z0-9_-]/g, "-")
  if (name === full && name.length <= max) return name
  const hash = `_${digest(full, HASH_LENGTH)}`
  if (name.length + hash.length <= max) return name + hash
  const split = splitName(name)
  const room = max - hash.length - SEPARATOR.length
  if (split === undefined || room < 2) return cutText(name, max - hash.length) + hash
  const least = Math.min(MIN_SLUG, Math.ceil(room / 3))
  const slug = cutText(split.slug, Math.max(least, room - split.name.length))
  return `${qualify(slug, cutText(split.name, room - slug.length))}${hash}`
}

/**
 * Splits a name of the aggregate into the backend's slug and its own name. Returns undefined for any other name. Until 0.1, a
 * slug kept the dots of the server's name: such a name is valid for one release.
 */
export function splitName(name: string): { readonly slug: string; readonly name: string } | undefined {
  const at = name.indexOf(SEPARATOR)
  return at <= 0 ? undefined : { slug: slugOf(name.slice(0, at)), name: name.slice(at + SEPARATOR.length) }
}

/** Returns the URI (or URI template) of a resource in the aggregate. */
export function qualifyUri(slug: string, uri: string): string {
  return uri.startsWith(UI) ? `${UI}${slug}${SEPARATOR}${uri.slice(UI.length)}` : `${SCHEME}${slug}/${uri}`
}

/** Splits a URI of the aggregate into the backend's slug and its own URI. Returns undefined for any other URI. */
export function splitUri(uri: string): { readonly slug: string; readonly uri: string } | undefined {
  if (uri.startsWith(SCHEME)) {
    const slash = uri.indexOf("/", SCHEME.length)
    if (slash <= SCHEME.length) return undefined
    return { slug: slugOf(uri.slice(SCHEME.length, slash)), uri: uri.slice(slash + 1) }
  }
  if (uri.startsWith(UI)) {
    const at = uri.indexOf(SEPARATOR, UI.length)
    if (at <= UI.length) return undefined
    return { slug: slugOf(uri.slice(UI.length, at)), uri: UI + uri.slice(at + SEPARATOR.length) }
  }
  return undefined
}

/** Whether a URI equals another or lies below it: a subscription covers sub-resources too. server: Resources. */
export const isWithin = (uri: string, whole: string): boolean =>
  uri.startsWith(whole) &&
  (uri.length === whole.length || whole.endsWith("/") || "/?#".includes(uri.charAt(whole.length)))

// ---

const HASH_LENGTH = 8
/** The characters of a server's part that stay, if there is room. */
const MIN_SLUG = 8

const SCHEME = "svc://"
const UI = "ui://"
