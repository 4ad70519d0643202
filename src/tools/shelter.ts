/**
 * Where the values of a server that is installed go: what is secret to `.env`, with a reference in its place; the rest into
 * mcp.json as it is.
 */
import { lookUp } from "../config/environ.ts"
import { SECRET_NAME, type World } from "../config/plan.ts"
import { isObject, type Params } from "../wire/message.ts"

export type Sheltered = {
  readonly server: Params
  /** What `.env` must have besides what it has. */
  readonly variables: Readonly<Record<string, string>>
  /** Every variable that is referred to in place of a secret. */
  readonly references: readonly string[]
}

/** Moves what is secret in `env` and `headers` out of `server`. `secret` names more of them than their names give away. */
export function shelter(server: Params, prefix: string, secret: ReadonlySet<string>, world: World): Sheltered {
  const variables: Record<string, string> = {}
  const references: string[] = []
  const moved = (section: "env" | "headers") => {
    const values = server[section]
    if (!isObject(values)) return undefined
    return Object.fromEntries(
      Object.entries(values).map(([name, value]) => {
        const written = String(value)
        const hidden = secret.has(name) || SECRET_NAME.test(name)
        if (!hidden || written === "" || REFERENCE.test(written)) return [name, value]
        const text = written.replaceAll("$$", "$")
        const variable = freeName(section === "env" ? name : `${prefix}_${name}`, prefix, text, variables, world)
        if (lookUp(variable, world) === undefined) variables[variable] = text
        references.push(variable)
        return [name, `\${${variable}}`]
      }),
    )
  }
  const env = moved("env")
  const headers = moved("headers")
  return {
    server: { ...server, ...(env === undefined ? {} : { env }), ...(headers === undefined ? {} : { headers }) },
    variables,
    references,
  }
}

/** A text that means itself: `$` begins a reference otherwise. One that is a reference as a whole stays one. */
export const literal = (text: string): string => (WHOLE.test(text) ? text : text.replaceAll("$", "$$$$"))

// ---

const REFERENCE = /(?<!\$)(?:\$\$)*\$(?:[A-Za-z_]|\{)/
const WHOLE = /^\$\{[A-Za-z_][A-Za-z0-9_]*\}$/

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
    const there = taken[name] ?? lookUp(name, world)?.value
    return (there === undefined || there === value) && !name.startsWith("SVC_")
  }
  const names = [clean(wanted), clean(`${prefix}_${wanted}`).toUpperCase()]
  for (let count = 2; ; count++) {
    const found = names.find(fits)
    if (found !== undefined) return found
    names.push(`${names[1]}_${count}`)
  }
}
