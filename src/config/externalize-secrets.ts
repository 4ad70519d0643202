/**
 * Moves the secrets of a server to `.env` and replaces them by references, so that mcp.json can be shared. Other values stay
 * unchanged.
 */

import { mapStrings } from "../lib/json.ts"
import { isObject, type Params } from "../wire/message.ts"
import { type Document, type Path, parseDocument } from "./document.ts"
import { addVariables } from "./dotenv.ts"
import { keyHolders, SECTIONS, setAt, writtenServers } from "./edit.ts"
import { HIDDEN } from "./effective.ts"
import { lookUpVariable } from "./environment.ts"
import { keysIn, keyText } from "./found-keys.ts"
import type { HostEnvironment } from "./plan.ts"

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
  reference: (variable: string) => string = (variable) => `\${${variable}}`,
): ExternalizedServer {
  const variables: Record<string, string> = {}
  const references = new Set<string>()
  const move = (wanted: string, text: string): string => {
    const variable = freeName(wanted, prefix, text, variables, world)
    // Also if the environment of this command has it: svc may run in another one.
    if (world.dotenv[variable] !== text) variables[variable] = text
    references.add(variable)
    return reference(variable)
  }
  const filled = replacePlaceholders(server, (name) => move(`${prefix}_${name}`.toUpperCase(), hidden[name] ?? ""))
  const keys = keysIn(filled, names)
  const moves = keys.flatMap(({ path, start, end, name }) => {
    const [section, member] = path
    if (kept?.has(String(member)) === true) return []
    const value = textAt(filled, path).slice(start, end).replaceAll("$$", "$")
    const wanted = section === "env" && name !== undefined ? name : `${prefix}_${wordOf(name, section)}`.toUpperCase()
    return [{ path, start, end, reference: move(wanted, value) }]
  })
  // From the end, so that the places of earlier keys stay.
  const safe = moves.reduceRight(
    (changed, { path, start, end, reference }) =>
      replaceAt(changed, path, (text) => text.slice(0, start) + reference + text.slice(end)),
    filled,
  )
  return { server: safe, variables, references: [...references] }
}

/** Keys that were moved out of a configuration. */
export type MovedKeys = {
  /** The new text of mcp.json. */
  readonly config: string
  /** The values to store, by the names in the references. */
  readonly variables: Readonly<Record<string, string>>
  /** The settings that have changed. */
  readonly places: readonly MovedKey[]
}

/** A setting such as `github: env.TOKEN`, with its keys hidden, and with references in their place. */
type MovedKey = { readonly place: string; readonly before: string; readonly after: string }

/**
 * Moves what looks like a key out of servers of mcp.json, or out of the whole text, and changes nothing else. `reference` returns the
 * text that refers to a variable.
 */
export function moveKeys(
  config: string,
  names: readonly string[] | "all",
  world: HostEnvironment,
  reference?: (variable: string) => string,
): MovedKeys {
  let text = config
  let { dotenv } = world
  const places: MovedKey[] = []
  const variables: Record<string, string> = {}
  const isServer = ([section]: Path) => SECTIONS.some((one) => one === section)
  for (const { name, path: holder, settings, prefix } of keyHolders(parseDocument(config, "mcp.json"))) {
    if (names !== "all" && !(isServer(holder) && names.includes(name))) continue
    const moved = externalizeSecrets(settings, prefix, NO_SECRETS, { ...world, dotenv }, reference)
    const hidden = externalizeSecrets(settings, "", NO_SECRETS, world, () => HIDDEN).server
    const paths = new Map(keysIn(settings).map(({ path }) => [placeOf(name, path), path]))
    for (const [place, path] of paths) {
      text = setAt(text, [...holder, ...path], textAt(moved.server, path))
      places.push({ place, before: textAt(hidden, path), after: textAt(moved.server, path) })
    }
    Object.assign(variables, moved.variables)
    dotenv = { ...dotenv, ...moved.variables }
  }
  return { config: text, variables, places }
}

