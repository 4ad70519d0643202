/**
 * What each server gets and where from, for people: its configuration with its defaults, references resolved, secrets
 * hidden. spec: serverDefaults, `svc mcp status --verbose`.
 */
import { isObject } from "../wire/message.ts"
import { applyDefaults, type Origin } from "./defaults.ts"
import type { Document } from "./document.ts"
import { SECRET_NAME, type World } from "./plan.ts"
import { type Named, readSections, transportOf } from "./schema.ts"
import { substitute } from "./substitute.ts"

/** One effective value: a dotted key, its value as text, and all the places it came from. */
export type Effective = {
  readonly key: string
  readonly value: string
  readonly from: readonly (Origin | "env" | ".env")[]
}

export const HIDDEN = "•••"

/** The effective values of a server, or undefined where it is not in the document or not understood. */
export function effectiveOf(
  document: Document,
  name: string,
  world: World,
  showSecrets: boolean,
): readonly Effective[] | undefined {
  const { defaults, servers, templates } = readSections(document)
  const named: Named | undefined = [...templates, ...servers].find((server) => server.name === name)
  const transport = named?.config === undefined ? undefined : transportOf(named.config)
  if (named?.config === undefined || transport === undefined) return undefined
  const written = named.config
  const { config, origins } = applyDefaults(written, defaults, transport)
  const rows: Effective[] = [
    { key: "type", value: transport, from: [written.type === undefined ? "built-in" : "server"] },
  ]
  for (const [key, value] of Object.entries(config)) {
    if (key === "type" || value === undefined) continue
    const inner = isObject(value)
      ? Object.entries(value).map(([name, item]) => [`${key}.${name}`, item, name] as const)
      : [[key, value, key] as const]
    for (const [path, item, last] of inner) {
      const merged = key === "env" && isObject(written.env) && !Object.hasOwn(written.env, last)
      const origin: Origin = merged ? "default" : (origins[key] ?? "server")
      rows.push(
        rowOf(
          path,
          item,
          origin,
          SUBSTITUTED.has(key),
          SECRET_KEYS.has(key) || SECRET_NAME.test(last),
          world,
          showSecrets,
        ),
      )
    }
  }
  return rows
}

// ---

/** spec: Environment substitution, supported places. */
const SUBSTITUTED: ReadonlySet<string> = new Set(["command", "args", "cwd", "env", "url", "headers", "oauth"])
const SECRET_KEYS: ReadonlySet<string> = new Set(["headers"])

function rowOf(
  key: string,
  item: unknown,
  origin: Origin,
  substituted: boolean,
  secret: boolean,
  world: World,
  showSecrets: boolean,
): Effective {
  const from = new Set<Origin | "env" | ".env">([origin])
  let referred = false
  const text = (part: unknown): string => {
    if (typeof part !== "string") return JSON.stringify(part)
    if (!substituted) return part
    return substitute(part, (name) => {
      const parent = world.parent[name]
      const value = parent ?? world.dotenv[name]
      if (value === undefined) return undefined
      from.add(parent === undefined ? ".env" : "env")
      referred = true
      return showSecrets ? value : HIDDEN
    }).text
  }
  const shown = Array.isArray(item) ? `[${item.map(text).join(", ")}]` : text(item)
  return { key, value: secret && !showSecrets && !referred ? HIDDEN : shown, from: [...from] }
}
