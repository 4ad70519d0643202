/** Arguments of calls as the audit log shows them: without values that look secret, and bounded. */
import { withoutKeys } from "../config/found-keys.ts"
import { isObject } from "../wire/message.ts"

/** Masks secrets in text. */
export type Mask = (text: string) => string

/** Masks what looks secret in a JSON value by its key or its form, and bounds its depth, width and length. */
export function maskArguments(given: unknown, mask: Mask, depth = 0): unknown {
  const value = isObject(given) && SERVER_KEYS.some((key) => Object.hasOwn(given, key)) ? withoutKeys(given) : given

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

// ---

/** Whether any value of a key would be masked. */
const isKeyOfSecret = (key: string, mask: Mask): boolean => mask(`${key}=x`) !== `${key}=x`

/** Whether a value is the name of a key or a flag of which any value would be masked. */
const namesSecret = (name: unknown, mask: Mask): boolean =>
  typeof name === "string" && /^[\w.-]{1,200}$/.test(name) && isKeyOfSecret(name, mask)

/** Characters beyond the cut in which a secret is still recognized. */
const MAX_SECRET = 8192

/** Members that the settings of a server have: their keys are found as those in mcp.json. */
const SERVER_KEYS = ["env", "headers", "args", "url", "oauth"]
const MAX_NAME = 200
const MAX_TEXT = 4096
const MAX_ENTRIES = 100
const MAX_DEPTH = 8
