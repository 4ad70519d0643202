/** The text of a server as a person or a model reads it: its command or address, and its settings, in full or without secrets. */
import { isDeepStrictEqual } from "node:util"
import { visible } from "../lib/log.ts"
import { isSecretName } from "../lib/secret-names.ts"
import { isObject, type Params } from "../wire/message.ts"
import { HIDDEN } from "./effective.ts"
import { keysIn } from "./found-keys.ts"
import { isSecretSetting } from "./oauth-settings.ts"
import { OPTION_NAME } from "./plan.ts"
import { isRemote, withAliases } from "./sections.ts"
import { partsOf } from "./substitution.ts"
import { type ValueSection, valuesIn } from "./written-values.ts"

/** Returns whether a value of `env`, `headers` or `oauth` is hidden. References in it are shown. */
export type Hides = (name: string, value: unknown, section: ValueSection) => boolean

/** Hides a value that `hideable` contains under the same name, if it looks like a key, or if the name looks secret or is in `names`. */
export const hidesSecrets =
  (hideable: Params, names: ReadonlySet<string> = new Set()): Hides =>
  (name, value, section) =>
    Object.hasOwn(hideable, name) &&
    hideable[name] === value &&
    (names.has(name) ||
      isSecretName(name) ||
      (section === "oauth" && isSecretSetting(name)) ||
      keysIn({ [section]: { [name]: value } }).length > 0) &&
    !OPTION_NAME.test(name)

/** Returns a server's command or address, and the values that it receives, in full on one line. */
export function commandText(server: Params, hides: Hides = () => false): string {
  const { command, args, url, cwd } = withAliases(server)
  const remote = isRemote(server)
  const words = Array.isArray(args) ? args.map((part) => quoted(String(part))) : []
  // Also shows settings that the transport does not use, so that no part of an entry hides another.
  const unused = Object.entries(remote ? { command, args } : { url }).flatMap(([key, value]) =>
    value === undefined ? [] : [`${key}=${asJson(value)}`],
  )
  const settings = [...unused, settingsText(server, hides)].join(" ").trim()
  return [
    ...(remote ? [`connect to ${quotedAddress(String(url ?? ""))}`] : [quoted(String(command ?? "")), ...words]),
    ...(typeof cwd === "string" ? [`in ${quoted(cwd)}`] : []),
    ...(settings === "" ? [] : [`with ${settings}`]),
  ].join(" ")
}

/** Returns the environment, headers, inheritance and OAuth settings of a server. */
export function settingsText(server: Params, hides: Hides): string {
  const { inheritParentEnv, envFilter, oauth } = server
  const shown: (...value: Parameters<Hides>) => unknown = (name, value, section) =>
    typeof value === "string" && hides(name, value, section) ? onlyReferences(value) : value
  const values = valuesIn(server).map(([name, value, section]) =>
    value === undefined ? quoted(name) : `${quoted(name)}=${quoted(String(shown(name, value, section)))}`,
  )
  if (inheritParentEnv !== undefined) values.push(`inheritParentEnv=${asJson(inheritParentEnv)}`)
  if (envFilter !== undefined) values.push(`envFilter=${asJson(envFilter)}`)
  if (isObject(oauth)) {
    const members = Object.entries(oauth).map(([name, value]) => [name, shown(name, value, "oauth")])
    values.push(`oauth=${asJson(Object.fromEntries(members))}`)
  }
  return values.join(" ")
}

/** Quotes a word that could be mistaken for several words, or for one of svc's own words. */
export const quoted = (part: string, plain = PLAIN_WORD): string =>
  plain.test(part) && !OWN_WORDS.has(part) ? part : asJson(part)

/** Quotes an address that could be mistaken for several words. */
export const quotedAddress = (address: string): string => quoted(address, PLAIN_ADDRESS)

/** Returns the settings that `commandText` leaves out, a line for each. */
export const settingsOf = (server: Params): readonly string[] => changedSettings({}, server)

/** Returns the differences in settings that `commandText` leaves out, a line for each. */
export const changedSettings = (before: Params, after: Params): readonly string[] =>
  changedKeys(before, after).flatMap((key) => {
    if (IN_COMMAND.has(key)) return []
    const [from, to] = [before[key], after[key]].map((value) => (value === undefined ? "nothing" : asJson(value)))
    return [before[key] === undefined ? `${visible(key)}: ${to}` : `${visible(key)}: ${from} -> ${to}`]
  })

/** Returns the settings in which two servers differ. */
export const changedKeys = (before: Params, after: Params): readonly string[] =>
  [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (key) => !isDeepStrictEqual(before[key], after[key]),
  )

// ---

/** The settings that `commandText` shows, and the origin of a server. */
const IN_COMMAND: ReadonlySet<string> = new Set([
  "command",
  "args",
  "url",
  "serverUrl",
  "httpUrl",
  "env",
  "headers",
  "cwd",
  "inheritParentEnv",
  "envFilter",
  "oauth",
  "installedFrom",
])

/** Hides a value except its references. */
const onlyReferences = (value: string): string =>
  partsOf(value)
    .map((part) => {
      if (part.kind !== "reference") return HIDDEN
      return part.fallback === undefined ? part.text : `\${${part.name}:-${HIDDEN}}`
    })
    .join("")
    .replace(HIDDEN_TWICE, HIDDEN)

const HIDDEN_TWICE = /(?:•••){2,}/g

const asJson = (value: unknown): string => visible(JSON.stringify(value))

const OWN_WORDS: ReadonlySet<string> = new Set(["connect", "in", "with"])

const PLAIN_WORD = /^[\w@%+=:,./~${}•-]+$/
const PLAIN_ADDRESS = /^[\w@%+=:,./~${}?&#;!*()'•-]+$/
