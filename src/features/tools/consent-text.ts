/**
 * The texts that a person sees before svc runs something new, or changes what other clients' models read. choice: Internal tools.
 *
 *  1. The person sees everything in full: the command, its arguments and environment, and the additions of `serverDefaults`. Only
 *     a value under a secret name, or one that looks like a key, may be hidden. A command, an argument and a url are shown, even if a
 *     registry calls them secret; only at a terminal, a key is hidden that the caller passed or that was in mcp.json, unless it could
 *     be code.
 *  2. In a client, no value counts as typed by the person, because the assistant passed the arguments. A value under a secret name
 *     is shown, unless it is only a reference, or was in mcp.json before, where the person put it.
 *  3. The question at a terminal consists of the answer to a dry run: there, the person typed the values that the caller passed.
 *  4. Values from a registry, a bundle or a file are shown, whatever their names, because code may hide in them.
 *  5. A server with both a command and a url is refused: only one of them is used, and the person might agree to the other.
 *  6. An answer to a model shows no secret and no header's value.
 */

import { applyDefaults } from "../../config/defaults.ts"
import { parseDocument } from "../../config/document.ts"
import {
  fillPlaceholders,
  maskPlaceholders,
  NO_SECRETS,
  type SecretLocations,
} from "../../config/externalize-secrets.ts"
import { keyText, withoutKeys } from "../../config/found-keys.ts"
import type { ServerConfig } from "../../config/schema.ts"
import { isRemote, readSections, withAliases } from "../../config/sections.ts"
import { transportOf } from "../../config/server-keys.ts"
import { commandText, type Hides, hidesSecrets, settingsText } from "../../config/server-text.ts"
import { writtenValues } from "../../config/written-values.ts"
import { isObject, type Params } from "../../wire/message.ts"
import { type ToolContext, ToolError } from "./tool.ts"

/** The question to a person about a server, and its text for the result. */
export type Question = {
  /** What will happen, in words. */
  readonly what: string
  /** The details to which the person agrees. */
  readonly shown: string
  /** The same details with the caller's secrets hidden. */
  readonly masked: string
}

/** The server in a question. */
export type Proposal = {
  /** The server as mcp.json would contain it, with placeholders for secrets within texts. */
  readonly server: Params
  readonly secrets?: Omit<SecretLocations, "kept">
  /** The values that are already in mcp.json, by name (`writtenValues`). */
  readonly kept?: Params
  /** The values that the caller passed, by name, in mcp.json's syntax. */
  readonly given?: Params
  /** The server as the caller passed it or as it is in mcp.json: keys in its command, arguments and url are hidden, except in a client. */
  readonly known?: Params
  /** The text of mcp.json if the server will run: its `serverDefaults` are shown. */
  readonly config?: string
  /** Further lines: settings that the command does not show. */
  readonly lines?: readonly string[]
}

/** The audience of a text about a server: a person at a client, a person at a terminal, or a model that reads an answer. */
export type Audience = "client" | "terminal" | "model"

/** Returns the audience of a tool's answer. */
export const audienceOf = ({ terminal }: Pick<ToolContext, "terminal">): Audience =>
  terminal === undefined ? "model" : "terminal"

/** Returns the command or address of the server, without values that the audience must not see. */
export function commandFor(
  audience: Audience,
  { server, secrets = NO_SECRETS, kept = {}, given, known = {} }: Proposal,
): string {
  switch (audience) {
    case "client":
      return commandText(fillPlaceholders(server, secrets), hidesSecrets(kept))
    case "terminal":
      return commandText(
        fillPlaceholders(withoutKnownKeys(server, known), secrets),
        hidesSecrets({ ...kept, ...given }),
      )
    case "model":
      return commandText(
        maskPlaceholders(withoutKnownKeys(server, known), secrets),
        andHeaders(hidesSecrets({ ...kept, ...given }, secrets.names)),
      )
  }
}

/**
 * Returns the question whether to make the proposed change. Throws a ToolError if a server that will run has both a command and
 * a url.
 */
export function questionOn(what: string, proposal: Proposal): Question {
  const { server, config, lines = [] } = proposal
  if (config !== undefined) requireOneTarget(server)
  const textFor = (audience: Audience): string => {
    const inherited = config === undefined ? undefined : inheritedText(audience, server, config)
    const added = inherited === undefined ? [] : [`serverDefaults adds: ${inherited}`]
    return [commandFor(audience, proposal), ...added, ...lines].join("\n")
  }
  return { what, shown: textFor("client"), masked: textFor("model") }
}

/** Returns what `serverDefaults` in mcp.json adds to the text of `commandText`; undefined for nothing. */
export function inheritedText(audience: Audience, server: Params, config: string): string | undefined {
  const { defaults } = readSections(parseDocument(config, "mcp.json"))
  // The parts that are read here have been validated.
  const written = server as ServerConfig
  const transport = transportOf(written)
  if (transport === undefined) return undefined
  const { config: effective, origins } = applyDefaults(written, defaults, transport)
  const inherited = Object.fromEntries(
    Object.entries(effective).flatMap(([key, value]): [string, unknown][] => {
      if (origins[key]?.includes("default") !== true) return []
      const own = server[key]
      if (!isObject(value) || !isObject(own)) return [[key, value]]
      return [[key, Object.fromEntries(Object.entries(value).filter(([name]) => !Object.hasOwn(own, name)))]]
    }),
  )
  const hides = hidesSecrets(writtenValues(inherited))
  const text = settingsText(inherited, audience === "model" ? andHeaders(hides) : hides)
  return text === "" ? undefined : text
}

// ---

/** Hides the keys in the command, the arguments and the url of a server that another one has, too. */
function withoutKnownKeys(server: Params, known: Params): Params {
  const { command, url, args } = withAliases(known)
  const texts = [command, url, ...(Array.isArray(args) ? args : [])]
  const written = withAliases(server)
  const { env, headers, oauth, ...launch } = written
  const shown = withoutKeys(launch, (key) => {
    const [section = "", index] = key.path
    const value = launch[section]
    return texts.includes(index === undefined ? value : (value as Params)[index]) && NO_CODE.test(keyText(launch, key))
  })
  return { ...written, ...shown }
}

/** Characters of keys: with others, a text could be code of a shell. */
const NO_CODE = /^[\w+/=.:~@%-]+$/

/** Throws a ToolError if a server has both a command and a url. */
function requireOneTarget(server: Params): void {
  const { command, url } = withAliases(server)
  if (command === undefined || url === undefined) return
  const used = isRemote(server) ? "url" : "command"
  throw new ToolError(
    "invalid_argument",
    `The server would have both a command and a url, but svc would use only the ${used}; remove one of them (null in a patch)`,
  )
}

/** Also hides the values of all headers, because a header of any name may authorize. */
const andHeaders =
  (hides: Hides): Hides =>
  (name, value, section) =>
    section === "headers" || hides(name, value, section)
