/**
 * Edits of mcp.json, from text to text: comments, order, indentation and unknown keys survive, and nothing but what is
 * meant changes. Where one is not possible it throws a RequestError and nothing is written.
 */
import { RequestError } from "../lib/errors.ts"
import { unknownNameError } from "../lib/nearest.ts"
import { isObject, type Params } from "../wire/message.ts"
import { type Path, parseDocument } from "./document.ts"
import { removeValue, renameKey, setValue } from "./jsonc.ts"
import { isDisabled, nameProblem, slugOf } from "./plan.ts"
import { SEPARATOR } from "./server-spec.ts"

export type Edit = (text: string) => string

/** Adds a server. Throws where the name is taken, unless `replace`. */
export const addServer =
  (name: string, server: Params, replace = false): Edit =>
  (text) => {
    const place = serverPath(text, name)
    if (place === undefined) checkName(text, name)
    else if (!replace) throw new RequestError("conflict", `There is a server named ${name} already`)
    return setAt(text, place ?? [serversKey(text), name], server)
  }

/** Takes a server out, from every section: a stale server must not come to life with its template's end. */
export const removeServer =
  (name: string): Edit =>
  (text) =>
    everywhere(text, name, (changed, path) => setAt(changed, path, undefined))

/** Gives a server another name, in every section; nothing else of it changes, its place neither. */
export const renameServer =
  (given: string, newName: string): Edit =>
  (text) => {
    const [, name] = found(text, given)
    if (name === newName) return text
    if (serverPath(text, newName) !== undefined)
      throw new RequestError("conflict", `There is a server named ${newName} already`)
    checkName(text, newName, name)
    return everywhere(text, name, (changed, path) => renameKey(changed, path, newName))
  }

/** Enables or disables a server. */
export const setDisabled =
  (name: string, disabled: boolean): Edit =>
  (text) => {
    const path = [...found(text, name), "disabled"]
    const value = valueAt(text, path)
    if (disabled) return isDisabled({ disabled: value }) ? text : setAt(text, path, true)
    // Whatever a text comes to when it is rendered, the server is to run.
    return value === undefined || value === false ? text : setAt(text, path, undefined)
  }

/**
 * Hides or shows a tool by its local name. For a name in both sections the template's list is changed and the stale
 * server's left alone. spec: Command-line and configuration interfaces.
 */
export const setToolDisabled =
  (given: string, tool: string, disabled: boolean): Edit =>
  (text) => {
    if (tool === "") throw new RequestError("invalid_params", "A tool's name must not be empty")
    const [section, name] = found(text, given)
    const path = [section, name, "disabledTools"]
    const prefix = `${slugOf(name)}${SEPARATOR}`
    const local = tool.startsWith(prefix) && tool !== prefix ? tool.slice(prefix.length) : tool
    const spellings = [local, prefix + local, `${name}${SEPARATOR}${local}`]
    const value = valueAt(text, path)
    const list: readonly unknown[] = Array.isArray(value) ? value : []
    const at = list.findIndex((one) => typeof one === "string" && spellings.includes(one))
    if (disabled) {
      if (at >= 0) return text
      return Array.isArray(value) ? setAt(text, [...path, list.length], local) : setAt(text, path, [local])
    }
    if (at < 0) return text
    if (list.length === 1) return setAt(text, path, undefined)
    // It may stand there in more than one spelling.
    return setToolDisabled(name, local, false)(setAt(text, [...path, at], undefined))
  }

/** Applies a JSON merge patch (RFC 7396) to a server, member by member, so that what it does not name stays as it is. */
export const patchServer =
  (name: string, patch: Params): Edit =>
  (text) =>
    merge(text, found(text, name), patch)

/** The servers of a text, as they are written: templates win over servers of the same name. */
export function writtenServers(
  text: string,
): ReadonlyMap<string, { readonly section: string; readonly server: Params }> {
  const { value } = parseDocument(text, "mcp.json")
  const all = new Map<string, { section: string; server: Params }>()
  for (const section of SECTIONS)
    for (const [name, server] of Object.entries(isObject(value[section]) ? value[section] : {}))
      if (isObject(server)) all.set(name, { section, server })
  return all
}

/** How a server is written; its name in tools and addresses leads to it too. Throws a RequestError (not_found). */
export function writtenName(given: string, names: Iterable<string>): string {
  const all = [...names]
  const name = all.find((one) => one === given) ?? all.find((one) => slugOf(one) === given)
  if (name !== undefined) return name
  throw unknownNameError("server", given, all)
}

/** Sets one value, or takes it out where it is undefined. What it gives is a document still. */
export function setAt(text: string, path: Path, value: unknown, file = "mcp.json"): string {
  const changed = value === undefined ? removeValue(text, path) : setValue(text, path, value)
  parseDocument(changed, file)
  return changed
}

// ---

/** The later win. */
const SECTIONS = ["servers", "mcpServers", "mcpTemplates"] as const

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

/** What a merge patch comes to where there was nothing. */
function withoutNulls(value: unknown): unknown {
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, item]) => (item === null ? [] : [[key, withoutNulls(item)]])),
  )
}

/** Throws where a server cannot have this name, or would be left out for it. `but` is the one that gives its name up. */
function checkName(text: string, name: string, but?: string): void {
  const problem = nameProblem(name)
  if (problem !== undefined) throw new RequestError("invalid_params", `No server can be named "${name}": ${problem}`)
  for (const other of writtenServers(text).keys())
    if (other !== but && slugOf(other) === slugOf(name))
      throw new RequestError("conflict", `${name} falls together with ${other} in the names of tools`)
}

/** Changes a server in every section in which it stands. */
function everywhere(text: string, given: string, change: (text: string, path: Path) => string): string {
  const [, name] = found(text, given)
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

/** `mcpServers`, or `servers` in a file that has only that. */
const serversKey = (text: string): string =>
  valueAt(text, ["mcpServers"]) === undefined && isObject(valueAt(text, ["servers"])) ? "servers" : "mcpServers"

/** Where a server is written; a template wins. */
function serverPath(text: string, name: string): Path | undefined {
  const section = writtenServers(text).get(name)?.section
  return section === undefined ? undefined : [section, name]
}

function found(text: string, given: string): readonly [section: string, name: string] {
  const servers = writtenServers(text)
  const name = writtenName(given, servers.keys())
  return [servers.get(name)?.section ?? "", name]
}
