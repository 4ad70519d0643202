/**
 * Effective values of a server and their sources, for people: its configuration with defaults, references resolved and
 * secrets hidden. spec: serverDefaults, `svc mcp status --verbose`.
 */

import { createRedactor } from "../lib/redact.ts"
import { isSecretName } from "../lib/secret-names.ts"
import { isObject } from "../wire/message.ts"
import { applyDefaults, type ValueOrigin } from "./defaults.ts"
import type { Document } from "./document.ts"
import { lookUpVariable } from "./environment.ts"
import { isSecretSetting } from "./oauth-settings.ts"
import type { HostEnvironment } from "./plan.ts"
import { type DefaultsConfig, type ServerConfig, transportOf } from "./schema.ts"
import { type NamedServer, readSections } from "./sections.ts"
import { substitute } from "./substitution.ts"

/** One effective value: a dotted key, its value as text, and all of its sources. */
export type EffectiveValue = {
  readonly key: string
  readonly value: string
  readonly from: readonly (ValueOrigin | "env" | ".env")[]
}

/** Stands for a secret in what people see. */
export const HIDDEN = "•••"

/** Returns the effective values of a server of a document, or undefined if it is missing or invalid. */
export function effectiveOf(
  document: Document,
  name: string,
  world: HostEnvironment,
  showSecrets: boolean,
): readonly EffectiveValue[] | undefined {
  const { defaults, servers, templates } = readSections(document)
  const named: NamedServer | undefined = [...templates, ...servers].find((server) => server.name === name)
  return named?.config === undefined ? undefined : effectiveServer(named.config, defaults, world, showSecrets)
}

/** Returns the effective values of a server, or undefined if it has neither a command nor a url. */
export function effectiveServer(
  written: ServerConfig,
  defaults: DefaultsConfig,
  world: HostEnvironment,
  showSecrets: boolean,
): readonly EffectiveValue[] | undefined {
  const transport = transportOf(written)
  if (transport === undefined) return undefined
  const row = (key: string, name: string | undefined, value: unknown, from: readonly ValueOrigin[]) =>
    rowOf({ key, name, value, from }, world, showSecrets)
  const { config, origins } = applyDefaults(written, defaults, transport)
  return [
    { key: "type", value: transport, from: [written.type === undefined ? "built-in" : "server"] },
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
  ]
}

// ---

/** spec: Environment substitution, supported places. */
const SUBSTITUTED: ReadonlySet<string> = new Set(["command", "args", "cwd", "env", "url", "headers", "oauth"])

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
  const row = (text: string, more: readonly ("env" | ".env")[] = []) => ({
    key: name === undefined ? key : `${key}.${name}`,
    value: text,
    from: [...new Set([...from, ...more])],
  })
  const texts = (Array.isArray(value) ? value : [value]).map((part: unknown) =>
    typeof part === "string" ? part : JSON.stringify(part),
  )
  const list = (shown: readonly string[]) => (Array.isArray(value) ? `[${shown.join(", ")}]` : shown.join())
  if (!SUBSTITUTED.has(key)) return row(list(texts))
  const sources: ("env" | ".env")[] = []
  const resolved = texts.map(
    (text) =>
      substitute(text, (variable) => {
        const found = lookUpVariable(variable, world)
        if (found === undefined) return undefined
        sources.push(found.from)
        return showSecrets ? found.value : HIDDEN
      }).text,
  )
  if (showSecrets) return row(list(resolved), sources)
  const secret = key === "headers" || (name !== undefined && (key === "oauth" ? isSecretSetting : isSecretName)(name))
  const hidden = resolved.map((text, index) => {
    const flag = /^--?\w/.test(texts[index - 1] ?? "") && isSecretName(texts[index - 1] ?? "")
    if (!secret && !flag) return mask(text)
    // A secret shows nothing but the scheme before a reference.
    return /^(\w+ )?•••$/.test(text) ? text : HIDDEN
  })
  return row(list(hidden), sources)
}

/** Hides credentials inside an address or an argument. */
const mask = (text: string): string => createRedactor([]).maskCredentials(text).replaceAll("[REDACTED]", HIDDEN)
