/** Which fields of `oauth` belong together, and which are secret. choice: Configuration, `oauth`. */
import type { OAuthSettings } from "./server-spec.ts"

/** Whether the value of an `oauth` field is secret. By its looks, `tokenEndpointAuthMethod` would be. */
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
  const address = identityProvider === undefined || isAddress(identityProvider)
  return [...required, ...unused, ...(address ? [] : ["oauth.identityProvider must be an http or https address"])]
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

const isAddress = (text: string): boolean => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)
