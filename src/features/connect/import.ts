/** Imports servers from the configuration of other applications. Pure: paths and texts in, entries of mcp.json out. */
import { join } from "node:path"
import { isDeepStrictEqual } from "node:util"
import type { Path } from "../../config/document.ts"
import { writtenServers } from "../../config/edit.ts"
import { flagIn, isAddressOf, isSvcCommand } from "../../config/own-service.ts"
import { type HostEnvironment, nameProblem, planServer } from "../../config/plan.ts"
import { oauthSchema, serverSchema } from "../../config/schema.ts"
import { IGNORED_KEYS } from "../../config/sections.ts"
import { SUBSTITUTED_KEYS } from "../../config/server-keys.ts"
import { SEPARATOR } from "../../config/server-spec.ts"
import { mapStrings } from "../../lib/json.ts"
import { lazy } from "../../lib/lazy.ts"
import { schemaProblem } from "../../lib/schema-problem.ts"
import { standardDirectory } from "../../store/paths.ts"
import { isSwitchedOff } from "../../template/instance.ts"
import { isObject, type Params } from "../../wire/message.ts"
import { type ClientEdit, readClientDocument, valueIn } from "./client-edit.ts"

/** A server of another application. `problem` says why it cannot be imported; `notes` name settings that are dropped. */
export type ForeignServer = {
  readonly name: string
  /** The folder of the server's project, in a file of all projects (Claude Code's scope `local`). */
  readonly project: string | undefined
  /** Its place in the document. */
  readonly path: Path
  readonly server: Params
  readonly notes: readonly string[]
  readonly problem: string | undefined
}

/**
 * Reads the servers, including those of all projects, in a file of any client. Recognizes the format by the members of the
 * document. Throws a ConfigError if the text is malformed.
 */
export function readForeignServers(text: string, file: string): readonly ForeignServer[] {
  const value = readClientDocument(inSection(text), file)
  const projects = Object.entries(isObject(value.projects) ? value.projects : {})
  const off = switchedOff(value)
  const sections: readonly Section[] = [
    ...SECTIONS.flatMap((path) => sectionsAt(value, path)),
    ...projects.map(([folder]) => ({ path: ["projects", folder, "mcpServers"], project: folder })),
  ]
  // A file that is only a section: its members are servers.
  const all =
    sections.some(({ path }) => valueIn(value, path) !== undefined) || /[\\/]settings\.json$/.test(file)
      ? sections
      : [{ path: [], project: undefined }]
  return all.flatMap(({ path, project }) =>
    entriesOf(valueIn(value, path)).flatMap(([key, name, entry]): readonly ForeignServer[] => {
      const place = { project, path: [...path, key] }
      if (!isObject(entry)) {
        const only = OF_SERVERS.includes(String(path.at(-1)))
        return only ? [{ name, ...place, server: {}, notes: [], problem: "it must be an object" }] : []
      }
      if (BUILT_IN.includes(String(entry.type)) || (path.length === 0 && !isServer(entry))) return []
      const found = convert(name, entry, formOf(file))
      const server = off(name, project) ? { ...found.server, disabled: true } : found.server
      return [{ ...found, server, ...place }]
    }),
  )
}

