/**
 * One change to a JSON text with comments: a value set, a member taken out or renamed.
 *
 *  1. Every byte that is not of that change stays: other values, comments, white space, line ends, a byte-order mark.
 *  2. What is new is written as its neighbours are: on a line of its own where they are, with their indentation.
 *  3. Of a key that stands twice the last counts, for an edit as for a reader.
 */
import { createScanner, type Node, parseTree } from "jsonc-parser"
import { findNode, type Path } from "./document.ts"

/** Sets the value at `path`; objects that are missing on the way are made. An index at an array's end appends. */
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

/** Takes the member or element at `path` out, with the comment behind it on its line. What is not there may stay so. */
export function removeValue(text: string, path: Path): string {
  const root = parse(text)
  const node = root === undefined ? undefined : findNode(root, path)
  const member = node?.parent?.type === "property" ? node.parent : node
  const container = member?.parent
  if (member === undefined || container?.children === undefined) return text
  const rest = remove(text, container, container.children.indexOf(member))
  // A key that stands twice has to go twice.
  return container.type === "object" ? removeValue(rest, path) : rest
}

/** Gives the member at `path` another key. */
export function renameKey(text: string, path: Path, key: string): string {
  const root = parse(text)
  const name = root === undefined ? undefined : findNode(root, path)?.parent?.children?.[0]
  return name === undefined ? text : splice(text, name.offset, endOf(name), JSON.stringify(key))
}

// ---

const BLANK = /^\s*$/

const parse = (text: string): Node | undefined => parseTree(text, [], { allowTrailingComma: true })

const endOf = (node: Node): number => node.offset + node.length

const splice = (text: string, from: number, to: number, put: string): string =>
  text.slice(0, from) + put + text.slice(to)

const wrap = (path: Path, value: unknown): unknown =>
  path.reduceRight<unknown>((inner, key) => (typeof key === "number" ? [inner] : { [key]: inner }), value)

const eolOf = (text: string): string => (text.includes("\r\n") ? "\r\n" : "\n")

/** One step of indentation, as the file has it. */
const unitOf = (text: string): string => /^([ \t]+)["}\]]/m.exec(text)?.[1] ?? "  "

/** The white space before the line on which `at` stands. */
const indentOf = (text: string, at: number): string =>
  /^[ \t]*/.exec(text.slice(text.lastIndexOf("\n", at - 1) + 1, at))?.[0] ?? ""

/** A value over several lines, or in one where `indent` is undefined. */
const print = (value: unknown, unit: string, eol: string, indent: string | undefined): string =>
  indent === undefined ? JSON.stringify(value) : JSON.stringify(value, null, unit).replaceAll("\n", `${eol}${indent}`)

/** Where the comma behind `at` ends, or undefined where the next thing is none. */
function commaAfter(text: string, at: number): number | undefined {
  const scanner = createScanner(text, true)
  scanner.setPosition(at)
  scanner.scan()
  const token = scanner.getTokenOffset()
  return text[token] === "," ? token + 1 : undefined
}

/** The end of the line behind `at` where nothing but a comment is left on it; otherwise `at`. */
function pastComment(text: string, at: number): number {
  const rest = /^[ \t]*(?:\/\*(?:(?!\*\/)[^\r\n])*\*\/[ \t]*)*(?:\/\/[^\r\n]*)?(?=\r?\n|$)/.exec(text.slice(at))
  return rest === null ? at : at + rest[0].length
}

function replace(text: string, node: Node, value: unknown): string {
  const lines = text.slice(node.offset, endOf(node)).includes("\n") || !isInline(text, node.parent)
  const printed = print(value, unitOf(text), eolOf(text), lines ? indentOf(text, node.offset) : undefined)
  return splice(text, node.offset, endOf(node), printed)
}

/** Whether the members of the object or array around a value stand on its own line. */
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
    // Comments in it stay above.
    const from = close - (/\s*$/.exec(inner)?.[0].length ?? 0)
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
    // The whole line, with its break.
    start = lineStart
    end = text.indexOf("\n", end) + 1
  } else if (after !== undefined && !text.slice(end, after.offset).includes("\n")) end = after.offset
  else if (before !== undefined && !text.slice(endOf(before), start).includes("\n"))
    start = commaAfter(text, endOf(before)) ?? endOf(before)
  let rest = splice(text, start, end, "")
  // Without a comma of its own the last one leaves the comma before it behind.
  const orphan = before === undefined || comma !== undefined ? undefined : commaAfter(rest, endOf(before))
  if (orphan !== undefined) rest = splice(rest, orphan - 1, orphan, "")
  if (children.length > 1) return rest
  const close = endOf(container) - (text.length - rest.length) - 1
  return BLANK.test(rest.slice(container.offset + 1, close)) ? splice(rest, container.offset + 1, close, "") : rest
}
