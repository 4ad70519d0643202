/**
 * Nothing that a person has not agreed to is run, or changes what other clients' models read: the person is shown all of it,
 * uncut, where the client can ask. Where it cannot, the operator decides once with `--confirm-installs` and
 * `--confirm-edits`. choice: Internal tools.
 */
import { isDeepStrictEqual } from "node:util"
import { HIDDEN } from "../config/effective.ts"
import { OPTION_NAME } from "../config/plan.ts"
import { visible } from "../lib/log.ts"
import { isSecretName } from "../lib/secret-names.ts"
import { isObject, type Params } from "../wire/message.ts"
import { type ToolContext, ToolError } from "./tool.ts"

/** What a person is asked: `shown` is what they agree to, made by `commandOf`, `settingsOf` and `changedSettings`. */
export type Question = { readonly what: string; readonly shown: string }

/** What must be agreed to: what runs, or what other clients' models read. Each has an option to do without. */
export type Consent = keyof ToolContext["trusted"]

/** Asks a person once. Throws a ToolError where nobody agrees, and nobody need not be asked. */
export async function confirm(
  { person, trusted }: ToolContext,
  consents: readonly [Consent, ...Consent[]],
  { what, shown }: Question,
): Promise<void> {
  if (person !== undefined) {
    const yes = `Yes, ${consents.includes("installs") ? "run" : "change"} exactly this`
    if (await person.agrees(`${visible(what)}?\n\n${shown}`, yes)) return
    throw new ToolError("declined", "The person declined: nothing was changed", { command: shown })
  }
  const lacking = consents.filter((consent) => !trusted[consent]).map((consent) => `--confirm-${consent} off`)
  if (lacking.length === 0) return
  throw new ToolError(
    "confirmation_required",
    "A person must agree to this first, and this client cannot ask one (it does not support elicitation). Show it to the person " +
      `and let them do it in a terminal (\`svc mcp install\`, \`edit\`, \`enable\`, \`disable\`, \`uninstall\`), or let them start svc with ${lacking.join(" and ")}.`,
    { command: shown },
  )
}

/**
 * What a server runs or connects to, and what it gets to see, in one line, uncut. Hidden is only what the person typed:
 * values in `typed` (`writtenValues` of it) under names that are secret by their looks or in `secret`. What a registry, a
 * bundle or a file has fixed is shown, whatever it is called: it may be code that hides there.
 */
export function commandText(server: Params, typed: Params = {}, secret: ReadonlySet<string> = new Set()): string {
  const { command, args, url, cwd, inheritParentEnv, envFilter, oauth } = server
  const isHidden = (name: string, value: unknown): boolean =>
    Object.hasOwn(typed, name) &&
    typed[name] === value &&
    (secret.has(name) || isSecretName(name)) &&
    !OPTION_NAME.test(name)
  const shown = (name: string, value: unknown): unknown =>
    typeof value === "string" && isHidden(name, value) ? onlyReferences(value) : value
  const settings = [
    ...valuesIn(server).map(([name, value]) =>
      value === undefined ? quoted(name) : `${quoted(name)}=${quoted(String(shown(name, value)))}`,
    ),
    ...(inheritParentEnv === undefined ? [] : [`inheritParentEnv=${asJson(inheritParentEnv)}`]),
    ...(envFilter === undefined ? [] : [`envFilter=${asJson(envFilter)}`]),
    ...(isObject(oauth)
      ? [
          `oauth=${asJson(Object.fromEntries(Object.entries(oauth).map(([name, value]) => [name, shown(name, value)])))}`,
        ]
      : []),
  ]
  return [
    typeof url === "string" ? `connect to ${quoted(url, PLAIN_ADDRESS)}` : quoted(String(command ?? "")),
    ...(Array.isArray(args) ? args.map((part) => quoted(String(part))) : []),
    ...(typeof cwd === "string" ? [`in ${quoted(cwd)}`] : []),
    ...(settings.length === 0 ? [] : [`with ${settings.join(" ")}`]),
  ].join(" ")
}

/** The values of a server that may be secret, by their names: `env`, `headers` and the client secret. */
export const writtenValues = (server: Params): Params => ({
  ...Object.fromEntries(valuesIn(server).filter(([, value]) => value !== undefined)),
  ...(isObject(server.oauth) ? { clientSecret: server.oauth.clientSecret } : {}),
})

/** What `commandOf` leaves out of a server, a line for each setting. */
export const settingsOf = (server: Params): readonly string[] => changedSettings({}, server)

/** How settings that `commandOf` leaves out differ, a line for each. */
export const changedSettings = (before: Params, after: Params): readonly string[] =>
  changedKeys(before, after).flatMap((key) => {
    if (IN_COMMAND.has(key)) return []
    const [from, to] = [before[key], after[key]].map((value) => (value === undefined ? "nothing" : asJson(value)))
    return [before[key] === undefined ? `${visible(key)}: ${to}` : `${visible(key)}: ${from} -> ${to}`]
  })

/** The settings in which two servers differ. */
export const changedKeys = (before: Params, after: Params): readonly string[] =>
  [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (key) => !isDeepStrictEqual(before[key], after[key]),
  )

// ---

/** What `commandOf` shows, and what says where a server came from. */
const IN_COMMAND: ReadonlySet<string> = new Set([
  "command",
  "args",
  "url",
  "env",
  "headers",
  "cwd",
  "inheritParentEnv",
  "envFilter",
  "oauth",
  "installedFrom",
])

/** The members of `env` and `headers`; of an `env` array a name alone has no value. */
const valuesIn = ({ env, headers }: Params): readonly (readonly [string, string | undefined])[] =>
  [env, headers].flatMap((section) =>
    Array.isArray(section)
      ? section.map((one): readonly [string, string | undefined] => {
          const [name = "", ...rest] = String(one).split("=")
          return [name, rest.length === 0 ? undefined : rest.join("=")]
        })
      : Object.entries(isObject(section) ? section : {}).map(([name, value]) => [name, String(value)] as const),
  )

/** A hidden value: the variables that it refers to, and that there is more. */
const onlyReferences = (value: string): string =>
  value.replace(REFERENCE_OR_TEXT, (text, reference: string | undefined) => (reference === undefined ? HIDDEN : text))

/** `$$` is a dollar of the text's own. */
const REFERENCE_OR_TEXT = /(\$(?:[A-Za-z_]\w*|\{[^}]*\}))|(?:\$\$|[^$]|\$(?![A-Za-z_{]))+/g

const asJson = (value: unknown): string => visible(JSON.stringify(value))

/** A word as it is, or in quotes where it could be read as several or as a word of svc's own. */
const quoted = (part: string, plain = /^[\w@%+=:,./~${}•-]+$/): string =>
  plain.test(part) && part !== "in" && part !== "with" ? part : asJson(part)

const PLAIN_ADDRESS = /^[\w@%+=:,./~${}?&#;!*()'•-]+$/
