/**
 * Edits of mcp.json, from text to text: comments, order, indentation and unknown keys survive, and nothing but what is
 * meant changes. Where one is not possible it throws a RequestError and nothing is written.
 */
import { applyEdits, createScanner, type FormattingOptions, findNodeAtLocation, modify, parseTree } from "jsonc-parser"
import { RequestError } from "../lib/errors.ts"
import { nearest } from "../lib/nearest.ts"
import { isObject, type Params } from "../wire/message.ts"
import { type Path, parseDocument } from "./document.ts"
import { SEPARATOR } from "./spec.ts"

export type Edit = (text: string) => string

/** Adds a server. Throws where the name is taken, unless `replace`. */
export const addServer =
  (name: string, server: Params, replace = false): Edit =>
  (text) => {
    if (name === "" || name.includes(SEPARATOR))
      throw new RequestError("invalid_params", `A server's name must not be empty or contain "${SEPARATOR}"`)
    const place = placeOf(text, name)
    if (place !== undefined && !replace) throw new RequestError("conflict", `There is a server named ${name} already`)
    return set(text, place ?? [serversKey(text), name], server)
  }

/** Takes a server out. */
export const removeServer =
  (name: string): Edit =>
  (text) =>
    set(text, found(text, name), undefined)

/** Gives a server another name; its place in the file stays. */
export const renameServer =
  (name: string, newName: string): Edit =>
  (text) => {
    const path = found(text, name)
    if (placeOf(text, newName) !== undefined)
      throw new RequestError("conflict", `There is a server named ${newName} already`)
    const value = valueAt(text, path)
    return addServer(newName, isObject(value) ? value : {})(set(text, path, undefined))
  }

/** Enables or disables a server. */
export const setDisabled =
  (name: string, disabled: boolean): Edit =>
  (text) => {
    const path = found(text, name)
    const value = valueAt(text, path)
    const now = isObject(value) && value.disabled === true
    if (now === disabled) return text
    return set(text, [...path, "disabled"], disabled ? true : undefined)
  }

/**
 * Hides or shows a tool by its local name. For a name in both sections the template's list is changed and the stale
 * server's left alone. spec: Command-line and configuration interfaces.
 */
export const setToolDisabled =
  (name: string, tool: string, disabled: boolean): Edit =>
  (text) => {
    if (tool === "") throw new RequestError("invalid_params", "A tool's name must not be empty")
    const path = [...found(text, name), "disabledTools"]
    const value = valueAt(text, path)
    const list = Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : []
    const spellings = [tool, `${name}${SEPARATOR}${tool}`]
    if (disabled) return list.some((one) => spellings.includes(one)) ? text : set(text, path, [...list, tool])
    const rest = list.filter((one) => !spellings.includes(one))
    return rest.length === list.length ? text : set(text, path, rest.length === 0 ? undefined : rest)
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
  for (const section of ["servers", "mcpServers", "mcpTemplates"])
    for (const [name, server] of Object.entries(isObject(value[section]) ? value[section] : {}))
      if (isObject(server)) all.set(name, { section, server })
  return all
}

/** Sets one value, or takes it out where it is undefined: jsonc-parser's own edit. What it gives is a document still. */
export function set(text: string, path: Path, value: unknown, file = "mcp.json"): string {
  const before = value === undefined ? withoutComma(text, path) : text
  const changed = applyEdits(before, modify(before, [...path], value, { formattingOptions: formatOf(text) }))
  parseDocument(changed, file)
  return changed
}

// ---

function merge(text: string, path: Path, patch: Params): string {
  let changed = text
  for (const [key, value] of Object.entries(patch)) {
    const inner = [...path, key]
    if (value === null) changed = valueAt(changed, inner) === undefined ? changed : set(changed, inner, undefined)
    else if (isObject(value) && isObject(valueAt(changed, inner))) changed = merge(changed, inner, value)
    else changed = set(changed, inner, value)
  }
  return changed
}

/** The text without the comma after an only member, which jsonc-parser would leave standing alone. */
function withoutComma(text: string, path: Path): string {
  const root = parseTree(text, [], { allowTrailingComma: true })
  const object = root === undefined ? undefined : findNodeAtLocation(root, path.slice(0, -1))
  const [only, ...others] = object?.children ?? []
  if (only === undefined || others.length > 0) return text
  const scanner = createScanner(text, true)
  scanner.setPosition(only.offset + only.length)
  scanner.scan()
  const at = scanner.getTokenOffset()
  return text[at] === "," ? text.slice(0, at) + text.slice(at + 1) : text
}

/** Indentation and line ends as the file has them. */
function formatOf(text: string): FormattingOptions {
  const indent = /^([ \t]+)\S/m.exec(text)?.[1] ?? "  "
  return {
    insertSpaces: !indent.startsWith("\t"),
    tabSize: indent.startsWith("\t") ? 1 : indent.length,
    eol: text.includes("\r\n") ? "\r\n" : "\n",
  }
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
function placeOf(text: string, name: string): Path | undefined {
  const section = writtenServers(text).get(name)?.section
  return section === undefined ? undefined : [section, name]
}

function found(text: string, name: string): Path {
  const path = placeOf(text, name)
  if (path !== undefined) return path
  const names = [...writtenServers(text).keys()]
  const near = nearest(name, names)
  throw new RequestError(
    "not_found",
    `No server is named ${name}${near === undefined ? "" : `; did you mean ${near}?`}`,
  )
}
