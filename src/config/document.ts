/** A JSON document with comments, read by a person and by svc: its value, and where in the text each part of it stands. */
import { type Node, type ParseError, parseTree, printParseErrorCode } from "jsonc-parser"
import { ConfigError, type Issue } from "../lib/errors.ts"
import { nearest } from "../lib/nearest.ts"
import { isObject, type Params } from "../wire/message.ts"

export type Path = readonly (string | number)[]
export type TextPosition = { readonly line: number; readonly column: number }

export type Document = {
  readonly file: string
  readonly value: Params
  /** Where a value stands, or the nearest part around it that does. Lines and columns count from 1. */
  locate(path: Path): TextPosition
  /** Keys that stand twice: the last one counts. */
  readonly issues: readonly Issue[]
}

/**
 * JSON text (comments, trailing commas and a byte-order mark allowed) as a document. An empty text is an empty document.
 * Throws a ConfigError with line and column where it is not JSON, or not an object.
 */
export function parseDocument(text: string, file: string): Document {
  const offset = text.charCodeAt(0) === 0xfeff ? 1 : 0
  const source = text.slice(offset)
  const starts = lineStarts(source)
  const place = (at: number): TextPosition => {
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
        ...place(error.offset),
        message: `not JSON: ${SAYINGS[printParseErrorCode(error.error)] ?? "unexpected text"}`,
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
            ...place(at),
            message: `the key "${key}" stands twice; the last one counts`,
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
        if (node !== undefined) return place((node.parent?.type === "property" ? node.parent : node).offset)
      }
      return { line: 1, column: 1 }
    },
  }
}

/** What is wrong with a value of a document, with its place. `server` is whom it concerns. */
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

/** Warnings for the members of a value that are none of the known ones; nothing where it is no object. */
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
    const meant = near === undefined ? "." : `; did you mean "${near}"?`
    const message = `unknown key "${key}"${meant} It is ignored`
    return issueAt(document, "warning", "unknown_key", [...path, key], message, server)
  })
}

/** The value at a path; of a key that stands twice the last. */
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

const SAYINGS: Readonly<Record<string, string>> = {
  InvalidSymbol: "a word that is no JSON value (text must stand in double quotes)",
  InvalidNumberFormat: "a number that is none",
  PropertyNameExpected: "expected a property name in double quotes",
  ValueExpected: "expected a value",
  ColonExpected: "expected a colon",
  CommaExpected: "expected a comma",
  CloseBraceExpected: "expected a closing brace }",
  CloseBracketExpected: "expected a closing bracket ]",
  EndOfFileExpected: "expected the end of the file",
  InvalidCommentToken: "a comment that does not end",
  UnexpectedEndOfComment: "a comment that does not end",
  UnexpectedEndOfString: "a text without its closing quote",
  UnexpectedEndOfNumber: "a number that is cut off",
  InvalidUnicode: "a \\u escape that is none",
  InvalidEscapeCharacter: "an escape that JSON does not have",
  InvalidCharacter: "a character that must be escaped",
}

function lineStarts(text: string): readonly number[] {
  const starts = [0]
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1)
  return starts
}

function toValue(node: Node, ontwice: (key: string, at: number) => void): unknown {
  switch (node.type) {
    case "array":
      return (node.children ?? []).map((child) => toValue(child, ontwice))
    case "object": {
      const value: Record<string, unknown> = {}
      for (const { children, offset } of node.children ?? []) {
        const [key, child] = children ?? []
        if (key === undefined || child === undefined) continue
        if (Object.hasOwn(value, key.value)) ontwice(key.value, offset)
        // An assignment to `__proto__` would change the object instead of adding a member.
        Object.defineProperty(value, key.value, {
          value: toValue(child, ontwice),
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
