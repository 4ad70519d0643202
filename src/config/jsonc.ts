/**
 * One change to a JSON text with comments: sets a value, removes or renames a member.
 *
 *  1. All other bytes stay: values, comments, white space, line ends, a byte-order mark.
 *  2. New text is written like its neighbours: on its own line if they are, with their indentation.
 *  3. Duplicate keys: the last one wins, for reads and edits alike.
 *
 * Not jsonc-parser's `modify`: it moves comments to other members, reformats the object around an insertion, and edits the
 * first of duplicate keys.
 */
import { createScanner, type Node, parseTree } from "jsonc-parser"
import { findNode, type Path } from "./document.ts"

/** Sets the value at `path`; creates missing objects on the way. An index at the end of an array appends. */
export function setValue(text: string, path: Path, value: unknown): string {
  const root = parse(text)
  if (root === undefined) return `${text}${print(wrap(path, value), unitOf(text), eolOf(text), "")}${eolOf(text)}`
  let depth = path.length
  while (depth > 0 && findNode(root, path.slice(0, depth)) === undefined) depth--
  const node = findNode(root, path.slice(0, depth)) ?? root
  const [key, ...below] = path.slice(depth)
  const fits = typeof key === "number" ? node.type === "array" : node.type === "object"
  if (key === undefined || !fits) return replace(text, node, wrap(path.slice(depth), value))
  return insert(text, node, key, wrap(below, value))
}

/** Removes the member or element at `path`, with the comment after it on its line. Does nothing if it is missing. */
export function removeValue(text: string, path: Path): string {
  const root = parse(text)
  const node = root === undefined ? undefined : findNode(root, path)
  const member = node?.parent?.type === "property" ? node.parent : node
  const container = member?.parent
  if (member === undefined || container?.children === undefined) return text
  const rest = remove(text, container, container.children.indexOf(member))
  // Removes every duplicate of the key.
  return container.type === "object" ? removeValue(rest, path) : rest
}

/** Renames the key of the member at `path`. */
export function renameKey(text: string, path: Path, key: string): string {
  const root = parse(text)
  const name = root === undefined ? undefined : findNode(root, path)?.parent?.children?.[0]
  return name === undefined ? text : splice(text, name.offset, endOf(name), JSON.stringify(key))
}

/** Returns the line end of a text. */
export const eolOf = (text: string): string => (text.includes("\r\n") ? "\r\n" : "\n")

// ---

const BLANK = /^\s*$/

const parse = (text: string): Node | undefined => parseTree(text, [], { allowTrailingComma: true })

const endOf = (node: Node): number => node.offset + node.length

const splice = (text: string, from: number, to: number, put: string): string =>
  text.slice(0, from) + put + text.slice(to)

const wrap = (path: Path, value: unknown): unknown =>
  path.reduceRight<unknown>((inner, key) => (typeof key === "number" ? [inner] : { [key]: inner }), value)

