/** `svc mcp add` and `edit`: write servers to mcp.json. */
import { parseArgs } from "citty"
import {
  CONTEXT_ARGS,
  openContext,
  repeated,
  SCOPE_ARGS,
  SCOPE_NOTE,
  TAG_ARGS,
  tagsOf,
} from "../commands/command-context.ts"
import { addNewServer, editServers } from "../commands/edit-servers.ts"
import { START_ARGS } from "../commands/follow.ts"
import { parseDocument } from "../config/document.ts"
import { type Edit, patchServer, renameServer, writtenName, writtenServers } from "../config/edit.ts"
import { serverSchema } from "../config/schema.ts"
import { SUBSTITUTED_KEYS } from "../config/server-keys.ts"
import { escapeTyped, referencesIn } from "../config/substitution.ts"
import { clientFlags } from "../features/connect/client-flags.ts"
import { isRunner } from "../features/connect/pasted.ts"
import { findRemote } from "../features/tools/find-endpoint.ts"
import { urlOfHost } from "../lib/address.ts"
import { type ProgramCommand, readOptions, usageError } from "../lib/command-line.ts"
import { messageOf, RequestError } from "../lib/errors.ts"
import { mapStrings } from "../lib/json.ts"
import { didYouMean } from "../lib/nearest.ts"
import { say } from "../lib/output.ts"
import { isInteractive, promptLine } from "../lib/prompt.ts"
import { isObject, type Params } from "../wire/message.ts"
import { addServers, confirmsHiding } from "./mcp-tools.ts"

const NAME = { type: "positional", required: true, description: "Name of the server" } as const

/** The flags for the settings of a server, with the names that they have in other programs. */
const SETTINGS = {
  url: { type: "string", description: "Address of a remote server, or of a host that has a server card" },
  transport: {
    type: "string",
    alias: "t",
    description: "stdio, http, sse or streamableHttp",
    valueHint: "stdio|http|sse|streamableHttp",
  },
  type: { type: "string", description: "The same as --transport", valueHint: "stdio|http|sse|streamableHttp" },
  env: { type: "string", alias: "e", description: "Environment variable, NAME=value; may be repeated" },
  header: {
    type: "string",
    alias: "H",
    description: "HTTP header of a remote server, 'Name: value'; may be repeated",
  },
  ...TAG_ARGS,
} as const

export const YES = {
  type: "boolean",
  alias: "y",
  description: "Do not ask: move what looks like a key to .env, hide a last tool",
} as const
export const FORCE = { type: "boolean", description: "Replace an existing server of this name" } as const

