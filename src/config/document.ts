/** A JSON document with comments: its value, and the line and column of each part, for messages. */
import { type Node, type ParseError, parseTree, printParseErrorCode } from "jsonc-parser"
import { ConfigError, type Issue } from "../lib/errors.ts"
import { nearest } from "../lib/nearest.ts"
import { isObject, type Params } from "../wire/message.ts"

/** The names and indexes that lead to a part of a document. */
export type Path = readonly (string | number)[]
/** Counted from 1. */
type TextPosition = { readonly line: number; readonly column: number }

export type Document = {
  readonly file: string
  readonly value: Params
  /** Returns the position of a value, or of the nearest existing part around it. */
  locate(path: Path): TextPosition
  /** Warnings about duplicate keys: the last one wins. */
  readonly issues: readonly Issue[]
}

/**
 * Parses JSON text; comments, trailing commas and a byte-order mark are allowed. An empty text is an empty document.
 * Throws a ConfigError with line and column if the text is not JSON, or not an object.
 */
export function parseDocument(text: string, file: string): Document {
  const offset = text.charCodeAt(0) === 0xfeff ? 1 : 0
  const source = text.slice(offset)
  const starts = lineStarts(source)
  const positionOf = (at: number): TextPosition => {
    let line = 0
    for (let step = starts.length >> 1, from = 0, to = starts.length; from < to; step = (from + to) >> 1) {
      if ((starts[step] as number) <= at) {
        line = step
        from = step + 1
      } else to = step
    }
    return { line: line + 1, column: at - (starts[line] as number) + 1 }
  }
  const errors: ParseError[] = []
  const root = source.trim() === "" ? undefined : parseTree(source, errors, { allowTrailingComma: true })
  const [error] = errors
  if (error !== undefined)
    throw new ConfigError([
      {
        code: "json",
        severity: "error",
        file,
        ...positionOf(error.offset),
        message: `not valid JSON: ${MESSAGES[printParseErrorCode(error.error)] ?? "unexpected text"}`,
      },
    ])
  const issues: Issue[] = []
  const value =
    root === undefined
      ? {}
      : toValue(root, (key, at) =>
          issues.push({
            code: "duplicate_key",
            severity: "warning",
            file,
            ...positionOf(at),
            message: `duplicate key "${key}"; the last one wins`,
          }),
        )
  if (!isObject(value))
    throw new ConfigError([
      { code: "type", severity: "error", file, line: 1, column: 1, message: "the document must be an object: { … }" },
    ])
  return {
    file,
    value,
    issues,
    locate(path) {
      for (let length = path.length; root !== undefined && length > 0; length--) {
        const node = findNode(root, path.slice(0, length))
        if (node !== undefined) return positionOf((node.parent?.type === "property" ? node.parent : node).offset)
      }
      return { line: 1, column: 1 }
    },
  }
}

/** Returns an issue about the value at `path`, with its position. `server` is the name of the server it concerns. */
export function issueAt(
  document: Document,
  severity: Issue["severity"],
  code: string,
  path: Path,
  message: string,
  server?: string,
): Issue {
  const about = server === undefined ? {} : { server }
  return { code, severity, message, path, ...about, file: document.file, ...document.locate(path) }
}

/** Returns a warning for each unknown member of a value; none if the value is not an object. */
export function unknownKeys(
  document: Document,
  value: unknown,
  known: readonly string[],
  path: Path,
  server?: string,
): readonly Issue[] {
  const unknown = isObject(value) ? Object.keys(value).filter((key) => !known.includes(key)) : []
  return unknown.map((key) => {
    const near = nearest(key, known)
    const hint = near === undefined ? "" : `; did you mean "${near}"?`
    const message = `unknown key "${key}" is ignored${hint}`
    return issueAt(document, "warning", "unknown_key", [...path, key], message, server)
  })
}

/** Returns the node at a path, or undefined. The last of duplicate keys wins. */
export function findNode(root: Node, path: Path): Node | undefined {
  let node: Node | undefined = root
  for (const key of path) {
    const children: readonly Node[] = node?.children ?? []
    if (typeof key === "number") node = node?.type === "array" ? children[key] : undefined
    else
      node =
        node?.type === "object"
          ? children.findLast(({ children: [name] = [] }) => name?.value === key)?.children?.[1]
          : undefined
  }
  return node
}

// ---

/** Messages for the codes of jsonc-parser. */
const MESSAGES: Readonly<Record<string, string>> = {
  InvalidSymbol: "unexpected word; strings need double quotes",
  InvalidNumberFormat: "invalid number",
  PropertyNameExpected: "expected a property name in double quotes",
  ValueExpected: "expected a value",
  ColonExpected: "expected a colon",
  CommaExpected: "expected a comma",
  CloseBraceExpected: "expected a closing brace }",
  CloseBracketExpected: "expected a closing bracket ]",
  EndOfFileExpected: "expected the end of the file",
  InvalidCommentToken: "a comment is not closed",
  UnexpectedEndOfComment: "a comment is not closed",
  UnexpectedEndOfString: "a string is not closed",
  UnexpectedEndOfNumber: "a number is cut off",
  InvalidUnicode: "invalid \\u escape",
  InvalidEscapeCharacter: "unknown escape in a string",
  InvalidCharacter: "a control character in a string must be escaped",
}

function lineStarts(text: string): readonly number[] {
  const starts = [0]
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1)
  return starts
}

function toValue(node: Node, onduplicate: (key: string, at: number) => void): unknown {
  switch (node.type) {
    case "array":
      return (node.children ?? []).map((child) => toValue(child, onduplicate))
    case "object": {
      const value: Record<string, unknown> = {}
      for (const { children, offset } of node.children ?? []) {
        const [key, child] = children ?? []
        if (key === undefined || child === undefined) continue
        if (Object.hasOwn(value, key.value)) onduplicate(key.value, offset)
        // An assignment to `__proto__` would change the object instead of adding a member.
        Object.defineProperty(value, key.value, {
          value: toValue(child, onduplicate),
          enumerable: true,
          configurable: true,
          writable: true,
        })
      }
      return value
    }
    default:
      return node.value
  }
}