/** Returns one step of the file's indentation. */
const unitOf = (text: string): string => /^([ \t]+)["}\]]/m.exec(text)?.[1] ?? "  "

/** Returns the indentation of the line at an offset. */
const indentOf = (text: string, at: number): string =>
  /^[ \t]*/.exec(text.slice(text.lastIndexOf("\n", at - 1) + 1, at))?.[0] ?? ""

/** Prints a value over several lines, or on one if `indent` is undefined. */
const print = (value: unknown, unit: string, eol: string, indent: string | undefined): string =>
  indent === undefined ? JSON.stringify(value) : JSON.stringify(value, null, unit).replaceAll("\n", `${eol}${indent}`)

/** Returns the offset after the comma that follows `at`, or undefined if another token follows. */
function commaAfter(text: string, at: number): number | undefined {
  const scanner = createScanner(text, true)
  scanner.setPosition(at)
  scanner.scan()
  const token = scanner.getTokenOffset()
  return text[token] === "," ? token + 1 : undefined
}

/** Returns the end of the line if only comments follow `at` on it; otherwise `at`. */
function pastComment(text: string, at: number): number {
  const rest = /^[ \t]*(?:\/\*(?:(?!\*\/)[^\r\n])*\*\/[ \t]*)*(?:\/\/[^\r\n]*)?(?=\r?\n|$)/.exec(text.slice(at))
  return rest === null ? at : at + rest[0].length
}

function replace(text: string, node: Node, value: unknown): string {
  const lines = text.slice(node.offset, endOf(node)).includes("\n") || !isInline(text, node.parent)
  const printed = print(value, unitOf(text), eolOf(text), lines ? indentOf(text, node.offset) : undefined)
  return splice(text, node.offset, endOf(node), printed)
}

/** Whether the object or array around a value is written on one line. */
function isInline(text: string, around: Node | undefined): boolean {
  const container = around?.type === "property" ? around.parent : around
  return container !== undefined && !text.slice(container.offset, endOf(container)).includes("\n")
}

function insert(text: string, container: Node, key: string | number, value: unknown): string {
  const unit = unitOf(text)
  const eol = eolOf(text)
  const member = (indent: string | undefined) =>
    `${typeof key === "number" ? "" : `${JSON.stringify(key)}: `}${print(value, unit, eol, indent)}`
  const last = container.children?.at(-1)
  const close = endOf(container) - 1
  if (last === undefined) {
    const inner = text.slice(container.offset + 1, close)
    const outer = indentOf(text, container.offset)
    if (typeof key === "number" && BLANK.test(inner)) return splice(text, close - inner.length, close, member(outer))
    // Comments inside stay above the new member.
    const from = close - (inner.length - inner.trimEnd().length)
    return splice(text, from, close, `${eol}${outer}${unit}${member(outer + unit)}${eol}${outer}`)
  }
  const comma = commaAfter(text, endOf(last))
  if (!text.slice(container.offset, last.offset).includes("\n")) {
    const at = comma ?? endOf(last)
    return splice(text, at, at, `${comma === undefined ? "," : ""} ${member(undefined)}`)
  }
  const indent = indentOf(text, last.offset)
  const at = pastComment(text, comma ?? endOf(last))
  const added = splice(text, at, at, `${eol}${indent}${member(indent)}${comma === undefined ? "" : ","}`)
  return comma === undefined ? splice(added, endOf(last), endOf(last), ",") : added
}

function remove(text: string, container: Node, index: number): string {
  const children = container.children ?? []
  const member = children[index]
  if (member === undefined) return text
  const before = children[index - 1]
  const after = children[index + 1]
  const comma = commaAfter(text, endOf(member))
  let end = pastComment(text, comma ?? endOf(member))
  let start = member.offset
  const lineStart = text.lastIndexOf("\n", start - 1) + 1
  const alone = lineStart > container.offset && BLANK.test(text.slice(lineStart, start))
  if (alone && /^\r?\n/.test(text.slice(end))) {
    // Removes the whole line, with its break.
    start = lineStart
    end = text.indexOf("\n", end) + 1
  } else if (after !== undefined && !text.slice(end, after.offset).includes("\n")) end = after.offset
  else if (before !== undefined && !text.slice(endOf(before), start).includes("\n"))
    start = commaAfter(text, endOf(before)) ?? endOf(before)
  let rest = splice(text, start, end, "")
  // Removing a last member without a comma leaves an orphan comma before it.
  const orphan = before === undefined || comma !== undefined ? undefined : commaAfter(rest, endOf(before))
  if (orphan !== undefined) rest = splice(rest, orphan - 1, orphan, "")
  if (children.length > 1) return rest
  const close = endOf(container) - (text.length - rest.length) - 1
  return BLANK.test(rest.slice(container.offset + 1, close)) ? splice(rest, container.offset + 1, close, "") : rest
}
