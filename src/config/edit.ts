/**
 * Edits of mcp.json, as functions from text to text: comments, order, indentation and unknown keys survive, and only the
 * edited part changes. An impossible edit throws a RequestError.
 */
import { RequestError } from "../lib/errors.ts"
import { unknownNameError } from "../lib/nearest.ts"
import { isObject, type Params } from "../wire/message.ts"
import { type Document, type Path, parseDocument } from "./document.ts"
import { removeValue, renameKey, setValue } from "./jsonc.ts"
import { isDisabled, nameProblem } from "./plan.ts"
import { slugOf, toolNames, toolPrefixes } from "./server-spec.ts"

export type Edit = (text: string) => string

/** The sections that hold servers, in ascending precedence. */
export const SECTIONS = ["servers", "mcpServers", "mcpTemplates"] as const

/** Adds a server, or a template. Throws if the name is taken, unless `replace`. */
export const addServer =
  (name: string, server: Params, replace = false, isTemplate = false): Edit =>
  (text) => {
    const path = serverPath(text, name)
    if (path === undefined) checkName(text, name)
    else if (!replace) throw new RequestError("conflict", `there is already a server named ${name}`)
    return setAt(text, path ?? [isTemplate ? "mcpTemplates" : serversKey(text), name], server)
  }

/** Removes a server from every section: a shadowed server must not start when its template is removed. */
export const removeServer =
  (name: string): Edit =>
  (text) =>
    inEverySection(text, name, (changed, path) => setAt(changed, path, undefined))

/**
 * Renames a server in every section; its other values and its position stay. Tool names with the old server name become local
 * names, so that hidden tools stay hidden.
 */
export const renameServer =
  (given: string, newName: string): Edit =>
  (text) => {
    const [, name] = findServer(text, given)
    if (name === newName) return text
    if (serverPath(text, newName) !== undefined)
      throw new RequestError("conflict", `there is already a server named ${newName}`)
    checkName(text, newName, name)
    return inEverySection(text, name, (changed, path) => renameKey(withLocalNames(changed, path, name), path, newName))
  }

/** Enables or disables a server. */
export const setDisabled =
  (name: string, disabled: boolean): Edit =>
  (text) => {
    const path = [...findServer(text, name), "disabled"]
    const value = valueAt(text, path)
    if (disabled) return isDisabled({ disabled: value }) ? text : setAt(text, path, true)
    // An expression is removed too, whatever it would render to.
    return value === undefined || value === false ? text : setAt(text, path, undefined)
  }

/**
 * Hides or shows a tool by its local name. If both sections have the server, only the template's list changes.
 * spec: Command-line and configuration interfaces.
 */
export const setToolDisabled =
  (given: string, tool: string, disabled: boolean): Edit =>
  (text) => {
    if (tool === "") throw new RequestError("invalid_params", "the name of the tool must not be empty")
    const [section, name] = findServer(text, given)
    const path = [section, name, "disabledTools"]
    const local = localNameOf(name, tool)
    const spellings = spellingsOf(name, tool)
    const value = valueAt(text, path)
    const list: readonly unknown[] = Array.isArray(value) ? value : []
    const at = list.findIndex((one) => typeof one === "string" && spellings.includes(one))
    if (disabled) {
      if (at >= 0) return text
      return Array.isArray(value) ? setAt(text, [...path, list.length], local) : setAt(text, path, [local])
    }
    if (at < 0) return text
    if (list.length === 1) return setAt(text, path, undefined)
    // The list may have the tool in another spelling, too.
    return setToolDisabled(name, local, false)(setAt(text, [...path, at], undefined))
  }

/**
 * Replaces the description of a tool by its local name; undefined restores the server's own. If both sections have the server,
 * only the template changes.
 */
