/**
 * Nothing that a person has not agreed to is run: the exact command is put to them where the client can ask, and where it
 * cannot, the operator decides once with `--confirm-installs`. choice: Internal tools.
 */
import { HIDDEN } from "../config/effective.ts"
import { escaped, printable } from "../lib/log.ts"
import { isSecretName } from "../lib/secret-names.ts"
import { isObject, type Params } from "../wire/message.ts"
import { type Context, ToolError } from "./tool.ts"

/**
 * Throws a ToolError where nobody agrees. `server` is what would be written, `secret` names what is secret in it. The
 * person sees the command as it is: what looks like a secret in it may be code that hides there.
 */
export async function confirm(
  { person, trusted }: Context,
  what: string,
  server: Params,
  secret?: ReadonlySet<string>,
): Promise<void> {
  const command = commandOf(server, secret)
  if (person !== undefined) {
    if (await person.agrees(`${visible(what)}?\n\n${command}`, "Yes, run exactly this")) return
    throw new ToolError("declined", "The person declined: nothing was changed", { command })
  }
  if (trusted) return
  throw new ToolError(
    "confirmation_required",
    "A person must agree to this first, and this client cannot ask one (it does not support elicitation). " +
      "Show the command to the person and let them run `svc mcp install` or `svc mcp edit` in a terminal, or let them start svc with --confirm-installs off.",
    { command },
  )
}

/**
 * What a server runs or connects to, and what it gets to see, in one line. Of what is secret by its name, or is named in
 * `secret`, there are only the variables that it refers to.
 */
export function commandOf(server: Params, secret: ReadonlySet<string> = new Set()): string {
  const { command, args, url, env, headers, cwd, inheritParentEnv, envFilter } = server
  const shown = ([name, value]: readonly [string, string | undefined]): string => {
    if (value === undefined) return visible(name)
    const hidden = secret.has(name) || isSecretName(name)
    return `${visible(name)}=${hidden ? (value.match(REFERENCES) ?? [HIDDEN]).join("") : quoted(value)}`
  }
  const settings = [
    ...[...named(env), ...named(headers)].map(shown),
    ...(inheritParentEnv === undefined ? [] : [`inheritParentEnv=${JSON.stringify(inheritParentEnv)}`]),
    ...(envFilter === undefined ? [] : [`envFilter=${JSON.stringify(envFilter)}`]),
  ]
  return [
    typeof url === "string" ? `connect to ${visible(url)}` : quoted(String(command)),
    ...(Array.isArray(args) ? args.map((part) => quoted(String(part))) : []),
    ...(typeof cwd === "string" ? [`in ${quoted(cwd)}`] : []),
    ...(settings.length === 0 ? [] : [`with ${settings.join(" ")}`]),
  ].join(" ")
}

// ---

/** The members of `env` or `headers`; of an `env` array a name alone has no value. */
const named = (section: unknown): readonly (readonly [string, string | undefined])[] =>
  Array.isArray(section)
    ? section.map((one) => {
        const [name = "", ...rest] = String(one).split("=")
        return [name, rest.length === 0 ? undefined : rest.join("=")]
      })
    : Object.entries(isObject(section) ? section : {}).map(([name, value]) => [name, String(value)])

const REFERENCES = /\$(?:[A-Za-z_]\w*|\{[^}]*\})/g

/** Nothing in it is invisible, makes a line of its own or turns the direction of what stands beside it. */
const visible = (text: string): string => escaped(printable(text))

const quoted = (part: string): string => (/^[\w@%+=:,./~${}-]+$/.test(part) ? part : visible(JSON.stringify(part)))
