/** Checks which fields of `oauth` go together, and knows the secret ones. choice: Configuration, `oauth`. */
import { isLoopback } from "../lib/address.ts"
import type { OAuthSettings } from "./server-spec.ts"

/** Whether the value of an `oauth` field is secret. Not `isSecretName`, which would match `tokenEndpointAuthMethod`. */
export const isSecretSetting = (name: string): boolean => SECRETS.includes(name)

/** Returns what is wrong with the fields of `oauth` as a whole. */
export function settingsProblems(settings: OAuthSettings): readonly string[] {
  const { grantType = "authorization_code", identityProvider } = settings
  const has = (name: Setting): boolean => settings[name] !== undefined
  const list = (names: readonly Setting[]): string => names.map((name) => `oauth.${name}`).join(" or ")
  const required = REQUIRED[grantType].flatMap((names) => {
    const count = names.filter(has).length
    if (count === 0) return [`oauth.grantType ${grantType} needs ${list(names)}`]
    return count === 1 ? [] : [`set one of ${list(names)}, not both`]
  })
  const unused = Object.entries(OWNERS).flatMap(([owner, names]) =>
    owner === grantType ? [] : names.filter(has).map((name) => `oauth.${name} needs oauth.grantType ${owner}`),
  )
  const address = identityProvider === undefined ? undefined : addressProblem(identityProvider)
  return [
    ...required,
    ...unused,
    ...(address === undefined ? [] : [`oauth.identityProvider ${address}`]),
    ...malformedSecrets(settings),
  ]
}

// ---

const SECRETS: readonly string[] = ["clientSecret", "assertion", "subjectToken", "identityProviderClientSecret"]

type Setting = keyof OAuthSettings
type GrantType = NonNullable<OAuthSettings["grantType"]>

/** What a grant needs: one field of each list. */
const REQUIRED: Readonly<Record<GrantType, readonly (readonly Setting[])[]>> = {
  authorization_code: [],
  client_credentials: [["clientId"]],
  "jwt-bearer": [["assertion", "assertionFile"]],
  "token-exchange": [
    ["clientId"],
    ["identityProvider"],
    ["identityProviderClientId"],
    ["subjectToken", "subjectTokenFile"],
  ],
}

/** The fields that only one grant uses. */
const OWNERS: Readonly<Partial<Record<GrantType, readonly Setting[]>>> = {
  "jwt-bearer": ["assertion", "assertionFile"],
  "token-exchange": [
    "identityProvider",
    "identityProviderClientId",
    "identityProviderClientSecret",
    "subjectToken",
    "subjectTokenFile",
  ],
}

/** Returns what is wrong with the address of an identity provider, which gets the user's ID token. */
function addressProblem(text: string): string | undefined {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return "must be an http or https address"
  if (url.protocol === "https:" || isLoopback(url.hostname)) return undefined
  return "must use https unless it runs on this machine: over http, an attacker could read the ID token"
}

/** Returns the problems of secrets in a wrong format. Skips expressions, which have no value yet. */
function malformedSecrets(settings: OAuthSettings): readonly string[] {
  const { tokenEndpointAuthMethod: method, clientSecret } = settings
  const isKnown = (value: string | undefined): value is string =>
    value !== undefined && value.trim() !== "" && !value.includes("{{")
  const tokens = (["assertion", "subjectToken"] as const).flatMap((name) => {
    const value = settings[name]
    return isKnown(value) && !JWT.test(value) ? [`oauth.${name} must be a JWT`] : []
  })
  if (method !== "private_key_jwt") return tokens
  if (clientSecret === undefined)
    return [...tokens, "oauth.tokenEndpointAuthMethod private_key_jwt needs oauth.clientSecret"]
  const isKey = !isKnown(clientSecret) || isPem(clientSecret)
  return isKey ? tokens : [...tokens, "oauth.clientSecret must be a private key in PEM format for private_key_jwt"]
}

const JWT = /^\s*[\w-]+\.[\w-]+\.[\w-]*\s*$/

function isPem(text: string): boolean {
  const begin = /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----/.exec(text)
  return begin !== null && /-----END [A-Z ]{0,40}PRIVATE KEY-----/.test(text.slice(begin.index + begin[0].length))
}