export const add: ProgramCommand = {
  addressFlag: "url",
  envFlag: "env",
  meta: {
    name: "add",
    description: "Add a server: `svc mcp add NAME COMMAND ARGS…`, or `svc mcp add NAME URL`",
  },
  args: {
    name: NAME,
    ...CONTEXT_ARGS,
    ...SETTINGS,
    "client-id": { type: "string", description: "OAuth client ID of svc at the server; sets oauth.clientId" },
    "client-secret": {
      type: "boolean",
      description: "Ask for the OAuth client secret (or take it from MCP_CLIENT_SECRET)",
    },
    "callback-port": {
      type: "string",
      description: "No effect: svc receives the sign-in at its own address",
      valueHint: "port",
    },
    "bearer-token-env-var": {
      type: "string",
      description: "Environment variable that holds the bearer token of a remote server; sets the Authorization header",
      valueHint: "variable",
    },
    "exclude-tools": {
      type: "string",
      description: "Tools to hide, comma-separated; sets disabledTools",
      valueHint: "tools",
    },
    "include-tools": {
      type: "string",
      description: "No effect: `svc preset create` limits the tools",
      valueHint: "tools",
    },
    trust: { type: "boolean", description: "No effect: clients decide which calls need approval" },
    ...SCOPE_ARGS,
    force: FORCE,
    yes: YES,
    ...START_ARGS,
  },
  async run({ args, rawArgs }) {
    const name = String(args.name)
    const [command, ...rest] = programOf(rawArgs)
    if (OTHER_CLIENTS.has(name) && command === "mcp")
      throw usageError(`leave out \`${name} mcp ${rest[0] ?? "add"}\`: svc mcp ${rest.join(" ")}`)
    const { url } = args
    const transport = transportFrom(args)
    const isAddress = /^https?:\/\//i.test(name)
    if (isAddress || (isRunner(name) && command !== undefined && !isRunner(command)))
      throw usageError(`the name is missing: svc mcp add NAME ${name}${isAddress ? "" : " …"}`)
    if ((command === undefined) === (typeof url !== "string"))
      throw usageError(
        `give a command or the URL of a remote server: svc mcp add ${name} COMMAND ARGS…, or svc mcp add ${name} URL; \`svc mcp install ${name}\` looks for it in the registries`,
      )
    if (args.scope !== undefined) say(SCOPE_NOTE)
    const { env, headers, ...program } = typed({
      ...variablesOf(rawArgs),
      ...(command === undefined ? {} : programSettings(command, rest)),
    })
    if (args["callback-port"] !== undefined)
      say("--callback-port has no effect: svc receives the sign-in at its own address, or at oauth.redirectUrl")
    const flags = clientFlags(name, { trusts: args.trust === true, valuesOf: (flag) => repeated(rawArgs, flag) })
    for (const note of flags.notes) say(note)
    const oauth = await oauthOf(args)
    const tags = tagsOf(rawArgs)
    const remote = typeof url === "string" ? await remoteOf(url, transport, headers) : {}
    const allHeaders = { ...remote.headers, ...headers, ...flags.headers }
    const server: Params = {
      ...(typeof transport === "string" ? { type: transport } : {}),
      ...remote,
      ...program,
      ...(Object.keys(env).length > 0 ? { env } : {}),
      ...(Object.keys(allHeaders).length > 0 ? { headers: allHeaders } : {}),
      ...(oauth === undefined ? {} : { oauth }),
      ...(tags.length > 0 ? { tags } : {}),
      ...(flags.disabledTools.length > 0 ? { disabledTools: flags.disabledTools } : {}),
    }
    return addServers(args, addNewServer(name, server, args.force === true), [{ name, server }])
  },
}

const EDIT_ARGS = {
  name: { ...NAME, valueHint: "server" },
  patch: {
    type: "positional",
    required: false,
    description: 'JSON merge patch, such as \'{"requestTimeout": 5000, "cwd": null}\'',
  },
  ...CONTEXT_ARGS,
  ...SETTINGS,
  url: { type: "string", description: "Address of a remote server; replaces the present address or command" },
  tag: { type: "string", description: "Tags, comma-separated; replace the present tags; may be repeated" },
  arg: { type: "string", description: "Argument; replaces the present arguments; may be repeated" },
  "unset-env": { type: "string", description: "Variable to remove; may be repeated" },
  "unset-header": { type: "string", description: "Header to remove; may be repeated" },
  rename: { type: "string", description: "New name" },
  yes: YES,
  ...START_ARGS,
} as const

export const edit: ProgramCommand = {
  addressFlag: "url",
  envFlag: "env",
  meta: { name: "edit", description: "Change a server: with flags, a new command after --, or a JSON merge patch" },
  args: EDIT_ARGS,
  async run({ rawArgs }) {
    const split = rawArgs.indexOf("--")
    // Leaves out the words of the program, which citty would take for arguments.
    const args = parseArgs([...(split < 0 ? rawArgs : rawArgs.slice(0, split))], EDIT_ARGS)
    const given = typeof args.patch === "string" ? parsePatch(args.patch) : {}
    const { rename, url } = args
    const transport = transportFrom(args)
    const [command, ...rest] = programOf(rawArgs)
    if (command !== undefined && typeof url === "string") throw usageError("give a command or --url, not both")
    const [tags, words] = [tagsOf(rawArgs), repeated(rawArgs, "arg")]
    const { env, headers, ...settings } = typed({
      ...variablesOf(rawArgs),
      ...(command === undefined ? {} : programSettings(command, rest)),
      ...(typeof url === "string" ? { url: addressOf(url) } : {}),
      ...(words.length > 0 ? { args: words } : {}),
    })
    const removed = (...names: readonly string[]) =>
      Object.fromEntries(repeated(rawArgs, ...names).map((name) => [name, null]))
    const variables = { ...env, ...removed("unset-env") }
    const fields = { ...headers, ...removed("unset-header") }
    const flags: Params = {
      ...(command === undefined ? {} : { args: null, url: null, type: null }),
      ...(typeof url === "string" ? { command: null, args: null, type: null } : {}),
      ...settings,
      ...(typeof transport === "string" ? { type: transport } : {}),
      ...(tags.length > 0 ? { tags } : {}),
    }
    const isNone = Object.keys({ ...flags, ...variables, ...fields }).length === 0
    if (isNone && typeof args.patch !== "string" && typeof rename !== "string")
      throw usageError(
        "give what to change: a flag such as --env NAME=value or --rename, or a JSON merge patch such as '{\"disabled\": true}'",
      )
    const name = String(args.name)
    const whole: Edit = (text) => {
      const patched = patchServer(name, flags)(patchServer(name, given)(text))
      const changed = patchServer(name, mapsPatch(patched, name, variables, fields))(patched)
      return typeof rename === "string" ? renameServer(name, rename)(changed) : changed
    }
    const newName = typeof rename === "string" ? rename : name
    if (args.yes !== true && !(await confirmsHiding(openContext(args), name, given))) return 0
    return editServers(args, whole, `changed ${name}`, [newName])
  },
}