export const setToolDescription =
  (given: string, tool: string, description: string | undefined): Edit =>
  (text) => {
    if (tool === "") throw new RequestError("invalid_params", "the name of the tool must not be empty")
    const [section, name] = findServer(text, given)
    const path = [section, name, "toolDescriptionOverrides"]
    const spellings = spellingsOf(name, tool)
    const written = valueAt(text, path)
    const known = isObject(written) ? spellings.filter((one) => Object.hasOwn(written, one)) : []
    if (description !== undefined) return setAt(text, [...path, known[0] ?? localNameOf(name, tool)], description)
    return known.reduce((changed, one) => {
      const rest = valueAt(changed, path)
      const isLast = isObject(rest) && Object.keys(rest).length === 1
      return setAt(changed, isLast ? path : [...path, one], undefined)
    }, text)
  }

/** Applies a JSON merge patch (RFC 7396) to a server, member by member, so that other members stay as written. */
export const patchServer =
  (name: string, patch: Params): Edit =>
  (text) =>
    merge(text, findServer(text, name), patch)

/** Returns the servers of a text as written, by name; a template wins over a server of the same name. */
export function writtenServers(
  text: string,
  file = "mcp.json",
): ReadonlyMap<string, { readonly section: string; readonly server: Params }> {
  const { value } = parseDocument(text, file)
  const all = new Map<string, { section: string; server: Params }>()
  for (const section of SECTIONS)
    for (const [name, server] of Object.entries(isObject(value[section]) ? value[section] : {}))
      if (isObject(server)) all.set(name, { section, server })
  return all
}

/** A part of mcp.json with settings that may have keys: a server, the defaults of servers, a registry or a target of notifications. */
export type KeyHolder = {
  /** What messages call it: the name of a server, or `notify[0]`. */
  readonly name: string
  readonly path: Path
  readonly settings: Params
  /** With what the names of its variables begin. */
  readonly prefix: string
}

/** Returns the parts of mcp.json that may have keys, also servers that another one of the same name shadows. */
export function keyHolders({ value }: Pick<Document, "value">): readonly KeyHolder[] {
  const holders = SECTIONS.flatMap((section) =>
    Object.entries(isObject(value[section]) ? value[section] : {}).map(([name, settings]) => ({
      name,
      path: [section, name],
      settings,
      prefix: slugOf(name).toUpperCase(),
    })),
  )
  const listed = (["registries", "notify"] as const).flatMap((section) => {
    const list: unknown = value[section]
    return (Array.isArray(list) ? list : []).map((settings: unknown, at) => ({
      name: `${section}[${at}]`,
      path: [section, at],
      settings,
      prefix: `${section}_${at}`.toUpperCase(),
    }))
  })
  const defaults = {
    name: "serverDefaults",
    path: ["serverDefaults"],
    settings: value.serverDefaults,
    prefix: "SERVER_DEFAULTS",
  }
  return [...holders, defaults, ...listed].flatMap(({ settings, ...rest }) =>
    isObject(settings) ? [{ ...rest, settings }] : [],
  )
}

/** Returns the name of a server as written, found by that name or by its slug. Throws a RequestError (not_found). */
export function writtenName(given: string, names: Iterable<string>): string {
  const all = [...names]
  const name = all.find((one) => one === given) ?? all.find((one) => slugOf(one) === given)
  if (name !== undefined) return name
  throw unknownNameError("server", given, all)
}

/** Sets the value at a path, or removes it if undefined. Throws a ConfigError if the new text is not a document. */
export function setAt(text: string, path: Path, value: unknown, file = "mcp.json"): string {
  const changed = value === undefined ? removeValue(text, path) : setValue(text, path, value)
  parseDocument(changed, file)
  return changed
}

// ---

/** Returns the local name of a tool, which may be given with the name of its server. */
function localNameOf(server: string, tool: string): string {
  const prefixes = toolPrefixes({ name: server, slug: slugOf(server) })
  const prefix = prefixes.find((one) => tool.startsWith(one) && tool !== one)
  return prefix === undefined ? tool : tool.slice(prefix.length)
}

