/** Finds the credentials inside URLs and HTTP headers. */

import { isSecretName } from "../lib/secret-names.ts"
import { percentDecoded } from "../lib/text.ts"

/**
 * Returns the parts of URLs that must not be shown: passwords, users without a password, and parameters with secret names;
 * both as written and percent-decoded.
 */
export function urlCredentials(text: string): readonly string[] {
  if (!text.includes("://")) return []
  const users = [...text.matchAll(/:\/\/([^\s/?#@]{1,1024})@/g)].map(([, user = ""]) =>
    user.slice(user.indexOf(":") + 1),
  )
  const parameters = [...text.matchAll(/[?&]([^\s=&#]{1,256})=([^\s&#]+)/g)].flatMap(([, name = "", value = ""]) =>
    isSecretName(name) ? [value] : [],
  )
  return [...users, ...parameters].flatMap((written) => [written, percentDecoded(written)])
}

/**
 * Returns the parts of a header's value that a server may repeat: the value, the value without its scheme, and for `Basic` the
 * user with the password, and the password alone (RFC 7617).
 */
export function headerCredentials(value: string): readonly string[] {
  const [, scheme = "", token] = /^(\S+)\s+(\S+)$/.exec(value) ?? []
  if (token === undefined) return [value]
  if (scheme.toLowerCase() !== "basic") return [value, token]
  const user = Buffer.from(token, "base64").toString("utf8")
  const colon = user.indexOf(":")
  return colon < 0 ? [value, token] : [value, token, user, user.slice(colon + 1)]
}
