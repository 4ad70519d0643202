/**
 * Reads and edits the document of a client: JSON with comments, TOML or YAML, by the extension of its file.
 *
 *  1. All other bytes stay: comments, order and formatting.
 *  2. An edit of TOML or YAML changes whole blocks of lines, then parses the result: unless exactly the wanted value has
 *     changed, the edit is refused. This protects files in an unusual form.
 */
import { TOML, YAML } from "bun"
import { type Path, parseDocument } from "../../config/document.ts"
import { setAt } from "../../config/edit.ts"
import { eolOf } from "../../config/jsonc.ts"
import { ConfigError, messageOf, RequestError } from "../../lib/errors.ts"
import { isSameValue } from "../../lib/json.ts"
import { mergeLines } from "../../lib/line-diff.ts"
import { isObject, type Params } from "../../wire/message.ts"

/** A change of one value; undefined removes it. */
export type ClientEdit = { readonly path: Path; readonly value: unknown }

/** Returns the value of a document. Throws a ConfigError with line and column if the text is malformed. */
export function readClientDocument(text: string, file: string): Params {
  const format = formatOf(file)
  if (format === "json") return parseDocument(text, file).value
  const parse = PARSERS[format]
  try {
    const value = parse(text) ?? {}
    if (isObject(value)) return value
  } catch (cause) {
    const [line, column] = faultIn(text, parse)
    const message = messageOf(cause).replace(/^(?:TOML|YAML) Parse error: /, "")
    throw new ConfigError([
      { code: format, severity: "error", file, line, column, message: `not valid ${format.toUpperCase()}: ${message}` },
    ])
  }
  throw new ConfigError([
    { code: "type", severity: "error", file, line: 1, column: 1, message: "the document must consist of named values" },
  ])
}

/** Applies edits in order. Throws a ConfigError for a malformed text, and a RequestError if the file cannot be edited safely. */
export const editClientDocument = (text: string, file: string, edits: readonly ClientEdit[]): string =>
  edits.reduce((changed, edit) => editOnce(changed, file, edit), text)

/** Returns the value at a path, or undefined. */
export function valueIn(document: unknown, path: Path): unknown {
  return path.reduce<unknown>((value, key) => {
    if (Array.isArray(value)) return value[Number(key)]
    return isObject(value) && Object.hasOwn(value, key) ? value[String(key)] : undefined
  }, document)
}

/** A document without the edits of svc. `isWhole`: whether the values that are back are also in their former form, with their comments. */
export type RevertedDocument = { readonly text: string; readonly isWhole: boolean }

/**
 * Returns the text with the values at `paths` as they were in `before` (undefined: there was no file). `isOurs` tells whether
 * the value at a path is still the value that svc wrote. Throws a RequestError (conflict) if a value has changed since, unless
 * it is gone or as before again.
 */
export function revertEdits(
  before: string | undefined,
  now: string,
  file: string,
  paths: readonly Path[],
  isOurs: (path: Path, value: unknown) => boolean,
): RevertedDocument {
  const current = readClientDocument(now, file)
  const original = before === undefined ? {} : readClientDocument(before, file)
  for (const path of paths) {
    const value = valueIn(current, path)
    if (value !== undefined && !isOurs(path, value) && !isSameValue(value, valueIn(original, path)))
      throw new RequestError("conflict", `${path.join(".")} in ${file} has been changed since: remove it from the file`)
  }
  const edits = paths.map((path) => ({ path, value: valueIn(original, path) }))
  const text = editClientDocument(now, file, edits)
  if (before === undefined || edits.every(({ value }) => value === undefined)) return { text, isWhole: true }
  const merged = mergedText(before, now, file, paths)
  const isMerged = merged !== undefined && isSameValue(ifReadable(merged, file), readClientDocument(text, file))
  return isMerged ? { text: merged, isWhole: true } : { text, isWhole: false }
}

// ---

/** Returns `before` with the changes that others have made in `now`; undefined if they are among those of svc. */
function mergedText(before: string, now: string, file: string, paths: readonly Path[]): string | undefined {
  const current = readClientDocument(now, file)
  const [old, ours, theirs] = [
    before,
    editClientDocument(
      before,
      file,
      paths.map((path) => ({ path, value: valueIn(current, path) })),
    ),
    now,
  ].map(linesOf) as [string[], string[], string[]]
  return mergeLines(ours, old, theirs)?.join("")
}

/** Returns the value of a document; undefined if it is malformed. */
function ifReadable(text: string, file: string): unknown {
  try {
    return readClientDocument(text, file)
  } catch {
    return undefined
  }
}

type Format = "json" | "toml" | "yaml"
type Parse = (text: string) => unknown

const PARSERS = {
  toml: (text: string): unknown => TOML.parse(text),
  yaml: (text: string): unknown => YAML.parse(text),
}

function formatOf(file: string): Format {
  if (file.endsWith(".toml")) return "toml"
  return /\.ya?ml$/.test(file) ? "yaml" : "json"
}