// ---

/** Other programs with a command `mcp add`: people paste lines with it. */
const OTHER_CLIENTS: ReadonlySet<string> = new Set(["claude", "codex", "gemini", "svc"])

/** Returns the OAuth client from the flags. Throws a RequestError (usage) if it cannot ask for the secret. */
async function oauthOf(args: Readonly<Record<string, unknown>>): Promise<Params | undefined> {
  const clientId = readOptions(args, {}).text("client-id")
  if (args["client-secret"] !== true) return clientId === undefined ? undefined : typed({ oauth: { clientId } }).oauth
  if (clientId === undefined) throw usageError("--client-secret needs --client-id")
  const { MCP_CLIENT_SECRET: given = "" } = process.env
  if (given === "" && !isInteractive())
    throw usageError("no terminal to ask for the client secret; set it in MCP_CLIENT_SECRET")
  const clientSecret = given === "" ? await promptLine("client secret: ", true) : given
  if (clientSecret === "") throw usageError("the client secret is empty")
  return { ...typed({ oauth: { clientId } }).oauth, clientSecret: clientSecret.replaceAll("$", "$$$$") }
}

/** Returns the transport from the flags. Throws a RequestError (usage) for an unknown transport. */
function transportFrom(args: Readonly<Record<string, unknown>>): string | undefined {
  const { transport = args.type } = args
  if (typeof transport !== "string") return undefined
  if (!serverSchema().shape.type.safeParse(transport).success)
    throw usageError(
      `--${args.transport === undefined ? "type" : "transport"} must be stdio, http or sse, not ${transport}`,
    )
  return transport
}

/** Returns the words after `--`: the program and its arguments. */
function programOf(rawArgs: readonly string[]): readonly string[] {
  const split = rawArgs.indexOf("--")
  return split < 0 ? [] : rawArgs.slice(split + 1)
}

/** Returns the variables and headers from the flags. */
function variablesOf(rawArgs: readonly string[]) {
  const pairs = (separator: RegExp, form: string, ...names: readonly string[]): Readonly<Record<string, string>> =>
    Object.fromEntries(
      repeated(rawArgs, ...names).map((text) => {
        const [, name, value] = separator.exec(text) ?? []
        if (name === undefined || value === undefined) throw usageError(`--${names[0]} must be ${form}`)
        return [name, value]
      }),
    )
  return {
    env: pairs(/^([^=]+)=([\s\S]*)$/, "NAME=value", "env", "e"),
    headers: pairs(/^([^:=]+)[:=]\s*([\s\S]*)$/, '"Name: value"', "header", "H"),
  }
}

const programSettings = (command: string, args: readonly string[]): Params => ({
  command,
  ...(args.length > 0 ? { args } : {}),
})

/**
 * Returns typed settings in the syntax of mcp.json, so that a server receives exactly what the person typed. A `$` is text
 * unless it begins a reference; a note says which it is, without the value. Throws a RequestError (usage) for an address as
 * the program.
 */