/** Returns the names by which the settings of a server may refer to a tool, given as for `localNameOf`. */
const spellingsOf = (server: string, tool: string): readonly string[] =>
  toolNames({ name: server, slug: slugOf(server) }, localNameOf(server, tool))

/** Returns the text with the qualified names in a server's settings replaced by local ones. */
function withLocalNames(text: string, path: Path, name: string): string {
  const prefixes = toolPrefixes({ name, slug: slugOf(name) })
  const localName = (tool: unknown): string | undefined => {
    const prefix = prefixes.find((one) => typeof tool === "string" && tool.startsWith(one) && tool !== one)
    return prefix === undefined ? undefined : String(tool).slice(prefix.length)
  }
  let changed = text
  for (const key of ["disabledTools", "alwaysVisible"]) {
    const tools = valueAt(text, [...path, key])
    for (const [at, tool] of (Array.isArray(tools) ? tools : []).entries()) {
      const local = localName(tool)
      if (local !== undefined) changed = setAt(changed, [...path, key, at], local)
    }
  }
  for (const setting of ["toolDescriptionOverrides", "toolOverrides"]) {
    const at = [...path, setting]
    const overrides = valueAt(text, at)
    for (const key of Object.keys(isObject(overrides) ? overrides : {})) {
      const local = localName(key)
      // An override under the local name already wins.
      if (local !== undefined && valueAt(changed, [...at, local]) === undefined)
        changed = renameKey(changed, [...at, key], local)
    }
  }
  return changed
}

function merge(text: string, path: Path, patch: Params): string {
  let changed = text
  for (const [key, value] of Object.entries(patch)) {
    const inner = [...path, key]
    if (value === null) changed = valueAt(changed, inner) === undefined ? changed : setAt(changed, inner, undefined)
    else if (isObject(value) && isObject(valueAt(changed, inner))) changed = merge(changed, inner, value)
    else changed = setAt(changed, inner, withoutNulls(value))
  }
  return changed
}

/** Returns the result of a merge patch applied to nothing. */
function withoutNulls(value: unknown): unknown {
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, item]) => (item === null ? [] : [[key, withoutNulls(item)]])),
  )
}

/** Throws if a server cannot have this name, or if another server has its slug. `except` is the server that is being renamed. */
function checkName(text: string, name: string, except?: string): void {
  const problem = nameProblem(name)
  if (problem !== undefined) throw new RequestError("invalid_params", `a server cannot be named "${name}": ${problem}`)
  for (const other of writtenServers(text).keys())
    if (other !== except && slugOf(other) === slugOf(name))
      throw new RequestError(
        "conflict",
        `"${name}" and "${other}" would give their tools the same names; choose another name`,
      )
}

/** Changes a server in every section that has it. */
function inEverySection(text: string, given: string, change: (text: string, path: Path) => string): string {
  const [, name] = findServer(text, given)
  return SECTIONS.reduce((changed, section) => {
    const path = [section, name]
    return valueAt(changed, path) === undefined ? changed : change(changed, path)
  }, text)
}

function valueAt(text: string, path: Path): unknown {
  let value: unknown = parseDocument(text, "mcp.json").value
  for (const key of path) value = isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined
  return value
}

/** Returns the section for new servers: `mcpServers`, or `servers` in a file that has only that. */
const serversKey = (text: string): string =>
  valueAt(text, ["mcpServers"]) === undefined && isObject(valueAt(text, ["servers"])) ? "servers" : "mcpServers"

/** Returns the path of a server; a template wins. */
function serverPath(text: string, name: string): Path | undefined {
  const section = writtenServers(text).get(name)?.section
  return section === undefined ? undefined : [section, name]
}

function findServer(text: string, given: string): readonly [section: string, name: string] {
  const servers = writtenServers(text)
  const name = writtenName(given, servers.keys())
  return [servers.get(name)?.section ?? "", name]
}
