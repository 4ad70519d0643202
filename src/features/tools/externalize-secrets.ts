/**
 * Moves the secrets of a server to `.env` and replaces them by references, so that mcp.json can be shared. Other values stay
 * unchanged.
 */

import { HIDDEN } from "../../config/effective.ts"
import { lookUpVariable } from "../../config/environment.ts"
import { isSecretSetting } from "../../config/oauth-settings.ts"
import type { HostEnvironment } from "../../config/plan.ts"
import { mapStrings } from "../../lib/json.ts"
import { isSecretName } from "../../lib/secret-names.ts"
import { isObject, type Params } from "../../wire/message.ts"

export type ExternalizedServer = {
  readonly server: Params
  /** The variables to add to `.env`. */
  readonly variables: Readonly<Record<string, string>>
  /** Every variable that a reference names in place of a secret. */
  readonly references: readonly string[]
}

/** The secrets among the values of a server. */
export type SecretLocations = {
  /** Names in `env` and `headers` that are secret although they do not look secret. */
  readonly names: ReadonlySet<string>
  /** Values within other texts, for example in an argument, by the name in their `placeholder`. */
  readonly hidden: Readonly<Record<string, string>>
  /** Names in `env`, `headers` and `oauth` with values that stay unchanged. */
  readonly kept?: ReadonlySet<string>
}

export const NO_SECRETS: SecretLocations = { names: new Set(), hidden: {} }

/**
 * Returns the placeholder for a secret within a text until its variable is known. No text of a person or a registry contains
 * it.
 */
export const placeholder = (name: string): string => `\0${name}\0`

/** Replaces placeholders for an answer. Hides secrets, but shows options, because they affect what runs. */
export const maskPlaceholders = (server: Params, { hidden }: Pick<SecretLocations, "hidden">): Params =>
  replacePlaceholders(server, (name) => {
    const value = hidden[name] ?? ""
    return OPTION.test(value) ? value : HIDDEN
  })

/** Replaces placeholders by the values that they stand for. */
export const fillPlaceholders = (server: Params, { hidden }: Pick<SecretLocations, "hidden">): Params =>
  replacePlaceholders(server, (name) => hidden[name] ?? "")

/** Moves the secrets out of `server`. `prefix`: the server's name, in the form with which its variables begin. */
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

/** Escapes `$`, which begins a reference, in a literal text. A text that is one whole reference stays unchanged. */
export const escapeReferences = (text: string): string => (isReference(text) ? text : text.replaceAll("$", "$$$$"))

/** Returns given values in mcp.json's syntax. */
export const literals = (values: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, escapeReferences(value)]))

/** Whether a text is one reference and nothing else. */
export const isReference = (text: string): boolean => /^\$\{[A-Za-z_][A-Za-z0-9_]*\}$/.test(text)

// ---

type Section = "env" | "headers" | "oauth"

/** Matches an option of a command, but not a PEM key, which also begins with dashes. */
const OPTION = /^-(?!----)/
const PLACEHOLDER = /\0([^\0]*)\0/g
const REFERENCE = /(?<!\$)(?:\$\$)*\$(?:[A-Za-z_]|\{)/

const replacePlaceholders = (server: Params, replace: (name: string) => string): Params =>
  mapStrings(server, (text) => text.replace(PLACEHOLDER, (_, name: string) => replace(name))) as Params

/** Returns a variable that is not set, or has this value: another server may use a variable with the same name. */
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
