/**
 * Moves the secrets of a server to `.env`, with references in their place, so that mcp.json can be shared. What is not
 * secret stays as it is.
 */

import { HIDDEN } from "../config/effective.ts"
import { lookUpVariable } from "../config/environment.ts"
import { isSecretSetting } from "../config/oauth-settings.ts"
import type { HostEnvironment } from "../config/plan.ts"
import { mapStrings } from "../lib/json.ts"
import { isSecretName } from "../lib/secret-names.ts"
import { isObject, type Params } from "../wire/message.ts"

export type ExternalizedServer = {
  readonly server: Params
  /** What `.env` must have besides what it has. */
  readonly variables: Readonly<Record<string, string>>
  /** Every variable that is referred to in place of a secret. */
  readonly references: readonly string[]
}

/** Which values of a server are secrets. */
export type SecretLocations = {
  /** Names in `env` and `headers` that are secret although they do not look so. */
  readonly names: ReadonlySet<string>
  /** Values inside of other texts, for example in an argument, by the name in their `placeholder`. */
  readonly hidden: Readonly<Record<string, string>>
  /** Names in `env`, `headers` and `oauth` that stay as they are. */
  readonly kept?: ReadonlySet<string>
}

export const NO_SECRETS: SecretLocations = { names: new Set(), hidden: {} }

/** Stands for a secret inside of a text until its variable is known. No text of a person or a registry contains it. */
export const placeholder = (name: string): string => `\0${name}\0`

/** Replaces placeholders for an answer: secrets are hidden. An option is shown: it decides what runs. */
export const maskPlaceholders = (server: Params, { hidden }: Pick<SecretLocations, "hidden">): Params =>
  replacePlaceholders(server, (name) => {
    const value = hidden[name] ?? ""
    return OPTION.test(value) ? value : HIDDEN
  })

/** Replaces placeholders by the values that they stand for. */
export const fillPlaceholders = (server: Params, { hidden }: Pick<SecretLocations, "hidden">): Params =>
  replacePlaceholders(server, (name) => hidden[name] ?? "")

/** Moves the secrets out of `server`. `prefix`: the server's name as its variables begin with it. */
export function externalizeSecrets(
  server: Params,
  prefix: string,
  { names, hidden, kept }: SecretLocations,
  world: HostEnvironment,
): ExternalizedServer {
  const variables: Record<string, string> = {}
  const references = new Set<string>()
  const move = (wanted: string, text: string): string => {
    const variable = freeName(wanted, prefix, text, variables, world)
    if (lookUpVariable(variable, world) === undefined) variables[variable] = text
    references.add(variable)
    return `\${${variable}}`
  }
  const filled = replacePlaceholders(server, (name) => move(`${prefix}_${name}`.toUpperCase(), hidden[name] ?? ""))
  const isSecret = (section: Section, name: string): boolean =>
    section === "oauth" ? isSecretSetting(name) : names.has(name) || isSecretName(name)
  const moved = (section: Section): Params => {
    const values = filled[section]
    if (!isObject(values)) return {}
    const safe = Object.entries(values).map(([name, value]) => {
      const text = String(value)
      const stays = !isSecret(section, name) || kept?.has(name) === true || text === "" || REFERENCE.test(text)
      if (stays) return [name, value]
      const wanted = section === "env" ? name : `${prefix}_${name}`.toUpperCase()
      return [name, move(wanted, text.replaceAll("$$", "$"))]
    })
    return { [section]: Object.fromEntries(safe) }
  }
  const safe = { ...filled, ...moved("env"), ...moved("headers"), ...moved("oauth") }
  return { server: safe, variables, references: [...references] }
}

/** Escapes a text that means itself, since `$` begins a reference. A text that is one reference as a whole stays one. */
export const escapeReferences = (text: string): string => (isReference(text) ? text : text.replaceAll("$", "$$$$"))

/** Returns given values in mcp.json's syntax. */
export const literals = (values: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, escapeReferences(value)]))

/** Whether a text is one reference and nothing else. */
export const isReference = (text: string): boolean => /^\$\{[A-Za-z_][A-Za-z0-9_]*\}$/.test(text)

// ---

type Section = "env" | "headers" | "oauth"

/** A PEM key begins with dashes too. */
const OPTION = /^-(?!----)/
const PLACEHOLDER = /\0([^\0]*)\0/g
const REFERENCE = /(?<!\$)(?:\$\$)*\$(?:[A-Za-z_]|\{)/

const replacePlaceholders = (server: Params, replace: (name: string) => string): Params =>
  mapStrings(server, (text) => text.replace(PLACEHOLDER, (_, name: string) => replace(name))) as Params

/** Returns a variable that is not set, or is set to this very value: another server may have one of the same name. */
function freeName(
  wanted: string,
  prefix: string,
  value: string,
  taken: Readonly<Record<string, string>>,
  world: HostEnvironment,
): string {
  const clean = (name: string) => name.replace(/[^A-Za-z0-9_]/g, "_").replace(/^(?=[0-9])/, "_")
  const fits = (name: string) => {
    const existing = taken[name] ?? lookUpVariable(name, world)?.value
    return (existing === undefined || existing === value) && !name.startsWith("SVC_")
  }
  const names = [clean(wanted), clean(`${prefix}_${wanted}`).toUpperCase()]
  for (let count = 2; ; count++) {
    const found = names.find(fits)
    if (found !== undefined) return found
    names.push(`${names[1]}_${count}`)
  }
}