/** Returns the line and column of the first part that does not parse: Bun's parsers do not report them. */
function faultIn(text: string, parse: Parse): readonly [line: number, column: number] {
  const lines = text.split("\n")
  for (let count = lines.length - 1; count > 0; count--)
    try {
      parse(lines.slice(0, count).join("\n"))
      return [count + 1, /^\s*/.exec(lines[count] ?? "")?.[0].length ?? 0].map((at, index) => at + index) as [
        number,
        number,
      ]
    } catch {
      // The fault is further up.
    }
  return [1, 1]
}

function editOnce(text: string, file: string, edit: ClientEdit): string {
  const before = readClientDocument(text, file)
  if (isSameValue(valueIn(before, edit.path), edit.value)) return text
  requireSections(before, file, edit.path)
  const format = formatOf(file)
  if (format === "json") return editJson(text, edit, valueIn(before, edit.path), file)
  const edited = format === "toml" ? editToml(text, edit) : editYaml(text, edit)
  const after = edited === undefined ? undefined : parsed(edited, PARSERS[format])
  const others = (document: Params) => without(document, edit.path)
  if (
    edited !== undefined &&
    isObject(after) &&
    isSameValue(valueIn(after, edit.path), edit.value) &&
    isSameValue(others(after), others(before))
  )
    return edited
  const entry = edit.value === undefined ? `remove ${edit.path.join(".")}` : `set ${edit.path.join(".")}`
  throw new RequestError("conflict", `${file} is written in a form that svc cannot edit safely; ${entry} by hand`)
}

/** Sets a value of JSON. The members of a list that stay keep their form and comments. */
function editJson(text: string, { path, value }: ClientEdit, old: unknown, file: string): string {
  if (!Array.isArray(old) || !Array.isArray(value)) return setAt(text, path, value, file)
  let kept = 0
  const removed = old.flatMap((item: unknown, at): readonly number[] => {
    const stays = kept < value.length && isSameValue(item, value[kept])
    if (stays) kept++
    return stays ? [] : [at]
  })
  const shorter = removed.reduceRight((changed, at) => setAt(changed, [...path, at], undefined, file), text)
  return value
    .slice(kept)
    .reduce<string>((changed, item, at) => setAt(changed, [...path, kept + at], item, file), shorter)
}

/** Throws a RequestError (conflict) if what is around a value is no object or list that can have it: the edit would replace it. */
function requireSections(document: Params, file: string, path: Path): void {
  for (let length = 1; length < path.length; length++) {
    const section = valueIn(document, path.slice(0, length))
    if (Array.isArray(section) && typeof path[length] === "number") continue
    if (section !== undefined && section !== null && !isObject(section))
      throw new RequestError(
        "conflict",
        `${file}: ${path.slice(0, length).join(".")} must be an object with a member for each server; correct it by hand`,
      )
  }
}

function parsed(text: string, parse: Parse): unknown {
  try {
    return parse(text) ?? {}
  } catch {
    return undefined
  }
}

/** Returns a copy without a value, and without objects that become empty: an empty object means the same as none. */
function without(document: Params, [key, ...rest]: Path): Params {
  const { [String(key)]: inner, ...others } = document
  const left = isObject(inner) && rest.length > 0 ? without(inner, rest) : {}
  return Object.keys(left).length === 0 ? others : { ...others, [String(key)]: left }
}

/** Returns the text with a line end after its last line, unless it is empty. */
const withFinalEol = (text: string, eol: string): string => (text === "" || text.endsWith("\n") ? text : text + eol)

/** Returns the lines of a text with their line ends. */
const linesOf = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? []

/** Replaces the tables under a path, `[a.b]` and `[a.b.c]`, or appends them; undefined if there is no such table to remove. */
function editToml(text: string, { path, value }: ClientEdit): string | undefined {
  const eol = eolOf(text)
  const lines = linesOf(withFinalEol(text, eol))
  const inTable = linesInTable(lines, path)
  const first = inTable.indexOf(true)
  const kept = (from: number, to: number) => lines.slice(from, to).filter((_, at) => inTable[from + at] !== true)
  const block = value === undefined ? "" : tomlTables(path, value).join(eol) + eol
  if (first < 0) return value === undefined ? undefined : [...lines, lines.length === 0 ? "" : eol, block].join("")
  const head = kept(0, first)
  const tail = kept(first, lines.length)
  // The blank lines before a removed block go too, or the blank lines after it at the beginning of the file.
  if (value === undefined) {
    while (/^\s*$/.test(head.at(-1) ?? "x")) head.pop()
    while (head.length === 0 && /^\s*$/.test(tail[0] ?? "x")) tail.shift()
  }
  return [...head, block, ...tail].join("")
}

