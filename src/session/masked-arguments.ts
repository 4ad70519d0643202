/** Arguments of calls as the audit log shows them: without values that look secret, and bounded. */
import { withoutKeys } from "../config/found-keys.ts"
import { isObject, type Params } from "../wire/message.ts"

/** Masks secrets in text. */
export type Mask = (text: string) => string

/** Masks what looks secret in a JSON value by its key or its form, and bounds its depth, width and length. */
export function maskArguments(given: unknown, mask: Mask, depth = 0): unknown {
  const value =
    isObject(given) && SERVER_KEYS.some((key) => Object.hasOwn(given, key)) ? withoutServerKeys(given) : given
  if (typeof value === "string") return maskAndCut(value, mask, MAX_TEXT)
  if (!isObject(value) && !Array.isArray(value)) return value
  if (depth >= MAX_DEPTH) return "…"
  const inside = (one: unknown) => maskArguments(one, mask, depth + 1)
  // `--api-key VALUE`, `["Authorization", VALUE]`
  if (Array.isArray(value))
    return value
      .slice(0, MAX_ENTRIES)
      .map((one: unknown, at) => (at > 0 && namesSecret(value[at - 1], mask) ? "[REDACTED]" : inside(one)))
  // `{ "name": "Authorization", "value": VALUE }`
  const pairs = namesSecret(value.name, mask) || namesSecret(value.key, mask)
  return Object.fromEntries(
    Object.entries(value)
      .slice(0, MAX_ENTRIES)
      .map(([key, inner]) => {
        const name = maskAndCut(key, mask, MAX_NAME)
        const isSecret = isKeyOfSecret(key.slice(0, MAX_NAME), mask) || (pairs && key === "value")
        return [name, isSecret ? "[REDACTED]" : inside(inner)]
      }),
  )
}

/** Masks a text before it is cut: half a secret would not be recognized. */
export const maskAndCut = (text: string, mask: Mask, length: number): string =>
  mask(text.slice(0, length + MAX_SECRET)).slice(0, length)

/** Returns a function that caches its results for short texts: names repeat with every call, arguments rarely do. */
export function remembering(render: (text: string) => string): (text: string) => string {
  const known = new Map<string, string>()
  return (text) => {
    if (text.length > MAX_REMEMBERED_CHARS) return render(text)
    const found = known.get(text)
    if (found !== undefined) return found
    if (known.size >= MAX_REMEMBERED) known.clear()
    const rendered = render(text)
    known.set(text, rendered)
    return rendered
  }
}

/** Returns a mask that caches its results and follows `masker`, which returns the mask of the current secrets. */
export function followingMask(masker: () => Mask): Mask {
  let current = masker()
  let mask = remembering(current)
  return (text) => {
    const now = masker()
    if (now !== current) {
      current = now
      mask = remembering(now)
    }
    return mask(text)
  }
}

// ---

/** Returns what may be the settings of a server without the keys in them. Bounded first: arguments may have megabytes. */
function withoutServerKeys(value: Params): Params {
  const settings = Object.entries(value).filter(([key]) => key === "command" || SERVER_KEYS.includes(key))
  return { ...value, ...withoutKeys(Object.fromEntries(settings.map(([key, one]) => [key, bounded(one)]))) }
}

/** Returns a setting with as many members and characters as the log may show. */
function bounded(value: unknown): unknown {
  const cut = (one: unknown) => (typeof one === "string" ? one.slice(0, MAX_TEXT + MAX_SECRET) : one)
  if (Array.isArray(value)) return value.slice(0, MAX_ENTRIES).map(cut)
  if (!isObject(value)) return cut(value)
  return Object.fromEntries(
    Object.entries(value)
      .slice(0, MAX_ENTRIES)
      .map(([key, one]) => [key, cut(one)]),
  )
}

/** Whether any value of a key would be masked. */
const isKeyOfSecret = (key: string, mask: Mask): boolean => mask(`${key}=x`) !== `${key}=x`

/** Whether a value is the name of a key or a flag of which any value would be masked. */
const namesSecret = (name: unknown, mask: Mask): boolean =>
  typeof name === "string" && /^[\w.-]{1,200}$/.test(name) && isKeyOfSecret(name, mask)

/** Characters beyond the cut in which a secret is still recognized. */
const MAX_SECRET = 8192

/** Members that the settings of a server have: their keys are found as those in mcp.json. */
const SERVER_KEYS = ["env", "headers", "args", "url", "serverUrl", "httpUrl", "oauth"]
const MAX_REMEMBERED_CHARS = 200
const MAX_REMEMBERED = 1000
const MAX_NAME = 200
const MAX_TEXT = 4096
const MAX_ENTRIES = 100
const MAX_DEPTH = 8
