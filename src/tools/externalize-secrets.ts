/**
 * Where the values of a server that is installed go: what is secret to `.env`, with a reference in its place; the rest into
 * mcp.json as it is.
 */
import { HIDDEN } from "../config/effective.ts"
import { lookUpVariable } from "../config/environment.ts"
import type { World } from "../config/plan.ts"
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

/** What is to be moved. */
export type SecretLocations = {
  /** Names in `env` and `headers` that are secret though they do not look so. */
  readonly names: ReadonlySet<string>
  /** Values that stand somewhere else, for example in an argument, by the name in their `placeholder`. */
  readonly hidden: Readonly<Record<string, string>>
  /** Names in `env`, `headers` and `oauth` that stay as they are. */
  readonly kept?: ReadonlySet<string>
}

export const NO_SECRETS: SecretLocations = { names: new Set(), hidden: {} }

/** Stands for a secret until it is known which variable holds it. No text of a person or a registry has it. */
export const placeholder = (name: string): string => `\0${name}\0`

/**
 * A server with its placeholders as a person may read them: hidden, for the caller gave what they stand for. An option is
 * no secret, and shown.
 */
export const withPlaceholdersShown = (server: Params, { hidden }: Pick<SecretLocations, "hidden">): Params =>
  mapStrings(server, (text) =>
    text.replace(PLACEHOLDER, (_, name: string) => (OPTION.test(hidden[name] ?? "") ? (hidden[name] ?? "") : HIDDEN)),
  ) as Params

/** Moves what is secret out of `server`. `prefix` is the server's name for its variables. */
export function externalizeSecrets(
  server: Params,
  prefix: string,
  { names, hidden, kept }: SecretLocations,
  world: World,
): ExternalizedServer {
  const variables: Record<string, string> = {}
  const references = new Set<string>()
  const move = (wanted: string, text: string): string => {
    const variable = freeName(wanted, prefix, text, variables, world)
    if (lookUpVariable(variable, world) === undefined) variables[variable] = text
    references.add(variable)
    return `\${${variable}}`
  }
  const filled = mapStrings(server, (text) =>
    text.replace(PLACEHOLDER, (_, name: string) => move(`${prefix}_${name}`.toUpperCase(), hidden[name] ?? "")),
  ) as Params
  const moved = (section: "env" | "headers" | "oauth") => {
    const values = filled[section]
    if (!isObject(values)) return {}
    const safe = Object.entries(values).map(([name, value]) => {
      const written = String(value)
      // Of oauth this alone: how a token endpoint is spoken to is no secret.
      const secret = section === "oauth" ? name === "clientSecret" : names.has(name) || isSecretName(name)
      if (!secret || kept?.has(name) === true || written === "" || REFERENCE.test(written)) return [name, value]
      return [name, move(section === "env" ? name : `${prefix}_${name}`.toUpperCase(), written.replaceAll("$$", "$"))]
    })
    return { [section]: Object.fromEntries(safe) }
  }
  const safe = { ...filled, ...moved("env"), ...moved("headers"), ...moved("oauth") }
  return { server: safe, variables, references: [...references] }
}

/** A text that means itself: `$` begins a reference otherwise. One that is a reference as a whole stays one. */
export const escapeReferences = (text: string): string => (isReference(text) ? text : text.replaceAll("$", "$$$$"))

/** Given values in mcp.json's syntax. */
export const literals = (values: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, escapeReferences(value)]))

/** Whether a text is one reference and nothing else. */
export const isReference = (text: string): boolean => /^\$\{[A-Za-z_][A-Za-z0-9_]*\}$/.test(text)

// ---

/** A key in PEM begins with dashes too. */
const OPTION = /^-(?!----)/
const PLACEHOLDER = /\0([^\0]*)\0/g
const REFERENCE = /(?<!\$)(?:\$\$)*\$(?:[A-Za-z_]|\{)/

/** A variable that is not set, or set to this very value: another server may have one of the same name. */
function freeName(
  wanted: string,
  prefix: string,
  value: string,
  taken: Readonly<Record<string, string>>,
  world: World,
): string {
  const clean = (name: string) => name.replace(/[^A-Za-z0-9_]/g, "_").replace(/^(?=[0-9])/, "_")
  const fits = (name: string) => {
    const there = taken[name] ?? lookUpVariable(name, world)?.value
    return (there === undefined || there === value) && !name.startsWith("SVC_")
  }
  const names = [clean(wanted), clean(`${prefix}_${wanted}`).toUpperCase()]
  for (let count = 2; ; count++) {
    const found = names.find(fits)
    if (found !== undefined) return found
    names.push(`${names[1]}_${count}`)
  }
}