/** Returns for each line whether it belongs to a table at or below `path`. Comments before the next table are that table's. */
function linesInTable(lines: readonly string[], path: Path): readonly boolean[] {
  const inTable: boolean[] = []
  let inside = false
  let quotes = 0
  for (const [at, line] of lines.entries()) {
    const name = /^\s*\[([^[\]]+)\]\s*(?:#.*)?$/.exec(line.trimEnd())?.[1]
    const isText = quotes % 2 === 1
    quotes += line.match(/"""|'''/g)?.length ?? 0
    if (!isText && (name !== undefined || /^\s*\[\[/.test(line))) {
      const names = name === undefined ? [] : namesOf(name)
      if (inside && !path.every((part, index) => names[index] === part)) release(inTable, lines, at)
      inside = path.every((part, index) => names[index] === part)
    }
    inTable.push(inside)
  }
  return inTable
}

/** Assigns the blank lines and comments before line `at` to the table that begins there. */
function release(inTable: boolean[], lines: readonly string[], at: number): void {
  for (let line = at - 1; line >= 0 && /^\s*(?:#.*)?$/.test((lines[line] ?? "").trimEnd()); line--)
    inTable[line] = false
}

/** Returns the parts of a table's name. */
function namesOf(name: string): readonly string[] {
  const names: string[] = []
  let value = parsed(`[${name}]`, PARSERS.toml)
  while (isObject(value)) {
    const [key] = Object.keys(value)
    if (key === undefined) break
    names.push(key)
    value = value[key]
  }
  return names
}

/** Prints a table: plain values first, then its tables. */
function tomlTables(path: Path, table: unknown): readonly string[] {
  const entries = Object.entries(isObject(table) ? table : {})
  const plain = entries.filter(([, value]) => !isObject(value))
  const tables = entries.filter(([, value]) => isObject(value))
  return [
    `[${path.map((part) => tomlKey(String(part))).join(".")}]`,
    ...plain.map(([key, value]) => `${tomlKey(key)} = ${tomlValue(value)}`),
    ...tables.flatMap(([key, value]) => ["", ...tomlTables([...path, key], value)]),
  ]
}

const tomlKey = (key: string): string => (/^[A-Za-z0-9_-]+$/.test(key) ? key : JSON.stringify(key))
/** Strings of JSON are basic strings of TOML, except for the delete character. */
const tomlValue = (value: unknown): string =>
  (Array.isArray(value) ? `[${value.map(tomlValue).join(", ")}]` : JSON.stringify(value)).replaceAll("\x7f", "\\u007f")

/** Edits a member of a top-level mapping in block style; undefined in any other form. */
function editYaml(text: string, { path, value }: ClientEdit): string | undefined {
  const [section, name] = path
  if (section === undefined || name === undefined || path.length !== 2) return undefined
  const eol = eolOf(text)
  const lines = linesOf(withFinalEol(text, eol))
  const indentOf = (line: string) => /^ */.exec(line)?.[0].length ?? 0
  const isContent = (line: string) => /^\s*[^\s#]/.test(line)
  const header = lines.findIndex((line) => /^([\w-]+):\s*(?:\{\}\s*)?(?:#.*)?$/.exec(line.trimEnd())?.[1] === section)
  const after = lines.findIndex((line, at) => at > header && isContent(line) && indentOf(line) === 0)
  const end = after < 0 ? lines.length : after
  const indent = indentOf(lines.slice(header + 1, end).find(isContent) ?? "  ")
  const entry = (width: number) => {
    const printed = String(YAML.stringify({ [name]: value }, null, 2))
    return linesOf(`${printed}\n`).map((line) => (line.trim() === "" ? "" : " ".repeat(width) + line.trimEnd() + eol))
  }
  // A second member of the same name would hide the first.
  if (header < 0 && valueIn(parsed(text, PARSERS.yaml), [section]) !== undefined) return undefined
  if (header < 0) return value === undefined ? undefined : [...lines, `${section}:${eol}`, ...entry(2)].join("")
  const isName = (line: string) =>
    indentOf(line) === indent && new RegExp(`^ *(["']?)${escapeName(name)}\\1:`).test(line)
  const start = lines.findIndex((line, at) => at > header && at < end && isName(line))
  const put = value === undefined ? [] : entry(indent)
  const title = `${section}:${eol}`
  if (start < 0) {
    if (value === undefined) return undefined
    const body = lines.slice(header + 1, end)
    while (!isContent(body.at(-1) ?? "x")) body.pop()
    const rest = lines.slice(header + 1 + body.length)
    const isFlow = /\{\}/.test(lines[header] ?? "")
    return [...lines.slice(0, header), isFlow ? title : lines[header], ...body, ...put, ...rest].join("")
  }
  const next = lines.findIndex((line, at) => at > start && isContent(line) && indentOf(line) <= indent)
  let stop = next < 0 ? lines.length : next
  // Blank lines and comments after the entry belong to the next one.
  while (!isContent(lines[stop - 1] ?? "x")) stop--
  const left = [...lines.slice(header + 1, start), ...put, ...lines.slice(stop, end)]
  const head = left.some(isContent) ? lines[header] : `${section}: {}${eol}`
  return [...lines.slice(0, header), head, ...left, ...lines.slice(Math.max(stop, end))].join("")
}

const escapeName = (name: string | number): string => String(name).replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