export function typed<T extends Params>(settings: T): T {
  const { command } = settings
  if (typeof command === "string" && /^(?!file:)[a-z][a-z0-9+.-]+:\/\//i.test(command))
    throw usageError(
      `${command} is not a program, and svc connects only to http and https addresses, such as https://mcp.example.com/mcp`,
    )
  return mapStrings(settings, (value, path) => {
    const [section, name] = path
    if (!SUBSTITUTED_KEYS.includes(String(section))) return value
    // In an `env` array an entry is NAME=value.
    const [, before = "", text = value] =
      section === "env" && typeof name === "number" ? (ENV_ENTRY.exec(value) ?? []) : []
    const escaped = escapeTyped(text)
    const member = typeof name === "string" ? name : before.slice(0, -1)
    const place = member === "" ? section : `${section}.${member}`
    for (const variable of referencesIn(escaped))
      say(`note: ${place} refers to ${variable.includes(":") ? "" : "the variable "}${variable}`)
    if (/\$[A-Za-z_]/.test(text) && escaped !== text)
      say(`note: the $ in ${place} is kept as text; \${NAME} would refer to the variable NAME`)
    return `${before}${escaped}`
  }) as T
}

const ENV_ENTRY = /^([^=]*=)([\s\S]*)$/

type RemoteServer = Params & { readonly headers?: Readonly<Record<string, unknown>> }

/**
 * Returns the remote server at an address, or finds it by the server card of a host or page and reports what it found. If a
 * transport is given, does not look for a card.
 */
async function remoteOf(
  url: string,
  transport: unknown,
  headers: Readonly<Record<string, string>>,
): Promise<RemoteServer> {
  // A list, so that the feature goes with the line that names it.
  const finders: readonly (() => Promise<RemoteServer | string>)[] = [() => findRemote(url, headers, fetch, say)]
  const found = typeof transport === "string" ? undefined : await finders[0]?.()
  return typeof found === "object" ? found : typed({ url: addressOf(found ?? url) })
}

/**
 * Returns the URL that a person means by `text`: a host without a scheme gets https, or http on this machine. A text that refers
 * to a variable stays unchanged. Throws a RequestError for any other text.
 */
function addressOf(text: string): string {
  if (/\$|\{\{/.test(text)) return text
  const host = urlOfHost(text)
  if (host !== undefined) return host.href
  if (/^https?:$/.test(URL.parse(text)?.protocol ?? "")) return text
  throw new RequestError(
    "invalid_params",
    `${text} is not an http or https address, such as https://mcp.example.com/mcp`,
  )
}

/** Returns the end of a note about a dropped key: a suggestion of the key in svc. */
export function hintFor(note: string): string {
  const [, key] = /^(\S+) is not imported$/.exec(note) ?? []
  if (key === undefined) return ""
  if (/^timeout/i.test(key)) return "; requestTimeout and connectionTimeout are in milliseconds"
  // The most similar key may mean the opposite.
  return /^enable/i.test(key) ? "" : didYouMean(key, Object.keys(serverSchema().shape))
}

/** Returns the patch for variables and headers, in the form that the server's entry already uses; null removes a value. */
function mapsPatch(
  text: string,
  given: string,
  variables: Readonly<Record<string, string | null>>,
  fields: Readonly<Record<string, string | null>>,
): Params {
  const servers = writtenServers(text)
  const { env, headers } = servers.get(writtenName(given, servers.keys()))?.server ?? {}
  const written = Object.keys(isObject(headers) ? headers : {})
  // Header names are case-insensitive.
  const spelled = (name: string) => written.find((one) => one.toLowerCase() === name.toLowerCase()) ?? name
  const isChanged = (entry: unknown) => Object.hasOwn(variables, String(entry).replace(/=[\s\S]*$/, ""))
  const added = Object.entries(variables).flatMap(([name, value]) => (value === null ? [] : [`${name}=${value}`]))
  return {
    ...(Object.keys(variables).length === 0
      ? {}
      : { env: Array.isArray(env) ? [...env.filter((entry) => !isChanged(entry)), ...added] : variables }),
    ...(Object.keys(fields).length === 0
      ? {}
      : { headers: Object.fromEntries(Object.entries(fields).map(([name, value]) => [spelled(name), value])) }),
  }
}

function parsePatch(text: string): Params {
  if (!text.trimStart().startsWith("{"))
    throw usageError(
      `"${text}" is not a JSON merge patch; put a new command after --: svc mcp edit NAME -- COMMAND ARGS…`,
    )
  return parseObject(text, "the patch")
}

export function parseObject(text: string, what: string): Params {
  try {
    return parseDocument(text, what).value
  } catch (error) {
    throw usageError(messageOf(error))
  }
}
