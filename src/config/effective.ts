/**
 * Effective values of a server and their sources, for people: its configuration with defaults, references resolved and
 * secrets hidden. spec: serverDefaults, `svc mcp status --verbose`.
 */

import { createRedactor } from "../lib/redact.ts"
import { isSecretName } from "../lib/secret-names.ts"
import { isObject } from "../wire/message.ts"
import { applyDefaults, type ValueOrigin } from "./defaults.ts"
import type { Document } from "./document.ts"
import { lookUpVariable, schemeOf } from "./environment.ts"
import { isSecretSetting } from "./oauth-settings.ts"
import { builtInSettings, type HostEnvironment } from "./plan.ts"
import type { DefaultsConfig, ServerConfig } from "./schema.ts"
import { readSections } from "./sections.ts"
import { REMOTE_ONLY, STDIO_ONLY, SUBSTITUTED_KEYS, transportOf } from "./server-keys.ts"
import { isOnlyReferences, referencesIn, substitute } from "./substitution.ts"

/** Where a value comes from. */
type ValueSource = ValueOrigin | "env" | ".env" | "keychain" | "file" | "cmd"

/** One effective value: a dotted key, its value with its type, and all of its sources. */
export type EffectiveValue = {
  readonly key: string
  readonly value: unknown
  readonly from: readonly ValueSource[]
  /** Set if the value has no effect: on this kind of server, or because another value overrides it. */
  readonly ignored?: true
}

/** Replaces a secret in text for users. */
export const HIDDEN = "•••"

/** Returns the effective values of a server of a document, or undefined if it is missing or invalid. */
export function effectiveOf(
  document: Document,
  name: string,
  world: HostEnvironment,
  showSecrets: boolean,
): readonly EffectiveValue[] | undefined {
  const { defaults, servers, templates } = readSections(document)
  const template = templates.find((one) => one.name === name)
  const config = (template ?? servers.find((one) => one.name === name))?.config
  const section = template === undefined ? "server" : "template"
  return config === undefined ? undefined : effectiveServer(config, section, defaults, world, showSecrets)
}

/** Returns the effective values of a server, or undefined if it has neither a command nor a url. */
export function effectiveServer(
  written: ServerConfig,
  section: "server" | "template",
  defaults: DefaultsConfig,
  world: HostEnvironment,
  showSecrets: boolean,
): readonly EffectiveValue[] | undefined {
  const { type, ...typeless } = written
  // In a template the type may be an expression.
  const transport = transportOf(String(type).includes("{{") ? typeless : written)
  if (transport === undefined) return undefined
  const sectionOf = (origin: ValueOrigin) => (origin === "server" ? section : origin)
  const { config, origins } = applyDefaults(written, defaults, transport)
  const ignored = new Set<string>(transport === "stdio" ? REMOTE_ONLY : STDIO_ONLY)
  if (config.connectionTimeout !== undefined && config.requestTimeout !== undefined) ignored.add("timeout")
  const row = (
    key: string,
    name: string | undefined,
    value: unknown,
    from: readonly ValueOrigin[],
  ): EffectiveValue => ({
    ...rowOf({ key, name, value, from: from.map(sectionOf) }, world, showSecrets),
    ...(ignored.has(key) ? { ignored: true } : {}),
  })
  const builtIn = Object.entries(builtInSettings(config, transport)).filter(
    ([key]) => config[key as keyof ServerConfig] === undefined,
  )
  return [
    { key: "type", value: transport, from: [written.type === undefined ? "built-in" : section] },
    ...Object.entries(config).flatMap(([key, value]): EffectiveValue[] => {
      if (key === "type" || value === undefined) return []
      const from = origins[key] ?? ["server"]
      const members = membersOf(key, value)
      if (members === undefined) return [row(key, undefined, value, from)]
      return members.map(([name, item]) => {
        // Each member of a merged object has one source.
        const source = isObject(written.env) && Object.hasOwn(written.env, name) ? "server" : "default"
        return row(key, name, item, from.length === 1 ? from : [source])
      })
    }),
    ...builtIn.map(([key, value]): EffectiveValue => {
      const isFromTimeout = config.timeout !== undefined && /Timeout$/.test(key) && key !== "idleTimeout"
      return { key, value, from: isFromTimeout ? (origins.timeout ?? []).map(sectionOf) : ["built-in"] }
    }),
  ]
}

/** Formats an effective value for people. */
export function valueText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(valueText).join(", ")}]`
  return typeof value === "string" ? value : JSON.stringify(value)
}

// ---

/** Returns the members of a value that is shown as several rows, else undefined. `NAME` in an `env` array means `${NAME}`. */
function membersOf(key: string, value: unknown): readonly (readonly [name: string, value: unknown])[] | undefined {
  if (isObject(value)) return Object.entries(value)
  if (key !== "env" || !Array.isArray(value)) return undefined
  return value.map((entry: unknown) => {
    const [name = "", ...rest] = String(entry).split("=")
    return [name, rest.length === 0 ? `\${${name}}` : rest.join("=")]
  })
}

/** One row to show: a key, the member `name` of its value if it has several, the value and its sources. */
type Item = {
  readonly key: string
  readonly name: string | undefined
  readonly value: unknown
  readonly from: readonly ValueOrigin[]
}

function rowOf({ key, name, value, from }: Item, world: HostEnvironment, showSecrets: boolean): EffectiveValue {
  const row = (display: unknown, more: readonly ValueSource[] = []) => ({
    key: name === undefined ? key : `${key}.${name}`,
    value: display,
    from: [...new Set([...from, ...more])],
  })
  const parts: readonly unknown[] = Array.isArray(value) ? value : [value]
  const texts = parts.map((part) => (typeof part === "string" ? part : JSON.stringify(part)))
  /** Restores the types: an unchanged text stands for the part as written. */
  const typed = (changed: readonly string[]) => {
    const values = changed.map((text, index) => (text === texts[index] ? parts[index] : text))
    return Array.isArray(value) ? values : values[0]
  }
  if (!SUBSTITUTED_KEYS.includes(key)) return row(value)
  const sources: ValueSource[] = []
  const resolved = texts.map(
    (text) =>
      substitute(text, (variable) => {
        const scheme = schemeOf(variable)
        if (scheme !== undefined) {
          sources.push(scheme)
          // The reference says more than a mark, and has no secret.
          return `\${${variable}}`
        }
        const found = lookUpVariable(variable, world)
        if (found === undefined) return `\${${variable}}`
        sources.push(found.from)
        return showSecrets ? found.value : HIDDEN
      }).text,
  )
  if (showSecrets) return row(typed(resolved), sources)
  const secret = key === "headers" || (name !== undefined && (key === "oauth" ? isSecretSetting : isSecretName)(name))
  const hidden = resolved.map((text, index) => {
    const flag = /^--?\w/.test(texts[index - 1] ?? "") && isSecretName(texts[index - 1] ?? "")
    if (!secret && !flag) return mask(text)
    // Of a secret, only the scheme before a reference stays readable.
    const [reference = "", ...more] = referencesIn(text)
    const isReference = more.length === 0 && schemeOf(reference) !== undefined && isOnlyReferences(text)
    return isReference || /^(\w+ )?•••$/.test(text) ? text : HIDDEN
  })
  return row(typed(hidden), sources)
}

/** Hides credentials inside an address or an argument. */
const mask = (text: string): string => createRedactor([]).maskCredentials(text).replaceAll("[REDACTED]", HIDDEN)
