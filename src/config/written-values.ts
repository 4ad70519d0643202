/** The values in an entry of mcp.json that may be secret: of `env` and `headers`, and the secrets of `oauth`. Pure. */
import { isSecretName } from "../lib/secret-names.ts"
import { isObject, type Params } from "../wire/message.ts"
import { isSecretSetting } from "./oauth-settings.ts"
import { isOnlyReferences, literalsIn, referencesIn } from "./substitution.ts"

/** The settings of a server that have values by name. */
export type ValueSection = "env" | "headers" | "oauth"

/** Returns the values of a server that may be secret, by name: of `env` and `headers`, and the secrets of `oauth`. */
export const writtenValues = (server: Params): Params => ({
  ...Object.fromEntries(valuesIn(server).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))),
  ...Object.fromEntries(
    Object.entries(isObject(server.oauth) ? server.oauth : {}).filter(([name]) => isSecretSetting(name)),
  ),
})

/** Returns the texts that must be masked when a change of these servers is shown: the values under secret names, without references. */
export const secretsOf = (servers: readonly { readonly server: Params }[]): readonly string[] =>
  servers.flatMap(({ server }) =>
    Object.entries(writtenValues(server)).flatMap(([name, value]) =>
      isSecretName(name) && !isOnlyReferences(String(value)) ? secretTexts(String(value)) : [],
    ),
  )

/** Returns the members of `env` and `headers`. In an `env` array, a name alone has no value. */
export const valuesIn = (server: Params): readonly (readonly [string, string | undefined, ValueSection])[] =>
  (["env", "headers"] as const).flatMap((key) => {
    const section = server[key]
    return Array.isArray(section)
      ? section.map((one): readonly [string, string | undefined, ValueSection] => {
          const [name = "", ...rest] = String(one).split("=")
          return [name, rest.length === 0 ? undefined : rest.join("="), key]
        })
      : Object.entries(isObject(section) ? section : {}).map(([name, value]) => [name, String(value), key] as const)
  })

// ---

/** A reference stays readable: only the text around it is masked. */
const secretTexts = (value: string): readonly string[] =>
  referencesIn(value).length === 0 ? [value] : literalsIn(value)