/** Returns the settings of servers that look like keys, such as `github: env.TOKEN`, if a change adds a key or another copy of one. */
export function newKeyPlaces(before: string, after: string, names: readonly string[]): readonly string[] {
  const [known, now] = [keyCounts(before), keyCounts(after)]
  const isNew = (value: string) => (now.get(value) ?? 0) > (known.get(value) ?? 0)
  return [...writtenServers(after)].flatMap(([name, { server }]) => {
    const keys = names.includes(name) ? keysIn(server) : []
    return keys.some((key) => isNew(keyText(server, key)))
      ? [...new Set(keys.map(({ path }) => placeOf(name, path)))]
      : []
  })
}

/** Returns a warning for each setting in `newKeyPlaces`. */
export const openKeyWarnings = (...change: Parameters<typeof newKeyPlaces>): readonly string[] =>
  newKeyPlaces(...change).map(
    (place) =>
      `${place} looks like a key, and mcp.json contains it in plain text; \`svc secret import\` moves it to .env`,
  )

/** The texts of mcp.json and of `.env`. */
type Texts = { readonly config: string; readonly dotenv: string }

/** Returns changed texts with the keys of servers in `.env`, if the change adds a key. `file`: what errors call `.env`. */
export function withoutNewKeys(
  before: Texts,
  after: Texts,
  names: readonly string[],
  worldOf: (dotenv: string) => HostEnvironment,
  file = ".env",
): Texts {
  if (newKeyPlaces(before.config, after.config, names).length === 0) return after
  const moved = moveKeys(after.config, names, worldOf(after.dotenv))
  return { config: moved.config, dotenv: addVariables(after.dotenv, moved.variables, file) }
}

/** Returns what looks like a key in mcp.json, each as often as it stands there. */
export const keysOf = (document: Pick<Document, "value">): readonly string[] =>
  keyHolders(document).flatMap(({ settings }) => keysIn(settings).map((key) => keyText(settings, key)))

/** Escapes `$`, which begins a reference, in a literal text. A text that is one whole reference stays unchanged. */
export const escapeReferences = (text: string): string => (isReference(text) ? text : text.replaceAll("$", "$$$$"))

/** Returns given values in mcp.json's syntax. */
export const literals = (values: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, escapeReferences(value)]))

/** Whether a text is one reference and nothing else. */
export const isReference = (text: string): boolean => /^\$\{[A-Za-z_][A-Za-z0-9_]*\}$/.test(text)

// ---

/** Returns how often each key stands in mcp.json. */
function keyCounts(config: string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const key of keysOf(parseDocument(config, "mcp.json"))) counts.set(key, (counts.get(key) ?? 0) + 1)
  return counts
}

/** Matches an option of a command, but not a PEM key, which also begins with dashes. */
const OPTION = /^-(?!----)/
const PLACEHOLDER = /\0([^\0]*)\0/g

/** Returns the name of a setting, such as `github: args[2]`. */
function placeOf(server: string, [section = "", member]: Path): string {
  if (member === undefined) return `${server}: ${section}`
  return `${server}: ${section}${typeof member === "number" ? `[${member}]` : `.${member}`}`
}

/** Returns the word for a key in the name of its variable. */
const wordOf = (name: string | undefined, section: unknown): string =>
  (name ?? (section === "url" ? "url_key" : "key")).replace(/^-+/, "")

/** Returns the text of a setting. */
function textAt(server: Params, [section = "", member]: Path): string {
  const value = server[section]
  if (member === undefined) return String(value)
  const members = Array.isArray(value) || isObject(value) ? (value as Params) : {}
  return String(members[member])
}

function replaceAt(server: Params, [section = "", member]: Path, change: (text: string) => string): Params {
  const value = server[section]
  if (member === undefined) return { ...server, [section]: change(String(value)) }
  if (Array.isArray(value))
    return { ...server, [section]: value.with(Number(member), change(String(value[Number(member)]))) }
  return isObject(value) ? { ...server, [section]: { ...value, [member]: change(String(value[member])) } } : server
}

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