/** Returns a document that is a list of servers, in JSON or YAML, as the section of a document. */
function inSection(text: string): string {
  if (/^\uFEFF?\s{0,1000}\[\s{0,1000}\{/.test(text)) return `{"mcpServers":${text.replace(/^\uFEFF/, "")}}`
  return /^(?:#.*\r?\n)*- /.test(text) ? `mcpServers:\n${text}` : text
}

/** A server at its place: in a project's folder, or as a template of each project. */
export type PlacedServer = { readonly server: Params; readonly isTemplate: boolean; readonly note?: string }

/**
 * Returns a server with the folder of its project in place of `${workspaceFolder}` and of relative paths. Without such a folder it becomes
 * a template, which is rendered for the project of each client. `exists` tells whether the folder has a file.
 */
export function placed(server: Params, folder: string | undefined, exists: (file: string) => boolean): PlacedServer {
  const uses = (pattern: RegExp) => pattern.test(JSON.stringify(server))
  if (folder === undefined) {
    if (!uses(WORKSPACE)) return { server, isTemplate: false }
    if (uses(/\{\{/))
      return { server, isTemplate: false, note: "svc does not know ${workspaceFolder}: write the folder in its place" }
    const template = mapStrings(server, (text) => text.replace(ALL_WORKSPACES, "{{project.path}}")) as Params
    return {
      server: template,
      isTemplate: true,
      note: "becomes a template: ${workspaceFolder} is the project of each client",
    }
  }
  const here = mapStrings(server, (text) => text.replace(ALL_WORKSPACES, () => folder)) as Params
  const { command, args, cwd } = here
  if (command === undefined) return { server: here, isTemplate: false }
  if (typeof cwd === "string" && cwd !== "" && !/^(?:[\\/~$]|[a-z]:)/i.test(cwd))
    return { server: { ...here, cwd: join(folder, cwd) }, isTemplate: false }
  const words = [command, ...(Array.isArray(args) ? args : [])].map(String)
  const isRelative = (word: string, at: number) =>
    /^\.{1,2}(?:[\\/]|$)/.test(word) ||
    // A file of the project, such as `src/server.mjs`; an option, an address or the name of a package is none.
    (at > 0 && /^[\w@]/.test(word) && /[\\/.]/.test(word) && !/[:\s]/.test(word) && exists(join(folder, word)))
  return { server: cwd === undefined && words.some(isRelative) ? { ...here, cwd: folder } : here, isTemplate: false }
}

/** Whether an entry points to svc itself, which clients reach at `addresses`: svc must not offer its own tools twice. */
export const isSvc = ({ command, args, url }: Params, addresses: readonly string[]): boolean =>
  typeof url === "string"
    ? isAddressOf(url, addresses)
    : isSvcCommand(String(command), Array.isArray(args) ? args.map(String) : [])

/** Returns the presets that an entry for svc selects. */
export function presetsIn({ url, args }: Params): readonly string[] {
  const query = typeof url === "string" ? (URL.parse(url)?.searchParams.get("preset") ?? "") : undefined
  const words = Array.isArray(args) ? args.map(String) : []
  return (query ?? flagIn(words, "preset") ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "")
}

/** Returns the configuration directory of an entry that starts svc. */
export const directoryIn = ({ args }: Params, host: Parameters<typeof standardDirectory>[0]): string =>
  flagIn(Array.isArray(args) ? args.map(String) : [], "config-dir") ?? standardDirectory(host)

/** Whether two entries run the same command, or reach the same address, with the same settings. References are resolved. */
export function isSameServer(one: Params, other: Params, world: HostEnvironment): boolean {
  const [first, second] = [one, other].map((server) => launchOf(server, world))
  return first !== undefined && second !== undefined && isDeepStrictEqual(first, second)
}

/**
 * Returns the entries of a client that are equal to an enabled server in svc's mcp.json, whose text is `config`. `includes`
 * selects svc's servers by their tags.
 */
export function servedEntries(
  entries: readonly ForeignServer[],
  config: string,
  world: HostEnvironment,
  includes: (tags: readonly string[]) => boolean = () => true,
): readonly ForeignServer[] {
  const served = [...writtenServers(config)].flatMap(([name, { section, server }]) =>
    section !== "mcpTemplates" && !isSwitchedOff(name, section, server) && includes(tagsOf(server)) ? [server] : [],
  )
  // svc does not edit lists.
  const named = entries.filter(({ path }) => path.every((key) => typeof key === "string"))
  return named.filter((entry) => served.some((server) => isSameServer(entry.server, server, world)))
}

/**
 * Returns the edits of the lists beside a client's servers that let the client start servers by their names (`isOn`), or that
 * take their names away again. Each edit is of a whole list: the place of a member in it does not last.
 */
export function listEdits(document: unknown, names: readonly string[], isOn: boolean): readonly ClientEdit[] {
  const edits = (paths: readonly Path[], changed: (list: readonly unknown[]) => readonly unknown[]) =>
    paths.flatMap((path): readonly ClientEdit[] => {
      const list = valueIn(document, path)
      const value = Array.isArray(list) ? changed(list) : list
      return isDeepStrictEqual(value, list) ? [] : [{ path, value }]
    })
  const without = (list: readonly unknown[]) => list.filter((one) => !names.some((name) => name === one))
  if (!isOn) return edits(ALLOWED, without)
  const withNames = (list: readonly unknown[]) => [...list, ...names.filter((name) => !list.includes(name))]
  return [...edits(ALLOWED, withNames), ...edits(EXCLUDED, without)]
}

/** Returns the names of the sections within a section. */
export const nestedSections = (section: unknown): readonly string[] =>
  NESTED.filter((key) => isObject(section) && isSection(section[key]))

// ---

const tagsOf = ({ tags }: Params): readonly string[] => (Array.isArray(tags) ? tags.map(String) : [])

/** Returns the launch of a server without the settings that only svc has; undefined if it cannot run. */
function launchOf(server: Params, world: HostEnvironment): unknown {
  const { command, args, cwd, env, url, headers } = server
  const parsed = serverSchema().safeParse(url === undefined ? { command, args, cwd, env } : { url, headers })
  const planned = parsed.success ? planServer("server", "server", parsed.data, {}, world) : undefined
  return planned !== undefined && "spec" in planned ? planned.spec.launch : undefined
}

type Section = { readonly path: Path; readonly project: string | undefined }

/** The members in which clients keep their servers. Some have dots in their names. */
const SECTIONS: readonly (readonly string[])[] = [
  ["mcpServers"],
  ["servers"],
  ["mcp_servers"],
  ["context_servers"],
  ["mcp"],
  ["extensions"],
  ["amp.mcpServers"],
  ["cody.mcpServers"],
  ["mcp.servers"],
  ["experimental", "modelContextProtocolServers"],
  ["settings", "mcp"],
  ["customizations", "vscode", "mcp"],
  ["augment.advanced", "mcpServers"],
]
/** Members of a section that are sections themselves: `mcp: {servers: …}`. */
const NESTED: readonly string[] = ["servers", "mcpServers"]

/** Sections that have only servers. */
const OF_SERVERS: readonly string[] = ["mcpServers", "mcp_servers", "context_servers"]

/** The lists of Gemini CLI, in its settings and in older ones: the only servers that it starts, and those that it does not. */
const ALLOWED: readonly Path[] = [["mcp", "allowed"], ["allowMCPServers"]]
const EXCLUDED: readonly Path[] = [["mcp", "excluded"], ["excludeMCPServers"]]

/** Returns whether a client keeps a server switched off by its name, beside the servers: Gemini CLI does, and Claude Code. */
function switchedOff(value: Params): (name: string, project: string | undefined) => boolean {
  const listAt = (path: Path): readonly unknown[] | undefined => {
    const list = valueIn(value, path)
    return Array.isArray(list) ? list : undefined
  }
  const off = EXCLUDED.flatMap((path) => listAt(path) ?? [])
  const on = ALLOWED.map(listAt).find((list) => list !== undefined)
  return (name, project) =>
    off.includes(name) ||
    on?.includes(name) === false ||
    (project !== undefined && listAt(["projects", project, "disabledMcpServers"])?.includes(name) === true)
}

/** Returns the sections at a path: the section itself, or those within it. */
function sectionsAt(value: Params, path: readonly string[]): readonly Section[] {
  const section = valueIn(value, path)
  return [path, ...nestedSections(section).map((key) => [...path, key])].map((at) => ({ path: at, project: undefined }))
}

/** Whether a value is a section rather than a server of that name. */
const isSection = (value: unknown): boolean =>
  Array.isArray(value) || (isObject(value) && !isServer(value) && Object.values(value).every(isObject))

/** Whether an object is a server, in the words of any client. */
const isServer = (value: Params): boolean =>
  ["command", "url", "httpUrl", "serverUrl", "cmd", "uri", "transport"].some((key) => value[key] !== undefined)

/** Returns the entries of a section, an object or a list: the key, the name and the value of each. */
function entriesOf(section: unknown): readonly (readonly [key: string | number, name: string, entry: unknown])[] {
  if (!Array.isArray(section))
    return Object.entries(isObject(section) ? section : {}).flatMap(([key, entry]) =>
      NESTED.includes(key) && isSection(entry) ? [] : [[key, key, entry] as const],
    )
  return section.map((entry: unknown, index) => {
    const { name, id, key, title } = isObject(entry) ? entry : {}
    const given = [name, id, key, title].find((one) => typeof one === "string" && one !== "")
    return [index, typeof given === "string" ? given : `server-${index + 1}`, entry]
  })
}

/** Types of entries of goose that are not MCP servers. */
const BUILT_IN: readonly string[] = ["builtin", "platform", "frontend", "inline_python"]

/** How a file is read. */
type Form = {
  /** Which `$` in a value refer to the environment in an application: none, those before braces, or all. */
  readonly dollars: "literal" | "braces" | "references"
  /** The unit of `timeout` in milliseconds, in files of clients in which it limits requests; undefined in others. */
  readonly unit: number | undefined
  /** The same for headers, where they differ. */
  readonly headers?: Form["dollars"]
}

const formOf = (file: string): Form => ({
  dollars: dollarsIn(file),
  unit: unitIn(file),
  ...(/[\\/]goose[\\/]config\.ya?ml$/i.test(file) ? { headers: "references" } : {}),
})

function dollarsIn(file: string): Form["dollars"] {
  if (/[\\/](?:goose[\\/]config|librechat)\.ya?ml$/i.test(file)) return "braces"
  if (/claude_desktop_config\.json$|\.(?:toml|ya?ml)$|[\\/]\.?zed[\\/]settings\.json$/i.test(file)) return "literal"
  return /(?:\.claude|[\\/]\.mcp|[\\/](?:\.cursor|\.vscode|User)[\\/]mcp|mcp_config|devcontainer)\.json$|\.code-workspace$/.test(
    file,
  )
    ? "braces"
    : "references"
}

function unitIn(file: string): number | undefined {
  if (/[\\/]\.(?:gemini|qwen)[\\/]settings\.json$/.test(file)) return 1
  return /[\\/]goose[\\/].*\.ya?ml$/.test(file) ? 1000 : undefined
}

/** Returns the keys that are copied. Not `timeout`: its meaning and unit differ between applications. */
const keptKeys = lazy(() => Object.keys(serverSchema().shape).filter((key) => key !== "timeout"))
/** Transports with other names than in svc. */
const FOREIGN_TYPES: ReadonlyMap<string, string> = new Map([
  ["local", "stdio"],
  ["remote", "http"],
])
/** Names of transports in a text `transport`, as svc writes them. */
const TRANSPORTS: ReadonlyMap<string, string> = new Map([
  ...["stdio", "http", "sse"].map((one) => [one, one] as const),
  ...["streamable-http", "streamable_http", "streamableHttp"].map((one) => [one, "http"] as const),
])
/** Names of the switch that turns a server off when it is false. */
const SWITCHES = ["enabled", "enable", "isActive", "active", "isEnabled"] as const
/** Names of the switch that turns a server off when it is true. */
const OFF_SWITCHES = ["disabled", "disable", "isDisabled"] as const
/** Keys that are renamed, or have no meaning for svc and can be dropped without a note. */
const FOREIGN: readonly string[] = [
  ...["httpUrl", "serverUrl", "uri", "cmd", "envs", "env_keys", "environment", "env_vars", "transport"],
  ...SWITCHES,
  ...OFF_SWITCHES,
  ...["bearer_token_env_var", "http_headers", "env_http_headers", "disabled_tools", "excludeTools"],
  ...["startup_timeout_sec", "tool_timeout_sec", "trust", "source", "gallery", "bundled", "display_name", "version"],
  ...["name", "id", "key", "title"],
]
/** Keys that list the only tools that a client offers. */
const ALLOW_LISTS: readonly string[] = ["tools", "available_tools", "enabled_tools", "includeTools", "allowedTools"]

function convert(name: string, entry: Params, form: Form): Omit<ForeignServer, "project" | "path"> {
  const notes: string[] = []
  // Continue writes the launch as an object; so do old versions of Zed with the command.
  const flat = isObject(entry.transport) ? { ...entry, ...entry.transport, transport: undefined } : entry
  const nested = isObject(flat.command) ? { ...flat.command, command: flat.command.path } : wordsOf(flat.command)
  const source: Params = withoutBlank({ ...flat, ...nested, ...renamed(flat) })
  const server: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(source)) {
    if (value === undefined || value === null) continue
    if (key === "oauth") Object.assign(server, oauthOf(value, form, notes))
    else if (ALLOW_LISTS.includes(key)) notes.push(...allowNote(name, key, value))
    else if (keptKeys().includes(key))
      server[key] = SUBSTITUTED_KEYS.includes(key)
        ? translate(withoutNull(key, value, notes), formIn(key, form), notes)
        : value
    else if (key === "timeout" && form.unit !== undefined && typeof value === "number")
      server.requestTimeout = value * form.unit
    else if (key === "trust" && value === true)
      notes.push("trust is not imported: the client asks before it calls a tool")
    else if (!FOREIGN.includes(key) && !IGNORED_KEYS.includes(key) && !saysNothing(key, value) && !(key in nested))
      notes.push(`${key} is not imported`)
  }
  if (typeof flat.transport === "string" && server.type === undefined) {
    const type = TRANSPORTS.get(flat.transport)
    if (type === undefined) notes.push(`svc does not know the transport ${flat.transport}`)
    else server.type = type
  }
  const headers = { ...map(flat.http_headers, (text) => translate(text, form, notes)), ...references(flat, notes) }
  if (Object.keys(headers).length > 0)
    server.headers = { ...(isObject(server.headers) ? server.headers : {}), ...headers }
  const variables = [flat.env_vars, flat.env_keys].flatMap((names) => (Array.isArray(names) ? names : []))
  if (variables.length > 0)
    server.env = {
      ...Object.fromEntries(
        variables.map(variableName).flatMap((variable) => {
          const reference = referenceTo(variable, notes)
          return reference === undefined ? [] : [[String(variable), reference]]
        }),
      ),
      ...(isObject(server.env) ? server.env : {}),
    }
  const ownName = name.replaceAll(SEPARATOR, "-")
  return { name: ownName, server, notes: [...new Set(notes)], problem: problemOf(ownName, server) }
}

/** Returns the name of a variable that a client lists, as a text or as an object with a name. */
const variableName = (variable: unknown): unknown => (isObject(variable) ? variable.name : variable)

/**
 * Returns the reference to a variable that another program names. Only the name of a variable becomes one: any other text
 * could make svc read a file, the keychain or the output of a command.
 */
function referenceTo(name: unknown, notes: string[]): string | undefined {
  if (typeof name === "string" && VARIABLE.test(name)) return `\${${name}}`
  notes.push(`${JSON.stringify(name) ?? "an entry without a name"} is not the name of a variable`)
  return undefined
}

/** Removes an empty command beside an address, and the reverse. */
function withoutBlank(source: Params): Params {
  const { command, url, ...rest } = source
  const has = (value: unknown) => value !== undefined && value !== null && value !== ""
  if (has(command) === has(url)) return source
  return has(command) ? { ...rest, command } : { ...rest, url }
}

/** Removes members that are null, each with a note. */
function withoutNull(key: string, value: unknown, notes: string[]): unknown {
  if (!isObject(value)) return value
  const kept = Object.entries(value).filter(([name, item]) => {
    if (item === null) notes.push(`${key}.${name} has no value: set it`)
    return item !== null
  })
  return Object.fromEntries(kept)
}

/** Returns the note about a list of the only tools that a client offers; none if it has all. */
function allowNote(name: string, key: string, value: unknown): readonly string[] {
  if (!Array.isArray(value)) return isEmpty(value) ? [] : [`${key} is not imported`]
  if (value.includes("*") || (value.length === 0 && key === "available_tools")) return []
  if (value.length === 0) return [`${key} allows no tool; svc offers them all until \`svc mcp disable ${name}\``]
  const globs = value.map((tool) => `${name}/${String(tool)}`).join(",")
  return [`${key} is not imported; \`svc preset create NAME --allow "${globs}"\` limits the tools`]
}

/** Returns the settings for OAuth under svc's names. */
function oauthOf(value: unknown, form: Form, notes: string[]): Params {
  if (!isObject(value)) return {}
  const { scope, redirectUri, ...rest } = value
  const known = Object.keys(oauthSchema().shape)
  const given: Params = {
    ...(typeof scope === "string" && scope !== "" ? { scopes: scope.split(/\s+/) } : {}),
    ...(typeof redirectUri === "string" ? { redirectUrl: redirectUri } : {}),
    ...rest,
  }
  const kept = Object.entries(given).flatMap(([key, item]): (readonly [string, unknown])[] => {
    if (known.includes(key) && item !== null) return [[key, translate(item, form, notes)]]
    if (!isEmpty(item) && item !== null && key !== "enabled") notes.push(`oauth.${key} is not imported`)
    return []
  })
  return kept.length === 0 ? {} : { oauth: Object.fromEntries(kept) }
}

/** Returns the command and the arguments of a command in one list, as OpenCode writes it. */
function wordsOf(command: unknown): Params {
  if (!Array.isArray(command)) return {}
  const [program, ...args] = command
  return { command: program, args }
}

/** Whether a value is true or false, as such or as a text. */
const isWord = (value: unknown, word: "true" | "false"): boolean =>
  (typeof value === "boolean" || typeof value === "string") && String(value).trim().toLowerCase() === word

/** Returns settings under svc's names and in its units. */
function renamed(entry: Params): Params {
  const isOff =
    SWITCHES.some((key) => isWord(entry[key], "false")) || OFF_SWITCHES.some((key) => isWord(entry[key], "true"))
  const milliseconds = (seconds: unknown) => (typeof seconds === "number" ? seconds * 1000 : undefined)
  return {
    url: entry.url ?? entry.httpUrl ?? entry.serverUrl ?? entry.uri,
    ...(entry.cmd === undefined ? {} : { command: entry.cmd }),
    ...(entry.environment === undefined && entry.envs === undefined ? {} : { env: entry.environment ?? entry.envs }),
    ...(FOREIGN_TYPES.has(String(entry.type)) ? { type: FOREIGN_TYPES.get(String(entry.type)) } : {}),
    disabled: isOff || entry.disabled,
    disabledTools: entry.disabledTools ?? entry.disabled_tools ?? entry.excludeTools,
    connectionTimeout: entry.connectionTimeout ?? milliseconds(entry.startup_timeout_sec),
    requestTimeout: entry.requestTimeout ?? milliseconds(entry.tool_timeout_sec),
  }
}

/** Returns the headers that an entry takes from variables, as references. */
function references(entry: Params, notes: string[]): Params {
  const named = Object.entries(map(entry.env_http_headers, (variable) => referenceTo(variable, notes)))
  const token = entry.bearer_token_env_var
  const bearer = token === undefined || token === null || token === "" ? undefined : referenceTo(token, notes)
  return {
    ...Object.fromEntries(named.filter(([, reference]) => reference !== undefined)),
    ...(bearer === undefined ? {} : { Authorization: `Bearer ${bearer}` }),
  }
}

const map = (value: unknown, to: (item: unknown) => unknown): Params =>
  Object.fromEntries(Object.entries(isObject(value) ? value : {}).map(([key, item]) => [key, to(item)]))

/** Whether a setting that svc does not have can be dropped without a note. That a server starts only when it is called for is said. */
const saysNothing = (key: string, value: unknown): boolean =>
  isEmpty(value) && !(value === false && /^auto.?(?:start|connect|run)/i.test(key))

const isEmpty = (value: unknown): boolean =>
  value === false || value === "" || (typeof value === "object" && value !== null && Object.keys(value).length === 0)

/** Returns why a server cannot be imported, or undefined. */
function problemOf(name: string, server: Params): string | undefined {
  const parsed = serverSchema().safeParse(server, { error: schemaProblem })
  if (!parsed.success) return parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; ")
  const { command, url } = parsed.data
  if (command === undefined && url === undefined) return "it has neither a command nor a url"
  if (command !== undefined && url !== undefined) return "it has both a command and a url: remove one of them"
  return nameProblem(name)
}

/** Returns a value in the syntax of mcp.json. */
function translate(value: unknown, form: Form, notes: string[]): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => translate(item, form, notes))
  if (isObject(value)) return map(value, (item) => translate(item, form, notes))
  if (typeof value !== "string") return value
  const foreign = value.match(FOREIGN_REFERENCE) ?? []
  const pieces = value.split(FOREIGN_REFERENCE)
  for (const [file] of value.matchAll(FILE_REFERENCE))
    notes.push(`svc reads no file for an imported server: if it should read ${file}, write \${file:PATH} in its place`)
  const named = (text: string | undefined) =>
    text === undefined ? "" : `\${${text.slice(text.search(/[:.]/) + 1).replace(/[} ]/g, "")}}`
  return pieces.map((piece, at) => translated(piece, form, notes) + named(foreign[at])).join("")
}

/** References to variables in the words of other programs: `{env:X}` of OpenCode and `${{ secrets.X }}` of Continue. */
const FOREIGN_REFERENCE =
  /(?<!\$)\{env:[A-Za-z_]\w{0,200}\}|\$\{\{ {0,4}(?:secrets|inputs)\.[A-Za-z_]\w{0,200} {0,4}\}\}/g
/** `{file:x}` of OpenCode. */
const FILE_REFERENCE = /(?<!\$)\{file:[^{}\s]{1,1000}\}/g
const VARIABLE = /^[A-Za-z_]\w{0,200}$/

/** Returns how a key is read: goose knows `$NAME` only in headers. */
const formIn = (key: string, form: Form): Form =>
  key === "headers" && form.headers !== undefined ? { ...form, dollars: form.headers } : form

/** Returns text between such references. A text of another program never reads files, the keychain or the output of commands. */
function translated(text: string, { dollars }: Form, notes: string[]): string {
  if (dollars === "literal") return text.replaceAll("$", "$$$$")
  const dollarsOnly = dollars === "braces" ? text.replace(/\$(?!\{)/g, "$$$$") : text
  const closed = dollarsOnly.replace(OUTSIDE, "$1$$$${")
  if (closed !== dollarsOnly) notes.push(OUTSIDE_NOTE)
  const unknown = UNKNOWN.exec(text)?.[0]
  if (unknown !== undefined) notes.push(`svc does not know ${unknown}: write the value in its place`)
  return closed
}

const OUTSIDE_NOTE =
  "svc does not read files, the keychain or commands for an imported server; to add such a reference, use `svc mcp edit`"
/** Matches the beginning of a reference with a scheme of svc that is not escaped. */
const OUTSIDE = /(?<!\$)((?:\$\$)*)\$\{(?=(?:keychain|file|cmd):)/g
const WORKSPACE = /\$\{workspaceFolder(?::[^{}]{0,200})?\}/
const ALL_WORKSPACES = /\$\{workspaceFolder(?::[^{}]{0,200})?\}/g
/** Variables of editors, and placeholders for the user of a server, that svc cannot fill in. */
const UNKNOWN =
  /\$\{(?:userHome|command|config|pathSeparator|workspaceFolderBasename|\/)[^{}]{0,200}\}|(?<!\$)\{env:[^{}]{0,200}\}|\{\{[A-Z][A-Z0-9_]{2,64}\}\}/
